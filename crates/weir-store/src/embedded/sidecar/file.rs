//! The sidecar file: a header, a directory, a table of checksums, and data that is read in parts.
//!
//! Invariant: data is returned only after the checksum of each 4 KiB block that it touches has been
//! verified; header, directory and table are read and checked completely when the file is opened.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use weir_host::{DiskFile, record_file};

use super::bloom::{self, BLOCK_BYTES};
use super::counts::MinuteCounts;
use super::frequent;
use super::fuse::FuseShape;
use super::grams::{Grams, TABLE_BYTES_MAX};
use super::paths::RestPaths;
use super::terms::not_zero;
use crate::embedded::segment::{Segment, SegmentError};
use crate::limits::{ROW_GROUP_PAGES_MAX, ROW_GROUPS_MAX};

const MAGIC: [u8; 4] = *b"WSID";
const VERSION: u16 = 2;
const HEADER_LEN: usize = 36;
/// Amount of data under one checksum: the cost of verifying one filter probe.
const CHECK_BYTES: usize = 4096;
/// Maximum accepted size of directory and table.
const DIRECTORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reasons why a sidecar cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The disk failed: retry, or read the segment without it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is damaged or belongs to another segment: rebuild it.
    #[error("the sidecar is damaged: {0}")]
    Damaged(&'static str),
    /// It was written by a later release: leave it alone, and read the segment without it.
    #[error("sidecar version {0} is not supported by this release")]
    Version(u16),
    /// The segment could not be read, so the sidecar was not built.
    #[error("{0}")]
    Segment(#[from] SegmentError),
}

/// A byte range of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteRange {
    offset: u64,
    len: u64,
}

/// Directory entry of a row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GroupEntry {
    pub(super) pages: u32,
    pub(super) fuse: FuseShape,
    pub(super) fuse_at: ByteRange,
    /// Number of blocks of each page's filter.
    pub(super) blocks: u32,
    pub(super) bloom_at: ByteRange,
    /// Empty when there are no counts.
    pub(super) counts_at: ByteRange,
    /// Empty when there are no messages.
    pub(super) grams_at: ByteRange,
    /// Empty when there are no frequent words.
    pub(super) frequent_at: ByteRange,
}

/// Size of a row group's directory entry, in bytes.
const GROUP_LEN: usize = 4 + 8 + 4 + 4 + 16 + 4 + 4 * 16;

impl GroupEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pages.to_le_bytes());
        out.extend_from_slice(&self.fuse.seed.to_le_bytes());
        out.extend_from_slice(&self.fuse.part_len.to_le_bytes());
        out.extend_from_slice(&self.fuse.part_count.to_le_bytes());
        self.fuse_at.encode(out);
        out.extend_from_slice(&self.blocks.to_le_bytes());
        self.bloom_at.encode(out);
        self.counts_at.encode(out);
        self.grams_at.encode(out);
        self.frequent_at.encode(out);
    }

    /// Returns the positions of its data.
    pub(super) fn byte_ranges(&mut self) -> [&mut ByteRange; 5] {
        [
            &mut self.fuse_at,
            &mut self.bloom_at,
            &mut self.counts_at,
            &mut self.grams_at,
            &mut self.frequent_at,
        ]
    }

    /// Decodes an entry; `None` when the fields do not fit each other and the data.
    fn decode(bytes: &[u8; GROUP_LEN], data_len: u64) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let mut entry = Self {
            pages: u32_at(0),
            fuse: FuseShape {
                seed: u64_at(bytes, 4),
                part_len: u32_at(12),
                part_count: u32_at(16),
            },
            fuse_at: ByteRange::decode(bytes, 20),
            blocks: u32_at(36),
            bloom_at: ByteRange::decode(bytes, 40),
            counts_at: ByteRange::decode(bytes, 56),
            grams_at: ByteRange::decode(bytes, 72),
            frequent_at: ByteRange::decode(bytes, 88),
        };
        let is_whole = entry
            .byte_ranges()
            .iter()
            .all(|at| at.offset.checked_add(at.len).is_some_and(|end| end <= data_len))
            && entry.pages as usize <= ROW_GROUP_PAGES_MAX
            && entry.fuse.part_len.is_power_of_two()
            && entry.fuse.part_count > 0
            && entry.fuse.len() as u64 == entry.fuse_at.len
            && entry.blocks > 0
            && u64::from(entry.blocks) * entry.row_len() as u64 == entry.bloom_at.len;
        is_whole.then_some(entry)
    }

    /// Returns the total size of the blocks with the same number in all pages, in bytes.
    fn row_len(&self) -> usize {
        self.pages as usize * BLOCK_BYTES
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

impl ByteRange {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }

    fn decode(bytes: &[u8], at: usize) -> Self {
        Self { offset: u64_at(bytes, at), len: u64_at(bytes, at + 8) }
    }

    /// Returns a part of the range; `None` when the range is too short.
    fn part(self, start: u64, len: u64) -> Option<Self> {
        let is_inside = start.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then_some(Self { offset: self.offset + start, len })
    }
}

/// A sidecar that is being built in memory.
#[derive(Debug, Default)]
pub(super) struct SidecarBuffer {
    pub(super) groups: Vec<GroupEntry>,
    pub(super) rest_at: ByteRange,
    data: Vec<u8>,
}

impl SidecarBuffer {
    /// Adds data; returns its position.
    pub(super) fn put(&mut self, bytes: &[u8]) -> ByteRange {
        let offset = self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        ByteRange { offset, len: bytes.len() as u64 }
    }

    /// Writes the file, which must be empty.
    pub(super) fn write(&self, identity: u32, file: &dyn DiskFile) -> io::Result<u64> {
        let mut directory = Vec::with_capacity(16 + self.groups.len() * GROUP_LEN);
        self.rest_at.encode(&mut directory);
        self.groups.iter().for_each(|group| group.encode(&mut directory));
        let table: Vec<u8> = self
            .data
            .chunks(CHECK_BYTES)
            .flat_map(|block| crc32c::crc32c(block).to_le_bytes())
            .collect();
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[8..12].copy_from_slice(&identity.to_le_bytes());
        header[12..16].copy_from_slice(&(directory.len() as u32).to_le_bytes());
        header[16..24].copy_from_slice(&(self.data.len() as u64).to_le_bytes());
        header[24..28].copy_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
        header[28..32].copy_from_slice(&crc32c::crc32c(&table).to_le_bytes());
        record_file::seal(&mut header);
        let parts = [header.as_slice(), &directory, &table, &self.data];
        file.write_all_at(&mut parts.map(IoSlice::new), 0)?;
        Ok(parts.iter().map(|part| part.len() as u64).sum())
    }
}

/// An open sidecar.
#[derive(Debug)]
pub struct Sidecar {
    file: Arc<dyn DiskFile>,
    groups: Vec<GroupEntry>,
    rest_at: ByteRange,
    /// Checksums of the data blocks.
    checksums: Vec<u32>,
    data_at: u64,
    data_len: u64,
}

impl Sidecar {
    /// Opens the sidecar of a segment: reads header, directory and checksums.
    pub fn open(file: Arc<dyn DiskFile>, segment: &Segment) -> Result<Self, SidecarError> {
        let mut header = [0; HEADER_LEN];
        read_exact(&*file, &mut header, 0)?;
        match record_file::version(&header, MAGIC) {
            Some(VERSION) => {}
            // A sidecar of an earlier version lacks something and is rebuilt.
            Some(version) if version < VERSION => return Err(SidecarError::Damaged("old version")),
            Some(version) => return Err(SidecarError::Version(version)),
            None => return Err(SidecarError::Damaged("invalid header")),
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if u32_at(8) != segment.identity() {
            return Err(SidecarError::Damaged("belongs to another segment"));
        }
        let (directory_len, data_len) = (u32_at(12) as usize, u64_at(&header, 16));
        let table_len = data_len.div_ceil(CHECK_BYTES as u64) * 4;
        let data_at = (HEADER_LEN + directory_len) as u64 + table_len;
        let is_whole = file.len()? == data_at.saturating_add(data_len)
            && directory_len <= DIRECTORY_BYTES_MAX
            && table_len <= DIRECTORY_BYTES_MAX as u64;
        if !is_whole {
            return Err(SidecarError::Damaged("wrong file length"));
        }
        let mut directory = vec![0; directory_len];
        read_exact(&*file, &mut directory, HEADER_LEN as u64)?;
        let mut table = vec![0; table_len as usize];
        read_exact(&*file, &mut table, (HEADER_LEN + directory_len) as u64)?;
        if crc32c::crc32c(&directory) != u32_at(24) || crc32c::crc32c(&table) != u32_at(28) {
            return Err(SidecarError::Damaged("directory checksum mismatch"));
        }
        let (rest_at, groups) = read_directory(&directory, data_len)
            .filter(|(_, groups)| fits(groups, segment))
            .ok_or(SidecarError::Damaged("invalid directory"))?;
        let checksums = table.as_chunks().0.iter().map(|crc| u32::from_le_bytes(*crc)).collect();
        Ok(Self { file, groups, rest_at, checksums, data_at, data_len })
    }

    /// Returns the pages of a row group that may contain the term, one bit each; pages whose bit is
    /// not set do not contain it.
    pub fn pages(&self, group: usize, term: u64) -> Result<u64, SidecarError> {
        let entry = self.group(group)?;
        let term = not_zero(term);
        let (probes, wanted) = entry.fuse.probes(term);
        let mut buffer = Vec::new();
        let mut found = 0;
        for probe in probes {
            let at = ByteRange { offset: entry.fuse_at.offset + probe as u64, len: 1 };
            found ^= self.read(at, &mut buffer)?.first().copied().unwrap_or(0);
        }
        if found != wanted {
            return Ok(0);
        }
        let block = u64::from(bloom::block_of(term, entry.blocks));
        let len = entry.row_len() as u64;
        let row = ByteRange { offset: entry.bloom_at.offset + block * len, len };
        Ok(bloom::pages_of(self.read(row, &mut buffer)?, term))
    }

    /// Returns the rows of a row group per minute, service and status; `None` when there are too
    /// many combinations.
    pub fn counts(&self, group: usize) -> Result<Option<MinuteCounts>, SidecarError> {
        let at = self.group(group)?.counts_at;
        if at.len == 0 {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let counts = MinuteCounts::decode(self.read(at, &mut buffer)?);
        counts.map(Some).ok_or(SidecarError::Damaged("invalid counts"))
    }

    /// Returns the trigrams of the words in the messages of a row group; `None` when there are no
    /// messages.
    pub fn grams(&self, group: usize) -> Result<Option<Grams>, SidecarError> {
        let entry = self.group(group)?;
        if entry.grams_at.len == 0 {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let packed = self.read(entry.grams_at, &mut buffer)?;
        let table = zstd::bulk::decompress(packed, TABLE_BYTES_MAX).ok();
        let grams = table.and_then(|table| Grams::new(table, entry.pages as usize));
        grams.map(Some).ok_or(SidecarError::Damaged("invalid trigram table"))
    }

    /// Returns which of the `rows` rows of a row group have the word, which is in lower case, in
    /// their message: one bit each, 64 to a number. `None` when the rows of this word are not
    /// stored.
    pub fn rows_of_word(
        &self,
        group: usize,
        rows: usize,
        word: &[u8],
    ) -> Result<Option<Vec<u64>>, SidecarError> {
        const DAMAGED: SidecarError = SidecarError::Damaged("invalid frequent words");
        let at = self.group(group)?.frequent_at;
        if at.len == 0 {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let len = self.read(at.part(0, 4).ok_or(DAMAGED)?, &mut buffer)?.first_chunk();
        let len = u64::from(len.map_or(0, |len| u32::from_le_bytes(*len)));
        let list = self.read(at.part(4, len).ok_or(DAMAGED)?, &mut buffer)?;
        let found = frequent::find(list, word).map_err(|_| DAMAGED)?;
        let Some((offset, packed_len)) = found else { return Ok(None) };
        let packed = at.part(4 + len + offset, packed_len).ok_or(DAMAGED)?;
        let packed = self.read(packed, &mut buffer)?;
        frequent::unpack(packed, rows).map(Some).ok_or(DAMAGED)
    }

    /// Returns the paths in `_rest`.
    pub fn rest_paths(&self) -> Result<RestPaths, SidecarError> {
        let mut buffer = Vec::new();
        RestPaths::decode(self.read(self.rest_at, &mut buffer)?)
            .ok_or(SidecarError::Damaged("invalid paths"))
    }

    /// Reads all data and verifies the checksums.
    pub(crate) fn check_data(&self) -> Result<(), SidecarError> {
        const PIECE_BYTES: usize = 256 * CHECK_BYTES;
        let mut buffer = Vec::new();
        for offset in (0..self.data_len).step_by(PIECE_BYTES) {
            let len = (self.data_len - offset).min(PIECE_BYTES as u64);
            self.read(ByteRange { offset, len }, &mut buffer)?;
        }
        Ok(())
    }

    /// Returns its row groups.
    pub(super) fn groups(&self) -> Range<usize> {
        0..self.groups.len()
    }

    /// Adds row groups to another sidecar.
    pub(super) fn copy_groups(
        &self,
        groups: Range<usize>,
        target: &mut SidecarBuffer,
    ) -> Result<(), SidecarError> {
        let mut buffer = Vec::new();
        for group in groups {
            let mut copy = *self.group(group)?;
            for at in copy.byte_ranges() {
                *at = target.put(self.read(*at, &mut buffer)?);
            }
            target.groups.push(copy);
        }
        Ok(())
    }

    /// Returns the size of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.data_at + self.data_len
    }

    fn group(&self, group: usize) -> Result<&GroupEntry, SidecarError> {
        self.groups.get(group).ok_or(SidecarError::Damaged("no such row group"))
    }

    /// Reads data, together with the rest of the blocks that contain it.
    fn read<'b>(&self, at: ByteRange, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], SidecarError> {
        const CHECK: u64 = CHECK_BYTES as u64;
        let first = at.offset / CHECK;
        let start = first * CHECK;
        let end = (at.offset + at.len).next_multiple_of(CHECK).min(self.data_len);
        buffer.resize(end.saturating_sub(start) as usize, 0);
        read_exact(&*self.file, buffer, self.data_at + start)?;
        let checksums = self.checksums.get(first as usize..).unwrap_or_default();
        for (block, checksum) in buffer.chunks(CHECK_BYTES).zip(checksums) {
            if crc32c::crc32c(block) != *checksum {
                return Err(SidecarError::Damaged("data checksum mismatch"));
            }
        }
        let from = (at.offset - start) as usize;
        buffer.get(from..from + at.len as usize).ok_or(SidecarError::Damaged("wrong data length"))
    }
}

fn read_directory(directory: &[u8], data_len: u64) -> Option<(ByteRange, Vec<GroupEntry>)> {
    let (rest, groups) = directory.split_first_chunk::<16>()?;
    let rest_at = ByteRange::decode(rest, 0);
    rest_at.offset.checked_add(rest_at.len).filter(|end| *end <= data_len)?;
    let (groups, []) = groups.as_chunks::<GROUP_LEN>() else { return None };
    let entries = groups.iter().map(|group| GroupEntry::decode(group, data_len));
    let entries: Vec<GroupEntry> = entries.collect::<Option<_>>()?;
    (entries.len() <= ROW_GROUPS_MAX).then_some((rest_at, entries))
}

fn fits(groups: &[GroupEntry], segment: &Segment) -> bool {
    groups.len() == segment.group_count()
        && groups
            .iter()
            .enumerate()
            .all(|(group, entry)| entry.pages as usize == segment.page_count(group))
}

/// Reads exactly this many bytes. A file that is too short is damaged; any other error is the
/// disk's.
fn read_exact(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> Result<(), SidecarError> {
    file.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SidecarError::Damaged("unexpected end of file"),
        _ => SidecarError::Io(error),
    })
}
