//! A running process: a source, its journal, and the readers of its destinations, all advanced step
//! by step.

use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, WakeFd};
use weir_journal::{
    Cursor, CursorSpec, Delivery, Journal, JournalConfig, JournalWriter, Outcome, Step, WhenFull,
};
use weir_testkit::{FakeClock, FakeTree, FaultyDisk, journal_config};

use super::super::super::discovery::Discovery;
use super::super::super::layout::Layout;
use super::super::{Engine, Parts, Wait};
use super::programs::{LOGS, parse};
use crate::config::{FileSource, Format, TailSettings};
use crate::rule::{RuleSwitch, Rules};
use crate::source::OwnPaths;
use crate::source::tail::test_settings;
use crate::stats::SourceStats;

/// Number of destinations.
pub(super) const SINKS: usize = 2;

/// Grace period of rotated files, and timeout of incomplete lines.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// Interval after which everything is looked at again.
pub(super) const RESCAN: Duration = Duration::from_mins(10);

/// Number of turns after which a source must have finished what it can do now.
const TURNS_MAX: u32 = 10_000;

/// Number of steps after which the journal's writer must have finished.
const STEPS_MAX: u32 = 10_000;

/// Content and number of a line.
pub(super) type Line = (usize, u64);

pub(super) struct Process {
    pub(super) journal: Journal,
    writer: JournalWriter,
    engine: Engine,
    pub(super) stats: Arc<SourceStats>,
    tree: FakeTree,
    clock: FakeClock,
    /// What the source waits for, and until when.
    asleep: Option<(Duration, bool)>,
    pub(super) sinks: Vec<Sink>,
}

/// The reader of a destination.
pub(super) struct Sink {
    cursor: Cursor,
    pub(super) hangs: bool,
    in_hand: Vec<Delivery>,
}

fn journal_settings() -> JournalConfig {
    JournalConfig {
        segment_bytes: 64 << 10,
        commit_interval: Duration::from_millis(5),
        spill_after: Duration::from_secs(2),
        ..journal_config("/data/journal")
    }
}

fn source() -> FileSource {
    FileSource {
        include: vec![format!("{LOGS}/**/*.log")],
        exclude: Vec::new(),
        format: Format::Raw,
        tail: TailSettings {
            rescan_interval: RESCAN,
            partial_timeout: GRACE,
            rotated_grace: GRACE,
            ..test_settings()
        },
    }
}

impl Process {
    /// Starts a process; its source reads the tree while programs may act.
    pub(super) fn start(
        disk: &FaultyDisk,
        tree: &FakeTree,
        clock: &FakeClock,
        buffer: u64,
    ) -> Self {
        let clocks: Arc<dyn Clock> = Arc::new(clock.clone());
        let opened =
            Journal::open_with_writer(journal_settings(), Arc::new(disk.clone()), clocks.clone());
        let (journal, writer) = opened.expect("a journal");
        let sinks: Vec<Sink> = (0..SINKS)
            .map(|n| Sink {
                cursor: journal
                    .cursor(CursorSpec {
                        name: format!("to-{n}"),
                        when_full: WhenFull::Block,
                        buffer_bytes_max: buffer,
                        window_bytes: 16 << 20,
                    })
                    .expect("a cursor"),
                hangs: false,
                in_hand: Vec::new(),
            })
            .collect();
        let indexes = sinks.iter().map(|sink| sink.cursor.index());
        let rules = Arc::new(RuleSwitch::new(Rules::to_all(1, indexes), 0));
        let stats = Arc::new(SourceStats::default());
        let source = source();
        let layout = Layout::files(&source, "/".as_ref()).expect("a layout");
        let files: Arc<dyn weir_host::FileTree> = Arc::new(tree.clone());
        let discovery =
            Discovery::new(layout, OwnPaths::default(), Arc::clone(&stats), Arc::clone(&files));
        let parts = Parts {
            name: "logs".into(),
            settings: source.tail,
            format: source.format,
            journal: journal.clone(),
            rules,
            clock: clocks,
            tree: files,
            stats: Arc::clone(&stats),
            wake: WakeFd::new().expect("a descriptor"),
            stop: Arc::default(),
            host: "host".into(),
        };
        let mut engine = Engine::new(parts, discovery);
        engine.start();
        journal.release_unclaimed();
        let (tree, clock) = (tree.clone(), clock.clone());
        Self { journal, writer, engine, stats, tree, clock, asleep: None, sinks }
    }

    /// Lets the source run for some turns, unless it waits. Returns false if it waits.
    pub(super) fn turn(&mut self, turns: u32) -> bool {
        for _ in 0..turns {
            if let Some((until, for_events)) = self.asleep {
                let is_woken = self.engine.parts.wake.take();
                let has_reports = for_events && self.tree.has_reports();
                if !is_woken && !has_reports && self.clock.monotonic() < until {
                    return false;
                }
                if is_woken {
                    self.engine.retry_blocked();
                }
            }
            self.engine.turn();
            let wait = self.engine.next_wait();
            self.asleep = wait
                .map(|Wait { timeout, for_events }| (self.clock.monotonic() + timeout, for_events));
        }
        true
    }

    /// Lets the source do everything that it can do now.
    pub(super) fn run_source(&mut self) {
        let ends = (0..TURNS_MAX).any(|_| !self.turn(1));
        assert!(ends, "the source never waits");
    }

    /// Returns when the source will act on its own.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        self.asleep.map(|(until, _)| until)
    }

    /// Lets the journal's writer perform some steps.
    pub(super) fn work(&mut self, steps: u32) -> bool {
        (0..steps).any(|_| self.writer.step() != Step::Worked)
    }

    /// Lets the journal write everything that is due. Returns false if something is left.
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

    /// Ends the process as on SIGTERM.
    pub(super) fn end(mut self) {
        self.engine.shut_down();
        self.journal.shutdown();
        let is_ended = (0..STEPS_MAX).any(|_| self.writer.step() == Step::Ended);
        assert!(is_ended, "the journal does not end");
    }
}

impl Sink {
    /// Takes a delivery.
    pub(super) fn take(&mut self) -> bool {
        let Some(delivery) = self.cursor.take(|_| false) else { return false };
        self.in_hand.push(delivery);
        true
    }

    /// Settles the first delivery of the stream of this one; returns its lines.
    pub(super) fn settle(&mut self, at: usize) -> Vec<Line> {
        let Some(stream) = self.in_hand.get(at).map(Delivery::stream) else { return Vec::new() };
        // What is settled out of order is sent again after a restart.
        let first = self.in_hand.iter().position(|delivery| delivery.stream() == stream);
        let delivery = self.in_hand.remove(first.unwrap_or(at));
        let lines = delivery.records().map(|(_, record)| {
            let body = record.body;
            parse(body).unwrap_or_else(|| panic!("no line: {:?}", String::from_utf8_lossy(body)))
        });
        let lines: Vec<Line> = lines.collect();
        self.cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        lines
    }

    pub(super) fn in_hand(&self) -> usize {
        self.in_hand.len()
    }
}
