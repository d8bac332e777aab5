//! Metrics in Prometheus' text format, as a target answers a scrape, to envelopes of Loggregator:
//! the mapping of Loggregator's own scraper.
//!
//! Formats: <https://prometheus.io/docs/instrumenting/exposition_formats/>, and what `OpenMetrics`
//! adds to it: exemplars, `# EOF`, `# UNIT`, and further types.
//!
//! Invariants: an answer is checked as a whole before the first sample is used, so one that is cut
//! or damaged yields nothing; hostile bytes are an error, never a panic; memory is bounded by
//! [`FAMILIES_MAX`](limits::FAMILIES_MAX) and [`LABELS_MAX`](limits::LABELS_MAX).

mod envelope;
mod flat_yaml;
mod limits;
mod number;
mod text;

pub use envelope::PrometheusOrigin;
pub use flat_yaml::{FlatYaml, FlatYamlError};
pub use text::{PrometheusError, PrometheusKind, PrometheusSample, PrometheusText};
