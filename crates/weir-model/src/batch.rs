//! A sealed batch: the frame, read in place.
//!
//! Invariant: a `Batch` is immutable and its header was checked against its length; accessors
//! never fail, at worst (a hostile frame that passed its checksum) they give empty slices.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::frame::{self, FrameError, FrameHeader, HEADER_LEN};
use crate::pool::PooledBuf;
use crate::{LogRecord, Position, RecordFlags, Resource, Severity, SourceBook, unescape_json};

/// A batch of records of one stream. Share it as `Arc<Batch>`.
#[derive(Debug)]
pub struct Batch {
    buf: PooledBuf,
    header: FrameHeader,
    /// Known only to who made the batch: it is no part of the frame.
    is_utf8: bool,
}

/// One record of a batch, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// Position after the record.
    pub position: Position,
    /// The body; JSON-escaped when the flags say so.
    pub body: &'a [u8],
    /// Attributes as one JSON object, empty = none.
    pub attributes: &'a [u8],
    /// Severity, when the source states it.
    pub severity: Severity,
    /// Facts about the body.
    pub flags: RecordFlags,
}

impl Batch {
    pub(crate) fn from_parts(buf: PooledBuf, header: FrameHeader, is_utf8: bool) -> Self {
        Self { buf, header, is_utf8 }
    }

    /// Takes bytes read from a disk or peer: checks header, length and checksum.
    pub fn from_frame(bytes: Vec<u8>) -> Result<Self, FrameError> {
        let header = FrameHeader::read(&bytes)?;
        let want = header.frame_len as usize;
        if bytes.len() != want {
            return Err(FrameError::Short { have: bytes.len(), want });
        }
        if frame::checksum(&bytes) != frame::stored_checksum(&bytes) {
            return Err(FrameError::Checksum);
        }
        Ok(Self { buf: bytes.into(), header, is_utf8: false })
    }

    /// The fixed header.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// The frame as it is written: its first bytes with the checksum filled in, and the rest.
    /// Computes the checksum, which a batch that stays in memory never needs.
    pub fn frame_parts(&self) -> ([u8; 16], &[u8]) {
        let frame = &self.buf[..self.header.frame_len as usize];
        let head = frame::head_with_checksum(frame);
        (head, &frame[head.len()..])
    }

    /// The frame behind its first 16 bytes: what follows the head of [`Self::frame_parts`].
    pub fn frame_rest(&self) -> &[u8] {
        &self.buf[16..self.header.frame_len as usize]
    }

    /// Bytes of memory that the batch holds.
    pub fn memory_bytes(&self) -> usize {
        self.buf.capacity() + size_of::<Self>()
    }

    /// Length of the frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.header.frame_len as usize
    }

    /// Records in the batch.
    pub fn record_count(&self) -> usize {
        self.header.record_count as usize
    }

    /// Everything that was read into the arena, plus joined bodies.
    pub fn arena(&self) -> &[u8] {
        &self.buf[HEADER_LEN..HEADER_LEN + self.header.arena_len as usize]
    }

    /// Whether all bodies and attributes are known to be UTF-8. False says nothing: that of a batch
    /// from a disk is not known.
    pub fn is_utf8(&self) -> bool {
        self.is_utf8
    }

    /// How many records are routed to the destination with that cursor index.
    pub fn routed_count(&self, cursor: usize) -> u64 {
        let count = |entry: &[u8]| u64::from(u32::from_le_bytes(std::array::from_fn(|i| entry[i])));
        (0..usize::from(self.header.route_count))
            .map(|route| self.route_entry(route))
            .filter(|entry| mask_contains(entry, cursor))
            .map(count)
            .sum()
    }

    /// The destinations that get any of the records, by cursor index, each with how many; in the
    /// order of the indexes.
    pub fn routed_counts(&self) -> Vec<(usize, u64)> {
        let mut counts = BTreeMap::new();
        for entry in (0..usize::from(self.header.route_count)).map(|r| self.route_entry(r)) {
            let count = u64::from(u32::from_le_bytes(std::array::from_fn(|i| entry[i])));
            for (number, byte) in entry[8..].iter().enumerate().filter(|_| count > 0) {
                for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                    *counts.entry(number * 8 + bit).or_default() += count;
                }
            }
        }
        counts.into_iter().collect()
    }

    /// Whether record `index` is routed to the destination.
    pub fn is_routed(&self, index: usize, cursor: usize) -> bool {
        let route = self.route_of(index);
        route < usize::from(self.header.route_count)
            && mask_contains(self.route_entry(route), cursor)
    }

    fn route_of(&self, index: usize) -> usize {
        if self.header.route_count <= 1 {
            return 0;
        }
        let at = self.column_at(4 + 2 * usize::from(self.header.has_attributes));
        let cell = self.buf.get(at + index * 2..at + index * 2 + 2);
        cell.map_or(0, |b| usize::from(b[0]) | usize::from(b[1]) << 8)
    }

    /// The destination mask of record `index`.
    pub(crate) fn mask_of(&self, index: usize) -> Vec<u64> {
        let route = self.route_of(index);
        if route >= usize::from(self.header.route_count) {
            return Vec::new();
        }
        let words = self.route_entry(route)[8..].as_chunks().0;
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// The destination mask, when all records share one.
    pub(crate) fn single_route(&self) -> Option<Vec<u64>> {
        (self.header.route_count == 1).then(|| self.mask_of(0))
    }

    /// The encoded resource.
    pub fn resource(&self) -> &[u8] {
        let start = self.keys_at() + self.header.key_count as usize * 8;
        &self.buf[start..start + self.header.resource_len as usize]
    }

    /// Hashes under which the batch is indexed.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        let bytes = &self.buf[self.keys_at()..][..self.header.key_count as usize * 8];
        bytes.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b))
    }

    /// Counts of the stream as of the end of this batch.
    pub fn book(&self) -> SourceBook {
        let start = self.book_at();
        SourceBook::decode(&self.buf[start..start + self.header.book_len as usize])
    }

    /// What the source needs, beside the position, to go on reading behind this batch.
    pub fn state(&self) -> &[u8] {
        let start = self.book_at() + self.header.book_len as usize;
        &self.buf[start..start + self.header.state_len as usize]
    }

    /// Record `index`; an empty one when there is none.
    pub fn record(&self, index: usize) -> RecordView<'_> {
        self.records().nth(index).unwrap_or(RecordView {
            timestamp_ns: 0,
            position: self.header.base(),
            body: &[],
            attributes: &[],
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
        })
    }

    /// All records in order.
    pub fn records(&self) -> Records<'_> {
        let count = self.record_count();
        let attributes = 2 * usize::from(self.header.has_attributes);
        Records {
            batch: self,
            next: 0,
            timestamp: self.cells::<8>(0, count),
            position: self.cells::<4>(1, count),
            body_at: self.cells::<4>(2, count),
            body_len: self.cells::<4>(3, count),
            attributes_at: self.cells::<4>(4, count * attributes / 2),
            attributes_len: self.cells::<4>(5, count * attributes / 2),
            severity: self.bytes_column(5 + attributes, count),
            flags: self.bytes_column(6 + attributes, count),
        }
    }

    /// Records number `range`, or those of them that there are, in order.
    pub fn records_in(&self, range: Range<usize>) -> Records<'_> {
        let mut records = self.records();
        records.next = range.start;
        let end = range.end.min(records.timestamp.len());
        records.timestamp = &records.timestamp[..end];
        records
    }

    /// How many leading records have a position at or before `position`.
    pub fn records_up_to(&self, position: Position) -> usize {
        if position >= self.header.end() {
            return self.record_count();
        }
        if position <= self.header.base() {
            return 0;
        }
        let delta = position.offset - self.header.base_offset;
        self.cells::<4>(1, self.record_count())
            .partition_point(|cell| u64::from(u32::from_le_bytes(*cell)) <= delta)
    }

    /// Record `index` by itself, decoded, with its resource.
    pub fn to_log_record(&self, index: usize) -> LogRecord {
        let view = self.record(index);
        LogRecord {
            timestamp: view.timestamp_ns,
            observed_timestamp: self.header.observed_ns,
            severity_number: view.severity,
            body: view.plain_body().into_owned(),
            attributes: String::from_utf8_lossy(view.attributes).into_owned(),
            resource: Resource::decode(self.resource()),
        }
    }

    fn route_entry(&self, route: usize) -> &[u8] {
        let len = self.header.route_bytes();
        let start = self.header.tail_at as usize + route * len;
        &self.buf[start..start + len]
    }

    fn keys_at(&self) -> usize {
        self.header.tail_at as usize
            + usize::from(self.header.route_count) * self.header.route_bytes()
    }

    fn book_at(&self) -> usize {
        self.keys_at() + self.header.key_count as usize * 8 + self.header.resource_len as usize
    }

    /// Where column `number` begins; columns are numbered in the order of the format document.
    fn column_at(&self, number: usize) -> usize {
        let widths: &[usize] = if self.header.has_attributes {
            &[8, 4, 4, 4, 4, 4, 2, 1, 1]
        } else {
            &[8, 4, 4, 4, 2, 1, 1]
        };
        let before: usize = widths[..number].iter().sum();
        self.header.columns_at as usize + before * self.record_count()
    }

    fn cells<const WIDTH: usize>(&self, number: usize, count: usize) -> &[[u8; WIDTH]] {
        if count == 0 {
            return &[];
        }
        let start = self.column_at(number);
        self.buf[start..start + count * WIDTH].as_chunks().0
    }

    fn bytes_column(&self, number: usize, count: usize) -> &[u8] {
        let start = self.column_at(number);
        &self.buf[start..start + count]
    }
}

fn mask_contains(entry: &[u8], cursor: usize) -> bool {
    let at = 8 + cursor / 64 * 8 + cursor % 64 / 8;
    entry.get(at).is_some_and(|byte| byte >> (cursor % 8) & 1 == 1)
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
    attributes_at: &'a [[u8; 4]],
    attributes_len: &'a [[u8; 4]],
    severity: &'a [u8],
    flags: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordView<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordView<'a>> {
        let i = self.next;
        let timestamp = self.timestamp.get(i)?;
        self.next += 1;
        let header = &self.batch.header;
        let span = |at: &[[u8; 4]], len: &[[u8; 4]]| {
            let start = u32::from_le_bytes(*at.get(i)?) as usize;
            let len = u32::from_le_bytes(*len.get(i)?) as usize;
            self.batch.buf.get(start..start + len)
        };
        Some(RecordView {
            timestamp_ns: i64::from_le_bytes(*timestamp),
            position: Position::new(
                header.epoch,
                header.base_offset + u64::from(u32::from_le_bytes(self.position[i])),
            ),
            body: span(self.body_at, self.body_len).unwrap_or_default(),
            attributes: span(self.attributes_at, self.attributes_len).unwrap_or_default(),
            severity: Severity(self.severity[i]),
            flags: RecordFlags(self.flags[i]),
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
    /// The body without JSON escapes.
    pub fn plain_body(&self) -> std::borrow::Cow<'a, [u8]> {
        if self.flags.contains(RecordFlags::JSON_ESCAPED) {
            unescape_json(self.body)
        } else {
            self.body.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CURSORS_MAX, ROUTED_RECORDS_MIN};
    use crate::{BatchBuilder, BatchClass, NewRecord, Seal, SourceId, StreamId};

    fn sample(bodies: &[(&str, &str)]) -> Batch {
        let mut builder = BatchBuilder::new(Position::new(3, 1000));
        let mut end = 1000;
        for (body, attributes) in bodies {
            let body_span = builder.append(body.as_bytes()).unwrap();
            let attributes_span = builder.append(attributes.as_bytes()).unwrap();
            end += body.len() as u64 + 1;
            let record = NewRecord {
                timestamp_ns: end as i64 * 7,
                end_offset: end,
                body: body_span,
                attributes: attributes_span,
                severity: Severity::INFO,
                flags: RecordFlags::STDOUT,
            };
            builder.push(&record).unwrap();
        }
        builder.route_all(&[0b101, 0b1]);
        let book = SourceBook { lines: 9, records: 9, ..SourceBook::default() };
        builder.seal(&Seal {
            class: BatchClass::Logs,
            repeatable: true,
            stream: StreamId(42),
            group: 7,
            source: SourceId::of("app"),
            end: Position::new(3, end),
            observed_ns: 99,
            rule_generation: 1,
            keys: &[5, 6],
            resource: br#"{"host.name":"a"}"#,
            book: &book,
            state: b"state",
        })
    }

    fn written(batch: &Batch) -> Vec<u8> {
        let (head, rest) = batch.frame_parts();
        [&head, rest].concat()
    }

    fn assert_content(batch: &Batch, bodies: &[(&str, &str)]) {
        let seen: Vec<(String, String)> = batch
            .records()
            .map(|r| {
                (
                    String::from_utf8_lossy(r.body).into(),
                    String::from_utf8_lossy(r.attributes).into(),
                )
            })
            .collect();
        let want: Vec<(String, String)> =
            bodies.iter().map(|(b, a)| ((*b).to_owned(), (*a).to_owned())).collect();
        assert_eq!(seen, want);
        assert_eq!(batch.routed_count(0), bodies.len() as u64);
        assert_eq!(batch.routed_count(1), 0);
        assert_eq!(batch.routed_count(64), bodies.len() as u64);
        assert_eq!(batch.routed_count(1000), 0);
        let counted =
            [(0, bodies.len() as u64), (2, bodies.len() as u64), (64, bodies.len() as u64)];
        let is_any = !bodies.is_empty();
        assert_eq!(batch.routed_counts(), if is_any { &counted[..] } else { &[] });
        assert_eq!(batch.book().records, 9);
        assert_eq!(batch.state(), b"state");
        assert_eq!(batch.resource(), br#"{"host.name":"a"}"#);
        assert_eq!(batch.keys().collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn a_few_records_can_each_go_elsewhere_whatever_destinations_there_are() {
        let count = ROUTED_RECORDS_MIN;
        let mut builder = BatchBuilder::new(Position::default());
        for end_offset in 1..=count as u64 {
            let body = builder.append(b"x").unwrap();
            let (timestamp_ns, severity, flags) = (0, Severity::INFO, RecordFlags::default());
            let attributes = 0..0;
            let record = NewRecord { timestamp_ns, end_offset, body, attributes, severity, flags };
            builder.push(&record).unwrap();
        }
        builder.route_all(&[]);
        for index in 0..count {
            let mut mask = vec![0; CURSORS_MAX / 64];
            mask[CURSORS_MAX / 64 - 1] = 1 << index;
            builder.route(index, &mask).unwrap();
        }
    }

    #[test]
    fn a_frame_reads_back_as_it_was_built() {
        let cases: [&[(&str, &str)]; 4] = [
            &[],
            &[("one", "")],
            &[("one", ""), ("", r#"{"a":"b"}"#), ("three", "")],
            &[("x", r#"{"a":"b"}"#), ("y", r#"{"c":"d"}"#)],
        ];
        for bodies in cases {
            let batch = sample(bodies);
            assert_content(&batch, bodies);
            let again = Batch::from_frame(written(&batch)).unwrap();
            assert_eq!(again.header(), batch.header());
            assert_content(&again, bodies);
        }
    }

    #[test]
    fn what_is_left_of_a_batch_is_what_is_still_needed() {
        let mut builder = BatchBuilder::new(Position::new(3, 1000));
        for number in 0..6_u64 {
            let body = builder.append(number.to_string().as_bytes()).unwrap();
            let record = NewRecord {
                timestamp_ns: number as i64,
                end_offset: 1002 + number,
                body,
                attributes: 0..0,
                severity: Severity::WARN,
                flags: RecordFlags::default(),
            };
            builder.push(&record).unwrap();
        }
        builder.route_all(&[0b1]);
        builder.route(2, &[0b11]).unwrap();
        builder.route(4, &[0b110]).unwrap();
        let seal = Seal {
            class: BatchClass::Logs,
            repeatable: false,
            stream: StreamId(42),
            group: 7,
            source: SourceId::of("app"),
            end: Position::new(3, 1010),
            observed_ns: 99,
            rule_generation: 1,
            keys: &[5],
            resource: b"{}",
            book: &SourceBook { lines: 9, ..SourceBook::default() },
            state: b"state",
        };
        let whole = builder.seal(&seal);
        let left = whole.only_for(&[1]).unwrap();
        assert_eq!(left.routed_counts(), [(1, 2)], "and no other gets any");
        let of = |batch: &Batch, cursor| -> Vec<(Position, Vec<u8>)> {
            let routed = batch.records().enumerate().filter(|(i, _)| batch.is_routed(*i, cursor));
            routed.map(|(_, record)| (record.position, record.body.to_vec())).collect()
        };
        assert_eq!(of(&left, 1), of(&whole, 1));
        assert_eq!((left.header().base(), left.header().end()), (Position::new(3, 1000), seal.end));
        assert_eq!((left.book().lines, left.state()), (9, whole.state()));
        assert_eq!(whole.only_for(&[9]).unwrap().record_count(), 0);
    }

    #[test]
    fn records_up_to_a_position_are_found() {
        let batch = sample(&[("aaa", ""), ("bbb", ""), ("ccc", "")]);
        let up_to = |offset| batch.records_up_to(Position::new(3, offset));
        assert_eq!(
            [up_to(1000), up_to(1003), up_to(1004), up_to(1008), up_to(1012)],
            [0, 0, 1, 2, 3]
        );
        assert_eq!(batch.records_up_to(Position::new(2, 9999)), 0);
        assert_eq!(batch.records_up_to(Position::new(4, 0)), 3);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let frame = written(&sample(&[("one", ""), ("two", r#"{"a":"b"}"#)]));
        for at in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x20;
            assert!(Batch::from_frame(damaged).is_err(), "byte {at} damaged and not noticed");
        }
        for len in 0..frame.len() {
            assert!(Batch::from_frame(frame[..len].to_vec()).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn a_builder_says_full_before_a_frame_overflows() {
        let mut builder = BatchBuilder::new(Position::default());
        builder.reserve_state(crate::limits::STATE_BYTES_MAX);
        let record = |body| NewRecord {
            timestamp_ns: 0,
            end_offset: 1,
            body,
            attributes: 0..0,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
        };
        while builder.push(&record(0..0)).is_ok() {}
        assert!(builder.record_count() > 1000);
        let batch = builder.seal(&Seal {
            class: BatchClass::Logs,
            repeatable: true,
            stream: StreamId(1),
            group: 0,
            source: SourceId(1),
            end: Position::new(0, 1),
            observed_ns: 0,
            rule_generation: 0,
            keys: &[],
            resource: &vec![b'r'; crate::limits::RESOURCE_BYTES_MAX],
            book: &SourceBook::default(),
            state: &vec![b's'; crate::limits::STATE_BYTES_MAX],
        });
        assert!(batch.frame_bytes() <= crate::limits::FRAME_BYTES_MAX);
        assert!(Batch::from_frame(written(&batch)).is_ok());
    }
}
