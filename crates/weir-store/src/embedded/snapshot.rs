//! What a query sees: the chunks of the head and the segments of one moment.
//!
//! Invariants: rows of a chunk only grow in number, so those that a snapshot counts stay as they
//! are; a record is in exactly one part of a snapshot.

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
    /// Of rows that are there.
    pub fn new(rows: Rows) -> Self {
        Self { rows: RwLock::new(rows) }
    }

    /// The rows, when nobody looks at them any more.
    pub(super) fn into_rows(self) -> Rows {
        self.rows.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows, for one look: what is added waits as long as this is held.
    pub fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows, to add some.
    pub fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that is open.
#[derive(Debug)]
pub struct OpenSegment {
    /// Its name, for messages.
    pub name: String,
    /// The file.
    pub segment: Segment,
    /// What is known about it; `None` when that cannot be used, which costs time only.
    pub sidecar: Option<Sidecar>,
}

/// Everything that is stored, as of one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Chunks of the head, each with the number of rows that count.
    pub chunks: Vec<(Arc<HeadChunk>, usize)>,
    /// Segments.
    pub segments: Vec<Arc<OpenSegment>>,
    /// Records that were deleted and are still in segments: their sequence is below the number,
    /// and they match the filter.
    pub deletions: Arc<[Deletion]>,
    /// The store still takes in what was received before it started.
    pub is_catching_up: bool,
    /// Segments that are damaged and are not among [`Self::segments`].
    pub damaged: Vec<String>,
}

/// Records that are to be as if they had never been stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// Those that match this.
    pub query: weir_expr::Expr,
    /// And happened then.
    pub range: TimeRange,
    /// And were stored before the request: their sequence is below this.
    pub before_sequence: u64,
}
