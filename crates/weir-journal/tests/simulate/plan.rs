//! Histories of the journal as lists of events, each with its own seed.

use fastrand::Rng;
use weir_testkit::history::{self, pick};

use crate::Settings;

/// The kinds of events. An event that makes no sense in the current state does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A program appends rows to a file.
    Write,
    /// A source checks a file and reads on.
    Look,
    /// Rows arrive over a connection.
    Receive,
    /// Rows arrive that are not acknowledged.
    ReceiveSoon,
    Take,
    Ack,
    Hold,
    AckHeld,
    /// Time passes, and the journal's writer advances.
    Work,
    /// Everything that is due is written and flushed.
    Flush,
    /// A destination stops taking anything, or resumes.
    Hang,
    /// Rows arrive that are not acknowledged, and destinations settle everything at once.
    SettleSoon,
    /// Destinations that do not discard settle everything, and it is flushed: what is on disk is
    /// kept for the others alone.
    SettleOthers,
    /// A destination gets another reader, or loses its reader, or gets one again.
    ChangeReader,
    /// The sources end, and others continue in their place.
    ReplaceSources,
    /// A file is truncated; perhaps it grows again at once.
    Cut,
    Delete,
    Create,
    /// The disk fails in some later calls.
    DiskFails,
    DiskIsFull,
    DiskIsWell,
    /// The machine stops in a later call.
    CrashSoon,
    Crash,
    Kill,
    /// The process dies in a later call, and the machine goes on.
    KillSoon,
    /// The process ends normally.
    End,
    /// The configuration changes, if the process has ended normally.
    Reconfigure,
    /// Bytes on the disk are damaged.
    Damage,
    /// The process starts.
    Start,
}

pub(crate) type Event = history::Event<What>;

/// Events while a process is running, with their frequencies.
const RUNNING: [(What, u32); 17] = [
    (What::Write, 18),
    (What::Look, 28),
    (What::Receive, 7),
    (What::Take, 26),
    (What::Ack, 20),
    (What::Hold, 3),
    (What::AckHeld, 3),
    (What::Work, 16),
    (What::Flush, 4),
    (What::Hang, 2),
    (What::Cut, 2),
    (What::Delete, 2),
    (What::Create, 1),
    (What::DiskFails, 1),
    (What::DiskIsFull, 1),
    (What::DiskIsWell, 1),
    (What::CrashSoon, 1),
];

const ENDS: [(What, u32); 3] = [(What::Crash, 5), (What::Kill, 2), (What::End, 3)];

/// Events while no process is running.
const DOWN: [(What, u32); 6] = [
    (What::Write, 4),
    (What::Cut, 3),
    (What::Delete, 3),
    (What::Create, 1),
    (What::CrashSoon, 3),
    (What::Reconfigure, 4),
];

/// Returns the whole history of a seed.
pub(crate) fn events(seed: u64, settings: &Settings) -> Vec<Event> {
    let mut rng = Rng::with_seed(seed);
    let mut events = Vec::new();
    let is_long = rng.u8(..8) == 0;
    for _ in 0..rng.u32(1..5) {
        let count = if is_long { rng.u32(40..120) } else { rng.u32(4..36) };
        events.push(What::Start);
        events.extend((0..count).map(|_| pick(&mut rng, &RUNNING)));
        // One destination is behind, another one has everything, and that is durable: in such a
        // state, what vanishes is owed.
        if rng.bool() {
            events.extend([What::Look, What::Take, What::Ack, What::Flush]);
        }
        events.push(pick(&mut rng, &ENDS));
        events.extend((0..rng.u32(..4)).map(|_| pick(&mut rng, &DOWN)));
        if settings.damage && rng.bool() {
            events.push(What::Damage);
        }
    }
    let is_on = |what: &What| match what {
        What::Reconfigure => settings.reconfigure,
        What::DiskFails | What::DiskIsFull | What::DiskIsWell => settings.disk,
        _ => true,
    };
    events.retain(is_on);
    let mut events = events.into_iter().map(|what| Event { what, seed: rng.u64(..) }).collect();
    if settings.soon_lanes > 0 {
        events = interspersed(events, !seed, |chance| match chance {
            0..10 => Some(What::ReceiveSoon),
            10 => Some(What::KillSoon),
            _ => None,
        });
    }
    if settings.soon_lanes > 0 && settings.is_quick {
        let is_due = |chance| (chance < 12).then_some(What::SettleSoon);
        events = interspersed(events, seed.rotate_left(16), is_due);
    }
    if settings.keys && settings.drops_oldest {
        let is_due = |chance| (chance < 8).then_some(What::SettleOthers);
        events = interspersed(events, seed.rotate_left(48), is_due);
    }
    if settings.readers {
        let is_due = |chance| (chance < 5).then_some(What::ChangeReader);
        events = interspersed(events, seed.rotate_left(32), is_due);
    }
    if settings.replaces {
        let is_due = |chance| (chance < 4).then_some(What::ReplaceSources);
        events = interspersed(events, seed.rotate_left(8), is_due);
    }
    events
}

/// Places further events between others, which remain as they are.
fn interspersed(events: Vec<Event>, seed: u64, further: impl Fn(u8) -> Option<What>) -> Vec<Event> {
    let mut rng = Rng::with_seed(seed);
    let mut all = Vec::new();
    for event in events {
        all.push(event);
        if let Some(what) = further(rng.u8(..60)) {
            all.push(Event { what, seed: rng.u64(..) });
        }
    }
    all
}
