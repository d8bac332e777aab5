//! What a drain has finished, as far as it would not be known after a crash.
//!
//! The state of the stream of a drain tells the fate of every record up to the last one that was
//! moved there: without a note, it was delivered before. So two kinds of records are noted while
//! the drain is direct, in case it is relocated: those that were discarded, and those that were
//! finished before earlier ones, because several requests were in flight.
//!
//! Invariants: no unfinished record is in a span; a span is kept until no earlier record of its
//! stream is unfinished if its records were delivered, and until the batches of its records are
//! settled if they were discarded.

use std::collections::BTreeMap;

use weir_journal::CursorMemory;
use weir_model::{Position, StreamId};

use super::taken::{Fate, Row};

/// Number of spans above which those of settled records are forgotten. If there are few they are
/// kept: settled records come again if weir is killed before that is on stable storage.
const SPANS_MAX: usize = 64;

/// Records of one drain.
#[derive(Debug, Clone, Default)]
pub(super) struct FinishedRecords(BTreeMap<StreamId, OfStream>);

#[derive(Debug, Clone, Default)]
struct OfStream {
    /// In order.
    spans: Vec<Span>,
    /// The last record if all before it are finished.
    last: Option<Position>,
}

/// Records with the same fate, one after the other among those of the drain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: Position,
    pub(super) last: Position,
    pub(super) fate: Fate,
}

/// What is known of a stream while the records of a request are noted.
struct Low {
    /// The first unfinished record, or the last one if all are finished.
    at: Position,
    is_unfinished: bool,
}

impl OfStream {
    /// Notes a record; `before` is the last one before it, if that is finished.
    fn note(&mut self, at: Position, fate: Fate, before: Option<Position>) {
        let next = self.spans.partition_point(|span| span.last < at);
        let last = next.checked_sub(1).and_then(|last| self.spans.get_mut(last));
        match last {
            Some(last) if last.fate == fate && Some(last.last) == before => last.last = at,
            _ => self.spans.insert(next, Span { first: at, last: at, fate }),
        }
    }
}

impl FinishedRecords {
    /// Notes the fates of the first waiting records of the drain, in order.
    pub(super) fn note(&mut self, rows: &[Row], fates: &[Option<Fate>]) {
        let delivered = fates.iter().take_while(|fate| **fate == Some(Fate::Delivered)).count();
        if self.0.is_empty() && fates[delivered..].iter().all(Option::is_none) {
            return;
        }
        let mut lows: BTreeMap<StreamId, Low> = BTreeMap::new();
        for (row, fate) in rows.iter().zip(fates) {
            let (stream, at) = (row.taken.stream(), row.position());
            let low = lows.entry(stream).or_insert(Low { at, is_unfinished: false });
            let was_unfinished = low.is_unfinished;
            match fate {
                Some(fate) if low.is_unfinished || *fate != Fate::Delivered => {
                    let own = self.0.entry(stream).or_default();
                    own.note(at, *fate, own.last);
                    own.last = Some(at);
                }
                fate => {
                    if let Some(own) = self.0.get_mut(&stream) {
                        own.last = None;
                    }
                    low.is_unfinished |= fate.is_none();
                }
            }
            if !was_unfinished {
                low.at = at;
            }
        }
        for (stream, low) in lows {
            self.forget_delivered(stream, low.at);
        }
    }

    /// Forgets delivered records before a position, after which the next unfinished one is.
    fn forget_delivered(&mut self, stream: StreamId, at: Position) {
        let Some(own) = self.0.get_mut(&stream) else { return };
        own.spans.retain(|span| span.last >= at || span.fate != Fate::Delivered);
        if own.spans.is_empty() {
            self.0.remove(&stream);
        }
    }

    /// Forgets all delivered records: none waits.
    pub(super) fn forget_all_delivered(&mut self) {
        let last = Position::new(u32::MAX, u64::MAX);
        let streams: Vec<StreamId> = self.0.keys().copied().collect();
        for stream in streams {
            self.forget_delivered(stream, last);
        }
    }

    /// Returns whether there are so many spans that those of settled records should be forgotten.
    pub(super) fn is_long(&self) -> bool {
        self.0.values().map(|own| own.spans.len()).sum::<usize>() > SPANS_MAX
    }

    /// Forgets settled records if there are many spans.
    pub(super) fn forget_some(&mut self, sources: &CursorMemory) {
        if !self.is_long() {
            return;
        }
        self.0.retain(|stream, own| {
            let committed = sources.committed(*stream);
            own.spans.retain(|span| committed.is_none_or(|committed| committed < span.last));
            !own.spans.is_empty()
        });
    }

    /// Takes the records of a stream before a position.
    pub(super) fn take_before(&mut self, stream: StreamId, at: Position) -> Vec<Span> {
        let mut taken = Vec::new();
        if let Some(own) = self.0.get_mut(&stream) {
            let count = own.spans.partition_point(|span| span.last < at);
            taken.extend(own.spans.drain(..count));
            if own.spans.is_empty() {
                self.0.remove(&stream);
            }
        }
        taken
    }
}
