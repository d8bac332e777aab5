//! Live tail: the records that an expression describes, as they come in.
//!
//! Invariants: it is an optional reader of the journal, so it never holds anything back; its
//! backlog is bounded, and what it misses is counted exactly; it sees records as rules left them,
//! so what is hidden from outputs is hidden here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use weir_expr::{CompileError, Compiled, Expr, Hits};
use weir_journal::{Next, Subscriber};
use weir_model::{Batch, RecordView, SourceId};

use crate::output::lines;
use crate::rule::{Draft, Origin, RecordFields};
use crate::view::PipelineView;

/// Bytes of batches that may wait for one live tail: about a tenth of a second at full speed, and
/// a bound on what a reader that hangs costs.
const BACKLOG_BYTES: u64 = 4 * 1024 * 1024;

/// The records that an expression describes, from now on.
#[derive(Debug)]
pub struct LiveTail {
    subscriber: Subscriber,
    filter: Compiled,
    hits: Hits,
    sources: HashMap<SourceId, Source>,
    draft: RefCell<Draft>,
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    origin: Origin,
}

/// What a live tail sees next.
#[derive(Debug)]
pub enum LiveEvent {
    /// Records that the expression describes; never empty.
    Rows(Rows),
    /// So many records were missed, since they came faster than they were taken. Whether the
    /// expression describes them is not known.
    Gap {
        /// Records of all streams.
        records: u64,
    },
}

/// Records of one batch.
#[derive(Debug)]
pub struct Rows {
    batch: Arc<Batch>,
    source: Arc<str>,
    /// Which of the batch's records, in order.
    indexes: Vec<u32>,
}

impl LiveTail {
    /// Begins with what is appended from now on.
    ///
    /// # Errors
    /// A regular expression that is too large when it is compiled.
    pub fn new(view: &PipelineView, expression: &Expr) -> Result<Self, CompileError> {
        let source = |name: &str| {
            let source = Source { name: name.into(), origin: Origin::new(name) };
            (SourceId::of(name), source)
        };
        Ok(Self {
            filter: Compiled::new(expression)?,
            subscriber: view.journal.subscribe(BACKLOG_BYTES),
            hits: Hits::default(),
            sources: view.sources.iter().map(|view| source(&view.name)).collect(),
            draft: RefCell::default(),
        })
    }

    /// The next rows or gap; `None` when the pipeline has ended. Nothing is lost when the future
    /// is dropped before it is ready.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            match self.subscriber.next().await? {
                Next::Gap { count, .. } => return Some(LiveEvent::Gap { records: count }),
                Next::Batch(batch) => {
                    let rows = self.matching(batch);
                    if !rows.indexes.is_empty() {
                        return Some(LiveEvent::Rows(rows));
                    }
                    // One batch after the other without a match must not keep the thread.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn matching(&mut self, batch: Arc<Batch>) -> Rows {
        let Self { filter, hits, sources, draft, .. } = self;
        // Batches of a source that was removed may still be on their way.
        let source = sources
            .entry(batch.header().source)
            .or_insert_with(|| Source { name: "".into(), origin: Origin::new("") });
        source.origin.set_resource(batch.resource());
        let origin = &source.origin;
        let mut pass = filter.batch(origin);
        let mut matches = |view: RecordView<'_>| {
            draft.get_mut().begin(&view);
            pass.record(&RecordFields { origin, view, draft }, hits);
            !hits.is_empty()
        };
        let records = (0..).zip(batch.records());
        let indexes = records.filter_map(|(index, view)| matches(view).then_some(index)).collect();
        Rows { indexes, source: source.name.clone(), batch }
    }
}

impl Rows {
    /// Calls `row` for those that `is_wanted` says, in order, with the record as a JSON object in
    /// the terms of OpenTelemetry's log data model, the name of its source under `source`, and
    /// `stream` and `position`, by which the store knows it too.
    pub fn for_each(&self, mut is_wanted: impl FnMut() -> bool, mut row: impl FnMut(&[u8])) {
        let observed_ns = self.batch.header().observed_ns;
        let mut json = Vec::new();
        let mut indexes = self.indexes.iter().copied().peekable();
        for (index, record) in (0..).zip(self.batch.records()) {
            if indexes.next_if_eq(&index).is_some() && is_wanted() {
                json.clear();
                lines::open_json(&record, observed_ns, self.batch.resource(), &mut json);
                json.extend_from_slice(b",\"source\":\"");
                weir_codec::escape_json_into(self.source.as_bytes(), &mut json);
                let (stream, position) = (self.batch.header().stream, record.position);
                // Writing to a vector cannot fail.
                let _ = write!(json, "\",\"stream\":\"{stream}\",\"position\":\"{position}\"}}");
                row(&json);
            }
        }
    }
}
