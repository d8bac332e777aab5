//! The identity of a file, independent of its name.
//!
//! Invariants: a file is identified by its device, inode and birth time; content only shows whether
//! the *same* file was truncated and rewritten (its offsets then restart in a new epoch). Content
//! is never an identity: files with equal heads and empty files are distinguished.

use std::io::IoSliceMut;

use weir_host::TreeFile;
use weir_host::file_tree::{Errno, FileId};
use weir_model::{SourceId, StreamId, hash64};

/// Number of bytes at the beginning of a file that are remembered as a hash.
pub(super) const HEAD_BYTES: usize = 1024;

/// Number of bytes just before the offset that are compared at every read, and remembered as a
/// hash.
pub(super) const WINDOW_BYTES: usize = 128;

/// Returns the stream of a file's content.
pub(super) fn stream_of(id: &FileId, source: SourceId) -> StreamId {
    let mut bytes = [0; 32];
    let parts = [source.0, id.device, id.inode, id.born_ns.cast_unsigned()];
    for (slot, part) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(parts) {
        *slot = part.to_le_bytes();
    }
    StreamId(hash64(&bytes))
}

/// Hashes of the content before an offset, to detect that it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fingerprint {
    /// Bytes at the beginning that `head_hash` covers.
    pub head_len: u16,
    /// Hash of these bytes.
    pub head_hash: u64,
    /// Bytes before the offset that `window_hash` covers.
    pub window_len: u16,
    /// Hash of these bytes.
    pub window_hash: u64,
}

/// The remembered content of an open file.
#[derive(Debug, Default)]
pub(super) struct RememberedContent {
    /// The beginning, until [`HEAD_BYTES`] of it are known; then only its hash.
    head: Vec<u8>,
    head_len: u16,
    head_hash: u64,
    /// The last bytes before the offset.
    window: Vec<u8>,
}

impl RememberedContent {
    /// Returns the bytes before the next byte to read.
    pub(super) fn window(&self) -> &[u8] {
        &self.window
    }

    /// Restores the content that a [`Fingerprint`] covers, after it was verified against the file.
    pub(super) fn resume(print: &Fingerprint, head: &[u8], window: &[u8]) -> Self {
        let mut memory = Self { window: window.to_vec(), ..Self::default() };
        if usize::from(print.head_len) >= HEAD_BYTES {
            memory.head_len = print.head_len;
            memory.head_hash = print.head_hash;
        } else {
            memory.see_head(head);
        }
        memory
    }

    /// Records that `bytes`, which begin at `offset`, were consumed.
    pub(super) fn consumed(&mut self, offset: u64, bytes: &[u8]) {
        let known = usize::from(self.head_len);
        if known < HEAD_BYTES && offset == known as u64 {
            self.see_head(bytes);
        }
        if bytes.len() >= WINDOW_BYTES {
            self.window.clear();
            self.window.extend_from_slice(&bytes[bytes.len() - WINDOW_BYTES..]);
        } else {
            self.window.extend_from_slice(bytes);
            let surplus = self.window.len().saturating_sub(WINDOW_BYTES);
            self.window.drain(..surplus);
        }
    }

    /// Records that the offset moved over bytes that were not read (a hole): nothing before it is
    /// known.
    pub(super) fn jumped(&mut self) {
        self.window.clear();
    }

    fn see_head(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.head_len = self.head.len() as u16;
        self.head_hash = hash64(&self.head);
        if self.head.len() == HEAD_BYTES {
            self.head = Vec::new();
        }
    }

    /// Returns the persisted form.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            head_len: self.head_len,
            head_hash: self.head_hash,
            window_len: self.window.len() as u16,
            window_hash: hash64(&self.window),
        }
    }
}

/// Checks whether the file still has the content that was read before `offset`. On success, returns
/// the memory to continue with.
pub(super) fn verify(
    file: &dyn TreeFile,
    offset: u64,
    print: &Fingerprint,
) -> Result<Option<RememberedContent>, Errno> {
    let mut head = [0; HEAD_BYTES];
    let head_len = usize::from(print.head_len).min(HEAD_BYTES);
    let have = read_fully(file, &mut head[..head_len], 0)?;
    let mut window = [0; WINDOW_BYTES];
    let window_len = usize::from(print.window_len).min(WINDOW_BYTES).min(offset as usize);
    let window_have = read_fully(file, &mut window[..window_len], offset - window_len as u64)?;
    let same = have == head_len
        && window_have == window_len
        && (head_len == 0 || hash64(&head[..head_len]) == print.head_hash)
        && (window_len == 0 || hash64(&window[..window_len]) == print.window_hash);
    Ok(same.then(|| RememberedContent::resume(print, &head[..head_len], &window[..window_len])))
}

/// Reads until `buf` is full or the file ends; returns the number of bytes read.
pub(super) fn read_fully(file: &dyn TreeFile, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut have = 0;
    while have < buf.len() {
        match file.read_at(&mut [IoSliceMut::new(&mut buf[have..])], offset + have as u64)? {
            0 => break,
            n => have += n,
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use weir_host::{FileTree, RealFileTree};

    use super::*;

    fn file_with(content: &[u8]) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.into()
    }

    #[test]
    fn a_file_that_grew_is_recognized_and_a_rewritten_one_is_not() {
        let mut memory = RememberedContent::default();
        memory.consumed(0, b"one\n");
        memory.consumed(4, b"two\n");
        let print = memory.fingerprint();
        let same = file_with(b"one\ntwo\nthree\n");
        let verified = verify(&same, 8, &print).unwrap().expect("the same file");
        assert_eq!(verified.fingerprint(), print);
        assert_eq!(verified.window(), b"one\ntwo\n");
        for other in [&b"one\ntwX\nthree\n"[..], b"one\n", b"", b"two\none\nthree\n"] {
            assert!(verify(&file_with(other), 8, &print).unwrap().is_none());
        }
    }

    #[test]
    fn a_long_file_is_identified_by_its_head_and_the_bytes_before_the_offset() {
        let content: Vec<u8> = (0..5000_u32).flat_map(u32::to_le_bytes).collect();
        let mut memory = RememberedContent::default();
        memory.consumed(0, &content[..9000]);
        let print = memory.fingerprint();
        assert_eq!((print.head_len, print.window_len), (1024, 128));
        assert!(verify(&file_with(&content), 9000, &print).unwrap().is_some());
        for damaged_at in [0, 1023, 8999, 9000 - 128] {
            let mut other = content.clone();
            other[damaged_at] ^= 1;
            assert!(verify(&file_with(&other), 9000, &print).unwrap().is_none());
        }
    }

    #[test]
    fn equal_content_does_not_make_two_files_one_stream() {
        let dir = tempfile::tempdir().unwrap();
        let source = SourceId::of("s");
        let streams: std::collections::HashSet<StreamId> = (0..20)
            .map(|n| {
                let path = dir.path().join(format!("{n}.log"));
                std::fs::write(&path, "same head\n").unwrap();
                stream_of(&RealFileTree.stat(&path).unwrap().id, source)
            })
            .collect();
        assert_eq!(streams.len(), 20);
    }
}
