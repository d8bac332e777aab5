//! What is known about each drain, for people.

use super::book::DrainBook;

/// What a drain does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl DrainState {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Sending => "sending",
            Self::Lagging => "lagging",
            Self::Failing => "failing",
            Self::Paused => "paused",
        }
    }
}

/// The state of a drain.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
