//! Where the destinations of one stream are that are not done with it.
//!
//! Invariants:
//! - A destination that is not listed is either *done* (it has settled everything, and what is
//!   appended next begins where it is) or has never heard of the stream ([`Places::is_known_to`]).
//!   So a stream costs nothing for a destination that gets nothing of it, and a quiet stream
//!   nothing but itself.
//! - Listed ones stand in the order of their cursor indexes.

use weir_model::Position;

use super::CursorStream;

/// The places of one stream.
#[derive(Debug, Default)]
pub(crate) struct Places {
    listed: Vec<(usize, Box<CursorStream>)>,
    /// Destinations from this index on have not heard of the stream.
    known: usize,
    /// Nor have these.
    unknown: Vec<usize>,
}

impl Places {
    /// Every destination below `known` is done, but for those listed afterwards.
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

    /// The place of a destination; one that is done is listed now, as `begin` says.
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

    /// Lists a destination, which knows the stream now.
    pub(crate) fn set(&mut self, index: usize, place: CursorStream) {
        self.unknown.retain(|unknown| *unknown != index);
        match self.find(index) {
            Ok(at) => *self.listed[at].1 = place,
            Err(at) => self.listed.insert(at, (index, Box::new(place))),
        }
    }

    /// The destination is done.
    pub(crate) fn remove(&mut self, index: usize) -> Option<CursorStream> {
        self.find(index).ok().map(|at| *self.listed.remove(at).1)
    }

    /// The destination has never heard of the stream, though others of its index had.
    pub(crate) fn set_unknown(&mut self, index: usize) {
        self.remove(index);
        if index < self.known && !self.unknown.contains(&index) {
            self.unknown.push(index);
        }
    }

    /// Whether the destination has heard of the stream.
    pub(crate) fn is_known_to(&self, index: usize) -> bool {
        self.find(index).is_ok() || (index < self.known && !self.unknown.contains(&index))
    }

    /// What `of` says of a destination that is listed, `done` for one that is done; `None` for one
    /// that has not heard of the stream.
    pub(crate) fn position(
        &self,
        index: usize,
        of: impl FnOnce(&CursorStream) -> Position,
        done: Position,
    ) -> Option<Position> {
        let is_done = || self.is_known_to(index).then_some(done);
        self.get(index).map(of).or_else(is_done)
    }

    /// Destinations below this index know the stream, but for [`Self::unknown`].
    pub(crate) fn known(&self) -> usize {
        self.known
    }

    /// Destinations below [`Self::known`] that have not heard of the stream.
    pub(crate) fn unknown(&self) -> &[usize] {
        &self.unknown
    }

    /// Tells those of the first `cursors` destinations that have not heard of the stream where they
    /// begin: `begin` lists one that does not begin where the others are done, makes one known that
    /// does, or leaves it as it is. True when any begins.
    pub(crate) fn introduce(
        &mut self,
        cursors: usize,
        begin: impl Fn(usize) -> Introduction,
    ) -> bool {
        let known = self.known;
        self.known = known.max(cursors);
        let mut has_begun = false;
        let mut unknown = std::mem::take(&mut self.unknown);
        unknown.extend(known..cursors);
        unknown.retain(|index| {
            if self.find(*index).is_ok() {
                return false;
            }
            let introduction = begin(*index);
            has_begun |= !matches!(introduction, Introduction::None);
            match introduction {
                Introduction::None => return true,
                Introduction::Done => {}
                Introduction::At(place) => self.set(*index, *place),
            }
            false
        });
        self.unknown = unknown;
        has_begun
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &CursorStream)> {
        self.listed.iter().map(|(index, place)| (*index, &**place))
    }

    /// Keeps those listed for which `keep` says so; the others are done.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, &mut CursorStream) -> bool) {
        self.listed.retain_mut(|(index, place)| keep(*index, place));
    }
}

/// Where a destination begins with a stream of which it has not heard.
#[derive(Debug)]
pub(crate) enum Introduction {
    /// It does not.
    None,
    /// Where those are that are done.
    Done,
    /// At a place of its own.
    At(Box<CursorStream>),
}
