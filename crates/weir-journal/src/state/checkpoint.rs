//! A place in a stream, with what is persisted for it besides the position.
//!
//! Each waiting batch, and several places of each stream, have one: it is kept encoded, as most of
//! the counts of a book are zero.

use std::sync::Arc;

use weir_model::{Batch, Position, SourceBook};

/// What a commit at the end of a batch persists.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) end: Position,
    book_len: u32,
    /// The encoded book, followed by the state.
    bytes: Box<[u8]>,
}

impl Checkpoint {
    /// Creates a checkpoint with a book as [`SourceBook::encode`] encodes it.
    pub(crate) fn new(end: Position, encoded_book: &[u8], state: &[u8]) -> Self {
        let bytes = [encoded_book, state].concat().into_boxed_slice();
        Self { end, book_len: encoded_book.len() as u32, bytes }
    }

    /// Creates a checkpoint for a position about which nothing else is known.
    pub(crate) fn at(end: Position) -> Self {
        Self { end, ..Self::default() }
    }

    pub(crate) fn of(batch: &Batch) -> Arc<Self> {
        Arc::new(Self::new(batch.header().end(), batch.encoded_book(), batch.state()))
    }

    /// Returns the counts of the stream up to there.
    pub(crate) fn book(&self) -> SourceBook {
        SourceBook::decode(self.encoded_book())
    }

    pub(crate) fn encoded_book(&self) -> &[u8] {
        &self.bytes[..self.book_len as usize]
    }

    /// Returns what the source needs, besides the position, to resume there.
    pub(crate) fn state(&self) -> &[u8] {
        &self.bytes[self.book_len as usize..]
    }
}
