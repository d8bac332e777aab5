//! The world of a history: senders and clients, the journal's disk, a clock, and a process that
//! starts and ends.

use std::time::Duration;

use fastrand::Rng;
use weir_model::RecordView;
use weir_testkit::history::Trace;
use weir_testkit::{FakeClock, FaultyDisk};

use super::clients::{Answered, CLIENTS, Line};
use super::oracle::Oracle;
use super::plan::{Event, Settings, What};
use super::process::{ACKNOWLEDGED, Process};
use crate::source::simulated::{SinkAction, fail_disk};

/// Number of rounds after which everything must have arrived.
const ROUNDS: u32 = 20;

/// Maximum number of records that are sent at once.
const LINES_MAX: u64 = 40;

pub(super) struct World<'t> {
    settings: Settings,
    trace: &'t Trace,
    clock: FakeClock,
    disk: FaultyDisk,
    oracle: Oracle,
    /// The number of the next record of each host.
    next: Vec<u64>,
    /// What clients have sent and was not acknowledged.
    pending: [Vec<Line>; CLIENTS],
    process: Option<Process>,
}

impl<'t> World<'t> {
    pub(super) fn run(settings: Settings, events: &[Event], trace: &'t Trace) {
        // The time of the lanes stands still, too: no wait for room ends.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
        let _entered = runtime.enter();
        let mut world = World {
            settings,
            trace,
            clock: FakeClock::default(),
            disk: FaultyDisk::new(),
            oracle: Oracle::default(),
            next: vec![0; usize::from(settings.hosts)],
            pending: Default::default(),
            process: None,
        };
        for event in events {
            trace.note(|| format!("{:?}", event.what));
            world.happen(*event);
            world.look();
        }
        world.finish();
    }

    fn happen(&mut self, Event { what, seed }: Event) {
        let mut rng = Rng::with_seed(seed);
        match what {
            What::Start => self.start(),
            What::DiskFails => fail_disk(&self.disk, &mut rng),
            What::DiskIsWell => self.disk.faults().clear(),
            What::Kill => self.die(false, FaultyDisk::kill),
            What::Crash => self.die(true, |disk| disk.crash(seed)),
            What::End => self.end(),
            What::Replace => self.replace(),
            _ => self.go_on(what, &mut rng),
        }
    }

    fn go_on(&mut self, what: What, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        match what {
            What::Receive => self.send(rng),
            What::Request => self.request(rng),
            What::Gather => process.soon.lanes.flush(),
            What::Report => process.soon.report(),
            What::Work => {
                self.clock.advance(Duration::from_micros(rng.u64(..20_000)));
                process.journaled.work(rng.u32(1..12));
            }
            What::Pass => self.clock.advance(Duration::from_millis(rng.u64(..12_000))),
            What::Flush => self.flush(),
            What::Sink(action) => self.deliver(action, rng),
            _ => {}
        }
        let answered = self.process.as_mut().map(Process::go_on).unwrap_or_default();
        self.answer(answered);
    }

    /// Returns new records of a host.
    fn lines(&mut self, rng: &mut Rng, is_acknowledged: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        for _ in 0..rng.u64(1..LINES_MAX) {
            let host = rng.u8(..self.settings.hosts);
            let number = &mut self.next[usize::from(host)];
            lines.push(Line { is_acknowledged, host, number: *number });
            *number += 1;
        }
        lines
    }

    /// A connection sends without waiting for an acknowledgement. What is not received stays with
    /// its sender, and is left out here.
    fn send(&mut self, rng: &mut Rng) {
        let lines = self.lines(rng, false);
        let Some(process) = &mut self.process else { return };
        let received = process.soon.receive(&lines);
        self.trace.note(|| {
            let taken = received.iter().filter(|is_taken| **is_taken).count();
            format!("  {} sent, {} received, {taken} taken", lines.len(), received.len())
        });
        for (line, is_taken) in lines.iter().zip(received) {
            self.oracle.note_received(*line, is_taken);
        }
    }

    /// A client sends what was not acknowledged, or new records.
    fn request(&mut self, rng: &mut Rng) {
        let client = rng.usize(..CLIENTS);
        if self.process.as_ref().is_none_or(|process| process.acknowledged.is_waiting(client)) {
            return;
        }
        if self.pending[client].is_empty() {
            self.pending[client] = self.lines(rng, true);
        }
        let lines = self.pending[client].clone();
        self.trace.note(|| format!("  client {client} sends {lines:?}"));
        for line in &lines {
            self.oracle.note_sent(*line);
        }
        if let Some(process) = &mut self.process {
            process.acknowledged.request(client, lines);
        }
    }

    fn answer(&mut self, answered: Vec<Answered>) {
        for Answered { client, lines, answer } in answered {
            self.trace.note(|| format!("  client {client} gets {answer:?}"));
            match answer {
                Ok(taken) => {
                    self.pending[client].clear();
                    for (line, is_taken) in lines.into_iter().zip(taken) {
                        self.oracle.note_acknowledged(line, is_taken);
                    }
                }
                Err(_) => lines.into_iter().for_each(|line| self.oracle.note_unknown(line)),
            }
        }
    }

    fn deliver(&mut self, action: SinkAction, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        if let (index, Some(lines)) = process.journaled.act(action, rng, line_of) {
            self.trace.note(|| format!("  {index} receives {lines:?}"));
            self.oracle.receive(index, &lines);
        }
    }

    fn flush(&mut self) {
        let Some(process) = &mut self.process else { return };
        if process.flush() && process.soon.is_drained() {
            self.oracle.note_flushed();
        }
    }

    fn start(&mut self) {
        if self.process.is_some() {
            return;
        }
        // A journal that cannot be opened is the subject of its own tests.
        self.disk.faults().clear();
        self.process = Some(Process::start(self.settings, &self.disk, &self.clock));
    }

    /// Compares what can be compared at any time.
    fn look(&self) {
        let Some(process) = &self.process else { return };
        Oracle::compare_books(&process.journaled.journal);
        self.oracle.compare_keys(0, &process.soon.limited());
        // Requests that are still handled are counted when they are appended.
        if (0..CLIENTS).all(|client| !process.acknowledged.is_waiting(client)) {
            self.oracle.compare_keys(ACKNOWLEDGED, &process.acknowledged.limited());
        }
    }

    /// The sources end as well as they can; requests that are still handled are not answered.
    fn end_sources(&mut self) {
        let Some(process) = &mut self.process else { return };
        if !process.soon.finish() {
            self.oracle.was_abandoned = true;
            self.oracle.give_up();
        }
        self.oracle.end_sources(process.soon.notices());
    }

    fn replace(&mut self) {
        self.end_sources();
        if let Some(process) = &mut self.process {
            process.replace_sources();
        }
    }

    fn die(&mut self, is_crash: bool, survives: impl FnOnce(&FaultyDisk) -> FaultyDisk) {
        let Some(process) = self.process.take() else { return };
        self.oracle.end_sources(process.soon.notices());
        drop(process);
        self.disk = survives(&self.disk);
        self.oracle.give_up();
        self.oracle.was_killed = true;
        self.oracle.has_crashed |= is_crash;
    }

    fn end(&mut self) {
        self.end_sources();
        let Some(process) = self.process.take() else { return };
        self.disk.faults().clear();
        let ledger = process.journaled.journal.ledger();
        self.oracle.was_behind |= ledger.cursors.iter().any(|cursor| cursor.in_flight > 0);
        process.journaled.end();
        self.oracle.note_flushed();
    }

    /// Ends all faults, lets everything arrive, and compares.
    fn finish(mut self) {
        self.trace.note(|| "the end".to_owned());
        self.disk.faults().clear();
        self.start();
        for _ in 0..ROUNDS {
            let Some(process) = &mut self.process else { return };
            let answered = process.go_on();
            process.journaled.deliver_all(line_of, |index, lines| {
                self.trace.note(|| format!("  {index} receives {lines:?}"));
                self.oracle.receive(index, lines);
            });
            self.answer(answered);
            self.flush();
        }
        self.look();
        let Some(process) = &self.process else { return };
        assert!(process.soon.is_drained(), "records wait although there is room");
        let waits = (0..CLIENTS).find(|client| process.acknowledged.is_waiting(*client));
        assert_eq!(waits, None, "a client waits although there is room");
        self.oracle.compare(&process.journaled.journal, process.soon.notices());
    }
}

/// Returns what a client has sent as this record; `None` for records that weir itself writes.
fn line_of(record: RecordView<'_>) -> Option<Line> {
    Line::parse(record.body)
}
