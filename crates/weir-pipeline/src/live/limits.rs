//! Bounds of live tails, with their reasons.

/// Bytes of batches that may wait for all live tails together: the slowest has about a second at
/// 50,000 records per second until it misses some.
pub(super) const BACKLOG_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes that the compiled regular expressions of one tail may take: two of the largest.
pub(super) const REGEXP_BYTES_MAX: usize = 4 * 1024 * 1024;
