//! Runs the blocking disk work of outputs, on a few threads for each device.
//!
//! Invariants: a device has at most [`WORKERS_MAX`] threads, whatever the number of outputs, so one
//! that hangs delays the outputs that write to it and no other; flushes of many files that run at
//! the same time share the commits of the file system's journal. Threads without work end.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_host::process::thread_cpu_ns;

use crate::stats::{OutputStats, add};

/// Number of threads per device: enough for a disk to combine flushes, few enough that their memory
/// does not matter.
const WORKERS_MAX: usize = 8;
/// How long a thread waits for further work.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The devices that outputs write to. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Devices(Arc<Mutex<HashMap<u64, Device>>>);

/// A device. Clones share its threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Device(Arc<DeviceQueue>);

#[derive(Debug, Default)]
struct DeviceQueue {
    queue: Mutex<Queue>,
    has_work: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    workers: usize,
    idle: usize,
}

impl Devices {
    /// Returns the device of a path, or of the directory in which it will be created.
    pub(crate) fn of(&self, path: &Path) -> Device {
        let id = path.ancestors().find_map(|at| std::fs::metadata(at).ok()).map(|meta| meta.dev());
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        devices.entry(id.unwrap_or_default()).or_default().clone()
    }
}

impl Device {
    /// Runs work that may wait for the device, and counts its CPU time. If the returned future is
    /// dropped, the work is done nevertheless, and its result is lost.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        stats: &Arc<OutputStats>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (sender, receiver) = oneshot::channel();
        let stats = stats.clone();
        self.begin(Box::new(move || {
            let before = thread_cpu_ns();
            let result = catch_unwind(AssertUnwindSafe(work));
            add(&stats.cpu_ns, thread_cpu_ns().saturating_sub(before));
            // The caller may no longer wait for it.
            let _waited_for = sender.send(result);
        }));
        match receiver.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            // Does not happen: a thread ends only after all its work is done.
            Err(_) => std::future::pending().await,
        }
    }

    fn begin(&self, work: Work) {
        let mut queue = self.0.lock();
        queue.waiting.push_back(work);
        if queue.idle >= queue.waiting.len() {
            self.0.has_work.notify_one();
        } else if queue.workers < WORKERS_MAX {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("output-disk".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(_) => queue.workers += 1,
                // The other threads do the work.
                Err(_) if queue.workers > 0 => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot start a thread: an output blocks other outputs");
                    let work = queue.waiting.pop_back();
                    drop(queue);
                    if let Some(work) = work {
                        work();
                    }
                }
            }
        }
    }
}

impl DeviceQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does queued work, until there has been none for a while.
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                drop(queue);
                work();
                queue = self.lock();
                continue;
            }
            queue.idle += 1;
            let waited = self.has_work.wait_timeout(queue, IDLE_MAX);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = next;
            queue.idle -= 1;
            if timeout.timed_out() && queue.waiting.is_empty() {
                queue.workers -= 1;
                return;
            }
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("workers", &self.workers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn many_pieces_of_work_share_a_few_threads() {
        let (device, stats) = (Device::default(), Arc::new(OutputStats::default()));
        let (sender, receiver) = mpsc::sync_channel(1000);
        let mut pieces = tokio::task::JoinSet::new();
        for number in 0..1000 {
            let (device, stats, sender) = (device.clone(), stats.clone(), sender.clone());
            pieces.spawn(async move {
                let work = move || {
                    sender.send(std::thread::current().id()).unwrap();
                    number
                };
                assert_eq!(device.run(&stats, work).await, number);
            });
        }
        pieces.join_all().await;
        drop(sender);
        let threads: HashSet<_> = receiver.iter().collect();
        assert!((1..=WORKERS_MAX).contains(&threads.len()), "{}", threads.len());
    }

    #[tokio::test]
    async fn a_device_that_hangs_delays_no_other() {
        let devices = [Device::default(), Device::default()];
        let stats = Arc::new(OutputStats::default());
        let (release, hangs) = mpsc::sync_channel::<()>(0);
        let hangs = Arc::new(Mutex::new(hangs));
        let stuck: Vec<_> = (0..20)
            .map(|_| {
                let (device, stats, hangs) = (devices[0].clone(), stats.clone(), hangs.clone());
                tokio::spawn(async move {
                    device.run(&stats, move || hangs.lock().unwrap().recv().is_err()).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(devices[1].run(&stats, || 5).await, 5);
        assert!(stuck.iter().all(|task| !task.is_finished()));
        drop(release);
        for task in stuck {
            assert!(task.await.unwrap());
        }
    }
}
