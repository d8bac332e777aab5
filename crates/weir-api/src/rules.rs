//! `/weir/v1/rules`: statistics for each rule.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_host::units::format_rfc3339;
use weir_pipeline::view::PipelineView;

use crate::status::seconds;

/// The active rules and their statistics since they became active.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RulesDocument {
    /// `weir.rules.v1`.
    pub schema: String,
    /// Generation number, which increases with each change of the rules.
    pub generation: u32,
    /// When the rules became active in this process, RFC 3339.
    pub since: String,
    /// Records evaluated by the rules.
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
    /// Name of the rule.
    pub name: String,
    /// Records that it matched.
    pub hits: u64,
    /// Matched records that fit none of the formats of `parse` and were left unchanged.
    #[serde(default)]
    pub unparsed: u64,
    /// When it last matched, RFC 3339.
    pub last_hit: Option<String>,
    /// CPU time of this rule alone, seconds, estimated from samples.
    pub cpu_seconds: f64,
}

impl RulesDocument {
    /// Reads the rules of a pipeline and their statistics.
    pub fn of(view: &PipelineView) -> Self {
        let rules = view.rules.current();
        let stats = rules.stats();
        let entries = stats.metrics().into_iter().map(|rule| RuleEntry {
            name: rule.name,
            hits: rule.hits,
            unparsed: rule.unparsed,
            last_hit: rule.last_hit_ns.map(format_rfc3339),
            cpu_seconds: seconds(rule.time_ns),
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
