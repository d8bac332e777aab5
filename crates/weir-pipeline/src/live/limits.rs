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

/// Memory for waiting envelopes, unless it is configured.
pub(super) const ENVELOPE_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Of which a single reader may use this part: a few that are stuck leave room for others.
pub(super) const READER_SHARE: u64 = 4;

/// Origins (application with instance and tags) that are remembered: those of a large network.
pub(super) const ORIGINS_MAX: usize = 8192;

const _: () = assert!(
    CHUNK_BYTES_MAX + 2 * weir_model::limits::LINE_BYTES_MAX < 4 * 1024 * 1024,
    "every client accepts a chunk"
);
