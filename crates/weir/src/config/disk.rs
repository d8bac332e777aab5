//! How the disk is divided among the journal, the store and what stays free.
//!
//! Invariant: whatever is configured, the store can write its records down while the journal is
//! full, since that is what empties the journal. So the journal stops while there is still room for
//! a flush of the store, and the store keeps no more than leaves the journal half of the rest.

use std::path::Path;

use weir_host::units::format_size;
use weir_host::{Disk as _, RealDisk};
use weir_store::limits::HEAD_BYTES_MIN;

use super::diagnostic::Diagnostics;
use super::glob;
use super::plan::Sections;

/// The head takes at most this share of the disk: a flush writes half of it.
const DISK_PER_HEAD_MIN: u64 = 4;
/// The same, where nobody has chosen its size.
const DISK_PER_HEAD: u64 = 8;

/// The parts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskParts {
    /// What segment files of the journal may take.
    pub(crate) journal_max: u64,
    /// What the journal leaves free.
    pub(crate) journal_free_min: u64,
    /// What the store keeps.
    pub(crate) store_max: u64,
    /// What the store leaves free.
    pub(crate) store_free_min: u64,
}

impl DiskParts {
    /// As configured, on the file system that holds the data directory.
    pub(crate) fn of(sections: &Sections) -> Self {
        let disk = disk_bytes(&sections.data_dir());
        let journal = sections.table("journal");
        let keep_free = journal.size_or_share("keep_free").resolve(disk);
        let flush = if sections.has_store() { flush_bytes(sections.head_bytes()) } else { 0 };
        let journal_free_min = keep_free.saturating_add(flush);
        let half = disk.saturating_sub(journal_free_min) / 2;
        let retention = sections.table("store").size_or_share("retention_size").resolve(disk);
        Self {
            journal_max: journal.size_or_share("limit").resolve(disk),
            journal_free_min,
            store_max: retention.min(half),
            store_free_min: keep_free,
        }
    }
}

/// Most bytes that a flush of the store writes: one of the two chunks of the head.
fn flush_bytes(head_bytes: u64) -> u64 {
    head_bytes / 2
}

/// Memory of the store's head where nobody has chosen it, as far as the disk is concerned.
pub(crate) fn head_bytes_max(data_dir: &Path) -> u64 {
    (disk_bytes(data_dir) / DISK_PER_HEAD).max(HEAD_BYTES_MIN)
}

/// A flush fits on the disk beside everything else.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    let (store, disk) = (sections.table("store"), disk_bytes(&sections.data_dir()));
    let head = store.size("head");
    let head_max = (disk / DISK_PER_HEAD_MIN).max(HEAD_BYTES_MIN);
    if sections.has_store() && store.is_set("head") && head > head_max {
        let message = format!(
            "store.head is {}, too much for the file system of {} that holds data_dir",
            format_size(head),
            format_size(disk),
        );
        diagnostics
            .error(store.place("head"), "store.head", message)
            .help(format!("write at most {}, or leave it out", format_size(head_max)));
    }
}

/// Size of the file system that holds (or will hold) the directory. When it cannot be found out,
/// the journal's own calls fail in the same way and say why.
fn disk_bytes(data_dir: &Path) -> u64 {
    let dir = glob::absolute(data_dir);
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    RealDisk.space(existing).map_or(u64::MAX, |space| space.total_bytes)
}
