//! The unacknowledged messages.
//!
//! Invariants: a message is in exactly one place: waiting to be sent, with a session that has sent
//! it, or refused and waiting for the end of a pause; a batch is settled once, when all its
//! messages are acknowledged.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::output::pending::PendingBatch;
use crate::output::syslog::SyslogWriter;

/// A message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MessageId {
    batch: u64,
    index: usize,
}

/// A batch whose messages are all acknowledged.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) pending: PendingBatch,
    /// Number of its messages that were sent again, counted each time.
    pub(super) resent: u64,
}

#[derive(Debug)]
struct QueuedBatch {
    pending: PendingBatch,
    bytes: Vec<u8>,
    /// Ends of the messages.
    ends: Vec<usize>,
    unacknowledged: usize,
    resent: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    writer: SyslogWriter,
    batches: HashMap<u64, QueuedBatch>,
    next_batch: u64,
    /// Messages to send, in order.
    waiting: VecDeque<MessageId>,
    waiting_bytes: usize,
    /// Refused, and waiting for the end of a pause.
    refused: Vec<MessageId>,
    /// Refused at least once.
    troubled: HashSet<MessageId>,
}

impl QueuedBatch {
    fn message(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

impl Queue {
    pub(super) fn new(writer: SyslogWriter) -> Self {
        Self {
            writer,
            batches: HashMap::new(),
            next_batch: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            refused: Vec::new(),
            troubled: HashSet::new(),
        }
    }

    /// Returns true if every message is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the size of the messages to send.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns the number of messages that wait for the end of a pause.
    pub(super) fn refused_count(&self) -> usize {
        self.refused.len()
    }

    /// Returns true if a message was refused and is not acknowledged since.
    pub(super) fn is_troubled(&self) -> bool {
        !self.troubled.is_empty()
    }

    /// Adds at least one record; returns how many had to be truncated, and their size.
    pub(super) fn push(&mut self, pending: PendingBatch) -> (u64, usize) {
        let (mut bytes, mut ends, mut cut) = (Vec::new(), Vec::with_capacity(pending.len()), 0);
        for (_, record) in pending.records.records() {
            cut += u64::from(!self.writer.write(&pending.records, &record, &mut bytes));
            ends.push(bytes.len());
        }
        let batch = self.next_batch;
        self.next_batch += 1;
        self.waiting.extend((0..ends.len()).map(|index| MessageId { batch, index }));
        let size = bytes.len();
        self.waiting_bytes += size;
        let unacknowledged = ends.len();
        let queued = QueuedBatch { pending, bytes, ends, unacknowledged, resent: 0 };
        self.batches.insert(batch, queued);
        (cut, size)
    }

    /// Returns the next message to send.
    pub(super) fn next(&self) -> Option<(MessageId, &[u8])> {
        let id = *self.waiting.front()?;
        Some((id, self.message(id)))
    }

    /// Records that a session has taken the next message.
    pub(super) fn taken(&mut self) {
        if let Some(id) = self.waiting.pop_front() {
            self.waiting_bytes -= self.message(id).len();
        }
    }

    /// Takes back messages that a broken session has taken, in the order in which it did, and
    /// whether any of their bytes were sent.
    pub(super) fn take_back(&mut self, lost: impl DoubleEndedIterator<Item = (MessageId, bool)>) {
        for (id, was_sent) in lost.rev() {
            if was_sent {
                self.count_resent(id);
            }
            self.wait_first(id);
        }
    }

    /// Takes back a message that the server has refused, until [`Self::release_refused`].
    pub(super) fn refuse(&mut self, id: MessageId) {
        self.count_resent(id);
        self.refused.push(id);
        self.troubled.insert(id);
    }

    /// Makes the refused messages the next to be sent.
    pub(super) fn release_refused(&mut self) {
        while let Some(id) = self.refused.pop() {
            self.wait_first(id);
        }
    }

    /// Records that the server has stored a message. Returns its batch if that is complete.
    pub(super) fn acknowledge(&mut self, id: MessageId) -> Option<Acknowledged> {
        if !self.troubled.is_empty() {
            self.troubled.remove(&id);
        }
        let queued = self.batches.get_mut(&id.batch)?;
        queued.unacknowledged -= 1;
        if queued.unacknowledged > 0 {
            return None;
        }
        let QueuedBatch { pending, resent, .. } = self.batches.remove(&id.batch)?;
        Some(Acknowledged { pending, resent })
    }

    fn message(&self, id: MessageId) -> &[u8] {
        self.batches.get(&id.batch).map_or(&[], |queued| queued.message(id.index))
    }

    fn wait_first(&mut self, id: MessageId) {
        self.waiting.push_front(id);
        self.waiting_bytes += self.message(id).len();
    }

    /// Counts a message when it is taken back: it will be sent again before its batch is settled.
    fn count_resent(&mut self, id: MessageId) {
        if let Some(queued) = self.batches.get_mut(&id.batch) {
            queued.resent += 1;
        }
    }
}
