//! A running process: two sources that receive, their journal, and the readers of its destinations,
//! all advanced step by step.

use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, WakeFd};
use weir_journal::{
    Cursor, CursorSpec, Delivery, Journal, JournalConfig, JournalWriter, Outcome, Step, WhenFull,
};
use weir_testkit::{FakeClock, FaultyDisk, journal_config};

use super::super::lanes::LaneContext;
use super::super::limits::GATHER_TIME;
use super::clients::{Acknowledged, Answered, Line, Unacknowledged, quota};
use super::plan::Settings;
use crate::rule::{RuleSwitch, Rules};

/// Number of destinations.
pub(super) const SINKS: usize = 2;

/// Names of the sources.
pub(super) const NAMES: [&str; 2] = ["soon", "acknowledged"];
pub(super) const UNACKNOWLEDGED: &str = NAMES[0];
/// Place of the source whose clients wait for acknowledgements.
pub(super) const ACKNOWLEDGED: usize = 1;

/// Number of steps after which the journal's writer must have finished.
const STEPS_MAX: u32 = 10_000;

pub(super) struct Process {
    pub(super) journal: Journal,
    writer: JournalWriter,
    settings: Settings,
    disk: FaultyDisk,
    clock: FakeClock,
    rules: Arc<RuleSwitch>,
    wake: WakeFd,
    pub(super) soon: Unacknowledged,
    pub(super) acknowledged: Acknowledged,
    pub(super) sinks: Vec<Sink>,
}

/// The reader of a destination.
pub(super) struct Sink {
    cursor: Cursor,
    pub(super) hangs: bool,
    in_hand: Vec<Delivery>,
}

impl Process {
    pub(super) fn start(settings: Settings, disk: &FaultyDisk, clock: &FakeClock) -> Self {
        let clocks: Arc<dyn Clock> = Arc::new(clock.clone());
        let config = JournalConfig {
            ring_bytes: 256 << 10,
            segment_bytes: 64 << 10,
            commit_interval: Duration::from_millis(5),
            ..journal_config("/data/journal")
        };
        let opened = Journal::open_with_writer(config, Arc::new(disk.clone()), clocks);
        let (journal, writer) = opened.expect("a journal");
        let buffer_bytes_max = if settings.is_tight { 8 << 10 } else { 1 << 30 };
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
        let wake = WakeFd::new().expect("a descriptor");
        journal.on_room(wake.clone());
        let (soon, acknowledged) = open(&journal, settings, disk, clock, &rules);
        journal.release_unclaimed();
        let (disk, clock) = (disk.clone(), clock.clone());
        Self { journal, writer, settings, disk, clock, rules, wake, soon, acknowledged, sinks }
    }

    /// Opens the sources anew, as when their settings have changed.
    pub(super) fn replace_sources(&mut self) {
        let Self { journal, settings, disk, clock, rules, .. } = &*self;
        (self.soon, self.acknowledged) = open(journal, *settings, disk, clock, rules);
    }

    /// What the event loops of the sources do when they are woken. Returns requests that were
    /// answered.
    pub(super) fn go_on(&mut self) -> Vec<Answered> {
        if self.wake.take() {
            self.soon.lanes.wake();
            self.acknowledged.wake();
        }
        self.acknowledged.go_on()
    }

    /// Lets the journal's writer perform some steps.
    pub(super) fn work(&mut self, steps: u32) {
        let _is_idle = (0..steps).any(|_| self.writer.step() != Step::Worked);
    }

    /// Lets the journal write everything that is due. Returns false if something is left.
    pub(super) fn flush(&mut self) -> bool {
        self.soon.lanes.flush();
        for _ in 0..5 {
            self.clock.advance(Duration::from_secs(3));
            let last = (0..STEPS_MAX).map(|_| self.writer.step()).find(|s| *s != Step::Worked);
            if last == Some(Step::Idle { wait: None }) {
                return self.journal.ledger().journal.disk_error.is_none();
            }
        }
        false
    }

    /// Ends the process as on SIGTERM, after its sources.
    pub(super) fn end(mut self) {
        self.journal.shutdown();
        let is_ended = (0..STEPS_MAX).any(|_| self.writer.step() == Step::Ended);
        assert!(is_ended, "the journal does not end");
    }
}

fn open(
    journal: &Journal,
    settings: Settings,
    disk: &FaultyDisk,
    clock: &FakeClock,
    rules: &Arc<RuleSwitch>,
) -> (Unacknowledged, Acknowledged) {
    let quota = settings.discards.map(quota);
    let context = |name: &str| {
        journal.register_source(name);
        LaneContext {
            name: name.to_owned(),
            thread: 0,
            journal: journal.clone(),
            rules: rules.clone(),
            clock: Arc::new(clock.clone()),
            stats: Arc::default(),
            gather_time: GATHER_TIME,
        }
    };
    let soon = Unacknowledged::open(context(UNACKNOWLEDGED), quota.as_ref(), disk);
    let acknowledged = Acknowledged::open(context(NAMES[ACKNOWLEDGED]), quota.as_ref());
    (soon, acknowledged)
}

impl Sink {
    /// Takes a delivery.
    pub(super) fn take(&mut self) -> bool {
        let Some(delivery) = self.cursor.take(|_| false) else { return false };
        self.in_hand.push(delivery);
        true
    }

    /// Settles the first delivery of the stream of this one; returns its records, without those that
    /// weir itself has written.
    pub(super) fn settle(&mut self, at: usize) -> Vec<Line> {
        let Some(stream) = self.in_hand.get(at).map(Delivery::stream) else { return Vec::new() };
        let first = self.in_hand.iter().position(|delivery| delivery.stream() == stream);
        let delivery = self.in_hand.remove(first.unwrap_or(at));
        let lines = delivery.records().filter_map(|(_, record)| Line::parse(record.body));
        let lines = lines.collect();
        self.cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        lines
    }

    pub(super) fn in_hand(&self) -> usize {
        self.in_hand.len()
    }
}
