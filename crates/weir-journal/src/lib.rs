//! The journal: the only buffer in weir. Sources append batches, destinations read with cursors.
//!
//! It knows frames, positions and books; it does not know what a log is. A memory ring stands in
//! front of checksummed segment files; a batch reaches the disk when its source cannot repeat it,
//! or when a destination falls behind the ring. Positions, states and books are persisted in one
//! log. See `docs/internals/journal.md` for the files and the recovery rules.
//!
//! Reading order: [`spec`](JournalConfig), `state` (what is decided), `writer` (what is done),
//! `recovery`.
#![forbid(unsafe_code)]

mod cursor;
mod cursor_log;
mod fields;
mod index;
mod limits;
mod recovery;
mod scan;
mod segment;
mod spec;
mod state;
mod subscriber;
mod writer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use weir_host::{Clock, Disk, WakeFd};
use weir_model::{Batch, SourceId, StreamId};

pub use cursor::{Cursor, CursorMemory, Delivery, Held, Outcome};
pub use spec::*;
pub use subscriber::{Next, Subscriber};

use state::State;
use subscriber::SubscriberQueue;

/// What all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Positions have become durable.
    flushed: Condvar,
    clock: Arc<dyn Clock>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; wakes the writer when that gave it something to do, and the sources when
    /// that made room. They are woken once the lock is free: their first step is to take it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.work_signature();
        let result = change(&mut state);
        let has_work = state.work_signature().iter().zip(before).any(|(now, then)| *now && !then);
        let wakes = state.take_wakes();
        drop(state);
        if has_work {
            self.work.notify_one();
        }
        wakes.iter().flat_map(|wakes| wakes.iter()).for_each(WakeFd::wake);
        result
    }
}

impl Shared {
    /// Waits until everything committed so far is durable, or says why it is not.
    pub(crate) fn flush(&self) -> Result<(), String> {
        let mut state = self.lock();
        let waits_for_the_next = state.positions_since.is_some()
            || state.statements_due.is_some()
            || !state.dead.is_empty();
        let target = state.commits_begun + u64::from(waits_for_the_next);
        state.flush_now |= waits_for_the_next;
        self.work.notify_one();
        while state.commits_done < target && state.positions_error.is_none() && !state.stopped {
            state = self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.commits_done >= target {
            return Ok(());
        }
        Err(state.positions_error.clone().unwrap_or_else(|| "the journal has ended".to_owned()))
    }
}

/// A journal; clones share it.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Arc<WriterThread>,
}

/// The writer thread; asked to end when the last handle of the journal goes.
#[derive(Debug)]
struct WriterThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterThread {
    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What does all of a journal's writing, one step at a time.
#[derive(Debug)]
pub struct JournalWriter(writer::Writer);

impl JournalWriter {
    /// Does the next thing that is due now.
    pub fn step(&mut self) -> Step {
        self.0.step()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.close();
            state.stopping = true;
        });
    }
}

/// A frame found by its key.
#[derive(Debug)]
pub struct IndexedFrame {
    file: Arc<dyn weir_host::DiskFile>,
    location: state::Location,
}

impl IndexedFrame {
    /// Reads the frame; `None` when it was given up in the meantime: every destination has it.
    pub fn read(&self) -> Option<Batch> {
        segment::read_frame(&*self.file, self.location).ok()
    }
}

/// Resolves when a batch appended with [`WritePolicy::OnAppend`] is on stable storage.
#[derive(Debug)]
pub struct AppendTicket(Option<tokio::sync::oneshot::Receiver<Result<(), RefusedReason>>>);

impl AppendTicket {
    /// Waits for stable storage. An error says that the disk failed: the batch may be lost in a
    /// crash and must not be acknowledged.
    pub async fn durable(self) -> Result<(), RefusedReason> {
        match self.0 {
            Some(receiver) => receiver.await.unwrap_or(Err(RefusedReason::Closed)),
            None => Ok(()),
        }
    }
}

impl Journal {
    /// Opens or creates a journal, recovers what is there and starts its writer thread.
    pub fn open(
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JournalError> {
        let path = config.dir.clone();
        let (journal, writer) = Self::open_with_writer(config, disk, clock)?;
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.0.run())
            .map_err(|error| JournalError::Io { what: "cannot start a thread for", path, error })?;
        *journal.writer.lock() = Some(thread);
        Ok(journal)
    }

    /// As [`Self::open`], without the thread: nothing reaches the disk but by the steps of the
    /// writer, so that a test can put anything between any two of them. [`Self::flush`] must not
    /// be called (it would wait for ever), and [`Self::shutdown`] leaves the last steps to do.
    pub fn open_with_writer(
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, JournalWriter), JournalError> {
        let mut state = State::new(config);
        let opened = recovery::open(&*disk, &mut state)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            flushed: Condvar::new(),
            clock,
        });
        let writer = writer::Writer::new(shared.clone(), disk, opened);
        let thread = WriterThread { shared: shared.clone(), thread: Mutex::new(None) };
        Ok((Self { shared, writer: Arc::new(thread) }, JournalWriter(writer)))
    }

    /// Registers a required destination, or finds its cursor again. A new destination starts at
    /// now: with what is appended from here on.
    pub fn cursor(&self, spec: CursorSpec) -> Result<Cursor, JournalError> {
        let now = self.shared.clock.monotonic();
        let index = self.shared.change(|state| {
            let slot = state.slot_of(&spec.name, now);
            let index = slot.ok_or(JournalError::TooManyCursors)?;
            state.cursors[index].spec = Some(spec);
            state.note_absent();
            state.names_dirty = true;
            state.positions_since.get_or_insert(now);
            Ok(index)
        })?;
        Ok(Cursor { shared: self.shared.clone(), index })
    }

    /// Drops the cursor of a destination that is no longer configured; its undelivered records
    /// are counted as discarded. False when there is no such inactive cursor.
    pub fn drop_cursor(&self, name: &str) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.drop_cursor(name, now))
    }

    /// Names a source for the ledger. True when the data directory has not seen it before.
    pub fn register_source(&self, name: &str) -> bool {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            let id = SourceId::of(name);
            let is_new = !state.sources.contains_key(&id);
            name.clone_into(&mut state.sources.entry(id).or_default().name);
            state.names_dirty = true;
            state.positions_since.get_or_insert(now);
            is_new
        })
    }

    /// Streams of a source that the journal remembers.
    pub fn known_streams(&self, source: SourceId) -> Vec<KnownStream> {
        self.shared.lock().known_streams(source)
    }

    /// Opens a stream: tells its source where to read on. Frames of the stream that were recovered
    /// from disk and that the source will read again are dropped; others are released.
    pub fn open_stream(&self, spec: &StreamSpec<'_>) -> ResumePoint {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.open_stream(spec, now))
    }

    /// Called once every source has opened the streams that it found: recovered frames of streams
    /// that nobody opened (their files are gone) are released to the destinations.
    pub fn release_unclaimed(&self) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.release_unclaimed(now));
    }

    /// Ends a stream: nothing more will be appended to it. When every destination has committed
    /// it, its counts fold into its source's and the journal forgets it.
    pub fn close_stream(&self, stream: StreamId) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.close_stream(stream, now));
    }

    /// The source cannot read on in the stream's present content: it was cut, or is gone. Rows that
    /// an earlier run had read, that some destination is still owed and that were not appended again
    /// are counted as discarded for it. Returns the place behind which the source goes on, when an
    /// earlier run was further than this one: its counts are those that hold there.
    pub fn skip_to_furthest(&self, stream: StreamId) -> Option<ResumePoint> {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.skip_to_furthest(stream, now))
    }

    /// The stream cannot be read again any more (its file was unlinked): what is not yet
    /// acknowledged goes to disk.
    pub fn persist_stream(&self, stream: StreamId) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.persist_stream(stream, now));
    }

    /// Appends a batch. Never waits: a refused batch comes back, and `on_room` wakes when it is
    /// worth trying again.
    pub fn append(&self, batch: Batch, policy: WritePolicy) -> Result<AppendTicket, Refused> {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.append(batch, policy, now)).map(AppendTicket)
    }

    /// Appends batches of one stream that follow each other: all of them, or none. Never waits; as
    /// [`Self::append`] otherwise. A crash before the last ticket has resolved may leave the first
    /// ones.
    pub fn append_all(
        &self,
        batches: Vec<Batch>,
        policy: WritePolicy,
    ) -> Result<Vec<AppendTicket>, AllRefused> {
        let now = self.shared.clock.monotonic();
        let tickets = self.shared.change(|state| state.append_all(batches, policy, now))?;
        Ok(tickets.into_iter().map(AppendTicket).collect())
    }

    /// Wakes this descriptor whenever room has been made after a refusal.
    pub fn on_room(&self, wake: WakeFd) {
        self.shared.change(|state| {
            let wakes = state.room_wakes.iter().cloned().chain([wake]);
            state.room_wakes = wakes.collect();
        });
    }

    /// An optional reader with a backlog of at most `backlog_bytes`.
    pub fn subscribe(&self, backlog_bytes: u64) -> Subscriber {
        let queue = SubscriberQueue::new(backlog_bytes);
        let mut state = self.shared.lock();
        if state.closing {
            queue.close();
        }
        state.subscribers.push(Arc::downgrade(&queue));
        Subscriber(queue)
    }

    /// Frames on disk that carry the key, in the order in which they were written: from the
    /// indexes of closed segments, and the one in the making.
    pub fn frames_with_key(&self, key: u64) -> Vec<IndexedFrame> {
        let segments: Vec<_> = {
            let state = self.shared.lock();
            let open = |s: &state::SegmentState| s.index.with_key(key);
            state.segments.iter().map(|(id, s)| (*id, s.file.clone(), open(s), s.sealed)).collect()
        };
        let mut frames = Vec::new();
        for (id, file, open, sealed) in segments {
            let found = if sealed { segment::frames_with_key(&*file, id, key) } else { Ok(open) };
            let found = found.unwrap_or_else(|error| {
                tracing::warn!(segment = id, %error, "the index of a segment cannot be read");
                Vec::new()
            });
            let indexed = |location| IndexedFrame { file: file.clone(), location };
            frames.extend(found.into_iter().map(indexed));
        }
        frames
    }

    /// The books of this moment.
    pub fn ledger(&self) -> Ledger {
        let state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        Ledger {
            sources: state.source_ledgers(),
            cursors: state.cursor_ledgers(now),
            journal: state.status(),
            opening: !state.sources_are_open,
        }
    }

    /// Waits until everything committed so far is durable, or the disk has failed.
    pub fn flush(&self) {
        // Whoever wants to know why looks at the ledger.
        let _ = self.shared.flush();
    }

    /// No further appends; cursors drain what is left (`ready` returns at once).
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// Flushes positions and segments, ends the writer thread. Call after the cursors are done.
    pub fn shutdown(&self) {
        self.close();
        self.shared.change(|state| state.stopping = true);
        let thread = self.writer.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the journal's writer thread panicked");
        }
    }
}
