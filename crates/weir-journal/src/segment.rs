//! Segment files: frames one after the other, 8-byte aligned, behind a short header; a closed
//! segment ends with an index of its frames. Format: `docs/internals/journal.md`.
//!
//! Invariants: a segment is only ever appended to; after a failed sync it is never written or
//! synced again; reading never trusts a length that it has not checked against the file.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use weir_host::{Disk, DiskFile, OpenMode};
use weir_model::{Batch, FrameError, FrameHeader, HEADER_LEN};

use crate::spec::JournalError;
use crate::state::Location;

const MAGIC: [u8; 4] = *b"WSEG";
const VERSION: u16 = 1;
/// Bytes before the first frame.
pub(crate) const SEGMENT_HEADER_LEN: u64 = 16;
const FOOTER_MAGIC: [u8; 4] = *b"WIDX";

pub(crate) fn file_name(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:020}.wseg"))
}

/// The number in a segment's file name.
pub(crate) fn id_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("segment-")?.strip_suffix(".wseg")?.parse().ok()
}

/// Creates a segment whose name and header are durable.
pub(crate) fn create(disk: &dyn Disk, dir: &Path, id: u64) -> io::Result<Box<dyn DiskFile>> {
    let path = file_name(dir, id);
    let file = disk.open(&path, OpenMode::CreateNew)?;
    let mut header = [0; SEGMENT_HEADER_LEN as usize];
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[8..].copy_from_slice(&id.to_le_bytes());
    let written = file
        .write_all_at(&mut [IoSlice::new(&header)], 0)
        .and_then(|()| file.sync_data())
        .and_then(|()| disk.sync_dir(dir));
    if let Err(error) = written {
        // Nothing refers to it yet; a name that stays is an empty segment at the next start.
        let _empty_is_harmless = disk.remove(&path);
        return Err(error);
    }
    Ok(file)
}

/// What one frame adds to the index of its segment.
#[derive(Debug, Clone)]
pub(crate) struct IndexEntry {
    pub(crate) location: Location,
    pub(crate) stream: u64,
    pub(crate) keys: Vec<u64>,
}

/// Encodes the index: count, then (offset, length, stream, keys) of every frame, then the
/// length of all that and the magic, so that it is found from the end of the file.
pub(crate) fn encode_footer(entries: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 40 + 24);
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        out.extend_from_slice(&entry.location.offset.to_le_bytes());
        out.extend_from_slice(&entry.location.len.to_le_bytes());
        out.extend_from_slice(&entry.stream.to_le_bytes());
        out.extend_from_slice(&(entry.keys.len() as u32).to_le_bytes());
        for key in &entry.keys {
            out.extend_from_slice(&key.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    let len = out.len() as u32 + 8;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&FOOTER_MAGIC);
    out
}

/// Length of the index at the end of a closed segment, when there is a whole one.
fn footer_len(file: &dyn DiskFile, file_len: u64) -> io::Result<u64> {
    let mut end = [0; 8];
    if file_len < SEGMENT_HEADER_LEN + 16 {
        return Ok(0);
    }
    file.read_exact_at(&mut end, file_len - 8)?;
    let len = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if end[4..] != FOOTER_MAGIC || len < 16 || len > file_len - SEGMENT_HEADER_LEN {
        return Ok(0);
    }
    let mut footer = vec![0; len as usize];
    file.read_exact_at(&mut footer, file_len - len)?;
    let (entries, tail) = footer.split_at(footer.len() - 12);
    let stored = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    Ok(if crc32c::crc32c(entries) == stored { len } else { 0 })
}

/// What a scan found in a segment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Ranges that are neither frames nor punched holes.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// End of what is of use: the place where a segment could be appended to.
    pub(crate) end: u64,
    /// The file's end is a frame or index that was not written to its end.
    pub(crate) torn: bool,
}

/// Checks the header of a segment. `Ok(false)`: it is no segment at all (damaged or empty).
pub(crate) fn check_header(file: &dyn DiskFile, path: &Path) -> Result<bool, JournalError> {
    let mut header = [0; SEGMENT_HEADER_LEN as usize];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => {
            return Err(JournalError::Io { what: "cannot read", path: path.to_owned(), error });
        }
    }
    if header[..4] != MAGIC {
        return Ok(false);
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return Err(JournalError::Version { file: path.to_owned(), version });
    }
    Ok(true)
}

/// Walks over all frames of a segment; `found` gets each whole one. Damaged ranges are skipped:
/// the next frame is searched at every multiple of 8.
pub(crate) fn scan(
    file: &dyn DiskFile,
    id: u64,
    start: u64,
    mut found: impl FnMut(Location, Batch),
) -> io::Result<Scan> {
    let file_len = file.len()?;
    let data_end = file_len - footer_len(file, file_len)?;
    let mut reader = Window::new(file, data_end);
    let mut scan = Scan { end: start, ..Scan::default() };
    let mut at = start;
    let mut damage_from = None;
    while at < data_end {
        match frame_at(&mut reader, at, data_end)? {
            Some(batch) => {
                if let Some(from) = damage_from.take() {
                    scan.damaged.push((from, at));
                }
                let len = batch.frame_bytes() as u64;
                found(Location { segment: id, offset: at, len: len as u32 }, batch);
                at += len;
                scan.end = at;
            }
            None => {
                if !reader.is_zero(at)? {
                    damage_from.get_or_insert(at);
                }
                at += 8;
            }
        }
    }
    // What follows the last whole frame was being written when the machine stopped.
    scan.torn = damage_from.is_some();
    Ok(scan)
}

fn frame_at(reader: &mut Window<'_>, at: u64, end: u64) -> io::Result<Option<Batch>> {
    let header = match FrameHeader::read(reader.bytes(at, HEADER_LEN)?) {
        Ok(header) => header,
        Err(_) => return Ok(None),
    };
    let len = header.frame_len as usize;
    if at + len as u64 > end {
        return Ok(None);
    }
    Ok(Batch::from_frame(reader.bytes(at, len)?.to_vec()).ok())
}

/// Reads one frame again.
pub(crate) fn read_frame(file: &dyn DiskFile, location: Location) -> Result<Batch, ReadError> {
    let mut bytes = vec![0; location.len as usize];
    file.read_exact_at(&mut bytes, location.offset).map_err(ReadError::Io)?;
    Batch::from_frame(bytes).map_err(ReadError::Frame)
}

/// Why a frame could not be read again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Frame(FrameError),
}

/// Reads a file in large pieces, forward.
struct Window<'a> {
    file: &'a dyn DiskFile,
    end: u64,
    start: u64,
    buf: Vec<u8>,
}

const WINDOW_BYTES: usize = 4 * 1024 * 1024;

impl<'a> Window<'a> {
    fn new(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { file, end, start: 0, buf: Vec::new() }
    }

    /// Up to `len` bytes at `at`: fewer at the end.
    fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let want_end = (at + len as u64).min(self.end);
        let have = self.start..self.start + self.buf.len() as u64;
        if at < have.start || want_end > have.end {
            let size = WINDOW_BYTES.max(len).min((self.end - at) as usize);
            self.buf.resize(size, 0);
            self.file.read_exact_at(&mut self.buf, at)?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        let to = (want_end - self.start) as usize;
        Ok(&self.buf[from..to])
    }

    fn is_zero(&mut self, at: u64) -> io::Result<bool> {
        Ok(self.bytes(at, 8)?.iter().all(|b| *b == 0))
    }
}
