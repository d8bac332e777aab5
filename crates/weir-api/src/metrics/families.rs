//! Every family of metrics: name, type and meaning.

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A sum and a count.
    Summary,
    /// Counts by size, a sum and a count.
    Histogram,
}

impl FamilyType {
    /// As in a `# TYPE` line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// A family.
#[derive(Debug)]
pub struct FamilyInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub family_type: FamilyType,
    /// What it means, one sentence.
    pub help: &'static str,
}

use FamilyType::{Counter, Gauge, Histogram, Summary};

const fn family(name: &'static str, family_type: FamilyType, help: &'static str) -> FamilyInfo {
    FamilyInfo { name, family_type, help }
}

/// Every family, in the order of the page. All `weir_component_`, `weir_source_`, `weir_output_`
/// and `weir_buffer_` families have the labels `component_id`, `component_kind` and
/// `component_type`.
pub const FAMILIES: &[FamilyInfo] = &[
    family("weir_build_info", Gauge, "Version of weir; always 1."),
    family(
        "weir_config_reloads_total",
        Counter,
        "Times that the configuration was read again, by what became of it.",
    ),
    family(
        "weir_config_refused",
        Gauge,
        "1 while the configuration as it is written is wrong, and an earlier one in force.",
    ),
    family("weir_ready", Gauge, "1 while everything that is configured is read and delivered."),
    family("weir_health_reasons", Gauge, "Things that are not as they should be, by severity."),
    family(
        "weir_component_received_events_total",
        Counter,
        "Lines that a source has read; records that were routed to an output.",
    ),
    family("weir_component_received_bytes_total", Counter, "Bytes that a source has consumed."),
    family(
        "weir_component_sent_events_total",
        Counter,
        "Records that a source has made; records that an output's destination has acknowledged.",
    ),
    family(
        "weir_component_sent_bytes_total",
        Counter,
        "Bytes that an output has sent, after compression.",
    ),
    family(
        "weir_component_joined_events_total",
        Counter,
        "Lines that became part of another line's record.",
    ),
    family(
        "weir_component_malformed_events_total",
        Counter,
        "Records whose line was not in the expected format.",
    ),
    family(
        "weir_component_truncated_events_total",
        Counter,
        "Records that were cut at the configured line length.",
    ),
    family(
        "weir_component_discarded_events_total",
        Counter,
        "Lines (direction in) and records (direction out) that were given up, by reason.",
    ),
    family(
        "weir_component_abandoned_bytes_total",
        Counter,
        "Bytes of files that were given up unread, by reason.",
    ),
    family(
        "weir_component_dead_lettered_events_total",
        Counter,
        "Records that were refused for good and written to the dead-letter file.",
    ),
    family(
        "weir_component_duplicate_events_total",
        Counter,
        "Further sendings of records, beside the first.",
    ),
    family("weir_component_retries_total", Counter, "Attempts that failed and were made again."),
    family("weir_component_errors_total", Counter, "Errors by kind."),
    family(
        "weir_component_unaccounted_events",
        Gauge,
        "What the book of a component leaves unaccounted for; 0 when it balances.",
    ),
    family("weir_component_cpu_seconds_total", Counter, "CPU time of a component's thread."),
    family(
        "weir_source_lag_time_seconds",
        Gauge,
        "Age of the oldest byte that is there and not yet read.",
    ),
    family("weir_source_lag_bytes", Gauge, "Bytes that are there and not yet read."),
    family("weir_source_seen_bytes_total", Counter, "By how much the files have grown."),
    family(
        "weir_source_cut_files_total",
        Counter,
        "Times that a file was found shorter than before.",
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
        "Files that were removed while weir did not run.",
    ),
    family(
        "weir_source_seen_bytes_at_least",
        Gauge,
        "1 once bytes may have come and gone unseen (a file was cut, came and went between two looks, or vanished while weir did not run): seen and abandoned bytes are then lower bounds.",
    ),
    family("weir_source_open_files", Gauge, "Files that are followed."),
    family("weir_source_unreadable_files", Gauge, "Files that cannot be opened or read."),
    family(
        "weir_source_unwatched_directories",
        Gauge,
        "Directories that are looked at by rescan only, because inotify refused.",
    ),
    family(
        "weir_source_discovery_seconds",
        Summary,
        "Time from the creation of a file to its first byte read.",
    ),
    family("weir_source_blocked", Gauge, "1 while a file or container of it has to wait."),
    family("weir_source_refusals_total", Counter, "Times that the journal had no room."),
    family(
        "weir_source_blocked_seconds_total",
        Counter,
        "Time in which a file or container had to wait.",
    ),
    family("weir_source_connections", Gauge, "Open connections of a source that listens."),
    family(
        "weir_source_accepted_connections_total",
        Counter,
        "Connections that a source that listens has accepted.",
    ),
    family(
        "weir_source_evicted_connections_total",
        Counter,
        "Connections that a source that listens has closed to make room for newer ones.",
    ),
    family(
        "weir_source_requests_total",
        Counter,
        "Requests to a source that listens, by the status of the answer; 500 stands for all others.",
    ),
    family(
        "weir_source_request_seconds",
        Summary,
        "Time from the head of a request to its answer, stable storage included.",
    ),
    family("weir_source_in_flight_bytes", Gauge, "Bytes of requests that are being read."),
    family(
        "weir_output_lag_time_seconds",
        Gauge,
        "Age of the oldest batch that is not acknowledged.",
    ),
    family("weir_output_in_flight_events", Gauge, "Records that wait or are on their way."),
    family("weir_output_taken_events", Gauge, "Those of them that the output has taken."),
    family("weir_output_in_flight_requests", Gauge, "Requests on their way."),
    family("weir_output_concurrency_limit", Gauge, "Present bound of requests on their way."),
    family(
        "weir_output_service_time_seconds",
        Summary,
        "Time from the sending of a request to its answer.",
    ),
    family(
        "weir_output_queueing_delay_seconds",
        Summary,
        "Time from the reading of a batch to its sending.",
    ),
    family("weir_output_encoded_bytes_total", Counter, "Bytes to send, before compression."),
    family("weir_output_failing", Gauge, "1 while the destination does not accept."),
    family("weir_output_blocking", Gauge, "1 while the output's full buffer stops sources."),
    family("weir_buffer_size_bytes", Gauge, "Bytes that wait for an output or are on their way."),
    family("weir_buffer_max_size_bytes", Gauge, "Bound of the bytes that may wait for an output."),
    family(
        "weir_buffer_discarded_events_total",
        Counter,
        "Records that were given up because an output's buffer was full.",
    ),
    family("weir_rules_generation", Gauge, "Number of the generation of rules in force."),
    family("weir_rules_events_total", Counter, "Records that rules looked at."),
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
        "Of these, records that are in none of the formats of the rule's `parse`, and stay as they are.",
    ),
    family(
        "weir_rule_cpu_seconds_total",
        Counter,
        "CPU time that the rule took by itself, estimated from samples.",
    ),
    family(
        "weir_rule_last_hit_timestamp_seconds",
        Gauge,
        "When the rule last matched, seconds since 1970; 0: never.",
    ),
    family("weir_journal_ring_size_bytes", Gauge, "Memory that batches hold."),
    family("weir_journal_ring_max_size_bytes", Gauge, "Bound of that memory."),
    family("weir_journal_disk_size_bytes", Gauge, "Bytes of segment files."),
    family("weir_journal_disk_max_size_bytes", Gauge, "Bound of the bytes of segment files."),
    family("weir_journal_segments", Gauge, "Segment files."),
    family("weir_journal_written_frames_total", Counter, "Batches written to segment files."),
    family(
        "weir_journal_compacted_frames_total",
        Counter,
        "Batches in segment files that were rewritten without the records that no output needs any more.",
    ),
    family("weir_journal_flushes_total", Counter, "Flushes of segments and of the positions."),
    family("weir_journal_disk_failing", Gauge, "1 while the journal cannot write."),
    family("weir_journal_recovered_frames", Gauge, "Batches that the start found on disk."),
    family("weir_journal_recovered_bytes", Gauge, "Bytes of batches that the start found on disk."),
    family("weir_journal_damaged_bytes", Gauge, "Bytes that the start found damaged."),
    family("weir_journal_damaged_positions", Gauge, "Positions that the start found damaged."),
    family(
        "weir_journal_lost_bytes",
        Gauge,
        "Bytes of streams that no file and no segment holds any more.",
    ),
    family(
        "weir_journal_lost_events",
        Gauge,
        "Records that were lost since the start or found lost by it, also counted as discarded.",
    ),
    family("weir_store_received_events_total", Counter, "Records that the store has taken in."),
    family(
        "weir_store_skipped_events_total",
        Counter,
        "Of these, records that were stored already and came again.",
    ),
    family(
        "weir_store_unparsed_events_total",
        Counter,
        "Records that are stored as they stand, by why: `{...}` that is no JSON object, no \
         `key=value` pairs in a source of logfmt, or another format than that of their source.",
    ),
    family(
        "weir_store_flushed_bytes_total",
        Counter,
        "Bytes of records that were made into segments, as they came in.",
    ),
    family("weir_store_events", Gauge, "Records in segments."),
    family(
        "weir_store_raw_size_bytes",
        Gauge,
        "Bytes of the records in segments, as they came in.",
    ),
    family("weir_store_disk_size_bytes", Gauge, "Bytes of segments and their filters."),
    family("weir_store_segments", Gauge, "Segments."),
    family("weir_store_head_events", Gauge, "Records that are in no segment yet."),
    family("weir_store_head_size_bytes", Gauge, "Memory of those."),
    family("weir_store_head_full", Gauge, "1 while nothing is taken in because the head is full."),
    family(
        "weir_store_catching_up",
        Gauge,
        "1 while the store takes in what was received before it started.",
    ),
    family("weir_store_flush_seconds", Summary, "Time that it took to make records into segments."),
    family("weir_store_merge_seconds", Summary, "Time that it took to merge segments."),
    family(
        "weir_store_failed_writes_total",
        Counter,
        "Attempts to write that failed; each is tried again.",
    ),
    family("weir_store_failing", Gauge, "1 while the store cannot write; `/health` says why."),
    family("weir_store_damaged_segments", Gauge, "What is damaged and cannot be searched."),
    family(
        "weir_store_retired_segments_total",
        Counter,
        "Segments that retention removed since the store began.",
    ),
    family(
        "weir_store_retired_events_total",
        Counter,
        "Records that retention removed since the store began.",
    ),
    family(
        "weir_store_retired_bytes_total",
        Counter,
        "Bytes on disk that retention removed since the store began.",
    ),
    family(
        "weir_store_deleted_events_total",
        Counter,
        "Records that were deleted on request since the store began, and are in no file any more.",
    ),
    family(
        "weir_store_pending_deletions",
        Gauge,
        "Deletions that are not done: their records are hidden, and may still be in files.",
    ),
    family(
        "weir_store_cpu_seconds_total",
        Counter,
        "CPU time of the threads of the store: `intake` takes in, `flush` writes, merges and deletes.",
    ),
    family(
        "weir_queries_total",
        Counter,
        "Questions to the store, by what was asked and what became of it.",
    ),
    family("weir_queries_running", Gauge, "Questions that are being answered."),
    family("weir_live_tails", Gauge, "Live tails that are served."),
    family(
        "weir_live_tails_refused_total",
        Counter,
        "Live tails that were refused, since as many ran as may, or their regular expressions took \
         as much memory as they may.",
    ),
    family("weir_queries_waiting", Gauge, "Questions that wait for their turn."),
    family(
        "weir_query_queueing_delay_seconds",
        Histogram,
        "Time from the arrival of a question to its turn.",
    ),
    family(
        "weir_query_service_time_seconds",
        Histogram,
        "Time from the turn of a question to its answer.",
    ),
    family("weir_query_scanned_rows_total", Counter, "Rows that were looked at for answers."),
    family(
        "weir_query_scanned_bytes_total",
        Counter,
        "Bytes of pages that were read for answers, decompressed.",
    ),
    family("weir_query_read_pages_total", Counter, "Pages that were read for answers."),
    family(
        "weir_query_pruned_pages_total",
        Counter,
        "Pages that did not have to be read, by what is known about them.",
    ),
    family("process_cpu_seconds_total", Counter, "CPU time of the process, user and system."),
    family("process_start_time_seconds", Gauge, "Start of the process, seconds since 1970."),
    family("process_resident_memory_bytes", Gauge, "Memory in RAM."),
    family("process_virtual_memory_bytes", Gauge, "Address space."),
    family("process_open_fds", Gauge, "Open descriptors."),
    family("process_max_fds", Gauge, "Most descriptors that may be open."),
    family("process_threads", Gauge, "Threads."),
];
