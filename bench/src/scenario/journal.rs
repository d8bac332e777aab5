//! The journal alone, on stable storage: `weir-journal`, driven as by a source that acknowledges.
//!
//! The driver is a separate process, so that its CPU time is that of the journal and nothing else.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use weir_host::{Disk, RealClock, RealDisk, WakeFd};
use weir_journal::{
    AppendTicket, CursorSpec, Journal, JournalConfig, StreamSpec, WhenFull, WritePolicy,
};
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
    StreamId,
};

use super::Options;
use crate::data::{self, Lines, Shape};
use crate::report::{Measurement, Outcome, Target};
use crate::{bare, clock};

const RECORD_BYTES: usize = 1024;
const SOURCE: &str = "bench";

/// The work of the driver process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Directory of the journal.
    #[arg(long)]
    dir: PathBuf,
    /// Records per batch.
    #[arg(long)]
    records: usize,
    /// Total number of batches.
    #[arg(long)]
    batches: u64,
    /// Batches per second; 0 = as fast as the journal accepts them.
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

/// The output of the driver process.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Driven {
    frame_bytes: u64,
    cpu_seconds: f64,
    seconds: f64,
    flushes: u64,
    ack_p50_seconds: f64,
    ack_p99_seconds: f64,
}

impl Driven {
    fn group_bytes(&self) -> usize {
        (self.frame_bytes / self.flushes.max(1)) as usize
    }
}

/// `journal`.
pub(crate) fn journal(options: &Options) -> Result<Outcome> {
    let gib = options.scaled(2048) * 1024 * 1024;
    let batch = 180;
    let full = drive_process(batch, gib / (batch * RECORD_BYTES) as u64, 0)?;
    let dir = data::cache_dir()?;
    let group = full.group_bytes();
    let alone = bare::disk_alone(&dir, group, full.frame_bytes / 2, Duration::ZERO)?;
    let paced = drive_process(20, options.scaled(15) * 1000, 1000)?;
    let pace = Duration::from_secs_f64(paced.seconds / paced.flushes.max(1) as f64);
    let total = (paced.group_bytes() as u64 * paced.flushes).max(1);
    let paced_alone = bare::disk_alone(&dir, paced.group_bytes().max(1), total / 2, pace)?;
    let mut outcome = Outcome::new(format!(
        "Records of 1 KiB appended with `on_append`: {} MiB as fast as they are accepted, in \
         groups of {} KiB; then 20,000 records/s in batches of 20.",
        full.frame_bytes / 1_048_576,
        group / 1024
    ));
    let rate = full.frame_bytes as f64 / full.seconds / 1e6;
    outcome.measurements = vec![
        Measurement::new("GB/s per CPU-second", full.frame_bytes as f64 / 1e9 / full.cpu_seconds)
            .target(Target::AtLeast(1.0)),
        Measurement::new("MB/s", rate)
            .target(Target::AtLeast(0.8 * alone.bytes_per_second / 1e6))
            .limit("write and fdatasync alone, same groups", alone.bytes_per_second / 1e6),
        Measurement::new(
            "acknowledgement p99 at 20,000 records/s, ms",
            paced.ack_p99_seconds * 1e3,
        )
        .target(Target::AtMost((2e3 * paced_alone.p99.as_secs_f64()).max(25.0)))
        .limit("p99 of the disk alone, same groups and pace", paced_alone.p99.as_secs_f64() * 1e3),
        Measurement::new(
            "acknowledgement p50 at 20,000 records/s, ms",
            paced.ack_p50_seconds * 1e3,
        ),
        Measurement::new(
            "percent of a core at 20,000 records/s",
            paced.cpu_seconds / paced.seconds * 100.0,
        ),
        Measurement::new(
            "flushes per second at 20,000 records/s",
            paced.flushes as f64 / paced.seconds,
        ),
    ];
    Ok(outcome)
}

fn drive_process(records: usize, batches: u64, rate: u64) -> Result<Driven> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let output = Command::new(std::env::current_exe()?)
        .arg("drive-journal")
        .arg("--dir")
        .arg(dir.path())
        .args([
            format!("--records={records}"),
            format!("--batches={batches}"),
            format!("--rate={rate}"),
        ])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the journal's driver failed");
    serde_json::from_slice(&output.stdout).context("the journal's driver printed no measurements")
}

/// Appends batches and waits until each is on stable storage; prints the cost.
pub(crate) fn drive(settings: &Settings) -> Result<()> {
    let config = config(settings.dir.join("journal"), 64 << 20, 16 << 30);
    let journal = open(config, "bench", Arc::new(RealDisk))?;
    let wake = WakeFd::new()?;
    journal.on_room(wake.clone());
    let mut generator = BatchGenerator::new(settings.records);
    let waiter = Waiter::start();
    let cpu_before = clock::process_cpu();
    let start = Instant::now();
    let mut frame_bytes = 0;
    for number in 0..settings.batches {
        if settings.rate > 0 {
            clock::wait_until(
                start + Duration::from_secs_f64(number as f64 / settings.rate as f64),
            );
        }
        let batch = generator.next();
        frame_bytes += batch.frame_bytes() as u64;
        let begun = Instant::now();
        let ticket = append(&journal, batch, &wake)?;
        waiter.tickets.send((begun, ticket)).context("the waiter has ended")?;
    }
    let mut times = waiter.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = clock::process_cpu().saturating_sub(cpu_before).as_secs_f64();
    times.sort_unstable();
    let percentile = |p: usize| times[(times.len() * p / 100).min(times.len() - 1)].as_secs_f64();
    let driven = Driven {
        frame_bytes,
        cpu_seconds,
        seconds,
        flushes: journal.ledger().journal.flushes,
        ack_p50_seconds: percentile(50),
        ack_p99_seconds: percentile(99),
    };
    journal.shutdown();
    println!("{}", serde_json::to_string(&driven)?);
    Ok(())
}

/// Returns a configuration for that directory, size of segments and total size.
pub(super) fn config(dir: PathBuf, segment_bytes: u64, bytes_max: u64) -> JournalConfig {
    JournalConfig {
        dir,
        ring_bytes: 64 << 20,
        bytes_max,
        free_bytes_min: 1 << 30,
        segment_bytes,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(20),
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: Duration::from_secs(1),
        spill_after: Duration::from_millis(100),
    }
}

/// Opens a journal with one destination that takes nothing, so that everything must stay on disk.
pub(super) fn open(
    config: JournalConfig,
    destination: &str,
    disk: Arc<dyn Disk>,
) -> Result<Journal> {
    let buffer_bytes_max = config.bytes_max;
    let journal = Journal::open(config, disk, Arc::new(RealClock::new()))?;
    journal.cursor(CursorSpec {
        name: destination.to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max,
        window_bytes: 16 << 20,
    })?;
    journal.register_source(SOURCE);
    // Four streams, since a single one may only hold its share.
    for stream in 0..STREAMS {
        journal.open_stream(&StreamSpec {
            stream: StreamId(stream),
            group: 0,
            source: SourceId::of(SOURCE),
            start: Position::default(),
            state: &[],
            book: SourceBook::default(),
            gone: false,
        });
    }
    Ok(journal)
}

const STREAMS: u64 = 8;

/// Appends a batch, waiting for room as a source does.
pub(super) fn append(journal: &Journal, batch: Batch, wake: &WakeFd) -> Result<AppendTicket> {
    let mut batch = batch;
    loop {
        match journal.append(batch, WritePolicy::OnAppend) {
            Ok(ticket) => return Ok(ticket),
            Err(refused) => batch = *refused.batch,
        }
        let mut fds = [PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
        let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
        ensure!(poll(&mut fds, Some(&limit))? > 0, "the journal had no room for 30 s");
        wake.take();
    }
}

/// Creates batches of the same bodies at increasing positions.
pub(super) struct BatchGenerator {
    body: Vec<u8>,
    record_bytes: usize,
    records: usize,
    made: u64,
    builder: BatchBuilder,
}

impl BatchGenerator {
    fn new(records: usize) -> Self {
        let mut lines = Lines::new(Shape::Raw, RECORD_BYTES);
        let body = (0..records as u64).flat_map(|seq| lines.line(0, seq).to_vec()).collect();
        Self::of(body, records)
    }

    /// Creates batches of this many records of equal length.
    pub(super) fn of(body: Vec<u8>, records: usize) -> Self {
        let builder = BatchBuilder::new(Position::default());
        Self { record_bytes: body.len() / records, body, records, made: 0, builder }
    }

    pub(super) fn next(&mut self) -> Batch {
        let stream = StreamId(self.made % STREAMS);
        let base = self.made / STREAMS * self.body.len() as u64;
        self.made += 1;
        self.builder.reset(Position::new(0, base));
        let room = self.builder.read_space(self.body.len());
        room.copy_from_slice(&self.body);
        let span = self.builder.advance(self.body.len());
        for index in 0..self.records {
            let start = span.start + index * self.record_bytes;
            let record = NewRecord {
                timestamp_ns: 0,
                end_offset: base + ((index + 1) * self.record_bytes) as u64,
                body: start..start + self.record_bytes - 1,
                severity: Severity::UNSPECIFIED,
                flags: RecordFlags::default(),
                ..NewRecord::default()
            };
            assert!(self.builder.push(&record).is_ok(), "a batch fits in its frame");
        }
        self.builder.route_all(&[0]);
        let end = base + self.body.len() as u64;
        let count = end / self.record_bytes as u64;
        let book =
            SourceBook { lines: count, records: count, bytes_read: end, ..SourceBook::default() };
        self.builder.seal(&Seal {
            repeatable: false,
            stream,
            group: 0,
            source: SourceId::of(SOURCE),
            end: Position::new(0, end),
            observed_ns: 0,
            rule_generation: 0,
            book: &book,
            state: &[],
        })
    }
}

/// Waits for tickets in order on its own thread, and records how long each took.
struct Waiter {
    tickets: mpsc::SyncSender<(Instant, AppendTicket)>,
    thread: std::thread::JoinHandle<Result<Vec<Duration>>>,
}

impl Waiter {
    fn start() -> Self {
        let (tickets, waiting) = mpsc::sync_channel::<(Instant, AppendTicket)>(100_000);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let mut times = Vec::new();
            for (begun, ticket) in waiting {
                let durable = runtime.block_on(ticket.durable());
                durable.map_err(|reason| anyhow::anyhow!("not durable: {reason:?}"))?;
                times.push(begun.elapsed());
            }
            Ok(times)
        });
        Self { tickets, thread }
    }

    fn finish(self) -> Result<Vec<Duration>> {
        drop(self.tickets);
        self.thread.join().map_err(|_| anyhow::anyhow!("the waiter panicked"))?
    }
}
