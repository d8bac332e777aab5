//! Processes the reports of discovery: new files, renamed files, removed names and, at the start,
//! the files of the last run.
//!
//! Invariants: a file is identified independently of its name, and is followed once; the configured
//! start position is used only for files that exist at the very first start of the source; the
//! unread bytes of a file of the last run that is gone are counted.

use std::path::{Path, PathBuf};

use weir_codec::LineDecoder;
use weir_host::file_tree::{Errno, FileId, FileStat};
use weir_journal::{KnownStream, ResumePoint, StreamSpec};
use weir_model::{AbandonReason, Position, Resource, SourceBook, hash64};

use super::containers::{self, Container};
use super::discovery::{DirId, FileKey, FileLocation, Report, Sighting};
use super::engine::{Engine, Next};
use super::file::{File, Phase, ReadBefore};
use super::identity::{stream_of, verify};
use super::layout::Class;
use super::limit::TokenBucket;
use super::reader::start_of_last_line;
use super::rotation::{Generation, split_suffix};
use super::state;
use crate::config::ReadFrom;
use crate::stats::{add, get, set, shift};

/// Number of remembered copies; file ages also identify copies, except in the first milliseconds.
const COPIES_MAX: usize = 4096;

/// Returns the name of a log without the suffixes of rotation.
fn base_name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    split_suffix(name).map_or(name, |(base, _)| base)
}

impl Engine {
    /// Loads the streams of the last run.
    pub(super) fn remember(&mut self) {
        for known in self.parts.journal.known_streams(self.source) {
            if let Some(saved) = state::decode(&known.furthest.state) {
                self.inodes.entry(saved.id.inode).or_default();
            }
            self.remembered.insert(known.stream, known);
        }
    }

    /// Processes a report. Removed names come first, because a directory's index may be reused.
    pub(super) fn take_in(&mut self, report: Report) {
        let mut displaced: Vec<(FileKey, DirId)> = Vec::new();
        for (location, key) in report.gone {
            self.remove_name(key, &location);
            displaced.push((key, location.dir));
        }
        for sighting in &report.sightings {
            let key = self.displace(sighting);
            displaced.extend(key.map(|key| (key, sighting.location.dir)));
        }
        let mut fresh = Vec::new();
        for sighting in report.sightings {
            match self.followed_as(&sighting.stat.id) {
                Some(key) => self.sighted_again(key, &sighting),
                None => fresh.push(sighting),
            }
        }
        // Wanted files first: their ages determine whether a rotated sibling belongs to them.
        fresh.sort_by_key(|s| !s.class.as_ref().is_some_and(|class| class.wanted));
        for sighting in fresh {
            // The same file may have been seen under two names.
            match self.followed_as(&sighting.stat.id) {
                Some(key) => self.sighted_again(key, &sighting),
                None => self.adopt(sighting),
            }
        }
        for (key, dir) in displaced {
            self.lost_name(key, dir);
        }
        let what = "file was created and removed before it could be read";
        self.account_unseen(&report.unseen, what);
        self.account_gone(&report.vanished);
        for dir in report.described {
            for key in self.discovery.bound_in(dir) {
                self.describe_again(key);
            }
        }
    }

    /// Counts files that were gone with their directory before they could be opened. What the
    /// kernel has reported is counted by the discovery.
    fn account_gone(&mut self, vanished: &[Sighting]) {
        let is_counted = |s: &&Sighting| {
            let is_wanted = s.class.as_ref().is_some_and(|class| class.wanted);
            is_wanted && s.expected.is_none() && self.followed_as(&s.stat.id).is_none()
        };
        let unseen: Vec<PathBuf> =
            vanished.iter().filter(is_counted).map(|s| s.shown.clone()).collect();
        self.account_unseen(&unseen, "file and its directory were removed before it could be read");
    }

    /// Another file has the name now: unbinds the one that had it.
    fn displace(&mut self, sighting: &Sighting) -> Option<FileKey> {
        let key = self.discovery.bound(&sighting.location)?;
        self.id_of(key).filter(|id| *id != sighting.stat.id)?;
        self.remove_name(key, &sighting.location);
        self.discovery.unbind(&sighting.location);
        Some(key)
    }

    /// Returns the followed file with this identity.
    fn followed_as(&self, id: &FileId) -> Option<FileKey> {
        self.by_stream.get(&stream_of(id, self.source)).copied()
    }

    fn id_of(&self, key: FileKey) -> Option<FileId> {
        let parked = || self.parked.get(key).map(|file| file.id);
        self.files.get(&key).map(|file| file.id).or_else(parked)
    }

    fn remove_name(&mut self, key: FileKey, location: &FileLocation) {
        self.unpark(key);
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.remove_name(location) {
            file.locations.iter().for_each(|other| self.discovery.touch(other));
        }
    }

    fn sighted_again(&mut self, key: FileKey, sighting: &Sighting) {
        self.discovery.bind(&sighting.location, key);
        self.unpark(key);
        let now = self.now();
        let Some(file) = self.files.get_mut(&key) else { return };
        self.discovery.found(&sighting.location, file.found);
        let was_rotated = file.is_rotated();
        file.nameless_since = None;
        file.add_name(&sighting.location, sighting.class.as_ref());
        if file.is_rotated() && !was_rotated {
            file.rotated_at = Some(now);
        }
        if file.size != sighting.stat.size || file.is_rotated() != was_rotated {
            self.make_ready(key);
        }
    }

    fn lost_name(&mut self, key: FileKey, dir: DirId) {
        let now = self.now();
        if let Some(file) = self.files.get_mut(&key)
            && file.locations.is_empty()
        {
            file.nameless_since = Some((now, dir));
            file.is_sought = false;
            file.rotated_at.get_or_insert(now);
            self.make_ready(key);
        }
    }

    fn group_of(&self, class: &Class) -> u64 {
        let mut bytes = self.source.0.to_le_bytes().to_vec();
        bytes.extend_from_slice(class.group.as_bytes());
        // 0 means none.
        hash64(&bytes).max(1)
    }

    /// Returns true for a rotated sibling that the configuration does not name and that was born
    /// after a followed file of the group, or while the source was watching: a generation that
    /// appeared and was rotated between two looks. Not if it was created under such a name, or is
    /// younger than the file being written to: then it is a copy, made by a rotation that
    /// truncates.
    fn is_missed_generation(&mut self, sighting: &Sighting, group: u64) -> bool {
        let born = sighting.stat.id.born_ns;
        if sighting.is_copy && self.copies.len() < COPIES_MAX {
            self.copies.insert(sighting.stat.id);
        }
        if self.copies.contains(&sighting.stat.id) {
            return false;
        }
        self.unpark_group(group);
        let members = self.members(group);
        let members: Vec<&File> =
            members.filter_map(|key| self.files.get(&key).map(Box::as_ref)).collect();
        if born == 0 || members.iter().any(|f| !f.is_rotated() && f.id.born_ns < born) {
            return false;
        }
        let gone = self
            .remembered
            .values()
            .filter(|known| known.group == group)
            .filter_map(|known| Some(state::decode(&known.furthest.state)?.id.born_ns));
        let mut ages = members.iter().map(|f| f.id.born_ns).chain(gone).filter(|age| *age > 0);
        (!self.is_starting && self.began_ns < born) || ages.any(|age| age < born)
    }

    /// Handles a file that is not followed yet.
    fn adopt(&mut self, sighting: Sighting) {
        let stream = stream_of(&sighting.stat.id, self.source);
        let group = sighting.known_as().map(|class| self.group_of(class));
        let is_wanted = sighting.expected.is_some()
            || sighting.class.as_ref().is_some_and(|class| class.wanted);
        let is_remembered = self.remembered.contains_key(&stream);
        if !is_wanted
            && !is_remembered
            && !group.is_some_and(|group| self.is_missed_generation(&sighting, group))
        {
            return;
        }
        let container = self.describe(&sighting);
        if container.is_foreign
            || container.names.iter().any(|name| self.discovery.layout().excludes_container(name))
        {
            return self.discovery.forget_expected(&sighting.location);
        }
        let path = self.discovery.dir_path(sighting.location.dir).join(&*sighting.location.name);
        let handle = match self.open_path(&path) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return self.lost(sighting),
            Err(error) => return self.cannot_open(&path, error),
        };
        let Ok(stat) = handle.stat() else { return };
        if stat.id != sighting.stat.id {
            return self.lost(sighting);
        }
        if sighting.class.is_none() && sighting.expected.is_some() && self.has_moved(&sighting) {
            return;
        }
        self.readable_again(&path);
        let now = self.now();
        let mut file = Box::new(File::new(self.new_key(), stat.id, stream, now));
        file.handle = Some(handle);
        self.open_files += 1;
        self.name(&mut file, sighting, container.attributes);
        file.group = group.unwrap_or(0);
        file.is_old = self.is_starting;
        file.bucket = self.parts.settings.rate_limit.map(|limit| TokenBucket::new(limit, now));
        match self.remembered.remove(&stream) {
            Some(known) => self.resume(&mut file, &known, &stat),
            None if self.is_first_look && self.parts.settings.read_from == ReadFrom::End => {
                self.begin_at_end(&mut file, stat.size);
            }
            None => {}
        }
        file.backlog = if self.is_starting { stat.size } else { 0 };
        self.insert(file);
    }

    /// Returns true if the kernel has reported an event for the name, which means nothing by
    /// itself: the opened file may be a different one. The name is looked at again.
    fn has_moved(&mut self, sighting: &Sighting) -> bool {
        self.drain();
        self.discovery.is_name_touched(&sighting.location)
    }

    /// Returns true if the file existed before the source watched, so that its birth was not
    /// reported.
    fn is_older(&self, id: &FileId) -> bool {
        id.born_ns != 0 && id.born_ns < self.began_ns
    }

    /// A sighted file was gone, or another one, when it was opened.
    fn lost(&mut self, sighting: Sighting) {
        if self.is_older(&sighting.stat.id) {
            self.lost.insert(sighting.stat.id);
        }
        self.discovery.lost(sighting);
    }

    fn insert(&mut self, mut file: Box<File>) {
        let key = file.key;
        let is_new = self.by_stream.insert(file.stream, key).is_none();
        *self.inodes.entry(file.id.inode).or_default() += u32::from(is_new);
        self.groups.insert((file.group, key));
        let is_reported = self.lost.remove(&file.id) || !self.is_older(&file.id);
        for location in &file.locations {
            self.discovery.bind(location, key);
            file.found = is_reported.then(|| self.discovery.adopted(location, &file.shown));
            self.discovery.found(location, file.found);
        }
        self.files.insert(key, file);
        self.parked.watch(key, self.now());
        self.make_ready(key);
    }

    fn name(&mut self, file: &mut File, sighting: Sighting, attributes: Resource) {
        if let Some(class) = sighting.known_as() {
            file.restart = class.restart;
            file.key_of_name = hash64(class.group.as_bytes());
        }
        file.shown = sighting.shown;
        file.add_name(&sighting.location, sighting.class.as_ref());
        if sighting.class.is_none() {
            // Renamed before it was found, or since the last run: older than a file with a name.
            file.generation = Generation::Dated(String::new());
            if let Some(expected) = sighting.expected {
                file.shown = expected.shown;
            }
        }
        self.encode_resource(attributes, file);
    }

    fn describe(&self, sighting: &Sighting) -> Container {
        let dir = self.discovery.dir_path(sighting.location.dir);
        let host = &self.parts.host;
        let Some(class) = sighting.known_as() else { return Container::default() };
        match class.group.split(':').next() {
            Some("docker") => containers::docker(self.parts.tree.as_ref(), dir, host),
            Some("pod") => containers::pod(dir, class.restart, host),
            _ if self.discovery.layout().is_of_containers() => {
                let name = sighting.shown.file_name().and_then(|n| n.to_str());
                containers::link(name.unwrap_or_default())
            }
            _ => Container::default(),
        }
    }

    /// Updates the attributes when docker wrote a container's metadata after its log was found.
    fn describe_again(&mut self, key: FileKey) {
        self.unpark(key);
        let Some(mut file) = self.files.remove(&key) else { return };
        if let Some(location) = file.locations.first() {
            let dir = self.discovery.dir_path(location.dir);
            let container = containers::docker(self.parts.tree.as_ref(), dir, &self.parts.host);
            self.encode_resource(container.attributes, &mut file);
        }
        self.files.insert(key, file);
    }

    fn begin_at_end(&mut self, file: &mut File, size: u64) {
        let start =
            file.handle().and_then(|handle| start_of_last_line(handle, size).ok()).unwrap_or(size);
        if start == 0 {
            return;
        }
        file.start = start;
        file.size = start;
        file.seen = start;
        file.book.abandon(AbandonReason::SkippedAtStart, start);
        add(&self.parts.stats.bytes_seen, start);
        self.open_stream(file);
    }

    /// Resumes a file of the last run at the position in the journal.
    fn resume(&mut self, file: &mut File, known: &KnownStream, stat: &FileStat) {
        file.group = known.group;
        if !self.reopen(file, known) {
            // The current content is not what was read: it was truncated meanwhile.
            let _next_comes_with_the_first_visit = self.truncated(file);
        } else if stat.size < file.at() {
            let _next_comes_with_the_first_visit = self.truncated(file);
        }
    }

    /// Opens a known stream and restores its state. Returns false if the file's content is not what
    /// was read up to the furthest position that any destination has reached.
    fn reopen(&mut self, file: &mut File, known: &KnownStream) -> bool {
        // If no destination was further, the restored state is verified instead.
        let is_ahead = known.furthest.position != known.resume.position;
        let is_there = !file.is_unlinked && (!is_ahead || self.has_content(file, &known.furthest));
        let resume = self.parts.journal.open_stream(&StreamSpec {
            stream: known.stream,
            group: known.group,
            source: self.source,
            start: Position::default(),
            state: &[],
            book: SourceBook::default(),
            gone: !is_there,
        });
        file.is_claimed = true;
        file.phase = Phase::Following;
        let consumed = resume.book.bytes_read + resume.book.abandoned_total();
        let is_same = self.resume_at(file, resume);
        let is_reread = is_there && file.epoch == known.furthest.position.epoch;
        file.read_before.take_if(|_| !is_reread);
        let bytes = std::mem::take(&mut file.appended.state);
        if let Some(saved) = state::decode(&bytes) {
            file.size = saved.size.max(file.at());
            file.seen = saved.seen;
            if file.shown.as_os_str().is_empty() {
                file.shown = saved.path;
            }
        } else {
            file.size = file.at();
            file.seen = consumed;
        }
        file.appended.state = bytes;
        add(&self.parts.stats.bytes_seen, file.seen);
        is_same && (is_there || file.is_unlinked)
    }

    /// Returns true if the file still holds what an earlier run read up to that position.
    fn has_content(&self, file: &mut File, furthest: &ResumePoint) -> bool {
        let Some(saved) = state::decode(&furthest.state) else { return true };
        let (offset, max) = (furthest.position.offset, self.parts.settings.line_bytes_max);
        let decoder = LineDecoder::restore(saved.decoder, max, offset);
        let at = decoder.map_or(offset, |decoder| decoder.file_offset());
        let Some(handle) = file.handle() else { return true };
        let is_long_enough = handle.stat().map_or(true, |stat| stat.size >= at);
        // A file that cannot be read now is verified when it is read.
        let is_same = verify(handle, at, &saved.print).map_or(true, |memory| memory.is_some());
        file.read_before = Some(Box::new(ReadBefore { to: at, print: saved.print }));
        is_long_enough && is_same
    }

    /// Restores position, counts and state. Returns false if the file's content has changed.
    pub(super) fn resume_at(&mut self, file: &mut File, resume: ResumePoint) -> bool {
        file.appended.position = resume.position;
        file.appended.book = resume.book;
        file.book = resume.book;
        file.epoch = resume.position.epoch;
        let is_same = self.restore(file, &resume.state);
        file.appended.state = resume.state;
        is_same
    }

    /// An earlier run was further in content that is gone now: the journal counts what a
    /// destination has not received of it, and the counts are those of that position.
    pub(super) fn skip_what_is_gone(&mut self, file: &mut File) {
        if !file.is_claimed {
            return;
        }
        let Some(furthest) = self.parts.journal.skip_to_furthest(file.stream) else { return };
        let size = file.size;
        let _is_gone = self.resume_at(file, furthest);
        file.size = size.max(file.at());
        // What was seen in this run lies before that position, or is the unread part after it.
        let consumed = file.book.bytes_read + file.book.abandoned_total();
        let seen = consumed + (file.size - file.at());
        shift(&self.parts.stats.bytes_seen, file.seen, seen);
        file.seen = seen;
    }

    /// Files of the last run that were not found: the bytes that were seen and not read are
    /// counted, and open lines go to the next file of the group, or become records.
    pub(super) fn account_vanished(&mut self) {
        self.mark_handed_over();
        self.say_vanished();
        for known in std::mem::take(&mut self.remembered).into_values() {
            let now = self.now();
            let id = state::decode(&known.furthest.state).map(|saved| saved.id);
            let id = id.unwrap_or(FileId { device: 0, inode: 0, born_ns: 0 });
            let mut file = Box::new(File::new(self.new_key(), id, known.stream, now));
            file.group = known.group;
            file.is_unlinked = true;
            self.reopen(&mut file, &known);
            file.book.files_vanished += 1;
            self.encode_resource(Resource::new(), &mut file);
            if !file.has_tail() {
                self.leave_to_next(&mut file);
            }
            match self.give_up(&mut file, AbandonReason::Vanished) {
                Next::Blocked => {
                    self.groups.insert((file.group, file.key));
                    let key = file.key;
                    self.files.insert(key, file);
                    self.blocked.insert(key);
                }
                _ => self.parts.journal.close_stream(file.stream),
            }
        }
    }

    fn say_vanished(&self) {
        let path = |known: &KnownStream| Some(state::decode(&known.furthest.state)?.path);
        let Some(first) = self.remembered.values().find_map(path) else { return };
        tracing::warn!(
            files = self.remembered.len(),
            first = %first.display(),
            "files were removed while weir was not running: data written to them after their last \
             read is not counted, and totals are reported as \"at least\" from now on"
        );
    }

    /// Files with content that was never seen have no stream, or no longer have one: one is created
    /// to count them.
    pub(super) fn account_unseen(&mut self, unseen: &[PathBuf], what: &str) {
        let Some(first) = unseen.first() else { return };
        if self.files_unseen == 0 {
            tracing::warn!(file = %first.display(), "{what}; others are only counted");
        }
        let born_ns = self.parts.clock.unix_ns();
        // The clock may stand still, or go back.
        let id = FileId { device: 0, inode: self.files_unseen, born_ns };
        let stream = stream_of(&id, self.source);
        let files_unseen = unseen.len() as u64;
        self.files_unseen += files_unseen;
        self.parts.journal.open_stream(&StreamSpec {
            stream,
            group: 0,
            source: self.source,
            start: Position::default(),
            state: &[],
            book: SourceBook { files_unseen, ..SourceBook::default() },
            gone: true,
        });
        self.parts.journal.close_stream(stream);
    }

    /// A file whose successor is already known handed its open lines over before the restart.
    fn mark_handed_over(&mut self) {
        let mut handed = Vec::new();
        let groups: Vec<(u64, FileKey)> = self.groups.iter().copied().collect();
        for members in groups.chunk_by(|(a, _), (b, _)| a == b) {
            let files = members.iter().filter_map(|(_, key)| self.files.get(key));
            let files: Vec<&File> = files.map(Box::as_ref).collect();
            for file in &files {
                let continues = |other: &File| {
                    other.is_claimed && other.restart == file.restart && file.is_before(other)
                };
                if files.iter().any(|other| continues(other)) {
                    handed.push(file.key);
                }
            }
        }
        for key in handed {
            if let Some(file) = self.files.get_mut(&key) {
                file.handed_over_at = Some(file.size);
            }
        }
    }

    /// Hands open lines to the first file of the group that has not been started.
    fn leave_to_next(&mut self, file: &mut File) {
        let Some(decoder) = file.decoder.as_mut().filter(|d| !d.partials().is_empty()) else {
            return;
        };
        // Not to the log of the same container after a restart.
        let base = base_name(&file.shown);
        let members: Vec<&File> = self
            .members(file.group)
            .filter_map(|key| self.files.get(&key).map(Box::as_ref))
            .filter(|other| base_name(&other.shown) == base)
            .collect();
        if members.iter().any(|other| other.is_claimed) {
            // A younger file has them already.
            drop(decoder.take_partials());
            return;
        }
        let next =
            members.into_iter().reduce(|a, b| if b.is_before(a) { b } else { a }).map(|f| f.key);
        if let Some(next) = next.and_then(|key| self.files.get_mut(&key)) {
            next.inherited = Some(Box::new((decoder.format(), decoder.take_partials())));
        }
    }

    /// Adds what streams that are closed by now had consumed: the left side of the book of bytes
    /// starts with it, as the right side does.
    pub(super) fn base_of_bytes_seen(&mut self) {
        let ledger = self.parts.journal.ledger();
        let total = ledger
            .sources
            .iter()
            .find(|s| s.id == self.source)
            .map_or(0, |s| s.book.bytes_read + s.book.abandoned_total());
        let accepted: u64 = self
            .files
            .values()
            .map(|f| f.appended.book.bytes_read + f.appended.book.abandoned_total())
            .sum();
        let open: u64 = self.files.values().map(|f| f.seen).sum();
        let closed = total.saturating_sub(accepted);
        set(&self.parts.stats.bytes_seen, closed + open);
        debug_assert!(get(&self.parts.stats.bytes_seen) >= open, "the base is added once");
        for key in self.files.keys().copied().collect::<Vec<_>>() {
            let Some(mut file) = self.files.remove(&key) else { continue };
            self.publish_file(&mut file);
            self.files.insert(key, file);
        }
    }
}
