//! Bounds of live tails, with their reasons.

/// Bytes of batches that may wait for all live tails together: the slowest has about a second at
/// 50,000 records per second until it misses some.
pub(super) const BACKLOG_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes that the compiled regular expressions of one tail may take: two of the largest.
pub(super) const REGEXP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes that the compiled regular expressions of all live tails may take together: eight tails
/// with the largest, or a thousand usual ones of 10 to 30 KiB. To compile that much takes a third
/// of a second, which is what the next one that joins waits. While it joins, what there is already
/// is there twice.
pub(super) const SET_BYTES_MAX: usize = 32 * 1024 * 1024;

const _: () = assert!(SET_BYTES_MAX >= 2 * REGEXP_BYTES_MAX, "one alone leaves room for others");
