//! The settings of drains.

use std::time::Duration;

use weir_model::Kinds;

use super::provider::ProviderSettings;
use super::registry::Definition;
use super::sender::DrainNetworkSettings;

/// Whose records a drain receives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// An application, by its id.
    App(String),
    /// All applications of a space, by its id.
    Space(String),
    /// All applications of an organization, by its id.
    Organization(String),
    /// All records.
    All,
}

/// The identity of a drain, and which records it receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DrainSpec {
    /// Identifies it, also after a restart.
    pub(super) id: u64,
    /// Whose records it receives.
    pub(super) selector: Selector,
    /// The kinds of records it receives.
    pub(super) kinds: Kinds,
}

/// All settings of drains.
#[derive(Debug, Clone, PartialEq)]
pub struct DrainsPlan {
    /// Disk limit for the records of lagging drains, in bytes; beyond it, the oldest records of the
    /// drain that uses the most are discarded.
    pub bytes_max: u64,
    /// Memory limit for records that drains have not accepted, in bytes.
    pub window_bytes: u64,
    /// How long the records of an unreachable drain are kept.
    pub retry_for: Duration,
    /// Whether messages contain tags, if the URL of a drain does not specify it.
    pub with_metadata: bool,
    /// Denied addresses, and trusted authorities.
    pub network: DrainNetworkSettings,
    /// Drains of the configuration.
    pub drains: Vec<Definition>,
    /// The servers that list further drains.
    pub providers: Vec<ProviderSettings>,
}

impl DrainsPlan {
    /// Returns whether drains that run with the settings `before` can continue with these: only
    /// what every drain reads anew has changed, and drains were added or removed.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        // The fields are listed one by one so that a new field cannot be forgotten here.
        let Self {
            bytes_max,
            window_bytes,
            retry_for: _,
            with_metadata: _,
            network,
            drains,
            providers,
        } = self;
        let is_as_before = |drain: &Definition| {
            before.drains.iter().all(|other| other.id != drain.id || other == drain)
        };
        *bytes_max == before.bytes_max
            && *window_bytes == before.window_bytes
            && *network == before.network
            && *providers == before.providers
            && drains.iter().all(is_as_before)
    }
}
