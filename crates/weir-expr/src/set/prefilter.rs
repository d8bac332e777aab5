//! Selects which literals are searched for: in every message those that trigger rules, and on
//! demand those that only restrict rules triggered by something else.
//!
//! Any word of a phrase is sufficient, so the word that is rarest in the messages is chosen.
//! Literals that occur in many messages are then mostly not searched for at all.
//!
//! If rules demand the second search for most messages, a single search for everything is cheaper.
//!
//! Invariant: all literals of each prefilter are searched for, or at least one where that is
//! sufficient.

use std::cmp::Reverse;

use super::AtomId;
use super::literal::Literal;
use super::plan::Plan;
use super::scan::{Frequencies, Scanner};

/// The literals without which an atom cannot be true.
#[derive(Debug)]
pub(super) struct Prefilter {
    pub(super) atom: AtomId,
    pub(super) literals: Vec<u32>,
    /// Every matching message contains all of them, so searching for any one is sufficient.
    pub(super) is_any_enough: bool,
    pub(super) is_on_demand: bool,
}

/// The indexes of literals.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanners {
    /// For every message.
    pub(super) always: Scanner,
    /// For messages for which a rule demands it.
    pub(super) on_demand: Scanner,
    /// `always` searches for everything.
    pub(super) is_one: bool,
}

impl Scanners {
    /// Builds the indexes without knowing the messages.
    pub(super) fn new(plan: &Plan) -> Self {
        Self::of(plan, &Frequencies::default(), false, |wanted, _| {
            Scanner::new(&plan.literals, wanted)
        })
    }

    /// Builds the cheapest indexes for messages like these; `is_one` when rules demand the second
    /// search for most of them.
    pub(super) fn tuned(plan: &Plan, messages: &[u8], is_one: bool) -> Self {
        let frequencies = Frequencies::of(&plan.literals, messages);
        Self::of(plan, &frequencies, is_one, |wanted, frequencies| {
            Scanner::tuned(&plan.literals, wanted, messages, frequencies)
        })
    }

    fn of(
        plan: &Plan,
        frequencies: &Frequencies,
        is_one: bool,
        scanner: impl Fn(&[u32], &Frequencies) -> Scanner,
    ) -> Self {
        let chosen = |wanted: &dyn Fn(&Prefilter) -> bool| {
            scanner(&chosen(plan, wanted, frequencies), frequencies)
        };
        if is_one {
            return Self { always: chosen(&|_| true), on_demand: Scanner::default(), is_one };
        }
        let always = chosen(&|prefilter| !prefilter.is_on_demand);
        Self { always, on_demand: chosen(&|prefilter| prefilter.is_on_demand), is_one }
    }
}

/// Returns the chosen literals in ascending order, without duplicates.
fn chosen(plan: &Plan, wanted: &dyn Fn(&Prefilter) -> bool, frequencies: &Frequencies) -> Vec<u32> {
    // Longer literals let the scanner examine fewer positions, up to a limit.
    let merit = |literal: &Literal| {
        let seen = frequencies.at_most(literal.bytes());
        (seen, Reverse(literal.len().min(LONG)), Reverse(literal.bits()))
    };
    let mut chosen = Vec::new();
    for prefilter in plan.prefilters.iter().filter(|prefilter| wanted(prefilter)) {
        if prefilter.is_any_enough {
            chosen.extend(
                prefilter.literals.iter().min_by_key(|id| merit(&plan.literals[**id as usize])),
            );
        } else {
            chosen.extend(&prefilter.literals);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Length from which a longer literal brings no further benefit.
const LONG: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{Limits, Rule};

    fn searched_literals(whens: &[&str], seen: &str) -> [Vec<String>; 2] {
        let rule = |when: &&str| Rule { name: String::new(), when: crate::parse(when).unwrap() };
        let rules: Vec<Rule> = whens.iter().map(rule).collect();
        let plan = Plan::compile(&rules, Limits::default()).unwrap();
        let frequencies = Frequencies::of(&plan.literals, seen.as_bytes());
        [false, true].map(|is_on_demand| {
            let text = |id: &u32| plan.literals[*id as usize].bytes().to_vec();
            let is_wanted = |prefilter: &Prefilter| prefilter.is_on_demand == is_on_demand;
            chosen(&plan, &is_wanted, &frequencies)
                .iter()
                .map(text)
                .map(|text| String::from_utf8(text).unwrap())
                .collect()
        })
    }

    #[test]
    fn rarest_word_of_a_phrase_is_searched_for() {
        let whens = ["\"customer lookup missed\""];
        assert_eq!(searched_literals(&whens, "")[0], ["customer"]);
        assert_eq!(searched_literals(&whens, "a customer missed it")[0], ["lookup"]);
    }

    #[test]
    fn restricting_literals_are_searched_for_on_demand() {
        let whens = ["\"lookup missed\" -order", "service:web cache"];
        let [always, on_demand] = searched_literals(&whens, "lookup");
        assert_eq!(
            (always, on_demand),
            (vec!["missed".into()], vec!["order".into(), "cache".into()])
        );
        // A rule without triggers always demands it.
        assert_eq!(searched_literals(&["NOT order"], "")[0], ["order"]);
        // A literal that triggers another rule is searched for anyway.
        assert_eq!(searched_literals(&["service:web order", "order"], "")[1], [""; 0]);
    }
}
