//! A running process: a source and its journal, advanced step by step.

use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock as _, WakeFd};
use weir_journal::JournalConfig;
use weir_testkit::{FakeClock, FakeTree, FaultyDisk, journal_config};

use super::super::super::discovery::Discovery;
use super::super::super::layout::Layout;
use super::super::{Engine, Parts, Wait};
use super::programs::LOGS;
use crate::config::{FileSource, Format, TailSettings};
use crate::source::OwnPaths;
use crate::source::simulated::SimulatedJournal;
use crate::source::tail::test_settings;
use crate::stats::SourceStats;

/// Grace period of rotated files, and timeout of incomplete lines.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// Interval after which everything is looked at again.
pub(super) const RESCAN: Duration = Duration::from_mins(10);

/// Number of turns after which a source must have finished what it can do now.
const TURNS_MAX: u32 = 10_000;

pub(super) struct Process {
    pub(super) journaled: SimulatedJournal,
    engine: Engine,
    pub(super) stats: Arc<SourceStats>,
    tree: FakeTree,
    clock: FakeClock,
    /// What the source waits for, and until when.
    asleep: Option<(Duration, bool)>,
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
        let journaled = SimulatedJournal::open(journal_settings(), disk, clock, buffer);
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
            journal: journaled.journal.clone(),
            rules: journaled.rules.clone(),
            clock: Arc::new(clock.clone()),
            tree: files,
            stats: Arc::clone(&stats),
            wake: WakeFd::new().expect("a descriptor"),
            stop: Arc::default(),
            host: "host".into(),
        };
        let mut engine = Engine::new(parts, discovery);
        engine.start();
        journaled.journal.release_unclaimed();
        let (tree, clock) = (tree.clone(), clock.clone());
        Self { journaled, engine, stats, tree, clock, asleep: None }
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

    /// Ends the process as on SIGTERM.
    pub(super) fn end(mut self) {
        self.engine.shut_down();
        self.journaled.end();
    }
}
