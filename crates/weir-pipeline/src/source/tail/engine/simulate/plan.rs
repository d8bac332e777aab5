//! Histories of tailing as lists of events.

use fastrand::Rng;
use weir_testkit::history::{self, pick};

use super::programs::{Habit, PROGRAMS_MAX};
use crate::source::simulated::SinkAction;

/// What may happen in a history. Each seed has its own mixture, so that most histories focus on one
/// thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) programs: usize,
    pub(super) habit: Habit,
    /// Reports of the kernel are lost.
    pub(super) loses_reports: bool,
    /// The journal's disk fails.
    pub(super) disk: bool,
    /// Buffers of destinations are so small that they fill up.
    pub(super) is_tight: bool,
}

impl Settings {
    pub(super) fn of(seed: u64) -> Self {
        let is_on = |bit: u32| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> bit & 1 == 1;
        Self {
            programs: 1 + seed as usize % PROGRAMS_MAX,
            habit: match (is_on(63), is_on(56)) {
                (true, _) => Habit::Rough,
                (false, true) => Habit::Gentle,
                (false, false) => Habit::Copying,
            },
            loses_reports: is_on(62) && is_on(61),
            disk: is_on(60) && is_on(59),
            is_tight: is_on(58) && is_on(57),
        }
    }
}

/// The kinds of events. An event that makes no sense in the current state does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Programs act.
    Act,
    /// Programs act between the next calls of the source.
    Race,
    /// The source runs, unless it waits.
    Turn,
    /// Time passes, and the journal's writer advances.
    Work,
    /// Everything that is due is written and flushed.
    Flush,
    /// Time passes until the source acts on its own.
    Pass,
    /// A destination acts.
    Sink(SinkAction),
    /// Reads of logs fail for a while.
    ReadsFail,
    DiskFails,
    DiskIsWell,
    /// The process is killed, and the machine goes on.
    Kill,
    /// The machine stops: what the journal has not flushed is lost. The logs are on another disk.
    Crash,
    /// The process ends as on SIGTERM.
    End,
    Start,
}

pub(super) type Event = history::Event<What>;

const RUNNING: [(What, u32); 12] = [
    (What::Act, 24),
    (What::Race, 8),
    (What::Turn, 30),
    (What::Work, 14),
    (What::Flush, 3),
    (What::Pass, 8),
    (What::Sink(SinkAction::Take), 20),
    (What::Sink(SinkAction::Settle), 16),
    (What::Sink(SinkAction::Hang), 2),
    (What::ReadsFail, 1),
    (What::DiskFails, 1),
    (What::DiskIsWell, 1),
];

const ENDS: [(What, u32); 3] = [(What::Kill, 4), (What::Crash, 2), (What::End, 4)];

/// Returns the whole history of a seed.
pub(super) fn events(seed: u64, settings: Settings) -> Vec<Event> {
    let mut rng = Rng::with_seed(seed);
    let mut events = Vec::new();
    for _ in 0..rng.u32(..3) {
        events.push(What::Act);
    }
    let lives = rng.u32(1..4);
    for life in 1..=lives {
        events.push(What::Start);
        events.extend((0..rng.u32(8..80)).map(|_| pick(&mut rng, &RUNNING)));
        // Most is certain about what happens in the last life.
        if life < lives || rng.bool() {
            events.push(pick(&mut rng, &ENDS));
            events.extend((0..rng.u32(..4)).map(|_| What::Act));
        }
    }
    let is_on = |what: &What| match what {
        What::DiskFails | What::DiskIsWell => settings.disk,
        _ => true,
    };
    events.retain(is_on);
    events.into_iter().map(|what| Event { what, seed: rng.u64(..) }).collect()
}
