//! The fields that stored records have, limited to the records that the reader may see.
//!
//! Invariant: a reader who may not see all records learns nothing about fields that only other
//! records have. A field is listed because a row that the plan finds has it, and access
//! restrictions are part of every plan. Column metadata alone is used only for row groups of which
//! the plan takes all rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_expr::{Field, LAG, Reserved};

use super::column::View;
use super::eval::Evaluator;
use super::page::Source;
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run};
use super::sources::{is_below, promoted_paths};
use super::tags::{may_have_tag, tag_keys};
use super::unit::{RowLocation, Unit};
use crate::embedded::columns::AttributeValue;
use crate::embedded::hash::FoldState;
use crate::embedded::read::snapshot::{OpenSegment, Snapshot};
use crate::embedded::segment::{ChunkInfo, Dictionary, Role, ValueKind};
use crate::embedded::sidecar::RestPaths;
use crate::limits::RARE_FIELDS_MAX;
use crate::query::{
    Access, Budget, Coverage, FieldInfo, FieldList, Filter, QueryError, TimeRange, ValueType,
};

/// Attributes found by one thread.
#[derive(Default)]
struct AttributeCollector<'a> {
    /// Only these and the paths below them; `None` = all.
    wanted: Option<&'a [String]>,
    attributes: HashMap<String, CollectedAttribute, FoldState>,
    /// How many of them have no column anywhere. The number kept of these is limited.
    rare: usize,
    /// The number of the current unit.
    unit: u64,
    /// Number of units that have rows.
    units: u64,
    is_unit_counted: bool,
}

/// An attribute that was found.
#[derive(Debug, Clone, Copy)]
struct CollectedAttribute {
    value_type: ValueType,
    /// Number of units that have it.
    units: u64,
    /// The last of those units.
    unit: u64,
    /// Minimum number of records that have it: how common it is.
    records: u64,
    /// It has a column of its own in one of them. Attributes that have none are rare, or lists.
    has_column: bool,
}

impl AttributeCollector<'_> {
    fn is_wanted(&self, path: &str) -> bool {
        self.wanted.is_none_or(|wanted| wanted.iter().any(|wanted| is_or_is_below(path, wanted)))
    }

    /// Returns whether everything that is wanted has been found.
    fn has_all(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted.iter().all(|wanted| self.has(wanted)))
    }

    fn has(&self, wanted: &str) -> bool {
        self.attributes.keys().any(|path| is_or_is_below(path, wanted))
    }

    /// Adds an attribute that has a column in the current unit.
    fn add_column(&mut self, path: &str, value_type: ValueType, records: u64) {
        self.add(path, value_type, records, true);
    }

    /// Adds an attribute that has no column.
    fn add_rest(&mut self, path: &str) {
        self.add(path, ValueType::Text, 1, false);
    }

    /// Adds `lag`, unless it is an attribute in the current unit. Every record has it, so it comes
    /// after the fields that distinguish records.
    fn add_lag(&mut self) {
        self.add_column(LAG, ValueType::Number, 0);
    }

    fn add(&mut self, path: &str, value_type: ValueType, records: u64, has_column: bool) {
        if self.is_wanted(path) && !self.is_in_unit(path) {
            let (units, unit) = (1, self.unit);
            self.add_attribute(
                path,
                CollectedAttribute { value_type, units, unit, records, has_column },
            );
        }
    }

    /// Returns whether it was already found in the current unit.
    fn is_in_unit(&self, path: &str) -> bool {
        self.attributes.get(path).is_some_and(|seen| seen.unit == self.unit)
    }

    /// Records an attribute. If its values have two types, its type is text.
    fn add_attribute(&mut self, path: &str, seen: CollectedAttribute) {
        if let Some(known) = self.attributes.get_mut(path) {
            self.rare -= usize::from(seen.has_column && !known.has_column);
            if known.value_type != seen.value_type {
                known.value_type = ValueType::Text;
            }
            known.units += seen.units;
            known.records += seen.records;
            known.unit = seen.unit;
            known.has_column |= seen.has_column;
            return;
        }
        if seen.has_column || self.wanted.is_some() || self.rare < RARE_FIELDS_MAX {
            self.rare += usize::from(!seen.has_column);
            self.attributes.insert(path.to_owned(), seen);
        }
    }

    fn count_unit(&mut self) {
        self.units += u64::from(!self.is_unit_counted);
        self.is_unit_counted = true;
    }

    fn merge(&mut self, other: Self) {
        self.units += other.units;
        for (path, seen) in other.attributes {
            self.add_attribute(&path, seen);
        }
    }
}

impl Sink for AttributeCollector<'_> {
    fn may_contribute(&self, unit: &Unit) -> bool {
        let Some(wanted) = self.wanted else { return true };
        let RowLocation::Group { segment, .. } = &unit.location else { return !self.has_all() };
        let may_have = |path: &String| has_column(segment, path) || may_be_in_rest(segment, path);
        wanted.iter().any(|path| !self.has(path) && may_have(path))
    }

    fn begin_unit(&mut self) {
        self.unit += 1;
        self.is_unit_counted = false;
    }

    fn take_unit(&mut self, unit: &Unit) -> bool {
        let RowLocation::Group { segment, group } = &unit.location else { return false };
        let Some(rest) = rest_paths(segment) else { return false };
        self.count_unit();
        for (number, column) in segment.segment.columns().iter().enumerate() {
            let Role::Attribute(path) = &column.role else { continue };
            let chunk = segment.segment.chunk(*group, number);
            let records = chunk.map_or(0, ChunkInfo::value_count);
            if records == 0 {
                continue;
            }
            let value_type = match column.kind {
                ValueKind::Bool => ValueType::Bool,
                ValueKind::Int | ValueKind::Double => ValueType::Number,
                ValueKind::Text | ValueKind::Bytes => ValueType::Text,
            };
            self.add_column(path, value_type, records);
        }
        for (path, _) in rest.iter().filter(|(_, what)| what.has_values) {
            self.add_rest(path);
        }
        let arrivals = segment.segment.column(&Role::Arrival);
        let arrivals = arrivals.and_then(|number| segment.segment.chunk(*group, number));
        if arrivals.is_some_and(|chunk| chunk.value_count() > 0) {
            self.add_lag();
        }
        true
    }

    fn narrow(&mut self, _at: &mut Evaluator, rows: RowSet) -> Result<RowSet, ScanStop> {
        Ok(if self.has_all() { RowSet::none(rows.len()) } else { rows })
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        self.count_unit();
        for path in at.reader.attribute_paths() {
            if !self.is_wanted(&path) || self.is_in_unit(&path) {
                continue;
            }
            let source = Source::Attribute(path.clone());
            let column = at.reader.column(&source)?;
            let mut present = column.present(rows.len());
            present.intersect(rows);
            if !present.is_empty() {
                self.add_column(&path, value_type(column.view()), present.count() as u64);
            }
            at.reader.forget(&source, column);
        }
        at.reader.for_each_rest(|row, path, value| {
            if value != weir_codec::Scalar::Null
                && rows.contains(row)
                && let Ok(path) = std::str::from_utf8(path)
            {
                self.add_rest(path);
            }
        })?;
        if self.is_wanted(LAG) && !self.is_in_unit(LAG) {
            let lags = at.reader.column(&Source::Lag)?;
            let mut present = lags.present(rows.len());
            present.intersect(rows);
            if !present.is_empty() {
                self.add_lag();
            }
        }
        Ok(())
    }
}

fn value_type(view: View<'_>) -> ValueType {
    let is_number =
        |value: &AttributeValue| matches!(value, AttributeValue::Int(_) | AttributeValue::Float(_));
    let is_number = match view {
        View::Bools(_) => return ValueType::Bool,
        View::Ints(_) | View::Doubles(_) => true,
        View::Texts(_) => false,
        View::Codes(_, dictionary) => !matches!(dictionary, Dictionary::Texts(_)),
        View::Picks(_, distinct) => distinct.iter().all(is_number),
    };
    if is_number { ValueType::Number } else { ValueType::Text }
}

fn is_or_is_below(path: &str, wanted: &str) -> bool {
    path == wanted || is_below(path, wanted)
}

/// Returns the paths in `_rest` of a segment; `None` when they are not known.
fn rest_paths(segment: &OpenSegment) -> Option<RestPaths> {
    if segment.segment.column(&Role::Rest).is_none() {
        return Some(RestPaths::default());
    }
    segment.sidecar.as_ref()?.rest_paths().ok()
}

fn has_column(segment: &OpenSegment, wanted: &str) -> bool {
    let is_it = |role: &Role| matches!(role, Role::Attribute(path) if is_or_is_below(path, wanted));
    segment.segment.columns().iter().any(|column| is_it(&column.role))
}

fn may_be_in_rest(segment: &OpenSegment, wanted: &str) -> bool {
    rest_paths(segment).is_none_or(|rest| {
        let mut known = rest.iter().filter(|(_, what)| what.has_values);
        !rest.is_complete() || known.any(|(path, _)| is_or_is_below(path, wanted))
    })
}

/// Returns the attributes of the rows that match the filter.
fn collect<'a>(
    snapshot: &Snapshot,
    filter: &Filter,
    wanted: Option<&'a [String]>,
    budget: &Budget,
) -> Result<(AttributeCollector<'a>, Coverage), QueryError> {
    let plan = Plan::new(filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let make = || AttributeCollector { wanted, ..AttributeCollector::default() };
    let done = run(snapshot, &units, &plan, budget, make)?;
    let mut seen = make();
    done.sinks.into_iter().for_each(|sink| seen.merge(sink));
    Ok((seen, done.coverage))
}

/// Returns the fields of the visible records in the range, the most common first.
///
/// # Errors
/// See [`QueryError`].
pub fn fields(
    snapshot: &Snapshot,
    range: TimeRange,
    access: &Access,
    budget: &Budget,
) -> Result<FieldList, QueryError> {
    let filter = Filter { range, ..Filter::all(access.clone()) };
    let (seen, mut coverage) = collect(snapshot, &filter, None, budget)?;
    let reserved = Reserved::ALL.iter().map(|key| FieldInfo {
        name: key.name().to_owned(),
        value_type: ValueType::Text,
        parts: seen.units,
    });
    let attributes = seen.attributes.into_iter().map(|(path, seen)| {
        let (name, value_type, parts) = (format!("@{path}"), seen.value_type, seen.units);
        (FieldInfo { name, value_type, parts }, seen.records)
    });
    let (tags, of_tags) = tag_keys(snapshot, &filter, budget)?;
    coverage.add(of_tags);
    let tags = tags.into_iter().filter(|(key, _)| Reserved::from_name(key).is_none());
    // A tag applies to all records of a source, so tags come first.
    let tags = tags
        .map(|(name, parts)| (FieldInfo { name, value_type: ValueType::Text, parts }, u64::MAX));
    let mut others: Vec<(FieldInfo, u64)> = attributes.chain(tags).collect();
    others.sort_by(|(a, in_a), (b, in_b)| in_b.cmp(in_a).then_with(|| a.name.cmp(&b.name)));
    let fields = reserved.chain(others.into_iter().map(|(info, _)| info)).collect();
    Ok(FieldList { fields, coverage })
}

/// Returns the attributes and tags of the query, and of the other `fields` named, that no visible
/// record in the range has: `@path` or the tag's key. Empty when that is not known. The tags of a
/// query that `has_found` something are not checked.
///
/// # Errors
/// See [`QueryError`].
pub(super) fn unknown_fields<'a>(
    snapshot: &Snapshot,
    filter: &Filter,
    fields: impl IntoIterator<Item = &'a Field>,
    has_found: bool,
    budget: &Budget,
) -> Result<Vec<String>, QueryError> {
    let (mut attributes, mut tags) = (BTreeSet::new(), BTreeSet::new());
    filter.query.for_each_term(&mut |term, _| match &term.field {
        Field::Attribute(path) => drop(attributes.insert(path.clone())),
        Field::Tag(key) if !has_found => drop(tags.insert(key.clone())),
        _ => {}
    });
    for field in fields {
        match field {
            Field::Attribute(path) => drop(attributes.insert(path.clone())),
            Field::Tag(key) => drop(tags.insert(key.clone())),
            _ => {}
        }
    }
    let mut unknown = unknown_attributes(snapshot, filter, attributes, budget)?;
    for key in tags {
        if !may_have_tag(snapshot, filter, &key, budget)? {
            unknown.push(key);
        }
    }
    Ok(unknown)
}

/// Returns which of these attributes no record in the range has, as they are written.
fn unknown_attributes(
    snapshot: &Snapshot,
    filter: &Filter,
    named: BTreeSet<String>,
    budget: &Budget,
) -> Result<Vec<String>, QueryError> {
    let is_own = |path: &str| {
        filter.calculated_fields.iter().any(|calculated| calculated.path == path)
            || promoted_paths().any(|promoted| promoted == path)
            || path == LAG
    };
    let mut named: Vec<String> = named.into_iter().filter(|path| !is_own(path)).collect();
    if filter.access.restriction().is_none() {
        named.retain(|path| !may_be_anywhere(snapshot, filter.range, path));
    } else if !named.is_empty() {
        let visible = Filter { range: filter.range, ..Filter::all(filter.access.clone()) };
        let (seen, coverage) = collect(snapshot, &visible, Some(&named), budget)?;
        let is_unknown = |path: &String| !coverage.is_partial() && !seen.has(path);
        return Ok(names_of(named.iter().filter(|path| is_unknown(path))));
    }
    Ok(names_of(named.iter()))
}

fn names_of<'a>(paths: impl Iterator<Item = &'a String>) -> Vec<String> {
    paths.map(|path| format!("@{path}")).collect()
}

/// Returns whether some record in the range may have the attribute. Columns, which are in memory,
/// are checked before anything that has to be read.
fn may_be_anywhere(snapshot: &Snapshot, range: TimeRange, path: &str) -> bool {
    let is_in_head = snapshot.chunks.iter().any(|(chunk, _)| {
        let chunk = chunk.read();
        let mut columns = chunk.paths().iter().filter(|column| !column.rows().is_empty());
        !chunk.spilled().is_empty() || columns.any(|column| is_or_is_below(column.path(), path))
    });
    let is_of_range = |segment: &&Arc<OpenSegment>| {
        segment.segment.time_range_ns().is_some_and(|(first, last)| range.overlaps(first, last))
    };
    let segments = || snapshot.segments.iter().filter(is_of_range);
    is_in_head
        || segments().any(|segment| has_column(segment, path))
        || segments().any(|segment| may_be_in_rest(segment, path))
}
