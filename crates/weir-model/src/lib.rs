//! The data model of weir: log records and metrics in batches, their positions, resources and
//! books.
//!
//! Invariants of this crate: no I/O, no clock, no async, no threads. A [`Batch`] is one contiguous
//! buffer whose memory layout *is* its frame on disk and on the wire (`docs/internals/frame.md`);
//! nothing is ever serialized record by record.
//!
//! Reading order: [`limits`], [`Position`], [`BatchBuilder`], [`Batch`], [`SourceBook`] and
//! [`CursorBook`], [`LogRecord`].
#![forbid(unsafe_code)]

pub mod limits;

mod batch;
mod books;
mod builder;
mod columns;
mod frame;
mod header;
mod intern;
mod kind;
mod merge;
mod metric;
mod pool;
mod position;
mod record;
mod reduce;
mod resource;
mod resources;
mod routes;
mod selection;

pub use batch::{Batch, RecordView, Records};
pub use books::{AbandonReason, CursorBook, DiscardReason, SourceBook};
pub use builder::{BatchBuilder, Full, NewRecord, PlainRecords, Seal};
pub use frame::{FrameError, FrameFeatures, FrameHeader, HEADER_LEN};
pub use header::{HeaderChange, HeaderField};
pub use kind::{Kinds, RecordKind};
pub use metric::Metric;
pub use pool::{PooledBuf, pooled_bytes};
pub use position::{Position, SourceId, StreamId, hash64};
pub use record::{
    Facility, LogRecord, RecordFlags, Severity, unescape_json, unescape_json_into,
    unescape_json_with_places,
};
pub use reduce::Share;
pub use resource::{PEER, Resource, TAGS, TENANT, Value};
pub use resources::ResourceView;
pub use routes::RoutedRows;
pub use selection::Selection;
