//! Questions.

use weir_expr::{Expr, Field, NamedMeasure};
use weir_host::Zone;
use weir_model::{Position, StreamId};

/// What the one who asks may see: it is part of every plan, not a check of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    only: Option<Expr>,
}

impl Access {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Records that the expression describes.
    pub fn only(expr: Expr) -> Self {
        Self { only: Some(expr) }
    }

    /// What records must match beside the query; `None` = nothing.
    pub fn restriction(&self) -> Option<&Expr> {
        self.only.as_ref()
    }
}

/// Times from `from_ns` on and before `to_ns`, nanoseconds since 1970. A range up to [`Self::END`]
/// has no end: that is also the time of all records that say a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// The first time.
    pub from_ns: i64,
    /// Behind the last time, or [`Self::END`].
    pub to_ns: i64,
}

impl TimeRange {
    /// The last time that can be expressed, 2262-04-11T23:47:16.854775807Z.
    pub const END: i64 = i64::MAX;

    /// Every time.
    pub const ALL: Self = Self { from_ns: i64::MIN, to_ns: Self::END };

    /// Whether no time is in the range.
    pub fn is_empty(self) -> bool {
        !self.ends_behind(self.from_ns)
    }

    /// Whether the time is in the range.
    pub fn contains(self, time_ns: i64) -> bool {
        self.from_ns <= time_ns && self.ends_behind(time_ns)
    }

    /// Whether some time from `first_ns` to `last_ns`, ends included, is in the range.
    pub fn overlaps(self, first_ns: i64, last_ns: i64) -> bool {
        self.from_ns <= last_ns && self.ends_behind(first_ns)
    }

    /// Whether some time is in both ranges.
    pub fn meets(self, other: Self) -> bool {
        self.ends_behind(other.from_ns) && other.ends_behind(self.from_ns)
    }

    fn ends_behind(self, time_ns: i64) -> bool {
        time_ns < self.to_ns || self.to_ns == Self::END
    }
}

/// Which records.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// What they match.
    pub query: Expr,
    /// When they happened.
    pub range: TimeRange,
    /// What may be seen.
    pub access: Access,
    /// Attributes that are computed, for the query and for whatever is asked of the records.
    pub measures: Vec<NamedMeasure>,
}

impl Filter {
    /// All records that may be seen.
    pub fn all(access: Access) -> Self {
        Self { query: Expr::all(), range: TimeRange::ALL, access, measures: Vec::new() }
    }
}

/// Which records come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The latest.
    #[default]
    NewestFirst,
    /// The earliest.
    OldestFirst,
}

/// A place in the order of records: of two at the same time the one with the lower sequence is the
/// earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// Time of the record, nanoseconds since 1970.
    pub time_ns: i64,
    /// Its number in the order in which the store took records in.
    pub sequence: u64,
}

/// What a record is called for ever: its stream and position, which do not change when a file is
/// read again, and its time, by which it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordId {
    /// Time of the record, nanoseconds since 1970.
    pub time_ns: i64,
    /// The stream.
    pub stream: StreamId,
    /// The place in the stream after the record.
    pub position: Position,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// Which records.
    pub filter: Filter,
    /// Which come first.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
    /// Those that come after this one in the order: [`super::SearchPage::next`] of the page before.
    pub after: Option<PageKey>,
}

/// The records around one, in its stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextRequest {
    /// The record.
    pub id: RecordId,
    /// How many before it at most.
    pub before: usize,
    /// How many behind it at most.
    pub after: usize,
    /// What may be seen.
    pub access: Access,
}

/// What is computed from the values of a field, or from records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregation {
    /// Records; with a field, its values.
    Count,
    /// Distinct values, about (1.6 %; exact for few).
    Cardinality,
    /// Of the numbers.
    Sum,
    /// Of the numbers.
    Average,
    /// Of the numbers.
    Min,
    /// Of the numbers.
    Max,
    /// Of the numbers, 0 to 100; of more than a few with a relative error of 1 %.
    Percentile(f64),
}

/// One figure of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Compute {
    /// Which figure.
    pub aggregation: Aggregation,
    /// Of which field; `None` only for [`Aggregation::Count`].
    pub field: Option<Field>,
    /// A figure for each stretch of so many nanoseconds instead of one, as clocks of the zone that
    /// is asked for show them: [`Zone::begin_of`].
    pub interval_ns: Option<i64>,
}

/// How the values of a field are put together to groups by their size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupHistogram {
    /// Width of a group.
    pub interval: f64,
    /// Smallest value that is counted.
    pub min: f64,
    /// Largest value that is counted.
    pub max: f64,
}

/// By what groups are ordered before those beyond the limit are left out.
#[derive(Debug, Clone, PartialEq)]
pub enum SortBy {
    /// The value of the field.
    Value,
    /// A figure, which need not be one of those that were asked for.
    Figure(Compute),
}

/// The order of groups.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSort {
    /// By what.
    pub by: SortBy,
    /// The largest first.
    pub descending: bool,
}

/// A field by whose values records are grouped. A record that has several is in several groups.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupBy {
    /// The field.
    pub field: Field,
    /// How many of its values at most.
    pub limit: usize,
    /// Which of them.
    pub sort: GroupSort,
    /// Groups of numbers that are close to each other.
    pub histogram: Option<GroupHistogram>,
    /// The group of records that have no value; `None` = they are left out.
    pub missing: Option<String>,
    /// One more group of all records that are in any.
    pub total: Option<String>,
}

impl GroupBy {
    /// The groups with most records.
    pub fn top(field: Field, limit: usize) -> Self {
        let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
        let sort = GroupSort { by: SortBy::Figure(count), descending: true };
        Self { field, limit, sort, histogram: None, missing: None, total: None }
    }
}

/// Figures of groups of records.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateRequest {
    /// Which records.
    pub filter: Filter,
    /// Which figures.
    pub computes: Vec<Compute>,
    /// The groups; without any there is one of all records.
    pub group_by: Vec<GroupBy>,
    /// Where stretches of time begin.
    pub zone: Zone,
}

/// Messages that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternsRequest {
    /// Which records.
    pub filter: Filter,
    /// How many patterns at most, those of most records.
    pub limit: usize,
}

/// What fields records have, with their most common values.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetsRequest {
    /// Which records.
    pub filter: Filter,
    /// Which fields; empty = those that most records have.
    pub fields: Vec<Field>,
    /// How many fields at most.
    pub limit: usize,
    /// How many values of each at most.
    pub values: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_without_an_end_has_the_last_time() {
        let range = |from_ns, to_ns| TimeRange { from_ns, to_ns };
        for endless in [TimeRange::ALL, range(5, TimeRange::END), range(i64::MAX, TimeRange::END)] {
            assert!(endless.contains(i64::MAX) && endless.overlaps(i64::MAX, i64::MAX));
            assert!(endless.meets(TimeRange::ALL) && TimeRange::ALL.meets(endless));
            assert!(!endless.is_empty());
        }
        let ends = range(5, i64::MAX - 1);
        assert!(ends.contains(5) && ends.contains(i64::MAX - 2) && !ends.contains(i64::MAX - 1));
        assert!(!ends.contains(i64::MAX) && !ends.overlaps(i64::MAX - 1, i64::MAX));
        assert!(!ends.meets(range(i64::MAX, TimeRange::END)) && !range(7, 9).meets(range(9, 12)));
        assert!(range(5, 5).is_empty() && range(6, 5).is_empty() && !ends.is_empty());
    }
}
