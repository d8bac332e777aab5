//! A journal for tests of what uses one.

use std::path::PathBuf;
use std::time::Duration;

use weir_journal::{JournalConfig, MERGE_FROM_BATCHES};

/// Returns the configuration of a small journal in `dir`; everything has the times of the product.
pub fn journal_config(dir: impl Into<PathBuf>) -> JournalConfig {
    JournalConfig {
        dir: dir.into(),
        ring_bytes: 1 << 20,
        bytes_max: 1 << 30,
        free_bytes_min: 0,
        segment_bytes: 1 << 20,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(20),
        spill_after: Duration::from_secs(1),
        merge_from_batches: MERGE_FROM_BATCHES,
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: Duration::from_secs(1),
    }
}
