//! Fills one frame: a block is read directly into the arena, a decoder marks the records in it, and
//! [`BatchBuilder::seal`] appends the columns.
//!
//! Invariants: nothing is allocated per record; a builder never grows beyond one frame ([`Full`]
//! tells the caller to seal it and start the next); spans always lie within the arena; what only
//! some records have (attributes, an original, ids, a kind) costs the others neither bytes nor
//! time.

use std::ops::Range;

use crate::batch;
use crate::columns::Columns;
use crate::frame::{FrameHeader, HEADER_LEN};
use crate::kind::{Kinds, RecordKind};
use crate::limits::{
    FRAME_BYTES_MAX, RESOURCE_BYTES_MAX, RESOURCE_BYTES_RESERVED, RESOURCE_TABLE_BYTES_MAX,
    ROUTE_BYTES_MAX, ROUTE_BYTES_RESERVED, STATE_BYTES_MAX, TAIL_BYTES_RESERVED,
};
use crate::pool::PooledBuf;
use crate::resources::{ResourceTable, ResourceView};
use crate::routes::RouteTable;
use crate::{
    Batch, Facility, HeaderChange, Position, RecordFlags, RecordView, Severity, SourceBook,
    SourceId, StreamId,
};

/// The frame cannot take the record or bytes: seal it and continue with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A record as found by a decoder. Spans are offsets into the arena as returned by
/// [`BatchBuilder::read_space`] and [`BatchBuilder::append`]; an empty span means none.
#[derive(Debug, Clone, Default)]
pub struct NewRecord {
    /// Nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// Offset in the stream after the record's last byte.
    pub end_offset: u64,
    /// The body in the arena.
    pub body: Range<usize>,
    /// Attributes in the arena as one JSON object; empty = none.
    pub attributes: Range<usize>,
    /// Severity, if the source states it.
    pub severity: Severity,
    /// Properties of the body.
    pub flags: RecordFlags,
    /// The sender's bytes in the arena, of which the body is the message (an envelope, a syslog
    /// line); empty = none.
    pub original: Range<usize>,
    /// The sender's name for the process, in the arena.
    pub process_id: Range<usize>,
    /// The sender's name for this type of message, in the arena.
    pub message_id: Range<usize>,
    /// Number of the resource that produced it, as returned by [`BatchBuilder::resource`].
    pub resource: u16,
    /// Its kind.
    pub kind: RecordKind,
    /// Facility, if the source states it.
    pub facility: Facility,
}

/// The common properties of the batch, given when it is sealed.
#[derive(Debug, Clone, Copy)]
pub struct Seal<'a> {
    /// The source can read the records again.
    pub repeatable: bool,
    /// The stream.
    pub stream: StreamId,
    /// Streams of one group continue each other; 0 = none.
    pub group: u64,
    /// The source.
    pub source: SourceId,
    /// The position after everything consumed.
    pub end: Position,
    /// When it was read, nanoseconds since 1970.
    pub observed_ns: i64,
    /// Generation of the rules that routed the records.
    pub rule_generation: u32,
    /// Counts of the stream up to `end`.
    pub book: &'a SourceBook,
    /// What the source needs, besides the position, to resume reading after this batch.
    pub state: &'a [u8],
}

/// The fixed columns of one record, collected by row while the frame is filled, with one write to
/// memory per record. Sealing turns rows into columns.
#[derive(Debug, Clone, Copy)]
struct Row {
    timestamp: i64,
    position: u32,
    body_at: u32,
    body_len: u32,
    route: u16,
    severity: u8,
    flags: u8,
}

/// Offset and length in the frame.
type Span = (u32, u32);

/// The columns that are empty for most records.
#[derive(Debug, Clone, Copy, Default)]
struct Rare {
    original: Span,
    process_id: Span,
    message_id: Span,
    resource: u16,
    kind: RecordKind,
    facility: Facility,
}

fn span_of(range: &Range<usize>) -> Span {
    if range.is_empty() { (0, 0) } else { (range.start as u32, range.len() as u32) }
}

/// Fills one frame after another; its buffers are reused.
#[derive(Debug)]
pub struct BatchBuilder {
    buf: PooledBuf,
    /// End of the arena in `buf`.
    len: usize,
    /// Up to here the arena is known to be UTF-8.
    utf8_until: usize,
    base: Position,
    /// The frame will take the place of several others.
    is_merged: bool,
    rows: Vec<Row>,
    /// Spans of the attributes, one for each row if there are any.
    attributes: Vec<Span>,
    /// The other columns that not every frame has, one for each row if there are any.
    rare: Vec<Rare>,
    /// Columns that the frame will have. Those for route and severity are counted from the start.
    columns: Columns,
    state_reserved: usize,
    /// Record `i` goes to set number `rows[i].route`.
    routes: RouteTable,
    resources: ResourceTable,
}

/// Columns for which room is always reserved, because it is known only late whether they exist.
const KEPT: Columns = Columns::ROUTE.with(Columns::SEVERITY);

impl BatchBuilder {
    /// Creates an empty frame whose reading starts at `base`.
    pub fn new(base: Position) -> Self {
        Self {
            buf: PooledBuf::full_size(),
            len: HEADER_LEN,
            utf8_until: HEADER_LEN,
            base,
            is_merged: false,
            rows: Vec::new(),
            attributes: Vec::new(),
            rare: Vec::new(),
            columns: KEPT,
            state_reserved: 0,
            routes: RouteTable::new(),
            resources: ResourceTable::new(),
        }
    }

    /// Starts over at `base`, dropping what was not sealed.
    pub fn reset(&mut self, base: Position) {
        self.base = base;
        self.is_merged = false;
        self.len = HEADER_LEN;
        self.utf8_until = HEADER_LEN;
        self.columns = KEPT;
        self.state_reserved = 0;
        self.routes.clear();
        self.resources.clear();
        self.rows.clear();
        self.attributes.clear();
        self.rare.clear();
    }

    /// Returns where reading of this batch started.
    pub fn base(&self) -> Position {
        self.base
    }

    /// Returns the number of records so far.
    pub fn record_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns free arena space of at most `max` bytes, to read a block into; call
    /// [`Self::advance`] with the number of bytes read afterwards.
    pub fn read_space(&mut self, max: usize) -> &mut [u8] {
        let room = self.room().min(max);
        &mut self.buf[self.len..self.len + room]
    }

    /// Adds the first `count` bytes of the read space to the arena; returns their span.
    pub fn advance(&mut self, count: usize) -> Range<usize> {
        let start = self.len;
        self.len += count;
        debug_assert!(self.len <= FRAME_BYTES_MAX, "advance beyond the frame");
        start..self.len
    }

    /// Copies bytes into the arena (a joined body); returns their span.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Range<usize>, Full> {
        if bytes.len() > self.room() {
            return Err(Full);
        }
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        Ok(self.advance(bytes.len()))
    }

    /// Copies bytes of the arena to its end; returns their span there.
    pub fn append_within(&mut self, span: Range<usize>) -> Result<Range<usize>, Full> {
        if span.len() > self.room() {
            return Err(Full);
        }
        let count = span.len();
        self.buf.copy_within(span, self.len);
        Ok(self.advance(count))
    }

    /// Returns the end of the arena, from `end` on, to the read space. No record may have a span
    /// there.
    pub fn retract(&mut self, end: usize) {
        debug_assert!((HEADER_LEN..=self.len).contains(&end), "retract beyond the arena");
        self.len = end.clamp(HEADER_LEN, self.len);
        self.utf8_until = self.utf8_until.min(self.len);
    }

    /// Declares this span of the arena to be UTF-8: a decoder can check it while the bytes are
    /// still in the processor's cache. If the whole arena was declared, piece by piece and in
    /// order, the batch is known to be UTF-8.
    pub fn mark_utf8(&mut self, span: Range<usize>) {
        debug_assert!(std::str::from_utf8(&self.buf[span.clone()]).is_ok(), "not UTF-8");
        if span.start == self.utf8_until {
            self.utf8_until = span.end.min(self.len);
        }
    }

    /// Declares that the frame takes the place of several others
    /// ([`FrameHeader::merged`](crate::FrameHeader::merged)).
    pub(crate) fn mark_merged(&mut self) {
        self.is_merged = true;
    }

    /// Returns the bytes of the arena, addressed like the spans (the first [`HEADER_LEN`] bytes
    /// belong to the header and have no meaning yet).
    pub fn arena(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Returns how many bytes the arena can still take, with one more record's columns reserved.
    pub fn room(&self) -> usize {
        let columns = (self.record_count() + 1) * self.columns.row_bytes();
        FRAME_BYTES_MAX.saturating_sub(self.len + columns + self.tail_bytes())
    }

    /// Returns the bytes reserved for what follows the columns.
    fn tail_bytes(&self) -> usize {
        let more = self.resources.bytes().saturating_sub(RESOURCE_BYTES_RESERVED)
            + self.routes.bytes().saturating_sub(ROUTE_BYTES_RESERVED);
        // 16: alignment of the columns and of the end.
        self.state_reserved + TAIL_BYTES_RESERVED + more + 16
    }

    /// Reserves room for a resume state of that size (replacing an earlier reservation). A decoder
    /// keeps this in step with its open partial lines.
    pub fn reserve_state(&mut self, bytes: usize) {
        self.state_reserved = bytes.min(STATE_BYTES_MAX);
    }

    /// Returns the number of a resource in this batch, for [`NewRecord::resource`], adding it to
    /// the batch's table if needed. The first one is number 0, which is the default for all
    /// records, and may be added after them. At most
    /// [`RESOURCE_BYTES_MAX`](crate::limits::RESOURCE_BYTES_MAX) long.
    pub fn resource(&mut self, key: u64, encoded: &[u8]) -> Result<u16, Full> {
        debug_assert!(encoded.len() <= RESOURCE_BYTES_MAX, "resource too large");
        let resource = ResourceView { key, encoded };
        if let Some(number) = self.resources.find(resource) {
            return Ok(number);
        }
        let (has, more) = (self.resources.bytes(), resource.table_bytes());
        self.check_table(has, more, RESOURCE_BYTES_RESERVED, RESOURCE_TABLE_BYTES_MAX)?;
        Ok(self.resources.add(resource))
    }

    /// Checks whether a table with this many bytes, some of which are always reserved, can take
    /// more.
    fn check_table(
        &self,
        has: usize,
        more: usize,
        reserved: usize,
        max: usize,
    ) -> Result<(), Full> {
        let takes = (has + more).saturating_sub(reserved.max(has));
        if has + more > max || takes > self.room() { Err(Full) } else { Ok(()) }
    }

    /// Returns resource `number` of this batch; an empty one if there is no such resource.
    pub fn resource_at(&self, number: u16) -> ResourceView<'_> {
        self.resources.get(number)
    }

    /// Returns the number of resources so far.
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Adds a record, without destinations until [`Self::route_all`] or [`Self::route`].
    #[inline]
    pub fn push(&mut self, record: &NewRecord) -> Result<(), Full> {
        let delta = record.end_offset.saturating_sub(self.base.offset);
        let Ok(delta) = u32::try_from(delta) else { return Err(Full) };
        if self.room() == 0 {
            return Err(Full);
        }
        let wanted = record.columns();
        if !self.has_columns(wanted) {
            self.begin_columns(wanted)?;
        }
        if self.columns.has(Columns::ATTRIBUTES) {
            self.attributes.push(span_of(&record.attributes));
        }
        if self.columns.has(Columns::RARE) {
            self.rare.push(record.rare());
        }
        self.rows.push(Row {
            timestamp: record.timestamp_ns,
            position: delta,
            body_at: record.body.start as u32,
            body_len: record.body.len() as u32,
            route: 0,
            severity: record.severity.0,
            flags: record.flags.0,
        });
        Ok(())
    }

    /// Adds a record of another batch or builder, with all its bytes. `resource` is its number
    /// here, and `original` what to keep as its original: its own one, or nothing. Spans within the
    /// original also lie within it here.
    pub fn copy(
        &mut self,
        record: &RecordView<'_>,
        original: &[u8],
        resource: u16,
    ) -> Result<(), Full> {
        self.copy_with(record, HeaderChange::default(), original, resource)
    }

    /// Like [`Self::copy`], with a changed header.
    pub fn copy_with(
        &mut self,
        record: &RecordView<'_>,
        header: HeaderChange<'_>,
        original: &[u8],
        resource: u16,
    ) -> Result<(), Full> {
        let whole = self.append(original)?;
        let mut place = |bytes: &[u8]| -> Result<Range<usize>, Full> {
            match place_within(original, bytes) {
                Some(at) => Ok(whole.start + at..whole.start + at + bytes.len()),
                None if bytes.is_empty() => Ok(0..0),
                None => self.append(bytes),
            }
        };
        let (body, attributes) = (place(record.body)?, place(record.attributes)?);
        let process_id = place(header.process_id.unwrap_or(record.process_id()))?;
        let message_id = place(header.message_id.unwrap_or(record.message_id()))?;
        self.push(&NewRecord {
            timestamp_ns: record.timestamp_ns,
            end_offset: record.position.offset,
            body,
            attributes,
            severity: record.severity,
            flags: record.flags,
            original: whole,
            process_id,
            message_id,
            resource,
            kind: record.kind(),
            facility: header.facility.unwrap_or(record.facility()),
        })
    }

    /// Returns the arena together with a way to add plain records, for decoders that process a
    /// block in one loop. Limited to `u32::MAX` bytes after the base, and usable only while no
    /// record has anything that plain ones lack: otherwise it accepts none.
    pub fn plain(&mut self) -> (&[u8], PlainRecords<'_>) {
        let left =
            if self.columns == KEPT { self.room().div_ceil(self.columns.row_bytes()) } else { 0 };
        let base = self.base.offset;
        (&self.buf[..self.len], PlainRecords { rows: &mut self.rows, left, base })
    }

    #[inline]
    fn has_columns(&self, wanted: Columns) -> bool {
        self.columns.with(wanted) == self.columns
    }

    /// Creates columns when the first record needs them; earlier records have empty cells there.
    #[cold]
    fn begin_columns(&mut self, wanted: Columns) -> Result<(), Full> {
        let columns = self.columns.with(wanted);
        let more = columns.row_bytes() - self.columns.row_bytes();
        if (self.record_count() + 1) * more > self.room() {
            return Err(Full);
        }
        self.columns = columns;
        if columns.has(Columns::ATTRIBUTES) {
            self.attributes.resize(self.rows.len(), (0, 0));
        }
        if columns.has(Columns::RARE) {
            self.rare.resize(self.rows.len(), Rare::default());
        }
        Ok(())
    }

    /// Returns record `index`, for the rules.
    pub fn record(&self, index: usize) -> RecordView<'_> {
        let row = &self.rows[index];
        let attributes = self.attributes.get(index).copied().unwrap_or_default();
        RecordView {
            timestamp_ns: row.timestamp,
            position: Position::new(self.base.epoch, self.base.offset + u64::from(row.position)),
            body: self.bytes_of((row.body_at, row.body_len)),
            attributes: self.bytes_of(attributes),
            severity: Severity(row.severity),
            flags: RecordFlags(row.flags),
            rare: if self.columns.has(Columns::RARE) {
                batch::Rare::Building(self, index as u32)
            } else {
                batch::Rare::Nothing
            },
        }
    }

    fn bytes_of(&self, (at, len): Span) -> &[u8] {
        &self.buf[at as usize..at as usize + len as usize]
    }

    /// Returns the number of the resource of record `index`.
    pub fn resource_of(&self, index: usize) -> u16 {
        self.rare.get(index).map_or(0, |rare| rare.resource)
    }

    pub(crate) fn kind_of(&self, index: usize) -> RecordKind {
        self.rare.get(index).map_or(RecordKind::Log, |rare| rare.kind)
    }

    pub(crate) fn facility_of(&self, index: usize) -> Facility {
        self.rare.get(index).map_or(Facility::NONE, |rare| rare.facility)
    }

    pub(crate) fn rare_span(&self, column: Columns, index: usize) -> &[u8] {
        let rare = self.rare.get(index).copied().unwrap_or_default();
        self.bytes_of(match column {
            Columns::ORIGINAL => rare.original,
            Columns::PROCESS_ID => rare.process_id,
            Columns::MESSAGE_ID => rare.message_id,
            _ => (0, 0),
        })
    }

    /// Returns the kinds of the records.
    pub fn kinds(&self) -> Kinds {
        if self.columns.has(Columns::KIND) {
            return self.rare.iter().fold(Kinds::NONE, |kinds, rare| kinds.with(rare.kind));
        }
        if self.rows.is_empty() { Kinds::NONE } else { Kinds::LOGS }
    }

    /// Keeps the records for which `keep` returns true; it is called once for each, in order. A
    /// removed record leaves only its bytes in the arena.
    pub fn retain(&mut self, keep: impl FnMut(usize) -> bool) {
        let kept: Vec<bool> = (0..self.rows.len()).map(keep).collect();
        retain_rows(&mut self.rows, &kept);
        retain_rows(&mut self.attributes, &kept);
        retain_rows(&mut self.rare, &kept);
    }

    /// Routes record `index` to these destinations, by cursor index, sorted and without duplicates.
    /// First call [`Self::route_all`] for the destinations of most records.
    pub fn route(&mut self, index: usize, destinations: &[u16]) -> Result<(), Full> {
        let route = match self.routes.find(destinations) {
            Some(route) => route,
            None => self.add_route(destinations)?,
        };
        self.rows[index].route = route;
        Ok(())
    }

    /// Prepares for rewriting the records of `other`: an empty frame with the same base, the same
    /// available routes, the same resources, and the same reservations.
    pub fn rewrite_of(&mut self, other: &Self) {
        self.reset(other.base);
        self.routes.copy_from(&other.routes);
        self.resources.copy_from(&other.resources);
        self.state_reserved = other.state_reserved;
    }

    /// Routes the last record like record `index` of the batch that is being rewritten.
    pub fn route_as(&mut self, other: &Self, index: usize) {
        if let Some(row) = self.rows.last_mut() {
            row.route = other.rows[index].route;
        }
    }

    fn add_route(&mut self, destinations: &[u16]) -> Result<u16, Full> {
        let (has, more) = (self.routes.bytes(), RouteTable::bytes_of(destinations));
        self.check_table(has, more, ROUTE_BYTES_RESERVED, ROUTE_BYTES_MAX)?;
        Ok(self.routes.add(destinations))
    }

    /// Routes every record to these destinations, by cursor index, sorted and without duplicates.
    pub fn route_all(&mut self, destinations: &[u16]) {
        self.routes.clear();
        self.routes.add(destinations);
        for row in &mut self.rows {
            row.route = 0;
        }
    }

    /// Seals the frame: the columns and the common parts are appended, and the builder starts over
    /// at the position where this batch ends. A batch may have no records: it then only carries a
    /// position, a book and a state.
    pub fn seal(&mut self, seal: &Seal<'_>) -> Batch {
        debug_assert!(seal.state.len() <= STATE_BYTES_MAX, "state too large");
        let count = self.record_count();
        let columns_at = self.len.next_multiple_of(8);
        let arena_len = self.len - HEADER_LEN;
        let is_utf8 = self.utf8_until == self.len;
        self.buf[self.len..columns_at].fill(0);
        self.len = columns_at;
        let is_routed_apart = self.routes.count(self.rows.iter().map(|row| row.route));
        let columns = self.write_columns(is_routed_apart);
        let tail_at = self.len;
        let (route_count, routes_len) =
            self.routes.write(is_routed_apart, &mut self.buf[tail_at..]);
        let resources_at = tail_at + routes_len;
        let resources_len = self.resources.bytes();
        self.resources.write(&mut self.buf[resources_at..resources_at + resources_len]);
        self.len = resources_at + resources_len;
        let book_len = self.write_book(seal.book);
        self.put(seal.state);
        let frame_len = self.len.next_multiple_of(8);
        self.buf[self.len..frame_len].fill(0);
        let header = FrameHeader {
            repeatable: seal.repeatable,
            merged: self.is_merged,
            frame_len: frame_len as u32,
            stream: seal.stream,
            group: seal.group,
            source: seal.source,
            epoch: seal.end.epoch,
            record_count: count as u32,
            base_offset: self.base.offset.min(seal.end.offset),
            end_offset: seal.end.offset,
            observed_ns: seal.observed_ns,
            rule_generation: seal.rule_generation,
            kinds: self.kinds(),
            columns,
            columns_at: columns_at as u32,
            tail_at: tail_at as u32,
            arena_len: arena_len as u32,
            route_count: route_count as u16,
            routes_len: routes_len as u32,
            resource_count: self.resources.len() as u16,
            resources_len: resources_len as u32,
            book_len: book_len as u32,
            state_len: seal.state.len() as u32,
        };
        header.write(&mut self.buf[..HEADER_LEN]);
        let buf = self.take_frame(frame_len);
        self.reset(seal.end);
        Batch::from_parts(buf, header, is_utf8)
    }

    /// Returns the finished frame: as it is if it fills most of its buffer, otherwise copied to an
    /// exact allocation, so that a trickle of lines does not take half a mebibyte per line.
    fn take_frame(&mut self, frame_len: usize) -> PooledBuf {
        if frame_len < FRAME_BYTES_MAX / 4 {
            return PooledBuf::exact(&self.buf[..frame_len]);
        }
        std::mem::replace(&mut self.buf, PooledBuf::full_size())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes the columns that are not empty; returns which those are.
    fn write_columns(&mut self, is_routed_apart: bool) -> Columns {
        let rows = std::mem::take(&mut self.rows);
        let attributes = std::mem::take(&mut self.attributes);
        let has_severity = rows.iter().any(|row| row.severity != 0);
        let columns = self
            .columns
            .with_if(Columns::ROUTE, is_routed_apart)
            .with_if(Columns::SEVERITY, has_severity);
        self.write_column(&rows, |row| row.timestamp.to_le_bytes());
        self.write_column(&rows, |row| row.position.to_le_bytes());
        self.write_column(&rows, |row| row.body_at.to_le_bytes());
        self.write_column(&rows, |row| row.body_len.to_le_bytes());
        self.write_spans(columns, Columns::ATTRIBUTES, &attributes, |span| *span);
        let rare = std::mem::take(&mut self.rare);
        self.write_spans(columns, Columns::ORIGINAL, &rare, |row| row.original);
        self.write_spans(columns, Columns::PROCESS_ID, &rare, |row| row.process_id);
        self.write_spans(columns, Columns::MESSAGE_ID, &rare, |row| row.message_id);
        if columns.has(Columns::ROUTE) {
            self.write_column(&rows, |row| row.route.to_le_bytes());
        }
        if columns.has(Columns::RESOURCE) {
            self.write_column(&rare, |row| row.resource.to_le_bytes());
        }
        self.write_column(&rows, |row| [row.flags]);
        if has_severity {
            self.write_column(&rows, |row| [row.severity]);
        }
        if columns.has(Columns::KIND) {
            self.write_column(&rare, |row| [row.kind as u8]);
        }
        if columns.has(Columns::FACILITY) {
            self.write_column(&rare, |row| [row.facility.cell()]);
        }
        (self.rows, self.attributes, self.rare) = (rows, attributes, rare);
        let end = self.len.next_multiple_of(8);
        self.buf[self.len..end].fill(0);
        self.len = end;
        columns
    }

    fn write_spans<T>(
        &mut self,
        columns: Columns,
        column: Columns,
        values: &[T],
        span: impl Fn(&T) -> Span,
    ) {
        if columns.has(column) {
            self.write_column(values, |value| span(value).0.to_le_bytes());
            self.write_column(values, |value| span(value).1.to_le_bytes());
        }
    }

    fn write_column<T, const WIDTH: usize>(
        &mut self,
        values: &[T],
        bytes: impl Fn(&T) -> [u8; WIDTH],
    ) {
        for (cell, value) in self.column::<WIDTH>(values.len()).iter_mut().zip(values) {
            *cell = bytes(value);
        }
    }

    /// Returns the next `count` cells of `WIDTH` bytes.
    fn column<const WIDTH: usize>(&mut self, count: usize) -> &mut [[u8; WIDTH]] {
        let start = self.len;
        self.len += count * WIDTH;
        self.buf[start..self.len].as_chunks_mut().0
    }

    fn write_book(&mut self, book: &SourceBook) -> usize {
        let mut encoded = Vec::with_capacity(128);
        book.encode(&mut encoded);
        self.put(&encoded);
        encoded.len()
    }
}

impl NewRecord {
    /// Returns the optional columns that are not empty.
    #[inline]
    fn columns(&self) -> Columns {
        KEPT.with_if(Columns::ATTRIBUTES, !self.attributes.is_empty())
            .with_if(Columns::ORIGINAL, !self.original.is_empty())
            .with_if(Columns::PROCESS_ID, !self.process_id.is_empty())
            .with_if(Columns::MESSAGE_ID, !self.message_id.is_empty())
            .with_if(Columns::RESOURCE, self.resource != 0)
            .with_if(Columns::KIND, self.kind != RecordKind::Log)
            .with_if(Columns::FACILITY, self.facility != Facility::NONE)
    }

    fn rare(&self) -> Rare {
        Rare {
            original: span_of(&self.original),
            process_id: span_of(&self.process_id),
            message_id: span_of(&self.message_id),
            resource: self.resource,
            kind: self.kind,
            facility: self.facility,
        }
    }
}

/// Keeps the selected rows of a column that may not exist.
fn retain_rows<T>(rows: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    rows.retain(|_| kept.next().is_some_and(|stays| *stays));
}

/// Returns the offset of `inner` in `outer`, if it is part of the same memory and not merely equal.
fn place_within(outer: &[u8], inner: &[u8]) -> Option<usize> {
    let at = inner.as_ptr().addr().checked_sub(outer.as_ptr().addr())?;
    (!inner.is_empty() && at + inner.len() <= outer.len()).then_some(at)
}

/// Adds records that have only a time, a body and flags. See [`BatchBuilder::plain`].
#[derive(Debug)]
pub struct PlainRecords<'a> {
    rows: &'a mut Vec<Row>,
    left: usize,
    base: u64,
}

impl PlainRecords<'_> {
    /// Adds a record; the parameters have the meanings of [`NewRecord`]. Returns false if it was
    /// not added; push it in the usual way to learn why.
    #[inline]
    pub fn push(
        &mut self,
        timestamp_ns: i64,
        end_offset: u64,
        body: Range<usize>,
        flags: RecordFlags,
    ) -> bool {
        let delta = u32::try_from(end_offset.saturating_sub(self.base));
        let (Ok(position), 1..) = (delta, self.left) else { return false };
        self.left -= 1;
        self.rows.push(Row {
            timestamp: timestamp_ns,
            position,
            body_at: body.start as u32,
            body_len: body.len() as u32,
            route: 0,
            severity: 0,
            flags: flags.0,
        });
        true
    }
}
