//! What an answer says about itself: time, warnings, why it is not the whole one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_expr::{Doubt, Expr, Field, NamedMeasure, Unit, key_like};
use weir_host::Clock;
use weir_store::query::{Coverage, Shortfall, TimeRange};

use super::record::precise_time;

/// What an answer says about itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Meta {
    /// From the arrival of the question to the answer, milliseconds.
    pub elapsed: u64,
    /// Tells this question from others in weir's own log.
    pub request_id: String,
    /// `done`, or `timeout` when the time was up before everything was looked at.
    pub status: String,
    /// Where the next page begins; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<NextPage>,
    /// What should be known about the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What was read for the answer.
    pub weir: ScanMeta,
}

/// Where the next page begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct NextPage {
    /// The cursor to ask with.
    pub after: String,
}

/// Something that should be known about an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    /// One of `deadline`, `memory`, `catching_up`, `damaged`, `unknown_field`, `doubtful`, `never`,
    /// `approximate`, `ignored`.
    pub code: String,
    /// In short.
    pub title: String,
    /// At length.
    pub detail: String,
}

/// What was read for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanMeta {
    /// The answer is not the whole one; `warnings` say why.
    pub partial: bool,
    /// The first time of the range, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Behind the last time of the range, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Length of the stretches of time of a series, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<i64>,
    /// What numbers measure, where that is known: `ns`, `us`, `ms`, `s` or `B`. Those of figures by
    /// their names (`c0`), of fields that are grouped by or computed as they are written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// Records that match, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Those of them that are in a group; the others have no value of a field that they are
    /// grouped by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouped: Option<u64>,
    /// Row groups, and chunks of what is not in a segment yet, that were looked into.
    pub parts: u64,
    /// Rows that were looked at.
    pub rows: u64,
    /// Pages that were read.
    pub pages: u64,
    /// Pages that did not have to be read.
    pub pages_pruned: u64,
    /// Bytes of pages, decompressed.
    pub bytes: u64,
}

/// What a field measures, as it is written in [`ScanMeta::units`].
pub(super) fn unit_symbol(field: &Field, measures: &[NamedMeasure]) -> Option<String> {
    Some(Unit::of(field, measures)?.symbol().to_owned())
}

/// What the figure with that number is called.
pub(super) fn figure_name(index: usize) -> String {
    format!("c{index}")
}

impl ScanMeta {
    /// What the figure with that number measures.
    pub fn unit(&self, index: usize) -> Option<Unit> {
        Unit::from_symbol(self.units.get(&figure_name(index))?)
    }

    /// Says which range it was.
    pub(super) fn set_range(&mut self, range: TimeRange) {
        self.from = Some(precise_time(range.from_ns));
        self.to = Some(precise_time(range.to_ns));
    }
}

impl Warning {
    fn new(code: &str, title: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), title: title.to_owned(), detail: detail.into() }
    }

    /// Something in the question was not followed.
    pub(super) fn ignored(detail: impl Into<String>) -> Self {
        Self::new("ignored", "something was not followed", detail)
    }

    /// Groups are missing.
    pub(super) fn approximate() -> Self {
        let detail = "there were more groups than fit into memory: small ones are missing, and \
                      figures of others may be too low; narrow the query or the range";
        Self::new("approximate", "groups are missing", detail)
    }

    fn of_shortfall(shortfall: &Shortfall) -> Self {
        match shortfall {
            Shortfall::Deadline => Self::new(
                "deadline",
                "the time was up",
                "this is what was found by then; narrow the query or the range, or allow more time",
            ),
            Shortfall::Memory => Self::new(
                "memory",
                "the memory of a query was used up",
                "this is what was found by then; narrow the query or the range",
            ),
            Shortfall::CatchingUp => Self::new(
                "catching_up",
                "the store is catching up",
                "what was received before weir started is still being taken in",
            ),
            Shortfall::Damaged { segments } => Self::new(
                "damaged",
                "segments are damaged",
                format!("records of these segments are missing: {}", segments.join(", ")),
            ),
        }
    }

    fn unknown_field(name: &str) -> Self {
        let detail = match (name.strip_prefix('@'), key_like(name)) {
            (Some(tag), _) => format!(
                "no record has a field {name}; is it misspelt? What records have from their \
                 source is a tag: {tag}:..., without @."
            ),
            (None, Some(near)) => format!("no record has a tag {name}; did you mean {near}?"),
            (None, None) => format!("no record has a tag {name}; attributes are written @{name}"),
        };
        Self::new("unknown_field", "a field is unknown", detail)
    }

    fn doubtful(doubt: &Doubt) -> Self {
        let detail = format!("{}; {}", doubt.message, doubt.help);
        Self::new("doubtful", "this may not be meant", detail)
    }

    fn never(reason: &str) -> Self {
        Self::new("never", "no record can match", reason)
    }
}

/// A question that has arrived.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    clock: Arc<dyn Clock>,
    since: Duration,
    request_id: u64,
    doubts: Vec<Doubt>,
    /// Why no record can match.
    never: Option<String>,
}

impl Arrival {
    /// Now.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let (clock, request_id) = (Arc::clone(clock), fastrand::u64(..));
        let since = clock.monotonic();
        Self { since, clock, request_id, doubts: Vec::new(), never: None }
    }

    /// The answer is to say what is probably not meant by the query.
    pub(super) fn look_at(&mut self, text: &str, query: &Expr) {
        (self.doubts, self.never) = (query.doubts(text), query.never());
    }

    /// When it arrived, nanoseconds since 1970.
    pub(super) fn now_ns(&self) -> i64 {
        self.clock.unix_ns()
    }

    /// What the answer to it, which is ready, says about itself.
    pub(super) fn meta(&self, coverage: &Coverage) -> Meta {
        let is_late = coverage.shortfalls.contains(&Shortfall::Deadline);
        let shortfalls = coverage.shortfalls.iter().map(Warning::of_shortfall);
        let unknown = coverage.unknown_fields.iter().map(|name| Warning::unknown_field(name));
        let is_new = |doubt: &&Doubt| {
            doubt.tag.as_ref().is_none_or(|tag| !coverage.unknown_fields.contains(tag))
        };
        let doubts = self.doubts.iter().filter(is_new).map(Warning::doubtful);
        let never = self.never.as_deref().map(Warning::never);
        let scanned = coverage.scanned;
        let elapsed = self.clock.monotonic().saturating_sub(self.since);
        Meta {
            elapsed: elapsed.as_millis() as u64,
            request_id: format!("{:016x}", self.request_id),
            status: if is_late { "timeout" } else { "done" }.to_owned(),
            page: None,
            warnings: shortfalls.chain(unknown).chain(doubts).chain(never).collect(),
            weir: ScanMeta {
                partial: coverage.is_partial(),
                from: None,
                to: None,
                interval_ns: None,
                units: BTreeMap::new(),
                matched: None,
                grouped: None,
                parts: scanned.parts,
                rows: scanned.rows,
                pages: scanned.pages,
                pages_pruned: scanned.pages_pruned,
                bytes: scanned.bytes,
            },
        }
    }
}
