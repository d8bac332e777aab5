//! What a torture did, what became of every line, and the verdict.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use weir_host::units::group_digits;

/// What is done to weir.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `kill -9`, and started again.
    Kill,
    /// SIGTERM, and started again.
    Stop,
    /// A file is renamed and a new one begun.
    Rotate,
    /// A file is copied and cut to nothing.
    CopyTruncate,
    /// A file is removed that weir is known to have read.
    DeleteRead,
    /// A file is removed, read or not.
    Delete,
    /// A collector reads and never answers.
    Hang,
    /// A collector refuses connections.
    Refuse,
    /// A collector answers 503.
    ServerError,
    /// A collector reads and drops the connection.
    Drop,
    /// A collector stores and drops the connection instead of saying so.
    LoseAnswers,
    /// A collector takes its time.
    Slow,
    /// Segments of the journal are damaged while weir is stopped.
    DamageSegments,
    /// The positions of the journal are damaged while weir is stopped.
    DamagePositions,
    /// The journal may not use the disk: so much must stay free.
    FullDisk,
}

impl Fault {
    /// In words.
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
            Self::ServerError => "collector answers 503",
            Self::Drop => "collector drops connections",
            Self::LoseAnswers => "collector loses answers",
            Self::Slow => "collector is slow",
            Self::DamageSegments => "segments damaged",
            Self::DamagePositions => "positions damaged",
            Self::FullDisk => "full disk",
        }
    }
}

/// What became of the lines at one destination.
#[derive(Debug, Clone, Serialize)]
pub struct TargetReport {
    /// Name of the output, or `store`.
    pub name: String,
    /// Lines that arrived, each once.
    pub arrived: u64,
    /// Lines that arrived again.
    pub duplicates: u64,
    /// Lines that did not arrive.
    pub missing: u64,
    /// Of those, lines that weir surely had, or could read: each of them must be counted.
    pub missing_certain: u64,
    /// Lines that its book says are delivered.
    pub delivered: u64,
    /// Lines that its book says are lost, by reason.
    pub discarded: BTreeMap<String, u64>,
    /// Lines in its dead-letter file.
    pub dead_lettered: u64,
    /// Missing lines that may be in no book: destroyed before weir can be proved to have had them.
    pub uncounted_max: u64,
    /// Counted lines that may have arrived: weir was killed before it could note it.
    pub miscounted_max: u64,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// What a source counted.
#[derive(Debug, Clone, Serialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Records made of its lines.
    pub records: u64,
    /// Bytes given up, by reason.
    pub bytes_abandoned: BTreeMap<String, u64>,
    /// It says that more may have come and gone unseen.
    pub at_least: bool,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct TortureReport {
    /// Repeats the faults and their order, though not the moments.
    pub seed: u64,
    /// How long it took with recovery, seconds.
    pub seconds: f64,
    /// Lines written.
    pub written: u64,
    /// Lines destroyed after weir had surely read them.
    pub destroyed_known: u64,
    /// Lines destroyed that weir may never have seen.
    pub destroyed_exposed: u64,
    /// How often each fault was caused.
    pub faults: BTreeMap<Fault, u64>,
    /// Every destination.
    pub targets: Vec<TargetReport>,
    /// Every source.
    pub sources: Vec<SourceReport>,
    /// What is wrong beside what is wrong with one destination.
    pub problems: Vec<String>,
}

impl TortureReport {
    /// Nothing is wrong.
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
            (self.destroyed_known, "of them destroyed after weir had surely read them"),
            (self.destroyed_exposed, "of them destroyed, read or not"),
        ] {
            writeln!(f, "  {:>11}  {what}", group_digits(count))?;
        }
        for source in &self.sources {
            let mark = if source.at_least { "; more may have gone unseen" } else { "" };
            let abandoned = reasons(&source.bytes_abandoned);
            let records = group_digits(source.records);
            writeln!(
                f,
                "  {records:>11}  read by {}, says the ledger; bytes given up: {abandoned}{mark}",
                source.name
            )?;
        }
        for target in &self.targets {
            target.fmt(f)?;
        }
        writeln!(f)?;
        for problem in &self.problems {
            writeln!(f, "wrong: {problem}")?;
        }
        let verdict = if self.is_passed() {
            "Passed: every line that weir surely had has arrived or is in the book of the destination \
             that lacks it."
        } else {
            "FAILED: lines and books do not agree."
        };
        writeln!(f, "{verdict} ({:.0} s, seed {})", self.seconds, self.seed)
    }
}

impl fmt::Display for TargetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nDestination {}", self.name)?;
        let certain = group_digits(self.missing_certain);
        let missing = format!("missing, {certain} of them surely read or readable");
        for (count, what) in [
            (self.arrived, "arrived"),
            (self.duplicates, "arrived again"),
            (self.missing, missing.as_str()),
            (self.delivered, "delivered, says the ledger"),
        ] {
            writeln!(f, "  {:>11}  {what}", group_digits(count))?;
        }
        let lost: u64 = self.discarded.values().sum::<u64>() + self.dead_lettered;
        let (lost, discarded) = (group_digits(lost), reasons(&self.discarded));
        writeln!(f, "  {lost:>11}  lost, says the ledger: {discarded}")?;
        for (count, what) in [
            (self.uncounted_max, "may be in no book: destroyed before weir surely had them"),
            (self.miscounted_max, "may be counted though they arrived: not noted before a kill"),
        ] {
            writeln!(f, "  {:>11}  at most {what}", group_digits(count))?;
        }
        for problem in &self.problems {
            writeln!(f, "  wrong: {problem}")?;
        }
        Ok(())
    }
}
