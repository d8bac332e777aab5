//! The end of a file: waiting for more, rotation, hand-over to the next file of the group,
//! truncation, deletion.
//!
//! Invariants: a rotated file is followed for `rotated_grace` after its end was reached; a younger
//! file of a group is started only once the older ones were read to an end seen *after* the younger
//! one had data, so open lines are complete when they are handed over; no unread data is forgotten
//! without being counted.

use std::time::Duration;

use weir_codec::Stop;
use weir_host::file_tree::Errno;
use weir_model::AbandonReason;

use super::discovery::FileKey;
use super::engine::{Engine, LOOKS_MAX, Next, RETRY_PAUSE};
use super::file::{File, Phase};

/// How often a file without a name is checked at first: the kernel may not report writes to it.
/// The longer nothing is written, the rarer the checks: after the time that it has been quiet.
const NAMELESS_PAUSE: Duration = Duration::from_millis(100);

/// How long a finished file without a name is looked for before it is forgotten.
const NAMELESS_MAX: Duration = Duration::from_secs(1);

/// How long deleted files are read at shutdown: the rest of them is lost with the process.
const LAST_READS: Duration = Duration::from_secs(2);

/// Minimum number of descriptors to close at a time when too many are open.
const CLOSED_AT_A_TIME: usize = 32;

/// The part of the open descriptors to close at a time: finding those that have been idle longest
/// takes a look at every file.
const CLOSED_PART: usize = 32;

impl Engine {
    /// Handles a file that has nothing more to read at present.
    pub(super) fn at_end(&mut self, file: &mut File) -> Next {
        if file.handed_over_at.is_some_and(|at| file.at() >= at) {
            // The next file already received these partials before the restart.
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
            let check = now + NAMELESS_PAUSE.max(now.saturating_sub(since));
            let is_nameless = file.locations.is_empty();
            return or_records(if is_nameless { due.min(check) } else { due });
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

    /// When to stop waiting for the rest of an unfinished line. With a backlog, a file is read long
    /// after it was written, and the wait starts only then.
    fn rest_due(&self, file: &File) -> Duration {
        file.grown_at.max(file.read_at) + self.parts.settings.partial_timeout
    }

    /// Finishes a rotated file that has not grown during its grace period.
    fn finish(&mut self, file: &mut File) -> Next {
        if let Err(next) = self.finish_tail(file) {
            return next;
        }
        if file.has_partials() {
            // The next file of the container may still need them.
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
        if !self.prepare_close(file) {
            return Next::Again;
        }
        file.phase = Phase::Finished;
        self.close(file);
        self.wake_younger(file);
        if file.locations.is_empty() { self.end_unnamed(file) } else { Next::Idle }
    }

    /// Prepares to close a file without a name: later writes to it cannot be read, but are noticed.
    /// Returns false if it has grown and must not be closed yet.
    fn prepare_close(&mut self, file: &File) -> bool {
        let Some(handle) = file.handle().filter(|_| file.locations.is_empty()) else { return true };
        let Some(wd) = self.discovery.watch_closed(handle, &file.shown) else { return true };
        let has_grown = handle.stat().is_ok_and(|stat| stat.size > file.size);
        if has_grown {
            self.discovery.unwatch_closed(wd);
        }
        !has_grown
    }

    /// Ends a file that was read to its end and has no name, once that is certain: during a
    /// rotation a name may have been missed, and a file that is forgotten too early would be read
    /// again from its beginning.
    pub(super) fn end_unnamed(&mut self, file: &mut File) -> Next {
        let next = self.when_unnamed_ends(file);
        if next == Next::Ended && std::mem::take(&mut file.is_written_closed) {
            let what = "file was written to after it was closed, and removed before it was read";
            self.account_unseen(std::slice::from_ref(&file.shown), what);
        }
        next
    }

    fn when_unnamed_ends(&mut self, file: &mut File) -> Next {
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
        if file.handle.take().is_some() {
            self.open_files -= 1;
        }
    }

    /// Treats the incomplete last line as complete.
    fn finish_tail(&mut self, file: &mut File) -> Result<(), Next> {
        if !file.has_tail() || file.handle.is_none() {
            return Ok(());
        }
        if file.decoder.is_none() {
            // There was not one complete line from which to detect the format.
            self.set_decoder(file, weir_codec::Format::Raw);
        }
        let region = match self.fill(file) {
            Ok(Some(region)) if !region.is_empty() => region,
            // Shorter than reported: the next look finds the reason. It is not immediate, in case
            // the wrong size persists.
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

    /// Emits records for which no further line arrived. If some still wait, returns when they are
    /// due.
    fn flush_records(&mut self, file: &mut File) -> Result<Option<Duration>, Next> {
        if !file.has_records() {
            return Ok(None);
        }
        // Joining was disabled, so there is nothing to wait for.
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
            // The batch is full: the other stream's record goes into the next one.
            let _rest_in_next = decoder.flush_records(&mut self.builder, &mut file.book);
            if !self.append(file) {
                return Err(Next::Blocked);
            }
        }
        Ok(None)
    }

    /// Returns true if a younger file of the container is waiting for its turn: open lines of this
    /// file continue in it, however long that takes.
    fn is_continued(&mut self, file: &File) -> bool {
        self.unpark_group(file.group);
        let waits = |other: &File| !other.is_claimed && other.size > 0;
        self.members(file.group)
            .filter_map(|key| self.files.get(&key))
            .any(|other| waits(other) && other.restart == file.restart && file.is_before(other))
    }

    /// Emits open lines as records when the rest of them does not arrive.
    fn flush_partials(&mut self, file: &mut File) -> Result<(), Next> {
        while file.has_partials() {
            self.reset_builder(file);
            let Some(decoder) = &mut file.decoder else { break };
            // The batch is full: the other stream's open line goes into the next one.
            let _rest_in_next = decoder.flush_partials(&mut self.builder, &mut file.book);
            if !self.append(file) {
                return Err(Next::Blocked);
            }
        }
        Ok(())
    }

    /// Returns true if names next to the file's name have changed since the last look: that look
    /// may have missed an older file of the group, or seen one under its previous name, so that a
    /// line would not find its beginning. The next look settles it.
    pub(super) fn are_names_moving(&mut self, file: &mut File) -> bool {
        self.drain();
        let is_moving = file.looks < LOOKS_MAX
            && file.locations.iter().any(|location| self.discovery.is_touched(location.dir));
        file.looks = if is_moving { file.looks + 1 } else { 0 };
        is_moving
    }

    /// Starts reading a file once the older ones of its group were read to their end. Returns false
    /// if they were not; they will wake it.
    pub(super) fn begin(&mut self, file: &mut File) -> bool {
        self.unpark_group(file.group);
        let older: Vec<FileKey> = self.older(file);
        let (mut may_begin, mut is_oldest_waiting) = (true, true);
        for key in &older {
            let Some(other) = self.files.get_mut(key).filter(|f| !f.is_read_to_end()) else {
                continue;
            };
            may_begin = false;
            other.is_awaited = true;
            // Of the files that are waiting themselves, only the oldest can start; it wakes the
            // next.
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
        let members = self.members(file.group);
        let mut older: Vec<&File> = members
            .filter_map(|key| self.files.get(&key).map(Box::as_ref))
            .filter(|other| other.is_before(file))
            .collect();
        older.sort_by(|a, b| {
            if a.is_before(b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
        });
        older.into_iter().map(|f| f.key).collect()
    }

    /// Takes over the lines that the newest of the older files left open. They are part of the
    /// state with which the stream is opened, so they are durable before the older file can be
    /// closed.
    fn inherit(&mut self, file: &mut File, older: &[FileKey]) {
        for key in older.iter().rev() {
            let Some(other) = self.files.get_mut(key) else { continue };
            if other.restart != file.restart {
                // A line that a container left unfinished before a restart is never finished.
                continue;
            }
            if other.has_partials() {
                file.inherited = other.take_partials();
                break;
            }
        }
        // Otherwise those of a file that vanished while weir was not running. Both are logs of one
        // container, so the format is the same.
        let format = file.inherited.as_ref().map(|inherited| inherited.0);
        if let Some(format) = format.filter(|_| file.decoder.is_none()) {
            self.set_decoder(file, format);
        }
    }

    /// Wakes the oldest waiting file of the group: no other one can start before it.
    fn wake_younger(&mut self, file: &File) {
        self.unpark_group(file.group);
        let waiting = self
            .members(file.group)
            .filter_map(|key| self.files.get(&key))
            .filter(|f| !f.is_claimed && !f.is_read_to_end());
        if let Some(next) = waiting.reduce(|a, b| if b.is_before(a) { b } else { a }) {
            self.make_ready(next.key);
        }
    }

    /// Handles a file that is shorter than what was read of it.
    pub(super) fn truncated(&mut self, file: &mut File) -> Next {
        self.skip_what_is_gone(file);
        let unread = file.size.saturating_sub(file.at());
        tracing::info!(
            file = %file.shown.display(),
            unread_bytes = unread,
            "file was truncated; reading it from its beginning"
        );
        file.book.files_cut += 1;
        file.book.abandon(AbandonReason::Truncated, unread);
        if file.is_claimed {
            // What was read before cannot be read again.
            self.parts.journal.persist_stream(file.stream);
        }
        file.begin_epoch(self.parts.settings.line_bytes_max);
        self.builder.reset(file.position());
        if self.append(file) { Next::Again } else { Next::Blocked }
    }

    /// Handles a file that was truncated and has grown past the offset at which it was being read.
    pub(super) fn rewritten(&mut self, file: &mut File) -> Next {
        // What the last look took for growth belongs to the new content.
        let growth = std::mem::take(&mut file.last_growth);
        file.size -= growth;
        file.seen -= growth;
        let seen = &self.parts.stats.bytes_seen;
        seen.fetch_sub(growth, std::sync::atomic::Ordering::Relaxed);
        self.truncated(file)
    }

    /// Handles a file that has no name left: it cannot be read again after this process.
    pub(super) fn unlinked(&mut self, file: &mut File) {
        file.is_unlinked = true;
        let now = self.now();
        file.rotated_at.get_or_insert(now);
        if file.is_claimed {
            self.parts.journal.persist_stream(file.stream);
        }
        self.bound_unlinked(file);
    }

    /// Deleted files occupy disk space invisibly: beyond a limit, the oldest are abandoned.
    fn bound_unlinked(&mut self, newest: &mut File) {
        let max = self.parts.settings.deleted_bytes_max;
        self.publish_unlinked(newest);
        if self.unlinked_bytes <= max {
            return;
        }
        let mut unlinked: Vec<&mut File> = self
            .files
            .values_mut()
            .map(Box::as_mut)
            .chain([newest])
            .filter(|f| f.is_unlinked && f.handle.is_some() && !f.is_given_up)
            .collect();
        unlinked.sort_by_key(|f| (f.rotated_at, f.key));
        let mut given_up = Vec::new();
        for file in unlinked {
            if self.unlinked_bytes <= max {
                break;
            }
            self.unlinked_bytes -= std::mem::take(&mut file.published.unlinked_bytes);
            file.is_given_up = true;
            given_up.push(file.key);
        }
        for key in given_up {
            self.make_ready(key);
        }
    }

    /// Abandons the unread bytes, and counts them.
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
                "gave up unread bytes of a file"
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
        if file.locations.is_empty() { self.end_unnamed(file) } else { Next::Idle }
    }

    /// Logs once that a file cannot be read, counts it, and schedules a retry.
    pub(super) fn read_failed(&mut self, file: &mut File, error: Errno) -> Next {
        if error == Errno::STALE {
            self.close(file);
        }
        if self.unreadable.insert(file.shown.clone()) {
            let text = format!("cannot read {}: {error}", file.shown.display());
            tracing::warn!("{text}");
            self.parts.stats.errors.count("read", &text);
        }
        // Neither younger files of the group nor destinations wait for an unreadable one.
        file.is_drained = true;
        file.backlog = 0;
        self.wake_younger(file);
        Next::At(self.now() + RETRY_PAUSE)
    }

    /// Closes the descriptors of the files that have been idle longest. Their names are watched, so
    /// they are opened again when they are written to. Returns true if one was closed.
    pub(super) fn close_idle(&mut self) -> bool {
        let is_idle = |f: &File| {
            f.handle.is_some()
                && f.held.is_none()
                && !f.is_unlinked
                && !f.is_rotated()
                && !f.has_tail()
                && !f.has_partials()
        };
        let idle = self.files.values().filter(|f| is_idle(f)).map(|f| (f.grown_at, f.key));
        let mut idle: Vec<(Duration, FileKey)> = idle.chain(self.parked.open()).collect();
        let count = (self.open_files / CLOSED_PART).max(CLOSED_AT_A_TIME).min(idle.len());
        if count < idle.len() {
            idle.select_nth_unstable(count);
            idle.truncate(count);
        }
        for (_, key) in &idle {
            if let Some(file) = self.files.get_mut(key) {
                file.handle = None;
            } else {
                self.parked.close(*key);
            }
            self.open_files -= 1;
        }
        !idle.is_empty()
    }

    /// At shutdown, reads files that only this process can still read, for a short time.
    pub(super) fn read_unlinked(&mut self) {
        let until = self.now() + LAST_READS;
        for key in self.parked.without_links() {
            self.unpark(key);
        }
        // Including files that the kernel has reported and that were not looked at yet.
        let is_nameless = |f: &File| {
            let links = f.handle().and_then(|handle| handle.stat().ok()).map(|stat| stat.links);
            // Without its name, the next run would not find a file that this one has not started.
            f.is_unlinked || links == Some(0) || (f.is_renamed && !f.is_claimed)
        };
        let mut keys: Vec<FileKey> =
            self.files.values().filter(|f| is_nameless(f)).map(|f| f.key).collect();
        keys.sort_unstable();
        for key in keys {
            let Some(mut file) = self.files.remove(&key) else { continue };
            while self.now() < until && self.visit(&mut file) == Next::Again {}
            self.publish_file(&mut file);
            self.files.insert(key, file);
        }
    }
}
