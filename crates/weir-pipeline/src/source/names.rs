//! The names of sources, for everything that writes them.
//!
//! Invariant: the name of a source that is removed while weir runs stays, since some of its records
//! may not be delivered yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use weir_model::SourceId;

use crate::config::{SourcePlan, SourceType};

/// The sources of this run, by the identifier in their batches.
#[derive(Debug, Default)]
pub struct SourceNames {
    known: RwLock<HashMap<u64, (Arc<str>, SourceType)>>,
    version: AtomicU64,
}

impl SourceNames {
    /// Creates the names of these sources.
    pub fn new(sources: &[SourcePlan]) -> Self {
        let names = Self::default();
        names.add(sources);
        names
    }

    /// Adds sources, and replaces the types of those that are known.
    pub fn add(&self, sources: &[SourcePlan]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for source in sources {
            let named = (source.name.as_str().into(), source.kind.source_type());
            known.insert(SourceId::of(&source.name).0, named);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns a number that changes when any of them does.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the name of a source, and whether it receives Loggregator envelopes. For a source
    /// that was not configured in this run, the name is empty.
    pub(crate) fn get(&self, source: SourceId) -> (Arc<str>, bool) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&source.0);
        known.map_or(("".into(), false), |(name, kind)| (name.clone(), kind.has_envelopes()))
    }
}
