//! Common code of the journal's tests: files made of numbers, a source that reads them, a reader
//! that checks what it receives, and books that must balance after every step.
//!
//! Record `n` of a stream occupies the bytes `n * STEP .. (n + 1) * STEP` of its file, and its body
//! contains its number, so every delivery can be checked on its own.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_host::{Disk, RealClock};
use weir_journal::{
    Cursor, CursorSpec, Delivery, Journal, JournalConfig, JournalWriter, Outcome, ResumePoint,
    Step, StreamSpec, WhenFull,
};
use weir_model::{
    Batch, BatchBuilder, DiscardReason, NewRecord, Position, RecordFlags, Seal, Severity,
    SourceBook, SourceId, StreamId,
};

use weir_testkit::{FakeClock, Lockstep, Pause};

/// Size of a record in its file, in bytes.
pub(crate) const STEP: u64 = 16;
/// How long a test waits for something that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * 1024;

/// A part of a stream, to be made into a batch.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) stream: u64,
    pub(crate) epoch: u32,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Destination masks by record: record `n` goes to `masks[n % len]`.
    pub(crate) mask: u64,
    /// Bytes added to every body.
    pub(crate) padding: usize,
    pub(crate) repeatable: bool,
    pub(crate) group: u64,
    /// Lines read in earlier epochs, for the book.
    pub(crate) lines_before: u64,
    /// How many of those were lost before they were in any batch that survived.
    pub(crate) lost_before: u64,
    pub(crate) keys: Vec<u64>,
    /// Bytes after the padding, at a multiple of 8 in the frame.
    pub(crate) carries: Vec<u8>,
    /// Minimum size of the state in bytes.
    pub(crate) state_len: usize,
    /// When it arrived, nanoseconds since 1970.
    pub(crate) observed_ns: i64,
}

impl Part {
    pub(crate) fn new(stream: u64, first: u64, count: u64) -> Self {
        Self {
            stream,
            epoch: 0,
            first,
            count,
            mask: 1,
            padding: 0,
            repeatable: true,
            group: 0,
            lines_before: 0,
            lost_before: 0,
            keys: Vec::new(),
            carries: Vec::new(),
            state_len: 0,
            observed_ns: 1,
        }
    }

    pub(crate) fn arrived(mut self, observed_ns: i64) -> Self {
        self.observed_ns = observed_ns;
        self
    }

    pub(crate) fn mask(mut self, mask: u64) -> Self {
        self.mask = mask;
        self
    }

    pub(crate) fn padding(mut self, padding: usize) -> Self {
        self.padding = padding;
        self
    }

    pub(crate) fn epoch(mut self, epoch: u32, lines_before: u64) -> Self {
        self.epoch = epoch;
        self.lines_before = lines_before;
        self
    }

    pub(crate) fn lost(mut self, lost_before: u64) -> Self {
        self.lost_before = lost_before;
        self
    }

    pub(crate) fn unrepeatable(mut self) -> Self {
        self.repeatable = false;
        self
    }

    pub(crate) fn keys(mut self, keys: &[u64]) -> Self {
        self.keys = keys.to_vec();
        self
    }

    pub(crate) fn build(&self) -> Batch {
        let mut builder = BatchBuilder::new(Position::new(self.epoch, self.first * STEP));
        for n in self.first..self.first + self.count {
            let mut body = body(self.stream, self.epoch, n);
            body.extend(std::iter::repeat_n(b'.', self.padding));
            if !self.carries.is_empty() {
                body.resize(body.len().next_multiple_of(8), b'.');
                body.extend_from_slice(&self.carries);
            }
            push_record(&mut builder, n, &body);
        }
        for key in &self.keys {
            builder.resource(*key, b"{}").expect("few keys");
        }
        builder.route_all(&destinations(self.mask));
        let mut book = book_of(self.lines_before + self.first + self.count);
        book.records -= self.lost_before;
        book.discard(DiscardReason::Crash, self.lost_before);
        let mut state = state_of(self.epoch, self.first + self.count);
        state.resize(self.state_len.max(state.len()), b'.');
        builder.seal(&Seal {
            repeatable: self.repeatable,
            stream: StreamId(self.stream),
            group: self.group,
            source: source(),
            end: Position::new(self.epoch, (self.first + self.count) * STEP),
            observed_ns: self.observed_ns,
            rule_generation: 1,
            book: &book,
            state: &state,
        })
    }
}

/// Returns the destinations in a mask.
pub(crate) fn destinations(mask: u64) -> Vec<u16> {
    (0..64).filter(|index| mask >> index & 1 == 1).collect()
}

/// Adds record `n` of a stream whose records are [`STEP`] apart.
pub(crate) fn push_record(builder: &mut BatchBuilder, n: u64, body: &[u8]) {
    push_record_of(builder, n, 0, body);
}

/// Adds record `n`, of the resource with that number.
pub(crate) fn push_record_of(builder: &mut BatchBuilder, n: u64, resource: u16, body: &[u8]) {
    let body = builder.append(body).expect("the body fits");
    let record = NewRecord {
        resource,
        timestamp_ns: n as i64,
        end_offset: (n + 1) * STEP,
        body,
        severity: Severity::UNSPECIFIED,
        flags: RecordFlags::default(),
        ..NewRecord::default()
    };
    builder.push(&record).expect("the record fits");
}

/// Seals records up to `end` of a stream that cannot be read again.
pub(crate) fn sealed(builder: &mut BatchBuilder, stream: u64, end: u64) -> Batch {
    builder.seal(&Seal {
        repeatable: false,
        stream: StreamId(stream),
        group: 0,
        source: source(),
        end: Position::new(0, end * STEP),
        observed_ns: 1,
        rule_generation: 1,
        book: &book_of(end),
        state: &state_of(0, end),
    })
}

pub(crate) fn source() -> SourceId {
    SourceId::of("app")
}

pub(crate) fn body(stream: u64, epoch: u32, n: u64) -> Vec<u8> {
    format!("{stream}/{epoch}/{n};").into_bytes()
}

/// Parses a body: stream, epoch, number.
pub(crate) fn parse_body(body: &[u8]) -> (u64, u32, u64) {
    let text = body.split(|b| *b == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(text).expect("bodies begin with text");
    let mut fields = text.split('/');
    let mut next = || fields.next().expect("three fields").parse::<u64>().expect("numbers");
    (next(), next() as u32, next())
}

pub(crate) fn book_of(lines: u64) -> SourceBook {
    SourceBook { lines, records: lines, bytes_read: lines * STEP, ..SourceBook::default() }
}

pub(crate) fn state_of(epoch: u32, next: u64) -> Vec<u8> {
    format!("state {epoch} {next}").into_bytes()
}

/// Returns the configuration of a small journal in `dir`.
pub(crate) fn config(dir: impl Into<PathBuf>) -> JournalConfig {
    JournalConfig {
        dir: dir.into(),
        ring_bytes: 8 * MIB,
        bytes_max: 256 * MIB,
        free_bytes_min: 0,
        segment_bytes: MIB,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(2),
        spill_after: Duration::from_millis(20),
        merge_from_batches: 16,
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: Duration::from_secs(1),
    }
}

pub(crate) fn open(config: JournalConfig, disk: Arc<dyn Disk>) -> Journal {
    Journal::open(config, disk, Arc::new(RealClock::new())).expect("the journal opens")
}

pub(crate) fn cursor_spec(name: &str) -> CursorSpec {
    CursorSpec {
        name: name.to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 64 * MIB,
        window_bytes: 16 * MIB,
    }
}

pub(crate) fn cursor(journal: &Journal, name: &str) -> Cursor {
    journal.cursor(cursor_spec(name)).expect("a cursor")
}

/// Opens a stream that starts at the start of its file.
pub(crate) fn open_stream(journal: &Journal, stream: u64) -> ResumePoint {
    open_known(journal, stream, false)
}

/// Opens a stream whose file can no longer be read.
pub(crate) fn open_gone(journal: &Journal, stream: u64) -> ResumePoint {
    open_known(journal, stream, true)
}

fn open_known(journal: &Journal, stream: u64, gone: bool) -> ResumePoint {
    let spec = StreamSpec {
        stream: StreamId(stream),
        group: 0,
        source: source(),
        start: Position::default(),
        state: b"start",
        book: SourceBook::default(),
        gone,
    };
    journal.open_stream(&spec)
}

/// Takes one batch regardless of what is in flight.
pub(crate) fn take(cursor: &mut Cursor) -> Option<Delivery> {
    cursor.take_blocking(|_| false)
}

/// Returns the record numbers in a delivery, checking each body against the record's position.
pub(crate) fn numbers(delivery: &Delivery) -> Vec<u64> {
    let read = |(_, record): (usize, weir_model::RecordView<'_>)| {
        let (stream, epoch, n) = parse_body(record.body);
        assert_eq!(StreamId(stream), delivery.stream(), "a record of another stream");
        assert_eq!(record.position, Position::new(epoch, (n + 1) * STEP), "a wrong position");
        n
    };
    let numbers: Vec<u64> = delivery.records().map(read).collect();
    assert_eq!(numbers.len() as u64, delivery.record_count, "records and their count differ");
    numbers
}

/// Takes and acknowledges everything that is waiting; returns (stream, number) in order of
/// delivery.
pub(crate) fn drain(cursor: &mut Cursor) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    while let Some(delivery) = take(cursor) {
        all.extend(numbers(&delivery).into_iter().map(|n| (delivery.stream().0, n)));
        cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    all
}

/// Asserts that both books balance, and that what is pending is what is in flight.
#[track_caller]
pub(crate) fn assert_books_balance(journal: &Journal) {
    let ledger = journal.ledger();
    for cursor in &ledger.cursors {
        assert_eq!(
            cursor.unaccounted(),
            0,
            "the book of {} does not balance: {cursor:?}",
            cursor.name
        );
        assert!(cursor.taken <= cursor.in_flight, "{cursor:?}");
        if cursor.in_flight == 0 {
            assert_eq!(cursor.pending_bytes, 0, "bytes pending without records: {cursor:?}");
        }
    }
    for source in &ledger.sources {
        assert_eq!(source.book.unaccounted_lines(), 0, "source {}: {:?}", source.name, source.book);
    }
}

/// Waits for something that another thread does, without sleeping: yields until it is done.
#[track_caller]
pub(crate) fn until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !there() {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Runs a future to completion, within the deadline.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("in time") })
}

/// The journal's writer on a thread that runs only when told to, up to its next pause.
pub(crate) struct HeldWriter {
    pub(crate) thread: Lockstep,
    /// It found nothing to do.
    is_idle: Arc<AtomicBool>,
    pub(crate) clock: FakeClock,
}

/// Longer than any delay for grouping.
pub(crate) const ALL_IS_DUE: Duration = Duration::from_millis(10);

/// Has the writer perform everything that is due now.
pub(crate) fn write_all_due(writer: &mut JournalWriter) {
    loop {
        match writer.step() {
            Step::Worked | Step::Idle { wait: Some(Duration::ZERO) } => {}
            Step::Idle { .. } | Step::Ended => return,
        }
    }
}

/// Lets more time pass than there is between two checks for what is to be rewritten.
pub(crate) fn settle(writer: &mut JournalWriter, clock: &FakeClock) {
    for _ in 0..150 {
        clock.advance(ALL_IS_DUE);
        write_all_due(writer);
    }
}

impl HeldWriter {
    pub(crate) fn start(mut writer: JournalWriter, pause: &Pause, clock: FakeClock) -> Self {
        let is_idle = Arc::new(AtomicBool::new(false));
        let (idle, here) = (Arc::clone(&is_idle), pause.clone());
        let thread = Lockstep::spawn("journal", pause, move || {
            loop {
                match writer.step() {
                    Step::Worked => {}
                    Step::Idle { .. } => {
                        idle.store(true, Ordering::Relaxed);
                        here.pause();
                    }
                    Step::Ended => return,
                }
            }
        });
        Self { thread, is_idle, clock }
    }

    /// Runs until everything that is due within [`ALL_IS_DUE`] is written.
    pub(crate) fn catch_up(&self) {
        self.clock.advance(ALL_IS_DUE);
        self.is_idle.store(false, Ordering::Relaxed);
        while self.thread.resume() && !self.is_idle() {}
    }

    /// Returns whether it has found nothing to do since it was last told to catch up.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }
}
