//! Metric rows of the store.

use weir_store::query::{StoreMetrics, UnparsedRows};

use super::Page;

impl Page {
    /// All rows of the store except those about queries.
    pub(super) fn store(&mut self, metrics: &StoreMetrics) {
        let rows = [
            ("weir_store_received_events_total", metrics.received_rows),
            ("weir_store_skipped_events_total", metrics.skipped_rows),
            ("weir_store_flushed_bytes_total", metrics.flushed_bytes),
            ("weir_store_events", metrics.rows),
            ("weir_store_raw_size_bytes", metrics.raw_bytes),
            ("weir_store_disk_size_bytes", metrics.disk_bytes),
            ("weir_store_segments", metrics.segments),
            ("weir_store_head_events", metrics.head_rows),
            ("weir_store_head_size_bytes", metrics.head_bytes),
            ("weir_store_head_full", u64::from(metrics.is_full)),
            ("weir_store_catching_up", u64::from(metrics.is_catching_up)),
            ("weir_store_failed_writes_total", metrics.failures),
            ("weir_store_failing", u64::from(metrics.error.is_some())),
            ("weir_store_damaged_segments", metrics.damaged.len() as u64),
            ("weir_store_retired_segments_total", metrics.retired_segments),
            ("weir_store_retired_events_total", metrics.retired_rows),
            ("weir_store_retired_bytes_total", metrics.retired_bytes),
            ("weir_store_deleted_events_total", metrics.deleted_rows),
            ("weir_store_pending_deletions", metrics.deletions_pending),
        ];
        for (name, value) in rows {
            self.row(name, &[], value);
        }
        let UnparsedRows { json, logfmt, format } = metrics.unparsed;
        for (reason, count) in [("json", json), ("logfmt", logfmt), ("format", format)] {
            self.row("weir_store_unparsed_events_total", &[("reason", reason)], count);
        }
        for (name, sum, count) in [
            ("weir_store_flush_seconds", metrics.flush_seconds, metrics.flushes),
            ("weir_store_merge_seconds", metrics.merge_seconds, metrics.merges),
        ] {
            self.row(&format!("{name}_sum"), &[], sum);
            self.row(&format!("{name}_count"), &[], count);
        }
        for (thread, seconds) in
            [("intake", metrics.intake_cpu_seconds), ("flush", metrics.flush_cpu_seconds)]
        {
            self.row("weir_store_cpu_seconds_total", &[("thread", thread)], seconds);
        }
    }
}
