//! Nozzles and readers of single applications, each in a thread: they count the envelopes that they
//! get.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use weir_codec::{LoggregatorBatch, LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags};

use super::load::{APPLICATIONS, now_ns, source_id};
use crate::clock;
use crate::grpc::{Reader, Server};

const METHOD: &str = "loggregator.v2.Egress/BatchedReceiver";

/// What a reader does with the envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Count them.
    Count,
    /// Read the time from logs, to know how old they are.
    Time,
}

/// The envelopes that a reader has got.
#[derive(Debug, Default)]
pub(super) struct Got {
    /// Number of envelopes.
    pub(super) envelopes: AtomicU64,
    /// Times from sending a log to reading it, in nanoseconds.
    pub(super) ages_ns: Mutex<Vec<u64>>,
}

/// Two nozzles that get everything, and a reader for each application.
#[derive(Debug)]
pub(super) struct Readers {
    nozzles: Vec<Arc<Got>>,
    followers: Vec<Arc<Got>>,
}

impl Readers {
    /// Opens all of them. Their threads end when weir does.
    pub(super) fn open(server: &Server, care: Care) -> Result<Self> {
        let nozzles = (0..2).map(|_| start(server, "", care)).collect::<Result<_>>()?;
        let followers = (0..APPLICATIONS)
            .map(|application| start(server, &source_id(application), care))
            .collect::<Result<_>>()?;
        Ok(Self { nozzles, followers })
    }

    /// Waits until each nozzle has `all` envelopes and each follower its share of `followed`, or
    /// nothing more comes. Returns the number of missing ones.
    pub(super) fn missing(&self, all: u64, followed: u64) -> [u64; 2] {
        let missing = || {
            let of = |readers: &[Arc<Got>]| -> u64 {
                readers.iter().map(|got| got.envelopes.load(Ordering::Relaxed)).sum()
            };
            let nozzles = (all * self.nozzles.len() as u64).saturating_sub(of(&self.nozzles));
            [nozzles, followed.saturating_sub(of(&self.followers))]
        };
        let mut last = missing();
        while last != [0, 0] {
            clock::wait(Duration::from_secs(1));
            let now = missing();
            if now == last {
                break;
            }
            last = now;
        }
        last
    }

    /// Returns how many envelopes each nozzle and each follower has got.
    pub(super) fn got(&self) -> [Vec<u64>; 2] {
        [&self.nozzles, &self.followers].map(|readers| {
            readers.iter().map(|got| got.envelopes.load(Ordering::Relaxed)).collect()
        })
    }

    /// Returns the ages of all logs that nozzles and followers have got, sorted.
    pub(super) fn ages_ns(&self) -> Result<[Vec<u64>; 2]> {
        let of = |readers: &[Arc<Got>]| -> Result<Vec<u64>> {
            let mut all = Vec::new();
            for got in readers {
                let ages = got.ages_ns.lock().map_err(|_| anyhow::anyhow!("a reader panicked"))?;
                all.extend_from_slice(&ages);
            }
            all.sort_unstable();
            ensure!(!all.is_empty(), "no log was read");
            Ok(all)
        };
        Ok([of(&self.nozzles)?, of(&self.followers)?])
    }
}

/// Opens a reader of one source, or of all.
pub(super) fn start(server: &Server, source: &str, care: Care) -> Result<Arc<Got>> {
    let mut reader = Reader::open(server, METHOD, &request(source))?;
    let got = Arc::new(Got::default());
    let into = got.clone();
    std::thread::spawn(move || {
        let mut tags = LoggregatorTags::default();
        // An error is weir's end.
        while let Ok(true) = reader.read(|message| {
            match care {
                Care::Count => {
                    let count = LoggregatorBatch::new(message).count() as u64;
                    into.envelopes.fetch_add(count, Ordering::Relaxed);
                }
                Care::Time => note_ages(message, &mut tags, &into)?,
            }
            Ok(())
        }) {}
    });
    Ok(got)
}

fn note_ages(message: &[u8], tags: &mut LoggregatorTags, got: &Got) -> Result<()> {
    let now = now_ns();
    let mut ages = got.ages_ns.lock().map_err(|_| anyhow::anyhow!("a reader panicked"))?;
    for envelope in LoggregatorBatch::new(message) {
        let envelope = LoggregatorEnvelope::parse(envelope?, tags)?;
        got.envelopes.fetch_add(1, Ordering::Relaxed);
        if let LoggregatorMessage::Log { .. } = envelope.message {
            ages.push(now.saturating_sub(envelope.timestamp_ns.cast_unsigned()));
        }
    }
    Ok(())
}

/// An `EgressBatchRequest` for logs and counters and gauges of a source, with preferred tags.
fn request(source: &str) -> Vec<u8> {
    let mut request = vec![0x18, 1];
    for kind in [2_u8, 3, 4] {
        let mut selector = Vec::new();
        if !source.is_empty() {
            selector.extend_from_slice(&[0x0a, source.len() as u8]);
            selector.extend_from_slice(source.as_bytes());
        }
        selector.extend_from_slice(&[kind << 3 | 2, 0]);
        request.extend_from_slice(&[0x22, selector.len() as u8]);
        request.extend_from_slice(&selector);
    }
    request
}
