//! Reads blocks of a file and detects that the bytes before them have changed.
//!
//! Invariants: one system call per block; every read also reads the bytes just before the offset
//! again, so that a file that was truncated and has since grown past the offset is detected at
//! once; runs of NUL bytes without blocks on disk are skipped, never read.

use std::io::IoSliceMut;

use weir_host::TreeFile;
use weir_host::file_tree::Errno;

use super::identity::WINDOW_BYTES;

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// This many bytes follow what was read before.
    Bytes(usize),
    /// The bytes before the offset are not the ones that were read: the file was rewritten.
    Rewritten,
}

/// Reads into `space` from `offset`; `window` holds the expected bytes just before it.
pub(super) fn read_block(
    file: &dyn TreeFile,
    offset: u64,
    window: &[u8],
    space: &mut [u8],
) -> Result<Block, Errno> {
    let mut before = [0; WINDOW_BYTES];
    let before = &mut before[..window.len()];
    let start = offset - window.len() as u64;
    let count = file.read_at(&mut [IoSliceMut::new(before), IoSliceMut::new(space)], start)?;
    if count < window.len() || before != window {
        return Ok(Block::Rewritten);
    }
    Ok(Block::Bytes(count - window.len()))
}

/// Returns where data begins at or after `offset`, if there is a hole at `offset`; `size` if the
/// hole extends to the end.
pub(super) fn end_of_hole(file: &dyn TreeFile, offset: u64, size: u64) -> Option<u64> {
    let data = match file.data_from(offset) {
        Ok(data) => data.min(size),
        Err(Errno::NXIO) => size,
        Err(_not_supported_here) => return None,
    };
    (data > offset).then_some(data)
}

/// Returns where to start so that whole lines are read from about `size` on: after the last line
/// feed of the last block.
pub(super) fn start_of_last_line(file: &dyn TreeFile, size: u64) -> Result<u64, Errno> {
    let mut tail = vec![0; 64 * 1024];
    let from = size.saturating_sub(tail.len() as u64);
    let want = (size - from) as usize;
    let have = super::identity::read_fully(file, &mut tail[..want], from)?;
    Ok(memchr::memrchr(b'\n', &tail[..have]).map_or(size, |at| from + at as u64 + 1))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    fn handle(file: &std::fs::File) -> OwnedFd {
        file.try_clone().unwrap().into()
    }

    #[test]
    fn a_rewritten_file_is_noticed_though_it_is_longer_than_the_offset() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"old line\nnew line\n").unwrap();
        let mut space = [0; 64];
        let read = |file: &std::fs::File, space: &mut [u8]| {
            read_block(&handle(file), 9, b"old line\n", space).unwrap()
        };
        assert_eq!(read(&file, &mut space), Block::Bytes(9));
        assert_eq!(&space[..9], b"new line\n");
        file.set_len(0).unwrap();
        assert_eq!(read(&file, &mut space), Block::Rewritten);
        rustix::io::pwrite(&file, b"other content, longer than before\n", 0).unwrap();
        assert_eq!(read(&file, &mut space), Block::Rewritten);
    }

    #[test]
    fn holes_are_stepped_over() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, b"data\n", 10 << 30).unwrap();
        let size = (10 << 30) + 5;
        assert_eq!(end_of_hole(&handle(&file), 0, size), Some(10 << 30));
        assert_eq!(end_of_hole(&handle(&file), 10 << 30, size), None);
        file.set_len(11 << 30).unwrap();
        assert_eq!(end_of_hole(&handle(&file), (10 << 30) + 8192, 11 << 30), Some(11 << 30));
    }

    #[test]
    fn reading_from_the_end_begins_with_a_whole_line() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(start_of_last_line(&handle(&file), 11).unwrap(), 8);
        assert_eq!(start_of_last_line(&handle(&file), 8).unwrap(), 8);
        assert_eq!(start_of_last_line(&handle(&file), 3).unwrap(), 3);
    }
}
