//! Incomplete lines that a container writes in parts, one per output stream, together with the
//! records that wait for further lines.
//!
//! Invariant: all of them together never hold more than
//! [`LINE_BYTES_MAX`](weir_model::limits::LINE_BYTES_MAX) bytes; the excess is dropped and counted,
//! and the line is marked as truncated.

use std::ops::Range;

use weir_model::limits::{LINE_BYTES_MAX, STATE_BYTES_MAX};
use weir_model::{BatchBuilder, DiscardReason, Full, NewRecord, RecordFlags, Severity, SourceBook};

use crate::decoder::Run;
use crate::json::{cut_content, cut_utf8};
use crate::multiline::OpenRecord;
use crate::{Format, LineDecoder};

/// Space for what a source keeps in a state besides the open partial lines.
const STATE_EXTRA_BYTES: usize = STATE_BYTES_MAX - LINE_BYTES_MAX;

/// One line of a source file that is a message or a part of one. Spans refer to the arena.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Range<usize>,
    pub(crate) attributes: Range<usize>,
    pub(crate) is_last: bool,
    pub(crate) timestamp_ns: i64,
    /// Stream and escaping; TRUNCATED if the line itself was truncated.
    pub(crate) flags: RecordFlags,
    /// Offset in the stream after the line.
    pub(crate) end_offset: u64,
}

/// The beginning of a message whose end has not been read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OpenLine {
    /// Number of lines that it consists of so far; 0 = nothing is open.
    pub(crate) parts: u64,
    /// Time of the first part.
    pub(crate) timestamp_ns: i64,
    pub(crate) flags: RecordFlags,
    pub(crate) body: Vec<u8>,
    /// Attributes of the first part, for a line that never completes.
    pub(crate) attributes: Vec<u8>,
}

impl OpenLine {
    pub(crate) fn is_open(&self) -> bool {
        self.parts > 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.attributes.len()
    }

    fn is_truncated(&self) -> bool {
        self.flags.contains(RecordFlags::TRUNCATED)
    }
}

/// Open partial lines of a container, and its records that wait for further lines. They belong to
/// the container, not to the file: when its log is rotated, they are handed to the decoder of the
/// next file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partials {
    pub(crate) format: Format,
    pub(crate) open: [OpenLine; 2],
    pub(crate) records: [OpenRecord; 2],
}

impl Partials {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, open: Default::default(), records: Default::default() }
    }

    /// Returns true if nothing is open.
    pub fn is_empty(&self) -> bool {
        !self.has_lines() && !self.has_records()
    }

    /// Returns true if lines wait for their rest.
    pub fn has_lines(&self) -> bool {
        self.open.iter().any(OpenLine::is_open)
    }

    /// Returns true if records wait for further lines.
    pub fn has_records(&self) -> bool {
        self.records.iter().any(OpenRecord::is_open)
    }

    #[inline]
    pub(crate) fn is_any_record_of_concern(&self) -> bool {
        self.records.iter().any(OpenRecord::is_of_concern)
    }

    /// Returns the number of source lines in open lines and records; none of them is counted yet.
    pub fn lines(&self) -> u64 {
        self.open.iter().map(|line| line.parts).sum::<u64>()
            + self.records.iter().map(|record| record.lines).sum::<u64>()
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        self.line_bytes() + self.records.iter().map(OpenRecord::bytes).sum::<usize>()
    }

    /// Returns the number of bytes of partial lines.
    fn line_bytes(&self) -> usize {
        self.open.iter().map(OpenLine::bytes).sum()
    }

    /// Discards the open lines, for a container whose next file never appeared: the books count
    /// them as lost.
    pub fn discard(self, book: &mut SourceBook) {
        book.lines += self.lines();
        book.discard(DiscardReason::PartialLost, self.lines());
    }

    /// Returns the slot of a stream. Docker names no other stream than these two; a line that names
    /// none shares the slot of stdout.
    pub(crate) fn slot_of(flags: RecordFlags) -> usize {
        usize::from(flags.contains(RecordFlags::STDERR))
    }

    pub(crate) fn slot(&self, slot: usize) -> &OpenLine {
        let [stdout, stderr] = &self.open;
        if slot == 0 { stdout } else { stderr }
    }

    pub(crate) fn slot_mut(&mut self, slot: usize) -> &mut OpenLine {
        let [stdout, stderr] = &mut self.open;
        if slot == 0 { stdout } else { stderr }
    }

    #[inline]
    pub(crate) fn record(&self, slot: usize) -> &OpenRecord {
        let [stdout, stderr] = &self.records;
        if slot == 0 { stdout } else { stderr }
    }

    pub(crate) fn record_mut(&mut self, slot: usize) -> &mut OpenRecord {
        let [stdout, stderr] = &mut self.records;
        if slot == 0 { stdout } else { stderr }
    }

    /// Returns how much of `content` can be added to the body in `slot` so that it stays within
    /// `line_bytes_max` and both lines stay within their common limit.
    pub(crate) fn budget(&self, slot: usize, content: &[u8], line_bytes_max: usize) -> usize {
        let line = self.slot(slot);
        if line.is_truncated() {
            return 0;
        }
        let own = line_bytes_max.saturating_sub(line.body.len());
        cut(self.format, content, own.min(LINE_BYTES_MAX.saturating_sub(self.line_bytes())))
    }

    /// Puts older partial lines before the open ones.
    pub(crate) fn prepend(&mut self, older: Self, line_bytes_max: usize) {
        let newer = std::mem::replace(self, older);
        // A fresh decoder has none; existing ones cannot grow beyond the limit by this.
        let newer_bytes = newer.bytes();
        for (slot, record) in newer.records.into_iter().enumerate() {
            let spare = LINE_BYTES_MAX.saturating_sub(self.bytes() + newer_bytes);
            let format = self.format;
            self.record_mut(slot).join(record, spare, format);
        }
        for (slot, line) in newer.open.into_iter().enumerate().filter(|(_, l)| l.is_open()) {
            let keep = self.budget(slot, &line.body, line_bytes_max);
            let spare = LINE_BYTES_MAX.saturating_sub(self.bytes() + keep);
            let open = self.slot_mut(slot);
            if !open.is_open() {
                open.timestamp_ns = line.timestamp_ns;
                if line.attributes.len() <= spare {
                    open.attributes = line.attributes;
                }
            }
            open.parts += line.parts;
            open.flags = open.flags.with(line.flags);
            open.body.extend_from_slice(line.body.get(..keep).unwrap_or_default());
            if keep < line.body.len() {
                open.flags = open.flags.with(RecordFlags::TRUNCATED);
            }
        }
    }
}

/// Returns how much of a body can be kept within `max` bytes without splitting a unit.
pub(crate) fn cut(format: Format, content: &[u8], max: usize) -> usize {
    match format {
        Format::DockerJson => cut_content(content, max),
        Format::Raw | Format::Cri | Format::Json | Format::Logfmt => cut_utf8(content, max),
    }
}

/// Returns how much of the body of a record with these flags can be kept within `max` bytes,
/// without splitting an escape or a character.
pub fn cut_body(body: &[u8], flags: RecordFlags, max: usize) -> usize {
    if flags.contains(RecordFlags::JSON_ESCAPED) {
        cut_content(body, max)
    } else {
        cut_utf8(body, max)
    }
}

impl LineDecoder {
    /// Emits everything that is open as records when its rest will not arrive (the container has
    /// stopped, or nothing arrived for long). On [`Full`], seal and call again.
    pub fn flush_partials(
        &mut self,
        builder: &mut BatchBuilder,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.flush_records(builder, book)?;
        for slot in 0..2 {
            let open = self.partials.slot(slot);
            if !open.is_open() {
                continue;
            }
            let (mark, _) = self.begin_join(builder, slot);
            let open = self.partials.slot(slot);
            let (body, attributes) =
                self.append_held(builder, mark, &open.body, &open.attributes)?;
            let record = NewRecord {
                timestamp_ns: open.timestamp_ns,
                end_offset: self.position().saturating_add(1),
                body,
                attributes,
                severity: Severity::UNSPECIFIED,
                flags: joined_flags(open.flags, open.parts),
                ..NewRecord::default()
            };
            self.commit_join(builder, slot, mark, record, 0, book)?;
        }
        Ok(())
    }

    /// Reserves room in the builder for the state of this decoder.
    pub(crate) fn reserve(&self, builder: &mut BatchBuilder) {
        builder.reserve_state(self.partials.bytes() + STATE_EXTRA_BYTES);
    }

    /// Starts or continues an open line.
    pub(crate) fn open_line(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        slot: usize,
        part: &Part,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let bytes = part.body.len() + part.attributes.len();
        self.make_room(builder, run.offset(run.pos), bytes, book)?;
        let arena = builder.arena();
        let content = arena.get(part.body.clone()).unwrap_or_default();
        let attributes = arena.get(part.attributes.clone()).unwrap_or_default();
        let is_first = !self.partials.slot(slot).is_open();
        let keep = self.partials.budget(slot, content, self.line_bytes_max);
        let spare = LINE_BYTES_MAX.saturating_sub(self.partials.line_bytes() + keep);
        let attributes = if is_first && attributes.len() <= spare { attributes } else { &[] };
        if keep + attributes.len() >= builder.room() {
            return Err(Full);
        }
        let lost = content.len() - keep;
        let open = self.partials.slot_mut(slot);
        if is_first {
            open.timestamp_ns = part.timestamp_ns;
        }
        open.flags = open.flags.with(part.flags);
        open.attributes.extend_from_slice(attributes);
        open.body.extend_from_slice(content.get(..keep).unwrap_or_default());
        open.parts += 1;
        if lost > 0 {
            open.flags = open.flags.with(RecordFlags::TRUNCATED);
        }
        run.abandoned += lost;
        self.reserve(builder);
        Ok(())
    }

    /// Joins the last part to the open line before it.
    pub(crate) fn complete_line(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        slot: usize,
        part: Part,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let content = builder.arena().get(part.body.clone()).unwrap_or_default();
        let keep = self.partials.budget(slot, content, self.line_bytes_max);
        let lost = content.len() - keep;
        let kept = part.body.start..part.body.start + keep;
        if self.multiline.is_some() || self.partials.is_any_record_of_concern() {
            let truncated = if lost > 0 { RecordFlags::TRUNCATED } else { RecordFlags::default() };
            let tail = (&kept, part.flags.with(truncated));
            let start = run.offset(run.pos);
            if self.deliver_parts(builder, start, slot, tail, book)? {
                run.abandoned += lost;
                return Ok(());
            }
        }
        let (mark, room) = self.begin_join(builder, slot);
        let open = self.partials.slot(slot);
        if open.body.len() + keep >= room {
            return Err(self.abort_join(builder, mark));
        }
        let appended = builder
            .append(&open.body)
            .and_then(|head| Ok(head.start..builder.append_within(kept)?.end));
        let Ok(body) = appended else {
            return Err(self.abort_join(builder, mark));
        };
        let mut flags = joined_flags(open.flags.with(part.flags), open.parts + 1);
        if lost > 0 {
            flags = flags.with(RecordFlags::TRUNCATED);
        }
        let record = NewRecord {
            timestamp_ns: open.timestamp_ns,
            end_offset: part.end_offset,
            body,
            attributes: part.attributes,
            severity: Severity::UNSPECIFIED,
            flags,
            ..NewRecord::default()
        };
        self.commit_join(builder, slot, mark, record, 1, book)?;
        run.abandoned += lost;
        Ok(())
    }

    /// Releases the room that was reserved for the open line in `slot`; returns the end of the
    /// arena, to return to, and the available room.
    fn begin_join(&self, builder: &mut BatchBuilder, slot: usize) -> (usize, usize) {
        let others = self.partials.bytes() - self.partials.slot(slot).bytes();
        let mark = Self::begin_emit(builder, others);
        (mark, builder.room())
    }

    /// Reserves room only for `others` bytes; returns the end of the arena.
    pub(crate) fn begin_emit(builder: &mut BatchBuilder, others: usize) -> usize {
        builder.reserve_state(others + STATE_EXTRA_BYTES);
        builder.arena().len()
    }

    /// Appends the held body and attributes to the arena; if they do not fit, returns to `mark`.
    pub(crate) fn append_held(
        &self,
        builder: &mut BatchBuilder,
        mark: usize,
        body: &[u8],
        attributes: &[u8],
    ) -> Result<(Range<usize>, Range<usize>), Full> {
        if body.len() + attributes.len() >= builder.room() {
            return Err(self.abort_join(builder, mark));
        }
        let body = builder.append(body);
        body.and_then(|body| Ok((body, builder.append(attributes)?)))
            .map_err(|Full| self.abort_join(builder, mark))
    }

    #[cold]
    pub(crate) fn abort_join(&self, builder: &mut BatchBuilder, mark: usize) -> Full {
        builder.retract(mark);
        self.reserve(builder);
        Full
    }

    /// Emits the joined record, which consists of the open line's parts and `more_lines`.
    fn commit_join(
        &mut self,
        builder: &mut BatchBuilder,
        slot: usize,
        mark: usize,
        record: NewRecord,
        more_lines: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let lines = self.partials.slot(slot).parts + more_lines;
        self.emit(builder, record, lines, book).map_err(|Full| self.abort_join(builder, mark))?;
        *self.partials.slot_mut(slot) = OpenLine::default();
        Ok(())
    }
}

pub(crate) fn joined_flags(flags: RecordFlags, parts: u64) -> RecordFlags {
    if parts > 1 { flags.with(RecordFlags::JOINED) } else { flags }
}
