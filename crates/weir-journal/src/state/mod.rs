//! The journal's state in memory: slots (batches), streams, cursors and books.
//!
//! No I/O here: the writer thread asks what to write, writes it, and reports back; everything is
//! decided under one lock that is held for microseconds per batch.
//!
//! Invariants:
//! - A slot lives until every destination that needs it has settled it. Its batch is in memory only
//!   while one of them may still read it there: a destination is responsible for what it holds
//!   itself ([`Status::Held`]), and neither ring nor disk keep it for that one.
//! - Per (cursor, stream) the entries are in stream order; the committed position advances only
//!   over a prefix of settled entries, and with it the cursor's committed book.
//! - `in_flight` is incremented at append and decremented at settlement, never derived.

mod append;
mod checkpoint;
mod claim;
mod compact;
mod counting;
mod cursor_streams;
mod dead;
mod destination;
mod discard;
mod due;
mod frames;
mod grow;
mod keys;
mod ledger;
mod merge;
mod parts;
mod read;
mod receipts;
mod soon;
mod stream;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_host::{DiskFile, WakeFd};
use weir_model::{Batch, Position, SourceBook, SourceId, StreamId};

use crate::index::SegmentIndex;
use crate::limits::SLOTS_MAX;
use crate::spec::{JournalConfig, Recovery, RefusedReason};
use crate::subscriber::SubscriberQueue;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use claim::RecoveredFrame;
pub(crate) use compact::{Move, MovedFrames, Rewriting};
pub(crate) use cursor_streams::{CursorStreams, StreamStart};
pub(crate) use dead::DeadRanges;
pub(crate) use destination::CursorState;
pub(crate) use due::Work;
pub(crate) use frames::Hole;
pub(crate) use keys::{Cut, Keys};
pub(crate) use merge::{Merge, MergePart, MergePass, group_by_arrival};
pub use parts::PartOutcome;
pub(crate) use parts::Parts;
pub(crate) use read::{BatchLocation, TakenBatch};
pub(crate) use receipts::{Receipt, Receipts};
pub(crate) use soon::PositionTicket;
pub(crate) use stream::{AbandonedFrames, CursorStream, OwedRows, StreamState};

/// Number of entries of a table from which on unused capacity is given back.
const SHRUNK_FROM: usize = 1024;

/// Gives back most of the capacity of a table that has lost three quarters of its entries.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > SHRUNK_FROM && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}

/// The location of a frame on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A batch that is still needed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct Slot {
    pub(crate) batch: Option<Arc<Batch>>,
    pub(crate) location: Option<Location>,
    pub(crate) stream: StreamId,
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// Number of records in the batch, for all destinations.
    pub(crate) records: u64,
    pub(crate) memory_bytes: u64,
    /// Number of cursors that have not settled it.
    pub(crate) holders: u32,
    /// How many of them may still read its bytes.
    pub(crate) readers: u32,
    pub(crate) appended_at: Duration,
    /// When its records arrived, nanoseconds since 1970; `None` if only its frame knows.
    pub(crate) observed_ns: Option<i64>,
    /// The writer is processing it.
    pub(crate) writing: bool,
    /// It must reach the disk regardless of the ring.
    pub(crate) durable: bool,
    /// Its source does not wait for that.
    pub(crate) is_soon: bool,
    /// It is in `durable_waiting`.
    pub(crate) queued: bool,
    /// It has reached the disk, and survives a crash.
    pub(crate) synced: bool,
    /// Some destination has discarded it.
    pub(crate) is_discarded: bool,
    /// Its records are also in a frame that does not count, but may be found at a start: it is not
    /// rewritten with fewer.
    pub(crate) is_copied: bool,
    /// It did not fit in one frame with its neighbors.
    pub(crate) is_unmergeable: bool,
    /// Tickets to resolve once it is durable.
    pub(crate) tickets: Vec<oneshot::Sender<Result<(), RefusedReason>>>,
}

impl Slot {
    /// Returns the batch for the writer, unless it is on disk, on its way there, or not in memory.
    fn begin_writing(&mut self) -> Option<Arc<Batch>> {
        let is_placed = self.location.is_some() || self.writing;
        let batch = self.batch.clone().filter(|_| !is_placed)?;
        self.writing = true;
        Some(batch)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Taken,
    /// The destination has its own copy and will not read it again.
    Held,
    Settled(crate::Outcome),
}

/// A batch as seen by one cursor.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// Number of records for this destination.
    pub(crate) routed: u64,
    /// Number of its records and those of all entries before it, since the stream was opened.
    pub(crate) through: u64,
    /// Positions inside it at which `furthest` is or may come to be, in order, with the records up
    /// to there counted as in `through`.
    pub(crate) inside: Vec<(Position, u64)>,
    /// Records up to here were committed before a restart, or are part of the previous entry.
    pub(crate) skip_to: Position,
    pub(crate) bytes: u64,
    pub(crate) status: Status,
    /// The keys of its records, as far as they were counted.
    pub(crate) keys: Keys,
    /// Records of it that were discarded; they are part of `routed`, not of `bytes`.
    pub(crate) cut: Cut,
    /// It also represents earlier batches, which only the destination still holds.
    pub(crate) is_joined: bool,
}

/// A configured source.
#[derive(Debug, Default)]
pub(crate) struct SourceState {
    pub(crate) name: String,
    pub(crate) folded: SourceBook,
}

/// A segment file.
#[derive(Debug)]
pub(crate) struct SegmentState {
    pub(crate) file: Arc<dyn DiskFile>,
    /// Slots of the destinations in its table of names.
    pub(crate) names: Vec<usize>,
    pub(crate) len: u64,
    pub(crate) live_frames: u64,
    pub(crate) sealed: bool,
    /// Dead frames, and how much of their space was freed.
    pub(crate) dead: DeadRanges,
    /// While it is appended to: the index that will close it.
    pub(crate) index: SegmentIndex,
    /// It ends with its index, on stable storage: only then is space in it freed.
    pub(crate) is_indexed: bool,
    /// Something in it is missing without explanation: it is set aside instead of being removed.
    pub(crate) is_strange: bool,
}

impl SegmentState {
    /// Creates the state for a new segment, or one that was found.
    pub(crate) fn new(
        file: Arc<dyn DiskFile>,
        len: u64,
        names: Vec<usize>,
        config: &JournalConfig,
    ) -> Self {
        Self {
            file,
            names,
            len,
            live_frames: 0,
            sealed: false,
            dead: DeadRanges::new(config.punch_bytes_min),
            index: SegmentIndex::default(),
            is_indexed: false,
            is_strange: false,
        }
    }
}

/// A stream that ended and is waiting to be forgotten on disk.
#[derive(Debug)]
pub(crate) struct EndedStream {
    pub(crate) stream: StreamId,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct State {
    pub(crate) config: JournalConfig,
    pub(crate) slots: BTreeMap<u64, Slot>,
    pub(crate) next_seq: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) cursors: Vec<CursorState>,
    /// Size of the batches that all destinations have taken.
    pub(crate) taken_bytes: u64,
    /// Destinations that are neither configured nor dropped.
    pub(crate) absent: Vec<usize>,
    /// Number of configured destinations.
    pub(crate) active: usize,
    /// Number of destinations that were removed while weir runs.
    pub(crate) detached: usize,
    /// Boxed, so that a table that has room to grow costs little for each.
    pub(crate) streams: HashMap<StreamId, Box<StreamState>>,
    pub(crate) sources: HashMap<SourceId, SourceState>,
    pub(crate) recovered: HashMap<StreamId, Vec<RecoveredFrame>>,
    pub(crate) segments: BTreeMap<u64, SegmentState>,
    /// Segments that were removed, but may reappear after a crash.
    pub(crate) removed: BTreeSet<u64>,
    /// Slots whose frames are in a segment that failed, and could not be read back from there.
    pub(crate) stranded: BTreeSet<(StreamId, u64)>,
    /// Those of them that some destination has discarded and that are no longer needed, with the
    /// commit of positions that makes it durable.
    pub(crate) stranded_discards: Vec<(u64, u64)>,
    /// Slots for data that cannot be read again and that only a destination holds.
    pub(crate) held_only: BTreeSet<(StreamId, u64)>,
    /// Frames that are no longer needed; their space is freed after the next flush of the cursor
    /// log, so that no position refers to data that is gone.
    pub(crate) dead: Vec<Location>,
    pub(crate) folded: Vec<EndedStream>,
    /// Streams that are forgotten while their frames may still be found on disk: those up to this
    /// segment and offset are dead.
    pub(crate) ended: HashMap<StreamId, (u64, u64)>,
    /// Frames were given up, and the cursor log does not state it yet.
    pub(crate) gave_up_frames: bool,
    /// Streams whose entry in the cursor log has changed.
    pub(crate) dirty_streams: Vec<StreamId>,
    /// The latest time to write statements that no one waits for.
    pub(crate) statements_due: Option<Duration>,
    /// New names for the cursor log.
    pub(crate) names_dirty: bool,
    /// Incremented with every destination that is new or returns; segments list the names that they
    /// were written with.
    pub(crate) names_version: u64,
    /// Slots that must be flushed and are not being written, in the order in which they were
    /// appended: if the machine stops, no frame is found without those before it.
    pub(crate) durable_waiting: BTreeSet<u64>,
    /// Size of those that someone waits for, and since when.
    pub(crate) durable_waiting_bytes: u64,
    pub(crate) durable_since: Option<Duration>,
    /// Since when one waits that no one waits for.
    pub(crate) soon_since: Option<Duration>,
    /// The commit of positions that states what is owed of batches that were given up unwritten.
    pub(crate) unstated: Option<u64>,
    /// Those who wait for positions.
    pub(crate) position_tickets: Vec<PositionTicket>,
    pub(crate) positions_since: Option<Duration>,
    /// A caller waits for positions: do not delay them to group others.
    pub(crate) flush_now: bool,
    /// Number of position commits started, and the last of them that is durable.
    pub(crate) commits_begun: u64,
    pub(crate) commits_done: u64,
    pub(crate) spill_wanted: bool,
    /// Slots to be written whether the ring is full or not, in order: they wait for destinations
    /// that were removed.
    pub(crate) spill_queue: BTreeSet<u64>,
    /// No slot before this one is in memory.
    pub(crate) spill_from: u64,
    /// Frames that were written without a flush must become durable now.
    pub(crate) sync_wanted: bool,
    /// Why frames cannot be written at the moment.
    pub(crate) frames_error: Option<String>,
    /// Frames could not be written because there was no space.
    pub(crate) is_disk_full: bool,
    /// Size of the frames that could not be written.
    pub(crate) failed_bytes: u64,
    /// Why positions cannot be written at the moment.
    pub(crate) positions_error: Option<String>,
    pub(crate) disk_retry_at: Duration,
    pub(crate) room_wakes: Arc<[WakeFd]>,
    /// They are to be woken as soon as the lock is released.
    wakes_due: bool,
    /// Size of the largest batch that was refused because the ring is full; 0 = none.
    pub(crate) ring_wanted: u64,
    /// A source was refused because it is ahead of every destination.
    pub(crate) ahead_wanted: bool,
    /// A source was refused because the disk is failing.
    pub(crate) disk_wanted: bool,
    pub(crate) subscribers: Vec<Weak<SubscriberQueue>>,
    /// Number of the next batch as seen by subscribers.
    pub(crate) next_published: u64,
    /// Every source has completed its first scan.
    pub(crate) sources_are_open: bool,
    /// Every source has appended what its streams had when it opened them.
    pub(crate) is_backlog_read: bool,
    pub(crate) closing: bool,
    /// A destination lacks disk space: the open segment is ended.
    pub(crate) space_wanted: bool,
    pub(crate) stopping: bool,
    /// Frames that could not be written were retried during shutdown.
    pub(crate) tried_at_last: bool,
    /// The writer thread has ended.
    pub(crate) stopped: bool,
    /// The journal's disk limit is nearly reached: the destination for which most is kept counts as
    /// full.
    pub(crate) is_near_limit: bool,
    pub(crate) frames_written: u64,
    /// Slots whose frames are to be read, to count their keys.
    pub(crate) to_count: BTreeSet<u64>,
    /// Some of them are being read.
    pub(crate) is_reading_keys: bool,
    pub(crate) rewriting: Rewriting,
    pub(crate) flushes: u64,
    pub(crate) recovery: Recovery,
    /// When destinations were done with their last batches.
    pub(crate) receipts: Receipts,
}

impl State {
    pub(crate) fn new(config: JournalConfig) -> Self {
        Self {
            config,
            slots: BTreeMap::new(),
            next_seq: 1,
            ring_bytes: 0,
            cursors: Vec::new(),
            taken_bytes: 0,
            absent: Vec::new(),
            active: 0,
            detached: 0,
            streams: HashMap::new(),
            sources: HashMap::new(),
            recovered: HashMap::new(),
            segments: BTreeMap::new(),
            removed: BTreeSet::new(),
            stranded: BTreeSet::new(),
            stranded_discards: Vec::new(),
            held_only: BTreeSet::new(),
            dead: Vec::new(),
            folded: Vec::new(),
            ended: HashMap::new(),
            gave_up_frames: false,
            dirty_streams: Vec::new(),
            statements_due: None,
            names_dirty: false,
            names_version: 0,
            durable_waiting: BTreeSet::new(),
            durable_waiting_bytes: 0,
            durable_since: None,
            soon_since: None,
            unstated: None,
            position_tickets: Vec::new(),
            positions_since: None,
            flush_now: false,
            commits_begun: 0,
            commits_done: 0,
            spill_wanted: false,
            spill_queue: BTreeSet::new(),
            spill_from: 0,
            sync_wanted: false,
            frames_error: None,
            is_disk_full: false,
            failed_bytes: 0,
            positions_error: None,
            disk_retry_at: Duration::ZERO,
            room_wakes: Arc::default(),
            wakes_due: false,
            ring_wanted: 0,
            ahead_wanted: false,
            disk_wanted: false,
            subscribers: Vec::new(),
            next_published: 1,
            sources_are_open: false,
            is_backlog_read: false,
            closing: false,
            space_wanted: false,
            stopping: false,
            tried_at_last: false,
            stopped: false,
            is_near_limit: false,
            frames_written: 0,
            to_count: BTreeSet::new(),
            is_reading_keys: false,
            rewriting: Rewriting::default(),
            flushes: 0,
            recovery: Recovery::default(),
            receipts: Receipts::default(),
        }
    }

    /// Returns the disk space used by segments.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|s| s.len.saturating_sub(s.dead.punched_bytes())).sum()
    }

    /// Returns the size that counts towards the limit. Frames that are being rewritten exist twice
    /// for a moment, at most a segment of them; since that frees space, the space need not be
    /// available first.
    pub(crate) fn limited_bytes(&self) -> u64 {
        self.disk_bytes().saturating_sub(self.rewriting.moved_bytes)
    }

    /// Updates the disk state after frames were added or space was freed.
    pub(crate) fn note_disk_use(&mut self) {
        let limit = self.config.bytes_max;
        let reserve = (limit / 8).max(2 * self.config.segment_bytes).min(limit / 4);
        self.is_near_limit = self.limited_bytes() > limit - reserve;
    }

    pub(crate) fn disk_error(&self) -> Option<&String> {
        self.frames_error.as_ref().or(self.positions_error.as_ref())
    }

    /// Records that one destination no longer needs the slot; the last one frees it.
    pub(crate) fn release(&mut self, seq: u64) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        debug_assert!(slot.holders > 0, "each destination releases a slot once");
        slot.holders = slot.holders.saturating_sub(1);
        if slot.holders > 0 {
            return;
        }
        let (stream, is_volatile, is_written) = (slot.stream, !slot.durable, slot.writing);
        // If only a destination held it, there are no bytes left to write.
        let has_bytes = slot.batch.is_some() || slot.location.is_some();
        let is_awaited = slot.durable && !slot.synced && has_bytes;
        let is_discarded = slot.is_discarded;
        if is_volatile {
            self.no_longer_volatile(stream);
        }
        // What was discarded, or settled after a gap, is not yet in any book that survives a crash:
        // it must be known nevertheless that it existed.
        let is_unknown = || is_discarded || self.is_behind_a_gap(stream, seq);
        let is_on_its_way = is_written || (is_awaited && is_unknown());
        if !is_on_its_way {
            self.remove_slot(seq);
        }
    }

    /// Cancels the write of a settled slot where possible. One that was settled after a gap need
    /// not reach the disk once the gap is closed. One that was discarded must, or the record of the
    /// discard must: it is all that remains if its frame never becomes safe.
    pub(crate) fn forget_settled(&mut self, stream: StreamId, seq: u64, now: Duration) {
        let slot = self.slots.get(&seq).filter(|s| s.holders == 0 && !s.writing);
        let Some(is_discarded) = slot.map(|slot| slot.is_discarded) else { return };
        if self.is_behind_a_gap(stream, seq) {
            return;
        }
        if !is_discarded {
            self.remove_slot(seq);
        } else if self.stranded.contains(&(stream, seq)) {
            self.stranded_discards.push((self.commits_begun + 1, seq));
            self.positions_since.get_or_insert(now);
        }
    }

    /// Records that all positions of the commits that were started are durable.
    pub(crate) fn positions_written(&mut self, now: Duration) {
        self.positions_error = None;
        self.commits_done = self.commits_begun;
        let done = |(commit, _): &mut (u64, u64)| *commit <= self.commits_done;
        let safe: Vec<_> = self.stranded_discards.extract_if(.., done).collect();
        for (_, seq) in safe {
            let Some(stream) = self.slots.get(&seq).map(|slot| slot.stream) else { continue };
            self.remove_slot(seq);
            self.fold_if_done(stream, now);
        }
        self.unstated = self.unstated.filter(|commit| *commit > self.commits_done);
        self.resolve_position_tickets();
    }

    /// Returns whether some destination has settled the slot, but not everything before it in its
    /// stream.
    fn is_behind_a_gap(&self, stream: StreamId, seq: u64) -> bool {
        let is_settled = |e: &Entry| matches!(e.status, Status::Settled(_));
        let has_gap = |cs: &CursorStream| {
            let at = cs.entries.partition_point(|entry| entry.seq < seq);
            cs.entries.get(at).is_some_and(|entry| entry.seq == seq)
                && !cs.entries.range(..at).all(is_settled)
        };
        self.cursor_streams(stream).any(|(_, cs)| has_gap(cs))
    }

    /// Records that one destination will no longer read the slot's bytes; after the last one they
    /// need not be in memory, unless they are being written to disk.
    pub(crate) fn stop_reading(&mut self, seq: u64) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.readers = slot.readers.saturating_sub(1);
        self.forget_if_unread(seq);
    }

    pub(crate) fn forget_if_unread(&mut self, seq: u64) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        let is_on_its_way = slot.writing || (slot.durable && !slot.synced);
        if slot.readers > 0 || is_on_its_way || slot.batch.take().is_none() {
            return;
        }
        let (stream, bytes) = (slot.stream, slot.memory_bytes);
        self.forget_memory(stream, bytes);
    }

    /// Frees a slot that every destination has settled: it needs no stable storage any more. Those
    /// who wait for that are notified, once what precedes it in the stream is just as safe: a
    /// ticket may represent the whole rest of a deleted file.
    pub(crate) fn remove_slot(&mut self, seq: u64) {
        let Some(slot) = self.slots.remove(&seq) else { return };
        // What is settled after a gap is needed again after a crash.
        let is_unproven = slot.location.is_some() && self.is_behind_a_gap(slot.stream, seq);
        if let Some(known) = self.streams.get_mut(&slot.stream) {
            known.slots -= 1;
        }
        if slot.durable && slot.location.is_none() {
            self.state_first();
        }
        self.stranded.remove(&(slot.stream, seq));
        self.held_only.remove(&(slot.stream, seq));
        if !slot.tickets.is_empty() {
            let earlier = self.unsafe_before(slot.stream, seq);
            if let Some(earlier) = earlier.and_then(|seq| self.slots.get_mut(&seq)) {
                earlier.tickets.extend(slot.tickets);
            } else {
                for ticket in slot.tickets {
                    let _nobody_waits = ticket.send(Ok(()));
                }
            }
        }
        if slot.batch.is_some() {
            self.forget_memory(slot.stream, slot.memory_bytes);
        }
        match slot.location {
            Some(at) if is_unproven => self.end_whole(at),
            at => self.dead.extend(at),
        }
    }

    /// Returns the stream's last slot before this one that must reach the disk and has not yet.
    pub(crate) fn unsafe_before(&self, stream: StreamId, seq: u64) -> Option<u64> {
        let is_unsafe = |seq: &u64| {
            let is_held = self.held_only.contains(&(stream, *seq));
            self.slots.get(seq).is_some_and(|s| s.durable && (!s.synced || is_held))
        };
        let last = |cs: &CursorStream| {
            let before = cs.entries.partition_point(|entry| entry.seq < seq);
            cs.entries.range(..before).rev().map(|entry| entry.seq).find(is_unsafe)
        };
        self.cursor_streams(stream).filter_map(|(_, cs)| last(cs)).max()
    }

    /// Returns the stream's last slot up to this one that must reach the disk and never will: only
    /// its destinations can make it safe.
    pub(crate) fn stranded_up_to(&self, stream: StreamId, seq: u64) -> Option<u64> {
        let is_durable = |seq: &u64| self.slots.get(seq).is_some_and(|s| s.durable);
        let last = |set: &BTreeSet<(StreamId, u64)>| {
            let before = set.range((stream, 0)..=(stream, seq));
            before.rev().map(|(_, seq)| *seq).find(is_durable)
        };
        last(&self.stranded).max(last(&self.held_only))
    }

    /// Records that a destination has settled what it held. If the slot still exists for others,
    /// whoever waited for it to be safe no longer waits for this destination.
    pub(crate) fn no_longer_held(&mut self, stream: StreamId, seq: u64) {
        let holds = |cs: &CursorStream| {
            let at = cs.entries.binary_search_by_key(&seq, |e| e.seq);
            at.is_ok_and(|at| cs.entries[at].status == Status::Held)
        };
        if self.cursor_streams(stream).any(|(_, cs)| holds(cs))
            || !self.held_only.remove(&(stream, seq))
        {
            return;
        }
        let slot = self.slots.get_mut(&seq).filter(|slot| slot.synced);
        let Some(tickets) = slot.map(|slot| std::mem::take(&mut slot.tickets)) else { return };
        let earlier = self.unsafe_before(stream, seq);
        if let Some(earlier) = earlier.and_then(|seq| self.slots.get_mut(&seq)) {
            earlier.tickets.extend(tickets);
            return;
        }
        for ticket in tickets {
            let _nobody_waits = ticket.send(Ok(()));
        }
    }

    pub(crate) fn forget_memory(&mut self, stream: StreamId, bytes: u64) {
        self.ring_bytes -= bytes;
        if let Some(stream) = self.streams.get_mut(&stream) {
            // The stream may have ended and started again in the meantime.
            stream.ring_bytes = stream.ring_bytes.saturating_sub(bytes);
        }
    }

    /// Returns the size below which a full ring counts as emptied: what was refused fits, with a
    /// quarter to spare.
    pub(crate) fn ring_target(&self) -> u64 {
        (self.config.ring_bytes / 4 * 3).saturating_sub(self.ring_wanted)
    }

    /// Wakes the sources after a refusal once there is enough room.
    pub(crate) fn wake_sources_if_room(&mut self) {
        let ring = self.ring_wanted > 0 && self.ring_bytes <= self.ring_target();
        let buffer = |(index, c): (usize, &CursorState)| {
            let pending_of =
                |stream| self.cursor_stream(index, stream).map_or(0, |cs| cs.pending_bytes);
            let disk_fits = || !self.is_near_limit || self.retains_most() != Some(index);
            c.blocking && c.has_room_again((self.batches_fit_again(c), disk_fits()), pending_of)
        };
        if ring || self.cursors.iter().enumerate().any(buffer) {
            self.wake_sources();
        }
    }

    /// Returns how many batches one destination may have waiting while too many wait in total.
    /// Every slot waits for a destination, so whenever there are too many, a destination that
    /// exceeds this is responsible.
    pub(crate) fn batches_share(&self) -> u64 {
        let active = self.cursors.iter().filter(|c| c.is_active()).count();
        SLOTS_MAX as u64 / active.max(1) as u64
    }

    fn batches_fit_again(&self, cursor: &CursorState) -> bool {
        let share = self.batches_share();
        self.slots.len() <= SLOTS_MAX - SLOTS_MAX / 16
            || cursor.pending_batches <= share - share / 16
    }

    /// Makes the sources retry: the holder of the lock wakes them once it is released.
    pub(crate) fn wake_sources(&mut self) {
        self.ring_wanted = 0;
        self.ahead_wanted = false;
        self.disk_wanted = false;
        for cursor in &mut self.cursors {
            cursor.blocking = false;
            cursor.buffer_wanted = 0;
            cursor.batches_wanted = false;
            cursor.disk_wanted = false;
            cursor.over_share.clear();
        }
        self.wakes_due = true;
    }

    /// Returns what to wake once the lock is released.
    pub(crate) fn take_wakes(&mut self) -> Option<Arc<[WakeFd]>> {
        std::mem::take(&mut self.wakes_due).then(|| self.room_wakes.clone())
    }

    /// Records that nothing more is appended to the stream. What an earlier run owed of it and was
    /// not appended again is lost.
    pub(crate) fn close_stream(&mut self, stream: StreamId, now: Duration) {
        // Frames that are still unclaimed are released first.
        if !self.recovered.contains_key(&stream) {
            self.skip_to_furthest(stream, now);
        }
        if let Some(known) = self.streams.get_mut(&stream) {
            known.closed = true;
        }
        self.fold_if_done(stream, now);
    }

    /// Forgets a closed stream once every destination is done with it.
    pub(crate) fn fold_if_done(&mut self, stream: StreamId, now: Duration) {
        let Some(state) = self.streams.get(&stream) else { return };
        // A frame that is still being written would reappear after a crash, and be counted again.
        let is_needed = !state.closed || state.slots > 0 || self.recovered.contains_key(&stream);
        let is_busy = |(index, cs): (usize, &CursorStream)| {
            let is_away = !self.cursors[index].is_active();
            !cs.entries.is_empty() || (is_away && cs.committed < state.checkpoint.end)
        };
        if is_needed || state.cursor_streams.iter().any(is_busy) {
            return;
        }
        let last_frame = state.last_frame();
        if let Some(source) = state.source {
            let book = state.checkpoint.book();
            self.sources.entry(source).or_default().folded.add(&book);
        }
        let ended = self.streams.remove(&stream);
        shrink(&mut self.streams);
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.divides_by_stream()) {
            cursor.parts.forget(stream.0);
        }
        let owes = |(index, cs): (usize, &CursorStream)| {
            self.cursors[index].is_active() && cs.owed_rows.rows > 0
        };
        debug_assert!(ended.is_none_or(|known| !known.cursor_streams.iter().any(owes)));
        if let Some(last) = last_frame {
            self.note_ended(stream, last);
        }
        self.folded.push(EndedStream { stream });
        self.positions_since.get_or_insert(now);
    }

    /// Records the location of a frame of the stream. When the stream ends, the frame must be known
    /// to be dead, otherwise it would reappear after a restart. (The stream may have ended while
    /// the frame was being rewritten.)
    pub(crate) fn note_frame(&mut self, stream: StreamId, location: Location) {
        let here = (location.segment, location.offset);
        if let Some(known) = self.streams.get_mut(&stream) {
            known.note_frame(here);
        } else {
            self.note_ended(stream, here);
            self.folded.push(EndedStream { stream });
        }
    }

    fn note_ended(&mut self, stream: StreamId, last: (u64, u64)) {
        if self.first_segment().is_some_and(|first| last.0 >= first) {
            self.ended.insert(stream, last);
        }
    }

    /// Returns the first segment that the next start may find.
    fn first_segment(&self) -> Option<u64> {
        let there = self.segments.first_key_value().map(|(id, _)| *id);
        there.into_iter().chain(self.removed.first().copied()).min()
    }

    /// Records that the directory was flushed: removed segments stay removed.
    pub(crate) fn removed_for_good(&mut self) {
        self.removed.clear();
        self.forget_ended();
    }

    /// Forgets ended streams, and frames that were given up, once no segment is left that may
    /// contain them.
    pub(crate) fn forget_ended(&mut self) {
        let first = self.first_segment().unwrap_or(u64::MAX);
        self.ended.retain(|_, (segment, _)| *segment >= first);
        self.rewriting.moved_frames.failed.retain(|(_, segment)| *segment >= first);
        for known in self.streams.values_mut() {
            known.forget_abandoned(first);
        }
    }

    /// Returns the conditions for which the writer thread has to be woken when they become true.
    pub(crate) fn work_signature(&self) -> [bool; 15] {
        [
            self.positions_since.is_some(),
            self.durable_since.is_some(),
            self.soon_since.is_some(),
            self.durable_waiting_bytes >= crate::limits::GROUP_BYTES,
            self.spill_wanted,
            !self.spill_queue.is_empty(),
            self.sync_wanted,
            self.flush_now,
            self.statements_due.is_some(),
            self.ring_wanted > 0,
            // If positions are waiting, it will check soon enough anyway.
            self.ahead_wanted && self.positions_since.is_none(),
            !self.dead.is_empty(),
            self.space_wanted,
            !self.to_count.is_empty(),
            self.stopping,
        ]
    }
}
