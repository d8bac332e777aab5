//! Finds the frames of a segment, whatever happened to it.
//!
//! Invariants: a frame is accepted only if its header is plausible and its checksum correct, and,
//! in a segment with an intact index, only if the index lists it, wherever it is located. Bytes
//! between frames are searched at every offset. An intact frame of another release, where a frame
//! is expected, is not damage: it ends the scan. However hostile the content, the work is linear in
//! the length of the file: the checksums of candidates are differences of prefix checksums, which
//! are computed once.

use std::collections::HashMap;
use std::io;

use weir_host::DiskFile;
use weir_model::limits::FRAME_BYTES_MAX;
use weir_model::{Batch, FrameError, FrameHeader, HEADER_LEN as FRAME_HEADER_LEN};

use crate::index::{self, FrameKey, IndexEntry, SegmentIndex};
use crate::segment::{SegmentHeader, is_damage};
use crate::state::Location;

/// The result of scanning a segment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Ranges that are neither frames nor zeros.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// End of the last intact frame.
    pub(crate) end: u64,
    /// Number of bytes after it that were being written when the machine stopped, and were never
    /// confirmed as safe. A closed segment has none.
    pub(crate) torn_bytes: u64,
    /// The part of them that is not zero.
    pub(crate) torn: Option<(u64, u64)>,
    /// Offset of an intact frame that this release does not support, and the reason. In that case
    /// all other fields are meaningless.
    pub(crate) unknown: Option<(u64, FrameError)>,
    /// The intact index at its end.
    pub(crate) index: Option<SegmentIndex>,
    /// Frames that the index lists but that are missing; true if there are zeros instead.
    pub(crate) missing: Vec<(IndexEntry, bool)>,
    /// Number of bytes checksummed, and of headers examined.
    pub(crate) work: u64,
}

/// Finds all frames of a segment; `found` receives each intact one.
pub(crate) fn scan(
    file: &dyn DiskFile,
    id: u64,
    header: &SegmentHeader,
    mut found: impl FnMut(Location, Batch),
) -> io::Result<Scan> {
    let index = match index::read(file, id, header.salt, header.frames_at) {
        Err(error) if is_damage(&error) => None,
        index => index?,
    };
    let file_len = file.len()?;
    let data_end = index.as_ref().map_or(file_len, |(_, at)| *at);
    let mut search = Search { window: Window::new(file, data_end), id, scan: Scan::default() };
    search.scan.end = header.frames_at;
    match index {
        Some((index, _)) => {
            search.by_index(&index, header.frames_at, &mut found)?;
            search.scan.index = Some(index);
        }
        None => search.without_index(header.frames_at, &mut found)?,
    }
    search.scan.work = search.window.work;
    Ok(search.scan)
}

struct Search<'a> {
    window: Window<'a>,
    id: u64,
    scan: Scan,
}

impl Search<'_> {
    /// Scans consecutive frames. After damage, scanning continues at the end stated by the damaged
    /// frame, if a frame is there (so that nothing inside it, which is logged content, is taken for
    /// a frame), otherwise at the next offset with an intact frame.
    fn without_index(
        &mut self,
        start: u64,
        found: &mut impl FnMut(Location, Batch),
    ) -> io::Result<()> {
        let end = self.window.end;
        let mut at = start;
        while at < end {
            // The code below must not go back in the file, which would read the same data
            // repeatedly.
            self.window.load(at, LOOK_AHEAD_BYTES)?;
            let mut next = self.window.frame_at(at, |_| true)?.map(|batch| (at, batch));
            if next.is_none() {
                if self.is_unknown(at)? {
                    return Ok(());
                }
                next = self.behind_damage(at)?;
                if self.scan.unknown.is_some() {
                    return Ok(());
                }
                let to = next.as_ref().map_or(end, |(next, _)| *next);
                let damaged = self.window.without_zeros(at, to)?;
                if next.is_some() {
                    self.scan.damaged.extend(damaged);
                } else {
                    (self.scan.torn, self.scan.torn_bytes) = (damaged, end - at);
                }
            }
            let Some((place, batch)) = next else { break };
            at = place + batch.frame_bytes() as u64;
            self.scan.end = at;
            found(self.location(place, &batch), batch);
        }
        Ok(())
    }

    fn behind_damage(&mut self, at: u64) -> io::Result<Option<(u64, Batch)>> {
        let mut stated = at;
        for _ in 0..STATED_MAX {
            let Some(header) = self.window.header_at(stated)? else { break };
            stated += u64::from(header.frame_len);
            if let Some(batch) = self.window.frame_at(stated, |_| true)? {
                return Ok(Some((stated, batch)));
            }
            if stated == self.window.end || self.is_unknown(stated)? {
                return Ok(None);
            }
        }
        self.window.find(at + 1, self.window.end, |_| true)
    }

    /// Returns whether an intact frame of another release is here, and records it.
    fn is_unknown(&mut self, at: u64) -> io::Result<bool> {
        let unknown = self.window.unknown_at(at)?;
        self.scan.unknown = unknown.map(|error| (at, error));
        Ok(self.scan.unknown.is_some())
    }

    /// Scans frames at the offsets in the index, or shifted by bytes that were added or lost.
    fn by_index(
        &mut self,
        index: &SegmentIndex,
        start: u64,
        found: &mut impl FnMut(Location, Batch),
    ) -> io::Result<()> {
        let mut missing: HashMap<FrameKey, Vec<usize>> = HashMap::new();
        let mut gaps = Vec::new();
        let mut at = start;
        for (number, entry) in index.entries.iter().enumerate() {
            let (place, key) = (entry.location.offset, entry.key);
            let is_it = |header: &FrameHeader| FrameKey::of(header) == key;
            let batch = if place < at { None } else { self.window.frame_at(place, is_it)? };
            let Some(batch) = batch else {
                if place >= at && self.is_unknown(place)? {
                    return Ok(());
                }
                missing.entry(key).or_default().push(number);
                continue;
            };
            gaps.push((at, place));
            at = place + u64::from(key.len);
            self.scan.end = at;
            found(entry.location, batch);
        }
        gaps.push((at, self.window.end));
        for (from, to) in gaps {
            self.search_gap(from, to, &mut missing, found)?;
        }
        let mut missing: Vec<usize> = missing.into_values().flatten().collect();
        missing.sort_unstable();
        for number in missing {
            let entry = index.entries[number].clone();
            let (from, to) =
                (entry.location.offset, entry.location.offset + u64::from(entry.key.len));
            let is_zero = to <= self.window.end && self.window.without_zeros(from, to)?.is_none();
            self.scan.missing.push((entry, is_zero));
        }
        Ok(())
    }

    /// Searches for frames of the index in a range that has none where they should be.
    fn search_gap(
        &mut self,
        from: u64,
        to: u64,
        missing: &mut HashMap<FrameKey, Vec<usize>>,
        found: &mut impl FnMut(Location, Batch),
    ) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let is_missing = |header: &FrameHeader| {
                missing.get(&FrameKey::of(header)).is_some_and(|numbers| !numbers.is_empty())
            };
            let next = self.window.find(at, to, is_missing)?;
            let damage_end = next.as_ref().map_or(to, |(place, _)| *place);
            let damaged = self.window.without_zeros(at, damage_end)?;
            self.scan.damaged.extend(damaged);
            let Some((place, batch)) = next else { break };
            if let Some(numbers) = missing.get_mut(&FrameKey::of(batch.header())) {
                numbers.pop();
            }
            at = place + batch.frame_bytes() as u64;
            self.scan.end = self.scan.end.max(at);
            found(self.location(place, &batch), batch);
        }
        Ok(())
    }

    fn location(&self, offset: u64, batch: &Batch) -> Location {
        Location { segment: self.id, offset, len: batch.frame_bytes() as u32 }
    }
}

/// Reads a file in large pieces, forward, and computes the checksum of any range in a piece.
struct Window<'a> {
    file: &'a dyn DiskFile,
    end: u64,
    start: u64,
    buf: Vec<u8>,
    /// Checksums of the prefixes of `buf`, one every `SUM_STEP` bytes, computed as needed.
    sums: Vec<u32>,
    work: u64,
}

/// How much of a segment is read at once.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;
/// Number of consecutive damaged frames whose stated lengths are followed.
const STATED_MAX: u64 = 2;
const LOOK_AHEAD_BYTES: u64 = (STATED_MAX + 1) * FRAME_BYTES_MAX as u64;
/// The checksum of a candidate costs at most twice this many bytes.
const SUM_STEP: usize = 64;
const FRAME_MAGIC: [u8; 4] = *b"WFRM";

impl<'a> Window<'a> {
    fn new(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { file, end, start: 0, buf: Vec::new(), sums: Vec::new(), work: 0 }
    }

    /// Loads `len` bytes at `at`, as far as the file goes; returns the index of that offset in
    /// `buf`.
    fn load(&mut self, at: u64, len: u64) -> io::Result<usize> {
        let at = at.min(self.end);
        let want_end = (at + len).min(self.end);
        if at < self.start || want_end > self.start + self.buf.len() as u64 {
            let size = WINDOW_BYTES.min(self.end - at) as usize;
            self.buf.resize(size, 0);
            match self.file.read_exact_at(&mut self.buf, at) {
                Err(error) if is_damage(&error) => self.read_what_can_be_read(at),
                read => read?,
            }
            self.start = at;
            self.sums.clear();
        }
        Ok((at - self.start) as usize)
    }

    /// Reads page by page after an error. Unreadable data is made to look damaged, not empty.
    fn read_what_can_be_read(&mut self, at: u64) {
        for (number, page) in self.buf.chunks_mut(4096).enumerate() {
            if self.file.read_exact_at(page, at + number as u64 * 4096).is_err() {
                page.fill(0xff);
            }
        }
    }

    /// Returns the frame header here, if it is plausible and the frame ends within the file.
    fn header_at(&mut self, at: u64) -> io::Result<Option<FrameHeader>> {
        let from = self.load(at, FRAME_BYTES_MAX as u64)?;
        let header =
            FrameHeader::read(&self.buf[from..(from + FRAME_HEADER_LEN).min(self.buf.len())]);
        self.work += 1;
        Ok(header.ok().filter(|header| at + u64::from(header.frame_len) <= self.end))
    }

    /// Returns the frame here, if it is intact and wanted.
    fn frame_at(
        &mut self,
        at: u64,
        is_wanted: impl Fn(&FrameHeader) -> bool,
    ) -> io::Result<Option<Batch>> {
        let Some(header) = self.header_at(at)?.filter(is_wanted) else { return Ok(None) };
        let len = header.frame_len as usize;
        if !self.is_whole(at, len)? {
            return Ok(None);
        }
        self.work += len as u64;
        let from = self.load(at, len as u64)?;
        Ok(Batch::from_frame(self.buf[from..from + len].to_vec()).ok())
    }

    /// Returns what this release does not support about the frame here, if the frame is intact and
    /// there is something.
    fn unknown_at(&mut self, at: u64) -> io::Result<Option<FrameError>> {
        let from = self.load(at, FRAME_BYTES_MAX as u64)?;
        let header = &self.buf[from..(from + FRAME_HEADER_LEN).min(self.buf.len())];
        self.work += 1;
        let unknown = FrameHeader::read(header).err().filter(FrameError::is_unknown);
        let len = FrameHeader::stated_len(header).filter(|len| at + *len as u64 <= self.end);
        let (Some(error), Some(len)) = (unknown, len) else { return Ok(None) };
        Ok(self.is_whole(at, len)?.then_some(error))
    }

    /// Returns whether the checksum of the frame of that length at this offset is correct.
    fn is_whole(&mut self, at: u64, len: usize) -> io::Result<bool> {
        let from = self.load(at, len as u64)?;
        let stored = u32::from_le_bytes(std::array::from_fn(|i| self.buf[from + 12 + i]));
        // Checksum of bytes 0 to 11 and 16 onwards: the part of the prefix up to the frame's end
        // that exceeds the prefix up to its byte 16, appended to its first 12 bytes.
        let head = crc32c::crc32c(&self.buf[from..from + 12]);
        let (before, all) = (self.prefix_sum(from + 16), self.prefix_sum(from + len));
        Ok(all ^ shifted(head ^ before, len - 16) == stored)
    }

    /// Returns the checksum of the first bytes of `buf`.
    fn prefix_sum(&mut self, to: usize) -> u32 {
        let step = to / SUM_STEP;
        while self.sums.len() <= step {
            let sum = self.sums.last().map_or(0, |last| {
                let at = (self.sums.len() - 1) * SUM_STEP;
                self.work += SUM_STEP as u64;
                crc32c::crc32c_append(*last, &self.buf[at..at + SUM_STEP])
            });
            self.sums.push(sum);
        }
        self.work += (to % SUM_STEP) as u64;
        crc32c::crc32c_append(self.sums[step], &self.buf[step * SUM_STEP..to])
    }

    /// Returns the first intact and wanted frame that starts at `from` or later and ends by `to`.
    fn find(
        &mut self,
        from: u64,
        to: u64,
        is_wanted: impl Fn(&FrameHeader) -> bool,
    ) -> io::Result<Option<(u64, Batch)>> {
        let mut at = from;
        while at + FRAME_HEADER_LEN as u64 <= to {
            let here = self.load(at, FRAME_BYTES_MAX as u64)?;
            let searched = self.buf.len().min((to - self.start) as usize);
            let searched = &self.buf[here..searched];
            let magic = searched.windows(4).position(|bytes| bytes == FRAME_MAGIC);
            // Without one, it may still start in the last bytes.
            let skipped = magic.unwrap_or(searched.len() - 3) as u64;
            self.work += skipped + 1;
            at += skipped;
            if magic.is_none() {
                continue;
            }
            let fits =
                |header: &FrameHeader| at + u64::from(header.frame_len) <= to && is_wanted(header);
            if let Some(batch) = self.frame_at(at, fits)? {
                return Ok(Some((at, batch)));
            }
            at += 1;
        }
        Ok(None)
    }

    /// Returns the range without the zeros at its start and end; `None` if it contains only zeros.
    fn without_zeros(&mut self, from: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
        let mut extent: Option<(u64, u64)> = None;
        let mut at = from;
        while at < to {
            let here = self.load(at, 1)?;
            let len = (self.buf.len() - here).min((to - at) as usize);
            let piece = &self.buf[here..here + len];
            if let Some(first) = piece.iter().position(|byte| *byte != 0) {
                let last = piece.iter().rposition(|byte| *byte != 0).unwrap_or(first);
                let begin = extent.map_or(at + first as u64, |(begin, _)| begin);
                extent = Some((begin, at + last as u64 + 1));
            }
            at += len as u64;
        }
        Ok(extent)
    }
}

/// The CRC-32C polynomial, lowest power first in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the product of two polynomials modulo the CRC polynomial.
const fn product(a: u32, mut b: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b;
        }
        bit >>= 1;
        b = if b & 1 == 0 { b >> 1 } else { (b >> 1) ^ POLYNOMIAL };
    }
    sum
}

/// Factors by which `2^n` appended zero bytes change a checksum.
const SHIFTS: [u32; 20] = {
    // x^8: one byte.
    let mut shifts = [1 << 23; 20];
    let mut n = 1;
    while n < shifts.len() {
        shifts[n] = product(shifts[n - 1], shifts[n - 1]);
        n += 1;
    }
    shifts
};

/// Returns the contribution of a checksum to one that is `len` bytes further on. (`crc32c_combine`
/// does the same in twenty times the time.)
fn shifted(sum: u32, len: usize) -> u32 {
    debug_assert!(len < 1 << SHIFTS.len(), "longer than any frame");
    let factors = SHIFTS.iter().enumerate().filter(|(n, _)| len >> n & 1 == 1);
    factors.fold(sum, |sum, (_, factor)| product(*factor, sum))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_host::{Disk, OpenMode};
    use weir_model::{BatchBuilder, Position, Seal, SourceBook, SourceId, StreamId};
    use weir_testkit::FaultyDisk;

    use super::*;

    fn frame() -> Vec<u8> {
        let batch = BatchBuilder::new(Position::new(0, 0)).seal(&Seal {
            repeatable: false,
            stream: StreamId(1),
            group: 0,
            source: SourceId(1),
            end: Position::new(0, 10),
            observed_ns: 1,
            rule_generation: 1,
            book: &SourceBook::default(),
            state: b"",
        });
        let (head, rest) = batch.frame_parts();
        [&head[..], rest].concat()
    }

    /// Returns a plausible header that claims the largest possible frame.
    fn pretender() -> Vec<u8> {
        let mut header = frame()[..FRAME_HEADER_LEN].to_vec();
        header[8..12].copy_from_slice(&(FRAME_BYTES_MAX as u32).to_le_bytes());
        assert!(FrameHeader::read(&header).is_ok());
        header
    }

    /// Scans `len` bytes of a repeated pattern; returns the number of frames and the work.
    fn scan_of(pattern: &[u8], len: usize) -> (u64, u64) {
        let content: Vec<u8> = pattern.iter().copied().cycle().take(len).collect();
        let (disk, path) = (FaultyDisk::new(), Path::new("/data/segment"));
        disk.put(path, &content);
        let file = disk.open(path, OpenMode::Read).unwrap();
        let mut frames = 0;
        let scan = scan(&*file, 1, &SegmentHeader::default(), |_, _| frames += 1).unwrap();
        (frames, scan.work)
    }

    #[test]
    fn a_checksum_is_shifted_as_if_zeros_followed() {
        for len in [0, 1, 7, 112, 4096, FRAME_BYTES_MAX - 16] {
            assert_eq!(shifted(0x1234_5678, len), crc32c::crc32c_combine(0x1234_5678, 0, len));
        }
    }

    #[test]
    fn hostile_content_is_scanned_in_linear_work() {
        const MIB: usize = 1024 * 1024;
        let (frames, work) = scan_of(b"WFRM", 64 * MIB);
        assert_eq!(frames, 0);
        assert!(work < 2 * 64 * MIB as u64, "{work}");
        for (what, pattern) in [
            ("headers", pretender()),
            ("headers and frames", [pretender(), frame()].concat()),
            ("two headers before each frame", [pretender(), pretender(), frame()].concat()),
        ] {
            let works = [8, 16].map(|mib| scan_of(&pattern, mib * MIB).1);
            assert!(works[0] < 6 * 8 * MIB as u64, "{what}: {works:?}");
            assert!(works[1] < works[0] * 9 / 4, "{what}: {works:?}");
        }
        let (frames, _) = scan_of(&[frame(), b"x".to_vec()].concat(), MIB);
        assert_eq!(frames, (MIB / (frame().len() + 1)) as u64);
    }
}
