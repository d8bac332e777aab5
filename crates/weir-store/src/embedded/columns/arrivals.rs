//! When the rows arrived.
//!
//! Invariant: rows that were stored before arrivals were (version 1 of the segment) have none, and
//! keep having none.

use super::texts::{allocated_bytes, emptied};

/// Marks a row whose arrival is not known. No clock shows this time, the year 1677.
const UNKNOWN: i64 = i64::MIN;

/// Arrival of each row, in nanoseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Vec<i64>);

impl Arrivals {
    /// Sets the arrival of a row, the next one or a later one; rows in between have none. A column
    /// without any takes no memory.
    #[inline]
    pub(super) fn push_at(&mut self, row: usize, arrival_ns: Option<i64>) {
        if let Some(arrival_ns) = arrival_ns {
            self.0.resize(row, UNKNOWN);
            self.0.push(arrival_ns);
        }
    }

    /// Returns whether no row has one.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the arrival of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        self.0.get(row).copied().filter(|arrival_ns| *arrival_ns != UNKNOWN)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(&self.0)
    }

    pub(super) fn emptied(self) -> Self {
        Self(emptied(self.0))
    }
}
