//! What must have arrived, and what the books must say about the rest.

use std::collections::BTreeMap;

use weir_journal::Journal;
use weir_model::SourceBook;

use super::programs::{Content, LINE_BYTES, Line};
use crate::source::simulated::SINKS;

/// What a destination received of a line.
#[derive(Debug, Clone, Default)]
struct Arrival {
    count: u32,
    /// It arrived in this life of the process.
    is_fresh: bool,
    /// Its settlement is stored: it must not arrive again.
    is_sure: bool,
}

type Arrivals = BTreeMap<Line, Arrival>;

/// Remembers what arrived, over all lives of the process.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    sinks: [Arrivals; SINKS],
    /// A process was killed: what was settled shortly before may arrive again.
    pub(super) was_killed: bool,
    /// Reports of the kernel were lost, and the source was told so.
    pub(super) has_lost_reports: bool,
}

/// What the history contained that may cost lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Causes {
    pub(super) has_cut: bool,
    pub(super) has_removed: bool,
}

fn arrivals_of(arrivals: &Arrivals, content: usize) -> impl Iterator<Item = &Arrival> {
    arrivals.range((content, 0)..=(content, u64::MAX)).map(|(_, arrival)| arrival)
}

impl Oracle {
    pub(super) fn receive(&mut self, sink: usize, lines: &[Line]) {
        for line in lines {
            let arrival = self.sinks[sink].entry(*line).or_default();
            assert!(!arrival.is_sure, "line {line:?} arrives at {sink} although it was settled");
            arrival.count += 1;
            arrival.is_fresh = true;
            let is_again = arrival.count > 1 && !self.was_killed;
            assert!(!is_again, "line {line:?} arrives at {sink} twice");
        }
    }

    /// Everything that was settled is stored.
    pub(super) fn note_flushed(&mut self) {
        let arrivals = self.sinks.iter_mut().flat_map(Arrivals::values_mut);
        arrivals.filter(|arrival| arrival.is_fresh).for_each(|arrival| arrival.is_sure = true);
    }

    /// The process ends: what it knew of the files is lost, except for those of which something
    /// has certainly arrived.
    pub(super) fn end_life(&mut self, contents: &mut [Content]) {
        for (index, content) in contents.iter_mut().enumerate() {
            let arrivals = self.sinks.iter().flat_map(|sink| arrivals_of(sink, index));
            content.is_known &= arrivals.into_iter().any(|arrival| arrival.is_sure);
        }
        let arrivals = self.sinks.iter_mut().flat_map(Arrivals::values_mut);
        arrivals.for_each(|arrival| arrival.is_fresh = false);
    }

    fn missing(&self, sink: usize, index: usize, content: &Content) -> u64 {
        let received = |sink: usize| arrivals_of(&self.sinks[sink], index).count() as u64;
        let known = (0..SINKS).map(received).max().filter(|_| content.is_forgotten);
        known.unwrap_or(content.lines) - received(sink)
    }

    fn was_never_seen(&self, index: usize, content: &Content) -> bool {
        // What arrived in an earlier life may be forgotten, if it was not flushed.
        let is_seen = |arrival: &Arrival| arrival.is_fresh || arrival.is_sure;
        content.is_cut && !self.sinks.iter().flat_map(|sink| arrivals_of(sink, index)).any(is_seen)
    }

    /// The end: everything that can be read was read, and everything was settled. `present` are the
    /// contents that have a name which is followed.
    pub(super) fn compare(
        &self,
        journal: &Journal,
        contents: &[Content],
        present: &[usize],
        causes: Causes,
    ) {
        let ledger = journal.ledger();
        let book = ledger.sources.first().map(|source| source.book).unwrap_or_default();
        assert_eq!(book.unaccounted_lines(), 0, "{book:?}");
        for (sink, cursor) in ledger.cursors.iter().enumerate() {
            assert_eq!(cursor.unaccounted(), 0, "{cursor:?}");
            assert_eq!(cursor.in_flight, 0, "{cursor:?}");
            // Every record that was read is for every destination. A kill may roll back that it was
            // settled, and with it that it was routed.
            let unsure = self.sinks[sink].values().filter(|arrival| !arrival.is_sure).count();
            let is_owed = book.records.checked_sub(cursor.book.routed);
            assert!(
                is_owed.is_some_and(|lines| lines <= unsure as u64),
                "{book:?}, and what {sink} is owed: {:?} ({unsure} unsure)",
                cursor.book
            );
            for index in present {
                let missing = self.missing(sink, *index, &contents[*index]);
                assert_eq!(
                    missing, 0,
                    "{missing} lines of content {index} ({}) are still there and did not arrive at \
                     {sink}: {book:?}",
                    contents[*index].path
                );
            }
            let missing: u64 = contents
                .iter()
                .enumerate()
                .filter(|(index, content)| {
                    content.is_known && !self.was_never_seen(*index, content)
                })
                .map(|(index, content)| self.missing(sink, index, content))
                .sum();
            let discarded = cursor.book.discarded_total();
            let counted = discarded + book.abandoned_total() / LINE_BYTES;
            if !book.is_at_least() && !self.has_lost_reports {
                assert!(
                    missing <= counted && (self.was_killed || missing == counted),
                    "{missing} lines are missing at {sink}, {counted} are counted: {book:?}, {:?}",
                    cursor.book
                );
            }
        }
        Self::compare_causes(&book, causes);
    }

    /// Asserts that nothing is counted as lost without a cause.
    fn compare_causes(book: &SourceBook, causes: Causes) {
        assert!(book.files_cut == 0 || causes.has_cut, "nothing was truncated: {book:?}");
        let vanished = book.files_vanished + book.files_unseen + book.abandoned_total();
        let may_vanish = causes.has_removed || causes.has_cut;
        assert!(vanished == 0 || may_vanish, "nothing was removed: {book:?}");
    }
}
