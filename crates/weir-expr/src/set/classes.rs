//! Finds where regexps without a literal could match, by short runs of character classes:
//! `\b10\d{4}[a-f]` has no required literal, but eight positions with a known class each.
//!
//! A run of at most eight classes of ASCII characters is chosen for each regexp. All runs are
//! searched for at once, in sixteen groups of similar runs: one byte per group records which of its
//! last eight steps matched, and one addition and one `or` over all groups advance them by a byte
//! of text. Each step depends on the previous one, so both halves of a text are searched
//! simultaneously. Where the last step of a group matches, the runs of that group are compared
//! individually.
//!
//! Invariant: in a purely ASCII text, every occurrence of a run is reported. Other texts must not
//! be passed: a Unicode class can match several bytes there.

use std::array;

use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum number of steps of a run: the bits of a byte.
const STEPS: usize = 8;

/// Number of groups: the bytes of a vector register on every supported processor.
const GROUPS: usize = 16;

/// Maximum number of parts of a pattern to examine. Repeated parts are examined once per
/// repetition, so nested repetitions would otherwise take forever.
const PARTS_MAX: u32 = 4096;

/// Number of bytes after which matches are checked for: a check costs more than a step.
const BLOCK: usize = 16;

/// Minimum information, in bits, that makes a run worth searching for.
const BITS_MIN: f32 = 14.0;

/// The subset of the 128 ASCII characters that a class contains.
pub(crate) type Set = u128;

/// Consecutive characters, each of a known class.
pub(crate) type Run = Vec<Set>;

/// Runs of many regexps.
#[derive(Debug, Default)]
pub(super) struct ClassRuns {
    /// For each byte value and group, bits that are 0 where the byte fits that step.
    table: Vec<Lanes>,
    /// The runs of each group, with the index of the regexp.
    groups: Vec<Vec<(u32, Run)>>,
}

/// For each group a byte in which bit `i` is 0 if the bytes so far match steps 0 to `i`.
type Lanes = [u8; GROUPS];

/// The bit that shows that all steps matched.
const COMPLETE: u8 = 0x80;

/// State of the search of one part of a text.
struct SearchState {
    /// Where the next block starts.
    place: usize,
    lanes: Lanes,
    /// The lanes after each byte of the last block.
    trail: [Lanes; BLOCK],
}

impl SearchState {
    /// Creates the state of a search. At the start of the text, the steps that a shorter run lacks
    /// count as matched. Elsewhere, the state after [`STEPS`] bytes does not depend on the initial
    /// one.
    fn from(place: usize) -> Self {
        let before = if place == 0 { 0 } else { u8::MAX };
        Self { place, lanes: [before; GROUPS], trail: [[0; GROUPS]; BLOCK] }
    }

    /// Advances over one block; returns whether a run may end in it. Lanes are passed by value, so
    /// that the compiler keeps them in a vector register.
    #[inline]
    fn step(&mut self, table: &[Lanes; 128], block: &[u8; BLOCK]) -> bool {
        let mut lanes = self.lanes;
        let mut all = [u8::MAX; GROUPS];
        for (byte, trail) in block.iter().zip(&mut self.trail) {
            let row = table[usize::from(byte & 0x7f)];
            lanes = array::from_fn(|group| lanes[group].wrapping_add(lanes[group]) | row[group]);
            all = array::from_fn(|group| all[group] & lanes[group]);
            *trail = lanes;
        }
        self.lanes = lanes;
        self.place += BLOCK;
        u128::from_ne_bytes(all) & EVERY_COMPLETE != EVERY_COMPLETE
    }
}

/// [`COMPLETE`] in each group.
const EVERY_COMPLETE: u128 = u128::from_ne_bytes([COMPLETE; GROUPS]);

impl ClassRuns {
    pub(super) fn new(mut runs: Vec<(u32, Run)>) -> Self {
        if runs.is_empty() {
            return Self::default();
        }
        // Runs with similar ends are placed together, which keeps their union small.
        runs.sort_by_key(|(_, run)| run.iter().rev().copied().collect::<Vec<_>>());
        let per_group = runs.len().div_ceil(GROUPS);
        let groups: Vec<Vec<(u32, Run)>> = runs.chunks(per_group).map(<[_]>::to_vec).collect();
        let mut table = vec![[u8::MAX; GROUPS]; 128];
        for (index, group) in groups.iter().enumerate() {
            for (_, run) in group {
                // A shorter run starts at a later step; any character matches before it.
                let missing = STEPS - run.len();
                let all = std::iter::repeat_n(Set::MAX, missing).chain(run.iter().copied());
                for (step, set) in all.enumerate() {
                    for (byte, row) in table.iter_mut().enumerate() {
                        if set >> byte & 1 == 1 {
                            row[index] &= !(1 << step);
                        }
                    }
                }
            }
        }
        Self { table, groups }
    }

    /// Calls `found` with the index of each regexp whose run occurs in the text.
    #[inline]
    pub(super) fn scan(&self, text: &[u8], found: &mut dyn FnMut(u32)) {
        let Some(table) = self.table.first_chunk::<128>() else { return };
        let half = text.len() / 2 / BLOCK * BLOCK;
        let (mut first, mut second) =
            (SearchState::from(0), SearchState::from(half.saturating_sub(STEPS)));
        while first.place < half {
            let blocks = (block_at(text, first.place), block_at(text, second.place));
            let (Some(one), Some(other)) = blocks else { break };
            let ends = [first.step(table, one), second.step(table, other)];
            for (walk, ends) in [&first, &second].into_iter().zip(ends) {
                if ends {
                    self.compare_all(text, walk, found);
                }
            }
        }
        while let Some(block) = block_at(text, second.place) {
            if second.step(table, block) {
                self.compare_all(text, &second, found);
            }
        }
        // The rest, padded with bytes that may match anything: positions after the text are not
        // compared.
        if let Some(rest) = text.get(second.place..).filter(|rest| !rest.is_empty()) {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            if second.step(table, &block) {
                self.compare_all(text, &second, found);
            }
        }
    }

    /// Compares the runs whose last step matched in the last block.
    #[inline(never)]
    fn compare_all(&self, text: &[u8], walk: &SearchState, found: &mut dyn FnMut(u32)) {
        let start = walk.place - BLOCK;
        for (index, lanes) in walk.trail.iter().enumerate() {
            let fits = !u128::from_le_bytes(*lanes) & EVERY_COMPLETE;
            if fits != 0
                && let Some(text) = text.get(..=start + index)
            {
                self.compare(text, fits, found);
            }
        }
    }

    /// Compares the runs of the groups in `fits` with the end of the text.
    fn compare(&self, text: &[u8], mut fits: u128, found: &mut dyn FnMut(u32)) {
        while fits != 0 {
            let group = fits.trailing_zeros() as usize / 8;
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

/// Returns a whole block of text, if there is one.
#[inline]
fn block_at(text: &[u8], place: usize) -> Option<&[u8; BLOCK]> {
    text.get(place..).and_then(<[u8]>::first_chunk)
}

/// Returns the most informative run of a pattern, among those that can be searched for together;
/// `None` when there is none that is informative enough.
pub(super) fn required(hir: &Hir) -> Option<Run> {
    required_up_to(hir, STEPS)
}

/// Like [`required`], with at most this many steps.
pub(crate) fn required_up_to(hir: &Hir, steps: usize) -> Option<Run> {
    let parts_left = PARTS_MAX;
    let mut finder = RunFinder { steps, run: Vec::new(), best: Vec::new(), parts_left };
    finder.follow(hir);
    finder.end_run();
    Some(finder.best).filter(|best| is_selective(best))
}

/// Returns whether few texts contain such a run.
pub(crate) fn is_selective(run: &[Set]) -> bool {
    bits(run) >= BITS_MIN
}

/// Visits the parts that every match consists of, in order.
struct RunFinder {
    /// Maximum length of a run.
    steps: usize,
    run: Run,
    best: Run,
    parts_left: u32,
}

impl RunFinder {
    /// Adds what follows; anything other than a single character of a class ends the run.
    fn follow(&mut self, hir: &Hir) {
        let Some(left) = self.parts_left.checked_sub(1) else { return self.end_run() };
        self.parts_left = left;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => {
                for byte in &*literal.0 {
                    // A non-ASCII character cannot occur in the texts that are searched.
                    self.step(if byte.is_ascii() { 1 << byte } else { 0 });
                }
            }
            HirKind::Class(class) => self.step(ascii(class)),
            HirKind::Capture(capture) => self.follow(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.follow(part)),
            HirKind::Repetition(repetition) => {
                let least = repetition.min.min(2 * self.steps as u32);
                for _ in 0..least {
                    self.follow(&repetition.sub);
                }
                if repetition.max != Some(least) {
                    self.end_run();
                    // The last repetition is followed by what comes next.
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
        let windows = run.windows(self.steps.min(run.len()).max(1));
        for window in windows {
            if bits(window) > bits(&self.best) {
                self.best = window.to_vec();
            }
        }
    }
}

/// Returns the information in a run, in bits: classes with many or frequent characters contribute
/// little.
fn bits(run: &[Set]) -> f32 {
    run.iter().map(|set| -share(*set).log2()).sum()
}

/// Returns the approximate proportion of characters in logs that are in the set.
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

/// Returns the ASCII characters in a class.
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
    fn nested_repetitions_are_analysed_in_bounded_time() {
        let nested = format!("{}[0-9]{}", "(".repeat(45), "+)".repeat(45));
        assert_eq!(required(&hir(&nested)), None);
        let run = required(&hir(&format!("[0-9]{{7}}{nested}"))).unwrap();
        assert_eq!(run.len(), STEPS);
    }

    proptest! {
        #[test]
        fn required_run_occurs_in_every_ascii_match(
            text in prop::collection::vec(prop::sample::select(vec![
                "10", "4", "2 ", "7", ".10:", "AB", "CDEF-9", "1234", "abf", "x", "ab", "12", "-0a",
                "k", "K0", "a1", "b9", " ", "1.2.3",
            ]), 0..40).prop_map(|pieces| pieces.concat()),
        ) {
            let runs: Vec<(u32, Run)> = PATTERNS
                .iter()
                .enumerate()
                .filter_map(|(index, pattern)| Some((index as u32, required(&hir(pattern))?)))
                .collect();
            prop_assert!(runs.len() > 8, "only {} patterns have a run", runs.len());
            let mut found = Vec::new();
            ClassRuns::new(runs.clone()).scan(text.as_bytes(), &mut |index| found.push(index));
            for (index, _) in &runs {
                let pattern = PATTERNS[*index as usize];
                let regexp = Regexp { pattern: pattern.to_owned(), case_insensitive: false };
                if regexp.compile(crate::limits::REGEXP_CACHE_BYTES).unwrap().is_match(&text) {
                    prop_assert!(found.contains(index), "{} in {:?}", pattern, text);
                }
            }
        }
    }
}
