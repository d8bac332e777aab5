//! The reaction to failures: growing pauses, and a destination that is reported as failing.
//!
//! Invariant: a first failure is only counted; from the second in a row on, the output is failing
//! until the peer accepts something.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Peer, SocketError};
use crate::output::Job;
use crate::output::post::ConcurrencyLimiter;
use crate::stats::{OutputStats, add};

/// Failures in a row, as they are counted and reported.
#[derive(Debug)]
pub(crate) struct Retry {
    output: String,
    target: String,
    stats: Arc<OutputStats>,
    limiter: ConcurrencyLimiter,
}

impl Retry {
    pub(crate) fn new(job: &Job, peer: &Peer) -> Self {
        Self {
            output: job.plan.name.clone(),
            target: peer.dialer.target(),
            stats: job.stats.clone(),
            limiter: ConcurrencyLimiter::new(1, peer.retry_min, peer.retry_max),
        }
    }

    /// Records a failure; returns how long to wait before the next attempt.
    pub(crate) fn failed(&self, error: &SocketError) -> Duration {
        let pause = self.limiter.failure(false, None);
        let text = error.to_string();
        self.stats.errors.count(error.kind(), &text);
        add(&self.stats.retries, 1);
        if self.limiter.failures() > 1 && !self.stats.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(output = self.output, "{text}; retrying until it succeeds");
        }
        pause
    }

    /// Records that the peer has accepted something.
    pub(crate) fn recovered(&self) {
        self.limiter.success(Duration::ZERO, false);
        self.stats.errors.clear_last();
        if self.stats.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(output = self.output, "{} accepts records again", self.target);
        }
    }
}
