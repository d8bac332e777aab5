//! Regexps without a certain literal: all of them as one automaton, built as it is used.
//!
//! Invariant: the memory of the automaton is bounded. Where it would thrash, or cannot decide
//! (`\b` beside characters beyond ASCII), [`Together::run`] says so, and each regexp is searched
//! by itself.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind, PatternSet};

use super::AtomId;
use super::plan::Atom;
use crate::ast::Test;

/// Bytes of states that the automaton keeps before it begins anew.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// The regexps of a set that are searched for together.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) atoms: Vec<AtomId>,
    dfa: Option<DFA>,
}

/// What one thread needs for it.
#[derive(Debug)]
pub(super) struct TogetherScratch {
    cache: Option<Cache>,
    found: PatternSet,
}

impl Together {
    pub(super) fn new(ids: &[AtomId], atoms: &[Atom]) -> Self {
        Self { atoms: ids.to_vec(), dfa: build(ids, atoms) }
    }

    pub(super) fn scratch(&self) -> TogetherScratch {
        TogetherScratch {
            cache: self.dfa.as_ref().map(DFA::create_cache),
            found: PatternSet::new(self.atoms.len()),
        }
    }

    /// Calls `found` for each regexp that matches; false when it gave up before it knew.
    pub(super) fn run(
        &self,
        text: &[u8],
        scratch: &mut TogetherScratch,
        found: &mut dyn FnMut(AtomId),
    ) -> bool {
        let (Some(dfa), Some(cache)) = (&self.dfa, &mut scratch.cache) else { return false };
        scratch.found.clear();
        let input = Input::new(text).anchored(Anchored::No);
        if dfa.try_which_overlapping_matches(cache, &input, &mut scratch.found).is_err() {
            return false;
        }
        for pattern in scratch.found.iter() {
            found(self.atoms[pattern.as_usize()]);
        }
        true
    }
}

fn build(ids: &[AtomId], atoms: &[Atom]) -> Option<DFA> {
    if ids.is_empty() {
        return None;
    }
    let hirs = ids.iter().map(|id| match &atoms[*id as usize].term.test {
        Test::Regexp(regexp) => regexp.hir().ok(),
        _ => None,
    });
    let hirs: Vec<_> = hirs.collect::<Option<_>>()?;
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
