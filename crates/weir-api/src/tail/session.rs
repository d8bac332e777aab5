//! One live tail: its rows, their numbers, and the most recent rows for a reader that reconnects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Sender;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use weir_pipeline::live::{LiveEvent, LiveTail, Rows};
use weir_store::query::{Access, RecordId};

use super::sampler::Sampler;
use super::sessions::Sessions;
use crate::access::{Requester, random};
use crate::explore::record_id;

/// Bytes of rows kept for a reader that reconnects.
const RECENT_BYTES_MAX: usize = 512 * 1024;

/// Maximum silence: proxies close idle connections, and writing reveals that a reader is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A live tail, also while its reader is disconnected.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its name in the ids of rows.
    pub(super) id: u64,
    /// The parameters of the request.
    pub(super) query: String,
    /// What its reader may see.
    pub(super) access: Access,
    tail: LiveTail,
    sampler: Sampler,
    /// Number of the last record that matched.
    seq: u64,
    /// The most recently sent rows, with their numbers: whether they arrived is unknown.
    recent: VecDeque<(u64, Bytes)>,
    recent_bytes: usize,
    /// Rows up to this number are no longer in `recent`.
    forgotten_seq: u64,
}

type Body = Sender<Bytes>;

/// The reader has left.
struct Disconnected;

/// Parses session and row number from an id.
pub(super) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (session, seq) = id.split_once('-')?;
    Some((u64::from_str_radix(session, 16).ok()?, seq.parse().ok()?))
}

/// For a reader whose session is no longer known.
pub(super) fn unknown_gap() -> Vec<u8> {
    b"event: gap\ndata: {\"records\":null,\"reason\":\"disconnected for too long\"}\n\n".to_vec()
}

impl Session {
    /// `None` if the system cannot provide random numbers: whoever guesses an id continues the
    /// session.
    pub(super) fn new(
        query: &str,
        requester: &Requester,
        tail: LiveTail,
        max_rate: u32,
    ) -> Option<Self> {
        Some(Self {
            id: u64::from_ne_bytes(random().ok()?),
            query: query.to_owned(),
            access: requester.access(),
            tail,
            sampler: Sampler::new(max_rate),
            seq: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
            forgotten_seq: 0,
        })
    }

    /// The reader has everything up to a row: returns what was sent after it, to be sent again.
    pub(super) fn resume(&mut self, seq: u64) -> Vec<u8> {
        let mut events = Vec::new();
        if let Some(missed) = self.forgotten_seq.checked_sub(seq).filter(|missed| *missed > 0) {
            events.extend_from_slice(&gap(missed, "disconnected"));
        }
        for (_, row) in self.recent.iter().filter(|(number, _)| *number > seq) {
            events.extend_from_slice(row);
        }
        events
    }

    /// Sends events until the reader leaves or signs out, another connection takes over, access
    /// must be checked again, or weir stops; then keeps the session for the reader to reconnect.
    pub(super) async fn run(
        mut self,
        mut body: Body,
        first: Vec<u8>,
        requester: &Requester,
        sessions: &Arc<Sessions>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let released = sessions.enter(self.id);
        let is_over = tokio::select! {
            ended = self.send_all(&mut body, first, sessions) => ended.is_ok(),
            () = released.notified() => false,
            () = requester.must_reconnect() => false,
            _ = stopped.wait_for(|stopped| *stopped) => true,
        };
        if is_over {
            sessions.leave(self.id);
            // A tail without a reader misses nothing.
            let _gone = body.send_data(end()).await;
        } else {
            sessions.park(self);
        }
    }

    /// Sends events until the pipeline ends.
    async fn send_all(
        &mut self,
        body: &mut Body,
        first: Vec<u8>,
        sessions: &Sessions,
    ) -> Result<(), Disconnected> {
        // The headers are sent with the first bytes; a comment has no meaning.
        let hello = [b": live tail\n\n".to_vec(), first].concat();
        send(body, hello.into()).await?;
        let mut seconds = every(Duration::from_secs(1));
        let mut heartbeats = every(HEARTBEAT);
        loop {
            let event = tokio::select! {
                event = self.tail.next() => event,
                _ = seconds.tick() => {
                    if let Some(stat) = self.sampler.end_second(sessions.rate_share()) {
                        let json = serde_json::to_string(&stat).unwrap_or_default();
                        send(body, format!("event: stat\ndata: {json}\n\n").into()).await?;
                        heartbeats.reset();
                    }
                    continue;
                }
                _ = heartbeats.tick() => {
                    send(body, Bytes::from_static(b": keep-alive\n\n")).await?;
                    continue;
                }
            };
            let events = match event {
                None => return Ok(()),
                Some(LiveEvent::Gap { records }) => {
                    self.sampler.missed(records);
                    gap(records, "too slow").into()
                }
                Some(LiveEvent::Rows(rows)) => self.rows(&rows),
            };
            if !events.is_empty() {
                send(body, events).await?;
            }
        }
    }

    /// The rows that are shown, as events.
    fn rows(&mut self, rows: &Rows) -> Bytes {
        let Self { id, sampler, .. } = self;
        let (mut events, mut ends) = (Vec::new(), Vec::new());
        let seq = std::cell::Cell::new(self.seq);
        let is_shown = || {
            seq.set(seq.get() + 1);
            sampler.is_shown()
        };
        let id_of = |time_ns, stream, position| record_id(&RecordId { time_ns, stream, position });
        rows.for_each(is_shown, id_of, |json| {
            events.extend_from_slice(
                format!("id: {id:x}-{}\nevent: row\ndata: ", seq.get()).as_bytes(),
            );
            events.extend_from_slice(json);
            events.extend_from_slice(b"\n\n");
            ends.push((seq.get(), events.len()));
        });
        self.seq = seq.get();
        let events = Bytes::from(events);
        let mut start = 0;
        for (seq, end) in ends {
            self.keep(seq, events.slice(start..end));
            start = end;
        }
        events
    }

    /// Keeps a row for a reader that reconnects.
    fn keep(&mut self, seq: u64, row: Bytes) {
        self.recent_bytes += row.len();
        self.recent.push_back((seq, row));
        while self.recent_bytes > RECENT_BYTES_MAX
            && let Some((seq, row)) = self.recent.pop_front()
        {
            self.recent_bytes -= row.len();
            self.forgotten_seq = seq;
        }
    }
}

async fn send(body: &mut Body, bytes: Bytes) -> Result<(), Disconnected> {
    body.send_data(bytes).await.map_err(|_| Disconnected)
}

fn gap(records: u64, reason: &str) -> Vec<u8> {
    format!("event: gap\ndata: {{\"records\":{records},\"reason\":\"{reason}\"}}\n\n").into_bytes()
}

fn end() -> Bytes {
    Bytes::from_static(
        b"event: end\ndata: {\"reason\":\"weir is stopping or reloading its configuration\"}\n\n",
    )
}

/// Returns ticks that start after one period; missed ticks are skipped.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_are_parsed() {
        assert_eq!(parse_id("ff-12"), Some((255, 12)));
        for wrong in ["", "ff", "-", "ff-", "-1", "xyz-1", "1-2-3", "ff-12 "] {
            assert_eq!(parse_id(wrong), None, "{wrong}");
        }
    }
}
