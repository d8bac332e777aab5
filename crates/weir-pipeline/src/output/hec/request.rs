//! Records on their way to the collector, from one or more whole deliveries, with what has become
//! of them so far.
//!
//! Invariant: every record of the request is either in exactly one range of `todo`, or waits for
//! an acknowledgement in exactly one entry of `unacknowledged`, or is counted in `outcomes`.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use weir_host::Gzip;
use weir_journal::Outcome;
use weir_model::StreamId;

use super::client::Body;
use super::encode::Encoder;
use crate::output::parcel::Parcel;

/// Buffers of encoded requests, used again: fresh ones would fault in their pages every time.
#[derive(Debug, Default, Clone)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// Buffers kept; more are in use only while more requests are in flight.
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

/// A buffer that goes back when the last use of its bytes ends.
struct Lent {
    buffer: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}

/// Turns parcels into bodies.
#[derive(Debug)]
pub(crate) struct Renderer {
    pub(crate) encoder: Encoder,
    gzip: Option<Gzip>,
    buffers: Buffers,
}

impl Renderer {
    pub(crate) fn new(encoder: Encoder, gzip: bool) -> Self {
        Self { encoder, gzip: gzip.then(Gzip::new), buffers: Buffers::default() }
    }

    /// An empty buffer to encode into.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.buffers.take()
    }

    /// Compresses what was encoded, where that is wanted.
    pub(crate) fn finish(&mut self, plain: Vec<u8>) -> Body {
        if let Some(gzip) = &mut self.gzip {
            let mut packed = Vec::with_capacity(plain.len() / 4);
            match gzip.compress(&plain, &mut packed) {
                Ok(()) => {
                    self.buffers.give_back(plain);
                    return Body { bytes: packed.into(), is_gzip: true };
                }
                Err(error) => tracing::warn!(%error, "sending without compression"),
            }
        }
        let lent = Lent { buffer: plain, home: self.buffers.clone() };
        Body { bytes: Bytes::from_owner(lent), is_gzip: false }
    }
}

/// A part that the collector took and the indexer has not acknowledged yet.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) range: Range<usize>,
    /// Resolves when acknowledged; closed when the number was lost.
    pub(crate) acknowledged: oneshot::Receiver<()>,
}

/// One request's worth of records.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) parcels: Vec<Parcel>,
    pub(crate) outcomes: Vec<Outcome>,
    /// Number of the first record of each parcel.
    starts: Vec<usize>,
    count: usize,
    /// Parts to send, in order.
    pub(crate) todo: VecDeque<Range<usize>>,
    pub(crate) unacknowledged: Vec<Unacknowledged>,
    /// Everything, encoded; dropped once it was sent or must be sent in parts.
    body: Option<Body>,
    /// Metadata query of raw mode.
    pub(crate) query: Arc<str>,
    /// Uncompressed length of `body`.
    pub(crate) plain_len: usize,
    pub(crate) was_sent: bool,
}

impl Request {
    /// Puts parcels together; `body` holds them all, encoded in order.
    pub(crate) fn new(parcels: Vec<Parcel>, body: Body, plain_len: usize, query: Arc<str>) -> Self {
        let mut starts = Vec::with_capacity(parcels.len());
        let mut count = 0;
        for parcel in &parcels {
            starts.push(count);
            count += parcel.len();
        }
        Self {
            outcomes: vec![Outcome::default(); parcels.len()],
            parcels,
            starts,
            count,
            todo: std::iter::once(0..count).collect(),
            unacknowledged: Vec::new(),
            body: Some(body),
            query,
            plain_len,
            was_sent: false,
        }
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.parcels.iter().map(Parcel::stream)
    }

    /// The body of a part: kept, or encoded now.
    pub(crate) fn body(&self, range: &Range<usize>, renderer: &Mutex<Renderer>) -> Body {
        if let Some(body) = &self.body
            && *range == (0..self.count)
        {
            return body.clone();
        }
        let mut renderer = renderer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plain = renderer.buffer();
        for (index, part) in self.overlaps(range.clone()) {
            renderer.encoder.encode(&self.parcels[index], part, &mut plain);
        }
        renderer.finish(plain)
    }

    /// Frees the encoded body when it cannot be needed again.
    pub(crate) fn drop_body(&mut self) {
        self.body = None;
    }

    /// Counts something for every record of a part, parcel by parcel.
    pub(crate) fn count(&mut self, range: &Range<usize>, add: impl Fn(&mut Outcome, u64)) {
        let parts: Vec<_> = self.overlaps(range.clone()).collect();
        for (index, part) in parts {
            add(&mut self.outcomes[index], part.len() as u64);
        }
    }

    /// The parcels that a part touches, each with the numbers of its own records.
    pub(crate) fn overlaps(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.starts.iter().zip(&self.parcels).enumerate().filter_map(move |(i, (start, parcel))| {
            let from = range.start.max(*start);
            let to = range.end.min(start + parcel.len());
            (from < to).then(|| (i, from - start..to - start))
        })
    }

    /// Waits for the indexer's acknowledgements; what is not acknowledged within `timeout`, or
    /// lost by the collector, is to be sent again.
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
