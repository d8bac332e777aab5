//! Metrics as records: one JSON object per record body; the type of metric is the record's
//! [`crate::RecordKind`].

use serde::{Deserialize, Serialize};

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Dotted or snake-case name as given by the source.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// UCUM unit as in OpenTelemetry (`s`, `By`, `1`), empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
}
