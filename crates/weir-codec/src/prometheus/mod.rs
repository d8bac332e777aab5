//! Converts metrics in the Prometheus text format, as scraped from a target, to Loggregator
//! envelopes, with the mapping of Loggregator's own scraper.
//!
//! Formats: <https://prometheus.io/docs/instrumenting/exposition_formats/>, and the additions of
//! `OpenMetrics`: exemplars, `# EOF`, `# UNIT`, and further types.
//!
//! Invariants: a response is checked as a whole before the first sample is used, so one that is
//! incomplete or damaged yields nothing; hostile bytes are an error, never a panic; memory is
//! bounded by [`FAMILIES_MAX`](limits::FAMILIES_MAX) and [`LABELS_MAX`](limits::LABELS_MAX).

mod envelope;
mod flat_yaml;
mod limits;
mod number;
mod text;

pub use envelope::PrometheusOrigin;
pub use flat_yaml::{FlatYaml, FlatYamlError};
pub use text::{PrometheusError, PrometheusKind, PrometheusSample, PrometheusText};
