//! Connects the journal and the drains: takes batches, appends relocated records, and settles
//! finished batches. Never waits.
//!
//! Invariants: a record that is moved to the stream of a drain is settled in its original batch
//! only when it is on stable storage there, or delivered; batches of sources are taken while the
//! window has room, independently of any single drain.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_host::Clock;
use weir_journal::{Cursor, CursorMemory, Journal, WritePolicy};
use weir_model::{Batch, BatchBuilder, NewRecord, Position, Seal, SourceBook, StreamId};

use super::book::DrainBook;
use super::core::{Append, Appended, Core, Drain, Mode};
use super::envelopes::Envelopes;
use super::finished::FinishedRecords;
use super::limits::{
    GATHER_BYTES, GATHER_INTERVAL, REFUSED_MAX, RELOCATE_AFTER, RELOCATE_EARLY_AFTER, TURNS,
};
use super::plan::DrainSpec;
use super::stream::{DrainStream, source, stream_of};
use super::taken::{Fate, Origin, Row, Taken};

/// The drains' side of the journal.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) core: Rc<RefCell<Core>>,
    journal: Journal,
    clock: Arc<dyn Clock>,
    /// Batches of sources.
    pub(super) sources: Cursor,
    sources_memory: CursorMemory,
    /// Batches of the streams of lagging drains.
    pub(super) lagging: Cursor,
    lagging_memory: CursorMemory,
    /// Maximum size of unfinished records of sources.
    window_bytes: usize,
    /// How long a record may wait to be delivered.
    pub(super) retry_for: Duration,
    /// Others take the next batches: only those that were taken are finished.
    pub(super) is_handing_over: bool,
    envelopes: Rc<RefCell<Envelopes>>,
    builder: BatchBuilder,
    /// The drain that loses its records if the journal has had no room for them for a while: the
    /// drains hold up others, and this one the most.
    heaviest: Option<u64>,
    /// Since when the disk is full with what lagging drains have taken: the journal cannot discard
    /// that.
    stuck_since: Option<Duration>,
    /// Streams left by an earlier run whose drains have not been added yet.
    left: HashSet<StreamId>,
}

/// Frames with gathered records, ready to be appended.
struct Frames {
    batches: Vec<Batch>,
    /// The records of each.
    rows: Vec<Vec<Row>>,
    end: Position,
}

impl Pump {
    pub(super) fn new(
        journal: Journal,
        (sources, lagging): (Cursor, Cursor),
        clock: Arc<dyn Clock>,
        envelopes: Rc<RefCell<Envelopes>>,
        (window_bytes, retry_for): (usize, Duration),
    ) -> Self {
        let left = journal.stream_ids(source()).into_iter().collect();
        Self {
            left,
            heaviest: None,
            stuck_since: None,
            core: Rc::default(),
            journal,
            clock,
            sources_memory: sources.memory(),
            sources,
            lagging_memory: lagging.memory(),
            lagging,
            window_bytes,
            retry_for,
            is_handing_over: false,
            envelopes,
            builder: BatchBuilder::new(Position::default()),
        }
    }

    /// Adds a drain, which continues with the stream and the counts that an earlier run may have
    /// left.
    pub(super) fn add(&mut self, spec: DrainSpec) {
        let of_stream = stream_of(spec.id);
        let is_known = self.left.remove(&of_stream);
        let stream = is_known.then(|| self.open_stream(spec.id));
        let is_settled =
            stream.as_ref().is_none_or(|stream| stream.is_settled(&self.lagging_memory).is_some());
        let mode = if is_settled { Mode::Direct } else { Mode::Lagging };
        let direct = self.sources_memory.part(spec.id);
        let book = DrainBook::restored(&direct, &self.lagging_memory.part(of_stream.0));
        self.core.borrow_mut().add(spec, stream, mode, book);
    }

    /// Forgets the counts of drains that do not exist any more.
    pub(super) fn forget_others(&mut self) {
        let core = self.core.borrow();
        for part in self.sources.parts() {
            if !core.drains.contains_key(&part) {
                self.sources.forget_part(part);
            }
        }
    }

    fn open_stream(&self, drain: u64) -> DrainStream {
        let memories = (&self.sources_memory, &self.lagging_memory);
        DrainStream::open(&self.journal, memories, &*self.clock, drain)
    }

    /// Removes a drain and discards its waiting records.
    pub(super) fn remove(&mut self, id: u64) {
        let removed = self.core.borrow_mut().remove(id);
        self.sources.forget_part(id);
        self.lagging.forget_part(stream_of(id).0);
        // Its stream has no drain now: the rest of it is discarded when it is taken.
        if let Some(stream) = removed.and_then(|drain| drain.stream) {
            self.core.borrow_mut().by_stream.remove(&stream.id);
            self.journal.close_stream(stream.id);
        }
    }

    /// Takes and distributes available batches, and settles finished ones. Returns false if there
    /// was nothing to do.
    pub(super) async fn step(&mut self) -> bool {
        let now = self.clock.monotonic();
        let mut is_busy = false;
        for _ in 0..TURNS {
            if !self.take_from_sources(now).await {
                break;
            }
            is_busy = true;
        }
        is_busy |= self.take_lagging(now).await;
        is_busy | self.settle()
    }

    /// Returns whether more of the sources' records may be taken.
    pub(super) fn has_room(&self) -> bool {
        !self.is_handing_over && self.core.borrow().source_bytes <= self.window_bytes
    }

    /// Returns whether no records wait, except in the streams of drains that accept none now.
    pub(super) fn is_done(&self) -> bool {
        let (core, now) = (self.core.borrow(), self.clock.monotonic());
        if self.is_handing_over {
            let has_none = |id| core.drains.get(id).is_none_or(Drain::has_none);
            return core.source_bytes == 0 && core.active.iter().all(has_none);
        }
        let is_kept = |id| core.drains.get(id).is_some_and(|drain| drain.is_kept(now));
        core.active.iter().all(is_kept) && self.sources.waiting_bytes() == 0
    }

    async fn take_from_sources(&mut self, now: Duration) -> bool {
        if !self.has_room() {
            return false;
        }
        let Some(delivery) = self.sources.take(|_| false).await else { return false };
        let taken = Rc::new(Taken::new(delivery, Origin::Source, now));
        let mut core = self.core.borrow_mut();
        let bytes = taken.delivery.batch.memory_bytes();
        core.source_bytes += bytes;
        let batch = &taken.delivery.batch;
        let matches: Vec<_> =
            batch.resources().map(|resource| core.matcher.of(resource.encoded)).collect();
        let none = core.matcher.of(b"");
        for (index, record) in taken.delivery.records() {
            taken.note(index);
            let of_resource = matches.get(usize::from(record.resource())).unwrap_or(&none);
            for found in of_resource.iter().filter(|found| found.kinds.contains(record.kind())) {
                let row = Row { taken: taken.clone(), index: index as u32 };
                core.give(found.drain, row, now);
            }
        }
        core.given(&taken);
        true
    }

    async fn take_lagging(&mut self, now: Duration) -> bool {
        if self.is_handing_over {
            return false;
        }
        let is_passed_over = |stream: StreamId| {
            let core = self.core.borrow();
            // Streams of drains that may still be listed are kept.
            !core.wants(stream, now).unwrap_or(core.is_complete)
        };
        let Some(delivery) = self.lagging.take(is_passed_over).await else { return false };
        let age_ns = self.clock.unix_ns() - delivery.batch.header().observed_ns;
        let is_expired = i128::from(age_ns) > self.retry_for.as_nanos().cast_signed();
        let taken = Rc::new(Taken::new(delivery, Origin::Stream, now));
        let mut rows = Vec::new();
        for (index, _) in taken.delivery.records() {
            taken.note(index);
            rows.push(Row { taken: taken.clone(), index: index as u32 });
        }
        let mut core = self.core.borrow_mut();
        core.catch_up(&taken, rows);
        if is_expired {
            core.expire(&taken);
        }
        core.given(&taken);
        true
    }

    /// Settles the batches that every drain has finished.
    pub(super) fn settle(&mut self) -> bool {
        let finished = self.core.borrow_mut().take_finished();
        let is_busy = !finished.is_empty();
        for taken in finished {
            let outcome = taken.outcome();
            match taken.origin {
                Origin::Source => {
                    let mut parts = taken.parts();
                    // A drain that was removed has no book.
                    parts.retain(|of| self.core.borrow().drains.contains_key(&of.part));
                    self.sources.ack_parts(&taken.delivery, outcome, parts);
                }
                Origin::Stream => self.lagging.ack(&taken.delivery, outcome),
            }
        }
        is_busy
    }

    /// Does the periodic work: relocates and appends, and notes records that are on stable storage
    /// and drains that have caught up. `is_final`: no more records will arrive.
    pub(super) fn tick(&mut self, is_final: bool) {
        let now = self.clock.monotonic();
        let active: Vec<u64> = self.core.borrow().active.iter().copied().collect();
        let is_tight = self.core.borrow().source_bytes > self.window_bytes / 4 * 3;
        let patience = if is_tight { RELOCATE_EARLY_AFTER } else { RELOCATE_AFTER };
        let is_full = self.core.borrow().source_bytes > self.window_bytes;
        let holds_up = is_full || self.sources.fills_disk();
        self.heaviest = holds_up.then(|| self.core.borrow().heaviest()).flatten();
        for id in active {
            if self.core.borrow().keeps_up(id, now, patience) {
                continue;
            }
            self.relocate_if_due(id, now, patience);
            self.append_if_due(id, now, is_final);
            self.note_safe(id, now);
            self.rest_if_failing(id, now);
            self.return_if_caught_up(id);
            let mut core = self.core.borrow_mut();
            if let Some(drain) = core.drains.get_mut(&id) {
                drain.finished.forget_some(&self.sources_memory);
            }
            core.retire(id);
        }
        self.give_up_if_stuck(now);
        self.settle();
    }

    /// Discards records that lagging drains have taken, if they keep the disk full for a while.
    /// What waits in their streams is discarded by the journal before that.
    fn give_up_if_stuck(&mut self, now: Duration) {
        let is_stuck = self.lagging.fills_disk() && self.lagging.waiting_bytes() == 0;
        let since = is_stuck.then(|| self.stuck_since.unwrap_or(now));
        self.stuck_since = since;
        if since.is_some_and(|since| now >= since + REFUSED_MAX) {
            self.core.borrow_mut().discard_taken(now);
        }
    }

    fn relocate_if_due(&mut self, id: u64, now: Duration, patience: Duration) {
        let mut core = self.core.borrow_mut();
        let Some(drain) = core.drains.get(&id) else { return };
        let is_late = drain.waiting_since().is_some_and(|since| now >= since + patience);
        let is_paused = drain.is_paused && drain.mode == Mode::Direct;
        if is_late || is_paused {
            core.relocate(id, now);
        }
    }

    fn append_if_due(&mut self, id: u64, now: Duration, is_final: bool) {
        let is_due = {
            let core = self.core.borrow();
            let Some(drain) = core.drains.get(&id) else { return };
            let waited = now.saturating_sub(drain.gathered_since);
            drain.mode == Mode::Lagging
                && !drain.gathered.is_empty()
                && now >= drain.append_after
                && (waited >= GATHER_INTERVAL || drain.gathered_bytes >= GATHER_BYTES || is_final)
        };
        if is_due {
            while self.append(id, now) {}
        }
    }

    /// Appends the first gathered records of a drain to its stream. If the journal has no room, and
    /// the drain holds up others, some are discarded after a while. Returns whether more may be
    /// appended.
    fn append(&mut self, id: u64, now: Duration) -> bool {
        let Some(Append { stream, rows, mut finished }) = self.core.borrow_mut().begin_append(id)
        else {
            return false;
        };
        let mut stream = stream.unwrap_or_else(|| self.open_stream(id));
        let before = stream.moved();
        let frames = self.frames(&mut stream, &rows, &mut finished);
        let mut core = self.core.borrow_mut();
        if let Ok(tickets) = self.journal.append_all(frames.batches, WritePolicy::OnAppend) {
            stream.appended(frames.end);
            let appended = tickets.into_iter().zip(frames.rows);
            let appended =
                appended.map(|(ticket, rows)| Appended { ticket, rows, has_failed: false });
            core.note_appended(id, (stream, finished), appended, now);
            core.drains.get(&id).is_some_and(|drain| !drain.gathered.is_empty())
        } else {
            stream.restore(before);
            core.note_refused(id, stream, self.heaviest == Some(id), now);
            false
        }
    }

    /// Writes records into frames of the stream.
    fn frames(
        &mut self,
        stream: &mut DrainStream,
        rows: &[Row],
        finished: &mut FinishedRecords,
    ) -> Frames {
        let mut frames = Frames { batches: Vec::new(), rows: Vec::new(), end: stream.next() };
        let envelopes = self.envelopes.clone();
        let mut envelopes = envelopes.borrow_mut();
        self.builder.reset(frames.end);
        let mut held: Vec<Row> = Vec::new();
        for row in rows {
            let envelope = envelopes.of(row);
            let end = Position::new(frames.end.epoch, frames.end.offset + 1);
            let is_full = self.builder.arena().len() + envelope.len() > GATHER_BYTES;
            if is_full || !push(&mut self.builder, row, envelope, end) {
                self.seal(stream, &mut frames, &mut held);
                // Every record fits in an empty frame.
                let _fits = push(&mut self.builder, row, envelope, end);
            }
            frames.end = end;
            held.push(row.clone());
            stream.note_finished(row, finished);
            stream.note_fate(row.taken.stream(), row.position(), Fate::Moved);
        }
        self.seal(stream, &mut frames, &mut held);
        frames
    }

    fn seal(&mut self, stream: &DrainStream, frames: &mut Frames, held: &mut Vec<Row>) {
        let Some(first) = held.first() else { return };
        let observed_ns = first.taken.delivery.batch.header().observed_ns;
        let lagging = u16::try_from(self.lagging.index()).unwrap_or_default();
        self.builder.route_all(&[lagging]);
        let state = stream.state();
        let seal = Seal {
            repeatable: false,
            stream: stream.id,
            group: 0,
            source: source(),
            end: frames.end,
            observed_ns,
            rule_generation: 0,
            book: &SourceBook::default(),
            state: &state,
        };
        frames.batches.push(self.builder.seal(&seal));
        frames.rows.push(std::mem::take(held));
    }

    /// Finishes moved records once they are on stable storage in the stream. If the disk does not
    /// take them, they stay in memory and are delivered from there, or are discarded after a while
    /// if the drain holds up others.
    fn note_safe(&mut self, id: u64, now: Duration) {
        let core = self.core.clone();
        let mut core = core.borrow_mut();
        let Some(drain) = core.drains.get_mut(&id) else { return };
        let Some(stream) = drain.stream.as_ref().map(|stream| stream.id) else { return };
        let mut safe = Vec::new();
        let mut is_written = None;
        while let Some(first) = drain.appended.front_mut() {
            if !first.has_failed {
                match first.ticket.try_durable() {
                    None => break,
                    Some(Ok(())) => drain.refused_since = None,
                    Some(Err(_)) => first.has_failed = true,
                }
            }
            if first.has_failed {
                let loses = drain.is_refused_for_long(now) && self.heaviest == Some(id);
                let check = || {
                    if loses {
                        self.lagging.discard_unwritten(stream)
                    } else {
                        self.lagging.is_written(stream)
                    }
                };
                if !*is_written.get_or_insert_with(check) {
                    break;
                }
            }
            safe.extend(drain.appended.pop_front().into_iter().flat_map(|first| first.rows));
        }
        if let Some(stream) = drain.stream.as_mut().filter(|_| !safe.is_empty()) {
            stream.forget_some(&self.sources_memory);
        }
        for row in &safe {
            core.finish(id, row, Fate::Moved);
        }
    }

    /// Gives the records taken for an unreachable drain back to the journal.
    fn rest_if_failing(&mut self, id: u64, now: Duration) {
        let mut core = self.core.borrow_mut();
        let Some(drain) = core.drains.get(&id) else { return };
        if drain.is_resting(now) {
            for taken in core.put_back(id) {
                self.lagging.put_back(&taken.delivery);
            }
        }
    }

    fn return_if_caught_up(&mut self, id: u64) {
        let mut core = self.core.borrow_mut();
        let Some(drain) = core.drains.get(&id).filter(|drain| Core::may_have_caught_up(drain))
        else {
            return;
        };
        let missing = match &drain.stream {
            Some(stream) => stream.is_settled(&self.lagging_memory),
            None => Some(0),
        };
        if let Some(missing) = missing {
            core.caught_up(id, missing);
        }
    }
}

/// Adds an envelope. Returns false if it does not fit.
fn push(builder: &mut BatchBuilder, row: &Row, envelope: &[u8], end: Position) -> bool {
    let record = row.record();
    let Ok(original) = builder.append(envelope) else { return false };
    let new = NewRecord {
        timestamp_ns: record.timestamp_ns,
        end_offset: end.offset,
        severity: record.severity,
        original,
        kind: record.kind(),
        ..NewRecord::default()
    };
    builder.push(&new).is_ok()
}
