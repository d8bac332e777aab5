//! Files of numbered records, a journal that reads them, and a store that keeps them. Each runs
//! only when told to, on one thread, so every run is reproducible.
//!
//! Record `n` of a stream occupies the bytes `n * STEP .. (n + 1) * STEP` of its file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_codec::Renames;
use weir_journal::{
    Cursor, CursorMemory, CursorSpec, Journal, JournalConfig, JournalWriter, StreamSpec, WhenFull,
    WritePolicy,
};
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
    StreamId,
};
use weir_testkit::{FakeClock, FaultyDisk};

use crate::embedded::columns::StoredRecord;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::Segment;
use crate::embedded::store::{EmbeddedStore, StoreConfig};
use crate::embedded::write::flusher::{Flusher, Step};
use crate::embedded::write::head::Upstream;
use crate::embedded::write::threads::{IntakeWorker, Wait};
use crate::query::TimeRange;

pub(super) const STEP: u64 = 16;
const MIB: u64 = 1024 * 1024;
pub(super) const DIR: &str = "/data/store";

/// A file that can be read again, and its state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct File {
    /// Number of records in it.
    pub(super) written: u64,
    /// The next record to read.
    pub(super) next: u64,
    pub(super) is_deleted: bool,
    /// The deletion of its records was confirmed.
    pub(super) is_deletion_confirmed: bool,
}

/// Everything that lives as long as the process.
pub(super) struct Process {
    pub(super) journal: Journal,
    pub(super) writer: Arc<Mutex<JournalWriter>>,
    pub(super) store: Arc<EmbeddedStore>,
    pub(super) intake: IntakeWorker,
    pub(super) flusher: Flusher,
    pub(super) clock: FakeClock,
    /// Another destination besides the store.
    pub(super) other: Option<Cursor>,
}

pub(super) fn config() -> StoreConfig {
    StoreConfig {
        dir: DIR.into(),
        head_bytes: 8 * MIB,
        flush_interval: Duration::from_mins(1),
        retention: None,
        retention_bytes: None,
        level: 1,
        free_bytes_min: 0,
        flush_bytes_reserved: 0,
        renames: Renames::default(),
        received_of: BTreeSet::new(),
    }
}

fn journal_config() -> JournalConfig {
    JournalConfig {
        dir: "/data/journal".into(),
        ring_bytes: 8 * MIB,
        bytes_max: 256 * MIB,
        free_bytes_min: 0,
        segment_bytes: MIB,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(2),
        spill_after: Duration::from_millis(20),
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
        verify_time_max: Duration::from_secs(1),
    }
}

/// The journal's memory; the journal's writer runs while the store waits for it.
struct Stepped {
    memory: CursorMemory,
    journal: Journal,
    writer: Arc<Mutex<JournalWriter>>,
    clock: FakeClock,
}

impl Upstream for Stepped {
    fn committed(&self, stream: StreamId) -> Option<Position> {
        self.memory.committed(stream)
    }

    fn flush(&self) -> Result<(), String> {
        self.clock.advance(Duration::from_secs(1));
        run_writer(&self.writer);
        self.journal.ledger().journal.disk_error.map_or(Ok(()), Err)
    }

    fn request_space(&self) -> u64 {
        self.memory.request_space()
    }
}

fn run_writer(writer: &Mutex<JournalWriter>) {
    let mut writer = writer.lock().unwrap();
    for _ in 0..1000 {
        if writer.step() != weir_journal::Step::Worked {
            return;
        }
    }
}

impl Process {
    /// Starts as weir does; `None` when the machine stopped in the meantime.
    pub(super) fn start(
        disk: &FaultyDisk,
        config: StoreConfig,
        files: &mut BTreeMap<u64, File>,
        has_other: bool,
    ) -> Option<Self> {
        let clock = FakeClock::default();
        let (shared_disk, shared_clock) = (Arc::new(disk.clone()), Arc::new(clock.clone()));
        let opened =
            Journal::open_with_writer(journal_config(), shared_disk.clone(), shared_clock.clone());
        let (journal, writer) = opened.ok().filter(|_| !disk.is_dead())?;
        journal.register_source("app");
        let cursor = |name: &str| {
            let spec = CursorSpec {
                name: name.to_owned(),
                when_full: WhenFull::Block,
                buffer_bytes_max: 64 * MIB,
                window_bytes: 16 * MIB,
            };
            journal.cursor(spec).unwrap()
        };
        let store_cursor = cursor("store");
        let other = has_other.then(|| cursor("other"));
        let store = EmbeddedStore::open(config, shared_disk, shared_clock);
        let store = Arc::new(store.ok().filter(|_| !disk.is_dead())?);
        let writer = Arc::new(Mutex::new(writer));
        let upstream = Stepped {
            memory: store_cursor.memory(),
            journal: journal.clone(),
            writer: writer.clone(),
            clock: clock.clone(),
        };
        let (intake, flusher) = store.parts_with(store_cursor, Box::new(upstream))?;
        for (stream, file) in &mut *files {
            let spec = spec_of(*stream, file.is_deleted);
            if file.is_deleted {
                continue;
            }
            file.next = journal.open_stream(&spec).position.offset / STEP;
        }
        journal.release_unclaimed();
        Some(Self { journal, writer, store, intake, flusher, clock, other })
    }

    /// Reads up to `count` records of a file into the journal.
    pub(super) fn read(&self, stream: u64, file: &mut File, count: u64) {
        let count = count.min(file.written - file.next);
        if count == 0 {
            return;
        }
        let mask = if self.other.is_some() { 0b11 } else { 1 };
        let batch = batch(stream, file.next, count, mask);
        let policy = if file.is_deleted { WritePolicy::OnAppend } else { WritePolicy::OnLag };
        if self.journal.append(batch, policy).is_ok() {
            file.next += count;
        }
    }

    /// Reads the remaining records of all files, and then does all pending work.
    pub(super) fn read_on(&mut self, files: &mut BTreeMap<u64, File>) {
        for (stream, file) in files {
            self.read(*stream, file, 1000);
        }
        self.drain_other();
        self.run_on();
    }

    pub(super) fn write_journal(&self) {
        self.clock.advance(Duration::from_millis(10));
        run_writer(&self.writer);
    }

    /// Does what the threads do until there is nothing left to do. Returns false on failure.
    pub(super) fn run(&mut self) -> bool {
        for _ in 0..100_000 {
            let wait = self.intake.step();
            let step = self.flusher.step();
            if step == Step::Idle && (wait == Wait::Ended || matches!(wait, Wait::Records(_))) {
                self.write_journal();
                return true;
            }
            if let Step::Failed(_) = step {
                return false;
            }
        }
        panic!("the work does not end");
    }

    /// Like [`Self::run`], retrying after any number of failures.
    pub(super) fn run_on(&mut self) {
        for _ in 0..50 {
            if self.run() {
                return;
            }
            self.clock.advance(Duration::from_secs(20));
        }
        panic!("it keeps failing: {:?}", self.store.metrics().error);
    }

    /// Flushes the head to a segment.
    pub(super) fn flush(&mut self) -> bool {
        self.intake.step();
        self.clock.advance(Duration::from_secs(61));
        self.run()
    }

    pub(super) fn records(&self) -> Vec<StoredRecord> {
        records_of(&self.store.snapshot(TimeRange::ALL))
    }

    /// Deletes a file: its remaining records are appended and must be made durable.
    pub(super) fn delete(&self, stream: u64, file: &mut File) {
        self.journal.persist_stream(StreamId(stream));
        file.is_deleted = true;
        self.read(stream, file, u64::MAX);
        self.journal.close_stream(StreamId(stream));
    }

    pub(super) fn drain_other(&mut self) {
        let Some(other) = &mut self.other else { return };
        while let Some(delivery) = other.take_blocking(|_| false) {
            other.ack(&delivery, weir_journal::Outcome::delivered(delivery.record_count));
        }
    }
}

fn spec_of(stream: u64, gone: bool) -> StreamSpec<'static> {
    StreamSpec {
        stream: StreamId(stream),
        group: 0,
        source: SourceId::of("app"),
        start: Position::default(),
        state: b"",
        book: SourceBook::default(),
        gone,
    }
}

pub(super) fn batch(stream: u64, first: u64, count: u64, mask: u64) -> Batch {
    let mut builder = BatchBuilder::new(Position::new(0, first * STEP));
    for n in first..first + count {
        let body = builder.append(body_of(stream, n).as_bytes()).unwrap();
        let record = NewRecord {
            timestamp_ns: n as i64 * 1_000_000,
            end_offset: (n + 1) * STEP,
            body,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.resource(0, br#"{"service.name":"web"}"#).unwrap();
    builder.route_all(&(0..2).filter(|cursor| mask >> cursor & 1 == 1).collect::<Vec<u16>>());
    let end = first + count;
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(stream),
        group: 0,
        source: SourceId::of("app"),
        end: Position::new(0, end * STEP),
        observed_ns: arrival_of(first),
        rule_generation: 1,
        book: &SourceBook {
            lines: end,
            records: end,
            bytes_read: end * STEP,
            ..SourceBook::default()
        },
        state: b"",
    })
}

/// Returns when a batch arrives whose first record has this number: five seconds after its event.
pub(super) fn arrival_of(first: u64) -> i64 {
    first as i64 * 1_000_000 + 5_000_000_000
}

/// Streams from this number on contain secrets.
pub(super) const SECRET_STREAM: u64 = 3;

fn body_of(stream: u64, n: u64) -> String {
    match stream {
        SECRET_STREAM.. => format!("{stream}/{n} password=hunter{n}"),
        _ => format!("{stream}/{n}"),
    }
}

pub(super) fn segment_records(segment: &Segment) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    let add = |record| {
        records.push(record);
        Ok(())
    };
    segment.for_each_record(add).unwrap();
    records
}

pub(super) fn records_of(snapshot: &Snapshot) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    for (chunk, rows) in &snapshot.chunks {
        let chunk = chunk.read();
        records.extend((0..*rows).filter_map(|row| chunk.record(row)));
    }
    for open in &snapshot.segments {
        records.extend(segment_records(&open.segment));
    }
    records
}

/// Counts how often each record exists, by stream and number.
pub(super) fn count_records(records: &[StoredRecord]) -> BTreeMap<(u64, u64), u32> {
    let mut counts = BTreeMap::new();
    for record in records {
        let (stream, n) = (record.stream.0, record.position.offset / STEP - 1);
        assert_eq!(record.message.as_deref(), Some(body_of(stream, n).as_str()));
        *counts.entry((stream, n)).or_insert(0) += 1;
    }
    counts
}

/// Asserts that every record of the files exists exactly once, and nothing else does.
#[track_caller]
pub(super) fn assert_each_once(records: &[StoredRecord], files: &BTreeMap<u64, File>, shown: &str) {
    let counts = count_records(records);
    for (record, count) in &counts {
        assert_eq!(*count, 1, "{shown}: {record:?} exists {count} times");
    }
    for (stream, file) in files {
        for n in 0..file.written {
            assert!(
                counts.contains_key(&(*stream, n)),
                "{shown}: {stream}/{n} was lost ({file:?})"
            );
        }
    }
    let sequences: std::collections::BTreeSet<u64> = records.iter().map(|r| r.sequence).collect();
    assert_eq!(sequences.len(), records.len(), "sequences are unique");
}

pub(super) fn files(count: u64, written: u64) -> BTreeMap<u64, File> {
    (1..=count).map(|stream| (stream, File { written, ..File::default() })).collect()
}

pub(super) fn names(disk: &FaultyDisk, extension: &str) -> Vec<String> {
    let paths = disk.names().into_iter().filter(|path| path.starts_with(Path::new(DIR)));
    let matching = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
    matching.map(|path| path.file_name().unwrap().display().to_string()).collect()
}
