//! What every simulated process has besides its sources: a journal whose writer acts step by step,
//! and the readers of its destinations.
//!
//! Invariant: nothing happens except in calls of these functions, so a seed determines the history.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use weir_host::Clock;
use weir_journal::{
    Cursor, CursorSpec, Delivery, Journal, JournalConfig, JournalWriter, Outcome, Step, WhenFull,
};
use weir_model::RecordView;
use weir_testkit::{CallKind, FakeClock, Fault, FaultKind, FaultyDisk};

use crate::rule::{RuleSwitch, Rules};

/// Number of destinations.
pub(super) const SINKS: usize = 2;

/// Number of steps after which the journal's writer must have finished.
const STEPS_MAX: u32 = 10_000;

/// A journal and its destinations, each of which receives every record.
pub(super) struct SimulatedJournal {
    pub(super) journal: Journal,
    pub(super) rules: Arc<RuleSwitch>,
    writer: JournalWriter,
    clock: FakeClock,
    sinks: Vec<Sink>,
}

/// The reader of a destination.
struct Sink {
    cursor: Cursor,
    hangs: bool,
    in_hand: Vec<Delivery>,
}

/// What a destination does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SinkAction {
    /// Stops taking batches, or resumes.
    Hang,
    /// Takes some batches.
    Take,
    /// Settles one.
    Settle,
}

impl SimulatedJournal {
    pub(super) fn open(
        config: JournalConfig,
        disk: &FaultyDisk,
        clock: &FakeClock,
        buffer_bytes_max: u64,
    ) -> Self {
        let clocks: Arc<dyn Clock> = Arc::new(clock.clone());
        let opened = Journal::open_with_writer(config, Arc::new(disk.clone()), clocks);
        let (journal, writer) = opened.expect("a journal");
        let sink = |number| {
            let cursor = journal.cursor(CursorSpec {
                name: format!("to-{number}"),
                when_full: WhenFull::Block,
                buffer_bytes_max,
                window_bytes: 16 << 20,
            });
            Sink { cursor: cursor.expect("a cursor"), hangs: false, in_hand: Vec::new() }
        };
        let sinks: Vec<Sink> = (0..SINKS).map(sink).collect();
        let indexes = sinks.iter().map(|sink| sink.cursor.index());
        let rules = Arc::new(RuleSwitch::new(Rules::to_all(1, indexes), 0));
        Self { journal, rules, writer, clock: clock.clone(), sinks }
    }

    /// Lets the writer perform some steps. Returns whether it has nothing left to do.
    pub(super) fn work(&mut self, steps: u32) -> bool {
        (0..steps).any(|_| self.writer.step() != Step::Worked)
    }

    /// Lets the writer do everything that is due. Returns false if something is left.
    pub(super) fn flush(&mut self) -> bool {
        for _ in 0..5 {
            self.clock.advance(Duration::from_secs(3));
            let last = (0..STEPS_MAX).map(|_| self.writer.step()).find(|s| *s != Step::Worked);
            if last == Some(Step::Idle { wait: None }) {
                return self.journal.ledger().journal.disk_error.is_none();
            }
        }
        false
    }

    /// Ends the journal as on SIGTERM, after its sources.
    pub(super) fn end(mut self) {
        self.journal.shutdown();
        let is_ended = (0..STEPS_MAX).any(|_| self.writer.step() == Step::Ended);
        assert!(is_ended, "the journal does not end");
    }

    /// Lets some destination act. Returns its index and, if it has settled a batch, the records in
    /// it, as returned by `parse`.
    pub(super) fn act<T>(
        &mut self,
        action: SinkAction,
        rng: &mut Rng,
        parse: impl FnMut(RecordView<'_>) -> Option<T>,
    ) -> (usize, Option<Vec<T>>) {
        let index = rng.usize(..SINKS);
        let sink = &mut self.sinks[index];
        match action {
            SinkAction::Hang => sink.hangs = !sink.hangs,
            SinkAction::Take if !sink.hangs => {
                let _taken = (0..rng.u32(1..4)).all(|_| sink.take());
            }
            SinkAction::Settle if !sink.hangs && !sink.in_hand.is_empty() => {
                let at = rng.usize(..sink.in_hand.len());
                return (index, Some(sink.settle(at, parse)));
            }
            SinkAction::Take | SinkAction::Settle => {}
        }
        (index, None)
    }

    /// Lets every destination settle everything that waits for it; calls `receive` with its index
    /// and the records.
    pub(super) fn deliver_all<T>(
        &mut self,
        mut parse: impl FnMut(RecordView<'_>) -> Option<T>,
        mut receive: impl FnMut(usize, &[T]),
    ) {
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            sink.hangs = false;
            while sink.take() {}
            while !sink.in_hand.is_empty() {
                receive(index, &sink.settle(0, &mut parse));
            }
        }
    }
}

impl Sink {
    fn take(&mut self) -> bool {
        let Some(delivery) = self.cursor.take_blocking(|_| false) else { return false };
        self.in_hand.push(delivery);
        true
    }

    /// Settles the first delivery of the same stream: one that is settled out of order is sent
    /// again after a restart.
    fn settle<T>(
        &mut self,
        at: usize,
        mut parse: impl FnMut(RecordView<'_>) -> Option<T>,
    ) -> Vec<T> {
        let stream = self.in_hand[at].stream();
        let first = self.in_hand.iter().position(|delivery| delivery.stream() == stream);
        let delivery = self.in_hand.remove(first.unwrap_or(at));
        let received = delivery.records().filter_map(|(_, record)| parse(record)).collect();
        self.cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        received
    }
}

/// Lets some of the next calls of a kind fail.
pub(super) fn fail_disk(disk: &FaultyDisk, rng: &mut Rng) {
    const KINDS: [CallKind; 4] =
        [CallKind::Write, CallKind::SyncData, CallKind::Open, CallKind::Rename];
    let kind = KINDS[rng.usize(..KINDS.len())];
    let (nth, times) = (rng.u64(1..6), rng.u64(1..4));
    let fault = Fault::new(FaultKind::Io).on(kind).path("journal").nth(nth).times(times);
    disk.inject(fault);
}
