//! Metrics of the Loggregator programs that weir replaces, under their original names.
//!
//! Invariant: values are those of the envelopes that a source of type `loggregator_metrics`
//! creates. Names have neither prefix nor suffix, so that existing dashboards and alerts find them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_pipeline::originals::{OriginalMetric, OriginalValue};
use weir_pipeline::view::PipelineView;

/// Appends all of them to a page.
pub(super) fn originals(view: &PipelineView, page: &mut String) {
    let mut families: BTreeMap<String, Vec<OriginalMetric>> = BTreeMap::new();
    for metric in view.original_metrics() {
        families.entry(metric.name.replace(['.', '-'], "_")).or_default().push(metric);
    }
    for (name, metrics) in &families {
        let type_name = match metrics.first().map(|metric| metric.value) {
            Some(OriginalValue::Gauge { .. }) => "gauge",
            Some(OriginalValue::Counter(_)) | None => "counter",
        };
        let _infallible = writeln!(
            page,
            "# HELP {name} As stated by the programs of Loggregator.\n# TYPE {name} {type_name}"
        );
        for metric in metrics {
            let (source_id, origin) = (metric.of.source_id(), metric.of.origin());
            let _infallible = write!(page, "{name}{{source_id=\"{source_id}\",origin=\"{origin}\"");
            for (tag, value) in metric.tags {
                let _infallible = write!(page, ",{tag}=\"{value}\"");
            }
            let _infallible = match metric.value {
                OriginalValue::Counter(total) => writeln!(page, "}} {total}"),
                OriginalValue::Gauge { value, .. } => writeln!(page, "}} {value}"),
            };
        }
    }
}
