//! The ledger as a document: the three books of every component, each with the number of items that
//! it does not account for.
//!
//! Invariants: every term is counted independently; `unaccounted` is the only computed number, and
//! is 0 if the book balances. Within one `schema`, fields are only ever added. Developers see what
//! belongs to their applications alone, and no number that includes others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_host::units::format_rfc3339;
use weir_journal::{CursorLedger, Ledger, SourceLedger};
use weir_model::{AbandonReason, DiscardReason};
use weir_pipeline::drain;
use weir_pipeline::stats::{self, LimitedCounts, LimitedKey, RateLimitReport};
use weir_pipeline::view::{OutputView, PipelineView};

use crate::access::Requester;
use crate::drains::DrainEntry;
use crate::journal::JournalEntry;
use crate::readers::ReadersEntry;

const SCHEMA: &str = "weir.ledger.v1";

/// Counts by reason; reasons with a count of 0 are omitted.
pub type ByReason = BTreeMap<String, u64>;

/// `/weir/v1/ledger`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LedgerDocument {
    /// `weir.ledger.v1`.
    pub schema: String,
    /// When the books were read, RFC 3339.
    pub time: String,
    /// Whether it is that of a developer: only what belongs to the applications of the token's
    /// owner. Sources, outputs and the buffer are those of all applications, and are not included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_applications: bool,
    /// Book 1 and book 3 of every source.
    pub sources: Vec<SourceEntry>,
    /// Book 2 of every output, including outputs that are no longer configured.
    pub cursors: Vec<CursorEntry>,
    /// Readers of envelopes, for each configured service; counted since the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<ReadersEntry>,
    /// For developers: the drains of their applications. Others find them in `/weir/v1/drains`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drains: Vec<DrainEntry>,
    /// For developers: records of their applications above rate limits. Others find them in the
    /// sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<ApplicationLimitEntry>,
    /// The buffer; not for developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalEntry>,
    /// Whether every book of records balances.
    pub balanced: bool,
    /// True for a moment after a start, until every source has opened what it reads: the books do
    /// not yet include everything from the previous run.
    #[serde(default)]
    pub opening: bool,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SourceEntry {
    /// Name of the source.
    pub name: String,
    /// Type of the source; empty if it is no longer configured.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Open files or containers; streams of a listening source.
    pub streams: u64,
    /// Book 1, and the right-hand side of book 3.
    pub book: SourceCounts,
    /// 0 if book 1 balances.
    pub unaccounted_lines: i64,
    /// The left-hand side of book 3; absent for a listening source, which has no unread data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileBytes>,
    /// Records above the rate limit of a listening source; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitEntry>,
}

/// Records above the rate limit of a listening source, since weir was started. This is not a book:
/// discarded records are in the source's book, as `rate_limit`, over all starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateLimitEntry {
    /// The limit of each key, such as `limit 1000 records/s`.
    pub limit: String,
    /// Total of all keys.
    pub total: LimitedEntry,
    /// The ten keys with the most records above the limit.
    pub keys: Vec<LimitedKeyEntry>,
    /// Total of all other keys: with `keys`, they add up to `total`.
    pub others: LimitedEntry,
    /// Number of keys that currently send more than their limit.
    pub keys_over: u64,
    /// Records that weir has written to report such keys.
    pub notices: u64,
}

/// A key that has exceeded its limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitedKeyEntry {
    /// Such as `host=web7 app_name=nginx`; control characters are escaped.
    pub key: String,
    /// Whether it currently sends more than its limit.
    pub over: bool,
    /// Its records above the limit.
    #[serde(flatten)]
    pub counts: LimitedEntry,
}

/// Records of an application above the rate limit of a source, since weir was started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApplicationLimitEntry {
    /// The source.
    pub source: String,
    /// The limit of each key, such as `limit 1000 records/s`.
    pub limit: String,
    /// The key of the application, and its records above the limit.
    #[serde(flatten)]
    pub key: LimitedKeyEntry,
}

/// Records above a limit, by action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitedEntry {
    /// Records that were discarded.
    pub discarded_records: u64,
    /// Bytes of these records.
    pub discarded_bytes: u64,
    /// Records that were accepted; reading from their connections was paused.
    pub delayed_records: u64,
    /// Bytes of these records.
    pub delayed_bytes: u64,
    /// Time during which connections were not read.
    pub delayed_seconds: f64,
    /// Records of requests that were answered with 429.
    pub refused_records: u64,
    /// Bytes of these records.
    pub refused_bytes: u64,
}

/// `lines = records + joined + discarded`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SourceCounts {
    /// Lines, as counted by the source's format.
    pub lines: u64,
    /// Records made from lines.
    pub records: u64,
    /// Lines that were joined to the record of another line.
    pub joined: u64,
    /// Lines that were discarded.
    pub discarded: ByReason,
    /// Records whose line did not have the expected format.
    pub malformed: u64,
    /// Records that were cut at `line_max`.
    pub truncated: u64,
    /// Bytes consumed.
    pub bytes_read: u64,
    /// Bytes abandoned.
    pub bytes_abandoned: ByReason,
}

/// `bytes_seen = bytes_read + bytes_unread + bytes_abandoned`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileBytes {
    /// Bytes by which the files have grown.
    pub bytes_seen: u64,
    /// Bytes that are present and not yet consumed.
    pub bytes_unread: u64,
    /// Number of times that a file was found to be shorter than before.
    #[serde(default)]
    pub files_cut: u64,
    /// Files that were created and removed before they could be read, or written to after they were
    /// deleted and closed.
    #[serde(default)]
    pub files_unseen: u64,
    /// Files that were removed while weir was not running.
    #[serde(default)]
    pub files_vanished: u64,
    /// True if bytes may have been missed (a file was truncated, appeared and disappeared between
    /// two scans, or disappeared while weir was not running): `bytes_seen` and `bytes_abandoned`
    /// are then lower bounds.
    pub at_least: bool,
    /// 0 if the book balances. While files are being read the terms are from slightly different
    /// moments; at rest they are exact.
    pub unaccounted_bytes: i64,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CursorEntry {
    /// Name of the output.
    pub name: String,
    /// Type of the output, `drains` for all drains and for those that lag; empty if it is no longer
    /// configured.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it is configured.
    pub active: bool,
    /// `block` or `drop_oldest`.
    pub when_full: String,
    /// Book 2 except for what is in flight.
    pub book: CursorCounts,
    /// Records that wait or are in flight.
    pub in_flight: u64,
    /// Of these, records that the output has taken.
    pub taken: u64,
    /// Bytes of batches that wait or are in flight.
    pub pending_bytes: u64,
    /// Limit of `pending_bytes`.
    pub buffer_bytes_max: u64,
    /// Age of the oldest unacknowledged batch.
    pub lag_seconds: f64,
    /// Whether it currently blocks sources.
    pub blocking: bool,
    /// 0 if book 2 balances.
    pub unaccounted_records: i64,
}

/// `routed = delivered + discarded + dead_lettered + moved + unbound + in_flight`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CursorCounts {
    /// Records routed to the output.
    pub routed: u64,
    /// Records that the destination acknowledged.
    pub delivered: u64,
    /// Records discarded.
    pub discarded: ByReason,
    /// Records in the dead-letter file.
    pub dead_lettered: u64,
    /// Repeated transmissions of records.
    pub resent: u64,
    /// Records moved to another destination, whose book they are in.
    #[serde(default)]
    pub moved: u64,
    /// Records for which the destination has no recipient.
    #[serde(default)]
    pub unbound: u64,
}

impl LedgerDocument {
    /// Reads the current books.
    pub fn of(view: &PipelineView) -> Self {
        let ledger = view.journal.ledger();
        let time = format_rfc3339(view.now_unix_ns());
        let sources = ledger.sources.iter().map(|source| SourceEntry::of(source, view)).collect();
        let cursors = ledger
            .cursors
            .iter()
            .map(|cursor| CursorEntry::of(cursor, view.output(&cursor.name).as_deref()))
            .collect();
        let readers = ReadersEntry::with_connected(view);
        Self { readers, ..Self::new(time, sources, cursors, &ledger) }
    }

    /// Reads what the requester may see of the current books.
    pub(crate) fn of_requester(view: &PipelineView, requester: &Requester) -> Self {
        if requester.sees_everything() {
            return Self::of(view);
        }
        let drains = DrainEntry::all(view, requester);
        Self {
            schema: SCHEMA.to_owned(),
            time: format_rfc3339(view.now_unix_ns()),
            of_applications: true,
            sources: Vec::new(),
            cursors: Vec::new(),
            readers: ReadersEntry::of_requester(view, requester),
            balanced: drains.iter().all(|drain| drain.unaccounted == 0),
            drains,
            rate_limits: ApplicationLimitEntry::all(view, requester),
            journal: None,
            opening: false,
        }
    }

    fn new(
        time: String,
        sources: Vec<SourceEntry>,
        cursors: Vec<CursorEntry>,
        ledger: &Ledger,
    ) -> Self {
        let balanced = sources.iter().all(|source| source.unaccounted_lines == 0)
            && cursors.iter().all(|cursor| cursor.unaccounted_records == 0);
        Self {
            schema: SCHEMA.to_owned(),
            time,
            of_applications: false,
            sources,
            cursors,
            readers: Vec::new(),
            drains: Vec::new(),
            rate_limits: Vec::new(),
            journal: Some(JournalEntry::from(&ledger.journal)),
            balanced,
            opening: ledger.opening,
        }
    }
}

impl SourceEntry {
    pub(crate) fn of(source: &SourceLedger, view: &PipelineView) -> Self {
        let book = &source.book;
        let sources = view.sources();
        let known = sources.iter().find(|known| known.name == source.name);
        let gauge =
            |read: fn(&stats::SourceStats) -> u64| known.map_or(0, |known| read(&known.stats));
        let bytes_seen = gauge(|stats| stats::get(&stats.bytes_seen));
        let bytes_unread = gauge(|stats| stats::get(&stats.bytes_unread));
        let settled = book.bytes_read + bytes_unread + book.abandoned_total();
        // What is unread of the files of a source that does not run is not known.
        let has_no_files = known.is_none_or(|known| {
            known.stats.listener.endpoint().is_some() || known.stats.collect.is_open()
        });
        Self {
            name: source.name.clone(),
            type_name: known.map_or("", |known| known.source_type.name()).to_owned(),
            streams: source.streams,
            book: SourceCounts {
                lines: book.lines,
                records: book.records,
                joined: book.joined,
                discarded: discarded(&book.discarded),
                malformed: book.malformed,
                truncated: book.truncated,
                bytes_read: book.bytes_read,
                bytes_abandoned: abandoned(&book.bytes_abandoned),
            },
            unaccounted_lines: book.unaccounted_lines(),
            files: (!has_no_files).then(|| FileBytes {
                bytes_seen,
                bytes_unread,
                files_cut: book.files_cut,
                files_unseen: book.files_unseen,
                files_vanished: book.files_vanished,
                at_least: book.is_at_least(),
                unaccounted_bytes: bytes_seen as i64 - settled as i64,
            }),
            rate_limit: known
                .and_then(|known| known.stats.listener.rate_limit.report())
                .map(|report| RateLimitEntry::of(&report)),
        }
    }
}

impl LimitedKeyEntry {
    fn of(key: &LimitedKey) -> Self {
        let counts = LimitedEntry::of(&key.counts);
        Self { key: key.name.clone(), over: key.is_over, counts }
    }
}

impl ApplicationLimitEntry {
    /// Those of the applications of a developer that are among the keys with names.
    fn all(view: &PipelineView, requester: &Requester) -> Vec<Self> {
        let mut all = Vec::new();
        for source in view.sources().iter() {
            let Some(report) = source.stats.listener.rate_limit.report() else { continue };
            let keys = report.keys.iter().chain(&report.more);
            let own = keys.filter(|key| !key.service.is_empty() && requester.may_see(&key.service));
            all.extend(own.map(|key| Self {
                source: source.name.clone(),
                limit: report.limit.clone(),
                key: LimitedKeyEntry::of(key),
            }));
        }
        all
    }
}

impl RateLimitEntry {
    fn of(report: &RateLimitReport) -> Self {
        Self {
            limit: report.limit.clone(),
            total: LimitedEntry::of(&report.total),
            keys: report.keys.iter().map(LimitedKeyEntry::of).collect(),
            others: LimitedEntry::of(&report.others),
            keys_over: report.over_count,
            notices: report.notices,
        }
    }
}

impl LimitedEntry {
    fn of(counts: &LimitedCounts) -> Self {
        Self {
            discarded_records: counts.discarded_records,
            discarded_bytes: counts.discarded_bytes,
            delayed_records: counts.delayed_records,
            delayed_bytes: counts.delayed_bytes,
            delayed_seconds: crate::status::seconds(counts.delayed_ns),
            refused_records: counts.refused_records,
            refused_bytes: counts.refused_bytes,
        }
    }
}

impl CursorEntry {
    /// `known` is the output, if it is configured.
    pub(crate) fn of(cursor: &CursorLedger, known: Option<&OutputView>) -> Self {
        let when_full = serde_json::to_value(cursor.when_full).unwrap_or_default();
        // What lagging drains have is a destination of the drains, and has no statistics of its
        // own.
        let is_lagging = cursor.active && cursor.name == drain::LAGGING;
        let unknown = if is_lagging { drain::TYPE_NAME } else { "" };
        Self {
            name: cursor.name.clone(),
            type_name: known.map_or(unknown, |known| known.type_name).to_owned(),
            active: cursor.active,
            when_full: when_full.as_str().unwrap_or_default().to_owned(),
            book: CursorCounts {
                routed: cursor.book.routed,
                delivered: cursor.book.delivered,
                discarded: discarded(&cursor.book.discarded),
                dead_lettered: cursor.book.dead_lettered,
                resent: cursor.book.resent,
                moved: cursor.book.moved,
                unbound: cursor.book.unbound,
            },
            in_flight: cursor.in_flight,
            taken: cursor.taken,
            pending_bytes: cursor.pending_bytes,
            buffer_bytes_max: cursor.buffer_bytes_max,
            lag_seconds: cursor.lag_seconds,
            blocking: cursor.blocking,
            unaccounted_records: cursor.unaccounted(),
        }
    }
}

pub(crate) fn discarded(counts: &[u64; DiscardReason::COUNT]) -> ByReason {
    by_reason(counts, DiscardReason::ALL.iter().map(|reason| reason.text()))
}

fn abandoned(counts: &[u64; AbandonReason::COUNT]) -> ByReason {
    by_reason(counts, AbandonReason::ALL.iter().map(|reason| reason.text()))
}

fn by_reason<'a>(counts: &[u64], reasons: impl Iterator<Item = &'a str>) -> ByReason {
    let pairs = reasons.map(str::to_owned).zip(counts.iter().copied());
    pairs.filter(|(_, count)| *count != 0).collect()
}
