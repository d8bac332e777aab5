//! The verdict: what the oracle must allow, and why.
//!
//! Three things cannot be known from outside, and are bounds:
//! - A line that was destroyed before it was proved that weir read it, and that arrived nowhere,
//!   may not be counted. The ledger must then show that bytes were given up, or that more may have
//!   been.
//! - A line that arrived at another destination just before a kill may be forgotten when it is
//!   destroyed: its acknowledgement was not durable.
//! - For the same reason a line may be counted as lost although it arrived.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::books::Books;
use crate::collector::Tally;
use crate::oracle::Oracle;

use super::Torture;
use super::files::{Content, Fate, Files};
use super::report::{SourceReport, TargetReport, TortureReport};
use super::target::STORE;

/// Number of runs of missing lines that are shown when something is wrong.
const SHOWN_RUNS: usize = 8;

/// What arrived at a destination, and what is uncertain there.
struct Arrivals {
    name: &'static str,
    tally: Tally,
    uncertain: u64,
    resent: u64,
    /// Its buffer drops old records, so that records that arrived may be dropped when they wait
    /// again.
    drops: bool,
    counted_max: u64,
}

impl Torture<'_> {
    /// Returns the content of the store, from an export.
    pub(super) fn stored(&self) -> io::Result<Tally> {
        let mut tally = Tally::default();
        let api = self.process.as_ref().and_then(crate::Process::api);
        let api = api.ok_or(io::ErrorKind::NotConnected)?.to_string();
        let mut child = Command::new(&self.plan.binary)
            .args(["store", "export", "*", "--api", &api])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                let entry: Value = serde_json::from_str(&line?)?;
                let message = entry["attributes"]["message"].as_str().unwrap_or_default();
                tally.count(message.as_bytes());
            }
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(said));
        }
        Ok(tally)
    }
}

/// Judges every destination.
pub(super) fn report(torture: &Torture<'_>, books: &Books, stored: Tally) -> TortureReport {
    let files = torture.writer.files();
    let mut all: Vec<Arrivals> = torture.targets.iter().map(Arrivals::of).collect();
    all.push(Arrivals {
        name: STORE,
        tally: stored,
        uncertain: 0,
        resent: 0,
        drops: false,
        counted_max: books.discarded(STORE),
    });
    let judge = Judge {
        is_forgotten: torture.is_forgotten,
        is_damaged: torture.is_damaged,
        files: &files,
        books,
        all: &all,
    };
    let targets: Vec<TargetReport> = (0..all.len()).map(|index| judge.target(index)).collect();
    let destroyed = |fate: Fate| {
        let of_fate = files.contents.iter().filter(|content| content.fate == fate);
        of_fate.map(|content| content.lines.end - content.lines.start).sum()
    };
    TortureReport {
        seed: torture.plan.seed,
        seconds: torture.begun.elapsed().as_secs_f64(),
        written: files.report().lines,
        destroyed_known: destroyed(Fate::Known),
        destroyed_exposed: destroyed(Fate::Exposed),
        faults: torture.faults.clone(),
        targets,
        sources: sources(books),
        problems: torture.problems.clone(),
    }
}

fn sources(books: &Books) -> Vec<SourceReport> {
    let source = |source: &Value| SourceReport {
        name: source["name"].as_str().unwrap_or_default().to_owned(),
        records: source["book"]["records"].as_u64().unwrap_or(0),
        bytes_abandoned: reasons(&source["book"]["bytes_abandoned"]),
        at_least: source["files"]["at_least"] == true,
    };
    books.json()["sources"].as_array().map_or_else(Vec::new, |all| all.iter().map(source).collect())
}

fn reasons(counts: &Value) -> BTreeMap<String, u64> {
    serde_json::from_value(counts.clone()).unwrap_or_default()
}

impl Arrivals {
    fn of(target: &super::Target) -> Self {
        Self {
            name: target.name,
            tally: target.collector.tally(),
            uncertain: target.uncertain,
            resent: target.resent,
            drops: target.keys.contains("drop_oldest"),
            counted_max: target.counted_max,
        }
    }

    fn has(&self, stream: &str, seq: u64) -> bool {
        self.tally.streams.get(stream).is_some_and(|arrived| arrived.has(seq))
    }
}

/// Everything that the verdict is based on.
struct Judge<'a> {
    is_forgotten: bool,
    is_damaged: bool,
    files: &'a Files,
    books: &'a Books,
    all: &'a [Arrivals],
}

impl Judge<'_> {
    /// Returns true if nothing is certain about a content: with damaged positions, that is all that
    /// was destroyed.
    fn is_exposed(&self, content: &Content) -> bool {
        match content.fate {
            Fate::There => false,
            Fate::Known => self.is_forgotten,
            Fate::Exposed => true,
        }
    }

    fn exposed(&self) -> BTreeMap<String, Vec<Range<u64>>> {
        let mut exposed: BTreeMap<String, Vec<Range<u64>>> = BTreeMap::new();
        for content in self.files.contents.iter().filter(|content| self.is_exposed(content)) {
            let name = self.files.name(content.stream).to_owned();
            exposed.entry(name).or_default().push(content.lines.clone());
        }
        exposed
    }

    /// Returns the lines of contents, with the stream's name.
    fn lines(&self, is_meant: impl Fn(&Content) -> bool) -> impl Iterator<Item = (&str, u64)> {
        let contents = self.files.contents.iter().filter(move |content| is_meant(content));
        contents.flat_map(|content| {
            let name = self.files.name(content.stream);
            content.lines.clone().map(move |seq| (name, seq))
        })
    }

    /// Returns the number of missing lines that may not be counted.
    fn uncounted_max(&self, index: usize) -> u64 {
        let (mut nowhere, mut elsewhere, mut stored) = (0, 0, 0);
        for (stream, seq) in self.lines(|content| self.is_exposed(content)) {
            if self.all[index].has(stream, seq) {
                continue;
            }
            let mut having = self.all.iter().filter(|other| other.has(stream, seq)).peekable();
            if having.peek().is_none() {
                nowhere += 1;
            } else if having.all(|other| other.name == STORE) {
                stored += 1;
            } else {
                elsewhere += 1;
            }
        }
        let others = self.all.iter().enumerate().filter(|(other, _)| *other != index);
        let uncertain = if self.is_forgotten {
            u64::MAX
        } else {
            others.map(|(_, other)| other.uncertain).sum()
        };
        nowhere + stored + elsewhere.min(uncertain)
    }

    /// Returns the number of counted lines that may have arrived.
    fn miscounted_max(&self, index: usize) -> u64 {
        let arrivals = &self.all[index];
        let is_destroyed = |content: &Content| content.fate != Fate::There;
        let destroyed = self.lines(is_destroyed).filter(|(stream, seq)| arrivals.has(stream, *seq));
        let destroyed = destroyed.count() as u64;
        match (self.is_forgotten, arrivals.drops) {
            _ if arrivals.name == STORE => destroyed,
            (true, _) => destroyed.max(arrivals.uncertain),
            (false, true) => arrivals.uncertain,
            (false, false) => destroyed.min(arrivals.uncertain),
        }
    }

    fn target(&self, index: usize) -> TargetReport {
        let arrivals = &self.all[index];
        let is_forgotten = self.is_forgotten;
        let copies = if is_forgotten { u64::MAX } else { arrivals.uncertain + arrivals.resent };
        let oracle = Oracle {
            exposed: self.exposed(),
            uncounted_max: self.uncounted_max(index),
            miscounted_max: self.miscounted_max(index),
            lost_answers_lines: copies,
            forgotten_max: if is_forgotten { arrivals.counted_max } else { 0 },
            // The store has no order, and damaged data is read again out of order.
            ordered: arrivals.name != STORE && !self.is_damaged && !is_forgotten,
            ..Oracle::strict(arrivals.name)
        };
        let written = [self.files.report()];
        let missing = oracle.missing(&written, &arrivals.tally);
        let wrong = oracle.problems(&written, &arrivals.tally, self.books);
        let mut problems: Vec<String> = wrong.lines().map(str::to_owned).collect();
        let (delivered, arrived) = (self.books.delivered(arrivals.name), arrivals.tally.unique());
        if delivered > arrived.saturating_add(oracle.forgotten_max) {
            let text = format!("{delivered} delivered according to the ledger, {arrived} arrived");
            problems.push(text);
        }
        let (routed, records) = (self.books.routed(arrivals.name), self.books.records());
        if routed != records && !is_forgotten {
            problems.push(format!("{records} records read, {routed} of them for this destination"));
        }
        let says_at_least = |source: &SourceReport| {
            source.at_least || source.bytes_abandoned.values().any(|bytes| *bytes > 0)
        };
        let counted = oracle.counted(self.books);
        let is_owned_up = missing.all <= counted || sources(self.books).iter().any(says_at_least);
        if !is_owned_up && !is_forgotten {
            problems.push("lines are not counted, and the ledger does not show it".to_owned());
        }
        if !problems.is_empty() && missing.certain > 0 {
            let first = oracle.first_missing(&written, &arrivals.tally, SHOWN_RUNS);
            let text = first.iter().map(|(name, run)| format!("{name} {}..{}", run.start, run.end));
            let text = text.collect::<Vec<_>>().join(", ");
            problems.push(format!("first missing lines that were certainly readable: {text}"));
        }
        TargetReport {
            name: arrivals.name.to_owned(),
            arrived: arrivals.tally.unique(),
            duplicates: arrivals.tally.duplicates(),
            missing: missing.all,
            missing_certain: missing.certain,
            delivered: self.books.delivered(arrivals.name),
            discarded: reasons(&self.books.output(arrivals.name)["book"]["discarded"]),
            dead_lettered: self.books.dead_lettered(arrivals.name),
            uncounted_max: oracle.uncounted_max,
            miscounted_max: oracle.miscounted_max,
            problems,
        }
    }
}
