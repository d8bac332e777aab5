//! Limits of live tails, with their reasons.

/// Maximum size of the batches waiting for all live tails together: at 50,000 records per second,
/// the slowest may lag about a second before it misses some.
pub(super) const BACKLOG_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum memory for the compiled regular expressions of one tail: two of the largest.
pub(super) const REGEXP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum memory for the compiled regular expressions of all live tails together: eight tails with
/// the largest, or a thousand typical ones of 10 to 30 KiB. Compiling that much takes a third of a
/// second, which is how long the next joining tail waits. While a tail joins, the existing set is
/// in memory twice.
pub(super) const SET_BYTES_MAX: usize = 32 * 1024 * 1024;

const _: () = assert!(SET_BYTES_MAX >= 2 * REGEXP_BYTES_MAX, "one alone leaves room for others");
