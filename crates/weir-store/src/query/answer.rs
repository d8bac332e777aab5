//! Answers.

use std::cmp::Ordering;

use super::request::PageKey;
use crate::embedded::columns::{AttributeValue, StoredRecord};

/// What was read for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scanned {
    /// Parts that were looked into: row groups of segments, and chunks of what is not in a segment
    /// yet. What they cannot hold by their time is not among them.
    pub parts: u64,
    /// Rows that were looked at.
    pub rows: u64,
    /// Pages that were read.
    pub pages: u64,
    /// Pages that did not have to be read, by what is known about them.
    pub pages_pruned: u64,
    /// Bytes of pages, decompressed.
    pub bytes: u64,
}

impl Scanned {
    /// Adds what another part of the work has read.
    pub fn add(&mut self, other: Self) {
        self.parts += other.parts;
        self.rows += other.rows;
        self.pages += other.pages;
        self.pages_pruned += other.pages_pruned;
        self.bytes += other.bytes;
    }
}

/// Why an answer is not the whole one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// The time was up.
    Deadline,
    /// It would have needed more memory than a query may have.
    Memory,
    /// The store still takes in what was received before it started.
    CatchingUp,
    /// Segments are damaged and were passed over.
    Damaged {
        /// Names of the segments.
        segments: Vec<String>,
    },
}

/// What an answer rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// What was read.
    pub scanned: Scanned,
    /// Why it is not the whole answer; empty = it is.
    pub shortfalls: Vec<Shortfall>,
    /// Fields that were named and that no record has: probably misspelt.
    pub unknown_fields: Vec<String>,
}

impl Coverage {
    /// That of two looks at the same snapshot.
    pub(crate) fn add(&mut self, other: Self) {
        self.scanned.add(other.scanned);
        for shortfall in other.shortfalls {
            let kind = std::mem::discriminant(&shortfall);
            let known = self.shortfalls.iter_mut().find(|k| std::mem::discriminant(*k) == kind);
            match (known, shortfall) {
                (
                    Some(Shortfall::Damaged { segments: known }),
                    Shortfall::Damaged { mut segments },
                ) => {
                    segments.retain(|segment| !known.contains(segment));
                    known.append(&mut segments);
                }
                (Some(_), _) => {}
                (None, shortfall) => self.shortfalls.push(shortfall),
            }
        }
        self.unknown_fields.extend(other.unknown_fields);
    }

    /// The answer is not the whole one.
    pub fn is_partial(&self) -> bool {
        !self.shortfalls.is_empty()
    }
}

/// Records in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchPage {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Where the next page begins; `None` = there is none.
    pub next: Option<PageKey>,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// A record with those around it in its stream, in the order of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordContext {
    /// Those before it.
    pub before: Vec<StoredRecord>,
    /// The record.
    pub record: StoredRecord,
    /// Those behind it.
    pub after: Vec<StoredRecord>,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// What one of the fields of a group has in common.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupKey {
    /// This value.
    Value(AttributeValue),
    /// Numbers from here on, of one step of a [`super::GroupHistogram`].
    From(f64),
    /// They have none: what the request calls it.
    Missing(String),
    /// All groups together: what the request calls it.
    Total(String),
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub enum ComputeValue {
    /// There is none: no record has a number there.
    None,
    /// How many.
    Count(u64),
    /// A number.
    Number(f64),
    /// For each stretch of time in which there are records its beginning (nanoseconds since 1970)
    /// and figure, in order.
    Series(Vec<(i64, ComputeValue)>),
}

/// Figures of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// One for each field of the request.
    pub by: Vec<GroupKey>,
    /// One for each figure of the request.
    pub computes: Vec<ComputeValue>,
}

/// Figures of groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregate {
    /// The groups, in the order that was asked for.
    pub buckets: Vec<Bucket>,
    /// Records that match.
    pub matched: u64,
    /// Those that are in a group; the others have no value of a field.
    pub grouped: u64,
    /// Groups are missing of which there were too many to count.
    pub is_approximate: bool,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueType {
    /// True or false.
    Bool,
    /// Numbers.
    Number,
    /// Texts, and numbers among them.
    Text,
}

/// A field that records have.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldInfo {
    /// As it is written in an expression (`service`, `@http.status_code`).
    pub name: String,
    /// What its values are.
    pub value_type: ValueType,
    /// Row groups of segments and chunks of the head in which it has values: how common it is.
    pub parts: u64,
}

/// Fields that records have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldList {
    /// The most common first.
    pub fields: Vec<FieldInfo>,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// A field of some records, with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// The field, as it is written in an expression.
    pub name: String,
    /// What its values are.
    pub value_type: ValueType,
    /// Records that have it.
    pub records: u64,
    /// How many values it has; `None` when there were too many to count each: then `values` are
    /// the most common ones, with counts that may be too low, or none when hardly one repeats.
    pub distinct: Option<u64>,
    /// Values and in how many records each is, the most common first.
    pub values: Vec<(AttributeValue, u64)>,
    /// The least and the greatest, where values are numbers; in the unit of the field.
    pub range: Option<(f64, f64)>,
}

/// Fields of some records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facets {
    /// Those that most records have first.
    pub facets: Vec<Facet>,
    /// Fields that records have beside, as far as they were looked at.
    pub left_out: u64,
    /// Records that match.
    pub matched: u64,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// Messages that differ in numbers and identifiers only.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// The words that they share, `*` for what differs.
    pub template: String,
    /// How many records.
    pub count: u64,
    /// Some of them.
    pub examples: Vec<StoredRecord>,
}

/// Messages by what they have in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patterns {
    /// Those of most records first.
    pub patterns: Vec<Pattern>,
    /// Records that match, also those of patterns that were left out.
    pub matched: u64,
    /// There were more templates than fit into memory: rare ones are missing, and counts of others
    /// may be too low.
    pub is_approximate: bool,
    /// What the answer rests on.
    pub coverage: Coverage,
}

/// The order of groups by their value: numbers by size, then texts, then those without a value.
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

/// What a figure counts for when groups are ordered by it; `None` when there is none.
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

/// The order of figures; those that are none come last in either direction.
pub(crate) fn compare_ranks(a: Option<f64>, b: Option<f64>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
