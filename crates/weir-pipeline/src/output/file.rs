//! `type = "file"`: appends one line per record to a local file, or to one of many files named by
//! fields of the record.
//!
//! Reading order: this file, `round`, `writer`, `routing`, `target`, `path`, `dir`, `archive`.
//!
//! Invariants: weir is the only writer; every file ends with a complete line whenever nothing is
//! being written (a failed or partial write is undone, an incomplete last line is cut off at
//! start); lines count as delivered according to the fsync policy and not before; a full, failing
//! or read-only disk only delays this output. Delivery is at least once: after a crash, lines whose
//! acknowledgement was not yet recorded are written again.

mod archive;
mod dir;
mod log_limit;
mod path;
mod round;
mod routing;
mod target;
mod writer;

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_journal::Cursor;

use super::Job;
use super::devices::Device;
use super::pending::PendingBatch;
use super::signal::until;
use crate::config::{Compression, Encoding};
use crate::stats::add;
pub use path::{FilePath, FilePathError};
use round::Rounds;

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOutput {
    /// Path, which may contain fields; missing directories are created.
    pub path: FilePath,
    /// How records are encoded.
    pub encoding: Encoding,
    /// When written lines are flushed to stable storage.
    pub fsync: FsyncPolicy,
    /// When a file is rotated.
    pub rotation: Rotation,
    /// Maximum number of open files.
    pub open_files_max: usize,
}

/// When a file is rotated, and what happens to it then. By default files are never rotated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Rotate before the file would exceed this size in bytes.
    pub size_bytes: Option<u64>,
    /// Rotate at the first line of a new period; periods are counted from 1970-01-01 UTC.
    pub every: Option<Duration>,
    /// Number of rotated files to keep per file; `None` = all.
    pub keep: Option<usize>,
    /// Compression of rotated files.
    pub compress: Compression,
}

impl Rotation {
    /// Returns true if files are ever rotated.
    pub fn is_on(&self) -> bool {
        self.size_bytes.is_some() || self.every.is_some()
    }
}

/// When written lines are flushed to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Before each acknowledgement to the journal.
    Always,
    /// At most this long after writing; records count as delivered only then.
    Interval(Duration),
    /// Left to the operating system; records count as delivered once written.
    Never,
}

/// Maximum time that lines wait for others before they are written.
const AGE: Duration = Duration::from_millis(100);
/// Size of the batches at which they are written at once.
const BYTES: u64 = 256 * 1024;
/// Maximum size of the batches written and flushed in one round.
const ROUND_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Pause after the first failure, doubled up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// State of the loop of one file output.
struct FileLoop<'a> {
    job: &'a Job,
    plan: &'a FileOutput,
    cursor: Cursor,
    device: Device,
    rounds: Box<Rounds>,
    /// The window is used up by unflushed batches, so a flush must not wait.
    is_window_full: bool,
    /// When a requested stop must be complete.
    deadline: Option<Instant>,
    /// Time of the next attempt after a failure.
    paused: Option<Instant>,
    /// Number of consecutive failures.
    failures: u32,
}

pub(super) async fn run(job: &Job, plan: &FileOutput, cursor: Cursor) {
    let file = FileLoop {
        job,
        plan,
        cursor,
        device: job.context.devices.of(plan.path.base()),
        rounds: Box::new(Rounds::new(job, plan)),
        is_window_full: false,
        deadline: None,
        paused: None,
        failures: 0,
    };
    file.run().await;
}

impl FileLoop<'_> {
    async fn run(mut self) {
        let (stop, reopen) = (self.job.stop.clone(), self.job.reopen.clone());
        loop {
            let is_idle = self.paused.is_none();
            let is_ending = self.deadline.is_some() || self.cursor.is_closing();
            if is_ending && is_idle {
                self.take().await;
            }
            if is_idle && self.rounds.is_due(is_ending || self.is_window_full) {
                let Some(next) = self.round(is_ending).await else { return };
                self = next;
                continue;
            }
            if is_ending && is_idle {
                return;
            }
            tokio::select! {
                at = stop.requested(), if self.deadline.is_none() => self.deadline = Some(at),
                () = until(self.deadline), if self.deadline.is_some() => return self.leave().await,
                _ = reopen.requested() => {
                    reopen.take();
                    self.rounds.writer.ask_reopen();
                }
                () = self.cursor.ready(BYTES, AGE), if is_idle => self.take().await,
                () = until(self.paused), if !is_idle => self.paused = None,
                () = until(self.rounds.sync_due), if is_idle && self.rounds.sync_due.is_some() => {}
            }
        }
    }

    /// Takes available batches, up to a limit, and passes them to the writer.
    async fn take(&mut self) {
        let mut bytes = 0;
        while bytes < ROUND_BYTES_MAX {
            let Some(delivery) = self.cursor.take(|_| false).await else {
                self.is_window_full = bytes == 0 && self.cursor.waiting_bytes() > 0;
                break;
            };
            bytes += delivery.batch.arena().len();
            let source = delivery.batch.header().source;
            let name = || self.cursor.source_name(source).unwrap_or_default();
            let pending = PendingBatch::of_delivery(delivery);
            self.rounds.writer.push(pending, name);
        }
    }

    /// Writes and flushes due batches on a disk thread; a failure starts a pause. Returns `None` if
    /// the deadline of a stop passes first.
    async fn round(mut self, is_ending: bool) -> Option<Self> {
        let stop = self.job.stop.clone();
        let must_flush = is_ending || std::mem::take(&mut self.is_window_full);
        let (mut rounds, device) = (self.rounds, self.device.clone());
        let work = async move {
            device
                .run(&self.job.stats, move || {
                    let round = rounds.run(must_flush);
                    (rounds, round)
                })
                .await
        };
        tokio::pin!(work);
        let (rounds, round) = loop {
            tokio::select! {
                done = &mut work => break done,
                at = stop.requested(), if self.deadline.is_none() => self.deadline = Some(at),
                () = until(self.deadline), if self.deadline.is_some() => return None,
            }
        };
        self.rounds = rounds;
        match round.result {
            Ok(()) if !round.settled.is_empty() => self.recovered(),
            Ok(()) => {}
            Err(error) => self.failed(&error),
        }
        for (pending, outcome) in round.settled {
            if let Some(delivery) = &pending.delivery {
                self.cursor.ack(delivery, outcome);
            }
        }
        Some(self)
    }

    /// At the end of a stop during a pause: tries once to leave complete lines behind.
    async fn leave(self) {
        let mut rounds = self.rounds;
        let leaving = self.device.run(&self.job.stats, move || rounds.writer.leave());
        // Does not wait for a disk that hangs.
        let _in_time = tokio::time::timeout(PAUSE_MIN, leaving).await;
    }

    fn failed(&mut self, error: &io::Error) {
        let pause = (PAUSE_MIN * 2_u32.pow(self.failures.min(10))).min(PAUSE_MAX);
        self.failures += 1;
        self.paused = Some(Instant::now() + pause);
        let (kind, hint) = describe(error);
        let text = format!("{}: {error}{hint}", self.plan.path.text());
        if !self.job.stats.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(output = %self.job.plan.name, "{text}; retrying until it succeeds");
        }
        self.job.stats.errors.count(kind, &text);
        add(&self.job.stats.retries, 1);
    }

    fn recovered(&mut self) {
        self.failures = 0;
        if self.job.stats.failing.swap(false, Ordering::Relaxed) {
            self.job.stats.errors.clear_last();
            tracing::info!(output = %self.job.plan.name, "writing has resumed");
        }
    }
}

/// Returns a fixed identifier for counters, and what to do about the error.
fn describe(error: &io::Error) -> (&'static str, &'static str) {
    if weir_host::is_disk_full(error) {
        return ("disk_full", ": free some space; no records are lost meanwhile");
    }
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => ("read_only", ": the file system is read-only"),
        io::ErrorKind::PermissionDenied => {
            ("permission", ": weir's user has no write permission; change the owner or the path")
        }
        io::ErrorKind::IsADirectory => ("is_directory", ": set path to a file"),
        _ => ("io", ""),
    }
}
