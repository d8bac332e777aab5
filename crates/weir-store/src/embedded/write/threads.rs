//! The two threads of a store: the intake and the flusher.
//!
//! The intake never waits for the disk while there is room in the head: a full chunk is sealed and
//! handed over, and the next one grows. When both chunks are full the intake stops, and the journal
//! holds the records. Invariant: only the intake uses the cursor.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_host::process::publish_cpu;
use weir_journal::{Cursor, Delivery};
use weir_model::{Position, SourceId, StreamId};

use super::flusher::{Flusher, Step};
use super::head::{ChunkFull, Head};
use crate::embedded::columns::Intake;
use crate::embedded::keep::catalog::StoreState;
use crate::embedded::read::snapshot::HeadChunk;

/// Maximum time from reading records to taking them in.
const INTAKE_AGE_MAX: Duration = Duration::from_millis(50);
/// Records are taken in earlier if this many bytes are waiting.
const INTAKE_BYTES_MIN: u64 = 1024 * 1024;
/// Minimum interval between flushes that are requested because files were deleted.
const HINT_INTERVAL: Duration = Duration::from_secs(3);
/// How often an intake without records checks whether the sources have read their backlog.
const CATCH_UP_INTERVAL: Duration = Duration::from_millis(100);

/// The intake.
#[derive(Debug)]
pub(crate) struct IntakeWorker {
    shared: Arc<StoreState>,
    cursor: Cursor,
    head: Head,
    /// A delivery that did not fit, and the record to continue with.
    rest: Option<(Delivery, usize)>,
    sources: HashMap<SourceId, String>,
    /// When to flush because something in the chunk can no longer be read again.
    settle_at: Option<Duration>,
    hinted_at: Option<Duration>,
    /// The latest request that the sealed chunk serves.
    flushes_begun: u64,
    is_catching_up: bool,
}

/// What the intake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Records, at most until this time.
    Records(Option<Duration>),
    /// Room in the head.
    Room,
    /// Nothing: all is stored.
    Ended,
}

impl IntakeWorker {
    pub(crate) fn new(
        shared: Arc<StoreState>,
        cursor: Cursor,
        stored: HashMap<StreamId, Position>,
    ) -> Self {
        let chunk = Arc::new(HeadChunk::default());
        let next_sequence = {
            let mut catalog = shared.catalog();
            catalog.chunks.push(chunk.clone());
            catalog.counters.next_sequence
        };
        let intake = Intake::new()
            .with_renames(shared.config.renames.clone())
            .with_received_of(shared.config.received_of.clone());
        let head = Head::new(chunk, intake, shared.config.head_bytes, next_sequence, stored);
        Self {
            shared,
            cursor,
            head,
            rest: None,
            sources: HashMap::new(),
            settle_at: None,
            hinted_at: None,
            flushes_begun: 0,
            is_catching_up: true,
        }
    }

    /// Settles what is stored, takes in what is available, and seals what is due.
    pub(crate) fn step(&mut self) -> Wait {
        let now = self.shared.clock.monotonic();
        let stored = std::mem::take(&mut self.shared.queue().stored);
        let is_settled = !stored.is_empty();
        for held in stored {
            self.cursor.ack_held(held);
        }
        if is_settled {
            self.serve_flushes();
        }
        if self.cursor.take_settle_wanted() {
            let next = self.hinted_at.map_or(now, |at| now.max(at + HINT_INTERVAL));
            self.settle_at.get_or_insert(next);
        }
        let has_room = self.take_in(now);
        self.check_caught_up();
        if !has_room {
            return Wait::Room;
        }
        if self.cursor.is_closing() {
            return self.end();
        }
        self.begin_flushes(now);
        Wait::Records(self.next_due(now))
    }

    /// Takes in everything that is waiting. Returns false when there is no room for it.
    fn take_in(&mut self, now: Duration) -> bool {
        loop {
            if self.head.is_full() && !self.seal() {
                return self.record_full(true);
            }
            let (delivery, from) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.cursor.take_blocking(|_| false) {
                    Some(delivery) => (delivery, 0),
                    None => break,
                },
            };
            let source = delivery.batch.header().source;
            let cursor = &self.cursor;
            let name = self
                .sources
                .entry(source)
                .or_insert_with(|| cursor.source_name(source).unwrap_or_default());
            let pushed = self.head.push(&delivery, from, name, now);
            *self.shared.counts.unparsed.lock().unwrap_or_else(PoisonError::into_inner) =
                self.head.unparsed();
            match pushed {
                Ok(skipped) => {
                    let counts = &self.shared.counts;
                    counts.received_rows.fetch_add(delivery.record_count, Ordering::Relaxed);
                    counts.skipped_rows.fetch_add(skipped, Ordering::Relaxed);
                    self.cursor.hold(&delivery, self.head.hold(now));
                }
                Err((ChunkFull, at)) => {
                    self.rest = Some((delivery, at));
                    if !self.seal() {
                        return self.record_full(true);
                    }
                }
            }
        }
        self.record_full(false);
        true
    }

    /// Records whether the head is full; returns true when it is not.
    fn record_full(&self, is_full: bool) -> bool {
        self.shared.counts.is_full.store(u64::from(is_full), Ordering::Relaxed);
        !is_full
    }

    /// Hands the chunk over to be flushed. Returns false while the previous one is being flushed.
    fn seal(&mut self) -> bool {
        if self.head.begun().is_none() {
            return true;
        }
        let spare = self.shared.queue().spare.take().filter(|_| self.head.is_full());
        let next = Arc::new(HeadChunk::new(spare.unwrap_or_default()));
        let mut queue = self.shared.queue();
        if queue.is_flushing {
            return false;
        }
        self.flushes_begun = queue.flushes_wanted;
        self.shared.catalog().chunks.push(next.clone());
        queue.sealed = Some(self.head.seal(next));
        queue.is_flushing = true;
        drop(queue);
        self.shared.work.notify_one();
        true
    }

    fn begin_flushes(&mut self, now: Duration) {
        let is_wanted = self.shared.queue().flushes_wanted > self.flushes_begun;
        let is_old =
            self.head.begun().is_some_and(|at| now >= at + self.shared.config.flush_interval);
        let is_hinted = self.settle_at.is_some_and(|at| now >= at);
        if !(is_wanted || is_old || is_hinted) || !self.seal() {
            return;
        }
        if is_hinted {
            self.settle_at = None;
            self.hinted_at = Some(now);
        }
        if is_wanted {
            // The requests are served once this chunk is stored; everything else is stored already.
            self.flushes_begun = self.shared.queue().flushes_wanted;
            self.serve_flushes();
        }
    }

    /// Notifies the requesters of flushes once everything before their request is stored.
    fn serve_flushes(&self) {
        let mut queue = self.shared.queue();
        if !queue.is_flushing {
            queue.flushes_served = queue.flushes_served.max(self.flushes_begun);
            self.shared.served.notify_all();
            if !queue.deletions.is_empty() {
                self.shared.work.notify_one();
            }
        }
    }

    /// Records when the store has caught up: queries see every record that the journal and the
    /// sources had when weir started. Precisely, what the journal had kept for the store, and of
    /// each file that was found at the start and can be read, what was in it then; not what arrived
    /// later, so it ends under any traffic with which the store keeps up, or falls behind.
    fn check_caught_up(&mut self) {
        let unfinished = self.rest.as_ref().map(|(delivery, _)| delivery);
        if self.is_catching_up && self.cursor.has_taken_backlog(unfinished) {
            self.is_catching_up = false;
            self.shared.catalog().is_catching_up = false;
        }
    }

    /// Returns how long there is nothing to do unless something arrives.
    fn next_due(&self, now: Duration) -> Option<Duration> {
        // While a chunk is being flushed, its completion is what to wait for.
        let may_seal = !self.shared.queue().is_flushing;
        let old = self.head.begun().map(|at| at + self.shared.config.flush_interval);
        let seal = [old, self.settle_at].into_iter().flatten().min().filter(|_| may_seal);
        let check = self.is_catching_up.then_some(now + CATCH_UP_INTERVAL);
        let due = [seal, check].into_iter().flatten().min();
        due.map(|at| at.saturating_sub(now))
    }

    /// Stores what is left, because no more records will come.
    fn end(&mut self) -> Wait {
        if self.head.begun().is_some() && !self.seal() {
            return Wait::Room;
        }
        let queue = self.shared.queue();
        let is_done = !queue.is_flushing && queue.stored.is_empty();
        if is_done { Wait::Ended } else { Wait::Room }
    }

    async fn run(mut self) {
        loop {
            let wait = self.step();
            publish_cpu(&self.shared.counts.intake_cpu_ns);
            if wait == Wait::Ended || self.shared.queue().is_given_up {
                break;
            }
            let shared = self.shared.clone();
            let progress = shared.progress.notified();
            match wait {
                Wait::Records(due) => {
                    let due = due.unwrap_or(Duration::from_hours(1));
                    tokio::select! {
                        () = progress => {}
                        () = self.cursor.ready(INTAKE_BYTES_MIN, INTAKE_AGE_MAX) => {}
                        () = tokio::time::sleep(due) => {}
                    }
                }
                _ => progress.await,
            }
        }
        self.shared.queue().has_ended = true;
        self.shared.served.notify_all();
        self.shared.work.notify_one();
    }
}

/// The running threads.
#[derive(Debug)]
pub(crate) struct Threads {
    shared: Arc<StoreState>,
    intake: JoinHandle<()>,
    flusher: JoinHandle<()>,
}

pub(crate) fn spawn(intake: IntakeWorker, flusher: Flusher) -> io::Result<Threads> {
    let shared = intake.shared.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let intake = named("store").spawn(move || runtime.block_on(intake.run()))?;
    let flusher = named("store-flush").spawn(move || run_flusher(flusher))?;
    Ok(Threads { shared, intake, flusher })
}

fn run_flusher(mut flusher: Flusher) {
    let shared = flusher.shared.clone();
    loop {
        let step = flusher.step();
        publish_cpu(&shared.counts.flush_cpu_ns);
        let mut queue = shared.queue();
        let has_work = queue.has_work();
        if queue.is_given_up || (queue.has_ended && !has_work) {
            // Their requesters are notified.
            queue.deletions.clear();
            queue.cancels.clear();
            drop(queue);
            // Remove obsolete files, so that no record is counted twice in the files of a stopped
            // store.
            flusher.collect_obsolete();
            return;
        }
        let pause = match step {
            Step::Worked => continue,
            Step::Idle if has_work => continue,
            Step::Failed(_) if flusher.can_cancel(&queue) => continue,
            Step::Idle => super::flusher::IDLE_INTERVAL,
            Step::Failed(pause) => pause,
        };
        let waited = shared.work.wait_timeout(queue, pause);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Threads {
    /// Stops the threads; what cannot be stored within the deadline is left in the journal.
    pub(crate) fn stop(&self, deadline: Duration) {
        let shared = self.shared.clone();
        let watch = move || {
            let queue = shared.queue();
            let waited =
                shared.served.wait_timeout_while(queue, deadline, |queue| !queue.has_ended);
            let (mut queue, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            if !queue.has_ended {
                tracing::warn!("store not flushed in time; remaining records are sent again");
            }
            queue.is_given_up = true;
            drop(queue);
            shared.progress.notify_one();
            shared.work.notify_one();
        };
        let watcher = std::thread::Builder::new().name("store-stop".to_owned()).spawn(watch);
        if let Err(error) = watcher {
            tracing::error!(%error, "store stops without a deadline");
        }
    }

    /// Waits for both threads. Returns false when one panicked.
    pub(crate) fn join(self) -> bool {
        let intake = self.intake.join().is_ok();
        // If a thread panicked, the other one must still learn that it has ended.
        self.shared.queue().has_ended = true;
        self.shared.served.notify_all();
        self.shared.work.notify_one();
        self.flusher.join().is_ok() && intake
    }
}
