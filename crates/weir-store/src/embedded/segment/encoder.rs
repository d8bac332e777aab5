//! Encodes one column of one row group: its encoding, its pages, its statistics.

use std::borrow::Cow;

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
use crate::embedded::columns::Texts;
use crate::embedded::hash::{Interner, NumberInterner};
use crate::limits::{DICTIONARY_BYTES_MAX, DICTIONARY_VALUES_MAX, PAGE_ROWS};

/// Maximum length of the texts in a column's min/max statistics, in bytes.
const STATISTICS_BYTES_MAX: usize = 64;

/// Number of values after which a dictionary is given up if more than half of them are distinct.
const DICTIONARY_SAMPLE: usize = 4096;

/// An encoded column chunk as it is written to the file.
pub(super) struct EncodedChunk {
    pub(super) bytes: Bytes,
    /// The Parquet metadata for it.
    pub(super) close: ColumnCloseResult,
    pub(super) is_dictionary: bool,
}

/// Encodes columns, reusing its buffers.
pub(super) struct ChunkEncoder {
    pages: PageWriter,
    body: Vec<u8>,
    level: ZstdLevel,
}

/// The values of a chunk in the encoding of its pages.
enum Encoded<'a, 'b> {
    Plain(&'b Values<'a>),
    /// Integers, as differences.
    Deltas(&'b [i64]),
    /// Texts, preceded by their lengths.
    Lengths(Cow<'b, [&'a [u8]]>),
    /// Dictionary codes, and the width of each in bits.
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
        let statistics = statistics(column, chunk, dictionary.as_ref().map(|found| &found.0));
        let encoded = match dictionary {
            Some((dictionary, codes)) => {
                plain_bytes += self.dictionary_page(&dictionary, &mut bytes)?;
                dictionary_len = Some(bytes.len());
                let last = (dictionary.len() as u64).saturating_sub(1);
                Encoded::Codes(codes, encode::bit_width(last))
            }
            None => match (&chunk.values, chunk.values.texts()) {
                (Values::Int(values), _) => Encoded::Deltas(values),
                (_, Some(texts)) => Encoded::Lengths(texts),
                (values, None) => Encoded::Plain(values),
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
            .set_statistics(statistics)
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
        dictionary: &Dictionary,
        bytes: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        self.body.clear();
        match dictionary {
            Dictionary::Texts(texts) => encode::plain_texts(texts.iter(), &mut self.body),
            Dictionary::Numbers(numbers) => {
                self.body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
        self.pages.append(true, PageEncoding::Plain, dictionary.len(), &self.body, bytes)
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
                None => encode::all_levels(span.rows.len(), body),
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
        // Texts follow their lengths.
        Values::Text(_) | Values::Coded(..) => {}
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

/// Returns whether the column has few distinct values by nature, such as services or hosts.
fn is_repetitive(column: &Column) -> bool {
    use Fixed::{SpanId, TraceId};
    matches!(&column.role, Role::Fixed(fixed) if !matches!(fixed, TraceId | SpanId))
        || matches!(column.role, Role::Kind(_))
}

/// The distinct values of a column.
enum Dictionary {
    Texts(Texts),
    /// The bits of integers or floats.
    Numbers(Vec<u64>),
}

impl Dictionary {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    fn byte_count(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.byte_count(),
            Self::Numbers(numbers) => numbers.len() * 8,
        }
    }
}

/// Returns the distinct values and the code of each value, if a dictionary is worthwhile.
fn dictionary_of(column: &Column, values: &Values<'_>) -> Option<(Dictionary, Vec<u32>)> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let share = match (is_repetitive(column), values) {
        (true, _) => 1,
        (false, Values::Text(_) | Values::Coded(..)) => 2,
        (false, _) => 4,
    };
    let (dictionary, codes) = match values {
        Values::Int(values) => number_codes(values.iter().map(|v| v.cast_unsigned()), share)?,
        Values::Double(values) => number_codes(values.iter().map(|v| v.to_bits()), share)?,
        Values::Text(texts) => text_codes(texts, share)?,
        Values::Coded(codes, texts) => {
            let (texts, codes) = texts.in_order_of_use(codes);
            (Dictionary::Texts(texts), codes)
        }
        Values::Bool(_) => return None,
    };
    let is_worth_it = dictionary.len() * share <= count
        && dictionary.len() <= DICTIONARY_VALUES_MAX
        && dictionary.byte_count() <= DICTIONARY_BYTES_MAX;
    is_worth_it.then_some((dictionary, codes))
}

/// Returns whether so many of the values are distinct that a dictionary is not worthwhile.
fn has_too_many_values(count: usize, distinct: usize, share: usize) -> bool {
    count == DICTIONARY_SAMPLE && distinct * share > count
}

fn number_codes(
    values: impl ExactSizeIterator<Item = u64>,
    share: usize,
) -> Option<(Dictionary, Vec<u32>)> {
    let mut interner = NumberInterner::default();
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        codes.push(interner.intern(value));
        let distinct = interner.numbers().len();
        if has_too_many_values(codes.len(), distinct, share) || distinct > DICTIONARY_VALUES_MAX {
            return None;
        }
    }
    Some((Dictionary::Numbers(interner.numbers().to_vec()), codes))
}

fn text_codes(texts: &[&[u8]], share: usize) -> Option<(Dictionary, Vec<u32>)> {
    let mut interner = Interner::default();
    let mut codes = Vec::with_capacity(texts.len());
    for text in texts {
        codes.push(interner.intern(text));
        let distinct = interner.texts();
        if has_too_many_values(codes.len(), distinct.len(), share)
            || distinct.len() > DICTIONARY_VALUES_MAX
            || distinct.byte_count() > DICTIONARY_BYTES_MAX
        {
            return None;
        }
    }
    Some((Dictionary::Texts(interner.into_texts()), codes))
}

/// Returns the smallest and largest number; none when an unsigned one exceeds `i64`.
fn int_range(column: &Column, values: &[i64]) -> Option<(i64, i64)> {
    let range = values.iter().copied().min().zip(values.iter().copied().max())?;
    let is_ordered = column.role == Role::Fixed(Fixed::Time)
        || !matches!(column.role, Role::Fixed(_))
        || range.0 >= 0;
    is_ordered.then_some(range)
}

/// Returns the smallest and largest number; a zero gets the sign that includes both zeros, as
/// Parquet requires.
fn double_range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let least = if least == 0.0 { -0.0 } else { least };
    Some((least, if most == 0.0 { 0.0 } else { most }))
}

fn statistics(column: &Column, chunk: &Chunk<'_>, dictionary: Option<&Dictionary>) -> Statistics {
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
        Values::Text(_) | Values::Coded(..) => {
            let texts;
            let range = if let Some(Dictionary::Texts(texts)) = dictionary {
                text_range(texts.iter())
            } else {
                texts = chunk.values.texts().unwrap_or_default();
                text_range(texts.iter().copied())
            };
            let (least, most) = range.unzip();
            let bytes = |text: Option<&[u8]>| text.map(|text| ByteArray::from(text.to_vec()));
            Statistics::byte_array(bytes(least), bytes(most), None, nulls, false)
        }
    }
}

/// Returns the smallest and largest text, unless one is long.
fn text_range<'t>(
    mut texts: impl Iterator<Item = &'t [u8]> + Clone,
) -> Option<(&'t [u8], &'t [u8])> {
    /// Returns a key that orders texts by their first eight bytes.
    fn front(text: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        let len = text.len().min(8);
        bytes[..len].copy_from_slice(&text[..len]);
        u64::from_be_bytes(bytes)
    }
    if texts.clone().any(|text| text.len() > STATISTICS_BYTES_MAX) {
        return None;
    }
    let first = texts.next()?;
    let (mut least, mut most) = ((front(first), first), (front(first), first));
    for text in texts {
        let text = (front(text), text);
        least = least.min(text);
        most = most.max(text);
    }
    Some((least.1, most.1))
}

/// Builds the column index with the smallest and largest value of each page, for numbers only.
fn column_index(
    column: &Column,
    chunk: &Chunk<'_>,
    spans: &[PageSpan],
) -> Result<Option<parquet::file::page_index::column_index::ColumnIndexMetaData>, SegmentError> {
    let (physical, nan_count) = match &chunk.values {
        Values::Int(values) if int_range(column, values).is_some() => (PhysicalType::INT64, None),
        Values::Double(_) => (PhysicalType::DOUBLE, Some(0)),
        Values::Int(_) | Values::Bool(_) | Values::Text(_) | Values::Coded(..) => {
            return Ok(None);
        }
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
            Values::Bool(_) | Values::Text(_) | Values::Coded(..) => None,
        };
        let nulls = (span.rows.len() - span.values.len()) as i64;
        let [least, most] = ends.map_or([Vec::new(), Vec::new()], |ends| ends.map(Vec::from));
        index.append(ends.is_none(), least, most, nulls, nan_count);
    }
    Ok(Some(index.build()?))
}
