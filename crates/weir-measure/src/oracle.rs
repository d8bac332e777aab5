//! Judges a run: compares the written lines with those that arrived and with the ledger.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use crate::books::Books;
use crate::collector::Tally;
use crate::load::{LoadReport, StreamReport};

/// The guarantees of a run. Everything is exact unless a field allows more.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Name of the output that sends to the collector.
    pub output: String,
    /// How often weir was killed.
    pub crashes: u64,
    /// Bytes that may be sent again after each crash.
    pub window_bytes: u64,
    /// Size of the smallest body that was written, bytes: determines how many lines a window can
    /// hold.
    pub body_bytes_min: u64,
    /// Duplicates caused by responses that were lost on the way (in addition to those of crashes).
    pub lost_answers_lines: u64,
    /// Lines of one file arrive in order.
    pub ordered: bool,
    /// Lines that may be missing in addition to those that the output's book counts: lines that a
    /// source counted as lost.
    pub lost_at_source: u64,
    /// Lines by stream, in ascending order, that were destroyed before it could be proved that weir
    /// had them. Every other line has arrived or is counted.
    pub exposed: BTreeMap<String, Vec<Range<u64>>>,
    /// How many of these lines may be missing and not counted anywhere.
    pub uncounted_max: u64,
    /// Lines that may be counted as lost although they arrived: their acknowledgement was not yet
    /// durable when weir was killed, and they could not be read again.
    pub miscounted_max: u64,
    /// Counted lines that the book may have lost, because it was damaged.
    pub forgotten_max: u64,
}

/// Numbers of lines that did not arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing {
    /// All missing lines.
    pub all: u64,
    /// Missing lines that were not [exposed](Oracle::exposed).
    pub certain: u64,
}

impl Oracle {
    /// Creates an oracle for an output that neither crashed nor lost anything.
    pub fn strict(output: &str) -> Self {
        Self {
            output: output.to_owned(),
            crashes: 0,
            window_bytes: 16 << 20,
            body_bytes_min: 1,
            lost_answers_lines: 0,
            ordered: true,
            lost_at_source: 0,
            exposed: BTreeMap::new(),
            uncounted_max: 0,
            miscounted_max: 0,
            forgotten_max: 0,
        }
    }

    /// Panics with all problems unless everything that was written was delivered or counted,
    /// undamaged, in order, and not more often than guaranteed.
    pub fn check(&self, written: &[LoadReport], tally: &Tally, books: &Books) {
        let wrong = self.problems(written, tally, books);
        assert!(wrong.is_empty(), "{wrong}books: {books}");
    }

    /// Returns all problems, one per line; empty if everything that was written was delivered or
    /// counted, undamaged, in order, and not more often than guaranteed.
    pub fn problems(&self, written: &[LoadReport], tally: &Tally, books: &Books) -> String {
        let mut wrong = String::new();
        if let Some(imbalance) = books.imbalance() {
            say(&mut wrong, &imbalance);
        }
        let streams = merged(written);
        let counted = self.counted(books);
        for stream in &streams {
            self.stream(stream, tally, counted, &mut wrong);
        }
        for name in tally.streams.keys().filter(|name| !streams.iter().any(|s| s.name == **name)) {
            say(&mut wrong, &format!("stream {name} was never written"));
        }
        self.balance(&self.missing(written, tally), counted, &mut wrong);
        if tally.foreign > 0 || tally.malformed > 0 {
            let text = format!("{} foreign events, {} bad bodies", tally.foreign, tally.malformed);
            say(&mut wrong, &text);
        }
        let copies_max = (self.crashes * (self.window_bytes / self.body_bytes_min.max(1)))
            .saturating_add(self.lost_answers_lines);
        if tally.duplicates() > copies_max {
            let text = format!("{} copies, at most {copies_max} allowed", tally.duplicates());
            say(&mut wrong, &text);
        }
        wrong
    }

    /// Returns the first `count` runs of lines that are certainly missing, with their streams:
    /// where to look when something is wrong.
    pub fn first_missing(
        &self,
        written: &[LoadReport],
        tally: &Tally,
        count: usize,
    ) -> Vec<(String, Range<u64>)> {
        let mut runs: Vec<(String, Range<u64>)> = Vec::new();
        for stream in &merged(written) {
            let missing = self.missing_of(stream, tally);
            for (seq, _) in missing.filter(|(_, is_exposed)| !is_exposed) {
                let last = runs.last_mut();
                let last = last.filter(|(name, run)| *name == stream.name && run.end == seq);
                if let Some((_, run)) = last {
                    run.end += 1;
                } else if runs.len() == count {
                    return runs;
                } else {
                    runs.push((stream.name.clone(), seq..seq + 1));
                }
            }
        }
        runs
    }

    /// Returns the lines of a stream that did not arrive, and whether they were exposed.
    fn missing_of<'a>(
        &'a self,
        stream: &'a StreamReport,
        tally: &'a Tally,
    ) -> impl Iterator<Item = (u64, bool)> + 'a {
        let exposed = self.exposed.get(&stream.name).map_or(&[][..], Vec::as_slice);
        let arrived = tally.streams.get(&stream.name);
        let lines = stream.first_seq..stream.first_seq + stream.lines;
        let missing = lines.filter(move |seq| arrived.is_none_or(|arrived| !arrived.has(*seq)));
        missing.map(move |seq| {
            let at = exposed.partition_point(|range| range.end <= seq);
            (seq, exposed.get(at).is_some_and(|range| range.contains(&seq)))
        })
    }

    /// Returns the lines that did not arrive.
    pub fn missing(&self, written: &[LoadReport], tally: &Tally) -> Missing {
        let mut missing = Missing::default();
        for stream in &merged(written) {
            for (_, is_exposed) in self.missing_of(stream, tally) {
                missing.all += 1;
                missing.certain += u64::from(!is_exposed);
            }
        }
        missing
    }

    /// Compares the missing lines with the losses in the books.
    fn balance(&self, missing: &Missing, counted: u64, wrong: &mut String) {
        let Missing { all, certain } = *missing;
        let least = all.saturating_sub(self.uncounted_max).max(certain);
        let least = least.saturating_sub(self.forgotten_max);
        let most = all.saturating_add(self.miscounted_max);
        if least == most && counted != all {
            say(wrong, &format!("{all} lines missing, {counted} counted"));
        } else if counted < least {
            let text =
                format!("{all} lines missing, {counted} of them counted, at least {least} must be");
            say(wrong, &text);
        } else if counted > most {
            let text = format!("{all} lines missing, but {counted} counted, at most {most} may be");
            say(wrong, &text);
        }
    }

    fn stream(&self, stream: &StreamReport, tally: &Tally, counted: u64, wrong: &mut String) {
        let (name, end) = (&stream.name, stream.first_seq + stream.lines);
        let Some(arrived) = tally.streams.get(name) else {
            if stream.lines > 0 && counted == 0 {
                say(wrong, &format!("stream {name}: none of {} lines arrived", stream.lines));
            }
            return;
        };
        if arrived.damaged > 0 {
            say(wrong, &format!("stream {name}: {} lines damaged", arrived.damaged));
        }
        if self.ordered && arrived.disordered > 0 {
            say(wrong, &format!("stream {name}: {} out of order", arrived.disordered));
        }
        if arrived.end() > end {
            say(wrong, &format!("stream {name}: line {} was never written", arrived.end() - 1));
        }
        let gaps = arrived.gaps(stream.first_seq, end);
        let lost: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        if lost > 0 && counted == 0 && self.uncounted_max == 0 {
            let first = &gaps[..gaps.len().min(5)];
            say(wrong, &format!("stream {name}: {lost} of {end} missing, {first:?}"));
        }
    }

    /// Returns the number of lines that the books count as lost.
    pub fn counted(&self, books: &Books) -> u64 {
        books.discarded(&self.output) + books.dead_lettered(&self.output) + self.lost_at_source
    }
}

fn say(wrong: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(wrong, "{text}");
}

/// Merges the reports of runs that continued the same streams.
fn merged(written: &[LoadReport]) -> Vec<StreamReport> {
    let mut streams: Vec<StreamReport> = Vec::new();
    for stream in written.iter().flat_map(|report| &report.streams) {
        match streams.iter_mut().find(|known| known.name == stream.name) {
            Some(known) => known.lines = stream.first_seq + stream.lines - known.first_seq,
            None => streams.push(stream.clone()),
        }
    }
    streams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LineId;
    use serde_json::json;

    fn report(lines: u64) -> LoadReport {
        let stream = StreamReport { name: "a".to_owned(), first_seq: 0, lines };
        LoadReport {
            lines,
            bytes: 0,
            rotations: 0,
            seconds: 0.0,
            lateness_max_seconds: 0.0,
            streams: vec![stream],
        }
    }

    fn tally(seqs: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for seq in seqs {
            let mut line = Vec::new();
            LineId::write("a", 0, *seq, b"payload", &mut line);
            tally.count(&line);
        }
        tally
    }

    fn books(delivered: u64, discarded: u64) -> Books {
        let book = json!({"routed": delivered + discarded, "delivered": delivered,
            "discarded": {"buffer_full": discarded}});
        Books::new(json!({"cursors": [{"name": "o", "in_flight": 0, "book": book}]}))
    }

    fn problems(lines: u64, seqs: &[u64], discarded: u64) -> String {
        let oracle = Oracle::strict("o");
        let tally = tally(seqs);
        oracle.problems(&[report(lines)], &tally, &books(tally.unique(), discarded))
    }

    #[test]
    fn a_perfect_run_and_a_counted_loss_pass() {
        assert_eq!(problems(3, &[0, 1, 2], 0), "");
        assert_eq!(problems(3, &[0, 2], 1), "");
    }

    #[test]
    fn every_broken_promise_is_named() {
        for (lines, seqs, discarded, word) in [
            (3, &[0, 2][..], 0, "missing"),
            (3, &[0, 1, 2], 1, "0 lines missing, 1 counted"),
            (3, &[0, 1, 1, 2], 0, "copies"),
            (3, &[1, 0, 2], 0, "out of order"),
            (3, &[0, 1, 2, 3], 0, "was never written"),
            (3, &[], 0, "none of"),
        ] {
            let wrong = problems(lines, seqs, discarded);
            assert!(wrong.contains(word), "{seqs:?}: {wrong:?} does not say {word:?}");
        }
    }

    #[test]
    fn only_exposed_records_may_be_missing_from_the_books() {
        let exposed = BTreeMap::from([("a".to_owned(), vec![1..2, 2..3])]);
        let oracle = Oracle { exposed, uncounted_max: 2, ..Oracle::strict("o") };
        let problems = |seqs: &[u64], discarded| {
            oracle.problems(&[report(5)], &tally(seqs), &books(seqs.len() as u64, discarded))
        };
        for counted in 0..3 {
            assert_eq!(problems(&[0, 3, 4], counted), "");
        }
        assert!(problems(&[0, 3, 4], 3).contains("at most 2 may be"));
        assert!(problems(&[0, 4], 0).contains("at least 1 must be"));
        let first = |count| oracle.first_missing(&[report(5)], &tally(&[2]), count);
        assert_eq!(first(5), [("a".to_owned(), 0..1), ("a".to_owned(), 3..5)]);
        assert_eq!(first(1).len(), 1);
        assert_eq!(problems(&[0, 4], 1), "");
    }

    #[test]
    fn runs_that_go_on_are_put_together() {
        let mut second = report(2);
        second.streams[0].first_seq = 3;
        assert_eq!(merged(&[report(3), second])[0].lines, 5);
    }
}
