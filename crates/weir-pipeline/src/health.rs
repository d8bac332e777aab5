//! Health: whether everything works and, if not, which component has which problem, and since when.
//!
//! Invariants: health is derived from the books and the live statistics alone, so it cannot
//! disagree with them; a reason names exactly one component; "since" is when the reason was first
//! noticed, which is precise enough because `weir run` checks every few seconds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use serde::Serialize;
use weir_host::units::{approx_size, format_rfc3339, group_digits};
use weir_journal::{CursorLedger, JournalStatus, Ledger, LostRecords};

use crate::output::NO_ACK_ID;
use crate::stats::{self, CollectStats, ErrorCounts, RateLimitReport};
use crate::view::{OutputView, Phase, PipelineView, SourceView};

/// Severity of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; everything is still delivered.
    Degraded,
    /// Something is currently not read or not delivered.
    Failing,
}

/// An active health problem.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    /// `source`, `output`, `journal` or `weir`.
    pub component_kind: &'static str,
    /// Name of the source or output; empty for the others.
    pub component: String,
    /// A short fixed identifier.
    pub reason: &'static str,
    /// Description of the problem.
    pub text: String,
    /// Severity of the problem.
    pub severity: Severity,
    /// When it was first noticed, RFC 3339.
    pub since: String,
    /// How long it has been active, seconds.
    pub seconds: f64,
    #[serde(skip)]
    since_unix_ns: i64,
}

/// The health at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Health {
    /// `ok`, `degraded`, `failing` or `stopping`.
    pub status: &'static str,
    /// The process is alive: the fact that it answers proves it.
    pub live: bool,
    /// Every configured source is read and every output delivers.
    pub ready: bool,
    /// Active health problems, most severe first.
    pub reasons: Vec<Reason>,
}

/// Component kind, component and reason.
type Key = (&'static str, String, &'static str);

/// When each active reason was first noticed.
#[derive(Debug, Default)]
pub(crate) struct Noticed(Mutex<BTreeMap<Key, i64>>);

impl PipelineView {
    /// Determines the current health.
    pub fn health(&self) -> Health {
        self.health_of(&self.journal.ledger())
    }

    /// Determines the health from a ledger that was just read.
    pub fn health_of(&self, ledger: &Ledger) -> Health {
        let mut check = HealthCheck(Vec::new());
        for source in self.sources().iter() {
            check.source(source, ledger);
        }
        for output in self.outputs().iter() {
            check.output(output, ledger);
        }
        check.journal(&ledger.journal);
        check.lost(&ledger.journal.recovery.lost);
        check.inactive(&ledger.cursors);
        check.books(ledger);
        for (reason, text) in self.service_problems() {
            check.add(("weir", ""), reason, Severity::Degraded, text);
        }
        let mut reasons = check.0;
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

    /// Sets the time at which each reason was first noticed, and forgets reasons that have passed.
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

struct HealthCheck(Vec<Reason>);

impl HealthCheck {
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
                "{unwatched} directories are only rescanned periodically: inotify refused to \
                 watch them (see fs.inotify.max_user_watches)"
            );
            self.add(at, "inotify_refused", Severity::Degraded, text);
        }
        if let Some(error) = source.stats.listener.accept_error() {
            let text = format!("cannot accept connections: {error}");
            self.add(at, "accept", Severity::Failing, text);
        }
        if let Some(error) = source.stats.listener.tls_error() {
            let text = format!("still using the previous certificates: {error}");
            self.add(at, "certificates", Severity::Degraded, text);
        }
        if let Some(report) = source.stats.listener.rate_limit.report() {
            self.rate_limit(at, &report);
        }
        self.targets(at, &source.stats.collect);
        if source.stats.is_blocked() {
            let text = match (source.stats.blocked_by(ledger), &ledger.journal.disk_error) {
                (Some(output), _) => format!("blocked by output {output}"),
                (None, Some(error)) => format!("blocked by a disk error: {error}"),
                // A ring that is full for a moment is normal back pressure.
                (None, None) => return,
            };
            self.add(at, "blocked", Severity::Failing, text);
        }
    }

    /// Targets or containers whose metrics cannot be obtained.
    fn targets(&mut self, at: (&'static str, &str), stats: &CollectStats) {
        let failing = stats.failing();
        let Some((first, why)) = failing.first() else { return };
        let text = match failing.len() {
            1 => format!("no metrics of {first}: {why}"),
            count => format!("no metrics of {first}: {why}; and of {} others", count - 1),
        };
        self.add(at, "targets", Severity::Degraded, text);
    }

    /// Keys whose records are being discarded. Those that are delayed lose nothing.
    fn rate_limit(&mut self, at: (&'static str, &str), report: &RateLimitReport) {
        if !report.discards || report.over_count == 0 {
            return;
        }
        let names: Vec<&str> = report.over.iter().take(3).map(String::as_str).collect();
        let more = match report.over_count - names.len() as u64 {
            0 => String::new(),
            1 => " and 1 other key".to_owned(),
            more => format!(" and {} other keys", group_digits(more)),
        };
        let text = format!(
            "records of {}{more} exceed rate_limit and are discarded ({})",
            names.join(", "),
            report.limit
        );
        self.add(at, "rate_limit", Severity::Degraded, text);
    }

    fn output(&mut self, output: &OutputView, ledger: &Ledger) {
        let at = ("output", output.name.as_str());
        if output.stats.failing.load(Ordering::Relaxed) {
            let text = format!("cannot deliver{}", last(&output.stats.errors));
            self.add(at, "failing", Severity::Failing, text);
        }
        if output.stats.no_ack_ids.load(Ordering::Relaxed) {
            let text = format!("records count as delivered when accepted: {NO_ACK_ID}");
            self.add(at, "no_ack_id", Severity::Degraded, text);
        }
        if output.is_insecure {
            let text = "accepts any certificate (tls.insecure_skip_verify)".to_owned();
            self.add(at, "insecure", Severity::Degraded, text);
        }
        for problem in output.running.iter().flat_map(|running| running.problems()) {
            self.add(at, problem.reason, problem.severity, problem.text);
        }
        let cursor = ledger.cursors.iter().find(|cursor| cursor.name == output.name);
        if let Some(cursor) = cursor.filter(|cursor| cursor.blocking) {
            let text = format!(
                "buffer is full ({} of {}); the sources that feed it are blocked",
                approx_size(cursor.pending_bytes),
                approx_size(cursor.buffer_bytes_max),
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
                "recovery found {} damaged bytes and {} damaged positions; moved aside: {}",
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

    /// Records of earlier runs, or damaged since, that an output has not received and never will.
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
            let text = format!("records were lost and counted as discarded: {}", texts.join(", "));
            self.add(("output", output), "records_lost", Severity::Degraded, text);
        }
    }

    /// Cursors of outputs that are no longer configured and still hold records.
    fn inactive(&mut self, cursors: &[CursorLedger]) {
        for cursor in cursors.iter().filter(|cursor| !cursor.active && cursor.in_flight > 0) {
            let text = format!(
                "no longer configured, with {} records waiting; discard them with \
                 `weir cursor drop {}`",
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
                let text =
                    format!("the ledger does not balance: {lines} lines are unaccounted for");
                self.add(("source", &source.name), "unaccounted", Severity::Failing, text);
            }
        }
        for cursor in &ledger.cursors {
            let records = cursor.unaccounted();
            if records != 0 {
                let text =
                    format!("the ledger does not balance: {records} records are unaccounted for");
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
