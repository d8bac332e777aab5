//! The CPU time of a listener's thread, published at intervals.

use std::cell::Cell;
use std::time::Duration;

use weir_host::Clock;

use super::limits::PUBLISH_PAUSE;
use crate::stats::{SourceStats, publish_cpu};

/// When the CPU time was published last.
#[derive(Debug, Default)]
pub(super) struct CpuTime(Cell<Duration>);

impl CpuTime {
    /// Publishes the CPU time of the calling thread, if the last time is long enough ago.
    pub(super) fn publish(&self, clock: &dyn Clock, stats: &SourceStats) {
        let now = clock.monotonic();
        if now.saturating_sub(self.0.get()) >= PUBLISH_PAUSE {
            self.0.set(now);
            publish_cpu(&stats.cpu_ns);
        }
    }
}
