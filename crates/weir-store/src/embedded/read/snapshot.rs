//! Snapshots: the chunks of the head and the segments that a query sees.
//!
//! Invariants: chunks are append-only, so the rows that a snapshot includes do not change; a record
//! is in exactly one part of a snapshot.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::embedded::columns::Rows;
use crate::embedded::keep::catalog::LiveSegment;
use crate::embedded::segment::Segment;
use crate::embedded::sidecar::Sidecar;
use crate::embedded::store::EmbeddedStore;
use crate::query::TimeRange;

/// Rows in memory that queries read while they grow.
#[derive(Debug, Default)]
pub struct HeadChunk {
    rows: RwLock<Rows>,
}

impl HeadChunk {
    /// Creates a chunk with existing rows.
    pub fn new(rows: Rows) -> Self {
        Self { rows: RwLock::new(rows) }
    }

    /// Returns the rows, if no one else is using them.
    pub(crate) fn into_rows(self) -> Rows {
        self.rows.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the rows for reading. Additions wait while the lock is held.
    pub fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the rows for adding some.
    pub fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open segment.
#[derive(Debug)]
pub struct OpenSegment {
    /// Its name, for messages.
    pub name: String,
    /// The file.
    pub segment: Segment,
    /// Its sidecar; `None` when it cannot be used, which costs only time.
    pub sidecar: Option<Sidecar>,
}

/// Everything that is stored at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Chunks of the head, each with the number of rows that are included.
    pub chunks: Vec<(Arc<HeadChunk>, usize)>,
    /// Segments.
    pub segments: Vec<Arc<OpenSegment>>,
    /// Deletions whose records may still be in segments: those that match, with a sequence below
    /// the given number.
    pub deletions: Arc<[Deletion]>,
    /// The store is still taking in what the journal and the sources had when weir started.
    pub is_catching_up: bool,
    /// Damaged segments that are not among [`Self::segments`].
    pub damaged: Vec<String>,
}

impl EmbeddedStore {
    /// Returns a snapshot of everything that may have records in the range, as of now.
    pub fn snapshot(&self, range: TimeRange) -> Snapshot {
        let (chunks, mut snapshot) = {
            let catalog = self.shared.catalog();
            let overlaps =
                |live: &&LiveSegment| range.overlaps(live.entry.times_ns.0, live.entry.times_ns.1);
            let segments = catalog.segments.values().filter(overlaps);
            let snapshot = Snapshot {
                chunks: Vec::new(),
                segments: segments.filter_map(|live| live.open.clone()).collect(),
                deletions: catalog.deletions.clone(),
                is_catching_up: catalog.is_catching_up,
                damaged: catalog.damaged.iter().cloned().collect(),
            };
            (catalog.chunks.clone(), snapshot)
        };
        // Rows added after this point are not part of the snapshot. A chunk that is flushed in the
        // meantime is still used here, and its segment is not in the list.
        let counted = |chunk: Arc<HeadChunk>| {
            let rows = chunk.read().len();
            (rows > 0).then_some((chunk, rows))
        };
        snapshot.chunks = chunks.into_iter().filter_map(counted).collect();
        snapshot
    }
}

/// A deletion of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// The query that the records match.
    pub query: weir_expr::Expr,
    /// The time range of the records.
    pub range: TimeRange,
    /// Only records that were stored before the request: their sequence is below this.
    pub before_sequence: u64,
}
