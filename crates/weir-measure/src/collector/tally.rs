//! Counts arrived lines: one bit per line, so that millions are counted exactly.

use std::collections::BTreeMap;

use crate::load::LineId;

/// Counts of everything that arrived.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts by the stream name in the lines.
    pub streams: BTreeMap<String, StreamTally>,
    /// Stored events, including those without an ID.
    pub events: u64,
    /// Events without an ID.
    pub foreign: u64,
    /// Data requests, whatever their outcome.
    pub requests: u64,
    /// Bodies that were not a valid request.
    pub malformed: u64,
    /// Bytes of bodies as sent (compressed).
    pub wire_bytes: u64,
    /// Bytes of bodies after decompression.
    pub body_bytes: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Events that were stored without reporting success.
    pub unanswered: u64,
}

/// Arrived lines of one stream.
#[derive(Debug, Clone, Default)]
pub struct StreamTally {
    seen: Vec<u64>,
    /// Distinct lines that arrived.
    pub unique: u64,
    /// Lines that arrived, including duplicates.
    pub received: u64,
    /// Lines whose payload was truncated or changed.
    pub damaged: u64,
    /// Lines that arrived for the first time after a later line of the same file.
    pub disordered: u64,
    /// Lines that arrived again although they were [settled](Tally::settle).
    pub repeated_settled: u64,
    /// Lines before this number are settled.
    settled_end: u64,
    /// Highest number so far, by generation.
    highest: BTreeMap<u64, u64>,
}

impl Tally {
    /// Counts one stored event by its text.
    pub fn count(&mut self, text: &[u8]) {
        self.events += 1;
        let Some(id) = LineId::parse(text) else {
            self.foreign += 1;
            return;
        };
        if !self.streams.contains_key(id.stream) {
            self.streams.insert(id.stream.to_owned(), StreamTally::default());
        }
        if let Some(stream) = self.streams.get_mut(id.stream) {
            stream.count(&id);
        }
    }

    /// Returns the number of distinct lines that arrived, over all streams.
    pub fn unique(&self) -> u64 {
        self.streams.values().map(|stream| stream.unique).sum()
    }

    /// Returns the number of duplicate lines, over all streams.
    pub fn duplicates(&self) -> u64 {
        self.streams.values().map(StreamTally::duplicates).sum()
    }

    /// Marks the lines of each stream before these numbers as settled: they must not arrive again,
    /// since their acknowledgements were persisted.
    pub fn settle(&mut self, ends: &BTreeMap<String, u64>) {
        for (name, end) in ends {
            if let Some(stream) = self.streams.get_mut(name) {
                stream.settled_end = stream.settled_end.max(*end);
            }
        }
    }

    /// Returns how far each stream has arrived without a gap.
    pub fn contiguous_ends(&self) -> BTreeMap<String, u64> {
        self.streams.iter().map(|(name, stream)| (name.clone(), stream.contiguous_end())).collect()
    }

    /// Returns the number of settled lines that arrived again, over all streams.
    pub fn repeated_settled(&self) -> u64 {
        self.streams.values().map(|stream| stream.repeated_settled).sum()
    }

    /// Returns the number of distinct lines of a stream; 0 if it is unknown.
    pub fn unique_of(&self, stream: &str) -> u64 {
        self.streams.get(stream).map_or(0, |stream| stream.unique)
    }
}

impl StreamTally {
    fn count(&mut self, id: &LineId<'_>) {
        self.received += 1;
        self.damaged += u64::from(!id.intact);
        let (word, bit) = ((id.seq / 64) as usize, 1_u64 << (id.seq % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.repeated_settled += u64::from(id.seq < self.settled_end);
            return;
        }
        self.seen[word] |= bit;
        self.unique += 1;
        let highest = self.highest.entry(id.generation).or_insert(id.seq);
        self.disordered += u64::from(id.seq < *highest);
        *highest = (*highest).max(id.seq);
    }

    /// Returns true if this line arrived.
    pub fn has(&self, seq: u64) -> bool {
        self.seen.get((seq / 64) as usize).is_some_and(|word| word & (1 << (seq % 64)) != 0)
    }

    /// Returns the number after the last one before the first gap.
    fn contiguous_end(&self) -> u64 {
        let full = self.seen.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.seen.get(full).map_or(0, |word| word.trailing_ones());
        full as u64 * 64 + u64::from(rest)
    }

    /// Returns the number of duplicate lines.
    pub fn duplicates(&self) -> u64 {
        self.received - self.unique
    }

    /// Returns the number after the highest one that arrived.
    pub fn end(&self) -> u64 {
        self.highest.values().max().map_or(0, |highest| highest + 1)
    }

    /// Returns the runs of numbers in `first..end` that did not arrive.
    pub fn gaps(&self, first: u64, end: u64) -> Vec<std::ops::Range<u64>> {
        let mut gaps: Vec<std::ops::Range<u64>> = Vec::new();
        for seq in (first..end).filter(|seq| !self.has(*seq)) {
            match gaps.last_mut() {
                Some(gap) if gap.end == seq => gap.end = seq + 1,
                _ => gaps.push(seq..seq + 1),
            }
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(generation: u64, seq: u64) -> Vec<u8> {
        let mut text = Vec::new();
        LineId::write("a", generation, seq, b"payload", &mut text);
        text
    }

    #[test]
    fn loss_duplicates_disorder_and_damage_are_told_apart() {
        let mut tally = Tally::default();
        for (generation, seq) in [(0, 0), (0, 2), (0, 1), (1, 4), (0, 2), (1, 70)] {
            tally.count(&line(generation, seq));
        }
        tally.count(b"no id");
        let mut cut = line(2, 71);
        cut.pop();
        tally.count(&cut);
        let stream = &tally.streams["a"];
        assert_eq!((stream.unique, stream.duplicates()), (6, 1));
        assert_eq!((stream.disordered, stream.damaged, tally.foreign), (1, 1, 1));
        assert_eq!(stream.gaps(0, stream.end()), [3..4, 5..70]);
    }

    #[test]
    fn a_settled_line_that_comes_again_is_told_from_other_copies() {
        let mut tally = Tally::default();
        (0..70).for_each(|seq| tally.count(&line(0, seq)));
        tally.count(&line(0, 71));
        let ends = tally.contiguous_ends();
        assert_eq!(ends["a"], 70);
        tally.settle(&ends);
        for seq in [71, 69, 0] {
            tally.count(&line(0, seq));
        }
        assert_eq!((tally.duplicates(), tally.repeated_settled()), (3, 2));
    }
}
