//! Metrics as records: batches of their own class, one JSON object per record body.

use serde::{Deserialize, Serialize};

/// What kind of measurement a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// A sum that only grows; `value` is the increment.
    Counter,
    /// A level at one moment.
    Gauge,
    /// A duration in seconds.
    Timer,
    /// Something that happened once, with a title and a text in the tags.
    Event,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Dotted or snake-case name as the source gave it.
    pub name: String,
    /// What the value means.
    pub kind: MetricKind,
    /// The value, in `unit`.
    pub value: f64,
    /// UCUM unit as in OpenTelemetry (`s`, `By`, `1`), empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
}
