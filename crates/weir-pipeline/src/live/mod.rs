//! Live tails: the records that expressions describe, as they come in.
//!
//! All live tails of a pipeline share one reader of the journal, one thread and one pass over each
//! record ([`matcher`]); what is found waits in one backlog for all of them ([`hub`]).
//!
//! Invariants: it is an optional reader of the journal, so it never holds anything back; its
//! backlog is bounded, whatever the number of tails, and what one misses is counted exactly; a
//! slow one costs no other; records are seen as rules left them, so what is hidden from outputs is
//! hidden here; without a tail there is neither reader nor thread.

mod hub;
mod limits;
mod matcher;

use std::io::Write as _;
use std::sync::Arc;

use tokio::sync::Notify;
use weir_codec::Renames;
use weir_expr::{CompileError, Expr, NamedMeasure};
use weir_host::units::format_size;
use weir_model::Batch;

use crate::view::PipelineView;
pub(crate) use hub::Hub;
use hub::{Names, Taken};

/// The records that an expression describes, from now on.
#[derive(Debug)]
pub struct LiveTail {
    hub: Arc<Hub>,
    id: u64,
    /// Notified when there is something to take.
    wake: Arc<Notify>,
}

/// Why a live tail does not begin.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The expression cannot be compiled.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// The regular expressions of all live tails would take too much memory with these.
    #[error(
        "the regular expressions of all live tails may take {} together when they are compiled, and with these they would take more; end a live tail, or try again later",
        format_size(*max as u64)
    )]
    TooLargeTogether {
        /// Bytes that they may take.
        max: usize,
    },
    /// No thread to look at records.
    #[error("no thread can be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// What a live tail sees next.
#[derive(Debug)]
pub enum LiveEvent {
    /// Records that the expression describes; never empty.
    Rows(Rows),
    /// So many records were missed: those that the expression describes, where it is this tail
    /// that was too slow; where all of them together were, records of all streams, and whether the
    /// expression describes them is not known.
    Gap {
        /// Records.
        records: u64,
    },
}

/// Records of one batch.
#[derive(Debug)]
pub struct Rows {
    batch: Arc<Batch>,
    source: Arc<str>,
    /// Which of the batch's records, in order.
    indexes: Arc<[u32]>,
}

impl LiveTail {
    /// Begins with what is appended from now on, and misses nothing of it. While there are other
    /// live tails, what was appended shortly before may come first, and may be counted in a gap.
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

    /// The next rows or gap; `None` when the pipeline has ended. Nothing is lost when the future
    /// is dropped before it is ready.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            match self.hub.take(self.id) {
                Taken::Event(event) => return Some(event),
                Taken::Over => return None,
                Taken::Nothing => self.wake.notified().await,
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
    /// From now on live tails know these attributes, which are computed from others, and no
    /// other ones; and others by these names, as the store does.
    pub fn set_names(&self, measures: &[NamedMeasure], renames: &Renames) {
        let renames = Arc::new(renames.clone());
        self.live.set_names(Names { measures: measures.into(), renames });
    }
}

impl Rows {
    /// Calls `row` for those that `is_wanted` says, in order, with the record as a JSON object in
    /// the terms of OpenTelemetry's log data model, the name of its source under `source`, and
    /// `stream` and `position`, by which the store knows it too.
    pub fn for_each(&self, mut is_wanted: impl FnMut() -> bool, mut row: impl FnMut(&[u8])) {
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
            // Writing to a vector cannot fail.
            let _ = write!(json, "\",\"stream\":\"{stream}\",\"position\":\"{position}\"}}");
            row(&json);
        }
    }
}
