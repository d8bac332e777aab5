//! Decides what the writer does next, and when; performs no action.

use std::sync::Arc;
use std::time::Duration;

use weir_model::Batch;

use super::{Location, Merge, Move, State};
use crate::cursor_log::Records;
use crate::limits::{APPEND_GROUP_INTERVAL, GROUP_BYTES, GROUP_BYTES_MAX, SOON_GROUP_INTERVAL};

/// The next task for the disk.
#[derive(Debug)]
pub(crate) enum Work {
    /// Frames to write; they and the previous ones must be flushed if `sync` is set.
    Frames {
        batches: Vec<(u64, Arc<Batch>)>,
        sync: bool,
    },
    /// Check whether frames can be written again.
    Probe,
    /// Records for the cursor log, and frames whose space may be freed once those are durable.
    Positions {
        records: Records,
        dead: Vec<Location>,
    },
    /// End the open segment, so that the space of its dead frames can be freed.
    EndSegment,
    /// Frames to read, to count their keys.
    CountKeys(Vec<(u64, Location)>),
    /// Frames to rewrite with only the records that are still needed.
    Compact(Vec<Move>),
    /// Frames to merge into one each.
    Merge(Vec<Merge>),
    Stop,
}

/// The earliest of several times to wait for.
#[derive(Default)]
struct Timer(Option<Duration>);

impl Timer {
    /// Returns true if that time has come; otherwise it is waited for.
    fn is_due(&mut self, at: Duration, now: Duration) -> bool {
        let left = at.saturating_sub(now);
        if !left.is_zero() {
            self.0 = Some(self.0.map_or(left, |earlier| earlier.min(left)));
        }
        left.is_zero()
    }
}

impl State {
    /// Returns the next task, or how long to wait for one (forever = `Err(None)`).
    pub(crate) fn next_work(&mut self, now: Duration) -> Result<Work, Option<Duration>> {
        let mut timer = Timer::default();
        let gave_up = self.stopping && self.positions_error.is_some();
        if !self.dead.is_empty() && !gave_up {
            self.positions_since.get_or_insert(now);
        }
        // Frames that were given up are stated before another frame is written.
        let gave_up_frames = std::mem::take(&mut self.gave_up_frames);
        let is_first = (gave_up_frames && self.positions_error.is_none()) || self.is_unstated(now);
        if !is_first && let Some(work) = self.frames_work(now, &mut timer) {
            return Ok(work);
        }
        if self.statements_due.is_some_and(|at| self.stopping || timer.is_due(at, now)) {
            self.positions_since.get_or_insert(now);
        }
        if self.flush_now && self.statements_due.is_some() {
            self.positions_since.get_or_insert(now);
        }
        if let Some(since) = self.positions_since {
            let at_once = self.stopping || self.flush_now || is_first;
            if at_once || timer.is_due(since + self.config.commit_interval, now) {
                self.positions_since = None;
                self.statements_due = None;
                self.flush_now = false;
                self.commits_begun += 1;
                let records = Records::collect(self);
                return Ok(Work::Positions { records, dead: std::mem::take(&mut self.dead) });
            }
        }
        if self.stopping {
            return Ok(Work::Stop);
        }
        if std::mem::take(&mut self.space_wanted) {
            return Ok(Work::EndSegment);
        }
        let uncounted = self.take_uncounted();
        if !uncounted.is_empty() {
            return Ok(Work::CountKeys(uncounted));
        }
        match self.take_moves(now) {
            Ok(moves) => return Ok(Work::Compact(moves)),
            Err(Some(at)) if timer.is_due(at, now) => return Err(Some(Duration::ZERO)),
            Err(_) => {}
        }
        let merges = self.take_merges();
        if !merges.is_empty() {
            return Ok(Work::Merge(merges));
        }
        if self.is_merging() {
            return Err(Some(Duration::ZERO));
        }
        Err(timer.0)
    }

    fn frames_work(&mut self, now: Duration, timer: &mut Timer) -> Option<Work> {
        if self.frames_error.is_some() {
            // During shutdown, a failed operation is retried once and then abandoned: shutdown must
            // not hang.
            let retry = if self.stopping {
                !std::mem::replace(&mut self.tried_at_last, true)
            } else {
                timer.is_due(self.disk_retry_at, now)
            };
            return retry.then_some(Work::Probe);
        }
        if self.is_durable_due(now, timer) {
            self.sync_wanted = false;
            return Some(Work::Frames { batches: self.take_durable(), sync: true });
        }
        if std::mem::take(&mut self.sync_wanted) {
            return Some(Work::Frames { batches: Vec::new(), sync: true });
        }
        if self.ring_wanted > 0 && !self.spill_wanted && self.ring_bytes > self.ring_target() {
            let due = self.spill_due_at().is_some_and(|at| timer.is_due(at, now));
            self.spill_wanted = due || self.spill_is_due(now);
        }
        if self.ahead_wanted && self.spill_due_at().is_none_or(|at| timer.is_due(at, now)) {
            self.wake_sources();
        }
        let queued = self.take_spill_queue();
        if !queued.is_empty() {
            return Some(Work::Frames { batches: queued, sync: false });
        }
        if self.spill_wanted {
            let batches = self.take_spill();
            if !batches.is_empty() {
                return Some(Work::Frames { batches, sync: false });
            }
            self.spill_wanted = false;
            self.wake_sources_if_room();
        }
        None
    }

    /// Returns whether batches that must be flushed are to be written now.
    fn is_durable_due(&self, now: Duration, timer: &mut Timer) -> bool {
        let mut is_due = |since: Option<Duration>, interval| {
            since.is_some_and(|since| self.stopping || timer.is_due(since + interval, now))
        };
        let is_full = self.durable_waiting_bytes >= GROUP_BYTES;
        is_full
            || is_due(self.durable_since, APPEND_GROUP_INTERVAL)
            || is_due(self.soon_since, SOON_GROUP_INTERVAL)
    }

    /// Takes the batches that must be flushed, whether someone waits for them or not: the flush is
    /// the same. What is left is due as well.
    fn take_durable(&mut self) -> Vec<(u64, Arc<Batch>)> {
        let mut bytes = 0;
        let mut batches = Vec::new();
        while bytes < GROUP_BYTES_MAX
            && let Some(seq) = self.durable_waiting.pop_first()
        {
            let Some(slot) = self.slots.get_mut(&seq) else { continue };
            slot.queued = false;
            if let Some(batch) = slot.begin_writing() {
                bytes += slot.memory_bytes;
                batches.push((seq, batch));
            }
        }
        if self.durable_waiting.is_empty() {
            (self.durable_since, self.soon_since) = (None, None);
            self.durable_waiting_bytes = 0;
        }
        batches
    }

    /// Takes batches that wait for destinations that were removed. Those that must be flushed are
    /// about to be written anyway.
    fn take_spill_queue(&mut self) -> Vec<(u64, Arc<Batch>)> {
        let mut bytes = 0;
        let mut batches = Vec::new();
        while bytes < GROUP_BYTES_MAX
            && let Some(seq) = self.spill_queue.pop_first()
        {
            let slot = self.slots.get_mut(&seq).filter(|slot| !slot.durable);
            let Some(slot) = slot else { continue };
            if let Some(batch) = slot.begin_writing() {
                bytes += slot.memory_bytes;
                batches.push((seq, batch));
            }
        }
        batches
    }

    /// Takes the oldest batches of a full ring, until it would be three quarters full. Those that
    /// are already on disk are only dropped here; those that must be flushed are about to be
    /// written anyway.
    fn take_spill(&mut self) -> Vec<(u64, Arc<Batch>)> {
        let target = self.ring_target();
        // Finds where batches in memory start.
        let _oldest = self.spill_due_at();
        let mut left = self.ring_bytes;
        let mut batches = Vec::new();
        let mut forgotten = Vec::new();
        let mut bytes = 0;
        for (seq, slot) in self.slots.range_mut(self.spill_from..) {
            if left <= target || bytes >= GROUP_BYTES_MAX {
                break;
            }
            let Some(batch) = slot.batch.as_ref().filter(|_| !slot.writing) else { continue };
            if slot.location.is_some() {
                forgotten.push((slot.stream, slot.memory_bytes));
                slot.batch = None;
            } else if !slot.durable {
                batches.push((*seq, batch.clone()));
                slot.writing = true;
                bytes += slot.memory_bytes;
            } else {
                continue;
            }
            left -= slot.memory_bytes;
        }
        for (stream, bytes) in forgotten {
            self.forget_memory(stream, bytes);
        }
        batches
    }
}
