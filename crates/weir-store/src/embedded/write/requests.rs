//! Requests to the thread that writes, and waiting for their results.
//!
//! Invariants: requests are answered in the order in which they arrive; a caller that stops waiting
//! withdraws only its own request, and learns whether it did so in time.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::embedded::keep::catalog::{StoreState, WorkQueue};

/// Requests of one kind.
#[derive(Debug)]
pub(crate) struct RequestQueue<T> {
    waiting: VecDeque<Request<T>>,
    next_ticket: u64,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), next_ticket: 0 }
    }
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request<T> {
    ticket: u64,
    /// What is requested.
    pub(crate) payload: T,
    /// Receives the number of the deletion.
    pub(crate) reply: SyncSender<u64>,
}

/// The requester's handle to wait with.
#[derive(Debug)]
pub(crate) struct PendingReply {
    ticket: u64,
    /// Yields the number of the deletion.
    pub(crate) reply: Receiver<u64>,
}

/// Reasons for not getting an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The request was withdrawn in time: nothing happens.
    Withdrawn,
    /// Processing had already begun: it may still take effect.
    Uncertain,
    /// Requests are no longer processed, or there was nothing to do.
    Ended,
}

impl<T> RequestQueue<T> {
    /// Adds a request.
    pub(crate) fn push(&mut self, payload: T) -> PendingReply {
        let (sender, reply) = sync_channel(1);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Request { ticket, payload, reply: sender });
        PendingReply { ticket, reply }
    }

    /// Returns the next request.
    pub(crate) fn front(&self) -> Option<&T> {
        self.waiting.front().map(|request| &request.payload)
    }

    /// Removes and returns the next request.
    pub(crate) fn pop(&mut self) -> Option<Request<T>> {
        self.waiting.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops all requests; their requesters are notified.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Withdraws a request. Returns false when it is no longer waiting.
    fn withdraw(&mut self, ticket: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|request| request.ticket != ticket);
        self.waiting.len() < waiting
    }
}

impl PendingReply {
    /// Waits for the number of the deletion, and withdraws the request on timeout. `of` returns the
    /// list that the request is in.
    pub(crate) fn wait<T>(
        &self,
        shared: &StoreState,
        of: fn(&mut WorkQueue) -> &mut RequestQueue<T>,
        timeout: Duration,
    ) -> Result<u64, NoReply> {
        self.reply.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => NoReply::Ended,
            RecvTimeoutError::Timeout if of(&mut shared.queue()).withdraw(self.ticket) => {
                NoReply::Withdrawn
            }
            RecvTimeoutError::Timeout => NoReply::Uncertain,
        })
    }
}
