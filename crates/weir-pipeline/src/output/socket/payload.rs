//! Encoded records in transit, their encoding, and how far they were sent.
//!
//! Invariants: batches are settled in order, each when all its bytes are sent; rewinding returns to
//! the beginning of a batch on streams (its first lines may arrive twice, none is incomplete) and
//! to the beginning of a datagram on UDP.

use std::collections::VecDeque;

use weir_codec::datagram;
use weir_model::Selection;

use crate::config::Encoding;
use crate::output::pending::PendingBatch;
use crate::output::syslog::SyslogWriter;

/// Encodes records as a byte stream or as datagrams.
#[derive(Debug)]
pub(crate) enum Writer {
    /// One line per record.
    Lines(Encoding),
    /// One datagram per record.
    Datagrams {
        /// Its content.
        encoding: Encoding,
        /// Maximum size of a datagram; longer ones are truncated.
        bytes_max: usize,
    },
    /// One syslog message per record.
    Syslog {
        /// Writes the messages.
        writer: Box<SyslogWriter>,
        /// Each message is a datagram.
        is_for_datagrams: bool,
    },
}

impl Writer {
    fn is_for_datagrams(&self) -> bool {
        match self {
            Self::Lines(_) => false,
            Self::Datagrams { .. } => true,
            Self::Syslog { is_for_datagrams, .. } => *is_for_datagrams,
        }
    }

    /// Appends records, and calls `end` after each that may be a datagram. Returns how many had to
    /// be truncated.
    fn write(&mut self, records: &Selection, out: &mut Vec<u8>, mut end: impl FnMut(usize)) -> u64 {
        let mut cut = 0;
        match self {
            Self::Lines(encoding) => encoding.lines(records, out),
            Self::Datagrams { encoding, bytes_max } => {
                for (_, record) in records.records() {
                    cut += u64::from(!datagram(*encoding, records, &record, *bytes_max, out));
                    end(out.len());
                }
            }
            Self::Syslog { writer, .. } => {
                for (_, record) in records.records() {
                    cut += u64::from(!writer.write(records, &record, out));
                    end(out.len());
                }
            }
        }
        cut
    }
}

/// Data being sent.
#[derive(Debug)]
pub(super) struct Payload {
    writer: Writer,
    bytes: Vec<u8>,
    sent: usize,
    /// Ends of the datagrams that are not sent yet.
    datagrams: VecDeque<usize>,
    /// Batches that are not settled, with their start and end.
    batches: VecDeque<PayloadSpan>,
}

#[derive(Debug)]
struct PayloadSpan {
    pending: PendingBatch,
    start: usize,
    end: usize,
    /// Number of datagrams not sent yet. (An empty one has no bytes to count.)
    waiting: usize,
    resent: u64,
}

impl Payload {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer,
            bytes: Vec::new(),
            sent: 0,
            datagrams: VecDeque::new(),
            batches: VecDeque::new(),
        }
    }

    /// Discards data that was sent.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.datagrams.clear();
        self.batches.clear();
    }

    /// Adds records; returns how many had to be truncated.
    pub(super) fn push(&mut self, pending: PendingBatch) -> u64 {
        let start = self.bytes.len();
        let mut waiting = 0;
        let is_for_datagrams = self.writer.is_for_datagrams();
        let datagrams = &mut self.datagrams;
        let cut = self.writer.write(&pending.records, &mut self.bytes, |end| {
            if is_for_datagrams {
                datagrams.push_back(end);
                waiting += 1;
            }
        });
        let end = self.bytes.len();
        self.batches.push_back(PayloadSpan { pending, start, end, waiting, resent: 0 });
        cut
    }

    /// Returns the total number of bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if everything is sent and settled.
    pub(super) fn is_sent(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the bytes to send next: the rest, or one datagram.
    pub(super) fn rest(&self) -> &[u8] {
        let end = self.datagrams.front().copied().unwrap_or(self.bytes.len());
        &self.bytes[self.sent..end]
    }

    /// Records that `sent` bytes of the rest were accepted. Settled batches must have been removed.
    pub(super) fn advance(&mut self, sent: usize) {
        self.sent = match self.datagrams.pop_front() {
            Some(end) => end,
            None => self.sent + sent,
        };
        if let Some(place) = self.batches.front_mut() {
            place.waiting = place.waiting.saturating_sub(1);
        }
    }

    /// Returns the next completely sent batch, and how many of its records were sent before.
    pub(super) fn settled(&mut self) -> Option<(PendingBatch, u64)> {
        let is_sent = |place: &mut PayloadSpan| place.end <= self.sent && place.waiting == 0;
        let place = self.batches.pop_front_if(is_sent)?;
        Some((place.pending, place.resent))
    }

    /// Returns to the position at which a new connection must begin.
    pub(super) fn rewind(&mut self) {
        if self.writer.is_for_datagrams() {
            return;
        }
        if let Some(place) = self.batches.front_mut() {
            if self.sent > place.start {
                place.resent += place.pending.len() as u64;
            }
            self.sent = place.start;
        }
    }
}
