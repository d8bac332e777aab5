//! Measures the nanoseconds per line of each decoder, on a block in memory that is copied into the
//! builder as a read would copy it; sealing is included and shown separately.
//!
//! `cargo run --release -p weir-codec --example decode_speed [filter]`
#![allow(clippy::print_stdout, reason = "a program that prints measurements")]

use std::time::{Duration, Instant};

use weir_codec::{Format, LineDecoder, Stop, escape_json_into, format_unix_time};
use weir_model::limits::{LINE_BYTES_DEFAULT, READ_BLOCK_BYTES};
use weir_model::{BatchBuilder, Position, Seal, SourceBook, SourceId, StreamId};

const TIME: &str = "2026-11-21T19:12:31.335106123Z";
const LINES: usize = 400_000;

/// Returns text of `len` bytes; `quotes` of every 16 bytes are quotes, which must be escaped.
fn text(len: usize, quotes: usize) -> String {
    (0..len)
        .map(|i| if i % 16 < quotes { '"' } else { char::from(b'a' + (i % 23) as u8) })
        .collect()
}

fn docker(line_len: usize, quotes: usize) -> String {
    let wrap = format!("{{\"log\":\"\\n\",\"stream\":\"stdout\",\"time\":\"{TIME}\"}}\n").len();
    let mut body = String::new();
    for c in text(line_len, quotes).chars() {
        if body.len() + 2 + wrap > line_len {
            break;
        }
        body.push_str(if c == '"' { "\\\"" } else { "" });
        if c != '"' {
            body.push(c);
        }
    }
    format!("{{\"log\":\"{body}\\n\",\"stream\":\"stdout\",\"time\":\"{TIME}\"}}\n")
}

fn cases() -> Vec<(&'static str, Format, String)> {
    let raw = |len: usize| text(len - 1, 0) + "\n";
    let cri = format!("{TIME} stdout F {}", raw(216 - 40));
    let attrs = docker(216, 0).replace(",\"time\"", ",\"attrs\":{\"tag\":\"a\"},\"time\"");
    let json = format!("{{\"time\":\"{TIME}\",\"level\":\"info\",\"msg\":\"{}\"}}\n", text(150, 0));
    let logfmt = format!("time={TIME} level=info msg=\"{}\"\n", text(150, 0));
    vec![
        ("raw 216", Format::Raw, raw(216)),
        ("raw 1024", Format::Raw, raw(1024)),
        ("docker 216 plain", Format::DockerJson, docker(216, 0)),
        ("docker 1024 plain", Format::DockerJson, docker(1024, 0)),
        ("docker 216 escapes", Format::DockerJson, docker(216, 1)),
        ("docker 1024 escapes", Format::DockerJson, docker(1024, 1)),
        ("docker 1024 many escapes", Format::DockerJson, docker(1024, 4)),
        ("docker 216 attrs", Format::DockerJson, attrs),
        ("cri 216", Format::Cri, cri),
        ("json 216", Format::Json, json),
        ("logfmt 216", Format::Logfmt, logfmt),
    ]
}

#[derive(Default)]
struct Spent {
    copy: Duration,
    decode: Duration,
    seal: Duration,
}

fn run(format: Format, line: &str) -> (Spent, u64) {
    let file = line.repeat(LINES.min(64 * 1024 * 1024 / line.len())).into_bytes();
    let mut decoder = LineDecoder::new(format, LINE_BYTES_DEFAULT, 0);
    let mut builder = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    let mut spent = Spent::default();
    while (decoder.file_offset() as usize) < file.len() {
        let start = Instant::now();
        let rest = &file[decoder.file_offset() as usize..];
        let space = builder.read_space(READ_BLOCK_BYTES);
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        let region = builder.advance(count);
        let copied = Instant::now();
        let consumed = decoder.decode(&mut builder, region, 0, &mut book);
        let decoded = Instant::now();
        spent.copy += copied - start;
        spent.decode += decoded - copied;
        if consumed.why == Stop::BatchFull || builder.room() < READ_BLOCK_BYTES / 4 {
            drop(std::hint::black_box(builder.seal(&seal(&decoder, &book))));
            spent.seal += decoded.elapsed();
        }
    }
    assert_eq!(book.lines, book.records);
    assert_eq!(book.malformed, 0);
    (spent, book.records)
}

fn seal<'a>(decoder: &LineDecoder, book: &'a SourceBook) -> Seal<'a> {
    Seal {
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, decoder.position()),
        observed_ns: 0,
        rule_generation: 0,
        book,
        state: &[],
    }
}

fn outputs() {
    let mut out = Vec::with_capacity(64 * 1024);
    for (name, body) in [("escape 1024", text(1024, 0)), ("escape 1024 quotes", text(1024, 1))] {
        let start = Instant::now();
        for _ in 0..LINES {
            out.clear();
            escape_json_into(std::hint::black_box(body.as_bytes()), &mut out);
        }
        println!("{name:26} {:6.1} ns", start.elapsed().as_nanos() as f64 / LINES as f64);
    }
    let start = Instant::now();
    for i in 0..LINES {
        out.clear();
        format_unix_time(std::hint::black_box(1_700_000_000_123_456_789 + i as i64), &mut out);
    }
    println!(
        "{:26} {:6.1} ns",
        "format_unix_time",
        start.elapsed().as_nanos() as f64 / LINES as f64
    );
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    println!("{:26} {:>9} {:>9} {:>9}", "ns per line", "copy", "decode", "seal");
    for (name, format, line) in cases().iter().filter(|case| case.0.contains(&filter)) {
        let best = (0..3).map(|_| run(*format, line)).min_by_key(|(spent, _)| spent.decode);
        let Some((spent, lines)) = best else { continue };
        let per_line = |time: Duration| time.as_nanos() as f64 / lines as f64;
        let [copy, decode, seal] = [spent.copy, spent.decode, spent.seal].map(per_line);
        println!("{name:26} {copy:9.1} {decode:9.1} {seal:9.1}");
    }
    if filter.is_empty() {
        outputs();
    }
}
