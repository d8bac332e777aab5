//! A running process: its journal with a writer that is stepped, and the readers of its
//! destinations.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use weir_host::Clock;
use weir_journal::{
    AppendTicket, Cursor, Delivery, Held, Journal, JournalWriter, Outcome, RefusedReason,
    SOON_INTERVAL, Step,
};
use weir_model::{DiscardReason, Position, StreamId};
use weir_testkit::FakeClock;

use crate::files::{Reading, parse};
use crate::oracle::{Fate, OFFERED, SURE, Sink};
use crate::support::ALL_IS_DUE;

type Ticket = Pin<Box<dyn Future<Output = Result<(), RefusedReason>>>>;
/// Stream, content and number of a row.
pub(crate) type Row = (u64, usize, u64);

/// Number of steps after which the writer must have finished.
const STEPS_MAX: u32 = 10_000;
/// Number of times everything is made due, after which a working disk must have everything.
const ROUNDS_MAX: u32 = 5;

pub(crate) struct Process {
    pub(crate) journal: Journal,
    writer: JournalWriter,
    clock: FakeClock,
    pub(crate) readers: Vec<Option<Reader>>,
    /// The last readers of destinations that were removed.
    pub(crate) removed: BTreeMap<String, Reader>,
    pub(crate) lanes: Vec<(u64, Reading)>,
    pub(crate) soon_lanes: Vec<(u64, Reading)>,
    /// Rows that are not acknowledged, with the time at which they were appended.
    soon: Vec<(Duration, Vec<Row>)>,
    tickets: Vec<(Ticket, Vec<Row>)>,
}

impl Process {
    pub(crate) fn new(
        journal: Journal,
        writer: JournalWriter,
        clock: FakeClock,
        readers: Vec<Option<Reader>>,
        lanes: Vec<(u64, Reading)>,
        soon_lanes: Vec<(u64, Reading)>,
    ) -> Self {
        let (soon, tickets, removed) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { journal, writer, clock, readers, removed, lanes, soon_lanes, soon, tickets }
    }

    /// Records rows that are flushed soon.
    pub(crate) fn note_soon(&mut self, rows: Vec<Row>) {
        self.soon.push((self.clock.monotonic(), rows));
    }

    /// Returns the rows that are not acknowledged and must be safe by now, after the writer has
    /// done everything that was due.
    fn safe_by_now(&mut self) -> Vec<Row> {
        let now = self.clock.monotonic();
        let is_due = |(at, _): &mut (Duration, Vec<Row>)| *at + SOON_INTERVAL <= now;
        self.soon.extract_if(.., is_due).flat_map(|(_, rows)| rows).collect()
    }

    /// Lets time pass, and the writer perform some steps. Returns the rows that must be safe since
    /// then without anyone having been told so, provided that the disk is not dead.
    pub(crate) fn work(&mut self, steps: u32, time: Duration) -> Vec<Row> {
        self.clock.advance(time);
        let is_done = (0..steps).any(|_| self.writer.step() != Step::Worked);
        if is_done && self.is_disk_well() { self.safe_by_now() } else { Vec::new() }
    }

    /// Writes everything that is due; returns `None` if something is still left to write, otherwise
    /// the same as [`Self::work`].
    pub(crate) fn catch_up(&mut self) -> Option<Vec<Row>> {
        // Frames are written first. Stating their presence then becomes due, which is delayed for
        // grouping like all positions; what failed is retried before that.
        for _ in 0..ROUNDS_MAX {
            // Longer than the pause after a disk failure, and than statements are delayed.
            self.clock.advance(ALL_IS_DUE + Duration::from_millis(1500));
            let mut steps = (0..STEPS_MAX).map(|_| self.writer.step());
            let last = steps.find(|step| *step != Step::Worked);
            assert!(last.is_some(), "the writer never ends: {:?}", self.journal.ledger().journal);
            if last == Some(Step::Idle { wait: None }) {
                return Some(if self.is_disk_well() { self.safe_by_now() } else { Vec::new() });
            }
        }
        None
    }

    pub(crate) fn is_disk_well(&self) -> bool {
        self.journal.ledger().journal.disk_error.is_none()
    }

    /// Ends the process normally.
    pub(crate) fn end(&mut self) {
        self.journal.shutdown();
        let is_ended = (0..STEPS_MAX).any(|_| self.writer.step() == Step::Ended);
        assert!(is_ended, "the writer does not end: {:?}", self.journal.ledger().journal);
    }

    pub(crate) fn wait_for(&mut self, ticket: AppendTicket, rows: Vec<Row>) {
        self.tickets.push((Box::pin(ticket.durable()), rows));
    }

    /// Returns the rows that the journal has confirmed as safe since the last call.
    pub(crate) fn resolved(&mut self) -> Vec<Row> {
        let mut context = Context::from_waker(Waker::noop());
        let mut safe = Vec::new();
        self.tickets.retain_mut(|(ticket, rows)| match ticket.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => {
                safe.append(rows);
                false
            }
            Poll::Ready(Err(_)) => false,
        });
        safe
    }
}

/// A delivery that was taken, until its settlement is durable.
#[derive(Debug)]
struct Taken {
    serial: u64,
    rows: Vec<(usize, u64)>,
    is_settled: bool,
    /// Its reader was replaced before it settled this.
    is_returned: bool,
}

/// The reader of one destination in one life of the process.
#[derive(Debug)]
pub(crate) struct Reader {
    cursor: Cursor,
    pub(crate) hangs: bool,
    next_serial: u64,
    in_hand: Vec<(u64, Delivery)>,
    held: (Held, Vec<(StreamId, u64)>),
    taken: BTreeMap<StreamId, VecDeque<Taken>>,
    last: BTreeMap<StreamId, Position>,
}

impl Reader {
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self {
            cursor,
            hangs: false,
            next_serial: 0,
            in_hand: Vec::new(),
            held: Default::default(),
            taken: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// Takes a delivery; returns its rows.
    pub(crate) fn take(&mut self, sink: &mut Sink) -> &[(usize, u64)] {
        let Some(delivery) = self.cursor.take_blocking(|_| false) else { return &[] };
        let stream = delivery.stream();
        let mut rows = Vec::new();
        for (_, record) in delivery.records() {
            let (content, row) = parse(record.body);
            let flags = sink.flags(content, row);
            assert!(flags & OFFERED != 0, "row {row} of {content} is not for {}", sink.name);
            assert!(flags & SURE == 0, "{} has row {row} of {content} already", sink.name);
            let last = self.last.insert(stream, record.position);
            assert!(
                last.is_none_or(|last| last < record.position),
                "row {row} of {content} arrives late"
            );
            sink.note_found(content, row);
            rows.push((content, row));
        }
        assert_eq!(rows.len() as u64, delivery.record_count, "records and their count differ");
        let serial = self.next_serial;
        self.next_serial += 1;
        self.in_hand.push((serial, delivery));
        let taken = self.taken.entry(stream).or_default();
        // An earlier reader may have taken it, and perhaps more was appended to it since.
        // or some of its rows were discarded.
        let is_again =
            |t: &Taken| t.is_returned && rows.first().is_some_and(|first| t.rows.contains(first));
        let again = taken.iter().position(is_again);
        let now = Taken { serial, rows, is_settled: false, is_returned: false };
        let at = again.unwrap_or(taken.len());
        if again.is_some() {
            taken[at] = now;
        } else {
            taken.push_back(now);
        }
        &taken[at].rows
    }

    /// Returns whether it holds deliveries, which it must settle itself.
    pub(crate) fn holds(&self) -> bool {
        !self.held.1.is_empty()
    }

    /// Makes another reader continue: it gets what this one has taken and not settled. That this
    /// one settles it afterwards has no effect.
    pub(crate) fn replaced_by(mut self, mut next: Self) -> Self {
        for (_, delivery) in std::mem::take(&mut self.in_hand) {
            self.cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        }
        assert!(self.cursor.is_closing(), "a reader that was replaced is told to end");
        assert!(
            self.cursor.take_blocking(|_| false).is_none(),
            "a reader that was replaced gets nothing"
        );
        for taken in self.taken.values_mut().flatten() {
            taken.is_returned = !taken.is_settled;
        }
        (next.next_serial, next.taken) = (self.next_serial, self.taken);
        next
    }

    /// Settles one of its deliveries, each row by its fate; returns its first row.
    pub(crate) fn ack(&mut self, sink: &mut Sink, rng: &mut Rng) -> Option<(usize, u64)> {
        if self.in_hand.is_empty() {
            return None;
        }
        let (serial, delivery) = self.in_hand.remove(rng.usize(..self.in_hand.len()));
        let outcome = self.settle(sink, delivery.stream(), serial);
        self.cursor.ack(&delivery, outcome);
        delivery.records().next().map(|(_, record)| parse(record.body))
    }

    fn settle(&mut self, sink: &mut Sink, stream: StreamId, serial: u64) -> Outcome {
        let mut counts = [0; 3];
        let mut taken = self.taken.entry(stream).or_default().iter_mut();
        let taken = taken.find(|taken| taken.serial == serial).expect("it was taken");
        taken.is_settled = true;
        for (content, row) in &taken.rows {
            counts[sink.settle(*content, *row) as usize] += 1;
        }
        let rejected = counts[Fate::Rejected as usize];
        Outcome {
            delivered: counts[Fate::Delivered as usize],
            dead_lettered: counts[Fate::DeadLettered as usize],
            discarded: (rejected > 0).then_some((DiscardReason::Rejected, rejected)),
            ..Outcome::default()
        }
    }

    pub(crate) fn hold(&mut self, _sink: &mut Sink, rng: &mut Rng) {
        for _ in 0..rng.usize(..4).min(self.in_hand.len()) {
            let (serial, delivery) = self.in_hand.remove(rng.usize(..self.in_hand.len()));
            self.held.1.push((delivery.stream(), serial));
            self.cursor.hold(&delivery, &mut self.held.0);
        }
    }

    pub(crate) fn ack_held(&mut self, sink: &mut Sink) {
        let (held, receipts) = std::mem::take(&mut self.held);
        for (stream, serial) in receipts {
            self.settle(sink, stream, serial);
        }
        self.cursor.ack_held(held);
    }

    /// Takes and settles everything that is waiting.
    pub(crate) fn settle_all(&mut self, sink: &mut Sink) {
        let mut rng = Rng::with_seed(0);
        loop {
            let before = self.next_serial;
            self.take(sink);
            while !self.in_hand.is_empty() {
                self.ack(sink, &mut rng);
            }
            if self.next_serial == before {
                break;
            }
        }
        self.ack_held(sink);
    }

    /// Records as durable what is settled without a gap before it.
    pub(crate) fn note_durable(&mut self, sink: &mut Sink) {
        for taken in self.taken.values_mut() {
            while let Some(first) = taken.pop_front_if(|taken| taken.is_settled) {
                first.rows.iter().for_each(|(content, row)| sink.mark(*content, *row, SURE));
            }
        }
    }
}
