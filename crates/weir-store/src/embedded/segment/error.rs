//! Why a segment cannot be written or read.

use std::io;

/// What went wrong, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The disk failed: try again, or later.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not what was written: set it aside.
    #[error("the segment is damaged: {0}")]
    Damaged(&'static str),
    /// A later release wrote it: leave it alone.
    #[error("segment version {0} is not known to this release")]
    Version(String),
    /// The rows cannot be written as a segment; a mistake in the program.
    #[error("the segment cannot be written: {0}")]
    Write(String),
}

impl SegmentError {
    /// The bytes are at fault, not the disk.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl From<parquet::errors::ParquetError> for SegmentError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Write(error.to_string())
    }
}
