//! Measures the cost of the journal: per batch through the ring, and until data is on stable
//! storage.
//!
//! `cargo run --release -p weir-journal --example cost [directory]`
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_host::{RealClock, RealDisk};
use weir_journal::{CursorSpec, Journal, JournalConfig, Outcome, WhenFull, WritePolicy};
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
    StreamId,
};

fn batch(stream: u64, first: u64, records: u64, body: &[u8]) -> Batch {
    let mut builder = BatchBuilder::new(Position::new(0, first));
    for n in first..first + records {
        let Ok(body) = builder.append(body) else { break };
        let record = NewRecord {
            timestamp_ns: 0,
            end_offset: n + 1,
            body,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
            ..NewRecord::default()
        };
        if builder.push(&record).is_err() {
            break;
        }
    }
    builder.route_all(&[0]);
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(stream),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, first + records),
        observed_ns: 0,
        rule_generation: 1,
        book: &SourceBook::default(),
        state: b"state of a file",
    })
}

fn open(dir: &Path) -> Journal {
    let config = JournalConfig {
        dir: dir.to_owned(),
        ring_bytes: 256 << 20,
        bytes_max: 8 << 30,
        free_bytes_min: 0,
        segment_bytes: 64 << 20,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(20),
        spill_after: Duration::from_secs(1),
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
        verify_time_max: Duration::from_secs(1),
    };
    Journal::open(config, Arc::new(RealDisk), Arc::new(RealClock::new()))
        .expect("the journal opens")
}

fn cursor(journal: &Journal) -> weir_journal::Cursor {
    let spec = CursorSpec {
        name: "out".to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 4 << 30,
        window_bytes: 256 << 20,
    };
    journal.cursor(spec).expect("a cursor")
}

/// Appends, takes and acknowledges in one thread, with batches of ten small records.
fn through_the_ring(dir: &Path, streams: u64) {
    let journal = open(dir);
    let mut out = cursor(&journal);
    let rounds = 200;
    let mut spent = [Duration::ZERO; 3];
    for round in 0..rounds {
        let batches: Vec<Batch> = (0..1000)
            .map(|n| batch(n % streams, round * 10_000 + n * 10, 10, &[b'x'; 500]))
            .collect();
        let start = Instant::now();
        for batch in batches {
            if let Err(refused) = journal.append(batch, WritePolicy::OnLag) {
                panic!("{:?}, {:?}", refused.reason, journal.ledger());
            }
        }
        let appended = Instant::now();
        let mut taken = Vec::with_capacity(1000);
        while let Some(delivery) = out.take_blocking(|_| false) {
            taken.push(delivery);
        }
        let took = Instant::now();
        for delivery in &taken {
            out.ack(delivery, Outcome::delivered(delivery.record_count));
        }
        spent[0] += appended - start;
        spent[1] += took - appended;
        spent[2] += took.elapsed();
    }
    let each = spent.map(|d| d.as_nanos() as f64 / (rounds * 1000) as f64);
    println!(
        "{streams} streams: append {:.0} ns, take {:.0} ns, acknowledge {:.0} ns per batch",
        each[0], each[1], each[2]
    );
    journal.shutdown();
}

/// Appends 20,000 batches per second for some seconds, each acknowledged once it is durable.
fn latency(dir: &Path, per_second: u64) {
    let journal = open(dir);
    let mut out = cursor(&journal);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let mut latencies = runtime.expect("a runtime").block_on(async {
        let start = Instant::now();
        let mut waiting = tokio::task::JoinSet::new();
        let mut latencies = Vec::new();
        for n in 0..per_second * 3 {
            let due = start + Duration::from_secs(n) / per_second as u32;
            if let Some(early) = due.checked_duration_since(Instant::now()) {
                tokio::time::sleep(early).await;
            }
            let sent = Instant::now();
            let batch = batch(n % 100, n, 1, &[b'x'; 200]);
            let ticket = journal.append(batch, WritePolicy::OnAppend).expect("there is room");
            waiting.spawn(async move { ticket.durable().await.map(|()| sent.elapsed()) });
            while let Some(Ok(Ok(latency))) = waiting.try_join_next() {
                latencies.push(latency);
            }
            if n % 512 == 0 {
                while let Some(delivery) = out.take_blocking(|_| false) {
                    out.ack(&delivery, Outcome::delivered(delivery.record_count));
                }
            }
        }
        while let Some(Ok(Ok(latency))) = waiting.join_next().await {
            latencies.push(latency);
        }
        latencies
    });
    latencies.sort_unstable();
    let at =
        |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or_default();
    println!(
        "{per_second} appends a second on stable storage: p50 {:?}, p99 {:?}, p99.9 {:?}",
        at(500),
        at(990),
        at(999)
    );
    journal.shutdown();
}

/// Appends as fast as the disk allows, and measures how long a start takes with all of that on
/// disk.
fn throughput(dir: &Path) {
    let journal = open(dir);
    let out = cursor(&journal);
    let total = 1_u64 << 30;
    let start = Instant::now();
    let mut bytes = 0;
    let mut n = 0;
    let mut last = None;
    while bytes < total {
        let batch = batch(n % 16, n * 190, 190, &[b'x'; 1024]);
        let len = batch.frame_bytes() as u64;
        match journal.append(batch, WritePolicy::OnAppend) {
            Ok(ticket) => {
                bytes += len;
                n += 1;
                last = Some(ticket);
            }
            Err(_) => std::thread::park_timeout(Duration::from_millis(1)),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    if let Some(ticket) = last {
        let durable = runtime.expect("a runtime").block_on(ticket.durable());
        durable.expect("the disk works");
    }
    let rate = bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.0} MB/s on stable storage, {} flushes", journal.ledger().journal.flushes);
    journal.shutdown();
    drop((journal, out));
    let start = Instant::now();
    let journal = open(dir);
    println!("opening with {} MB: {:?}", bytes / 1_000_000, start.elapsed());
    journal.shutdown();
}

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "weir-journal-cost".to_owned());
    let dir = Path::new(&dir);
    through_the_ring(&dir.join("ring-1"), 1);
    through_the_ring(&dir.join("ring-1000"), 1000);
    latency(&dir.join("latency"), 20_000);
    throughput(&dir.join("throughput"));
}
