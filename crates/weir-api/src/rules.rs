//! `/weir/v1/rules`: what each rule did.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_host::units::format_rfc3339;
use weir_pipeline::view::PipelineView;

use crate::status::seconds;

/// The rules in force and their figures since they came into force.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RulesDocument {
    /// `weir.rules.v1`.
    pub schema: String,
    /// Number of the generation, which grows with each change of the rules.
    pub generation: u32,
    /// When it came into force in this process, RFC 3339.
    pub since: String,
    /// Records that rules looked at.
    pub records: u64,
    /// Records that no rule routed.
    pub unrouted: u64,
    /// CPU time of all rules together, seconds, estimated from samples.
    pub cpu_seconds: f64,
    /// Every rule, in the order of the configuration.
    pub rules: Vec<RuleEntry>,
}

/// One rule.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RuleEntry {
    /// Its name.
    pub name: String,
    /// Records that it matched.
    pub hits: u64,
    /// Of these, records that are in none of the formats of its `parse`, and stay as they are.
    #[serde(default)]
    pub unparsed: u64,
    /// When it last matched, RFC 3339.
    pub last_hit: Option<String>,
    /// CPU time that it took by itself, seconds, estimated from samples.
    pub cpu_seconds: f64,
}

impl RulesDocument {
    /// The rules of a pipeline at this moment.
    pub fn of(view: &PipelineView) -> Self {
        let rules = view.rules.current();
        let stats = rules.stats();
        let entries = stats.figures().into_iter().map(|figures| RuleEntry {
            name: figures.name,
            hits: figures.hits,
            unparsed: figures.unparsed,
            last_hit: figures.last_hit_ns.map(format_rfc3339),
            cpu_seconds: seconds(figures.time_ns),
        });
        Self {
            schema: "weir.rules.v1".to_owned(),
            generation: rules.generation(),
            since: format_rfc3339(stats.since_ns()),
            records: stats.records(),
            unrouted: stats.unrouted(),
            cpu_seconds: seconds(stats.time_ns()),
            rules: entries.collect(),
        }
    }
}
