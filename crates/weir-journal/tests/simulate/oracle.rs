//! What each destination must have received or counted, by number.
//!
//! The journal determines how far a stream was read: the state that it returns contains the
//! position. All rows up to there (its [`Chain`]) are in the source's book, and the oracle verifies
//! that: every one of them that was offered to a destination has arrived there or is in that
//! destination's own discards, no more and no less. So that the journal cannot pass by forgetting,
//! what any destination had settled durably must be in the chain for all of them.
//!
//! Three things cannot be known from outside, and are ranges:
//! - Rows that were appended, but of which the log had not stated durably that they are owed
//!   ([`OFFERED`] without [`KNOWN`]). For a later frame on disk the source's counts are known, and
//!   so is the end of what was read; where the rows before it went is not known if nothing holds
//!   them. The same applies to rows that were read again while their destination was missing.
//! - An acknowledgement that was not flushed when the machine stopped may count or not ([`GOT`]
//!   without [`SURE`]). If the rows then vanish, they are either delivered or discarded.
//! - A stream that was closed shortly before a crash, and about which nothing is known afterwards,
//!   may have been counted to its end or not at all ([`StreamBook::may_be_forgotten`]).
//!
//! Damage adds more. What was confirmed, but not yet stated in the log, is in its frame alone
//! ([`Oracle::damage_frames`]). Of a frame that a destination had received in part, all rows may
//! count as damaged: only the frame itself knows which ones follow its position. And the log may
//! lose the position of a stream while the counts of its destinations survive in a later record:
//! rows are then delivered and counted again, but never counted more often than they arrived, and a
//! loss is counted at least once ([`Sink::arrived`]).

use std::collections::BTreeMap;

use weir_journal::{CursorLedger, Ledger};
use weir_model::{DiscardReason, SourceId};

/// The destination acknowledged it, in any run.
pub(crate) const GOT: u8 = 1;
/// And that is durable.
pub(crate) const SURE: u8 = 2;
/// It was appended while the destination was configured, and routed to it.
pub(crate) const OFFERED: u8 = 4;
/// The journal had durably recorded that it was read, while it was owed.
pub(crate) const KNOWN: u8 = 8;
/// It was appended in this life of the process.
pub(crate) const NOW: u8 = 16;
/// It was appended in an earlier life, and what the journal knows about it may come only from a
/// later frame, which does not state what is owed before it.
const UNSTATED: u8 = 32;
/// It was appended in the life before this one.
const BEFORE: u8 = 64;

/// What was in a stream and was counted, in order of its epochs: contents, and rows of each.
pub(crate) type Chain = Vec<(usize, u64)>;

/// The content of rows that a source received and counted as lost.
pub(crate) const LOST: usize = usize::MAX;

/// Returns the number of rows of a chain.
pub(crate) fn rows_of(chain: &Chain) -> u64 {
    chain.iter().map(|(_, rows)| rows).sum()
}

/// Returns how many of them were lost before they were in any batch that survived.
pub(crate) fn lost_rows_of(chain: &Chain) -> u64 {
    chain.iter().filter(|(content, _)| *content == LOST).map(|(_, rows)| rows).sum()
}

/// The start of an epoch by a source.
#[derive(Debug, Clone)]
pub(crate) struct Begin {
    pub(crate) content: usize,
    pub(crate) epoch: u32,
    pub(crate) before: Chain,
}

/// How a destination settles a row. It is the same each time, so that the counts are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    DeadLettered,
    Rejected,
}

/// What became of the rows offered to one destination.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct Sink {
    pub(crate) name: String,
    /// The journal permanently knows it.
    pub(crate) index: usize,
    /// It was not configured in some run: what it is owed of rows read in that run is not known.
    pub(crate) was_absent: bool,
    /// It was added later, and started where sources were: not everything that they read again for
    /// others is for it.
    pub(crate) is_late: bool,
    pub(crate) drops_oldest: bool,
    /// It settles all rows as delivered.
    pub(crate) is_plain: bool,
    /// Flags by content and row.
    flags: Vec<Vec<u8>>,
    /// How often it settled a row, over all lives of the process, by fate.
    arrived: [u64; 3],
}

impl Sink {
    pub(crate) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    pub(crate) fn flags(&self, content: usize, row: u64) -> u8 {
        let rows = self.flags.get(content);
        rows.and_then(|rows| rows.get(row as usize)).copied().unwrap_or_default()
    }

    pub(crate) fn mark(&mut self, content: usize, row: u64, flag: u8) {
        if self.flags.len() <= content {
            self.flags.resize(content + 1, Vec::new());
        }
        let rows = &mut self.flags[content];
        if rows.len() <= row as usize {
            rows.resize(row as usize + 1, 0);
        }
        rows[row as usize] |= flag;
    }

    /// Records that a row is appended for the destination.
    pub(crate) fn offer(&mut self, content: usize, row: u64) {
        self.mark(content, row, OFFERED | NOW);
        self.note_found(content, row);
    }

    /// Records that the journal holds the row itself.
    pub(crate) fn note_found(&mut self, content: usize, row: u64) {
        let rows = self.flags.get_mut(content);
        if let Some(flags) = rows.and_then(|rows| rows.get_mut(row as usize)) {
            *flags &= !UNSTATED;
        }
    }

    /// Records that the destination settles a row; returns how.
    pub(crate) fn settle(&mut self, content: usize, row: u64) -> Fate {
        self.mark(content, row, GOT);
        let fate = self.fate(row);
        self.arrived[fate as usize] += 1;
        fate
    }

    fn fate(&self, row: u64) -> Fate {
        match (row * 7 + self.index as u64) % 16 {
            0 if !self.is_plain => Fate::DeadLettered,
            5 if !self.is_plain => Fate::Rejected,
            _ => Fate::Delivered,
        }
    }

    fn note_known(&mut self, chain: &Chain, flag: u8) {
        for (content, rows) in chain {
            let Some(flags) = self.flags.get_mut(*content) else { continue };
            let is_meant = |flags: &&mut u8| **flags & flag != 0 && **flags & UNSTATED == 0;
            for flags in flags.iter_mut().take(*rows as usize).filter(is_meant) {
                *flags |= KNOWN;
            }
        }
    }

    fn note_survived(&mut self, chain: &Chain, is_log_written: bool) {
        let unknown = if is_log_written { 0 } else { GOT };
        for (content, rows) in chain {
            let Some(flags) = self.flags.get_mut(*content) else { continue };
            let mask = BEFORE | OFFERED | unknown;
            let is_owed = |flags: &&mut u8| **flags & mask == BEFORE | OFFERED;
            let flags = flags.iter_mut().take(*rows as usize).filter(is_owed);
            flags.for_each(|flags| *flags |= KNOWN);
        }
    }

    fn note_unstated(&mut self, chain: &Chain) {
        for (content, rows) in chain {
            let Some(flags) = self.flags.get_mut(*content) else { continue };
            let is_unstated = |flags: &&mut u8| **flags & (KNOWN | SURE) == 0;
            let flags = flags.iter_mut().take(*rows as usize).filter(is_unstated);
            flags.for_each(|flags| *flags |= UNSTATED);
        }
    }

    /// Nothing is certain any more: the cursor log may have lost it.
    fn forget(&mut self) {
        self.flags.iter_mut().flatten().for_each(|flags| *flags &= !(SURE | KNOWN));
    }
}

/// What the oracle knows about a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamBook {
    pub(crate) source: SourceId,
    pub(crate) chain: Chain,
    /// The journal had recorded it durably.
    pub(crate) is_noted: bool,
    pub(crate) is_closed: bool,
    /// Either its whole chain is counted, or nothing of it.
    pub(crate) may_be_forgotten: bool,
}

/// Numbers of one destination; the first bound is the minimum, the second the maximum.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    routed: (u64, u64),
    /// Acknowledged for certain, and perhaps: delivered, dead-lettered, rejected.
    settled: [(u64, u64); 3],
    /// Never arrived.
    missing: (u64, u64),
    /// Acknowledged in a run whose end may have lost it.
    doubtful: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        let add = |a: &mut (u64, u64), b: (u64, u64)| *a = (a.0 + b.0, a.1 + b.1);
        add(&mut self.routed, other.routed);
        add(&mut self.missing, other.missing);
        self.settled.iter_mut().zip(other.settled).for_each(|(a, b)| add(a, b));
        self.doubtful += other.doubtful;
    }

    fn of(sink: &Sink, chain: &Chain) -> Self {
        let mut tally = Self::default();
        let there = chain.iter().filter(|(content, _)| *content != LOST);
        let rows = there.flat_map(|(content, rows)| (0..*rows).map(|row| (*content, row)));
        for (content, row) in rows {
            let flags = sink.flags(content, row);
            if flags & OFFERED == 0 {
                continue;
            }
            let owed = if sink.is_late { SURE } else { KNOWN | SURE | NOW };
            let sure = u64::from(flags & owed != 0);
            tally.routed.0 += sure;
            tally.routed.1 += 1;
            let settled = &mut tally.settled[sink.fate(row) as usize];
            if flags & GOT == 0 {
                tally.missing.0 += sure;
                tally.missing.1 += 1;
            } else if flags & SURE == 0 {
                settled.1 += 1;
                tally.missing.1 += 1;
                tally.doubtful += 1;
            } else {
                settled.0 += 1;
                settled.1 += 1;
            }
        }
        tally
    }

    /// Allows rows that arrived to count as lost, too.
    fn allow_lost_again(&mut self) {
        let settled: u64 = self.settled.iter().map(|range| range.1).sum();
        self.missing.1 += settled;
        self.routed.1 += settled;
    }

    /// Allows what is not durable since the damage to be forgotten, rows to be counted as often as
    /// they arrived, and losses to be found again.
    fn allow_repeated(&mut self, sink: &Sink) {
        if sink.drops_oldest {
            // They may have been discarded, and that may be forgotten.
            self.missing.0 = 0;
        }
        self.routed.0 = self.missing.0 + self.settled.iter().map(|range| range.0).sum::<u64>();
        for (range, arrived) in self.settled.iter_mut().zip(sink.arrived) {
            range.1 = range.1.max(arrived);
        }
        (self.routed.1, self.missing.1) = (u64::MAX, u64::MAX);
    }

    /// Returns what is wrong with the destination's book, if anything.
    fn compare(&self, cursor: &CursorLedger) -> Option<String> {
        let book = &cursor.book;
        let rejected = book.discarded[DiscardReason::Rejected as usize];
        let lost = book.discarded_total() - rejected;
        let settled = [book.delivered, book.dead_lettered, rejected];
        let is_in = |value: u64, range: (u64, u64)| range.0 <= value && value <= range.1;
        let is_right = is_in(book.routed, self.routed)
            && settled.iter().zip(self.settled).all(|(value, range)| is_in(*value, range))
            && is_in(lost, self.missing)
            && book.routed == lost + settled.iter().sum::<u64>();
        (!is_right).then(|| {
            format!(
                "{}: must be {self:?}\n   is {settled:?} and {lost} lost: {book:?}",
                cursor.name
            )
        })
    }
}

/// Everything that was written, and who received it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct Oracle {
    pub(crate) begins: Vec<Begin>,
    pub(crate) streams: BTreeMap<u64, StreamBook>,
    /// Destinations that were not dropped.
    pub(crate) sinks: Vec<Sink>,
    /// Rows (content, row) that the journal confirmed as safe, by stream.
    pub(crate) promised: Vec<(u64, usize, u64)>,
    /// The stream that contained each content.
    content_streams: Vec<u64>,
    /// The cursor log was damaged: it may have lost anything.
    pub(crate) has_forgotten: bool,
    /// Of a frame that was damaged, a destination may have had a part.
    pub(crate) may_lose_again: bool,
    /// Rows have keys.
    pub(crate) has_keys: bool,
    /// Some batches were rewritten: which rows they have now is not known here.
    pub(crate) has_compacted: bool,
    /// How often rows of some key were discarded, and rows of others in the same batch were not.
    pub(crate) cuts: u64,
}

impl Oracle {
    pub(crate) fn new_content(&mut self, stream: u64) -> usize {
        self.content_streams.push(stream);
        self.content_streams.len() - 1
    }

    pub(crate) fn begin(&mut self, content: usize, epoch: u32, before: Chain) -> usize {
        self.begins.push(Begin { content, epoch, before });
        self.begins.len() - 1
    }

    /// Returns what is counted up to a position.
    pub(crate) fn chain(&self, begin: usize, next: u64) -> Chain {
        let begin = &self.begins[begin];
        begin.before.iter().copied().chain([(begin.content, next)]).collect()
    }

    /// Records that the stream is counted up to here.
    pub(crate) fn set_chain(&mut self, stream: u64, source: SourceId, chain: Chain) {
        let new = || StreamBook {
            source,
            chain: Chain::new(),
            is_noted: false,
            is_closed: false,
            may_be_forgotten: false,
        };
        self.streams.entry(stream).or_insert_with(new).chain = chain;
    }

    /// Records that nothing is known about the stream, and nothing of it can be read: it ended and
    /// was folded into its source, or what was read of it never reached the disk.
    pub(crate) fn set_unknown(&mut self, stream: u64) {
        let has_forgotten = self.has_forgotten;
        let Some(book) = self.streams.get_mut(&stream) else { return };
        if !book.is_closed {
            book.chain.clear();
        } else if !book.is_noted || has_forgotten {
            book.may_be_forgotten = true;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.has_forgotten = true;
        self.sinks.iter_mut().for_each(Sink::forget);
    }

    /// Bytes of segments are damaged. Of a row that was confirmed and is not stated in the log,
    /// only its frame tells that it exists; what becomes of it is reported in bytes.
    pub(crate) fn damage_frames(&mut self, is_exact: bool) {
        self.may_lose_again = !is_exact;
        let sinks = &self.sinks;
        self.promised.retain(|(_, content, row)| {
            let is_stated = |sink: &Sink| sink.flags(*content, *row) & (KNOWN | SURE) != 0;
            sinks.iter().any(is_stated)
        });
    }

    /// Starts another life of the process.
    pub(crate) fn begin_life(&mut self) {
        let flags = self.sinks.iter_mut().flat_map(|sink| &mut sink.flags).flatten();
        for flags in flags {
            let before = if *flags & NOW == 0 { 0 } else { BEFORE };
            *flags = (*flags & !(NOW | BEFORE)) | before;
        }
    }

    /// Records that the journal has durably recorded that all this was read, in this life.
    pub(crate) fn note_known(&mut self, chain: &Chain) {
        self.sinks.iter_mut().for_each(|sink| sink.note_known(chain, NOW));
    }

    /// Like [`Self::note_known`], for earlier lives.
    pub(crate) fn note_known_before(&mut self, chain: &Chain) {
        let sinks = self.sinks.iter_mut().filter(|sink| !sink.was_absent);
        sinks.for_each(|sink| sink.note_known(chain, OFFERED));
    }

    /// Records that only the process was killed: each row that it had appended and that is counted
    /// is owed, because batches without acknowledgement are written in order. What was settled
    /// instead of being written is stated before what follows it, if the log can be written.
    pub(crate) fn note_survived(&mut self, stream: u64, is_log_written: bool) {
        let Some(book) = self.streams.get(&stream).filter(|_| !self.has_forgotten) else { return };
        let sinks = self.sinks.iter_mut();
        sinks.for_each(|sink| sink.note_survived(&book.chain, is_log_written));
    }

    /// Records that all this was read in earlier lives, and there are frames: which of the rows
    /// before them the log had stated is not known.
    pub(crate) fn note_unstated(&mut self, chain: &Chain) {
        self.sinks.iter_mut().for_each(|sink| sink.note_unstated(chain));
    }

    /// The end: everything that can be read was read, and everything was taken and settled.
    pub(crate) fn compare(&self, ledger: &Ledger) {
        self.assert_promises();
        let doubtful: Vec<u64> =
            self.streams.iter().filter(|(_, s)| s.may_be_forgotten).map(|(id, _)| *id).collect();
        assert!(doubtful.len() < 16, "too many streams closed just before a crash");
        let mut first = None;
        for choice in 0..1_u32 << doubtful.len() {
            let counts = |stream: &u64| {
                let at = doubtful.iter().position(|id| id == stream);
                at.is_none_or(|at| choice >> at & 1 == 0)
            };
            match self.compare_with(ledger, counts) {
                Ok(()) => return,
                Err(why) => first = first.or(Some(why)),
            }
        }
        panic!("{}", first.unwrap_or_default());
    }

    fn compare_with(&self, ledger: &Ledger, counts: impl Fn(&u64) -> bool) -> Result<(), String> {
        let counted = || self.streams.iter().filter(|(id, _)| counts(id)).map(|(_, s)| s);
        for source in &ledger.sources {
            let of_source = || counted().filter(|s| s.source == source.id);
            let rows: u64 = of_source().map(|s| rows_of(&s.chain)).sum();
            let lost: u64 = of_source().map(|s| lost_rows_of(&s.chain)).sum();
            let book = &source.book;
            // A damaged log may have lost a stream, or that its counts are in the source's already.
            let is_right = self.has_forgotten
                || book.lines == rows
                    && book.records == rows - lost
                    && book.discarded[DiscardReason::Crash as usize] == lost;
            if !is_right {
                return Err(format!("{} has read {rows} rows: {:?}", source.name, source.book));
            }
        }
        for sink in &self.sinks {
            let cursor = ledger.cursors.iter().find(|cursor| cursor.index == sink.index);
            let Some(cursor) = cursor else { continue };
            let mut tally = Tally::default();
            counted().for_each(|stream| tally.add(&Tally::of(sink, &stream.chain)));
            if self.may_lose_again {
                tally.allow_lost_again();
            }
            if self.has_forgotten {
                tally.allow_repeated(sink);
            }
            if let Some(why) = tally.compare(cursor) {
                return Err(why);
            }
            if !sink.drops_oldest && cursor.book.discarded[DiscardReason::BufferFull as usize] > 0 {
                return Err(format!("{} should not drop old batches", sink.name));
            }
        }
        Ok(())
    }

    fn is_counted(&self, content: usize, row: u64) -> bool {
        let stream = self.streams.get(&self.content_streams[content]);
        let reaches = |(other, rows): &(usize, u64)| *other == content && row < *rows;
        stream.is_some_and(|stream| stream.chain.iter().any(reaches))
    }

    /// What was settled durably by any destination is counted for every one, and what was confirmed
    /// has arrived everywhere or is counted.
    fn assert_promises(&self) {
        if self.has_forgotten {
            return;
        }
        for sink in &self.sinks {
            for (content, rows) in sink.flags.iter().enumerate() {
                let sure = (0..rows.len()).rev().find(|row| rows[*row] & SURE != 0);
                let Some(row) = sure else { continue };
                assert!(
                    self.is_counted(content, row as u64),
                    "row {row} of content {content} was settled by {} and is unknown",
                    sink.name
                );
            }
        }
        for (stream, content, row) in &self.promised {
            // Nothing was confirmed to a destination that was missing at that time.
            let has = |sink: &Sink| {
                sink.was_absent || sink.flags(*content, *row) & (GOT | OFFERED) != OFFERED
            };
            assert!(
                self.is_counted(*content, *row) || self.sinks.iter().all(has),
                "row {row} of content {content} in stream {stream} was confirmed and is lost"
            );
        }
    }
}
