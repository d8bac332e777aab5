//! The published state of each drain and provider.
//!
//! Invariant: publishing the state of a drain costs no more than copying its counts, since drains
//! are not sent to meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::book::DrainBook;
use super::core::{Drain, Mode};
use super::plan::Selector;
use super::registry::Definition;

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

/// What a drain is, which does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainIdentity {
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
}

/// The state of a drain.
#[derive(Debug, Clone, PartialEq)]
pub struct DrainStatus {
    /// What it is.
    pub drain: Arc<DrainIdentity>,
    /// Its activity.
    pub state: DrainState,
    /// Why it fails.
    pub error: Option<Arc<str>>,
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

impl DrainIdentity {
    pub(super) fn new(definition: &Definition) -> Self {
        Self {
            id: format!("{:016x}", definition.id),
            origin: definition.origin,
            selects: match &definition.selector {
                Selector::App(app) => format!("app {app}"),
                Selector::Space(space) => format!("space {space}"),
                Selector::Organization(organization) => format!("organization {organization}"),
                Selector::All => "all".to_owned(),
            },
            app: match &definition.selector {
                Selector::App(app) => Some(app.clone()),
                Selector::Space(_) | Selector::Organization(_) | Selector::All => None,
            },
            url: definition.binding.url.to_string(),
        }
    }
}

impl DrainStatus {
    /// Returns the state at a time, monotonic and in nanoseconds since 1970.
    pub(super) fn new(identity: Arc<DrainIdentity>, drain: &Drain, now: (Duration, i64)) -> Self {
        let (now, now_ns) = now;
        let failure = drain.failure.as_ref();
        let state = match (drain.is_paused, failure, drain.mode) {
            (true, _, _) => DrainState::Paused,
            (false, Some(_), _) => DrainState::Failing,
            (false, None, Mode::Lagging) => DrainState::Lagging,
            (false, None, Mode::Direct) if drain.queue.is_empty() => DrainState::Idle,
            (false, None, Mode::Direct) => DrainState::Sending,
        };
        Self {
            drain: identity,
            state,
            error: failure.map(|failure| failure.error.clone()),
            failing_seconds: failure
                .map_or(0.0, |failure| now.saturating_sub(failure.since).as_secs_f64()),
            lag_seconds: drain.lag_seconds(now_ns),
            book: drain.book,
            unaccounted: drain.book.unaccounted(),
        }
    }
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
