//! `/weir/v1/path`: the path of one record through weir, with the time at each hop.
//!
//! Invariants: every time was measured, and [`TimeOf`] states what it is the time of; a hop whose
//! time was not kept has none, and a mean is reported separately, never in its place. What
//! destinations did is reported only to those who may see everything; others get what the record
//! itself says.

use weir_journal::{Ledger, RecordState, RecordTrace};
use weir_pipeline::view::{OutputView, PipelineView};
use weir_pipeline::{STORE_TYPE_NAME, drain, stats};
use weir_store::query::{ContextRequest, Kept, RecordContext, RecordId};

use super::cursor::decode_id;
use super::prelude::*;
use super::record::precise_time;
use crate::response::json_response;

/// Request for the path of a record.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PathQuery {
    /// The `id` of the record.
    id: String,
    /// Deadline of the query. Default: 1500ms.
    timeout: Option<String>,
}

/// The path of a record through weir.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PathAnswer {
    /// The `id` of the record.
    pub id: String,
    /// Whether the store has it.
    pub stored: bool,
    /// The hops in order: it was written, received, appended to the journal, and then sent to each
    /// output. Only the first two if the requester may not see everything.
    pub hops: Vec<PathHop>,
}

/// A part of weir that a record passes through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PathHop {
    /// What it is.
    pub kind: HopKind,
    /// Name of the source, output or store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the output.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// What is known of the record there.
    pub state: HopState,
    /// When it passed, RFC 3339 with nanoseconds; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What `time` is the time of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_of: Option<TimeOf>,
    /// From the hop in `since` to this one, in nanoseconds. Negative if their clocks differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<i64>,
    /// The last hop before it whose time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<HopKind>,
    /// The mean delay of the output since its start, for comparison: from arrival to
    /// acknowledgement, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_delay_ns: Option<u64>,
    /// Number of batches in `mean_delay_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_of_batches: Option<u64>,
}

/// A part of weir that a record passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopKind {
    /// The program that wrote it.
    Written,
    /// The source that received it.
    Received,
    /// The journal.
    Journal,
    /// An output.
    Output,
    /// The memory of the store, where a search finds it.
    Store,
    /// A segment of the store, where it is on stable storage.
    Segment,
}

/// What is known of a record at a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopState {
    /// It has passed.
    Passed,
    /// The output has delivered it.
    Delivered,
    /// The output has settled everything up to it: it was delivered, or discarded and counted, or a
    /// rule sent it elsewhere.
    Settled,
    /// It waits, or is in flight.
    Waiting,
    /// Its batch waits, or is in flight; it is not known whether the rules sent this record there.
    MayWait,
    /// No record was ever sent there.
    NotSent,
    /// Nothing is known, for example because the output was added later.
    Unknown,
}

/// What a time is the time of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOf {
    /// The time in the record itself, by the clock of its sender.
    Record,
    /// When the block of the file, or the request, that contains the record was read.
    Block,
    /// When the whole batch that contains the record had passed.
    Batch,
    /// When the last of several batches passed: that of the record passed then, or earlier.
    LastOfSeveral,
}

/// The path of a record through weir: the time at each hop, and the delay since the previous hop
///
/// Times at the journal and at outputs are kept only for the last batches, and not across restarts.
#[utoipa::path(
    get, path = "/weir/v1/path", tag = "search", params(PathQuery),
    responses(
        (status = 200, description = "The hops", body = PathAnswer),
        (status = 404, description = "The record does not exist, or the client may not read it"),
        (status = 503, description = "The record was not found, but the search was incomplete"),
    )
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    query: Result<Query<PathQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let PathQuery { id: text, timeout } = parameters(query)?;
    let id =
        decode_id(&text).ok_or_else(|| Problem::parameter("id", "is not a valid record ID"))?;
    let time = state.explore.deadline("timeout", timeout.as_deref())?;
    let view = state.view().filter(|_| requester.sees_everything());
    if state.explore.is_without_store() && view.is_some() {
        let answer = PathAnswer::new(text, id, None, view.as_deref());
        return Ok(json_response(StatusCode::OK, &answer));
    }
    let request = ContextRequest { id, before: 0, after: 0, access: requester.access() };
    let document = move |context: Option<RecordContext>, _meta| {
        if context.is_none() && view.is_none() {
            return Err(Problem::new(StatusCode::NOT_FOUND, "the record is not stored"));
        }
        Ok(PathAnswer::new(text, id, context.as_ref(), view.as_deref()))
    };
    let run = move |store: &dyn LogStore, budget: &_| store.context(&request, budget);
    state
        .explore
        .run_query(QueryKind::Context, Some(time), state.explore.request_context(), run, document)
        .await
}

impl PathAnswer {
    /// `context` is what the store has of the record. Without `view`, it has only what the record
    /// says.
    fn new(
        text: String,
        id: RecordId,
        context: Option<&RecordContext>,
        view: Option<&PipelineView>,
    ) -> Self {
        let mut path = Path { hops: Vec::new(), last: None };
        let passed = HopState::Passed;
        path.pass(hop(HopKind::Written, passed), Some((id.time_ns, TimeOf::Record)));
        let traces = view.map(|view| view.journal.trace(id.stream, id.position));
        let traces = traces.unwrap_or_default();
        let stored_ns = context.and_then(|context| context.record.arrival_ns);
        let arrival_ns = stored_ns.or_else(|| traces.iter().find_map(|trace| trace.observed_ns));
        let source = context.and_then(|context| context.record.source.clone());
        let received = PathHop { name: source, ..hop(HopKind::Received, passed) };
        path.pass(received, arrival_ns.map(|ns| (ns, TimeOf::Block)));
        if let Some(view) = view {
            let ledger = view.journal.ledger();
            let appended_ns = traces.iter().find_map(|trace| trace.appended_ns);
            let is_known = traces.iter().any(|trace| trace.state != RecordState::Unknown);
            let state = if is_known { passed } else { HopState::Unknown };
            path.pass(hop(HopKind::Journal, state), appended_ns.map(|ns| (ns, TimeOf::Batch)));
            // What drains move there is in a stream of its own, and waits for the same drains.
            for trace in traces.iter().filter(|trace| trace.destination != drain::LAGGING) {
                let output = view.output(&trace.destination);
                path.add_destination(trace, output.as_deref(), &ledger, context);
            }
        }
        Self { id: text, stored: context.is_some(), hops: path.hops }
    }
}

/// Hops, and the last one whose time precedes those of all following hops.
struct Path {
    hops: Vec<PathHop>,
    last: Option<(HopKind, i64)>,
}

impl Path {
    /// Adds a hop that all later ones come after.
    fn pass(&mut self, hop: PathHop, time: Option<(i64, TimeOf)>) {
        let kind = hop.kind;
        self.branch(hop, time);
        self.last = time.map(|(ns, _)| (kind, ns)).or(self.last);
    }

    /// Adds a hop beside others.
    fn branch(&mut self, hop: PathHop, time: Option<(i64, TimeOf)>) {
        let since = time.zip(self.last);
        self.hops.push(PathHop {
            time: time.map(|(ns, _)| precise_time(ns)),
            time_of: time.map(|(_, of)| of),
            delay_ns: since.map(|((ns, _), (_, last_ns))| ns.saturating_sub(last_ns)),
            since: since.map(|(_, (kind, _))| kind),
            ..hop
        });
    }

    fn add_destination(
        &mut self,
        trace: &RecordTrace,
        output: Option<&OutputView>,
        ledger: &Ledger,
        context: Option<&RecordContext>,
    ) {
        let type_name = output.map(|output| output.type_name);
        let named = |hop: PathHop| PathHop {
            name: Some(trace.destination.clone()),
            type_name: type_name.map(str::to_owned),
            ..hop
        };
        let done = trace.done_ns.map(|ns| (ns, TimeOf::Batch));
        if type_name == Some(STORE_TYPE_NAME) {
            let before = self.last;
            let state = match context {
                Some(_) => HopState::Passed,
                None => state_of(trace, ledger),
            };
            self.pass(named(hop(HopKind::Store, state)), done);
            self.add_segment(&named, context);
            self.last = before;
            return;
        }
        let state = state_of(trace, ledger);
        let mean = output.and_then(|output| mean_delay(&output.stats));
        let (mean_delay_ns, mean_of_batches) = mean.unzip();
        let hop = PathHop { mean_delay_ns, mean_of_batches, ..hop(HopKind::Output, state) };
        let has_passed = matches!(state, HopState::Delivered | HopState::Settled);
        self.branch(named(hop), done.filter(|_| has_passed));
    }

    fn add_segment(&mut self, named: &impl Fn(PathHop) -> PathHop, found: Option<&RecordContext>) {
        match found.map(|context| context.kept) {
            None => {}
            Some(Kept::InMemory) => {
                self.branch(named(hop(HopKind::Segment, HopState::Waiting)), None);
            }
            Some(Kept::InSegment { stored_ns, is_merged }) => {
                let of = if is_merged { TimeOf::LastOfSeveral } else { TimeOf::Batch };
                let time = stored_ns.map(|ns| (ns, of));
                self.branch(named(hop(HopKind::Segment, HopState::Passed)), time);
            }
        }
    }
}

/// A hop of which nothing else is known.
fn hop(kind: HopKind, state: HopState) -> PathHop {
    PathHop {
        kind,
        name: None,
        type_name: None,
        state,
        time: None,
        time_of: None,
        delay_ns: None,
        since: None,
        mean_delay_ns: None,
        mean_of_batches: None,
    }
}

/// What is certain of a record at an output: from its batch, or because the books leave no
/// alternative.
fn state_of(trace: &RecordTrace, ledger: &Ledger) -> HopState {
    match trace.state {
        RecordState::Unknown => HopState::Unknown,
        RecordState::Waiting if trace.is_for_all => HopState::Waiting,
        RecordState::Waiting => HopState::MayWait,
        RecordState::Held | RecordState::Settled if trace.is_for_all && trace.is_delivered => {
            HopState::Delivered
        }
        RecordState::Held | RecordState::Settled => settled(&trace.destination, ledger),
    }
}

fn settled(name: &str, ledger: &Ledger) -> HopState {
    let Some(cursor) = ledger.cursors.iter().find(|cursor| cursor.name == name) else {
        return HopState::Unknown;
    };
    let records: u64 = ledger.sources.iter().map(|source| source.book.records).sum();
    let (book, waits) = (&cursor.book, cursor.in_flight);
    if book.routed == 0 {
        return HopState::NotSent;
    }
    let is_all = book.routed == records && book.delivered + waits == book.routed;
    if is_all { HopState::Delivered } else { HopState::Settled }
}

/// The mean time from arrival to acknowledgement, and the number of batches.
fn mean_delay(stats: &stats::OutputStats) -> Option<(u64, u64)> {
    let mean = |sum, count: u64| stats::get(sum).checked_div(count);
    let batches = stats::get(&stats.batches);
    let queueing = mean(&stats.queueing_ns, batches)?;
    let service = mean(&stats.service_ns, stats::get(&stats.requests))?;
    Some((queueing + service, batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_counted_from_the_last_hop_whose_time_is_known() {
        let mut path = Path { hops: Vec::new(), last: None };
        let passed = |kind| hop(kind, HopState::Passed);
        path.pass(passed(HopKind::Written), Some((100, TimeOf::Record)));
        path.pass(passed(HopKind::Received), Some((90, TimeOf::Block)));
        path.pass(passed(HopKind::Journal), None);
        path.branch(passed(HopKind::Output), Some((150, TimeOf::Batch)));
        path.branch(passed(HopKind::Output), Some((170, TimeOf::Batch)));
        let delays: Vec<_> = path.hops.iter().map(|hop| (hop.since, hop.delay_ns)).collect();
        let received = Some(HopKind::Received);
        let wanted = [
            (None, None),
            (Some(HopKind::Written), Some(-10)),
            (None, None),
            (received, Some(60)),
            (received, Some(80)),
        ];
        assert_eq!(delays, wanted);
    }
}
