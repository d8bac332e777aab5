//! The envelopes that are sent: logs and counters of a few applications, as from agents.

use std::net::UdpSocket;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, add_to_loggregator_batch, encode_loggregator_envelope,
};

use crate::clock;
use crate::grpc::{Client, Server};

/// Applications, each followed by a reader of its own.
pub(super) const APPLICATIONS: u64 = 10;
/// Envelopes per message, as from agents.
const BATCH: u64 = 100;

/// Envelopes to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Number of envelopes.
    pub(super) count: u64,
    /// Length of a log, bytes.
    pub(super) log_bytes: usize,
    /// Envelopes per second; `None` = as fast as possible.
    pub(super) rate: Option<f64>,
    /// Every other envelope is a counter.
    pub(super) with_counters: bool,
    /// Envelopes per message.
    pub(super) batch: u64,
    /// Number of applications.
    pub(super) applications: u64,
}

impl Load {
    /// Returns a load of this many logs and counters, sent as fast as possible.
    pub(super) fn new(count: u64, log_bytes: usize) -> Self {
        Self {
            count,
            log_bytes,
            rate: None,
            with_counters: true,
            batch: BATCH,
            applications: APPLICATIONS,
        }
    }

    /// Returns the first message.
    pub(super) fn message(self) -> Vec<u8> {
        Message::default().of(0..self.batch, self).to_vec()
    }

    /// Sends all of them over one stream, and waits until they are accepted.
    pub(super) fn send(self, server: &Server) -> Result<()> {
        let mut client = Client::connect(server)?;
        let mut message = Message::default();
        clock::pace(0..self.count, self.rate, self.batch, |numbers| {
            for first in numbers.clone().step_by(self.batch as usize) {
                let end = (first + self.batch).min(numbers.end);
                client.send(message.of(first..end, self))?;
            }
            Ok(())
        })?;
        client.finish()
    }
}

/// A message, whose memory is used again.
#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
    envelope: Vec<u8>,
    payload: Vec<u8>,
}

impl Message {
    fn of(&mut self, numbers: std::ops::Range<u64>, load: Load) -> &[u8] {
        self.bytes.clear();
        for number in numbers {
            self.write(number, load);
            add_to_loggregator_batch(&self.envelope, &mut self.bytes);
        }
        &self.bytes
    }

    fn write(&mut self, number: u64, load: Load) {
        let is_counter = load.with_counters && number % 2 == 1;
        // Each application has as many logs as counters.
        let application = if load.with_counters { number / 2 } else { number } % load.applications;
        let time = now_ns();
        self.payload.clear();
        self.payload.extend_from_slice(format!("t={time} {number} ").as_bytes());
        while self.payload.len() < load.log_bytes {
            self.payload.push(b'a' + (self.payload.len() % 26) as u8);
        }
        let message = if is_counter {
            LoggregatorMessage::Counter { name: b"requests", delta: 1, total: number }
        } else {
            LoggregatorMessage::Log { payload: &self.payload, is_error: false }
        };
        let source = source_id(application);
        let tags = [
            ("deployment", "cf"),
            ("job", "diego-cell"),
            ("index", "7"),
            ("ip", "10.0.0.7"),
            ("origin", "rep"),
            ("source_type", "APP/PROC/WEB"),
        ];
        let envelope = LoggregatorEnvelope {
            timestamp_ns: time as i64,
            source_id: source.as_bytes(),
            instance_id: b"0",
            message,
            ..LoggregatorEnvelope::default()
        };
        self.envelope.clear();
        encode_loggregator_envelope(&envelope, &tags, &mut self.envelope);
    }
}

/// Sends metrics of version 1 over UDP at a fixed rate.
pub(super) fn send_metrics(port: u16, count: u64, rate: f64) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(("127.0.0.1", port))?;
    clock::pace(0..count, Some(rate), 1, |numbers| {
        for number in numbers {
            socket.send(&value_metric(number))?;
        }
        Ok(())
    })
}

/// An envelope of version 1 with a `ValueMetric` (`events.proto` of the dropsonde protocol).
fn value_metric(number: u64) -> Vec<u8> {
    let mut metric = vec![0x0a, 8];
    metric.extend_from_slice(b"requests");
    metric.push(0x11);
    metric.extend_from_slice(&(number as f64).to_le_bytes());
    metric.extend_from_slice(&[0x1a, 5]);
    metric.extend_from_slice(b"count");
    let mut envelope = vec![0x0a, 5];
    envelope.extend_from_slice(b"bench");
    // ValueMetric = 6, in field 9.
    envelope.extend_from_slice(&[0x10, 6, 0x4a, metric.len() as u8]);
    envelope.extend_from_slice(&metric);
    envelope
}

/// The id of an application.
pub(super) fn source_id(application: u64) -> String {
    format!("00000000-0000-4000-8000-{application:012}")
}

/// The time, nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
