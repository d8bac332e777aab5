//! `weir torture`: runs weir as a child process on the real disk and exposes it to the faults of a
//! machine and its operators. Finally the oracle verifies that every line has arrived at each
//! destination or is counted in that destination's own book.
//!
//! Invariants: nothing outside the given directory is touched; only loopback addresses and ports
//! chosen by the operating system are used; the child never outlives the test. The seed determines
//! which faults occur and in which order; their timing depends on the machine.

mod damage;
mod faults;
mod files;
mod judge;
mod report;
mod target;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use crate::books::Books;
use crate::process::{Process, wait_for};

use files::Files;
pub use report::{Fault, SourceReport, TargetReport, TortureReport};
use target::Target;
use writer::TortureWriter;

/// Time between two checks of the books.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time until everything has arrived after recovery, in addition to the duration of the
/// test itself.
const DRAIN_TIME_MIN: Duration = Duration::from_mins(2);

/// How long the books must not change before that counts as the end.
const REST_TIME: Duration = Duration::from_secs(2);

/// How long a process may take to end after it was asked twice.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);

/// Number of problems after which the test ends early.
const PROBLEMS_MAX: usize = 5;

/// Disk space to keep free for a journal that must not write: more than there is.
const NO_ROOM: &str = "1000000TiB";

/// The settings of a test.
#[derive(Debug, Clone)]
pub struct TorturePlan {
    /// The weir binary.
    pub binary: PathBuf,
    /// An empty directory for logs, data and the output of weir.
    pub dir: PathBuf,
    /// Duration, excluding recovery at the end.
    pub duration: Duration,
    /// Determines the faults.
    pub seed: u64,
    /// Lines per second over all files.
    pub lines_per_second: f64,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum TortureError {
    /// An operation of the test itself failed.
    #[error("failed to {what}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// The test was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Adds the operation to an error.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> TortureError {
    move |source| TortureError::Io { what, source }
}

/// Runs a test. `progress` gets each step, and may end the test without a verdict.
pub fn run(
    plan: &TorturePlan,
    mut progress: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<TortureReport, TortureError> {
    let mut torture = Torture::new(plan, &mut progress)?;
    torture.start(false)?;
    while torture.begun.elapsed() < plan.duration && torture.problems.len() < PROBLEMS_MAX {
        torture.step()?;
    }
    torture.finish()
}

/// A running test.
struct Torture<'a> {
    plan: &'a TorturePlan,
    progress: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    /// Draws the seed of each step.
    order: Rng,
    /// Draws the details of the current step.
    rng: Rng,
    begun: Instant,
    writer: TortureWriter,
    targets: Vec<Target>,
    process: Option<Process>,
    /// The books as last seen.
    books: Option<Books>,
    history: File,
    faults: BTreeMap<Fault, u64>,
    problems: Vec<String>,
    /// Positions may be damaged, too: then less can be proved.
    hits_positions: bool,
    /// Bytes of segments were damaged.
    is_damaged: bool,
    /// Positions and the books next to them were damaged.
    is_forgotten: bool,
}

impl<'a> Torture<'a> {
    fn new(
        plan: &'a TorturePlan,
        progress: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Self, TortureError> {
        let logs = plan.dir.join("logs");
        let files = Files::create(&logs, plan.seed).map_err(failed("create the log files"))?;
        let writer =
            TortureWriter::start(files, plan.lines_per_second).map_err(failed("write lines"))?;
        let history =
            File::create(plan.dir.join("history.txt")).map_err(failed("write the history"))?;
        let mut order = Rng::with_seed(plan.seed);
        Ok(Self {
            plan,
            progress,
            hits_positions: order.u8(..4) == 0,
            rng: order.fork(),
            order,
            begun: Instant::now(),
            writer,
            targets: vec![
                Target::new("first", "window = \"1MiB\"\n"),
                Target::new("second", "window = \"2MiB\"\n"),
                Target::new(
                    "dropping",
                    "window = \"1MiB\"\nwhen_full = \"drop_oldest\"\nbuffer_max = \"4MiB\"\n",
                ),
            ],
            process: None,
            books: None,
            history,
            faults: BTreeMap::new(),
            problems: Vec::new(),
            is_damaged: false,
            is_forgotten: false,
        })
    }

    /// Returns the configuration; `is_full` leaves the journal no room on the disk.
    fn config(&self, is_full: bool) -> String {
        let source = |(source, format): (&str, &str)| {
            let dir = self.plan.dir.join("logs").join(source);
            format!(
                "[source.{source}]\ntype = \"file\"\ninclude = [\"{}/*.log*\"]\n\
                 format = \"{format}\"\nrotated_grace = \"1s\"\nrescan_interval = \"500ms\"\n",
                dir.display()
            )
        };
        let output = |target: &Target| {
            format!(
                "[output.{}]\ntype = \"splunk_hec\"\nendpoint = \"{}\"\n\
                 token = {{ env = \"HEC_TOKEN\" }}\nbatch_size = \"64KiB\"\nbatch_age = \"50ms\"\n\
                 request_timeout = \"2s\"\nretry_min = \"10ms\"\nretry_max = \"200ms\"\n{}",
                target.name,
                target.collector.url(),
                target.keys
            )
        };
        let keep_free = if is_full { NO_ROOM } else { "0B" };
        let parts = [("plain", "raw"), ("docker", "docker_json")].into_iter().map(source);
        let journal = format!(
            "[store]\nflush_interval = \"1s\"\nretention = \"36500d\"\nretention_size = \"100%\"\n\
             [journal]\nring = \"4MiB\"\n\
             size_max = \"16MiB\"\nkeep_free = \"{keep_free}\"\n"
        );
        parts.chain(self.targets.iter().map(output)).chain([journal]).collect()
    }

    /// Starts weir without waiting.
    fn start(&mut self, is_full: bool) -> Result<(), TortureError> {
        let config = self.config(is_full);
        let launched = Process::launch(&self.plan.binary, &self.plan.dir, &config, &[]);
        self.process = Some(launched.map_err(failed("start weir"))?);
        self.targets.iter_mut().for_each(Target::begin);
        Ok(())
    }

    /// Asks weir to end; a second time if a destination keeps it from ending.
    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let patience = Duration::from_millis(self.rng.u64(500..4000));
        process.wait_signal_handlers();
        process.signal(Signal::TERM);
        let mut is_clean = false;
        if let Some(status) = process.wait_end(patience) {
            is_clean = status.success();
            if !is_clean {
                let log = tail(&process.log());
                self.wrong(format!("weir failed at shutdown ({status}): {log}"));
            }
        } else {
            process.signal(Signal::TERM);
            if process.wait_end(STOP_TIME_MAX).is_none() {
                let log = tail(&process.log());
                self.wrong(format!("weir did not end within {STOP_TIME_MAX:?}: {log}"));
                process.kill();
            }
        }
        self.targets.iter_mut().for_each(|target| target.end(is_clean));
    }

    /// Sends SIGKILL.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            self.targets.iter_mut().for_each(|target| target.end(false));
        }
    }

    /// Lets time pass, while checking the books.
    fn pass(&mut self, time: Duration) -> Result<(), TortureError> {
        let begun = Instant::now();
        loop {
            self.look()?;
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let _nothing: Option<()> = wait_for(left.min(LOOK_INTERVAL), || None);
        }
    }

    fn look(&mut self) -> Result<(), TortureError> {
        self.targets.iter_mut().for_each(Target::look);
        let Some(process) = &mut self.process else { return Ok(()) };
        if process.has_ended() {
            let log = tail(&process.log());
            self.targets.iter_mut().for_each(|target| target.end(false));
            self.wrong(format!("weir exited unexpectedly: {log}"));
            return self.start(false);
        }
        let is_asked = process.api().is_some() || process.try_api();
        let books = is_asked.then(|| process.ledger()).flatten();
        // While it opens its sources, the books are not complete yet.
        if let Some(books) = books.filter(|books| books.json()["opening"] == false) {
            if let Some(wrong) = books.imbalance() {
                self.wrong(format!("{wrong}: {books}"));
            }
            self.targets.iter_mut().for_each(|target| target.note(&books));
            self.books = Some(books);
        }
        Ok(())
    }

    /// Records a problem, once.
    fn wrong(&mut self, problem: String) {
        self.note(&format!("problem: {problem}"));
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Writes to the history.
    fn note(&mut self, text: &str) {
        let elapsed = self.begun.elapsed().as_secs_f64();
        // The history is for people; the test continues without it.
        let _lost = writeln!(self.history, "{elapsed:>9.3} {text}");
    }

    /// Ends all faults, waits until everything has arrived, and judges.
    fn finish(mut self) -> Result<TortureReport, TortureError> {
        self.writer.stop().map_err(failed("write lines"))?;
        self.targets.iter_mut().for_each(Target::recover);
        self.stop();
        self.start(false)?;
        self.note("all faults have ended");
        if (self.progress)("waiting until everything has arrived").is_break() {
            return Err(TortureError::Interrupted);
        }
        let deadline = DRAIN_TIME_MIN + self.plan.duration;
        let is_at_rest = self.drain(deadline)?;
        if !is_at_rest {
            let log = self.process.as_ref().map(|process| tail(&process.log()));
            self.wrong(format!(
                "the books did not come to rest within {deadline:?}: {}",
                log.unwrap_or_default()
            ));
        }
        let Some(books) = self.books.take() else {
            let log = self.process.as_ref().map(Process::log).unwrap_or_default();
            let source = io::Error::other(tail(&log));
            return Err(TortureError::Io { what: "read the ledger of weir", source });
        };
        let stored = self.stored().map_err(failed("export the store"))?;
        self.stop();
        Ok(judge::report(&self, &books, stored))
    }

    /// Waits until no book changes and nothing is in flight. Returns false if that took too long.
    fn drain(&mut self, deadline: Duration) -> Result<bool, TortureError> {
        let begun = Instant::now();
        let mut still_since: Option<(Instant, u64)> = None;
        self.books = None;
        while begun.elapsed() < deadline && self.problems.len() < PROBLEMS_MAX {
            self.pass(LOOK_INTERVAL)?;
            if (self.progress)("").is_break() {
                return Err(TortureError::Interrupted);
            }
            let books = self.books.as_ref().filter(|books| is_at_rest(books));
            let records = books.map(Books::records);
            still_since = match (records, still_since) {
                (None, _) => None,
                (Some(now), Some((since, then))) if now == then => {
                    if since.elapsed() >= REST_TIME {
                        return Ok(true);
                    }
                    Some((since, then))
                }
                (Some(now), _) => Some((Instant::now(), now)),
            };
        }
        Ok(false)
    }
}

/// Returns true if nothing waits, nothing is in flight, and everything is read.
fn is_at_rest(books: &Books) -> bool {
    let list = |name: &str| books.json()[name].as_array().cloned().unwrap_or_default();
    list("cursors").iter().all(|cursor| cursor["in_flight"] == 0)
        && list("sources").iter().all(|source| source["files"]["bytes_unread"] == 0)
        && books.files_balance()
}

/// Returns the end of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
