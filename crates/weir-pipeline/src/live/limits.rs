//! Limits of live tails and of readers of envelopes, with their reasons.

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

/// Maximum number of envelopes that are sent together, as by the original.
pub(super) const CHUNK_ENVELOPES_MAX: usize = 100;

/// Maximum size of envelopes that are sent together, unless a single one is larger. Clients accept
/// 4 MiB, but each stream has one chunk in flight, and a loss should be a small part of the queue.
pub(super) const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// Maximum size of one envelope converted to version 1, where each measurement of a gauge repeats
/// all its tags. Larger ones are counted as lost.
pub(super) const V1_BYTES_MAX: usize = 1024 * 1024;

/// One part in this many of the memory for readers of envelopes is for batches that wait for the
/// thread: at 120 MB/s the thread may be delayed by half a second. The rest is for the queues of
/// readers.
pub(super) const BACKLOG_SHARE: u64 = 2;

/// One part in this many of that rest is the limit of a single reader, so that a few stuck readers
/// leave room for others.
pub(super) const READER_SHARE: u64 = 8;

/// Number of cached origins (application with instance and tags): those of a large network.
pub(super) const ORIGINS_MAX: usize = 8192;

const _: () = assert!(
    CHUNK_BYTES_MAX + 2 * weir_model::limits::LINE_BYTES_MAX < 4 * 1024 * 1024,
    "every client accepts a chunk"
);
