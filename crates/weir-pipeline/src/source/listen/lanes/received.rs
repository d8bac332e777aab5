//! How many records each lane has received, in a file that survives a kill of the process.
//!
//! The file is written with one system call after each read, without a flush: the kernel keeps it
//! when the process is killed. When the machine stops, an older count may be left; the loss is then
//! a lower bound, which is logged.
//!
//! An entry is an epoch of a lane and its number of records. It counts until the journal knows a
//! later epoch of the lane: the first batch of each epoch contains the loss of the earlier ones. It
//! is kept for longer, since what the journal knows may not be on disk if only the source was
//! replaced.
//!
//! Invariants: an entry counts until the journal knows a later epoch, so no loss is forgotten or
//! counted twice; if the file is missing, damaged or of another version, no records count as lost,
//! and an existing file is reported. `docs/internals/journal.md` describes the protocol.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode};
use weir_model::Position;

use super::super::limits::LANES;
use crate::stats::SourceStats;

const MAGIC: [u8; 4] = *b"WRCV";
const VERSION: u8 = 1;
/// Magic, version, three zero bytes, the boot that wrote it.
const HEADER_LEN: usize = 8 + BOOT_LEN;
const BOOT_LEN: usize = 16;
/// Maximum number of epochs of a lane with records that the journal does not know, which is the
/// number of consecutive starts after which none were stored.
const EPOCHS_MAX: usize = 8;
const ENTRY_LEN: usize = 12;
const FILE_LEN: usize = HEADER_LEN + LANES * EPOCHS_MAX * ENTRY_LEN + 4;

/// An epoch and its number of records.
type Entry = (u32, u64);

/// The counts of all lanes of a source.
#[derive(Debug)]
pub(super) struct ReceivedCounts {
    file: Option<Box<dyn DiskFile>>,
    boot: [u8; BOOT_LEN],
    /// Entries of earlier epochs, then of the current one.
    lanes: [VecDeque<Entry>; LANES],
    /// The machine has restarted since the counts were written.
    is_lower_bound: bool,
    stats: Arc<SourceStats>,
}

impl ReceivedCounts {
    /// Reads the counts of earlier runs, and creates the file if it is missing.
    pub(super) fn open(disk: &dyn Disk, path: &Path, stats: Arc<SourceStats>) -> Self {
        let mut counts = Self {
            file: None,
            boot: boot(),
            lanes: Default::default(),
            is_lower_bound: false,
            stats,
        };
        if let Err(error) = counts.read(disk, path) {
            counts.report(&format!("cannot use {}: {error}", path.display()));
        }
        counts
    }

    fn read(&mut self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            disk.create_dir_all(dir)?;
        }
        let file = disk.open(path, OpenMode::Create)?;
        let mut bytes = vec![0; FILE_LEN];
        let is_new = file.is_empty()?;
        let is_whole = file.len()? == FILE_LEN as u64;
        if is_whole {
            file.read_exact_at(&mut bytes, 0)?;
        }
        self.file = Some(file);
        if is_whole && self.decode(&bytes) || is_new {
            return Ok(());
        }
        Err(io::Error::other("the file is damaged: losses of earlier runs are unknown"))
    }

    fn decode(&mut self, bytes: &[u8]) -> bool {
        let Some((body, check)) = bytes.split_last_chunk::<4>() else { return false };
        if crc32c::crc32c(body) != u32::from_le_bytes(*check)
            || body[..4] != MAGIC
            || body[4] != VERSION
        {
            return false;
        }
        self.is_lower_bound = body[8..HEADER_LEN] != self.boot;
        let mut entries = body[HEADER_LEN..].as_chunks::<ENTRY_LEN>().0.iter();
        for lane in &mut self.lanes {
            for entry in entries.by_ref().take(EPOCHS_MAX) {
                let (epoch, count) = entry.split_at(4);
                let epoch = u32::from_le_bytes(std::array::from_fn(|i| epoch[i]));
                let count = u64::from_le_bytes(std::array::from_fn(|i| count[i]));
                if epoch > 0 {
                    lane.push_back((epoch, count));
                }
            }
        }
        true
    }

    /// Returns the latest epoch of a lane, 0 if there is none.
    pub(super) fn last_epoch(&self, lane: usize) -> u32 {
        self.lanes[lane].back().map_or(0, |(epoch, _)| *epoch)
    }

    /// Returns how many records of a lane were received and are not in the journal, whose last
    /// position is `stored`. Starts the epoch of `next`.
    pub(super) fn begin(&mut self, lane: usize, stored: Position, next: Position) -> u64 {
        let entries = &mut self.lanes[lane];
        // Epochs without records lose none.
        entries.retain(|(_, count)| *count > 0);
        // The first batch of a later epoch contains the loss of earlier ones.
        let later = entries.iter().filter(|(epoch, _)| *epoch >= stored.epoch);
        let lost = later.map(|(epoch, count)| {
            count.saturating_sub(if *epoch == stored.epoch { stored.offset } else { 0 })
        });
        let lost = lost.sum();
        // Earlier ones are kept while there is room: if only the source was replaced, the journal
        // has their records, but perhaps not on disk yet.
        let oldest = if entries.len() == EPOCHS_MAX { entries.pop_front() } else { None };
        if oldest.is_some_and(|(epoch, _)| epoch >= stored.epoch) {
            self.report(
                "too many starts after which no records were stored: an old loss may be uncounted",
            );
        }
        let entries = &mut self.lanes[lane];
        entries.push_back((next.epoch, 0));
        lost
    }

    /// Whether the losses are lower bounds, because the machine has restarted.
    pub(super) fn is_lower_bound(&self) -> bool {
        self.is_lower_bound
    }

    /// Writes the current positions of the lanes.
    pub(super) fn write(&mut self, ends: impl Iterator<Item = Position>) {
        for (lane, end) in self.lanes.iter_mut().zip(ends) {
            if let Some(current) = lane.back_mut() {
                *current = (end.epoch, end.offset);
            }
        }
        let bytes = self.encode();
        if let Some(file) = &self.file
            && let Err(error) = file.write_all_at(&mut [IoSlice::new(&bytes)], 0)
        {
            let text = format!("cannot write the number of received records: {error}");
            self.report(&text);
            // Retried only at the next start: the old count would be wrong from now on.
            self.file = None;
        }
    }

    fn encode(&self) -> [u8; FILE_LEN] {
        let mut bytes = [0; FILE_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[8..HEADER_LEN].copy_from_slice(&self.boot);
        for (lane, entries) in self.lanes.iter().enumerate() {
            for (index, (epoch, count)) in entries.iter().enumerate() {
                let at = HEADER_LEN + (lane * EPOCHS_MAX + index) * ENTRY_LEN;
                bytes[at..at + 4].copy_from_slice(&epoch.to_le_bytes());
                bytes[at + 4..at + ENTRY_LEN].copy_from_slice(&count.to_le_bytes());
            }
        }
        let check = crc32c::crc32c(&bytes[..FILE_LEN - 4]);
        bytes[FILE_LEN - 4..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn report(&self, text: &str) {
        self.stats.errors.count("received_count", text);
        tracing::warn!("{text}");
    }
}

/// Returns the id of the current boot; zeros if it is unknown.
fn boot() -> [u8; BOOT_LEN] {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.iter().filter(|byte| byte.is_ascii_hexdigit());
    let mut boot = [0; BOOT_LEN];
    for (index, digit) in digits.take(2 * BOOT_LEN).enumerate() {
        let value = char::from(*digit).to_digit(16).unwrap_or_default() as u8;
        boot[index / 2] |= value << (4 * (1 - index % 2));
    }
    boot
}

#[cfg(test)]
mod tests {
    use weir_host::RealDisk;

    use super::*;

    fn open(path: &Path) -> ReceivedCounts {
        ReceivedCounts::open(&RealDisk, path, Arc::default())
    }

    fn at(epoch: u32, offset: u64) -> Position {
        Position::new(epoch, offset)
    }

    #[test]
    fn records_received_and_not_stored_are_counted_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("received/a");
        let mut first = open(&path);
        assert_eq!(first.begin(0, at(0, 0), at(10, 0)), 0);
        assert_eq!(first.begin(1, at(0, 0), at(10, 0)), 0);
        first.write([at(10, 100), at(10, 7)].into_iter());
        // The journal has all of lane 1, and 60 of lane 0.
        let mut second = open(&path);
        assert_eq!(second.begin(0, at(10, 60), at(11, 0)), 40);
        assert_eq!(second.begin(1, at(10, 7), at(11, 0)), 0);
        assert!(!second.is_lower_bound());
        second.write([at(11, 5), at(11, 0)].into_iter());
        // Nothing of epoch 11 was stored, not even the loss of epoch 10.
        let mut third = open(&path);
        assert_eq!(third.begin(0, at(10, 60), at(12, 0)), 45);
        third.write([at(12, 0)].into_iter());
        // The first batch of epoch 12 was stored, and contains the loss of the others.
        assert_eq!(open(&path).begin(0, at(12, 0), at(13, 0)), 0);
    }

    #[test]
    fn a_damaged_file_is_reported_and_counts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut counts = open(&path);
        counts.begin(0, at(0, 0), at(1, 0));
        counts.write([at(1, 9)].into_iter());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEADER_LEN + 5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let mut again = open(&path);
        assert_eq!(again.begin(0, at(0, 0), at(2, 0)), 0);
        assert!(again.stats.errors.last().is_some_and(|text| text.contains("damaged")));
    }
}
