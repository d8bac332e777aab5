//! `type = "file"`: appends one line per record to a local file, or to one of many files named by
//! fields of the record.
//!
//! Reading order: this file, `writer`, `routing`, `target`, `path`, `dir`, `archive`.
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
mod routing;
mod target;
mod writer;

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_journal::{Cursor, Outcome};

use super::Job;
use super::pending::PendingBatch;
use super::signal::until;
use crate::config::{FileOutput, FsyncPolicy};
use crate::stats::{self, add};
pub use path::{FilePath, FilePathError};
use writer::Writer;

/// Maximum time that lines wait for others before they are written.
const AGE: Duration = Duration::from_millis(100);
/// Size of the batches at which they are written at once.
const BYTES: u64 = 256 * 1024;
/// Maximum size of the batches written and flushed in one cycle.
const CYCLE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Pause after the first failure, doubled up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// State of the loop of one file output.
struct FileLoop<'a> {
    job: &'a Job,
    plan: &'a FileOutput,
    cursor: Cursor,
    writer: Writer,
    /// Written but not yet settled.
    unsettled: Vec<(PendingBatch, Outcome)>,
    /// When `unsettled` must be flushed.
    sync_due: Option<Instant>,
    /// Time of the next attempt after a failure.
    paused: Option<Instant>,
    /// Number of consecutive failures.
    failures: u32,
}

pub(super) async fn run(job: &Job, plan: &FileOutput, cursor: Cursor) {
    let writer = Writer::new(job, plan);
    let mut file = FileLoop {
        job,
        plan,
        cursor,
        writer,
        unsettled: Vec::new(),
        sync_due: None,
        paused: None,
        failures: 0,
    };
    file.run().await;
}

impl FileLoop<'_> {
    async fn run(&mut self) {
        let (stop, reopen) = (self.job.stop.clone(), self.job.reopen.clone());
        let mut deadline: Option<Instant> = None;
        loop {
            if self.paused.is_none() {
                self.cycle();
            }
            stats::publish_cpu(&self.job.stats.cpu_ns);
            let ended = self.cursor.is_closing() || deadline.is_some();
            if ended && self.paused.is_none() {
                self.take();
                if self.writer.has_backlog() {
                    continue;
                }
                if self.finish() {
                    return;
                }
            }
            let idle = self.paused.is_none();
            tokio::select! {
                at = stop.requested(), if deadline.is_none() => deadline = Some(at),
                () = until(deadline), if deadline.is_some() => return self.writer.leave(),
                _ = reopen.requested() => {
                    reopen.take();
                    self.writer.ask_reopen();
                }
                () = self.cursor.ready(BYTES, AGE), if idle => self.take(),
                () = until(self.paused), if !idle => self.paused = None,
                () = until(self.sync_due), if idle && self.sync_due.is_some() => {}
            }
        }
    }

    /// Takes available batches, up to a limit, and passes them to the writer.
    fn take(&mut self) {
        let mut bytes = 0;
        while bytes < CYCLE_BYTES_MAX {
            let Some(delivery) = self.cursor.take(|_| false) else { break };
            bytes += delivery.batch.arena().len();
            self.writer.push(PendingBatch::of_delivery(delivery, self.cursor.index()));
        }
    }

    /// Writes the backlog and flushes according to the policy; a failure starts a pause.
    fn cycle(&mut self) {
        let started = self.job.context.clock.monotonic();
        let result = self.write().and_then(|()| self.sync_if_due(false));
        match result {
            Ok(true) => {
                let took = self.job.context.clock.monotonic().saturating_sub(started);
                add(&self.job.stats.service_ns, took.as_nanos() as u64);
            }
            Ok(false) => {}
            Err(error) => self.failed(&error),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.writer.has_backlog() {
            return Ok(());
        }
        let cursor = &self.cursor;
        let source = |pending: &PendingBatch| {
            cursor.source_name(pending.records.batch().header().source).unwrap_or_default()
        };
        let written = match self.writer.write_backlog(&source) {
            Ok(written) => written,
            Err(error) => {
                if self.writer.take_flush_failed() {
                    self.in_doubt();
                }
                return Err(error);
            }
        };
        add(&self.job.stats.requests, 1);
        add(&self.job.stats.bytes_sent, written.bytes);
        add(&self.job.stats.bytes_encoded, written.bytes);
        let batches = written.batches.iter().map(|(pending, _)| &**pending.records.batch());
        self.job.stats.count_queueing(batches, self.job.context.clock.unix_ns());
        self.unsettled.extend(written.batches);
        if let FsyncPolicy::Interval(interval) = self.plan.fsync {
            self.sync_due.get_or_insert_with(|| Instant::now() + interval);
        }
        Ok(())
    }

    /// Flushes and settles when the policy requires it. Returns true if something was settled.
    fn sync_if_due(&mut self, at_end: bool) -> io::Result<bool> {
        if self.unsettled.is_empty() {
            return Ok(false);
        }
        let flush = match self.plan.fsync {
            FsyncPolicy::Never => false,
            FsyncPolicy::Always => true,
            FsyncPolicy::Interval(_) => {
                if !at_end && self.sync_due.is_some_and(|due| Instant::now() < due) {
                    return Ok(false);
                }
                true
            }
        };
        if flush && let Err(error) = self.writer.sync() {
            self.in_doubt();
            return Err(error);
        }
        self.writer.settled();
        self.sync_due = None;
        self.recovered();
        for (pending, outcome) in self.unsettled.drain(..) {
            if let Some(delivery) = &pending.delivery {
                self.cursor.ack(delivery, outcome);
            }
        }
        Ok(true)
    }

    /// Everything written since the last flush is in doubt: writes all of it again.
    fn in_doubt(&mut self) {
        let unsettled = std::mem::take(&mut self.unsettled);
        self.writer.write_again(unsettled.into_iter().map(|(pending, _)| pending));
        self.sync_due = None;
    }

    /// Flushes the rest before the end. Returns false if that failed and must be retried.
    fn finish(&mut self) -> bool {
        match self.sync_if_due(true) {
            Ok(_) => true,
            Err(error) => {
                self.failed(&error);
                false
            }
        }
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
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ("disk_full", ": free some space; no records are lost meanwhile")
        }
        io::ErrorKind::ReadOnlyFilesystem => ("read_only", ": the file system is read-only"),
        io::ErrorKind::PermissionDenied => {
            ("permission", ": weir's user has no write permission; change the owner or the path")
        }
        io::ErrorKind::IsADirectory => ("is_directory", ": set path to a file"),
        _ => ("io", ""),
    }
}
