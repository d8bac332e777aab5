//! Errors when writing or reading a segment.

use std::io;

/// What went wrong, classified by what the caller should do.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The disk failed: retry, now or later.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not as it was written: set it aside.
    #[error("the segment is damaged: {0}")]
    Damaged(&'static str),
    /// It was written by a later release: leave it alone.
    #[error("segment version {0} is not supported by this release")]
    Version(String),
    /// The rows cannot be written as a segment; an internal error.
    #[error("the segment cannot be written: {0}")]
    Write(String),
}

impl SegmentError {
    /// Returns whether the file's content is damaged, as opposed to a disk error.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl From<parquet::errors::ParquetError> for SegmentError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Write(error.to_string())
    }
}
