//! Optional readers: a bounded backlog, exact gaps, and no effect on sources or other readers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use weir_model::{Batch, SourceId};

/// The next item of an optional reader.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Arc<Batch>),
    /// Records that this reader missed because it was too slow.
    Gap {
        /// Number of the first missed batch, counted over all batches ever appended.
        first: u64,
        /// Number of the last missed batch.
        last: u64,
        /// Number of records in them.
        count: u64,
    },
}

#[derive(Debug)]
pub(crate) struct SubscriberQueue {
    inner: Mutex<Inner>,
    notify: Notify,
    backlog_bytes: u64,
    without: Option<SourceId>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Batches with their numbers, each preceded by its gap, if any.
    queue: VecDeque<(u64, Arc<Batch>)>,
    bytes: u64,
    gap: Option<(u64, u64, u64)>,
    closed: bool,
}

impl SubscriberQueue {
    pub(crate) fn new(backlog_bytes: u64, without: Option<SourceId>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), notify: Notify::new(), backlog_bytes, without })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch; if the backlog is full, the oldest ones become part of the gap. Returns false
    /// once the queue is closed.
    pub(crate) fn push(&self, seq: u64, batch: &Arc<Batch>) -> bool {
        let mut inner = self.lock();
        if Some(batch.header().source) == self.without {
            return !inner.closed;
        }
        inner.bytes += batch.memory_bytes() as u64;
        inner.queue.push_back((seq, batch.clone()));
        while inner.bytes > self.backlog_bytes {
            let Some((seq, batch)) = inner.queue.pop_front() else { break };
            inner.bytes -= batch.memory_bytes() as u64;
            let records = batch.record_count() as u64;
            inner.gap = Some(match inner.gap {
                Some((first, _, count)) => (first, seq, count + records),
                None => (seq, seq, records),
            });
        }
        self.notify.notify_one();
        !inner.closed
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.notify.notify_one();
    }
}

/// An optional reader: never holds anything back, and gets a gap when it falls behind.
#[derive(Debug)]
pub struct Subscriber(pub(crate) Arc<SubscriberQueue>);

impl Subscriber {
    /// Returns whether more than three quarters of the backlog are in use.
    pub fn is_behind(&self) -> bool {
        self.0.lock().bytes > self.0.backlog_bytes / 4 * 3
    }

    /// Returns the next batch or gap; `None` when the journal is closed.
    pub async fn next(&mut self) -> Option<Next> {
        loop {
            {
                let mut inner = self.0.lock();
                if let Some((first, last, count)) = inner.gap.take() {
                    return Some(Next::Gap { first, last, count });
                }
                if let Some((_, batch)) = inner.queue.pop_front() {
                    inner.bytes -= batch.memory_bytes() as u64;
                    return Some(Next::Batch(batch));
                }
                if inner.closed {
                    return None;
                }
            }
            self.0.notify.notified().await;
        }
    }
}
