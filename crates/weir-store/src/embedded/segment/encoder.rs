//! Encodes one column of one row group: which encoding it gets, its pages, its statistics.

use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Compression, Encoding, Type as PhysicalType, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::chunk::{Chunk, PageSpan, Values};
use super::column::{Column, Fixed, Role};
use super::encode;
use super::error::SegmentError;
use super::page::{PageEncoding, PageWriter};
use crate::embedded::hash::Interner;
use crate::limits::{DICTIONARY_BYTES_MAX, DICTIONARY_VALUES_MAX, PAGE_ROWS};

/// Longest text whose order is stated for a whole column.
const STATISTICS_BYTES_MAX: usize = 64;

/// Values after which a dictionary that holds more than half of them is given up.
const DICTIONARY_SAMPLE: usize = 4096;

/// A column chunk as it is put into the file.
pub(super) struct EncodedChunk {
    pub(super) bytes: Bytes,
    /// What Parquet's metadata say about it.
    pub(super) close: ColumnCloseResult,
    pub(super) is_dictionary: bool,
}

/// Encodes columns; its memory is used for one after the other.
pub(super) struct ChunkEncoder {
    pages: PageWriter,
    body: Vec<u8>,
    level: ZstdLevel,
}

/// What a chunk's values become on its pages.
enum Encoded<'a, 'b> {
    Plain(&'b Values<'a>),
    /// Whole numbers by differences.
    Deltas(&'b [i64]),
    /// Texts behind their lengths.
    Lengths(&'b [&'a [u8]]),
    /// Codes of a dictionary, and the bits of each.
    Codes(Vec<u32>, u32),
}

impl ChunkEncoder {
    pub(super) fn new(level: i32) -> Result<Self, SegmentError> {
        let pages = PageWriter::new(level)?;
        Ok(Self { pages, body: Vec::new(), level: ZstdLevel::try_new(level)? })
    }

    pub(super) fn encode(
        &mut self,
        column: &Column,
        chunk: &Chunk<'_>,
        descriptor: ColumnDescPtr,
    ) -> Result<EncodedChunk, SegmentError> {
        let mut bytes = Vec::new();
        let mut plain_bytes = 0;
        let mut dictionary_len = None;
        let dictionary =
            column.may_have_dictionary().then(|| dictionary_of(column, &chunk.values)).flatten();
        let encoded = match dictionary {
            Some((interner, codes)) => {
                plain_bytes += self.dictionary_page(&chunk.values, &interner, &mut bytes)?;
                dictionary_len = Some(bytes.len());
                let last = (interner.texts().len() as u64).saturating_sub(1);
                Encoded::Codes(codes, encode::bit_width(last))
            }
            None => match &chunk.values {
                Values::Int(values) => Encoded::Deltas(values),
                Values::Text(texts) => Encoded::Lengths(texts),
                values => Encoded::Plain(values),
            },
        };
        let mut offsets = OffsetIndexBuilder::new();
        let spans = chunk.pages(PAGE_ROWS);
        for span in &spans {
            let start = bytes.len();
            plain_bytes += self.data_page(column, chunk, span, &encoded, &mut bytes)?;
            offsets.append_offset_and_size(start as i64, (bytes.len() - start) as i32);
            offsets.append_row_count(span.rows.len() as i64);
        }
        let metadata = ColumnChunkMetaData::builder(descriptor)
            .set_compression(Compression::ZSTD(self.level))
            .set_encodings(encodings(&encoded))
            .set_num_values(chunk.rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(plain_bytes as i64)
            .set_data_page_offset(dictionary_len.unwrap_or(0) as i64)
            .set_dictionary_page_offset(dictionary_len.map(|_| 0))
            .set_statistics(statistics(column, chunk))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: chunk.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: column_index(column, chunk, &spans)?,
            offset_index: Some(offsets.build()),
        };
        Ok(EncodedChunk { bytes: bytes.into(), close, is_dictionary: dictionary_len.is_some() })
    }

    fn dictionary_page(
        &mut self,
        values: &Values<'_>,
        interner: &Interner,
        bytes: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        self.body.clear();
        let texts = interner.texts();
        if let Values::Text(_) = values {
            encode::plain_texts(texts.iter(), &mut self.body);
        } else {
            // Numbers are interned by their bytes.
            texts.iter().for_each(|text| self.body.extend_from_slice(text));
        }
        self.pages.append(true, PageEncoding::Plain, texts.len(), &self.body, bytes)
    }

    fn data_page(
        &mut self,
        column: &Column,
        chunk: &Chunk<'_>,
        span: &PageSpan,
        encoded: &Encoded<'_, '_>,
        bytes: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        let body = &mut self.body;
        body.clear();
        if !column.is_required {
            match &chunk.present {
                Some(present) => encode::levels(&present[span.rows.clone()], body),
                None => encode::levels(&vec![true; span.rows.len()], body),
            }
        }
        let range = span.values.clone();
        let encoding = match encoded {
            Encoded::Codes(codes, width) => {
                body.push(*width as u8);
                encode::hybrid(&codes[range], *width, body);
                PageEncoding::Dictionary
            }
            Encoded::Deltas(values) => {
                encode::delta_binary(&values[range], body);
                PageEncoding::DeltaBinary
            }
            Encoded::Lengths(texts) => {
                encode::delta_length(&texts[range], body);
                PageEncoding::DeltaLength
            }
            Encoded::Plain(values) => {
                plain(values, range, body);
                PageEncoding::Plain
            }
        };
        self.pages.append(false, encoding, span.rows.len(), body, bytes)
    }
}

fn plain(values: &Values<'_>, range: std::ops::Range<usize>, body: &mut Vec<u8>) {
    match values {
        Values::Int(values) => values[range].iter().for_each(|v| body.extend(v.to_le_bytes())),
        Values::Double(values) => values[range].iter().for_each(|v| body.extend(v.to_le_bytes())),
        Values::Bool(values) => encode::plain_bools(&values[range], body),
        Values::Text(texts) => encode::plain_texts(texts[range].iter().copied(), body),
    }
}

fn encodings(encoded: &Encoded<'_, '_>) -> Vec<Encoding> {
    match encoded {
        Encoded::Codes(..) => vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY],
        Encoded::Deltas(_) => vec![Encoding::RLE, Encoding::DELTA_BINARY_PACKED],
        Encoded::Lengths(_) => vec![Encoding::RLE, Encoding::DELTA_LENGTH_BYTE_ARRAY],
        Encoded::Plain(_) => vec![Encoding::PLAIN, Encoding::RLE],
    }
}

/// Columns that have as few distinct values as there are services, hosts and sources.
fn repeats_by_nature(column: &Column) -> bool {
    use Fixed::{SpanId, TraceId};
    matches!(&column.role, Role::Fixed(fixed) if !matches!(fixed, TraceId | SpanId))
        || matches!(column.role, Role::Kind(_))
}

/// The distinct values and the code of each value, if a dictionary is worth it.
fn dictionary_of(column: &Column, values: &Values<'_>) -> Option<(Interner, Vec<u32>)> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let mut interner = Interner::default();
    let mut codes = Vec::with_capacity(count);
    let share = match (repeats_by_nature(column), values) {
        (true, _) => 1,
        (false, Values::Text(_)) => 2,
        (false, _) => 4,
    };
    let mut add = |bytes: &[u8]| {
        codes.push(interner.intern(bytes));
        let distinct = interner.texts().len();
        let is_hopeless = codes.len() == DICTIONARY_SAMPLE && distinct * share > codes.len();
        !is_hopeless
            && distinct <= DICTIONARY_VALUES_MAX
            && interner.texts().byte_count() <= DICTIONARY_BYTES_MAX
    };
    let is_whole = match values {
        Values::Int(values) => values.iter().all(|value| add(&value.to_le_bytes())),
        Values::Double(values) => values.iter().all(|value| add(&value.to_le_bytes())),
        Values::Text(texts) => texts.iter().all(|text| add(text)),
        Values::Bool(_) => false,
    };
    (is_whole && interner.texts().len() * share <= count).then_some((interner, codes))
}

/// Smallest and largest of some numbers; of unsigned ones none when one is beyond `i64`.
fn int_range(column: &Column, values: &[i64]) -> Option<(i64, i64)> {
    let range = values.iter().copied().min().zip(values.iter().copied().max())?;
    let is_ordered = column.role == Role::Fixed(Fixed::Time)
        || !matches!(column.role, Role::Fixed(_))
        || range.0 >= 0;
    is_ordered.then_some(range)
}

/// Smallest and largest; zeros so that either zero is within, as Parquet wants it.
fn double_range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let least = if least == 0.0 { -0.0 } else { least };
    Some((least, if most == 0.0 { 0.0 } else { most }))
}

fn statistics(column: &Column, chunk: &Chunk<'_>) -> Statistics {
    let nulls = Some((chunk.rows - chunk.values.len()) as u64);
    match &chunk.values {
        Values::Int(values) => {
            let (least, most) = int_range(column, values).unzip();
            Statistics::int64(least, most, None, nulls, false)
        }
        Values::Double(values) => {
            let (least, most) = double_range(values).unzip();
            Statistics::double(least, most, None, nulls, false)
        }
        Values::Bool(values) => {
            let least = values.iter().copied().min();
            Statistics::boolean(least, values.iter().copied().max(), None, nulls, false)
        }
        Values::Text(texts) => {
            let is_short = texts.iter().all(|text| text.len() <= STATISTICS_BYTES_MAX);
            let range = texts.iter().min().zip(texts.iter().max()).filter(|_| is_short);
            let (least, most) = range.unzip();
            let bytes = |text: Option<&&[u8]>| text.map(|text| ByteArray::from(text.to_vec()));
            Statistics::byte_array(bytes(least), bytes(most), None, nulls, false)
        }
    }
}

/// Smallest and largest of each page; only numbers have them.
fn column_index(
    column: &Column,
    chunk: &Chunk<'_>,
    spans: &[PageSpan],
) -> Result<Option<parquet::file::page_index::column_index::ColumnIndexMetaData>, SegmentError> {
    let (physical, nan_count) = match &chunk.values {
        Values::Int(values) if int_range(column, values).is_some() => (PhysicalType::INT64, None),
        Values::Double(_) => (PhysicalType::DOUBLE, Some(0)),
        Values::Int(_) | Values::Bool(_) | Values::Text(_) => return Ok(None),
    };
    let mut index = ColumnIndexBuilder::new(physical);
    index.set_boundary_order(BoundaryOrder::UNORDERED);
    for span in spans {
        let range = span.values.clone();
        let ends = match &chunk.values {
            Values::Int(values) => {
                let values = &values[range];
                let ends = values.iter().min().zip(values.iter().max());
                ends.map(|(least, most)| [least.to_le_bytes(), most.to_le_bytes()])
            }
            Values::Double(values) => double_range(&values[range])
                .map(|(least, most)| [least.to_le_bytes(), most.to_le_bytes()]),
            Values::Bool(_) | Values::Text(_) => None,
        };
        let nulls = (span.rows.len() - span.values.len()) as i64;
        let [least, most] = ends.map_or([Vec::new(), Vec::new()], |ends| ends.map(Vec::from));
        index.append(ends.is_none(), least, most, nulls, nan_count);
    }
    Ok(Some(index.build()?))
}
