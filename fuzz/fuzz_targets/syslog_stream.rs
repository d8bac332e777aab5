//! A stream of syslog messages: any split results in the same messages, each of which becomes a
//! record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{SyslogEnd, SyslogFraming, SyslogFramingError, SyslogFramingKind, SyslogStep};

#[derive(Debug, Default, PartialEq)]
struct Received {
    messages: Vec<(Vec<u8>, bool)>,
    skipped: usize,
    end: Option<Result<usize, SyslogFramingError>>,
}

fn receive(kind: SyslogFramingKind, max: usize, stream: &[u8], piece: usize) -> Received {
    let mut framing = SyslogFraming::new(kind, max);
    let mut out = Received::default();
    let (mut buffer, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let room = framing.buffer_bytes() - buffer.len();
        assert!(room > 0, "no progress with a full buffer");
        let (next, after) = rest.split_at(piece.min(room).min(rest.len()));
        buffer.extend_from_slice(next);
        rest = after;
        loop {
            let consumed = match framing.next(&buffer) {
                SyslogStep::Message { span, consumed, is_truncated } => {
                    assert!(!span.is_empty() && span.len() <= max.max(4));
                    out.messages.push((buffer[span].to_vec(), is_truncated));
                    consumed
                }
                SyslogStep::Skipped { consumed } => {
                    out.skipped += consumed;
                    consumed
                }
                SyslogStep::NeedMore { consumed } => {
                    buffer.drain(..consumed);
                    break;
                }
                SyslogStep::Failed(error) => {
                    out.end = Some(Err(error));
                    return out;
                }
            };
            assert!(consumed > 0, "a step without progress");
            buffer.drain(..consumed);
        }
    }
    match framing.finish(&buffer) {
        SyslogEnd::Nothing => {}
        SyslogEnd::Message { span, skipped } => {
            out.messages.push((buffer[span].to_vec(), skipped > 0));
            out.skipped += skipped;
        }
        SyslogEnd::Unfinished { received } => out.end = Some(Ok(received)),
    }
    out
}

// The first byte selects how messages are delimited, the second their maximum length, the third how
// the stream is split.
fuzz_target!(|input: &[u8]| {
    let [kind, max, piece, stream @ ..] = input else { return };
    let kind = match kind % 3 {
        0 => SyslogFramingKind::Detect,
        1 => SyslogFramingKind::OctetCounted,
        _ => SyslogFramingKind::Lines,
    };
    let whole = receive(kind, usize::from(*max), stream, usize::MAX);
    assert_eq!(receive(kind, usize::from(*max), stream, 1 + usize::from(*piece)), whole);
    assert_eq!(receive(kind, usize::from(*max), stream, 1), whole);
});
