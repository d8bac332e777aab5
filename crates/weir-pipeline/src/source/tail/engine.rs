//! The loop of one tailing source: wait, discover, read fairly, keep the timers.
//!
//! Invariants: one thread; it never waits for the journal or a destination, only for events, room
//! and timers; a round reads at most one block of each active file, so a file with heavy traffic
//! delays another by one block; while files are written to, it wakes once per `read_interval`, and
//! when idle only for the slow rescan; what it does follows from what it is told in which order,
//! never from the order of a hash table, so that a simulated history can be repeated.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_host::file_tree::FileId;
use weir_host::{Clock, FileTree, WakeFd};
use weir_journal::{Journal, KnownStream};
use weir_model::{BatchBuilder, Position, SourceId, StreamId};

use super::discovery::{Discovery, FileKey};
use super::file::{File, Phase};
use super::parked::{Followed, ParkedFiles, shrink, shrink_queue};
use crate::config::{Format, TailSettings};
use crate::rule::{RuleSwitch, Workspace};
use crate::stats::{SourceStats, add, publish_cpu, set, shift};

/// Pause before a retry (no free descriptors, a read error, a refusal whose end is not announced).
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How often directories that inotify does not watch are checked.
const UNWATCHED_PAUSE: Duration = Duration::from_secs(2);

/// Maximum error of birth times, which may be too early by a tick of the slowest common kernel.
const BIRTH_TICK_NS: i64 = 10_000_000;

/// Pause between two reads of the kernel's events while names are changing.
const NAMES_PAUSE: Duration = Duration::from_millis(5);

/// Minimum interval between updates of the statistics while there is work.
const PUBLISH_PAUSE: Duration = Duration::from_millis(200);

/// What to do with a file after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing until something happens to it.
    Idle,
    /// Visit it again: there is more to read.
    Again,
    /// Visit it at that time, or when something happens to it.
    At(Duration),
    /// Visit it when the journal has room.
    Blocked,
    /// Forget it: it is gone.
    Ended,
}

/// Dependencies and settings of a source.
pub(in crate::source) struct Parts {
    pub(in crate::source) name: String,
    pub(in crate::source) settings: TailSettings,
    pub(in crate::source) format: Format,
    pub(in crate::source) journal: Journal,
    pub(in crate::source) rules: Arc<RuleSwitch>,
    pub(in crate::source) clock: Arc<dyn Clock>,
    pub(in crate::source) tree: Arc<dyn FileTree>,
    pub(in crate::source) stats: Arc<SourceStats>,
    pub(in crate::source) wake: WakeFd,
    pub(in crate::source) stop: Arc<AtomicBool>,
    pub(in crate::source) host: String,
}

/// Maximum number of looks while names keep changing: each takes milliseconds, rotations are rarer.
pub(super) const LOOKS_MAX: u32 = 100;

/// The engine of one source.
pub(super) struct Engine {
    pub(super) parts: Parts,
    pub(super) source: SourceId,
    pub(super) discovery: Discovery,
    pub(super) files: HashMap<FileKey, Box<File>>,
    pub(super) parked: ParkedFiles,
    next_key: FileKey,
    /// By what the identity of a file results in.
    pub(super) by_stream: HashMap<StreamId, FileKey>,
    /// The files of each group.
    pub(super) groups: BTreeSet<(u64, FileKey)>,
    /// Inodes that are followed or remembered, with the number of followed files of each: one is
    /// reused while a deleted file is still read.
    pub(super) inodes: HashMap<u64, u32>,
    /// Streams of the last run whose files have not been found yet.
    pub(super) remembered: BTreeMap<StreamId, KnownStream>,
    /// When the source began to watch, nanoseconds since 1970: births of older files were not
    /// reported.
    pub(super) began_ns: i64,
    /// Files that were created under the name of a rotated sibling: copies of data that is read
    /// anyway.
    pub(super) copies: HashSet<FileId>,
    /// Files that existed before the source watched, and were gone when they were opened: they are
    /// expected like those that were reported.
    pub(super) lost: HashSet<FileId>,
    /// Files that could not be opened, each reported once.
    pub(super) unreadable: HashSet<PathBuf>,
    /// Files that appeared and disappeared unseen since the start.
    pub(super) files_unseen: u64,
    /// This is the first look of the very first start of this source.
    pub(super) is_first_look: bool,
    pub(super) is_starting: bool,
    ready: VecDeque<FileKey>,
    timers: BinaryHeap<Reverse<(Duration, FileKey)>>,
    pub(super) blocked: BTreeSet<FileKey>,
    blocked_since: Option<Duration>,
    /// Those of them that a full output or the disk has refused. A ring that is full for a moment
    /// is normal back pressure.
    pub(super) refused: HashSet<FileKey>,
    behind: HashSet<FileKey>,
    /// Files of which the journal does not have all that was in them at the start.
    with_backlog: HashSet<FileKey>,
    /// Number of files that are not read to their end for good.
    followed: u64,
    /// Size of the deleted files that are kept open.
    pub(super) unlinked_bytes: u64,
    pub(super) held_bytes: usize,
    pub(super) open_files: usize,
    pub(super) open_files_max: usize,
    pub(super) builder: BatchBuilder,
    pub(super) scratch: Option<BatchBuilder>,
    pub(super) rule_work: Workspace,
    pub(super) state_buf: Vec<u8>,
    next_drain: Duration,
    next_rescan: Duration,
    next_unwatched: Duration,
    pub(super) retry_open_at: Option<Duration>,
    published_at: Duration,
    /// False after a wait that ended without a wake-up.
    may_be_woken: bool,
}

impl Engine {
    pub(super) fn new(parts: Parts, discovery: Discovery) -> Self {
        let now = parts.clock.monotonic();
        // A quarter is left to outputs, journal and connections.
        let open_files_max = (parts.tree.descriptors_max() / 4 * 3).max(16);
        Self {
            source: SourceId::of(&parts.name),
            next_rescan: now + parts.settings.rescan_interval,
            next_unwatched: now + UNWATCHED_PAUSE,
            rule_work: Workspace::new(&parts.name),
            parts,
            discovery,
            files: HashMap::new(),
            parked: ParkedFiles::default(),
            next_key: 0,
            by_stream: HashMap::new(),
            groups: BTreeSet::new(),
            inodes: HashMap::new(),
            remembered: BTreeMap::new(),
            began_ns: 0,
            copies: HashSet::new(),
            lost: HashSet::new(),
            unreadable: HashSet::new(),
            files_unseen: 0,
            is_first_look: false,
            is_starting: true,
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            blocked: BTreeSet::new(),
            blocked_since: None,
            refused: HashSet::new(),
            behind: HashSet::new(),
            with_backlog: HashSet::new(),
            followed: 0,
            unlinked_bytes: 0,
            held_bytes: 0,
            open_files: 0,
            open_files_max,
            builder: BatchBuilder::new(Position::default()),
            scratch: None,
            state_buf: Vec::new(),
            next_drain: now,
            retry_open_at: None,
            published_at: now,
            may_be_woken: true,
        }
    }

    /// Finds existing files and opens their streams; the journal may then release unclaimed
    /// batches.
    pub(super) fn start(&mut self) {
        self.is_first_look = self.parts.journal.register_source(&self.parts.name);
        self.parts.journal.on_room(self.parts.wake.clone());
        self.remember();
        // File systems stamp births with the time of the last tick.
        self.began_ns = self.parts.clock.unix_ns() - BIRTH_TICK_NS;
        self.discovery.rescan();
        self.look();
        self.follow_names();
        self.is_first_look = false;
        self.account_vanished();
        self.base_of_bytes_seen();
        self.is_starting = false;
        let with_backlog = self.files.iter().filter(|(_, file)| file.has_backlog());
        self.with_backlog = with_backlog.map(|(key, _)| *key).collect();
        self.publish(self.now());
    }

    /// A file that was renamed while its directory was being listed may have been missed, or be
    /// known under its previous name: events that arrived since are processed before anything
    /// counts as vanished, or as older than something else.
    fn follow_names(&mut self) {
        for _ in 0..LOOKS_MAX {
            self.drain();
            self.discovery.end_turn();
            if !self.discovery.has_touched() {
                return;
            }
            self.look();
        }
    }

    /// Runs until told to stop. Calls `when_backlog_read` when the journal has every complete line
    /// that was in the files at the start, except for files that cannot be read.
    pub(super) fn run(&mut self, when_backlog_read: impl FnOnce()) {
        let mut when_backlog_read = Some(when_backlog_read);
        while !self.parts.stop.load(Ordering::Acquire) {
            self.turn();
            if self.with_backlog.is_empty()
                && let Some(report) = when_backlog_read.take()
            {
                report();
            }
            self.wait();
        }
        self.shut_down();
    }

    /// Counts events up to now, and reads files that no later run can read.
    fn shut_down(&mut self) {
        self.follow_names();
        self.read_unlinked();
        self.publish(self.now());
    }

    pub(super) fn now(&self) -> Duration {
        self.parts.clock.monotonic()
    }

    pub(super) fn new_key(&mut self) -> FileKey {
        self.next_key += 1;
        self.next_key
    }

    fn turn(&mut self) {
        let now = self.now();
        self.take_events(now);
        self.take_timers(now);
        if std::mem::replace(&mut self.may_be_woken, true) && self.parts.wake.take() {
            self.retry_blocked();
        }
        self.visit_ready();
        if self.parked.next_look().is_some_and(|at| now >= at) {
            self.park_quiet(now);
        }
        if now.saturating_sub(self.published_at) >= PUBLISH_PAUSE {
            self.publish(now);
        }
    }

    /// Visits the files that are queued now, once each.
    fn visit_ready(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else { break };
            self.visit_key(key);
        }
    }

    fn take_events(&mut self, now: Duration) {
        if now >= self.next_drain {
            let is_written = self.drain();
            self.discovery.end_turn();
            let pause = self.parts.settings.read_interval;
            if self.discovery.has_touched() {
                // Files may appear and disappear quickly: a rotation is followed closely.
                self.next_drain = now + pause.min(NAMES_PAUSE);
            } else if is_written {
                self.next_drain = now + pause;
            }
        }
        let retry = self.retry_open_at.is_some_and(|at| now >= at);
        if now >= self.next_rescan || retry {
            self.retry_open_at = None;
            self.next_rescan = now + self.parts.settings.rescan_interval;
            self.unreadable.retain(|path| self.parts.tree.stat(path).is_ok());
            self.discovery.rescan();
        } else if now >= self.next_unwatched {
            self.next_unwatched = now + UNWATCHED_PAUSE;
            self.discovery.rescan_unwatched();
        }
        if self.discovery.has_touched() {
            self.look();
            self.next_drain =
                self.next_drain.max(now + NAMES_PAUSE.min(self.parts.settings.read_interval));
        }
    }

    /// Reads the kernel's events. Returns true if files were written to; they are visited.
    pub(super) fn drain(&mut self) -> bool {
        let mut written = Vec::new();
        self.discovery.drain(&mut written);
        for key in &written {
            self.unpark(*key);
            if let Some(file) = self.files.get_mut(key) {
                file.is_written_closed = file.handle.is_none();
            }
            self.make_ready(*key);
        }
        let late = self.discovery.take_written_late();
        self.account_unseen(&late, "deleted file was written to after it was closed");
        !written.is_empty()
    }

    /// Looks at every touched name and processes what they lead to now.
    fn look(&mut self) {
        let known = Followed { inodes: &self.inodes, parked: &self.parked };
        let report = self.discovery.look(&known);
        self.take_in(report);
    }

    fn take_timers(&mut self, now: Duration) {
        while let Some(Reverse((at, key))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            // An earlier time may have been set meanwhile.
            if let Some(file) = self.files.get_mut(&key)
                && file.timer == Some(at)
            {
                file.timer = None;
                self.make_ready(key);
            }
        }
    }

    /// Queues a file for the next round.
    pub(super) fn make_ready(&mut self, key: FileKey) {
        self.unpark(key);
        if let Some(file) = self.files.get_mut(&key)
            && !file.is_queued
        {
            file.is_queued = true;
            self.ready.push_back(key);
        }
    }

    pub(super) fn retry_blocked(&mut self) {
        for key in self.blocked.iter().copied().collect::<Vec<_>>() {
            self.make_ready(key);
        }
    }

    /// Tracks the time during which at least one file could not be appended.
    fn note_blocked(&mut self, key: FileKey, is_blocked: bool) {
        if is_blocked {
            self.blocked.insert(key);
            let now = self.now();
            self.blocked_since.get_or_insert(now);
        } else if self.blocked.remove(&key)
            && self.blocked.is_empty()
            && let Some(since) = self.blocked_since.take()
        {
            let blocked = self.now().saturating_sub(since);
            add(&self.parts.stats.blocked_ns, blocked.as_nanos() as u64);
        }
        if !is_blocked {
            self.refused.remove(&key);
        }
        set(&self.parts.stats.blocked_threads, u64::from(!self.refused.is_empty()));
    }

    fn visit_key(&mut self, key: FileKey) {
        // Taken out for the visit, so that the file and the engine can both be borrowed mutably.
        let Some(mut file) = self.files.remove(&key) else { return };
        file.is_queued = false;
        let next = self.visit(&mut file);
        self.publish_file(&mut file);
        self.note_blocked(key, next == Next::Blocked);
        if next == Next::Ended {
            self.forget(&file);
            return;
        }
        self.files.insert(key, file);
        match next {
            Next::Idle | Next::Ended => {}
            Next::Again => self.make_ready(key),
            Next::At(at) => self.set_timer(key, at),
            Next::Blocked => self.set_timer(key, self.now() + RETRY_PAUSE),
        }
    }

    fn set_timer(&mut self, key: FileKey, at: Duration) {
        let Some(file) = self.files.get_mut(&key) else { return };
        // An earlier timer is sufficient, as the visit sets the next one. So there are few per
        // file.
        if file.timer.is_none_or(|set| at < set) {
            file.timer = Some(at);
            self.timers.push(Reverse((at, key)));
        }
    }

    /// Updates what is summed over all files after a visit of one.
    pub(super) fn publish_file(&mut self, file: &mut File) {
        let unread = file.unread();
        shift(&self.parts.stats.bytes_unread, file.published.unread_bytes, unread);
        file.published.unread_bytes = unread;
        let is_followed = file.phase != Phase::Finished;
        self.followed += u64::from(is_followed);
        self.followed -= u64::from(file.published.is_followed);
        file.published.is_followed = is_followed;
        self.publish_unlinked(file);
        if !file.has_backlog() {
            self.with_backlog.remove(&file.key);
        }
        let is_behind = file.has_new() || file.held.is_some();
        if !is_behind {
            file.behind_since = None;
            self.behind.remove(&file.key);
        } else if file.behind_since.is_none() {
            file.behind_since = Some(self.now());
            self.behind.insert(file.key);
        }
    }

    /// Updates the size of the deleted files that are kept open.
    pub(super) fn publish_unlinked(&mut self, file: &mut File) {
        let is_kept = file.is_unlinked && file.handle.is_some() && !file.is_given_up;
        let bytes = if is_kept { file.size } else { 0 };
        self.unlinked_bytes += bytes;
        self.unlinked_bytes -= std::mem::replace(&mut file.published.unlinked_bytes, bytes);
    }

    /// Removes a file that is permanently gone.
    pub(super) fn forget(&mut self, file: &File) {
        self.parts.journal.close_stream(file.stream);
        let is_known = self.by_stream.remove(&file.stream).is_some();
        if let Entry::Occupied(mut files) = self.inodes.entry(file.id.inode) {
            *files.get_mut() -= u32::from(is_known);
            // The inode may already belong to a younger file.
            if *files.get() == 0 {
                files.remove();
            }
        }
        self.behind.remove(&file.key);
        self.with_backlog.remove(&file.key);
        let published = &file.published;
        self.parts.stats.bytes_unread.fetch_sub(published.unread_bytes, Ordering::Relaxed);
        self.followed -= u64::from(published.is_followed);
        self.unlinked_bytes -= published.unlinked_bytes;
        if file.handle.is_some() {
            self.open_files -= 1;
        }
        self.groups.remove(&(file.group, file.key));
        shrink(&mut self.files);
        shrink(&mut self.by_stream);
        shrink(&mut self.inodes);
    }

    /// Gives back memory that was needed while many files were read.
    pub(super) fn give_back(&mut self) {
        shrink_queue(&mut self.ready);
        if self.timers.len() < self.timers.capacity() / 4 {
            self.timers.shrink_to(self.timers.len() * 2);
        }
        if self.behind.is_empty() {
            self.behind = HashSet::new();
        }
        if self.with_backlog.is_empty() {
            self.with_backlog = HashSet::new();
        }
    }

    /// Returns the files of a group, in the order in which they were found.
    pub(super) fn members(&self, group: u64) -> impl Iterator<Item = FileKey> {
        self.groups.range((group, 0)..=(group, FileKey::MAX)).map(|(_, key)| *key)
    }

    fn publish(&mut self, now: Duration) {
        self.published_at = now;
        let stats = &self.parts.stats;
        if let Some(since) = &mut self.blocked_since {
            let blocked = now.saturating_sub(std::mem::replace(since, now));
            add(&stats.blocked_ns, blocked.as_nanos() as u64);
        }
        set(&stats.files, self.followed);
        set(&stats.unreadable_files, self.unreadable.len() as u64);
        let oldest = self.behind.iter().filter_map(|key| self.files.get(key)?.behind_since).min();
        let lag = oldest.map_or(0, |since| now.saturating_sub(since).as_nanos() as u64);
        set(&stats.lag_ns, lag);
        publish_cpu(&stats.cpu_ns);
    }

    /// Waits for an event, room, a timer or the end.
    fn wait(&mut self) {
        let Some(Wait { timeout, for_events }) = self.next_wait() else { return };
        self.may_be_woken = self.discovery.wait(&self.parts.wake, for_events, timeout);
    }

    /// Returns what to wait for, and how long; `None` if there is work to do now.
    fn next_wait(&mut self) -> Option<Wait> {
        if !self.ready.is_empty() {
            return None;
        }
        let now = self.now();
        let mut until = self.next_rescan;
        if self.discovery.unwatched() > 0 {
            until = until.min(self.next_unwatched);
        } else {
            self.next_unwatched = until;
        }
        until = until.min(self.timers.peek().map_or(until, |Reverse((at, _))| *at));
        until = until.min(self.retry_open_at.unwrap_or(until));
        let is_draining = now < self.next_drain;
        if self.discovery.has_touched() {
            // A turn may have taken so long that the next one is due.
            until = until.min(self.next_drain);
        } else {
            until = until.min(self.parked.next_look().unwrap_or(until));
        }
        if is_draining {
            // Writes accumulate meanwhile: one look per interval, not one per write.
            until = until.min(self.next_drain);
        }
        let timeout = until.saturating_sub(now);
        if timeout > self.parts.settings.read_interval {
            self.publish(now);
        }
        Some(Wait { timeout, for_events: !is_draining })
    }
}

/// What an engine without work waits for, besides being woken.
#[derive(Debug, Clone, Copy)]
struct Wait {
    timeout: Duration,
    /// Events end the wait too.
    for_events: bool,
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod simulate;
