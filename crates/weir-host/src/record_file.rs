//! Files of records: a header of 16 bytes, followed by records that are complete or absent.
//!
//! Header: magic (4), version (2), check (2), eight bytes that belong to the file (a number, or the
//! salt of its records). Record: magic (4), length of the payload (4), CRC-32C of salt and payload
//! (4), payload. Numbers are little-endian.
//!
//! Invariants: a version is accepted only if the check matches, so that one damaged bit cannot make
//! the file look like one of a later release and keep weir from starting; every later version keeps
//! the position and meaning of these fields. An incomplete or damaged record is skipped, and
//! arbitrary bytes never cause a panic.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, OpenMode};

/// Length of a header in bytes.
pub const HEADER_LEN: usize = 16;
const RECORD_MAGIC: [u8; 4] = *b"WREC";
const RECORD_HEADER_LEN: usize = 12;

/// Returns an encoded header. `own` is the number or the salt of the file.
pub fn header(magic: [u8; 4], version: u16, own: [u8; 8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&magic);
    header[4..6].copy_from_slice(&version.to_le_bytes());
    header[8..].copy_from_slice(&own);
    seal(&mut header);
    header
}

/// Writes the check of a header, which may be longer than [`HEADER_LEN`].
///
/// # Panics
/// If it is shorter than 8 bytes.
pub fn seal(header: &mut [u8]) {
    let check = check(header);
    header[6..8].copy_from_slice(&check);
}

/// Returns the version of a complete header; `None` if it is damaged or of another kind.
pub fn version(header: &[u8], magic: [u8; 4]) -> Option<u16> {
    let is_whole =
        header.len() >= HEADER_LEN && header[..4] == magic && header[6..8] == check(header);
    is_whole.then(|| u16::from_le_bytes([header[4], header[5]]))
}

/// Returns the lower half of the CRC-32C of everything but the check itself.
fn check(header: &[u8]) -> [u8; 2] {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..6]), &header[8..]);
    [crc as u8, (crc >> 8) as u8]
}

/// Returns a new salt for the records of one file. If bytes from outside (such as a log line in the
/// state of a source) are searched for records after damage, no one can have placed a valid record
/// in them.
pub fn new_salt() -> [u8; 8] {
    RandomState::new().build_hasher().finish().to_le_bytes()
}

/// Encodes a record whose payload `fill` appends.
pub fn record(salt: &[u8], fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut record = vec![0; RECORD_HEADER_LEN];
    fill(&mut record);
    let (header, payload) = record.split_at_mut(RECORD_HEADER_LEN);
    header[..4].copy_from_slice(&RECORD_MAGIC);
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(&checksum(salt, payload).to_le_bytes());
    record
}

fn checksum(salt: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(salt), payload)
}

/// What replaying found besides complete records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Number of byte ranges that hold no record and precede one.
    pub ranges: u64,
    /// The end is not a record: it was being written, or it is damaged.
    pub is_torn: bool,
}

/// Passes the payload of every complete record to `apply`, in order. One that it does not
/// understand (`None`) counts as damaged.
pub fn replay(
    mut records: &[u8],
    salt: &[u8],
    mut apply: impl FnMut(&[u8]) -> Option<()>,
) -> Damage {
    let mut damage = Damage::default();
    while !records.is_empty() {
        let whole = first_record(records, salt);
        if let Some(rest) = whole.and_then(|(payload, rest)| apply(payload).map(|()| rest)) {
            damage.ranges += u64::from(damage.is_torn);
            damage.is_torn = false;
            records = rest;
        } else {
            damage.is_torn = true;
            let next = records[1..].windows(4).position(|w| w == RECORD_MAGIC);
            let Some(next) = next else { break };
            records = &records[next + 1..];
        }
    }
    damage
}

/// Returns the payload of the record at the start of `bytes`, and what follows it.
fn first_record<'a>(bytes: &'a [u8], salt: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (header, rest) = bytes.split_first_chunk::<RECORD_HEADER_LEN>()?;
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
    let (payload, rest) = rest.split_at_checked(u32_at(4) as usize)?;
    let is_whole = header[..4] == RECORD_MAGIC && checksum(salt, payload) == u32_at(8);
    is_whole.then_some((payload, rest))
}

/// Reads the whole file.
///
/// # Errors
/// If the disk fails twice: a device may fail a single read and then succeed.
pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0).or_else(|_| file.read_exact_at(&mut bytes, 0))?;
    Ok(bytes)
}

/// Keeps a copy of a damaged file next to it, for later inspection. Returns its path.
///
/// # Errors
/// If the disk fails.
pub fn set_aside(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let aside = path.with_extension("bad");
    let out = disk.open(&aside, OpenMode::Create)?;
    out.set_len(0)?;
    out.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_damaged_bit_passes_for_another_version() {
        let header = header(*b"TEST", 1, *b"12345678");
        assert_eq!(version(&header, *b"TEST"), Some(1));
        assert_eq!(version(&header, *b"ELSE"), None);
        assert_eq!(version(&header[..15], *b"TEST"), None);
        for bit in 0..HEADER_LEN * 8 {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(version(&damaged, *b"TEST"), None, "bit {bit}");
        }
    }

    #[test]
    fn whole_records_are_read_around_damaged_torn_and_foreign_ones() {
        let salt = new_salt();
        let of = |text: &str| record(&salt, |out| out.extend_from_slice(text.as_bytes()));
        let replayed = |bytes: &[u8]| {
            let mut texts = Vec::new();
            let damage = replay(bytes, &salt, |payload| {
                let text = String::from_utf8(payload.to_vec()).ok()?;
                (text != "unknown").then(|| texts.push(text))
            });
            (texts.join(" "), damage.ranges, damage.is_torn)
        };
        let three = [of("one"), of("two"), of("three")];
        assert_eq!(replayed(&three.concat()), ("one two three".into(), 0, false));
        assert_eq!(replayed(&three.concat()[..30]), ("one two".into(), 0, false));
        assert_eq!(replayed(&three.concat()[..40]), ("one two".into(), 0, true));
        let damaged = |at: usize| {
            let mut bytes = three.concat();
            bytes[at] ^= 1;
            replayed(&bytes)
        };
        // Magic, length, checksum and payload of the second.
        for at in [15, 19, 23, 27] {
            assert_eq!(damaged(at), ("one three".into(), 1, false), "byte {at}");
        }
        let foreign = record(b"other it", |out| out.push(b'x'));
        assert_eq!(replayed(&[of("a"), foreign, of("b")].concat()), ("a b".into(), 1, false));
        assert_eq!(replayed(&[of("unknown"), of("b")].concat()), ("b".into(), 1, false));
        assert_eq!(replayed(b""), (String::new(), 0, false));
    }
}
