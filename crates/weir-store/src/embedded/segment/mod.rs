//! Segments: immutable Parquet files, written once from rows that are sorted by stream and time.
//!
//! [`write_segment`] writes one, [`Segment`] reads it page by page. The format is described in
//! `docs/internals/segment.md`. Invariants: pages are aligned across all columns, so that a bit per
//! page means the same rows in each; every byte that is read back is covered by a checksum, or by
//! comparison with something that is; other engines can read the files as they are.

mod chunk;
mod codes;
mod column;
mod concat;
mod copy;
mod decode;
mod encode;
mod encoder;
mod error;
mod page;
mod plan;
mod reader;
mod records;
mod writer;

pub use codes::CodeSet;
pub use column::{Column, Fixed, Role, ValueKind};
pub use concat::{concat_columns, concat_segments, cut_segment};
pub use error::SegmentError;
pub use reader::{ChunkInfo, Dictionary, MinMax, PageBuffer, PageTexts, PageValues, Segment};
pub use writer::{ColumnSummary, Provenance, SegmentSummary, write_segment};

pub(crate) use chunk::{Chunk, OwnedChunk, Values};
pub(crate) use decode::Reader as VarintReader;
pub(crate) use encode::{varint, zigzag};
pub(crate) use plan::value_of_kind;
pub(crate) use records::Detail;
pub(crate) use writer::{Observer, write_observed};
