//! The stream of a lagging drain: its own records only, in the journal, until it has caught up.
//!
//! Invariants: records are numbered from 1 in each epoch, and each start begins a later epoch. The
//! state of each frame has the *high water* of every stream that its records came from, up to
//! there: after a crash the sources' batches come again, and whatever is at or before it is in this
//! stream already, or was delivered. It is kept until the batches themselves are settled.

use std::collections::BTreeMap;

use weir_host::Clock;
use weir_journal::{CursorMemory, Delivery, Journal, StreamSpec};
use weir_model::{Position, SourceBook, SourceId, StreamId, hash64};

/// Maximum number of high waters in a frame, each of a stream of a listener or a file. Records of
/// further ones would only be sent twice after a crash.
const HIGH_WATERS_MAX: usize = 4096;

/// Encoded size of a high water: stream, epoch, offset.
const HIGH_WATER_BYTES: usize = 20;

/// Returns the source id of all these streams in the journal. There is no source with this name,
/// since nothing is received here.
pub(crate) fn source() -> SourceId {
    SourceId(hash64(b"\0drains"))
}

/// Returns the stream of a drain.
pub(super) fn stream_of(drain: u64) -> StreamId {
    StreamId(hash64(&[b"drain".as_slice(), &drain.to_le_bytes()].concat()))
}

/// The positions up to which the stream of a drain is written and read.
#[derive(Debug)]
pub(super) struct DrainStream {
    pub(super) id: StreamId,
    /// The end of the last appended frame, in this or an earlier run.
    end: Position,
    /// The start of the next frame.
    next: Position,
    /// The end of the last taken batch.
    read: Position,
    high: BTreeMap<StreamId, Position>,
}

impl DrainStream {
    pub(super) fn open(
        journal: &Journal,
        (sources, lagging): (&CursorMemory, &CursorMemory),
        clock: &dyn Clock,
        drain: u64,
    ) -> Self {
        let id = stream_of(drain);
        let resume = journal.open_stream(&StreamSpec {
            stream: id,
            group: 0,
            source: source(),
            start: Position::default(),
            state: b"",
            book: SourceBook::default(),
            gone: false,
        });
        let now_seconds = u32::try_from(clock.unix_ns() / 1_000_000_000).unwrap_or_default();
        // As in the lanes of listeners: neither a wrong clock nor a lost directory repeats an
        // epoch.
        let epoch = now_seconds.max(resume.last_epoch.saturating_add(1));
        let next = Position::new(epoch, 0);
        let read = lagging.committed(id).unwrap_or(resume.position);
        let high = decode(&resume.state);
        let mut stream = Self { id, end: resume.position, next, read, high };
        stream.forget(sources);
        stream
    }

    pub(super) fn next(&self) -> Position {
        self.next
    }

    /// Returns whether a record of a source is or was in the stream.
    pub(super) fn contains(&self, stream: StreamId, position: Position) -> bool {
        self.high.get(&stream).is_some_and(|high| *high >= position)
    }

    /// Notes that a record of a source is in the stream.
    pub(super) fn raise(&mut self, stream: StreamId, position: Position) {
        let high = self.high.entry(stream).or_insert(position);
        *high = position.max(*high);
    }

    /// Forgets high waters if there are many. If there are few they are kept until the next start:
    /// settled records could come again if weir was killed before that is on stable storage.
    pub(super) fn forget_some(&mut self, sources: &CursorMemory) {
        if self.high.len() > HIGH_WATERS_MAX / 4 {
            self.high.retain(|stream, high| {
                sources.committed(*stream).is_some_and(|committed| committed < *high)
            });
        }
    }

    /// Forgets, at the start, the high waters of settled records. The journal may know nothing
    /// about a stream whose frames were written just before a crash.
    fn forget(&mut self, sources: &CursorMemory) {
        self.high.retain(|stream, high| {
            sources.committed(*stream).is_none_or(|committed| committed < *high)
        });
    }

    /// Returns a copy of the high waters, to restore them.
    pub(super) fn high(&self) -> BTreeMap<StreamId, Position> {
        self.high.clone()
    }

    /// Returns the high waters as the state of a frame.
    pub(super) fn state(&self) -> Vec<u8> {
        encode(&self.high)
    }

    /// Restores earlier high waters, since the frames were not appended.
    pub(super) fn lower(&mut self, high: BTreeMap<StreamId, Position>) {
        self.high = high;
    }

    /// Notes that frames were appended.
    pub(super) fn appended(&mut self, end: Position) {
        (self.end, self.next) = (end, end);
    }

    /// Returns whether a batch of the stream was appended by an earlier run.
    pub(super) fn is_earlier(&self, delivery: &Delivery) -> bool {
        delivery.batch.header().epoch < self.next.epoch
    }

    /// Notes that a batch was taken. Returns how many records before it, in its epoch, the journal
    /// has discarded.
    pub(super) fn taken(&mut self, delivery: &Delivery) -> u64 {
        let header = delivery.batch.header();
        let missing = header.base().offset.saturating_sub(self.read_in(header.epoch));
        self.read = header.end();
        missing
    }

    /// Notes that the last taken batch, with `lost` records before it, will be taken again.
    pub(super) fn put_back(&mut self, delivery: &Delivery, lost: u64) {
        let base = delivery.batch.header().base();
        self.read = Position::new(base.epoch, base.offset.saturating_sub(lost));
    }

    /// Returns the number of the last record of an epoch that was taken.
    fn read_in(&self, epoch: u32) -> u64 {
        if self.read.epoch == epoch { self.read.offset } else { 0 }
    }

    /// If everything that was appended is settled, returns how many records at the end of this
    /// epoch the journal has discarded.
    pub(super) fn is_settled(&self, lagging: &CursorMemory) -> Option<u64> {
        let is_settled = lagging.committed(self.id).is_none_or(|at| at >= self.end);
        let written = if self.end.epoch == self.next.epoch { self.end.offset } else { 0 };
        is_settled.then(|| written.saturating_sub(self.read_in(self.next.epoch)))
    }

    /// Notes that the stream was taken to its end.
    pub(super) fn read_to_end(&mut self) {
        self.read = self.end;
    }
}

fn encode(high: &BTreeMap<StreamId, Position>) -> Vec<u8> {
    let mut state = Vec::with_capacity(high.len() * HIGH_WATER_BYTES);
    for (stream, position) in high.iter().take(HIGH_WATERS_MAX) {
        state.extend_from_slice(&stream.0.to_le_bytes());
        state.extend_from_slice(&position.epoch.to_le_bytes());
        state.extend_from_slice(&position.offset.to_le_bytes());
    }
    state
}

fn decode(state: &[u8]) -> BTreeMap<StreamId, Position> {
    let entry = |bytes: &[u8; HIGH_WATER_BYTES]| {
        let (stream, rest) = bytes.split_first_chunk::<8>()?;
        let (epoch, offset) = rest.split_first_chunk::<4>()?;
        let offset = u64::from_le_bytes(offset.try_into().ok()?);
        let position = Position::new(u32::from_le_bytes(*epoch), offset);
        Some((StreamId(u64::from_le_bytes(*stream)), position))
    };
    state.as_chunks::<HIGH_WATER_BYTES>().0.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_waters_survive_a_state() {
        let high = BTreeMap::from([
            (StreamId(1), Position::new(7, 9)),
            (StreamId(u64::MAX), Position::new(u32::MAX, u64::MAX)),
        ]);
        assert_eq!(decode(&encode(&high)), high);
        assert!(decode(b"short").is_empty());
    }
}
