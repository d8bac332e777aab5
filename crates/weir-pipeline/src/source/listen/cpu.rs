//! The CPU time of a thread of a listener, published at intervals.
//!
//! Invariant: the threads of a source add to one counter, each the time used since it last
//! published.

use std::cell::Cell;
use std::time::Duration;

use weir_host::{Clock, process};

use super::limits::PUBLISH_PAUSE;
use crate::stats::{SourceStats, shift};

/// The last published value, and when it was published.
#[derive(Debug, Default)]
pub(in crate::source) struct CpuTime {
    published_at: Cell<Duration>,
    published_ns: Cell<u64>,
}

impl CpuTime {
    /// Publishes the CPU time of the calling thread, if the last time is long enough ago.
    pub(in crate::source) fn publish(&self, clock: &dyn Clock, stats: &SourceStats) {
        let now = clock.monotonic();
        if now.saturating_sub(self.published_at.get()) >= PUBLISH_PAUSE {
            self.published_at.set(now);
            self.publish_now(stats);
        }
    }

    /// Publishes the CPU time of the calling thread.
    pub(in crate::source) fn publish_now(&self, stats: &SourceStats) {
        let used_ns = process::thread_cpu_ns();
        shift(&stats.cpu_ns, self.published_ns.replace(used_ns), used_ns);
    }
}
