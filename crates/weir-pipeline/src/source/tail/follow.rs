//! One visit to a file: check it, read a block, decode it, append it.
//!
//! Invariants: an accepted batch and the data read next are contiguous; a refused batch is kept (up
//! to a limit for all files together) or read again later, never lost; reading stops at the size
//! that stat reported, so the byte counts always balance.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use weir_codec::{DETECT_BYTES_MAX, LineDecoder, Stop, detect};
use weir_host::TreeFile;
use weir_host::file_tree::Errno;
use weir_journal::{RefusedReason, StreamSpec, WritePolicy};
use weir_model::limits::{READ_BLOCK_BYTES, ROUTED_RECORDS_MIN};
use weir_model::{AbandonReason, Batch, BatchBuilder, DiscardReason, Position, Seal, SourceBook};

use super::engine::{Engine, Next, RETRY_PAUSE};
use super::file::{File, Phase};
use super::identity::{read_fully, verify};
use super::reader::{Block, end_of_hole, read_block};
use super::state;
use crate::config::Format;
use crate::rule::Subject;
use crate::stats::add;

/// Memory for refused batches of all files together; beyond it they are dropped and read again.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

fn codec_format(format: Format) -> Option<weir_codec::Format> {
    match format {
        Format::Auto => None,
        Format::Raw => Some(weir_codec::Format::Raw),
        Format::DockerJson => Some(weir_codec::Format::DockerJson),
        Format::Cri => Some(weir_codec::Format::Cri),
        Format::Json => Some(weir_codec::Format::Json),
        Format::Logfmt => Some(weir_codec::Format::Logfmt),
    }
}

/// How to handle a batch that rules make larger than a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Give it back, to be read again in parts.
    Whole,
    /// Truncate its records: it cannot be read in smaller parts.
    Cut,
}

/// Result of appending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AppendResult {
    Accepted,
    /// Held, or dropped to be read again.
    Refused,
    /// Nothing was changed: read less at a time.
    TooLarge,
}

/// The size alone does not reveal that a file was truncated and has grown to the same length again.
fn is_rewritten(file: &File) -> Result<bool, Errno> {
    let Some(handle) = file.handle() else { return Ok(false) };
    Ok(read_block(handle, file.at(), file.memory.window(), &mut [])? == Block::Rewritten)
}

/// Returns true if content that is read again is still the one that an earlier run had read.
fn has_read_before(file: &mut File) -> Result<bool, Errno> {
    let at = file.at();
    file.read_before.take_if(|before| before.to <= at);
    let (Some(before), Some(handle)) = (&file.read_before, file.handle()) else { return Ok(true) };
    Ok(verify(handle, before.to, &before.print)?.is_some())
}

impl Engine {
    /// Does the work that is due for a file.
    pub(super) fn visit(&mut self, file: &mut File) -> Next {
        if file.is_given_up && file.phase != Phase::Finished {
            return self.give_up(file, AbandonReason::DeletedTooLong);
        }
        if let Some(batch) = file.held.take() {
            self.held_bytes -= batch.memory_bytes();
            if !self.submit(file, *batch) {
                return Next::Blocked;
            }
        }
        if let Some(next) = self.open(file) {
            return next;
        }
        if !file.is_claimed && self.are_names_moving(file) {
            return Next::Again;
        }
        if let Some(next) = self.verify_now(file) {
            return next;
        }
        if let Some(next) = self.look_at(file) {
            return next;
        }
        if !file.is_claimed {
            if file.size == 0 {
                return self.at_end(file);
            }
            // It may have been finished while it was empty: older files wake those that wait.
            file.phase = Phase::New;
            if !self.begin(file) {
                return Next::Idle;
            }
        }
        if file.has_new() {
            file.phase = Phase::Following;
            return self.read(file);
        }
        match is_rewritten(file) {
            Ok(true) => self.rewritten(file),
            Ok(false) => self.at_end(file),
            Err(error) => self.read_failed(file, error),
        }
    }

    /// Opens the file if it is not open. Returns `Some` if that is not possible now.
    fn open(&mut self, file: &mut File) -> Option<Next> {
        if file.handle.is_some() {
            return None;
        }
        if file.phase == Phase::Finished && file.locations.is_empty() {
            return Some(self.end_unnamed(file));
        }
        let Some(location) = file.locations.first() else {
            return Some(self.give_up(file, AbandonReason::Vanished));
        };
        let path = self.discovery.dir_path(location.dir).join(&*location.name);
        match self.open_path(&path) {
            Ok(handle) if handle.stat().is_ok_and(|stat| stat.id == file.id) => {
                file.handle = Some(handle);
                file.is_written_closed = false;
                self.open_files += 1;
                self.readable_again(&path);
                None
            }
            // Another file has the name by now: looking at the name again resolves it.
            Ok(_) | Err(Errno::NOENT) => {
                let location = location.clone();
                self.discovery.touch(&location);
                Some(Next::Idle)
            }
            Err(error) => {
                self.cannot_open(&path, error);
                file.backlog = 0;
                Some(Next::At(self.now() + RETRY_PAUSE))
            }
        }
    }

    /// Opens a log file for reading, closing an idle one if too many are open.
    pub(super) fn open_path(&mut self, path: &Path) -> Result<Box<dyn TreeFile>, Errno> {
        if self.open_files >= self.open_files_max {
            self.close_idle();
        }
        if self.open_files >= self.open_files_max {
            return Err(Errno::MFILE);
        }
        match self.parts.tree.open(path) {
            Err(Errno::MFILE | Errno::NFILE) if self.close_idle() => self.parts.tree.open(path),
            other => other,
        }
    }

    /// Counts and logs, once per file, that it cannot be opened. It is retried.
    pub(super) fn cannot_open(&mut self, path: &Path, error: Errno) {
        let is_ours = matches!(error, Errno::MFILE | Errno::NFILE);
        if is_ours {
            let now = self.now();
            self.retry_open_at.get_or_insert(now + RETRY_PAUSE);
        }
        let kind = if is_ours { "descriptors" } else { "open" };
        if self.unreadable.insert(path.to_owned()) {
            let text = format!("cannot open {}: {error}", path.display());
            tracing::warn!("{text}");
            self.parts.stats.errors.count(kind, &text);
        }
    }

    /// Records that an unreadable file can be read again.
    pub(super) fn readable_again(&mut self, path: &Path) {
        if !self.unreadable.is_empty() && self.unreadable.remove(path) && self.unreadable.is_empty()
        {
            self.parts.stats.errors.clear_last();
        }
    }

    /// Verifies content that could not be read before. Returns `Some` if that is still impossible,
    /// or if it has changed.
    fn verify_now(&mut self, file: &mut File) -> Option<Next> {
        let print = file.unverified?;
        match verify(file.handle()?, file.at(), &print) {
            Ok(Some(memory)) => file.memory = memory,
            Ok(None) => return Some(self.truncated(file)),
            Err(error) => return Some(self.read_failed(file, error)),
        }
        file.unverified = None;
        None
    }

    /// Checks size and names. Returns `Some` if reading cannot simply continue.
    fn look_at(&mut self, file: &mut File) -> Option<Next> {
        let Some(handle) = file.handle() else { return Some(Next::Idle) };
        let stat = match handle.stat() {
            Ok(stat) => stat,
            Err(error) => return Some(self.read_failed(file, error)),
        };
        let size = stat.size;
        if stat.links == 0 && !file.is_unlinked {
            self.unlinked(file);
        }
        let read_before = file.read_before.as_ref().map_or(0, |before| before.to);
        if size < file.at().max(read_before) {
            return Some(self.truncated(file));
        }
        if size < file.size {
            // Truncated, but not below the read position: those bytes are gone.
            file.book.files_cut += 1;
            file.book.abandon(AbandonReason::Truncated, file.size - size);
            file.size = size;
            file.examined_to = 0;
            file.backlog = file.backlog.min(size);
        }
        let growth = size - file.size;
        file.last_growth = growth;
        if growth > 0 {
            file.size = size;
            file.seen += growth;
            file.grown_at = self.now();
            file.is_drained = false;
            add(&self.parts.stats.bytes_seen, growth);
        }
        None
    }

    fn read(&mut self, file: &mut File) -> Next {
        let now = self.now();
        let wait = file.bucket.as_mut().filter(|b| !b.sheds()).and_then(|b| b.wait(now));
        if let Some(wait) = wait {
            return Next::At(now + wait);
        }
        match self.make_decoder(file) {
            Ok(true) => {}
            Ok(false) => {
                file.examined_to = file.size;
                return self.at_end(file);
            }
            Err(error) => return self.read_failed(file, error),
        }
        let region = match self.fill(file) {
            Ok(Some(region)) => region,
            Ok(None) => return self.rewritten(file),
            Err(error) => return self.read_failed(file, error),
        };
        if region.is_empty() {
            file.examined_to = file.size;
            return self.at_end(file);
        }
        self.note_first_read(file);
        self.readable_again(&file.shown);
        let begin = file.position();
        let start = region.start;
        let is_complete = self.decode(file, region);
        match self.append_as(file, Fit::Whole) {
            AppendResult::Accepted => {}
            AppendResult::Refused => return Next::Blocked,
            AppendResult::TooLarge => match self.split_at(start, begin) {
                Some(split) => {
                    self.rewind(file);
                    file.split = Some(split);
                    return Next::Again;
                }
                None if !self.append(file) => return Next::Blocked,
                None => {}
            },
        }
        self.step_over_hole(file);
        if is_complete {
            file.examined_to = file.size;
            return self.at_end(file);
        }
        Next::Again
    }

    /// Returns where to split a block at `start` of the arena that resulted in more than fits in a
    /// frame. `None` if not even one line ends before that: a record that was held for further
    /// lines is emitted with the line that ends it.
    fn split_at(&self, start: usize, begin: Position) -> Option<usize> {
        let half = self.builder.record(self.builder.record_count() / 2 - 1);
        let split = half.position.offset.saturating_sub(begin.offset) as usize;
        let lines = self.builder.arena().get(start..start + split)?;
        memchr::memchr(b'\n', lines).map(|_has_a_line| split)
    }

    /// Reads the next block into the builder. `None`: the file was rewritten.
    pub(super) fn fill(&mut self, file: &mut File) -> Result<Option<Range<usize>>, Errno> {
        let at = file.at();
        let block = file.split.take().unwrap_or(READ_BLOCK_BYTES).min(READ_BLOCK_BYTES);
        let want = (file.size - at).min(block as u64) as usize;
        self.reset_builder(file);
        let Some(handle) = file.handle() else { return Err(Errno::BADF) };
        let space = self.builder.read_space(want);
        Ok(match read_block(handle, at, file.memory.window(), space)? {
            Block::Bytes(count) if has_read_before(file)? => Some(self.builder.advance(count)),
            Block::Bytes(_) | Block::Rewritten => None,
        })
    }

    /// Starts a batch after the last one, even across a hole if the distance fits.
    pub(super) fn reset_builder(&mut self, file: &File) {
        let (from, to) = (file.appended.position, file.position());
        let follows = from.epoch == to.epoch
            && to.offset.saturating_sub(from.offset) < u64::from(u32::MAX) / 2;
        self.builder.reset(if follows { from } else { to });
    }

    /// Decodes a block. Returns true if there is nothing more to decode until the file grows.
    fn decode(&mut self, file: &mut File, region: Range<usize>) -> bool {
        let whole_len = region.len() as u64;
        let at = file.at();
        let now = self.now();
        file.read_at = now;
        let (region, shed) = self.split(file, region, now);
        let was_cut = (region.len() as u64) < whole_len;
        let observed_ns = self.parts.clock.unix_ns();
        let Some(decoder) = &mut file.decoder else { return true };
        let lines_before = file.book.lines;
        let start = region.start;
        let consumed =
            decoder.decode(&mut self.builder, region.clone(), observed_ns, &mut file.book);
        file.memory.consumed(at, &self.builder.arena()[start..start + consumed.bytes]);
        if let Some(bucket) = &mut file.bucket {
            bucket.take(file.book.lines - lines_before);
        }
        if consumed.bytes == region.len() && !shed.is_empty() {
            self.shed(file, &shed, observed_ns);
        }
        consumed.why == Stop::NeedMore && !was_cut && at + whole_len == file.size
    }

    /// Cuts a region after the lines that the rate limit allows. The rest is given back to the
    /// file, or returned to be shed.
    fn split(
        &mut self,
        file: &mut File,
        region: Range<usize>,
        now: std::time::Duration,
    ) -> (Range<usize>, Vec<u8>) {
        let Some(bucket) = &mut file.bucket else { return (region, Vec::new()) };
        let allowed = bucket.available(now) as usize;
        let bytes = &self.builder.arena()[region.clone()];
        let cut = match allowed {
            0 => Some(0),
            n => memchr::memchr_iter(b'\n', bytes).nth(n - 1).map(|at| at + 1),
        };
        let Some(cut) = cut.filter(|cut| *cut < bytes.len()) else { return (region, Vec::new()) };
        let shed = if bucket.sheds() { bytes[cut..].to_vec() } else { Vec::new() };
        let region = region.start..region.start + cut;
        self.builder.retract(region.end);
        (region, shed)
    }

    /// Decodes lines only to find their ends, and counts them as shed.
    fn shed(&mut self, file: &mut File, bytes: &[u8], observed_ns: i64) {
        let mut scratch =
            self.scratch.take().unwrap_or_else(|| BatchBuilder::new(Position::default()));
        let mut rest = bytes;
        if let Some(decoder) = &mut file.decoder {
            // Shed lines are not joined to kept ones.
            let _rest_is_shed = decoder.flush_records(&mut self.builder, &mut file.book);
            decoder.set_multiline(None);
        }
        while let Some(decoder) = &mut file.decoder {
            let at = decoder.file_offset();
            scratch.reset(Position::new(file.epoch, decoder.position()));
            let Ok(region) = scratch.append(rest) else { break };
            let mut book = SourceBook::default();
            let consumed = decoder.decode(&mut scratch, region, observed_ns, &mut book);
            file.memory.consumed(at, &rest[..consumed.bytes]);
            rest = &rest[consumed.bytes..];
            // Whatever the lines would have become, no record is made of them.
            let mut shed = SourceBook { records: 0, joined: 0, malformed: 0, truncated: 0, ..book };
            shed.discard(DiscardReason::RateLimit, book.lines - book.discarded_total());
            file.book.add(&shed);
            if consumed.bytes == 0 || consumed.why == Stop::NeedMore {
                break;
            }
        }
        self.scratch = Some(scratch);
        let rule = self.rule_of_joining();
        if let Some(decoder) = &mut file.decoder {
            decoder.set_multiline(rule);
        }
    }

    /// Skips NUL bytes without blocks on disk (after a crash, or a truncated file whose writer
    /// continued at its old offset).
    fn step_over_hole(&mut self, file: &mut File) {
        if file.memory.window().last() != Some(&0) || !file.has_tail() {
            return;
        }
        let Some(handle) = file.handle() else { return };
        if let Some(end) = end_of_hole(handle, file.at(), file.size) {
            let hole = end - file.at();
            file.book.bytes_read += hole;
            file.skip(hole, self.parts.settings.line_bytes_max);
        }
    }

    /// Creates the decoder once the format is known. Returns false if it is not known yet.
    fn make_decoder(&mut self, file: &mut File) -> Result<bool, Errno> {
        if file.decoder.is_some() {
            return Ok(true);
        }
        let Some(handle) = file.handle() else { return Err(Errno::BADF) };
        let mut format = codec_format(self.parts.format);
        if format.is_none() {
            let mut head = vec![0; DETECT_BYTES_MAX.min(file.size as usize)];
            let have = read_fully(handle, &mut head, 0)?;
            format = detect(&head[..have]);
        }
        let Some(format) = format else { return Ok(false) };
        self.set_decoder(file, format);
        Ok(true)
    }

    fn rule_of_joining(&self) -> Option<Arc<weir_codec::Multiline>> {
        self.parts.settings.multiline.as_ref().map(|joining| Arc::clone(&joining.rule))
    }

    /// Starts decoding in a format, with the lines that an older file of the group left open.
    pub(super) fn set_decoder(&mut self, file: &mut File, format: weir_codec::Format) {
        let max = self.parts.settings.line_bytes_max;
        let mut decoder = LineDecoder::new(format, max, file.start);
        decoder.set_multiline(self.rule_of_joining());
        if let Some(inherited) = file.inherited.take() {
            let (_, partials) = *inherited;
            decoder.adopt_partials(partials, &mut file.book);
        }
        file.decoder = Some(decoder);
    }

    fn note_first_read(&mut self, file: &mut File) {
        if file.is_old {
            return;
        }
        file.is_old = true;
        if file.id.born_ns > 0 {
            let delay = self.parts.clock.unix_ns() - file.id.born_ns;
            add(&self.parts.stats.discovery_ns, delay.max(0).cast_unsigned());
            add(&self.parts.stats.discovered_files, 1);
        }
    }

    /// Tells the journal about a file and that it is read from `start` on, in this state.
    pub(super) fn open_stream(&mut self, file: &mut File) -> weir_journal::ResumePoint {
        file.encode_state(&mut self.state_buf);
        file.is_claimed = true;
        file.phase = Phase::Following;
        let resume = self.parts.journal.open_stream(&StreamSpec {
            stream: file.stream,
            group: file.group,
            source: self.source,
            start: file.position(),
            state: &self.state_buf,
            book: file.book,
            gone: false,
        });
        file.appended.position = resume.position;
        file.appended.book = resume.book;
        file.appended.state.clone_from(&resume.state);
        resume
    }

    /// Seals what was decoded and appends it, truncated to fit in a frame. Returns false if the
    /// batch was refused: it is then held, or dropped to be read again.
    pub(super) fn append(&mut self, file: &mut File) -> bool {
        match self.append_as(file, Fit::Cut) {
            AppendResult::Accepted => true,
            AppendResult::Refused => false,
            AppendResult::TooLarge => {
                self.read_again(file);
                false
            }
        }
    }

    /// Handles records that go to more sets of destinations than a frame can name, where truncating
    /// does not help. A truncated batch has only the few records of one line, whose routes always
    /// fit ([`ROUTED_RECORDS_MIN`]). So this does not happen, and nothing would be lost if it did.
    fn read_again(&mut self, file: &mut File) {
        let text = format!("{}: records of one line do not fit in a frame", file.shown.display());
        self.parts.stats.errors.count("too_large", &text);
        self.rewind(file);
        if file.phase == Phase::Finished {
            file.phase = Phase::Following;
        }
    }

    fn append_as(&mut self, file: &mut File, fit: Fit) -> AppendResult {
        let end = file.position();
        if self.builder.record_count() == 0
            && end == file.appended.position
            && file.book == file.appended.book
        {
            return AppendResult::Accepted;
        }
        if self.builder.record_count() == 0 {
            // The content of the arena is part of the state, or is given up.
            let base = self.builder.base();
            self.builder.reset(base);
        }
        let rules = self.parts.rules.current();
        // It is the only resource, and there is always room for it.
        let is_there = self.builder.resource(file.resource_key(), &file.resource);
        debug_assert_eq!(is_there, Ok(0), "another resource in a batch of a file");
        let observed_ns = self.parts.clock.unix_ns();
        let mut subject = Subject {
            observed_ns,
            must_fit: fit == Fit::Cut || self.builder.record_count() < 2,
            batch: &mut self.builder,
            stream: file.stream,
            book: &mut file.book,
            clock: self.parts.clock.as_ref(),
        };
        if rules.apply(&mut self.rule_work, &mut subject).is_err() {
            debug_assert!(
                !subject.must_fit || subject.batch.record_count() > ROUTED_RECORDS_MIN,
                "a few records always fit when truncated"
            );
            return AppendResult::TooLarge;
        }
        file.encode_state(&mut self.state_buf);
        let batch = self.builder.seal(&Seal {
            repeatable: !file.is_unlinked,
            stream: file.stream,
            group: file.group,
            source: self.source,
            end,
            observed_ns,
            rule_generation: rules.generation(),
            book: &file.book,
            state: &self.state_buf,
        });
        if self.submit(file, batch) { AppendResult::Accepted } else { AppendResult::Refused }
    }

    /// Appends a sealed batch.
    fn submit(&mut self, file: &mut File, batch: Batch) -> bool {
        let (position, book) = (batch.header().end(), batch.book());
        self.state_buf.clear();
        self.state_buf.extend_from_slice(batch.state());
        let policy = if file.is_unlinked { WritePolicy::OnAppend } else { WritePolicy::OnLag };
        match self.parts.journal.append(batch, policy) {
            Ok(_durable_in_its_time) => {
                file.appended.position = position;
                file.appended.book = book;
                std::mem::swap(&mut file.appended.state, &mut self.state_buf);
                true
            }
            Err(refused) => {
                self.parts.stats.count_refused(&refused.reason);
                match refused.reason {
                    RefusedReason::BufferFull { .. } | RefusedReason::Disk { .. } => {
                        self.refused.insert(file.key);
                    }
                    RefusedReason::RingFull | RefusedReason::Closed => {
                        self.refused.remove(&file.key);
                    }
                }
                self.hold(file, refused.batch);
                false
            }
        }
    }

    fn hold(&mut self, file: &mut File, batch: Box<Batch>) {
        let bytes = batch.memory_bytes();
        if self.held_bytes + bytes <= HELD_BYTES_MAX {
            self.held_bytes += bytes;
            file.held = Some(batch);
        } else if file.phase != Phase::Finished {
            drop(batch);
            self.rewind(file);
        } else {
            // It cannot be read again, and is small: what a vanished file left.
            self.held_bytes += bytes;
            file.held = Some(batch);
        }
    }

    /// Rewinds to what the journal has accepted.
    pub(super) fn rewind(&mut self, file: &mut File) {
        file.epoch = file.appended.position.epoch;
        file.book = file.appended.book;
        let appended = std::mem::take(&mut file.appended.state);
        self.restore(file, &appended);
        file.appended.state = appended;
    }

    /// Restores a state whose position and book are set. The fingerprint of the content is verified
    /// against the file; returns false if the file was rewritten since.
    pub(super) fn restore(&mut self, file: &mut File, bytes: &[u8]) -> bool {
        let position = file.appended.position;
        file.examined_to = 0;
        file.start = position.offset;
        file.decoder = None;
        let Some(saved) = state::decode(bytes) else { return true };
        if !saved.decoder.is_empty() {
            let max = self.parts.settings.line_bytes_max;
            match LineDecoder::restore(saved.decoder, max, position.offset) {
                Ok(mut decoder) => {
                    decoder.set_multiline(self.rule_of_joining());
                    file.decoder = Some(decoder);
                }
                Err(error) => {
                    let text = format!("{}: {error}", file.shown.display());
                    tracing::warn!("{text}");
                    self.parts.stats.errors.count("state", &text);
                }
            }
        }
        let Some(handle) = file.handle() else { return true };
        match verify(handle, file.at(), &saved.print) {
            Ok(Some(memory)) => file.memory = memory,
            Ok(None) => return false,
            Err(_reported_when_it_is_read) => file.unverified = Some(saved.print),
        }
        true
    }

    /// Sets the attributes of the file's records.
    pub(super) fn encode_resource(&self, attributes: weir_model::Resource, file: &mut File) {
        file.resource = Arc::from(self.resource_of(attributes, &file.shown));
    }

    /// Encodes attributes together with those that every file has.
    pub(super) fn resource_of(
        &self,
        mut attributes: weir_model::Resource,
        shown: &Path,
    ) -> Vec<u8> {
        attributes.set("host.name", self.parts.host.as_str());
        attributes.set("log.file.path", shown.to_string_lossy().into_owned());
        let mut encoded = attributes.encode();
        if encoded.len() > weir_model::limits::RESOURCE_BYTES_MAX {
            // Only a path can be that long; records without attributes are better than no records.
            encoded =
                weir_model::Resource::new().with("host.name", self.parts.host.as_str()).encode();
        }
        encoded
    }
}
