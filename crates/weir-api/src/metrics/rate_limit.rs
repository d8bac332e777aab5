//! Metric rows of the rate limit of a listening source.

use weir_pipeline::stats::{LimitedCounts, RateLimitReport};

use super::{Component, Page};
use crate::status::seconds;

impl Page {
    /// All rows of a rate limit.
    pub(super) fn rate_limit(&mut self, component: &Component<'_>, report: &RateLimitReport) {
        for (action, records, bytes) in by_action(&report.total) {
            let labels = [("action", action)];
            let name = "weir_source_rate_limited_records_total";
            self.add_with(component, name, &labels, records);
            self.add_with(component, "weir_source_rate_limited_bytes_total", &labels, bytes);
        }
        let delayed = seconds(report.total.delayed_ns);
        self.add(component, "weir_source_rate_limit_delay_seconds_total", delayed);
        for key in &report.keys {
            let actions = by_action(&key.counts).into_iter();
            for (action, records, _) in actions.filter(|(_, records, _)| *records > 0) {
                let labels = [("key", key.name.as_str()), ("action", action)];
                let name = "weir_source_rate_limited_key_records_total";
                self.add_with(component, name, &labels, records);
            }
        }
        self.add(component, "weir_source_rate_limited_keys", report.over_count);
        self.add(component, "weir_source_rate_limit_notices_total", report.notices);
    }
}

/// Records above the limit by action, with their number and bytes.
fn by_action(counts: &LimitedCounts) -> [(&'static str, u64, u64); 3] {
    [
        ("discarded", counts.discarded_records, counts.discarded_bytes),
        ("delayed", counts.delayed_records, counts.delayed_bytes),
        ("refused", counts.refused_records, counts.refused_bytes),
    ]
}
