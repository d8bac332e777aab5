//! RELP: any bytes as the frames of a client, and as the responses of a server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{RelpClient, RelpClientStep, RelpError, RelpServer, RelpStep};

const OPEN: &[u8] = b"1 open 30 relp_version=0\ncommands=syslog\n";
const OPENED: &[u8] = b"1 rsp 37 200 OK\nrelp_version=0\ncommands=syslog\n";
const MESSAGE_BYTES_MAX: usize = 64;

/// Returns the messages, the replies, and why the session ended.
fn serve(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<u8>, Option<RelpError>) {
    let mut server = RelpServer::new(MESSAGE_BYTES_MAX);
    let (mut messages, mut replies) = (Vec::new(), Vec::new());
    let (mut buffer, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let room = server.buffer_bytes() - buffer.len();
        assert!(room > 0, "no progress with a full buffer");
        let (next, after) = rest.split_at(piece.min(room).min(rest.len()));
        buffer.extend_from_slice(next);
        rest = after;
        loop {
            let consumed = match server.next(&buffer, &mut replies) {
                RelpStep::Message { transaction, span, consumed, .. } => {
                    assert!(!span.is_empty() && span.len() <= MESSAGE_BYTES_MAX);
                    messages.push(buffer[span].to_vec());
                    server.acknowledge(transaction, &mut replies);
                    consumed
                }
                RelpStep::Opened { consumed }
                | RelpStep::Skipped { consumed }
                | RelpStep::Closed { consumed } => consumed,
                RelpStep::NeedMore { consumed } => {
                    buffer.drain(..consumed);
                    break;
                }
                RelpStep::Full { .. } => panic!("everything is acknowledged"),
                RelpStep::Failed(error) => return (messages, replies, Some(error)),
            };
            assert!(consumed > 0, "a step without progress");
            buffer.drain(..consumed);
        }
    }
    (messages, replies, None)
}

fn answers(stream: &[u8]) {
    let mut client = RelpClient::new(4);
    let mut out = Vec::new();
    client.open(&mut out);
    assert!(matches!(client.next(OPENED), RelpClientStep::Opened { .. }));
    while client.send(b"x", &mut out).is_some() {}
    let (mut rest, mut answered) = (stream, 0);
    loop {
        let consumed = match client.next(rest) {
            RelpClientStep::Acknowledged { consumed, .. } => {
                answered += 1;
                consumed
            }
            RelpClientStep::Refused { reason, consumed, .. } => {
                assert!(rest.get(reason).is_some());
                answered += 1;
                consumed
            }
            RelpClientStep::Opened { .. } => panic!("it is open"),
            RelpClientStep::Closed { consumed } => consumed,
            RelpClientStep::NeedMore { .. } | RelpClientStep::Failed(_) => break,
        };
        rest = &rest[consumed..];
    }
    assert_eq!(client.unanswered().count() + answered, 4);
}

// The first byte selects how the stream is split.
fuzz_target!(|input: &[u8]| {
    let [piece, stream @ ..] = input else { return };
    answers(stream);
    let session = [OPEN, stream].concat();
    let whole = serve(&session, usize::MAX);
    assert_eq!(serve(&session, 1 + usize::from(*piece)), whole);
    assert_eq!(serve(stream, 1), serve(stream, usize::MAX));
});
