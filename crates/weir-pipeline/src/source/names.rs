//! The names of sources, for outputs that write them.

use std::collections::HashMap;

use weir_model::SourceId;

use crate::config::{SourcePlan, SourceType};

/// The sources of a configuration, by the identifier in their batches.
#[derive(Debug, Default)]
pub struct SourceNames(HashMap<u64, (String, SourceType)>);

impl SourceNames {
    /// Creates the names of these sources.
    pub fn new(sources: &[SourcePlan]) -> Self {
        let named = |source: &SourcePlan| {
            let name = source.name.clone();
            (SourceId::of(&name).0, (name, source.kind.source_type()))
        };
        Self(sources.iter().map(named).collect())
    }

    /// Returns the name of a source, and whether it receives Loggregator envelopes. For a source
    /// that is no longer configured, the name is empty.
    pub(crate) fn get(&self, source: SourceId) -> (&str, bool) {
        let known = self.0.get(&source.0);
        known.map_or(("", false), |(name, kind)| (name, kind.has_envelopes()))
    }
}
