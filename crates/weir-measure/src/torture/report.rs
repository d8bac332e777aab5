//! The report of a test: the faults, the fate of every line, and the verdict.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use weir_host::units::group_digits;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL, then a restart.
    Kill,
    /// SIGTERM, then a restart.
    Stop,
    /// A file is renamed and a new one started.
    Rotate,
    /// A file is copied and truncated.
    CopyTruncate,
    /// A file that weir is known to have read is removed.
    DeleteRead,
    /// A file is removed, read or not.
    Delete,
    /// A collector reads and never answers.
    Hang,
    /// A collector refuses connections.
    Refuse,
    /// A collector answers 503.
    ServerError,
    /// A collector reads the request and drops the connection.
    Drop,
    /// A collector stores the events and drops the connection without responding.
    LoseAnswers,
    /// A collector responds slowly.
    Slow,
    /// Segments of the journal are damaged while weir is stopped.
    DamageSegments,
    /// The positions of the journal are damaged while weir is stopped.
    DamagePositions,
    /// The journal may not use the disk, because of its setting of free space.
    FullDisk,
}

impl Fault {
    /// Returns a description.
    pub fn text(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Stop => "SIGTERM and restart",
            Self::Rotate => "rotation by rename",
            Self::CopyTruncate => "copytruncate",
            Self::DeleteRead => "deletion of a file that was read",
            Self::Delete => "deletion of any file",
            Self::Hang => "collector hangs",
            Self::Refuse => "collector refuses connections",
            Self::ServerError => "collector responds with 503",
            Self::Drop => "collector drops connections",
            Self::LoseAnswers => "collector loses responses",
            Self::Slow => "collector is slow",
            Self::DamageSegments => "segments damaged",
            Self::DamagePositions => "positions damaged",
            Self::FullDisk => "full disk",
        }
    }
}

/// The fate of the lines at one destination.
#[derive(Debug, Clone, Serialize)]
pub struct TargetReport {
    /// Name of the output, or `store`.
    pub name: String,
    /// Distinct lines that arrived.
    pub arrived: u64,
    /// Duplicate lines.
    pub duplicates: u64,
    /// Lines that did not arrive.
    pub missing: u64,
    /// Missing lines that weir certainly had, or could read: each of them must be counted.
    pub missing_certain: u64,
    /// Lines that are delivered according to its book.
    pub delivered: u64,
    /// Lines that are lost according to its book, by reason.
    pub discarded: BTreeMap<String, u64>,
    /// Lines in its dead-letter file.
    pub dead_lettered: u64,
    /// Missing lines that may not be counted: destroyed before weir can be proved to have had them.
    pub uncounted_max: u64,
    /// Counted lines that may have arrived: weir was killed before it could record that.
    pub miscounted_max: u64,
    /// Problems.
    pub problems: Vec<String>,
}

/// The counts of a source.
#[derive(Debug, Clone, Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Records made of its lines.
    pub records: u64,
    /// Bytes given up, by reason.
    pub bytes_abandoned: BTreeMap<String, u64>,
    /// It reports that more may have appeared and disappeared unseen.
    pub at_least: bool,
}

/// The report of a test.
#[derive(Debug, Clone, Serialize)]
pub struct TortureReport {
    /// Repeats the faults and their order, but not their timing.
    pub seed: u64,
    /// Duration including recovery, seconds.
    pub seconds: f64,
    /// Lines written.
    pub written: u64,
    /// Lines destroyed after weir had certainly read them.
    pub destroyed_known: u64,
    /// Lines destroyed that weir may never have seen.
    pub destroyed_exposed: u64,
    /// How often each fault was caused.
    pub faults: BTreeMap<Fault, u64>,
    /// One report per destination.
    pub targets: Vec<TargetReport>,
    /// One report per source.
    pub sources: Vec<SourceReport>,
    /// Problems that do not concern a single destination.
    pub problems: Vec<String>,
}

impl TortureReport {
    /// Returns true if there are no problems.
    pub fn is_passed(&self) -> bool {
        self.problems.is_empty() && self.targets.iter().all(|target| target.problems.is_empty())
    }
}

fn reasons(counts: &BTreeMap<String, u64>) -> String {
    let texts = counts.iter().map(|(reason, count)| format!("{reason} {}", group_digits(*count)));
    let text = texts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_owned() } else { text }
}

impl fmt::Display for TortureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Faults")?;
        for (fault, count) in &self.faults {
            writeln!(f, "  {count:>7}  {}", fault.text())?;
        }
        writeln!(f, "\nLines")?;
        for (count, what) in [
            (self.written, "written"),
            (self.destroyed_known, "of them destroyed after weir had certainly read them"),
            (self.destroyed_exposed, "of them destroyed, possibly unread"),
        ] {
            writeln!(f, "  {:>11}  {what}", group_digits(count))?;
        }
        for source in &self.sources {
            let mark = if source.at_least { "; more may have been missed" } else { "" };
            let abandoned = reasons(&source.bytes_abandoned);
            let records = group_digits(source.records);
            writeln!(
                f,
                "  {records:>11}  read by {} according to the ledger; bytes given up: \
                 {abandoned}{mark}",
                source.name
            )?;
        }
        for target in &self.targets {
            target.fmt(f)?;
        }
        writeln!(f)?;
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        let verdict = if self.is_passed() {
            "Passed: every line that weir certainly had has arrived or is counted in the book of \
             the destination that lacks it."
        } else {
            "FAILED: the lines do not match the ledger."
        };
        writeln!(f, "{verdict} ({:.0} s, seed {})", self.seconds, self.seed)
    }
}

impl fmt::Display for TargetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nDestination {}", self.name)?;
        let certain = group_digits(self.missing_certain);
        let missing = format!("missing, {certain} of them certainly read or readable");
        for (count, what) in [
            (self.arrived, "arrived"),
            (self.duplicates, "arrived again"),
            (self.missing, missing.as_str()),
            (self.delivered, "delivered according to the ledger"),
        ] {
            writeln!(f, "  {:>11}  {what}", group_digits(count))?;
        }
        let lost: u64 = self.discarded.values().sum::<u64>() + self.dead_lettered;
        let (lost, discarded) = (group_digits(lost), reasons(&self.discarded));
        writeln!(f, "  {lost:>11}  lost according to the ledger: {discarded}")?;
        for (count, what) in [
            (self.uncounted_max, "may not be counted: destroyed before weir certainly had them"),
            (self.miscounted_max, "may be counted though they arrived: not recorded before a kill"),
        ] {
            writeln!(f, "  {:>11}  at most {what}", group_digits(count))?;
        }
        for problem in &self.problems {
            writeln!(f, "  problem: {problem}")?;
        }
        Ok(())
    }
}
