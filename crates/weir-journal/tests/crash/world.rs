//! The model: files that can be read again, connections that cannot, two destinations that remember
//! what they received, and what the journal has confirmed to each source.
//!
//! Time advances only where the seed moves it, and the journal's writer runs only where the seed
//! allows it, from one disk call to the next. So a seed is the same history on every machine, and
//! anything can happen between any two calls.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use weir_journal::{
    Cursor, Delivery, Held, Journal, JournalConfig, Outcome, RefusedReason, StreamSpec, WritePolicy,
};
use weir_model::{Position, SourceBook, StreamId};
use weir_testkit::{FakeClock, Fault, FaultKind, FaultyDisk, Moment, Pause};

use crate::support::{
    HeldWriter, KIB, MIB, Part, STEP, assert_books_balance, book_of, config, cursor, open_gone,
    parse_body, source, state_of, until,
};

/// The settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) files: u64,
    /// Files may be deleted while they are being read.
    pub(crate) unlink: bool,
    pub(crate) connections: u64,
    /// A destination may be missing in some runs.
    pub(crate) removal: bool,
}

type Ticket = Pin<Box<dyn Future<Output = Result<(), RefusedReason>>>>;
/// A record: stream, epoch, number.
type Record = (u64, u32, u64);

const CURSORS: [&str; 2] = ["first", "second"];
/// Stream numbers of connections start here.
const CONNECTION: u64 = 100;

/// A file; its records are numbers, so it is never stored.
#[derive(Debug)]
struct File {
    stream: u64,
    /// Next record to read.
    next: u64,
    /// Furthest record ever read.
    read: u64,
    state: FileState,
    /// Destinations that existed when it was deleted: one that returns later finds nothing to read.
    owed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    There,
    /// Deleted; the rest was appended, and it is not known yet whether it is safe.
    Deleted,
    /// Deleted, and the journal confirmed that all of it is safe.
    Safe,
    /// Deleted, and the machine stopped before the journal confirmed it.
    Excused,
}

/// What one destination received.
#[derive(Debug, Default)]
struct Sink {
    got: BTreeSet<Record>,
    /// Received in this run of the process.
    got_now: BTreeSet<Record>,
    /// Acknowledged to the journal in this run.
    acked: BTreeSet<Record>,
    /// Acknowledged, and the journal confirmed that this is durable.
    durable: BTreeSet<Record>,
    in_hand: Vec<Delivery>,
    /// What it holds itself, and the records that this represents.
    held: (Held, Vec<Record>),
    /// Last record of every stream in this run of the process.
    last: BTreeMap<u64, (u32, u64)>,
}

impl Sink {
    fn settle_held(&mut self, cursor: &mut Cursor) {
        let (held, records) = std::mem::take(&mut self.held);
        self.got.extend(&records);
        self.acked.extend(&records);
        cursor.ack_held(held);
    }
}

/// Everything that lives as long as the process. The writer comes last: it ends when the others are
/// gone.
struct Process {
    journal: Journal,
    /// `None` for a destination that is not configured in this run.
    cursors: Vec<Option<Cursor>>,
    /// Bits of those that are.
    present: u64,
    /// Tickets with the records that they represent, and the file that is deleted.
    tickets: Vec<(Ticket, Vec<Record>, u64)>,
    /// Next record of every connection in this run.
    sent: BTreeMap<u64, u64>,
    writer: HeldWriter,
}

/// What happened, line by line; printed when the history fails.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn note(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct World {
    rng: Rng,
    trace: Trace,
    disk: FaultyDisk,
    boot: u32,
    files: Vec<File>,
    connections: u64,
    unlink: bool,
    removal: bool,
    /// Both destinations are certainly known: a new one would start from now on.
    both_known: bool,
    sinks: Vec<Sink>,
    /// Records whose ticket resolved, with the destinations that they were routed to.
    promised: BTreeSet<(Record, u64)>,
}

fn mask(stream: u64) -> u64 {
    [0b11, 0b01, 0b10][(stream % 3) as usize]
}

fn small(rng: &mut Rng) -> JournalConfig {
    JournalConfig {
        ring_bytes: rng.u64(4..64) * KIB,
        bytes_max: 64 * MIB,
        segment_bytes: rng.u64(1..16) * KIB,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_micros(rng.u64(0..2000)),
        spill_after: Duration::from_micros(rng.u64(0..2000)),
        ..config("/data/journal")
    }
}

impl World {
    pub(crate) fn run(seed: u64, settings: &Settings, trace: &Trace) {
        let file =
            |stream| File { stream, next: 0, read: 0, state: FileState::There, owed: mask(stream) };
        let mut world = Self {
            rng: Rng::with_seed(seed),
            trace: trace.clone(),
            disk: FaultyDisk::new(),
            boot: 0,
            files: (1..=settings.files).map(file).collect(),
            connections: settings.connections,
            unlink: settings.unlink,
            removal: settings.removal,
            both_known: false,
            sinks: vec![Sink::default(), Sink::default()],
            promised: BTreeSet::new(),
        };
        for _ in 0..world.rng.u32(1..5) {
            world.live_and_die();
        }
        world.finish();
    }

    /// Simulates one run of the process that ends in a crash, or normally.
    fn live_and_die(&mut self) {
        let is_missing = self.removal && self.both_known && self.rng.u8(..3) == 0;
        let Some(mut process) = self.boot(if is_missing { 0b01 } else { 0b11 }) else { return };
        let crash_later = self.rng.u8(..3) > 0;
        if crash_later {
            let n = self.rng.u64(1..40);
            self.disk.inject(Fault::new(FaultKind::Crash).nth(n));
        }
        for _ in 0..self.rng.u32(5..60) {
            self.let_write(&process.writer);
            self.step(&mut process);
            if self.disk.is_dead() {
                break;
            }
        }
        if !crash_later && self.rng.bool() {
            process.journal.shutdown();
            while process.writer.thread.resume() {}
        }
        let next = if self.rng.u8(..4) == 0 && !self.disk.is_dead() {
            self.disk.kill()
        } else {
            self.disk.crash(self.rng.u64(..))
        };
        self.collect_tickets(&mut process);
        self.disk = next;
        for file in &mut self.files {
            if file.state == FileState::Deleted {
                file.state = FileState::Excused;
            }
        }
    }

    /// Lets some time pass, and the writer perform some disk calls.
    fn let_write(&mut self, writer: &HeldWriter) {
        if self.rng.bool() {
            writer.clock.advance(Duration::from_micros(self.rng.u64(0..2000)));
        }
        for _ in 0..self.rng.u32(0..8) {
            writer.thread.resume();
        }
    }

    /// Opens the journal as a starting weir does; the machine may stop in the middle of that.
    fn boot(&mut self, present: u64) -> Option<Process> {
        if self.boot > 0 && self.rng.u8(..3) == 0 {
            let n = self.rng.u64(1..12);
            self.disk.inject(Fault::new(FaultKind::Crash).nth(n));
        }
        self.boot += 1;
        let clock = FakeClock::default();
        let pause = Pause::new();
        let here = pause.clone();
        let trace = self.trace.clone();
        self.disk.watch(move |call, path, moment| {
            if moment == Moment::Before {
                let name = path.file_name().unwrap_or_default().display();
                trace.note(format!("  {call:?} {name}"));
            }
            here.pause();
        });
        self.trace.note(format!("boot {} of {present:b}", self.boot));
        let disk = Arc::new(self.disk.clone());
        let config = small(&mut self.rng);
        let opened = Journal::open_with_writer(config, disk, Arc::new(clock.clone()));
        if self.disk.is_dead() {
            drop(opened);
            self.disk = self.disk.crash(self.rng.u64(..));
            return None;
        }
        let (journal, writer) = opened.expect("a disk without faults opens");
        Some(self.start(journal, HeldWriter::start(writer, &pause, clock), present))
    }

    fn start(&mut self, journal: Journal, writer: HeldWriter, present: u64) -> Process {
        journal.register_source("app");
        let open = |(n, name)| (present >> n & 1 == 1).then(|| cursor(&journal, name));
        let cursors = CURSORS.into_iter().enumerate().map(open).collect();
        for sink in &mut self.sinks {
            sink.in_hand.clear();
            sink.held = Default::default();
            sink.last.clear();
            sink.got_now.clear();
            sink.acked.clear();
        }
        for file in &mut self.files {
            if file.state == FileState::There {
                open_file(&journal, file);
            }
        }
        let mut known_streams = journal.known_streams(source());
        known_streams.sort_unstable_by_key(|known| known.stream);
        for known in known_streams {
            let gone = |f: &File| f.stream == known.stream.0 && f.state != FileState::There;
            if self.files.iter().any(gone) {
                if self.rng.bool() {
                    open_gone(&journal, known.stream.0);
                }
                journal.close_stream(known.stream);
            }
        }
        for stream in (0..self.connections).filter(|n| n % 2 == 0).map(|n| CONNECTION + n) {
            open_connection(&journal, stream, self.boot);
        }
        journal.release_unclaimed();
        assert_books_balance(&journal);
        Process { journal, cursors, present, tickets: Vec::new(), sent: BTreeMap::new(), writer }
    }

    fn step(&mut self, process: &mut Process) {
        let what = self.rng.u8(..20);
        self.trace.note(format!("step {what}"));
        match what {
            0..=5 => self.read_file(process),
            6..=8 => self.receive(process),
            9..=12 => self.take(process),
            13..=14 => self.ack(process),
            15 if self.rng.u8(..4) == 0 => self.ack_held(process),
            15 | 16 => self.hold(process),
            17 => self.flush(process),
            18 => self.wait_for_ticket(process),
            _ if self.unlink && self.rng.bool() => self.unlink_file(process),
            _ => assert_books_balance(&process.journal),
        }
        self.collect_tickets(process);
    }

    fn read_file(&mut self, process: &mut Process) {
        let there = |f: &&mut File| f.state == FileState::There;
        let mut files: Vec<&mut File> = self.files.iter_mut().filter(there).collect();
        if files.is_empty() {
            return;
        }
        let file = files.swap_remove(self.rng.usize(..files.len()));
        let (count, padding) = (self.rng.u64(1..12), self.rng.usize(..200));
        append_file(process, file, count, padding);
    }

    fn receive(&mut self, process: &mut Process) {
        if self.connections == 0 {
            return;
        }
        let number = self.rng.u64(..self.connections);
        // Every other one has the same stream in every run; the others are unknown to the journal.
        let again = if number.is_multiple_of(2) { 0 } else { u64::from(self.boot) * CONNECTION };
        let stream = CONNECTION + number + again * 3;
        let first = process.sent.get(&stream).copied().unwrap_or(0);
        let (count, padding) = (self.rng.u64(1..6), self.rng.usize(..200));
        let part = Part::new(stream, first, count)
            .mask(mask(stream) & process.present)
            .padding(padding)
            .epoch(self.boot, 0)
            .unrepeatable();
        if let Ok(ticket) = process.journal.append(part.build(), WritePolicy::OnAppend) {
            process.sent.insert(stream, first + count);
            let records = (first..first + count).map(|n| (stream, self.boot, n)).collect();
            process.tickets.push((Box::pin(ticket.durable()), records, 0));
        }
    }

    /// Appends the rest of a deleted file; it is safe when the last ticket resolves.
    fn unlink_file(&mut self, process: &mut Process) {
        let all_read = |f: &&mut File| f.state == FileState::There && f.next == f.read;
        let Some(file) = self.files.iter_mut().find(all_read) else { return };
        process.journal.persist_stream(StreamId(file.stream));
        let mask = mask(file.stream) & process.present;
        let part = Part::new(file.stream, file.next, 3).mask(mask);
        let appended = process.journal.append(part.build(), WritePolicy::OnAppend);
        if let Ok(ticket) = appended {
            file.owed &= mask;
            file.next += 3;
            file.read = file.read.max(file.next);
            file.state = FileState::Deleted;
            process.tickets.push((Box::pin(ticket.durable()), Vec::new(), file.stream));
            process.journal.close_stream(StreamId(file.stream));
        }
    }

    fn take(&mut self, process: &mut Process) {
        let index = self.rng.usize(..CURSORS.len());
        let sink = &mut self.sinks[index];
        let Some(cursor) = &mut process.cursors[index] else { return };
        let Some(delivery) = cursor.take_blocking(|_| false) else { return };
        self.trace.note(format!("{index} takes {:?}", records(&delivery)));
        for record in records(&delivery) {
            assert!(!sink.durable.contains(&record), "{record:?} was committed but came again");
            let last = sink.last.insert(record.0, (record.1, record.2));
            assert!(last.is_none_or(|l| l < (record.1, record.2)), "{record:?} after {last:?}");
            sink.got_now.insert(record);
        }
        sink.in_hand.push(delivery);
    }

    fn ack(&mut self, process: &mut Process) {
        let index = self.rng.usize(..CURSORS.len());
        let sink = &mut self.sinks[index];
        let Some(cursor) = process.cursors[index].as_mut().filter(|_| !sink.in_hand.is_empty())
        else {
            return;
        };
        let delivery = sink.in_hand.remove(self.rng.usize(..sink.in_hand.len()));
        self.trace.note(format!("{index} has {:?}", records(&delivery)));
        sink.got.extend(records(&delivery));
        sink.acked.extend(records(&delivery));
        cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
    }

    fn hold(&mut self, process: &mut Process) {
        let index = self.rng.usize(..CURSORS.len());
        let sink = &mut self.sinks[index];
        let Some(cursor) = process.cursors[index].as_mut() else { return };
        for _ in 0..self.rng.u32(..6).min(sink.in_hand.len() as u32) {
            let delivery = sink.in_hand.remove(self.rng.usize(..sink.in_hand.len()));
            self.trace.note(format!("{index} holds {:?}", records(&delivery)));
            sink.held.1.extend(records(&delivery));
            cursor.hold(&delivery, &mut sink.held.0);
        }
    }

    fn ack_held(&mut self, process: &mut Process) {
        let index = self.rng.usize(..CURSORS.len());
        let Some(cursor) = process.cursors[index].as_mut() else { return };
        self.trace.note(format!("{index} has {:?}", self.sinks[index].held.1));
        self.sinks[index].settle_held(cursor);
    }

    /// Acknowledged records without a gap before them are durable now.
    fn flush(&mut self, process: &mut Process) {
        let in_order: Vec<Vec<Record>> = self.sinks.iter().map(acked_without_hole).collect();
        process.writer.catch_up();
        if self.disk.is_dead() {
            return;
        }
        self.both_known |= process.present == 0b11;
        for (sink, records) in self.sinks.iter_mut().zip(in_order) {
            sink.durable.extend(records);
        }
    }

    fn wait_for_ticket(&mut self, process: &mut Process) {
        if process.tickets.is_empty() {
            return;
        }
        for (sink, cursor) in self.sinks.iter_mut().zip(process.cursors.iter_mut()) {
            if let Some(cursor) = cursor
                && cursor.take_settle_wanted()
            {
                sink.settle_held(cursor);
            }
        }
        process.writer.catch_up();
        self.collect_tickets(process);
        assert_eq!(process.tickets.len(), 0, "every ticket resolves in time");
    }

    fn collect_tickets(&mut self, process: &mut Process) {
        let mut context = Context::from_waker(Waker::noop());
        let present = process.present;
        process.tickets.retain_mut(|(ticket, records, file)| {
            match ticket.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => {
                    self.trace.note(format!("promised: {records:?}, file {file}"));
                    self.promised.extend(records.iter().map(|r| (*r, mask(r.0) & present)));
                    for f in self.files.iter_mut().filter(|f| f.stream == *file) {
                        if f.state == FileState::Deleted {
                            f.state = FileState::Safe;
                        }
                    }
                    false
                }
                Poll::Ready(Err(_)) => false,
            }
        });
    }

    /// No more faults: everything is read and delivered, and then compared.
    fn finish(&mut self) {
        let mut process = loop {
            if let Some(process) = self.boot(0b11) {
                break process;
            }
        };
        until("everything is delivered", || {
            process.writer.catch_up();
            for file in self.files.iter_mut().filter(|f| f.state == FileState::There) {
                if file.next < file.read {
                    let count = file.read - file.next;
                    append_file(&process, file, count.min(20), 0);
                }
            }
            for (sink, cursor) in self.sinks.iter_mut().zip(process.cursors.iter_mut().flatten()) {
                while let Some(delivery) = cursor.take_blocking(|_| false) {
                    sink.in_hand.push(delivery);
                }
                for delivery in std::mem::take(&mut sink.in_hand) {
                    sink.held.1.extend(records(&delivery));
                    cursor.hold(&delivery, &mut sink.held.0);
                }
                sink.settle_held(cursor);
            }
            let all_read = |f: &File| f.state != FileState::There || f.next >= f.read;
            let ledger = process.journal.ledger();
            self.files.iter().all(all_read) && ledger.cursors.iter().all(|c| c.in_flight == 0)
        });
        assert_books_balance(&process.journal);
        self.compare(&process.journal);
        process.journal.shutdown();
        while process.writer.thread.resume() {}
    }

    fn compare(&self, journal: &Journal) {
        for (index, sink) in self.sinks.iter().enumerate() {
            let mine = |mask: u64| mask >> index & 1 == 1;
            for (record, _) in self.promised.iter().filter(|(_, mask)| mine(*mask)) {
                assert!(sink.got.contains(record), "{record:?} was acknowledged and is lost");
            }
            let kept = |f: &&File| f.state != FileState::Excused && mine(f.owed);
            for file in self.files.iter().filter(kept) {
                for n in 0..file.read {
                    let record = (file.stream, 0, n);
                    assert!(sink.got.contains(&record), "{record:?} of {file:?} is lost");
                }
            }
        }
        if self.connections == 0 && !self.unlink {
            self.compare_counts(journal);
        }
    }

    fn compare_counts(&self, journal: &Journal) {
        let ledger = journal.ledger();
        for cursor in &ledger.cursors {
            let routed = |f: &&File| mask(f.stream) >> cursor.index & 1 == 1;
            let lines: u64 = self.files.iter().filter(routed).map(|f| f.read).sum();
            assert_eq!(cursor.book.delivered, lines, "{} has wrong counts", cursor.name);
        }
        let lines: u64 = self.files.iter().map(|f| f.read).sum();
        assert_eq!(ledger.sources[0].book, book_of(lines), "the source has wrong counts");
    }
}

fn records(delivery: &Delivery) -> Vec<Record> {
    delivery.records().map(|(_, record)| parse_body(record.body)).collect()
}

/// Returns the records of every stream that were acknowledged before the first one that was not.
fn acked_without_hole(sink: &Sink) -> Vec<Record> {
    let mut holes: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    for (stream, epoch, n) in sink.got_now.difference(&sink.acked) {
        let first = holes.entry(*stream).or_insert((*epoch, *n));
        *first = (*first).min((*epoch, *n));
    }
    let before = |r: &&Record| holes.get(&r.0).is_none_or(|hole| (r.1, r.2) < *hole);
    sink.acked.iter().filter(before).copied().collect()
}

fn append_file(process: &Process, file: &mut File, count: u64, padding: usize) {
    let mask = mask(file.stream) & process.present;
    let part = Part::new(file.stream, file.next, count).mask(mask).padding(padding);
    if process.journal.append(part.build(), WritePolicy::OnLag).is_ok() {
        file.next += count;
        file.read = file.read.max(file.next);
    }
}

fn open_file(journal: &Journal, file: &mut File) {
    let spec = StreamSpec {
        stream: StreamId(file.stream),
        group: 0,
        source: source(),
        start: Position::default(),
        state: &state_of(0, 0),
        book: SourceBook::default(),
        gone: false,
    };
    let resume = journal.open_stream(&spec);
    file.next = resume.position.offset / STEP;
    assert!(file.next <= file.read, "the journal knows more than was ever read");
    assert_eq!(resume.state, state_of(0, file.next), "the state is of another position");
    assert_eq!(resume.book, book_of(file.next), "the book is of another position");
}

fn open_connection(journal: &Journal, stream: u64, epoch: u32) {
    let spec = StreamSpec {
        stream: StreamId(stream),
        group: 0,
        source: source(),
        start: Position::new(epoch, 0),
        state: b"",
        book: SourceBook::default(),
        gone: false,
    };
    journal.open_stream(&spec);
}
