//! Regexps that are searched for together, because no literal tells where they could match.
//!
//! Those with a selective run of character classes are searched by [`ClassRuns`] and then
//! individually where it was found. The others, and all of them in non-ASCII messages, form one
//! lazily built automaton.
//!
//! Invariant: the memory of the automata is bounded. Where one would thrash, or cannot decide (`\b`
//! next to non-ASCII characters), each regexp is searched individually.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind, PatternSet};
use regex_syntax::hir::Hir;

use super::AtomId;
use super::classes::{self, ClassRuns};
use super::plan::Atom;
use crate::ast::Test;

/// Maximum size of the states that an automaton caches before it starts over, in bytes.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// The regexps of a set that are searched for together.
#[derive(Debug)]
pub(super) struct RegexGroup {
    /// All of them.
    pub(super) atoms: Vec<AtomId>,
    classes: ClassRuns,
    /// Those found by `classes`, in its numbering.
    with_run: Automaton,
    without_run: Automaton,
}

/// The buffers and caches of one thread.
#[derive(Debug)]
pub(super) struct RegexGroupScratch {
    with_run: AutomatonScratch,
    without_run: AutomatonScratch,
    found: Vec<u32>,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupMatch {
    /// The regexp matches.
    Match(AtomId),
    /// It may match: it must be searched for individually.
    Possible(AtomId),
}

impl RegexGroup {
    pub(super) fn new(ids: &[AtomId], atoms: &[Atom]) -> Self {
        let mut runs = Vec::new();
        let (mut with_run, mut without_run) = (Vec::new(), Vec::new());
        for id in ids {
            let run = hir(&atoms[*id as usize]).and_then(|hir| classes::required(&hir));
            match run {
                Some(run) => {
                    runs.push((with_run.len() as u32, run));
                    with_run.push(*id);
                }
                None => without_run.push(*id),
            }
        }
        Self {
            atoms: ids.to_vec(),
            classes: ClassRuns::new(runs),
            with_run: Automaton::new(with_run, atoms),
            without_run: Automaton::new(without_run, atoms),
        }
    }

    pub(super) fn scratch(&self) -> RegexGroupScratch {
        RegexGroupScratch {
            with_run: self.with_run.scratch(),
            without_run: self.without_run.scratch(),
            found: Vec::new(),
        }
    }

    /// Calls `found` for each regexp that matches or may match. Returns false when an automaton
    /// gave up.
    pub(super) fn run(
        &self,
        text: &[u8],
        scratch: &mut RegexGroupScratch,
        found: &mut dyn FnMut(GroupMatch),
    ) -> bool {
        let mut knows = self.without_run.run(text, &mut scratch.without_run, found);
        if !text.is_ascii() {
            knows &= self.with_run.run(text, &mut scratch.with_run, found);
            return knows;
        }
        scratch.found.clear();
        self.classes.scan(text, &mut |index| scratch.found.push(index));
        scratch.found.sort_unstable();
        scratch.found.dedup();
        for index in &scratch.found {
            found(GroupMatch::Possible(self.with_run.atoms[*index as usize]));
        }
        knows
    }
}

fn hir(atom: &Atom) -> Option<Hir> {
    match &atom.term.test {
        Test::Regexp(regexp) => regexp.hir().ok(),
        _ => None,
    }
}

/// Several regexps as one automaton.
#[derive(Debug)]
struct Automaton {
    atoms: Vec<AtomId>,
    dfa: Option<DFA>,
}

#[derive(Debug)]
struct AutomatonScratch {
    /// Created on first use, because it takes memory.
    cache: Option<Cache>,
    found: PatternSet,
}

impl Automaton {
    fn new(ids: Vec<AtomId>, atoms: &[Atom]) -> Self {
        let dfa = build(&ids, atoms);
        Self { atoms: ids, dfa }
    }

    fn scratch(&self) -> AutomatonScratch {
        AutomatonScratch { cache: None, found: PatternSet::new(self.atoms.len()) }
    }

    fn run(
        &self,
        text: &[u8],
        scratch: &mut AutomatonScratch,
        found: &mut dyn FnMut(GroupMatch),
    ) -> bool {
        if self.atoms.is_empty() {
            return true;
        }
        if let Some(dfa) = &self.dfa {
            let cache = scratch.cache.get_or_insert_with(|| dfa.create_cache());
            let input = Input::new(text).anchored(Anchored::No);
            scratch.found.clear();
            if dfa.try_which_overlapping_matches(cache, &input, &mut scratch.found).is_ok() {
                for pattern in scratch.found.iter() {
                    found(GroupMatch::Match(self.atoms[pattern.as_usize()]));
                }
                return true;
            }
        }
        for atom in &self.atoms {
            found(GroupMatch::Possible(*atom));
        }
        false
    }
}

fn build(ids: &[AtomId], atoms: &[Atom]) -> Option<DFA> {
    let hirs: Vec<Hir> = ids.iter().map(|id| hir(&atoms[*id as usize])).collect::<Option<_>>()?;
    if hirs.is_empty() {
        return None;
    }
    let config = thompson::Config::new().utf8(false).which_captures(WhichCaptures::None);
    let nfa = thompson::Compiler::new().configure(config).build_many_from_hir(&hirs).ok()?;
    let config = DFA::config()
        .match_kind(MatchKind::All)
        .unicode_word_boundary(true)
        .cache_capacity(CACHE_BYTES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(3))
        .minimum_bytes_per_state(Some(8));
    DFA::builder().configure(config).build_from_nfa(nfa).ok()
}
