//! Appending a batch: limits, policies, books, and the entries of every destination.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_model::{Batch, StreamId};

use super::discard::DiscardBy;
use super::stream::between;
use super::{Checkpoint, CursorState, CursorStream, Cut, Entry, Slot, State, Status};
use crate::limits::{
    ENTRY_BYTES_MIN, GROUP_BYTES, READ_AHEAD_BYTES, READ_AHEAD_REQUESTS, SLOTS_MAX, STREAM_SHARE,
};
use crate::spec::{RefusedReason, WhenFull, WritePolicy};
use crate::{AllRefused, Refused};

/// Resolves when the batch is on stable storage; `None` when the caller did not request that.
pub(crate) type Durable = Option<oneshot::Receiver<Result<(), RefusedReason>>>;

impl State {
    pub(crate) fn append(
        &mut self,
        batch: Batch,
        policy: WritePolicy,
        now: Duration,
    ) -> Result<Durable, Refused> {
        if let Err(reason) = self.admit(std::slice::from_ref(&batch), policy, now) {
            return Err(Refused { batch: Box::new(batch), reason });
        }
        Ok(self.take_in(batch, policy, now))
    }

    /// Appends all batches, or none. They are consecutive batches of one stream.
    pub(crate) fn append_all(
        &mut self,
        batches: Vec<Batch>,
        policy: WritePolicy,
        now: Duration,
    ) -> Result<Vec<Durable>, AllRefused> {
        let stream = |batch: &Batch| batch.header().stream;
        debug_assert!(batches.windows(2).all(|pair| stream(&pair[0]) == stream(&pair[1])));
        match self.admit(&batches, policy, now) {
            Ok(()) => Ok(batches.into_iter().map(|b| self.take_in(b, policy, now)).collect()),
            Err(reason) => Err(AllRefused { batches, reason }),
        }
    }

    /// Appends a batch that was admitted.
    fn take_in(&mut self, batch: Batch, policy: WritePolicy, now: Duration) -> Durable {
        let batch = Arc::new(batch);
        self.publish(&batch);
        let stream = batch.header().stream;
        let begin = self.begin_append(stream, now);
        let (checkpoint, is_begun) = self.account_stream(&batch, now);
        let base = batch.header().base();
        let owed = self.owed_again(stream, base);
        let is_kept = self.is_kept_for_removed(&batch);
        let is_merged =
            policy == WritePolicy::OnLag && self.merge_into_last(&batch, &checkpoint, now);
        let durable = if is_begun && policy == WritePolicy::OnAppend {
            Some(self.wait_for_positions(stream))
        } else if is_merged {
            None
        } else {
            self.insert(batch, (&begin, &checkpoint), policy, now)
        };
        if is_kept {
            self.spill_stream(stream);
        }
        self.settle_cursor_streams(stream, now);
        if owed.is_some() && owed != self.owed_again(stream, base) {
            self.mark_dirty(stream, now);
        }
        durable
    }

    /// Checks whether there is room for all batches, which are of one stream; discards for
    /// `drop_oldest` destinations to make room.
    fn admit(
        &mut self,
        batches: &[Batch],
        policy: WritePolicy,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        let admitted = self.admit_all(batches, policy, now);
        self.disk_wanted |= matches!(admitted, Err(RefusedReason::Disk { .. }));
        admitted
    }

    fn admit_all(
        &mut self,
        batches: &[Batch],
        policy: WritePolicy,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        if self.closing {
            return Err(RefusedReason::Closed);
        }
        let bytes = batches.iter().map(|batch| batch.memory_bytes() as u64).sum();
        if policy == WritePolicy::OnAppend
            && let Some(error) = self.frames_error.clone()
        {
            self.discard_for_disk(bytes, now);
            return Err(RefusedReason::Disk { error });
        }
        let Some(stream) = batches.first().map(|batch| batch.header().stream) else {
            return Ok(());
        };
        for (index, bytes) in self.charges(stream, batches) {
            if self.cursors[index].is_attached() {
                self.admit_to_cursor(index, stream, bytes, now)?;
            }
        }
        if policy == WritePolicy::OnLag && self.is_ahead_by_one_in(1) && self.ring_may_move(now) {
            self.ahead_wanted = true;
            return Err(RefusedReason::RingFull);
        }
        self.admit_to_ring(stream, bytes, now)
    }

    /// Returns whether more bytes than the read-ahead limit, or than this fraction of it, wait for
    /// every destination. A repeatable source gains nothing by reading on in that case; while it
    /// waits, its data stays in the processor's cache and the buffers are reused. It continues when
    /// a destination has caught up, or when the ring has not moved for long enough to make writing
    /// to disk worthwhile. A destination that discards old batches wants new ones: it never holds a
    /// source back.
    pub(crate) fn is_ahead_by_one_in(&self, parts: u64) -> bool {
        let is_ahead = |c: &CursorState| {
            let bound = READ_AHEAD_BYTES.max(c.ready_bytes * READ_AHEAD_REQUESTS);
            c.when_full() == WhenFull::Block && c.waiting_bytes > bound / parts
        };
        let mut attached = self.cursors.iter().filter(|c| c.is_attached()).peekable();
        attached.peek().is_some() && attached.all(is_ahead)
    }

    /// Returns the bytes that each destination would be charged.
    fn charges(&self, stream: StreamId, batches: &[Batch]) -> Vec<(usize, u64)> {
        let known = self.streams.get(&stream);
        let mut charges: Vec<(usize, u64)> = Vec::new();
        for batch in batches {
            for (index, rows) in batch.routed_counts() {
                let has_it = || {
                    let seen = known.and_then(|known| known.seen(index));
                    seen.is_some_and(|seen| batch.header().end() <= seen)
                };
                if !self.is_active(index) || has_it() {
                    continue;
                }
                let bytes = charge(batch, rows);
                match charges.binary_search_by_key(&index, |(index, _)| *index) {
                    Ok(at) => charges[at].1 += bytes,
                    Err(at) => charges.insert(at, (index, bytes)),
                }
            }
        }
        charges
    }

    fn admit_to_cursor(
        &mut self,
        index: usize,
        stream: StreamId,
        bytes: u64,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        let pressure = self.pressure(index);
        match self.cursors[index].when_full() {
            WhenFull::DropOldest => {
                self.begin_counting(index);
                self.make_room(index, bytes, (DiscardBy::Key, pressure), now);
                Ok(())
            }
            WhenFull::DropOldestOfStream => {
                self.make_room(index, bytes, (DiscardBy::Stream, pressure), now);
                Ok(())
            }
            WhenFull::Block => self.admit_or_block(index, stream, bytes, pressure),
        }
    }

    /// Returns why a destination counts as full although its own buffer is not.
    fn pressure(&mut self, index: usize) -> Pressure {
        let batches = self.cursors[index].pending_batches;
        if self.slots.len() >= SLOTS_MAX && batches >= self.batches_share() {
            Pressure::Batches
        } else if self.is_near_limit && self.retains_most() == Some(index) && !self.can_free() {
            Pressure::Disk
        } else {
            Pressure::None
        }
    }

    /// Returns whether the disk space of what is no longer needed will be freed: for that space, no
    /// source is refused, and nothing is discarded.
    pub(crate) fn can_free(&mut self) -> bool {
        let can_free = self.freeable_bytes() >= GROUP_BYTES;
        self.space_wanted |= can_free;
        can_free
    }

    /// Discards as much as is to be appended if the disk is full and most of what is kept waits for
    /// a destination that discards: it holds up no source.
    fn discard_for_disk(&mut self, bytes: u64, now: Duration) {
        let is_full = self.is_disk_full && !self.can_free();
        let Some(index) = self.retains_most().filter(|_| is_full) else { return };
        if self.cursors[index].when_full() != WhenFull::Block {
            self.make_room(index, bytes, (DiscardBy::Stream, Pressure::Disk), now);
        }
    }

    /// Returns the destination for which the most bytes are kept.
    fn heaviest(&self) -> Option<(usize, &CursorState)> {
        let kept = |(_, c): &(usize, &CursorState)| c.pending_bytes + c.kept_bytes + c.cut_bytes;
        self.cursors.iter().enumerate().max_by_key(kept)
    }

    /// Like [`Self::heaviest`], but `None` if it is not read and so has no policy.
    pub(crate) fn retains_most(&self) -> Option<usize> {
        let heaviest = self.heaviest();
        heaviest.filter(|(_, c)| c.is_attached() && c.pending_bytes > 0).map(|(index, _)| index)
    }

    /// Returns its name, for messages.
    pub(crate) fn largest_keeper(&self) -> &str {
        self.heaviest().map_or("no output", |(_, cursor)| &cursor.name)
    }

    /// Discards the oldest records if the buffer is full, or the oldest batches if too many wait or
    /// the disk space kept for the destination is needed: records of a batch free neither.
    fn make_room(
        &mut self,
        index: usize,
        bytes: u64,
        (by, pressure): (DiscardBy, Pressure),
        now: Duration,
    ) {
        let cursor = &self.cursors[index];
        let limit = cursor.limit();
        let is_over = cursor.pending_bytes > 0 && cursor.pending_bytes + bytes > limit;
        let may_wait = by == DiscardBy::Key && self.may_wait_for_keys(index, bytes);
        if is_over && !may_wait {
            let step = match by {
                // Each time, all keys are weighed.
                DiscardBy::Key => limit / 16,
                DiscardBy::Stream => limit / 32,
            };
            self.discard_oldest(index, limit.saturating_sub(bytes + step), by, now);
            if pressure == Pressure::None {
                return;
            }
        }
        let cursor = &self.cursors[index];
        let pending = cursor.pending_bytes;
        let target = match pressure {
            Pressure::None => return,
            Pressure::Batches => pending - pending.div_ceil(32),
            // Disk space is freed later: discard only as much as is added, or everything would be
            // discarded in the meantime. What was cut from a batch is freed with it.
            Pressure::Disk => {
                let freed_with = pending + cursor.cut_bytes;
                pending.saturating_sub(bytes * pending / freed_with.max(1))
            }
        };
        self.discard_oldest(index, target, DiscardBy::Stream, now);
    }

    fn admit_or_block(
        &mut self,
        index: usize,
        stream: StreamId,
        bytes: u64,
        pressure: Pressure,
    ) -> Result<(), RefusedReason> {
        let own = self.cursor_stream(index, stream).map_or(0, |cs| cs.pending_bytes);
        let cursor = &mut self.cursors[index];
        let limit = cursor.limit();
        let over = cursor.pending_bytes > 0 && cursor.pending_bytes + bytes > limit;
        let others = own < cursor.pending_bytes;
        let over_share = others && own > 0 && own + bytes > limit / STREAM_SHARE;
        if !over && !over_share && pressure == Pressure::None {
            return Ok(());
        }
        cursor.blocking = true;
        if over {
            cursor.buffer_wanted = cursor.buffer_wanted.max(bytes);
        } else if pressure == Pressure::Batches {
            cursor.batches_wanted = true;
        } else if pressure == Pressure::Disk {
            cursor.disk_wanted = true;
        } else if cursor.over_share.iter().all(|(s, _)| *s != stream) {
            cursor.over_share.push((stream, bytes));
        }
        Err(RefusedReason::BufferFull { cursor: cursor.name.clone() })
    }

    fn admit_to_ring(
        &mut self,
        stream: StreamId,
        bytes: u64,
        now: Duration,
    ) -> Result<(), RefusedReason> {
        let limit = self.config.ring_bytes;
        let own = self.streams.get(&stream).map_or(0, |s| s.ring_bytes);
        let after = self.ring_bytes + bytes;
        let hogging = own > limit / STREAM_SHARE && own < self.ring_bytes && after > limit / 4 * 3;
        if after <= limit && !hogging || self.ring_bytes == 0 {
            return Ok(());
        }
        if self.spill_is_due(now) {
            self.forget_placed();
            if !hogging && self.ring_bytes + bytes <= limit {
                return Ok(());
            }
            self.spill_wanted = true;
            if let Some(error) = self.frames_error.clone() {
                return self
                    .discard_for_ring(bytes, now)
                    .then_some(())
                    .ok_or(RefusedReason::Disk { error });
            }
        }
        self.ring_wanted = self.ring_wanted.max(bytes);
        Err(RefusedReason::RingFull)
    }

    /// Drops the oldest batches of a full ring that are on disk already: nothing has to be written
    /// for this, so no one has to wait for the disk.
    fn forget_placed(&mut self) {
        let target = self.ring_target();
        while self.ring_bytes > target
            && let Some((seq, slot)) = self.slots.range_mut(self.spill_from..).next()
        {
            if slot.batch.is_some() {
                if slot.writing || slot.location.is_none() {
                    return;
                }
                slot.batch = None;
                let (stream, bytes) = (slot.stream, slot.memory_bytes);
                self.spill_from = *seq + 1;
                self.forget_memory(stream, bytes);
            } else {
                self.spill_from = *seq + 1;
            }
        }
    }

    /// Returns whether something in memory was appended so recently that a destination may still
    /// take it from there. Batches that wait only on disk are no reason to hold a source back.
    fn ring_may_move(&mut self, now: Duration) -> bool {
        !self.is_starving() && self.spill_due_at().is_some_and(|at| now < at)
    }

    /// Returns whether a full ring should be written to disk: another destination would starve, or
    /// the slowest has kept the ring full for a while. Otherwise the source simply waits: its file
    /// is the better buffer.
    pub(crate) fn spill_is_due(&mut self, now: Duration) -> bool {
        self.is_starving() || self.spill_due_at().is_some_and(|at| now >= at)
    }

    /// Returns whether one destination has too little to start sending while another has enough.
    pub(crate) fn is_starving(&self) -> bool {
        let active = || self.cursors.iter().filter(|c| c.is_active());
        active().any(CursorState::is_idle) && active().any(|c| !c.is_idle())
    }

    /// Returns when the slowest destination will have kept the ring full for long enough.
    pub(crate) fn spill_due_at(&mut self) -> Option<Duration> {
        let in_memory = |(_, slot): &(&u64, &Slot)| slot.batch.is_some();
        let (first, _) = self.slots.range(self.spill_from..).find(in_memory)?;
        self.spill_from = *first;
        // A batch that is being written may stay in memory, and is considered again later.
        let may_go = |(_, slot): &(&u64, &Slot)| slot.batch.is_some() && !slot.writing;
        let (_, slot) = self.slots.range(self.spill_from..).find(may_go)?;
        // A batch that is already on disk only has to be dropped, not written: no reason to wait.
        let wait = if slot.location.is_some() { Duration::ZERO } else { self.config.spill_after };
        Some(slot.appended_at + wait)
    }

    /// Makes room when the ring is full and the disk cannot take it: destinations that may discard
    /// do so, in memory or on disk, one step at a time.
    fn discard_for_ring(&mut self, bytes: u64, now: Duration) -> bool {
        for index in 0..self.cursors.len() {
            let cursor = &self.cursors[index];
            if cursor.when_full() != WhenFull::Block {
                let step = (bytes * 4).max(cursor.limit() / 32);
                let target = cursor.pending_bytes.saturating_sub(step);
                self.discard_oldest(index, target, DiscardBy::Stream, now);
            }
        }
        self.ring_bytes + bytes <= self.config.ring_bytes
    }

    fn publish(&mut self, batch: &Arc<Batch>) {
        if self.subscribers.is_empty() {
            return;
        }
        let seq = self.next_published;
        self.next_published += 1;
        self.subscribers.retain(|s| s.upgrade().is_some_and(|s| s.push(seq, batch)));
    }

    /// Makes destinations that do not know the stream start with what is appended now; unconfigured
    /// ones keep their position. Returns the position of the destinations that are done.
    fn begin_append(&mut self, stream: StreamId, now: Duration) -> Arc<Checkpoint> {
        let known = self.streams.entry(stream).or_default();
        let (done, checkpoint) = (known.done().clone(), known.checkpoint.clone());
        let absent = self.absent.clone();
        self.introduce(stream, now, |index| (!absent.contains(&index)).then(|| checkpoint.clone()));
        self.keep_absent(stream, &done);
        done
    }

    /// Keeps destinations that are not configured where they are, when others go further: `done` is
    /// the position of those that are done.
    pub(super) fn keep_absent(&mut self, stream: StreamId, done: &Arc<Checkpoint>) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        for index in &self.absent {
            if known.cursor_streams.is_known_to(*index) {
                known.cursor_streams.get_or_insert(*index, || CursorStream::begin(done));
            }
        }
    }

    /// Adds the batch to the stream's counts. Also returns whether it has no records and begins an
    /// epoch.
    fn account_stream(&mut self, batch: &Batch, now: Duration) -> (Arc<Checkpoint>, bool) {
        let header = batch.header();
        let checkpoint = Checkpoint::of(batch);
        let stream = self.streams.entry(header.stream).or_default();
        stream.source = Some(header.source);
        stream.group = header.group;
        stream.is_unrepeatable = !header.repeatable;
        let is_begun = stream.note_epoch(header.base(), &checkpoint);
        // This is stated before another frame is written: a later start must not find a frame with
        // what the source reads instead without that statement.
        self.gave_up_frames |= is_begun && stream.give_up();
        stream.checkpoint = checkpoint.clone();
        if is_begun && stream.is_unrepeatable {
            // Its source may have counted losses in the book that it begins with: they must not
            // depend on what follows.
            stream.reach(&checkpoint);
        }
        self.sources.entry(header.source).or_default();
        if is_begun {
            self.mark_dirty(header.stream, now);
        }
        (checkpoint, is_begun)
    }

    fn insert(
        &mut self,
        batch: Arc<Batch>,
        (begin, checkpoint): (&Arc<Checkpoint>, &Arc<Checkpoint>),
        policy: WritePolicy,
        now: Duration,
    ) -> Durable {
        let seq = self.next_seq;
        self.next_seq += 1;
        let stream = batch.header().stream;
        let mut holders = 0;
        for (index, rows) in batch.routed_counts() {
            if self.is_active(index) {
                holders +=
                    u32::from(self.enter((index, rows), seq, &batch, (begin, checkpoint), now));
            }
        }
        let is_awaited = policy == WritePolicy::OnAppend;
        if holders == 0 {
            return if is_awaited { self.wait_for_earlier(stream) } else { None };
        }
        let durable = is_awaited || policy == WritePolicy::Soon;
        let (memory_bytes, records) = (batch.memory_bytes() as u64, batch.record_count() as u64);
        let observed_ns = batch.header().observed_ns;
        let (tickets, durable_rx) = if is_awaited { ticket() } else { (Vec::new(), None) };
        self.ring_bytes += memory_bytes;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.ring_bytes += memory_bytes;
            state.slots += 1;
            state.volatile_slots += u64::from(!durable);
        }
        let slot = Slot {
            batch: Some(batch),
            location: None,
            stream,
            checkpoint: checkpoint.clone(),
            records,
            memory_bytes,
            holders,
            readers: holders,
            appended_at: now,
            observed_ns: Some(observed_ns),
            writing: false,
            durable,
            is_soon: policy == WritePolicy::Soon,
            queued: false,
            synced: false,
            is_discarded: false,
            is_copied: false,
            is_unmergeable: false,
            tickets,
        };
        self.slots.insert(seq, slot);
        match policy {
            WritePolicy::OnAppend => self.want_durable(seq, memory_bytes, now),
            WritePolicy::Soon => self.want_durable_soon(seq, now),
            WritePolicy::OnLag => {}
        }
        durable_rx
    }

    /// Handles a batch that every destination already has: either it is not routed anywhere, or its
    /// source appends it again because it was not told that it is safe. It is then as safe as the
    /// last batch of its stream that is still waiting for the disk.
    fn wait_for_earlier(&mut self, stream: StreamId) -> Durable {
        let seq = self.unsafe_before(stream, u64::MAX)?;
        let (tickets, durable_rx) = ticket();
        self.slots.get_mut(&seq)?.tickets.extend(tickets);
        durable_rx
    }

    /// Queues a slot that must be flushed, and for which someone has waited since then.
    pub(crate) fn want_durable(&mut self, seq: u64, bytes: u64, since: Duration) {
        let Some(slot) = self.slots.get_mut(&seq).filter(|s| !s.queued) else { return };
        slot.queued = true;
        self.durable_waiting.insert(seq);
        self.durable_waiting_bytes += bytes;
        self.durable_since = Some(self.durable_since.map_or(since, |other| other.min(since)));
    }

    /// Ensures that what the stream has in the journal reaches stable storage. What only
    /// destinations hold is theirs to make durable: they are asked to do it soon, and callers that
    /// wait for the stream wait for that.
    pub(crate) fn persist_stream(&mut self, stream: StreamId, now: Duration) {
        let joined = |e: &&Entry| e.status == Status::Held && e.is_joined;
        let entries = || self.cursor_streams(stream).flat_map(|(_, cs)| &cs.entries);
        let joined: Vec<u64> = entries().filter(joined).map(|e| e.seq).collect();
        let mut all: Vec<u64> = entries().map(|e| e.seq).collect();
        all.sort_unstable();
        all.dedup();
        let mut waiting = Vec::new();
        let mut is_held = false;
        for seq in all {
            let slot = self.slots.get_mut(&seq).filter(|s| !s.durable && s.holders > 0);
            let Some(slot) = slot else { continue };
            slot.durable = true;
            let is_gone = slot.location.is_none() && slot.batch.is_none();
            if slot.location.is_some() || slot.writing {
                self.sync_wanted |= !slot.synced;
            } else if !is_gone {
                waiting.push((seq, slot.memory_bytes));
            }
            if is_gone || joined.contains(&seq) {
                self.held_only.insert((stream, seq));
                is_held = true;
            }
        }
        if let Some(known) = self.streams.get_mut(&stream) {
            known.volatile_slots = 0;
        }
        for (seq, bytes) in waiting {
            self.want_durable(seq, bytes, now);
        }
        if is_held {
            self.ask_to_settle(stream);
        }
    }

    fn ask_to_settle(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get(&stream) else { return };
        for (index, cs) in known.cursor_streams.iter() {
            if cs.entries.iter().any(|e| e.status == Status::Held) {
                self.cursors[index].settle_wanted = true;
                self.cursors[index].notify.notify_one();
            }
        }
    }

    /// Adds the batch, `rows` of which are for it, to one destination's books; returns true if that
    /// destination must deliver any of them. A destination that is done starts at `begin`.
    fn enter(
        &mut self,
        (index, rows): (usize, u64),
        seq: u64,
        batch: &Batch,
        (begin, checkpoint): (&Arc<Checkpoint>, &Arc<Checkpoint>),
        now: Duration,
    ) -> bool {
        let stream = batch.header().stream;
        let skip_to = self.cursor_stream(index, stream).map_or(begin.end, CursorStream::seen);
        if checkpoint.end <= skip_to {
            return false;
        }
        let first_record = batch.records_up_to(skip_to);
        let routed = if first_record == 0 { rows } else { routed_from(batch, index, first_record) };
        if routed == 0 {
            return false;
        }
        let after = |at| routed_from(batch, index, batch.records_up_to(at).max(first_record));
        let keys = self.keys_of(index, batch, first_record);
        let Some(known) = self.streams.get_mut(&stream) else { return false };
        let cs = known.cursor_streams.get_or_insert(index, || CursorStream::begin(begin));
        cs.pay_owed_rows(checkpoint.end, routed);
        let through = cs.through() + routed;
        let entry = Entry {
            seq,
            checkpoint: checkpoint.clone(),
            routed,
            through,
            inside: self.furthest_within(stream, between(skip_to, checkpoint.end), |at| {
                through - after(at)
            }),
            skip_to,
            bytes: charge(batch, routed),
            status: Status::Waiting,
            keys,
            cut: Cut::default(),
            is_joined: false,
        };
        self.enter_entry(index, stream, entry, now);
        true
    }

    /// Queues an entry.
    pub(crate) fn enter_entry(
        &mut self,
        index: usize,
        stream: StreamId,
        entry: Entry,
        now: Duration,
    ) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        cursor.total.routed += entry.routed;
        cursor.in_flight += entry.routed;
        cs.waiting_bytes += entry.bytes;
        cs.pending_bytes += entry.bytes;
        cursor.pending_bytes += entry.bytes;
        cursor.pending_batches += 1;
        if !cs.in_turn {
            cs.in_turn = true;
            cursor.turns.push_back(stream);
            if cursor.starved {
                cursor.starved = false;
                cursor.notify.notify_one();
            }
        }
        let bytes = entry.bytes;
        cs.entries.push_back(entry);
        self.note_waiting(index, bytes, now);
    }

    /// Wakes the reader if that changes what it waits for.
    pub(super) fn note_waiting(&mut self, index: usize, bytes: u64, now: Duration) {
        let cursor = &mut self.cursors[index];
        let before = cursor.waiting_bytes;
        cursor.waiting_bytes += bytes;
        if before == 0 {
            cursor.waiting_since = now;
        }
        let crossed = before < cursor.ready_bytes && cursor.waiting_bytes >= cursor.ready_bytes;
        if (before == 0 || crossed) && !cursor.starved {
            cursor.notify.notify_one();
        }
    }
}

/// Why a destination counts as full although its own buffer is not: it is the one most responsible
/// for the shortage, so that no other is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressure {
    None,
    /// Too many batches wait.
    Batches,
    /// The journal's disk limit is nearly reached.
    Disk,
}

/// Returns the bytes that a destination is charged for `rows` records of a batch: its share of the
/// frame, and at least what they cost while they wait.
pub(crate) fn charge(batch: &Batch, rows: u64) -> u64 {
    charge_of(batch.frame_bytes() as u64, rows, batch.record_count() as u64)
}

pub(crate) fn charge_of(frame_bytes: u64, rows: u64, all_rows: u64) -> u64 {
    // Neither is more than 2^20.
    (frame_bytes * rows / all_rows.max(1)).max(ENTRY_BYTES_MIN)
}

/// Returns the number of records routed to the destination from `first_record` on.
pub(crate) fn routed_from(batch: &Batch, cursor: usize, first_record: usize) -> u64 {
    if first_record == 0 {
        return batch.routed_count(cursor);
    }
    (first_record..batch.record_count()).filter(|i| batch.is_routed(*i, cursor)).count() as u64
}

fn ticket() -> (Vec<oneshot::Sender<Result<(), RefusedReason>>>, Durable) {
    let (tx, rx) = oneshot::channel();
    (vec![tx], Some(rx))
}
