//! Rows in columns, in order of arrival.

use std::borrow::Cow;
use std::ops::Range;

use weir_codec::{Attributes, PATH_BYTES_MAX, Scalar};
use weir_model::{Position, StreamId};

use super::arrivals::Arrivals;
use super::record::add_attribute;
use super::texts::{allocated_bytes, emptied};
use super::{Form, Original, PathColumn, StoredRecord, Texts, canonical};
use crate::embedded::hash::Interner;
use crate::limits::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};

/// Maximum number of paths that get a column of their own while rows are gathered. More paths than
/// that are machine-generated; the rarer ones share one column.
const PATHS_MAX: usize = 16_384;

/// Marks a row without a value in a [`CodeColumn`].
const NONE: u32 = u32::MAX;

/// No more rows fit: write the rows out and start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the row group is full")]
pub struct Full;

/// A record to add, without its attributes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRow<'a> {
    /// Time of the event, nanoseconds since 1970.
    pub time_ns: i64,
    /// Sequence number in the order in which the store takes records in.
    pub sequence: u64,
    /// The stream.
    pub stream: u64,
    /// The position in the stream after the record.
    pub position: Position,
    /// The original form of the record.
    pub form: Form,
    /// The service that wrote it.
    pub service: Option<&'a [u8]>,
    /// The host on which it was written.
    pub host: Option<&'a [u8]>,
    /// The source that received it.
    pub source: Option<&'a [u8]>,
    /// Its status.
    pub status: Option<&'a [u8]>,
    /// Its tags, as a JSON array.
    pub tags: Option<&'a [u8]>,
    /// The resource of its batch, encoded.
    pub resource: Option<&'a [u8]>,
    /// The message.
    pub message: Option<&'a [u8]>,
    /// The trace.
    pub trace_id: Option<&'a [u8]>,
    /// The span.
    pub span_id: Option<&'a [u8]>,
    /// The bytes in which it was received, packed without message and time.
    pub received: Option<&'a [u8]>,
    /// When weir received it, nanoseconds since 1970; `None` if that is not known.
    pub arrival_ns: Option<i64>,
}

/// A column with few distinct texts.
#[derive(Debug, Clone, Default)]
pub struct CodeColumn {
    codes: Vec<u32>,
    interner: Interner,
}

impl CodeColumn {
    #[inline]
    fn push(&mut self, text: Option<&[u8]>) {
        let code = match text {
            None => NONE,
            Some(text) => match self.interner.last_if(text) {
                Some(code) => code,
                None => self.interner.intern(&utf8(text)),
            },
        };
        self.codes.push(code);
    }

    /// Returns the distinct texts; a code is an index into them.
    pub fn texts(&self) -> &Texts {
        self.interner.texts()
    }

    /// Returns the code of a row.
    pub fn code(&self, row: usize) -> Option<u32> {
        self.codes.get(row).copied().filter(|code| *code != NONE)
    }

    /// Returns the text of a row.
    pub fn text(&self, row: usize) -> Option<&[u8]> {
        self.code(row).map(|code| self.texts().get(code as usize))
    }

    fn memory_bytes(&self) -> usize {
        allocated_bytes(&self.codes) + self.interner.memory_bytes()
    }

    fn emptied(self) -> Self {
        Self { codes: emptied(self.codes), ..Self::default() }
    }
}

/// Values of the paths beyond the first [`PATHS_MAX`], row by row.
#[derive(Debug, Clone, Default)]
pub struct Spilled {
    paths: Texts,
    values: Option<PathColumn>,
}

impl Spilled {
    fn push(&mut self, row: u32, path: &str, value: Scalar<'_>) {
        self.paths.push(path.as_bytes());
        self.values.get_or_insert_with(|| PathColumn::new("", value)).push(row, value);
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns row, path and value of each value in some rows.
    pub(crate) fn of_rows(
        &self,
        rows: Range<u32>,
    ) -> impl Iterator<Item = (u32, &str, Scalar<'_>)> {
        self.values.iter().flat_map(move |values| {
            values.values_of_rows(rows.clone()).map(|number| {
                (values.rows()[number], as_str(self.paths.get(number)), values.value(number))
            })
        })
    }

    /// Returns row, path and value of each value.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str, Scalar<'_>)> {
        let values = self.values.iter().flat_map(|values| {
            values.rows().iter().enumerate().map(|(index, row)| (*row, values.value(index)))
        });
        values.zip(self.paths.iter()).map(|((row, value), path)| (row, as_str(path), value))
    }

    fn memory_bytes(&self) -> usize {
        self.paths.memory_bytes() + self.values.as_ref().map_or(0, PathColumn::memory_bytes)
    }
}

/// Rows in columns. See [`crate::embedded::columns`].
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub(crate) time_ns: Vec<i64>,
    pub(crate) sequence: Vec<u64>,
    pub(crate) stream: Vec<u64>,
    pub(crate) epoch: Vec<u32>,
    pub(crate) offset: Vec<u64>,
    pub(crate) form: Vec<u64>,
    pub(crate) service: CodeColumn,
    pub(crate) host: CodeColumn,
    pub(crate) source: CodeColumn,
    pub(crate) status: CodeColumn,
    pub(crate) tags: CodeColumn,
    pub(crate) resource: CodeColumn,
    pub(crate) message: SparseTexts,
    pub(crate) trace_id: SparseTexts,
    pub(crate) span_id: SparseTexts,
    pub(crate) paths: Vec<PathColumn>,
    pub(crate) spilled: Spilled,
    /// The bytes in which records were received, packed without message and time.
    pub(crate) received: SparseTexts,
    pub(crate) arrivals: Arrivals,
    /// Rows that came with bytes that are not UTF-8, in order.
    pub(crate) originals: Vec<(u32, Original)>,
    names: Interner,
    /// The column of each attribute of the last row, because the next row is often like it.
    last_shape: Vec<u32>,
    text_bytes: usize,
    attribute_bytes: usize,
}

/// Returns the number of bytes that a value adds to a row group.
fn attribute_bytes(value: Scalar<'_>) -> usize {
    if let Scalar::Text(text) = value { 8 + text.len() } else { 12 }
}

/// A text column that only some of the rows have a value in.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseTexts {
    /// By row: the index of its text, or [`NONE`].
    numbers: Vec<u32>,
    texts: Texts,
}

impl SparseTexts {
    #[inline]
    fn push(&mut self, text: Option<&[u8]>, is_known_utf8: bool) -> usize {
        let Some(text) = text else {
            self.numbers.push(NONE);
            return 0;
        };
        self.numbers.push(self.texts.len() as u32);
        let text = if is_known_utf8 { Cow::Borrowed(text) } else { utf8(text) };
        self.texts.push(&text);
        text.len()
    }

    /// Sets the bytes of a row, the next one or a later one; rows in between have none. A column
    /// without any takes no memory.
    fn push_at(&mut self, row: usize, bytes: Option<&[u8]>) -> usize {
        let Some(bytes) = bytes else { return 0 };
        self.numbers.resize(row, NONE);
        self.push(Some(bytes), true)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let number = self.numbers.get(row).copied().filter(|number| *number != NONE)?;
        Some(self.texts.get(number as usize))
    }

    fn memory_bytes(&self) -> usize {
        allocated_bytes(&self.numbers) + self.texts.memory_bytes()
    }

    fn emptied(self) -> Self {
        Self { numbers: emptied(self.numbers), texts: self.texts.emptied() }
    }
}

/// Returns the text with U+FFFD for everything that is not UTF-8.
pub(crate) fn utf8(text: &[u8]) -> Cow<'_, [u8]> {
    if is_utf8(text) {
        return text.into();
    }
    String::from_utf8_lossy(text).into_owned().into_bytes().into()
}

/// Like [`utf8`] for a path, which never gets longer than a path may be: otherwise it would be left
/// out when it is read back.
fn utf8_path(path: &[u8]) -> Cow<'_, [u8]> {
    match utf8(path) {
        Cow::Owned(mut text) if text.len() > PATH_BYTES_MAX => {
            text.truncate(as_str(&text).floor_char_boundary(PATH_BYTES_MAX));
            text.into()
        }
        text => text,
    }
}

/// Returns a text that is known to be UTF-8.
pub(crate) fn as_str(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}

/// Checks for ASCII first, because most texts are short and ASCII and that check is faster.
pub(super) fn is_utf8(text: &[u8]) -> bool {
    is_ascii(text) || simdutf8::basic::from_utf8(text).is_ok()
}

/// Like `is_ascii` of slices, but without going byte by byte at the end of a long text.
fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let Some(last) = text.last_chunk() else { return text.iter().all(u8::is_ascii) };
    let words = text.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(u64::from_le_bytes(*last), |bits, word| bits | word) & HIGH == 0
}

impl Rows {
    /// Creates empty rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// Returns whether no more rows can be added.
    pub fn is_full(&self) -> bool {
        self.len() >= ROW_GROUP_ROWS_MAX
            || self.text_bytes + self.attribute_bytes >= ROW_GROUP_BYTES_MAX
    }

    /// Adds a row with at most [`weir_codec::ATTRIBUTES_MAX`] attributes, none with an empty path.
    /// The values of each path must be in order.
    pub fn push<'a>(
        &mut self,
        row: &NewRow<'_>,
        attributes: impl Iterator<Item = (&'a [u8], Scalar<'a>)> + Clone,
    ) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let index = self.len() as u32;
        let mut is_text = row.message.is_none_or(is_utf8);
        for (place, (path, value)) in attributes.clone().enumerate() {
            is_text &= self.push_attribute(index, place, path, value);
        }
        if !is_text {
            let mut bytes = Vec::new();
            Original::encode(row.message.unwrap_or_default(), attributes, &mut bytes);
            self.text_bytes += bytes.len();
            self.originals.push((index, Original::new(bytes)));
        }
        self.push_fixed(row, false);
        Ok(())
    }

    /// Adds a row with these attributes, except those whose number is in `taken`. All attributes
    /// and the message are known to be UTF-8.
    pub(super) fn push_utf8(
        &mut self,
        row: &NewRow<'_>,
        attributes: &Attributes,
        is_promoted: impl Fn(usize) -> bool,
    ) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let index = self.len() as u32;
        let mut place = 0;
        for (number, (path, value)) in attributes.iter().enumerate() {
            if !is_promoted(number) {
                self.attribute_bytes += attribute_bytes(value);
                self.push_value(index, place, path, value);
                place += 1;
            }
        }
        self.push_fixed(row, true);
        Ok(())
    }

    /// Adds a record that was read back.
    pub fn push_record(&mut self, record: &StoredRecord) -> Result<(), Full> {
        fn bytes(text: Option<&String>) -> Option<&[u8]> {
            text.map(String::as_bytes)
        }
        let row = NewRow {
            time_ns: record.time_ns,
            sequence: record.sequence,
            stream: record.stream.0,
            position: record.position,
            form: record.form,
            service: bytes(record.service.as_ref()),
            host: bytes(record.host.as_ref()),
            source: bytes(record.source.as_ref()),
            status: bytes(record.status.as_ref()),
            tags: bytes(record.tags.as_ref()),
            resource: bytes(record.resource.as_ref()),
            message: bytes(record.message.as_ref()),
            trace_id: bytes(record.trace_id.as_ref()),
            span_id: bytes(record.span_id.as_ref()),
            received: record.received.as_deref(),
            arrival_ns: record.arrival_ns,
        };
        let attributes = record.attributes.iter().flat_map(|(path, values)| {
            values.iter().map(|value| (path.as_bytes(), value.as_scalar()))
        });
        self.push_again(&row, attributes, record.original.clone())
    }

    /// Adds a row that was read back, with its original bytes if they were not UTF-8.
    pub(crate) fn push_again<'a>(
        &mut self,
        row: &NewRow<'_>,
        attributes: impl Iterator<Item = (&'a [u8], Scalar<'a>)> + Clone,
        original: Option<Original>,
    ) -> Result<(), Full> {
        let index = self.len() as u32;
        self.push(row, attributes)?;
        if let Some(original) = original {
            self.text_bytes += original.as_bytes().len();
            self.originals.push((index, original));
        }
        Ok(())
    }

    fn push_fixed(&mut self, row: &NewRow<'_>, is_utf8: bool) {
        self.text_bytes += self.received.push_at(self.len(), row.received);
        self.arrivals.push_at(self.len(), row.arrival_ns);
        self.time_ns.push(row.time_ns);
        self.sequence.push(row.sequence);
        self.stream.push(row.stream);
        self.epoch.push(row.position.epoch);
        self.offset.push(row.position.offset);
        self.form.push(row.form.0);
        self.service.push(row.service);
        self.host.push(row.host);
        self.source.push(row.source);
        self.status.push(row.status);
        self.tags.push(row.tags);
        self.resource.push(row.resource);
        self.text_bytes += self.message.push(row.message, is_utf8)
            + self.trace_id.push(row.trace_id, is_utf8)
            + self.span_id.push(row.span_id, is_utf8);
    }

    /// Adds an attribute. Returns true when path and value are UTF-8 and so kept unchanged.
    fn push_attribute(&mut self, row: u32, place: usize, path: &[u8], value: Scalar<'_>) -> bool {
        self.attribute_bytes += attribute_bytes(value);
        let Scalar::Text(text) = value else {
            return self.push_value(row, place, path, value);
        };
        match utf8(text) {
            Cow::Borrowed(_) => self.push_value(row, place, path, value),
            Cow::Owned(text) => {
                self.push_value(row, place, path, Scalar::Text(&text));
                false
            }
        }
    }

    /// Adds a value. Returns true when the path is UTF-8.
    #[inline]
    fn push_value(&mut self, row: u32, place: usize, path: &[u8], value: Scalar<'_>) -> bool {
        if let Some(column) = self.last_shape.get(place)
            && let Some(column) = self.paths.get_mut(*column as usize)
            && column.path().as_bytes() == path
        {
            column.push(row, value);
            return true;
        }
        let text = utf8_path(path);
        let is_utf8 = matches!(text, Cow::Borrowed(_));
        if self.paths.len() >= PATHS_MAX {
            self.spill(row, &text, value);
            return is_utf8;
        }
        let column = self.names.intern(&text) as usize;
        if column == self.paths.len() {
            self.paths.push(PathColumn::new(as_str(&text), value));
        }
        self.paths[column].push(row, value);
        if self.last_shape.len() <= place {
            self.last_shape.resize(place + 1, 0);
        }
        self.last_shape[place] = column as u32;
        is_utf8
    }

    /// Adds a value of a path that has no column because the maximum number of columns is reached.
    #[cold]
    fn spill(&mut self, row: u32, path: &[u8], value: Scalar<'_>) {
        let known = self.names.number(path).and_then(|column| self.paths.get_mut(column as usize));
        match known {
            Some(column) => column.push(row, value),
            None => self.spilled.push(row, as_str(path), value),
        }
    }

    /// Returns the paths with their values.
    pub fn paths(&self) -> &[PathColumn] {
        &self.paths
    }

    /// Returns the values of the paths that have no column.
    pub fn spilled(&self) -> &Spilled {
        &self.spilled
    }

    /// Returns the approximate memory used by the rows, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let paths: usize = self.paths.iter().map(PathColumn::memory_bytes).sum();
        let codes =
            [&self.service, &self.host, &self.source, &self.status, &self.tags, &self.resource];
        let texts = [&self.message, &self.trace_id, &self.span_id, &self.received];
        let numbers = [&self.sequence, &self.stream, &self.offset, &self.form];
        allocated_bytes(&self.time_ns)
            + numbers.into_iter().map(allocated_bytes).sum::<usize>()
            + allocated_bytes(&self.epoch)
            + self.arrivals.memory_bytes()
            + codes.into_iter().map(CodeColumn::memory_bytes).sum::<usize>()
            + texts.into_iter().map(SparseTexts::memory_bytes).sum::<usize>()
            + paths
            + self.spilled.memory_bytes()
            + self.names.memory_bytes()
    }

    /// Returns empty rows that reuse the memory of the columns that every row has. A vector that
    /// grows is copied, and the system takes longer to provide a page of memory than it takes to
    /// fill one.
    pub(crate) fn emptied(self) -> Self {
        Self {
            time_ns: emptied(self.time_ns),
            sequence: emptied(self.sequence),
            stream: emptied(self.stream),
            epoch: emptied(self.epoch),
            offset: emptied(self.offset),
            form: emptied(self.form),
            service: self.service.emptied(),
            host: self.host.emptied(),
            source: self.source.emptied(),
            status: self.status.emptied(),
            tags: self.tags.emptied(),
            resource: self.resource.emptied(),
            message: self.message.emptied(),
            trace_id: self.trace_id.emptied(),
            span_id: self.span_id.emptied(),
            received: self.received.emptied(),
            arrivals: self.arrivals.emptied(),
            ..Self::default()
        }
    }

    /// Returns row `row` as a record; `None` when there is no such row.
    pub fn record(&self, row: usize) -> Option<StoredRecord> {
        self.records(&[row]).pop()
    }

    /// Returns some rows as records, in order; rows that do not exist are left out. Each column is
    /// scanned once for all of them, because there may be many columns with few values each.
    pub fn records(&self, rows: &[usize]) -> Vec<StoredRecord> {
        let end = rows.partition_point(|row| *row < self.len());
        let rows = &rows[..end];
        let mut records: Vec<StoredRecord> =
            rows.iter().map(|row| self.without_attributes(*row)).collect();
        self.add_attributes(rows, &mut records);
        records
    }

    /// Like [`Self::records`]; those with received bytes have no attributes.
    pub(crate) fn received_records(&self, rows: &[usize]) -> Vec<StoredRecord> {
        let end = rows.partition_point(|row| *row < self.len());
        let rows = &rows[..end];
        let mut records: Vec<StoredRecord> =
            rows.iter().map(|row| self.without_attributes(*row)).collect();
        let is_without = |row: &usize| self.received.get(*row).is_none();
        let others: Vec<usize> = rows.iter().copied().filter(is_without).collect();
        if !others.is_empty() {
            let places = records.iter_mut().filter(|record| record.received.is_none());
            places.zip(self.records(&others)).for_each(|(place, record)| *place = record);
        }
        records
    }

    fn add_attributes(&self, rows: &[usize], records: &mut [StoredRecord]) {
        for column in &self.paths {
            column.each_of_rows(rows, |place, value| {
                add_attribute(&mut records[place].attributes, column.path(), value);
            });
        }
        for (record, row) in records.iter_mut().zip(rows) {
            let number = *row as u32;
            for (_, path, value) in self.spilled.of_rows(number..number + 1) {
                add_attribute(&mut record.attributes, path, canonical(value));
            }
        }
    }

    /// Returns an existing row without its attributes.
    fn without_attributes(&self, row: usize) -> StoredRecord {
        let text = |text: Option<&[u8]>| text.map(|text| as_str(text).to_owned());
        let number = row as u32;
        let original = self.originals.binary_search_by_key(&number, |(row, _)| *row);
        StoredRecord {
            time_ns: self.time_ns[row],
            sequence: self.sequence[row],
            stream: StreamId(self.stream[row]),
            position: Position::new(self.epoch[row], self.offset[row]),
            form: Form(self.form[row]),
            service: text(self.service.text(row)),
            host: text(self.host.text(row)),
            source: text(self.source.text(row)),
            status: text(self.status.text(row)),
            tags: text(self.tags.text(row)),
            resource: text(self.resource.text(row)),
            message: text(self.message.get(row)),
            trace_id: text(self.trace_id.get(row)),
            span_id: text(self.span_id.get(row)),
            received: self.received.get(row).map(<[u8]>::to_vec),
            arrival_ns: self.arrivals.get(row),
            attributes: Vec::new(),
            original: original.ok().map(|at| self.originals[at].1.clone()),
        }
    }
}
