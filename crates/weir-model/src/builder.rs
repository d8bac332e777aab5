//! Fills one frame: a block is read straight into the arena, a decoder marks the records in it,
//! [`BatchBuilder::seal`] appends the columns.
//!
//! Invariants: nothing is allocated per record; a builder never grows beyond one frame
//! ([`Full`] says when to seal and go on with the next); spans always lie in the arena.

use std::ops::Range;

use crate::frame::{BatchClass, FrameHeader, HEADER_LEN};
use crate::limits::{
    FRAME_BYTES_MAX, RESOURCE_BYTES_MAX, ROUTE_BYTES_MAX, STATE_BYTES_MAX, TAIL_BYTES_RESERVED,
};
use crate::pool::PooledBuf;
use crate::{Batch, Position, RecordFlags, RecordView, Severity, SourceBook, SourceId, StreamId};

/// The frame cannot take the record or bytes: seal it and go on with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// One record as a decoder found it. Spans are offsets into the arena as given by
/// [`BatchBuilder::read_space`] and [`BatchBuilder::append`].
#[derive(Debug, Clone)]
pub struct NewRecord {
    /// Nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// Offset in the stream after the record's last byte.
    pub end_offset: u64,
    /// The body in the arena.
    pub body: Range<usize>,
    /// Attributes in the arena as one JSON object; empty = none.
    pub attributes: Range<usize>,
    /// Severity, when the source states it.
    pub severity: Severity,
    /// Facts about the body.
    pub flags: RecordFlags,
}

/// What the whole batch has in common, given when it is sealed.
#[derive(Debug, Clone, Copy)]
pub struct Seal<'a> {
    /// Kind of records.
    pub class: BatchClass,
    /// The source can read the records again.
    pub repeatable: bool,
    /// The stream.
    pub stream: StreamId,
    /// Streams of one group continue each other; 0 = none.
    pub group: u64,
    /// The source.
    pub source: SourceId,
    /// Position after everything consumed.
    pub end: Position,
    /// When it was read, nanoseconds since 1970.
    pub observed_ns: i64,
    /// Generation of the rules that routed the records.
    pub rule_generation: u32,
    /// Hashes under which the journal indexes the batch (`source_id`).
    pub keys: &'a [u64],
    /// The encoded [`crate::Resource`].
    pub resource: &'a [u8],
    /// Counts of the stream as of `end`.
    pub book: &'a SourceBook,
    /// What the source needs, beside the position, to go on reading behind this batch.
    pub state: &'a [u8],
}

/// The fixed columns of one record, gathered by row while the frame fills: one write to memory
/// per record. Sealing turns rows into columns.
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

/// Fills one frame after another; its buffers are reused.
#[derive(Debug)]
pub struct BatchBuilder {
    buf: PooledBuf,
    /// End of the arena in `buf`.
    len: usize,
    /// The arena is known to be UTF-8 up to here.
    utf8_until: usize,
    base: Position,
    rows: Vec<Row>,
    /// Spans of the attributes, one for each row once `has_attributes`.
    attributes: Vec<(u32, u32)>,
    has_attributes: bool,
    state_reserved: usize,
    /// Destination masks; record `i` goes to `routes[rows[i].route]`.
    routes: Vec<Vec<u64>>,
}

impl BatchBuilder {
    /// An empty frame whose reading begins at `base`.
    pub fn new(base: Position) -> Self {
        Self {
            buf: PooledBuf::full_size(),
            len: HEADER_LEN,
            utf8_until: HEADER_LEN,
            base,
            rows: Vec::new(),
            attributes: Vec::new(),
            has_attributes: false,
            state_reserved: 0,
            routes: Vec::new(),
        }
    }

    /// Starts over at `base`, dropping what was not sealed.
    pub fn reset(&mut self, base: Position) {
        self.base = base;
        self.len = HEADER_LEN;
        self.utf8_until = HEADER_LEN;
        self.has_attributes = false;
        self.state_reserved = 0;
        self.routes.clear();
        self.rows.clear();
        self.attributes.clear();
    }

    /// Where reading of this batch began.
    pub fn base(&self) -> Position {
        self.base
    }

    /// Records so far.
    pub fn record_count(&self) -> usize {
        self.rows.len()
    }

    /// Free arena space of at most `max` bytes, to read a block into; then call
    /// [`Self::advance`] with the number of bytes that were read.
    pub fn read_space(&mut self, max: usize) -> &mut [u8] {
        let room = self.room().min(max);
        &mut self.buf[self.len..self.len + room]
    }

    /// Takes the first `count` bytes of the read space into the arena; returns their span.
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

    /// Gives the end of the arena, from `end` on, back to the read space. No record may have a
    /// span there.
    pub fn retract(&mut self, end: usize) {
        debug_assert!((HEADER_LEN..=self.len).contains(&end), "retract beyond the arena");
        self.len = end.clamp(HEADER_LEN, self.len);
        self.utf8_until = self.utf8_until.min(self.len);
    }

    /// Says that this span of the arena is UTF-8: a decoder knows when the bytes are still in the
    /// processor's cache. A batch whose whole arena was vouched for, piece by piece and in order,
    /// says so.
    pub fn vouch_utf8(&mut self, span: Range<usize>) {
        debug_assert!(std::str::from_utf8(&self.buf[span.clone()]).is_ok(), "not UTF-8");
        if span.start == self.utf8_until {
            self.utf8_until = span.end.min(self.len);
        }
    }

    /// The bytes of the arena, addressed as the spans are (the first [`HEADER_LEN`] bytes are the
    /// header's and have no meaning yet).
    pub fn arena(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// Bytes that the arena can still take, with one more record's columns put aside.
    pub fn room(&self) -> usize {
        let columns = (self.record_count() + 1) * FrameHeader::column_bytes(self.has_attributes);
        // 16: alignment of the columns and of the end.
        let used = self.len + columns + self.state_reserved + TAIL_BYTES_RESERVED + 16;
        FRAME_BYTES_MAX.saturating_sub(used)
    }

    /// Puts room aside for a resume state of that size (replacing an earlier reservation).
    /// A decoder keeps this in step with its open partial lines.
    pub fn reserve_state(&mut self, bytes: usize) {
        self.state_reserved = bytes.min(STATE_BYTES_MAX);
    }

    /// Adds one record, routed to nothing until [`Self::route_all`] or [`Self::route`].
    #[inline]
    pub fn push(&mut self, record: &NewRecord) -> Result<(), Full> {
        let delta = record.end_offset.saturating_sub(self.base.offset);
        let Ok(delta) = u32::try_from(delta) else { return Err(Full) };
        if self.room() == 0 {
            return Err(Full);
        }
        if !record.attributes.is_empty() {
            if !self.has_attributes {
                self.begin_attributes()?;
            }
            let at = record.attributes.start as u32;
            self.attributes.push((at, record.attributes.len() as u32));
        } else if self.has_attributes {
            self.attributes.push((0, 0));
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

    /// The arena together with a way to add plain records, for decoders that go over a block in
    /// one loop. At most `u32::MAX` bytes behind the base, and only while no record has
    /// attributes: otherwise it takes none.
    pub fn plain(&mut self) -> (&[u8], PlainRecords<'_>) {
        let left = if self.has_attributes {
            0
        } else {
            self.room().div_ceil(FrameHeader::column_bytes(false))
        };
        let base = self.base.offset;
        (&self.buf[..self.len], PlainRecords { rows: &mut self.rows, left, base })
    }

    /// The first record with attributes makes the column; earlier records have none.
    #[cold]
    fn begin_attributes(&mut self) -> Result<(), Full> {
        if self.record_count() * 8 + 8 > self.room() {
            return Err(Full);
        }
        self.has_attributes = true;
        self.attributes.resize(self.rows.len(), (0, 0));
        Ok(())
    }

    /// Record `index` as it stands, for the rules.
    pub fn record(&self, index: usize) -> RecordView<'_> {
        let row = &self.rows[index];
        let span = |at: u32, len: u32| &self.buf[at as usize..at as usize + len as usize];
        let (at, len) = self.attributes.get(index).copied().unwrap_or((0, 0));
        RecordView {
            timestamp_ns: row.timestamp,
            position: Position::new(self.base.epoch, self.base.offset + u64::from(row.position)),
            body: span(row.body_at, row.body_len),
            attributes: span(at, len),
            severity: Severity(row.severity),
            flags: RecordFlags(row.flags),
        }
    }

    /// Keeps the records for which `keep` says so, which is asked once for each in order. What is
    /// taken out leaves nothing but its bytes in the arena.
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut index = 0;
        let mut kept = Vec::with_capacity(self.attributes.len());
        let attributes = &self.attributes;
        self.rows.retain(|_| {
            let stays = keep(index);
            if stays && let Some(span) = attributes.get(index) {
                kept.push(*span);
            }
            index += 1;
            stays
        });
        self.attributes = kept;
    }

    /// Routes record `index` to the destinations in `mask` (see [`Self::route_all`]). Call
    /// [`Self::route_all`] first, for those that go where most go.
    pub fn route(&mut self, index: usize, mask: &[u64]) -> Result<(), Full> {
        let route = match self.routes.iter().position(|known| known == mask) {
            Some(route) => route,
            None => self.add_route(mask)?,
        };
        self.rows[index].route = route as u16;
        Ok(())
    }

    /// Becomes a place to write the records of `other` anew: nothing in it, the same base, the
    /// same routes to choose from, the same room put aside.
    pub fn rewrite_of(&mut self, other: &Self) {
        self.reset(other.base);
        self.routes.clone_from(&other.routes);
        self.state_reserved = other.state_reserved;
    }

    /// Routes the last record as record `index` of the batch that is written anew.
    pub fn route_as(&mut self, other: &Self, index: usize) {
        if let Some(row) = self.rows.last_mut() {
            row.route = other.rows[index].route;
        }
    }

    fn add_route(&mut self, mask: &[u64]) -> Result<usize, Full> {
        let words = self.routes.iter().map(Vec::len).max().unwrap_or(0).max(mask.len());
        if (self.routes.len() + 1) * (8 + 8 * words) > ROUTE_BYTES_MAX {
            return Err(Full);
        }
        self.routes.push(mask.to_vec());
        Ok(self.routes.len() - 1)
    }

    /// Routes every record to the destinations in `mask` (bit `i` of word `i / 64` is the
    /// destination with cursor index `i`).
    pub fn route_all(&mut self, mask: &[u64]) {
        self.routes.clear();
        self.routes.push(mask.to_vec());
        for row in &mut self.rows {
            row.route = 0;
        }
    }

    /// Seals the frame: the columns and the common parts are appended, and the builder starts
    /// over at the position where this batch ends. A batch may have no records: it then only
    /// carries a position, a book and a state.
    pub fn seal(&mut self, seal: &Seal<'_>) -> Batch {
        debug_assert!(seal.resource.len() <= RESOURCE_BYTES_MAX, "resource too large");
        debug_assert!(seal.state.len() <= STATE_BYTES_MAX, "state too large");
        let count = self.record_count();
        let columns_at = self.len.next_multiple_of(8);
        let arena_len = self.len - HEADER_LEN;
        let is_utf8 = self.utf8_until == self.len;
        self.len = columns_at;
        self.write_columns(count);
        let tail_at = self.len;
        let route_words = self.routes.iter().map(Vec::len).max().unwrap_or(0);
        let book_at = self.write_tail(seal, route_words);
        let book_len = self.write_book(seal.book, book_at);
        self.put(seal.state);
        let frame_len = self.len.next_multiple_of(8);
        self.buf[self.len..frame_len].fill(0);
        let header = FrameHeader {
            class: seal.class,
            repeatable: seal.repeatable,
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
            has_attributes: self.has_attributes,
            columns_at: columns_at as u32,
            tail_at: tail_at as u32,
            arena_len: arena_len as u32,
            route_count: self.routes.len() as u16,
            route_words: route_words as u16,
            key_count: seal.keys.len() as u32,
            resource_len: seal.resource.len() as u32,
            book_len: book_len as u32,
            state_len: seal.state.len() as u32,
        };
        header.write(&mut self.buf[..HEADER_LEN]);
        let buf = self.take_frame(frame_len);
        self.reset(seal.end);
        Batch::from_parts(buf, header, is_utf8)
    }

    /// The finished frame: handed over as it is when it fills most of its buffer, else copied to
    /// an exact allocation, so that a trickle does not hold half a mebibyte per line.
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

    fn write_columns(&mut self, count: usize) {
        let rows = std::mem::take(&mut self.rows);
        let attributes = std::mem::take(&mut self.attributes);
        self.write_column(&rows, |row| row.timestamp.to_le_bytes());
        self.write_column(&rows, |row| row.position.to_le_bytes());
        self.write_column(&rows, |row| row.body_at.to_le_bytes());
        self.write_column(&rows, |row| row.body_len.to_le_bytes());
        if self.has_attributes {
            debug_assert_eq!(attributes.len(), count, "a record without its attributes");
            self.write_column(&attributes, |span| span.0.to_le_bytes());
            self.write_column(&attributes, |span| span.1.to_le_bytes());
        }
        self.write_column(&rows, |row| row.route.to_le_bytes());
        self.write_column(&rows, |row| [row.severity]);
        self.write_column(&rows, |row| [row.flags]);
        self.rows = rows;
        self.attributes = attributes;
        let end = self.len.next_multiple_of(8);
        self.buf[self.len..end].fill(0);
        self.len = end;
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

    /// The next `count` cells of `WIDTH` bytes.
    fn column<const WIDTH: usize>(&mut self, count: usize) -> &mut [[u8; WIDTH]] {
        let start = self.len;
        self.len += count * WIDTH;
        self.buf[start..self.len].as_chunks_mut().0
    }

    fn write_tail(&mut self, seal: &Seal<'_>, route_words: usize) -> usize {
        let routes = std::mem::take(&mut self.routes);
        for (index, mask) in routes.iter().enumerate() {
            let count = self.routed_count(index, routes.len());
            self.put(&(count as u32).to_le_bytes());
            self.put(&[0; 4]);
            for word in 0..route_words {
                self.put(&mask.get(word).copied().unwrap_or(0).to_le_bytes());
            }
        }
        self.routes = routes;
        for key in seal.keys {
            self.put(&key.to_le_bytes());
        }
        self.put(seal.resource);
        self.len
    }

    fn routed_count(&self, route: usize, routes: usize) -> usize {
        if routes == 1 {
            return self.record_count();
        }
        self.rows.iter().filter(|row| usize::from(row.route) == route).count()
    }

    fn write_book(&mut self, book: &SourceBook, at: usize) -> usize {
        let mut encoded = Vec::with_capacity(128);
        book.encode(&mut encoded);
        self.put(&encoded);
        self.len - at
    }
}

/// Adds records that have nothing but a time, a body and flags. See [`BatchBuilder::plain`].
#[derive(Debug)]
pub struct PlainRecords<'a> {
    rows: &'a mut Vec<Row>,
    left: usize,
    base: u64,
}

impl PlainRecords<'_> {
    /// Adds one record; the meanings are those of [`NewRecord`]. `false`: it was not added, push
    /// it in the usual way to learn why.
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
