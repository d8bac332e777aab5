//! The world of a history: a disk, files, a process that starts and ends with its journal, and
//! destinations that remember what they received over all of its lives.

mod append;
mod readers;
mod soon;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use weir_journal::{CursorLedger, Journal, JournalConfig, WritePolicy};
use weir_model::{SourceId, StreamId};
use weir_testkit::history::Trace;
use weir_testkit::{CallKind, FakeClock, Fault, FaultKind, FaultyDisk};

use self::append::append;
use crate::Settings;
use crate::coverage::{Condition, Coverage};
use crate::files::{
    Count, File, FileState, LANES, Reading, SOURCES, chain_at, open_lane, policy, source_of,
};
use crate::oracle::{Oracle, Sink};
use crate::plan::{Event, What};
use crate::process::{Process, Reader};
use crate::support::{KIB, MIB, assert_books_balance, config};

const DIR: &str = "/data/journal";
const FILES_MAX: usize = 6;
const SINKS_MAX: usize = 4;

#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(crate) struct World<'a> {
    settings: Settings,
    trace: Trace,
    coverage: &'a mut Coverage,
    disk: FaultyDisk,
    files: Vec<File>,
    next_stream: u64,
    oracle: Oracle,
    /// What sources have stored about rows that they do not acknowledge, by stream.
    counts: BTreeMap<u64, Count>,
    /// Destinations that are configured, by their number in the oracle.
    present: Vec<bool>,
    /// Destinations by their number in row masks.
    slots: Vec<u64>,
    next_slot: u64,
    dropped: Vec<String>,
    process: Option<Process>,
    /// The last process ended normally: everything is flushed.
    is_clean: bool,
    /// The last process was killed, and the machine went on: nothing that it wrote is lost.
    is_killed: bool,
    /// What stops the process next does not stop the machine.
    kills_soon: bool,
    /// The configuration differs from the one that the journal knows.
    is_new_config: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(settings: Settings, trace: Trace, coverage: &'a mut Coverage) -> Self {
        let mut world = Self {
            trace,
            coverage,
            disk: FaultyDisk::new(),
            files: Vec::new(),
            next_stream: 1,
            oracle: Oracle::default(),
            counts: BTreeMap::new(),
            present: Vec::new(),
            slots: Vec::new(),
            next_slot: 0,
            dropped: Vec::new(),
            process: None,
            is_clean: true,
            is_killed: false,
            kills_soon: false,
            is_new_config: true,
            settings,
        };
        for _ in 0..world.settings.files {
            world.create(0);
        }
        world.add_sink();
        world.add_sink();
        world.oracle.sinks[1].is_plain = true;
        world.oracle.sinks[1].drops_oldest = world.settings.drops_oldest;
        world.oracle.has_keys = world.settings.keys;
        world
    }

    fn add_sink(&mut self) {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.oracle.sinks.push(Sink::new(format!("to-{slot}")));
        self.slots.push(slot);
        self.present.push(true);
    }

    fn create(&mut self, written: u64) {
        let file = File::new(&mut self.oracle, self.next_stream, written);
        self.next_stream += 1;
        self.files.push(file);
    }

    pub(crate) fn run(mut self, events: &[Event]) {
        for event in events {
            let cuts = self.oracle.cuts;
            self.happen(*event);
            if self.oracle.cuts > cuts {
                self.met("DiscardedByKey");
            }
            self.note_books();
            if self.process.is_some() && self.disk.is_dead() {
                self.die(Rng::with_seed(!event.seed), self.kills_soon);
            }
        }
        self.finish();
    }

    /// Adds to the trace what the books say.
    fn note_books(&self) {
        let Some(process) = &self.process else { return };
        self.trace.note(|| {
            let of = |c: &CursorLedger| {
                format!("{} routed {} settled {}", c.name, c.book.routed, c.book.settled())
            };
            let ledger = process.journal.ledger();
            let lines: Vec<String> = ledger.cursors.iter().map(of).collect();
            format!("    {}; {} segments", lines.join(", "), ledger.journal.segments)
        });
    }

    fn happen(&mut self, Event { what, seed }: Event) {
        let mut rng = Rng::with_seed(seed);
        self.trace.note(|| format!("{what:?}"));
        match what {
            What::Write => self.write(&mut rng),
            What::Cut => self.cut(&mut rng),
            What::Delete => self.delete(&mut rng),
            What::Create if self.files.len() < FILES_MAX => self.create(rng.u64(..12)),
            What::CrashSoon => {
                self.met("CrashSoon");
                self.disk.inject(Fault::new(FaultKind::Crash).nth(rng.u64(1..30)));
            }
            What::KillSoon if self.process.is_some() => {
                self.met("KillSoon");
                self.kills_soon = true;
                self.disk.inject(Fault::new(FaultKind::Crash).nth(rng.u64(1..12)));
            }
            What::DiskIsWell => {
                self.disk.faults().clear();
                self.disk.set_capacity(None);
            }
            What::Damage => self.damage(&mut rng),
            What::Reconfigure => self.reconfigure(&mut rng),
            What::Start => self.start(&mut rng),
            _ if self.process.is_none() => {}
            What::Crash => {
                self.met("Crash");
                self.die(rng, false);
            }
            What::Kill => {
                self.met("Kill");
                self.die(rng, true);
            }
            What::End => self.end(),
            What::DiskFails => self.fail_disk(&mut rng),
            What::DiskIsFull => {
                self.met("DiskIsFull");
                self.disk.set_capacity(Some(self.disk.used_bytes() + rng.u64(..32) * KIB));
            }
            _ => self.go_on(what, &mut rng),
        }
    }

    /// Handles an event for a running process.
    fn go_on(&mut self, what: What, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        let safe = process.work(rng.u32(..3), Duration::from_micros(rng.u64(..1500)));
        if self.disk.is_dead() {
            return;
        }
        self.oracle.promised.extend(safe);
        match what {
            What::ReceiveSoon => self.receive_soon(rng),
            What::SettleSoon => self.settle_soon(rng),
            What::Look => self.look(rng),
            What::SettleOthers => self.settle_others(),
            What::ChangeReader => self.change_reader(rng),
            What::ReplaceSources => self.replace_sources(),
            What::Receive => self.receive(rng),
            What::Flush => {
                self.flush();
            }
            What::Work => {
                let time = Duration::from_micros(rng.u64(..20_000));
                let safe = process.work(rng.u32(..12), time);
                if !self.disk.is_dead() {
                    self.oracle.promised.extend(safe);
                }
            }
            _ => {
                let index = rng.usize(..self.present.len());
                let sink = &mut self.oracle.sinks[index];
                let Some(reader) = &mut process.readers[index] else { return };
                match what {
                    What::Hang => reader.hangs = !reader.hangs,
                    _ if reader.hangs => {}
                    What::Take => {
                        for _ in 0..rng.u32(1..4) {
                            let taken = reader.take(sink);
                            self.trace.note(|| format!("  {} takes {taken:?}", sink.name));
                        }
                    }
                    What::Ack => {
                        for _ in 0..rng.u32(1..4) {
                            let settled = reader.ack(sink, rng);
                            self.trace.note(|| format!("  {} settles {settled:?}", sink.name));
                        }
                    }
                    What::Hold if sink.is_plain => reader.hold(sink, rng),
                    What::AckHeld => reader.ack_held(sink),
                    _ => {}
                }
                assert_books_balance(&process.journal);
            }
        }
        self.collect_tickets();
    }

    fn write(&mut self, rng: &mut Rng) {
        let Some(file) = any_file(&mut self.files, rng) else { return };
        file.written += rng.u64(1..16);
        if self.process.is_none() {
            self.met("WriteWhileDown");
        }
    }

    fn cut(&mut self, rng: &mut Rng) {
        let Some(file) = any_file(&mut self.files, rng) else { return };
        let regrown = if rng.bool() { 0 } else { rng.u64(..file.written + 4) };
        file.cut(&mut self.oracle, regrown);
        let stream = file.stream;
        self.trace.note(|| format!("  file {stream} has {regrown} other rows"));
        self.met(if regrown == 0 { "Cut" } else { "CutAndRegrown" });
    }

    fn delete(&mut self, rng: &mut Rng) {
        let Some(file) = any_file(&mut self.files, rng) else { return };
        let is_open = file.reading.is_some();
        file.state = if is_open { FileState::Deleted } else { FileState::Gone };
        let stream = file.stream;
        self.trace.note(|| format!("  file {stream} is deleted"));
        self.met("Delete");
        if self.files.len() < FILES_MAX && rng.bool() {
            self.create(rng.u64(..8));
        }
    }

    fn fail_disk(&mut self, rng: &mut Rng) {
        const KINDS: [CallKind; 7] = [
            CallKind::Write,
            CallKind::SyncData,
            CallKind::SyncDir,
            CallKind::Open,
            CallKind::Rename,
            CallKind::Read,
            CallKind::SetLen,
        ];
        let kind = KINDS[rng.usize(..KINDS.len())];
        let (nth, times) = (rng.u64(1..6), rng.u64(1..4));
        self.trace.note(|| format!("  {kind:?} fails {times} times from the {nth}th on"));
        self.met("DiskFails");
        self.disk.inject(Fault::new(FaultKind::Io).on(kind).nth(nth).times(times));
    }

    /// Damages bytes of one file of the journal.
    fn damage(&mut self, rng: &mut Rng) {
        let is_data = |path: &std::path::PathBuf| {
            path.extension().is_some_and(|extension| extension == "wseg" || extension == "wcur")
        };
        let files: Vec<_> = self.disk.names().into_iter().filter(is_data).collect();
        if self.process.is_some() || files.is_empty() {
            return;
        }
        let path = &files[rng.usize(..files.len())];
        let mut bytes = self.disk.content(path).unwrap_or_default();
        let from = rng.usize(..=bytes.len());
        let to = (from + rng.usize(1..200)).min(bytes.len());
        let what = rng.u8(..3);
        match what {
            0 => bytes[from..to].iter_mut().take(1).for_each(|byte| *byte ^= 1 << rng.u8(..8)),
            1 => bytes[from..to].fill(0),
            _ => bytes.truncate(from),
        }
        self.disk.put(path, &bytes);
        let is_log = path.extension().is_some_and(|extension| extension == "wcur");
        self.trace.note(|| format!("  {}: {what} at {from}..{to}", path.display()));
        self.met(if is_log { "DamageOfPositions" } else { "DamageOfFrames" });
        if is_log {
            self.oracle.forget();
        } else {
            self.oracle.damage_frames(self.settings.is_exact);
            // Not everything that was written is still there.
            self.is_killed = false;
        }
    }

    /// Only after a normal end: what was read for which destination is known then.
    fn reconfigure(&mut self, rng: &mut Rng) {
        if self.process.is_some() || !self.is_clean || self.is_new_config {
            return;
        }
        let index = rng.usize(..self.present.len());
        let count = self.present.iter().filter(|present| **present).count();
        if !self.present[index] && rng.u8(..3) == 0 {
            self.met("Drop");
            self.dropped.push(self.oracle.sinks.remove(index).name);
            self.slots.remove(index);
            self.present.remove(index);
        } else if !self.present[index] {
            self.met("ComeBack");
            self.present[index] = true;
        } else if count > 1 && rng.bool() {
            self.met("StayAway");
            self.present[index] = false;
            self.oracle.sinks[index].was_absent = true;
        } else if self.present.len() < SINKS_MAX {
            self.met("Add");
            self.add_sink();
            let new = self.oracle.sinks.last_mut();
            if let Some(sink) = new {
                (sink.was_absent, sink.is_late) = (true, true);
            }
        }
        self.is_new_config = true;
    }

    fn start(&mut self, rng: &mut Rng) {
        if self.process.is_some() {
            return;
        }
        self.oracle.begin_life();
        loop {
            let clock = FakeClock::default();
            let config = small(rng, self.settings.readers);
            let disk = Arc::new(self.disk.clone());
            let opened = Journal::open_with_writer(config, disk, Arc::new(clock.clone()));
            if self.disk.is_dead() {
                drop(opened);
                self.met("CrashAtStart");
                (self.is_killed, self.kills_soon) = (false, false);
                self.disk = self.disk.crash(rng.u64(..));
                continue;
            }
            match opened {
                Ok((journal, writer)) => {
                    self.open(journal, writer, clock, rng);
                    break;
                }
                Err(error) => {
                    self.trace.note(|| format!("  cannot start: {error}"));
                    assert!(self.settings.disk, "a disk without faults opens: {error}");
                    self.disk.faults().clear();
                    self.disk.set_capacity(None);
                }
            }
        }
        (self.is_clean, self.is_killed) = (false, false);
        if std::mem::take(&mut self.is_new_config) {
            // Until that is flushed, a new destination is not known.
            self.disk.faults().clear();
            self.disk.set_capacity(None);
            assert!(self.flush(), "a disk without faults is flushed");
        }
    }

    /// Does what a starting weir does, from its destinations to its sources.
    fn open(
        &mut self,
        journal: Journal,
        writer: weir_journal::JournalWriter,
        clock: FakeClock,
        rng: &mut Rng,
    ) {
        for name in SOURCES.into_iter().filter(|n| *n != SOURCES[3] || self.settings.soon_lanes > 0)
        {
            journal.register_source(name);
        }
        let mut readers = Vec::new();
        for (index, sink) in self.oracle.sinks.iter_mut().enumerate() {
            let spec = readers::spec(sink, rng);
            let cursor = self.present[index].then(|| journal.cursor(spec).expect("a cursor"));
            if let Some(cursor) = &cursor {
                sink.index = cursor.index();
            }
            readers.push(cursor.map(Reader::new));
        }
        for name in self.dropped.drain(..) {
            let _may_be_unknown = journal.drop_cursor(&name);
        }
        self.note_stated(&journal);
        let ended = self.open_streams(&journal, rng);
        assert_books_balance(&journal);
        let lanes = (0..self.settings.lanes).map(|lane| LANES + lane);
        let lanes =
            lanes.map(|stream| (stream, open_lane(&journal, &mut self.oracle, stream))).collect();
        let soon_lanes = self.open_soon_lanes(&journal);
        journal.release_unclaimed();
        self.note_ended(&journal, &ended);
        assert_books_balance(&journal);
        self.trace.note(|| {
            let ledger = journal.ledger();
            let of = |c: &CursorLedger| format!("{} in flight for {}", c.in_flight, c.name);
            let waiting: Vec<String> = ledger.cursors.iter().map(of).collect();
            format!("  starts; {}; lost: {:?}", waiting.join(", "), ledger.journal.recovery.lost)
        });
        self.process = Some(Process::new(journal, writer, clock, readers, lanes, soon_lanes));
    }

    /// Other sources continue with the files and connections of those that run.
    fn replace_sources(&mut self) {
        self.met("ReplaceSources");
        let Some(process) = &mut self.process else { return };
        for file in self.files.iter_mut().filter(|file| file.reading.is_some()) {
            if file.state == FileState::There {
                file.open(&process.journal, &mut self.oracle);
            }
        }
        for (stream, reading) in &mut process.lanes {
            *reading = open_lane(&process.journal, &mut self.oracle, *stream);
        }
    }

    /// What a journal without frames knows can only come from its log: it is owed, exactly. But for
    /// rows that an earlier start knew only because of a later frame, the log contains no more than
    /// that start knew.
    fn note_stated(&mut self, journal: &Journal) {
        if self.oracle.has_forgotten {
            return;
        }
        let has_frames = journal.ledger().journal.recovery.frames > 0;
        for source in SOURCES {
            for known in journal.known_streams(SourceId::of(source)) {
                let chain = chain_at(&self.oracle, &known.furthest);
                if has_frames {
                    self.oracle.note_unstated(&chain);
                } else {
                    self.oracle.note_known_before(&chain);
                }
            }
        }
    }

    /// Returns the streams that have ended since the last start.
    fn open_streams(&mut self, journal: &Journal, rng: &mut Rng) -> Vec<u64> {
        let mut ended = Vec::new();
        for file in &mut self.files {
            if file.state == FileState::There {
                file.open(journal, &mut self.oracle);
                let (stream, reading) = (file.stream, file.reading);
                self.trace.note(|| format!("  file {stream} from {reading:?}"));
            }
        }
        for source in SOURCES {
            let mut known = journal.known_streams(SourceId::of(source));
            known.sort_unstable_by_key(|known| known.stream);
            for known in known {
                let gone = |f: &&File| f.stream == known.stream.0 && f.state == FileState::Gone;
                if let Some(file) = self.files.iter().find(gone) {
                    let chain = chain_at(&self.oracle, &known.furthest);
                    self.trace.note(|| format!("  file {} is gone after {chain:?}", file.stream));
                    self.oracle.set_chain(file.stream, source_of(file.stream), chain);
                    file.end_unread(journal, &mut self.oracle, rng.bool());
                    ended.push(file.stream);
                }
            }
        }
        ended
    }

    /// Handles streams whose files are gone and that the journal still knows; of the others either
    /// everything is settled and folded, or nothing was ever known.
    fn note_ended(&mut self, journal: &Journal, ended: &[u64]) {
        let known: Vec<_> = SOURCES
            .into_iter()
            .flat_map(|source| journal.known_streams(SourceId::of(source)))
            .collect();
        for file in self.files.iter().filter(|f| f.state == FileState::Gone) {
            match known.iter().find(|known| known.stream.0 == file.stream) {
                Some(known) => {
                    let chain = chain_at(&self.oracle, &known.furthest);
                    self.oracle.set_chain(file.stream, source_of(file.stream), chain);
                }
                None if ended.contains(&file.stream) => {}
                None => self.oracle.set_unknown(file.stream),
            }
            if let Some(book) = self.oracle.streams.get_mut(&file.stream) {
                book.is_closed = true;
                // What the log does not know was not recorded before, and may be lost again.
                book.is_noted |= ended.contains(&file.stream);
            }
        }
    }

    /// The source checks one of its files, or one that it has not opened yet.
    fn look(&mut self, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        let readable = |f: &&mut File| f.state != FileState::Gone;
        let mut files: Vec<&mut File> = self.files.iter_mut().filter(readable).collect();
        if files.is_empty() {
            return;
        }
        let index = rng.usize(..files.len());
        let file = files.swap_remove(index);
        if file.reading.is_none() {
            file.open(&process.journal, &mut self.oracle);
        }
        let Some(reading) = file.reading else { return };
        if self.oracle.begins[reading.begin].content != file.content {
            file.begin_again(&process.journal, &mut self.oracle);
        }
        let is_deleted = file.state == FileState::Deleted;
        if is_deleted {
            process.journal.persist_stream(StreamId(file.stream));
        }
        let Some(reading) = &mut file.reading else { return };
        let count =
            if reading.is_begun { rng.u64(1..14).min(file.written - reading.next) } else { 0 };
        if count > 0 || !reading.is_begun {
            let padding = rng.usize(..240);
            let slots = (&self.slots[..], &self.present[..]);
            let policy = policy(is_deleted);
            append(
                process,
                &mut self.oracle,
                slots,
                file.stream,
                reading,
                (count, padding),
                policy,
            );
            self.trace.note(|| format!("  file {} is read to {reading:?}", file.stream));
        }
        if is_deleted && reading.is_begun && reading.next == file.written {
            process.journal.close_stream(StreamId(file.stream));
            file.state = FileState::Gone;
            file.reading = None;
            if let Some(book) = self.oracle.streams.get_mut(&file.stream) {
                book.is_closed = true;
            }
            self.trace.note(|| format!("  file {} is closed", file.stream));
        }
    }

    fn receive(&mut self, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        if process.lanes.is_empty() {
            return;
        }
        let lane = rng.usize(..process.lanes.len());
        let (stream, mut reading) = process.lanes[lane];
        let what = (rng.u64(1..8), rng.usize(..240));
        let slots = (&self.slots[..], &self.present[..]);
        append(process, &mut self.oracle, slots, stream, &mut reading, what, WritePolicy::OnAppend);
        process.lanes[lane].1 = reading;
        self.trace.note(|| format!("  lane {stream} is at {reading:?}"));
    }

    fn settle_others(&mut self) {
        let Some(process) = &mut self.process else { return };
        for (reader, sink) in process.readers.iter_mut().zip(&mut self.oracle.sinks) {
            if let Some(reader) = reader.as_mut().filter(|r| !r.hangs && !sink.drops_oldest) {
                reader.settle_all(sink);
            }
        }
        self.flush();
    }

    fn collect_tickets(&mut self) {
        if let Some(process) = &mut self.process {
            self.oracle.promised.extend(process.resolved());
        }
    }

    /// Writes everything that is due; what is acknowledged is durable, if the disk works.
    fn flush(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        let safe = process.catch_up().filter(|_| !self.disk.is_dead() && process.is_disk_well());
        let is_durable = safe.is_some();
        if is_durable {
            self.note_durable();
        }
        self.oracle.promised.extend(safe.unwrap_or_default());
        self.collect_tickets();
        is_durable
    }

    fn note_durable(&mut self) {
        let Some(process) = &mut self.process else { return };
        for (reader, sink) in process.readers.iter_mut().zip(&mut self.oracle.sinks) {
            // One that was removed has settled something before.
            let removed = process.removed.get_mut(&sink.name);
            if let Some(reader) = reader.as_mut().or(removed) {
                reader.note_durable(sink);
            }
        }
        for source in SOURCES {
            for (stream, furthest) in process.journal.furthest_streams(SourceId::of(source)) {
                if let Some(book) = self.oracle.streams.get_mut(&stream.0) {
                    book.is_noted = true;
                }
                let chain = chain_at(&self.oracle, &furthest);
                self.oracle.note_known(&chain);
            }
        }
    }

    fn end(&mut self) {
        self.met("End");
        self.note_compaction();
        let Some(process) = &mut self.process else { return };
        process.end();
        if !self.disk.is_dead() && process.is_disk_well() {
            self.note_durable();
            self.is_clean = true;
        }
        self.collect_tickets();
        self.process = None;
        self.disk = self.disk.kill();
        self.close_files();
    }

    /// The process dies, with the machine or alone.
    fn die(&mut self, mut rng: Rng, is_alone: bool) {
        self.note_compaction();
        self.collect_tickets();
        (self.is_killed, self.kills_soon) = (is_alone, false);
        self.disk = if is_alone { self.disk.kill() } else { self.disk.crash(rng.u64(..)) };
        self.process = None;
        self.close_files();
    }

    fn close_files(&mut self) {
        for file in &mut self.files {
            file.reading = None;
            if file.state == FileState::Deleted {
                file.state = FileState::Gone;
            }
        }
    }

    /// No more faults: everything is read, taken and settled, and then compared.
    fn finish(&mut self) {
        self.trace.note(|| "the end".to_owned());
        self.disk.faults().clear();
        self.disk.set_capacity(None);
        if self.process.is_some() && self.disk.is_dead() {
            self.die(Rng::with_seed(0), false);
        }
        self.present.iter_mut().for_each(|present| *present = true);
        let mut rng = Rng::with_seed(1);
        let is_complete =
            self.process.as_ref().is_some_and(|p| p.readers.iter().all(Option::is_some));
        if self.process.is_some() && !is_complete {
            self.end();
        }
        self.start(&mut rng);
        for round in 0.. {
            assert!(round < 10_000, "the history never ends: {:?}", self.ledger());
            for _ in 0..self.files.len() {
                self.look(&mut rng);
            }
            let have_begun = self.begin_soon_lanes();
            let Some(process) = &mut self.process else { return };
            for (reader, sink) in process.readers.iter_mut().zip(&mut self.oracle.sinks) {
                let Some(reader) = reader else { continue };
                reader.settle_all(sink);
            }
            assert!(self.flush() || round < 9_000, "the disk works");
            let is_done = |f: &File| {
                let is_read = |r: &Reading| {
                    let is_here = self.oracle.begins[r.begin].content == f.content;
                    r.is_begun && is_here && r.next == f.written
                };
                f.state == FileState::Gone || f.reading.as_ref().is_some_and(is_read)
            };
            let is_settled =
                // Damage to both log and segment takes the names of destinations.
                || self.ledger().is_some_and(|l| {
                    l.cursors.iter().all(|c| c.in_flight == 0 || c.name.is_empty())
                });
            if self.files.iter().all(is_done) && have_begun && is_settled() && self.flush() {
                break;
            }
        }
        self.note_books();
        let Some(process) = &self.process else { return };
        assert_books_balance(&process.journal);
        self.oracle.compare(&process.journal.ledger());
        self.compare_counts();
        self.end();
    }

    fn note_compaction(&mut self) {
        if self.ledger().is_some_and(|ledger| ledger.journal.frames_compacted > 0) {
            self.met("Compacted");
            self.oracle.has_compacted = true;
        }
        if self.ledger().is_some_and(|ledger| ledger.journal.frames_merged > 0) {
            self.met("Merged");
            self.oracle.has_compacted = true;
        }
    }

    fn ledger(&self) -> Option<weir_journal::Ledger> {
        self.process.as_ref().map(|process| process.journal.ledger())
    }

    /// Counts a fault with the state in which it occurs.
    fn met(&mut self, fault: &'static str) {
        self.trace.note(|| format!("  {fault}"));
        let mut conditions = Vec::new();
        if self.present.iter().any(|present| !present) {
            conditions.push(Condition::Absent);
        }
        let Some(process) = &self.process else {
            conditions.push(Condition::Down);
            return self.coverage.note(fault, &conditions);
        };
        let ledger = process.journal.ledger();
        let active = || ledger.cursors.iter().filter(|cursor| cursor.active);
        let behind = active().filter(|cursor| cursor.in_flight > 0).count();
        conditions.push(match behind {
            0 => Condition::Settled,
            _ if behind < active().count() => Condition::Apart,
            _ => Condition::Behind,
        });
        let is = |holds: bool, condition| holds.then_some(condition);
        conditions.extend(is(ledger.journal.segments > 0, Condition::OnDisk));
        conditions.extend(is(ledger.journal.disk_error.is_some(), Condition::DiskFails));
        conditions.extend(is(!ledger.journal.recovery.lost.is_empty(), Condition::Lost));
        let hangs = process.readers.iter().flatten().any(|reader| reader.hangs);
        conditions.extend(is(hangs, Condition::Hangs));
        self.coverage.note(fault, &conditions);
    }
}

fn small(rng: &mut Rng, has_readers: bool) -> JournalConfig {
    // Drawn from a copy: histories without this remain as they are.
    let taken_bytes_max = if has_readers { rng.clone().u64(1..64) * KIB } else { u64::MAX };
    let merge_from_batches = rng.clone().usize(1..32);
    let verify_time_max = if rng.clone().bool() { Duration::ZERO } else { Duration::MAX / 4 };
    // Most frames are smaller than what is freed at once outside of tests.
    let punch_bytes_min =
        if rng.clone().u8(..4) == 0 { 16 * KIB } else { rng.clone().u64(1..2048) };
    JournalConfig {
        ring_bytes: rng.u64(2..48) * KIB,
        bytes_max: 64 * MIB,
        segment_bytes: rng.u64(1..16) * KIB,
        taken_bytes_max,
        commit_interval: Duration::from_micros(rng.u64(..2000)),
        spill_after: Duration::from_micros(rng.u64(..2000)),
        merge_from_batches,
        punch_bytes_min,
        verify_time_max,
        ..config(DIR)
    }
}

/// Returns one of the existing files.
fn any_file<'a>(files: &'a mut [File], rng: &mut Rng) -> Option<&'a mut File> {
    let there = |f: &&mut File| f.state == FileState::There;
    let mut files: Vec<&mut File> = files.iter_mut().filter(there).collect();
    let index = (!files.is_empty()).then(|| rng.usize(..files.len()))?;
    Some(files.swap_remove(index))
}
