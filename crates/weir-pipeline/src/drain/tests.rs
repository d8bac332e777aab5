//! Random histories of drains over a real journal: destinations that hang and come back, sends that
//! are interrupted by a relocation, kills between any two steps, pauses, records that cannot be
//! written as messages, a buffer or a disk that is too small.
//!
//! Checked properties: in one life of the process each drain receives its records strictly in
//! order, or those of each instance if it has several requests in flight, and none twice; over all
//! lives each accepted record has arrived, or the book of the drain has at least as many as
//! discarded, and exactly as many if there was one life; that book has every record once over all
//! lives, also of the drain with several requests in flight, and a restart does not change it;
//! every book balances after every step; a drain that is down holds up no other, even if it fills
//! the disk.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_journal::{
    AppendTicket, CursorSpec, Journal, JournalConfig, JournalWriter, Step, StreamSpec, WhenFull,
    WritePolicy,
};
use weir_model::{
    BatchBuilder, DiscardReason, Kinds, NewRecord, Position, RecordKind, Resource, Seal,
    SourceBook, SourceId, StreamId, hash64,
};
use weir_testkit::{FakeClock, FaultyDisk, journal_config};

use super::book::DrainBook;
use super::core::Mode;
use super::envelopes::Envelopes;
use super::plan::{DrainSpec, Selector};
use super::pump::Pump;
use super::stream::stream_of;
use super::taken::{Fate, Row};
use crate::source::SourceNames;

const APPS: u64 = 4;
const KIB: u64 = 1 << 10;
const DRAINS: u64 = 6;
const MIB: u64 = 1 << 20;
/// Small disks: from barely two segments with the space for positions to four.
const CAPACITIES: [u64; 4] = [384 * KIB, 512 * KIB, 768 * KIB, MIB];
/// Records with a multiple of this number cannot be written as messages, except on a small disk:
/// the counts of one more reason could fill it.
const NOT_SERIALIZABLE: u64 = 23;

/// A drain's destination, over all lives.
#[derive(Debug, Default)]
struct Receiver {
    is_down: bool,
    /// The last number of each instance in this life.
    last: BTreeMap<u64, u64>,
    seen: BTreeSet<u64>,
    /// What is being sent, in this life.
    sending: Vec<Row>,
}

/// One process.
struct Life {
    journal: Journal,
    writer: JournalWriter,
    pump: Pump,
    position: Position,
    tickets: Vec<(AppendTicket, Vec<(u64, u64)>)>,
    book: SourceBook,
}

struct World {
    disk: FaultyDisk,
    clock: FakeClock,
    random: fastrand::Rng,
    life: Option<Life>,
    receivers: BTreeMap<u64, Receiver>,
    /// Records by application that were appended, in any life.
    appended: BTreeMap<u64, BTreeSet<u64>>,
    /// Those that are on stable storage.
    accepted: BTreeMap<u64, BTreeSet<u64>>,
    next: u64,
    bytes_max: u64,
    /// The size of the disk, if it is smaller than what drains may keep in memory.
    capacity: Option<u64>,
    is_killed: bool,
}

fn app_of(drain: u64) -> u64 {
    drain % APPS
}

fn spec(drain: u64) -> DrainSpec {
    let selector = Selector::App(format!("app-{}", app_of(drain)));
    let kinds = Kinds::default().with(RecordKind::Log);
    DrainSpec { id: drain, selector, kinds }
}

fn config(ring_bytes: u64) -> JournalConfig {
    JournalConfig {
        ring_bytes,
        bytes_max: 64 * MIB,
        segment_bytes: MIB / 4,
        ..journal_config("/journal")
    }
}

fn cursor_spec(name: &str, when_full: WhenFull, buffer_bytes_max: u64) -> CursorSpec {
    CursorSpec { name: name.to_owned(), when_full, buffer_bytes_max, window_bytes: 4 * MIB }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes_max = if random.u8(..4) == 0 { 48 * 1024 } else { 16 * MIB };
        let capacity = (random.u8(..4) == 0).then(|| CAPACITIES[seed as usize % 4]);
        let is_killed = random.u8(..3) > 0;
        let mut world = Self {
            disk: FaultyDisk::new(),
            clock: FakeClock::at(1_800_000_000_000_000_000),
            random,
            life: None,
            receivers: (0..DRAINS).map(|drain| (drain, Receiver::default())).collect(),
            appended: BTreeMap::new(),
            accepted: BTreeMap::new(),
            next: 0,
            bytes_max,
            capacity,
            is_killed,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        disk.create_dir_all(Path::new("/journal")).unwrap();
        self.disk.set_capacity(self.capacity);
        let config = config(if self.capacity.is_some() { 64 * 1024 } else { 8 * MIB });
        let (journal, writer) = Journal::open_with_writer(config, disk, clock.clone()).unwrap();
        let sources = cursor_spec("drains", WhenFull::Block, 32 * MIB);
        let lagging = cursor_spec("drains/lagging", WhenFull::DropOldestOfStream, self.bytes_max);
        let cursors = (journal.cursor(sources).unwrap(), journal.cursor(lagging).unwrap());
        let resume = journal.open_stream(&StreamSpec {
            stream: StreamId(1),
            group: 0,
            source: SourceId::of("app"),
            start: Position::default(),
            state: b"",
            book: SourceBook::default(),
            gone: false,
        });
        journal.register_source("app");
        let envelopes = Rc::new(RefCell::new(Envelopes::new(Arc::new(SourceNames::default()))));
        let window = if self.capacity.is_some() { 8 } else { 2 } * MIB as usize;
        let limits = (window, Duration::from_hours(1));
        let mut pump = Pump::new(journal.clone(), cursors, clock, envelopes, limits);
        for drain in 0..DRAINS {
            pump.add(spec(drain));
        }
        pump.core.borrow_mut().is_complete = true;
        journal.release_unclaimed();
        let position = Position::new(resume.last_epoch + 1, 0);
        let (tickets, book) = (Vec::new(), resume.book);
        self.life = Some(Life { journal, writer, pump, position, tickets, book });
    }

    /// Ends the process; what it has not written is gone.
    fn kill(&mut self, loses_power: bool) {
        self.life = None;
        for receiver in self.receivers.values_mut() {
            receiver.last.clear();
            receiver.sending.clear();
        }
        let seed = self.random.u64(..);
        self.disk = if loses_power { self.disk.crash(seed) } else { self.disk.kill() };
        self.start();
    }

    fn append(&mut self) {
        let Some(life) = &mut self.life else { return };
        let mut builder = BatchBuilder::new(life.position);
        let mut end = life.position;
        let mut numbers = Vec::new();
        for _ in 0..self.random.usize(1..20) {
            let app = self.random.u64(..=APPS);
            let resource = Resource::new().with("service.name", format!("app-{app}")).encode();
            let number = builder.resource(hash64(&resource), &resource).unwrap();
            let padding = "x".repeat(self.random.usize(..300));
            let body = format!("{app}/{};{padding}", self.next);
            let body = builder.append(body.as_bytes()).unwrap();
            end.offset += 1;
            let record = NewRecord {
                end_offset: end.offset,
                body,
                resource: number,
                ..NewRecord::default()
            };
            builder.push(&record).unwrap();
            numbers.push((app, self.next));
            self.next += 1;
        }
        let index = u16::try_from(life.pump.sources.index()).unwrap();
        builder.route_all(&[index]);
        let mut book = life.book;
        book.lines += numbers.len() as u64;
        book.records += numbers.len() as u64;
        let batch = builder.seal(&Seal {
            repeatable: false,
            stream: StreamId(1),
            group: 0,
            source: SourceId::of("app"),
            end,
            observed_ns: self.clock.unix_ns(),
            rule_generation: 0,
            book: &book,
            state: b"",
        });
        if let Ok(ticket) = life.journal.append(batch, WritePolicy::OnAppend) {
            (life.position, life.book) = (end, book);
            for (app, number) in &numbers {
                self.appended.entry(*app).or_default().insert(*number);
            }
            life.tickets.push((ticket, numbers));
        }
    }

    /// Lets the pump take and distribute batches.
    fn pump(&mut self) {
        let pump = &mut self.life.as_mut().unwrap().pump;
        // Without the journal's threads nothing has to be waited for.
        let polled = pin!(pump.step()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready());
    }

    fn write(&mut self, steps: usize) {
        let Some(life) = &mut self.life else { return };
        for _ in 0..steps {
            if !matches!(life.writer.step(), Step::Worked) {
                break;
            }
        }
        let accepted = &mut self.accepted;
        life.tickets.retain_mut(|(ticket, numbers)| match ticket.try_durable() {
            Some(Ok(())) => {
                for (app, number) in numbers.iter() {
                    accepted.entry(*app).or_default().insert(*number);
                }
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
    }

    /// Begins or ends a send of a drain.
    fn send(&mut self, drain: u64) {
        let Some(life) = &mut self.life else { return };
        let receiver = self.receivers.get_mut(&drain).unwrap();
        let now = self.clock.monotonic();
        let mut core = life.pump.core.borrow_mut();
        if receiver.sending.is_empty() {
            receiver.sending = core.chunk(drain, now);
            return;
        }
        let rows = std::mem::take(&mut receiver.sending);
        let instances = if drain == DRAINS - 1 { 3 } else { 1 };
        // How many of each are accepted.
        let mut accepted: Vec<usize> = (0..instances)
            .map(|_| match receiver.is_down {
                true => 0,
                false if self.random.u8(..4) == 0 => self.random.usize(..rows.len()),
                false => rows.len(),
            })
            .collect();
        let mut fates = vec![None; rows.len()];
        let has_answered = accepted.iter().any(|count| *count > 0);
        let mut are_all_done = has_answered;
        for (row, fate) in rows.iter().zip(&mut fates) {
            let number = number_of(row, app_of(drain));
            let instance = number % instances;
            if self.capacity.is_none() && number.is_multiple_of(NOT_SERIALIZABLE) {
                *fate = are_all_done.then(|| Fate::discarded(DiscardReason::NotSerializable));
                are_all_done &= fate.is_some();
                continue;
            }
            let Some(left) = accepted[instance as usize].checked_sub(1) else {
                are_all_done = false;
                continue;
            };
            accepted[instance as usize] = left;
            *fate = Some(Fate::Delivered);
            let last = receiver.last.insert(instance, number);
            assert!(last.is_none_or(|last| last < number), "{drain}: {number} again");
            assert!(receiver.seen.insert(number) || self.is_killed, "{drain}: {number} twice");
        }
        let failure = fates.contains(&None).then(|| "refused".to_owned());
        core.sent(drain, &fates, failure, now);
    }

    fn check(&self) {
        let Some(life) = &self.life else { return };
        for (id, drain) in &life.pump.core.borrow().drains {
            assert_eq!(drain.book.unaccounted(), 0, "{id}: {:?}", drain.book);
        }
        for cursor in life.journal.ledger().cursors {
            assert_eq!(cursor.unaccounted(), 0, "{cursor:?}");
        }
    }

    fn step(&mut self) {
        let drain = self.random.u64(..DRAINS);
        match self.random.u8(..100) {
            0..20 => self.append(),
            20..40 => {
                let steps = self.random.usize(1..6);
                self.write(steps);
            }
            40..55 => {
                self.pump();
            }
            55..65 => self.life.as_mut().unwrap().pump.tick(false),
            65..90 => self.send(drain),
            90..94 => self.clock.advance(Duration::from_millis(self.random.u64(..1500))),
            94..97 => {
                let receiver = self.receivers.get_mut(&drain).unwrap();
                receiver.is_down = !receiver.is_down;
            }
            97 => {
                let is_paused = self.random.bool();
                self.life.as_ref().unwrap().pump.core.borrow_mut().pause(drain, is_paused);
            }
            98 if self.is_killed && self.random.u8(..4) == 0 => self.kill(false),
            // The simulated disk may have freed space in use again after a power loss.
            99 if self.is_killed && self.random.u8(..8) == 0 => self.kill(self.capacity.is_none()),
            _ => {}
        }
        self.check();
    }

    /// Lets time pass.
    fn turn(&mut self) {
        self.turn_of(DRAINS);
    }

    /// Lets time pass, in which only the first `sending` drains send.
    fn turn_of(&mut self, sending: u64) {
        self.write(20);
        self.pump();
        self.life.as_mut().unwrap().pump.tick(false);
        for drain in 0..sending {
            self.send(drain);
            self.send(drain);
        }
        self.clock.advance(Duration::from_millis(100));
        self.check();
    }

    /// All drains but one are up and receive whatever is sent.
    fn go_on_beside_one_that_is_down(&mut self) {
        for drain in 0..DRAINS {
            self.receivers.get_mut(&drain).unwrap().is_down = drain == 0;
            self.life.as_ref().unwrap().pump.core.borrow_mut().pause(drain, false);
        }
        // More than fits arrives before any drain counts as late.
        for _ in 0..900 {
            self.append();
            self.write(20);
            self.pump();
            self.clock.advance(Duration::from_millis(2));
        }
        let accepted = |world: &Self| world.accepted.values().map(BTreeSet::len).sum::<usize>();
        let goal = accepted(self) + 8000;
        for _ in 0..4000 {
            self.append();
            self.turn();
            if accepted(self) >= goal {
                return;
            }
        }
        let ledger = self.life.as_ref().unwrap().journal.ledger();
        panic!("a drain that is down holds up the sources: {ledger:#?}");
    }

    /// Lets everything arrive.
    fn finish(&mut self) {
        if self.capacity.is_some() {
            self.go_on_beside_one_that_is_down();
        }
        for drain in 0..DRAINS {
            self.receivers.get_mut(&drain).unwrap().is_down = false;
            self.life.as_ref().unwrap().pump.core.borrow_mut().pause(drain, false);
        }
        for _ in 0..4000 {
            self.turn();
            let ledger = self.life.as_ref().unwrap().journal.ledger();
            if ledger.cursors.iter().all(|cursor| cursor.in_flight == 0) {
                self.judge();
                return self.judge_restart();
            }
        }
        let ledger = self.life.as_ref().unwrap().journal.ledger();
        panic!("not everything was settled: {:#?}", ledger.cursors);
    }

    fn judge(&self) {
        self.check();
        let life = self.life.as_ref().unwrap();
        let core = life.pump.core.borrow();
        let ledger = life.journal.ledger();
        let book = ledger.cursors.iter().find(|cursor| cursor.name == "drains").unwrap().book;
        // The first drains have different applications.
        let routed = (0..APPS).map(|drain| core.drains[&drain].book.routed).sum::<u64>();
        // What a power failure took from the journal is in no drain's book, unless it had been
        // moved.
        let lost = [DiscardReason::Vanished, DiscardReason::Damaged];
        let lost: u64 = lost.map(|reason| book.discarded[reason as usize]).iter().sum();
        let counted = routed + book.unbound;
        let is_exact = (counted..=counted + lost).contains(&book.routed);
        assert!(is_exact, "{counted}: a book has every record once: {book:?}");
        for drain in APPS..DRAINS {
            let routed = core.drains[&drain].book.routed;
            let of_same = core.drains[&app_of(drain)].book.routed;
            let counts = format!("{drain}: {routed}, of the same application: {of_same}");
            assert!(routed.abs_diff(of_same) <= lost, "{counts}");
        }
        for (id, receiver) in &self.receivers {
            let drain = &core.drains[id];
            assert_eq!(drain.book.waiting, 0, "{id}: {:?}", drain.book);
            let discarded = drain.book.discarded_total();
            let delivered = drain.book.delivered;
            assert!(delivered <= receiver.seen.len() as u64, "{id}: {:?}", drain.book);
            let empty = BTreeSet::new();
            let missing = |of: &BTreeMap<u64, BTreeSet<u64>>| {
                let all = of.get(&app_of(*id)).unwrap_or(&empty);
                all.difference(&receiver.seen).count() as u64
            };
            if !self.is_killed {
                assert_eq!(missing(&self.appended), discarded, "{id}: {:?}", drain.book);
            }
            let missing = missing(&self.accepted);
            assert!(missing <= discarded, "{id}: {missing} missing, {discarded} discarded");
        }
    }
}

impl World {
    /// Restarts after everything was settled, and compares the books.
    fn judge_restart(&mut self) {
        self.write(20);
        let books = |world: &Self| -> BTreeMap<u64, DrainBook> {
            let core = world.life.as_ref().unwrap().pump.core.borrow();
            core.drains.iter().map(|(id, drain)| (*id, drain.book)).collect()
        };
        let before = books(self);
        // Records that were delivered while they were moved may have been discarded in the stream.
        let stream_lost = |id: u64| {
            let lagging = &self.life.as_ref().unwrap().pump.lagging;
            lagging.memory().part(stream_of(id).0).discarded.iter().sum::<u64>()
        };
        let stream_lost: BTreeMap<u64, u64> = (0..DRAINS).map(|id| (id, stream_lost(id))).collect();
        self.kill(false);
        for (id, after) in books(self) {
            let before = before[&id];
            assert_eq!((after.routed, after.waiting), (before.routed, 0), "{id}: {before:?}");
            assert!(after.delivered <= before.delivered, "{id}: {before:?}, then {after:?}");
            if before.discarded_total() + stream_lost[&id] == 0 && !self.is_killed {
                assert_eq!((after.delivered, after.moved), (before.delivered, before.moved));
            }
        }
        self.check();
    }
}

/// Returns the number in a record, and checks whose it is.
fn number_of(row: &Row, app: u64) -> u64 {
    let mut envelopes = Envelopes::new(Arc::new(SourceNames::default()));
    let bytes = envelopes.of(row).to_vec();
    let mut tags = weir_codec::LoggregatorTags::default();
    let envelope = weir_codec::LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
    assert_eq!(envelope.source_id, format!("app-{app}").as_bytes());
    let weir_codec::LoggregatorMessage::Log { payload, .. } = envelope.message else {
        panic!("not a log")
    };
    let text = std::str::from_utf8(payload).unwrap().split(';').next().unwrap();
    let (of, number) = text.split_once('/').unwrap();
    assert_eq!(of, app.to_string());
    number.parse().unwrap()
}

fn history(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..2500 {
        world.step();
    }
    world.finish();
}

/// Histories in which a batch was finished while earlier and later ones were put back.
const FINISHED_BETWEEN: [u64; 2] = [1_010_604, 1_010_793];

/// The seeds to try: those of the environment, or a few and those that have found faults.
fn seeds() -> impl Iterator<Item = u64> {
    let of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let from = of("WEIR_DRAINS_FROM").unwrap_or(0);
    let count = of("WEIR_DRAINS_SEEDS");
    let found = FINISHED_BETWEEN.into_iter().filter(move |_| count.is_none());
    (from..from + count.unwrap_or(60)).chain(found)
}

#[test]
fn drains_lose_nothing_repeat_nothing_and_keep_the_order_in_every_history() {
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| history(seed));
        if let Err(panic) = result {
            let text = panic.downcast_ref::<String>().map_or("", String::as_str);
            panic!("seed {seed}: {text}");
        }
    }
}

#[test]
fn a_drain_that_has_accepted_a_part_of_a_batch_does_not_keep_a_small_disk_full() {
    // A small disk.
    let mut world = World::new(4);
    world.capacity = Some(CAPACITIES[0]);
    world.is_killed = false;
    world.kill(false);
    for drain in 0..DRAINS {
        world.receivers.get_mut(&drain).unwrap().is_down = drain == 0;
    }
    let mut has_accepted = false;
    for _ in 0..1000 {
        world.append();
        world.write(20);
        world.pump();
        let now = world.clock.monotonic();
        let core = world.life.as_ref().unwrap().pump.core.clone();
        let is_lagging = core.borrow().drains[&0].mode == Mode::Lagging;
        let rows = if is_lagging { core.borrow_mut().chunk(0, now) } else { Vec::new() };
        if rows.len() > 1 {
            // It accepts one record, and then no more.
            let mut fates = vec![None; rows.len()];
            fates[0] = Some(Fate::Delivered);
            core.borrow_mut().sent(0, &fates, Some("refused".to_owned()), now);
            has_accepted = true;
            break;
        }
        // It may be tried again at once.
        core.borrow_mut().sent(0, &vec![None; rows.len()], None, now);
        world.turn();
    }
    assert!(has_accepted);
    world.go_on_beside_one_that_is_down();
    let core = world.life.as_ref().unwrap().pump.core.borrow();
    let book = &core.drains[&0].book;
    assert!(book.discarded[DiscardReason::BufferFull as usize] > 0, "{book:?}");
}

#[test]
fn a_batch_that_was_finished_between_others_that_are_put_back_is_counted_once() {
    let mut world = World::new(0);
    (world.capacity, world.bytes_max, world.is_killed) = (None, 16 * MIB, false);
    world.kill(false);
    let drain = DRAINS - 1;
    let core = world.life.as_ref().unwrap().pump.core.clone();
    let batches = || {
        let core = core.borrow();
        let mut batches: Vec<_> = core.drains[&drain].queue.iter().map(|row| &row.taken).collect();
        batches.dedup_by(|one, next| Rc::ptr_eq(one, next));
        if core.drains[&drain].mode == Mode::Lagging { batches.len() } else { 0 }
    };
    // It sends nothing until it has taken three batches from its stream.
    while batches() < 3 {
        assert!(world.next < 10_000, "the drain takes nothing from its stream");
        world.append();
        world.turn_of(drain);
    }
    // With several requests in flight, only the one with the second batch is accepted.
    let now = world.clock.monotonic();
    let rows = core.borrow_mut().chunk(drain, now);
    let second = rows.iter().find(|row| !Rc::ptr_eq(&row.taken, &rows[0].taken)).unwrap();
    let is_second = |row: &Row| Rc::ptr_eq(&row.taken, &second.taken);
    let fates: Vec<_> = rows.iter().map(|row| is_second(row).then_some(Fate::Delivered)).collect();
    assert_eq!((fates[0], fates[rows.len() - 1]), (None, None));
    let receiver = world.receivers.get_mut(&drain).unwrap();
    let numbers = rows.iter().filter(|row| is_second(row)).map(|row| number_of(row, app_of(drain)));
    receiver.seen.extend(numbers);
    core.borrow_mut().sent(drain, &fates, Some("refused".to_owned()), now);
    // What can be put back is.
    world.life.as_mut().unwrap().pump.tick(false);
    assert!(batches() < 2);
    world.finish();
    let core = world.life.as_ref().unwrap().pump.core.borrow();
    let book = core.drains[&drain].book;
    assert_eq!(book.discarded[DiscardReason::BufferFull as usize], 0, "{book:?}");
}
