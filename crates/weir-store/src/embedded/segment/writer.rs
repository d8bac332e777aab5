//! Writes rows as a segment.
//!
//! Invariants: only one column is in memory at a time besides the rows; nothing in the file refers
//! to later bytes except its end, so a truncated file is recognized by its end; the file's name,
//! flushing and renaming are up to the caller.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use weir_expr::Dimension;
use weir_host::DiskFile;

use super::chunk::Chunk;
use super::column::{Column, to_schema};
use super::encoder::{ChunkEncoder, EncodedChunk};
use super::error::SegmentError;
use super::plan::Plan;
use crate::embedded::columns::{Rows, Texts};

/// Key of the format version in the file's key-value metadata.
pub(super) const VERSION_KEY: &str = "weir.segment";
/// The version that is written.
pub(super) const VERSION: &str = "2";
/// The versions that are read. Version 1 has no arrivals.
pub(super) const VERSIONS: [&str; 2] = ["1", VERSION];
/// Key of the dimensions of numbers among texts: a JSON object from path to `ns` or `bytes`.
pub(super) const UNITS_KEY: &str = "weir.units";
/// Key of the segment's provenance: a JSON object, see [`Provenance`].
pub(super) const PROVENANCE_KEY: &str = "weir.store";
/// Magic of the trailer.
pub(super) const TRAILER_MAGIC: [u8; 4] = *b"WSGT";
/// Length of the trailer: magic, checksum of the indexes, checksum of the metadata, length of the
/// indexes.
pub(super) const TRAILER_LEN: usize = 20;
/// Length of the end of the file: metadata length and Parquet's magic.
pub(super) const END_LEN: usize = 8;

/// The origin of a segment: what a store needs to adopt it again if everything else is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Provenance {
    /// Its number in the store.
    pub id: u64,
    /// First and last sequence of the records that it was made from.
    pub sequences: (u64, u64),
    /// When the newest of its records was stored, nanoseconds since 1970.
    pub stored_ns: i64,
    /// Hour in which it was written, counted from 1970.
    pub hour: u32,
    /// How often its row groups were merged.
    pub tier: u8,
    /// Size of its records as received, in bytes.
    pub raw_bytes: u64,
}

/// Summary of a written segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentSummary {
    /// Number of rows.
    pub rows: u64,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Earliest and latest time of the rows, nanoseconds since 1970; `None` without rows.
    pub time_range_ns: Option<(i64, i64)>,
    /// Checksum of the end of the file. The sidecar contains it too, which ties the two together.
    pub identity: u32,
    /// The size of each column.
    pub columns: Vec<ColumnSummary>,
}

/// The size of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSummary {
    /// The column.
    pub column: Column,
    /// Size in the file, in bytes.
    pub packed_bytes: u64,
    /// Size before compression, encoded, in bytes.
    pub plain_bytes: u64,
}

/// Receives each column of each row group while it is in memory.
pub(crate) trait Observer {
    /// Called for each column; `is_dictionary` when its distinct values are in a dictionary.
    fn column(&mut self, column: &Column, chunk: &Chunk<'_>, is_dictionary: bool);
    /// Called when the row group is complete.
    fn end_row_group(&mut self, rows: usize);
}

/// Observes nothing.
impl Observer for () {
    fn column(&mut self, _column: &Column, _chunk: &Chunk<'_>, _is_dictionary: bool) {}
    fn end_row_group(&mut self, _rows: usize) {}
}

/// Writes rows as a segment of one row group into an empty file, with zstd `level` (1 where rows
/// will soon be merged, 3 where they stay).
pub fn write_segment(
    rows: &Rows,
    level: i32,
    file: &dyn DiskFile,
) -> Result<SegmentSummary, SegmentError> {
    write_observed(rows, level, None, file, &mut ())
}

/// Like [`write_segment`], also passing each column to the observer.
pub(crate) fn write_observed(
    rows: &Rows,
    level: i32,
    provenance: Option<&Provenance>,
    file: &dyn DiskFile,
    observer: &mut dyn Observer,
) -> Result<SegmentSummary, SegmentError> {
    let plan = Plan::new(rows);
    let columns = plan.columns();
    let mut writer = SegmentWriter::start(columns, file)?;
    let mut summaries = Vec::with_capacity(columns.len());
    if !rows.is_empty() {
        let mut encoder = ChunkEncoder::new(level)?;
        writer.row_group(rows.len(), &mut |descriptor| {
            let index = summaries.len();
            let column = &columns[index];
            let mut texts = Texts::default();
            let chunk = plan.chunk(index, &mut texts);
            let encoded = encoder.encode(column, &chunk, descriptor)?;
            observer.column(column, &chunk, encoded.is_dictionary);
            summaries.push(ColumnSummary {
                column: column.clone(),
                packed_bytes: encoded.close.bytes_written,
                plain_bytes: encoded.close.metadata.uncompressed_size().cast_unsigned(),
            });
            Ok(encoded)
        })?;
        observer.end_row_group(rows.len());
    }
    let (file_bytes, identity) = writer.finish(&plan.units, provenance)?;
    let times = rows.time_ns.iter().copied();
    Ok(SegmentSummary {
        rows: rows.len() as u64,
        file_bytes,
        time_range_ns: times.clone().min().zip(times.max()),
        identity,
        columns: summaries,
    })
}

fn unit_name(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Time => "ns",
        Dimension::Size => "bytes",
    }
}

/// Returns the next column of a row group, encoded.
pub(super) type NextColumn<'c> =
    dyn FnMut(ColumnDescPtr) -> Result<EncodedChunk, SegmentError> + 'c;

/// A file that is being written.
pub(super) struct SegmentWriter<'f> {
    writer: SerializedFileWriter<FileSink<'f>>,
}

impl<'f> SegmentWriter<'f> {
    /// Starts a file with these columns.
    pub(super) fn start(columns: &[Column], file: &'f dyn DiskFile) -> Result<Self, SegmentError> {
        let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_owned());
        let properties = WriterProperties::builder()
            .set_created_by(format!("weir {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let schema = to_schema(columns)?;
        let sink = FileSink::new(file);
        Ok(Self { writer: SerializedFileWriter::new(sink, schema, Arc::new(properties))? })
    }

    /// Writes a row group, requesting one column after the other.
    pub(super) fn row_group(
        &mut self,
        rows: usize,
        next: &mut NextColumn<'_>,
    ) -> Result<(), SegmentError> {
        let descriptors = self.writer.schema_descr().columns().to_vec();
        let mut group = self.writer.next_row_group()?;
        for descriptor in descriptors {
            let chunk = next(descriptor)?;
            debug_assert_eq!(chunk.close.rows_written, rows as u64, "row count of a column");
            group.append_column(&chunk.bytes, chunk.close)?;
        }
        group.close()?;
        Ok(())
    }

    /// Completes the file; returns its length and identity.
    ///
    /// What Parquet writes at the end goes through memory, so that the trailer can be inserted
    /// between the indexes and the metadata. There it can be found from the end of the file, and
    /// other readers ignore it.
    pub(super) fn finish(
        mut self,
        units: &BTreeMap<String, Dimension>,
        provenance: Option<&Provenance>,
    ) -> Result<(u64, u32), SegmentError> {
        if let Some(provenance) = provenance {
            let json = serde_json::to_string(provenance)
                .map_err(|error| SegmentError::Write(error.to_string()))?;
            let pair = KeyValue::new(PROVENANCE_KEY.to_owned(), json);
            self.writer.append_key_value_metadata(pair);
        }
        if !units.is_empty() {
            let names = units.iter().map(|(path, unit)| (path.clone(), unit_name(*unit).into()));
            let units = serde_json::Value::Object(names.collect()).to_string();
            self.writer.append_key_value_metadata(KeyValue::new(UNITS_KEY.to_owned(), units));
        }
        self.writer.flush()?;
        self.writer.inner_mut().is_held = true;
        let mut sink = self.writer.into_inner()?;
        let held = std::mem::take(&mut sink.buffer);
        sink.is_held = false;
        let end = held.len().checked_sub(END_LEN).ok_or_else(no_footer)?;
        let metadata_len = held[end..].first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
        let metadata_at = end.checked_sub(metadata_len as usize).ok_or_else(no_footer)?;
        let (indexes, metadata) = held.split_at(metadata_at);
        let mut trailer = Vec::with_capacity(TRAILER_LEN);
        trailer.extend_from_slice(&TRAILER_MAGIC);
        trailer.extend_from_slice(&crc32c::crc32c(indexes).to_le_bytes());
        trailer.extend_from_slice(&crc32c::crc32c(metadata).to_le_bytes());
        trailer.extend_from_slice(&(indexes.len() as u64).to_le_bytes());
        let identity = crc32c::crc32c(&trailer);
        for part in [indexes, &trailer, metadata] {
            sink.write_all(part)?;
        }
        sink.flush()?;
        Ok((sink.offset, identity))
    }
}

fn no_footer() -> SegmentError {
    SegmentError::Write("the footer was not written".to_owned())
}

/// Number of bytes buffered before they are written.
const SINK_BYTES: usize = 1024 * 1024;

/// Appends to a file in large pieces.
struct FileSink<'f> {
    file: &'f dyn DiskFile,
    offset: u64,
    buffer: Vec<u8>,
    /// Writing is suspended.
    is_held: bool,
}

impl<'f> FileSink<'f> {
    fn new(file: &'f dyn DiskFile) -> Self {
        Self { file, offset: 0, buffer: Vec::with_capacity(SINK_BYTES), is_held: false }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&mut [IoSlice::new(&self.buffer)], self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for FileSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if !self.is_held && self.buffer.len() >= SINK_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_held { Ok(()) } else { self.write_out() }
    }
}
