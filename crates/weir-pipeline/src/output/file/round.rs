//! Rounds of writing and flushing, each of which may wait for the disk.
//!
//! Invariants: what a round reports as settled is as durable as the policy requires; after a failed
//! flush everything that was not settled is written again.

use std::io;
use std::sync::Arc;

use tokio::time::Instant;
use weir_host::Clock;
use weir_journal::Outcome;

use super::writer::Writer;
use crate::output::pending::PendingBatch;
use crate::output::{FileOutput, FsyncPolicy, Job};
use crate::stats::{OutputStats, add};

/// The writer of an output, with what it has written and not settled.
pub(super) struct Rounds {
    pub(super) writer: Writer,
    /// When `unsettled` must be flushed.
    pub(super) sync_due: Option<Instant>,
    unsettled: Vec<(PendingBatch, Outcome)>,
    fsync: FsyncPolicy,
    clock: Arc<dyn Clock>,
    stats: Arc<OutputStats>,
}

/// Result of a round.
pub(super) struct Round {
    /// What is settled now.
    pub(super) settled: Vec<(PendingBatch, Outcome)>,
    pub(super) result: io::Result<()>,
}

impl Rounds {
    pub(super) fn new(job: &Job, plan: &FileOutput) -> Self {
        Self {
            writer: Writer::new(job, plan),
            sync_due: None,
            unsettled: Vec::new(),
            fsync: plan.fsync,
            clock: job.context.clock.clone(),
            stats: job.stats.clone(),
        }
    }

    /// Returns whether there is something to write or to flush; `must_flush` means that a flush
    /// does not wait for its time.
    pub(super) fn is_due(&self, must_flush: bool) -> bool {
        self.writer.has_backlog() || (!self.unsettled.is_empty() && self.is_flush_due(must_flush))
    }

    /// Writes the backlog, and flushes according to the policy.
    pub(super) fn run(&mut self, must_flush: bool) -> Round {
        let started = self.clock.monotonic();
        let result = self.write().and_then(|()| self.settle(must_flush));
        let (settled, result) = match result {
            Ok(settled) => (settled, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        if !settled.is_empty() {
            let took = self.clock.monotonic().saturating_sub(started);
            add(&self.stats.service_ns, took.as_nanos() as u64);
        }
        Round { settled, result }
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.writer.has_backlog() {
            return Ok(());
        }
        let written = match self.writer.write_backlog() {
            Ok(written) => written,
            Err(error) => {
                if self.writer.take_flush_failed() {
                    self.retry_unsettled();
                }
                return Err(error);
            }
        };
        add(&self.stats.requests, 1);
        add(&self.stats.bytes_sent, written.bytes);
        add(&self.stats.bytes_encoded, written.bytes);
        let batches = written.batches.iter().map(|(pending, _)| &**pending.records.batch());
        self.stats.count_queueing(batches, self.clock.unix_ns());
        self.unsettled.extend(written.batches);
        if let FsyncPolicy::Interval(interval) = self.fsync {
            self.sync_due.get_or_insert_with(|| Instant::now() + interval);
        }
        Ok(())
    }

    fn is_flush_due(&self, must_flush: bool) -> bool {
        must_flush || self.sync_due.is_none_or(|due| Instant::now() >= due)
    }

    /// Flushes if the policy requires it now; returns what is settled.
    fn settle(&mut self, must_flush: bool) -> io::Result<Vec<(PendingBatch, Outcome)>> {
        if self.unsettled.is_empty() || !self.is_flush_due(must_flush) {
            return Ok(Vec::new());
        }
        let flushed = match self.fsync {
            FsyncPolicy::Never => Ok(()),
            FsyncPolicy::Always | FsyncPolicy::Interval(_) => self.writer.sync(),
        };
        if let Err(error) = flushed {
            self.retry_unsettled();
            return Err(error);
        }
        self.writer.settled();
        self.sync_due = None;
        Ok(std::mem::take(&mut self.unsettled))
    }

    /// What was written since the last flush may not be on disk: writes all of it again.
    fn retry_unsettled(&mut self) {
        let unsettled = std::mem::take(&mut self.unsettled);
        self.writer.write_again(unsettled.into_iter().map(|(pending, _)| pending));
        self.sync_due = None;
    }
}
