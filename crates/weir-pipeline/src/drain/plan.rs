//! What drains are, as far as records are concerned, and their settings.

use std::time::Duration;

use weir_model::Kinds;

use super::provider::ProviderSettings;
use super::registry::Definition;
use super::sender::DrainNetworkSettings;

/// Whose records a drain gets.
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

/// A drain, as far as its records are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DrainSpec {
    /// Identifies it, also after a restart.
    pub(super) id: u64,
    /// Whose records it gets.
    pub(super) selector: Selector,
    /// Which kinds of them.
    pub(super) kinds: Kinds,
}

/// All settings of drains.
#[derive(Debug, Clone, PartialEq)]
pub struct DrainsPlan {
    /// Disk for the records of lagging drains, in bytes; beyond it the oldest of the heaviest drain
    /// are discarded.
    pub limit_bytes: u64,
    /// Memory for records that drains have not accepted, in bytes.
    pub window_bytes: u64,
    /// How long the records of a drain that cannot be reached are kept.
    pub retry_for: Duration,
    /// Messages have tags, unless the URL of a drain says otherwise.
    pub with_metadata: bool,
    /// Which addresses are denied, and who is trusted.
    pub network: DrainNetworkSettings,
    /// Drains of the configuration.
    pub drains: Vec<Definition>,
    /// Who lists further ones.
    pub providers: Vec<ProviderSettings>,
}
