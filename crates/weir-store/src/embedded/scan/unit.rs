//! Pieces of work: a row group of a segment, or a chunk of the head.

use std::sync::Arc;

use crate::embedded::segment::{Fixed, MinMax, Role};
use crate::embedded::snapshot::{HeadChunk, OpenSegment, Snapshot};
use crate::limits::PAGE_ROWS;
use crate::query::TimeRange;

/// Where the rows are.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Group { segment: Arc<OpenSegment>, group: usize },
    Head(Arc<HeadChunk>),
}

/// A piece of work.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) place: Place,
    pub(super) rows: usize,
    /// Earliest and latest time of its rows, nanoseconds since 1970; of the head anything.
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
}

impl Unit {
    /// The pieces that may have rows of the range, the latest first.
    pub(super) fn of(snapshot: &Snapshot, range: TimeRange) -> Vec<Self> {
        let mut units: Vec<Self> = snapshot
            .chunks
            .iter()
            .filter(|(_, rows)| *rows > 0)
            .map(|(chunk, rows)| Self::of_head(chunk, *rows))
            .collect();
        for segment in &snapshot.segments {
            let groups = 0..segment.segment.group_count();
            units.extend(groups.filter_map(|group| Self::of_group(segment, group)));
        }
        units.retain(|unit| range.overlaps(unit.first_ns, unit.last_ns));
        units.sort_by_key(|unit| std::cmp::Reverse((unit.last_ns, unit.first_ns)));
        units
    }

    fn of_head(chunk: &Arc<HeadChunk>, rows: usize) -> Self {
        let times = chunk.read();
        let times = times.time_ns.get(..rows).unwrap_or_default();
        Self {
            place: Place::Head(Arc::clone(chunk)),
            rows: times.len(),
            first_ns: times.iter().copied().min().unwrap_or(i64::MAX),
            last_ns: times.iter().copied().max().unwrap_or(i64::MIN),
        }
    }

    fn of_group(segment: &Arc<OpenSegment>, group: usize) -> Option<Self> {
        let rows = segment.segment.group_rows(group);
        let times = page_times(segment, group)?;
        Some(Self {
            place: Place::Group { segment: Arc::clone(segment), group },
            rows,
            first_ns: times.iter().map(|(first, _)| *first).min()?,
            last_ns: times.iter().map(|(_, last)| *last).max()?,
        })
    }

    /// Its number among some units.
    pub(super) fn number_of(units: &[Self], unit: &Self) -> usize {
        let is_it = |known: &Self| match (&known.place, &unit.place) {
            (Place::Group { segment: a, group: b }, Place::Group { segment: c, group: d }) => {
                Arc::ptr_eq(a, c) && b == d
            }
            (Place::Head(a), Place::Head(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        units.iter().position(is_it).unwrap_or_default()
    }

    /// Its pages.
    pub(super) fn page_count(&self) -> usize {
        self.rows.div_ceil(PAGE_ROWS)
    }

    /// Rows of a page.
    pub(super) fn page_rows(&self, page: usize) -> usize {
        self.rows.saturating_sub(page * PAGE_ROWS).min(PAGE_ROWS)
    }

    /// Earliest and latest time of each page, as far as they are known.
    pub(super) fn page_times(&self) -> Vec<(i64, i64)> {
        match &self.place {
            Place::Group { segment, group } => page_times(segment, *group),
            Place::Head(_) => None,
        }
        .unwrap_or_else(|| vec![(self.first_ns, self.last_ns); self.page_count()])
    }

    /// The name of its segment, for messages.
    pub(super) fn name(&self) -> String {
        match &self.place {
            Place::Group { segment, .. } => segment.name.clone(),
            Place::Head(_) => "the head".to_owned(),
        }
    }
}

/// Times of the pages of a row group; `None` when it has no rows.
fn page_times(segment: &OpenSegment, group: usize) -> Option<Vec<(i64, i64)>> {
    let time = segment.segment.column(&Role::Fixed(Fixed::Time))?;
    let ranges = segment.segment.chunk(group, time)?.ranges();
    let pages = segment.segment.page_count(group);
    let Some(ranges) = ranges else { return Some(vec![(i64::MIN, i64::MAX); pages]) };
    let times = ranges.iter().map(|range| match range {
        Some(MinMax::Int(first, last)) => (*first, *last),
        _ => (i64::MIN, i64::MAX),
    });
    (pages > 0).then(|| times.collect())
}
