//! `type = "loggregator_metrics"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::SourceKind;
use weir_pipeline::source::{LoggregatorMetricsSource, SYSLOG_LISTENER_BYTES};

use super::SourceDefinition;
use super::tags::{self, TAGS};
use crate::config::field::FieldDefault::Value;
use crate::config::field::{Field, field, time};
use crate::config::section::Section;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Weir's own metrics as envelopes, under the metric names of the Loggregator \
              programs that it replaces. See \
              [metrics](../guide/loggregator.md#metrics-by-the-names-of-the-originals).",
        fields: &[LOGGREGATOR_METRICS],
    },
    check: |section, diagnostics| tags::check(section, "tags", diagnostics),
    kind: |_, section| Some(SourceKind::LoggregatorMetrics(Box::new(settings(section)))),
    memory_bytes: |_| SYSLOG_LISTENER_BYTES,
    endpoint: |_| None,
};

const LOGGREGATOR_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        Value("\"5s\""),
        "Interval of the metrics of agents and routers. Those of the other programs are sent every \
         twelfth interval, as by the originals.",
    ),
    TAGS,
];

fn settings(section: &Section) -> LoggregatorMetricsSource {
    LoggregatorMetricsSource {
        interval: section.duration("interval"),
        tags: tags::default_tags(section),
    }
}
