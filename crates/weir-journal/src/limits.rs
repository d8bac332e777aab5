//! Limits of the journal that are not configurable, with the reason for each.

use std::time::Duration;

use weir_model::limits::FRAME_BYTES_MAX;

/// Bytes that a stream may send per round of the fair reading before the next stream's turn.
pub(crate) const QUANTUM_BYTES: u64 = 64 * 1024;

/// The fraction of ring and buffer that one stream may hold while others wait, as a divisor.
pub(crate) const STREAM_SHARE: u64 = 4;

/// How long an appended batch that must be durable waits for others to be grouped with. Natural
/// grouping (of batches that arrived during the last flush) adds to it; the sum stays far below the
/// promised 20 ms.
pub(crate) const APPEND_GROUP_INTERVAL: Duration = Duration::from_millis(4);

/// Maximum time until a batch of a source without acknowledgement is on stable storage: the last
/// 20 ms are what a kill may lose, and what is promised.
pub const SOON_INTERVAL: Duration = Duration::from_millis(20);

/// How long such a batch waits for others to be grouped with, and for its destinations: one that
/// they have settled by then is not written. The other half of [`SOON_INTERVAL`] is for the disk.
pub(crate) const SOON_GROUP_INTERVAL: Duration = Duration::from_millis(10);
const _: () = assert!(SOON_GROUP_INTERVAL.as_nanos() * 2 <= SOON_INTERVAL.as_nanos());

/// Maximum size of the batches that are kept after they were read from disk, for other destinations
/// that wait for them: 32 blocks of a file, twice what a round of an output takes.
pub(crate) const READ_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// A group of frames is written as soon as it has this many bytes.
pub(crate) const GROUP_BYTES: u64 = 1024 * 1024;

/// Maximum size of a group: what had to wait while the disk failed is written in several, each of
/// which needs only space for itself.
pub(crate) const GROUP_BYTES_MAX: u64 = 8 * GROUP_BYTES;

/// Maximum number of frames in one system call: two slices each, below the system's limit.
pub(crate) const FRAMES_PER_WRITE: usize = 256;

/// Pause after a failed write before the disk is tried again.
pub(crate) const DISK_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum size for rewriting the cursor log, which also requires that it is mostly history.
pub(crate) const CURSOR_LOG_BYTES_MIN: u64 = 1024 * 1024;

/// Dead frames are freed in ranges of at least this size; smaller holes are not worth a system
/// call.
pub const PUNCH_BYTES_MIN: u64 = 16 * 1024;

/// Waiting batches of one stream are merged on append while the earlier one is smaller than this,
/// so that a slow trickle of lines for a slow destination does not take one slot per line.
pub(crate) const MERGE_BYTES_MAX: usize = 48 * 1024;

/// Batches of at least this size are merged only when there is a backlog: otherwise, copying what
/// waits already costs more than a slot.
pub(crate) const MERGE_ALWAYS_BYTES: usize = 4 * 1024;

/// Number of batches of all streams that constitute a backlog: about one MiB of slots.
pub(crate) const MERGE_BACKLOG_SLOTS: usize = 1024;

/// Without a backlog, batches are merged only if they arrived within this time: a merged batch has
/// the earlier arrival, and a second is below what the clocks of senders are trusted for.
pub(crate) const MERGE_ARRIVAL_NS_MAX: u64 = 1_000_000_000;

/// Number of batches, over all destinations, for which it is known when a destination was done with
/// them: about 1.5 MiB, and at a few batches a second the last hour.
pub(crate) const RECEIPTS_MAX: usize = 16 * 1024;

/// Minimum space that frames leave free for positions: a new generation of a short cursor log with
/// the blocks that a file system needs for it.
pub(crate) const POSITIONS_RESERVE_BYTES_MIN: u64 = 64 * 1024;

/// The same as [`CURSOR_LOG_BYTES_MIN`] for both generations together, while little space is free:
/// both, and a third that is being written, fit in the reserve.
pub(crate) const CURSOR_LOG_TIGHT_BYTES_MIN: u64 = 32 * 1024;
const _: () = assert!(CURSOR_LOG_TIGHT_BYTES_MIN * 2 <= POSITIONS_RESERVE_BYTES_MIN);

/// Space is scarce while less than this is free in addition to twice the reserve for positions: a
/// group of frames. Then the cursor log gives way before frames have to.
pub(crate) const TIGHT_BYTES: u64 = GROUP_BYTES;

/// Minimum charge for a waiting batch: about what the header, resource, book and state of a frame
/// take on disk, and what the journal stores about it in memory.
pub(crate) const ENTRY_BYTES_MIN: u64 = 512;

/// The fraction of its buffer, as a divisor, from which on a destination that discards by key has
/// the keys of new batches counted: what waits below that is too little to be the heaviest.
/// Counting costs a nanosecond or two per record.
pub(crate) const KEYS_SHARE: u64 = 8;

/// Number of keys that are known of a waiting batch: with 16 bytes each, they take no more than the
/// minimum charge for it. A key that fills a buffer is among the first of nearly every batch.
pub(crate) const ENTRY_KEYS_MAX: usize = 32;
const _: () = assert!(ENTRY_KEYS_MAX as u64 * 16 <= ENTRY_BYTES_MIN);

/// Maximum number of keys or streams from which records are discarded before all of them are
/// weighed again. Bounds the memory for the list of their batches.
pub(crate) const DISCARD_GROUPS_MAX: usize = 1024;

/// Number of commit intervals between two checks for mostly useless segments: a second by default.
/// A check visits every waiting batch.
pub(crate) const COMPACT_COMMITS: u32 = 50;

/// Number of segments whose flush failed while frames were moved to them that are remembered until
/// they are gone. More would need as many failures of the disk, each a retry apart, while one
/// destination needs something of the first.
pub(crate) const FAILED_MOVES_MAX: usize = 64;

/// Number of batches in the journal from which each destination is limited to an equal share of
/// them; so there are never more than twice as many. Each takes about 500 bytes of memory.
pub(crate) const SLOTS_MAX: usize = 250_000;

/// Number of batches from which small ones on disk are merged into larger ones: about 10 MiB of
/// memory, and far from [`SLOTS_MAX`].
pub const MERGE_FROM_BATCHES: usize = 16 * 1024;
const _: () = assert!(MERGE_FROM_BATCHES * 4 <= SLOTS_MAX);

/// Frames up to this size are merged with others: two of them fit in one frame.
pub(crate) const SMALL_FRAME_BYTES_MAX: u64 = MERGED_BYTES_MAX / 2;

/// Maximum size of the frames that are merged into one: the rest is for tables that may be larger
/// than each of theirs.
pub(crate) const MERGED_BYTES_MAX: u64 = (FRAME_BYTES_MAX - 40 * 1024) as u64;

/// Frames are merged only if they arrived within this time, as the merged one has the earliest
/// arrival...
pub(crate) const MERGE_FRAMES_ARRIVAL_NS_MAX: u64 = 60_000_000_000;

/// ...unless there are this many batches.
pub(crate) const MERGE_ANY_ARRIVAL_BATCHES: usize = SLOTS_MAX / 2;

/// How many of the next batches of a destination are not merged, since it may be about to take
/// them, as a divisor of the number from which batches are merged at all: 8.
pub(crate) const MERGE_AHEAD_SHARE: usize = 2048;

/// Number of entries of a stream that are searched for small frames at once, for all destinations
/// together. Bounds the time for which the lock is held.
pub(crate) const MERGE_WINDOW_BATCHES: usize = 512;

/// The minimum of that for each destination: with less, hundreds of them would prevent runs of more
/// than a few frames.
pub(crate) const MERGE_WINDOW_BATCHES_MIN: usize = 8;

/// How far a repeatable source runs ahead of every destination: enough to keep it busy, little
/// enough that the buffers stay in the processor's second-level cache.
pub(crate) const READ_AHEAD_BYTES: u64 = 2 * 1024 * 1024;

/// The minimum for that, as a multiple of what the destination waits for before it starts to send.
pub(crate) const READ_AHEAD_REQUESTS: u64 = 2;

/// Maximum time until the cursor log states how many rows on disk, which no source can read again,
/// each destination is owed. Damage that occurs later is counted by it. A shorter time is not worth
/// its writes of a few hundred bytes each.
pub(crate) const STATEMENT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of epoch starts remembered per stream. More are in the journal at once only when
/// a file is truncated again and again while no destination takes anything.
pub(crate) const EPOCHS_MAX: usize = 16;

/// Maximum number of starts for which a stream remembers that frames on disk were given up. Each is
/// forgotten with the last segment of that time, so more are needed only if a file is truncated
/// after repeated crashes while a destination takes nothing.
pub(crate) const GIVEN_UP_MAX: usize = 16;

/// Number of frames after which a segment is closed, however small they are. Bounds the memory that
/// its index takes while it is open, and at a start.
pub(crate) const SEGMENT_FRAMES_MAX: usize = 16 * 1024;

/// Maximum size of a newest segment without a complete header that is considered to have been under
/// creation when the machine stopped: header and names of a few dozen destinations. A longer one
/// had already been written to.
pub(crate) const BEGINNING_BYTES_MAX: u64 = 4096;

/// Size of the pieces in which damaged bytes are copied.
pub(crate) const COPY_BYTES: u64 = 1024 * 1024;

/// Maximum number of reads from disk that wait for the thread that does them. Each destination
/// waits for one at a time, and further ones wait for their turn.
pub(crate) const READS_MAX: usize = 64;
