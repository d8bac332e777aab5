//! The fields that stored records have.

use std::collections::BTreeMap;

use weir_expr::{Field, Reserved};

use super::unit::Unit;
use crate::embedded::columns::TIME_PATHS;
use crate::embedded::segment::{Role, ValueKind};
use crate::embedded::sidecar::RestPaths;
use crate::embedded::snapshot::{OpenSegment, Snapshot};
use crate::query::{FieldInfo, Filter, TimeRange, ValueType};
use weir_codec::Scalar;

/// Attributes with the type of their values and in how many parts they are.
type Known = BTreeMap<String, (ValueType, u64)>;

fn add(known: &mut Known, path: &str, value_type: ValueType) {
    let entry = known.entry(path.to_owned()).or_insert((value_type, 0));
    if entry.0 != value_type {
        entry.0 = ValueType::Text;
    }
    entry.1 += 1;
}

fn attributes_of(snapshot: &Snapshot, range: TimeRange) -> Known {
    let mut known = Known::new();
    for (chunk, rows) in &snapshot.chunks {
        if *rows == 0 {
            continue;
        }
        let chunk = chunk.read();
        for column in chunk.paths().iter().filter(|column| !column.rows().is_empty()) {
            let value_type = match column.value(0) {
                Scalar::Bool(_) => ValueType::Bool,
                Scalar::Int(_) | Scalar::Float(_) => ValueType::Number,
                Scalar::Null | Scalar::Text(_) => ValueType::Text,
            };
            add(&mut known, column.path(), value_type);
        }
    }
    let is_of_range = |segment: &&std::sync::Arc<OpenSegment>| {
        segment.segment.time_range_ns().is_some_and(|(first, last)| range.overlaps(first, last))
    };
    for segment in snapshot.segments.iter().filter(is_of_range) {
        for column in segment.segment.columns() {
            let Role::Attribute(path) = &column.role else { continue };
            let value_type = match column.kind {
                ValueKind::Bool => ValueType::Bool,
                ValueKind::Int | ValueKind::Double => ValueType::Number,
                ValueKind::Text | ValueKind::Bytes => ValueType::Text,
            };
            add(&mut known, path, value_type);
        }
        let rest = segment.sidecar.as_ref().and_then(|sidecar| sidecar.rest_paths().ok());
        for (path, what) in rest.iter().flat_map(RestPaths::iter) {
            if what.has_values {
                add(&mut known, path, ValueType::Text);
            }
        }
    }
    known
}

/// Fields of records of the range, the most common first.
pub fn fields(snapshot: &Snapshot, range: TimeRange) -> Vec<FieldInfo> {
    let parts = Unit::of(snapshot, range).len() as u64;
    let reserved = Reserved::ALL.iter().map(|key| FieldInfo {
        name: key.name().to_owned(),
        value_type: ValueType::Text,
        parts,
    });
    let mut fields: Vec<FieldInfo> = reserved.collect();
    let attributes = attributes_of(snapshot, range).into_iter();
    let mut attributes: Vec<FieldInfo> = attributes
        .map(|(path, (value_type, parts))| FieldInfo {
            name: format!("@{path}"),
            value_type,
            parts,
        })
        .collect();
    attributes.sort_by(|a, b| b.parts.cmp(&a.parts).then_with(|| a.name.cmp(&b.name)));
    fields.extend(attributes);
    fields
}

/// Attributes of the query that no record of the range can have. Empty when that is not known.
pub(super) fn unknown_fields(snapshot: &Snapshot, filter: &Filter) -> Vec<String> {
    let mut named = Vec::new();
    filter.query.for_each_term(&mut |term, _| {
        if let Field::Attribute(path) = &term.field {
            named.push(path.clone());
        }
    });
    unknown_of(snapshot, filter, named)
}

/// The same for attributes that are named otherwise.
pub(super) fn unknown_of(
    snapshot: &Snapshot,
    filter: &Filter,
    mut named: Vec<String>,
) -> Vec<String> {
    named.retain(|path| {
        let is_computed = filter.measures.iter().any(|measure| measure.path == *path);
        let keys = [Reserved::TraceId, Reserved::SpanId];
        let is_id = keys.iter().any(|key| key.record_paths().contains(&path.as_str()));
        let is_own = is_id
            || TIME_PATHS.contains(&path.as_str())
            || crate::embedded::columns::MESSAGE_PATHS.contains(&path.as_str());
        !is_computed && !is_own
    });
    let is_known = |segment: &std::sync::Arc<OpenSegment>| {
        let rest = segment.sidecar.as_ref().and_then(|sidecar| sidecar.rest_paths().ok());
        segment.segment.column(&Role::Rest).is_none() || rest.is_some_and(|rest| rest.is_complete())
    };
    let is_spilled = snapshot.chunks.iter().any(|(chunk, _)| !chunk.read().spilled().is_empty());
    if named.is_empty() || is_spilled || !snapshot.segments.iter().all(is_known) {
        return Vec::new();
    }
    let known = attributes_of(snapshot, filter.range);
    named.retain(|path| {
        let is_it = |known: &String| known == path || super::sources::is_below(known, path);
        !known.keys().any(is_it)
    });
    named.sort();
    named.dedup();
    named.into_iter().map(|path| format!("@{path}")).collect()
}
