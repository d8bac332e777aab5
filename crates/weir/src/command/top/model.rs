//! Two readings of a running weir as rows of text.
//!
//! Invariant: a rate is the difference of two counters divided by the time between the readings, as
//! dated by weir itself; a counter that decreased (weir was restarted) gives a rate of 0.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use weir_api::{ByReason, JournalEntry, OutputStatus, RulesDocument, SourceStatus, StatusDocument};
use weir_host::terminal::printable;
use weir_host::units::{approx_duration, approx_size, group_digits};

use super::{limited_rows, rule_rows};

/// Columns of sources.
pub(super) const SOURCE_HEAD: [&str; 10] =
    ["NAME", "TYPE", "FILES", "LINES/S", "BYTES/S", "LAG", "UNREAD", "LOST", "CPU", "STATE"];
/// Columns of outputs.
pub(super) const OUTPUT_HEAD: [&str; 13] = [
    "NAME",
    "TYPE",
    "RECORDS/S",
    "SENT/S",
    "LAG",
    "FILL",
    "IN FLIGHT",
    "SERVICE",
    "QUEUEING",
    "RETRIES",
    "LOST",
    "CPU",
    "STATE",
];

/// The state that weir reports at one moment.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) status: StatusDocument,
    pub(super) rules: RulesDocument,
}

/// The state of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComponentState {
    Ok,
    Degraded,
    Failing,
}

/// A component.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) state: ComponentState,
    /// Details, for the line below the tables.
    pub(super) detail: String,
}

/// An active health problem.
#[derive(Debug)]
pub(super) struct ReasonLine {
    pub(super) state: ComponentState,
    pub(super) text: String,
}

/// Everything that is shown, without terminal control characters.
#[derive(Debug)]
pub(super) struct View {
    pub(super) title: String,
    pub(super) journal: String,
    pub(super) sources: Vec<Row>,
    pub(super) outputs: Vec<Row>,
    /// The busiest ones.
    pub(super) rules: Vec<Row>,
    pub(super) rules_title: String,
    pub(super) reasons: Vec<ReasonLine>,
}

impl View {
    /// Rates between two readings.
    pub(super) fn between(earlier: &Reading, now: &Reading) -> Self {
        let (earlier_rules, now_rules) = (&earlier.rules, &now.rules);
        let (earlier, now) = (&earlier.status, &now.status);
        let rates = Rates::over((now.time_unix_ns - earlier.time_unix_ns).max(1) as f64 / 1e9);
        let source = |now: &SourceStatus| {
            let earlier = earlier.sources.iter().find(|s| s.book.name == now.book.name);
            let earlier = earlier.unwrap_or(now);
            let mut rows = vec![source_row(earlier, now, &rates)];
            rows.extend(limited_rows::rows(earlier, now, &rates));
            rows
        };
        let output = |now: &OutputStatus| {
            let earlier = earlier.outputs.iter().find(|o| o.book.name == now.book.name);
            output_row(earlier.unwrap_or(now), now, &rates)
        };
        let view = Self {
            title: title(earlier, now, &rates),
            journal: journal(&now.journal),
            sources: now.sources.iter().flat_map(source).collect(),
            outputs: now.outputs.iter().map(output).collect(),
            rules: rule_rows::rows(earlier_rules, now_rules, &rates),
            rules_title: rule_rows::title(now_rules),
            reasons: reasons(&now.health),
        };
        view.escaped()
    }

    fn escaped(mut self) -> Self {
        let rows = self.sources.iter_mut().chain(&mut self.outputs).chain(&mut self.rules);
        let texts = rows.flat_map(|row| row.cells.iter_mut().chain([&mut row.detail]));
        let others = [&mut self.title, &mut self.journal, &mut self.rules_title];
        let reasons = self.reasons.iter_mut().map(|reason| &mut reason.text);
        for text in texts.chain(others).chain(reasons) {
            if let Cow::Owned(shown) = printable(text) {
                *text = shown;
            }
        }
        self
    }

    /// All rows, from top to bottom.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.iter().chain(&self.outputs).chain(&self.rules)
    }
}

/// Converts the difference of two readings to a rate per second.
pub(super) struct Rates {
    seconds: f64,
}

impl Rates {
    /// Creates the rates for readings with this time between them.
    pub(super) fn over(seconds: f64) -> Self {
        Self { seconds }
    }

    fn per_second(&self, earlier: u64, now: u64) -> f64 {
        now.saturating_sub(earlier) as f64 / self.seconds
    }

    pub(super) fn count(&self, earlier: u64, now: u64) -> String {
        let rate = self.per_second(earlier, now);
        if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { group_digits(rate as u64) }
    }

    fn bytes(&self, earlier: u64, now: u64) -> String {
        approx_size(self.per_second(earlier, now) as u64)
    }

    pub(super) fn share(&self, earlier: f64, now: f64) -> String {
        format!("{:.1}%", (now - earlier).max(0.0) / self.seconds * 100.0)
    }
}

fn title(earlier: &StatusDocument, now: &StatusDocument, rates: &Rates) -> String {
    let status = now.health["status"].as_str().unwrap_or("unknown");
    format!(
        "weir {}   up {}   {status}   CPU {}   memory {}",
        now.version,
        approx_duration(Duration::from_secs(now.uptime_seconds as u64)),
        rates.share(earlier.cpu_seconds, now.cpu_seconds),
        approx_size(now.resident_bytes),
    )
}

fn journal(journal: &JournalEntry) -> String {
    format!(
        "journal: ring {} of {}, disk {} of {} in {} segments",
        approx_size(journal.ring_bytes),
        approx_size(journal.ring_bytes_max),
        approx_size(journal.disk_bytes),
        approx_size(journal.disk_bytes_max),
        journal.segments,
    )
}

fn reasons(health: &Value) -> Vec<ReasonLine> {
    let list = health["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |reason: &Value, key: &str| reason[key].as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|reason| {
            let seconds = reason["seconds"].as_f64().unwrap_or_default().max(0.0);
            let (kind, name) = (text(reason, "component_kind"), text(reason, "component"));
            let component = if name.is_empty() { kind } else { format!("{kind} {name}") };
            let since = approx_duration(Duration::from_secs(seconds as u64));
            let is_failing = reason["severity"] == "failing";
            ReasonLine {
                state: if is_failing { ComponentState::Failing } else { ComponentState::Degraded },
                text: format!("{component}: {} (for {since})", text(reason, "text")),
            }
        })
        .collect()
}

fn source_row(earlier: &SourceStatus, now: &SourceStatus, rates: &Rates) -> Row {
    let (book, files) = (&now.book.book, &now.book.files);
    let state = match () {
        () if now.blocked => ("blocked by an output", ComponentState::Degraded),
        () if now.unreadable_files > 0 => ("unreadable files", ComponentState::Degraded),
        () => ("ok", ComponentState::Ok),
    };
    let lag = Duration::from_secs_f64(now.lag_seconds.clamp(0.0, 1e9));
    Row {
        cells: vec![
            now.book.name.clone(),
            now.book.type_name.clone(),
            group_digits(now.files),
            rates.count(earlier.book.book.lines, book.lines),
            rates.bytes(earlier.book.book.bytes_read, book.bytes_read),
            approx_duration(lag),
            approx_size(files.as_ref().map_or(0, |files| files.bytes_unread)),
            lost(&book.discarded, &book.bytes_abandoned),
            rates.share(earlier.cpu_seconds, now.cpu_seconds),
            state.0.to_owned(),
        ],
        state: state.1,
        detail: format!(
            "source {}: {} lines, {} records, {} joined, {} malformed, {} truncated, {} errors{}{}",
            now.book.name,
            group_digits(book.lines),
            group_digits(book.records),
            group_digits(book.joined),
            group_digits(book.malformed),
            group_digits(book.truncated),
            group_digits(now.errors),
            by_reason("discarded lines", &book.discarded),
            by_reason("abandoned bytes", &book.bytes_abandoned),
        ),
    }
}

fn output_row(earlier: &OutputStatus, now: &OutputStatus, rates: &Rates) -> Row {
    let book = &now.book.book;
    let state = match () {
        () if !now.book.active => ("removed", ComponentState::Degraded),
        () if now.book.blocking => ("full, blocking", ComponentState::Failing),
        () if now.failing => ("failing", ComponentState::Failing),
        () => ("ok", ComponentState::Ok),
    };
    let fill = now.book.pending_bytes as f64 / now.book.buffer_bytes_max.max(1) as f64 * 100.0;
    let lag = Duration::from_secs_f64(now.book.lag_seconds.clamp(0.0, 1e9));
    let earlier_book = &earlier.book.book;
    Row {
        cells: vec![
            now.book.name.clone(),
            now.book.type_name.clone(),
            rates.count(earlier_book.delivered, book.delivered),
            rates.bytes(earlier.sent_bytes, now.sent_bytes),
            approx_duration(lag),
            format!("{fill:.1}%"),
            group_digits(now.book.in_flight),
            mean((earlier.service_seconds, now.service_seconds), (earlier.requests, now.requests)),
            mean((earlier.queueing_seconds, now.queueing_seconds), (earlier.batches, now.batches)),
            group_digits(now.retries),
            lost(&book.discarded, &ByReason::new()),
            rates.share(earlier.cpu_seconds, now.cpu_seconds),
            state.0.to_owned(),
        ],
        state: state.1,
        detail: format!(
            "output {}: {} routed, {} delivered, {} dead-lettered, {} sent again, {} errors, {} of {} requests{}{}",
            now.book.name,
            group_digits(book.routed),
            group_digits(book.delivered),
            group_digits(book.dead_lettered),
            group_digits(book.resent),
            group_digits(now.errors),
            now.in_flight_requests,
            now.concurrency_limit,
            by_reason("discarded records", &book.discarded),
            now.last_error
                .as_ref()
                .map_or_else(String::new, |error| format!("; last error: {error}")),
        ),
    }
}

/// Mean over the interval; `-` if nothing happened in it.
fn mean((sum_earlier, sum): (f64, f64), (count_earlier, count): (u64, u64)) -> String {
    match count.checked_sub(count_earlier) {
        None | Some(0) => "-".to_owned(),
        Some(n) => {
            let seconds = (sum - sum_earlier).max(0.0) / n as f64;
            approx_duration(Duration::from_secs_f64(seconds.min(1e9)))
        }
    }
}

/// Records, and bytes that were lost before they became lines. Bytes that were skipped on purpose
/// at the first start are not a loss.
fn lost(records: &ByReason, bytes: &ByReason) -> String {
    let records: u64 = records.values().sum();
    let bytes = bytes.iter().filter(|(reason, _)| *reason != "skipped_at_start");
    let bytes: u64 = bytes.map(|(_, count)| count).sum();
    match (records, bytes) {
        (records, 0) => group_digits(records),
        (records, bytes) => format!("{} + {}", group_digits(records), approx_size(bytes)),
    }
}

fn by_reason(what: &str, counts: &ByReason) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let parts = counts.iter().map(|(reason, count)| format!("{reason} {}", group_digits(*count)));
    format!("; {what}: {}", parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_api::{LimitedKeyEntry, RateLimitEntry};

    use super::*;

    fn reading(ns: i64, lines: u64, delivered: u64) -> Reading {
        let value = json!({
            "schema": "weir.status.v1", "version": "1", "time": "t", "time_unix_ns": ns,
            "uptime_seconds": 65.0, "cpu_seconds": ns as f64 / 1e10, "resident_bytes": 1 << 20,
            "health": { "status": "failing", "reasons": [{
                "component_kind": "output", "component": "o", "text": "cannot deliver",
                "severity": "failing", "seconds": 61.0,
            }] },
            "journal": JournalEntry {
                ring_bytes: 1024,
                ring_bytes_max: 2048,
                segments: 2,
                ..JournalEntry::default()
            },
            "sources": [{
                "book": { "name": "s", "type": "file", "streams": 1, "unaccounted_lines": 0,
                    "book": { "lines": lines, "records": lines, "joined": 0,
                        "discarded": { "rate_limit": 5 }, "malformed": 0, "truncated": 0,
                        "bytes_read": lines * 1024,
                        "bytes_abandoned": { "skipped_at_start": 7, "truncated": 2048 } },
                    "files": { "bytes_seen": 0, "bytes_unread": 10, "at_least": false,
                        "unaccounted_bytes": 0 } },
                "files": 3, "unreadable_files": 0, "lag_seconds": 1.5, "blocked": false,
                "blocked_seconds": 0.0, "errors": 0, "cpu_seconds": 0.0,
            }],
            "outputs": [{
                "book": { "name": "o", "type": "stdout", "active": true, "when_full": "block",
                    "in_flight": 4, "taken": 1, "pending_bytes": 512, "buffer_bytes_max": 1024,
                    "lag_seconds": 0.0, "blocking": false, "unaccounted_records": 0,
                    "book": { "routed": delivered, "delivered": delivered, "discarded": {},
                        "dead_lettered": 0, "resent": 0 } },
                "failing": true, "last_error": "refused", "requests": delivered, "retries": 2,
                "sent_bytes": 0, "in_flight_requests": 1, "concurrency_limit": 4,
                "service_seconds": delivered as f64 / 100.0, "queueing_seconds": 0.0,
                "batches": 0, "errors": 1, "cpu_seconds": 0.0,
            }],
        });
        let rules = json!({
            "schema": "weir.rules.v1", "generation": 1, "since": "t", "records": 0, "unrouted": 0,
            "cpu_seconds": 0.0, "rules": [],
        });
        Reading {
            status: serde_json::from_value(value).unwrap(),
            rules: serde_json::from_value(rules).unwrap(),
        }
    }

    #[test]
    fn rates_are_computed_between_readings() {
        let view = View::between(&reading(0, 100, 50), &reading(2_000_000_000, 2_100, 70));
        assert_eq!(
            view.sources[0].cells,
            ["s", "file", "3", "1,000", "0.98 MiB", "1.50 s", "10 B", "5 + 2.00 KiB", "0.0%", "ok"]
        );
        assert_eq!(
            view.outputs[0].cells,
            [
                "o", "stdout", "10", "0 B", "0 s", "50.0%", "4", "10.0 ms", "-", "2", "0", "0.0%",
                "failing"
            ]
        );
        assert_eq!(view.reasons[0].text, "output o: cannot deliver (for 61.0 s)");
        assert!(view.title.contains("CPU 10.0%"), "{}", view.title);
        assert!(view.journal.contains("1.00 KiB of 2.00 KiB"), "{}", view.journal);
    }

    #[test]
    fn what_is_shown_is_escaped() {
        let (earlier, mut now) = (reading(0, 100, 50), reading(2_000_000_000, 2_100, 70));
        now.status.sources[0].book.name = "\u{1b}[8ms\u{202e}".into();
        now.status.outputs[0].last_error = Some("\u{9b}8m\u{2800}".into());
        now.status.health["reasons"][0]["text"] = "\u{1b}]0;x\u{7}".into();
        let text = format!("{:?}", View::between(&earlier, &now)).replace("\\\\u", "");
        assert!(!text.contains("\\u") && text.contains("{1b}]0;x{7}"), "{text}");
    }

    #[test]
    fn a_key_above_its_limit_is_shown_beneath_its_source() {
        let (mut earlier, mut now) = (reading(0, 100, 50), reading(2_000_000_000, 2_100, 70));
        let limit = |discarded: u64, over: bool| {
            let mut key = LimitedKeyEntry { key: "host=web7".into(), over, ..Default::default() };
            key.counts.discarded_records = discarded;
            Some(RateLimitEntry { keys: vec![key], ..Default::default() })
        };
        earlier.status.sources[0].book.rate_limit = limit(1_000, true);
        now.status.sources[0].book.rate_limit = limit(5_000, true);
        let view = View::between(&earlier, &now);
        assert_eq!(view.sources.len(), 2);
        let shown = &view.sources[1].cells;
        assert_eq!([&*shown[0], &*shown[3], &*shown[7]], ["  host=web7", "2,000", "5,000"]);
        assert_eq!(shown[9], "above limit, discarded");
        now.status.sources[0].book.rate_limit = limit(5_000, false);
        assert_eq!(View::between(&earlier, &now).sources.len(), 1);
    }

    #[test]
    fn restart_gives_no_negative_rate() {
        let view = View::between(&reading(1_000_000_000, 100, 50), &reading(2_000_000_000, 0, 0));
        assert_eq!(view.sources[0].cells[3], "0");
        assert_eq!(view.outputs[0].cells[7], "-");
    }
}
