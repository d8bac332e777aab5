//! The queue of envelopes of one reader, in the batches in which it receives them.
//!
//! Invariants: a batch has at most [`CHUNK_ENVELOPES_MAX`] envelopes, and no more bytes than every
//! client accepts; envelopes above the reader's share of the memory are lost, oldest first, and
//! counted exactly; the reader receives the count before the envelopes that follow.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use weir_codec::{DropsondeOutline, GRPC_PREFIX_LEN, LoggregatorRequest, add_to_loggregator_batch};
use weir_host::Clock;

use super::super::limits::{BACKLOG_SHARE, CHUNK_BYTES_MAX, CHUNK_ENVELOPES_MAX, READER_SHARE};
use super::write::Loss;
use super::{
    Form, ReaderBook, ReaderClient, ReaderServiceStats, ReaderStatus, add, describe, sources_of,
    subtract,
};

/// Envelopes that are sent together.
#[derive(Debug)]
pub struct EnvelopeChunk {
    /// Space for the prefix of a gRPC message, and an `EnvelopeBatch`, or a `BatchResponse` of
    /// version 1, which has the same form.
    bytes: Vec<u8>,
    envelopes: usize,
}

impl EnvelopeChunk {
    /// Creates an empty chunk with memory for this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let mut chunk = Self { bytes: Vec::with_capacity(GRPC_PREFIX_LEN + bytes), envelopes: 0 };
        chunk.bytes.resize(GRPC_PREFIX_LEN, 0);
        chunk
    }

    /// Returns the bytes of an `EnvelopeBatch`.
    pub fn batch(&self) -> &[u8] {
        &self.bytes[GRPC_PREFIX_LEN..]
    }

    /// Returns the number of envelopes, without those that report a loss.
    pub fn envelopes(&self) -> usize {
        self.envelopes
    }

    /// Returns the bytes of an `EnvelopeBatch`, for sharing.
    pub fn into_batch(self) -> Bytes {
        Bytes::from(self.bytes).slice(GRPC_PREFIX_LEN..)
    }

    /// Returns the `EnvelopeBatch` as a gRPC message.
    pub fn into_message(mut self) -> Vec<u8> {
        let len = (self.bytes.len() - GRPC_PREFIX_LEN) as u32;
        self.bytes[1..GRPC_PREFIX_LEN].copy_from_slice(&len.to_be_bytes());
        self.bytes
    }

    /// Returns whether an envelope of this length fits.
    fn has_room(&self, len: usize) -> bool {
        self.envelopes == 0
            || self.envelopes < CHUNK_ENVELOPES_MAX && self.bytes.len() + len <= CHUNK_BYTES_MAX
    }

    fn add(&mut self, envelope: &[u8]) {
        add_to_loggregator_batch(envelope, &mut self.bytes);
        self.envelopes += 1;
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}

/// Memory for readers.
#[derive(Debug, Default)]
pub(in super::super) struct Budget {
    max: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    pub(super) fn set(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Limit in bytes for batches that wait to be distributed.
    pub(in super::super) fn backlog(&self) -> u64 {
        self.max() / BACKLOG_SHARE
    }

    /// Limit in bytes for one reader.
    fn share(&self) -> usize {
        (self.max() / READER_SHARE) as usize
    }

    /// Returns whether the limit is exceeded.
    fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.max() - self.backlog()
    }
}

/// Envelopes of one round, before they are added to the queue of a reader.
#[derive(Debug, Default)]
pub(super) struct Staged {
    chunks: Vec<EnvelopeChunk>,
    envelopes: u64,
    /// Envelopes that are only counted, since the thread is behind.
    lost: u64,
    /// Length of the longest chunk of the previous round, as an estimate for the next one.
    chunk_bytes: usize,
}

impl Staged {
    pub(super) fn is_empty(&self) -> bool {
        self.envelopes + self.lost == 0
    }

    pub(super) fn lose(&mut self, envelopes: usize) {
        self.lost += envelopes as u64;
    }

    #[inline]
    pub(super) fn add(&mut self, envelope: &[u8]) {
        self.envelopes += 1;
        if let Some(chunk) = self.chunks.last_mut().filter(|chunk| chunk.has_room(envelope.len())) {
            return chunk.add(envelope);
        }
        let mut chunk = EnvelopeChunk::new(self.chunk_bytes);
        chunk.add(envelope);
        self.chunks.push(chunk);
    }

    /// Takes the chunks.
    fn take_chunks(&mut self) -> Vec<EnvelopeChunk> {
        let mut chunks = take(&mut self.chunks);
        let lens = chunks.iter().map(|chunk| chunk.bytes.len());
        self.chunk_bytes = lens.max().unwrap_or_default();
        if let Some(last) = chunks.last_mut() {
            // A small chunk must not occupy the memory reserved for a large one while it waits.
            if last.bytes.len() < last.bytes.capacity() / 2 {
                last.bytes.shrink_to_fit();
            }
        }
        chunks
    }
}

/// One reader.
#[derive(Debug)]
pub(in super::super) struct Reader {
    pub(super) form: Form,
    /// `None` if it is a part of weir.
    client: Option<ReaderClient>,
    since_unix_ns: i64,
    stats: Arc<ReaderServiceStats>,
    budget: Arc<Budget>,
    clock: Arc<dyn Clock>,
    wake: Notify,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<EnvelopeChunk>,
    bytes: usize,
    envelopes: u64,
    /// Losses not yet reported to the reader.
    lost: u64,
    missed: u64,
    /// All counts but those of what is queued.
    total: ReaderBook,
    /// No more envelopes will follow.
    is_over: bool,
    /// The reader has left. The thread learns of it later, and must not charge memory for it.
    has_left: bool,
}

impl Reader {
    pub(in super::super) fn new(
        form: Form,
        client: Option<ReaderClient>,
        stats: Arc<ReaderServiceStats>,
        budget: Arc<Budget>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        add(&stats.readers, 1);
        let (wake, queue, since_unix_ns) = (Notify::new(), Mutex::default(), clock.unix_ns());
        let reader = Self { form, client, since_unix_ns, stats, budget, clock, wake, queue };
        add(&reader.stats.firehoses, u64::from(reader.is_firehose()));
        Arc::new(reader)
    }

    /// Returns its state, with the request that it has made; `None` if it is a part of weir.
    pub(in super::super) fn status(&self, request: &LoggregatorRequest) -> Option<ReaderStatus> {
        let ReaderClient { service, peer } = self.client?;
        let queue = self.queue();
        let (queued, queued_bytes) = (queue.envelopes, queue.bytes as u64);
        let book = ReaderBook { queued, queued_bytes, ..queue.total };
        drop(queue);
        Some(ReaderStatus {
            service,
            peer,
            shard_id: request.shard_id.clone(),
            selects: describe(request),
            sources: sources_of(request),
            since_unix_ns: self.since_unix_ns,
            book,
        })
    }

    /// Returns whether it is a firehose in version 1.
    fn is_firehose(&self) -> bool {
        matches!(&self.form, Form::V1(request) if request.app_id.is_empty())
    }

    /// Returns whether it receives envelopes of version 1.
    pub(super) fn is_of_v1(&self) -> bool {
        matches!(self.form, Form::V1(_))
    }

    /// Returns whether it receives an envelope with this outline in version 1.
    pub(super) fn wants(&self, outline: DropsondeOutline) -> bool {
        matches!(&self.form, Form::V1(request) if request.wants(outline.event_type))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds envelopes.
    pub(super) fn push(&self, staged: &mut Staged) {
        let chunks = staged.take_chunks();
        let (envelopes, lost) = (take(&mut staged.envelopes), take(&mut staged.lost));
        add(&self.stats.matched, envelopes + lost);
        add(&self.stats.lost, lost);
        let mut queue = self.queue();
        queue.total.matched += envelopes + lost;
        queue.lose(lost);
        if queue.has_left {
            queue.total.abandoned += envelopes;
            return add(&self.stats.abandoned, envelopes);
        }
        add(&self.stats.queued, envelopes);
        queue.envelopes += envelopes;
        let before = queue.bytes;
        for chunk in chunks {
            queue.append(chunk);
        }
        self.charge(before, queue.bytes);
        while queue.bytes > self.budget.share() && queue.chunks.len() > 1 {
            self.lose_first(&mut queue);
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Counts records that all readers have missed.
    pub(super) fn miss(&self, records: u64) {
        add(&self.stats.missed, records);
        let mut queue = self.queue();
        queue.missed += records;
        queue.total.missed += records;
        drop(queue);
        self.wake.notify_one();
    }

    /// Drops its oldest envelopes as lost. Returns false if there are none.
    pub(super) fn lose(&self) -> bool {
        self.lose_first(&mut self.queue())
    }

    fn lose_first(&self, queue: &mut Queue) -> bool {
        let Some(chunk) = self.pop(queue) else { return false };
        let lost = chunk.envelopes as u64;
        add(&self.stats.lost, lost);
        queue.lose(lost);
        true
    }

    fn pop(&self, queue: &mut Queue) -> Option<EnvelopeChunk> {
        let chunk = queue.chunks.pop_front()?;
        let before = queue.bytes;
        queue.bytes -= chunk.memory_bytes();
        queue.envelopes -= chunk.envelopes as u64;
        subtract(&self.stats.queued, chunk.envelopes as u64);
        self.charge(before, queue.bytes);
        Some(chunk)
    }

    /// Updates the total of memory in use.
    fn charge(&self, before: usize, now: usize) {
        for statistic in [&self.budget.used, &self.stats.queued_bytes] {
            add(statistic, now as u64);
            subtract(statistic, before as u64);
        }
    }

    /// Returns whether all readers together exceed the memory limit.
    pub(super) fn is_over_budget(&self) -> bool {
        self.budget.is_exceeded()
    }

    /// Returns the memory of its envelopes, in bytes.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queue().bytes
    }

    /// Counts envelopes that were taken but not sent as abandoned.
    pub(super) fn give_up(&self, envelopes: u64) {
        subtract(&self.stats.delivered, envelopes);
        if self.is_firehose() {
            subtract(&self.stats.delivered_to_firehoses, envelopes);
        }
        add(&self.stats.abandoned, envelopes);
        let mut queue = self.queue();
        queue.total.delivered -= envelopes;
        queue.total.abandoned += envelopes;
    }

    /// Ends the queue: no more envelopes will follow.
    pub(in super::super) fn end(&self) {
        self.queue().is_over = true;
        self.wake.notify_one();
    }

    /// Notes that the reader has left.
    pub(in super::super) fn leave(&self) {
        let mut queue = self.queue();
        let (bytes, envelopes) = (queue.bytes, queue.envelopes);
        queue.chunks.clear();
        (queue.bytes, queue.envelopes) = (0, 0);
        queue.total.abandoned += envelopes;
        queue.has_left = true;
        drop(queue);
        self.charge(bytes, 0);
        subtract(&self.stats.queued, envelopes);
        add(&self.stats.abandoned, envelopes);
        subtract(&self.stats.readers, 1);
        subtract(&self.stats.firehoses, u64::from(self.is_firehose()));
    }

    /// Returns the next envelopes; `None` at the end.
    pub(super) async fn next(&self) -> Option<EnvelopeChunk> {
        loop {
            {
                let mut queue = self.queue();
                if queue.lost > 0 || queue.missed > 0 {
                    return Some(self.losses(&mut queue));
                }
                if let Some(chunk) = self.pop(&mut queue) {
                    add(&self.stats.delivered, chunk.envelopes as u64);
                    queue.total.delivered += chunk.envelopes as u64;
                    if self.is_firehose() {
                        add(&self.stats.delivered_to_firehoses, chunk.envelopes as u64);
                    }
                    return Some(chunk);
                }
                if queue.is_over {
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }

    /// Returns envelopes that report the losses.
    fn losses(&self, queue: &mut Queue) -> EnvelopeChunk {
        let timestamp_ns = self.clock.unix_ns();
        let (lost, missed) = (take(&mut queue.lost), take(&mut queue.missed));
        let all = [
            Loss { timestamp_ns, delta: lost, total: queue.total.lost, is_exact: true },
            Loss { timestamp_ns, delta: missed, total: queue.total.missed, is_exact: false },
        ];
        let mut chunk = EnvelopeChunk::new(0);
        for loss in all.iter().filter(|loss| loss.delta > 0) {
            add_to_loggregator_batch(&loss.envelope(&self.form), &mut chunk.bytes);
        }
        chunk
    }
}

impl Queue {
    /// Notes lost envelopes, to report them to the reader.
    fn lose(&mut self, envelopes: u64) {
        self.lost += envelopes;
        self.total.lost += envelopes;
    }

    /// Adds envelopes, to the last chunk if it has room.
    fn append(&mut self, chunk: EnvelopeChunk) {
        if let Some(last) = self.chunks.back_mut() {
            let bytes = last.bytes.len() + chunk.batch().len();
            if last.envelopes + chunk.envelopes <= CHUNK_ENVELOPES_MAX && bytes <= CHUNK_BYTES_MAX {
                self.bytes -= last.memory_bytes();
                last.bytes.extend_from_slice(chunk.batch());
                last.envelopes += chunk.envelopes;
                self.bytes += last.memory_bytes();
                return;
            }
        }
        self.bytes += chunk.memory_bytes();
        self.chunks.push_back(chunk);
    }
}
