//! Which keys the waiting records of an entry have, so that a full destination discards those of
//! its heaviest key and not those of its neighbors in the same batches.
//!
//! Invariants:
//! - An entry lists at most [`ENTRY_KEYS_MAX`] keys, those with the most records in it. The others
//!   are discarded only together with the whole entry.
//! - What is cut from an entry is no longer in flight, but becomes part of the committed book with
//!   the entry: after a crash before that, these records are owed again, and counted nowhere.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use weir_model::{DiscardReason, StreamId};

use super::{Entry, State, Status};
use crate::limits::{ENTRY_BYTES_MIN, ENTRY_KEYS_MAX};

/// The keys of the waiting records of an entry.
#[derive(Debug, Default)]
pub(crate) enum Keys {
    /// They are not known.
    #[default]
    Unknown,
    /// All have this one.
    One(u64),
    Several {
        /// Keys with their number of records.
        listed: Vec<(u64, u64)>,
        /// Number of keys that are not listed.
        others: u64,
    },
}

impl Keys {
    /// Returns whether every key is known.
    pub(super) fn are_all_known(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::One(_) => true,
            Self::Several { others, .. } => *others == 0,
        }
    }

    /// Of keys with their number of records, each key once.
    pub(super) fn of(mut keys: Vec<(u64, u64)>) -> Self {
        if let [(key, _)] = keys[..] {
            return Self::One(key);
        }
        keys.sort_unstable_by_key(|(key, rows)| (Reverse(*rows), *key));
        let others = keys.len().saturating_sub(ENTRY_KEYS_MAX) as u64;
        keys.truncate(ENTRY_KEYS_MAX);
        keys.shrink_to_fit();
        Self::Several { listed: keys, others }
    }

    /// Returns the number of records that have this key, if it is listed among others.
    fn rows_of(&self, key: u64) -> u64 {
        let Self::Several { listed, .. } = self else { return 0 };
        listed.iter().find(|(other, _)| *other == key).map_or(0, |(_, rows)| *rows)
    }

    fn remove(&mut self, key: u64) {
        if let Self::Several { listed, .. } = self {
            listed.retain(|(other, _)| *other != key);
        }
    }
}

/// The records of an entry that were discarded while the others of it wait.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub(crate) rows: u64,
    /// What was charged for them.
    pub(crate) bytes: u64,
    /// All records of these keys, up to the end of the entry.
    pub(crate) keys: Vec<u64>,
}

impl Cut {
    /// Adds what was cut from an entry that is merged with this one.
    pub(super) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// What is weighed to find what a destination discards first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Group {
    /// The records of a key.
    Key(u64),
    /// Those records of a stream whose keys are not known, or that have none.
    Stream(StreamId),
}

impl Group {
    fn of(key: u64, stream: StreamId) -> Self {
        if key == 0 { Self::Stream(stream) } else { Self::Key(key) }
    }

    /// Returns the stream, if it is one.
    pub(super) fn stream(self) -> Option<StreamId> {
        match self {
            Self::Key(_) => None,
            Self::Stream(stream) => Some(stream),
        }
    }
}

/// A map by group.
pub(super) type GroupMap<T> = HashMap<Group, T, BuildHasherDefault<GroupHasher>>;

/// Mixes keys and streams, which are hashes already: each part of what waits is looked up.
#[derive(Debug, Default)]
pub(super) struct GroupHasher(u64);

impl Hasher for GroupHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The records of an entry that are discarded together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) group: Group,
    pub(super) stream: StreamId,
    pub(super) seq: u64,
    /// Their key; `None` = all records of the entry.
    key: Option<u64>,
    /// Their weight.
    pub(super) bytes: u64,
}

impl Entry {
    /// Returns the number of records that are not cut.
    pub(crate) fn left(&self) -> u64 {
        self.routed - self.cut.rows
    }

    /// Returns all of it as one part, of its stream.
    pub(super) fn as_part(&self, stream: StreamId) -> Part {
        let (seq, bytes) = (self.seq, self.bytes);
        Part { group: Group::Stream(stream), stream, seq, key: None, bytes }
    }

    /// Calls `visit` with each part of a waiting entry.
    pub(super) fn visit_parts(&self, stream: StreamId, visit: &mut impl FnMut(Part)) {
        let whole = |group| Part { group, ..self.as_part(stream) };
        let (listed, others) = match &self.keys {
            Keys::Unknown => return visit(self.as_part(stream)),
            Keys::One(key) => return visit(whole(Group::of(*key, stream))),
            Keys::Several { listed, others } => (listed, *others),
        };
        // Neither is more than 2^20. What a record weighs does not depend on what was cut.
        let whole_bytes = self.bytes + self.cut.bytes;
        let bytes_of = |rows: u64| (whole_bytes * rows / self.routed.max(1)).max(1);
        let mut unlisted = self.left();
        for (key, rows) in listed.iter().copied() {
            let (group, bytes) = (Group::of(key, stream), bytes_of(rows));
            visit(Part { key: Some(key), bytes, ..whole(group) });
            unlisted -= rows;
        }
        if unlisted > 0 {
            // As much as one of them weighs, on average: together they would outweigh every key.
            let bytes = bytes_of(unlisted.div_ceil(others.max(1)));
            visit(Part { bytes, ..self.as_part(stream) });
        }
    }
}

impl State {
    /// Discards a part of an entry that is still waiting. Returns false if there is nothing left of
    /// it.
    pub(super) fn discard_part(&mut self, index: usize, part: &Part, now: Duration) -> bool {
        let Some(cs) = self.cursor_stream(index, part.stream) else { return false };
        let Ok(at) = cs.entries.binary_search_by_key(&part.seq, |e| e.seq) else { return false };
        let entry = &cs.entries[at];
        let rows = part.key.map_or(entry.left(), |key| entry.keys.rows_of(key));
        if entry.status != Status::Waiting || rows == 0 {
            return false;
        }
        match part.key.filter(|_| rows < entry.left()) {
            Some(key) => self.cut(index, part.stream, at, key),
            None => self.discard_entry(index, part.stream, at, DiscardReason::BufferFull, now),
        }
        true
    }

    /// Discards the records of a key in a waiting entry, which has others.
    fn cut(&mut self, index: usize, stream: StreamId, at: usize, key: u64) {
        let Some((cursor, cs)) = self.reader(index, stream) else { return };
        let Some(entry) = cs.entries.get_mut(at) else { return };
        let (rows, before) = (entry.keys.rows_of(key), entry.left());
        let share = entry.bytes * (before - rows) / before.max(1);
        let freed = entry.bytes - share.max(ENTRY_BYTES_MIN).min(entry.bytes);
        entry.keys.remove(key);
        entry.cut.keys.push(key);
        entry.cut.rows += rows;
        entry.cut.bytes += freed;
        entry.bytes -= freed;
        cs.waiting_bytes -= freed;
        cs.pending_bytes -= freed;
        cursor.waiting_bytes -= freed;
        cursor.pending_bytes -= freed;
        cursor.cut_bytes += freed;
        cursor.in_flight -= rows;
        cursor.total.discarded[DiscardReason::BufferFull as usize] += rows;
    }
}
