//! Adaptation to the records that are actually seen. It affects only costs, never results.
//!
//! It belongs to one thread's scratch, because threads read different sources.

use std::sync::Arc;

use super::AtomId;
use super::plan::{Atom, AtomKind, Plan};
use super::prefilter::Scanners;
use super::regex_group::{GroupMatch, RegexGroup, RegexGroupScratch};

/// The literal indexes, tuned to the messages that this thread sees: once a sample of them has been
/// taken, and again at growing intervals, because the content of logs changes.
#[derive(Debug)]
pub(super) struct Tuning {
    pub(super) scanners: Scanners,
    sample: Vec<u8>,
    /// Number of messages until the next sample is taken.
    wait: u64,
    /// Number of messages to wait after that.
    next_wait: u64,
    /// Number of messages since the last tuning, and of those for which a rule demanded the
    /// on-demand literals.
    messages: u64,
    asked: u64,
}

/// Amount of message text sampled for tuning, in bytes.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Number of messages between the first tuning and the second; then 16 times as many, and so on.
const FIRST_WAIT: u64 = 100_000;

impl Tuning {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            scanners: Scanners::new(plan),
            sample: Vec::new(),
            wait: 0,
            next_wait: FIRST_WAIT,
            messages: 0,
            asked: 0,
        }
    }

    /// Counts a demand for literals that are not searched for in every message.
    #[inline]
    pub(super) fn ask(&mut self) {
        self.asked += 1;
    }

    /// Counts a message.
    #[inline]
    pub(super) fn see(&mut self, text: &[u8], plan: &Plan) {
        self.messages += 1;
        if self.wait > 0 {
            self.wait -= 1;
        } else {
            self.take(text, plan);
        }
    }

    #[cold]
    fn take(&mut self, text: &[u8], plan: &Plan) {
        let room = SAMPLE_BYTES - self.sample.len();
        self.sample.extend_from_slice(text.get(..room).unwrap_or(text));
        if self.sample.len() == SAMPLE_BYTES {
            let is_one = self.asked * 2 > self.messages;
            self.scanners = Scanners::tuned(plan, &self.sample, is_one);
            (self.messages, self.asked) = (0, 0);
            self.sample = Vec::new();
            self.wait = self.next_wait;
            self.next_wait = self.next_wait.saturating_mul(16);
        }
    }
}

/// Chooses which regexps are searched for together in one automaton: those without a literal, and
/// those whose literal occurs in so many messages that searching for them individually costs more.
#[derive(Debug)]
pub(super) struct RegexGroupTuning {
    regex_group: Arc<RegexGroup>,
    scratch: RegexGroupScratch,
    /// For each atom whether it was moved into the group.
    moved: Vec<bool>,
    /// For each atom the number of unsuccessful searches since the last check.
    missed: Vec<u32>,
    missed_all: u64,
    messages: u64,
    /// Number of messages between two checks.
    interval: u64,
    gave_up: u64,
}

/// Number of messages until the group is first chosen; each further check waits 8 times as long.
const FIRST_LOOK: u64 = 512;

/// Maximum number of regexps in the group: more would result in too many states.
const MEMBERS_MAX: usize = 400;

/// Number of unsuccessful searches per message that cost as much as the automaton.
const MISSES_WORTH: u64 = 4;

impl RegexGroupTuning {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            regex_group: Arc::clone(&plan.regex_group),
            scratch: plan.regex_group.scratch(),
            moved: vec![false; plan.atoms.len()],
            missed: vec![0; plan.atoms.len()],
            missed_all: 0,
            messages: 0,
            interval: FIRST_LOOK,
            gave_up: 0,
        }
    }

    /// Returns whether the atom was moved into the group.
    #[inline]
    pub(super) fn has(&self, atom: AtomId) -> bool {
        self.moved[atom as usize]
    }

    /// Counts an unsuccessful search for the atom.
    pub(super) fn missed(&mut self, atom: AtomId) {
        self.missed[atom as usize] += 1;
        self.missed_all += 1;
    }

    /// See [`RegexGroup::run`].
    pub(super) fn run(&mut self, text: &[u8], found: &mut dyn FnMut(GroupMatch)) {
        let knows = self.regex_group.run(text, &mut self.scratch, found);
        self.gave_up += u64::from(!knows);
    }

    /// Counts a message; from time to time the group is chosen again.
    #[inline]
    pub(super) fn see(&mut self, plan: &Plan) {
        self.messages += 1;
        if self.messages == self.interval {
            self.retune(plan);
        }
    }

    #[cold]
    fn retune(&mut self, plan: &Plan) {
        let is_run_anyway = plan.regex_group_rules > 0;
        let worth = if is_run_anyway { self.messages / 2 } else { self.messages * MISSES_WORTH };
        let has_moved = self.regex_group.atoms.len() > plan.regex_group.atoms.len();
        if has_moved && self.gave_up > self.messages / 16 {
            self.regroup(plan, &[]);
            // It would only happen again.
            self.interval = u64::MAX;
        } else if self.missed_all > worth {
            let is_costly = |atom: &AtomId| {
                let index = *atom as usize;
                let Atom { kind, regexp, .. } = &plan.atoms[index];
                let misses = u64::from(self.missed[index]) * 64;
                *kind == AtomKind::Prefiltered
                    && regexp.is_some()
                    && (self.moved[index] || misses > self.messages)
            };
            let costly: Vec<AtomId> = (0..plan.atoms.len() as AtomId).filter(is_costly).collect();
            if plan.regex_group.atoms.len() + costly.len() <= MEMBERS_MAX {
                self.regroup(plan, &costly);
            }
        }
        self.missed.fill(0);
        self.missed_all = 0;
        self.messages = 0;
        self.gave_up = 0;
        self.interval = self.interval.saturating_mul(8);
    }

    fn regroup(&mut self, plan: &Plan, moved: &[AtomId]) {
        let ids = [&plan.regex_group.atoms[..], moved].concat();
        self.regex_group = Arc::new(RegexGroup::new(&ids, &plan.atoms));
        self.scratch = self.regex_group.scratch();
        self.moved.fill(false);
        for atom in moved {
            self.moved[*atom as usize] = true;
        }
    }
}
