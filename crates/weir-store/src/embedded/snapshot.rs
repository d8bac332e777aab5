//! Snapshots: the chunks of the head and the segments that a query sees.
//!
//! Invariants: chunks are append-only, so the rows that a snapshot includes do not change; a record
//! is in exactly one part of a snapshot.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::columns::Rows;
use super::segment::Segment;
use super::sidecar::Sidecar;
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
    pub(super) fn into_rows(self) -> Rows {
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
    /// The store is still taking in what was received before it started.
    pub is_catching_up: bool,
    /// Damaged segments that are not among [`Self::segments`].
    pub damaged: Vec<String>,
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
