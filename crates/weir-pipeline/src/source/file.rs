//! `type = "file"`: the settings of a source that reads files by name; `tail` follows them.
//!
//! Invariant: a compressed or temporary file is never read, whatever the patterns are.

use crate::config::{Format, TailSettings};

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// Globs of files to tail (`**` crosses directories).
    pub include: Vec<String>,
    /// Globs of files to exclude. Compressed files (`*.gz`, `*.zst`, `*.xz`, `*.bz2`) and `*.tmp`
    /// are always excluded.
    pub exclude: Vec<String>,
    /// Format of the lines.
    pub format: Format,
    /// Settings shared by all sources that tail files.
    pub tail: TailSettings,
}
