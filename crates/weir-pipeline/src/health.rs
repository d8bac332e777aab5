//! Is everything well, and if not: which component, what is wrong with it, and since when.
//!
//! Invariants: health is worked out from the books and the live figures alone, so it cannot
//! differ from them; a reason names exactly one component; "since" is when the reason was first
//! noticed, and looking every few seconds (as `weir run` does) makes that good enough.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use serde::Serialize;
use weir_host::units::{approx_size, format_rfc3339, group_digits};
use weir_journal::{CursorLedger, JournalStatus, Ledger, LostRecords};

use crate::stats::{self, ErrorCounts};
use crate::view::{OutputView, Phase, PipelineView, SourceView};

/// How bad a reason is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; everything is delivered all the same.
    Degraded,
    /// Something is not read or not delivered at present.
    Failing,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    /// `source`, `output`, `journal` or `weir`.
    pub component_kind: &'static str,
    /// Name of the source or output; empty for the others.
    pub component: String,
    /// A short fixed word.
    pub reason: &'static str,
    /// What is wrong, for people.
    pub text: String,
    /// How bad it is.
    pub severity: Severity,
    /// When it was first noticed, RFC 3339.
    pub since: String,
    /// For how long, seconds.
    pub seconds: f64,
    #[serde(skip)]
    since_unix_ns: i64,
}

/// The health of one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Health {
    /// `ok`, `degraded`, `failing` or `stopping`.
    pub status: &'static str,
    /// The process does its work: answering is the proof.
    pub live: bool,
    /// Everything that is configured is read and delivered.
    pub ready: bool,
    /// What is not as it should be; the worst first.
    pub reasons: Vec<Reason>,
}

/// Component kind, component and reason.
type Key = (&'static str, String, &'static str);

/// When each present reason was first noticed.
#[derive(Debug, Default)]
pub(crate) struct Noticed(Mutex<BTreeMap<Key, i64>>);

impl PipelineView {
    /// Works out the health of this moment.
    pub fn health(&self) -> Health {
        self.health_of(&self.journal.ledger())
    }

    /// Works out the health from books that were just read.
    pub fn health_of(&self, ledger: &Ledger) -> Health {
        let mut found = Found(Vec::new());
        for source in &self.sources {
            found.source(source, ledger);
        }
        for output in &self.outputs {
            found.output(output, ledger);
        }
        found.journal(&ledger.journal);
        found.lost(&ledger.journal.recovery.lost);
        found.inactive(&ledger.cursors);
        found.books(ledger);
        let mut reasons = found.0;
        self.date(&mut reasons);
        reasons.sort_by_key(|r| (std::cmp::Reverse(r.severity), r.since_unix_ns));
        let is_stopping = self.phase() == Phase::Stopping;
        let status = match reasons.first().map(|reason| reason.severity) {
            _ if is_stopping => "stopping",
            None => "ok",
            Some(Severity::Degraded) => "degraded",
            Some(Severity::Failing) => "failing",
        };
        Health { status, live: true, ready: matches!(status, "ok" | "degraded"), reasons }
    }

    /// Gives each reason the time at which it was first noticed, and forgets those that passed.
    fn date(&self, reasons: &mut [Reason]) {
        let now = self.now_unix_ns();
        let mut noticed = self.noticed.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut present = BTreeMap::new();
        for reason in reasons {
            let key = (reason.component_kind, reason.component.clone(), reason.reason);
            let since = noticed.get(&key).copied().unwrap_or(now);
            present.insert(key, since);
            reason.since_unix_ns = since;
            reason.since = format_rfc3339(since);
            reason.seconds = (now - since).max(0) as f64 / 1e9;
        }
        *noticed = present;
    }
}

struct Found(Vec<Reason>);

impl Found {
    fn add(
        &mut self,
        (component_kind, component): (&'static str, &str),
        reason: &'static str,
        severity: Severity,
        text: String,
    ) {
        self.0.push(Reason {
            component_kind,
            component: component.to_owned(),
            reason,
            text,
            severity,
            since: String::new(),
            seconds: 0.0,
            since_unix_ns: 0,
        });
    }

    fn source(&mut self, source: &SourceView, ledger: &Ledger) {
        let at = ("source", source.name.as_str());
        let unreadable = stats::get(&source.stats.unreadable_files);
        if unreadable > 0 {
            let text =
                format!("{} cannot be read{}", files(unreadable), last(&source.stats.errors));
            self.add(at, "unreadable_files", Severity::Degraded, text);
        }
        let unwatched = stats::get(&source.stats.unwatched_dirs);
        if unwatched > 0 {
            let text = format!(
                "{unwatched} directories are found changed by rescan only: inotify refused to \
                 watch them (see fs.inotify.max_user_watches)"
            );
            self.add(at, "inotify_refused", Severity::Degraded, text);
        }
        if let Some(error) = source.stats.listener.accept_error() {
            let text = format!("accepts no connections: {error}");
            self.add(at, "accept", Severity::Failing, text);
        }
        if let Some(error) = source.stats.listener.tls_error() {
            let text = format!("goes on with the certificates of before: {error}");
            self.add(at, "certificates", Severity::Degraded, text);
        }
        if source.stats.is_blocked.load(Ordering::Relaxed) {
            let by: Vec<&str> =
                ledger.cursors.iter().filter(|c| c.blocking).map(|c| c.name.as_str()).collect();
            let text = match (by.as_slice(), &ledger.journal.disk_error) {
                ([], Some(error)) => format!("is stopped, because the disk fails: {error}"),
                // A ring that is full for a moment is how back-pressure works.
                ([], None) => return,
                (names, _) => format!("is stopped by output {}", names.join(", ")),
            };
            self.add(at, "blocked", Severity::Failing, text);
        }
    }

    fn output(&mut self, output: &OutputView, ledger: &Ledger) {
        let at = ("output", output.name.as_str());
        if output.stats.failing.load(Ordering::Relaxed) {
            let text = format!("does not deliver{}", last(&output.stats.errors));
            self.add(at, "failing", Severity::Failing, text);
        }
        if output.is_insecure {
            let text = "accepts any certificate (tls.insecure_skip_verify)".to_owned();
            self.add(at, "insecure", Severity::Degraded, text);
        }
        for trouble in output.running.iter().flat_map(|running| running.troubles()) {
            self.add(at, trouble.reason, trouble.severity, trouble.text);
        }
        let cursor = ledger.cursors.iter().find(|cursor| cursor.name == output.name);
        if let Some(cursor) = cursor.filter(|cursor| cursor.blocking) {
            let text = format!(
                "its buffer is full ({} of {}) and stops the sources that feed it",
                approx_size(cursor.pending_bytes),
                approx_size(cursor.buffer_limit_bytes),
            );
            self.add(at, "buffer_full", Severity::Failing, text);
        }
    }

    fn journal(&mut self, journal: &JournalStatus) {
        let at = ("journal", "");
        if let Some(error) = &journal.disk_error {
            let text = format!("cannot write: {error}");
            self.add(at, "disk", Severity::Failing, text);
        }
        let recovery = &journal.recovery;
        if recovery.damaged_bytes > 0 || recovery.damaged_cursor_records > 0 {
            let text = format!(
                "recovery found {} damaged bytes and {} damaged positions; set aside: {}",
                group_digits(recovery.damaged_bytes),
                group_digits(recovery.damaged_cursor_records),
                if recovery.set_aside.is_empty() {
                    "nothing".into()
                } else {
                    recovery.set_aside.join(", ")
                },
            );
            self.add(at, "recovered_damage", Severity::Degraded, text);
        }
    }

    /// Records of earlier runs, or damaged since, that an output has not got and never will.
    fn lost(&mut self, lost: &[LostRecords]) {
        let mut of_output: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for lost in lost {
            let text = format!(
                "{} of source {} ({})",
                group_digits(lost.records),
                lost.source,
                lost.reason
            );
            of_output.entry(&lost.destination).or_default().push(text);
        }
        for (output, texts) in of_output {
            let text = format!("records are lost and counted as discarded: {}", texts.join(", "));
            self.add(("output", output), "records_lost", Severity::Degraded, text);
        }
    }

    /// Cursors of outputs that are no longer configured and still hold records.
    fn inactive(&mut self, cursors: &[CursorLedger]) {
        for cursor in cursors.iter().filter(|cursor| !cursor.active && cursor.in_flight > 0) {
            let text = format!(
                "is no longer configured and has {} records waiting; `weir cursor drop {}` gives them up",
                group_digits(cursor.in_flight),
                cursor.name,
            );
            self.add(("output", &cursor.name), "not_configured", Severity::Degraded, text);
        }
    }

    fn books(&mut self, ledger: &Ledger) {
        for source in &ledger.sources {
            let lines = source.book.unaccounted_lines();
            if lines != 0 {
                let text = format!("the book does not balance: {lines} lines are unaccounted for");
                self.add(("source", &source.name), "unaccounted", Severity::Failing, text);
            }
        }
        for cursor in &ledger.cursors {
            let records = cursor.unaccounted();
            if records != 0 {
                let text =
                    format!("the book does not balance: {records} records are unaccounted for");
                self.add(("output", &cursor.name), "unaccounted", Severity::Failing, text);
            }
        }
    }
}

fn files(n: u64) -> String {
    if n == 1 { "1 file".to_owned() } else { format!("{} files", group_digits(n)) }
}

fn last(errors: &ErrorCounts) -> String {
    errors.last().map_or_else(String::new, |text| format!(": {text}"))
}
