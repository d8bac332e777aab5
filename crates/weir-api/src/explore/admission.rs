//! Admission of queries, that is, which queries run, in what order, and which are rejected:
//! adaptive LIFO with controlled delay (Nichols and Jacobson, "Controlling queue delay", ACM Queue
//! 10(5), 2012, in the form that Maurer gives for servers, "Fail at scale", ACM Queue 13(8), 2015).
//!
//! While the queue is empty from time to time, queries run in the order of their arrival. Once it
//! has not been empty for [`QueryLimits::wait_max`], there is overload: then the newest query runs
//! first, since its sender is still waiting, and queries that have waited longer than
//! [`QueryLimits::wait_target`] are rejected at once.
//!
//! A query that has run for long makes room for others, as [`Slots`] decides.
//!
//! Invariants: at most [`QueryLimits::workers`] queries run and [`QueryLimits::waiting_max`] wait;
//! paused queries keep at most [`QueryLimits::paused_bytes_max`]; none runs on the API's own
//! thread; a query whose sender has left does not start, or stops soon after it has started; every
//! query is counted once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_host::Clock;
use weir_store::query::{Budget, StopReason, Turns};

use super::limits::{PAUSE_CHECK, QueryLimits, SHORT_QUERY_TIME_MAX, STOP_MAX};
use super::metrics::{Outcome, QueryKind, QueryMetrics};
use super::slots::{QueryState, Slots, Ticket};

/// Why a query was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Too many queries are waiting; retry after this many seconds.
    Full(u64),
    /// It waited too long, or too many others need as long as it; retry after this many seconds.
    Late(u64),
    /// The worker panicked.
    Failed,
}

/// The outcome that an answer reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStatus {
    /// The answer is complete.
    Complete,
    /// The answer is partial.
    Partial,
    /// The answer is an error.
    Failed,
}

type Run = Box<dyn FnOnce(Turn) + Send>;

struct Job {
    kind: QueryKind,
    since: Duration,
    cancelled: Arc<AtomicBool>,
    run: Run,
}

struct Queue {
    waiting: VecDeque<Job>,
    slots: Slots,
    /// Memory of paused queries.
    paused_bytes: usize,
    /// Since when the queue has not been empty.
    standing_since: Option<Duration>,
    is_stopped: bool,
}

struct Inner {
    clock: Arc<dyn Clock>,
    limits: QueryLimits,
    queue: Mutex<Queue>,
    /// Queries wait, or weir stops.
    changed: Condvar,
    /// Paused queries may continue.
    resumed: Condvar,
    metrics: QueryMetrics,
}

/// Numbers of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryLoad {
    /// Queries that have a slot.
    pub(crate) running: usize,
    /// Long queries that make room for others.
    pub(crate) paused: usize,
    /// Queries that have not started.
    pub(crate) waiting: usize,
}

/// The workers and their queue.
pub(crate) struct Admission {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}

/// Tells a query, when dropped, that its sender has left.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Admission {
    /// Creates the queue without workers; they start with [`Self::start`].
    pub(crate) fn new(limits: QueryLimits, clock: Arc<dyn Clock>) -> Self {
        let queue = Mutex::new(Queue {
            waiting: VecDeque::new(),
            slots: Slots::new(limits.workers),
            paused_bytes: 0,
            standing_since: None,
            is_stopped: false,
        });
        let (changed, resumed) = (Condvar::new(), Condvar::new());
        let metrics = QueryMetrics::default();
        let inner = Arc::new(Inner { clock, limits, queue, changed, resumed, metrics });
        Self { inner, threads: Mutex::default() }
    }

    /// Starts the workers unless they are running.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.inner.queue().slots.threads();
        while threads.len() < count {
            let inner = Arc::clone(&self.inner);
            let name = format!("weir-query-{}", threads.len());
            threads.push(std::thread::Builder::new().name(name).spawn(move || inner.work())?);
        }
        Ok(())
    }

    /// Stops the workers, each after its current query, which is cancelled. A worker that does not
    /// stop in time is left behind: the process ends without it.
    pub(crate) fn stop(&self) {
        let mut queue = self.inner.queue();
        queue.is_stopped = true;
        self.inner.changed.notify_all();
        self.inner.resumed.notify_all();
        let is_busy = |queue: &mut Queue| queue.slots.started() > 0;
        let changed = &self.inner.changed;
        let waited = changed.wait_timeout_while(queue, STOP_MAX, is_busy);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let running = queue.slots.started();
        drop(queue);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if running > 0 {
            tracing::error!(running, "queries that did not stop are abandoned");
            return threads.clear();
        }
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker of the API panicked");
            }
        }
    }

    /// Returns the statistics so far.
    pub(crate) fn metrics(&self) -> &QueryMetrics {
        &self.inner.metrics
    }

    /// Returns the number of queries now.
    pub(crate) fn load(&self) -> QueryLoad {
        let queue = self.inner.queue();
        let paused = queue.slots.paused();
        let running = queue.slots.started() - paused;
        QueryLoad { running, paused, waiting: queue.waiting.len() }
    }

    /// Runs `work` on a worker, with at most `time` from now on (`None` means no limit) and the
    /// memory limit of a query. Dropping the returned future cancels the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        kind: QueryKind,
        time: Option<Duration>,
        work: impl FnOnce(&Budget) -> (T, AnswerStatus) + Send + 'static,
    ) -> Result<T, Rejection> {
        let (sender, mut receiver) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        let budget = Budget::new(inner.clock.clone(), time, inner.limits.query_bytes_max);
        let cancelled = budget.cancelled();
        let run = Box::new(move |turn: Turn| {
            // The sender may have left.
            let _disconnected = sender.send(inner.execute(turn, budget, work));
        });
        let since = self.inner.clock.monotonic();
        let guard = CancelOnDrop(Arc::clone(&cancelled));
        if !self.inner.enqueue(Job { kind, since, cancelled, run }) {
            self.inner.metrics.count(kind, Outcome::RefusedFull);
            return Err(Rejection::Full(self.inner.retry_seconds()));
        }
        let answer = loop {
            tokio::select! {
                answer = &mut receiver => break answer,
                // Workers that are busy for long do not check the queue.
                () = tokio::time::sleep(self.inner.limits.wait_max) => self.inner.expire(),
            }
        };
        drop(guard);
        match answer {
            Ok(answer) => answer,
            Err(_) => Err(Rejection::Late(self.inner.retry_seconds())),
        }
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns false if the queue is full.
    fn enqueue(&self, job: Job) -> bool {
        let now = self.clock.monotonic();
        let mut queue = self.queue();
        self.drop_late(&mut queue, now);
        if queue.is_stopped || queue.waiting.len() >= self.limits.waiting_max {
            return false;
        }
        queue.waiting.push_back(job);
        queue.standing_since.get_or_insert(now);
        drop(queue);
        self.changed.notify_one();
        true
    }

    fn is_standing(&self, queue: &Queue, now: Duration) -> bool {
        queue.standing_since.is_some_and(|since| since + self.limits.wait_max <= now)
    }

    /// Removes queries whose senders have left, and those that have waited too long, which learn it
    /// because their channel is dropped.
    fn drop_late(&self, queue: &mut Queue, now: Duration) {
        let is_standing = self.is_standing(queue, now);
        let wait = if is_standing { self.limits.wait_target() } else { self.limits.wait_max };
        queue.waiting.retain(|job| {
            let outcome = match () {
                () if job.cancelled.load(Ordering::Relaxed) => Outcome::Cancelled,
                () if job.since + wait < now => Outcome::RefusedLate,
                () => return true,
            };
            self.metrics.count(job.kind, outcome);
            false
        });
    }

    fn expire(&self) {
        let now = self.clock.monotonic();
        self.drop_late(&mut self.queue(), now);
    }

    /// Takes the next query.
    fn next(self: &Arc<Self>, queue: &mut Queue) -> Option<(Job, Turn)> {
        let now = self.clock.monotonic();
        self.drop_late(queue, now);
        if !queue.slots.has_room() {
            return None;
        }
        let is_standing = self.is_standing(queue, now);
        let job = if is_standing { queue.waiting.pop_back() } else { queue.waiting.pop_front() };
        if queue.waiting.is_empty() {
            queue.standing_since = None;
        }
        job.map(|job| {
            let ticket = queue.slots.start();
            let waited = Mutex::new(now.saturating_sub(job.since));
            let turn = Turn {
                inner: self.clone(),
                kind: job.kind,
                ticket,
                started: now,
                waited,
                is_refused: AtomicBool::new(false),
            };
            (job, turn)
        })
    }

    fn work(self: &Arc<Self>) {
        let mut queue = self.queue();
        while !queue.is_stopped {
            let Some((job, turn)) = self.next(&mut queue) else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let ticket = turn.ticket;
            drop(queue);
            (job.run)(turn);
            queue = self.queue();
            self.end(&mut queue, ticket);
        }
        queue.waiting.clear();
    }

    /// Ends a query: its slot is for another.
    fn end(&self, queue: &mut Queue, ticket: Ticket) {
        if queue.slots.end(ticket) {
            self.resumed.notify_all();
        }
        if queue.is_stopped {
            self.changed.notify_all();
        }
    }

    /// Does the work and counts it.
    ///
    /// # Errors
    /// It panicked, or could not continue.
    fn execute<T>(
        &self,
        turn: Turn,
        budget: Budget,
        work: impl FnOnce(&Budget) -> (T, AnswerStatus),
    ) -> Result<T, Rejection> {
        let turn = Arc::new(turn);
        let waited_before_start = turn.waited();
        let budget = budget.with_turns(turn.clone());
        let answer = catch_unwind(AssertUnwindSafe(|| work(&budget)));
        let waited = turn.waited();
        let total = self.clock.monotonic().saturating_sub(turn.started) + waited_before_start;
        self.metrics.queueing.observe(waited);
        self.metrics.service.observe(total.saturating_sub(waited));
        let outcome = match &answer {
            _ if turn.is_refused.load(Ordering::Relaxed) => Outcome::RefusedLate,
            _ if budget.check_limits() == Err(StopReason::Cancelled) => Outcome::Cancelled,
            Ok((_, AnswerStatus::Complete)) => Outcome::Complete,
            Ok((_, AnswerStatus::Partial)) => Outcome::Partial,
            Ok((_, AnswerStatus::Failed)) | Err(_) => Outcome::Failed,
        };
        self.metrics.count(turn.kind, outcome);
        if outcome == Outcome::RefusedLate {
            return Err(Rejection::Late(self.retry_seconds()));
        }
        answer.map(|(answer, _)| answer).map_err(|_| Rejection::Failed)
    }

    /// Estimates when the queue will be empty.
    fn retry_seconds(&self) -> u64 {
        let waiting = self.queue().waiting.len();
        let service = self.metrics.service.mean().unwrap_or_default();
        let wait = service.mul_f64(waiting as f64 / self.limits.workers as f64);
        wait.as_secs().clamp(1, 60)
    }
}

/// A running query's claim to a slot.
struct Turn {
    inner: Arc<Inner>,
    kind: QueryKind,
    ticket: Ticket,
    /// On the monotonic clock.
    started: Duration,
    /// How long it has waited, before its start and paused.
    waited: Mutex<Duration>,
    /// It has ended because others wait for its slot, and it could not be paused.
    is_refused: AtomicBool,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl Turn {
    fn waited(&self) -> Duration {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a slot is free, or the query must end.
    fn pause(&self, mut queue: MutexGuard<'_, Queue>, budget: &Budget, bytes: usize) {
        queue.paused_bytes += bytes;
        self.inner.changed.notify_one();
        while queue.slots.state(self.ticket) == Some(QueryState::Paused) {
            if queue.is_stopped || budget.check_limits().is_err() {
                queue.slots.resume(self.ticket);
                break;
            }
            let resumed = self.inner.resumed.wait_timeout(queue, PAUSE_CHECK);
            (queue, _) = resumed.unwrap_or_else(PoisonError::into_inner);
        }
        queue.paused_bytes -= bytes;
    }
}

impl Turns for Turn {
    fn wait(&self, budget: &Budget) -> Result<(), StopReason> {
        let inner = &self.inner;
        let now = inner.clock.monotonic();
        if now.saturating_sub(self.started) < SHORT_QUERY_TIME_MAX {
            return Ok(());
        }
        // While it is paused, the other threads of the query wait for this lock.
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = inner.queue();
        let bytes = inner.limits.query_bytes_max - budget.memory_left_bytes();
        let may_pause =
            !queue.is_stopped && queue.paused_bytes + bytes <= inner.limits.paused_bytes_max();
        match queue.slots.lengthen(self.ticket, may_pause) {
            Some(QueryState::Paused) => {
                let since = inner.clock.monotonic();
                self.pause(queue, budget, bytes);
                *waited += inner.clock.monotonic().saturating_sub(since);
            }
            // The parts of an export that were sent are of no use without the others.
            Some(QueryState::Short)
                if !queue.waiting.is_empty() && self.kind != QueryKind::Export =>
            {
                self.is_refused.store(true, Ordering::Relaxed);
                return Err(StopReason::Cancelled);
            }
            Some(QueryState::Short | QueryState::Long) | None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::FakeClock;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A queue with a simulated clock and without workers: the wait is at most 1 s, or 100 ms under
    /// overload, and at most four queries wait.
    fn queue() -> (Arc<Inner>, Arc<FakeClock>) {
        let clock = Arc::new(FakeClock::at(0));
        let limits = QueryLimits { waiting_max: 4, ..QueryLimits::default() };
        let admission = Admission::new(limits, clock.clone());
        (admission.inner, clock)
    }

    fn job(inner: &Inner, number: u64, log: &Arc<Mutex<Vec<u64>>>) -> Job {
        let log = Arc::clone(log);
        let run = Box::new(move |_: Turn| log.lock().unwrap().push(number));
        let since = inner.clock.monotonic();
        Job { kind: QueryKind::Search, since, cancelled: Arc::default(), run }
    }

    /// Runs the next query.
    fn run_next(inner: &Arc<Inner>) -> bool {
        let Some((job, turn)) = inner.next(&mut inner.queue()) else { return false };
        let ticket = turn.ticket;
        (job.run)(turn);
        inner.end(&mut inner.queue(), ticket);
        true
    }

    #[test]
    fn queue_is_fifo_and_under_overload_lifo() {
        let (inner, clock) = queue();
        let log = Arc::default();
        for number in 0..3 {
            assert!(inner.enqueue(job(&inner, number, &log)));
        }
        clock.advance(500 * MS);
        assert!(run_next(&inner) && run_next(&inner));
        assert_eq!(*log.lock().unwrap(), [0, 1]);
        // The queue was never empty: after a second there is overload.
        clock.advance(450 * MS);
        for number in [3, 4] {
            assert!(inner.enqueue(job(&inner, number, &log)));
        }
        clock.advance(60 * MS);
        assert!(run_next(&inner));
        assert_eq!(*log.lock().unwrap(), [0, 1, 4], "newest first");
        assert_eq!(inner.metrics.outcomes(QueryKind::Search, Outcome::RefusedLate), 1, "number 2");
        assert!(run_next(&inner) && !run_next(&inner));
        // Empty once: overload ends.
        for number in [5, 6] {
            assert!(inner.enqueue(job(&inner, number, &log)));
        }
        clock.advance(900 * MS);
        assert!(run_next(&inner));
        assert_eq!(*log.lock().unwrap(), [0, 1, 4, 3, 5]);
    }

    #[test]
    fn full_queue_rejects_until_late_queries_expire() {
        let (inner, clock) = queue();
        let log = Arc::default();
        for number in 0..4 {
            assert!(inner.enqueue(job(&inner, number, &log)));
        }
        assert!(!inner.enqueue(job(&inner, 4, &log)));
        clock.advance(1001 * MS);
        assert!(inner.enqueue(job(&inner, 5, &log)));
        assert_eq!(inner.metrics.outcomes(QueryKind::Search, Outcome::RefusedLate), 4);
    }

    #[test]
    fn cancelled_query_does_not_start() {
        let (inner, _clock) = queue();
        let log = Arc::default();
        let left = job(&inner, 0, &log);
        let cancelled = Arc::clone(&left.cancelled);
        assert!(inner.enqueue(left) && inner.enqueue(job(&inner, 1, &log)));
        drop(CancelOnDrop(cancelled));
        assert!(run_next(&inner) && !run_next(&inner));
        assert_eq!(*log.lock().unwrap(), [1]);
        assert_eq!(inner.metrics.outcomes(QueryKind::Search, Outcome::Cancelled), 1);
    }
}
