//! Requests to a store.

use weir_expr::{CalculatedField, Expr, ExprKind, Field, Units};
use weir_host::Zone;
use weir_model::{Kinds, Position, StreamId};

/// What the requester may see: it is part of every plan, not a check of the result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    only: Option<Expr>,
}

impl Access {
    /// Access to all records.
    pub fn all() -> Self {
        Self::default()
    }

    /// Access to the records that match the expression.
    pub fn only(expr: Expr) -> Self {
        Self { only: Some(expr) }
    }

    /// Returns the expression that records must match in addition to the query; `None` = no
    /// restriction.
    pub fn restriction(&self) -> Option<&Expr> {
        self.only.as_ref()
    }
}

/// Times from `from_ns` (inclusive) to `to_ns` (exclusive), nanoseconds since 1970. A range up to
/// [`Self::END`] is unbounded: later times are stored as that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Start of the range (inclusive).
    pub from_ns: i64,
    /// End of the range (exclusive), or [`Self::END`].
    pub to_ns: i64,
}

impl TimeRange {
    /// The latest time that can be represented, 2262-04-11T23:47:16.854775807Z.
    pub const END: i64 = i64::MAX;

    /// All times.
    pub const ALL: Self = Self { from_ns: i64::MIN, to_ns: Self::END };

    /// Returns whether the range contains no time.
    pub fn is_empty(self) -> bool {
        !self.ends_after(self.from_ns)
    }

    /// Returns whether the range contains the time.
    pub fn contains(self, time_ns: i64) -> bool {
        self.from_ns <= time_ns && self.ends_after(time_ns)
    }

    /// Returns whether the range contains some time from `first_ns` to `last_ns`, inclusive.
    pub fn overlaps(self, first_ns: i64, last_ns: i64) -> bool {
        self.from_ns <= last_ns && self.ends_after(first_ns)
    }

    /// Returns whether some time is in both ranges.
    pub fn intersects(self, other: Self) -> bool {
        self.ends_after(other.from_ns) && other.ends_after(self.from_ns)
    }

    fn ends_after(self, time_ns: i64) -> bool {
        time_ns < self.to_ns || self.to_ns == Self::END
    }
}

/// Selects records.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The query that they match.
    pub query: Expr,
    /// The time range of the records.
    pub range: TimeRange,
    /// What the requester may see.
    pub access: Access,
    /// Calculated fields, for use in the query and in everything else requested.
    pub calculated_fields: Vec<CalculatedField>,
    /// The units of attributes; a store with units of its own uses those.
    pub units: Units,
}

impl Filter {
    /// Selects all records that may be seen.
    pub fn all(access: Access) -> Self {
        Self {
            query: Expr::all(),
            range: TimeRange::ALL,
            access,
            calculated_fields: Vec::new(),
            units: Units::default(),
        }
    }
}

/// The order of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Latest first.
    #[default]
    NewestFirst,
    /// Earliest first.
    OldestFirst,
}

/// A position in the order of records: of two records with the same time, the one with the lower
/// sequence is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// Time of the record, nanoseconds since 1970.
    pub time_ns: i64,
    /// Sequence number in the order in which the store took records in.
    pub sequence: u64,
}

/// The permanent identity of a record: its stream and position, which do not change when a file is
/// read again, and its time, by which it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordId {
    /// Time of the record, nanoseconds since 1970.
    pub time_ns: i64,
    /// The stream.
    pub stream: StreamId,
    /// The position in the stream after the record.
    pub position: Position,
}

/// Requests a page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// Which records.
    pub filter: Filter,
    /// Which of them come first.
    pub order: Order,
    /// Maximum number of records.
    pub limit: usize,
    /// The page starts after this record in the order: [`super::SearchPage::next`] of the previous
    /// page.
    pub after: Option<PageKey>,
}

/// Requests a page of records of one service in the form in which they were received.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedRequest {
    /// The service; records without one count as those of the service with the name of their
    /// source.
    pub service: String,
    /// Which of its records.
    pub search: SearchRequest,
    /// Only those of these kinds.
    pub kinds: Kinds,
}

/// Requests the services of which records are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicesRequest {
    /// What the requester may see.
    pub access: Access,
    /// Maximum number of services.
    pub limit: usize,
}

/// Requests the records around a given one in its stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextRequest {
    /// The record.
    pub id: RecordId,
    /// Maximum number of records before it.
    pub before: usize,
    /// Maximum number of records after it.
    pub after: usize,
    /// What the requester may see.
    pub access: Access,
}

macro_rules! aggregations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What is computed from the values of a field, or from records.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Aggregation {
            $($(#[$doc])* $variant,)*
            /// Percentile of the numbers, 0 to 100; for more than a few, with a relative error of
            /// 1 %.
            Percentile(f64),
        }

        impl Aggregation {
            /// Those that have a name, which is all but most percentiles, in the order of the
            /// documentation.
            pub const NAMED: &'static [(&'static str, Self)] =
                &[$(($name, Self::$variant),)* ("median", Self::Percentile(50.0))];
        }
    };
}

aggregations! {
    /// Number of records; with a field, number of its values.
    Count = "count",
    /// Approximate number of distinct values (1.6 %; exact for few).
    Cardinality = "cardinality",
    /// Sum of the numbers.
    Sum = "sum",
    /// Average of the numbers.
    Average = "avg",
    /// Minimum of the numbers.
    Min = "min",
    /// Maximum of the numbers.
    Max = "max",
}

impl Aggregation {
    /// Returns whether the result is a number of things, not a value in the unit of the field.
    pub fn is_count(self) -> bool {
        match self {
            Self::Count | Self::Cardinality => true,
            Self::Sum | Self::Average | Self::Min | Self::Max | Self::Percentile(_) => false,
        }
    }
}

/// One aggregate of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Compute {
    /// The function.
    pub aggregation: Aggregation,
    /// The field; `None` only for [`Aggregation::Count`].
    pub field: Option<Field>,
    /// Length of the intervals in nanoseconds, if an aggregate is requested for each instead of a
    /// single one. They are aligned to the clock of the requested time zone: [`Zone::begin_of`].
    pub interval_ns: Option<i64>,
}

/// How the values of a field are grouped by size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupHistogram {
    /// Width of a group.
    pub interval: f64,
    /// Smallest value that is included.
    pub min: f64,
    /// Largest value that is included.
    pub max: f64,
}

/// How groups are ordered before the limit is applied.
#[derive(Debug, Clone, PartialEq)]
pub enum SortBy {
    /// By the value of the field.
    Value,
    /// By an aggregate, which need not be one of those requested.
    Aggregate(Compute),
}

/// The order of groups.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSort {
    /// The sort key.
    pub by: SortBy,
    /// Largest first.
    pub descending: bool,
}

/// A field by whose values records are grouped. A record with several values is in several groups.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupBy {
    /// The field.
    pub field: Field,
    /// Maximum number of its values.
    pub limit: usize,
    /// Which of them are kept.
    pub sort: GroupSort,
    /// Groups numbers into steps.
    pub histogram: Option<GroupHistogram>,
    /// The name of the group of records without a value; `None` = they are left out.
    pub missing: Option<String>,
    /// The name of an additional group of all records that are in any group.
    pub total: Option<String>,
}

impl GroupBy {
    /// Groups by a field, with the largest groups first.
    pub fn top(field: Field, limit: usize) -> Self {
        let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
        let sort = GroupSort { by: SortBy::Aggregate(count), descending: true };
        Self { field, limit, sort, histogram: None, missing: None, total: None }
    }
}

/// Requests aggregates of groups of records.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateRequest {
    /// Which records.
    pub filter: Filter,
    /// The aggregates.
    pub computes: Vec<Compute>,
    /// The fields to group by; without any there is a single group of all records.
    pub group_by: Vec<GroupBy>,
    /// The time zone that intervals are aligned to.
    pub zone: Zone,
}

/// Requests the patterns of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternsRequest {
    /// Which records.
    pub filter: Filter,
    /// Maximum number of patterns; the most frequent ones are kept.
    pub limit: usize,
}

/// Requests the deletion of the records of a range that match a query.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletionRequest {
    /// The query that the records match.
    pub query: Expr,
    /// The time range of the records.
    pub range: TimeRange,
    /// What the requester may see: only that is deleted.
    pub access: Access,
}

impl DeletionRequest {
    /// Returns the query of the records to delete: those that match and that the requester may see.
    pub(crate) fn visible_query(&self) -> Expr {
        match self.access.restriction() {
            Some(only) => Expr::new(ExprKind::And(vec![self.query.clone(), only.clone()])),
            None => self.query.clone(),
        }
    }
}

/// Requests the fields of records, with their most common values.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetsRequest {
    /// Which records.
    pub filter: Filter,
    /// The fields; empty = the most common ones.
    pub fields: Vec<Field>,
    /// Maximum number of fields.
    pub limit: usize,
    /// Maximum number of values of each field.
    pub values: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbounded_range_contains_the_last_time() {
        let range = |from_ns, to_ns| TimeRange { from_ns, to_ns };
        for endless in [TimeRange::ALL, range(5, TimeRange::END), range(i64::MAX, TimeRange::END)] {
            assert!(endless.contains(i64::MAX) && endless.overlaps(i64::MAX, i64::MAX));
            assert!(endless.intersects(TimeRange::ALL) && TimeRange::ALL.intersects(endless));
            assert!(!endless.is_empty());
        }
        let ends = range(5, i64::MAX - 1);
        assert!(ends.contains(5) && ends.contains(i64::MAX - 2) && !ends.contains(i64::MAX - 1));
        assert!(!ends.contains(i64::MAX) && !ends.overlaps(i64::MAX - 1, i64::MAX));
        assert!(
            !ends.intersects(range(i64::MAX, TimeRange::END))
                && !range(7, 9).intersects(range(9, 12))
        );
        assert!(range(5, 5).is_empty() && range(6, 5).is_empty() && !ends.is_empty());
    }
}
