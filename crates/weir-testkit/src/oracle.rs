//! The one judge: what was written against what arrived and what the books say.

use std::fmt::Write as _;

use weir_measure::load::{LoadReport, StreamReport};

use crate::books::Books;
use crate::collector::Tally;

/// What a run promised. Everything is exact unless a field allows more.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Name of the output that the collector stands behind.
    pub output: String,
    /// Times that weir was killed.
    pub crashes: u64,
    /// Bytes that may be sent again after each crash.
    pub window_bytes: u64,
    /// Smallest body that was written, bytes: how many lines a window can hold.
    pub body_bytes_min: u64,
    /// Copies that come from answers that were lost on the way (beside those of crashes).
    pub lost_answers_lines: u64,
    /// Lines of one file arrive in their order.
    pub ordered: bool,
    /// Lines that may be missing beside those that the output's book counts: what a source
    /// counted as lost.
    pub lost_at_source: u64,
}

impl Oracle {
    /// Judges an output that neither crashed nor lost anything.
    pub fn strict(output: &str) -> Self {
        Self {
            output: output.to_owned(),
            crashes: 0,
            window_bytes: 16 << 20,
            body_bytes_min: 1,
            lost_answers_lines: 0,
            ordered: true,
            lost_at_source: 0,
        }
    }

    /// Panics, with everything that is wrong, unless all that was written was delivered or
    /// counted, undamaged, in order, and not more often than promised.
    pub fn check(&self, written: &[LoadReport], tally: &Tally, books: &Books) {
        books.assert_balanced();
        let wrong = self.problems(written, tally, books);
        assert!(wrong.is_empty(), "{wrong}books: {books}");
    }

    fn problems(&self, written: &[LoadReport], tally: &Tally, books: &Books) -> String {
        let mut wrong = String::new();
        let mut say = |text: String| {
            // Writing to a string cannot fail.
            let _infallible = writeln!(wrong, "{text}");
        };
        let streams = merged(written);
        let mut missing = 0;
        for stream in &streams {
            let end = stream.first_seq + stream.lines;
            let Some(arrived) = tally.streams.get(&stream.name) else {
                missing += stream.lines;
                say(format!("stream {}: nothing of {} lines arrived", stream.name, stream.lines));
                continue;
            };
            let gaps = arrived.gaps(stream.first_seq, end);
            let lost: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
            missing += lost;
            if arrived.damaged > 0 {
                say(format!("stream {}: {} lines damaged", stream.name, arrived.damaged));
            }
            if self.ordered && arrived.disordered > 0 {
                say(format!("stream {}: {} out of order", stream.name, arrived.disordered));
            }
            if arrived.end() > end {
                say(format!("stream {}: never issued: {}", stream.name, arrived.end() - 1));
            }
            if lost > 0 {
                let first = &gaps[..gaps.len().min(5)];
                let counted = self.counted(books);
                if counted == 0 {
                    say(format!("stream {}: {lost} of {end} missing, {first:?}", stream.name));
                }
            }
        }
        for name in tally.streams.keys().filter(|name| !streams.iter().any(|s| s.name == **name)) {
            say(format!("stream {name} was never written"));
        }
        if missing != self.counted(books) {
            say(format!("{missing} lines missing, {} counted", self.counted(books)));
        }
        if tally.foreign > 0 || tally.malformed > 0 {
            say(format!("{} foreign events, {} bad bodies", tally.foreign, tally.malformed));
        }
        let copies_max = self.crashes * (self.window_bytes / self.body_bytes_min.max(1))
            + self.lost_answers_lines;
        if tally.duplicates() > copies_max {
            say(format!("{} copies, at most {copies_max} promised", tally.duplicates()));
        }
        wrong
    }

    /// Lines that the books own up to.
    fn counted(&self, books: &Books) -> u64 {
        books.discarded(&self.output) + books.dead_lettered(&self.output) + self.lost_at_source
    }
}

/// Runs that went on with the same streams, put together.
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
    use serde_json::json;
    use weir_measure::load::LineId;

    use super::*;

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
        oracle.problems(&[report(lines)], &tally(seqs), &books(lines, discarded))
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
            (3, &[0, 1, 2, 3], 0, "never issued"),
            (3, &[], 0, "nothing"),
        ] {
            let wrong = problems(lines, seqs, discarded);
            assert!(wrong.contains(word), "{seqs:?}: {wrong:?} does not say {word:?}");
        }
    }

    #[test]
    fn runs_that_go_on_are_put_together() {
        let mut second = report(2);
        second.streams[0].first_seq = 3;
        assert_eq!(merged(&[report(3), second])[0].lines, 5);
    }
}
