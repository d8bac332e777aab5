//! The manifest: which segments there are, up to which position of each stream records are in
//! them, and what was asked to be deleted. The only truth of what is stored.
//!
//! A change is one record, appended and flushed: whole or absent. So what is replayed is always a
//! state that once was, and segments and positions never disagree. Format:
//! `docs/internals/store.md`.

mod codec;
mod log;

use std::collections::{BTreeMap, HashMap};

use weir_model::{Position, StreamId};

use crate::embedded::snapshot::Deletion;
use crate::query::TimeRange;

pub(crate) use log::Manifest;
pub use log::ManifestError;

/// A segment, as the manifest knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentEntry {
    /// Its number; grows and is never used again.
    pub(crate) id: u64,
    /// When the newest of its records was stored, nanoseconds since 1970: what retention goes by.
    pub(crate) stored_ns: i64,
    /// Directory: the hour in which the file was written, counted from 1970.
    pub(crate) hour: u32,
    /// How often its row groups were put together.
    pub(crate) tier: u8,
    /// Records.
    pub(crate) rows: u64,
    /// Bytes of the records as they came in.
    pub(crate) raw_bytes: u64,
    /// Bytes of the segment.
    pub(crate) segment_bytes: u64,
    /// Bytes of the sidecar.
    pub(crate) sidecar_bytes: u64,
    /// Earliest and latest time of the records, nanoseconds since 1970.
    pub(crate) times_ns: (i64, i64),
    /// First and last sequence that it was made from. Those of two segments never overlap.
    pub(crate) sequences: (u64, u64),
}

/// Records that are to be as if they had never been stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeletionEntry {
    /// Those that match this, as text. Empty once it has ended: it may be what was to be deleted.
    pub(crate) query: String,
    /// And happened then.
    pub(crate) range: TimeRange,
    /// And have a sequence below this.
    pub(crate) before_sequence: u64,
    /// When it was asked for, nanoseconds since 1970.
    pub(crate) requested_ns: i64,
    /// When the last of them was gone from the disk, or it was cancelled, nanoseconds since 1970.
    pub(crate) done_ns: Option<i64>,
    /// It was cancelled, and is about nothing any more.
    pub(crate) is_cancelled: bool,
    /// Records that are gone from the disk.
    pub(crate) removed: u64,
}

impl DeletionEntry {
    /// The same, ended.
    pub(crate) fn ended(&self, done_ns: i64, is_cancelled: bool) -> Self {
        let (query, done_ns) = (String::new(), Some(done_ns));
        Self { query, done_ns, is_cancelled, ..self.clone() }
    }

    /// As queries apply it; `None`: a query that this release cannot read.
    pub(crate) fn parsed(&self) -> Option<Deletion> {
        let query = weir_expr::parse(&self.query).ok()?;
        Some(Deletion { query, range: self.range, before_sequence: self.before_sequence })
    }

    /// The segment may have records that it is about.
    pub(crate) fn may_concern(&self, segment: &SegmentEntry) -> bool {
        let is_early = segment.sequences.0 < self.before_sequence;
        self.done_ns.is_none()
            && is_early
            && self.range.overlaps(segment.times_ns.0, segment.times_ns.1)
    }
}

/// What retention has removed since the store began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retired {
    /// Segments.
    pub(crate) segments: u64,
    /// Records.
    pub(crate) rows: u64,
    /// Bytes on disk.
    pub(crate) bytes: u64,
}

/// Numbers that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// The next segment.
    pub(crate) next_segment: u64,
    /// The next record.
    pub(crate) next_sequence: u64,
    /// The next deletion.
    pub(crate) next_deletion: u64,
    /// What retention took.
    pub(crate) retired: Retired,
    /// Records that were deleted on request, and are gone from the disk.
    pub(crate) deleted: u64,
}

/// Everything that the manifest says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Contents {
    pub(crate) segments: BTreeMap<u64, SegmentEntry>,
    pub(crate) positions: HashMap<StreamId, Position>,
    pub(crate) deletions: BTreeMap<u64, DeletionEntry>,
    pub(crate) counters: Counters,
}

/// What one record changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Change {
    pub(crate) added: Vec<SegmentEntry>,
    pub(crate) removed: Vec<u64>,
    pub(crate) positions: Vec<(StreamId, Position)>,
    /// Streams whose positions nobody will ask for again.
    pub(crate) forgotten: Vec<StreamId>,
    pub(crate) deletions: Vec<(u64, DeletionEntry)>,
    /// Deletions that were done so long ago that nobody asks any more.
    pub(crate) deletions_forgotten: Vec<u64>,
    pub(crate) counters: Counters,
}

impl Change {
    /// It says that something is gone, which nothing on the disk may say otherwise from then on, or
    /// that it was not to be deleted after all.
    pub(crate) fn ends_deletion(&self) -> bool {
        self.deletions.iter().any(|(_, deletion)| deletion.done_ns.is_some())
    }
}

impl Contents {
    /// Applies a change. All of it states absolute values: twice is as good as once.
    pub(crate) fn apply(&mut self, change: &Change) {
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

    /// All of it as a change of nothing.
    fn as_change(&self) -> Change {
        Change {
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
