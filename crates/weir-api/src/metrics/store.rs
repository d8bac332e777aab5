//! Metric rows of the store.

use weir_store::query::{StoreMetrics, UnparsedRows};

use super::Page;

impl Page {
    /// All rows of the store except those about queries.
    pub(super) fn store(&mut self, figures: &StoreMetrics) {
        let rows = [
            ("weir_store_received_events_total", figures.received_rows),
            ("weir_store_skipped_events_total", figures.skipped_rows),
            ("weir_store_flushed_bytes_total", figures.flushed_bytes),
            ("weir_store_events", figures.rows),
            ("weir_store_raw_size_bytes", figures.raw_bytes),
            ("weir_store_disk_size_bytes", figures.disk_bytes),
            ("weir_store_segments", figures.segments),
            ("weir_store_head_events", figures.head_rows),
            ("weir_store_head_size_bytes", figures.head_bytes),
            ("weir_store_head_full", u64::from(figures.is_full)),
            ("weir_store_catching_up", u64::from(figures.is_catching_up)),
            ("weir_store_failed_writes_total", figures.failures),
            ("weir_store_failing", u64::from(figures.error.is_some())),
            ("weir_store_damaged_segments", figures.damaged.len() as u64),
            ("weir_store_retired_segments_total", figures.retired_segments),
            ("weir_store_retired_events_total", figures.retired_rows),
            ("weir_store_retired_bytes_total", figures.retired_bytes),
            ("weir_store_deleted_events_total", figures.deleted_rows),
            ("weir_store_pending_deletions", figures.deletions_pending),
        ];
        for (name, value) in rows {
            self.row(name, &[], value);
        }
        let UnparsedRows { json, logfmt, format } = figures.unparsed;
        for (reason, count) in [("json", json), ("logfmt", logfmt), ("format", format)] {
            self.row("weir_store_unparsed_events_total", &[("reason", reason)], count);
        }
        for (name, sum, count) in [
            ("weir_store_flush_seconds", figures.flush_seconds, figures.flushes),
            ("weir_store_merge_seconds", figures.merge_seconds, figures.merges),
        ] {
            self.row(&format!("{name}_sum"), &[], sum);
            self.row(&format!("{name}_count"), &[], count);
        }
        for (thread, seconds) in
            [("intake", figures.intake_cpu_seconds), ("flush", figures.flush_cpu_seconds)]
        {
            self.row("weir_store_cpu_seconds_total", &[("thread", thread)], seconds);
        }
    }
}
