//! The fields that make up records of the cursor log and segment indexes: numbers, little-endian,
//! and length-prefixed bytes.
//!
//! Invariant: reading never fails or panics, whatever the bytes; callers verify a checksum first.

use std::sync::Arc;

use weir_model::Position;

use crate::state::Checkpoint;

/// Reads fields; every getter returns a default once the record is exhausted.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (field, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        field
    }
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let field = self.take(N);
        std::array::from_fn(|i| field.get(i).copied().unwrap_or(0))
    }
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }
    /// Returns the number of entries that follow, at most as many as there are bytes.
    pub(crate) fn count(&mut self) -> u32 {
        let count = self.u32() as usize;
        count.min(self.0.len()) as u32
    }
    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
    pub(crate) fn checkpoint(&mut self) -> Arc<Checkpoint> {
        let end = Position::new(self.u32(), self.u64());
        let book = self.bytes();
        Arc::new(Checkpoint::new(end, book, self.bytes()))
    }
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        self.take(len)
    }
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a position of a stream with what a commit there persists, as read by
/// [`Fields::checkpoint`].
pub(crate) fn put_checkpoint(out: &mut Vec<u8>, checkpoint: &Checkpoint) {
    put_u32(out, checkpoint.end.epoch);
    out.extend_from_slice(&checkpoint.end.offset.to_le_bytes());
    put_bytes(out, checkpoint.encoded_book());
    put_bytes(out, checkpoint.state());
}

/// Writes length-prefixed bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Like [`put_bytes`], for the bytes that `encode` appends.
pub(crate) fn put_encoded(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    put_u32(out, 0);
    encode(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_bounded_by_the_bytes_that_follow() {
        let mut fields = Fields(&[255, 255, 255, 255, 1, 2, 3]);
        assert_eq!(fields.count(), 3);
        assert_eq!((fields.u8(), Fields(&[7, 0]).count()), (1, 0));
    }
}
