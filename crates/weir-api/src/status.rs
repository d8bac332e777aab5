//! The data for `weir top`: counters for computing rates, and the state of every component.
//!
//! Invariant: one document is one reading of the books; the reader computes rates.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use weir_host::ProcessMetrics;
use weir_host::units::format_rfc3339;
use weir_journal::Ledger;
use weir_pipeline::stats;
use weir_pipeline::view::{OutputView, PipelineView, SourceView};

use crate::journal::JournalEntry;
use crate::ledger::{CursorEntry, SourceEntry};

/// `/weir/v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StatusDocument {
    /// `weir.status.v1`.
    pub schema: String,
    /// Version of weir.
    pub version: String,
    /// When it was read, RFC 3339.
    pub time: String,
    /// The same, in nanoseconds since 1970, for computing rates.
    pub time_unix_ns: i64,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// CPU time of the process, seconds.
    pub cpu_seconds: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// The same as at `/health`.
    pub health: Value,
    /// Every configured source.
    pub sources: Vec<SourceStatus>,
    /// Every output, including outputs that are no longer configured.
    pub outputs: Vec<OutputStatus>,
    /// The buffer.
    pub journal: JournalEntry,
}

/// A source: its books and its current values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SourceStatus {
    /// Books.
    pub book: SourceEntry,
    /// The address of a listening source, with the actual port if port 0 was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Files that are followed.
    pub files: u64,
    /// Files that cannot be read.
    pub unreadable_files: u64,
    /// Age of the oldest unread byte, seconds.
    pub lag_seconds: f64,
    /// Whether one of its streams is currently refused.
    pub blocked: bool,
    /// The output whose full buffer blocks it; absent if it is not blocked, or not by an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Seconds during which a stream was refused.
    pub blocked_seconds: f64,
    /// Errors of all kinds.
    pub errors: u64,
    /// CPU time of its threads, seconds.
    pub cpu_seconds: f64,
}

/// An output: its books and its current values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OutputStatus {
    /// Books.
    pub book: CursorEntry,
    /// Whether the destination currently does not accept records.
    pub failing: bool,
    /// The last error, while the problem lasts.
    pub last_error: Option<String>,
    /// Successful requests.
    pub requests: u64,
    /// Attempts that failed and were retried.
    pub retries: u64,
    /// Bytes sent, after compression.
    pub sent_bytes: u64,
    /// Requests in flight.
    pub in_flight_requests: u64,
    /// Limit of `in_flight_requests`.
    pub concurrency_limit: u64,
    /// Sum of the time from request to response, seconds, over `requests`.
    pub service_seconds: f64,
    /// Sum of the time from reading to sending, seconds, over `batches`.
    pub queueing_seconds: f64,
    /// Batches in `queueing_seconds`.
    pub batches: u64,
    /// Errors of all kinds.
    pub errors: u64,
    /// CPU time, seconds.
    pub cpu_seconds: f64,
}

impl StatusDocument {
    /// Reads the current state.
    pub fn of(view: &PipelineView, version: &str) -> Self {
        let ledger = view.journal.ledger();
        let now = view.now_unix_ns();
        let process = ProcessMetrics::read();
        Self {
            schema: "weir.status.v1".to_owned(),
            version: version.to_owned(),
            time: format_rfc3339(now),
            time_unix_ns: now,
            uptime_seconds: (now - view.started_unix_ns).max(0) as f64 / 1e9,
            cpu_seconds: process.cpu_seconds.unwrap_or_default(),
            resident_bytes: process.resident_bytes.unwrap_or_default(),
            health: serde_json::to_value(view.health_of(&ledger)).unwrap_or_default(),
            sources: SourceStatus::all(view, &ledger),
            outputs: OutputStatus::all(view, &ledger),
            journal: JournalEntry::from(&ledger.journal),
        }
    }
}

impl SourceStatus {
    /// Reads every configured source.
    pub(crate) fn all(view: &PipelineView, ledger: &Ledger) -> Vec<Self> {
        let sources = view.sources();
        let sources = sources.iter().filter_map(|source| {
            let book = ledger.sources.iter().find(|book| book.name == source.name)?;
            Some(Self::of(source, SourceEntry::of(book, view), ledger))
        });
        sources.collect()
    }

    fn of(source: &SourceView, book: SourceEntry, ledger: &Ledger) -> Self {
        let stats = &source.stats;
        Self {
            book,
            address: stats.listener.endpoint().map(str::to_owned),
            files: stats::get(&stats.files),
            unreadable_files: stats::get(&stats.unreadable_files),
            lag_seconds: seconds(stats::get(&stats.lag_ns)),
            blocked: stats.is_blocked(),
            blocked_by: stats.blocked_by(ledger),
            blocked_seconds: seconds(stats::get(&stats.blocked_ns)),
            errors: stats.errors.by_kind().iter().map(|(_, count)| count).sum(),
            cpu_seconds: seconds(stats::get(&stats.cpu_ns)),
        }
    }
}

impl OutputStatus {
    /// Reads every output.
    pub(crate) fn all(view: &PipelineView, ledger: &Ledger) -> Vec<Self> {
        let outputs = ledger.cursors.iter().map(|cursor| {
            let known = view.output(&cursor.name);
            let known = known.as_deref();
            Self::of(known, CursorEntry::of(cursor, known))
        });
        outputs.collect()
    }

    fn of(output: Option<&OutputView>, book: CursorEntry) -> Self {
        let idle = stats::OutputStats::default();
        let stats = output.map_or(&idle, |output| &output.stats);
        Self {
            book,
            failing: stats.failing.load(std::sync::atomic::Ordering::Relaxed),
            last_error: stats.errors.last(),
            requests: stats::get(&stats.requests),
            retries: stats::get(&stats.retries),
            sent_bytes: stats::get(&stats.bytes_sent),
            in_flight_requests: stats::get(&stats.in_flight_requests),
            concurrency_limit: stats::get(&stats.concurrency_limit),
            service_seconds: seconds(stats::get(&stats.service_ns)),
            queueing_seconds: seconds(stats::get(&stats.queueing_ns)),
            batches: stats::get(&stats.batches),
            errors: stats.errors.by_kind().iter().map(|(_, count)| count).sum(),
            cpu_seconds: seconds(stats::get(&stats.cpu_ns)),
        }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
