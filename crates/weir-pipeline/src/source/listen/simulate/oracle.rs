//! What must have arrived, and what the books must say about the rest.
//!
//! The oracle knows what senders know: which records were taken, discarded or acknowledged, by
//! whom, and when everything was flushed.

use std::collections::BTreeMap;

use weir_journal::{CursorLedger, Journal};
use weir_model::{DiscardReason, SourceBook};

use super::clients::Line;
use super::process::{ACKNOWLEDGED, UNACKNOWLEDGED};
use crate::source::simulated::SINKS;
use crate::stats::LimitedCounts;

/// What is known of a record.
#[derive(Debug, Clone, Default)]
struct Record {
    /// Number of times that it was sent.
    sent: u32,
    arrived: [u32; SINKS],
    /// It must arrive, whatever happens now.
    is_safe: bool,
    /// The process ended before it was safe.
    may_be_lost: bool,
}

/// Records that were discarded for their quota, by host.
type Discarded = BTreeMap<u8, u64>;

/// Remembers what senders know, over all lives of the process.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(super) struct Oracle {
    records: BTreeMap<Line, Record>,
    /// Records that were discarded, over all lives.
    discarded_total: [u64; 2],
    /// Those that the running sources have discarded for certain.
    discarded: [Discarded; 2],
    /// Those of requests that were not acknowledged: some of them may have been appended.
    maybe_discarded: Discarded,
    /// Records that weir itself has written, in earlier lives.
    notices: u64,
    /// A process was killed: what was settled shortly before may arrive again.
    pub(super) was_killed: bool,
    /// The machine has stopped: the number of received records may be older than the last one.
    pub(super) has_crashed: bool,
    /// A source ended before the journal had room for its last records.
    pub(super) was_abandoned: bool,
    /// A process ended while destinations were behind: counts that follow the last record that
    /// waits are not stored.
    pub(super) was_behind: bool,
}

fn kind(line: Line) -> usize {
    usize::from(line.is_acknowledged)
}

fn count(discarded: &mut Discarded, host: u8) {
    *discarded.entry(host).or_default() += 1;
}

impl Oracle {
    /// A record was received without acknowledgement: taken, or discarded for its quota.
    pub(super) fn note_received(&mut self, line: Line, is_taken: bool) {
        if is_taken {
            self.records.entry(line).or_default().sent += 1;
        } else {
            self.discarded_total[kind(line)] += 1;
            count(&mut self.discarded[kind(line)], line.host);
        }
    }

    /// A client sends a record.
    pub(super) fn note_sent(&mut self, line: Line) {
        self.records.entry(line).or_default().sent += 1;
    }

    /// A client was told that a record is safe; it was taken, or discarded for its quota.
    pub(super) fn note_acknowledged(&mut self, line: Line, is_taken: bool) {
        self.records.entry(line).or_default().is_safe |= is_taken;
        if !is_taken {
            self.discarded_total[kind(line)] += 1;
            count(&mut self.discarded[kind(line)], line.host);
        }
    }

    /// A client does not know what became of a record.
    pub(super) fn note_unknown(&mut self, line: Line) {
        count(&mut self.maybe_discarded, line.host);
    }

    pub(super) fn receive(&mut self, sink: usize, lines: &[Line]) {
        for line in lines {
            let record = self.records.get_mut(line);
            let record = record.unwrap_or_else(|| panic!("{line:?} arrives and was never taken"));
            record.arrived[sink] += 1;
            let may_repeat = self.was_killed || record.arrived[sink] <= record.sent;
            assert!(may_repeat, "{line:?} arrives at {sink} again");
        }
    }

    /// Everything that was taken is on stable storage.
    pub(super) fn note_flushed(&mut self) {
        let taken = self.records.iter_mut().filter(|(line, _)| !line.is_acknowledged);
        taken.for_each(|(_, record)| record.is_safe |= !record.may_be_lost);
    }

    /// What is not on stable storage by now may be lost.
    pub(super) fn give_up(&mut self) {
        let all = self.records.values_mut().filter(|record| !record.is_safe);
        all.for_each(|record| record.may_be_lost = true);
    }

    /// The sources end, and with them the counts of keys. They have written `notices` records.
    pub(super) fn end_sources(&mut self, notices: u64) {
        self.notices += notices;
        self.discarded = Default::default();
        self.maybe_discarded.clear();
    }

    /// Compares what the running sources say about keys above their quota.
    pub(super) fn compare_keys(&self, source: usize, limited: &BTreeMap<u8, LimitedCounts>) {
        let certain = &self.discarded[source];
        let hosts = certain.keys().chain(limited.keys());
        for host in hosts {
            let certain = certain.get(host).copied().unwrap_or(0);
            let counted = limited.get(host).map_or(0, |counts| counts.discarded_records);
            let maybe = match source {
                ACKNOWLEDGED => self.maybe_discarded.get(host).copied().unwrap_or(0),
                _ => 0,
            };
            assert!(
                (certain..=certain + maybe).contains(&counted),
                "{certain} records of host {host} were discarded (and {maybe} perhaps), {counted} \
                 are counted"
            );
        }
    }

    /// Whatever happens, every book balances.
    pub(super) fn compare_books(journal: &Journal) {
        let ledger = journal.ledger();
        for source in &ledger.sources {
            assert_eq!(source.book.unaccounted_lines(), 0, "{source:?}");
        }
        for cursor in &ledger.cursors {
            assert_eq!(cursor.unaccounted(), 0, "{cursor:?}");
        }
    }

    /// The end: everything was delivered and settled. The last sources have written `notices`.
    pub(super) fn compare(&self, journal: &Journal, notices: u64) {
        let ledger = journal.ledger();
        let book = |name: &str| {
            let source = ledger.sources.iter().find(|source| source.name == name);
            source.map(|source| source.book).unwrap_or_default()
        };
        self.compare_unacknowledged(&book(UNACKNOWLEDGED), notices + self.notices);
        self.compare_discarded(&book(UNACKNOWLEDGED), 0);
        self.compare_discarded(&book(super::process::NAMES[ACKNOWLEDGED]), ACKNOWLEDGED);
        for (sink, cursor) in ledger.cursors.iter().enumerate() {
            self.compare_sink(sink, cursor, &book(UNACKNOWLEDGED));
        }
    }

    /// Each record that was received is in the book, either as a record or as lost.
    fn compare_unacknowledged(&self, book: &SourceBook, notices: u64) {
        let received = self.records.keys().filter(|line| !line.is_acknowledged).count() as u64;
        let lost = book.discarded[DiscardReason::Crash as usize];
        let (received, counted) = (received + notices, book.records + lost);
        assert!(
            counted == received || (self.has_crashed && counted < received),
            "{received} records were received, {counted} are counted, {lost} of them as lost: \
             {book:?}"
        );
        let may_lose = self.was_killed || self.was_abandoned;
        assert!(lost == 0 || may_lose, "{lost} records are counted as lost for no reason");
    }

    /// Counts that were not stored when a process ended are gone.
    fn compare_discarded(&self, book: &SourceBook, source: usize) {
        let (discarded, counted) =
            (self.discarded_total[source], book.discarded[DiscardReason::RateLimit as usize]);
        let is_exact = !self.was_killed && !self.was_abandoned && !self.was_behind;
        // A client may not know that its records were discarded.
        let may_be_more = source == ACKNOWLEDGED && counted > discarded;
        assert!(
            counted == discarded || may_be_more || (!is_exact && counted < discarded),
            "{discarded} records were discarded for their quota, {counted} are counted: {book:?}"
        );
    }

    fn compare_sink(&self, sink: usize, cursor: &CursorLedger, book: &SourceBook) {
        assert_eq!(cursor.in_flight, 0, "{cursor:?}");
        let missing = self.records.iter().filter(|(_, record)| record.arrived[sink] == 0);
        let missing: Vec<_> = missing.collect();
        let unsafe_only = missing.iter().find(|(_, record)| record.is_safe);
        assert!(unsafe_only.is_none(), "{unsafe_only:?} does not arrive at {sink}");
        let unacknowledged = missing.iter().filter(|(line, _)| !line.is_acknowledged).count();
        let counted = book.discarded[DiscardReason::Crash as usize] + cursor.book.discarded_total();
        assert!(
            unacknowledged as u64 <= counted || self.has_crashed,
            "{unacknowledged} records are missing at {sink}, {counted} are counted: {book:?}, {:?}",
            cursor.book
        );
    }
}
