//! The positions of those destinations of one stream that are not done with it.
//!
//! Invariants:
//! - A destination that is not listed is either *done* (it has settled everything, and starts with
//!   whatever is appended next) or does not know the stream ([`CursorStreams::is_known_to`]). So a
//!   stream costs nothing for a destination that receives nothing from it, and a quiet stream only
//!   its own entry.
//! - Listed destinations are sorted by cursor index.

use weir_model::Position;

use super::CursorStream;

/// The positions of one stream.
#[derive(Debug, Default)]
pub(crate) struct CursorStreams {
    listed: Vec<(usize, Box<CursorStream>)>,
    /// Destinations from this index on do not know the stream.
    known: usize,
    /// Neither do these.
    unknown: Box<[usize]>,
}

impl CursorStreams {
    /// Creates positions where every destination below `known` is done, except those listed later.
    pub(crate) fn of_known(known: usize) -> Self {
        Self { known, ..Self::default() }
    }

    fn find(&self, index: usize) -> Result<usize, usize> {
        self.listed.binary_search_by_key(&index, |(index, _)| *index)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&CursorStream> {
        self.find(index).ok().map(|at| &*self.listed[at].1)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut CursorStream> {
        self.find(index).ok().map(|at| &mut *self.listed[at].1)
    }

    /// Returns the position of a destination; one that is done is listed now, starting with
    /// `begin`.
    pub(crate) fn get_or_insert(
        &mut self,
        index: usize,
        begin: impl FnOnce() -> CursorStream,
    ) -> &mut CursorStream {
        let at = self.find(index).unwrap_or_else(|at| {
            self.listed.insert(at, (index, Box::new(begin())));
            at
        });
        &mut self.listed[at].1
    }

    /// Lists a destination, which knows the stream from now on.
    pub(crate) fn set(&mut self, index: usize, place: CursorStream) {
        self.change_unknown(|unknown| unknown.retain(|unknown| *unknown != index));
        match self.find(index) {
            Ok(at) => *self.listed[at].1 = place,
            Err(at) => self.listed.insert(at, (index, Box::new(place))),
        }
    }

    /// Marks the destination as done.
    pub(crate) fn remove(&mut self, index: usize) -> Option<CursorStream> {
        let removed = self.find(index).ok().map(|at| *self.listed.remove(at).1);
        self.give_back();
        removed
    }

    /// Frees what a stream that is quiet again does not need.
    fn give_back(&mut self) {
        if self.listed.is_empty() {
            self.listed = Vec::new();
        }
    }

    fn change_unknown(&mut self, change: impl FnOnce(&mut Vec<usize>)) {
        let mut unknown = std::mem::take(&mut self.unknown).into_vec();
        change(&mut unknown);
        self.unknown = unknown.into_boxed_slice();
    }

    /// Marks the destination as not knowing the stream, although its predecessor in the slot did.
    pub(crate) fn set_unknown(&mut self, index: usize) {
        self.remove(index);
        if index < self.known && !self.unknown.contains(&index) {
            self.change_unknown(|unknown| unknown.push(index));
        }
    }

    /// Returns whether the destination knows the stream.
    pub(crate) fn is_known_to(&self, index: usize) -> bool {
        self.find(index).is_ok() || (index < self.known && !self.unknown.contains(&index))
    }

    /// Returns `of` for a destination that is listed, `done` for one that is done, and `None` for
    /// one that does not know the stream.
    pub(crate) fn position(
        &self,
        index: usize,
        of: impl FnOnce(&CursorStream) -> Position,
        done: Position,
    ) -> Option<Position> {
        let is_done = || self.is_known_to(index).then_some(done);
        self.get(index).map(of).or_else(is_done)
    }

    /// Destinations below this index know the stream, except those in [`Self::unknown`].
    pub(crate) fn known(&self) -> usize {
        self.known
    }

    /// Destinations below [`Self::known`] that do not know the stream.
    pub(crate) fn unknown(&self) -> &[usize] {
        &self.unknown
    }

    /// Introduces the stream to those of the first `cursors` destinations that do not know it.
    /// `begin` decides: list it at a position of its own, treat it as done, or leave it as it is.
    /// Returns true if any was introduced.
    pub(crate) fn introduce(
        &mut self,
        cursors: usize,
        begin: impl Fn(usize) -> StreamStart,
    ) -> bool {
        let known = self.known;
        self.known = known.max(cursors);
        let mut has_begun = false;
        let mut unknown = std::mem::take(&mut self.unknown).into_vec();
        unknown.extend(known..cursors);
        unknown.retain(|index| {
            if self.find(*index).is_ok() {
                return false;
            }
            let start = begin(*index);
            has_begun |= !matches!(start, StreamStart::None);
            match start {
                StreamStart::None => return true,
                StreamStart::Done => {}
                StreamStart::At(place) => self.set(*index, *place),
            }
            false
        });
        self.unknown = unknown.into_boxed_slice();
        has_begun
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &CursorStream)> {
        self.listed.iter().map(|(index, place)| (*index, &**place))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut CursorStream)> {
        self.listed.iter_mut().map(|(index, place)| (*index, &mut **place))
    }

    /// Keeps the listed destinations for which `keep` returns true; the others are done.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, &mut CursorStream) -> bool) {
        self.listed.retain_mut(|(index, place)| keep(*index, place));
        self.give_back();
    }
}

/// Where a destination starts with a stream that it does not know.
#[derive(Debug)]
pub(crate) enum StreamStart {
    /// It does not start.
    None,
    /// Where the destinations are that are done.
    Done,
    /// At a position of its own.
    At(Box<CursorStream>),
}
