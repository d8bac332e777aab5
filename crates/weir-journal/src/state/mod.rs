//! What the journal holds in memory: slots (batches), streams, cursors and books.
//!
//! No I/O here: the writer thread asks what to write, writes it, and reports back; everything is
//! decided under one lock that is held for microseconds per batch.
//!
//! Invariants:
//! - A slot lives until every destination that needs it has settled it.
//! - Per (cursor, stream) the entries stand in stream order; the committed position moves over a
//!   prefix of settled entries only, and carries the state, source book and cursor book that
//!   belong to it.
//! - `in_flight` is counted up at append and down at settlement, never derived.

mod append;
mod claim;
mod read;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use weir_host::{DiskFile, WakeFd};
use weir_model::{Batch, CursorBook, DiscardReason, Position, SourceBook, SourceId, StreamId};

use crate::spec::{
    CursorLedger, CursorSpec, JournalConfig, JournalStatus, Recovery, RefusedReason, SourceLedger,
    WhenFull,
};
use crate::subscriber::SubscriberQueue;

pub(crate) use claim::RecoveredFrame;
pub(crate) use read::{Place, Taken};

/// Where a frame stands on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// What a commit at the end of a batch persists beside the position.
#[derive(Debug, Default)]
pub(crate) struct CommitTail {
    pub(crate) end: Position,
    pub(crate) state: Box<[u8]>,
    pub(crate) book: SourceBook,
}

impl CommitTail {
    pub(crate) fn of(batch: &Batch) -> Arc<Self> {
        Arc::new(Self {
            end: batch.header().end(),
            state: batch.state().into(),
            book: batch.book(),
        })
    }
}

/// One batch that somebody still needs.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) batch: Option<Arc<Batch>>,
    pub(crate) location: Option<Location>,
    pub(crate) stream: StreamId,
    pub(crate) memory_bytes: u64,
    /// Cursors that have not settled it.
    pub(crate) holders: u32,
    pub(crate) appended_at: Duration,
    /// The writer has it in hand.
    pub(crate) writing: bool,
    /// Must reach the disk whatever the ring says.
    pub(crate) durable: bool,
    pub(crate) ticket: Option<oneshot::Sender<Result<(), RefusedReason>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Taken,
    Settled(crate::Outcome),
}

/// One batch as one cursor sees it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) tail: Arc<CommitTail>,
    /// Records for this destination.
    pub(crate) routed: u64,
    /// Records up to here were committed before a restart, or stand in the entry before.
    pub(crate) skip_to: Position,
    pub(crate) bytes: u64,
    pub(crate) status: Status,
}

/// One stream as one cursor sees it.
#[derive(Debug, Default)]
pub(crate) struct CursorStream {
    pub(crate) committed: Arc<CommitTail>,
    /// Counts as of `committed`.
    pub(crate) committed_book: CursorBook,
    pub(crate) entries: VecDeque<Entry>,
    /// Entries before this index are taken or settled.
    pub(crate) next: usize,
    pub(crate) deficit: u64,
    pub(crate) waiting_bytes: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) in_turn: bool,
    pub(crate) dirty: bool,
}

impl CursorStream {
    /// Position up to which batches have been appended for this cursor.
    fn seen(&self) -> Position {
        self.entries.back().map_or(self.committed.end, |e| e.tail.end)
    }
}

/// One required destination.
#[derive(Debug)]
pub(crate) struct CursorState {
    pub(crate) name: String,
    pub(crate) spec: Option<CursorSpec>,
    pub(crate) dropped: bool,
    /// First seen in this run.
    pub(crate) fresh: bool,
    pub(crate) streams: HashMap<StreamId, CursorStream>,
    /// Streams with waiting batches, in the order of their turns.
    pub(crate) turns: VecDeque<StreamId>,
    pub(crate) waiting_bytes: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) taken_bytes: u64,
    pub(crate) in_flight: u64,
    pub(crate) taken: u64,
    /// Counts of everything, as of now.
    pub(crate) total: CursorBook,
    /// Counts of streams that ended.
    pub(crate) folded: CursorBook,
    pub(crate) waiting_since: Duration,
    pub(crate) notify: Arc<Notify>,
    pub(crate) ready_bytes: u64,
    /// `take` found nothing it may take; wait for an acknowledgement or another stream.
    pub(crate) starved: bool,
    pub(crate) blocking: bool,
    pub(crate) dirty: Vec<StreamId>,
    /// Slots that an inactive destination still needs, with its records in them.
    pub(crate) held: Vec<(u64, u64)>,
}

impl CursorState {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            spec: None,
            dropped: false,
            fresh: true,
            streams: HashMap::new(),
            turns: VecDeque::new(),
            waiting_bytes: 0,
            pending_bytes: 0,
            taken_bytes: 0,
            in_flight: 0,
            taken: 0,
            total: CursorBook::default(),
            folded: CursorBook::default(),
            waiting_since: Duration::ZERO,
            notify: Arc::new(Notify::new()),
            ready_bytes: 0,
            starved: false,
            blocking: false,
            dirty: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.spec.is_some()
    }

    fn limit(&self) -> u64 {
        self.spec.as_ref().map_or(u64::MAX, |s| s.buffer_limit_bytes)
    }

    fn when_full(&self) -> WhenFull {
        self.spec.as_ref().map_or(WhenFull::Block, |s| s.when_full)
    }
}

/// One stream as its source sees it.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) source: Option<SourceId>,
    pub(crate) group: u64,
    pub(crate) ring_bytes: u64,
    /// Counts of everything appended.
    pub(crate) book: SourceBook,
    pub(crate) end: Position,
    pub(crate) claimed: bool,
    pub(crate) closed: bool,
}

/// One configured source.
#[derive(Debug, Default)]
pub(crate) struct SourceState {
    pub(crate) name: String,
    pub(crate) folded: SourceBook,
}

/// One segment file.
#[derive(Debug)]
pub(crate) struct SegmentState {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) len: u64,
    pub(crate) live_frames: u64,
    pub(crate) sealed: bool,
}

/// A stream that ended and is waiting to be forgotten on disk.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) stream: StreamId,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: JournalConfig,
    pub(crate) slots: BTreeMap<u64, Slot>,
    pub(crate) next_seq: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) cursors: Vec<CursorState>,
    pub(crate) streams: HashMap<StreamId, StreamState>,
    pub(crate) sources: HashMap<SourceId, SourceState>,
    pub(crate) recovered: HashMap<StreamId, Vec<RecoveredFrame>>,
    pub(crate) segments: BTreeMap<u64, SegmentState>,
    /// Frames that nobody needs any more; their space is reclaimed after the next flush of the
    /// cursor log, so that no position points behind data that is gone.
    pub(crate) dead: Vec<Location>,
    pub(crate) folded: Vec<Folded>,
    /// New names for the cursor log.
    pub(crate) names_dirty: bool,
    pub(crate) durable_waiting: VecDeque<u64>,
    pub(crate) durable_waiting_bytes: u64,
    pub(crate) durable_since: Option<Duration>,
    pub(crate) positions_since: Option<Duration>,
    pub(crate) spill_wanted: bool,
    pub(crate) disk_error: Option<String>,
    pub(crate) disk_retry_at: Duration,
    pub(crate) room_wakes: Vec<WakeFd>,
    pub(crate) room_wanted: bool,
    pub(crate) subscribers: Vec<Weak<SubscriberQueue>>,
    pub(crate) closing: bool,
    pub(crate) stopping: bool,
    pub(crate) frames_written: u64,
    pub(crate) flushes: u64,
    pub(crate) recovery: Recovery,
}

impl State {
    pub(crate) fn new(config: JournalConfig) -> Self {
        Self {
            config,
            slots: BTreeMap::new(),
            next_seq: 1,
            ring_bytes: 0,
            cursors: Vec::new(),
            streams: HashMap::new(),
            sources: HashMap::new(),
            recovered: HashMap::new(),
            segments: BTreeMap::new(),
            dead: Vec::new(),
            folded: Vec::new(),
            names_dirty: false,
            durable_waiting: VecDeque::new(),
            durable_waiting_bytes: 0,
            durable_since: None,
            positions_since: None,
            spill_wanted: false,
            disk_error: None,
            disk_retry_at: Duration::ZERO,
            room_wakes: Vec::new(),
            room_wanted: false,
            subscribers: Vec::new(),
            closing: false,
            stopping: false,
            frames_written: 0,
            flushes: 0,
            recovery: Recovery::default(),
        }
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|s| s.len).sum()
    }

    /// One destination less needs the slot; the last one frees it.
    pub(crate) fn release(&mut self, seq: u64) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.holders = slot.holders.saturating_sub(1);
        if slot.holders > 0 || slot.writing || slot.ticket.is_some() {
            return;
        }
        self.remove_slot(seq);
    }

    pub(crate) fn remove_slot(&mut self, seq: u64) {
        let Some(slot) = self.slots.remove(&seq) else { return };
        if slot.batch.is_some() {
            self.forget_memory(slot.stream, slot.memory_bytes);
        }
        self.dead.extend(slot.location);
    }

    pub(crate) fn forget_memory(&mut self, stream: StreamId, bytes: u64) {
        self.ring_bytes -= bytes;
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.ring_bytes -= bytes;
        }
    }

    /// Wakes the sources after a refusal once there is worthwhile room.
    pub(crate) fn wake_sources_if_room(&mut self) {
        if !self.room_wanted || self.ring_bytes > self.config.ring_bytes / 4 * 3 {
            return;
        }
        let still_full =
            |c: &CursorState| c.blocking && c.pending_bytes > c.limit() - c.limit() / 16;
        if self.cursors.iter().any(|c| c.blocking) && self.cursors.iter().all(still_full) {
            return;
        }
        self.wake_sources();
    }

    pub(crate) fn wake_sources(&mut self) {
        self.room_wanted = false;
        for cursor in &mut self.cursors {
            cursor.blocking = false;
        }
        for wake in &self.room_wakes {
            wake.wake();
        }
    }

    pub(crate) fn mark_dirty(&mut self, cursor: usize, stream: StreamId, now: Duration) {
        let cursor = &mut self.cursors[cursor];
        if let Some(cs) = cursor.streams.get_mut(&stream)
            && !cs.dirty
        {
            cs.dirty = true;
            cursor.dirty.push(stream);
            self.positions_since.get_or_insert(now);
        }
    }

    /// Forgets a closed stream once every destination is done with it.
    pub(crate) fn fold_if_done(&mut self, stream: StreamId, now: Duration) {
        let Some(state) = self.streams.get(&stream) else { return };
        let busy = |c: &CursorState| {
            c.streams.get(&stream).is_some_and(|cs| !cs.entries.is_empty())
                || (!c.is_active()
                    && !c.dropped
                    && c.streams.get(&stream).is_some_and(|cs| cs.committed.end < state.end))
        };
        if !state.closed || self.recovered.contains_key(&stream) || self.cursors.iter().any(busy) {
            return;
        }
        if let Some(source) = state.source {
            let book = state.book;
            self.sources.entry(source).or_default().folded.add(&book);
        }
        self.streams.remove(&stream);
        for cursor in &mut self.cursors {
            if let Some(cs) = cursor.streams.remove(&stream) {
                cursor.folded.add(&cs.committed_book);
            }
        }
        self.folded.push(Folded { stream });
        self.positions_since.get_or_insert(now);
    }

    pub(crate) fn source_ledgers(&self) -> Vec<SourceLedger> {
        let mut all: Vec<SourceLedger> = self
            .sources
            .iter()
            .map(|(id, source)| {
                let live = self.streams.values().filter(|s| s.source == Some(*id));
                let mut book = source.folded;
                let mut streams = 0;
                for stream in live {
                    book.add(&stream.book);
                    streams += 1;
                }
                SourceLedger { id: *id, name: source.name.clone(), streams, book }
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(crate) fn cursor_ledgers(&self, now: Duration) -> Vec<CursorLedger> {
        let oldest = |c: &CursorState| {
            let first = |cs: &CursorStream| {
                let entry = cs.entries.iter().find(|e| !matches!(e.status, Status::Settled(_)))?;
                Some(self.slots.get(&entry.seq)?.appended_at)
            };
            c.streams.values().filter_map(first).min()
        };
        let ledger = |(index, c): (usize, &CursorState)| CursorLedger {
            name: c.name.clone(),
            index,
            active: c.is_active(),
            when_full: c.when_full(),
            book: c.total,
            in_flight: c.in_flight,
            taken: c.taken,
            pending_bytes: c.pending_bytes,
            buffer_limit_bytes: c.limit(),
            lag_seconds: oldest(c).map_or(0.0, |at| now.saturating_sub(at).as_secs_f64()),
            blocking: c.blocking,
        };
        self.cursors.iter().enumerate().filter(|(_, c)| !c.dropped).map(ledger).collect()
    }

    pub(crate) fn status(&self) -> JournalStatus {
        JournalStatus {
            ring_bytes: self.ring_bytes,
            ring_limit_bytes: self.config.ring_bytes,
            disk_bytes: self.disk_bytes(),
            disk_limit_bytes: self.config.limit_bytes,
            segments: self.segments.len() as u64,
            frames_written: self.frames_written,
            flushes: self.flushes,
            disk_error: self.disk_error.clone(),
            recovery: self.recovery.clone(),
        }
    }

    /// Forgets a destination that is no longer configured; what it still needed is discarded.
    pub(crate) fn drop_cursor(&mut self, name: &str, now: Duration) -> bool {
        let inactive = |c: &CursorState| c.name == name && !c.dropped && !c.is_active();
        let Some(index) = self.cursors.iter().position(inactive) else { return false };
        let cursor = &mut self.cursors[index];
        cursor.dropped = true;
        let held = std::mem::take(&mut cursor.held);
        let streams: Vec<StreamId> = cursor.streams.keys().copied().collect();
        for (seq, routed) in held {
            let cursor = &mut self.cursors[index];
            cursor.in_flight -= routed;
            cursor.total.discarded[DiscardReason::CursorDropped as usize] += routed;
            self.release(seq);
        }
        for stream in streams {
            self.fold_if_done(stream, now);
        }
        self.names_dirty = true;
        self.positions_since.get_or_insert(now);
        true
    }

    /// What the writer thread may have to be woken for.
    pub(crate) fn work_signature(&self) -> (bool, bool, bool, bool, bool) {
        (
            self.positions_since.is_some(),
            self.durable_since.is_some(),
            self.durable_waiting_bytes >= crate::limits::GROUP_BYTES,
            self.spill_wanted,
            self.stopping,
        )
    }
}
