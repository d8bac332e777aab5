//! The published state of each drain and provider.

use super::book::DrainBook;

/// The activity of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainState {
    /// It has no records.
    Idle,
    /// It keeps up.
    Sending,
    /// It has a stream of its own in the journal, and sends from there.
    Lagging,
    /// Its destination does not accept records.
    Failing,
    /// It was stopped by an operator.
    Paused,
}

impl DrainState {
    /// Returns its name in the API.
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
    /// Its origin: `config`, `added`, `binding_cache` or `cloud_controller`.
    pub origin: &'static str,
    /// Whose records it receives: `app`, `space` or `organization` with an id, or `all`.
    pub selects: String,
    /// The application, if it is a drain of one.
    pub app: Option<String>,
    /// Its URL, without user and query.
    pub url: String,
    /// Its activity.
    pub state: DrainState,
    /// Why it fails.
    pub error: Option<String>,
    /// How long it has been failing, in seconds.
    pub failing_seconds: f64,
    /// Age of its oldest waiting record, in seconds: 0 if none waits, `None` if it is not known
    /// because an earlier run has left the records and none was read yet.
    pub lag_seconds: Option<f64>,
    /// Its counts since it was added, over all starts.
    pub book: DrainBook,
    /// Number of unaccounted records; 0 when the book balances.
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
    /// Number of requests for the list.
    pub refreshes: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// The error of the last request, if it failed.
    pub error: Option<String>,
}
