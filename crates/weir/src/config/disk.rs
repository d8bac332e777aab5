//! How disk space is divided between the journal, the store and the space kept free.
//!
//! Invariant: whatever is configured, the store can flush while the journal is full, since flushes
//! are what empties the journal. So the journal stops while there is still space for a flush, and
//! the store uses at most half of the remaining space. The store's share never falls below a
//! quarter of the disk, since exceeding it deletes records.

use std::path::Path;

use weir_host::units::format_size;
use weir_host::{Disk as _, RealDisk};
use weir_store::limits::HEAD_BYTES_MIN;

use super::diagnostic::Diagnostics;
use super::glob;
use super::sections::Sections;

/// The head can use at most this share of the disk: a flush writes half of it.
const DISK_PER_HEAD_MIN: u64 = 4;
/// The same, if its size is not configured.
const DISK_PER_HEAD: u64 = 8;

/// The parts of the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskParts {
    /// Maximum size of the journal's segment files.
    pub(crate) journal_max: u64,
    /// Space that the journal leaves free.
    pub(crate) journal_free_min: u64,
    /// Maximum size of the store.
    pub(crate) store_max: u64,
    /// Space that the store leaves free.
    pub(crate) store_free_min: u64,
}

impl DiskParts {
    /// Divides the file system that holds the data directory as configured.
    pub(crate) fn of(sections: &Sections) -> Self {
        let disk = disk_bytes(&sections.data_dir());
        let journal = sections.table("journal");
        let keep_free = journal.size_or_share("keep_free").resolve(disk);
        let flush = if sections.has_store() { flush_bytes(sections.head_bytes()) } else { 0 };
        let journal_free_min = keep_free.saturating_add(flush);
        // Stored records are not deleted to satisfy `keep_free`.
        let half = (disk - journal_free_min.min(disk / 2)) / 2;
        let retention = sections.table("store").size_or_share("retention_size").resolve(disk);
        Self {
            journal_max: journal.size_or_share("size_max").resolve(disk),
            journal_free_min,
            store_max: retention.min(half),
            store_free_min: keep_free,
        }
    }
}

/// Maximum size of a flush of the store: one of the two chunks of the head.
fn flush_bytes(head_bytes: u64) -> u64 {
    head_bytes / 2
}

/// Maximum default size of the store's head on this disk.
pub(crate) fn head_bytes_max(data_dir: &Path) -> u64 {
    (disk_bytes(data_dir) / DISK_PER_HEAD).max(HEAD_BYTES_MIN)
}

/// A flush must fit on the disk.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    let (store, disk) = (sections.table("store"), disk_bytes(&sections.data_dir()));
    let head = store.size("head");
    let head_max = (disk / DISK_PER_HEAD_MIN).max(HEAD_BYTES_MIN);
    if sections.has_store() && store.is_set("head") && head > head_max {
        let message = format!(
            "store.head is {}, too large for the file system of {} that holds data_dir",
            format_size(head),
            format_size(disk),
        );
        diagnostics
            .error(store.location("head"), "store.head", message)
            .help(format!("set it to at most {}, or remove it", format_size(head_max)));
    }
}

/// Size of the file system that holds (or will hold) the directory. If it cannot be determined, the
/// journal's own calls fail in the same way and report the reason.
fn disk_bytes(data_dir: &Path) -> u64 {
    let dir = glob::absolute(data_dir);
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    RealDisk.space(existing).map_or(u64::MAX, |space| space.total_bytes)
}
