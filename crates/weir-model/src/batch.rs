//! A sealed batch: the frame, read in place.
//!
//! Invariant: a `Batch` is immutable and its header was checked against its length; accessors never
//! fail, at worst (for a hostile frame with a valid checksum) they return empty slices.

use std::ops::Range;

use crate::columns::Columns;
use crate::frame::{self, FrameError, FrameHeader, HEADER_LEN};
use crate::pool::PooledBuf;
use crate::resources::{self, ResourceView};
use crate::routes::{Destinations, RoutedRows, Routes};
use crate::{
    BatchBuilder, Facility, LogRecord, Position, RecordFlags, RecordKind, Resource, Severity,
    SourceBook, unescape_json,
};

/// A batch of records of one stream. Share it as `Arc<Batch>`.
#[derive(Debug)]
pub struct Batch {
    buf: PooledBuf,
    header: FrameHeader,
    /// Known only to the creator of the batch: it is not part of the frame.
    is_utf8: bool,
}

/// One record of a batch, borrowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordView<'a> {
    /// Nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// The position after the record.
    pub position: Position,
    /// The body; JSON-escaped if the flags say so.
    pub body: &'a [u8],
    /// Attributes as one JSON object, empty = none.
    pub attributes: &'a [u8],
    /// Severity, if the source states it.
    pub severity: Severity,
    /// Properties of the body.
    pub flags: RecordFlags,
    pub(crate) rare: Rare<'a>,
}

/// Where to find the rarely used columns, which are read on demand.
#[derive(Clone, Copy, Default)]
pub(crate) enum Rare<'a> {
    /// There are none.
    #[default]
    Nothing,
    /// A row of a batch.
    Sealed(&'a Batch, u32),
    /// A row of a batch that is being filled.
    Building(&'a BatchBuilder, u32),
}

/// Does not print the batch: the content of logs must not appear in messages about it.
impl std::fmt::Debug for Rare<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Sealed(_, row) | Self::Building(_, row) => write!(f, "of row {row}"),
        }
    }
}

impl<'a> RecordView<'a> {
    /// Returns the sender's bytes, of which the body is the message (an envelope, a syslog line);
    /// empty = none.
    pub fn original(&self) -> &'a [u8] {
        self.span(Columns::ORIGINAL)
    }

    /// Returns the sender's name for the process; empty = none.
    pub fn process_id(&self) -> &'a [u8] {
        self.span(Columns::PROCESS_ID)
    }

    /// Returns the sender's name for this type of message; empty = none.
    pub fn message_id(&self) -> &'a [u8] {
        self.span(Columns::MESSAGE_ID)
    }

    /// Returns the number, in the batch, of the resource that produced it ([`Batch::resource`]).
    #[inline]
    pub fn resource(&self) -> u16 {
        match self.rare {
            Rare::Nothing => 0,
            Rare::Sealed(batch, row) => batch.resource_number(row as usize),
            Rare::Building(builder, row) => builder.resource_of(row as usize),
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> RecordKind {
        match self.rare {
            Rare::Nothing => RecordKind::Log,
            Rare::Sealed(batch, row) => {
                RecordKind::of_number(batch.byte(Columns::KIND, row as usize))
            }
            Rare::Building(builder, row) => builder.kind_of(row as usize),
        }
    }

    /// Returns the facility, if the source states it.
    pub fn facility(&self) -> Facility {
        match self.rare {
            Rare::Nothing => Facility::NONE,
            Rare::Sealed(batch, row) => {
                Facility::of_cell(batch.byte(Columns::FACILITY, row as usize))
            }
            Rare::Building(builder, row) => builder.facility_of(row as usize),
        }
    }

    fn span(&self, column: Columns) -> &'a [u8] {
        match self.rare {
            Rare::Nothing => &[],
            Rare::Sealed(batch, row) => batch.spans(column).get(batch, row as usize),
            Rare::Building(builder, row) => builder.rare_span(column, row as usize),
        }
    }
}

impl Batch {
    pub(crate) fn from_parts(buf: PooledBuf, header: FrameHeader, is_utf8: bool) -> Self {
        Self { buf, header, is_utf8 }
    }

    /// Parses bytes read from a disk or peer: checks length, checksum and header. An intact frame
    /// that this release does not support returns an error for which [`FrameError::is_unknown`] is
    /// true; any other error is damage.
    pub fn from_frame(bytes: Vec<u8>) -> Result<Self, FrameError> {
        // Checked before anything else, because it is the same in every version.
        if let Some(want) = FrameHeader::stated_len(&bytes) {
            if bytes.len() != want {
                return Err(FrameError::Short { have: bytes.len(), want });
            }
            if frame::checksum(&bytes) != frame::stored_checksum(&bytes) {
                return Err(FrameError::Checksum);
            }
        }
        let header = FrameHeader::read(&bytes)?;
        Ok(Self { buf: bytes.into(), header, is_utf8: false })
    }

    /// Returns the fixed header.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// Returns the frame as it is to be written: its first bytes with the checksum filled in, and
    /// the rest. Computes the checksum, which a batch that stays in memory never needs.
    pub fn frame_parts(&self) -> ([u8; 16], &[u8]) {
        let frame = &self.buf[..self.header.frame_len as usize];
        let head = frame::head_with_checksum(frame);
        (head, &frame[head.len()..])
    }

    /// Returns the frame after its first 16 bytes: what follows the head of [`Self::frame_parts`].
    pub fn frame_rest(&self) -> &[u8] {
        &self.buf[16..self.header.frame_len as usize]
    }

    /// Returns the memory used by the batch, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buf.capacity() + size_of::<Self>()
    }

    /// Returns the length of the frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.header.frame_len as usize
    }

    /// Returns the number of records in the batch.
    pub fn record_count(&self) -> usize {
        self.header.record_count as usize
    }

    /// Returns everything that was read into the arena, plus joined bodies.
    pub fn arena(&self) -> &[u8] {
        &self.buf[HEADER_LEN..HEADER_LEN + self.header.arena_len as usize]
    }

    /// Returns whether all bodies and attributes are known to be UTF-8. False means unknown, as for
    /// any batch read from disk.
    pub fn is_utf8(&self) -> bool {
        self.is_utf8
    }

    /// Returns how many records are routed to the destination with that cursor index.
    pub fn routed_count(&self, cursor: usize) -> u64 {
        let routes = self.routes();
        let count = |route| match routes.get(route) {
            (count, destinations) if destinations.contains(cursor) => count,
            _ => 0,
        };
        (0..routes.len()).map(count).sum()
    }

    /// Returns the destinations that get any of the records, in order of cursor index, each with
    /// the number of records.
    pub fn routed_counts(&self) -> Vec<(usize, u64)> {
        let routes = self.routes();
        let mut counts: Vec<(usize, u64)> = Vec::new();
        for (count, destinations) in (0..routes.len()).map(|route| routes.get(route)) {
            if count == 0 {
                continue;
            }
            // Both are sorted, so each search starts after the previous match.
            let mut from = 0;
            destinations.for_each(|cursor| {
                let cursor = usize::from(cursor);
                from += match counts[from..].binary_search_by_key(&cursor, |(known, _)| *known) {
                    Ok(at) => {
                        counts[from + at].1 += count;
                        at
                    }
                    Err(at) => {
                        counts.insert(from + at, (cursor, count));
                        at
                    }
                };
            });
        }
        counts
    }

    /// Returns whether record `index` is routed to the destination. For many records,
    /// [`Self::routed_rows`] is faster.
    pub fn is_routed(&self, index: usize, cursor: usize) -> bool {
        self.destinations_of(index).contains(cursor)
    }

    /// Returns which records are routed to the destination.
    pub fn routed_rows(&self, cursor: usize) -> RoutedRows<'_> {
        RoutedRows::new(self.routes(), self.route_cells(), cursor)
    }

    /// Returns which records are routed to the destination, without those of some keys.
    pub fn routed_rows_without(&self, cursor: usize, keys: &[u64]) -> RoutedRows<'_> {
        let rows = self.routed_rows(cursor);
        if keys.is_empty() {
            return rows;
        }
        let is_without = |resource: ResourceView<'_>| keys.contains(&resource.key);
        let unlisted = ResourceView::default();
        let without = self.resources().chain([unlisted]).map(is_without).collect();
        rows.without(self.optional(Columns::RESOURCE), without)
    }

    /// Returns the keys of the records that are routed to the destination, from `first_record` on,
    /// in order of key, each with the number of records. A record without a resource has key 0.
    pub fn routed_keys(&self, cursor: usize, first_record: usize) -> Vec<(u64, u64)> {
        let rows = self.routed_rows(cursor);
        let listed = self.resource_count();
        let mut counts = vec![0; listed + 1];
        for index in (first_record..self.record_count()).filter(|index| rows.contains(*index)) {
            counts[usize::from(self.resource_number(index)).min(listed)] += 1;
        }
        let keys = self.resources().map(|resource| resource.key).chain([0]);
        let mut keys: Vec<(u64, u64)> = keys.zip(counts).filter(|(_, rows)| *rows > 0).collect();
        keys.sort_unstable_by_key(|(key, _)| *key);
        keys.dedup_by(|(key, rows), (kept, sum)| {
            let is_same = key == kept;
            *sum += if is_same { *rows } else { 0 };
            is_same
        });
        keys
    }

    /// Returns the destinations of record `index`.
    pub(crate) fn destinations_of(&self, index: usize) -> Destinations<'_> {
        let cell = self.route_cells().get(index);
        self.routes().get(cell.map_or(0, |cell| usize::from(u16::from_le_bytes(*cell)))).1
    }

    /// Returns the destinations if they are the same for all records.
    pub(crate) fn single_route(&self) -> Option<Vec<u16>> {
        (self.header.route_count == 1).then(|| self.routes().get(0).1.to_list())
    }

    fn routes(&self) -> Routes<'_> {
        let (start, len) = (self.header.tail_at as usize, self.header.routes_len as usize);
        Routes::new(&self.buf[start..start + len], usize::from(self.header.route_count))
    }

    /// Returns the set of destinations of each record; empty if all have the first set.
    fn route_cells(&self) -> &[[u8; 2]] {
        self.optional(Columns::ROUTE)
    }

    /// Returns the number of entries in the resource table.
    pub fn resource_count(&self) -> usize {
        usize::from(self.header.resource_count)
    }

    /// Returns entry `number` of the resource table; an empty one if there is no such entry.
    pub fn resource(&self, number: u16) -> ResourceView<'_> {
        let (start, len) = (self.header.resources_at(), self.header.resources_len as usize);
        let table = &self.buf[start..start + len];
        resources::read(table, self.resource_count(), usize::from(number))
    }

    /// Returns every entry of the resource table, in order of number.
    pub fn resources(&self) -> impl Iterator<Item = ResourceView<'_>> {
        (0..self.header.resource_count).map(|number| self.resource(number))
    }

    /// Returns the resource of record `index`.
    pub fn resource_of(&self, index: usize) -> ResourceView<'_> {
        self.resource(self.resource_number(index))
    }

    fn resource_number(&self, index: usize) -> u16 {
        let cell = self.optional(Columns::RESOURCE).get(index);
        cell.map_or(0, |cell| u16::from_le_bytes(*cell))
    }

    /// Returns the cell of a one-byte column; 0 if there is no such column.
    fn byte(&self, column: Columns, index: usize) -> u8 {
        self.optional::<1>(column).get(index).map_or(0, |cell| cell[0])
    }

    /// Returns the hashes under which the batch is indexed: the keys of its resources, sorted and
    /// without duplicates; 0 is not a key.
    pub fn keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self.resources().map(|resource| resource.key).collect();
        keys.retain(|key| *key != 0);
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the counts of the stream up to the end of this batch.
    pub fn book(&self) -> SourceBook {
        SourceBook::decode(self.encoded_book())
    }

    /// Returns the book as [`SourceBook::encode`] encodes it.
    pub fn encoded_book(&self) -> &[u8] {
        let start = self.header.book_at();
        &self.buf[start..start + self.header.book_len as usize]
    }

    /// Returns what the source needs, besides the position, to resume reading after this batch.
    pub fn state(&self) -> &[u8] {
        let start = self.header.state_at();
        &self.buf[start..start + self.header.state_len as usize]
    }

    /// Returns record `index`; an empty one if there is no such record.
    pub fn record(&self, index: usize) -> RecordView<'_> {
        let none = RecordView { position: self.header.base(), ..RecordView::default() };
        self.records().nth(index).unwrap_or(none)
    }

    /// Returns all records in order.
    pub fn records(&self) -> Records<'_> {
        Records {
            batch: self,
            next: 0,
            timestamp: self.cells(0),
            position: self.cells(8),
            body_at: self.cells(12),
            body_len: self.cells(16),
            flags: self.cells(self.header.columns.flags_at()),
            attributes: self.spans(Columns::ATTRIBUTES),
            severity: self.optional(Columns::SEVERITY),
            has_more: self.header.columns.has(Columns::ATTRIBUTES.with(Columns::SEVERITY)),
            has_rare: self.header.columns.has(Columns::RARE),
        }
    }

    /// Returns the records with these indexes, as far as they exist, in order.
    pub fn records_in(&self, range: Range<usize>) -> Records<'_> {
        let mut records = self.records();
        records.next = range.start;
        let end = range.end.min(records.timestamp.len());
        records.timestamp = &records.timestamp[..end];
        records
    }

    /// Returns how many leading records have a position at or before `position`.
    pub fn records_up_to(&self, position: Position) -> usize {
        if position >= self.header.end() {
            return self.record_count();
        }
        if position <= self.header.base() {
            return 0;
        }
        let delta = position.offset - self.header.base_offset;
        self.cells::<4>(8).partition_point(|cell| u64::from(u32::from_le_bytes(*cell)) <= delta)
    }

    /// Returns record `index` on its own, decoded, with its resource.
    pub fn to_log_record(&self, index: usize) -> LogRecord {
        let view = self.record(index);
        LogRecord {
            timestamp: view.timestamp_ns,
            observed_timestamp: self.header.observed_ns,
            severity_number: view.severity,
            body: view.plain_body().into_owned(),
            attributes: String::from_utf8_lossy(view.attributes).into_owned(),
            resource: Resource::decode(self.resource(view.resource()).encoded),
            kind: view.kind(),
            facility: view.facility().code(),
            process_id: String::from_utf8_lossy(view.process_id()).into_owned(),
            message_id: String::from_utf8_lossy(view.message_id()).into_owned(),
        }
    }

    /// Returns the column at this offset, given in bytes per record from the first column on.
    fn cells<const WIDTH: usize>(&self, place: usize) -> &[[u8; WIDTH]] {
        let count = self.record_count();
        let start = self.header.columns_at as usize + place * count;
        self.buf[start..start + count * WIDTH].as_chunks().0
    }

    /// Returns a column that not every frame has; empty if this frame does not have it.
    fn optional<const WIDTH: usize>(&self, column: Columns) -> &[[u8; WIDTH]] {
        let columns = self.header.columns;
        if columns.has(column) { self.cells(columns.place_of(column)) } else { &[] }
    }

    fn spans(&self, column: Columns) -> Spans<'_> {
        let columns = self.header.columns;
        if !columns.has(column) {
            return Spans::default();
        }
        let place = columns.place_of(column);
        Spans { at: self.cells(place), len: self.cells(place + 4) }
    }

    #[inline]
    fn bytes_at(&self, at: [u8; 4], len: [u8; 4]) -> Option<&[u8]> {
        let (at, len) = (u32::from_le_bytes(at) as usize, u32::from_le_bytes(len) as usize);
        self.buf.get(at..at + len)
    }
}

/// Offsets and lengths of a column of spans; empty if the frame has none.
#[derive(Debug, Clone, Copy, Default)]
struct Spans<'a> {
    at: &'a [[u8; 4]],
    len: &'a [[u8; 4]],
}

impl<'a> Spans<'a> {
    #[inline]
    fn get(&self, batch: &'a Batch, index: usize) -> &'a [u8] {
        let span = self.at.get(index).zip(self.len.get(index));
        span.and_then(|(at, len)| batch.bytes_at(*at, *len)).unwrap_or_default()
    }
}

/// Iterator over the records of a batch.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    batch: &'a Batch,
    next: usize,
    timestamp: &'a [[u8; 8]],
    position: &'a [[u8; 4]],
    body_at: &'a [[u8; 4]],
    body_len: &'a [[u8; 4]],
    flags: &'a [[u8; 1]],
    attributes: Spans<'a>,
    severity: &'a [[u8; 1]],
    /// The frame has attributes or severities.
    has_more: bool,
    has_rare: bool,
}

impl<'a> Records<'a> {
    /// Returns attributes and severity of record `i`. A separate function, so that the rest of
    /// [`Self::next`] is small enough to be inlined into each loop over records.
    #[inline(never)]
    fn more(&self, i: usize) -> (&'a [u8], u8) {
        let severity = self.severity.get(i).map_or(0, |cell| cell[0]);
        (self.attributes.get(self.batch, i), severity)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordView<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordView<'a>> {
        let i = self.next;
        let timestamp = self.timestamp.get(i)?;
        self.next += 1;
        let header = &self.batch.header;
        let position = u64::from(u32::from_le_bytes(*self.position.get(i)?));
        let body = self.batch.bytes_at(*self.body_at.get(i)?, *self.body_len.get(i)?);
        let (attributes, severity) = if self.has_more { self.more(i) } else { (&[][..], 0) };
        Some(RecordView {
            timestamp_ns: i64::from_le_bytes(*timestamp),
            position: Position::new(header.epoch, header.base_offset + position),
            body: body.unwrap_or_default(),
            attributes,
            severity: Severity(severity),
            flags: RecordFlags(self.flags.get(i)?[0]),
            rare: if self.has_rare { Rare::Sealed(self.batch, i as u32) } else { Rare::Nothing },
        })
    }

    fn nth(&mut self, n: usize) -> Option<RecordView<'a>> {
        self.next += n;
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.timestamp.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Records<'_> {}

impl<'a> RecordView<'a> {
    /// Returns the body without JSON escapes.
    pub fn plain_body(&self) -> std::borrow::Cow<'a, [u8]> {
        if self.flags.contains(RecordFlags::JSON_ESCAPED) {
            unescape_json(self.body)
        } else {
            self.body.into()
        }
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
