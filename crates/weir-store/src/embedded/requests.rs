//! Requests to the thread that writes, and waiting for their results.
//!
//! Invariants: requests are answered in the order in which they arrive; a caller that stops waiting
//! withdraws only its own request, and learns whether it did so in time.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::catalog::{Queue, Shared};

/// Requests of one kind.
#[derive(Debug)]
pub(super) struct Requests<T> {
    waiting: VecDeque<Request<T>>,
    next_ticket: u64,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), next_ticket: 0 }
    }
}

/// A request.
#[derive(Debug)]
pub(super) struct Request<T> {
    ticket: u64,
    /// What is requested.
    pub(super) what: T,
    /// Receives the number of the deletion.
    pub(super) told: SyncSender<u64>,
}

/// The requester's handle to wait with.
#[derive(Debug)]
pub(super) struct Asked {
    ticket: u64,
    /// Yields the number of the deletion.
    pub(super) told: Receiver<u64>,
}

/// Reasons for not getting an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untold {
    /// The request was withdrawn in time: nothing happens.
    GivenUp,
    /// Processing had already begun: it may still take effect.
    Uncertain,
    /// Requests are no longer processed, or there was nothing to do.
    Ended,
}

impl<T> Requests<T> {
    /// Adds a request.
    pub(super) fn push(&mut self, what: T) -> Asked {
        let (sender, told) = sync_channel(1);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Request { ticket, what, told: sender });
        Asked { ticket, told }
    }

    /// Returns the next request.
    pub(super) fn front(&self) -> Option<&T> {
        self.waiting.front().map(|request| &request.what)
    }

    /// Removes and returns the next request.
    pub(super) fn pop(&mut self) -> Option<Request<T>> {
        self.waiting.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops all requests; their requesters are notified.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Withdraws a request. Returns false when it is no longer waiting.
    fn take_back(&mut self, ticket: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|request| request.ticket != ticket);
        self.waiting.len() < waiting
    }
}

impl Asked {
    /// Waits for the number of the deletion, and withdraws the request on timeout. `of` returns the
    /// list that the request is in.
    pub(super) fn wait<T>(
        &self,
        shared: &Shared,
        of: fn(&mut Queue) -> &mut Requests<T>,
        timeout: Duration,
    ) -> Result<u64, Untold> {
        self.told.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => Untold::Ended,
            RecvTimeoutError::Timeout if of(&mut shared.queue()).take_back(self.ticket) => {
                Untold::GivenUp
            }
            RecvTimeoutError::Timeout => Untold::Uncertain,
        })
    }
}
