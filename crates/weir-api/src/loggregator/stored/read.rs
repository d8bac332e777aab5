//! Reading stored envelopes of one source.
//!
//! Invariants: envelopes come in the order of their times; of those with the same time either all
//! are returned or none, within a limit, so that a client that continues after the time of the last
//! one misses nothing, as in the original; a result with a gap in the middle is an error.

use std::collections::BTreeSet;

use regex_automata::meta::Regex;
use weir_codec::{
    LogCacheKind, LogCacheRead, LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage,
    LoggregatorMetric, LoggregatorTags, encode_loggregator_gauge, encode_loggregator_metrics,
};
use weir_model::{Kinds, RecordKind};
use weir_store::embedded::columns::StoredRecord;
use weir_store::query::{
    Access, Budget, Coverage, Filter, LogStore, Order, PageKey, PartialReason, ReceivedRequest,
    SearchRequest, TimeRange,
};

use super::envelope::envelope_of;
use super::{ReadError, StoredBatch};
use crate::loggregator::limits::{
    NAME_FILTER_BYTES_MAX, READ_BYTES_MAX, READ_LIMIT, READ_LIMIT_MAX, SAME_TIME_MAX,
};

/// A valid request.
#[derive(Debug)]
pub(in super::super) struct StoredRead {
    source_id: String,
    range: TimeRange,
    limit: usize,
    order: Order,
    kinds: Kinds,
    names: Option<Regex>,
}

impl StoredRead {
    /// The newest logs of a source.
    pub(in super::super) fn newest_logs(source_id: String, limit: usize) -> Self {
        Self {
            source_id,
            range: TimeRange::ALL,
            limit,
            order: Order::NewestFirst,
            kinds: Kinds::LOGS,
            names: None,
        }
    }

    /// All metrics of a source in a range of time, oldest first: at most `limit`.
    pub(in super::super) fn metrics(source_id: String, range: TimeRange, limit: usize) -> Self {
        let metrics = [RecordKind::Counter, RecordKind::Gauge, RecordKind::Timer];
        let kinds = metrics.into_iter().fold(Kinds::NONE, Kinds::with);
        Self { source_id, range, limit, order: Order::OldestFirst, kinds, names: None }
    }

    /// Checks a request; `now_ns` is the default for its end.
    pub(in super::super) fn new(read: LogCacheRead, now_ns: i64) -> Result<Self, ReadError> {
        let LogCacheRead { start_ns, end_ns, limit, .. } = read;
        let invalid = |text| Err(ReadError::Invalid(text));
        if end_ns != 0 && start_ns > end_ns {
            return invalid(format!("StartTime ({start_ns}) must be before EndTime ({end_ns})"));
        }
        if limit > READ_LIMIT_MAX as i64 {
            return invalid(format!("Limit ({limit}) must be {READ_LIMIT_MAX} or less"));
        }
        let Ok(limit) = usize::try_from(limit) else {
            return invalid(format!("Limit ({limit}) must be greater than zero"));
        };
        let mut kinds = Kinds::NONE;
        for kind in &read.kinds {
            match kind {
                Some(LogCacheKind::Any) => {}
                Some(LogCacheKind::Only(kind)) => kinds = kinds.with(*kind),
                None => return invalid("EnvelopeTypes has an unknown type".to_owned()),
            }
        }
        let end_ns = if end_ns == 0 { now_ns } else { end_ns };
        Ok(Self {
            source_id: read.source_id,
            range: TimeRange { from_ns: start_ns, to_ns: end_ns.min(i64::MAX - 1) },
            limit: if limit == 0 { READ_LIMIT } else { limit },
            order: if read.is_descending { Order::NewestFirst } else { Order::OldestFirst },
            kinds: if kinds == Kinds::NONE { Kinds::ALL } else { kinds },
            names: match read.name_filter.as_str() {
                "" => None,
                pattern => Some(name_filter(pattern)?),
            },
        })
    }

    /// Reads the envelopes; `sources` receive envelopes.
    pub(in super::super) fn run(
        &self,
        store: &dyn LogStore,
        sources: &BTreeSet<String>,
        budget: &Budget,
    ) -> Result<StoredBatch, ReadError> {
        let mut found = EnvelopeCollector { read: self, sources, batch: StoredBatch::default() };
        if self.range.is_empty() {
            return Ok(found.batch);
        }
        let last = self.pages(store, budget, self.range, None, self.limit, &mut found)?;
        // Envelopes with the time of the last one belong together.
        if let Some(last) = last {
            let range = TimeRange { from_ns: last.time_ns, to_ns: last.time_ns.saturating_add(1) };
            let limit = found.batch.count() + SAME_TIME_MAX;
            self.pages(store, budget, range, Some(last), limit, &mut found)?;
        }
        Ok(found.batch)
    }

    /// Reads pages until there are `limit` envelopes. Returns where the rest begins, if there is
    /// one.
    fn pages(
        &self,
        store: &dyn LogStore,
        budget: &Budget,
        range: TimeRange,
        mut after: Option<PageKey>,
        limit: usize,
        found: &mut EnvelopeCollector<'_>,
    ) -> Result<Option<PageKey>, ReadError> {
        while found.batch.count() < limit {
            let filter = Filter { range, ..Filter::all(Access::all()) };
            let wanted = limit - found.batch.count();
            let search = SearchRequest { filter, order: self.order, limit: wanted, after };
            let service = self.source_id.clone();
            let request = ReceivedRequest { service, search, kinds: self.kinds };
            let page = store.received(&request, budget).map_err(|error| ReadError::of(&error))?;
            self.check(&page.coverage, &mut found.batch)?;
            for record in &page.records {
                found.add(record)?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(after)
    }

    /// Handles an incomplete page. A client that reads in ascending order would miss the rest, so
    /// it gets an error; one that reads the newest gets a result that is marked as partial.
    fn check(&self, coverage: &Coverage, batch: &mut StoredBatch) -> Result<(), ReadError> {
        for reason in &coverage.partial_reasons {
            match (reason, self.order) {
                (PartialReason::Memory, _) => return Err(ReadError::TooLarge),
                (PartialReason::Deadline, Order::OldestFirst) => return Err(ReadError::Late),
                (PartialReason::Deadline, Order::NewestFirst) => batch.partial = Some("deadline"),
                (PartialReason::CatchingUp, _) => batch.partial = Some("catching_up"),
                (PartialReason::Damaged { .. }, _) => batch.partial = Some("damaged"),
            }
        }
        Ok(())
    }
}

/// Collects the envelopes of a read.
struct EnvelopeCollector<'r> {
    read: &'r StoredRead,
    sources: &'r BTreeSet<String>,
    batch: StoredBatch,
}

impl EnvelopeCollector<'_> {
    fn add(&mut self, record: &StoredRecord) -> Result<(), ReadError> {
        let source = record.source.as_deref().unwrap_or_default();
        let is_envelope = self.sources.contains(source);
        let Some(bytes) = envelope_of(record, &self.read.source_id, is_envelope) else {
            return Ok(());
        };
        let bytes = match &self.read.names {
            None => bytes,
            Some(names) => match filtered(bytes, names) {
                Some(bytes) => bytes,
                None => return Ok(()),
            },
        };
        self.batch.push(bytes);
        if self.batch.bytes > READ_BYTES_MAX { Err(ReadError::TooLarge) } else { Ok(()) }
    }
}

fn name_filter(pattern: &str) -> Result<Regex, ReadError> {
    let limit = Regex::config().nfa_size_limit(Some(NAME_FILTER_BYTES_MAX));
    let limit = limit.onepass_size_limit(Some(NAME_FILTER_BYTES_MAX));
    let built = Regex::builder().configure(limit).build(pattern);
    built.map_err(|error| {
        let text = format!("Name filter must be a valid regular expression: {error}");
        ReadError::Invalid(text)
    })
}

/// Returns the envelope, if its metric has such a name; a gauge with only those measurements.
fn filtered(bytes: Vec<u8>, names: &Regex) -> Option<Vec<u8>> {
    let mut tags = LoggregatorTags::default();
    let envelope = LoggregatorEnvelope::parse(&bytes, &mut tags).ok()?;
    let gauge = match envelope.message {
        LoggregatorMessage::Counter { name, .. } | LoggregatorMessage::Timer { name, .. } => {
            return names.is_match(name).then_some(bytes);
        }
        LoggregatorMessage::Gauge(gauge) => gauge,
        LoggregatorMessage::None
        | LoggregatorMessage::Log { .. }
        | LoggregatorMessage::Event { .. } => return None,
    };
    let all: Vec<LoggregatorMetric<'_>> = gauge.metrics().collect();
    let some: Vec<_> = all.iter().copied().filter(|metric| names.is_match(metric.name)).collect();
    if some.is_empty() {
        return None;
    }
    if some.len() == all.len() {
        return Some(bytes);
    }
    let (mut metrics, mut out) = (Vec::new(), Vec::new());
    encode_loggregator_metrics(&some, &mut metrics);
    encode_loggregator_gauge(&bytes, LoggregatorGauge(&metrics), &mut out).ok()?;
    Some(out)
}
