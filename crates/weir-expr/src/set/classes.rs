//! Finds where regexps without a literal could match, by short runs of character classes:
//! `\b10\d{4}[a-f]` has no text that is certain, but eight places with a certain class each.
//!
//! Of each regexp a run of at most eight classes of ASCII characters is chosen. All runs are
//! searched for at once, in sixteen groups of similar ones: a byte per group holds
//! which of its last eight steps fitted, and one shift and one `or` per eight groups and byte of
//! text bring it forward. Where the last step of a group fits, the runs of that group are compared one by one.
//!
//! Invariant: in a text of ASCII only, every place where one of the runs stands is reported. Other
//! texts must not be given: a class of Unicode can match several bytes there.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Steps of a run: a word of 64 bits has eight for each of eight groups.
const STEPS: usize = 8;

/// Words of 64 bits. They do not wait for each other, so two cost hardly more than one.
const WORDS: usize = 2;

/// Groups of runs.
const GROUPS: usize = 8 * WORDS;

/// Parts of a pattern that are looked at. What is repeated is looked at again for each time, so
/// nested repetitions would be without end.
const PARTS_MAX: u32 = 4096;

/// Bytes after which it is asked whether anything fitted: asking costs more than a step.
const BLOCK: usize = 16;

/// Fewest bits of information that make a run worth looking for.
const BITS_MIN: f32 = 14.0;

/// Which of the 128 characters of ASCII are in a class.
type Set = u128;

/// Consecutive characters, each of a certain class.
pub(super) type Run = Vec<Set>;

/// Runs of many regexps.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Per byte, per group a byte, in which bit `i` is 0 where the byte fits step `i`.
    table: Vec<[u64; WORDS]>,
    /// The runs of each group, with the number of the regexp.
    groups: Vec<Vec<(u32, Run)>>,
}

/// The bit of each group that says that all steps fitted.
const COMPLETE: u64 = 0x8080_8080_8080_8080;

/// The bits of each group but the first.
const SHIFTED: u64 = 0xfefe_fefe_fefe_fefe;

impl Classes {
    pub(super) fn new(mut runs: Vec<(u32, Run)>) -> Self {
        if runs.is_empty() {
            return Self::default();
        }
        // Runs that end alike are neighbours: their union stays small.
        runs.sort_by_key(|(_, run)| run.iter().rev().copied().collect::<Vec<_>>());
        let per_group = runs.len().div_ceil(GROUPS);
        let groups: Vec<Vec<(u32, Run)>> = runs.chunks(per_group).map(<[_]>::to_vec).collect();
        let mut table = vec![[u64::MAX; WORDS]; 128];
        for (index, group) in groups.iter().enumerate() {
            for (_, run) in group {
                // A run that is shorter begins at a later step; any character fits before it.
                let missing = STEPS - run.len();
                let all = std::iter::repeat_n(Set::MAX, missing).chain(run.iter().copied());
                for (step, set) in all.enumerate() {
                    for (byte, row) in table.iter_mut().enumerate() {
                        if set >> byte & 1 == 1 {
                            row[index / 8] &= !(1 << (8 * (index % 8) + step));
                        }
                    }
                }
            }
        }
        Self { table, groups }
    }

    /// Calls `found` with the number of each regexp whose run stands in the text.
    #[inline]
    pub(super) fn scan(&self, text: &[u8], found: &mut dyn FnMut(u32)) {
        let Some(table) = self.table.first_chunk::<128>() else { return };
        // Before the text everything fits that a shorter run does not ask for.
        let mut states = [0; WORDS];
        let mut trail = [states; BLOCK];
        for (index, block) in text.chunks(BLOCK).enumerate() {
            let mut all = [u64::MAX; WORDS];
            for (byte, trail) in block.iter().zip(&mut trail) {
                let row = &table[usize::from(byte & 0x7f)];
                for (state, row) in states.iter_mut().zip(row) {
                    *state = (*state << 1 & SHIFTED) | row;
                }
                all.iter_mut().zip(&states).for_each(|(all, state)| *all &= state);
                *trail = states;
            }
            if all.iter().any(|word| word & COMPLETE != COMPLETE) {
                for (place, states) in trail.iter().take(block.len()).enumerate() {
                    self.compare_all(&text[..=index * BLOCK + place], states, found);
                }
            }
        }
    }

    #[inline]
    fn compare_all(&self, text: &[u8], states: &[u64; WORDS], found: &mut dyn FnMut(u32)) {
        for (word, state) in states.iter().enumerate() {
            let fits = !state & COMPLETE;
            if fits != 0 {
                self.compare(text, word * 8, fits, found);
            }
        }
    }

    /// Compares the runs of the groups in `fits` with the end of the text.
    #[inline(never)]
    fn compare(&self, text: &[u8], first: usize, mut fits: u64, found: &mut dyn FnMut(u32)) {
        while fits != 0 {
            let group = first + fits.trailing_zeros() as usize / 8;
            fits &= fits - 1;
            for (regexp, run) in self.groups.get(group).into_iter().flatten() {
                let Some(start) = text.len().checked_sub(run.len()) else { continue };
                if text[start..].iter().zip(run).all(|(byte, set)| set >> (byte & 0x7f) & 1 == 1) {
                    found(*regexp);
                }
            }
        }
    }
}

/// The run of a pattern that tells most; `None` when there is none that tells enough.
pub(super) fn required(hir: &Hir) -> Option<Run> {
    let mut finder = Finder { run: Vec::new(), best: Vec::new(), parts_left: PARTS_MAX };
    finder.follow(hir);
    finder.end_run();
    let best = finder.best;
    (bits(&best) >= BITS_MIN).then_some(best)
}

/// Goes over what every match consists of, in order.
struct Finder {
    run: Run,
    best: Run,
    parts_left: u32,
}

impl Finder {
    /// Takes what follows; whatever is not one character of a class ends the run.
    fn follow(&mut self, hir: &Hir) {
        let Some(left) = self.parts_left.checked_sub(1) else { return self.end_run() };
        self.parts_left = left;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => {
                for byte in &*literal.0 {
                    // A character beyond ASCII cannot be in the texts that are searched.
                    self.step(if byte.is_ascii() { 1 << byte } else { 0 });
                }
            }
            HirKind::Class(class) => self.step(ascii(class)),
            HirKind::Capture(capture) => self.follow(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.follow(part)),
            HirKind::Repetition(repetition) => {
                let least = repetition.min.min(2 * STEPS as u32);
                for _ in 0..least {
                    self.follow(&repetition.sub);
                }
                if repetition.max != Some(least) {
                    self.end_run();
                    // The last time that it is repeated is followed by what comes next.
                    if least > 0 {
                        self.follow(&repetition.sub);
                    }
                }
            }
            HirKind::Alternation(_) => self.end_run(),
        }
    }

    fn step(&mut self, set: Set) {
        self.run.push(set);
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let windows = run.windows(STEPS.min(run.len()).max(1));
        for window in windows {
            if bits(window) > bits(&self.best) {
                self.best = window.to_vec();
            }
        }
    }
}

/// How much a run tells: classes with many characters tell little, frequent characters less.
fn bits(run: &[Set]) -> f32 {
    run.iter().map(|set| -share(*set).log2()).sum()
}

/// Which part of the characters of logs is in the set, roughly.
fn share(set: Set) -> f32 {
    let weight = |byte: u8| match byte {
        b'0'..=b'9' => 2.5,
        b' ' => 10.0,
        b'a'..=b'z' => 1.8,
        b'A'..=b'Z' => 0.4,
        0..=31 | 127 => 0.02,
        _ => 0.5,
    };
    let all: f32 = (0..128).map(weight).sum();
    let part: f32 = (0..128).filter(|byte| set >> byte & 1 == 1).map(weight).sum();
    (part / all).max(0.000_1)
}

/// The characters of ASCII that are in a class.
fn ascii(class: &Class) -> Set {
    let mut set = 0;
    let mut add = |start: u32, end: u32| {
        for byte in start..=end.min(127) {
            set |= 1 << byte;
        }
    };
    match class {
        Class::Unicode(class) => {
            class.iter().for_each(|range| add(range.start() as u32, range.end() as u32));
        }
        Class::Bytes(class) => {
            class.iter().for_each(|range| add(u32::from(range.start()), u32::from(range.end())));
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ast::Regexp;

    fn hir(pattern: &str) -> Hir {
        Regexp { pattern: pattern.to_owned(), case_insensitive: false }.hir().unwrap()
    }

    const PATTERNS: [&str; 12] = [
        r"\b10\d{4}[a-f]{3}\b",
        r"^\S+ \S+ [A-Z]{2}42 ",
        r"[45]\d\d \d{3}7",
        r"(?:\d{1,3}\.){3}10:\d+",
        r"[A-Z]{4}-9\d*",
        r"\d{4,}x",
        r"(ab|cd)+\d\d\d\d",
        r"x?[0-4]{5}y*",
        r"[0-9a-f]{4}(-[0-9a-f]{2})+",
        r"é\d{5}",
        r"(?i)k[0-4]{4}",
        r"(a\d){3}b?9",
    ];

    #[test]
    fn nested_repetitions_are_looked_at_in_bounded_time() {
        let nested = format!("{}[0-9]{}", "(".repeat(45), "+)".repeat(45));
        assert_eq!(required(&hir(&nested)), None);
        let run = required(&hir(&format!("[0-9]{{7}}{nested}"))).unwrap();
        assert_eq!(run.len(), STEPS);
    }

    proptest! {
        #[test]
        fn a_run_stands_in_every_text_of_ascii_that_its_pattern_matches(
            text in prop::collection::vec(prop::sample::select(vec![
                "10", "4", "2 ", "7", ".10:", "AB", "CDEF-9", "1234", "abf", "x", "ab", "12", "-0a",
                "k", "K0", "a1", "b9", " ", "1.2.3",
            ]), 0..16).prop_map(|pieces| pieces.concat()),
        ) {
            let runs: Vec<(u32, Run)> = PATTERNS
                .iter()
                .enumerate()
                .filter_map(|(index, pattern)| Some((index as u32, required(&hir(pattern))?)))
                .collect();
            prop_assert!(runs.len() > 8, "only {} patterns have a run", runs.len());
            let mut found = Vec::new();
            Classes::new(runs.clone()).scan(text.as_bytes(), &mut |index| found.push(index));
            for (index, _) in &runs {
                let pattern = PATTERNS[*index as usize];
                let regexp = Regexp { pattern: pattern.to_owned(), case_insensitive: false };
                if regexp.compile().unwrap().is_match(&text) {
                    prop_assert!(found.contains(index), "{} in {:?}", pattern, text);
                }
            }
        }
    }
}
