//! Bounds of the journal that are not the operator's to choose, with their reasons.

use std::time::Duration;

/// Bytes that a stream may send per round of the fair reading before the next stream's turn.
pub(crate) const QUANTUM_BYTES: u64 = 64 * 1024;

/// Part of ring and buffer that one stream may hold while others wait: one in so many.
pub(crate) const STREAM_SHARE: u64 = 4;

/// How long an appended batch that must be durable waits for company. Natural grouping (whatever
/// arrived during the last flush) adds to it; the sum stays far below the promised 20 ms.
pub(crate) const APPEND_GROUP_INTERVAL: Duration = Duration::from_millis(4);

/// A group of frames is written as soon as it has this many bytes.
pub(crate) const GROUP_BYTES: u64 = 1024 * 1024;

/// Frames in one system call: two slices each, below what the system takes at once.
pub(crate) const FRAMES_PER_WRITE: usize = 256;

/// Pause after a failed write before the disk is tried again.
pub(crate) const DISK_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The cursor log is rewritten when it is this large and mostly history.
pub(crate) const CURSOR_LOG_BYTES_MIN: u64 = 1024 * 1024;

/// Dead frames are given back to the file system in ranges of at least this size; smaller holes
/// are not worth a system call.
pub(crate) const PUNCH_BYTES_MIN: u64 = 16 * 1024;

/// Waiting batches of one stream are merged on append while the earlier one is smaller than this,
/// so that a trickle behind a slow destination does not cost a slot per line.
pub(crate) const MERGE_BYTES_MAX: usize = 48 * 1024;

/// Batches of at least this size are merged only behind a backlog: before that, copying what waits
/// already costs more than a slot.
pub(crate) const MERGE_ALWAYS_BYTES: usize = 4 * 1024;

/// Batches of all streams that make a backlog: about a mebibyte of slots.
pub(crate) const MERGE_BACKLOG_SLOTS: usize = 1024;

/// What a waiting batch is charged at least: about what head, resource, book and state of a frame
/// take on disk, and what the journal remembers of it in memory.
pub(crate) const ENTRY_BYTES_MIN: u64 = 512;

/// Commit intervals between two looks for segments that are mostly useless: a second by default.
/// A look goes over every waiting batch.
pub(crate) const COMPACT_COMMITS: u32 = 50;

/// Batches that the journal remembers before each destination is held to its equal share of them;
/// so there are never more than twice as many. Each costs a few hundred bytes of memory.
pub(crate) const SLOTS_MAX: usize = 100_000;

/// How far a source that can read again runs ahead of every destination: enough to keep it busy,
/// little enough that the buffers go round in the processor's second-level cache.
pub(crate) const READ_AHEAD_BYTES: u64 = 2 * 1024 * 1024;

/// How far at least, as a multiple of what the destination waits for before it begins.
pub(crate) const READ_AHEAD_REQUESTS: u64 = 2;

/// How long it takes at most until the cursor log states how many rows on disk each destination is
/// owed that nobody can read again. What is damaged later is counted by it. A record of a few
/// hundred bytes a second is not worth less.
pub(crate) const STATEMENT_INTERVAL: Duration = Duration::from_secs(1);

/// Beginnings of epochs that are remembered of one stream. More are in the journal at once only
/// when a file is truncated again and again while no destination takes anything.
pub(crate) const EPOCHS_MAX: usize = 16;

/// Starts of which one stream remembers that frames on disk were given up. Each is forgotten with
/// the last segment of that time, so more are needed only where a file is cut after one crash after
/// another while a destination takes nothing.
pub(crate) const GIVEN_UP_MAX: usize = 16;

/// Frames after which a segment is closed, however small they are: what its index takes in memory
/// while it is open, and at a start.
pub(crate) const SEGMENT_FRAMES_MAX: usize = 16 * 1024;

/// A newest segment of at most so many bytes without a whole header was being begun when the machine
/// stopped: head and names of a few dozen destinations. A longer one was written to.
pub(crate) const BEGINNING_BYTES_MAX: u64 = 4096;

/// Damaged bytes are copied in pieces of this size.
pub(crate) const COPY_BYTES: u64 = 1024 * 1024;
