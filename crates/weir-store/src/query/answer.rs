//! Results of queries.

use std::cmp::Ordering;

use super::request::PageKey;
use crate::embedded::columns::{AttributeValue, StoredRecord};

/// What was read for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanStats {
    /// Number of parts that were searched: row groups of segments, and chunks of what is not in a
    /// segment yet. Parts whose times are outside the range are not included.
    pub parts: u64,
    /// Number of rows that were examined.
    pub rows: u64,
    /// Number of pages that were read.
    pub pages: u64,
    /// Number of pages that were skipped because of what is known about them.
    pub pages_pruned: u64,
    /// Size of the pages read, decompressed, in bytes.
    pub bytes: u64,
}

impl ScanStats {
    /// Adds what another part of the work has read.
    pub fn add(&mut self, other: Self) {
        self.parts += other.parts;
        self.rows += other.rows;
        self.pages += other.pages;
        self.pages_pruned += other.pages_pruned;
        self.bytes += other.bytes;
    }
}

/// Reasons why a result is partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartialReason {
    /// The time limit was reached.
    Deadline,
    /// The memory limit of a query was reached.
    Memory,
    /// The store is still taking in what was received before it started.
    CatchingUp,
    /// Damaged segments were skipped.
    Damaged {
        /// Names of the segments.
        segments: Vec<String>,
    },
}

/// How complete a result is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// What was read. Nothing if the reader may not see all records: how much was read depends on
    /// the others, too.
    pub scanned: ScanStats,
    /// Why the result is partial; empty = it is complete.
    pub partial_reasons: Vec<PartialReason>,
    /// Fields that were named and that no record has: probably misspelt.
    pub unknown_fields: Vec<String>,
}

impl Coverage {
    /// Combines it with that of another scan of the same snapshot.
    pub(crate) fn add(&mut self, other: Self) {
        self.scanned.add(other.scanned);
        for reason in other.partial_reasons {
            let kind = std::mem::discriminant(&reason);
            let known =
                self.partial_reasons.iter_mut().find(|k| std::mem::discriminant(*k) == kind);
            match (known, reason) {
                (
                    Some(PartialReason::Damaged { segments: known }),
                    PartialReason::Damaged { mut segments },
                ) => {
                    segments.retain(|segment| !known.contains(segment));
                    known.append(&mut segments);
                }
                (Some(_), _) => {}
                (None, reason) => self.partial_reasons.push(reason),
            }
        }
        self.unknown_fields.extend(other.unknown_fields);
    }

    /// Returns whether the result is partial.
    pub fn is_partial(&self) -> bool {
        !self.partial_reasons.is_empty()
    }
}

/// Records, in the requested order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchPage {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Where the next page begins; `None` = this is the last page.
    pub next: Option<PageKey>,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// The records of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceSpan {
    /// Its name; of records without a service, that of their source.
    pub name: String,
    /// Number of records.
    pub rows: u64,
    /// Time of the earliest, nanoseconds since 1970.
    pub first_ns: i64,
    /// Time of the latest, nanoseconds since 1970.
    pub last_ns: i64,
}

/// The services of which records are stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Services {
    /// Services by name.
    pub spans: Vec<ServiceSpan>,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// A record with those around it in its stream, in stream order.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordContext {
    /// The records before it.
    pub before: Vec<StoredRecord>,
    /// The record.
    pub record: StoredRecord,
    /// The records after it.
    pub after: Vec<StoredRecord>,
    /// Where the record is kept.
    pub kept: Kept,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// Where a stored record is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In memory so far: the store has not acknowledged it to the journal yet.
    InMemory,
    /// In a segment.
    InSegment {
        /// When it was written to its first segment, nanoseconds since 1970; `None` if the segment
        /// does not state it.
        stored_ns: Option<i64>,
        /// Its segment was merged from several: that was the last of them, and it may have been
        /// written earlier.
        is_merged: bool,
    },
}

/// The common value of one of the fields of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupKey {
    /// This value.
    Value(AttributeValue),
    /// Numbers from this one on, within one step of a [`super::GroupHistogram`].
    From(f64),
    /// They have no value; the name given in the request.
    Missing(String),
    /// All groups together; the name given in the request.
    Total(String),
}

/// An aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum ComputeValue {
    /// No value: no record has a number there.
    None,
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// For each interval that contains records: its start (nanoseconds since 1970) and aggregate,
    /// in order.
    Series(Vec<(i64, ComputeValue)>),
}

/// Aggregates of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// One for each field of the request.
    pub by: Vec<GroupKey>,
    /// One for each aggregate of the request.
    pub computes: Vec<ComputeValue>,
}

/// Aggregates of groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregate {
    /// The groups, in the requested order.
    pub buckets: Vec<Bucket>,
    /// Number of matching records.
    pub matched: u64,
    /// Number of records in a group; the others lack a value of a field.
    pub grouped: u64,
    /// Some groups are missing, because there were too many to count.
    pub is_approximate: bool,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueType {
    /// Booleans.
    Bool,
    /// Numbers.
    Number,
    /// Texts, possibly with numbers among them.
    Text,
}

/// A field that records have.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldInfo {
    /// Its name as written in an expression (`service`, `@http.status_code`).
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Number of row groups of segments and chunks of the head in which it has values: how common
    /// it is.
    pub parts: u64,
}

/// Fields that records have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldList {
    /// The most common first.
    pub fields: Vec<FieldInfo>,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// A field of some records, with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// The field, as written in an expression.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Number of records that have it.
    pub records: u64,
    /// Number of distinct values; `None` when there were too many to count each: then `values` are
    /// the most common ones, with counts that may be too low, or empty when hardly one repeats.
    pub distinct: Option<u64>,
    /// Values with the number of records that have them, the most common first.
    pub values: Vec<(AttributeValue, u64)>,
    /// The smallest and the largest number, when values are numbers; in the unit of the field.
    pub range: Option<(f64, f64)>,
}

/// Fields of some records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facets {
    /// The fields, the most common first.
    pub facets: Vec<Facet>,
    /// Number of further fields that records have, as far as they were examined.
    pub left_out: u64,
    /// Number of matching records.
    pub matched: u64,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// Messages that differ only in numbers and identifiers.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// The words that they share, with `*` in place of what differs.
    pub template: String,
    /// Number of records.
    pub count: u64,
    /// Some of the records.
    pub examples: Vec<StoredRecord>,
}

/// Messages grouped by pattern.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patterns {
    /// The patterns, the most frequent first.
    pub patterns: Vec<Pattern>,
    /// Number of matching records, including those of patterns that were left out.
    pub matched: u64,
    /// There were more templates than fit into memory: rare ones are missing, and the counts of
    /// others may be too low.
    pub is_approximate: bool,
    /// How complete the result is.
    pub coverage: Coverage,
}

/// Orders groups by value: numbers by size, then texts, then those without a value.
pub(crate) fn compare_keys(a: &GroupKey, b: &GroupKey) -> Ordering {
    let place = |key: &GroupKey| match key {
        GroupKey::From(number) => (0, *number, String::new()),
        GroupKey::Value(value) => match value {
            AttributeValue::Null => (2, 0.0, String::new()),
            AttributeValue::Bool(truth) => (1, 0.0, truth.to_string()),
            AttributeValue::Int(number) => (0, *number as f64, number.to_string()),
            AttributeValue::Float(number) => (0, *number, String::new()),
            AttributeValue::Text(text) => (1, 0.0, text.clone()),
        },
        GroupKey::Missing(_) => (3, 0.0, String::new()),
        GroupKey::Total(_) => (4, 0.0, String::new()),
    };
    let (a, b) = (place(a), place(b));
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
}

/// Returns the number by which groups are ordered for an aggregate; `None` when there is none.
pub(crate) fn rank_of(value: &ComputeValue) -> Option<f64> {
    match value {
        ComputeValue::None => None,
        ComputeValue::Count(count) => Some(*count as f64),
        ComputeValue::Number(number) => Some(*number),
        ComputeValue::Series(steps) => {
            Some(steps.iter().filter_map(|(_, value)| rank_of(value)).sum())
        }
    }
}

/// Orders aggregates; missing ones come last in either direction.
pub(crate) fn compare_ranks(a: Option<f64>, b: Option<f64>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
