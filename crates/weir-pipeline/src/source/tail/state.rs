//! The resume state that travels with each batch: the identity of the file, fingerprints of its
//! content, and the state of the decoder.
//!
//! Version 1, numbers little-endian: version `u8` = 1, device `u64`, inode `u64`, birth time `i64`,
//! size in this epoch `u64`, bytes seen over all epochs `u64`, length `u16` and hash `u64` of the
//! head, length `u16` and hash `u64` of the window before the offset, path (length `u16`, bytes),
//! then the decoder's state to the end (empty while the format is not known).
//!
//! Invariant: any bytes either decode to a state or are rejected; a rejected state means that the
//! file is read from the beginning, never that weir fails to start.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use weir_host::file_tree::FileId;

use super::identity::Fingerprint;

const VERSION: u8 = 1;

/// Maximum length of a remembered path; longer ones are truncated, as they are only displayed.
const PATH_BYTES_MAX: usize = 4096;

/// A decoded state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saved<'a> {
    /// Identity of the file.
    pub id: FileId,
    /// Its size when the state was written.
    pub size: u64,
    /// Bytes seen over all epochs.
    pub seen: u64,
    /// Fingerprint of its content.
    pub print: Fingerprint,
    /// Its path.
    pub path: PathBuf,
    /// The decoder's part; empty while the format is not known.
    pub decoder: &'a [u8],
}

/// Encodes everything but the decoder's part, which the caller appends.
pub(super) fn encode(
    id: FileId,
    size: u64,
    seen: u64,
    print: &Fingerprint,
    path: &Path,
    out: &mut Vec<u8>,
) {
    out.push(VERSION);
    for number in [id.device, id.inode, id.born_ns.cast_unsigned(), size, seen] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&print.head_len.to_le_bytes());
    out.extend_from_slice(&print.head_hash.to_le_bytes());
    out.extend_from_slice(&print.window_len.to_le_bytes());
    out.extend_from_slice(&print.window_hash.to_le_bytes());
    let path = path.as_os_str().as_bytes();
    let path = &path[..path.len().min(PATH_BYTES_MAX)];
    out.extend_from_slice(&(path.len() as u16).to_le_bytes());
    out.extend_from_slice(path);
}

/// Decodes a state; `None` if it is damaged or of another version.
pub(super) fn decode(state: &[u8]) -> Option<Saved<'_>> {
    let mut fields = Fields(state);
    if fields.array::<1>()? != [VERSION] {
        return None;
    }
    let id = FileId {
        device: fields.u64()?,
        inode: fields.u64()?,
        born_ns: fields.u64()?.cast_signed(),
    };
    let (size, seen) = (fields.u64()?, fields.u64()?);
    let print = Fingerprint {
        head_len: fields.u16()?,
        head_hash: fields.u64()?,
        window_len: fields.u16()?,
        window_hash: fields.u64()?,
    };
    let path_len = usize::from(fields.u16()?);
    let (path, decoder) = fields.0.split_at_checked(path_len)?;
    let path = OsString::from_vec(path.to_vec()).into();
    Some(Saved { id, size, seen, print, path, decoder })
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let id = FileId { device: 1, inode: 2, born_ns: -3 };
        let print = Fingerprint { head_len: 9, head_hash: 8, window_len: 7, window_hash: u64::MAX };
        let mut out = Vec::new();
        encode(id, 4, 5, &print, Path::new("/var/log/a.log"), &mut out);
        out.extend_from_slice(b"decoder");
        out
    }

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let bytes = sample();
        let saved = decode(&bytes).unwrap();
        assert_eq!(saved.id, FileId { device: 1, inode: 2, born_ns: -3 });
        assert_eq!((saved.size, saved.seen, saved.print.window_hash), (4, 5, u64::MAX));
        assert_eq!(saved.path, Path::new("/var/log/a.log"));
        assert_eq!(saved.decoder, b"decoder");
    }

    #[test]
    fn any_bytes_are_either_a_state_or_refused() {
        let bytes = sample();
        for len in 0..bytes.len() - b"decoder".len() {
            assert_eq!(decode(&bytes[..len]), None, "{len} bytes");
        }
        proptest::proptest!(|(noise: Vec<u8>)| { let _either = decode(&noise); });
    }
}
