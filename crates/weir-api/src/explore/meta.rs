//! Metadata of an answer: time, warnings, and why it is partial.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_expr::{CalculatedField, Expr, Field, Lint, Unit, Units, key_like};
use weir_host::Clock;
use weir_store::query::{Coverage, PartialReason, TimeRange};

use super::record::precise_time;

/// Metadata of an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Meta {
    /// Time from the arrival of the request to the answer, milliseconds.
    pub elapsed: u64,
    /// Identifies this query in weir's log.
    pub request_id: String,
    /// `done`, or `timeout` if the deadline was reached before everything was scanned.
    pub status: String,
    /// Where the next page starts; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<NextPage>,
    /// Warnings about the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What was read for the answer.
    pub weir: ScanMeta,
}

/// Where the next page starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct NextPage {
    /// The cursor to request it with.
    pub after: String,
}

/// A warning about an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    /// One of `deadline`, `memory`, `catching_up`, `damaged`, `unknown_field`, `likely_mistake`,
    /// `never`, `approximate`, `ignored`.
    pub code: String,
    /// A short summary.
    pub title: String,
    /// The full description.
    pub detail: String,
}

/// What was read for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanMeta {
    /// Whether the answer is partial; `warnings` give the reasons.
    pub partial: bool,
    /// Start of the range (inclusive), RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End of the range (exclusive), RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Length of the intervals of a series, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<i64>,
    /// Units of numbers, if known: `ns us ms s min h` and `B kB KiB MB MiB GB GiB`. The keys are
    /// the names of aggregates (`c0`), and group fields, calculated fields and attributes with a
    /// declared unit as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// Number of matching records, if it was determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Of these, records that are in a group; the others have no value for a group field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouped: Option<u64>,
    /// Row groups, and chunks that are not yet in a segment, that were read.
    pub parts: u64,
    /// Rows that were scanned.
    pub rows: u64,
    /// Pages that were read.
    pub pages: u64,
    /// Pages that did not have to be read.
    pub pages_pruned: u64,
    /// Bytes of pages, decompressed.
    pub bytes: u64,
}

/// The unit of a field, as in [`ScanMeta::units`].
pub(super) fn unit_symbol(
    field: &Field,
    units: &Units,
    calculated_fields: &[CalculatedField],
) -> Option<String> {
    Some(units.of(field, calculated_fields)?.symbol().to_owned())
}

/// The name of the aggregate with this number.
pub(super) fn aggregate_name(index: usize) -> String {
    format!("c{index}")
}

impl ScanMeta {
    /// The unit of the aggregate with this number.
    pub fn unit(&self, index: usize) -> Option<Unit> {
        Unit::from_symbol(self.units.get(&aggregate_name(index))?)
    }

    /// Adds the range of the query.
    pub(super) fn set_range(&mut self, range: TimeRange) {
        self.from = Some(precise_time(range.from_ns));
        self.to = Some(precise_time(range.to_ns));
    }
}

impl Warning {
    fn new(code: &str, title: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), title: title.to_owned(), detail: detail.into() }
    }

    /// A part of the request was ignored.
    pub(super) fn ignored(detail: impl Into<String>) -> Self {
        Self::new("ignored", "a parameter was ignored", detail)
    }

    /// Groups are missing.
    pub(super) fn approximate() -> Self {
        let detail = "there were more groups than fit into memory: small ones are missing, and \
                      values of others may be too low; narrow the query or the range";
        Self::new("approximate", "groups are missing", detail)
    }

    fn of_partial_reason(reason: &PartialReason) -> Self {
        match reason {
            PartialReason::Deadline => Self::new(
                "deadline",
                "deadline reached",
                "the result contains what was found by then; narrow the query or the range, or \
                 increase the timeout",
            ),
            PartialReason::Memory => Self::new(
                "memory",
                "memory limit reached",
                "the result contains what was found by then; narrow the query or the range",
            ),
            PartialReason::CatchingUp => Self::new(
                "catching_up",
                "the store is catching up",
                "records received before weir started are still being added",
            ),
            PartialReason::Damaged { segments } => Self::new(
                "damaged",
                "segments are damaged",
                format!("records of these segments are missing: {}", segments.join(", ")),
            ),
        }
    }

    fn unknown_field(name: &str) -> Self {
        let detail = match (name.strip_prefix('@'), key_like(name)) {
            (Some(tag), _) => format!(
                "no record has a field {name}; is it misspelled? Properties of the source are tags: \
                 {tag}:..., without @."
            ),
            (None, Some(near)) => format!("no record has a tag {name}; did you mean {near}?"),
            (None, None) => format!("no record has a tag {name}; attributes are written @{name}"),
        };
        Self::new("unknown_field", "unknown field", detail)
    }

    fn of_lint(lint: &Lint) -> Self {
        let detail = format!("{}; {}", lint.message, lint.help);
        Self::new("likely_mistake", "possible mistake in the query", detail)
    }

    fn never(reason: &str) -> Self {
        Self::new("never", "no record can match", reason)
    }
}

/// A request that has arrived.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    clock: Arc<dyn Clock>,
    since: Duration,
    request_id: u64,
    lints: Vec<Lint>,
    /// Why no record can match.
    never: Option<String>,
}

impl RequestContext {
    /// Records the arrival of a request now.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let (clock, request_id) = (Arc::clone(clock), fastrand::u64(..));
        let since = clock.monotonic();
        Self { since, clock, request_id, lints: Vec::new(), never: None }
    }

    /// Adds warnings about what may not be intended in the query.
    pub(super) fn lint(&mut self, text: &str, query: &Expr) {
        (self.lints, self.never) = (query.lints(text), query.unsatisfiable_reason());
    }

    /// Time of arrival, nanoseconds since 1970.
    pub(super) fn now_ns(&self) -> i64 {
        self.clock.unix_ns()
    }

    /// Returns the metadata of the finished answer.
    pub(super) fn meta(&self, coverage: &Coverage) -> Meta {
        let is_late = coverage.partial_reasons.contains(&PartialReason::Deadline);
        let partial_reasons = coverage.partial_reasons.iter().map(Warning::of_partial_reason);
        let unknown = coverage.unknown_fields.iter().map(|name| Warning::unknown_field(name));
        let is_new = |lint: &&Lint| {
            lint.tag.as_ref().is_none_or(|tag| !coverage.unknown_fields.contains(tag))
        };
        let lints = self.lints.iter().filter(is_new).map(Warning::of_lint);
        let never = self.never.as_deref().map(Warning::never);
        let scanned = coverage.scanned;
        let elapsed = self.clock.monotonic().saturating_sub(self.since);
        Meta {
            elapsed: elapsed.as_millis() as u64,
            request_id: format!("{:016x}", self.request_id),
            status: if is_late { "timeout" } else { "done" }.to_owned(),
            page: None,
            warnings: partial_reasons.chain(unknown).chain(lints).chain(never).collect(),
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
