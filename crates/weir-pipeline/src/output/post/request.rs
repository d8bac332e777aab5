//! A request: records from one or more whole deliveries in transit to the destination, and their
//! outcome so far.
//!
//! Invariant: every record of the request is either in exactly one range of `todo`, or waits for an
//! acknowledgement in exactly one entry of `unacknowledged`, or is counted in `outcomes`.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use weir_codec::{Framing, HecEncoder};
use weir_host::{Compression, Compressor};
use weir_journal::Outcome;
use weir_model::StreamId;

use super::body::{Body, Events};
use crate::output::datadog_metrics::SeriesEncoder;
use crate::output::loggregator::EnvelopeEncoder;
use crate::output::pending::PendingBatch;

/// How records are encoded.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// As events for a collector, or as raw lines for it.
    Event(HecEncoder),
    /// As JSON objects.
    Json(Framing),
    /// As batches of envelopes.
    Envelopes(Box<EnvelopeEncoder>),
    /// As points of series.
    Series(Box<SeriesEncoder>),
}

impl Encoder {
    /// Calls `visit` with the query of the request that records of the batch must be sent in, and
    /// the number of consecutive records it applies to.
    fn queries(&mut self, pending: &PendingBatch, mut visit: impl FnMut(&Arc<str>, usize)) {
        match self {
            Self::Event(encoder) => encoder.queries(&pending.records, visit),
            Self::Json(_) | Self::Envelopes(_) | Self::Series(_) => {
                visit(&Arc::from(""), pending.len());
            }
        }
    }

    /// Returns the query of the first records of the batch.
    pub(crate) fn first_query(&mut self, pending: &PendingBatch) -> Arc<str> {
        let mut first = None;
        self.queries(pending, |query, _| _ = first.get_or_insert_with(|| query.clone()));
        first.unwrap_or_else(|| Arc::from(""))
    }

    /// Returns true if record number `number` of the batch sets an index of its own.
    pub(crate) fn has_own_index(&mut self, pending: &PendingBatch, number: usize) -> bool {
        match self {
            Self::Event(encoder) => encoder.has_own_index(&pending.records, number),
            Self::Json(_) | Self::Envelopes(_) | Self::Series(_) => false,
        }
    }

    /// Appends the records in `range` of the batch.
    pub(crate) fn encode(
        &mut self,
        pending: &PendingBatch,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Event(encoder) => encoder.encode(&pending.records, range, out),
            Self::Json(framing) => framing.append(&pending.records, range, out),
            Self::Envelopes(encoder) => encoder.encode(&pending.records, range, out),
            Self::Series(encoder) => encoder.encode(&pending.records, range, out),
        }
    }

    /// Returns the length of these records, if it is known before they are encoded.
    fn length(&mut self, pending: &PendingBatch, range: Range<usize>) -> Option<usize> {
        match self {
            Self::Event(encoder) => encoder.length(&pending.records, range),
            Self::Json(_) | Self::Envelopes(_) | Self::Series(_) => None,
        }
    }

    /// Appends records whose [`Self::length`] is known, until `out` is that long; returns their
    /// number.
    pub(crate) fn encode_checked(
        &mut self,
        pending: &PendingBatch,
        range: Range<usize>,
        until: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        match self {
            Self::Event(encoder) => encoder.encode_checked(&pending.records, range, until, out),
            Self::Json(_) | Self::Envelopes(_) | Self::Series(_) => 0,
        }
    }

    /// Completes the encoded body.
    fn complete(&self, plain: &mut Vec<u8>) {
        match self {
            Self::Json(framing) => framing.complete(plain),
            Self::Series(_) => SeriesEncoder::complete(plain),
            Self::Event(_) | Self::Envelopes(_) => {}
        }
    }

    /// Returns the numbers of the records of a batch that cannot be sent.
    pub(crate) fn unsendable(&mut self, pending: &PendingBatch) -> Vec<usize> {
        match self {
            Self::Series(encoder) => encoder.without_points(&pending.records),
            Self::Event(_) | Self::Json(_) | Self::Envelopes(_) => Vec::new(),
        }
    }
}

/// Reused buffers of encoded requests: fresh ones would fault in their pages every time.
#[derive(Debug, Default, Clone)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// Number of buffers kept; more are in use only while more requests are in flight.
const BUFFERS_MAX: usize = 4;

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < BUFFERS_MAX {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

/// A buffer that is returned when the last use of its bytes ends.
struct PooledBuffer {
    buffer: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}

/// Encodes batches into bodies.
#[derive(Debug)]
pub(crate) struct Renderer {
    pub(crate) encoder: Encoder,
    compressor: Option<Compressor>,
    buffers: Buffers,
}

impl Renderer {
    pub(crate) fn new(encoder: Encoder, compression: Compression) -> Self {
        let compressor = Compressor::new(compression);
        Self { encoder, compressor, buffers: Buffers::default() }
    }

    /// Returns an empty buffer to encode into.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.buffers.take()
    }

    /// Compresses the encoded records, if compression is configured.
    pub(crate) fn finish(&mut self, mut plain: Vec<u8>) -> Body {
        self.encoder.complete(&mut plain);
        if let Some(compressor) = &mut self.compressor {
            let mut packed = Vec::with_capacity(plain.len() / 4);
            match compressor.compress(&plain, &mut packed) {
                Ok(()) => {
                    self.buffers.give_back(plain);
                    let compression = compressor.compression();
                    return Body::Bytes { bytes: packed.into(), compression };
                }
                Err(error) => tracing::warn!(%error, "compression failed; sending uncompressed"),
            }
        }
        Body::plain(self.lend(plain))
    }

    /// Lends a buffer until its last use ends.
    pub(crate) fn lend(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(PooledBuffer { buffer, home: self.buffers.clone() })
    }

    /// Returns the length of these records if they can be encoded while they are sent.
    fn length(&mut self, pending: &PendingBatch, range: Range<usize>) -> Option<usize> {
        if self.compressor.is_some() { None } else { self.encoder.length(pending, range) }
    }
}

/// Batches that are combined into a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBuilder {
    batches: Vec<PendingBatch>,
    /// Queries with the number of the first record that each applies to.
    queries: Vec<(usize, Arc<str>)>,
    /// Number of records.
    count: usize,
    /// All records, encoded; `None` while they can be encoded during sending.
    plain: Option<Vec<u8>>,
    /// Encoded and uncompressed length.
    pub(crate) len: usize,
}

impl RequestBuilder {
    /// Adds a batch; `capacity` is the maximum total length.
    pub(crate) fn add(&mut self, pending: PendingBatch, renderer: &mut Renderer, capacity: usize) {
        renderer.encoder.queries(&pending, |query, records| {
            if self.queries.last().is_none_or(|(_, last)| last != query) {
                self.queries.push((self.count, query.clone()));
            }
            self.count += records;
        });
        if self.plain.is_none() {
            if let Some(len) = renderer.length(&pending, 0..pending.len()) {
                self.len += len;
                self.batches.push(pending);
                return;
            }
            let mut plain = renderer.buffer();
            plain.reserve(capacity);
            for earlier in &self.batches {
                renderer.encoder.encode(earlier, 0..earlier.len(), &mut plain);
            }
            self.plain = Some(plain);
        }
        if let Some(plain) = &mut self.plain {
            renderer.encoder.encode(&pending, 0..pending.len(), plain);
            self.len = plain.len();
        }
        self.batches.push(pending);
    }

    /// Completes the request.
    pub(crate) fn finish(self, renderer: &mut Renderer) -> Request {
        // If the parts have different queries, they are encoded when they are sent.
        let whole = self.plain.filter(|_| self.queries.len() < 2);
        let body = whole.map(|plain| renderer.finish(plain));
        Request::new(self.batches, body, self.len, self.queries)
    }
}

/// A part that the collector accepted and the indexer has not acknowledged yet.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) range: Range<usize>,
    /// Resolves when acknowledged; closed if the ID was lost.
    pub(crate) acknowledged: oneshot::Receiver<()>,
}

/// The records of one request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) batches: Arc<[PendingBatch]>,
    pub(crate) outcomes: Vec<Outcome>,
    /// Number of the first record of each batch.
    starts: Vec<usize>,
    count: usize,
    /// Parts to send, in order.
    pub(crate) todo: VecDeque<Range<usize>>,
    pub(crate) unacknowledged: Vec<Unacknowledged>,
    /// All records, encoded, if they must be encoded beforehand; dropped once they were sent or
    /// must be sent in parts.
    body: Option<Body>,
    /// Length of all records, if they can be encoded during sending.
    events_len: Option<usize>,
    /// Metadata queries of raw mode, with the number of the first record that each applies to. No
    /// part contains records for two of them.
    queries: Vec<(usize, Arc<str>)>,
    /// Uncompressed length of `body`.
    pub(crate) plain_len: usize,
    pub(crate) was_sent: bool,
}

impl Request {
    /// Combines batches; `body` holds them all, encoded in order. Without one, they are encoded
    /// while they are sent.
    fn new(
        batches: Vec<PendingBatch>,
        body: Option<Body>,
        plain_len: usize,
        queries: Vec<(usize, Arc<str>)>,
    ) -> Self {
        let mut starts = Vec::with_capacity(batches.len());
        let mut count = 0;
        for pending in &batches {
            starts.push(count);
            count += pending.len();
        }
        let begins = queries.iter().map(|(begin, _)| *begin);
        let ends = queries.iter().skip(1).map(|(begin, _)| *begin).chain([count]);
        Self {
            outcomes: vec![Outcome::default(); batches.len()],
            batches: batches.into(),
            starts,
            count,
            todo: begins.zip(ends).map(|(begin, end)| begin..end).collect(),
            unacknowledged: Vec::new(),
            events_len: body.is_none().then_some(plain_len),
            body,
            queries,
            plain_len,
            was_sent: false,
        }
    }

    /// Returns the metadata query of raw mode for a part.
    pub(crate) fn query(&self, part: &Range<usize>) -> &str {
        let after = self.queries.partition_point(|(begin, _)| *begin <= part.start);
        after.checked_sub(1).map_or("", |at| &self.queries[at].1)
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.batches.iter().map(PendingBatch::stream)
    }

    /// Returns the body of a part: the stored one, or one encoded now.
    pub(crate) fn body(&self, range: &Range<usize>, shared: &Arc<Mutex<Renderer>>) -> Body {
        if let Some(body) = &self.body
            && *range == (0..self.count)
        {
            return body.clone();
        }
        let mut renderer = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Arc<[_]> = self.overlaps(range.clone()).collect();
        let len_of = |(index, part): &(usize, Range<usize>)| {
            renderer.length(&self.batches[*index], part.clone())
        };
        let is_whole = *range == (0..self.count);
        let len = if is_whole { self.events_len } else { parts.iter().map(len_of).sum() };
        if let Some(len) = len {
            let batches = self.batches.clone();
            return Body::Events(Events { batches, parts, len, renderer: shared.clone() });
        }
        let mut plain = renderer.buffer();
        for (index, part) in parts.iter() {
            renderer.encoder.encode(&self.batches[*index], part.clone(), &mut plain);
        }
        renderer.finish(plain)
    }

    /// Frees the encoded body if it cannot be needed again.
    pub(crate) fn drop_body(&mut self) {
        self.body = None;
    }

    /// Updates the outcome of every record of a part, batch by batch.
    pub(crate) fn count(&mut self, range: &Range<usize>, add: impl Fn(&mut Outcome, u64)) {
        let parts: Vec<_> = self.overlaps(range.clone()).collect();
        for (index, part) in parts {
            add(&mut self.outcomes[index], part.len() as u64);
        }
    }

    /// Returns the records that cannot be sent, in order.
    pub(crate) fn unsendable(&self, renderer: &Mutex<Renderer>) -> Vec<usize> {
        let mut renderer = renderer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (start, pending) in self.starts.iter().zip(&*self.batches) {
            all.extend(renderer.encoder.unsendable(pending).iter().map(|number| start + number));
        }
        all
    }

    /// Removes these records, in order, from the parts to send.
    pub(crate) fn exclude(&mut self, records: &[usize]) {
        for record in records {
            let holds = |part: &Range<usize>| part.contains(record);
            let Some(at) = self.todo.iter().position(holds) else { continue };
            let Some(part) = self.todo.remove(at) else { continue };
            let parts = [part.start..*record, record + 1..part.end];
            for (offset, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
                self.todo.insert(at + offset, part);
            }
        }
    }

    /// Returns the batches that a part overlaps, each with the range of its own records.
    pub(crate) fn overlaps(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.starts.iter().zip(&*self.batches).enumerate().filter_map(
            move |(i, (start, pending))| {
                let from = range.start.max(*start);
                let to = range.end.min(start + pending.len());
                (from < to).then(|| (i, from - start..to - start))
            },
        )
    }

    /// Waits for the indexer's acknowledgements; records that are not acknowledged within
    /// `timeout`, or that the collector lost, are sent again.
    pub(crate) async fn acknowledged(mut self, timeout: Duration) -> Self {
        let deadline = tokio::time::Instant::now() + timeout;
        for part in std::mem::take(&mut self.unacknowledged) {
            match tokio::time::timeout_at(deadline, part.acknowledged).await {
                Ok(Ok(())) => self.count(&part.range, |outcome, n| outcome.delivered += n),
                Ok(Err(_)) | Err(_) => self.todo.push_back(part.range),
            }
        }
        self
    }
}
