//! The queues of all drains, and the fates of their records. Makes all decisions, but sends nothing
//! and touches neither journal nor network, so that tests control every step.
//!
//! A drain is *direct* while it keeps up: it sends records from the batches of the sources. A drain
//! that lags is *relocated*: its queue, including records that are being sent, and everything new
//! goes to a stream of its own, and it sends from there, in order, until that stream is empty.
//!
//! Invariants: a record is in exactly one place: a queue, gathered, appended, or in the stream; it
//! is finished once, by the code that removes it from there. Records of a drain keep their order.
//! The queue of a direct drain has only records of sources, that of a lagging one only records of
//! its stream.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use weir_journal::AppendTicket;
use weir_model::{DiscardReason, StreamId};

use super::book::DrainBook;
use super::finished::FinishedRecords;
use super::limits::{
    APPEND_BYTES, APPEND_RETRY_INTERVAL, CATCH_UP_RECORDS, QUEUE_RECORDS_MAX, REFUSED_MAX,
    RETRY_MAX, RETRY_MIN, SEND_RECORDS_MAX,
};
use super::matcher::Matcher;
use super::plan::DrainSpec;
use super::stream::DrainStream;
use super::taken::{Fate, Origin, Row, Taken};

/// Records that were appended to the stream and may not be on stable storage yet.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) ticket: AppendTicket,
    pub(super) rows: Vec<Row>,
    /// The disk has failed: the records are kept in memory until they are delivered.
    pub(super) has_failed: bool,
}

/// Records that are to be appended to the stream of a drain.
#[derive(Debug)]
pub(super) struct Append {
    /// `None` if nothing was ever moved.
    pub(super) stream: Option<DrainStream>,
    pub(super) rows: Vec<Row>,
    pub(super) finished: FinishedRecords,
}

/// Where a drain takes its records from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It keeps up, and sends from the batches of the sources.
    Direct,
    /// It lags, and sends from its own stream.
    Lagging,
}

/// Why the last attempt of a drain to send failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) since: Duration,
    pub(super) until: Duration,
    pause: Duration,
    pub(super) error: Arc<str>,
}

/// Records that are being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InFlight {
    Nothing,
    /// This number of records at the front of the queue.
    Queued(usize),
    /// The records have been moved to the stream meanwhile, as its first ones.
    Relocated(usize),
}

/// A drain.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) spec: DrainSpec,
    pub(super) mode: Mode,
    pub(super) queue: VecDeque<Row>,
    in_flight: InFlight,
    /// Numbers, in the stream, of records that were delivered while they were moved there.
    sent_ahead: BTreeSet<u64>,
    /// The number in the stream before the first record that was moved there.
    moved_after: u64,
    /// Nothing was appended since the drain was relocated: records that are being sent are the
    /// first gathered ones.
    is_ahead_gathered: bool,
    /// What it has finished and is not in the state of its stream.
    pub(super) finished: FinishedRecords,
    pub(super) gathered: VecDeque<Row>,
    pub(super) gathered_bytes: usize,
    pub(super) gathered_since: Duration,
    /// When to try to append again, after the journal had no room.
    pub(super) append_after: Duration,
    /// Since when the journal has not taken or written its records.
    pub(super) refused_since: Option<Duration>,
    pub(super) appended: VecDeque<Appended>,
    pub(super) stream: Option<DrainStream>,
    pub(super) is_paused: bool,
    pub(super) failure: Option<Failure>,
    pub(super) book: DrainBook,
    /// Number of records of earlier runs in the stream that were not read yet. They are in the
    /// book.
    unread: u64,
    /// When the oldest waiting record arrived, nanoseconds since 1970. Once all of them are in the
    /// stream, that of the last one that was seen.
    oldest_ns: Option<i64>,
    /// Wakes the worker of the drain.
    pub(super) wake: Rc<Notify>,
    pub(super) has_worker: bool,
}

/// All drains.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) drains: HashMap<u64, Drain>,
    pub(super) matcher: Matcher,
    pub(super) by_stream: HashMap<StreamId, u64>,
    /// Drains with any records.
    pub(super) active: BTreeSet<u64>,
    /// Batches that every drain has finished.
    finished: Vec<Rc<Taken>>,
    /// Drains that have records to send and no worker.
    pub(super) to_start: Vec<u64>,
    /// Wakes the loop that takes batches.
    pub(super) wake: Rc<Notify>,
    /// Size in bytes of unfinished records of sources.
    pub(super) source_bytes: usize,
    /// Something was sent since this was last read.
    pub(super) has_sent: bool,
    /// Every list of drains is known: a stream without a drain will not get one.
    pub(super) is_complete: bool,
}

impl Drain {
    fn new(spec: DrainSpec, stream: Option<DrainStream>, mode: Mode, mut book: DrainBook) -> Self {
        let left = stream.as_ref().filter(|_| mode == Mode::Lagging).map(DrainStream::left);
        let unread = left.unwrap_or_default();
        book.recover(unread);
        Self {
            spec,
            mode,
            queue: VecDeque::new(),
            in_flight: InFlight::Nothing,
            sent_ahead: BTreeSet::new(),
            moved_after: 0,
            is_ahead_gathered: false,
            finished: FinishedRecords::default(),
            gathered: VecDeque::new(),
            gathered_bytes: 0,
            gathered_since: Duration::ZERO,
            append_after: Duration::ZERO,
            refused_since: None,
            appended: VecDeque::new(),
            stream,
            is_paused: false,
            failure: None,
            book,
            unread,
            oldest_ns: None,
            wake: Rc::default(),
            has_worker: false,
        }
    }

    /// Returns whether the drain must not send now, because it is paused or has just failed.
    pub(super) fn is_resting(&self, now: Duration) -> bool {
        self.is_paused || self.failure.as_ref().is_some_and(|failure| failure.until > now)
    }

    /// Returns whether all its records are in its stream, and cannot be delivered now.
    pub(super) fn is_kept(&self, now: Duration) -> bool {
        self.mode == Mode::Lagging
            && self.is_resting(now)
            && self.in_flight == InFlight::Nothing
            && self.gathered.is_empty()
            && self.appended.is_empty()
    }

    /// Returns whether none of its records are in memory.
    pub(super) fn has_none(&self) -> bool {
        self.queue.is_empty()
            && self.in_flight == InFlight::Nothing
            && self.gathered.is_empty()
            && self.appended.is_empty()
    }

    /// Returns whether batches of its stream should be taken.
    fn needs_more(&self, now: Duration) -> bool {
        self.mode == Mode::Lagging
            && !self.is_resting(now)
            && !matches!(self.in_flight, InFlight::Relocated(_))
            && self.queue.len() < CATCH_UP_RECORDS
    }

    fn note_failure(&mut self, error: Option<String>, has_progress: bool, now: Duration) {
        let last = self.failure.take().filter(|_| !has_progress);
        self.failure = error.map(|error| {
            let since = last.as_ref().map_or(now, |last| last.since);
            let pause = last.map_or(RETRY_MIN, |last| (last.pause * 2).min(RETRY_MAX));
            Failure { since, until: now + pause, pause, error: error.into() }
        });
    }

    /// Notes when the oldest waiting record arrived. Records move from the queue to the stream in
    /// order, so the first one that is in memory is the oldest, unless all are in the stream.
    pub(super) fn note_oldest(&mut self) {
        let appended = self.appended.front().and_then(|appended| appended.rows.first());
        let first = match self.mode {
            Mode::Direct => self.queue.front(),
            Mode::Lagging => self.queue.front().or(appended).or(self.gathered.front()),
        };
        match first {
            _ if self.book.waiting == 0 => self.oldest_ns = None,
            Some(row) if self.oldest_ns.is_none() || !self.queue.is_empty() => {
                self.oldest_ns = Some(row.taken.delivery.batch.header().observed_ns);
            }
            _ => {}
        }
    }

    /// Returns the age of the oldest waiting record in seconds; `None` if it is not known.
    pub(super) fn lag_seconds(&self, now_ns: i64) -> Option<f64> {
        if self.book.waiting == 0 {
            // The stream may have records that an earlier run has left, and that were not counted.
            return (self.mode == Mode::Direct).then_some(0.0);
        }
        self.oldest_ns.map(|oldest| now_ns.saturating_sub(oldest).max(0) as f64 / 1e9)
    }

    /// Returns how many records at the back of the queue are from a batch.
    fn last_of(&self, taken: &Rc<Taken>) -> usize {
        let is_of_it = |row: &&Row| Rc::ptr_eq(&row.taken, taken);
        self.queue.iter().rev().take_while(is_of_it).count()
    }

    /// Returns how many records at the front of the queue are from the same batch.
    fn first_of_batch(&self) -> usize {
        let first = self.queue.front();
        let is_of_it = |row: &&Row| first.is_some_and(|first| Rc::ptr_eq(&row.taken, &first.taken));
        self.queue.iter().take_while(is_of_it).count()
    }

    /// Notes that the journal does not take or write its records. Returns whether that has lasted
    /// for a while.
    pub(super) fn is_refused_for_long(&mut self, now: Duration) -> bool {
        now >= *self.refused_since.get_or_insert(now) + REFUSED_MAX
    }

    /// Notes that the journal has discarded the records up to a number in the stream. Returns how
    /// many are lost: not those that were delivered while the drain was being relocated.
    fn note_missing(&mut self, missing: u64, end: u64) -> u64 {
        let mut delivered = self.sent_ahead.split_off(&(end + 1 - missing));
        self.sent_ahead.append(&mut delivered.split_off(&(end + 1)));
        let delivered = delivered.len() as u64;
        self.book.deliver(delivered);
        self.book.discard(DiscardReason::BufferFull, missing - delivered);
        missing - delivered
    }

    /// Notes that records of earlier runs were read from the stream, or are known to be lost.
    fn note_read(&mut self, records: u64) {
        let known = records.min(self.unread);
        self.unread -= known;
        self.book.recover(records - known);
    }

    /// Removes some of the gathered records.
    fn take_gathered(&mut self, places: Range<usize>) -> Vec<Row> {
        let rows: Vec<Row> = self.gathered.drain(places).collect();
        self.gathered_bytes -= rows.iter().map(Row::drain_bytes).sum::<usize>();
        rows
    }

    fn is_idle(&self) -> bool {
        self.mode == Mode::Direct
            && self.queue.is_empty()
            && self.in_flight == InFlight::Nothing
            && !self.finished.is_long()
    }

    /// Returns when the oldest record of a source arrived, while the drain is direct.
    pub(super) fn waiting_since(&self) -> Option<Duration> {
        let front = self.queue.front().filter(|_| self.mode == Mode::Direct)?;
        Some(front.taken.at)
    }
}

impl Core {
    /// Adds a drain, with the stream and the counts that an earlier run may have left.
    pub(super) fn add(
        &mut self,
        spec: DrainSpec,
        stream: Option<DrainStream>,
        mode: Mode,
        book: DrainBook,
    ) {
        let id = spec.id;
        if let Some(stream) = &stream {
            self.by_stream.insert(stream.id, id);
        }
        self.matcher.add(id, &spec.selector, spec.kinds);
        self.drains.insert(id, Drain::new(spec, stream, mode, book));
        if mode == Mode::Lagging {
            self.active.insert(id);
        }
    }

    /// Removes a drain and discards its waiting records.
    pub(super) fn remove(&mut self, id: u64) -> Option<Drain> {
        let drain = self.drains.get_mut(&id)?;
        let rows: Vec<Row> = drain.queue.drain(..).chain(drain.gathered.drain(..)).collect();
        let appended = drain.appended.drain(..).flat_map(|appended| appended.rows);
        let moved: Vec<Row> = appended.collect();
        self.finish_all(id, &rows, Fate::discarded(DiscardReason::DrainRemoved));
        // These are still in the stream, and will be discarded there.
        for row in &moved {
            self.finish_row(row, Fate::Moved);
        }
        self.active.remove(&id);
        let drain = self.drains.remove(&id)?;
        self.matcher.remove(id, &drain.spec.selector);
        drain.wake.notify_one();
        Some(drain)
    }

    /// Gives a record of a source to a drain.
    pub(super) fn give(&mut self, id: u64, row: Row, now: Duration) {
        let Some(drain) = self.drains.get_mut(&id) else { return };
        drain.book.route();
        row.taken.give();
        if let Some(stream) = &drain.stream
            && let Some(fate) = stream.fate(row.taken.stream(), row.position())
        {
            if fate == Fate::Moved {
                // That was before a crash; it is counted when it is read from the stream.
                drain.book.routed -= 1;
                drain.book.waiting -= 1;
            }
            self.finish(id, &row, fate);
            return;
        }
        self.active.insert(id);
        match drain.mode {
            Mode::Direct => {
                drain.queue.push_back(row);
                if drain.queue.len() > QUEUE_RECORDS_MAX {
                    self.relocate(id, now);
                }
                self.wake_worker(id);
            }
            Mode::Lagging => Self::gather(drain, row, now),
        }
    }

    fn gather(drain: &mut Drain, row: Row, now: Duration) {
        if drain.gathered.is_empty() {
            drain.gathered_since = now;
        }
        drain.gathered_bytes += row.drain_bytes();
        drain.gathered.push_back(row);
    }

    /// Returns the drain that keeps most of the sources' batches: the one with the most records, in
    /// bytes, that are not on stable storage in its stream.
    pub(super) fn heaviest(&self) -> Option<u64> {
        let of_drain = |drain: &Drain| {
            let appended = drain.appended.iter().flat_map(|appended| &appended.rows);
            drain.gathered_bytes + appended.map(Row::drain_bytes).sum::<usize>()
        };
        let weight = |id: &&u64| self.drains.get(id).map_or(0, of_drain);
        self.active.iter().max_by_key(weight).copied()
    }

    /// Discards the first batch in memory of a lagging drain that cannot be delivered now: the one
    /// with the most records there. A part of it may have been delivered, so that it cannot be put
    /// back; until it is settled, the disk keeps what was settled after it.
    pub(super) fn discard_taken(&mut self, now: Duration) {
        let of_drain = |drain: &Drain| {
            let is_stuck = drain.mode == Mode::Lagging
                && drain.is_resting(now)
                && drain.in_flight == InFlight::Nothing;
            let rows = drain.queue.iter().filter(|_| is_stuck);
            rows.map(Row::drain_bytes).sum::<usize>()
        };
        let weight = |id: &u64| self.drains.get(id).map_or(0, of_drain);
        let weights = self.active.iter().map(|id| (weight(id), *id));
        let Some((_, id)) = weights.max().filter(|(weight, _)| *weight > 0) else { return };
        let Some(drain) = self.drains.get_mut(&id) else { return };
        let count = drain.first_of_batch();
        let rows: Vec<Row> = drain.queue.drain(..count).collect();
        self.finish_all(id, &rows, Fate::discarded(DiscardReason::BufferFull));
    }

    /// Returns the first gathered records of a drain, and takes the stream to append them to.
    pub(super) fn begin_append(&mut self, id: u64) -> Option<Append> {
        let drain = self.drains.get_mut(&id)?;
        let mut bytes = 0;
        let fits = |(place, row): &(usize, &Row)| {
            bytes += row.drain_bytes();
            // What is being sent is appended as a whole.
            bytes <= APPEND_BYTES || *place < SEND_RECORDS_MAX
        };
        let rows = drain.gathered.iter().enumerate().take_while(fits);
        let rows = rows.map(|(_, row)| row.clone()).collect();
        Some(Append { stream: drain.stream.take(), rows, finished: drain.finished.clone() })
    }

    /// Notes that the first gathered records were appended.
    pub(super) fn note_appended(
        &mut self,
        id: u64,
        (stream, finished): (DrainStream, FinishedRecords),
        appended: impl Iterator<Item = Appended>,
        now: Duration,
    ) {
        self.by_stream.insert(stream.id, id);
        let Some(drain) = self.drains.get_mut(&id) else { return };
        let end = stream.next().offset;
        (drain.stream, drain.finished) = (Some(stream), finished);
        drain.gathered_since = now;
        drain.refused_since = None;
        let mut moved = 0;
        for appended in appended {
            drain.take_gathered(0..appended.rows.len());
            moved += appended.rows.len() as u64;
            drain.appended.push_back(appended);
        }
        drain.book.moved += moved;
        if std::mem::take(&mut drain.is_ahead_gathered) {
            drain.moved_after = end - moved;
        }
    }

    /// Notes that the journal had no room for the gathered records: they are kept, or the oldest
    /// discarded if this has lasted for a while and they hold up others. Those that are being sent
    /// are kept: they may be delivered.
    pub(super) fn note_refused(
        &mut self,
        id: u64,
        stream: DrainStream,
        holds_up: bool,
        now: Duration,
    ) {
        self.by_stream.insert(stream.id, id);
        let Some(drain) = self.drains.get_mut(&id) else { return };
        drain.stream = Some(stream);
        drain.append_after = now + APPEND_RETRY_INTERVAL;
        if !drain.is_refused_for_long(now) || !holds_up {
            return;
        }
        let kept = match drain.in_flight {
            InFlight::Relocated(count) if drain.is_ahead_gathered => count,
            _ => 0,
        };
        let goal = APPEND_BYTES.max(drain.gathered_bytes / 4);
        let mut bytes = 0;
        let is_needed = |row: &&Row| {
            let is_needed = bytes < goal;
            bytes += row.drain_bytes();
            is_needed
        };
        let discarded = drain.gathered.iter().skip(kept).take_while(is_needed).count();
        let discarded = drain.take_gathered(kept..kept + discarded);
        let lost = Fate::discarded(DiscardReason::BufferFull);
        if let Some(stream) = &mut drain.stream {
            for row in &discarded {
                // If some are kept, the records between them are noted when they are moved.
                if kept == 0 {
                    stream.note_finished(row, &mut drain.finished);
                }
                stream.note_fate(row.taken.stream(), row.position(), lost);
            }
        }
        self.finish_all(id, &discarded, lost);
    }

    /// Wakes the worker of a drain, or has one started.
    pub(super) fn wake_worker(&mut self, id: u64) {
        let Some(drain) = self.drains.get_mut(&id) else { return };
        if drain.queue.is_empty() || drain.is_paused {
            return;
        }
        if drain.has_worker {
            drain.wake.notify_one();
        } else {
            drain.has_worker = true;
            self.to_start.push(id);
        }
    }

    /// Moves all records of a drain to its stream.
    pub(super) fn relocate(&mut self, id: u64, now: Duration) {
        let Some(drain) = self.drains.get_mut(&id).filter(|drain| drain.mode == Mode::Direct)
        else {
            return;
        };
        drain.mode = Mode::Lagging;
        drain.is_ahead_gathered = true;
        if let InFlight::Queued(count) = drain.in_flight {
            drain.in_flight = InFlight::Relocated(count);
        }
        for row in std::mem::take(&mut drain.queue) {
            Self::gather(drain, row, now);
        }
        // Append them at once.
        drain.gathered_since = Duration::ZERO;
        self.active.insert(id);
    }

    /// Returns the records to send next for a drain.
    pub(super) fn chunk(&mut self, id: u64, now: Duration) -> Vec<Row> {
        let Some(drain) = self.drains.get_mut(&id) else { return Vec::new() };
        if drain.is_resting(now) || drain.in_flight != InFlight::Nothing {
            return Vec::new();
        }
        let rows: Vec<Row> = drain.queue.iter().take(SEND_RECORDS_MAX).cloned().collect();
        if !rows.is_empty() {
            drain.in_flight = InFlight::Queued(rows.len());
        }
        rows
    }

    /// Notes the fates of the records of the last chunk, and why those without one were not sent.
    pub(super) fn sent(
        &mut self,
        id: u64,
        fates: &[Option<Fate>],
        failure: Option<String>,
        now: Duration,
    ) {
        let Some(drain) = self.drains.get_mut(&id) else { return };
        // A record that was rejected while it was moved will be rejected again.
        let is_delivered = |fate: &Option<Fate>| *fate == Some(Fate::Delivered);
        match std::mem::replace(&mut drain.in_flight, InFlight::Nothing) {
            InFlight::Nothing => {}
            InFlight::Queued(count) => {
                let rows: Vec<Row> = drain.queue.drain(..fates.len().min(count)).collect();
                for (row, fate) in rows.iter().zip(fates).rev() {
                    if fate.is_none() {
                        drain.queue.push_front(row.clone());
                    }
                }
                if drain.mode == Mode::Direct {
                    drain.finished.note(&rows, fates);
                }
                if drain.queue.is_empty() {
                    drain.finished.forget_all_delivered();
                }
                for (row, fate) in rows.iter().zip(fates) {
                    if let Some(fate) = fate {
                        self.finish(id, row, *fate);
                    }
                }
            }
            InFlight::Relocated(count) if drain.is_ahead_gathered => {
                let rows = drain.take_gathered(0..fates.len().min(count));
                let own: Vec<_> =
                    fates.iter().map(|fate| fate.filter(|_| is_delivered(fate))).collect();
                drain.finished.note(&rows, &own);
                let (delivered, others): (Vec<_>, Vec<_>) =
                    rows.into_iter().zip(fates).partition(|(_, fate)| is_delivered(fate));
                for (row, _) in others.into_iter().rev() {
                    drain.gathered_bytes += row.drain_bytes();
                    drain.gathered.push_front(row);
                }
                self.finish_all(id, delivered.iter().map(|(row, _)| row), Fate::Delivered);
            }
            InFlight::Relocated(count) => {
                let sent = (drain.moved_after + 1..).zip(fates).take(count);
                let sent = sent.filter(|(_, fate)| is_delivered(fate));
                drain.sent_ahead = sent.map(|(number, _)| number).collect();
            }
        }
        if let Some(drain) = self.drains.get_mut(&id) {
            drain.note_failure(failure, fates.iter().any(Option::is_some), now);
        }
        self.has_sent = true;
        self.retire(id);
        self.wake.notify_one();
    }

    /// Takes the records that a lagging drain has not begun to send from its queue, to put them
    /// back into the journal.
    pub(super) fn put_back(&mut self, id: u64) -> Vec<Rc<Taken>> {
        let Some(drain) = self.drains.get_mut(&id) else { return Vec::new() };
        if drain.mode == Mode::Direct || drain.in_flight != InFlight::Nothing {
            return Vec::new();
        }
        let mut back: Vec<Rc<Taken>> = Vec::new();
        while let Some(last) = drain.queue.back().map(|row| row.taken.clone()) {
            let count = drain.last_of(&last);
            let is_whole = last.is_untouched(count) && last.delivery.record_count == count as u64;
            let is_last = |stream: &DrainStream| stream.is_last(&last.delivery);
            if !is_whole || !drain.stream.as_ref().is_none_or(is_last) {
                break;
            }
            drain.queue.truncate(drain.queue.len() - count);
            if let Some(stream) = &mut drain.stream {
                // Records lost before it will be found missing again.
                let lost = last.lost.get();
                drain.book.take_back(DiscardReason::BufferFull, lost);
                if stream.is_earlier(&last.delivery) {
                    drain.unread += count as u64 + lost;
                }
                stream.put_back(&last.delivery, lost);
            }
            back.push(last);
        }
        back
    }

    /// Returns whether the drain of a stream needs more of it now; `None` if the stream has no
    /// drain.
    pub(super) fn wants(&self, stream: StreamId, now: Duration) -> Option<bool> {
        let id = self.by_stream.get(&stream)?;
        self.drains.get(id).map(|drain| drain.needs_more(now))
    }

    /// Notes that all records of a batch were given to drains.
    pub(super) fn given(&mut self, taken: &Rc<Taken>) {
        if taken.given() {
            self.note_finished(taken);
        }
    }

    /// Discards the batch last taken from the stream of an unreachable drain.
    pub(super) fn expire(&mut self, taken: &Rc<Taken>) {
        let Some(id) = self.by_stream.get(&taken.stream()).copied() else { return };
        let Some(drain) = self.drains.get_mut(&id) else { return };
        if drain.failure.is_none() || drain.in_flight != InFlight::Nothing {
            return;
        }
        let count = drain.last_of(taken);
        let rows = drain.queue.split_off(drain.queue.len() - count);
        for row in rows {
            self.finish(id, &row, Fate::discarded(DiscardReason::Expired));
        }
    }

    /// Gives a drain records taken from its stream.
    pub(super) fn catch_up(&mut self, taken: &Rc<Taken>, rows: Vec<Row>) {
        let id = self.by_stream.get(&taken.stream()).copied();
        let Some((id, drain)) = id.and_then(|id| Some((id, self.drains.get_mut(&id)?))) else {
            for row in &rows {
                taken.give();
                self.finish_row(row, Fate::discarded(DiscardReason::DrainRemoved));
            }
            return;
        };
        let Some(stream) = &mut drain.stream else { return };
        let missing = stream.taken(&taken.delivery);
        if stream.is_earlier(&taken.delivery) {
            drain.note_read(rows.len() as u64 + missing);
        }
        // Nothing is sent ahead before what earlier runs have left was read.
        taken.lost.set(drain.note_missing(missing, taken.delivery.batch.header().base().offset));
        let ahead = &mut drain.sent_ahead;
        let (sent, rest): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| ahead.remove(&row.position().offset));
        for row in sent.iter().chain(&rest) {
            row.taken.give();
        }
        drain.queue.extend(rest);
        self.finish_all(id, &sent, Fate::Delivered);
        self.wake_worker(id);
    }

    /// Notes that the whole stream of a drain is settled: it is direct again.
    pub(super) fn caught_up(&mut self, id: u64, missing: u64) {
        let Some(drain) = self.drains.get_mut(&id) else { return };
        let end = drain.stream.as_ref().map_or(0, |stream| stream.next().offset);
        drain.note_missing(missing, end);
        // The journal has discarded these at the end of an earlier epoch.
        drain.book.discard(DiscardReason::BufferFull, std::mem::take(&mut drain.unread));
        if let Some(stream) = &mut drain.stream {
            stream.read_to_end();
        }
        drain.mode = Mode::Direct;
        drain.sent_ahead.clear();
        drain.queue = std::mem::take(&mut drain.gathered);
        drain.gathered_bytes = 0;
        self.wake_worker(id);
    }

    /// Returns whether a lagging drain has no records outside its stream and the gathered ones.
    pub(super) fn may_have_caught_up(drain: &Drain) -> bool {
        drain.mode == Mode::Lagging
            && drain.queue.is_empty()
            && drain.appended.is_empty()
            && drain.in_flight == InFlight::Nothing
            && !drain.is_paused
    }

    /// Stops or resumes a drain.
    pub(super) fn pause(&mut self, id: u64, is_paused: bool) {
        let Some(drain) = self.drains.get_mut(&id) else { return };
        drain.is_paused = is_paused;
        drain.failure = None;
        self.active.insert(id);
        self.wake_worker(id);
        self.wake.notify_one();
    }

    /// Finishes records of a drain with the same fate.
    fn finish_all<'r>(&mut self, id: u64, rows: impl IntoIterator<Item = &'r Row>, fate: Fate) {
        for row in rows {
            self.finish(id, row, fate);
        }
    }

    /// Finishes a record of a drain, in its book too.
    pub(super) fn finish(&mut self, id: u64, row: &Row, fate: Fate) {
        if let Some(drain) = self.drains.get_mut(&id) {
            match fate {
                Fate::Elsewhere | Fate::Unbound | Fate::Moved => {}
                Fate::Delivered => drain.book.deliver(1),
                Fate::Discarded(reason) => {
                    drain.book.discard(DiscardReason::ALL[usize::from(reason)], 1);
                }
            }
        }
        row.taken.note_fate(id, fate);
        self.finish_row(row, fate);
    }

    /// Finishes a record in its batch only.
    pub(super) fn finish_row(&mut self, row: &Row, fate: Fate) {
        if row.taken.finish(row.index as usize, fate) {
            self.note_finished(&row.taken);
        }
    }

    /// Queues a batch for settling if all its records are finished.
    fn note_finished(&mut self, taken: &Rc<Taken>) {
        if taken.origin == Origin::Source {
            let bytes = taken.delivery.batch.memory_bytes();
            self.source_bytes -= bytes;
        }
        self.finished.push(taken.clone());
    }

    /// Returns the batches that may be settled.
    pub(super) fn take_finished(&mut self) -> Vec<Rc<Taken>> {
        std::mem::take(&mut self.finished)
    }

    /// Returns whether nothing is to be done for a drain: it is direct, and its records have not
    /// waited for long. Most drains are like this most of the time.
    pub(super) fn keeps_up(&self, id: u64, now: Duration, patience: Duration) -> bool {
        self.drains.get(&id).is_some_and(|drain| {
            drain.mode == Mode::Direct
                && !drain.is_paused
                && !drain.finished.is_long()
                && drain.waiting_since().is_some_and(|since| now < since + patience)
        })
    }

    /// Marks a drain as inactive if it has no more records.
    pub(super) fn retire(&mut self, id: u64) {
        if self.drains.get(&id).is_none_or(Drain::is_idle) {
            self.active.remove(&id);
        }
    }
}
