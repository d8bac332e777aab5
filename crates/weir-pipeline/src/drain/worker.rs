//! Sends the records of one drain: a task that runs while there are records to send, and for a
//! while after that.
//!
//! Invariants: no borrow of the drains is held across an await; the fate of each record is reported
//! once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::Instant;
use weir_codec::{DrainEncoder, DrainFormat};
use weir_host::Clock;
use weir_model::DiscardReason;

use super::core::Core;
use super::envelopes::Envelopes;
use super::limits::{IDLE_CHECK_INTERVAL, SEND_BYTES};
use super::registry::Definition;
use super::sender::{DrainNetwork, DrainSender, Messages, SendResult};
use super::taken::{Fate, Row};

/// State shared by all workers.
#[derive(Debug)]
pub(super) struct WorkerContext {
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) envelopes: Rc<RefCell<Envelopes>>,
    pub(super) network: DrainNetwork,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether messages contain tags, if the URL of a drain does not specify it.
    pub(super) with_metadata: Cell<bool>,
}

/// The records of a request or write, encoded as messages.
#[derive(Debug, Default)]
struct EncodedRecords {
    messages: Messages,
    /// For each record the number of messages up to its end, and its fate if that is already known.
    records: Vec<(usize, Option<Fate>)>,
}

impl EncodedRecords {
    fn fill(
        &mut self,
        rows: &[Row],
        encoder: &mut DrainEncoder,
        format: &DrainFormat,
        envelopes: &RefCell<Envelopes>,
    ) {
        self.messages.clear();
        self.records.clear();
        let mut envelopes = envelopes.borrow_mut();
        for row in rows {
            let Messages { bytes, ends } = &mut self.messages;
            if bytes.len() >= SEND_BYTES {
                break;
            }
            let written = encoder.encode(envelopes.of(row), format, bytes, ends);
            let fate = written.err().map(|_| Fate::discarded(DiscardReason::NotSerializable));
            self.records.push((ends.len(), fate));
        }
    }

    /// Returns the fates of the records, as far as they have one, given the number of accepted
    /// messages, that of rejected ones after those, and which of the others were accepted or
    /// rejected. A record that cannot be written has its fate once all before it have theirs, and
    /// the destination has answered: while that accepts nothing, its records stay as they are, so
    /// that they can be put back into the journal.
    fn fates(
        &self,
        accepted: usize,
        rejected: usize,
        others: &[(usize, bool)],
    ) -> Vec<Option<Fate>> {
        let count = self.records.last().map_or(0, |(end, _)| *end);
        let mut are_accepted: Vec<Option<bool>> = (0..count)
            .map(|index| (index < accepted + rejected).then_some(index < accepted))
            .collect();
        for (index, is_accepted) in others {
            are_accepted[*index] = Some(*is_accepted);
        }
        let has_answered = accepted + rejected + others.len() > 0 || count == 0;
        let (mut start, mut are_all_done) = (0, has_answered);
        let fate = |(end, known): &(usize, Option<Fate>)| {
            let own = &are_accepted[std::mem::replace(&mut start, *end)..*end];
            let is_delivered = own.iter().all(|it| *it == Some(true));
            let is_done = own.iter().all(Option::is_some);
            let fate = match known {
                Some(known) => are_all_done.then_some(*known),
                None if is_delivered => Some(Fate::Delivered),
                None => is_done.then(|| Fate::discarded(DiscardReason::Rejected)),
            };
            are_all_done &= fate.is_some();
            fate
        };
        self.records.iter().map(fate).collect()
    }
}

/// Sends the records of a drain until it is removed, or has had none for a while.
pub(super) async fn work(context: Rc<WorkerContext>, drain: Arc<Definition>) {
    let id = drain.id;
    let binding = &drain.binding;
    let with_metadata = || binding.url.with_metadata.unwrap_or(context.with_metadata.get());
    let mut format = DrainFormat {
        hostname: binding.hostname.clone(),
        with_metadata: with_metadata(),
        with_length: !binding.url.scheme.is_http(),
    };
    let mut sender = DrainSender::new(binding.clone(), context.network.clone());
    let (mut encoder, mut encoded) = (DrainEncoder::default(), EncodedRecords::default());
    loop {
        let rows = context.core.borrow_mut().chunk(id, context.clock.monotonic());
        if rows.is_empty() {
            if !wait(&context, id, &mut sender).await {
                return;
            }
            continue;
        }
        format.with_metadata = with_metadata();
        encoded.fill(&rows, &mut encoder, &format, &context.envelopes);
        drop(rows);
        let (fates, failure) = send(&mut sender, &encoded).await;
        let now = context.clock.monotonic();
        context.core.borrow_mut().sent(id, &fates, failure, now);
    }
}

async fn send(
    sender: &mut DrainSender,
    encoded: &EncodedRecords,
) -> (Vec<Option<Fate>>, Option<String>) {
    if encoded.messages.is_empty() {
        return (encoded.fates(0, 0, &[]), None);
    }
    let sent = sender.send(&encoded.messages).await;
    let (rejected, failure) = match sent.result {
        SendResult::Done => (0, None),
        SendResult::Retry { text, .. } => (0, Some(text)),
        SendResult::Rejected { messages, text } => {
            tracing::debug!(text, "a drain rejects records");
            (messages, None)
        }
    };
    (encoded.fates(sent.accepted, rejected, &sent.others), failure)
}

/// Waits until there may be something to send. Returns false if the worker should end.
async fn wait(context: &WorkerContext, id: u64, sender: &mut DrainSender) -> bool {
    let (wake, pause) = {
        let core = context.core.borrow();
        let Some(drain) = core.drains.get(&id) else { return false };
        let now = context.clock.monotonic();
        let failure = drain.failure.as_ref();
        let pause = failure.map(|failure| failure.until.saturating_sub(now));
        let pause = pause.filter(|pause| !pause.is_zero() && !drain.queue.is_empty());
        (drain.wake.clone(), pause)
    };
    if let Some(pause) = pause {
        // New records wake it too, but do not end the pause.
        let is_there = || {
            let core = context.core.borrow();
            core.drains.get(&id).is_some_and(|drain| Rc::ptr_eq(&drain.wake, &wake))
        };
        let removed = async {
            while is_there() {
                wake.notified().await;
            }
        };
        let _removed = tokio::time::timeout(pause, removed).await;
        return true;
    }
    let has_waited = tokio::time::timeout(IDLE_CHECK_INTERVAL, wake.notified()).await.is_err();
    !has_waited || !end_if_idle(context, id, sender)
}

/// Ends the worker of a drain that has nothing to send and no connection.
fn end_if_idle(context: &WorkerContext, id: u64, sender: &mut DrainSender) -> bool {
    sender.close_if_idle(Instant::now());
    let mut core = context.core.borrow_mut();
    let Some(drain) = core.drains.get_mut(&id) else { return true };
    let is_idle = drain.queue.is_empty() && !sender.is_open();
    drain.has_worker = !is_idle;
    is_idle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_done_when_all_its_messages_are() {
        let unserializable = Fate::discarded(DiscardReason::NotSerializable);
        let rejected = Fate::discarded(DiscardReason::Rejected);
        let records = vec![(2, None), (2, Some(unserializable)), (3, None), (3, None), (5, None)];
        let encoded = EncodedRecords { messages: Messages::default(), records };
        let (delivered, rejected) = (Some(Fate::Delivered), Some(rejected));
        let unserializable = Some(unserializable);
        for (accepted, refused, others, fates) in [
            (0, 0, &[][..], [None, None, None, delivered, None]),
            (1, 0, &[], [None, None, None, delivered, None]),
            (2, 0, &[], [delivered, unserializable, None, delivered, None]),
            (3, 0, &[], [delivered, unserializable, delivered, delivered, None]),
            (2, 1, &[], [delivered, unserializable, rejected, delivered, None]),
            (5, 0, &[], [delivered, unserializable, delivered, delivered, delivered]),
            (0, 0, &[(2, true), (3, true)], [None, None, delivered, delivered, None]),
            (1, 0, &[(3, false), (4, true)], [None, None, None, delivered, rejected]),
        ] {
            assert_eq!(encoded.fates(accepted, refused, others), fates, "{accepted} {refused}");
        }
    }
}
