//! Units of work: a row group of a segment, or a chunk of the head.

use std::sync::Arc;

use crate::embedded::columns::StoredRecord;
use crate::embedded::read::snapshot::{HeadChunk, OpenSegment, Snapshot};
use crate::embedded::segment::{ChunkInfo, Fixed, MinMax, Role};
use crate::limits::PAGE_ROWS;
use crate::query::TimeRange;

/// The location of the rows.
#[derive(Debug, Clone)]
pub(super) enum RowLocation {
    Group { segment: Arc<OpenSegment>, group: usize },
    Head(Arc<HeadChunk>),
}

/// A unit of work.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) location: RowLocation,
    pub(super) rows: usize,
    /// Earliest and latest time of its rows, nanoseconds since 1970.
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// Earliest and latest time of each page; the full range of times where it is not known.
    pub(super) page_times: Arc<[(i64, i64)]>,
}

impl Unit {
    /// Returns the units that may have rows in the range, latest first.
    pub(super) fn of(snapshot: &Snapshot, range: TimeRange) -> Vec<Self> {
        let mut units: Vec<Self> = snapshot
            .chunks
            .iter()
            .filter_map(|(chunk, rows)| Self::of_head(chunk, *rows))
            .collect();
        for segment in &snapshot.segments {
            let groups = 0..segment.segment.group_count();
            units.extend(groups.filter_map(|group| Self::of_group(segment, group)));
        }
        units.retain(|unit| range.overlaps(unit.first_ns, unit.last_ns));
        units.sort_by_key(|unit| std::cmp::Reverse((unit.last_ns, unit.first_ns)));
        units
    }

    fn of_head(chunk: &Arc<HeadChunk>, rows: usize) -> Option<Self> {
        let of_page = |times: &[i64]| Some((*times.iter().min()?, *times.iter().max()?));
        let read = chunk.read();
        let times = read.time_ns.get(..rows)?;
        let page_times = times.chunks(PAGE_ROWS).filter_map(of_page).collect();
        Self::new(RowLocation::Head(Arc::clone(chunk)), rows, page_times)
    }

    fn of_group(segment: &Arc<OpenSegment>, group: usize) -> Option<Self> {
        let time = segment.segment.column(&Role::Fixed(Fixed::Time))?;
        let of_page = |range: &Option<MinMax>| match range {
            Some(MinMax::Int(first, last)) => (*first, *last),
            _ => (i64::MIN, i64::MAX),
        };
        let page_times = match segment.segment.chunk(group, time)?.ranges() {
            Some(ranges) => ranges.iter().map(of_page).collect(),
            None => (0..segment.segment.page_count(group)).map(|_| (i64::MIN, i64::MAX)).collect(),
        };
        let location = RowLocation::Group { segment: Arc::clone(segment), group };
        Self::new(location, segment.segment.group_rows(group), page_times)
    }

    /// Creates a unit; `None` when there are no rows.
    fn new(location: RowLocation, rows: usize, page_times: Arc<[(i64, i64)]>) -> Option<Self> {
        let first_ns = page_times.iter().map(|(first, _)| *first).min()?;
        let last_ns = page_times.iter().map(|(_, last)| *last).max()?;
        Some(Self { location, rows, first_ns, last_ns, page_times })
    }

    /// Returns the earliest and latest time of its rows.
    pub(super) fn times(&self) -> (i64, i64) {
        (self.first_ns, self.last_ns)
    }

    /// Returns the first and last sequence of its rows; `None` when they are not known.
    pub(super) fn sequences(&self) -> Option<(u64, u64)> {
        match &self.location {
            RowLocation::Group { segment, group } => {
                let (first, last) = segment.segment.group_range(Fixed::Sequence, *group)?;
                Some((first.cast_unsigned(), last.cast_unsigned()))
            }
            // Rows of the head are added in that order.
            RowLocation::Head(chunk) => {
                let read = chunk.read();
                let sequences = read.sequence.get(..self.rows)?;
                Some((*sequences.first()?, *sequences.last()?))
            }
        }
    }

    /// Returns the number of its pages.
    pub(super) fn page_count(&self) -> usize {
        self.rows.div_ceil(PAGE_ROWS)
    }

    /// Returns the number of rows of a page.
    pub(super) fn page_rows(&self, page: usize) -> usize {
        self.rows.saturating_sub(page * PAGE_ROWS).min(PAGE_ROWS)
    }

    /// Returns the approximate size of one of its rows as a record, in bytes.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = match &self.location {
            RowLocation::Group { segment, group } => {
                let segment = &segment.segment;
                let chunks = 0..segment.columns().len();
                let chunks = chunks.filter_map(|column| segment.chunk(*group, column));
                chunks.map(ChunkInfo::plain_bytes).sum::<u64>() as usize
            }
            RowLocation::Head(chunk) => chunk.read().memory_bytes(),
        };
        size_of::<StoredRecord>() + bytes / self.rows.max(1)
    }

    /// Returns the name of its segment, for messages.
    pub(super) fn name(&self) -> String {
        match &self.location {
            RowLocation::Group { segment, .. } => segment.name.clone(),
            RowLocation::Head(_) => "the head".to_owned(),
        }
    }
}
