//! The threads on which outputs run: a few event loops, each with any number of outputs.
//!
//! Invariants: an output is one task and stays on the thread that it was started on; it must not
//! block, so blocking disk work goes to [`Devices`](super::devices::Devices), and an output that
//! cannot avoid blocking has a thread of its own. A panic of an output ends that output
//! and no other. The CPU time of an output is that of its polls and of its work for disks.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::LocalSet;
use weir_host::process::thread_cpu_ns;
use weir_model::limits::CURSORS_MAX;

use crate::stats::{OutputStats, add};

/// Minimum and maximum of the number of threads; between them, one per processor.
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;
/// Creates the future of an output on the thread that will run it.
type Start = Box<dyn FnOnce() -> LocalFuture + Send>;

/// The event loops of a pipeline. They are started when they are needed, and end with the last
/// output that uses them. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputThreads(Arc<Mutex<Vec<EventLoop>>>);

#[derive(Debug)]
struct EventLoop {
    starts: Sender<Start>,
    /// Number of outputs on it.
    load: Arc<AtomicUsize>,
}

/// The end of an output's task.
#[derive(Debug)]
pub(super) struct Ended(mpsc::Receiver<bool>);

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It returned.
    Returned,
    /// It panicked.
    Panicked,
    /// It still runs.
    Not,
}

impl Ended {
    /// Waits for the end, for at most that long.
    pub(super) fn wait(&self, limit: Option<Duration>) -> End {
        let received = match limit {
            Some(limit) => self.0.recv_timeout(limit),
            None => self.0.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(true) => End::Returned,
            Ok(false) | Err(RecvTimeoutError::Disconnected) => End::Panicked,
            Err(RecvTimeoutError::Timeout) => End::Not,
        }
    }
}

impl OutputThreads {
    /// Runs an output on the event loop with the fewest outputs.
    pub(super) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        stats: Arc<OutputStats>,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Ended> {
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let threads_max = std::thread::available_parallelism().map_or(1, usize::from);
        let threads_max = threads_max.clamp(THREADS_MIN, THREADS_MAX);
        let load = |event_loop: &EventLoop| event_loop.load.load(Ordering::Relaxed);
        let lightest = loops.iter().map(load).min();
        if lightest.is_none_or(|load| load > 0) && loops.len() < threads_max {
            let number = loops.len();
            loops.push(EventLoop::start(format!("outputs:{number}"))?);
        }
        let Some(event_loop) = loops.iter().min_by_key(|event_loop| load(event_loop)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        event_loop.spawn(stats, start)
    }

    /// Runs an output that may block on a thread of its own.
    pub(super) fn spawn_alone<F: Future<Output = ()> + 'static>(
        name: &str,
        stats: Arc<OutputStats>,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Ended> {
        EventLoop::start(format!("output:{name}"))?.spawn(stats, start)
    }
}

impl EventLoop {
    fn start(name: String) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (starts, receiver) = channel(CURSORS_MAX);
        std::thread::Builder::new().name(name).spawn(move || {
            LocalSet::new().block_on(&runtime, run_all(receiver));
        })?;
        Ok(Self { starts, load: Arc::default() })
    }

    fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        stats: Arc<OutputStats>,
        start: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Ended> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let load = self.load.clone();
        load.fetch_add(1, Ordering::Relaxed);
        let start = move || {
            Box::pin(async move {
                let output = Metered { future: Box::pin(start()), stats };
                let has_returned = tokio::task::spawn_local(output).await.is_ok();
                load.fetch_sub(1, Ordering::Relaxed);
                // The caller may not wait for it.
                let _waited_for = sender.send(has_returned);
            }) as LocalFuture
        };
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.starts.try_send(Box::new(start)).map_err(gone)?;
        Ok(Ended(receiver))
    }
}

/// Starts outputs as they arrive, until the channel is closed and all have ended.
async fn run_all(mut starts: Receiver<Start>) {
    let mut running = tokio::task::JoinSet::new();
    while let Some(start) = starts.recv().await {
        while running.try_join_next().is_some() {}
        running.spawn_local(start());
    }
    while running.join_next().await.is_some() {}
}

/// A future whose CPU time is counted.
pub(crate) struct Metered<F> {
    future: Pin<Box<F>>,
    stats: Arc<OutputStats>,
}

impl<F> Metered<F> {
    pub(crate) fn new(future: F, stats: Arc<OutputStats>) -> Self {
        Self { future: Box::pin(future), stats }
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_cpu_ns();
        let result = self.future.as_mut().poll(context);
        add(&self.stats.cpu_ns, thread_cpu_ns().saturating_sub(before));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_share_a_bounded_number_of_threads_and_a_panic_ends_one_of_them() {
        let threads = OutputThreads::default();
        let stats = || Arc::new(OutputStats::default());
        let (sender, receiver) = mpsc::sync_channel(100);
        let ends: Vec<Ended> = (0..100)
            .map(|number| {
                let sender = sender.clone();
                let output = move || async move {
                    tokio::task::yield_now().await;
                    assert!(number != 50, "this one fails");
                    sender.send(std::thread::current().id()).unwrap();
                };
                threads.spawn(stats(), output).unwrap()
            })
            .collect();
        drop(sender);
        let ended = ends.iter().map(|ended| ended.wait(None));
        assert_eq!(ended.filter(|end| *end == End::Panicked).count(), 1);
        let on: std::collections::HashSet<_> = receiver.iter().collect();
        assert!(on.len() <= THREADS_MAX, "{} threads", on.len());
    }
}
