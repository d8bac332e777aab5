//! The process in the topology, and its health.
//!
//! Invariant: nothing here changes only because time passes, so an idle weir has nothing to report.

use serde::Serialize;
use utoipa::ToSchema;
use weir_host::ProcessMetrics;
use weir_pipeline::health::{Health, Reason};
use weir_pipeline::view::PipelineView;

/// The process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct ProcessEntry {
    /// Version of weir.
    pub(super) version: String,
    /// When it was started, in nanoseconds since 1970.
    pub(super) started_unix_ns: i64,
    /// CPU time, seconds.
    pub(super) cpu_seconds: f64,
    /// Resident memory, bytes.
    pub(super) resident_bytes: u64,
}

/// Whether everything works, as at `/health`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct HealthEntry {
    /// `ok`, `degraded`, `failing` or `stopping`.
    pub(super) status: String,
    /// Active problems, most severe first.
    pub(super) reasons: Vec<HealthReason>,
}

/// An active problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct HealthReason {
    /// `source`, `output`, `journal` or `weir`.
    component_kind: String,
    /// Name of the source or output; empty for the others.
    component: String,
    /// A short fixed identifier.
    reason: String,
    /// Description of the problem.
    text: String,
    /// `degraded` or `failing`.
    severity: String,
    /// When it was first noticed, RFC 3339.
    since: String,
}

impl ProcessEntry {
    /// Reads the current values.
    pub(super) fn of(view: &PipelineView, version: &str) -> Self {
        let process = ProcessMetrics::read();
        Self {
            version: version.to_owned(),
            started_unix_ns: view.started_unix_ns,
            cpu_seconds: process.cpu_seconds.unwrap_or_default(),
            resident_bytes: process.resident_bytes.unwrap_or_default(),
        }
    }
}

impl HealthEntry {
    pub(super) fn of(health: &Health) -> Self {
        let reasons = health.reasons.iter().map(HealthReason::of).collect();
        Self { status: health.status.to_owned(), reasons }
    }
}

impl HealthReason {
    fn of(reason: &Reason) -> Self {
        let severity = serde_json::to_value(reason.severity).unwrap_or_default();
        Self {
            component_kind: reason.component_kind.to_owned(),
            component: reason.component.clone(),
            reason: reason.reason.to_owned(),
            text: reason.text.clone(),
            severity: severity.as_str().unwrap_or_default().to_owned(),
            since: reason.since.clone(),
        }
    }
}
