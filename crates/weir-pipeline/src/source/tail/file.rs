//! A followed file: its read position, its counts, and its state in the journal.
//!
//! Invariants: `seen` grows only with what stat reports, `book` only with what was consumed or
//! given up, so that `seen = read + abandoned + unread` can be checked; a batch that the journal
//! refused is the only data held, and everything after `appended` can be read again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_codec::{Format, LineDecoder, Partials};
use weir_host::TreeFile;
use weir_host::file_tree::FileId;
use weir_model::{Batch, Position, SourceBook, StreamId};

use super::discovery::{DirId, FileKey, FileLocation, FirstSighting};
use super::identity::{Fingerprint, RememberedContent};
use super::layout::Class;
use super::limit::TokenBucket;
use super::rotation::Generation;
use super::state;

/// Phase in the life of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has been read; it may be waiting for older files of its group.
    New,
    /// It is read as it grows.
    Following,
    /// It was rotated and read to its end. Growth makes it `Following` again.
    Finished,
}

/// What the journal has accepted of a file.
#[derive(Debug, Default)]
pub(super) struct AppendedState {
    /// End of the last accepted batch.
    pub position: Position,
    /// Counts as of that position.
    pub book: SourceBook,
    /// State as of that position.
    pub state: Vec<u8>,
}

/// What a file contributes to the sums over all files of its source, as of its last visit.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Unread bytes.
    pub unread_bytes: u64,
    /// It counts as followed.
    pub is_followed: bool,
    /// Its size, if it is deleted and kept open.
    pub unlinked_bytes: u64,
}

/// Content that an earlier run had read, in the same epoch, while some destination still needs it:
/// it is read again, and must be the same for as long as that takes.
#[derive(Debug)]
pub(super) struct ReadBefore {
    /// Offset after it.
    pub to: u64,
    /// Fingerprint of the content before that offset.
    pub print: Fingerprint,
}

/// The format of a file, and its open lines.
pub(super) type Inherited = (Format, Partials);

/// A followed file.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct File {
    pub key: FileKey,
    pub id: FileId,
    pub stream: StreamId,
    pub group: u64,
    /// Names that lead to it. The first one determines the generation, if `is_named`.
    pub locations: Vec<FileLocation>,
    /// The layout recognizes the first name.
    pub is_named: bool,
    /// Order within the group: first restarts of the container, then generations.
    pub restart: u64,
    pub generation: Generation,
    /// It was renamed to a name that the layout does not recognize.
    pub is_renamed: bool,
    pub shown: PathBuf,
    pub resource: Arc<[u8]>,
    /// Resource key from the name of the program that writes the file; 0 = unknown.
    pub key_of_name: u64,

    pub handle: Option<Box<dyn TreeFile>>,
    /// It was written to since it was closed, and has not been opened since.
    pub is_written_closed: bool,
    pub phase: Phase,
    /// It has no name left: undelivered data must be made durable.
    pub is_unlinked: bool,
    /// When it lost its active name (monotonic).
    pub rotated_at: Option<Duration>,

    pub epoch: u32,
    /// Where reading starts, while there is no decoder yet.
    pub start: u64,
    pub decoder: Option<LineDecoder>,
    /// Lines handed over before the decoder could be created.
    pub inherited: Option<Box<Inherited>>,
    /// Offset up to which it had been read when its open lines were handed over.
    pub handed_over_at: Option<u64>,
    pub memory: RememberedContent,
    /// What the content before the next byte to read must be, if it could not be read when that was
    /// to be verified: nothing is read before it was.
    pub unverified: Option<Fingerprint>,
    pub book: SourceBook,
    pub read_before: Option<Box<ReadBefore>>,
    /// Length at the last look.
    pub size: u64,
    /// Growth over all epochs.
    pub seen: u64,
    /// Up to here there is nothing more to decode until the file grows.
    pub examined_to: u64,
    /// Its length when it was found, if that was at the start of the source: what is in it up to
    /// there is the source's backlog. 0 if there is none, or nobody waits for it any more.
    pub backlog: u64,

    pub appended: AppendedState,
    pub held: Option<Box<Batch>>,
    pub bucket: Option<TokenBucket>,
    /// When growth was last seen (monotonic).
    pub grown_at: Duration,
    /// When bytes of it were last consumed (monotonic). Long after `grown_at` if there is a
    /// backlog.
    pub read_at: Duration,
    /// Since when there has been something to read (monotonic).
    pub behind_since: Option<Duration>,
    /// Its part of the sums over all files.
    pub published: Published,
    pub is_queued: bool,
    /// The time for which a timer is set.
    pub timer: Option<Duration>,
    /// A younger file of the group waits until this one is read to its end.
    pub is_awaited: bool,
    /// It has been read to its end since a younger file of the group had data.
    pub is_drained: bool,
    /// Since when no name has led to it (monotonic), and the directory of its last name.
    pub nameless_since: Option<(Duration, DirId)>,
    /// That directory was listed once more.
    pub is_sought: bool,
    /// Number of consecutive looks at changing names for which its start was postponed.
    pub looks: u32,
    /// The journal knows the stream.
    pub is_claimed: bool,
    /// Its unread bytes must be abandoned.
    pub is_given_up: bool,
    /// The last block resulted in more than fits in a frame: the next one is limited to this many
    /// bytes, and ends after a line.
    pub split: Option<usize>,
    /// Growth seen by the last look.
    pub last_growth: u64,
    /// How it was found.
    pub found: Option<FirstSighting>,
    /// It existed when the source started, or its discovery delay has already been counted.
    pub is_old: bool,
}

impl File {
    /// Returns the key of the resource of the file's records: from the writing program's name or,
    /// if unknown, the group or the stream.
    pub(super) fn resource_key(&self) -> u64 {
        [self.key_of_name, self.group].into_iter().find(|key| *key != 0).unwrap_or(self.stream.0)
    }

    /// Creates a file of which nothing was read yet.
    pub(super) fn new(key: FileKey, id: FileId, stream: StreamId, now: Duration) -> Self {
        Self {
            key,
            id,
            stream,
            group: 0,
            locations: Vec::new(),
            is_named: false,
            restart: 0,
            generation: Generation::Active,
            is_renamed: false,
            shown: PathBuf::new(),
            resource: Arc::from([]),
            key_of_name: 0,
            handle: None,
            is_written_closed: false,
            phase: Phase::New,
            is_unlinked: false,
            rotated_at: None,
            epoch: 0,
            start: 0,
            decoder: None,
            inherited: None,
            handed_over_at: None,
            memory: RememberedContent::default(),
            unverified: None,
            book: SourceBook::default(),
            read_before: None,
            size: 0,
            seen: 0,
            examined_to: 0,
            backlog: 0,
            appended: AppendedState::default(),
            held: None,
            bucket: None,
            grown_at: now,
            read_at: now,
            behind_since: None,
            published: Published::default(),
            is_queued: false,
            timer: None,
            is_awaited: false,
            is_drained: false,
            nameless_since: None,
            is_sought: false,
            looks: 0,
            is_claimed: false,
            is_given_up: false,
            split: None,
            last_growth: 0,
            found: None,
            is_old: false,
        }
    }

    /// Records a name that leads to it. Of several names, the one that is written to, or else the
    /// youngest generation, says what the file is: a log that also has another name is not rotated.
    pub(super) fn add_name(&mut self, location: &FileLocation, class: Option<&Class>) {
        let at = self.locations.iter().position(|known| known == location);
        let at = at.unwrap_or_else(|| {
            // Nearly all have one name.
            self.locations.reserve_exact(1);
            self.locations.push(location.clone());
            self.locations.len() - 1
        });
        let decides = |generation: &Generation| *generation > self.generation;
        if self.is_named && at > 0 && !class.is_some_and(|class| decides(&class.generation)) {
            return;
        }
        self.is_named = class.is_some();
        self.is_renamed = class.is_none();
        if let Some(class) = class {
            self.generation = class.generation.clone();
            self.locations.swap(0, at);
        }
    }

    /// Records that a name no longer leads to it. Returns true if the other names must be looked at
    /// again, to know what the file is now.
    pub(super) fn remove_name(&mut self, location: &FileLocation) -> bool {
        let Some(at) = self.locations.iter().position(|known| known == location) else {
            return false;
        };
        self.locations.remove(at);
        if at > 0 {
            return false;
        }
        self.is_named = false;
        !self.locations.is_empty()
    }

    /// Returns the open file.
    pub(super) fn handle(&self) -> Option<&dyn TreeFile> {
        self.handle.as_deref()
    }

    /// Returns the offset in the file of the next byte to read.
    pub(super) fn at(&self) -> u64 {
        self.decoder.as_ref().map_or(self.start, LineDecoder::file_offset)
    }

    /// Returns the position of the stream after everything consumed.
    pub(super) fn position(&self) -> Position {
        let offset = self.decoder.as_ref().map_or(self.start, LineDecoder::position);
        Position::new(self.epoch, offset)
    }

    /// Returns the number of bytes that the journal has not accepted, as of the last look.
    pub(super) fn unread(&self) -> u64 {
        let accepted = self.appended.book.bytes_read + self.appended.book.abandoned_total();
        let taken = self.book.bytes_read + self.book.abandoned_total();
        self.size.saturating_sub(self.at()) + (taken - accepted)
    }

    /// Returns true if there are bytes that have not been looked at yet.
    pub(super) fn has_new(&self) -> bool {
        self.size > self.at().max(self.examined_to)
    }

    /// Returns true if the journal does not have all complete lines of the source's backlog that
    /// are in the file.
    pub(super) fn has_backlog(&self) -> bool {
        self.backlog > 0 && (self.held.is_some() || self.backlog > self.at().max(self.examined_to))
    }

    /// Returns true if the file ends within a line.
    pub(super) fn has_tail(&self) -> bool {
        self.size > self.at()
    }

    /// Returns true if lines of the container wait for their rest, or records for further lines.
    pub(super) fn has_partials(&self) -> bool {
        self.decoder.as_ref().is_some_and(|d| !d.partials().is_empty())
    }

    /// Returns true if lines wait for their rest, not counting records that wait for further lines.
    pub(super) fn has_partial_lines(&self) -> bool {
        self.decoder.as_ref().is_some_and(|d| d.partials().has_lines())
    }

    /// Returns true if records wait for further lines.
    pub(super) fn has_records(&self) -> bool {
        self.decoder.as_ref().is_some_and(|d| d.partials().has_records())
    }

    /// Removes the open lines, to hand them to the next file of the container; rewinding to what
    /// the journal has does not bring them back.
    pub(super) fn take_partials(&mut self) -> Option<Box<Inherited>> {
        let decoder = self.decoder.as_mut()?;
        let taken = (decoder.format(), decoder.take_partials());
        if self.held.is_none() && self.appended.position == self.position() {
            let mut state = std::mem::take(&mut self.appended.state);
            self.encode_state(&mut state);
            self.appended.state = state;
        }
        Some(Box::new(taken))
    }

    /// Returns true if it was read to its end since a younger file of the group had data.
    pub(super) fn is_read_to_end(&self) -> bool {
        self.phase == Phase::Finished || self.is_drained
    }

    /// Returns true if it no longer has the name that is written to.
    pub(super) fn is_rotated(&self) -> bool {
        self.locations.is_empty() || self.is_renamed || self.generation != Generation::Active
    }

    /// Returns true if it comes before `other` in their group. Generations of one container are
    /// created one after the other; names give the same order only as long as they are not changed
    /// between two looks. (Where the file system does not record births, they are all 0 and names
    /// decide.)
    pub(super) fn is_before(&self, other: &Self) -> bool {
        // Without a name, or renamed by hand: older than a file with a name. Then by generation.
        let by_name = |f: &Self| (!f.locations.is_empty(), !f.is_renamed);
        self.restart
            .cmp(&other.restart)
            .then_with(|| self.id.born_ns.cmp(&other.id.born_ns))
            .then_with(|| by_name(self).cmp(&by_name(other)))
            .then_with(|| self.generation.cmp(&other.generation))
            .then_with(|| self.key.cmp(&other.key))
            .is_lt()
    }

    /// Encodes the current resume state.
    pub(super) fn encode_state(&self, out: &mut Vec<u8>) {
        out.clear();
        let print = self.memory.fingerprint();
        state::encode(self.id, self.size, self.seen, &print, &self.shown, out);
        if let Some(decoder) = &self.decoder {
            decoder.state(out);
        }
    }

    /// Starts a new epoch: offsets restart at 0. Open lines of the container are kept.
    pub(super) fn begin_epoch(&mut self, line_bytes_max: usize) {
        self.epoch += 1;
        self.start = 0;
        self.size = 0;
        self.examined_to = 0;
        self.backlog = 0;
        self.read_before = None;
        self.memory = RememberedContent::default();
        self.unverified = None;
        if let Some(old) = &mut self.decoder {
            let partials = old.take_partials();
            let mut fresh = LineDecoder::new(old.format(), line_bytes_max, 0);
            fresh.set_multiline(old.multiline().cloned());
            fresh.adopt_partials(partials, &mut self.book);
            *old = fresh;
        }
    }

    /// Skips bytes without decoding them; the caller counts them.
    pub(super) fn skip(&mut self, bytes: u64, line_bytes_max: usize) {
        self.memory.jumped();
        self.start += bytes;
        let skipped = bytes;
        let Some(decoder) = &mut self.decoder else { return };
        let mut bytes = Vec::new();
        decoder.state(&mut bytes);
        let position = decoder.position() + skipped;
        // A state that a decoder wrote itself can always be restored.
        if let Ok(mut moved) = LineDecoder::restore(&bytes, line_bytes_max, position) {
            moved.set_multiline(decoder.multiline().cloned());
            *decoder = moved;
        }
    }
}
