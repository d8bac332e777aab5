//! What happens at the end of a file: waiting for more, rotation, hand-over to the next file of
//! the group, truncation, deletion.
//!
//! Invariants: a rotated file is followed for `rotated_grace` behind its end; a younger file of a
//! group begins only once the older ones were read to an end seen *after* the younger one had
//! data, so open lines are complete when they are handed over; nothing unread is forgotten
//! without being counted.

use std::time::Duration;

use rustix::io::Errno;
use weir_codec::Stop;
use weir_model::AbandonReason;

use super::discovery::FileKey;
use super::engine::{Engine, LOOKS_MAX, Next, RETRY_PAUSE};
use super::file::{File, Phase};

/// A file without a name is looked at this often: the kernel may not tell of its writes.
const NAMELESS_PAUSE: Duration = Duration::from_millis(100);

/// A finished file without a name is looked for after this time, and then forgotten.
const NAMELESS_MAX: Duration = Duration::from_secs(1);

/// How long unlinked files are read at shutdown: what is left of them is lost with the process.
const LAST_READS: Duration = Duration::from_secs(2);

/// Descriptors closed at a time when there are too many.
const CLOSED_AT_A_TIME: usize = 32;

impl Engine {
    /// Nothing more to read at present.
    pub(super) fn at_end(&mut self, file: &mut File) -> Next {
        if file.handed_over_at.is_some_and(|at| file.at() >= at) {
            // The next file had them before the restart.
            file.handed_over_at = None;
            drop(file.take_partials());
        }
        if file.is_awaited {
            file.is_awaited = false;
            file.is_drained = true;
            self.wake_younger(file);
        }
        let records_due = match self.flush_records(file) {
            Ok(due) => due,
            Err(next) => return next,
        };
        let now = self.now();
        let or_records = |due: Duration| Next::At(due.min(records_due.unwrap_or(due)));
        if file.is_rotated() {
            let since = file.grown_at.max(file.rotated_at.unwrap_or_default());
            let due = since + self.parts.settings.rotated_grace;
            if now >= due {
                return self.finish(file);
            }
            let nameless = file.places.is_empty();
            return or_records(if nameless { due.min(now + NAMELESS_PAUSE) } else { due });
        }
        if !file.has_tail() && !file.has_partial_lines() {
            return records_due.map_or(Next::Idle, Next::At);
        }
        let due = self.rest_due(file);
        if now < due {
            return or_records(due);
        }
        if let Err(next) = self.finish_tail(file) {
            return next;
        }
        if let Err(next) = self.flush_partials(file) {
            return next;
        }
        Next::Idle
    }

    /// When the rest of an unfinished line is no longer waited for. Where there is a backlog, a
    /// file is read long after it was written: only from then on can its rest be missed.
    fn rest_due(&self, file: &File) -> Duration {
        file.grown_at.max(file.read_at) + self.parts.settings.partial_timeout
    }

    /// A rotated file that has not grown for its time of grace.
    fn finish(&mut self, file: &mut File) -> Next {
        if let Err(next) = self.finish_tail(file) {
            return next;
        }
        if file.has_partials() {
            // The next file of the container may still come for them.
            let now = self.now();
            let due = self.rest_due(file);
            if now < due {
                return Next::At(due);
            }
            if self.is_continued(file) {
                return Next::At(now + RETRY_PAUSE);
            }
            if let Err(next) = self.flush_partials(file) {
                return next;
            }
        }
        if !self.let_go(file) {
            return Next::Again;
        }
        file.phase = Phase::Finished;
        self.close(file);
        self.wake_younger(file);
        if file.places.is_empty() { self.part(file) } else { Next::Idle }
    }

    /// A file without a name is about to be closed: from now on a write to it is noticed, though
    /// nobody can read it. False: it has grown, and is not closed.
    fn let_go(&mut self, file: &File) -> bool {
        let Some(fd) = file.fd().filter(|_| file.places.is_empty()) else { return true };
        let Some(wd) = self.discovery.watch_let_go(fd, &file.shown) else { return true };
        let has_grown =
            rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size.cast_unsigned() > file.size);
        if has_grown {
            self.discovery.unwatch_let_go(wd);
        }
        !has_grown
    }

    /// A file that is read to its end and has no name ends, once it is sure that it has none: in
    /// the middle of a rotation a name may have passed unseen, and a file that is forgotten too
    /// early would be read again from its beginning.
    pub(super) fn part(&mut self, file: &mut File) -> Next {
        if file.is_unlinked {
            return Next::Ended;
        }
        let now = self.now();
        let Some((since, dir)) = file.nameless_since else { return Next::Ended };
        if now < since + NAMELESS_MAX {
            return Next::At(since + NAMELESS_MAX);
        }
        if !file.is_sought {
            file.is_sought = true;
            self.discovery.touch_dir(dir);
            return Next::At(now + NAMELESS_PAUSE);
        }
        Next::Ended
    }

    fn close(&mut self, file: &mut File) {
        if file.fd.take().is_some() {
            self.open_files -= 1;
        }
    }

    /// The incomplete last line counts as complete.
    fn finish_tail(&mut self, file: &mut File) -> Result<(), Next> {
        if !file.has_tail() || file.fd.is_none() {
            return Ok(());
        }
        if file.decoder.is_none() {
            // Not even one line told the format.
            self.set_decoder(file, weir_codec::Format::Raw);
        }
        let region = match self.fill(file) {
            Ok(Some(region)) if !region.is_empty() => region,
            // Shorter than it said: the next look tells. Not at once, in case it goes on saying so.
            Ok(Some(_shrunk)) => return Err(Next::At(self.now() + NAMELESS_PAUSE)),
            Ok(None) => return Err(self.rewritten(file)),
            Err(error) => return Err(self.read_failed(file, error)),
        };
        let observed_ns = self.parts.clock.unix_ns();
        let at = file.at();
        let start = region.start;
        let Some(decoder) = &mut file.decoder else { return Ok(()) };
        let consumed = decoder.finish(&mut self.builder, region, observed_ns, &mut file.book);
        file.memory.consumed(at, &self.builder.arena()[start..start + consumed.bytes]);
        if !self.append(file) {
            return Err(Next::Blocked);
        }
        if consumed.why == Stop::BatchFull || file.has_tail() {
            return Err(Next::Again);
        }
        Ok(())
    }

    /// Emits records that no further line has come for. Returns when that is due, if some wait.
    fn flush_records(&mut self, file: &mut File) -> Result<Option<Duration>, Next> {
        if !file.has_records() {
            return Ok(None);
        }
        // Lines that are no longer joined wait for nothing.
        let joining = self.parts.settings.multiline.as_ref();
        let timeout = joining.map_or(Duration::ZERO, |joining| joining.timeout);
        let now = self.now();
        let due = file.grown_at.max(file.read_at) + timeout;
        if now < due {
            return Ok(Some(due));
        }
        if self.is_continued(file) {
            return Ok(Some(now + RETRY_PAUSE));
        }
        while file.has_records() {
            self.reset_builder(file);
            let Some(decoder) = &mut file.decoder else { break };
            // Full: the other stream's record goes into the next batch.
            let _rest_in_next = decoder.flush_records(&mut self.builder, &mut file.book);
            if !self.append(file) {
                return Err(Next::Blocked);
            }
        }
        Ok(None)
    }

    /// A younger file of the container is there and waits for its turn: what this one leaves open
    /// goes on in it, however long that takes.
    fn is_continued(&self, file: &File) -> bool {
        let waits = |other: &File| !other.is_claimed && other.size > 0;
        let members = self.groups.get(&file.group).into_iter().flatten();
        members
            .filter_map(|key| self.files.get(key))
            .any(|other| waits(other) && other.restart == file.restart && file.is_before(other))
    }

    /// Makes records of open lines whose rest does not come.
    fn flush_partials(&mut self, file: &mut File) -> Result<(), Next> {
        while file.has_partials() {
            self.reset_builder(file);
            let Some(decoder) = &mut file.decoder else { break };
            // Full: the other stream's open line goes into the next batch.
            let _rest_in_next = decoder.flush_partials(&mut self.builder, &mut file.book);
            if !self.append(file) {
                return Err(Next::Blocked);
            }
        }
        Ok(())
    }

    /// Names next to the file's have moved since the last look: that look may have passed over an
    /// older file of the group, or seen one under its name of before, so that a line would not
    /// find its beginning. The next look tells.
    pub(super) fn are_names_moving(&mut self, file: &mut File) -> bool {
        self.drain();
        let is_moving = file.looks < LOOKS_MAX
            && file.places.iter().any(|place| self.discovery.is_touched(place.dir));
        file.looks = if is_moving { file.looks + 1 } else { 0 };
        is_moving
    }

    /// Begins to read a file, once the older ones of its group were read to their end. False: not
    /// yet; they wake it.
    pub(super) fn begin(&mut self, file: &mut File) -> bool {
        let older: Vec<FileKey> = self.older(file);
        let (mut may_begin, mut is_oldest_waiting) = (true, true);
        for key in &older {
            let Some(other) = self.files.get_mut(key).filter(|f| !f.is_read_to_end()) else {
                continue;
            };
            may_begin = false;
            other.is_awaited = true;
            // Of those that wait themselves only the oldest can begin; it wakes the next.
            if other.is_claimed || std::mem::take(&mut is_oldest_waiting) {
                self.make_ready(*key);
            }
        }
        if !may_begin {
            return false;
        }
        self.inherit(file, &older);
        self.open_stream(file);
        true
    }

    fn older(&self, file: &File) -> Vec<FileKey> {
        let members = self.groups.get(&file.group).map_or(&[][..], Vec::as_slice);
        let mut older: Vec<&File> = members
            .iter()
            .filter_map(|key| self.files.get(key).map(Box::as_ref))
            .filter(|other| other.is_before(file))
            .collect();
        older.sort_by(|a, b| {
            if a.is_before(b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
        });
        older.into_iter().map(|f| f.key).collect()
    }

    /// Takes over the lines that the newest of the older files left open. They stand in the state
    /// with which the stream is opened, so they are durable before the older file can be closed.
    fn inherit(&mut self, file: &mut File, older: &[FileKey]) {
        for key in older.iter().rev() {
            let Some(other) = self.files.get_mut(key) else { continue };
            if other.restart != file.restart {
                // What a container did not finish before it was started again, it never will.
                continue;
            }
            if other.has_partials() {
                file.inherited = other.take_partials();
                break;
            }
        }
        // Else those of a file that vanished while weir did not run. Both are logs of one container:
        // the format is the same.
        let format = file.inherited.as_ref().map(|(format, _)| *format);
        if let Some(format) = format.filter(|_| file.decoder.is_none()) {
            self.set_decoder(file, format);
        }
    }

    /// The oldest file of the group that waits may look again: before it no other one can begin.
    fn wake_younger(&mut self, file: &File) {
        let members = self.groups.get(&file.group).into_iter().flatten();
        let waiting = members
            .filter_map(|key| self.files.get(key))
            .filter(|f| !f.is_claimed && !f.is_read_to_end());
        if let Some(next) = waiting.reduce(|a, b| if b.is_before(a) { b } else { a }) {
            self.make_ready(next.key);
        }
    }

    /// The file is shorter than what was read of it.
    pub(super) fn truncated(&mut self, file: &mut File) -> Next {
        self.skip_what_is_gone(file);
        let unread = file.size.saturating_sub(file.at());
        tracing::info!(
            file = %file.shown.display(),
            unread_bytes = unread,
            "the file was truncated; it is read from its beginning"
        );
        file.book.files_cut += 1;
        file.book.abandon(AbandonReason::Truncated, unread);
        if file.is_claimed {
            // What was read cannot be read again.
            self.parts.journal.persist_stream(file.stream);
        }
        file.begin_epoch(self.parts.settings.line_bytes_max);
        self.builder.reset(file.position());
        if self.append(file) { Next::Again } else { Next::Blocked }
    }

    /// The file was truncated and has grown beyond the place where it was read.
    pub(super) fn rewritten(&mut self, file: &mut File) -> Next {
        // What the last look took for growth belongs to the new content.
        let growth = std::mem::take(&mut file.last_growth);
        file.size -= growth;
        file.seen -= growth;
        let seen = &self.parts.stats.bytes_seen;
        seen.fetch_sub(growth, std::sync::atomic::Ordering::Relaxed);
        self.truncated(file)
    }

    /// The file has no name any more: nobody can read it again after this process.
    pub(super) fn unlinked(&mut self, file: &mut File) {
        file.is_unlinked = true;
        let now = self.now();
        file.rotated_at.get_or_insert(now);
        if file.is_claimed {
            self.parts.journal.persist_stream(file.stream);
        }
        self.bound_unlinked(file);
    }

    /// Unlinked files hold disk space that nobody sees: the oldest are given up beyond a limit.
    fn bound_unlinked(&mut self, newest: &mut File) {
        let max = self.parts.settings.deleted_bytes_max;
        let mut unlinked: Vec<&mut File> = self
            .files
            .values_mut()
            .map(Box::as_mut)
            .chain([newest])
            .filter(|f| f.is_unlinked && f.fd.is_some() && !f.is_given_up)
            .collect();
        unlinked.sort_by_key(|f| f.rotated_at);
        let mut total: u64 = unlinked.iter().map(|f| f.size).sum();
        let mut given_up = Vec::new();
        for file in unlinked {
            if total <= max {
                break;
            }
            total -= file.size;
            file.is_given_up = true;
            given_up.push(file.key);
        }
        for key in given_up {
            self.make_ready(key);
        }
    }

    /// Gives up what has not been read, and counts it.
    pub(super) fn give_up(&mut self, file: &mut File, reason: AbandonReason) -> Next {
        if let Some(batch) = file.held.take() {
            self.held_bytes -= batch.memory_bytes();
            self.rewind(file);
        }
        self.skip_what_is_gone(file);
        let unread = file.size.saturating_sub(file.at());
        if unread > 0 {
            tracing::warn!(
                file = %file.shown.display(),
                unread_bytes = unread,
                reason = reason.text(),
                "bytes of a file were given up"
            );
        }
        if !file.is_claimed {
            self.open_stream(file);
        }
        self.reset_builder(file);
        if let Some(decoder) = &mut file.decoder {
            // Both open lines together fit into a fresh frame.
            let _fits = decoder.flush_partials(&mut self.builder, &mut file.book);
        }
        file.book.abandon(reason, unread);
        file.skip(unread, self.parts.settings.line_bytes_max);
        file.phase = Phase::Finished;
        self.close(file);
        self.wake_younger(file);
        if !self.append(file) {
            return Next::Blocked;
        }
        if file.places.is_empty() { self.part(file) } else { Next::Idle }
    }

    /// Says once that a file cannot be read, counts it, and tries again later.
    pub(super) fn read_failed(&mut self, file: &mut File, error: Errno) -> Next {
        if error == Errno::STALE {
            self.close(file);
        }
        if self.unreadable.insert(file.shown.clone()) {
            let text = format!("cannot read {}: {error}", file.shown.display());
            tracing::warn!("{text}");
            self.parts.stats.errors.count("read", &text);
        }
        // Younger files of the group do not wait for what cannot be read.
        file.is_drained = true;
        self.wake_younger(file);
        Next::At(self.now() + RETRY_PAUSE)
    }

    /// Closes descriptors of files that have been quiet for longest. Their names are watched, so
    /// they are opened again when they are written to. True when one was closed.
    pub(super) fn close_idle(&mut self) -> bool {
        let is_idle = |f: &File| {
            f.fd.is_some()
                && f.held.is_none()
                && !f.is_unlinked
                && !f.is_rotated()
                && !f.has_tail()
                && !f.has_partials()
        };
        let mut idle: Vec<(Duration, FileKey)> =
            self.files.values().filter(|f| is_idle(f)).map(|f| (f.grown_at, f.key)).collect();
        idle.sort_unstable();
        idle.truncate(CLOSED_AT_A_TIME);
        for (_, key) in &idle {
            if let Some(file) = self.files.get_mut(key) {
                file.fd = None;
                self.open_files -= 1;
            }
        }
        !idle.is_empty()
    }

    /// At shutdown: what only this process can still read is read to its end, for a short while.
    pub(super) fn read_unlinked(&mut self) {
        let until = self.now() + LAST_READS;
        // Also those of which the kernel has told, and nobody has looked yet.
        let is_nameless = |f: &File| {
            let links = f.fd().and_then(|fd| rustix::fs::fstat(fd).ok()).map(|s| s.st_nlink);
            // Without its name the next run would not find what this one has not begun.
            f.is_unlinked || links == Some(0) || (f.is_renamed && !f.is_claimed)
        };
        let keys: Vec<FileKey> =
            self.files.values().filter(|f| is_nameless(f)).map(|f| f.key).collect();
        for key in keys {
            let Some(mut file) = self.files.remove(&key) else { continue };
            while self.now() < until && self.visit(&mut file) == Next::Again {}
            self.note_unread(&mut file);
            self.files.insert(key, file);
        }
    }
}
