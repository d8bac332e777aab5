//! The world of a history: files and the programs that write them, the journal's disk, a clock, and
//! a process that starts and ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use weir_host::Clock;
use weir_model::RecordView;
use weir_testkit::history::Trace;
use weir_testkit::{FakeClock, FakeTree, FaultyDisk, TreeLimits};

use super::oracle::{Causes, Oracle};
use super::plan::{Event, Settings, What};
use super::process::{Process, RESCAN};
use super::programs::{Line, Programs, contents_now, parse};
use crate::source::simulated::{SinkAction, fail_disk};
use crate::stats::get;

/// Number of rounds after which everything must have arrived.
const ROUNDS: u32 = 40;

pub(super) struct World {
    settings: Settings,
    trace: Trace,
    clock: FakeClock,
    disk: FaultyDisk,
    tree: FakeTree,
    programs: Arc<Mutex<Programs>>,
    oracle: Oracle,
    process: Option<Process>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tree.stop_changes();
    }
}

impl World {
    pub(super) fn new(settings: Settings, trace: Trace) -> Self {
        let clock = FakeClock::default();
        let tree = FakeTree::new(clock.clone());
        let programs = (settings.programs, settings.habit);
        let programs = Programs::new(tree.clone(), clock.clone(), trace.clone(), programs);
        let programs = Arc::new(Mutex::new(programs));
        let racing = Arc::clone(&programs);
        tree.change_between_calls(move || {
            racing.lock().unwrap_or_else(PoisonError::into_inner).race();
        });
        if settings.loses_reports {
            tree.set_limits(TreeLimits { reports_max: 6, ..TreeLimits::default() });
        }
        let (disk, oracle) = (FaultyDisk::new(), Oracle::default());
        Self { settings, trace, clock, disk, tree, programs, oracle, process: None }
    }

    fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(mut self, events: &[Event]) {
        for event in events {
            self.trace.note(|| format!("{:?}", event.what));
            self.happen(*event);
            self.note_books();
        }
        self.finish();
    }

    /// Adds the state of the books to the trace.
    fn note_books(&self) {
        let Some(process) = &self.process else { return };
        self.trace.note(|| {
            let ledger = process.journaled.journal.ledger();
            let cursors =
                ledger.cursors.iter().map(|c| format!("{}/{}", c.book.delivered, c.book.routed));
            let source = ledger.sources.first().map(|source| source.book).unwrap_or_default();
            let cursors: Vec<String> = cursors.collect();
            let (lines, lost) = (source.lines, source.abandoned_total());
            format!("    {lines} lines read, {lost} bytes abandoned; {}", cursors.join(", "))
        });
    }

    fn happen(&mut self, Event { what, seed }: Event) {
        let mut rng = Rng::with_seed(seed);
        match what {
            What::Act => {
                for _ in 0..rng.u32(1..4) {
                    self.programs().act(&mut rng);
                }
            }
            What::Start => self.start(),
            What::ReadsFail => self.tree.fail_reads(rng.u32(1..4)),
            What::DiskFails => fail_disk(&self.disk, &mut rng),
            What::DiskIsWell => self.disk.faults().clear(),
            What::Kill => self.die(FaultyDisk::kill),
            What::Crash => self.die(|disk| disk.crash(seed)),
            What::End => self.end(),
            _ => self.go_on(what, &mut rng),
        }
    }

    fn go_on(&mut self, what: What, rng: &mut Rng) {
        if self.process.is_none() {
            return;
        }
        if what == What::Race {
            let count = rng.u32(1..6);
            self.programs().race = Some((rng.fork(), count));
        }
        if matches!(what, What::Pass | What::Work | What::Flush) {
            // No line stays incomplete while time passes.
            self.programs().complete_all();
        }
        if what == What::Pass {
            self.pass(rng);
        }
        let Some(process) = &mut self.process else { return };
        match what {
            What::Race | What::Pass | What::Turn => {
                process.turn(rng.u32(1..6));
            }
            What::Work => {
                self.clock.advance(Duration::from_micros(rng.u64(..20_000)));
                process.journaled.work(rng.u32(1..12));
            }
            What::Flush => self.flush(),
            What::Sink(action) => self.deliver(action, rng),
            _ => {}
        }
    }

    /// Time passes until the source acts on its own, or for longer.
    fn pass(&mut self, rng: &mut Rng) {
        let Some(process) = &self.process else { return };
        let now = self.clock.monotonic();
        let until = process.next_turn().unwrap_or(now);
        let extra =
            if rng.u8(..4) == 0 { Duration::from_secs(rng.u64(..3)) } else { Duration::ZERO };
        let pause = (until.saturating_sub(now) + extra).min(Duration::from_mins(11));
        self.clock.advance(pause.max(Duration::from_millis(1)));
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
        if process.journaled.flush() {
            self.oracle.note_flushed();
        }
    }

    fn start(&mut self) {
        if self.process.is_some() {
            return;
        }
        // A journal that cannot be opened is the subject of its own tests.
        self.disk.faults().clear();
        // Whether a file is older than the process is certain.
        self.clock.advance(Duration::from_millis(20));
        let buffer = if self.settings.is_tight { 8 << 10 } else { 1 << 30 };
        self.process = Some(Process::start(&self.disk, &self.tree, &self.clock, buffer));
        self.programs().start();
    }

    fn note_lost_reports(&mut self) {
        let Some(process) = &self.process else { return };
        let errors = process.stats.errors.by_kind();
        let is_said = errors.iter().any(|(kind, _)| *kind == "inotify_overflow");
        self.oracle.has_lost_reports |= is_said || get(&process.stats.unwatched_dirs) > 0;
    }

    fn die(&mut self, survives: impl FnOnce(&FaultyDisk) -> FaultyDisk) {
        self.note_lost_reports();
        let Some(process) = self.process.take() else { return };
        drop(process);
        self.disk = survives(&self.disk);
        self.oracle.was_killed = true;
        self.end_life();
    }

    fn end(&mut self) {
        self.note_lost_reports();
        let Some(process) = self.process.take() else { return };
        self.disk.faults().clear();
        self.programs().race = None;
        self.programs().complete_all();
        process.end();
        self.oracle.note_flushed();
        self.end_life();
    }

    fn end_life(&mut self) {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.end();
        self.oracle.end_life(&mut programs.contents);
        // No process starts within the tick of the clock that stamps births.
        self.clock.advance(Duration::from_millis(10));
    }

    /// Ends all faults, lets everything arrive, and compares.
    fn finish(mut self) {
        self.trace.note(|| "the end".to_owned());
        self.disk.faults().clear();
        self.tree.fail_reads(0);
        self.programs().race = None;
        self.programs().complete_all();
        self.start();
        for round in 0..ROUNDS {
            let Some(process) = &mut self.process else { return };
            process.run_source();
            process.journaled.deliver_all(line_of, |index, lines| {
                self.trace.note(|| format!("  {index} receives {lines:?}"));
                self.oracle.receive(index, lines);
            });
            self.flush();
            self.note_books();
            let is_long = round % 10 == 9;
            self.clock.advance(if is_long { RESCAN } else { Duration::from_millis(200) });
        }
        self.note_lost_reports();
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let causes = Causes { has_cut: programs.has_cut, has_removed: programs.has_removed };
        let present = contents_now(&self.tree);
        let Some(process) = &self.process else { return };
        self.oracle.compare(&process.journaled.journal, &programs.contents, &present, causes);
    }
}

/// Returns content and number of the line in a record.
fn line_of(record: RecordView<'_>) -> Option<Line> {
    let line = parse(record.body);
    assert!(line.is_some(), "no line: {:?}", String::from_utf8_lossy(record.body));
    line
}
