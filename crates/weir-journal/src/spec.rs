//! What callers say to the journal and hear from it: plain data, no behaviour.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_model::{Batch, CursorBook, FrameError, Position, SourceBook, SourceId, StreamId};

/// How a journal is laid out and bounded.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// Directory of the segments and the cursor log; created when missing.
    pub dir: PathBuf,
    /// Memory for batches that some destination still needs.
    pub ring_bytes: u64,
    /// Most disk that segments may use in all.
    pub limit_bytes: u64,
    /// Disk that always stays free.
    pub free_bytes_min: u64,
    /// Size at which a segment is closed and the next one begun.
    pub segment_bytes: u64,
    /// How long positions and appended batches wait for company before they are flushed.
    pub commit_interval: Duration,
    /// How long a full ring waits for its slowest destination before batches go to disk
    /// (at once when another destination would starve).
    pub spill_after: Duration,
}

/// What a destination does when its buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Stops the sources that feed it.
    Block,
    /// Discards the oldest batches of its heaviest stream, and counts them.
    DropOldest,
}

/// When an appended batch must be on disk; chosen by the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePolicy {
    /// Before the ticket resolves: for sources that acknowledge or cannot repeat themselves.
    OnAppend,
    /// Only when a destination falls behind the ring: for sources that can be read again.
    OnLag,
}

/// A required destination.
#[derive(Debug, Clone)]
pub struct CursorSpec {
    /// Name of the output; its index is kept for the life of the data directory.
    pub name: String,
    /// What to do when `buffer_limit_bytes` is used up.
    pub when_full: WhenFull,
    /// Bytes of batches that may wait for this destination, in ring and segments together.
    pub buffer_limit_bytes: u64,
    /// Bytes of batches that may be taken and not yet acknowledged.
    pub window_bytes: u64,
}

/// A stream as its source opens it.
#[derive(Debug, Clone)]
pub struct StreamSpec<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Streams of one group continue each other; 0 = none.
    pub group: u64,
    /// The source.
    pub source: SourceId,
    /// Where reading begins when the journal does not know the stream.
    pub start: Position,
    /// State and counts that belong to `start`.
    pub state: &'a [u8],
    /// Counts that belong to `start` (bytes skipped, for instance).
    pub book: SourceBook,
    /// The source cannot read the stream's content again: its file is gone, or holds something else.
    /// Then everything that the disk holds of it is delivered, what destinations are owed beside
    /// that is counted as discarded, and the stream goes on behind the furthest place that is known.
    pub gone: bool,
}

/// Where a source goes on reading a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumePoint {
    /// Read from here; what a destination already has is skipped by its cursor.
    pub position: Position,
    /// The state that the source attached to the batch that ended here.
    pub state: Vec<u8>,
    /// Counts of the stream as of here.
    pub book: SourceBook,
    /// False when the stream was not known and this is just its `start`.
    pub known: bool,
    /// Latest epoch that any destination, also one that is not configured, or any frame knows of.
    /// May be later than that of `position`: a destination can have committed records that never
    /// reached the disk. A source that cannot repeat itself begins a still later one, else its new
    /// records would pass for those.
    pub last_epoch: u32,
}

/// A stream that the journal remembers from before.
#[derive(Debug, Clone)]
pub struct KnownStream {
    /// The stream.
    pub stream: StreamId,
    /// Its group; 0 = none.
    pub group: u64,
    /// Where its source would go on, and with what state.
    pub resume: ResumePoint,
    /// The furthest place of earlier runs that is known. When the content there is not what it was,
    /// the stream's content is gone: it is opened with [`StreamSpec::gone`].
    pub furthest: ResumePoint,
}

/// Why a batch was not accepted. The batch comes back; append it again when there is room.
#[derive(Debug)]
pub struct Refused {
    /// The batch, untouched.
    pub batch: Box<Batch>,
    /// What stands in the way.
    pub reason: RefusedReason,
}

/// Why several batches were not accepted together: none of them was.
#[derive(Debug)]
pub struct AllRefused {
    /// The batches, untouched and in their order.
    pub batches: Vec<Batch>,
    /// What stands in the way.
    pub reason: RefusedReason,
}

/// What stands in the way of an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedReason {
    /// The ring is full and will drain by itself in a moment.
    RingFull,
    /// This destination's buffer is full and its policy is to block.
    BufferFull {
        /// Name of the destination.
        cursor: String,
    },
    /// The disk is full, read-only or failing; says which.
    Disk {
        /// What the operating system said.
        error: String,
    },
    /// The journal is shutting down.
    Closed,
}

/// What opening a journal found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Whole frames found in segments.
    pub frames: u64,
    /// Their bytes.
    pub frame_bytes: u64,
    /// Bytes that were no valid frame; `.bad` files hold copies of them.
    pub damaged_bytes: u64,
    /// Bytes that were being written when the machine stopped: nobody was told that they were
    /// safe.
    pub torn_bytes: u64,
    /// Names of files set aside.
    pub set_aside: Vec<String>,
    /// Records of the cursor log that were damaged.
    pub damaged_cursor_records: u64,
    /// Bytes that a destination missed while it was not configured, and that nobody can read again
    /// for it.
    pub lost_bytes: u64,
    /// Records that an earlier run had read for a destination, and that neither their file nor the
    /// journal holds any more. Each is in that destination's book, too.
    pub lost: Vec<LostRecords>,
}

/// Records of one source that one destination has not got and never will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostRecords {
    /// Name of the source.
    pub source: String,
    /// Name of the destination.
    pub destination: String,
    /// The reason under which they are discarded in its book.
    pub reason: &'static str,
    /// How many.
    pub records: u64,
}

/// What a [`JournalWriter`](crate::JournalWriter) did when it was told to step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wrote, flushed or gave back space; there may be more to do at once.
    Worked,
    /// Nothing is due.
    Idle {
        /// When something will be, if nothing changes; `None` = never.
        wait: Option<Duration>,
    },
    /// The journal was shut down and everything is written.
    Ended,
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process uses the directory.
    #[error("{dir} is in use by another process")]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// A file was written by a release that this one cannot read.
    #[error(
        "{file} has format version {version}, which this release does not know; it was left untouched"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
    },
    /// It holds what a later release wrote.
    #[error("{file} cannot be read from byte {offset} on: {error}; it was left untouched")]
    Unknown {
        /// The file.
        file: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// What is not known of it.
        error: FrameError,
    },
    /// The operating system refused.
    #[error("{what} {path}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        error: std::io::Error,
    },
    /// More destinations over time than the format holds.
    #[error("too many destinations have been configured over the life of this data directory")]
    TooManyCursors,
}

/// The books of one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Ledger {
    /// One entry per source, by name.
    pub sources: Vec<SourceLedger>,
    /// One entry per destination.
    pub cursors: Vec<CursorLedger>,
    /// The buffer.
    pub journal: JournalStatus,
    /// Not every source has looked yet for what it reads: what an earlier run left of streams that
    /// nobody has opened so far is in no book.
    pub opening: bool,
}

/// Book 1 of a source: all its streams together, also those that ended.
#[derive(Debug, Clone, Serialize)]
pub struct SourceLedger {
    /// The source.
    #[serde(skip)]
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Streams that are open.
    pub streams: u64,
    /// Counts of everything appended.
    pub book: SourceBook,
}

/// Book 2 of a destination.
#[derive(Debug, Clone, Serialize)]
pub struct CursorLedger {
    /// Name of the destination.
    pub name: String,
    /// Index of its bit in route masks.
    pub index: usize,
    /// False: no longer configured; kept until the operator drops it.
    pub active: bool,
    /// Its policy.
    pub when_full: WhenFull,
    /// Cumulative counts.
    pub book: CursorBook,
    /// Records routed and neither acknowledged, discarded nor dead-lettered. Counted by itself.
    pub in_flight: u64,
    /// Part of `in_flight` that the destination has taken.
    pub taken: u64,
    /// Bytes of batches not yet acknowledged.
    pub pending_bytes: u64,
    /// Limit of `pending_bytes`.
    pub buffer_limit_bytes: u64,
    /// Age of the oldest batch that is not acknowledged, seconds.
    pub lag_seconds: f64,
    /// Sources stopped by this destination right now.
    pub blocking: bool,
}

impl CursorLedger {
    /// 0 when the book balances.
    pub fn unaccounted(&self) -> i64 {
        self.book.routed as i64 - (self.book.settled() + self.in_flight) as i64
    }
}

/// State of the buffer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JournalStatus {
    /// Memory held by batches.
    pub ring_bytes: u64,
    /// Bound of `ring_bytes`.
    pub ring_limit_bytes: u64,
    /// Bytes of segments on disk.
    pub disk_bytes: u64,
    /// Bound of `disk_bytes`.
    pub disk_limit_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Batches written to segments since start.
    pub frames_written: u64,
    /// Batches on disk that were written anew since start, without the records that nobody needs any
    /// more.
    pub frames_compacted: u64,
    /// Flushes (fdatasync) since start, of segments and of the cursor log.
    pub flushes: u64,
    /// The last disk error, until it has passed.
    pub disk_error: Option<String>,
    /// What opening found.
    pub recovery: Recovery,
}
