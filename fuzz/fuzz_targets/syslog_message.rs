//! Syslog messages to records and back: each line becomes one record, which keeps its bytes.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use weir_codec::{
    SyslogDecoder, SyslogEncoder, SyslogFormat, SyslogOrigin, SyslogOutputFraming, is_json_object,
    syslog_datagram,
};
use weir_model::{BatchBuilder, Position, Seal, Selection, SourceBook, SourceId, StreamId};

/// 2026-11-21T19:12:31Z.
const NOW_NS: i64 = 1_795_288_351_000_000_000;

fn seal(batch: &mut BatchBuilder, book: &SourceBook) -> Selection {
    batch.route_all(&[0]);
    Selection::all(Arc::new(batch.seal(&Seal {
        repeatable: false,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, 1),
        observed_ns: NOW_NS,
        rule_generation: 0,
        book,
        state: b"",
    })))
}

// The first byte selects the time zone.
fuzz_target!(|input: &[u8]| {
    let [zone, text @ ..] = input else { return };
    let mut decoder = SyslogDecoder::new();
    decoder.set_utc_offset((i32::from(*zone) - 128) * 900);
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    let mut lines = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let message = decoder.parse(line, NOW_NS);
        let origin = SyslogOrigin { observed_ns: NOW_NS, ..SyslogOrigin::default() };
        if decoder.push(&mut batch, &message, &origin, &mut book).is_err() {
            break;
        }
        lines.push(syslog_datagram(line, usize::MAX).0);
    }
    assert_eq!(book.unaccounted_lines(), 0);
    assert_eq!(book.records, lines.len() as u64);
    let records = seal(&mut batch, &book);
    let mut encoders = [SyslogFormat::Rfc5424, SyslogFormat::Rfc3164]
        .map(|format| SyslogEncoder::new(format, "host"));
    let mut out = Vec::new();
    for ((_, record), line) in records.records().zip(&lines) {
        assert_eq!(record.original(), *line);
        assert!(line.ends_with(record.body));
        assert!(record.attributes.is_empty() || is_json_object(record.attributes));
        for encoder in &mut encoders {
            out.clear();
            encoder.encode(SyslogOutputFraming::Lines, &records, &record, 1000, &mut out);
            assert!(out.len() <= 1001 && out.ends_with(b"\n"));
            assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
    }
});
