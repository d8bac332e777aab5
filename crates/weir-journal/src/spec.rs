//! The interface types of the journal: plain data without behavior.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_model::{Batch, CursorBook, FrameError, Position, SourceBook, SourceId, StreamId};

/// Location and limits of a journal.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// Directory of the segments and the cursor log; created when missing.
    pub dir: PathBuf,
    /// Memory for batches that some destination still needs.
    pub ring_bytes: u64,
    /// Maximum disk space for all segments.
    pub bytes_max: u64,
    /// Disk space that must remain free.
    pub free_bytes_min: u64,
    /// Size at which a segment is closed and the next one is created.
    pub segment_bytes: u64,
    /// Maximum size of the batches that all destinations together have taken and not acknowledged.
    /// Each may always take one.
    pub taken_bytes_max: u64,
    /// How long positions and appended batches wait to be grouped with others before they are
    /// flushed.
    pub commit_interval: Duration,
    /// How long a full ring waits for its slowest destination before batches are written to disk
    /// (immediately if another destination would starve).
    pub spill_after: Duration,
    /// Number of waiting batches from which small ones on disk are merged into larger ones.
    pub merge_from_batches: usize,
    /// Minimum size of the ranges in which the space of frames that nothing needs is freed.
    pub punch_bytes_min: u64,
    /// How long opening may take to read waiting batches of repeatable sources, so that a source
    /// reads again what is damaged. Batches beyond that are checked when they are taken: what is
    /// damaged then is discarded and counted, like batches of all other sources.
    pub verify_time_max: Duration,
}

/// The behavior of a destination whose buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Stops the sources that feed it.
    Block,
    /// Discards the oldest records of its heaviest key, and counts them. The key is that of a
    /// record's resource; records without one are of the key of their stream.
    DropOldest,
    /// Discards the oldest batches of its heaviest stream, and counts them: for a destination that
    /// divides what it gets by stream.
    #[serde(rename = "drop_oldest")]
    DropOldestOfStream,
}

/// When an appended batch must be on disk; chosen by the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePolicy {
    /// Before the ticket resolves: for sources that acknowledge what they receive. Refused with
    /// [`RefusedReason::Disk`] while the disk fails.
    OnAppend,
    /// Within [`SOON_INTERVAL`](crate::SOON_INTERVAL), unless every destination has settled it by
    /// then: for sources that can neither acknowledge nor repeat what they receive. The ticket
    /// resolves at once. Accepted while the disk fails, and written when it works again. A crash
    /// loses at most the last [`SOON_INTERVAL`](crate::SOON_INTERVAL), or everything since the disk
    /// failed; [`ResumePoint::furthest`] tells the source how much that was.
    Soon,
    /// Only when a destination falls behind the ring: for sources that can be read again.
    OnLag,
}

/// A required destination.
#[derive(Debug, Clone)]
pub struct CursorSpec {
    /// Name of the output; its index is kept for the lifetime of the data directory.
    pub name: String,
    /// What to do when `buffer_bytes_max` is exhausted.
    pub when_full: WhenFull,
    /// Maximum size of the batches waiting for this destination, in ring and segments together.
    pub buffer_bytes_max: u64,
    /// Maximum size of the batches that are taken but not acknowledged.
    pub window_bytes: u64,
}

/// A stream as opened by its source.
#[derive(Debug, Clone)]
pub struct StreamSpec<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Streams of one group continue each other; 0 = none.
    pub group: u64,
    /// The source.
    pub source: SourceId,
    /// Where reading starts when the journal does not know the stream.
    pub start: Position,
    /// The state that belongs to `start`.
    pub state: &'a [u8],
    /// The counts that belong to `start` (bytes skipped, for instance).
    pub book: SourceBook,
    /// The source cannot read the stream's content again: its file is gone, or has other content.
    /// Then everything of it on disk is delivered, anything else that destinations are owed is
    /// counted as discarded, and the stream continues after the furthest known position.
    pub gone: bool,
}

/// Where a source resumes reading a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumePoint {
    /// The position to read from; what a destination already has is skipped by its cursor.
    pub position: Position,
    /// The state that the source attached to the batch that ended here.
    pub state: Vec<u8>,
    /// The counts of the stream up to here.
    pub book: SourceBook,
    /// False when the stream was not known and this is just its `start`.
    pub known: bool,
    /// Latest epoch known to any destination, including unconfigured ones, or any frame. It may be
    /// later than that of `position`: a destination can have committed records that never reached
    /// the disk. A source that cannot repeat itself starts an even later epoch, otherwise its new
    /// records would be mistaken for those.
    pub last_epoch: u32,
    /// The furthest position that survived, on disk or in the books of any destination, even an
    /// unconfigured one, with the counts up to there. For a stream that cannot be read again this
    /// is `position` and `book`, except if the positions of destinations were damaged.
    ///
    /// Every record counted in its book was settled, is delivered, or is discarded in the book of
    /// each destination that does not get it. What the source had received in addition is lost. See
    /// `docs/internals/journal.md` for how a source counts that.
    pub furthest: Furthest,
}

/// How far a stream is known, and what its source had counted up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Furthest {
    /// The position.
    pub position: Position,
    /// The counts up to there.
    pub book: SourceBook,
}

/// A stream that the journal knows from earlier.
#[derive(Debug, Clone)]
pub struct KnownStream {
    /// The stream.
    pub stream: StreamId,
    /// Its group; 0 = none.
    pub group: u64,
    /// Where its source would resume, and with what state.
    pub resume: ResumePoint,
    /// The furthest known position of earlier runs. If the content there has changed, the stream's
    /// content is gone: it is opened with [`StreamSpec::gone`].
    pub furthest: ResumePoint,
}

/// A batch was not accepted. The batch is returned; append it again when there is room.
#[derive(Debug)]
pub struct Refused {
    /// The batch, unchanged.
    pub batch: Box<Batch>,
    /// The reason.
    pub reason: RefusedReason,
}

/// Several batches were not accepted together: none of them was.
#[derive(Debug)]
pub struct AllRefused {
    /// The batches, unchanged and in order.
    pub batches: Vec<Batch>,
    /// The reason.
    pub reason: RefusedReason,
}

/// Reasons for refusing an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedReason {
    /// The ring is full and is expected to drain in a moment.
    RingFull,
    /// This destination's buffer is full and its policy is to block.
    BufferFull {
        /// Name of the destination.
        cursor: String,
    },
    /// The disk is full, read-only or failing, with the error.
    Disk {
        /// The error of the operating system.
        error: String,
    },
    /// The journal is shutting down.
    Closed,
}

/// The findings when the journal was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Intact frames found in segments.
    pub frames: u64,
    /// Size of those frames in bytes.
    pub frame_bytes: u64,
    /// Bytes that were not part of a valid frame; `.bad` files contain copies of them.
    pub damaged_bytes: u64,
    /// Bytes that were being written when the machine stopped, and were never confirmed as safe.
    pub torn_bytes: u64,
    /// Names of files that were set aside.
    pub set_aside: Vec<String>,
    /// Damaged records of the cursor log.
    pub damaged_cursor_records: u64,
    /// Bytes that a destination missed while it was not configured, and that no source can read
    /// again for it.
    pub lost_bytes: u64,
    /// Records that an earlier run had read for a destination, and that are no longer in their file
    /// or the journal. Each is also in that destination's book.
    pub lost: Vec<LostRecords>,
}

/// Records of one source that one destination has not received and never will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostRecords {
    /// Name of the source.
    pub source: String,
    /// Name of the destination.
    pub destination: String,
    /// The reason under which its book counts them as discarded.
    pub reason: &'static str,
    /// Number of records.
    pub records: u64,
}

/// Result of a step of a [`JournalWriter`](crate::JournalWriter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wrote, flushed or freed space; there may be more to do.
    Worked,
    /// Nothing is due.
    Idle {
        /// When something will be due if nothing changes; `None` = never.
        wait: Option<Duration>,
    },
    /// The journal was shut down and everything is written.
    Ended,
}

/// Reasons why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process uses the directory.
    #[error("{dir} is in use by another process")]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// A file was written by a release that is not compatible with this one.
    #[error(
        "{file} has format version {version}, which this release does not support; it was left untouched"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u16,
    },
    /// It contains data written by a later release.
    #[error("{file} cannot be read after byte {offset}: {error}; it was left untouched")]
    Unknown {
        /// The file.
        file: PathBuf,
        /// Offset of the frame.
        offset: u64,
        /// The unsupported feature.
        error: FrameError,
    },
    /// An operating system error.
    #[error("{what} {path}: {error}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The error returned.
        error: std::io::Error,
    },
    /// More destinations over time than the format supports.
    #[error("too many destinations have been configured over the life of this data directory")]
    TooManyCursors,
}

/// Why a cursor could not be dropped; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DropCursorError {
    /// There is no cursor of that name.
    #[error("there is no cursor {name:?}; existing cursors: {}", listed(existing))]
    Unknown {
        /// The name.
        name: String,
        /// Names of all cursors.
        existing: Vec<String>,
    },
    /// Its destination is configured.
    #[error("output {name:?} is configured: remove it from the configuration first")]
    Configured {
        /// Its name.
        name: String,
    },
    /// Its destination is no longer configured, and still has a reader.
    #[error("output {name:?} was removed and is still stopping: try again in a few seconds")]
    Stopping {
        /// Its name.
        name: String,
    },
    /// The journal is being closed.
    #[error("weir is stopping, or restarting its outputs: try again in a few seconds")]
    Closed,
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A snapshot of the books.
#[derive(Debug, Clone, Serialize)]
pub struct Ledger {
    /// One entry per source, by name.
    pub sources: Vec<SourceLedger>,
    /// One entry per destination.
    pub cursors: Vec<CursorLedger>,
    /// The buffer.
    pub journal: JournalStatus,
    /// Some sources have not completed their first scan: what an earlier run left of streams that
    /// have not been opened so far is in no book.
    pub opening: bool,
}

/// The book of a source: all its streams together, including those that ended.
#[derive(Debug, Clone, Serialize)]
pub struct SourceLedger {
    /// The source.
    #[serde(skip)]
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Number of open streams.
    pub streams: u64,
    /// Counts of everything appended.
    pub book: SourceBook,
}

/// The book of a destination.
#[derive(Debug, Clone, Serialize)]
pub struct CursorLedger {
    /// Name of the destination.
    pub name: String,
    /// Index of its bit in route masks.
    pub index: usize,
    /// False: no longer configured, or removed while weir runs; kept until the operator drops it.
    pub active: bool,
    /// Its policy.
    pub when_full: WhenFull,
    /// Cumulative counts.
    pub book: CursorBook,
    /// Records routed and neither acknowledged, discarded nor dead-lettered. Counted independently.
    pub in_flight: u64,
    /// The part of `in_flight` that the destination has taken.
    pub taken: u64,
    /// Size of the batches that are not acknowledged.
    pub pending_bytes: u64,
    /// Limit of `pending_bytes`.
    pub buffer_bytes_max: u64,
    /// Age of the oldest batch that is not acknowledged, in seconds.
    pub lag_seconds: f64,
    /// Whether this destination currently stops sources.
    pub blocking: bool,
}

impl CursorLedger {
    /// Returns the number of unaccounted records; 0 when the book balances.
    pub fn unaccounted(&self) -> i64 {
        self.book.routed as i64 - (self.book.settled() + self.in_flight) as i64
    }
}

/// A batch that waits for a destination.
#[derive(Debug, Clone)]
pub struct WaitingBatch {
    /// Its stream.
    pub stream: StreamId,
    /// Identifies it; batches that were appended later have larger numbers.
    pub seq: u64,
    /// The position at its end.
    pub end: Position,
    /// Number of its records for the destination, including discarded ones.
    pub records: u64,
    /// What the destination was charged for those.
    pub bytes: u64,
    /// Number of records that were discarded because the buffer was full.
    pub discarded: u64,
    /// Their keys: all records of these in the batch.
    pub discarded_keys: Vec<u64>,
    /// The keys of the other records are known or can be counted at once, so that they can be
    /// discarded by key.
    pub has_known_keys: bool,
}

/// What a destination did with one record, as far as the journal knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordTrace {
    /// Name of the destination.
    pub destination: String,
    /// Where the record is on its way there.
    pub state: RecordState,
    /// When its batch arrived, nanoseconds since 1970. Known as long as `appended_ns` is.
    pub observed_ns: Option<i64>,
    /// When its batch was appended, nanoseconds since 1970. Known while the batch waits, and for
    /// the last batches that destinations were done with.
    pub appended_ns: Option<i64>,
    /// When the destination was done with its batch, or had its own copy of it, nanoseconds since
    /// 1970. Known for the last batches.
    pub done_ns: Option<i64>,
    /// Every record of the batch was for this destination. Otherwise it is not known whether this
    /// one was.
    pub is_for_all: bool,
    /// The destination has acknowledged, or holds, every record of the batch that was for it.
    pub is_delivered: bool,
}

/// Where a record is on its way to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    /// In a batch that waits or is in flight, unless no record of that batch is for the
    /// destination.
    Waiting,
    /// The destination has its own copy, which is not durable yet.
    Held,
    /// Everything up to it was settled: delivered, discarded and counted, or not for the
    /// destination.
    Settled,
    /// The destination does not know its stream, or it is not in the journal yet.
    Unknown,
}

/// State of the buffer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JournalStatus {
    /// Memory held by batches.
    pub ring_bytes: u64,
    /// Limit of `ring_bytes`.
    pub ring_bytes_max: u64,
    /// Size of the segments on disk.
    pub disk_bytes: u64,
    /// Limit of `disk_bytes`.
    pub disk_bytes_max: u64,
    /// Number of segment files.
    pub segments: u64,
    /// Batches written to segments since start.
    pub frames_written: u64,
    /// Batches on disk that were rewritten since start, without the records that are no longer
    /// needed.
    pub frames_compacted: u64,
    /// Number of small frames that were merged into larger ones.
    pub frames_merged: u64,
    /// Flushes (fdatasync) since start, of segments and of the cursor log.
    pub flushes: u64,
    /// The last disk error, until it is resolved.
    pub disk_error: Option<String>,
    /// The findings when the journal was opened.
    pub recovery: Recovery,
}
