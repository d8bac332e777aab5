//! Files that have been quiet for a while: what is kept of each is a fraction of a [`File`].
//!
//! Invariants: a file is either in `Engine::files` or parked, never both. A parked file has been
//! read to its end, and the journal has accepted everything that was read: position, counts and
//! decoder are those of the stream's last batch there, and its content is verified against the
//! fingerprint in that batch's state before anything more is read, as after a restart. Whatever
//! happens to a parked file or its group wakes it first, so nothing else distinguishes the two.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_host::TreeFile;
use weir_host::file_tree::{FileId, FileStat};
use weir_model::{Resource, SourceBook};

use super::discovery::{DirId, FileKey, FileLocation, Known};
use super::engine::Engine;
use super::file::{File, Phase};
use super::identity::stream_of;
use super::limit::TokenBucket;
use super::rotation::Generation;
use super::state;

/// How long nothing must have happened to a file before it is parked: long enough that one that is
/// written to now and then is not verified at each write.
pub(super) const PARKED_AFTER: Duration = Duration::from_secs(10);

/// Number of entries of a table from which on unused capacity is given back.
const SHRUNK_FROM: usize = 1024;

/// Gives back most of the capacity of a table that has lost three quarters of its entries.
pub(super) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > SHRUNK_FROM && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}

/// Does the same for a queue.
pub(super) fn shrink_queue<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > SHRUNK_FROM && queue.len() < queue.capacity() / 4 {
        queue.shrink_to(queue.len() * 2);
    }
}

/// What is kept of a quiet file. There may be hundreds of thousands, so whatever is the same for
/// nearly all of them is not kept for each: see [`Uncommon`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct Parked {
    pub id: FileId,
    group: u64,
    /// The first name that leads to it.
    location: FileLocation,
    /// The directory of that name, for display.
    shown_dir: Arc<Path>,
    key_of_name: u64,
    handle: Option<Box<dyn TreeFile>>,
    /// When it was last seen to grow or was read, nanoseconds (monotonic).
    grown_ns: u64,
    size: u64,
    phase: Phase,
    is_named: bool,
    is_renamed: bool,
    is_written_closed: bool,
    is_claimed: bool,
    is_drained: bool,
    is_old: bool,
    /// `None`: its only name is that of a log that is written to, and it was never truncated.
    uncommon: Option<Box<Uncommon>>,
}

/// What distinguishes a quiet file from most others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Uncommon {
    /// Its names after the first one.
    other_locations: Box<[FileLocation]>,
    /// Its path for display; `None` if it is that of the first name.
    shown: Option<PathBuf>,
    /// `None` if it follows from the path.
    resource: Option<Arc<[u8]>>,
    restart: u64,
    generation: Generation,
    rotated_at: Option<Duration>,
    /// Growth over all epochs; `None` if that is its size.
    seen: Option<u64>,
}

impl Parked {
    /// Returns the time since which it has not grown, if its descriptor may be closed.
    fn is_open_since(&self) -> Option<Duration> {
        self.handle.as_ref().map(|_| Duration::from_nanos(self.grown_ns))
    }

    /// Returns true if a sighting of this name says nothing new.
    fn is_unchanged(&self, (dir, name): (DirId, &OsStr), stat: &FileStat) -> bool {
        let is_only = self.uncommon.as_ref().is_none_or(|u| u.other_locations.is_empty());
        self.is_named
            && self.id == stat.id
            && self.size == stat.size
            && is_only
            && self.location.dir == dir
            && *self.location.name == *name
    }
}

/// The quiet files, and when others are to be looked at whether they are.
#[derive(Debug, Default)]
pub(super) struct ParkedFiles {
    files: HashMap<FileKey, Box<Parked>>,
    /// Every file that is not parked, once, with the time of the next look at it; in order.
    due: VecDeque<(Duration, FileKey)>,
}

impl ParkedFiles {
    pub(super) fn get(&self, key: FileKey) -> Option<&Parked> {
        self.files.get(&key).map(Box::as_ref)
    }

    /// Records a file that is not parked. Many are looked at in one turn.
    pub(super) fn watch(&mut self, key: FileKey, now: Duration) {
        let period = PARKED_AFTER.as_millis();
        let periods = (now + PARKED_AFTER).as_millis().div_ceil(period);
        let at = Duration::from_millis((periods * period) as u64);
        self.due.push_back((at, key));
    }

    /// Returns when to look at files next.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Returns the files whose descriptors may be closed, with the time since which each is quiet.
    pub(super) fn open(&self) -> impl Iterator<Item = (Duration, FileKey)> {
        self.files.iter().filter_map(|(key, file)| Some((file.is_open_since()?, *key)))
    }

    /// Closes the descriptor of a parked file. Returns false if there is none.
    pub(super) fn close(&mut self, key: FileKey) -> bool {
        self.files.get_mut(&key).is_some_and(|file| file.handle.take().is_some())
    }

    /// Returns the files that have no name left.
    pub(super) fn without_links(&self) -> Vec<FileKey> {
        let is_nameless = |file: &Parked| {
            let stat = file.handle.as_ref().and_then(|handle| handle.stat().ok());
            stat.is_some_and(|stat| stat.links == 0) || (file.is_renamed && !file.is_claimed)
        };
        self.files.iter().filter(|(_, file)| is_nameless(file)).map(|(key, _)| *key).collect()
    }
}

/// Returns true if nothing waits for anything in the file, and nothing has happened to it for
/// [`PARKED_AFTER`].
fn is_at_rest(file: &mut File, now: Duration) -> bool {
    let at = file.at();
    now.saturating_sub(file.grown_at.max(file.read_at)) >= PARKED_AFTER
        && !file.is_queued
        && !file.is_unlinked
        && !file.is_given_up
        && !file.is_awaited
        && !file.locations.is_empty()
        && (file.phase == Phase::Finished || !file.is_rotated())
        && file.timer.is_none()
        && file.behind_since.is_none()
        && file.held.is_none()
        && file.inherited.is_none()
        && file.handed_over_at.is_none()
        && file.split.is_none()
        && file.read_before.as_ref().is_none_or(|before| before.to <= at)
        && !file.has_backlog()
        && !file.has_partials()
        && file.unread() == 0
        && file.published.unread_bytes == 0
        && file.bucket.as_mut().is_none_or(|bucket| bucket.is_full(now))
}

impl Engine {
    /// Parks files that have been quiet for a while.
    pub(super) fn park_quiet(&mut self, now: Duration) {
        // Which file a report is about must not depend on what was forgotten.
        if self.discovery.has_touched() {
            return;
        }
        for _ in 0..self.parked.due.len() {
            let Some((_, key)) = self.parked.due.pop_front_if(|(at, _)| *at <= now) else { break };
            let Some(mut file) = self.files.remove(&key) else { continue };
            if is_at_rest(&mut file, now) && self.is_in_journal(&file) {
                self.park(*file);
            } else {
                self.files.insert(key, file);
                self.parked.watch(key, now);
            }
        }
        shrink(&mut self.files);
        shrink_queue(&mut self.parked.due);
        self.give_back();
    }

    /// Returns true if the journal has the state of the file, so that it need not be kept.
    fn is_in_journal(&mut self, file: &File) -> bool {
        if !file.is_claimed {
            let is_fresh = file.decoder.is_none() && file.book == SourceBook::default();
            return is_fresh && file.size == 0 && file.start == 0 && file.epoch == 0;
        }
        let Some(appended) = self.parts.journal.appended(file.stream) else { return false };
        let print = file.unverified.unwrap_or_else(|| file.memory.fingerprint());
        let decoder = &mut self.state_buf;
        decoder.clear();
        if let Some(of_file) = &file.decoder {
            of_file.state(decoder);
        }
        let is_same = state::decode(&appended.state)
            .is_some_and(|saved| saved.print == print && saved.decoder == *decoder);
        is_same && appended.position == file.position() && appended.book == file.book
    }

    fn park(&mut self, file: File) {
        debug_assert_eq!(stream_of(&file.id, self.source), file.stream, "it follows from the file");
        let mut locations = file.locations.into_iter();
        let Some(location) = locations.next() else { return };
        let other_locations: Box<[FileLocation]> = locations.collect();
        for location in other_locations.iter().chain([&location]) {
            self.discovery.settled(location);
        }
        let shown_dir = self.discovery.shown_dir(location.dir);
        let is_shown_there = shown_dir.join(&*location.name) == file.shown;
        let is_plain = self.resource_of(Resource::new(), &file.shown) == *file.resource;
        let uncommon = Uncommon {
            other_locations,
            shown: (!is_shown_there).then_some(file.shown),
            resource: (!is_plain).then_some(file.resource),
            restart: file.restart,
            generation: file.generation,
            rotated_at: file.rotated_at,
            seen: (file.seen != file.size).then_some(file.seen),
        };
        let parked = Parked {
            id: file.id,
            group: file.group,
            location,
            shown_dir,
            key_of_name: file.key_of_name,
            handle: file.handle,
            grown_ns: file.grown_at.max(file.read_at).as_nanos() as u64,
            size: file.size,
            phase: file.phase,
            is_named: file.is_named,
            is_renamed: file.is_renamed,
            is_written_closed: file.is_written_closed,
            is_claimed: file.is_claimed,
            is_drained: file.is_drained,
            is_old: file.is_old,
            uncommon: (uncommon != Uncommon::default()).then(|| Box::new(uncommon)),
        };
        self.parked.files.insert(file.key, Box::new(parked));
    }

    /// Makes a parked file one of `files` again, in the state in which it was parked.
    pub(super) fn unpark(&mut self, key: FileKey) {
        let Some(parked) = self.parked.files.remove(&key) else { return };
        #[cfg(test)]
        WOKEN.set(WOKEN.get() + 1);
        shrink(&mut self.parked.files);
        let now = self.now();
        let stream = stream_of(&parked.id, self.source);
        let uncommon = *parked.uncommon.unwrap_or_default();
        let mut file = Box::new(File::new(key, parked.id, stream, now));
        file.group = parked.group;
        let shown = || parked.shown_dir.join(&*parked.location.name);
        file.shown = uncommon.shown.unwrap_or_else(shown);
        let appended = self.parts.journal.appended(stream).filter(|_| parked.is_claimed);
        debug_assert_eq!(parked.is_claimed, appended.is_some(), "only this source ends the stream");
        if let Some(appended) = appended {
            // Without a descriptor, so that the content is verified at the next visit.
            self.resume_at(&mut file, appended);
            file.unverified = state::decode(&file.appended.state).map(|saved| saved.print);
        }
        let plain = || Arc::from(self.resource_of(Resource::new(), &file.shown));
        file.resource = uncommon.resource.unwrap_or_else(plain);
        file.locations.reserve_exact(1 + uncommon.other_locations.len());
        file.locations.push(parked.location);
        file.locations.extend(uncommon.other_locations);
        file.key_of_name = parked.key_of_name;
        file.restart = uncommon.restart;
        file.generation = uncommon.generation;
        file.handle = parked.handle;
        file.rotated_at = uncommon.rotated_at;
        let grown_at = Duration::from_nanos(parked.grown_ns);
        (file.grown_at, file.read_at) = (grown_at, grown_at);
        // It was read to its end, so that `examined_to` says nothing.
        (file.size, file.seen) = (parked.size, uncommon.seen.unwrap_or(parked.size));
        file.phase = parked.phase;
        file.is_named = parked.is_named;
        file.is_renamed = parked.is_renamed;
        file.is_written_closed = parked.is_written_closed;
        file.is_claimed = parked.is_claimed;
        file.is_drained = parked.is_drained;
        file.is_old = parked.is_old;
        file.published.is_followed = parked.phase != Phase::Finished;
        let limit = self.parts.settings.rate_limit;
        file.bucket = limit.map(|limit| TokenBucket::new(limit, grown_at));
        self.files.insert(key, file);
        self.parked.watch(key, now);
    }

    /// Wakes the files of a group: what happens to one of them depends on the others.
    pub(super) fn unpark_group(&mut self, group: u64) {
        for key in self.members(group).collect::<Vec<_>>() {
            self.unpark(key);
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Number of parked files that were woken, to see that simulated histories do it.
    pub(super) static WOKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What discovery asks about followed files.
pub(super) struct Followed<'a> {
    pub inodes: &'a HashMap<u64, u32>,
    pub parked: &'a ParkedFiles,
}

impl Known for Followed<'_> {
    fn has_inode(&self, inode: u64) -> bool {
        self.inodes.contains_key(&inode)
    }

    fn is_unchanged(&self, key: FileKey, name: (DirId, &OsStr), stat: &FileStat) -> bool {
        self.parked.get(key).is_some_and(|file| file.is_unchanged(name, stat))
    }
}
