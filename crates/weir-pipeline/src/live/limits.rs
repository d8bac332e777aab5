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

/// Maximum size of envelopes that are sent together, unless one alone is larger: clients accept 4
/// MiB, but each stream has one chunk on its way, and what is lost should be a small part of what
/// waits.
pub(super) const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// Size of what one envelope becomes in version 1, in bytes: each measurement of a gauge has all of
/// its tags there. Those above it are counted as lost.
pub(super) const V1_BYTES_MAX: usize = 1024 * 1024;

/// The part of the memory for readers of envelopes in which batches wait for the thread: at 120 MB/s
/// it may be kept from running for half a second. The other part is for the queues of readers.
pub(super) const BACKLOG_SHARE: u64 = 2;

/// The part of it that a single reader may use: a few that are stuck leave room for others.
pub(super) const READER_SHARE: u64 = 8;

/// Origins (application with instance and tags) that are remembered: those of a large network.
pub(super) const ORIGINS_MAX: usize = 8192;

const _: () = assert!(
    CHUNK_BYTES_MAX + 2 * weir_model::limits::LINE_BYTES_MAX < 4 * 1024 * 1024,
    "every client accepts a chunk"
);
