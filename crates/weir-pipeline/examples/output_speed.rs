//! Measures how many lines of 1 KiB one output sends per CPU-second of its thread, compared to a
//! loop that only copies the same bodies and sends them. The receiver discards everything. For
//! files the lines have 100 bytes, from one sender or from many.
//!
//! `cargo run --release -p weir-pipeline --example output_speed [--features isal] [LINES [files]]`
#![expect(clippy::print_stdout, reason = "a measuring program")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use weir_host::process::thread_cpu_ns;
use weir_host::{RealClock, RealDisk, Secret};
use weir_journal::{CursorSpec, Journal, JournalConfig, StreamSpec, WhenFull, WritePolicy};
use weir_model::{
    Batch, BatchBuilder, Facility, NewRecord, Position, RecordFlags, Resource, Seal, Severity,
    SourceBook, SourceId, StreamId,
};
use weir_pipeline::config::{
    Compression, Encoding, FilePath, HecMode, OutputKind, OutputPlan, RequestSettings, TlsSettings,
};
use weir_pipeline::output::{self, OutputContext};
use weir_pipeline::output::{FileOutput, FsyncPolicy, Rotation, SplunkHec};
use weir_pipeline::stats::{self, OutputStats};

/// Lines in a batch, for lines of 1 KiB and for short ones.
const LINES_PER_BATCH: u64 = 170;
const SHORT_LINES_PER_BATCH: u64 = 8 * LINES_PER_BATCH;
const BODY_BYTES: usize = 1024;

fn main() {
    let lines = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let bodies = bodies();
    if wanted != "files" {
        bare_loop(&bodies, lines);
        requests(&bodies, lines);
    }
    files(&bodies, lines);
}

fn requests(bodies: &[Vec<u8>], lines: u64) {
    for (name, mode, compression) in [
        ("hec event", HecMode::Event, Compression::None),
        ("hec raw", HecMode::Raw, Compression::None),
        ("hec event gzip", HecMode::Event, Compression::Gzip),
    ] {
        let kind = OutputKind::SplunkHec(Box::new(hec(sink(), mode, compression)));
        measure(name, kind, bodies, lines, 1);
    }
    measure("blackhole", OutputKind::Blackhole, bodies, lines, 1);
}

/// Short lines, so that the choice of the file is not lost in the copying.
fn files(bodies: &[Vec<u8>], lines: u64) {
    let short: Vec<Vec<u8>> = bodies.iter().map(|body| body[..100].to_vec()).collect();
    for (name, path, senders) in [
        ("one file", "all.log", 1),
        ("file of 100", "all.log", 100),
        ("one tree", "{source}/{facility}.log", 1),
        ("one tree of 100", "{source}/{facility}.log", 100),
        ("tree of 1", "{host}/{app_name}.log", 1),
        ("tree of 100", "{host}/{app_name}.log", 100),
        ("facility of 100", "{host}/{facility}.log", 100),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let kind = file(&format!("{}/{path}", dir.path().display()));
        measure(name, kind, &short, lines, senders);
    }
}

fn file(path: &str) -> OutputKind {
    OutputKind::File(FileOutput {
        path: FilePath::parse(path).expect("valid"),
        encoding: Encoding::Raw,
        fsync: FsyncPolicy::Never,
        rotation: Rotation::default(),
        open_files_max: 256,
    })
}

/// Returns bodies of words and numbers, escaped as docker writes them.
fn bodies() -> Vec<Vec<u8>> {
    fastrand::seed(1);
    let words: Vec<String> =
        (0..500).map(|n| (0..2 + n % 9).map(|_| fastrand::lowercase()).collect()).collect();
    let body = |n: u64| {
        let mut text = format!("2026-11-21T19:12:31.{n:06}Z INFO request \\\"GET /a/{n}\\\" ");
        while text.len() < BODY_BYTES {
            text.push_str(&words[fastrand::usize(..words.len())]);
            text.push(' ');
        }
        text.truncate(BODY_BYTES);
        text.into_bytes()
    };
    (0..LINES_PER_BATCH * 16).map(body).collect()
}

/// Starts a receiver that answers every request with success.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || swallow(stream));
        }
    });
    address
}

fn swallow(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    let mut have = 0;
    loop {
        let Ok(n) = stream.read(&mut buffer[have..]) else { return };
        if n == 0 {
            return;
        }
        have += n;
        let Some(at) = memchr::memmem::find(&buffer[..have], b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&buffer[..at]).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|t| t.lines().next());
        let Some(length) = length.and_then(|t| t.parse::<usize>().ok()) else { return };
        let mut left = (at + 4 + length).saturating_sub(have);
        while left > 0 {
            let room = left.min(buffer.len());
            match stream.read(&mut buffer[..room]) {
                Ok(n) if n > 0 => left -= n,
                _ => return,
            }
        }
        have = 0;
        let body = br#"{"text":"Success","code":0}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

/// The upper bound: copies each body into a buffer, and sends the buffer when it is full.
fn bare_loop(bodies: &[Vec<u8>], lines: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
    let (mut reader, _) = listener.accept().expect("a connection");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let before = thread_cpu_ns();
    let mut buffer = Vec::with_capacity(1 << 20);
    for n in 0..lines {
        buffer.extend_from_slice(&bodies[n as usize % bodies.len()]);
        if buffer.len() + BODY_BYTES > 1 << 20 {
            stream.write_all(&buffer).expect("the reader is there");
            buffer.clear();
        }
    }
    report("bare loop", lines, thread_cpu_ns() - before);
}

fn report(name: &str, lines: u64, cpu_ns: u64) {
    let per_line = cpu_ns as f64 / lines as f64;
    println!("{name:16} {:10.0} lines per CPU-second {per_line:8.0} ns per line", 1e9 / per_line);
}

fn hec(address: SocketAddr, mode: HecMode, compression: Compression) -> SplunkHec {
    SplunkHec {
        endpoint: format!("http://{address}"),
        token: Secret::new("token".to_owned()),
        mode,
        indexer_ack: false,
        ack_timeout: Duration::from_mins(1),
        index: None,
        sourcetype: Some("docker".to_owned()),
        source: None,
        host: None,
        requests: RequestSettings {
            compression,
            batch_bytes: 1 << 20,
            batch_age: Duration::from_millis(200),
            connections_max: 4,
            request_timeout: Duration::from_mins(1),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            tls: TlsSettings::default(),
        },
    }
}

fn measure(name: &str, kind: OutputKind, bodies: &[Vec<u8>], lines: u64, senders: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let clock = Arc::new(RealClock::new());
    let config = JournalConfig {
        dir: dir.path().join("journal"),
        ring_bytes: 64 << 20,
        bytes_max: 1 << 30,
        free_bytes_min: 0,
        segment_bytes: 64 << 20,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(20),
        spill_after: Duration::from_mins(10),
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: Duration::from_secs(1),
    };
    let journal = Journal::open(config, Arc::new(RealDisk), clock.clone()).expect("opens");
    let spec = CursorSpec {
        name: "out".to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 32 << 20,
        window_bytes: 16 << 20,
    };
    let cursor = journal.cursor(spec).expect("registers");
    let plan = OutputPlan {
        name: "out".to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 32 << 20,
        window_bytes: 16 << 20,
        dead_letter: true,
        kind,
    };
    let context = OutputContext::new(dir.path().to_owned(), clock, Arc::new(RealDisk));
    let stats = Arc::new(OutputStats::default());
    let handle = output::spawn(plan, cursor, context, stats.clone()).expect("starts");
    feed(&journal, bodies, lines, senders);
    journal.close();
    assert!(handle.join(), "the output panicked");
    let delivered = journal.ledger().cursors[0].book.delivered;
    let per_batch = lines_per_batch(bodies);
    assert_eq!(delivered, lines / per_batch * per_batch, "everything is delivered");
    report(name, delivered, stats::get(&stats.cpu_ns));
    journal.shutdown();
}

fn lines_per_batch(bodies: &[Vec<u8>]) -> u64 {
    if bodies[0].len() < BODY_BYTES { SHORT_LINES_PER_BATCH } else { LINES_PER_BATCH }
}

/// Appends one stream of records from that many senders, in random order, as fast as the output
/// accepts it.
fn feed(journal: &Journal, bodies: &[Vec<u8>], lines: u64, senders: usize) {
    let source = SourceId::of("bench");
    let stream = StreamId(1);
    let (start, book) = (Position::default(), SourceBook::default());
    journal.open_stream(&StreamSpec {
        stream,
        group: 0,
        source,
        start,
        state: &[],
        book,
        gone: false,
    });
    let resource = |sender: usize| {
        Resource::new()
            .with("host.name", format!("vm-{}", sender / 5))
            .with("service.name", format!("app-{}", sender % 5))
            .with("log.file.path", "/var/lib/docker/containers/abc/abc-json.log")
            .with("container.id", "0123456789abcdef")
            .encode()
    };
    let resources: Vec<Vec<u8>> = (0..senders).map(resource).collect();
    let mut end = 0;
    let per_batch = lines_per_batch(bodies);
    for round in 0..lines / per_batch {
        let mut builder = BatchBuilder::new(Position::new(0, end));
        let first = ((round * per_batch) % bodies.len() as u64) as usize;
        for body in &bodies[first..first + per_batch as usize] {
            end += 1;
            let body = builder.append(body).expect("a batch has room");
            let resource = &resources[fastrand::usize(..senders)];
            let resource = builder.resource(0, resource).expect("a batch has room");
            let facility = if senders > 1 { Facility::of_code(4) } else { Facility::NONE };
            let record = NewRecord {
                timestamp_ns: 1_700_000_000_000_000_000 + end as i64 * 1001,
                end_offset: end,
                body,
                severity: Severity::UNSPECIFIED,
                flags: RecordFlags::JSON_ESCAPED.with(RecordFlags::STDOUT),
                resource,
                facility,
                ..NewRecord::default()
            };
            builder.push(&record).expect("a batch has room");
        }
        append(journal, seal(&mut builder, end));
    }
}

fn seal(builder: &mut BatchBuilder, end: u64) -> Batch {
    builder.route_all(&[0]);
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId::of("bench"),
        end: Position::new(0, end),
        observed_ns: 1_700_000_001_000_000_000,
        rule_generation: 0,
        book: &SourceBook { lines: end, records: end, ..SourceBook::default() },
        state: &[],
    })
}

fn append(journal: &Journal, batch: Batch) {
    let mut next = batch;
    while let Err(refused) = journal.append(next, WritePolicy::OnLag) {
        next = *refused.batch;
        std::thread::yield_now();
    }
}
