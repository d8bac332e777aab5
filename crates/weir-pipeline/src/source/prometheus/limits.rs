//! Limits of scraping, with their reasons.

use crate::source::listen::limits::SYSLOG_LISTENER_BYTES;

/// Maximum number of targets of a source: each has a task and a connection.
pub const SCRAPE_TARGETS_MAX: usize = 10_000;

/// Maximum size of a file that describes a target: a few lines.
pub(super) const TARGET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum number of directory entries read in the search for files of targets.
pub(super) const PATHS_MAX: usize = 100_000;

/// Memory of a source that scrapes, in addition to the responses: that of a listener without
/// acknowledgement, and tasks with connections.
pub const PROMETHEUS_SOURCE_BYTES: u64 = SYSLOG_LISTENER_BYTES + (4 << 20);
