//! A source on a real directory, a real journal and a destination that stores every record.
//!
//! Nothing sleeps: tests wait for the expected state, with a deadline, and finally check the books.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_testkit::journal_config;

use weir_host::{RealClock, RealDisk};
use weir_journal::{Cursor, CursorSpec, Journal, JournalConfig, Outcome, WhenFull};
use weir_model::{RecordFlags, Resource, SourceBook};
use weir_pipeline::config::{Format, ReadFrom, SourceKind, SourcePlan, TailSettings};
use weir_pipeline::rule::{RulePlan, RuleSwitch, Rules};
use weir_pipeline::source::{ContainersSource, FileSource};
use weir_pipeline::source::{
    OwnPath, OwnPaths, PreparedSource, SourceContext, SourceHandle, ViewSlot,
};
use weir_pipeline::stats::{SourceStats, get};

/// Maximum wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A record as it was delivered.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) body: String,
    pub(crate) flags: RecordFlags,
    pub(crate) resource: Resource,
}

/// What a destination received, and how it behaves.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    records: Mutex<Vec<Seen>>,
    changed: Condvar,
    /// It takes nothing.
    pub(crate) is_hung: AtomicBool,
    /// It takes records, but never acknowledges them.
    pub(crate) is_silent: AtomicBool,
    is_over: AtomicBool,
}

impl Inbox {
    pub(crate) fn records(&self) -> Vec<Seen> {
        self.records.lock().unwrap().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.records.lock().unwrap().iter().map(|r| r.body.clone()).collect()
    }

    /// Waits until at least `count` records have arrived.
    #[track_caller]
    pub(crate) fn wait(&self, count: usize) {
        let until = Instant::now() + DEADLINE;
        let mut records = self.records.lock().unwrap();
        while records.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "{} of {count} records arrived: {:?}",
                records.len(),
                tail(&records)
            );
            records = self.changed.wait_timeout(records, left).unwrap().0;
        }
    }

    async fn serve(self: Arc<Self>, mut cursor: Cursor) {
        let mut pause = tokio::time::interval(Duration::from_millis(2));
        while !self.is_over.load(Ordering::Acquire) {
            pause.tick().await;
            if self.is_hung.load(Ordering::Acquire) {
                continue;
            }
            while let Some(delivery) = cursor.take_blocking(|_| false) {
                let new = delivery.records().map(|(index, r)| Seen {
                    body: String::from_utf8_lossy(&r.plain_body()).into_owned(),
                    flags: r.flags,
                    resource: Resource::decode(delivery.batch.resource_of(index).encoded),
                });
                self.records.lock().unwrap().extend(new);
                if !self.is_silent.load(Ordering::Acquire) {
                    cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
                }
                self.changed.notify_all();
            }
        }
    }
}

fn tail(records: &[Seen]) -> Vec<&str> {
    records.iter().rev().take(3).map(|r| r.body.as_str()).collect()
}

/// Waits until `check` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !check() {
        assert!(Instant::now() < until, "{what}: not within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Settings that are fast enough for tests and slow enough to prove that inotify does the work.
pub(crate) fn settings() -> TailSettings {
    TailSettings {
        read_from: ReadFrom::Beginning,
        line_bytes_max: 192 * 1024,
        rescan_interval: Duration::from_mins(10),
        multiline: None,
        partial_timeout: Duration::from_mins(10),
        rotated_grace: Duration::from_millis(300),
        deleted_bytes_max: 1 << 40,
        rate_limit: None,
        read_interval: Duration::from_millis(20),
    }
}

/// Directories that survive restarts.
pub(crate) struct World {
    home: tempfile::TempDir,
    pub(crate) plan: SourcePlan,
    pub(crate) rules: Vec<RulePlan>,
    pub(crate) ring_bytes: u64,
    pub(crate) buffer_bytes_max: u64,
}

impl World {
    /// Creates a `file` source for globs below the directory of logs.
    pub(crate) fn files(include: &[&str], change: impl FnOnce(&mut FileSource)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let mut source = FileSource {
            include: include.iter().map(|p| format!("{}/{p}", logs.display())).collect(),
            exclude: Vec::new(),
            format: Format::Raw,
            tail: settings(),
        };
        change(&mut source);
        Self::new(home, SourceKind::File(source))
    }

    /// Creates a `containers` source with all kinds of roots below the directory of logs.
    pub(crate) fn containers(change: impl FnOnce(&mut ContainersSource)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        for root in ["docker", "pods", "containers"] {
            std::fs::create_dir_all(logs.join(root)).unwrap();
        }
        let mut source = ContainersSource {
            docker_roots: vec![logs.join("docker")],
            pod_roots: vec![logs.join("pods")],
            link_roots: vec![logs.join("containers")],
            exclude_containers: Vec::new(),
            tail: settings(),
        };
        change(&mut source);
        Self::new(home, SourceKind::Containers(source))
    }

    fn new(home: tempfile::TempDir, kind: SourceKind) -> Self {
        let plan = SourcePlan { name: "app".into(), kind };
        Self { home, plan, rules: Vec::new(), ring_bytes: 64 << 20, buffer_bytes_max: 1 << 30 }
    }

    /// Returns a path below the directory of logs.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.home.path().join("logs").join(name)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn rules(&self, cursor: usize) -> Rules {
        Rules::new(1, &self.rules, &[cursor], |_| Some(cursor)).unwrap()
    }

    /// Starts journal, destination and source.
    pub(crate) fn start(&self) -> Running {
        let clock = Arc::new(RealClock::new());
        let config = JournalConfig {
            ring_bytes: self.ring_bytes,
            segment_bytes: 16 << 20,
            commit_interval: Duration::from_millis(5),
            spill_after: Duration::from_secs(2),
            ..journal_config(self.data_dir())
        };
        let journal = Journal::open(config, Arc::new(RealDisk), clock.clone()).unwrap();
        let cursor = journal
            .cursor(CursorSpec {
                name: "out".into(),
                when_full: WhenFull::Block,
                buffer_bytes_max: self.buffer_bytes_max,
                window_bytes: 16 << 20,
            })
            .unwrap();
        let stats = Arc::new(SourceStats::default());
        let context = SourceContext {
            journal: journal.clone(),
            rules: Arc::new(RuleSwitch::new(self.rules(cursor.index()), 0)),
            clock,
            stats: stats.clone(),
            disk: Arc::new(RealDisk),
            data_dir: self.data_dir(),
            view: ViewSlot::default(),
            own_paths: OwnPaths::new(&[OwnPath::Below(self.data_dir())]),
        };
        let inbox = Arc::new(Inbox::default());
        let serving = inbox.clone();
        let destination = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(serving.serve(cursor));
        });
        let source = PreparedSource::new(&self.plan, context).unwrap().start().unwrap();
        assert!(source.progress().wait_discovered(DEADLINE), "discovery ends");
        journal.release_unclaimed();
        Running { journal, stats, inbox, source: Some(source), destination: Some(destination) }
    }
}

/// A running source with its surroundings.
pub(crate) struct Running {
    pub(crate) journal: Journal,
    pub(crate) stats: Arc<SourceStats>,
    pub(crate) inbox: Arc<Inbox>,
    source: Option<SourceHandle>,
    destination: Option<JoinHandle<()>>,
}

impl Running {
    /// Returns the source's book.
    pub(crate) fn book(&self) -> SourceBook {
        self.journal.ledger().sources[0].book
    }

    /// Returns the number of streams that the journal knows.
    pub(crate) fn streams(&self) -> u64 {
        self.journal.ledger().sources[0].streams
    }

    /// Returns what is wrong with the books at this moment; nothing if they balance.
    fn imbalance(&self) -> Option<String> {
        let ledger = self.journal.ledger();
        let book = ledger.sources[0].book;
        let (seen, unread) = (get(&self.stats.bytes_seen), get(&self.stats.bytes_unread));
        let accounted = book.bytes_read + book.abandoned_total() + unread;
        let cursor = &ledger.cursors[0];
        let is_sound = book.unaccounted_lines() == 0
            && seen == accounted
            && cursor.unaccounted() == 0
            && cursor.in_flight == 0;
        (!is_sound).then(|| format!("seen {seen}, unread {unread}, {book:?}, {cursor:?}"))
    }

    /// Asserts that everything was read and delivered, and that every book balances.
    #[track_caller]
    pub(crate) fn assert_books(&self) {
        let until = Instant::now() + DEADLINE;
        while let Some(wrong) = self.imbalance() {
            assert!(Instant::now() < until, "the books do not balance: {wrong}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Waits for the records and compares them with `expected`, in order, including the books.
    #[track_caller]
    pub(crate) fn expect(&self, expected: &[String]) {
        self.inbox.wait(expected.len());
        assert_same(&self.inbox.bodies(), expected);
        self.assert_books();
        assert_same(&self.inbox.bodies(), expected);
    }

    /// Like [`Self::assert_books`], with that many bytes waiting for their line to end.
    #[track_caller]
    pub(crate) fn assert_books_but_for(&self, unread: u64) {
        eventually("an unfinished line is reported", || get(&self.stats.bytes_unread) == unread);
        self.assert_books();
    }

    /// Makes the source publish its statistics now.
    pub(crate) fn stats_after_a_wake(&self) {
        let before = get(&self.stats.cpu_ns);
        self.source.as_ref().unwrap().wake();
        eventually("statistics are published", || get(&self.stats.cpu_ns) > before);
    }

    /// Waits for the records, in any order, and compares them, including the books.
    #[track_caller]
    pub(crate) fn expect_each_once(&self, expected: &[String]) {
        let until = Instant::now() + DEADLINE;
        while self.inbox.bodies().len() < expected.len() && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        self.assert_books();
        assert_each_once(&self.inbox.bodies(), expected);
    }

    /// Stops only the source.
    pub(crate) fn stop_source(&mut self) {
        if let Some(source) = self.source.take() {
            source.stop();
            assert!(source.join(&self.journal), "the source ends without panic");
        }
    }

    /// Ends everything as at a shutdown.
    pub(crate) fn stop(mut self) -> Vec<Seen> {
        self.stop_source();
        self.journal.flush();
        self.inbox.is_over.store(true, Ordering::Release);
        self.destination.take().unwrap().join().unwrap();
        self.journal.shutdown();
        self.inbox.records()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            source.stop();
        }
        self.inbox.is_over.store(true, Ordering::Release);
        self.journal.shutdown();
    }
}

/// Compares long lists with a short message.
#[track_caller]
pub(crate) fn assert_same(seen: &[String], expected: &[String]) {
    if seen == expected {
        return;
    }
    let at = seen.iter().zip(expected).position(|(a, b)| a != b);
    let at = at.unwrap_or(seen.len().min(expected.len()));
    let near = |list: &[String]| {
        list.iter().skip(at.saturating_sub(2)).take(6).cloned().collect::<Vec<_>>()
    };
    panic!(
        "{} records instead of {}; they differ at {at}: {:?} instead of {:?}",
        seen.len(),
        expected.len(),
        near(seen),
        near(expected)
    );
}

/// Numbered lines.
pub(crate) fn lines(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("line {n:06}")).collect()
}

/// A program that writes logs.
pub(crate) struct Writer(pub(crate) File);

impl Writer {
    /// Opens for appending, as nearly every logger does.
    pub(crate) fn append(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Writes lines one by one.
    pub(crate) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.text(&format!("{line}\n"));
        }
    }

    /// Writes lines in one call.
    pub(crate) fn block(&mut self, lines: &[String]) {
        self.text(&(lines.join("\n") + "\n"));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }
}

/// Counts the occurrences of each record.
pub(crate) fn counts(bodies: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for body in bodies {
        *counts.entry(body.as_str()).or_default() += 1;
    }
    counts
}

/// Asserts that every line arrived exactly once, in any order.
#[track_caller]
pub(crate) fn assert_each_once(bodies: &[String], expected: &[String]) {
    let counts = counts(bodies);
    let lost: Vec<_> =
        expected.iter().filter(|l| !counts.contains_key(l.as_str())).take(5).collect();
    let twice: Vec<_> = counts.iter().filter(|(_, n)| **n != 1).take(5).collect();
    assert!(
        lost.is_empty() && twice.is_empty() && bodies.len() == expected.len(),
        "{} records instead of {}; lost {lost:?}, not once {twice:?}",
        bodies.len(),
        expected.len()
    );
}
