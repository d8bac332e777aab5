//! The record that further lines may still be joined to, one per output stream of a container.
//!
//! Invariants:
//! - A line is judged once, by the lines of its own output stream before it; so the records depend
//!   on the file alone, never on how it was divided into blocks and batches.
//! - A held record is emitted at a position after the point from which reading had to continue: a
//!   batch that ended there contains it in its state, not as a record. So a reader that has that
//!   batch has not seen the record yet.
//! - Held records and open partial lines together never hold more than `LINE_BYTES_MAX` bytes: if
//!   something does not fit next to them, they are emitted, and nothing is truncated.

use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{BatchBuilder, Full, NewRecord, RecordFlags, Severity, SourceBook};

use super::State;
use crate::join::{Partials, joined_flags};
use crate::{Format, LineDecoder};

/// A record that is not complete.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OpenRecord {
    /// Number of text lines that it consists of; 0 = nothing is held.
    pub(crate) rows: u32,
    /// Number of lines of the source file, counting each part of a long line.
    pub(crate) lines: u64,
    /// State in the rule. With 0 rows: the previous record reached its limit here, and what follows
    /// it starts a further one.
    pub(crate) state: State,
    /// Time of the first line.
    pub(crate) timestamp_ns: i64,
    /// Severity of the first line.
    pub(crate) severity: Severity,
    pub(crate) flags: RecordFlags,
    pub(crate) body: Vec<u8>,
    /// Attributes of the first line.
    pub(crate) attributes: Vec<u8>,
}

impl OpenRecord {
    pub(crate) fn is_open(&self) -> bool {
        self.rows > 0
    }

    /// Returns true if it affects the next line.
    #[inline]
    pub(crate) fn is_of_concern(&self) -> bool {
        self.rows > 0 || self.state != State::NONE
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.attributes.len()
    }

    /// Returns a line feed in the form of the body.
    fn separator(&self) -> &'static [u8] {
        if self.flags.contains(RecordFlags::JSON_ESCAPED) { b"\\n" } else { b"\n" }
    }

    fn begin(&mut self, line: &Line<'_>) {
        self.timestamp_ns = line.timestamp_ns;
        self.severity = line.severity;
        self.flags = line.flags;
        self.attributes.extend_from_slice(line.attributes);
    }

    fn push(&mut self, line: &Line<'_>, lines: u64, state: State) {
        if self.is_open() {
            let separator = self.separator();
            self.body.extend_from_slice(separator);
        } else {
            self.begin(line);
        }
        self.flags = self.flags.with(RecordFlags(line.flags.0 & RecordFlags::TRUNCATED.0));
        self.body.extend_from_slice(line.body);
        self.rows += 1;
        self.lines += lines;
        self.state = state;
    }

    /// Appends a younger record to this one, as far as `spare` bytes allow.
    pub(crate) fn join(&mut self, younger: Self, spare: usize, format: Format) {
        if !self.is_open() {
            *self = younger;
        } else if younger.is_open() {
            let room = spare.saturating_sub(self.separator().len());
            let keep = crate::join::cut(format, &younger.body, room.min(younger.body.len()));
            let cut = if keep < younger.body.len() { RecordFlags::TRUNCATED.0 } else { 0 };
            let line = Line {
                body: younger.body.get(..keep).unwrap_or_default(),
                attributes: &[],
                timestamp_ns: younger.timestamp_ns,
                severity: younger.severity,
                flags: RecordFlags(younger.flags.0 | cut),
            };
            self.push(&line, younger.lines, younger.state);
            self.rows += younger.rows - 1;
        }
    }
}

/// A line of text that may be held.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) attributes: &'a [u8],
    pub(crate) timestamp_ns: i64,
    pub(crate) severity: Severity,
    pub(crate) flags: RecordFlags,
}

/// What to do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    /// The held record ends before it.
    closes: bool,
    /// It ends because of its size, and the line continues it.
    is_over_bound: bool,
    /// The line is held, in this state; none: it is a record by itself.
    state: State,
}

impl LineDecoder {
    /// Emits a record of `lines` lines, unless it is joined to another one. `start` is the offset
    /// in the file before it. On [`Full`], call again with the next batch.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        record: NewRecord,
        lines: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        if self.multiline.is_none() && !self.partials.is_any_record_of_concern() {
            return self.emit(builder, record, lines, book);
        }
        self.deliver_joined(builder, start, record, lines, book)
    }

    #[inline(never)]
    fn deliver_joined(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        record: NewRecord,
        lines: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let slot = Partials::slot_of(record.flags);
        let body = builder.arena().get(record.body.clone()).unwrap_or_default();
        let verdict = self.judge(slot, body, record.flags);
        let state = self.make_way(builder, start, slot, body.len(), verdict, book)?;
        if state == State::NONE {
            return self.emit(builder, record, lines, book);
        }
        let arena = builder.arena();
        let line = Line {
            body: arena.get(record.body.clone()).unwrap_or_default(),
            attributes: arena.get(record.attributes.clone()).unwrap_or_default(),
            timestamp_ns: record.timestamp_ns,
            severity: record.severity,
            flags: record.flags,
        };
        Self::hold(&mut self.partials, builder.room(), slot, &line, lines, state)?;
        self.reserve(builder);
        Ok(())
    }

    /// Like [`Self::deliver`], for the last part of a line whose other parts are open in `slot`.
    /// Returns false if it is a record by itself, which the caller creates.
    pub(crate) fn deliver_parts(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        slot: usize,
        (tail, flags): (&std::ops::Range<usize>, RecordFlags),
        book: &mut SourceBook,
    ) -> Result<bool, Full> {
        let open = self.partials.slot(slot);
        let tail_bytes = builder.arena().get(tail.clone()).unwrap_or_default();
        let body = [open.body.as_slice(), tail_bytes].concat();
        let (flags, lines) = (open.flags.with(flags), open.parts + 1);
        let verdict = self.judge(slot, &body, flags);
        let state = self.make_way(builder, start, slot, tail.len(), verdict, book)?;
        if state == State::NONE {
            return Ok(false);
        }
        let open = std::mem::take(self.partials.slot_mut(slot));
        let line = Line {
            body: &body,
            attributes: &open.attributes,
            timestamp_ns: open.timestamp_ns,
            severity: Severity::UNSPECIFIED,
            flags: joined_flags(flags, lines),
        };
        // The room that the parts held is available to it.
        let room = builder.room() + open.bytes();
        let held = Self::hold(&mut self.partials, room, slot, &line, lines, state);
        if held.is_err() {
            *self.partials.slot_mut(slot) = open;
        }
        held?;
        self.reserve(builder);
        Ok(true)
    }

    fn judge(&self, slot: usize, body: &[u8], flags: RecordFlags) -> Verdict {
        let open = self.partials.record(slot);
        let closes = open.is_open();
        let Some(rule) = self.multiline.as_ref().filter(|_| self.is_text(flags)) else {
            return Verdict { closes, is_over_bound: false, state: State::NONE };
        };
        if open.is_of_concern() && (!closes || is_of_same_form(open.flags, flags)) {
            let state = rule.follow(open.state, body, flags);
            if state != State::NONE {
                let added = open.separator().len() + body.len();
                let fits = open.rows < rule.lines_max
                    && open.body.len() + added <= self.line_bytes_max
                    && self.partials.bytes() + added <= LINE_BYTES_MAX;
                return Verdict { closes: closes && !fits, is_over_bound: closes && !fits, state };
            }
        }
        Verdict { closes, is_over_bound: false, state: rule.start(body, flags) }
    }

    /// Objects, and lines that are not in their format, are not joined.
    fn is_text(&self, flags: RecordFlags) -> bool {
        let is_malformed = flags.contains(RecordFlags::MALFORMED)
            && !matches!(self.format, Format::Json | Format::Logfmt);
        !is_malformed && !flags.contains(RecordFlags::JSON_OBJECT)
    }

    /// Ends the held record if it has to end. Returns the state in which the line with `added` more
    /// bytes is held, none if it is not.
    fn make_way(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        slot: usize,
        added: usize,
        verdict: Verdict,
        book: &mut SourceBook,
    ) -> Result<State, Full> {
        if verdict.closes {
            let carried =
                if verdict.is_over_bound { self.partials.record(slot).state } else { State::NONE };
            self.close_record(builder, start, slot, book)?;
            self.partials.record_mut(slot).state = carried;
        }
        let has_room = self.partials.bytes() + added <= LINE_BYTES_MAX;
        if verdict.state != State::NONE && has_room {
            return Ok(verdict.state);
        }
        // A record by itself, and nothing is carried across it.
        self.partials.record_mut(slot).state = State::NONE;
        Ok(State::NONE)
    }

    fn hold(
        partials: &mut Partials,
        room: usize,
        slot: usize,
        line: &Line<'_>,
        lines: u64,
        state: State,
    ) -> Result<(), Full> {
        let spare = LINE_BYTES_MAX.saturating_sub(partials.bytes() + line.body.len());
        let is_first = !partials.record(slot).is_open();
        let attributes =
            if is_first && line.attributes.len() <= spare { line.attributes } else { &[] };
        // 2: the separator.
        if line.body.len() + attributes.len() + 2 >= room {
            return Err(Full);
        }
        let line = Line { attributes, ..*line };
        partials.record_mut(slot).push(&line, lines, state);
        Ok(())
    }

    /// Emits the record held in `slot`, as what precedes offset `start`.
    fn close_record(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        slot: usize,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let others = self.partials.bytes() - self.partials.record(slot).bytes();
        let mark = Self::begin_emit(builder, others);
        let open = self.partials.record(slot);
        let (body, attributes) = self.append_held(builder, mark, &open.body, &open.attributes)?;
        let flags = joined_flags(open.flags, u64::from(open.rows));
        let (timestamp_ns, severity, lines) = (open.timestamp_ns, open.severity, open.lines);
        let end_offset = start.saturating_add(1);
        let record = NewRecord {
            timestamp_ns,
            end_offset,
            body,
            attributes,
            severity,
            flags,
            ..NewRecord::default()
        };
        self.emit(builder, record, lines, book).map_err(|Full| self.abort_join(builder, mark))?;
        *self.partials.record_mut(slot) = OpenRecord::default();
        Ok(())
    }

    /// Emits held records, so that `bytes` more can be kept open.
    pub(crate) fn make_room(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        bytes: usize,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        if self.partials.bytes() + bytes <= LINE_BYTES_MAX {
            return Ok(());
        }
        self.close_records(builder, start, book)
    }

    fn close_records(
        &mut self,
        builder: &mut BatchBuilder,
        start: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        for slot in 0..2 {
            if self.partials.record(slot).is_open() {
                self.close_record(builder, start, slot, book)?;
            }
        }
        self.reserve(builder);
        Ok(())
    }

    /// Emits the lines that are held for others to be joined to them, when nothing arrived for
    /// long. Partial lines stay open. On [`Full`], seal and call again.
    pub fn flush_records(
        &mut self,
        builder: &mut BatchBuilder,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.close_records(builder, self.at, book)
    }
}

fn is_of_same_form(a: RecordFlags, b: RecordFlags) -> bool {
    a.contains(RecordFlags::JSON_ESCAPED) == b.contains(RecordFlags::JSON_ESCAPED)
}
