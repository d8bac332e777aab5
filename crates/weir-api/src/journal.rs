//! The state of the journal in the ledger and in the status.
//!
//! Invariant: what the journal reports is in the documents without exception: a value that is
//! missing here does not compile.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{JournalStatus, LostRecords, Recovery};

/// The buffer: what it holds, and what it has done since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalEntry {
    /// Memory held by batches, in bytes.
    pub ring_bytes: u64,
    /// Limit of `ring_bytes`.
    pub ring_bytes_max: u64,
    /// Size of the segments on disk, in bytes.
    pub disk_bytes: u64,
    /// Limit of `disk_bytes`.
    pub disk_bytes_max: u64,
    /// Number of segment files.
    pub segments: u64,
    /// Batches written to segments.
    pub frames_written: u64,
    /// Batches on disk that were rewritten without the records that are no longer needed.
    pub frames_compacted: u64,
    /// Small batches on disk that were merged into larger ones.
    pub frames_merged: u64,
    /// Flushes, of segments and of the cursor log.
    pub flushes: u64,
    /// The last disk error, until it is resolved.
    pub disk_error: Option<String>,
    /// The findings at the start.
    pub recovery: RecoveryEntry,
}

/// The findings when the journal was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecoveryEntry {
    /// Intact batches found in segments.
    pub frames: u64,
    /// Size of those batches, in bytes.
    pub frame_bytes: u64,
    /// Bytes that were not part of a valid batch; `.bad` files contain copies of them.
    pub damaged_bytes: u64,
    /// Bytes that were being written when the machine stopped, and were never confirmed as safe.
    pub torn_bytes: u64,
    /// Names of files that were set aside.
    pub set_aside: Vec<String>,
    /// Damaged records of the cursor log.
    pub damaged_cursor_records: u64,
    /// Bytes that a destination missed while it was not configured, and that no source can read
    /// again for it.
    pub lost_bytes: u64,
    /// Records that an earlier run had read for a destination, and that are no longer in their file
    /// or the journal. Each is also in that destination's book.
    pub lost: Vec<LostRecordsEntry>,
}

/// Records of one source that one destination has not received and never will.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LostRecordsEntry {
    /// Name of the source.
    pub source: String,
    /// Name of the destination.
    pub destination: String,
    /// The reason under which its book counts them as discarded.
    pub reason: String,
    /// Number of records.
    pub records: u64,
}

impl From<&JournalStatus> for JournalEntry {
    fn from(status: &JournalStatus) -> Self {
        let JournalStatus {
            ring_bytes,
            ring_bytes_max,
            disk_bytes,
            disk_bytes_max,
            segments,
            frames_written,
            frames_compacted,
            frames_merged,
            flushes,
            ref disk_error,
            ref recovery,
        } = *status;
        Self {
            ring_bytes,
            ring_bytes_max,
            disk_bytes,
            disk_bytes_max,
            segments,
            frames_written,
            frames_compacted,
            frames_merged,
            flushes,
            disk_error: disk_error.clone(),
            recovery: recovery.into(),
        }
    }
}

impl From<&Recovery> for RecoveryEntry {
    fn from(recovery: &Recovery) -> Self {
        let Recovery {
            frames,
            frame_bytes,
            damaged_bytes,
            torn_bytes,
            ref set_aside,
            damaged_cursor_records,
            lost_bytes,
            ref lost,
        } = *recovery;
        Self {
            frames,
            frame_bytes,
            damaged_bytes,
            torn_bytes,
            set_aside: set_aside.clone(),
            damaged_cursor_records,
            lost_bytes,
            lost: lost.iter().map(LostRecordsEntry::from).collect(),
        }
    }
}

impl From<&LostRecords> for LostRecordsEntry {
    fn from(lost: &LostRecords) -> Self {
        let LostRecords { source, destination, reason, records } = lost;
        Self {
            source: source.clone(),
            destination: destination.clone(),
            reason: (*reason).to_owned(),
            records: *records,
        }
    }
}
