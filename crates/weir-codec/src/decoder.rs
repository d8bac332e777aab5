//! Decodes blocks of a file into records: splits, truncates, strips, joins and counts lines.
//!
//! Invariants:
//! - The decoder holds no input except open partial lines; an incomplete line is left to be read
//!   again. Where lines are truncated depends on the file alone, never on how it was divided into
//!   blocks, so that a record has the same position whenever it is read.
//! - Positions of records strictly increase. A line that is flushed before its end was read has no
//!   bytes of its own left; it takes the next position, by which the stream is then ahead of the
//!   file until a line of the file has passed it.
//! - A line is counted when it is resolved: as a record, as joined to one, or as discarded. Lines
//!   that are part of an open line are counted when that becomes a record. So the book balances
//!   after every call.
//! - A fresh builder and a block of `READ_BLOCK_BYTES` always make progress.

use std::ops::Range;
use std::sync::Arc;

use weir_model::limits::{LINE_BYTES_MAX, READ_BLOCK_BYTES};
use weir_model::{
    AbandonReason, BatchBuilder, DiscardReason, Full, HEADER_LEN, NewRecord, RecordFlags, Severity,
    SourceBook,
};

use crate::join::{Part, Partials, cut};
use crate::multiline::{Multiline, OpenRecord, State};
use crate::time::TimeParser;
use crate::{Format, cri, docker, json, structured};

/// Maximum length of a line that is examined completely, without the line feed. One less than a
/// block, so that a full block always shows whether its first line is longer.
const PHYSICAL_LINE_MAX: usize = READ_BLOCK_BYTES - 1;

/// How much of a region was consumed, and why decoding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumed {
    /// Bytes from the start of the region; continue reading after them.
    pub bytes: usize,
    /// Why decoding stopped.
    pub why: Stop,
}

/// Why decoding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The region is used up, or ends within a line.
    NeedMore,
    /// Seal the batch and continue with the next one after the consumed bytes.
    BatchFull,
}

/// Decodes one file from start to end.
#[derive(Debug)]
pub struct LineDecoder {
    pub(crate) format: Format,
    pub(crate) line_bytes_max: usize,
    /// Offset in the file after the last consumed byte.
    pub(crate) at: u64,
    /// Position of the last record.
    pub(crate) floor: u64,
    /// The rest of an overlong line is being skipped.
    pub(crate) is_skipping: bool,
    /// The last consumed byte was a NUL of a run that is already counted.
    pub(crate) is_in_nul_run: bool,
    /// The file began with a UTF-16 byte order mark.
    pub(crate) is_utf16: bool,
    pub(crate) partials: Partials,
    pub(crate) multiline: Option<Arc<Multiline>>,
    times: TimeParser,
    known: docker::KnownAttributes,
}

/// State of one call of `decode`.
#[derive(Debug)]
pub(crate) struct Run {
    region: Range<usize>,
    /// Next byte to decode.
    pub(crate) pos: usize,
    /// File offset of `region.start`.
    base: u64,
    /// The region ends where the file finally ends.
    is_end: bool,
    observed_ns: i64,
    /// Bytes of lines beyond the limit.
    pub(crate) abandoned: usize,
    /// Everything so far is known to be ASCII.
    is_ascii: bool,
}

impl Run {
    #[inline]
    pub(crate) fn offset(&self, pos: usize) -> u64 {
        self.base + (pos - self.region.start) as u64
    }
}

impl LineDecoder {
    /// Creates a decoder that starts at `file_offset`. Lines (including joined ones) keep at most
    /// `line_bytes_max` bytes of their body, counted as stored in the file.
    pub fn new(format: Format, line_bytes_max: usize, file_offset: u64) -> Self {
        Self {
            format,
            line_bytes_max: line_bytes_max.clamp(1, LINE_BYTES_MAX),
            at: file_offset,
            floor: file_offset,
            is_skipping: false,
            is_in_nul_run: false,
            is_utf16: false,
            partials: Partials::new(format),
            multiline: None,
            times: TimeParser::default(),
            known: docker::KnownAttributes::default(),
        }
    }

    /// Sets the rule by which lines are joined into records; none: every line is one. Must also be
    /// set on a restored decoder.
    pub fn set_multiline(&mut self, rule: Option<Arc<Multiline>>) {
        self.multiline = rule;
    }

    /// Returns the rule by which lines are joined.
    pub fn multiline(&self) -> Option<&Arc<Multiline>> {
        self.multiline.as_ref()
    }

    /// Returns the format of the lines.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the file offset to continue reading at.
    pub fn file_offset(&self) -> u64 {
        self.at
    }

    /// Returns the offset of the stream's position after everything consumed, with which a batch
    /// ends. At or a few bytes ahead of [`Self::file_offset`].
    pub fn position(&self) -> u64 {
        self.at.max(self.floor)
    }

    /// Returns the open partial lines, and the records that wait for further lines.
    pub fn partials(&self) -> &Partials {
        &self.partials
    }

    /// Removes open lines and records, for the decoder of the container's next file.
    pub fn take_partials(&mut self) -> Partials {
        std::mem::replace(&mut self.partials, Partials::new(self.format))
    }

    /// Continues the lines and records that the container's previous file left open. If that was in
    /// another format, partial lines cannot be joined: they are discarded and counted in `book`.
    pub fn adopt_partials(&mut self, mut partials: Partials, book: &mut SourceBook) {
        if partials.is_empty() {
            return;
        }
        if partials.format == self.format {
            self.partials.prepend(partials, self.line_bytes_max);
        } else {
            let records = std::mem::take(&mut partials.records);
            partials.discard(book);
            let complete = Partials { records, ..Partials::new(self.format) };
            self.partials.prepend(complete, self.line_bytes_max);
        }
    }

    /// Decodes the block that was read from [`Self::file_offset`] into the arena at `region` (as
    /// returned by [`BatchBuilder::advance`]), and counts in `book`, bytes included.
    ///
    /// Read blocks of `READ_BLOCK_BYTES` into a builder's read space: a line that does not fit in
    /// the space left returns [`Stop::BatchFull`] with nothing consumed, and fits into the next
    /// batch. What was not consumed is returned to the builder's read space.
    pub fn decode(
        &mut self,
        builder: &mut BatchBuilder,
        region: Range<usize>,
        observed_ns: i64,
        book: &mut SourceBook,
    ) -> Consumed {
        self.run(builder, region, observed_ns, book, false)
    }

    /// Like [`Self::decode`], for the last region of a file that will never grow: its incomplete
    /// last line counts as complete. The region must extend to the end of the file.
    pub fn finish(
        &mut self,
        builder: &mut BatchBuilder,
        region: Range<usize>,
        observed_ns: i64,
        book: &mut SourceBook,
    ) -> Consumed {
        self.run(builder, region, observed_ns, book, true)
    }

    fn run(
        &mut self,
        builder: &mut BatchBuilder,
        region: Range<usize>,
        observed_ns: i64,
        book: &mut SourceBook,
        is_end: bool,
    ) -> Consumed {
        self.reserve(builder);
        let mut run = Run {
            pos: region.start,
            region,
            base: self.at,
            is_end,
            observed_ns,
            abandoned: 0,
            is_ascii: self.format == Format::DockerJson,
        };
        let mut why =
            if self.at == 0 { self.begin_file(builder.arena(), &mut run) } else { Ok(()) };
        run.is_ascii &= run.pos == run.region.start;
        while why.is_ok() {
            self.usual_lines(builder, &mut run, book);
            let usual_until = run.pos;
            why = self.step(builder, &mut run, book);
            run.is_ascii &= run.pos == usual_until;
        }
        let bytes = run.pos - run.region.start;
        self.at += bytes as u64;
        self.check_utf8(builder, &run);
        book.bytes_read += (bytes - run.abandoned) as u64;
        book.abandon(AbandonReason::LineTooLong, run.abandoned as u64);
        if builder.arena().len() == run.region.end {
            builder.retract(run.pos);
        }
        // A fresh batch has no more room: there, wait for the rest of the line.
        let is_fresh = run.region.start == HEADER_LEN && builder.record_count() == 0;
        let is_crowded = bytes == 0 && !is_fresh && builder.room() < READ_BLOCK_BYTES;
        match why {
            Err(Stop::NeedMore) if is_crowded && !is_end => {
                Consumed { bytes, why: Stop::BatchFull }
            }
            Err(why) => Consumed { bytes, why },
            Ok(()) => Consumed { bytes, why: Stop::NeedMore },
        }
    }

    /// Checks whether the consumed bytes are UTF-8, if bodies will be copied as they are: at once,
    /// while they are in the processor cache.
    fn check_utf8(&self, builder: &mut BatchBuilder, run: &Run) {
        let consumed = run.region.start..run.pos;
        let bytes = builder.arena().get(consumed.clone()).unwrap_or_default();
        let is_copied = self.format == Format::DockerJson;
        if run.is_ascii || is_copied && simdutf8::basic::from_utf8(bytes).is_ok() {
            builder.mark_utf8(consumed);
        }
    }

    /// Strips the byte order mark of UTF-8, and detects that of UTF-16: such a file is kept line by
    /// line as raw bytes, and every line is counted as malformed.
    fn begin_file(&mut self, arena: &[u8], run: &mut Run) -> Result<(), Stop> {
        match arena.get(run.region.clone()).unwrap_or_default() {
            [0xef, 0xbb, 0xbf, ..] => run.pos += 3,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => self.is_utf16 = true,
            [0xef | 0xff | 0xfe] | [0xef, 0xbb] if !run.is_end => return Err(Stop::NeedMore),
            _ => {}
        }
        Ok(())
    }

    /// Decodes lines in one loop while they are complete, short enough and in the usual form;
    /// stops before the first one that is not.
    #[inline]
    fn usual_lines(&mut self, builder: &mut BatchBuilder, run: &mut Run, book: &mut SourceBook) {
        if self.is_skipping || self.is_in_nul_run || self.is_utf16 {
            return;
        }
        let max = self.line_bytes_max.min(PHYSICAL_LINE_MAX);
        let observed_ns = run.observed_ns;
        let Self { floor, times, partials, format, known, multiline, .. } = self;
        let joins = Joins { rule: multiline.as_deref(), records: &partials.records };
        let mut is_ascii = true;
        let is_whole = |iostream, is_last, body: &Range<usize>| {
            is_last && body.len() <= max && !partials.slot(Partials::slot_of(iostream)).is_open()
        };
        let taken = match format {
            Format::Raw => take_lines(floor, builder, run, |rest| {
                let line = rest.get(..memchr::memchr(b'\n', rest)?)?;
                let is_usual = line.len() <= max
                    && line.first() != Some(&0)
                    && joins.leave_alone(line, RecordFlags::default());
                let record = (observed_ns, 0..line.len(), RecordFlags::default());
                is_usual.then_some((line.len(), record))
            }),
            // Lines with attributes are not plain records.
            Format::DockerJson if !known.is_empty() => 0,
            Format::DockerJson => take_lines(floor, builder, run, |rest| {
                let (read, len) = docker::parse_usual(rest, times, known)?;
                let flags = read.iostream.with(RecordFlags::JSON_ESCAPED);
                let body = rest.get(read.body.clone()).unwrap_or_default();
                let is_usual = rest.get(len) == Some(&b'\n')
                    && is_whole(flags, read.is_last, &read.body)
                    && joins.leave_alone(body, flags);
                is_ascii &= read.is_ascii;
                is_usual.then_some((len, (read.time_ns?, read.body, flags)))
            }),
            Format::Cri => take_lines(floor, builder, run, |rest| {
                let line = rest.get(..memchr::memchr(b'\n', rest)?)?;
                let read = cri::parse(line, times)?;
                let body = line.get(read.body.clone()).unwrap_or_default();
                let is_usual = is_whole(read.iostream, read.is_last, &read.body)
                    && joins.leave_alone(body, read.iostream);
                is_usual.then_some((line.len(), (read.time_ns, read.body, read.iostream)))
            }),
            Format::Json | Format::Logfmt => 0,
        };
        run.is_ascii &= is_ascii;
        book.lines += taken;
        book.records += taken;
    }

    /// Decodes up to the end of one line.
    #[inline]
    fn step(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        book: &mut SourceBook,
    ) -> Result<(), Stop> {
        let rest = builder.arena().get(run.pos..run.region.end).unwrap_or_default();
        let Some(first) = rest.first() else { return Err(Stop::NeedMore) };
        if self.is_skipping {
            self.skip_line(rest, run);
            return Ok(());
        }
        if (*first == 0 || self.is_in_nul_run) && !self.is_utf16 {
            self.strip_nuls(rest, run, book);
            return Ok(());
        }
        let newline = memchr::memchr(b'\n', rest);
        let len = newline.unwrap_or(rest.len());
        let consumed = if len > self.physical_line_max() {
            self.overlong_line(builder, run, book)
        } else if newline.is_some() {
            self.line(builder, run, run.pos..run.pos + len, 1, book)
        } else if run.is_end {
            self.line(builder, run, run.pos..run.pos + len, 0, book)
        } else {
            return Err(Stop::NeedMore);
        };
        run.pos += consumed.map_err(|Full| Stop::BatchFull)?;
        Ok(())
    }

    /// Lines of UTF-16 are kept as they are.
    #[inline]
    fn format_of_lines(&self) -> Format {
        if self.is_utf16 { Format::Raw } else { self.format }
    }

    /// Returns the maximum length of a line that is examined completely: in formats that wrap the
    /// body, the wrapping must be parsed even if the body is truncated.
    #[inline]
    fn physical_line_max(&self) -> usize {
        match self.format_of_lines() {
            Format::DockerJson | Format::Cri => PHYSICAL_LINE_MAX,
            Format::Raw | Format::Json | Format::Logfmt => {
                self.line_bytes_max.min(PHYSICAL_LINE_MAX)
            }
        }
    }

    /// Skips bytes up to the end of an overlong line.
    #[cold]
    fn skip_line(&mut self, rest: &[u8], run: &mut Run) {
        let newline = memchr::memchr(b'\n', rest);
        let len = newline.map_or(rest.len(), |at| at + 1);
        run.abandoned += len;
        run.pos += len;
        self.is_skipping = newline.is_none() && !run.is_end;
    }

    /// Strips a run of NUL bytes before a line; with its line feed, if the line contains nothing
    /// else. A run counts as one discarded line.
    #[cold]
    fn strip_nuls(&mut self, rest: &[u8], run: &mut Run, book: &mut SourceBook) {
        let nuls = leading_nuls(rest);
        if nuls > 0 && !self.is_in_nul_run {
            book.lines += 1;
            book.discard(DiscardReason::NulBytes, 1);
        }
        run.pos += nuls;
        let next = rest.get(nuls);
        self.is_in_nul_run = next.is_none() && !run.is_end;
        if next == Some(&b'\n') {
            run.pos += 1;
        }
    }

    /// Decodes one line without its line feed, which has `newline_len` bytes; returns the number of
    /// bytes consumed.
    #[inline]
    fn line(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        line: Range<usize>,
        newline_len: usize,
        book: &mut SourceBook,
    ) -> Result<usize, Full> {
        let consumed = line.len() + newline_len;
        let end_offset = run.offset(line.end + newline_len);
        let format = self.format_of_lines();
        match format {
            Format::Raw => {
                let flags =
                    if self.is_utf16 { RecordFlags::MALFORMED } else { RecordFlags::default() };
                let record = raw_record(run.observed_ns, end_offset, line, flags);
                self.deliver(builder, run.offset(run.pos), record, 1, book)?;
            }
            Format::Json | Format::Logfmt => {
                let bytes = builder.arena().get(line.clone()).unwrap_or_default();
                let seen = structured::look(format, bytes);
                let record = NewRecord {
                    timestamp_ns: seen.time_ns().unwrap_or(run.observed_ns),
                    severity: seen.severity,
                    ..raw_record(run.observed_ns, end_offset, line, seen.flags)
                };
                self.deliver(builder, run.offset(run.pos), record, 1, book)?;
            }
            Format::DockerJson => {
                let bytes = builder.arena().get(line.clone()).unwrap_or_default();
                let Some(parsed) = docker::parse(bytes, &mut self.times, &mut self.known) else {
                    return self.malformed_docker(builder, run, line, newline_len, book);
                };
                let part = docker_part(&parsed, line.start, run.observed_ns, end_offset);
                self.part(builder, run, part, book)?;
            }
            Format::Cri => {
                let bytes = builder.arena().get(line.clone()).unwrap_or_default();
                let Some(parsed) = cri::parse(bytes, &mut self.times) else {
                    self.malformed(builder, run, line, end_offset, false, book)?;
                    return Ok(consumed);
                };
                self.part(builder, run, cri_part(&parsed, line.start, end_offset), book)?;
            }
        }
        Ok(consumed)
    }

    /// Handles a line that does not parse: if it contains NUL bytes, a crash left half a line
    /// before them, and a complete one may follow.
    #[cold]
    fn malformed_docker(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        mut line: Range<usize>,
        newline_len: usize,
        book: &mut SourceBook,
    ) -> Result<usize, Full> {
        let bytes = builder.arena().get(line.clone()).unwrap_or_default();
        let mut consumed = line.len() + newline_len;
        if let Some(nul) = memchr::memchr(0, bytes) {
            line.end = line.start + nul;
            consumed = nul;
        }
        let end_offset = run.offset(line.start + consumed);
        self.malformed(builder, run, line, end_offset, false, book)?;
        Ok(consumed)
    }

    /// Keeps a line as it is; `is_cut` means that this is only its beginning.
    #[cold]
    fn malformed(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        line: Range<usize>,
        end_offset: u64,
        is_cut: bool,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let bytes = builder.arena().get(line.clone()).unwrap_or_default();
        let keep = json::cut_utf8(bytes, self.line_bytes_max);
        let lost = line.len() - keep;
        let mut flags = RecordFlags::MALFORMED;
        if lost > 0 || is_cut {
            flags = flags.with(RecordFlags::TRUNCATED);
        }
        let body = line.start..line.start + keep;
        self.emit(builder, raw_record(run.observed_ns, end_offset, body, flags), 1, book)?;
        run.abandoned += lost;
        Ok(())
    }

    /// Keeps the beginning of a line that is too long to be examined completely; the rest of it is
    /// skipped. Returns the number of bytes consumed.
    #[cold]
    fn overlong_line(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        book: &mut SourceBook,
    ) -> Result<usize, Full> {
        let max = self.physical_line_max();
        let start = run.pos;
        let rest = builder.arena().get(start..run.region.end).unwrap_or_default();
        let head = rest.get(..max).unwrap_or_default();
        let end_offset = run.offset(start + max);
        let format = self.format_of_lines();
        let consumed = match format {
            Format::Raw | Format::Json | Format::Logfmt => {
                // A record needs a position of its own, so at least one byte is taken.
                let whole = if self.is_utf16 { 0 } else { json::cut_utf8(rest, max) };
                let len = if whole == 0 { max } else { whole };
                let mut flags = RecordFlags::TRUNCATED;
                if self.is_utf16 {
                    flags = flags.with(RecordFlags::MALFORMED);
                }
                let end_offset = run.offset(start + len);
                let record = raw_record(run.observed_ns, end_offset, start..start + len, flags);
                self.deliver(builder, run.offset(start), record, 1, book)?;
                len
            }
            Format::DockerJson => {
                // Time and stream follow the body: they are lost with the rest.
                match docker::beginning(head) {
                    Some(log) => {
                        let content = head.get(log.clone()).unwrap_or_default();
                        let keep = cut(format, content, self.line_bytes_max);
                        let body = start + log.start..start + log.start + keep;
                        let flags = RecordFlags::JSON_ESCAPED.with(RecordFlags::TRUNCATED);
                        let lost = max - log.start - keep;
                        let record = raw_record(run.observed_ns, end_offset, body, flags);
                        self.emit(builder, record, 1, book)?;
                        run.abandoned += lost;
                    }
                    None => {
                        self.malformed(builder, run, start..start + max, end_offset, true, book)?;
                    }
                }
                max
            }
            Format::Cri => {
                match cri::parse(head, &mut self.times) {
                    Some(parsed) => {
                        let mut part = cri_part(&parsed, start, end_offset);
                        part.flags = part.flags.with(RecordFlags::TRUNCATED);
                        self.part(builder, run, part, book)?;
                    }
                    None => {
                        self.malformed(builder, run, start..start + max, end_offset, true, book)?;
                    }
                }
                max
            }
        };
        self.is_skipping = true;
        Ok(consumed)
    }

    /// Handles a message, or a part of one.
    #[inline]
    fn part(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        part: Part,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let slot = Partials::slot_of(part.flags);
        if !part.is_last {
            return self.open_line(builder, run, slot, &part, book);
        }
        if self.partials.slot(slot).is_open() {
            return self.complete_line(builder, run, slot, part, book);
        }
        self.whole_line(builder, run, part, book)
    }

    #[inline]
    fn whole_line(
        &mut self,
        builder: &mut BatchBuilder,
        run: &mut Run,
        mut part: Part,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let mut lost = 0;
        if part.body.len() > self.line_bytes_max {
            let content = builder.arena().get(part.body.clone()).unwrap_or_default();
            let keep = cut(self.format, content, self.line_bytes_max);
            lost = part.body.len() - keep;
            part.body.end = part.body.start + keep;
            part.flags = part.flags.with(RecordFlags::TRUNCATED);
        }
        let record = NewRecord {
            timestamp_ns: part.timestamp_ns,
            end_offset: part.end_offset,
            body: part.body,
            attributes: part.attributes,
            severity: Severity::UNSPECIFIED,
            flags: part.flags,
            ..NewRecord::default()
        };
        self.deliver(builder, run.offset(run.pos), record, 1, book)?;
        run.abandoned += lost;
        Ok(())
    }

    /// Adds a record made of `lines` lines and counts both.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        builder: &mut BatchBuilder,
        mut record: NewRecord,
        lines: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        record.end_offset = record.end_offset.max(self.floor.saturating_add(1));
        builder.push(&record)?;
        self.floor = record.end_offset;
        book.lines += lines;
        book.records += 1;
        book.joined += lines - 1;
        book.malformed += u64::from(record.flags.contains(RecordFlags::MALFORMED));
        book.truncated += u64::from(record.flags.contains(RecordFlags::TRUNCATED));
        Ok(())
    }
}

/// How joining concerns a line.
#[derive(Clone, Copy)]
struct Joins<'a> {
    rule: Option<&'a Multiline>,
    records: &'a [OpenRecord; 2],
}

impl Joins<'_> {
    /// Returns true if the line is a record by itself, and does not end another one.
    #[inline]
    fn leave_alone(self, body: &[u8], flags: RecordFlags) -> bool {
        let [stdout, stderr] = self.records;
        let record = if Partials::slot_of(flags) == 0 { stdout } else { stderr };
        !record.is_of_concern()
            && self.rule.is_none_or(|rule| rule.start(body, flags) == State::NONE)
    }
}

/// Takes lines while `parse` recognizes them and the builder has room; returns their number.
/// `parse` gets the rest of the region; it returns the length of a line (without the line feed that
/// ends it), and the time, the body within the line, and the flags.
#[inline]
fn take_lines(
    floor: &mut u64,
    builder: &mut BatchBuilder,
    run: &mut Run,
    mut parse: impl FnMut(&[u8]) -> Option<(usize, (i64, Range<usize>, RecordFlags))>,
) -> u64 {
    let region = run.region.clone();
    let (arena, mut records) = builder.plain();
    let mut taken = 0;
    while let Some((len, (time_ns, body, flags))) =
        arena.get(run.pos..region.end).and_then(&mut parse)
        && len <= PHYSICAL_LINE_MAX
    {
        let next = run.pos + len + 1;
        let end_offset = run.offset(next).max(floor.saturating_add(1));
        let body = run.pos + body.start..run.pos + body.end;
        if !records.push(time_ns, end_offset, body, flags) {
            break;
        }
        *floor = end_offset;
        run.pos = next;
        taken += 1;
    }
    taken
}

#[inline]
fn raw_record(
    timestamp_ns: i64,
    end_offset: u64,
    body: Range<usize>,
    flags: RecordFlags,
) -> NewRecord {
    NewRecord {
        timestamp_ns,
        end_offset,
        body,
        severity: Severity::UNSPECIFIED,
        flags,
        ..NewRecord::default()
    }
}

#[inline]
fn docker_part(line: &docker::DockerLine, start: usize, observed_ns: i64, end_offset: u64) -> Part {
    let absolute = |span: &Range<usize>| start + span.start..start + span.end;
    Part {
        body: absolute(&line.body),
        attributes: absolute(&line.attributes),
        is_last: line.is_last,
        timestamp_ns: line.time_ns.unwrap_or(observed_ns),
        flags: line.iostream.with(RecordFlags::JSON_ESCAPED),
        end_offset,
    }
}

#[inline]
fn cri_part(line: &cri::CriLine, start: usize, end_offset: u64) -> Part {
    Part {
        body: start + line.body.start..start + line.body.end,
        attributes: 0..0,
        is_last: line.is_last,
        timestamp_ns: line.time_ns,
        flags: line.iostream,
        end_offset,
    }
}

fn leading_nuls(bytes: &[u8]) -> usize {
    let blocks = bytes.as_chunks::<64>().0.iter().take_while(|block| **block == [0; 64]).count();
    let from = blocks * 64;
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|b| *b != 0).unwrap_or(rest.len())
}
