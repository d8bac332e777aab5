//! What is known about each drain, for people.

use serde::Serialize;

use super::book::DrainBook;

/// What a drain does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainState {
    /// Nothing waits.
    Idle,
    /// It sends what comes.
    Sending,
    /// It has a stream of its own in the journal, and sends from there.
    Lagging,
    /// Its destination does not accept anything.
    Failing,
    /// It was stopped by an operator.
    Paused,
}

/// The state of a drain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrainStatus {
    /// Its id, hexadecimal.
    pub id: String,
    /// Who named it: `config`, `added`, `binding_cache` or `cloud_controller`.
    pub origin: &'static str,
    /// Whose records it gets, as `app`, `space` or `organization` with an id, or `all`.
    pub selects: String,
    /// Its URL, without user and query.
    pub url: String,
    /// What it does.
    pub state: DrainState,
    /// Why it fails.
    pub error: Option<String>,
    /// For how long, seconds.
    pub failing_seconds: f64,
    /// Its counts since weir started.
    pub book: DrainBook,
    /// 0 when the book balances.
    pub unaccounted: i64,
}

/// The state of a server that lists drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// `binding_cache` or `cloud_controller`.
    pub name: &'static str,
    /// Number of drains that it lists.
    pub drains: usize,
    /// Number of those that cannot be used.
    pub rejected: usize,
    /// How often it was asked.
    pub refreshes: u64,
    /// How often that failed.
    pub errors: u64,
    /// Why it failed the last time, if it did.
    pub error: Option<String>,
}

/// Result of a test of a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tested {
    /// It can be reached.
    pub is_reachable: bool,
    /// What is wrong.
    pub error: Option<String>,
}
