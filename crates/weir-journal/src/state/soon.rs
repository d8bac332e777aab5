//! Batches of sources that neither acknowledge nor repeat what they receive, and the positions at
//! which such sources start.
//!
//! Invariants: a batch is flushed before those that follow it in its stream, or the cursor log
//! states what its destinations are owed of it, and what they have settled. So the source's counts
//! at the furthest position that survives a crash include nothing that is not in the books of its
//! destinations.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_model::StreamId;

use super::{Checkpoint, Slot, State};
use crate::spec::RefusedReason;

/// Someone who waits for positions.
#[derive(Debug)]
pub(crate) struct PositionTicket {
    stream: StreamId,
    /// The commit that includes them.
    commit: u64,
    ticket: oneshot::Sender<Result<(), RefusedReason>>,
}

impl State {
    /// Queues a slot that must be flushed, although no one waits for it.
    pub(super) fn want_durable_soon(&mut self, seq: u64, now: Duration) {
        let Some(slot) = self.slots.get_mut(&seq).filter(|s| !s.queued) else { return };
        slot.queued = true;
        self.durable_waiting.insert(seq);
        self.soon_since.get_or_insert(now);
    }

    /// While the disk fails, removes a batch that no one needs any more, and that has to reach the
    /// disk only so that it is known to have existed: it makes room for others. The cursor log
    /// states instead what became of it.
    pub(super) fn give_up_unwritable(&mut self, seq: u64, now: Duration) {
        let is_unneeded = |s: &&Slot| s.is_soon && s.holders == 0 && !s.writing;
        let slot = self.slots.get(&seq).filter(is_unneeded).filter(|s| s.location.is_none());
        let Some(slot) = slot.filter(|_| self.frames_error.is_some()) else { return };
        let (stream, checkpoint) = (slot.stream, slot.checkpoint.clone());
        self.state_before_frames(stream, &checkpoint, now);
        self.remove_slot(seq);
    }

    /// Makes the cursor log state what every destination is owed of the stream up to here before
    /// another frame is written, if the log can be written at all: something before that frame will
    /// not be found.
    pub(super) fn state_before_frames(
        &mut self,
        stream: StreamId,
        checkpoint: &Arc<Checkpoint>,
        now: Duration,
    ) {
        self.reach(stream, checkpoint);
        self.mark_dirty(stream, now);
        self.state_first();
    }

    /// Makes the next commit precede the next frame. A batch that all destinations have settled
    /// before it was written is only in their books: these must be stated before a later frame of
    /// the stream, whose counts include it.
    pub(super) fn state_first(&mut self) {
        self.unstated = Some(self.commits_begun + 1);
    }

    /// Returns whether the cursor log must be written before another frame. While it cannot be
    /// written, it is tried whenever that is due, but nothing waits for it.
    pub(super) fn is_unstated(&self, now: Duration) -> bool {
        let Some(since) = self.positions_since.filter(|_| self.unstated.is_some()) else {
            return false;
        };
        self.positions_error.is_none() || since <= now
    }

    /// Returns a ticket for the stream's position as it is now, and everything before it.
    pub(super) fn wait_for_positions(
        &mut self,
        stream: StreamId,
    ) -> oneshot::Receiver<Result<(), RefusedReason>> {
        let (ticket, receiver) = oneshot::channel();
        let commit = self.commits_begun + 1;
        self.position_tickets.push(PositionTicket { stream, commit, ticket });
        receiver
    }

    /// Notifies those who waited for positions that are durable now, unless something before them
    /// in their stream still has to reach the disk.
    pub(super) fn resolve_position_tickets(&mut self) {
        let done = self.commits_done;
        let due: Vec<_> =
            self.position_tickets.extract_if(.., |waiting| waiting.commit <= done).collect();
        for PositionTicket { stream, ticket, .. } in due {
            let earlier = self.unsafe_before(stream, u64::MAX);
            if let Some(earlier) = earlier.and_then(|seq| self.slots.get_mut(&seq)) {
                earlier.tickets.push(ticket);
            } else {
                let _nobody_waits = ticket.send(Ok(()));
            }
        }
    }

    /// Reports to those who wait for positions that these cannot be written.
    pub(crate) fn fail_position_tickets(&mut self, reason: &RefusedReason) {
        for waiting in self.position_tickets.drain(..) {
            let _nobody_waits = waiting.ticket.send(Err(reason.clone()));
        }
    }
}
