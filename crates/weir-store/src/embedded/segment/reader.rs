//! Reads segments, one page at a time.
//!
//! Invariants: the footer is trusted only when its checksums match; after that, a page whose
//! position, length or encoding differs from the footer is damaged; nothing is read that was not
//! requested.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;
use weir_expr::Dimension;
use weir_host::DiskFile;

use super::codes::CodeSet;
use super::column::{Column, Fixed, Role, ValueKind, from_schema};
use super::decode::{self, Reader};
use super::error::SegmentError;
use super::page::{PageEncoding, PageOpener};
use super::writer::{
    END_LEN, PROVENANCE_KEY, Provenance, TRAILER_LEN, TRAILER_MAGIC, UNITS_KEY, VERSION_KEY,
    VERSIONS,
};
use crate::embedded::columns::Texts;
use crate::limits::{COLUMNS_MAX, FOOTER_BYTES_MAX, PAGE_ROWS, ROW_GROUP_ROWS_MAX, ROW_GROUPS_MAX};

/// Parquet's magic, at both ends.
const MAGIC: [u8; 4] = *b"PAR1";
/// Number of bytes read from the end of a file at first; most footers fit.
const END_READ_BYTES: u64 = 128 * 1024;

/// Smallest and largest value of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MinMax {
    /// Of integers.
    Int(i64, i64),
    /// Of floats.
    Double(f64, f64),
}

/// The footer's information about a column of a row group.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkInfo {
    encoding: PageEncoding,
    /// Offset and length of the dictionary page.
    dictionary: Option<(u64, u32)>,
    /// Offset and length of each page.
    pages: Vec<(u64, u32)>,
    ranges: Option<Vec<Option<MinMax>>>,
    value_count: u64,
    packed_bytes: u64,
    plain_bytes: u64,
}

impl ChunkInfo {
    /// Returns whether pages hold codes of a dictionary.
    pub fn is_dictionary(&self) -> bool {
        self.dictionary.is_some()
    }

    /// Returns the smallest and largest value of each page, when they are known; `None` for a page
    /// without values.
    pub fn ranges(&self) -> Option<&[Option<MinMax>]> {
        self.ranges.as_deref()
    }

    /// Returns the number of rows that have a value.
    pub fn value_count(&self) -> u64 {
        self.value_count
    }

    /// Returns its offset and length in the file.
    pub(super) fn span(&self) -> (u64, usize) {
        let first = self.dictionary.or(self.pages.first().copied());
        (first.map_or(0, |(offset, _)| offset), self.packed_bytes as usize)
    }

    /// Returns offset and length of its pages, that of the dictionary first.
    pub(super) fn page_spans(&self) -> impl Iterator<Item = (u64, u32)> {
        self.dictionary.into_iter().chain(self.pages.iter().copied())
    }

    /// Returns its size in the file, in bytes.
    pub fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// Returns its uncompressed size, in bytes.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }
}

#[derive(Debug)]
struct Group {
    rows: usize,
    chunks: Vec<ChunkInfo>,
}

/// An open segment.
#[derive(Debug)]
pub struct Segment {
    file: Arc<dyn DiskFile>,
    columns: Vec<Column>,
    groups: Vec<Group>,
    units: Vec<(String, Dimension)>,
    provenance: Option<Provenance>,
    identity: u32,
}

/// The distinct values of a column of a row group, by code.
#[derive(Debug, Clone)]
pub enum Dictionary {
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Doubles(Vec<f64>),
    /// Texts.
    Texts(Texts),
}

impl Dictionary {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Texts of a page: all bytes in one slice, with the end of each text.
#[derive(Debug, Clone, Copy)]
pub struct PageTexts<'a> {
    /// The end of each text; the first starts at 0.
    pub ends: &'a [u32],
    /// All texts, concatenated.
    pub bytes: &'a [u8],
}

impl<'a> PageTexts<'a> {
    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns text `index`; empty when there is none.
    pub fn get(&self, index: usize) -> &'a [u8] {
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        self.bytes.get(start.unwrap_or(0) as usize..end).unwrap_or_default()
    }
}

/// Values of a page, for those rows that have one.
#[derive(Debug, Clone, Copy)]
pub enum PageValues<'a> {
    /// Integers.
    Ints(&'a [i64]),
    /// Floats.
    Doubles(&'a [f64]),
    /// Booleans.
    Bools(&'a [bool]),
    /// Texts.
    Texts(PageTexts<'a>),
    /// Codes of the row group's dictionary, each below its length.
    Codes(&'a [u32]),
}

impl PageValues<'_> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Bools(values) => values.len(),
            Self::Texts(texts) => texts.len(),
            Self::Codes(codes) => codes.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Ints,
    Doubles,
    Bools,
    Texts,
    Codes,
}

/// A page in memory, reused from page to page.
#[derive(Debug)]
pub struct PageBuffer {
    opener: PageOpener,
    packed: Vec<u8>,
    body: Vec<u8>,
    levels: Vec<u32>,
    has_nulls: bool,
    rows: usize,
    held: Held,
    ints: Vec<i64>,
    doubles: Vec<f64>,
    bools: Vec<bool>,
    ends: Vec<u32>,
    texts_at: usize,
    codes: Codes,
}

/// Codes of a page, unpacked on first use: their position in the body, their width in bits, and
/// their number.
#[derive(Debug, Default)]
struct Codes {
    at: usize,
    width: u32,
    count: usize,
    unpacked: OnceCell<Vec<u32>>,
}

impl Codes {
    /// Sets the codes; returns `None` when the bytes do not hold that many.
    fn set(&mut self, body: &[u8], at: usize, count: usize) -> Option<()> {
        let (width, packed) = body.get(at..)?.split_first()?;
        (self.at, self.width, self.count) = (at + 1, u32::from(*width), count);
        self.unpacked.take();
        decode::is_hybrid(packed, self.width, count).then_some(())
    }

    fn packed<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        body.get(self.at..).unwrap_or_default()
    }

    fn unpacked(&self, body: &[u8]) -> &[u32] {
        self.unpacked.get_or_init(|| {
            let mut codes = Vec::new();
            let unpacked = decode::hybrid(self.packed(body), self.width, self.count, &mut codes);
            debug_assert!(unpacked.is_some(), "the codes were checked when the page was read");
            codes
        })
    }
}

impl PageBuffer {
    /// Creates an empty buffer.
    pub fn new() -> Result<Self, SegmentError> {
        Ok(Self {
            opener: PageOpener::new()?,
            packed: Vec::new(),
            body: Vec::new(),
            levels: Vec::new(),
            has_nulls: false,
            rows: 0,
            held: Held::Ints,
            ints: Vec::new(),
            doubles: Vec::new(),
            bools: Vec::new(),
            ends: Vec::new(),
            texts_at: 0,
            codes: Codes::default(),
        })
    }

    /// Returns the size of the decompressed page, in bytes.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the number of rows of the page.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns 1 for each row with a value and 0 for the others; `None` when all have one.
    pub fn levels(&self) -> Option<&[u32]> {
        self.has_nulls.then_some(&self.levels)
    }

    /// Returns the values of the rows that have one, in order.
    pub fn values(&self) -> PageValues<'_> {
        match self.held {
            Held::Ints => PageValues::Ints(&self.ints),
            Held::Doubles => PageValues::Doubles(&self.doubles),
            Held::Bools => PageValues::Bools(&self.bools),
            Held::Texts => PageValues::Texts(PageTexts {
                ends: &self.ends,
                bytes: self.body.get(self.texts_at..).unwrap_or_default(),
            }),
            Held::Codes => PageValues::Codes(self.codes.unpacked(&self.body)),
        }
    }

    /// Returns the number of values.
    pub fn value_count(&self) -> usize {
        match self.held {
            Held::Codes => self.codes.count,
            _ => self.values().len(),
        }
    }

    /// Returns which of the values have a code in the set, one bit each, 64 to a word; `None` when
    /// the page does not hold codes.
    pub fn values_in(&self, set: &CodeSet) -> Option<Vec<u64>> {
        let codes = (self.held == Held::Codes).then_some(&self.codes)?;
        set.passing(codes.packed(&self.body), codes.width, codes.count)
    }

    fn read(
        &mut self,
        file: &dyn DiskFile,
        (offset, len): (u64, u32),
    ) -> Result<super::page::PageHeader, SegmentError> {
        self.packed.resize(len as usize, 0);
        read_exact(file, &mut self.packed, offset)?;
        self.opener.open(&self.packed, &mut self.body)
    }

    /// Decodes the body; `None` when it is not what the page should contain.
    fn decode(&mut self, column: &Column, encoding: PageEncoding, rows: usize) -> Option<()> {
        let body = std::mem::take(&mut self.body);
        let decoded = self.decode_body(&body, column, encoding, rows);
        self.body = body;
        decoded
    }

    fn decode_body(
        &mut self,
        body: &[u8],
        column: &Column,
        encoding: PageEncoding,
        rows: usize,
    ) -> Option<()> {
        let mut reader = Reader::new(body);
        self.rows = rows;
        let mut count = rows;
        self.has_nulls = false;
        if !column.is_required {
            count = decode::levels(&mut reader, rows, &mut self.levels)?;
            self.has_nulls = count < rows;
        }
        let rest = reader.rest();
        match (encoding, column.kind) {
            (PageEncoding::Dictionary, _) => {
                self.codes.set(body, body.len() - rest.len(), count)?;
                self.held = Held::Codes;
            }
            (PageEncoding::DeltaBinary, ValueKind::Int) => {
                decode::delta_binary(&mut reader, count, &mut self.ints)?;
                self.held = Held::Ints;
            }
            (PageEncoding::DeltaLength, ValueKind::Text | ValueKind::Bytes) => {
                decode::delta_length(&mut reader, count, &mut self.ints, &mut self.ends)?;
                self.texts_at = body.len() - reader.rest().len();
                self.held = Held::Texts;
            }
            (PageEncoding::Plain, ValueKind::Double) => {
                let (values, []) = rest.as_chunks() else { return None };
                self.doubles.clear();
                self.doubles.extend(values.iter().map(|value| f64::from_le_bytes(*value)));
                (self.doubles.len() == count).then_some(())?;
                self.held = Held::Doubles;
            }
            (PageEncoding::Plain, ValueKind::Bool) => {
                (rest.len() == count.div_ceil(8)).then_some(())?;
                self.bools.clear();
                self.bools.extend((0..count).map(|at| rest[at / 8] >> (at % 8) & 1 == 1));
                self.held = Held::Bools;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Segment {
    /// Opens a file written by [`super::write_segment`]: reads only its footer.
    pub fn open(file: Arc<dyn DiskFile>) -> Result<Self, SegmentError> {
        let tail = read_tail(&*file)?;
        let metadata = parse(&tail)?;
        check_version(&metadata)?;
        let columns = from_schema(metadata.file_metadata().schema_descr())
            .filter(|columns| columns.len() <= COLUMNS_MAX)
            .ok_or(SegmentError::Damaged("invalid column schema"))?;
        let groups = groups_of(&metadata, tail.data_end)
            .ok_or(SegmentError::Damaged("invalid page information in the footer"))?;
        let provenance = value_of(&metadata, PROVENANCE_KEY);
        let provenance = provenance.and_then(|json| serde_json::from_str(json).ok());
        let (units, identity) = (units_of(&metadata), tail.identity);
        Ok(Self { file, columns, groups, units, provenance, identity })
    }

    /// Returns the columns, in file order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the index of a column.
    pub fn column(&self, role: &Role) -> Option<usize> {
        self.columns.iter().position(|column| column.role == *role)
    }

    /// Returns the dimension of the numbers among the texts of a path, when they have a unit.
    pub fn unit(&self, path: &str) -> Option<Dimension> {
        self.units.iter().find(|(known, _)| known == path).map(|(_, dimension)| *dimension)
    }

    /// Returns the number of row groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of rows in all row groups.
    pub fn row_count(&self) -> u64 {
        self.groups.iter().map(|group| group.rows as u64).sum()
    }

    /// Returns the number of rows of a row group; 0 when there is no such group.
    pub fn group_rows(&self, group: usize) -> usize {
        self.groups.get(group).map_or(0, |group| group.rows)
    }

    /// Returns the number of pages of a row group, the same in every column.
    pub fn page_count(&self, group: usize) -> usize {
        self.group_rows(group).div_ceil(PAGE_ROWS)
    }

    /// Returns what is known about a column of a row group.
    pub fn chunk(&self, group: usize, column: usize) -> Option<&ChunkInfo> {
        self.groups.get(group)?.chunks.get(column)
    }

    /// Returns the provenance of the segment; `None` when it was not written by a store.
    pub fn provenance(&self) -> Option<&Provenance> {
        self.provenance.as_ref()
    }

    /// Returns the size of the file, in bytes.
    pub fn file_bytes(&self) -> Result<u64, SegmentError> {
        Ok(self.file.len()?)
    }

    /// Returns the number that ties a sidecar to this file.
    pub fn identity(&self) -> u32 {
        self.identity
    }

    /// Returns the earliest and latest time of the rows, nanoseconds since 1970; `None` without
    /// rows.
    pub fn time_range_ns(&self) -> Option<(i64, i64)> {
        let groups = 0..self.group_count();
        let ranges = groups.filter_map(|group| self.group_range(Fixed::Time, group));
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the smallest and largest value of an integer column in a row group.
    pub fn group_range(&self, column: Fixed, group: usize) -> Option<(i64, i64)> {
        let chunk = self.chunk(group, self.column(&Role::Fixed(column))?)?;
        let ranges = chunk.ranges.iter().flatten().filter_map(|range| match range {
            Some(MinMax::Int(least, most)) => Some((*least, *most)),
            _ => None,
        });
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Reads the footer again, as Parquet metadata.
    pub(super) fn read_metadata(&self) -> Result<ParquetMetaData, SegmentError> {
        parse(&read_tail(&*self.file)?)
    }

    /// Reads raw bytes of the file.
    pub(super) fn read_bytes(&self, offset: u64, len: usize) -> Result<Vec<u8>, SegmentError> {
        let mut bytes = vec![0; len];
        read_exact(&*self.file, &mut bytes, offset)?;
        Ok(bytes)
    }

    /// Returns the number of rows of a page.
    fn page_rows(&self, group: usize, page: usize) -> usize {
        self.group_rows(group).saturating_sub(page * PAGE_ROWS).min(PAGE_ROWS)
    }

    /// Reads one page of one column.
    pub fn read_page(
        &self,
        group: usize,
        column: usize,
        page: usize,
        buffer: &mut PageBuffer,
    ) -> Result<(), SegmentError> {
        let missing = SegmentError::Damaged("no such page");
        let (Some(chunk), Some(description)) =
            (self.chunk(group, column), self.columns.get(column))
        else {
            return Err(missing);
        };
        let place = *chunk.pages.get(page).ok_or(missing)?;
        let header = buffer.read(&*self.file, place)?;
        let rows = self.page_rows(group, page);
        let is_expected = !header.is_dictionary
            && header.value_count == rows
            && header.encoding == chunk.encoding;
        if !is_expected {
            return Err(SegmentError::Damaged("invalid page header"));
        }
        buffer
            .decode(description, chunk.encoding, rows)
            .ok_or(SegmentError::Damaged("invalid page values"))
    }

    /// Reads the dictionary of a column, when it has one.
    pub fn dictionary(
        &self,
        group: usize,
        column: usize,
        buffer: &mut PageBuffer,
    ) -> Result<Option<Dictionary>, SegmentError> {
        let Some((chunk, column)) = self.chunk(group, column).zip(self.columns.get(column)) else {
            return Ok(None);
        };
        let Some(place) = chunk.dictionary else { return Ok(None) };
        let header = buffer.read(&*self.file, place)?;
        if !header.is_dictionary || header.encoding != PageEncoding::Plain {
            return Err(SegmentError::Damaged("invalid dictionary header"));
        }
        read_dictionary(&buffer.body, column.kind, header.value_count)
            .map(Some)
            .ok_or(SegmentError::Damaged("invalid dictionary values"))
    }
}

fn read_dictionary(body: &[u8], kind: ValueKind, count: usize) -> Option<Dictionary> {
    let dictionary = match kind {
        ValueKind::Int => {
            let (values, []) = body.as_chunks() else { return None };
            Dictionary::Ints(values.iter().map(|value| i64::from_le_bytes(*value)).collect())
        }
        ValueKind::Double => {
            let (values, []) = body.as_chunks() else { return None };
            Dictionary::Doubles(values.iter().map(|value| f64::from_le_bytes(*value)).collect())
        }
        ValueKind::Text | ValueKind::Bytes => {
            let mut reader = Reader::new(body);
            let mut texts = Texts::default();
            while !reader.rest().is_empty() {
                let len = reader.u32()? as usize;
                texts.push(reader.take(len)?);
            }
            Dictionary::Texts(texts)
        }
        ValueKind::Bool => return None,
    };
    (dictionary.len() == count).then_some(dictionary)
}

/// The end of a file, checked.
struct Tail {
    file_len: u64,
    /// The bytes from the indexes on.
    bytes: Bytes,
    /// Where the pages end.
    data_end: u64,
    identity: u32,
}

fn read_tail(file: &dyn DiskFile) -> Result<Tail, SegmentError> {
    let damaged = |what| Err(SegmentError::Damaged(what));
    let file_len = file.len()?;
    let least = (MAGIC.len() + TRAILER_LEN + END_LEN) as u64;
    if file_len < least {
        return damaged("file too short");
    }
    let mut magic = [0; 4];
    read_exact(file, &mut magic, 0)?;
    let mut tail = read_end(file, file_len, file_len.min(END_READ_BYTES))?;
    let (end, end_magic) = tail.split_at(tail.len() - 4);
    if magic != MAGIC || end_magic != MAGIC {
        return damaged("missing magic bytes");
    }
    let metadata_len = end.last_chunk().map_or(0, |len| u32::from_le_bytes(*len));
    let footer_len = u64::from(metadata_len) + (END_LEN + TRAILER_LEN) as u64;
    if footer_len > file_len - MAGIC.len() as u64 || footer_len > FOOTER_BYTES_MAX as u64 {
        return damaged("invalid footer length");
    }
    if footer_len > tail.len() as u64 {
        tail = read_end(file, file_len, footer_len)?;
    }
    let footer_at = tail.len() - footer_len as usize;
    let trailer: [u8; TRAILER_LEN] = std::array::from_fn(|at| tail[footer_at + at]);
    let indexes_len = u64::from_le_bytes(std::array::from_fn(|at| trailer[TRAILER_LEN - 8 + at]));
    let whole_len = indexes_len.saturating_add(footer_len);
    if trailer[..4] != TRAILER_MAGIC || whole_len > file_len - MAGIC.len() as u64 {
        return damaged("invalid trailer");
    }
    if whole_len > FOOTER_BYTES_MAX as u64 {
        return damaged("invalid index length");
    }
    if whole_len > tail.len() as u64 {
        tail = read_end(file, file_len, whole_len)?;
    }
    let tail = tail.split_off(tail.len() - whole_len as usize);
    let (indexes, footer) = tail.split_at(indexes_len as usize);
    let crc_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| trailer[at + i]));
    if crc32c::crc32c(indexes) != crc_at(4) || crc32c::crc32c(&footer[TRAILER_LEN..]) != crc_at(8) {
        return damaged("footer checksum mismatch");
    }
    let identity = crc32c::crc32c(&trailer);
    Ok(Tail { file_len, data_end: file_len - whole_len, bytes: Bytes::from(tail), identity })
}

fn parse(tail: &Tail) -> Result<ParquetMetaData, SegmentError> {
    let mut reader = ParquetMetaDataReader::new()
        .with_column_index_policy(PageIndexPolicy::Optional)
        .with_offset_index_policy(PageIndexPolicy::Required);
    reader
        .try_parse_sized(&tail.bytes, tail.file_len)
        .and_then(|()| reader.finish())
        .map_err(|_| SegmentError::Damaged("invalid footer"))
}

fn read_end(file: &dyn DiskFile, file_len: u64, len: u64) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = vec![0; len as usize];
    read_exact(file, &mut bytes, file_len - len)?;
    Ok(bytes)
}

/// Reads exactly this many bytes. A file that is too short is damaged; any other error is the
/// disk's.
fn read_exact(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> Result<(), SegmentError> {
    file.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SegmentError::Damaged("unexpected end of file"),
        _ => SegmentError::Io(error),
    })
}

fn value_of<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn check_version(metadata: &ParquetMetaData) -> Result<(), SegmentError> {
    match value_of(metadata, VERSION_KEY) {
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(other) => Err(SegmentError::Version(other.to_owned())),
        None => Err(SegmentError::Damaged("not a segment")),
    }
}

fn units_of(metadata: &ParquetMetaData) -> Vec<(String, Dimension)> {
    let units = value_of(metadata, UNITS_KEY).and_then(|json| serde_json::from_str(json).ok());
    let Some(serde_json::Value::Object(units)) = units else { return Vec::new() };
    let dimension = |name: &serde_json::Value| match name.as_str()? {
        "ns" => Some(Dimension::Time),
        "bytes" => Some(Dimension::Size),
        _ => None,
    };
    units.into_iter().filter_map(|(path, name)| Some((path, dimension(&name)?))).collect()
}

fn groups_of(metadata: &ParquetMetaData, data_end: u64) -> Option<Vec<Group>> {
    if metadata.num_row_groups() > ROW_GROUPS_MAX {
        return None;
    }
    let group = |(index, group): (usize, &RowGroupMetaData)| {
        let rows = usize::try_from(group.num_rows()).ok()?;
        if rows > ROW_GROUP_ROWS_MAX {
            return None;
        }
        let indexes = metadata.page_index_for_row_group(index);
        let chunks = group.columns().iter().enumerate().map(|(column, chunk)| {
            let pages = indexes.page_locations(column)?;
            chunk_of(chunk, pages, indexes.column_index(column), rows, data_end)
        });
        Some(Group { rows, chunks: chunks.collect::<Option<_>>()? })
    };
    metadata.row_groups().iter().enumerate().map(group).collect()
}

fn chunk_of(
    chunk: &ColumnChunkMetaData,
    locations: &[PageLocation],
    index: Option<&ColumnIndexMetaData>,
    rows: usize,
    data_end: u64,
) -> Option<ChunkInfo> {
    let place = |offset: i64, len: i64| {
        let (offset, len) = (u64::try_from(offset).ok()?, u32::try_from(len).ok()?);
        (offset.checked_add(u64::from(len))? <= data_end).then_some((offset, len))
    };
    let mut pages = Vec::with_capacity(locations.len());
    for (number, location) in locations.iter().enumerate() {
        if location.first_row_index != (number * PAGE_ROWS) as i64 {
            return None;
        }
        pages.push(place(location.offset, i64::from(location.compressed_page_size))?);
    }
    if pages.len() != rows.div_ceil(PAGE_ROWS) {
        return None;
    }
    let dictionary = match chunk.dictionary_page_offset() {
        Some(offset) => Some(place(offset, chunk.data_page_offset().checked_sub(offset)?)?),
        None => None,
    };
    let has = |encoding| chunk.encodings().any(|found| found == encoding);
    let encoding = if dictionary.is_some() {
        PageEncoding::Dictionary
    } else if has(Encoding::DELTA_BINARY_PACKED) {
        PageEncoding::DeltaBinary
    } else if has(Encoding::DELTA_LENGTH_BYTE_ARRAY) {
        PageEncoding::DeltaLength
    } else {
        PageEncoding::Plain
    };
    let ranges = index.and_then(ranges_of).filter(|ranges| ranges.len() == pages.len());
    let nulls = chunk.statistics().and_then(Statistics::null_count_opt).unwrap_or(0);
    Some(ChunkInfo {
        encoding,
        dictionary,
        pages,
        ranges,
        value_count: (rows as u64).saturating_sub(nulls),
        packed_bytes: chunk.compressed_size().try_into().ok()?,
        plain_bytes: chunk.uncompressed_size().try_into().ok()?,
    })
}

fn ranges_of(index: &ColumnIndexMetaData) -> Option<Vec<Option<MinMax>>> {
    let pages = usize::try_from(index.num_pages()).ok()?;
    match index {
        ColumnIndexMetaData::INT64(index) => Some(
            (0..pages)
                .map(|page| Some(MinMax::Int(*index.min_value(page)?, *index.max_value(page)?)))
                .collect(),
        ),
        ColumnIndexMetaData::DOUBLE(index) => Some(
            (0..pages)
                .map(|page| Some(MinMax::Double(*index.min_value(page)?, *index.max_value(page)?)))
                .collect(),
        ),
        _ => None,
    }
}
