//! A running process: two sources that receive, and their journal, advanced step by step.

use std::sync::Arc;
use std::time::Duration;

use weir_host::WakeFd;
use weir_journal::JournalConfig;
use weir_testkit::{FakeClock, FaultyDisk, journal_config};

use super::super::lanes::LaneContext;
use super::super::limits::GATHER_TIME;
use super::clients::{Acknowledged, Answered, Unacknowledged, quota};
use super::plan::Settings;
use crate::source::simulated::SimulatedJournal;

/// Names of the sources.
pub(super) const NAMES: [&str; 2] = ["soon", "acknowledged"];
pub(super) const UNACKNOWLEDGED: &str = NAMES[0];
/// Place of the source whose clients wait for acknowledgements.
pub(super) const ACKNOWLEDGED: usize = 1;

pub(super) struct Process {
    pub(super) journaled: SimulatedJournal,
    settings: Settings,
    disk: FaultyDisk,
    clock: FakeClock,
    wake: WakeFd,
    pub(super) soon: Unacknowledged,
    pub(super) acknowledged: Acknowledged,
}

impl Process {
    pub(super) fn start(settings: Settings, disk: &FaultyDisk, clock: &FakeClock) -> Self {
        let config = JournalConfig {
            ring_bytes: 256 << 10,
            segment_bytes: 64 << 10,
            commit_interval: Duration::from_millis(5),
            ..journal_config("/data/journal")
        };
        let buffer_bytes_max = if settings.is_tight { 8 << 10 } else { 1 << 30 };
        let journaled = SimulatedJournal::open(config, disk, clock, buffer_bytes_max);
        let wake = WakeFd::new().expect("a descriptor");
        journaled.journal.on_room(wake.clone());
        let (soon, acknowledged) = open(&journaled, settings, disk, clock);
        journaled.journal.release_unclaimed();
        let (disk, clock) = (disk.clone(), clock.clone());
        Self { journaled, settings, disk, clock, wake, soon, acknowledged }
    }

    /// Opens the sources anew, as when their settings have changed.
    pub(super) fn replace_sources(&mut self) {
        let Self { journaled, settings, disk, clock, .. } = &*self;
        (self.soon, self.acknowledged) = open(journaled, *settings, disk, clock);
    }

    /// What the event loops of the sources do when they are woken. Returns requests that were
    /// answered.
    pub(super) fn go_on(&mut self) -> Vec<Answered> {
        if self.wake.take() {
            self.soon.lanes.wake();
            self.acknowledged.wake();
        }
        self.acknowledged.go_on()
    }

    /// Lets the journal write everything that is due. Returns false if something is left.
    pub(super) fn flush(&mut self) -> bool {
        self.soon.lanes.flush();
        self.journaled.flush()
    }
}

fn open(
    journaled: &SimulatedJournal,
    settings: Settings,
    disk: &FaultyDisk,
    clock: &FakeClock,
) -> (Unacknowledged, Acknowledged) {
    let quota = settings.discards.map(quota);
    let context = |name: &str| {
        journaled.journal.register_source(name);
        LaneContext {
            name: name.to_owned(),
            thread: 0,
            journal: journaled.journal.clone(),
            rules: journaled.rules.clone(),
            clock: Arc::new(clock.clone()),
            stats: Arc::default(),
            gather_time: GATHER_TIME,
        }
    };
    let soon = Unacknowledged::open(context(UNACKNOWLEDGED), quota.as_ref(), disk);
    let acknowledged = Acknowledged::open(context(NAMES[ACKNOWLEDGED]), quota.as_ref());
    (soon, acknowledged)
}
