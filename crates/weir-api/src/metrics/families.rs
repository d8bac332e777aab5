//! Every metric family: name, type and meaning.

/// Type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyType {
    /// Counter.
    Counter,
    /// Gauge.
    Gauge,
    /// Summary: a sum and a count.
    Summary,
    /// Histogram: counts by size, a sum and a count.
    Histogram,
}

impl FamilyType {
    /// The name in a `# TYPE` line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric family.
#[derive(Debug)]
pub struct FamilyInfo {
    /// Name of the family.
    pub name: &'static str,
    /// Type of the family.
    pub family_type: FamilyType,
    /// Its meaning, one sentence.
    pub help: &'static str,
}

use FamilyType::{Counter, Gauge, Histogram, Summary};

const fn family(name: &'static str, family_type: FamilyType, help: &'static str) -> FamilyInfo {
    FamilyInfo { name, family_type, help }
}

/// All metric families, in the order of the page. All `weir_component_`, `weir_source_`,
/// `weir_output_` and `weir_buffer_` families have the labels `component_id`, `component_kind` and
/// `component_type`.
pub const FAMILIES: &[FamilyInfo] = &[
    family("weir_build_info", Gauge, "Version of weir; always 1."),
    family("weir_config_reloads_total", Counter, "Number of configuration reloads, by result."),
    family(
        "weir_config_refused",
        Gauge,
        "1 while the configuration on disk is invalid and a previous one is active.",
    ),
    family("weir_ready", Gauge, "1 while all configured components read and deliver."),
    family("weir_health_reasons", Gauge, "Active health problems, by severity."),
    family(
        "weir_component_received_events_total",
        Counter,
        "Lines that a source has read, or records that were routed to an output.",
    ),
    family("weir_component_received_bytes_total", Counter, "Bytes that a source has consumed."),
    family(
        "weir_component_sent_events_total",
        Counter,
        "Records that a source has produced, or records that the destination of an output has \
         acknowledged.",
    ),
    family(
        "weir_component_sent_bytes_total",
        Counter,
        "Bytes that an output has sent, after compression.",
    ),
    family(
        "weir_component_joined_events_total",
        Counter,
        "Lines that were joined to the record of another line.",
    ),
    family(
        "weir_component_malformed_events_total",
        Counter,
        "Records whose line did not have the expected format.",
    ),
    family(
        "weir_component_truncated_events_total",
        Counter,
        "Records that were cut at the configured line length.",
    ),
    family(
        "weir_component_discarded_events_total",
        Counter,
        "Discarded lines (direction in) and records (direction out), by reason.",
    ),
    family(
        "weir_component_abandoned_bytes_total",
        Counter,
        "Bytes of files that were abandoned unread, by reason.",
    ),
    family(
        "weir_component_dead_lettered_events_total",
        Counter,
        "Records that were rejected permanently and written to the dead-letter file.",
    ),
    family("weir_component_duplicate_events_total", Counter, "Repeated transmissions of records."),
    family("weir_component_retries_total", Counter, "Attempts that failed and were retried."),
    family("weir_component_errors_total", Counter, "Errors by kind."),
    family(
        "weir_component_unaccounted_events",
        Gauge,
        "Number of items that the book of a component does not account for; 0 if it balances.",
    ),
    family("weir_component_cpu_seconds_total", Counter, "CPU time of a component."),
    family("weir_source_lag_time_seconds", Gauge, "Age of the oldest unread byte."),
    family("weir_source_lag_bytes", Gauge, "Bytes that are present and not yet read."),
    family("weir_source_seen_bytes_total", Counter, "Bytes by which the files have grown."),
    family(
        "weir_source_cut_files_total",
        Counter,
        "Number of times that a file was found to be shorter than before.",
    ),
    family(
        "weir_source_unseen_files_total",
        Counter,
        "Files that were created and removed before they could be read, or written to after they \
         were deleted and closed.",
    ),
    family(
        "weir_source_vanished_files_total",
        Counter,
        "Files that were removed while weir was not running.",
    ),
    family(
        "weir_source_seen_bytes_at_least",
        Gauge,
        "1 if bytes may have been missed (a file was truncated, appeared and disappeared between \
         two scans, or disappeared while weir was not running): seen and abandoned bytes are then \
         lower bounds.",
    ),
    family("weir_source_open_files", Gauge, "Files that are being followed."),
    family("weir_source_unreadable_files", Gauge, "Files that cannot be opened or read."),
    family(
        "weir_source_unwatched_directories",
        Gauge,
        "Directories that are only watched by rescanning, because inotify failed.",
    ),
    family(
        "weir_source_discovery_seconds",
        Summary,
        "Time from the creation of a file to the first byte read.",
    ),
    family("weir_source_blocked", Gauge, "1 while a file or container of the source is blocked."),
    family("weir_source_refusals_total", Counter, "Appends that the full journal has refused."),
    family(
        "weir_source_blocked_seconds_total",
        Counter,
        "Time during which a file or container was blocked.",
    ),
    family("weir_source_connections", Gauge, "Open connections of a listening source."),
    family(
        "weir_source_accepted_connections_total",
        Counter,
        "Connections that a listening source has accepted.",
    ),
    family(
        "weir_source_evicted_connections_total",
        Counter,
        "Connections that a listening source has closed to make room for newer ones.",
    ),
    family(
        "weir_source_requests_total",
        Counter,
        "Requests to a listening source, by response status; 500 includes all other statuses.",
    ),
    family(
        "weir_source_request_seconds",
        Summary,
        "Time from the head of a request to its response, including the write to stable storage.",
    ),
    family(
        "weir_source_targets",
        Gauge,
        "Targets that a source scrapes, or containers that it measures.",
    ),
    family(
        "weir_source_failing_targets",
        Gauge,
        "Targets, files of targets and containers that are currently failing.",
    ),
    family(
        "weir_source_failed_scrapes_total",
        Counter,
        "Failed scrapes, by the source ID of their target; source IDs after the first 256 are \
         counted as `other`.",
    ),
    family(
        "weir_source_scrape_seconds",
        Summary,
        "Duration of scrapes, from the connection to the last record.",
    ),
    family("weir_source_in_flight_bytes", Gauge, "Bytes of requests that are being read."),
    family(
        "weir_source_rate_limited_records_total",
        Counter,
        "Records above the limit of their key (`rate_limit` of a listening source), by action: \
         `discarded`, `delayed` (accepted, and reading from the connection was paused), `refused` \
         (answered with 429).",
    ),
    family("weir_source_rate_limited_bytes_total", Counter, "Bytes of these records, by action."),
    family(
        "weir_source_rate_limit_delay_seconds_total",
        Counter,
        "Time during which connections were not read because of the limit of a key.",
    ),
    family(
        "weir_source_rate_limited_key_records_total",
        Counter,
        "Records above the limit of their key, for at most the ten keys with the most.",
    ),
    family(
        "weir_source_rate_limited_keys",
        Gauge,
        "Keys that currently send more than their limit.",
    ),
    family(
        "weir_source_rate_limit_notices_total",
        Counter,
        "Records that weir has written to report a key above its limit; they count as received \
         lines.",
    ),
    family("weir_output_lag_time_seconds", Gauge, "Age of the oldest unacknowledged batch."),
    family("weir_output_in_flight_events", Gauge, "Records that wait or are in flight."),
    family("weir_output_taken_events", Gauge, "Of these, records that the output has taken."),
    family("weir_output_in_flight_requests", Gauge, "Requests in flight."),
    family("weir_output_concurrency_limit", Gauge, "Current limit of requests in flight."),
    family(
        "weir_output_service_time_seconds",
        Summary,
        "Time from sending a request to its response.",
    ),
    family(
        "weir_output_queueing_delay_seconds",
        Summary,
        "Time from reading a batch to sending it.",
    ),
    family("weir_output_encoded_bytes_total", Counter, "Bytes to send, before compression."),
    family("weir_output_failing", Gauge, "1 while the destination does not accept records."),
    family("weir_output_blocking", Gauge, "1 while the full buffer of the output blocks sources."),
    family("weir_buffer_size_bytes", Gauge, "Bytes that wait for an output or are in flight."),
    family("weir_buffer_max_size_bytes", Gauge, "Maximum bytes that may wait for an output."),
    family(
        "weir_buffer_discarded_events_total",
        Counter,
        "Records that were discarded because the buffer of an output was full.",
    ),
    family("weir_rules_generation", Gauge, "Generation number of the active rules."),
    family("weir_rules_events_total", Counter, "Records evaluated by the rules."),
    family("weir_rules_unrouted_events_total", Counter, "Records that no rule routed."),
    family(
        "weir_rules_cpu_seconds_total",
        Counter,
        "CPU time of matching all rules, estimated from samples.",
    ),
    family("weir_rule_hits_total", Counter, "Records that matched the rule."),
    family(
        "weir_rule_unparsed_events_total",
        Counter,
        "Matched records that fit none of the formats of the rule's `parse` and were left \
         unchanged.",
    ),
    family(
        "weir_rule_cpu_seconds_total",
        Counter,
        "CPU time of this rule alone, estimated from samples.",
    ),
    family(
        "weir_rule_last_hit_timestamp_seconds",
        Gauge,
        "When the rule last matched, in seconds since 1970; 0 means never.",
    ),
    family("weir_journal_ring_size_bytes", Gauge, "Memory used by batches."),
    family("weir_journal_ring_max_size_bytes", Gauge, "Limit of the memory for batches."),
    family("weir_journal_disk_size_bytes", Gauge, "Size of the segment files."),
    family("weir_journal_disk_max_size_bytes", Gauge, "Limit of the size of the segment files."),
    family("weir_journal_segments", Gauge, "Number of segment files."),
    family("weir_journal_written_frames_total", Counter, "Batches written to segment files."),
    family(
        "weir_journal_compacted_frames_total",
        Counter,
        "Batches that were rewritten without records that no output needs any more.",
    ),
    family(
        "weir_journal_merged_frames_total",
        Counter,
        "Small batches on disk that were merged into larger ones, because many batches wait.",
    ),
    family("weir_journal_flushes_total", Counter, "Flushes of segments and of the positions file."),
    family("weir_journal_disk_failing", Gauge, "1 while the journal cannot write."),
    family("weir_journal_recovered_frames", Gauge, "Batches found on disk at the start."),
    family("weir_journal_recovered_bytes", Gauge, "Bytes of batches found on disk at the start."),
    family("weir_journal_damaged_bytes", Gauge, "Bytes found damaged at the start."),
    family("weir_journal_damaged_positions", Gauge, "Positions found damaged at the start."),
    family(
        "weir_journal_lost_bytes",
        Gauge,
        "Bytes of streams that are no longer in any file or segment.",
    ),
    family(
        "weir_journal_lost_events",
        Gauge,
        "Records that were lost since the start or found lost at the start; also counted as \
         discarded.",
    ),
    family("weir_store_received_events_total", Counter, "Records that the store has accepted."),
    family(
        "weir_store_skipped_events_total",
        Counter,
        "Of these, records that were already stored and arrived again.",
    ),
    family(
        "weir_store_unparsed_events_total",
        Counter,
        "Records that were stored unparsed, by reason: `{...}` that is not a JSON object, no \
         `key=value` pairs in a logfmt source, or a format other than that of their source.",
    ),
    family(
        "weir_store_flushed_bytes_total",
        Counter,
        "Bytes of records written to segments, as received.",
    ),
    family("weir_store_events", Gauge, "Records in segments."),
    family("weir_store_raw_size_bytes", Gauge, "Bytes of the records in segments, as received."),
    family("weir_store_disk_size_bytes", Gauge, "Size of segments and their filters."),
    family("weir_store_segments", Gauge, "Segments."),
    family("weir_store_head_events", Gauge, "Records that are not yet in a segment."),
    family(
        "weir_store_head_size_bytes",
        Gauge,
        "Memory used by records that are not yet in a segment.",
    ),
    family(
        "weir_store_head_full",
        Gauge,
        "1 while no records are accepted because the head is full.",
    ),
    family(
        "weir_store_catching_up",
        Gauge,
        "1 until the store has the records that the journal and the files of sources had at the \
         start.",
    ),
    family("weir_store_flush_seconds", Summary, "Time spent on writing records to segments."),
    family("weir_store_merge_seconds", Summary, "Time spent on merging segments."),
    family(
        "weir_store_failed_writes_total",
        Counter,
        "Write attempts that failed; each is retried.",
    ),
    family(
        "weir_store_failing",
        Gauge,
        "1 while the store cannot write; see `/health` for the reason.",
    ),
    family("weir_store_damaged_segments", Gauge, "Damaged segments that cannot be searched."),
    family(
        "weir_store_retired_segments_total",
        Counter,
        "Segments removed by retention since the store was created.",
    ),
    family(
        "weir_store_retired_events_total",
        Counter,
        "Records removed by retention since the store was created.",
    ),
    family(
        "weir_store_retired_bytes_total",
        Counter,
        "Bytes on disk removed by retention since the store was created.",
    ),
    family(
        "weir_store_deleted_events_total",
        Counter,
        "Records deleted on request since the store was created that are no longer in any file.",
    ),
    family(
        "weir_store_pending_deletions",
        Gauge,
        "Deletions in progress: their records are hidden, and may still be in files.",
    ),
    family(
        "weir_store_cpu_seconds_total",
        Counter,
        "CPU time of the threads of the store: `intake` accepts records, `flush` writes, merges \
         and deletes.",
    ),
    family("weir_queries_total", Counter, "Queries of the store, by kind and outcome."),
    family("weir_queries_paused", Gauge, "Long queries that make room for short ones."),
    family("weir_queries_running", Gauge, "Queries that are running."),
    family(
        "weir_readers",
        Gauge,
        "Readers of envelopes, by service (`egress`, `gateway`, `traffic_controller`, `log_cache`).",
    ),
    family(
        "weir_reader_matched_envelopes_total",
        Counter,
        "Envelopes that matched the selectors of readers, counted for each reader.",
    ),
    family("weir_reader_sent_envelopes_total", Counter, "Envelopes that were sent to readers."),
    family(
        "weir_reader_lost_envelopes_total",
        Counter,
        "Envelopes that were lost because their readers were too slow.",
    ),
    family(
        "weir_reader_abandoned_envelopes_total",
        Counter,
        "Envelopes that were queued when their readers disconnected.",
    ),
    family("weir_reader_queued_envelopes", Gauge, "Envelopes that wait for their readers."),
    family("weir_reader_queued_bytes", Gauge, "Memory of envelopes that wait for their readers."),
    family(
        "weir_reader_missed_events_total",
        Counter,
        "Records that were missed for all readers, counted for each reader.",
    ),
    family(
        "weir_reader_refused_requests_total",
        Counter,
        "Requests and connections of readers that were refused.",
    ),
    family(
        "weir_reader_cut_streams_total",
        Counter,
        "Streams that were ended because their clients did not accept an envelope in time.",
    ),
    family(
        "weir_api_refused_requests_total",
        Counter,
        "Requests to the API that access control has refused, by reason; only with access control.",
    ),
    family(
        "weir_api_tls_failed_handshakes_total",
        Counter,
        "TLS handshakes of the API that failed, including clients without TLS; only with TLS.",
    ),
    family("weir_api_sessions", Gauge, "Sessions of the page; only with access control."),
    family("weir_live_tails", Gauge, "Active live tails."),
    family(
        "weir_live_tails_refused_total",
        Counter,
        "Live tails that were rejected because the maximum number was reached, or the memory for \
         their regular expressions was exhausted.",
    ),
    family("weir_queries_waiting", Gauge, "Queries that are waiting to run."),
    family(
        "weir_query_queueing_delay_seconds",
        Histogram,
        "Time from the arrival of a query to its start.",
    ),
    family(
        "weir_query_service_time_seconds",
        Histogram,
        "Time from the start of a query to its response.",
    ),
    family("weir_query_scanned_rows_total", Counter, "Rows scanned by queries."),
    family(
        "weir_query_scanned_bytes_total",
        Counter,
        "Bytes of pages read by queries, decompressed.",
    ),
    family("weir_query_read_pages_total", Counter, "Pages read by queries."),
    family(
        "weir_query_pruned_pages_total",
        Counter,
        "Pages that did not have to be read, by the kind of index that excluded them.",
    ),
    family("process_cpu_seconds_total", Counter, "CPU time of the process, user and system."),
    family(
        "process_start_time_seconds",
        Gauge,
        "Start time of the process, in seconds since 1970.",
    ),
    family("process_resident_memory_bytes", Gauge, "Resident memory."),
    family("process_virtual_memory_bytes", Gauge, "Virtual memory."),
    family("process_open_fds", Gauge, "Open file descriptors."),
    family("process_max_fds", Gauge, "Maximum number of open file descriptors."),
    family("process_threads", Gauge, "Threads."),
];
