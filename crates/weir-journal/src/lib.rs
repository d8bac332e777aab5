//! The journal: the only buffer in weir. Sources append batches, destinations read with cursors.
//!
//! It knows frames, positions and books; it does not know what a log is.
//! See `docs/internals/journal.md` for the files and the recovery rules.
#![forbid(unsafe_code)]

mod spec;
mod cursor;

use std::sync::Arc;

use weir_host::{Clock, Disk, WakeFd};
use weir_model::{Batch, SourceId, StreamId};

pub use cursor::{Cursor, Delivery, Outcome};
pub use spec::*;

/// A journal; clones share it.
#[derive(Debug, Clone)]
pub struct Journal {}

/// Resolves when a batch appended with [`WritePolicy::OnAppend`] is on stable storage.
#[derive(Debug)]
pub struct AppendTicket {}

impl AppendTicket {
    /// Waits for stable storage. An error says that the disk failed: the batch may be lost in a
    /// crash and must not be acknowledged.
    pub async fn durable(self) -> Result<(), RefusedReason> {
        todo!()
    }
}

/// What an optional reader gets.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Arc<Batch>),
    /// Records that this reader missed because it was too slow: exactly these.
    Gap {
        /// Journal sequence number of the first missed batch.
        first: u64,
        /// And of the last.
        last: u64,
        /// Records in them.
        count: u64,
    },
}

/// An optional reader: never holds anything back; gets a gap when it falls behind.
#[derive(Debug)]
pub struct Subscriber {}

impl Subscriber {
    /// The next batch or gap; `None` when the journal closed.
    pub async fn next(&mut self) -> Option<Next> {
        todo!()
    }
}

impl Journal {
    /// Opens or creates a journal, recovers what is there and starts its writer thread.
    pub fn open(
        _config: JournalConfig,
        _disk: Arc<dyn Disk>,
        _clock: Arc<dyn Clock>,
    ) -> Result<Self, JournalError> {
        todo!()
    }

    /// Registers a required destination, or finds its cursor again. A new destination starts at
    /// now: with what is appended from here on.
    pub fn cursor(&self, _spec: CursorSpec) -> Result<Cursor, JournalError> {
        todo!()
    }

    /// Drops the cursor of a destination that is no longer configured; its undelivered records
    /// are counted as discarded. False when there is no such inactive cursor.
    pub fn drop_cursor(&self, _name: &str) -> bool {
        todo!()
    }

    /// Names a source for the ledger. True when the data directory has not seen it before.
    pub fn register_source(&self, _name: &str) -> bool {
        todo!()
    }

    /// Streams of a source that the journal remembers.
    pub fn known_streams(&self, _source: SourceId) -> Vec<KnownStream> {
        todo!()
    }

    /// Opens a stream: tells its source where to read on. Frames of the stream that were recovered
    /// from disk and that the source will read again are dropped; others are released.
    pub fn open_stream(&self, _spec: &StreamSpec<'_>) -> ResumePoint {
        todo!()
    }

    /// Called once every source has opened the streams that it found: recovered frames of streams
    /// that nobody opened (their files are gone) are released to the destinations.
    pub fn release_unclaimed(&self) {
        todo!()
    }

    /// Ends a stream: nothing more will be appended to it. When every destination has committed
    /// it, its counts fold into its source's and the journal forgets it.
    pub fn close_stream(&self, _stream: StreamId) {
        todo!()
    }

    /// The stream cannot be read again any more (its file was unlinked): what is not yet
    /// acknowledged goes to disk.
    pub fn persist_stream(&self, _stream: StreamId) {
        todo!()
    }

    /// Appends a batch. Never waits: a refused batch comes back, and `on_room` wakes when it is
    /// worth trying again.
    pub fn append(&self, _batch: Batch, _policy: WritePolicy) -> Result<AppendTicket, Refused> {
        todo!()
    }

    /// Wakes this descriptor whenever room has been made after a refusal.
    pub fn on_room(&self, _wake: WakeFd) {
        todo!()
    }

    /// An optional reader with a backlog of at most `backlog_bytes`.
    pub fn subscribe(&self, _backlog_bytes: u64) -> Subscriber {
        todo!()
    }

    /// The books of this moment.
    pub fn ledger(&self) -> Ledger {
        todo!()
    }

    /// No further appends; cursors drain what is left (`ready` returns at once).
    pub fn close(&self) {
        todo!()
    }

    /// Flushes positions and segments, ends the writer thread. Call after the cursors are done.
    pub fn shutdown(&self) {
        todo!()
    }
}
