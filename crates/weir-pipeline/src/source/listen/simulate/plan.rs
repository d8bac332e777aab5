//! Histories of intake as lists of events.

use fastrand::Rng;
use weir_testkit::history::{self, pick};

use crate::source::simulated::SinkAction;

/// What may happen in a history. Each seed has its own mixture, so that most histories focus on one
/// thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// Number of hosts that send to each source.
    pub(super) hosts: u8,
    /// There is a quota for each host; whether records above it are discarded, or delayed.
    pub(super) discards: Option<bool>,
    /// The journal's disk fails.
    pub(super) disk: bool,
    /// Buffers of destinations are so small that they fill up.
    pub(super) is_tight: bool,
    /// Sources are replaced while the process runs.
    pub(super) replaces: bool,
}

impl Settings {
    pub(super) fn of(seed: u64) -> Self {
        let is_on = |bit: u32| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> bit & 1 == 1;
        Self {
            hosts: 1 + (seed % 4) as u8,
            discards: (is_on(63) || is_on(62)).then(|| is_on(63)),
            disk: is_on(61) && is_on(60),
            is_tight: is_on(59),
            replaces: is_on(58),
        }
    }
}

/// The kinds of events. An event that makes no sense in the current state does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A read of a connection without acknowledgement.
    Receive,
    /// A client sends records and waits until they are acknowledged.
    Request,
    /// Gathered records have waited long enough.
    Gather,
    /// Keys above their quota are reported.
    Report,
    /// Time passes, and the journal's writer advances.
    Work,
    /// Everything that is due is written and flushed.
    Flush,
    /// Quotas recover.
    Pass,
    /// A destination acts.
    Sink(SinkAction),
    DiskFails,
    DiskIsWell,
    /// The sources end, and others continue in their place.
    Replace,
    /// The process is killed, and the machine goes on.
    Kill,
    /// The machine stops: what was not flushed is lost.
    Crash,
    /// The process ends as on SIGTERM.
    End,
    Start,
}

pub(super) type Event = history::Event<What>;

const RUNNING: [(What, u32); 13] = [
    (What::Receive, 24),
    (What::Request, 16),
    (What::Gather, 10),
    (What::Report, 3),
    (What::Work, 18),
    (What::Flush, 2),
    (What::Pass, 2),
    (What::Sink(SinkAction::Take), 20),
    (What::Sink(SinkAction::Settle), 18),
    (What::Sink(SinkAction::Hang), 2),
    (What::DiskFails, 2),
    (What::DiskIsWell, 2),
    (What::Replace, 3),
];

const ENDS: [(What, u32); 3] = [(What::Kill, 4), (What::Crash, 2), (What::End, 2)];

/// Returns the whole history of a seed.
pub(super) fn events(seed: u64, settings: Settings) -> Vec<Event> {
    let mut rng = Rng::with_seed(seed);
    let mut events = Vec::new();
    for _ in 0..rng.u32(1..5) {
        events.push(What::Start);
        events.extend((0..rng.u32(8..80)).map(|_| pick(&mut rng, &RUNNING)));
        events.push(pick(&mut rng, &ENDS));
    }
    let is_on = |what: &What| match what {
        What::DiskFails | What::DiskIsWell => settings.disk,
        What::Replace => settings.replaces,
        What::Pass | What::Report => settings.discards.is_some(),
        _ => true,
    };
    events.retain(is_on);
    events.into_iter().map(|what| Event { what, seed: rng.u64(..) }).collect()
}
