//! Segment files: frames one after the other, 8-byte aligned, behind a short header; a closed
//! segment ends with an index of its frames. Format: `docs/internals/journal.md`.
//!
//! Invariants: a segment is only ever appended to; after a failed sync it is never written or
//! synced again; reading never trusts a length that it has not checked against the file.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode, record_file};
use weir_model::{Batch, FrameError, FrameHeader, HEADER_LEN as FRAME_HEADER_LEN};

use crate::spec::JournalError;
use crate::state::Location;

const MAGIC: [u8; 4] = *b"WSEG";
const VERSION: u16 = 1;
/// Bytes of the fixed header; the table of names follows.
const HEADER_LEN: u64 = record_file::HEADER_LEN as u64;
/// Length and checksum of the table of names.
const NAMES_HEADER_LEN: u64 = 8;
/// Largest table of names that is believed.
const NAMES_BYTES_MAX: u64 = 4 * 1024 * 1024;
const FOOTER_MAGIC: [u8; 4] = *b"WIDX";

pub(crate) fn file_name(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:020}.wseg"))
}

/// The number in a segment's file name.
pub(crate) fn id_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("segment-")?.strip_suffix(".wseg")?.parse().ok()
}

/// Stands in the index of a destination that was not configured when the segment was begun.
const ABSENT: u32 = 1 << 31;

/// The table of names: which destination each bit of a route means, and whether it was configured.
/// It makes a segment readable by itself, even when the cursor log is lost.
pub(crate) fn encode_names<'a>(names: impl Iterator<Item = (usize, &'a str, bool)>) -> Vec<u8> {
    let mut table = Vec::new();
    for (index, name, is_configured) in names {
        let flag = if is_configured { 0 } else { ABSENT };
        table.extend_from_slice(&(index as u32 | flag).to_le_bytes());
        table.extend_from_slice(&(name.len() as u32).to_le_bytes());
        table.extend_from_slice(name.as_bytes());
    }
    let mut out = Vec::with_capacity(table.len() + 16);
    out.extend_from_slice(&(table.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&table).to_le_bytes());
    out.extend_from_slice(&table);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

fn decode_names(mut table: &[u8], opening: &mut Opening) {
    let mut absent = Vec::new();
    while let Some((head, rest)) = table.split_at_checked(8) {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let Some((name, rest)) = rest.split_at_checked(u32_at(4) as usize) else { break };
        let index = (u32_at(0) & !ABSENT) as usize;
        opening.names.push((index, String::from_utf8_lossy(name).into_owned()));
        if u32_at(0) & ABSENT != 0 {
            absent.push(index);
        }
        table = rest;
    }
    opening.absent = absent.into();
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
        // Nothing refers to it yet; a name that stays is an empty segment at the next start.
        let _empty_is_harmless = disk.remove(&path);
        return Err(error);
    }
    Ok((file, HEADER_LEN + names.len() as u64))
}

/// What one frame adds to the index of its segment.
#[derive(Debug, Clone)]
pub(crate) struct IndexEntry {
    pub(crate) location: Location,
    pub(crate) stream: u64,
    pub(crate) keys: Vec<u64>,
}

impl IndexEntry {
    pub(crate) fn of(location: Location, batch: &Batch) -> Self {
        Self { location, stream: batch.header().stream.0, keys: batch.keys().collect() }
    }
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

/// The index at the end of a closed segment and its length, when there is a whole one.
fn footer(file: &dyn DiskFile, file_len: u64) -> io::Result<Option<Vec<u8>>> {
    let mut end = [0; 8];
    if file_len < HEADER_LEN + 16 {
        return Ok(None);
    }
    file.read_exact_at(&mut end, file_len - 8)?;
    let len = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if end[4..] != FOOTER_MAGIC || len < 16 || len > file_len - HEADER_LEN {
        return Ok(None);
    }
    let mut footer = vec![0; len as usize];
    file.read_exact_at(&mut footer, file_len - len)?;
    let (entries, tail) = footer.split_at(footer.len() - 12);
    let stored = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    Ok((crc32c::crc32c(entries) == stored).then_some(footer))
}

/// Frames of a closed segment that carry the key, from its index.
pub(crate) fn frames_with_key(file: &dyn DiskFile, id: u64, key: u64) -> io::Result<Vec<Location>> {
    let Some(footer) = footer(file, file.len()?)? else { return Ok(Vec::new()) };
    let mut rest = &footer[4..footer.len() - 12];
    let mut found = Vec::new();
    while let Some((head, after)) = rest.split_at_checked(24) {
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let Some((keys, after)) = after.split_at_checked(u32_at(20) as usize * 8) else { break };
        if keys.as_chunks::<8>().0.contains(&key.to_le_bytes()) {
            found.push(Location { segment: id, offset: u64_at(0), len: u32_at(8) });
        }
        rest = after;
    }
    Ok(found)
}

/// What a scan found in a segment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Ranges that are neither frames nor punched holes.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// End of the last whole frame.
    pub(crate) end: u64,
    /// Bytes behind it that were being written when the machine stopped: nobody was told that
    /// they were safe. A segment that was closed has none.
    pub(crate) torn_bytes: u64,
    /// It ends with a whole index.
    pub(crate) closed: bool,
}

/// What stands before the frames of a segment.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Where the frames begin; 0 when there is no whole header (damaged or empty).
    pub(crate) frames_at: u64,
    /// Destinations by the index of their route bit.
    pub(crate) names: Vec<(usize, String)>,
    /// Those that were not configured: no frame is routed to them.
    pub(crate) absent: Arc<[usize]>,
}

/// Reads the header of a segment. An unknown version is the only error that is not the disk's.
pub(crate) fn read_opening(file: &dyn DiskFile, path: &Path) -> Result<Opening, JournalError> {
    let io_error = |error| JournalError::Io { what: "cannot read", path: path.to_owned(), error };
    let mut header = [0; (HEADER_LEN + NAMES_HEADER_LEN) as usize];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(e) if is_damage(&e) => return Ok(Opening::default()),
        Err(error) => return Err(io_error(error)),
    }
    match record_file::version(&header[..record_file::HEADER_LEN], MAGIC) {
        Some(VERSION) => {}
        Some(version) => return Err(JournalError::Version { file: path.to_owned(), version }),
        None => return Ok(Opening::default()),
    }
    let [len, crc] = [16, 20].map(|at| u32::from_le_bytes(std::array::from_fn(|i| header[at + i])));
    if u64::from(len) > NAMES_BYTES_MAX.min(file.len().map_err(io_error)?) {
        return Ok(Opening { frames_at: HEADER_LEN, ..Opening::default() });
    }
    let mut table = vec![0; len as usize];
    match file.read_exact_at(&mut table, HEADER_LEN + NAMES_HEADER_LEN) {
        Ok(()) if crc32c::crc32c(&table) == crc => {}
        Err(error) if !is_damage(&error) => return Err(io_error(error)),
        _ => return Ok(Opening { frames_at: HEADER_LEN, ..Opening::default() }),
    }
    let frames_at = (HEADER_LEN + NAMES_HEADER_LEN + u64::from(len)).next_multiple_of(8);
    let mut opening = Opening { frames_at, ..Opening::default() };
    decode_names(&table, &mut opening);
    Ok(opening)
}

/// What was flushed is safe only while its file can be found again.
pub(crate) fn in_place(file: &dyn DiskFile, path: &Path) -> io::Result<()> {
    if file.is_at(path)? {
        return Ok(());
    }
    let text = format!("{} was removed or replaced while it was in use", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

/// Whether an error says that these bytes are gone, rather than that the disk cannot be used now.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(EIO)
}

/// Walks over all frames of a segment; `found` gets each whole one. Damage is skipped: by the
/// length that the damaged frame states if something whole follows there (so that nothing inside
/// it, which is what some log says, is taken for a frame), else by searching at every multiple
/// of 8.
pub(crate) fn scan(
    file: &dyn DiskFile,
    id: u64,
    start: u64,
    mut found: impl FnMut(Location, Batch),
) -> io::Result<Scan> {
    let file_len = file.len()?;
    let footer = match footer(file, file_len) {
        Err(error) if is_damage(&error) => None,
        footer => footer?,
    };
    let data_end = file_len - footer.as_ref().map_or(0, |f| f.len() as u64);
    let mut reader = Window::new(file, data_end);
    let mut scan = Scan { end: start, closed: footer.is_some(), ..Scan::default() };
    let mut at = start;
    let mut damage_from = None;
    while at < data_end {
        if let Some(batch) = frame_at(&mut reader, at, data_end)? {
            if let Some(from) = damage_from.take() {
                scan.damaged.push((from, at));
            }
            let len = batch.frame_bytes() as u64;
            found(Location { segment: id, offset: at, len: len as u32 }, batch);
            at += len;
            scan.end = at;
        } else if reader.is_zero(at)? {
            at += 8;
        } else {
            damage_from.get_or_insert(at);
            at = behind_damage(&mut reader, at, data_end)?;
        }
    }
    if let Some(from) = damage_from {
        if scan.closed {
            scan.damaged.push((from, data_end));
        } else {
            scan.torn_bytes = file_len - from;
        }
    }
    Ok(scan)
}

/// Where to look on behind bytes that are no frame.
fn behind_damage(reader: &mut Window<'_>, at: u64, end: u64) -> io::Result<u64> {
    let header = FrameHeader::read(reader.bytes(at, FRAME_HEADER_LEN)?);
    if let Ok(header) = header {
        let next = at + u64::from(header.frame_len);
        if next == end || (next < end && frame_at(reader, next, end)?.is_some()) {
            return Ok(next);
        }
    }
    Ok(at + 8)
}

fn frame_at(reader: &mut Window<'_>, at: u64, end: u64) -> io::Result<Option<Batch>> {
    let Ok(header) = FrameHeader::read(reader.bytes(at, FRAME_HEADER_LEN)?) else {
        return Ok(None);
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
            match self.file.read_exact_at(&mut self.buf, at) {
                Err(error) if is_damage(&error) => self.read_what_can_be_read(at),
                read => read?,
            }
            self.start = at;
        }
        let from = (at - self.start) as usize;
        let to = (want_end - self.start) as usize;
        Ok(&self.buf[from..to])
    }

    /// After an error: page by page. What cannot be read is made to look damaged, not empty.
    fn read_what_can_be_read(&mut self, at: u64) {
        for (number, page) in self.buf.chunks_mut(4096).enumerate() {
            if self.file.read_exact_at(page, at + number as u64 * 4096).is_err() {
                page.fill(0xff);
            }
        }
    }

    fn is_zero(&mut self, at: u64) -> io::Result<bool> {
        Ok(self.bytes(at, 8)?.iter().all(|b| *b == 0))
    }
}
