//! Admission of queries, that is, which queries run, in what order, and which are rejected:
//! adaptive LIFO with controlled delay (Nichols and Jacobson, "Controlling queue delay", ACM Queue
//! 10(5), 2012, in the form that Maurer gives for servers, "Fail at scale", ACM Queue 13(8), 2015).
//!
//! While the queue is empty from time to time, queries run in the order of their arrival. Once it
//! has not been empty for [`QueryLimits::wait_max`], there is overload: then the newest query runs
//! first, since its sender is still waiting, and queries that have waited longer than
//! [`QueryLimits::wait_target`] are rejected at once.
//!
//! Invariants: at most [`QueryLimits::workers`] queries run and [`QueryLimits::waiting_max`] wait;
//! none runs on the API's own thread; a query whose sender has left does not start, or stops soon
//! after it has started; every query is counted once.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_host::Clock;
use weir_store::query::{Budget, StopReason};

use super::limits::{QueryLimits, STOP_MAX};
use super::metrics::{Outcome, QueryKind, QueryMetrics};

/// Why a query was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Too many queries are waiting; retry after this many seconds.
    Full(u64),
    /// It waited too long; retry after this many seconds.
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

type Run = Box<dyn FnOnce(Duration) + Send>;

struct Job {
    kind: QueryKind,
    since: Duration,
    cancelled: Arc<AtomicBool>,
    run: Run,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    running: usize,
    /// Since when the queue has not been empty.
    standing_since: Option<Duration>,
    is_stopped: bool,
}

struct Inner {
    clock: Arc<dyn Clock>,
    limits: QueryLimits,
    queue: Mutex<Queue>,
    changed: Condvar,
    metrics: QueryMetrics,
}

/// The workers and their queue.
pub(crate) struct Admission {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        let queue = Mutex::default();
        let (changed, metrics) = (Condvar::new(), QueryMetrics::default());
        let inner = Arc::new(Inner { clock, limits, queue, changed, metrics });
        Self { inner, threads: Mutex::default() }
    }

    /// Starts the workers unless they are running.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        while threads.len() < self.inner.limits.workers {
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
        let is_busy = |queue: &mut Queue| queue.running > 0;
        let changed = &self.inner.changed;
        let waited = changed.wait_timeout_while(queue, STOP_MAX, is_busy);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let running = queue.running;
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

    /// Returns the number of queries that run, and that wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.inner.queue();
        (queue.running, queue.waiting.len())
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
        let run = Box::new(move |waited: Duration| {
            // The sender may have left.
            let _disconnected = sender.send(inner.execute(kind, waited, &budget, work));
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
            Ok(answer) => answer.ok_or(Rejection::Failed),
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
    fn next(&self, queue: &mut Queue) -> Option<(Job, Duration)> {
        let now = self.clock.monotonic();
        self.drop_late(queue, now);
        let is_standing = self.is_standing(queue, now);
        let job = if is_standing { queue.waiting.pop_back() } else { queue.waiting.pop_front() };
        if queue.waiting.is_empty() {
            queue.standing_since = None;
        }
        job.map(|job| {
            let waited = now.saturating_sub(job.since);
            (job, waited)
        })
    }

    fn work(&self) {
        let mut queue = self.queue();
        while !queue.is_stopped {
            let Some((job, waited)) = self.next(&mut queue) else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.running += 1;
            drop(queue);
            (job.run)(waited);
            queue = self.queue();
            queue.running -= 1;
            if queue.is_stopped {
                self.changed.notify_all();
            }
        }
        queue.waiting.clear();
    }

    /// Does the work and counts it. Returns `None` if it panicked.
    fn execute<T>(
        &self,
        kind: QueryKind,
        waited: Duration,
        budget: &Budget,
        work: impl FnOnce(&Budget) -> (T, AnswerStatus),
    ) -> Option<T> {
        self.metrics.queueing.observe(waited);
        let started = self.clock.monotonic();
        let answer = catch_unwind(AssertUnwindSafe(|| work(budget)));
        self.metrics.service.observe(self.clock.monotonic().saturating_sub(started));
        let outcome = match &answer {
            _ if budget.check() == Err(StopReason::Cancelled) => Outcome::Cancelled,
            Ok((_, AnswerStatus::Complete)) => Outcome::Complete,
            Ok((_, AnswerStatus::Partial)) => Outcome::Partial,
            Ok((_, AnswerStatus::Failed)) | Err(_) => Outcome::Failed,
        };
        self.metrics.count(kind, outcome);
        answer.ok().map(|(answer, _)| answer)
    }

    /// Estimates when the queue will be empty.
    fn retry_seconds(&self) -> u64 {
        let waiting = self.queue().waiting.len();
        let service = self.metrics.service.mean().unwrap_or_default();
        let wait = service.mul_f64(waiting as f64 / self.limits.workers as f64);
        wait.as_secs().clamp(1, 60)
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::FakeClock;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A queue with a simulated clock and without workers: the wait is at most 1 s, or 100 ms under
    /// overload, and at most four queries wait.
    fn queue() -> (Inner, Arc<FakeClock>) {
        let clock = Arc::new(FakeClock::at(0));
        let limits = QueryLimits { waiting_max: 4, ..QueryLimits::default() };
        let admission = Admission::new(limits, clock.clone());
        (Arc::into_inner(admission.inner).unwrap(), clock)
    }

    fn job(inner: &Inner, number: u64, log: &Arc<Mutex<Vec<u64>>>) -> Job {
        let log = Arc::clone(log);
        let run = Box::new(move |_: Duration| log.lock().unwrap().push(number));
        let since = inner.clock.monotonic();
        Job { kind: QueryKind::Search, since, cancelled: Arc::default(), run }
    }

    /// Runs the next query.
    fn run_next(inner: &Inner) -> bool {
        match inner.next(&mut inner.queue()) {
            Some((job, waited)) => {
                (job.run)(waited);
                true
            }
            None => false,
        }
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
