//! The page `/metrics` in the Prometheus text format, version 0.0.4.
//!
//! Invariants: every family is in [`FAMILIES`], with its type and meaning, and the reference is
//! generated from the same list; every known `reason` is present from the start with 0, so that the
//! first loss is visible as an increase; labels have few values (never a stream or a file).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_host::ProcessMetrics;
use weir_journal::{CursorLedger, Ledger, SourceLedger};
use weir_model::{AbandonReason, DiscardReason};
use weir_pipeline::health::Severity;
use weir_pipeline::stats::{self, CollectStats, ErrorCounts, ListenerStats, OutputStats};
use weir_pipeline::view::{OutputView, PipelineView, SourceView};
use weir_store::query::StoreMetrics;

use crate::access::Gate;
use crate::explore::{Admission, DurationHistogram, Outcome, QueryKind, TIME_BUCKETS_SECONDS};
use crate::readers::ReadersEntry;
use crate::state::{ApiState, Reloads};
use crate::status::seconds;
use crate::tail::Sessions;

mod families;
mod originals;
mod rate_limit;
mod store;

pub use families::{FAMILIES, FamilyInfo, FamilyType};

/// The metrics of Loggregator's programs, under their original names.
pub(crate) fn originals(view: &PipelineView) -> String {
    let mut page = String::new();
    originals::originals(view, &mut page);
    page
}

/// The whole page; without a pipeline only the metrics of the process.
pub(crate) fn render(
    state: &ApiState,
    view: Option<&PipelineView>,
    store: Option<&StoreMetrics>,
) -> String {
    let mut page = Page::default();
    page.row("weir_build_info", &[("version", state.version)], 1);
    page.reloads(&state.reloads);
    if let Some(view) = view {
        let ledger = view.journal.ledger();
        page.health(view, &ledger);
        for source in view.sources().iter() {
            page.source(source, ledger.sources.iter().find(|book| book.name == source.name));
        }
        for cursor in &ledger.cursors {
            page.output(view.output(&cursor.name).as_deref(), cursor);
        }
        page.rules(view);
        page.journal(&ledger);
        page.readers(view);
    }
    if let Some(store) = store {
        page.store(store);
    }
    page.tails(&state.tails);
    page.access(&state.gate);
    if let Some(tls) = &state.tls {
        page.row("weir_api_tls_failed_handshakes_total", &[], tls.failed());
    }
    page.queries(&state.explore.admission);
    page.process(&ProcessMetrics::read(), view);
    page.finish()
}

/// Rows by family, in the order of [`FAMILIES`].
struct Page {
    rows: Vec<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self { rows: vec![String::new(); FAMILIES.len()] }
    }
}

/// The labels that every component has.
struct Component<'a> {
    id: &'a str,
    kind: &'static str,
    type_name: &'a str,
}

impl Page {
    fn finish(self) -> String {
        let mut text = String::new();
        for (family, rows) in FAMILIES.iter().zip(&self.rows) {
            if !rows.is_empty() {
                let (name, help) = (family.name, family.help);
                let type_name = family.family_type.name();
                let _infallible =
                    write!(text, "# HELP {name} {help}\n# TYPE {name} {type_name}\n{rows}");
            }
        }
        text
    }

    /// One sample line. `name` is that of a family, or of one series of a summary or histogram.
    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let family = ["_sum", "_count", "_bucket"].iter().find_map(|end| name.strip_suffix(end));
        let known = |wanted: &str| FAMILIES.iter().position(|family| family.name == wanted);
        let index = known(name).or_else(|| family.and_then(known));
        debug_assert!(index.is_some(), "{name} is not in the list of families");
        let Some(rows) = index.and_then(|index| self.rows.get_mut(index)) else { return };
        rows.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            rows.push(if i == 0 { '{' } else { ',' });
            let _infallible = write!(rows, "{label}=\"{}\"", escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _infallible = writeln!(rows, "{end} {value}");
    }

    fn add(&mut self, component: &Component<'_>, name: &str, value: impl std::fmt::Display) {
        self.add_with(component, name, &[], value);
    }

    fn add_with(
        &mut self,
        component: &Component<'_>,
        name: &str,
        more: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        let mut labels = vec![
            ("component_id", component.id),
            ("component_kind", component.kind),
            ("component_type", component.type_name),
        ];
        labels.extend_from_slice(more);
        self.row(name, &labels, value);
    }

    fn health(&mut self, view: &PipelineView, ledger: &Ledger) {
        let health = view.health_of(ledger);
        self.row("weir_ready", &[], u8::from(health.ready));
        for (severity, text) in [(Severity::Degraded, "degraded"), (Severity::Failing, "failing")] {
            let count = health.reasons.iter().filter(|r| r.severity == severity).count();
            self.row("weir_health_reasons", &[("severity", text)], count);
        }
    }

    fn source(&mut self, source: &SourceView, ledger: Option<&SourceLedger>) {
        let type_name = source.source_type.name();
        let component = Component { id: &source.name, kind: "source", type_name };
        let stats = &source.stats;
        let book = ledger.map(|ledger| ledger.book).unwrap_or_default();
        self.add(&component, "weir_component_received_events_total", book.lines);
        self.add(&component, "weir_component_received_bytes_total", book.bytes_read);
        self.add(&component, "weir_component_sent_events_total", book.records);
        self.add(&component, "weir_component_joined_events_total", book.joined);
        self.add(&component, "weir_component_malformed_events_total", book.malformed);
        self.add(&component, "weir_component_truncated_events_total", book.truncated);
        self.discarded(&component, "in", &book.discarded);
        for (reason, bytes) in AbandonReason::ALL.iter().zip(book.bytes_abandoned) {
            let reason = [("reason", reason.text())];
            self.add_with(&component, "weir_component_abandoned_bytes_total", &reason, bytes);
        }
        self.add(&component, "weir_component_unaccounted_events", book.unaccounted_lines());
        self.errors(&component, &stats.errors);
        self.add(
            &component,
            "weir_component_cpu_seconds_total",
            seconds(stats::get(&stats.cpu_ns)),
        );
        self.add(&component, "weir_source_lag_time_seconds", seconds(stats::get(&stats.lag_ns)));
        self.add(&component, "weir_source_lag_bytes", stats::get(&stats.bytes_unread));
        self.add(&component, "weir_source_seen_bytes_total", stats::get(&stats.bytes_seen));
        self.add(&component, "weir_source_cut_files_total", book.files_cut);
        self.add(&component, "weir_source_unseen_files_total", book.files_unseen);
        self.add(&component, "weir_source_vanished_files_total", book.files_vanished);
        self.add(&component, "weir_source_seen_bytes_at_least", u8::from(book.is_at_least()));
        self.add(&component, "weir_source_open_files", stats::get(&stats.files));
        self.add(&component, "weir_source_unreadable_files", stats::get(&stats.unreadable_files));
        self.add(
            &component,
            "weir_source_unwatched_directories",
            stats::get(&stats.unwatched_dirs),
        );
        let (sum, count) = (&stats.discovery_ns, &stats.discovered_files);
        self.add(&component, "weir_source_discovery_seconds_sum", seconds(stats::get(sum)));
        self.add(&component, "weir_source_discovery_seconds_count", stats::get(count));
        self.add(&component, "weir_source_blocked", u8::from(stats.is_blocked()));
        self.add(&component, "weir_source_refusals_total", stats::get(&stats.blocked_total));
        self.add(
            &component,
            "weir_source_blocked_seconds_total",
            seconds(stats::get(&stats.blocked_ns)),
        );
        if stats.listener.endpoint().is_some() {
            self.listener(&component, &stats.listener);
        }
        if stats.collect.is_open() {
            self.collect(&component, &stats.collect);
        }
    }

    fn listener(&mut self, component: &Component<'_>, stats: &ListenerStats) {
        self.add(component, "weir_source_connections", stats::get(&stats.connections));
        let accepted = stats::get(&stats.connections_total);
        self.add(component, "weir_source_accepted_connections_total", accepted);
        let evicted = stats::get(&stats.evicted_total);
        self.add(component, "weir_source_evicted_connections_total", evicted);
        let mut requests = 0;
        for (status, count) in stats.answers() {
            requests += count;
            let status = [("status", &*status.to_string())];
            self.add_with(component, "weir_source_requests_total", &status, count);
        }
        let service = seconds(stats::get(&stats.service_ns));
        self.add(component, "weir_source_request_seconds_sum", service);
        self.add(component, "weir_source_request_seconds_count", requests);
        self.add(component, "weir_source_in_flight_bytes", stats::get(&stats.in_flight_bytes));
        if let Some(report) = stats.rate_limit.report() {
            self.rate_limit(component, &report);
        }
    }

    fn collect(&mut self, component: &Component<'_>, stats: &CollectStats) {
        self.add(component, "weir_source_targets", stats.targets());
        self.add(component, "weir_source_failing_targets", stats.failing().len());
        for (name, count) in stats.failed_counts() {
            let name = [("scrape_target_source_id", &*name)];
            self.add_with(component, "weir_source_failed_scrapes_total", &name, count);
        }
        let (duration_ns, rounds) = stats.durations();
        self.add(component, "weir_source_scrape_seconds_sum", seconds(duration_ns));
        self.add(component, "weir_source_scrape_seconds_count", rounds);
    }

    fn output(&mut self, output: Option<&OutputView>, cursor: &CursorLedger) {
        let type_name = output.map_or("not_configured", |output| output.type_name);
        let component = Component { id: &cursor.name, kind: "output", type_name };
        let book = &cursor.book;
        self.add(&component, "weir_component_received_events_total", book.routed);
        self.add(&component, "weir_component_sent_events_total", book.delivered);
        self.discarded(&component, "out", &book.discarded);
        let buffer_full = book.discarded[DiscardReason::BufferFull as usize];
        self.add(&component, "weir_buffer_discarded_events_total", buffer_full);
        self.add(&component, "weir_component_dead_lettered_events_total", book.dead_lettered);
        self.add(&component, "weir_component_duplicate_events_total", book.resent);
        self.add(&component, "weir_component_unaccounted_events", cursor.unaccounted());
        self.add(&component, "weir_output_in_flight_events", cursor.in_flight);
        self.add(&component, "weir_output_taken_events", cursor.taken);
        self.add(&component, "weir_buffer_size_bytes", cursor.pending_bytes);
        self.add(&component, "weir_buffer_max_size_bytes", cursor.buffer_bytes_max);
        self.add(&component, "weir_output_lag_time_seconds", cursor.lag_seconds);
        self.add(&component, "weir_output_blocking", u8::from(cursor.blocking));
        if let Some(output) = output {
            self.output_stats(&component, &output.stats);
            // The others publish it with their statistics.
            let cpu_ns = match &output.running {
                Some(running) => running.cpu_ns(),
                None => stats::get(&output.stats.cpu_ns),
            };
            self.add(&component, "weir_component_cpu_seconds_total", seconds(cpu_ns));
        }
    }

    fn output_stats(&mut self, component: &Component<'_>, stats: &OutputStats) {
        self.errors(component, &stats.errors);
        self.add(component, "weir_component_sent_bytes_total", stats::get(&stats.bytes_sent));
        self.add(component, "weir_output_encoded_bytes_total", stats::get(&stats.bytes_encoded));
        self.add(component, "weir_component_retries_total", stats::get(&stats.retries));
        let (service, requests) = (&stats.service_ns, stats::get(&stats.requests));
        self.add(component, "weir_output_service_time_seconds_sum", seconds(stats::get(service)));
        self.add(component, "weir_output_service_time_seconds_count", requests);
        let (queueing, batches) = (&stats.queueing_ns, stats::get(&stats.batches));
        self.add(
            component,
            "weir_output_queueing_delay_seconds_sum",
            seconds(stats::get(queueing)),
        );
        self.add(component, "weir_output_queueing_delay_seconds_count", batches);
        let in_flight = stats::get(&stats.in_flight_requests);
        self.add(component, "weir_output_in_flight_requests", in_flight);
        let limit = stats::get(&stats.concurrency_limit);
        self.add(component, "weir_output_concurrency_limit", limit);
        let is_failing = stats.failing.load(std::sync::atomic::Ordering::Relaxed);
        self.add(component, "weir_output_failing", u8::from(is_failing));
    }

    fn discarded(
        &mut self,
        component: &Component<'_>,
        direction: &str,
        counts: &[u64; DiscardReason::COUNT],
    ) {
        for (reason, count) in DiscardReason::ALL.iter().zip(counts) {
            let intentional = if reason.is_intentional() { "true" } else { "false" };
            let labels =
                [("reason", reason.text()), ("intentional", intentional), ("direction", direction)];
            self.add_with(component, "weir_component_discarded_events_total", &labels, count);
        }
    }

    fn errors(&mut self, component: &Component<'_>, errors: &ErrorCounts) {
        for (kind, count) in errors.by_kind() {
            self.add_with(component, "weir_component_errors_total", &[("error_type", kind)], count);
        }
    }

    fn reloads(&mut self, reloads: &Reloads) {
        for (result, count) in [("applied", &reloads.applied), ("refused", &reloads.refused)] {
            let count = count.load(Ordering::Relaxed);
            self.row("weir_config_reloads_total", &[("result", result)], count);
        }
        let is_refused = reloads.is_refused.load(Ordering::Relaxed);
        self.row("weir_config_refused", &[], u8::from(is_refused));
    }

    fn rules(&mut self, view: &PipelineView) {
        let rules = view.rules.current();
        let stats = rules.stats();
        self.row("weir_rules_generation", &[], rules.generation());
        self.row("weir_rules_events_total", &[], stats.records());
        self.row("weir_rules_unrouted_events_total", &[], stats.unrouted());
        self.row("weir_rules_cpu_seconds_total", &[], seconds(stats.time_ns()));
        for rule in stats.metrics() {
            let labels = [("rule", rule.name.as_str())];
            self.row("weir_rule_hits_total", &labels, rule.hits);
            self.row("weir_rule_unparsed_events_total", &labels, rule.unparsed);
            self.row("weir_rule_cpu_seconds_total", &labels, seconds(rule.time_ns));
            let last = rule.last_hit_ns.unwrap_or(0).cast_unsigned();
            self.row("weir_rule_last_hit_timestamp_seconds", &labels, seconds(last));
        }
    }

    fn journal(&mut self, ledger: &Ledger) {
        let journal = &ledger.journal;
        self.row("weir_journal_ring_size_bytes", &[], journal.ring_bytes);
        self.row("weir_journal_ring_max_size_bytes", &[], journal.ring_bytes_max);
        self.row("weir_journal_disk_size_bytes", &[], journal.disk_bytes);
        self.row("weir_journal_disk_max_size_bytes", &[], journal.disk_bytes_max);
        self.row("weir_journal_segments", &[], journal.segments);
        self.row("weir_journal_written_frames_total", &[], journal.frames_written);
        self.row("weir_journal_compacted_frames_total", &[], journal.frames_compacted);
        self.row("weir_journal_merged_frames_total", &[], journal.frames_merged);
        self.row("weir_journal_flushes_total", &[], journal.flushes);
        self.row("weir_journal_disk_failing", &[], u8::from(journal.disk_error.is_some()));
        let recovery = &journal.recovery;
        self.row("weir_journal_recovered_frames", &[], recovery.frames);
        self.row("weir_journal_recovered_bytes", &[], recovery.frame_bytes);
        self.row("weir_journal_damaged_bytes", &[], recovery.damaged_bytes);
        self.row("weir_journal_damaged_positions", &[], recovery.damaged_cursor_records);
        self.row("weir_journal_lost_bytes", &[], recovery.lost_bytes);
        for lost in &recovery.lost {
            let labels = [
                ("source", lost.source.as_str()),
                ("output", lost.destination.as_str()),
                ("reason", lost.reason),
            ];
            self.row("weir_journal_lost_events", &labels, lost.records);
        }
    }

    fn readers(&mut self, view: &PipelineView) {
        for entry in ReadersEntry::all(view) {
            let labels = [("service", entry.name.as_str())];
            for (name, value) in [
                ("weir_readers", entry.readers),
                ("weir_reader_matched_envelopes_total", entry.matched),
                ("weir_reader_sent_envelopes_total", entry.delivered),
                ("weir_reader_lost_envelopes_total", entry.lost),
                ("weir_reader_abandoned_envelopes_total", entry.abandoned),
                ("weir_reader_queued_envelopes", entry.queued),
                ("weir_reader_queued_bytes", entry.queued_bytes),
                ("weir_reader_missed_events_total", entry.missed),
                ("weir_reader_refused_requests_total", entry.refused),
                ("weir_reader_cut_streams_total", entry.cut),
            ] {
                self.row(name, &labels, value);
            }
        }
    }

    fn access(&mut self, gate: &Gate) {
        let Some((refused, sessions)) = gate.metrics() else { return };
        for (reason, count) in refused {
            self.row("weir_api_refused_requests_total", &[("reason", reason)], count);
        }
        self.row("weir_api_sessions", &[], sessions);
    }

    fn tails(&mut self, tails: &Sessions) {
        self.row("weir_live_tails", &[], tails.served());
        self.row("weir_live_tails_refused_total", &[], tails.refused());
    }

    fn queries(&mut self, queries: &Admission) {
        let metrics = queries.metrics();
        for kind in QueryKind::ALL {
            for outcome in Outcome::ALL {
                let labels = [("kind", kind.name()), ("outcome", outcome.name())];
                let count = metrics.outcomes(kind, outcome);
                self.row("weir_queries_total", &labels, count);
            }
        }
        let load = queries.load();
        self.row("weir_queries_running", &[], load.running);
        self.row("weir_queries_paused", &[], load.paused);
        self.row("weir_queries_waiting", &[], load.waiting);
        self.histogram("weir_query_queueing_delay_seconds", &metrics.queueing);
        self.histogram("weir_query_service_time_seconds", &metrics.service);
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.row("weir_query_scanned_rows_total", &[], get(&metrics.scanned_rows));
        self.row("weir_query_scanned_bytes_total", &[], get(&metrics.scanned_bytes));
        self.row("weir_query_read_pages_total", &[], get(&metrics.pages));
        self.row("weir_query_pruned_pages_total", &[], get(&metrics.pages_pruned));
    }

    fn histogram(&mut self, name: &str, times: &DurationHistogram) {
        let (below, count, sum_ns) = times.read();
        let bucket = format!("{name}_bucket");
        for (end, below) in TIME_BUCKETS_SECONDS.iter().zip(below) {
            self.row(&bucket, &[("le", &end.to_string())], below);
        }
        self.row(&bucket, &[("le", "+Inf")], count);
        self.row(&format!("{name}_sum"), &[], seconds(sum_ns));
        self.row(&format!("{name}_count"), &[], count);
    }

    fn process(&mut self, process: &ProcessMetrics, view: Option<&PipelineView>) {
        if let Some(seconds) = process.cpu_seconds {
            self.row("process_cpu_seconds_total", &[], seconds);
        }
        if let Some(view) = view {
            let started = seconds(view.started_unix_ns.cast_unsigned());
            self.row("process_start_time_seconds", &[], started);
        }
        for (name, value) in [
            ("process_resident_memory_bytes", process.resident_bytes),
            ("process_virtual_memory_bytes", process.virtual_bytes),
            ("process_open_fds", process.open_fds),
            ("process_max_fds", process.max_fds),
            ("process_threads", process.threads),
        ] {
            if let Some(value) = value {
                self.row(name, &[], value);
            }
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_host::RealClock;
    use weir_model::AbandonReason;

    use super::*;

    #[test]
    fn page_without_pipeline_has_build_and_process_metrics() {
        let gate = Gate::new(None, Arc::new(RealClock::new())).unwrap();
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let state = ApiState::new("1.2\"3", &crate::QueryLimits::default(), gate, None, stopped);
        let page = render(&state, None, None);
        assert!(page.contains("weir_build_info{version=\"1.2\\\"3\"} 1\n"), "{page}");
        assert!(page.contains("\nprocess_cpu_seconds_total "), "{page}");
    }

    #[test]
    fn page_has_the_same_intended_discards() {
        let figures = include_str!("../../../page/src/pipeline/figures.ts");
        let (_, list) = figures.split_once("const chosen = new Set([").unwrap();
        let (list, _) = list.split_once("])").unwrap();
        let mut of_page: Vec<&str> = list.split('\'').skip(1).step_by(2).collect();
        // Of bytes, which the metrics count apart from discards.
        of_page.retain(|reason| *reason != AbandonReason::SkippedAtStart.text());
        let reasons = DiscardReason::ALL.iter().filter(|reason| reason.is_intentional());
        let mut of_metrics: Vec<&str> = reasons.map(|reason| reason.text()).collect();
        of_page.sort_unstable();
        of_metrics.sort_unstable();
        assert_eq!(of_page, of_metrics);
    }

    #[test]
    fn names_and_help_follow_conventions() {
        for family in FAMILIES {
            let is_counter = matches!(family.family_type, FamilyType::Counter);
            assert_eq!(is_counter, family.name.ends_with("_total"), "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
        }
        let mut names: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        names.dedup();
        assert_eq!(names.len(), FAMILIES.len());
    }
}
