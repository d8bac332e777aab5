//! A destination of the test: a collector with or without a fault, and how many of its arrived
//! lines may be unknown to weir.

use std::time::{Duration, Instant};

use crate::books::Books;
use crate::collector::{Answer, Collector, Tally};

use super::report::Fault;

/// Name of weir's own store among the destinations.
pub(super) const STORE: &str = "store";

/// An output and its collector.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: &'static str,
    /// Its own keys, in addition to those shared by all.
    pub(super) keys: &'static str,
    pub(super) collector: Collector,
    is_paused: bool,
    trouble_ends: Option<Instant>,
    life: Life,
    /// Lines that had arrived when a process ended, without an acknowledgement that was certainly
    /// durable, over all processes.
    pub(super) uncertain: u64,
    /// Maximum number of lines that its book ever counted as lost.
    pub(super) counted_max: u64,
    /// Lines that were sent again while a process was running, over all processes.
    pub(super) resent: u64,
}

/// Acknowledgements since the process started.
#[derive(Debug, Default)]
struct Life {
    received_before: u64,
    delivered_before: Option<u64>,
    /// Delivered, as of a flush of positions that began later.
    durable: u64,
    /// Delivered, and the number of flushes at that time.
    pending: (u64, u64),
    resent: u64,
}

impl Target {
    pub(super) fn new(name: &'static str, keys: &'static str) -> Self {
        Self {
            name,
            keys,
            collector: Collector::start(),
            is_paused: false,
            trouble_ends: None,
            life: Life::default(),
            uncertain: 0,
            counted_max: 0,
            resent: 0,
        }
    }

    fn received(&self) -> u64 {
        self.collector.look(|tally| tally.events)
    }

    /// Notes that a process starts.
    pub(super) fn begin(&mut self) {
        self.life = Life { received_before: self.received(), ..Life::default() };
    }

    /// Checks the books of the running process.
    pub(super) fn note(&mut self, books: &Books) {
        let delivered = books.delivered(self.name);
        let flushes = books.json()["journal"]["flushes"].as_u64().unwrap_or(0);
        if self.life.delivered_before.is_none() {
            self.life.delivered_before = Some(delivered);
            (self.life.durable, self.life.pending) = (delivered, (flushes, delivered));
            self.life.resent = books.resent(self.name);
        }
        let resent = books.resent(self.name);
        self.resent += resent.saturating_sub(self.life.resent);
        self.life.resent = resent;
        // The flush after the next one began after this check.
        if flushes >= self.life.pending.0 + 2 {
            self.life.durable = self.life.pending.1;
            self.life.pending = (flushes, delivered);
        }
        let counted = books.discarded(self.name) + books.dead_lettered(self.name);
        self.counted_max = self.counted_max.max(counted);
    }

    /// Notes that the process has ended. If it was asked to stop and did so in time, it has
    /// recorded every response of the destination.
    pub(super) fn end(&mut self, is_clean: bool) {
        if is_clean && self.trouble_ends.is_none() {
            return;
        }
        let received = self.received() - self.life.received_before;
        let before = self.life.delivered_before.unwrap_or(self.life.durable);
        self.uncertain += received.saturating_sub(self.life.durable.saturating_sub(before));
    }

    /// Starts a fault with this duration.
    pub(super) fn trouble(&mut self, fault: Fault, duration: Duration) {
        self.recover();
        self.trouble_ends = Some(Instant::now() + duration);
        let answer = match fault {
            Fault::Refuse => {
                self.is_paused = true;
                return self.collector.pause();
            }
            Fault::Hang => Answer::Hang,
            Fault::Drop => Answer::CloseAfterReading,
            Fault::LoseAnswers => Answer::AcceptThenClose,
            Fault::Slow => Answer::AcceptAfter(Duration::from_millis(80)),
            _ => Answer::status(503),
        };
        // Open connections respond like this from now on, too.
        self.collector.answer(answer);
    }

    /// Ends a fault whose duration has passed.
    pub(super) fn look(&mut self) {
        if self.trouble_ends.is_some_and(|end| Instant::now() >= end) {
            self.recover();
        }
    }

    /// Accepts everything again.
    pub(super) fn recover(&mut self) {
        self.trouble_ends = None;
        if std::mem::take(&mut self.is_paused) {
            self.collector.resume();
        }
        self.collector.answer(Answer::Accept);
    }

    /// Returns true if all these lines of a stream have arrived.
    pub(super) fn has(&self, stream: &str, lines: &std::ops::Range<u64>) -> bool {
        let has = |tally: &Tally| {
            let arrived = tally.streams.get(stream);
            arrived.is_some_and(|arrived| lines.clone().all(|seq| arrived.has(seq)))
        };
        self.collector.look(has)
    }
}
