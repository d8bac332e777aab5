//! Sends messages in several requests at once, each over its own connection.
//!
//! Invariants: messages of one application instance are in one lane, and those of a lane are sent
//! in order, each after the response to the one before it; after a message that is neither accepted
//! nor rejected, its lane sends no other one. All lanes end before the next messages are sent. The
//! number of connections beyond one for each drain is limited over all drains.

use std::pin::Pin;
use std::task::{Context, Poll};

use weir_model::hash64;

use super::limits::MESSAGES_PER_LANE_MIN;
use super::post::Poster;
use super::{Dialer, Messages, SendResult, Sent};

/// Sends requests to one URL.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The first one is always there.
    posters: Vec<Poster>,
    /// Maximum number of requests in flight.
    in_flight_max: usize,
}

/// What a lane has done: whether each message was accepted, and why it ended.
type LaneEnd = (Vec<(usize, bool)>, Option<SendResult>);

impl Lanes {
    pub(super) fn new(poster: Poster, in_flight_max: usize) -> Self {
        Self { posters: vec![poster], in_flight_max }
    }

    pub(super) fn close(&mut self) -> bool {
        let was_open = self.is_open();
        self.posters.truncate(1);
        for poster in &mut self.posters {
            poster.close();
        }
        was_open
    }

    pub(super) fn is_open(&self) -> bool {
        self.posters.iter().any(Poster::is_open)
    }

    /// Sends messages until each lane has sent all of its own, or one that is not accepted.
    pub(super) async fn send(&mut self, dialer: &Dialer, messages: &Messages) -> Sent {
        let wanted = (messages.len() / MESSAGES_PER_LANE_MIN).clamp(1, self.in_flight_max);
        let more = dialer.network.more_connections.clone();
        let extra: Vec<_> = (1..wanted).map_while(|_| more.try_acquire().ok()).collect();
        let count = 1 + extra.len();
        if count == 1 {
            self.posters.truncate(1);
            let mut accepted = 0;
            let result = self.posters[0].send(dialer, messages, &mut accepted).await;
            return Sent { accepted, result, others: Vec::new() };
        }
        let first = self.posters[0].for_another_connection();
        self.posters.resize_with(count, || first.for_another_connection());
        let mut own = vec![Vec::new(); count];
        for index in 0..messages.len() {
            own[lane_of(messages.get(index), count)].push(index);
        }
        let lanes = self.posters.iter_mut().zip(own);
        let lanes = lanes.map(|(poster, own)| Box::pin(send_lane(poster, dialer, messages, own)));
        let ends = Together(lanes.map(Lane::Sending).collect()).await;
        sent(ends, messages.len())
    }
}

async fn send_lane(
    poster: &mut Poster,
    dialer: &Dialer,
    messages: &Messages,
    own: Vec<usize>,
) -> LaneEnd {
    let mut done = Vec::with_capacity(own.len());
    for index in own {
        match poster.send_body(dialer, messages.get(index), 1).await {
            SendResult::Done => done.push((index, true)),
            SendResult::Rejected { text, .. } => {
                tracing::debug!(text, "a drain rejects a message");
                done.push((index, false));
            }
            failed @ SendResult::Retry { .. } => return (done, Some(failed)),
        }
    }
    (done, None)
}

/// Returns the outcome of all lanes.
fn sent(ends: Vec<LaneEnd>, count: usize) -> Sent {
    let mut are_accepted = vec![None; count];
    let mut result = SendResult::Done;
    for (done, failed) in ends {
        for (index, is_accepted) in done {
            are_accepted[index] = Some(is_accepted);
        }
        result = failed.unwrap_or(result);
    }
    let accepted = are_accepted.iter().take_while(|it| **it == Some(true)).count();
    let others = are_accepted.iter().enumerate().skip(accepted);
    let others = others.filter_map(|(index, it)| Some((index, (*it)?))).collect();
    Sent { accepted, result, others }
}

/// Returns the lane of a message of RFC 5424: that of its application, which is its APP-NAME, and
/// instance, which ends its PROCID.
fn lane_of(message: &[u8], count: usize) -> usize {
    let mut fields = message.splitn(6, |byte| *byte == b' ').skip(3);
    let app = fields.next().unwrap_or_default();
    let process = fields.next().unwrap_or_default();
    let instance = process.rsplit(|byte| matches!(byte, b'/' | b'[')).next().unwrap_or_default();
    (hash64(&[app, b" ", instance].concat()) % count as u64) as usize
}

/// A lane, or its end.
enum Lane<F> {
    Sending(Pin<Box<F>>),
    Ended(Option<LaneEnd>),
}

/// Runs lanes until all have ended.
struct Together<F>(Vec<Lane<F>>);

impl<F: Future<Output = LaneEnd>> Future for Together<F> {
    type Output = Vec<LaneEnd>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        for lane in &mut self.0 {
            if let Lane::Sending(sending) = lane
                && let Poll::Ready(end) = sending.as_mut().poll(context)
            {
                *lane = Lane::Ended(Some(end));
            }
        }
        let end = |lane: &mut Lane<F>| match lane {
            Lane::Sending(_) => None,
            Lane::Ended(end) => end.take(),
        };
        if self.0.iter().any(|lane| matches!(lane, Lane::Sending(_))) {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().filter_map(end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_one_lane_whatever_it_sends() {
        let lane = |app: &str, process: &str| {
            let message =
                format!("<14>1 2026-01-01T00:00:00+00:00 org.space {app} {process} - - x\n");
            lane_of(message.as_bytes(), 8)
        };
        for process in ["[CELL/0]", "[APP/TASK/NAME/0]", "[0]"] {
            assert_eq!(lane("app", process), lane("app", "[APP/PROC/WEB/0]"), "{process}");
        }
        let lanes = |count: u32| {
            let lanes = (0..count).map(|number| lane("app", &format!("[APP/PROC/WEB/{number}]")));
            lanes.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((lanes(1), lanes(100)), (1, 8));
        assert!(lane_of(b"", 8) < 8 && lane_of(b"no fields", 8) < 8);
    }
}
