//! The journal: the only buffer in weir. Sources append batches, destinations read them with
//! cursors.
//!
//! It handles frames, positions and books, and has no knowledge of logs. A memory ring precedes
//! checksummed segment files; a batch is written to disk when its source cannot repeat it, or when
//! a destination falls behind the ring. Positions, states and books are persisted in one log. See
//! `docs/internals/journal.md` for the files and the recovery rules.
//!
//! Reading order: [`spec`](JournalConfig), `state` (decisions), `writer` (actions), `recovery`.
#![forbid(unsafe_code)]

mod cursor;
mod cursor_log;
mod fetch;
mod fields;
mod index;
mod limits;
mod read_cache;
mod recovery;
mod scan;
mod segment;
mod spec;
mod state;
mod subscriber;
mod writer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_host::{Clock, Disk, WakeFd};
use weir_model::{Batch, Position, SourceId, StreamId};

pub use cursor::{Cursor, CursorMemory, Delivery, Held, Outcome};
pub use limits::{MERGE_FROM_BATCHES, PUNCH_BYTES_MIN, SOON_INTERVAL};
pub use spec::*;
pub use state::PartOutcome;
pub use subscriber::{Next, Subscriber};

use fetch::Fetcher;
use state::State;
use subscriber::SubscriberQueue;

/// State shared by all handles.
#[derive(Debug)]
pub(crate) struct JournalShared {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Signalled when positions have become durable.
    flushed: Condvar,
    clock: Arc<dyn Clock>,
    fetcher: Fetcher,
}

impl JournalShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. Wakes the writer if that gave it something to do, and the sources if that
    /// made room. They are woken after the lock is released, because they take it first.
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

impl JournalShared {
    /// Waits until everything committed so far is durable, or returns why it is not.
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
        Err(state.positions_error.clone().unwrap_or_else(|| "the journal has stopped".to_owned()))
    }
}

/// A journal; clones share it.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<JournalShared>,
    writer: Arc<WriterThread>,
}

/// The writer thread; told to end when the last handle of the journal is dropped.
#[derive(Debug)]
struct WriterThread {
    shared: Arc<JournalShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterThread {
    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Performs all writing of a journal, one step at a time.
#[derive(Debug)]
pub struct JournalWriter(writer::Writer);

impl JournalWriter {
    /// Performs the next step that is due.
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
    /// Reads the frame; `None` when it was freed in the meantime because every destination has it.
    pub fn read(&self) -> Option<Batch> {
        segment::read_frame(&*self.file, self.location).ok()
    }
}

/// Resolves when a batch appended with [`WritePolicy::OnAppend`] is on stable storage. If it has no
/// records and begins an epoch, its position and book are.
#[derive(Debug)]
pub struct AppendTicket(Option<tokio::sync::oneshot::Receiver<Result<(), RefusedReason>>>);

impl AppendTicket {
    /// Waits for stable storage. An error means that the disk failed: the batch may be lost in a
    /// crash and must not be acknowledged.
    pub async fn durable(self) -> Result<(), RefusedReason> {
        match self.0 {
            Some(receiver) => receiver.await.unwrap_or(Err(RefusedReason::Closed)),
            None => Ok(()),
        }
    }

    /// Returns the result of [`Self::durable`] if there is one already.
    pub fn try_durable(&mut self) -> Option<Result<(), RefusedReason>> {
        use tokio::sync::oneshot::error::TryRecvError;
        let Some(receiver) = &mut self.0 else { return Some(Ok(())) };
        match receiver.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(RefusedReason::Closed)),
        }
    }
}

impl Journal {
    /// Opens or creates a journal, recovers its content and starts its threads.
    pub fn open(
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JournalError> {
        let path = config.dir.clone();
        let (journal, writer) = Self::open_with_writer(config, disk, clock)?;
        let failed = |error| JournalError::Io { what: "cannot start a thread for", path, error };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.0.run())
            .and_then(|thread| journal.shared.fetcher.start().map(|()| thread))
            .map_err(failed)?;
        *journal.writer.lock() = Some(thread);
        Ok(journal)
    }

    /// Like [`Self::open`], without its threads: nothing is written to disk except by steps of the
    /// writer, so that a test can place anything between two of them. [`Self::flush`] must not be
    /// called (it would wait forever), and [`Self::shutdown`] leaves the last steps to the caller.
    pub fn open_with_writer(
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, JournalWriter), JournalError> {
        let mut state = State::new(config);
        let opened = recovery::open(&*disk, &*clock, &mut state)?;
        let shared = Arc::new(JournalShared {
            state: Mutex::new(state),
            work: Condvar::new(),
            flushed: Condvar::new(),
            clock,
            fetcher: Fetcher::default(),
        });
        let writer = writer::Writer::new(shared.clone(), disk, opened);
        let thread = WriterThread { shared: shared.clone(), thread: Mutex::new(None) };
        Ok((Self { shared, writer: Arc::new(thread) }, JournalWriter(writer)))
    }

    /// Registers a required destination, or finds its cursor again. A new destination starts with
    /// the batches appended from now on. If the destination already has a reader, it is replaced:
    /// the new one receives batches that the old one has taken and not settled, and settlements of
    /// the old one are ignored from now on.
    ///
    /// A destination that an earlier run knew must be registered before its sources open their
    /// streams, see [`Self::is_absent`].
    pub fn cursor(&self, spec: CursorSpec) -> Result<Cursor, JournalError> {
        let now = self.shared.clock.monotonic();
        let (index, reader) = self.shared.change(|state| {
            let slot = state.slot_of(&spec.name, now);
            let index = slot.ok_or(JournalError::TooManyCursors)?;
            let reader = state.attach(index, spec, now);
            state.note_absent();
            state.names_dirty = true;
            state.positions_since.get_or_insert(now);
            Ok((index, reader))
        })?;
        Ok(Cursor { shared: self.shared.clone(), index, reader })
    }

    /// Returns whether a destination of that name is known from an earlier run and was not
    /// registered in this one. Its kept batches are assigned to it only at a start.
    pub fn is_absent(&self, name: &str) -> bool {
        let state = self.shared.lock();
        state.absent.iter().any(|index| state.cursors[*index].name == name)
    }

    /// Tells the reader of a destination that nothing more will be routed to it
    /// ([`Cursor::is_closing`]), so that it ends once it has delivered what waits.
    pub fn close_destination(&self, index: usize) {
        self.shared.change(|state| state.close_destination(index));
    }

    /// Detaches the reader of a destination that is no longer configured. Its waiting batches are
    /// kept on disk until it is registered again or dropped, like those of a destination that is
    /// removed between two runs; they hold up neither sources nor other destinations.
    pub fn detach(&self, index: usize) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.detach(index, now));
    }

    /// Returns whether a destination of that name has a cursor, with or without a reader.
    pub fn has_cursor(&self, name: &str) -> bool {
        self.shared.lock().cursor_of(name).is_some()
    }

    /// Drops the cursor of a destination that is no longer configured. Returns the number of its
    /// undelivered records, which are counted as discarded in its book. Whether it is configured is
    /// decided in the same moment: if it is registered again before, this is refused; if after, it
    /// starts as a new destination.
    ///
    /// It is on stable storage after the next [`Self::try_flush`].
    pub fn drop_cursor(&self, name: &str) -> Result<u64, DropCursorError> {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.drop_cursor(name, now))
    }

    /// Registers the name of a source for the ledger. Returns true when it is new to the data
    /// directory.
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

    /// Returns the streams of a source that earlier runs have left, including those of which only
    /// frames have reached the disk: where these resume is known once they are opened. If the
    /// source was replaced in this run, also those that it has opened and not closed.
    pub fn known_streams(&self, source: SourceId) -> Vec<KnownStream> {
        self.shared.lock().known_streams(source)
    }

    /// Returns the streams of a source that earlier runs have left, including those of which only
    /// frames have reached the disk.
    pub fn stream_ids(&self, source: SourceId) -> Vec<StreamId> {
        self.shared.lock().stream_ids(source)
    }

    /// Returns how far the streams of a source, also those that were closed, are known for certain
    /// once positions are flushed: a later start finds no less. For tests that stop the machine.
    pub fn furthest_streams(&self, source: SourceId) -> Vec<(StreamId, ResumePoint)> {
        self.shared.lock().furthest_streams(source)
    }

    /// Opens a stream and returns where its source resumes reading. Recovered frames of the stream
    /// that the source will read again are dropped; the others are released. A stream that a source
    /// of this run has opened before, and whose source was replaced, continues after what was
    /// appended.
    pub fn open_stream(&self, spec: &StreamSpec<'_>) -> ResumePoint {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.open_stream(spec, now))
    }

    /// Returns the end of what was appended to a stream that a source of this run has opened, with
    /// its counts and state: a source need not keep them for a stream that is quiet.
    pub fn appended(&self, stream: StreamId) -> Option<ResumePoint> {
        self.shared.lock().appended(stream)
    }

    /// Releases the recovered frames of streams that no source opened (their files are gone) to the
    /// destinations. Call this once every source has opened the streams that it found.
    pub fn release_unclaimed(&self) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.release_unclaimed(now));
    }

    /// Reports that every source has appended what its streams had when it opened them. What was
    /// appended up to now is the backlog of this start ([`Cursor::has_taken_backlog`]). Call this
    /// after [`Self::release_unclaimed`].
    pub fn end_backlog(&self) {
        self.shared.change(State::end_backlog);
    }

    /// Ends a stream: nothing more will be appended to it. When every destination has committed it,
    /// its counts are folded into its source's and the journal forgets it.
    pub fn close_stream(&self, stream: StreamId) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.close_stream(stream, now));
    }

    /// Reports that the source cannot continue in the stream's current content, because it was
    /// truncated or is gone. Rows that an earlier run had read, that some destination is still owed
    /// and that were not appended again are counted as discarded for it. Returns the position after
    /// which the source continues, with its counts, if an earlier run was further than this one.
    pub fn skip_to_furthest(&self, stream: StreamId) -> Option<ResumePoint> {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.skip_to_furthest(stream, now))
    }

    /// Reports that the stream can no longer be read again (its file was unlinked): everything that
    /// is not acknowledged yet is written to disk.
    pub fn persist_stream(&self, stream: StreamId) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.persist_stream(stream, now));
    }

    /// Appends a batch. Never waits: a refused batch is returned, and `on_room` wakes the source
    /// when it is worth retrying.
    pub fn append(&self, batch: Batch, policy: WritePolicy) -> Result<AppendTicket, Refused> {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| state.append(batch, policy, now)).map(AppendTicket)
    }

    /// Appends consecutive batches of one stream: all of them, or none. Never waits; otherwise like
    /// [`Self::append`]. A crash before the last ticket has resolved may leave only the first ones.
    pub fn append_all(
        &self,
        batches: Vec<Batch>,
        policy: WritePolicy,
    ) -> Result<Vec<AppendTicket>, AllRefused> {
        let now = self.shared.clock.monotonic();
        let tickets = self.shared.change(|state| state.append_all(batches, policy, now))?;
        Ok(tickets.into_iter().map(AppendTicket).collect())
    }

    /// Wakes this descriptor whenever room has become available after a refusal.
    pub fn on_room(&self, wake: WakeFd) {
        self.shared.change(|state| {
            let wakes = state.room_wakes.iter().cloned().chain([wake]);
            state.room_wakes = wakes.collect();
        });
    }

    /// Ends [`Self::on_room`] for a source that has stopped.
    pub fn forget_wake(&self, wake: &WakeFd) {
        self.shared.change(|state| {
            let others = state.room_wakes.iter().filter(|other| !other.is_same(wake)).cloned();
            state.room_wakes = others.collect();
        });
    }

    /// Ensures that what the journal has of a source that was removed survives a crash, as its
    /// source will not read it again.
    pub fn persist_source(&self, source: SourceId) {
        let now = self.shared.clock.monotonic();
        self.shared.change(|state| {
            for stream in state.stream_ids(source) {
                state.persist_stream(stream, now);
            }
        });
    }

    /// Creates an optional reader with a backlog of at most `backlog_bytes`. It omits
    /// batches of the source `without`, which are copies of earlier ones.
    pub fn subscribe(&self, backlog_bytes: u64, without: Option<SourceId>) -> Subscriber {
        let queue = SubscriberQueue::new(backlog_bytes, without);
        let mut state = self.shared.lock();
        if state.closing {
            queue.close();
        }
        state.subscribers.push(Arc::downgrade(&queue));
        Subscriber(queue)
    }

    /// Returns the frames on disk that carry the key, in the order in which they were written, from
    /// the indexes of closed segments and the current one.
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

    /// Returns the current ledger.
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

    /// Returns what waits for the destination with that index in route masks, in order of its
    /// streams' turns.
    pub fn waiting(&self, cursor: usize) -> Vec<WaitingBatch> {
        self.shared.lock().waiting(cursor)
    }

    /// Returns what each configured destination did with the record at that position of a stream.
    pub fn trace(&self, stream: StreamId, position: Position) -> Vec<RecordTrace> {
        let state = self.shared.lock();
        let now = self.shared.clock.monotonic();
        let now_ns = self.shared.clock.unix_ns();
        let unix_ns = |at: Duration| {
            let age = i64::try_from(now.saturating_sub(at).as_nanos()).unwrap_or(i64::MAX);
            now_ns.saturating_sub(age)
        };
        let active =
            |(index, cursor): (usize, &state::CursorState)| cursor.is_attached().then_some(index);
        let cursors = state.cursors.iter().enumerate().filter_map(active);
        let traces = state.traces(cursors, stream, position);
        let named = traces.into_iter().map(|(index, trace)| RecordTrace {
            destination: state.cursors[index].name.clone(),
            state: trace.state,
            observed_ns: trace.observed_ns,
            appended_ns: trace.appended_at.map(unix_ns),
            done_ns: trace.done_at.map(unix_ns),
            is_for_all: trace.is_for_all,
            is_delivered: trace.is_delivered,
        });
        named.collect()
    }

    /// Waits until everything committed so far is durable, or the disk has failed.
    pub fn flush(&self) {
        // The reason for a failure is in the ledger.
        let _ = self.shared.flush();
    }

    /// Like [`Self::flush`], but returns why it is not durable.
    pub fn try_flush(&self) -> Result<(), String> {
        self.shared.flush()
    }

    /// Ends the open segment if that frees much, since space is freed only in closed ones;
    /// otherwise it would be freed when the segment is full. What is freed is what was not needed
    /// any more at the last flush.
    pub fn free_space(&self) {
        self.shared.change(State::can_free);
    }

    /// Allows no further appends; cursors drain the rest (`ready` returns immediately).
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// Flushes positions and segments, and ends the writer thread. Call this after the cursors are
    /// done.
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
