//! Concatenates the row groups of several segments into one file, without decoding them.
//!
//! Invariants: pages are copied unchanged, and their checksums are verified on the way; either the
//! new file contains a segment completely, or an error is returned. A column that a segment lacks
//! is added without values.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;
use weir_expr::Dimension;
use weir_host::DiskFile;

use super::chunk::{Chunk, Values};
use super::column::{Column, Fixed, Role, ValueKind};
use super::encoder::{ChunkEncoder, EncodedChunk};
use super::error::SegmentError;
use super::page::check_page;
use super::reader::Segment;
use super::writer::{ColumnSummary, Provenance, SegmentSummary, SegmentWriter};
use crate::limits::{COLUMNS_MAX, ROW_GROUPS_MAX};

/// Returns the columns of a file that holds all these segments; `None` when they cannot be
/// concatenated: a path has values of different types or units, or there would be too many columns
/// or row groups. They can still be merged row by row.
pub fn concat_columns(segments: &[&Segment]) -> Option<Vec<Column>> {
    let mut kinds: BTreeMap<String, ValueKind> = BTreeMap::new();
    let mut units: BTreeMap<&str, Option<Dimension>> = BTreeMap::new();
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for segment in segments {
        for column in segment.columns() {
            if *kinds.entry(column.name()).or_insert(column.kind) != column.kind {
                return None;
            }
            match &column.role {
                Role::Number(path) => {
                    let unit = segment.unit(path);
                    if *units.entry(path).or_insert(unit) != unit {
                        return None;
                    }
                }
                Role::Attribute(path) => _ = paths.insert(path),
                Role::Fixed(_)
                | Role::Kind(_)
                | Role::Rest
                | Role::Raw
                | Role::Received
                | Role::Arrival => {}
            }
        }
    }
    let mut columns: Vec<Column> = Fixed::ALL.iter().copied().map(Column::fixed).collect();
    let mut add = |role: Role| {
        let column = Column::optional(role, ValueKind::Text);
        if let Some(kind) = kinds.get(&column.name()) {
            columns.push(Column { kind: *kind, ..column });
        }
    };
    for path in paths {
        add(Role::Attribute(path.to_owned()));
        add(Role::Kind(path.to_owned()));
        add(Role::Number(path.to_owned()));
    }
    add(Role::Rest);
    add(Role::Raw);
    add(Role::Received);
    add(Role::Arrival);
    let groups: usize = segments.iter().map(|segment| segment.group_count()).sum();
    (columns.len() <= COLUMNS_MAX && groups <= ROW_GROUPS_MAX).then_some(columns)
}

/// Writes the row groups of all segments, in this order, into an empty file. The columns are those
/// of [`concat_columns`]. The sidecar is built from theirs
/// ([`crate::embedded::sidecar::concat_sidecars`]).
pub fn concat_segments(
    segments: &[&Segment],
    columns: &[Column],
    provenance: Option<&Provenance>,
    file: &dyn DiskFile,
) -> Result<SegmentSummary, SegmentError> {
    let parts: Vec<Part<'_>> =
        segments.iter().map(|segment| (*segment, 0..segment.group_count())).collect();
    concat(&parts, columns, provenance, file)
}

/// Writes some row groups of a segment unchanged into an empty file, without the columns in which
/// they have no value. The sidecar is built from that of the segment
/// ([`crate::embedded::sidecar::cut_sidecar`]).
pub fn cut_segment(
    segment: &Segment,
    groups: Range<usize>,
    provenance: Option<&Provenance>,
    file: &dyn DiskFile,
) -> Result<SegmentSummary, SegmentError> {
    let metadata = segment.read_metadata()?;
    let has_values = |column: &Column| {
        let Some(place) = segment.column(&column.role) else { return false };
        groups.clone().any(|group| {
            let statistics = metadata.row_group(group).column(place).statistics();
            let nulls = statistics.and_then(Statistics::null_count_opt);
            nulls != Some(segment.group_rows(group) as u64)
        })
    };
    let mut columns = concat_columns(&[segment]).unwrap_or_default();
    columns.retain(|column| matches!(column.role, Role::Fixed(_)) || has_values(column));
    concat(&[(segment, groups)], &columns, provenance, file)
}

/// A range of row groups of a segment.
type Part<'a> = (&'a Segment, Range<usize>);

fn concat(
    parts: &[Part<'_>],
    columns: &[Column],
    provenance: Option<&Provenance>,
    file: &dyn DiskFile,
) -> Result<SegmentSummary, SegmentError> {
    let mut writer = SegmentWriter::start(columns, file)?;
    let mut encoder = ChunkEncoder::new(1)?;
    let mut summaries: Vec<ColumnSummary> = columns
        .iter()
        .map(|column| ColumnSummary { column: column.clone(), packed_bytes: 0, plain_bytes: 0 })
        .collect();
    for (segment, groups) in parts {
        let places: Vec<Option<usize>> =
            columns.iter().map(|column| segment.column(&column.role)).collect();
        let metadata = segment.read_metadata()?;
        for group in groups.clone() {
            let mut next = 0;
            writer.row_group(segment.group_rows(group), &mut |descriptor| {
                let (column, place, summary) = (&columns[next], places[next], &mut summaries[next]);
                next += 1;
                let chunk = match place {
                    Some(place) => copied(segment, &metadata, group, place),
                    None => missing(&mut encoder, column, segment.group_rows(group), descriptor),
                }?;
                summary.packed_bytes += chunk.close.bytes_written;
                summary.plain_bytes += chunk.close.metadata.uncompressed_size().cast_unsigned();
                Ok(chunk)
            })?;
        }
    }
    let units = columns.iter().filter_map(|column| match &column.role {
        Role::Number(path) => {
            let unit = parts.iter().find_map(|(segment, _)| segment.unit(path))?;
            Some((path.clone(), unit))
        }
        _ => None,
    });
    let (file_bytes, identity) = writer.finish(&units.collect(), provenance)?;
    let groups = parts.iter().flat_map(|(s, groups)| groups.clone().map(move |group| (s, group)));
    let ranges =
        groups.clone().filter_map(|(segment, group)| segment.group_range(Fixed::Time, group));
    Ok(SegmentSummary {
        rows: groups.map(|(segment, group)| segment.group_rows(group) as u64).sum(),
        file_bytes,
        time_range_ns: ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))),
        identity,
        columns: summaries,
    })
}

/// Copies a column of a row group unchanged from a segment.
fn copied(
    segment: &Segment,
    metadata: &parquet::file::metadata::ParquetMetaData,
    group: usize,
    column: usize,
) -> Result<EncodedChunk, SegmentError> {
    let damaged = SegmentError::Damaged("invalid page information in the footer");
    let indexes = metadata.page_index_for_row_group(group);
    let Some((info, offsets)) = segment.chunk(group, column).zip(indexes.offset_index(column))
    else {
        return Err(damaged);
    };
    let chunk = metadata.row_group(group).column(column);
    let (start, len) = info.span();
    let bytes = segment.read_bytes(start, len)?;
    for (offset, len) in info.page_spans() {
        let from = offset.checked_sub(start).map(|from| from as usize);
        let page = from.and_then(|from| bytes.get(from..from + len as usize));
        check_page(page.ok_or(SegmentError::Damaged("invalid page offset"))?)?;
    }
    let moved = |offset: i64| offset - start.cast_signed();
    let is_dictionary = info.is_dictionary();
    let metadata = chunk
        .clone()
        .into_builder()
        .set_data_page_offset(moved(chunk.data_page_offset()))
        .set_dictionary_page_offset(chunk.dictionary_page_offset().map(moved))
        .build()?;
    let mut offsets = offsets.clone();
    offsets.page_locations.iter_mut().for_each(|page| page.offset = moved(page.offset));
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: segment.group_rows(group) as u64,
        metadata,
        bloom_filter: None,
        column_index: indexes.column_index(column).cloned(),
        offset_index: Some(offsets),
    };
    Ok(EncodedChunk { bytes: Bytes::from(bytes), close, is_dictionary })
}

/// Returns a column without values.
fn missing(
    encoder: &mut ChunkEncoder,
    column: &Column,
    rows: usize,
    descriptor: ColumnDescPtr,
) -> Result<EncodedChunk, SegmentError> {
    let values = match column.kind {
        ValueKind::Int => Values::Int(Vec::new()),
        ValueKind::Double => Values::Double(Vec::new()),
        ValueKind::Bool => Values::Bool(Vec::new()),
        ValueKind::Text | ValueKind::Bytes => Values::Text(Vec::new()),
    };
    let chunk = Chunk { present: Some(vec![false; rows]), values, rows };
    encoder.encode(column, &chunk, descriptor)
}
