//! Measures the nanoseconds per message of each step from received bytes to records: framing,
//! parsing, and adding to a batch, whose sealing is included.
//!
//! `cargo run --release -p weir-codec --example syslog_cost`
#![allow(clippy::print_stdout, reason = "a program that prints measurements")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use weir_codec::{
    SYSLOG_MESSAGE_BYTES_DEFAULT, SyslogDecoder, SyslogFraming, SyslogFramingKind, SyslogOrigin,
    SyslogStep,
};
use weir_model::{BatchBuilder, Position, Seal, SourceBook, SourceId, StreamId};

/// 2026-11-21T19:12:31Z.
const OBSERVED_NS: i64 = 1_795_288_351_000_000_000;
const MESSAGES: usize = 5_000;
const ROUNDS: u32 = 100;

fn cases() -> Vec<(&'static str, String)> {
    let pad = |header: &str| format!("{header}{}", "the message goes on and on ".repeat(10));
    let cut = |header: &str| pad(header).chars().take(200).collect::<String>();
    let data = r#"[timeQuality tzKnown="1" isSynced="0"][ex@32473 key="value" k2="a"]"#;
    let escapes = data.replace("value", r#"a\"b"#);
    vec![
        ("rfc 3164", cut("<34>Nov 21 19:12:31 mymachine postfix/smtpd[12345]: ")),
        ("rfc 3164, rfc 3339 time", cut("<34>2026-11-21T19:12:31.335106+00:00 mymachine su[42]: ")),
        ("rfc 5424", cut("<165>1 2026-11-21T19:12:31.335106Z mymachine app 8710 ID47 - ")),
        (
            "rfc 5424 with data",
            cut(&format!("<165>1 2026-11-21T19:12:31.335106Z host app 8710 ID47 {data} ")),
        ),
        (
            "rfc 5424 with escapes",
            cut(&format!("<165>1 2026-11-21T19:12:31.335106Z host app 8710 ID47 {escapes} ")),
        ),
        ("cisco", cut("<189>45: *Nov 21 19:12:31.123: %SYS-5-CONFIG_I: ")),
        ("priority only", cut("<14>")),
    ]
}

fn spans(stream: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut framing =
        SyslogFraming::new(SyslogFramingKind::Detect, black_box(SYSLOG_MESSAGE_BYTES_DEFAULT));
    let (mut found, mut at) = (Vec::with_capacity(MESSAGES), 0);
    while let SyslogStep::Message { span, consumed, .. } = framing.next(&stream[at..]) {
        found.push(at + span.start..at + span.end);
        at += consumed;
    }
    found
}

/// Returns the shortest time of a round.
fn best(mut round: impl FnMut()) -> Duration {
    let times = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn push_all(stream: &[u8], messages: &[std::ops::Range<usize>], batch: &mut BatchBuilder) {
    let mut decoder = SyslogDecoder::new();
    let mut book = SourceBook::default();
    let origin = SyslogOrigin { observed_ns: OBSERVED_NS, ..SyslogOrigin::default() };
    for span in messages {
        let message = decoder.parse(&stream[span.clone()], OBSERVED_NS);
        while decoder.push(batch, &message, &origin, &mut book).is_err() {
            seal(batch, &book);
        }
    }
    seal(batch, &book);
}

fn seal(batch: &mut BatchBuilder, book: &SourceBook) {
    black_box(batch.seal(&Seal {
        repeatable: false,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::default(),
        observed_ns: OBSERVED_NS,
        rule_generation: 0,
        book,
        state: &[],
    }));
}

fn main() {
    println!(
        "{:26} {:>8} {:>8} {:>8} {:>8}",
        "ns per message", "lines", "counted", "parse", "and push"
    );
    for (name, message) in cases() {
        let lines = format!("{message}\n").repeat(MESSAGES).into_bytes();
        let counted = format!("{} {message}", message.len()).repeat(MESSAGES).into_bytes();
        let messages = spans(&lines);
        assert_eq!((messages.len(), spans(&counted).len()), (MESSAGES, MESSAGES));
        let mut batch = BatchBuilder::new(Position::default());
        let times = [
            best(|| drop(black_box(spans(&lines)))),
            best(|| drop(black_box(spans(&counted)))),
            best(|| {
                let mut decoder = SyslogDecoder::new();
                for span in &messages {
                    black_box(decoder.parse(&lines[span.clone()], OBSERVED_NS));
                }
            }),
            best(|| push_all(&lines, &messages, &mut batch)),
        ];
        let per_message = times.map(|time| time.as_nanos() as f64 / MESSAGES as f64);
        let [lines, counted, parse, push] = per_message;
        println!("{name:26} {lines:8.1} {counted:8.1} {parse:8.1} {push:8.1}");
    }
}
