//! What is asked of the thread that writes, and waits until it has time for it.
//!
//! Invariants: requests are answered in the order in which they came; whoever does not wait any
//! longer takes back its own request and no other, and knows whether that was in time.

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
    /// What is asked for.
    pub(super) what: T,
    /// Is told the number of the deletion.
    pub(super) told: SyncSender<u64>,
}

/// What whoever asked waits with.
#[derive(Debug)]
pub(super) struct Asked {
    ticket: u64,
    /// The number of the deletion comes out of it.
    pub(super) told: Receiver<u64>,
}

/// Why nobody was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untold {
    /// It was taken back in time: nothing happens.
    GivenUp,
    /// It was begun already: it may still happen.
    Uncertain,
    /// Nobody works on requests any more, or there was nothing to do.
    Ended,
}

impl<T> Requests<T> {
    /// Adds one.
    pub(super) fn push(&mut self, what: T) -> Asked {
        let (sender, told) = sync_channel(1);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Request { ticket, what, told: sender });
        Asked { ticket, told }
    }

    /// The next one.
    pub(super) fn front(&self) -> Option<&T> {
        self.waiting.front().map(|request| &request.what)
    }

    /// Takes the next one out.
    pub(super) fn pop(&mut self) -> Option<Request<T>> {
        self.waiting.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives all of them up; whoever waits hears of it.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// False when it does not wait any more.
    fn take_back(&mut self, ticket: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|request| request.ticket != ticket);
        self.waiting.len() < waiting
    }
}

impl Asked {
    /// Waits for the number of the deletion; when that takes too long the request is taken back.
    /// `of` says among which it is.
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
