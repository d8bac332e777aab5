//! Segment files: consecutive frames, 8-byte aligned, after a short header; a closed segment ends
//! with an index of its frames (`index.rs`). Format: `docs/internals/journal.md`.
//!
//! Invariants: a segment is append-only; after a failed sync it is never written or synced again;
//! only segments that end with their index are punched; reading never trusts a length that it has
//! not checked against the file.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode, record_file};
use weir_model::{Batch, FrameError};

use crate::index;
use crate::spec::JournalError;
use crate::state::Location;

const MAGIC: [u8; 4] = *b"WSEG";
const VERSION: u16 = 3;
/// Length of the fixed header, which is followed by the table of names.
const HEADER_LEN: u64 = record_file::HEADER_LEN as u64;
/// Length of the salt that makes the index of a segment unforgeable.
pub(crate) const SALT_LEN: usize = 8;
/// Salt, and length and checksum of the table of names.
const NAMES_HEADER_LEN: u64 = SALT_LEN as u64 + 8;
/// Maximum accepted size of the table of names.
const NAMES_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(crate) fn file_name(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:020}.wseg"))
}

/// Returns the number in a segment's file name.
pub(crate) fn id_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("segment-")?.strip_suffix(".wseg")?.parse().ok()
}

/// Returns the number in the name of a segment, or of anything that was set aside from one: it is
/// never reused.
pub(crate) fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_prefix("segment-")?;
    name.split('.').next()?.parse().ok()
}

/// Set in the index of a destination that was not configured when the segment was created.
const ABSENT: u32 = 1 << 31;

/// Encodes a new salt and the table of names: which destination each route bit refers to, and
/// whether it was configured. It makes a segment readable on its own, even when the cursor log is
/// lost.
pub(crate) fn encode_names<'a>(
    names: impl Iterator<Item = (usize, u64, &'a str, bool)>,
) -> Vec<u8> {
    let mut table = Vec::new();
    for (index, id, name, is_configured) in names {
        let flag = if is_configured { 0 } else { ABSENT };
        table.extend_from_slice(&(index as u32 | flag).to_le_bytes());
        table.extend_from_slice(&id.to_le_bytes());
        table.extend_from_slice(&(name.len() as u32).to_le_bytes());
        table.extend_from_slice(name.as_bytes());
    }
    let mut out = Vec::with_capacity(table.len() + 24);
    out.extend_from_slice(&record_file::new_salt());
    out.extend_from_slice(&(table.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&table).to_le_bytes());
    out.extend_from_slice(&table);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

fn decode_names(mut table: &[u8], header: &mut SegmentHeader) {
    let mut absent = Vec::new();
    while let Some((head, rest)) = table.split_at_checked(16) {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let Some((name, rest)) = rest.split_at_checked(u32_at(12) as usize) else { break };
        let index = (u32_at(0) & !ABSENT) as usize;
        let id = u64::from(u32_at(4)) | u64::from(u32_at(8)) << 32;
        header.names.push((index, id, String::from_utf8_lossy(name).into_owned()));
        if u32_at(0) & ABSENT != 0 {
            absent.push(index);
        }
        table = rest;
    }
    header.absent = absent.into();
}

/// Returns the salt at the start of an encoded table.
pub(crate) fn salt_of(names: &[u8]) -> [u8; SALT_LEN] {
    std::array::from_fn(|i| names[i])
}

/// Creates a segment whose name and header are durable. Returns it with its length.
pub(crate) fn create(
    disk: &dyn Disk,
    dir: &Path,
    id: u64,
    names: &[u8],
) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let path = file_name(dir, id);
    let file = disk.open(&path, OpenMode::CreateNew)?;
    let header = record_file::header(MAGIC, VERSION, id.to_le_bytes());
    let written = file
        .write_all_at(&mut [IoSlice::new(&header), IoSlice::new(names)], 0)
        .and_then(|()| file.sync_data())
        .and_then(|()| disk.sync_dir(dir));
    if let Err(error) = written {
        // Nothing refers to it yet; if the file stays, it is an empty segment at the next start.
        let _empty_is_harmless = disk.remove(&path);
        return Err(error);
    }
    Ok((file, HEADER_LEN + names.len() as u64))
}

/// Returns the frames of a closed segment that carry the key, from its index.
pub(crate) fn frames_with_key(file: &dyn DiskFile, id: u64, key: u64) -> io::Result<Vec<Location>> {
    let mut salt = [0; SALT_LEN];
    file.read_exact_at(&mut salt, HEADER_LEN)?;
    let index = index::read(file, id, salt, HEADER_LEN + NAMES_HEADER_LEN)?;
    Ok(index.map(|(index, _)| index.with_key(key)).unwrap_or_default())
}

/// What precedes the frames of a segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentHeader {
    /// Where the frames start; 0 when there is no intact header (damaged or empty).
    pub(crate) frames_at: u64,
    /// The salt of its index.
    pub(crate) salt: [u8; SALT_LEN],
    /// Destinations by the index of their route bit, with their ids.
    pub(crate) names: Vec<(usize, u64, String)>,
    /// Those that were not configured: no frame is routed to them.
    pub(crate) absent: Arc<[usize]>,
}

impl SegmentHeader {
    /// Returns whether a route bit in this segment still refers to the destination that now has
    /// that slot and id. Without a readable table, the cursor log is relied upon.
    pub(crate) fn means(&self, index: usize, id: u64) -> bool {
        self.names.is_empty() || self.names.iter().any(|(i, known, _)| *i == index && *known == id)
    }
}

/// Reads the header of a segment. Apart from disk errors, the only error is an unsupported version.
pub(crate) fn read_header(file: &dyn DiskFile, path: &Path) -> Result<SegmentHeader, JournalError> {
    let io_error = |error| JournalError::Io { what: "cannot read", path: path.to_owned(), error };
    let mut header = [0; (HEADER_LEN + NAMES_HEADER_LEN) as usize];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(e) if is_damage(&e) => return Ok(SegmentHeader::default()),
        Err(error) => return Err(io_error(error)),
    }
    let salt = salt_of(&header[HEADER_LEN as usize..]);
    match record_file::version(&header[..record_file::HEADER_LEN], MAGIC) {
        Some(VERSION) => {}
        Some(version) => return Err(JournalError::Version { file: path.to_owned(), version }),
        None => return Ok(SegmentHeader { salt, ..SegmentHeader::default() }),
    }
    let [len, crc] = [24, 28].map(|at| u32::from_le_bytes(std::array::from_fn(|i| header[at + i])));
    if u64::from(len) > NAMES_BYTES_MAX.min(file.len().map_err(io_error)?) {
        return Ok(SegmentHeader { frames_at: HEADER_LEN, salt, ..SegmentHeader::default() });
    }
    let mut table = vec![0; len as usize];
    match file.read_exact_at(&mut table, HEADER_LEN + NAMES_HEADER_LEN) {
        Ok(()) if crc32c::crc32c(&table) == crc => {}
        Err(error) if !is_damage(&error) => return Err(io_error(error)),
        _ => return Ok(SegmentHeader { frames_at: HEADER_LEN, salt, ..SegmentHeader::default() }),
    }
    let frames_at = (HEADER_LEN + NAMES_HEADER_LEN + u64::from(len)).next_multiple_of(8);
    let mut segment_header = SegmentHeader { frames_at, salt, ..SegmentHeader::default() };
    decode_names(&table, &mut segment_header);
    Ok(segment_header)
}

/// Checks that the file still has its name: flushed data is safe only while it can be found.
pub(crate) fn in_place(file: &dyn DiskFile, path: &Path) -> io::Result<()> {
    if file.is_at(path)? {
        return Ok(());
    }
    let text = format!("{} was removed or replaced while it was in use", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

/// Returns whether an error means that these bytes are lost, rather than that the disk is
/// temporarily unusable.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(EIO)
}

/// Reads one frame again.
pub(crate) fn read_frame(file: &dyn DiskFile, location: Location) -> Result<Batch, ReadError> {
    let mut bytes = vec![0; location.len as usize];
    file.read_exact_at(&mut bytes, location.offset).map_err(ReadError::Io)?;
    Batch::from_frame(bytes).map_err(ReadError::Frame)
}

/// Reasons why a frame could not be read again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Frame(FrameError),
}
