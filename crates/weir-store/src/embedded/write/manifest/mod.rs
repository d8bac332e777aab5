//! The manifest: which segments exist, up to which position of each stream records are in them, and
//! which deletions were requested. It alone decides what is stored.
//!
//! A change is one record, appended and flushed: either complete or absent. A replayed state is
//! therefore always one that existed, and segments and positions never disagree. Format:
//! `docs/internals/store.md`.

mod codec;
mod log;

use std::collections::{BTreeMap, HashMap};

use weir_model::{Position, StreamId};

use crate::embedded::read::snapshot::Deletion;
use crate::query::TimeRange;

pub(crate) use log::Manifest;
pub use log::ManifestError;

/// A segment as recorded in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentEntry {
    /// Its number; numbers increase and are never reused.
    pub(crate) id: u64,
    /// When the newest of its records was stored, nanoseconds since 1970. Used by retention.
    pub(crate) stored_ns: i64,
    /// Directory: the hour in which the file was written, counted from 1970.
    pub(crate) hour: u32,
    /// How often its row groups were merged.
    pub(crate) tier: u8,
    /// Number of records.
    pub(crate) rows: u64,
    /// Size of the records as received, in bytes.
    pub(crate) raw_bytes: u64,
    /// Size of the segment, in bytes.
    pub(crate) segment_bytes: u64,
    /// Size of the sidecar, in bytes.
    pub(crate) sidecar_bytes: u64,
    /// Earliest and latest time of the records, nanoseconds since 1970.
    pub(crate) times_ns: (i64, i64),
    /// First and last sequence that it was made from. Ranges of different segments never overlap.
    pub(crate) sequences: (u64, u64),
}

/// A deletion requested for records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeletionEntry {
    /// The query that the records match, as text. Empty once the deletion has ended, because it may
    /// contain the deleted data.
    pub(crate) query: String,
    /// The time range of the records.
    pub(crate) range: TimeRange,
    /// Only records with a sequence below this are concerned.
    pub(crate) before_sequence: u64,
    /// When it was requested, nanoseconds since 1970.
    pub(crate) requested_ns: i64,
    /// When the last record was removed from disk or the deletion was cancelled, nanoseconds since
    /// 1970.
    pub(crate) done_ns: Option<i64>,
    /// It was cancelled and no longer concerns any records.
    pub(crate) is_cancelled: bool,
    /// Number of records removed from disk.
    pub(crate) removed: u64,
}

impl DeletionEntry {
    /// Returns this deletion in its ended state.
    pub(crate) fn ended(&self, done_ns: i64, is_cancelled: bool) -> Self {
        let (query, done_ns) = (String::new(), Some(done_ns));
        Self { query, done_ns, is_cancelled, ..self.clone() }
    }

    /// Returns it as queries apply it; `None` when this release cannot read its query.
    pub(crate) fn parsed(&self) -> Option<Deletion> {
        let query = weir_expr::parse(&self.query).ok()?;
        Some(Deletion { query, range: self.range, before_sequence: self.before_sequence })
    }

    /// Returns whether the segment may have records that it concerns.
    pub(crate) fn may_affect(&self, segment: &SegmentEntry) -> bool {
        let is_early = segment.sequences.0 < self.before_sequence;
        self.done_ns.is_none()
            && is_early
            && self.range.overlaps(segment.times_ns.0, segment.times_ns.1)
    }
}

/// What retention has removed since the store was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retired {
    /// Number of segments.
    pub(crate) segments: u64,
    /// Number of records.
    pub(crate) rows: u64,
    /// Bytes on disk.
    pub(crate) bytes: u64,
}

/// Counters, which never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Number of the next segment.
    pub(crate) next_segment: u64,
    /// Sequence of the next record.
    pub(crate) next_sequence: u64,
    /// Number of the next deletion.
    pub(crate) next_deletion: u64,
    /// Totals of what retention has removed.
    pub(crate) retired: Retired,
    /// Records that were deleted on request and are gone from disk.
    pub(crate) deleted: u64,
}

/// The complete state of the manifest.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Contents {
    pub(crate) segments: BTreeMap<u64, SegmentEntry>,
    pub(crate) positions: HashMap<StreamId, Position>,
    pub(crate) deletions: BTreeMap<u64, DeletionEntry>,
    pub(crate) counters: Counters,
}

/// The changes made by one record.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ManifestChange {
    pub(crate) added: Vec<SegmentEntry>,
    pub(crate) removed: Vec<u64>,
    pub(crate) positions: Vec<(StreamId, Position)>,
    /// Streams whose positions will not be needed again.
    pub(crate) forgotten: Vec<StreamId>,
    pub(crate) deletions: Vec<(u64, DeletionEntry)>,
    /// Deletions that ended so long ago that they are no longer listed.
    pub(crate) deletions_forgotten: Vec<u64>,
    pub(crate) counters: Counters,
}

impl ManifestChange {
    /// Returns whether it records that something is gone, which nothing on disk may contradict
    /// afterwards, or that a deletion was cancelled.
    pub(crate) fn ends_deletion(&self) -> bool {
        self.deletions.iter().any(|(_, deletion)| deletion.done_ns.is_some())
    }
}

impl Contents {
    /// Applies a change. All of its values are absolute, so applying it twice has no further
    /// effect.
    pub(crate) fn apply(&mut self, change: &ManifestChange) {
        self.segments.extend(change.added.iter().map(|entry| (entry.id, *entry)));
        for id in &change.removed {
            self.segments.remove(id);
        }
        self.positions.extend(change.positions.iter().copied());
        for stream in &change.forgotten {
            self.positions.remove(stream);
        }
        self.deletions.extend(change.deletions.iter().cloned());
        for id in &change.deletions_forgotten {
            self.deletions.remove(id);
        }
        let (now, new) = (&mut self.counters, &change.counters);
        now.next_segment = now.next_segment.max(new.next_segment);
        now.next_sequence = now.next_sequence.max(new.next_sequence);
        now.next_deletion = now.next_deletion.max(new.next_deletion);
        now.retired.segments = now.retired.segments.max(new.retired.segments);
        now.retired.rows = now.retired.rows.max(new.retired.rows);
        now.retired.bytes = now.retired.bytes.max(new.retired.bytes);
        now.deleted = now.deleted.max(new.deleted);
    }

    /// Returns the full state as a change to an empty manifest.
    fn as_change(&self) -> ManifestChange {
        ManifestChange {
            added: self.segments.values().copied().collect(),
            removed: Vec::new(),
            positions: self.positions.iter().map(|(s, p)| (*s, *p)).collect(),
            forgotten: Vec::new(),
            deletions: self.deletions.iter().map(|(id, d)| (*id, d.clone())).collect(),
            deletions_forgotten: Vec::new(),
            counters: self.counters,
        }
    }
}
