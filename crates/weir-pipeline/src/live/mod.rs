//! Live tails: records that match an expression, as they arrive; and Loggregator envelopes for
//! readers that request them ([`envelopes`]).
//!
//! All of them share one reader of the journal, one thread and one pass over each record
//! ([`matcher`]); the matches of all live tails wait in one backlog ([`hub`]).
//!
//! Invariants: the reader of the journal is optional, so it never holds anything back; the backlog
//! is bounded, whatever the number of tails, and missed records are counted exactly; a slow tail
//! does not affect others; records are matched after rules were applied, so redacted data is
//! redacted here too; without a tail or a reader of envelopes there is neither a reader of the
//! journal nor a thread.

mod envelopes;
mod hub;
mod limits;
mod matcher;

use std::io::Write as _;
use std::sync::Arc;

use tokio::sync::Notify;
use weir_codec::Renames;
use weir_expr::{CalculatedField, CompileError, Expr, Units};
use weir_host::units::format_size;
use weir_model::{Batch, Position, StreamId};

use crate::view::PipelineView;
pub(crate) use envelopes::RecordEnvelopes;
pub use envelopes::{
    EnvelopeChunk, EnvelopeOrigin, EnvelopeStream, ReaderBook, ReaderClient, ReaderService,
    ReaderServiceStats, ReaderStatus,
};
pub(crate) use hub::Hub;
use hub::{Names, TailNext};

/// The records that match an expression, from now on.
#[derive(Debug)]
pub struct LiveTail {
    hub: Arc<Hub>,
    id: u64,
    /// Notified when there is something to take.
    wake: Arc<Notify>,
}

/// Why a live tail could not start.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The expression cannot be compiled.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// The regular expressions of all live tails together would take too much memory.
    #[error(
        "the compiled regular expressions of all live tails together would exceed {}; end a live \
         tail, or try again later",
        format_size(*max as u64)
    )]
    TooLargeTogether {
        /// The limit in bytes.
        max: usize,
    },
    /// No thread could be started to match records.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The next event of a live tail.
#[derive(Debug)]
pub enum LiveEvent {
    /// Matching records; never empty.
    Rows(Rows),
    /// This many records were missed: matching ones if this tail was too slow; if all tails
    /// together were, records of all streams, and it is not known whether they match.
    Gap {
        /// Number of records.
        records: u64,
    },
}

/// Records of one batch.
#[derive(Debug)]
pub struct Rows {
    batch: Arc<Batch>,
    source: Arc<str>,
    /// Indexes of the records in the batch, in order.
    indexes: Arc<[u32]>,
}

impl LiveTail {
    /// Starts with the records appended from now on, without missing any. If other live tails are
    /// active, records appended shortly before may come first, and may be counted in a gap.
    ///
    /// The expression is compiled here, together with those of the others, which takes up to a
    /// second.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn new(view: &PipelineView, expression: &Expr) -> Result<Self, LiveError> {
        let wake = Arc::new(Notify::new());
        let id = view.live.join(view, expression, wake.clone())?;
        Ok(Self { hub: view.live.clone(), id, wake })
    }

    /// Returns the next rows or gap; `None` when the pipeline has ended. Nothing is lost if the
    /// future is dropped before it completes.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            match self.hub.take(self.id) {
                TailNext::Event(event) => return Some(event),
                TailNext::Over => return None,
                TailNext::Nothing => self.wake.notified().await,
            }
        }
    }
}

impl Drop for LiveTail {
    fn drop(&mut self) {
        self.hub.leave(self.id);
    }
}

impl PipelineView {
    /// Sets the calculated fields of live tails, replacing previous ones, and alternative attribute
    /// names and units, as in the store.
    pub fn set_names(
        &self,
        calculated_fields: &[CalculatedField],
        renames: &Renames,
        units: &Units,
    ) {
        let renames = Arc::new(renames.clone());
        self.live.set_names(Names {
            calculated_fields: calculated_fields.into(),
            renames,
            units: units.clone(),
        });
    }
}

impl Rows {
    /// Calls `row` for each record for which `is_wanted` returns true, in order. The record is a
    /// JSON object in the terms of the OpenTelemetry log data model, with the name of its source
    /// under `source`, `stream` and `position`, and under `id` what `id_of` makes of its time, its
    /// stream and its position, which identify it in the store.
    pub fn for_each(
        &self,
        mut is_wanted: impl FnMut() -> bool,
        id_of: impl Fn(i64, StreamId, Position) -> String,
        mut row: impl FnMut(&[u8]),
    ) {
        let observed_ns = self.batch.header().observed_ns;
        let mut json = Vec::new();
        for index in self.indexes.iter().map(|index| *index as usize) {
            if !is_wanted() {
                continue;
            }
            let Some(record) = self.batch.records_in(index..index + 1).next() else { continue };
            json.clear();
            let resource = self.batch.resource(record.resource()).encoded;
            weir_codec::open_json(&record, observed_ns, resource, &mut json);
            json.extend_from_slice(b",\"source\":\"");
            weir_codec::escape_json_into(self.source.as_bytes(), &mut json);
            let (stream, position) = (self.batch.header().stream, record.position);
            let id = id_of(record.timestamp_ns, stream, position);
            // Writing to a vector cannot fail.
            let _ = write!(
                json,
                "\",\"stream\":\"{stream}\",\"position\":\"{position}\",\"id\":\"{id}\"}}"
            );
            row(&json);
        }
    }
}
