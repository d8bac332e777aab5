//! `/weir/v1/topology`: the running configuration as a graph, with enough in one document to draw
//! it, and its stream of changes ([`stream`]).
//!
//! Invariants: a document is one reading of the books, and counts nothing itself; what enters a
//! node is what its incoming edges carry; an edge connects two nodes of the same document, whose
//! ids are unique.

mod process;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use weir_host::units::format_rfc3339;
use weir_journal::JournalStatus;
use weir_model::DiscardReason;
use weir_pipeline::view::PipelineView;
use weir_pipeline::{STORE_TYPE_NAME, drain};

use crate::journal::JournalEntry;
use crate::ledger::ByReason;
use crate::readers::ReadersEntry;
use crate::response::{json_response, starting};
use crate::rules::RulesDocument;
use crate::state::ApiState;
use crate::status::{OutputStatus, SourceStatus};
use process::{HealthEntry, ProcessEntry};
pub(crate) use stream::{STREAMS_MAX, TopologyStreams};

/// Id of the node for all rules.
const RULES: &str = "rules";
/// Id of the node for the buffer.
const JOURNAL: &str = "journal";

/// Reasons for which rules discard records.
const REASONS_OF_RULES: [DiscardReason; 3] =
    [DiscardReason::Rule, DiscardReason::Sampled, DiscardReason::Unrouted];

/// `/weir/v1/topology`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct TopologyDocument {
    /// `weir.topology.v1`.
    schema: &'static str,
    /// When it was read, RFC 3339.
    time: String,
    /// The same, in nanoseconds since 1970, for computing rates.
    time_unix_ns: i64,
    /// The process.
    process: ProcessEntry,
    /// Whether everything works.
    health: HealthEntry,
    /// Sources, rules, the journal, outputs and services for readers, in this order.
    nodes: Vec<TopologyNode>,
    /// How records flow between them.
    edges: Vec<TopologyEdge>,
    /// Outputs that are no longer configured; what they still have counts in their books.
    inactive: Vec<OutputStatus>,
}

/// A part of the pipeline. Counts are from the ledger; those of readers are since the start.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct TopologyNode {
    /// `source:NAME`, `rules`, `journal`, `output:NAME` or `readers:NAME`.
    id: String,
    /// What it is.
    kind: NodeKind,
    /// Its name; that of a source or output is from the configuration.
    name: String,
    /// Type of the source or output; for others empty.
    #[serde(rename = "type")]
    type_name: String,
    /// Its current state.
    state: NodeState,
    /// The node that blocks it: an output with a full buffer, or the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<String>,
    /// Records that have entered it; lines of a source.
    received: u64,
    /// Records that have left it; of an output those that the destination has acknowledged. A
    /// record that the journal sends to two outputs counts twice.
    sent: u64,
    /// Records that it has discarded.
    discarded: ByReason,
    /// Records that an output has written to its dead-letter file.
    dead_lettered: u64,
    /// Records that wait or are in flight.
    waiting: u64,
    /// Of these, records that an output has taken.
    taken: u64,
    /// Bytes that wait; of the journal, its size on disk.
    queue_bytes: u64,
    /// Limit of `queue_bytes`; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes_max: Option<u64>,
    /// Age of the oldest unread byte of a source, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_seconds: Option<f64>,
    /// Age of the oldest batch that an output has not acknowledged, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_unacknowledged_seconds: Option<f64>,
    /// CPU time, seconds; that of rules is estimated from samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<f64>,
    /// The last error, while the problem lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Of a source: its books and current values, as in the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceStatus>,
    /// Of the journal: its current values, as in the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalEntry>,
    /// Of an output, the store or drains: its books and current values, as in the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<OutputStatus>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeKind {
    /// A source.
    Source,
    /// All rules.
    Rules,
    /// The buffer.
    Journal,
    /// An output.
    Output,
    /// The store.
    Store,
    /// All drains, or those of them that lag.
    Drains,
    /// A service for readers of envelopes.
    Readers,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeState {
    /// It works.
    Ok,
    /// A source cannot read some of its files.
    Degraded,
    /// The destination of an output does not accept records, or the journal's disk fails.
    Failing,
    /// The buffer of an output is full, and blocks the sources that feed it.
    Blocking,
    /// A source is refused by what is in `blocked_by`.
    Blocked,
}

/// A flow of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TopologyEdge {
    /// `FROM>TO`.
    id: String,
    /// The node that the records leave.
    from: String,
    /// The node that they enter.
    to: String,
    /// Records so far.
    records: u64,
}

/// What differs between two documents.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct TopologyChange {
    /// When it was read, RFC 3339.
    time: String,
    /// The same, in nanoseconds since 1970.
    time_unix_ns: i64,
    /// The process, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessEntry>,
    /// The health, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<HealthEntry>,
    /// Nodes that are new or differ, complete.
    nodes: Vec<TopologyNode>,
    /// Edges that are new or differ, complete.
    edges: Vec<TopologyEdge>,
    /// Ids of nodes and edges that are gone.
    removed: Vec<String>,
    /// All outputs that are no longer configured, if one of them differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    inactive: Option<Vec<OutputStatus>>,
}

/// The topology of the running configuration, with counts, states and back pressure
#[utoipa::path(
    get, path = "/weir/v1/topology", tag = "status",
    responses((status = 200, description = "The topology", body = TopologyDocument))
)]
pub(crate) async fn get(State(state): State<Arc<ApiState>>) -> Response {
    match state.view() {
        Some(view) => json_response(StatusCode::OK, &TopologyDocument::of(&view, state.version)),
        None => starting(),
    }
}

/// What a document is made of.
struct Reading {
    process: ProcessEntry,
    health: HealthEntry,
    sources: Vec<SourceStatus>,
    rules: RulesDocument,
    journal: JournalStatus,
    outputs: Vec<OutputStatus>,
    readers: Vec<ReadersEntry>,
}

impl TopologyDocument {
    /// Reads the current state.
    fn of(view: &PipelineView, version: &str) -> Self {
        let ledger = view.journal.ledger();
        let reading = Reading {
            process: ProcessEntry::of(view, version),
            health: HealthEntry::of(&view.health_of(&ledger)),
            sources: SourceStatus::all(view, &ledger),
            rules: RulesDocument::of(view),
            outputs: OutputStatus::all(view, &ledger),
            readers: ReadersEntry::all(view),
            journal: ledger.journal,
        };
        Self::new(view.now_unix_ns(), &reading)
    }

    fn new(time_unix_ns: i64, reading: &Reading) -> Self {
        let has_rules = !reading.rules.rules.is_empty();
        let sources: Vec<_> =
            reading.sources.iter().map(|source| TopologyNode::source(source, has_rules)).collect();
        let rules = has_rules.then(|| TopologyNode::rules(&reading.rules, &reading.sources));
        let (active, inactive): (Vec<_>, Vec<_>) =
            reading.outputs.iter().partition(|output| output.book.active);
        let outputs: Vec<_> = active.into_iter().map(TopologyNode::output).collect();
        let readers: Vec<_> = reading.readers.iter().map(TopologyNode::readers).collect();

        let mut edges = Vec::new();
        for source in &sources {
            edges.push(edge(&source.id, if has_rules { RULES } else { JOURNAL }, source.sent));
        }
        edges.extend(rules.iter().map(|rules| edge(RULES, JOURNAL, rules.sent)));
        let lagging = output_id(drain::LAGGING);
        for node in outputs.iter().chain(&readers) {
            let from = if node.id == lagging { &output_id(drain::NAME) } else { JOURNAL };
            edges.push(edge(from, &node.id, node.received));
        }
        let sum = |is_counted: fn(&TopologyEdge) -> bool| {
            edges.iter().filter(|edge| is_counted(edge)).map(|edge| edge.records).sum()
        };
        let journal = TopologyNode {
            received: sum(|edge| edge.to == JOURNAL),
            sent: sum(|edge| edge.from == JOURNAL),
            ..TopologyNode::journal(&reading.journal)
        };
        let nodes = sources.into_iter().chain(rules).chain([journal]).chain(outputs).chain(readers);
        Self {
            schema: "weir.topology.v1",
            time: format_rfc3339(time_unix_ns),
            time_unix_ns,
            process: reading.process.clone(),
            health: reading.health.clone(),
            nodes: nodes.collect(),
            edges,
            inactive: inactive.into_iter().cloned().collect(),
        }
    }

    /// What has changed since an earlier document; at least the time.
    fn since(&self, before: &Self) -> TopologyChange {
        let (nodes, gone_nodes) = changed(&self.nodes, &before.nodes, |node| &node.id);
        let (edges, gone_edges) = changed(&self.edges, &before.edges, |edge| &edge.id);
        TopologyChange {
            time: self.time.clone(),
            time_unix_ns: self.time_unix_ns,
            process: replaced(&self.process, &before.process),
            health: replaced(&self.health, &before.health),
            nodes,
            edges,
            removed: gone_nodes.chain(gone_edges).cloned().collect(),
            inactive: replaced(&self.inactive, &before.inactive),
        }
    }
}

/// A value that differs from the one before.
fn replaced<T: Clone + PartialEq>(now: &T, before: &T) -> Option<T> {
    (now != before).then(|| now.clone())
}

/// Items that are new or differ, and the ids of those that are gone.
fn changed<'a, T: Clone + PartialEq>(
    now: &'a [T],
    before: &'a [T],
    id: fn(&T) -> &String,
) -> (Vec<T>, impl Iterator<Item = &'a String>) {
    let by_id = |items: &'a [T]| items.iter().map(|item| (id(item), item)).collect();
    let (known, present): (BTreeMap<_, &T>, BTreeMap<_, &T>) = (by_id(before), by_id(now));
    let differing = now.iter().filter(|item| known.get(id(item)) != Some(item));
    (differing.cloned().collect(), known.into_keys().filter(move |id| !present.contains_key(id)))
}

fn edge(from: &str, to: &str, records: u64) -> TopologyEdge {
    TopologyEdge { id: format!("{from}>{to}"), from: from.to_owned(), to: to.to_owned(), records }
}

fn output_id(name: &str) -> String {
    format!("output:{name}")
}

impl TopologyNode {
    fn new(id: String, kind: NodeKind, name: &str, type_name: &str) -> Self {
        Self {
            id,
            kind,
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            state: NodeState::Ok,
            blocked_by: None,
            received: 0,
            sent: 0,
            discarded: ByReason::new(),
            dead_lettered: 0,
            waiting: 0,
            taken: 0,
            queue_bytes: 0,
            queue_bytes_max: None,
            lag_seconds: None,
            oldest_unacknowledged_seconds: None,
            cpu_seconds: None,
            last_error: None,
            source: None,
            journal: None,
            output: None,
        }
    }

    /// What rules discard is in the book of the source, and shown at the rules if there are any.
    fn source(source: &SourceStatus, has_rules: bool) -> Self {
        let SourceStatus { book, .. } = source;
        let (by_rules, own): (ByReason, ByReason) =
            book.book.discarded.clone().into_iter().partition(|(reason, _)| {
                has_rules && REASONS_OF_RULES.iter().any(|of_rules| of_rules.text() == reason)
            });
        let blocked_by = source.blocked_by.as_deref().map(output_id);
        Self {
            state: match source {
                SourceStatus { blocked: true, .. } => NodeState::Blocked,
                SourceStatus { unreadable_files: 1.., .. } => NodeState::Degraded,
                SourceStatus { unreadable_files: 0, .. } => NodeState::Ok,
            },
            blocked_by: source.blocked.then(|| blocked_by.unwrap_or_else(|| JOURNAL.to_owned())),
            received: book.book.lines,
            sent: book.book.records + by_rules.values().sum::<u64>(),
            discarded: own,
            queue_bytes: book.files.as_ref().map_or(0, |files| files.bytes_unread),
            lag_seconds: Some(source.lag_seconds),
            cpu_seconds: Some(source.cpu_seconds),
            source: Some(source.clone()),
            ..Self::new(
                format!("source:{}", book.name),
                NodeKind::Source,
                &book.name,
                &book.type_name,
            )
        }
    }

    /// The counts are those of the books, like all others, and not the statistics of single rules,
    /// which begin with each change of the rules.
    fn rules(rules: &RulesDocument, sources: &[SourceStatus]) -> Self {
        let mut discarded = ByReason::new();
        for reason in REASONS_OF_RULES.map(DiscardReason::text) {
            let counts = sources.iter().filter_map(|source| source.book.book.discarded.get(reason));
            let count: u64 = counts.sum();
            if count > 0 {
                discarded.insert(reason.to_owned(), count);
            }
        }
        let sent: u64 = sources.iter().map(|source| source.book.book.records).sum();
        Self {
            received: sent + discarded.values().sum::<u64>(),
            sent,
            discarded,
            cpu_seconds: Some(rules.cpu_seconds),
            ..Self::new(RULES.to_owned(), NodeKind::Rules, RULES, "")
        }
    }

    fn journal(journal: &JournalStatus) -> Self {
        let is_failing = journal.disk_error.is_some();
        Self {
            state: if is_failing { NodeState::Failing } else { NodeState::Ok },
            queue_bytes: journal.disk_bytes,
            queue_bytes_max: Some(journal.disk_bytes_max),
            last_error: journal.disk_error.clone(),
            journal: Some(JournalEntry::from(journal)),
            ..Self::new(JOURNAL.to_owned(), NodeKind::Journal, JOURNAL, "")
        }
    }

    fn output(output: &OutputStatus) -> Self {
        let OutputStatus { book, .. } = output;
        let kind = match (book.name.as_str(), book.type_name.as_str()) {
            (drain::NAME | drain::LAGGING, _) => NodeKind::Drains,
            (_, STORE_TYPE_NAME) => NodeKind::Store,
            _ => NodeKind::Output,
        };
        Self {
            state: match output {
                _ if book.blocking => NodeState::Blocking,
                OutputStatus { failing: true, .. } => NodeState::Failing,
                OutputStatus { failing: false, .. } => NodeState::Ok,
            },
            received: book.book.routed,
            sent: book.book.delivered,
            discarded: book.book.discarded.clone(),
            dead_lettered: book.book.dead_lettered,
            waiting: book.in_flight,
            taken: book.taken,
            queue_bytes: book.pending_bytes,
            queue_bytes_max: Some(book.buffer_bytes_max),
            oldest_unacknowledged_seconds: Some(book.lag_seconds),
            cpu_seconds: Some(output.cpu_seconds),
            last_error: output.last_error.clone(),
            output: Some(output.clone()),
            ..Self::new(output_id(&book.name), kind, &book.name, &book.type_name)
        }
    }

    fn readers(readers: &ReadersEntry) -> Self {
        let lost = [("too_slow", readers.lost), ("disconnected", readers.abandoned)];
        let lost = lost.into_iter().filter(|(_, count)| *count > 0);
        Self {
            received: readers.matched,
            sent: readers.delivered,
            discarded: lost.map(|(reason, count)| (reason.to_owned(), count)).collect(),
            waiting: readers.queued,
            queue_bytes: readers.queued_bytes,
            ..Self::new(format!("readers:{}", readers.name), NodeKind::Readers, &readers.name, "")
        }
    }
}
