//! Refused requests: counts, and a log message from time to time.
//!
//! Invariants: nothing is kept about single requests, so their number costs no memory; messages
//! contain the address of the sender, and never its token.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::limits::FAILURE_LOG_INTERVAL;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// It has no token.
    NoToken,
    /// Its session has ended, or is not known.
    NoSession,
    /// Its token is not valid.
    Invalid,
    /// Its sender may not do this.
    Forbidden,
    /// The token could not be verified.
    Unavailable,
}

impl FailureReason {
    /// All of them, in the order of the metrics.
    pub(crate) const ALL: [Self; 5] =
        [Self::NoToken, Self::NoSession, Self::Invalid, Self::Forbidden, Self::Unavailable];

    /// The name in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::NoSession => "no_session",
            Self::Invalid => "invalid_token",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Counts of refused requests.
#[derive(Debug, Default)]
pub(super) struct Failures {
    counts: [AtomicU64; FailureReason::ALL.len()],
    unlogged: Mutex<Unlogged>,
}

/// Requests with invalid tokens since the last message.
#[derive(Debug, Default)]
struct Unlogged {
    requests: u64,
    last_message: Option<Duration>,
}

impl Failures {
    /// Counts a refused request.
    pub(super) fn count(&self, reason: FailureReason) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests refused for a reason.
    pub(super) fn get(&self, reason: FailureReason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Reports a request with an invalid token, unless there was a message a moment ago.
    pub(super) fn report(&self, sender: Option<IpAddr>, now: Duration) {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.requests += 1;
        let is_recent = |last: Duration| now.saturating_sub(last) < FAILURE_LOG_INTERVAL;
        if unlogged.last_message.is_some_and(is_recent) {
            return;
        }
        let requests = std::mem::take(&mut unlogged.requests);
        unlogged.last_message = Some(now);
        let sender = sender.map(tracing::field::display);
        tracing::warn!(sender, requests, "the API has refused an invalid token");
    }
}
