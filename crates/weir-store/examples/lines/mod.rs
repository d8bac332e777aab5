//! Log lines to measure with: JSON with a message of words, and what stands beside it.

use std::fmt::Write as _;

use fastrand::Rng;
use weir_model::{
    Batch, BatchBuilder, BatchClass, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook,
    SourceId, StreamId,
};

const WORDS: [&str; 32] = [
    "checkout",
    "timeout",
    "request",
    "server",
    "connection",
    "order",
    "payment",
    "user",
    "session",
    "cache",
    "database",
    "query",
    "index",
    "worker",
    "queue",
    "retry",
    "failed",
    "success",
    "started",
    "finished",
    "handler",
    "upstream",
    "downstream",
    "token",
    "expired",
    "invalid",
    "cart",
    "item",
    "stock",
    "shipping",
    "address",
    "customer",
];

/// 160 bytes of words, a quarter of them followed by a number.
pub(crate) fn message(rng: &mut Rng) -> String {
    let mut text = String::new();
    while text.len() < 160 {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[rng.usize(..WORDS.len())]);
        if rng.u8(..4) == 0 {
            let _ = write!(text, " {}", rng.u32(..1000));
        }
    }
    text.truncate(160);
    text
}

fn line(number: u64, rng: &mut Rng) -> String {
    let second = number / 1000;
    let level = ["info", "info", "info", "warn", "error"][rng.usize(..5)];
    let method = ["GET", "POST", "PUT"][rng.usize(..3)];
    let status = [200, 200, 200, 201, 301, 404, 500][rng.usize(..7)];
    format!(
        "{{\"time\":\"2026-11-22T{:02}:{:02}:{:02}.{:03}Z\",\"level\":\"{level}\",\"http\":{{\
         \"method\":\"{method}\",\"status_code\":{status}}},\"duration_ms\":{},\"request_id\":\
         \"{:016x}\",\"message\":\"{}\"}}",
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        number % 1000,
        rng.u32(..2000),
        rng.u64(..),
        message(rng),
    )
}

/// Lines as a source puts them into batches.
pub(crate) fn batches(lines: u64) -> (Vec<Batch>, usize) {
    let mut rng = Rng::with_seed(1);
    let mut batches = Vec::new();
    let mut builder = BatchBuilder::new(Position::default());
    let (mut offset, mut bytes) = (0, 0);
    for number in 0..lines {
        let line = line(number, &mut rng);
        bytes += line.len() + 1;
        offset += line.len() as u64 + 1;
        if builder.room() < 2 * line.len() || builder.record_count() >= 600 {
            batches.push(seal(&mut builder, offset));
        }
        let Ok(body) = builder.append(line.as_bytes()) else { continue };
        let record = NewRecord {
            timestamp_ns: weir_codec::parse_rfc3339(&line.as_bytes()[9..33]).unwrap_or(0),
            end_offset: offset,
            body,
            attributes: 0..0,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::JSON_OBJECT,
        };
        let _fits = builder.push(&record);
    }
    batches.push(seal(&mut builder, offset));
    (batches, bytes)
}

fn seal(builder: &mut BatchBuilder, offset: u64) -> Batch {
    builder.route_all(&[1]);
    builder.seal(&Seal {
        class: BatchClass::Logs,
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, offset),
        observed_ns: 0,
        rule_generation: 1,
        keys: &[],
        resource: br#"{"host.name":"a","log.file.path":"/var/log/app.log"}"#,
        book: &SourceBook::default(),
        state: b"",
    })
}
