//! RELP: the two sides against each other, and against frames as rsyslog writes them.

use proptest::prelude::*;
use weir_codec::{
    RELP_UNANSWERED_MAX, RELP_WINDOW_DEFAULT, RelpClient, RelpClientStep, RelpError, RelpServer,
    RelpStep,
};

const OPEN: &[u8] =
    b"1 open 86 relp_version=0\nrelp_software=librelp,1.11.0,http://librelp.adiscon.com\ncommands=syslog\n";
const OPENED: &str = "1 rsp 56 200 OK\nrelp_version=0\nrelp_software=weir\ncommands=syslog\n";

/// What a server saw of a client.
#[derive(Debug, PartialEq, Eq, Default)]
struct Seen {
    messages: Vec<(u32, Vec<u8>, bool)>,
    skipped: usize,
    is_opened: bool,
    is_closed: bool,
    error: Option<RelpError>,
    replies: String,
}

/// Serves a client that sends this in pieces; each message is acknowledged at once.
fn serve(stream: &[u8], max: usize, pieces: &[usize]) -> Seen {
    let mut server = RelpServer::new(max);
    let (mut seen, mut replies) = (Seen::default(), Vec::new());
    let (mut buffer, mut at) = (Vec::new(), 0);
    for piece in pieces.iter().cycle() {
        if at == stream.len() || seen.error.is_some() {
            break;
        }
        let room = server.buffer_bytes() - buffer.len();
        assert!(room > 0, "no progress with a full buffer");
        let end = (at + piece.min(&room)).min(stream.len());
        buffer.extend_from_slice(&stream[at..end]);
        at = end;
        seen.error = drain(&mut server, &mut buffer, &mut seen, &mut replies).err();
    }
    seen.replies = String::from_utf8(replies).expect("replies are text");
    seen
}

fn drain(
    server: &mut RelpServer,
    buffer: &mut Vec<u8>,
    seen: &mut Seen,
    replies: &mut Vec<u8>,
) -> Result<(), RelpError> {
    loop {
        let consumed = match server.next(buffer, replies) {
            RelpStep::Opened { consumed } => {
                seen.is_opened = true;
                consumed
            }
            RelpStep::Message { transaction, span, consumed, is_truncated } => {
                assert!(!span.is_empty());
                seen.messages.push((transaction, buffer[span].to_vec(), is_truncated));
                server.acknowledge(transaction, replies);
                consumed
            }
            RelpStep::Skipped { consumed } => {
                seen.skipped += consumed;
                consumed
            }
            RelpStep::Closed { consumed } => {
                seen.is_closed = true;
                consumed
            }
            RelpStep::Full { .. } => panic!("everything is acknowledged"),
            RelpStep::NeedMore { consumed } => {
                buffer.drain(..consumed);
                return Ok(());
            }
            RelpStep::Failed(error) => return Err(error),
        };
        assert!(consumed > 0, "a step without progress");
        buffer.drain(..consumed);
    }
}

fn session(frames: &[u8]) -> Seen {
    serve(&[OPEN, frames].concat(), 64, &[usize::MAX])
}

#[test]
fn a_session_of_rsyslog_is_answered() {
    let seen = session(b"2 syslog 8 <13>a\nbc\n3 syslog 5 <13>d\n4 close 0\n");
    assert_eq!(seen.messages, [(2, b"<13>a\nbc".to_vec(), false), (3, b"<13>d".to_vec(), false)]);
    assert!(seen.is_opened && seen.is_closed && seen.error.is_none());
    let answers = "2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 0\n0 serverclose 0\n";
    assert_eq!(seen.replies, format!("{OPENED}{answers}"));
}

#[test]
fn answers_are_sent_in_order_and_after_the_frame() {
    let mut server = RelpServer::new(8);
    let mut replies = Vec::new();
    let next = |server: &mut RelpServer, buffer: &[u8]| {
        let mut replies = Vec::new();
        let step = server.next(buffer, &mut replies);
        (step, String::from_utf8(replies).unwrap())
    };
    assert!(matches!(next(&mut server, OPEN).0, RelpStep::Opened { .. }));
    for frame in [b"2 syslog 2 aa\n", b"3 syslog 2 bb\n", b"4 syslog 2 cc\n"] {
        assert!(matches!(next(&mut server, frame).0, RelpStep::Message { .. }));
    }
    server.acknowledge(4, &mut replies);
    server.refuse(3, "the journal is full", &mut replies);
    assert_eq!((replies.len(), server.unanswered_count()), (0, 3));
    server.acknowledge(2, &mut replies);
    let want = "2 rsp 6 200 OK\n3 rsp 23 500 the journal is full\n4 rsp 6 200 OK\n";
    assert_eq!(String::from_utf8(replies).unwrap(), want);
    assert!(server.is_answered());

    // A truncated message is answered after its last byte.
    let (step, _) = next(&mut server, b"5 syslog 12 0123456789");
    assert_eq!(
        step,
        RelpStep::Message { transaction: 5, span: 12..20, consumed: 20, is_truncated: true }
    );
    let mut replies = Vec::new();
    server.acknowledge(5, &mut replies);
    assert!(replies.is_empty());
    assert_eq!(next(&mut server, b"89"), (RelpStep::Skipped { consumed: 2 }, String::new()));
    assert_eq!(next(&mut server, b"ab\n"), (RelpStep::Skipped { consumed: 2 }, String::new()));
    let done = (RelpStep::NeedMore { consumed: 1 }, "5 rsp 6 200 OK\n".to_owned());
    assert_eq!(next(&mut server, b"\n"), done);
}

#[test]
fn an_empty_message_and_an_unknown_command_are_answered_without_the_caller() {
    let seen = session(b"2 syslog 0\n3 syslog 1 \n\n4 eventlog 2 ab\n5 syslog 1 x\n");
    assert_eq!(seen.messages, [(5, b"x".to_vec(), false)]);
    let answers = "2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 19 500 unknown command\n5 rsp 6 200 OK\n";
    assert_eq!(seen.replies, format!("{OPENED}{answers}"));
}

#[test]
fn invalid_frames_end_the_session() {
    use RelpError::{Command, End, Length, NotOpen, Offer, TooLong, Transaction};
    for (frames, error) in [
        (b"x".as_slice(), Transaction),
        (b"1234567890 syslog 1 x\n", Transaction),
        (b"0 syslog 1 x\n", Transaction),
        (b"2  syslog", Command),
        (b"2 sys-log 1 x\n", Command),
        (b"2 abcdefghijklmnopqrstuvwxyzabcdefg 1 x\n", Command),
        (b"2 syslog x", Length),
        (b"2 syslog 1234567890 x", Length),
        (b"2 syslog 18446744073709551616 x", Length),
        (b"2 syslog 1\n", Length),
        (b"2 syslog 1 xy", End),
        (b"2 close 5000 x", TooLong),
        (b"2 close 0\n3 syslog 1 x\n", NotOpen),
        (b"2 open 0\n", NotOpen),
    ] {
        let seen = session(frames);
        // A second `open` is a command that an open session does not know.
        if frames.starts_with(b"2 open") {
            assert_eq!((seen.error, seen.replies.contains("500")), (None, true));
            continue;
        }
        assert_eq!(seen.error, Some(error), "{}", String::from_utf8_lossy(frames));
        assert!(seen.replies.ends_with("0 serverclose 0\n"));
    }
    let seen = serve(b"1 syslog 1 x\n", 64, &[1]);
    assert_eq!(seen.error, Some(NotOpen));
    assert!(seen.replies.starts_with("1 rsp 27 500 the session is not open\n"));
    for offer in ["", "relp_version=0", "relp_version=7\ncommands=syslog", "commands=syslogx"] {
        let seen = serve(format!("1 open {} {offer}\n", offer.len()).as_bytes(), 64, &[3]);
        assert_eq!(seen.error, Some(Offer), "{offer}");
    }
}

#[test]
fn messages_without_an_answer_are_limited() {
    let mut server = RelpServer::new(64);
    let mut replies = Vec::new();
    server.next(OPEN, &mut replies);
    for number in 0..RELP_UNANSWERED_MAX {
        let frame = format!("{} syslog 1 x\n", number + 2);
        assert!(matches!(server.next(frame.as_bytes(), &mut replies), RelpStep::Message { .. }));
    }
    let step = server.next(b"5000 syslog 1 x\n", &mut replies);
    assert_eq!(step, RelpStep::Full { consumed: 0 });
    server.acknowledge(2, &mut replies);
    let step = server.next(b"5000 syslog 1 x\n", &mut replies);
    assert!(matches!(step, RelpStep::Message { transaction: 5000, .. }));
}

#[test]
fn a_client_sends_a_window_and_matches_answers_in_any_order() {
    let mut client = RelpClient::new(2);
    let mut out = Vec::new();
    assert_eq!(client.send(b"early", &mut out), None);
    client.open(&mut out);
    assert_eq!(
        String::from_utf8(std::mem::take(&mut out)).unwrap(),
        "1 open 49 relp_version=0\nrelp_software=weir\ncommands=syslog\n"
    );
    let opened = client.next(OPENED.as_bytes());
    assert_eq!(opened, RelpClientStep::Opened { consumed: OPENED.len() });
    assert_eq!(client.send(b"<1>a", &mut out), Some(2));
    assert_eq!(client.send(b"", &mut out), Some(3));
    assert_eq!(client.send(b"<1>c", &mut out), None);
    assert_eq!(String::from_utf8(out.clone()).unwrap(), "2 syslog 4 <1>a\n3 syslog 0\n");
    let answer = client.next(b"3 rsp 10 500 no way\n");
    assert_eq!(answer, RelpClientStep::Refused { transaction: 3, reason: 13..19, consumed: 20 });
    assert_eq!(client.next(b"2 rsp 6 200"), RelpClientStep::NeedMore { consumed: 0 });
    assert_eq!(client.unanswered().collect::<Vec<_>>(), [2]);
    let answer = client.next(b"2 rsp 6 200 OK\n");
    assert_eq!(answer, RelpClientStep::Acknowledged { transaction: 2, consumed: 15 });
    assert_eq!(client.next(b"2 rsp 6 200 OK\n"), RelpClientStep::Failed(RelpError::Answer));
    client.close(&mut out);
    assert_eq!(client.next(b"4 rsp 0\n"), RelpClientStep::Closed { consumed: 8 });
    assert!(!client.can_send());
}

#[test]
fn a_client_does_not_believe_everything() {
    let fails = |answer: &[u8], error| {
        let mut client = RelpClient::new(RELP_WINDOW_DEFAULT);
        client.open(&mut Vec::new());
        let step = client.next(answer);
        assert_eq!(step, RelpClientStep::Failed(error), "{}", String::from_utf8_lossy(answer));
    };
    fails(b"1 rsp 6 500 no\n", RelpError::Refused);
    fails(b"1 rsp 6 200 OK\n", RelpError::Offer);
    fails(b"1 rsp 0\n", RelpError::Refused);
    fails(b"2 rsp 6 200 OK\n", RelpError::Answer);
    fails(b"2 syslog 1 x\n", RelpError::Command);
    fails(b"1 rsp 5000 x", RelpError::TooLong);
    fails(b"HTTP/1.1 400\r\n", RelpError::Transaction);
    let mut client = RelpClient::new(1);
    assert_eq!(client.next(b"0 serverclose 0\n"), RelpClientStep::Closed { consumed: 16 });
}

proptest! {
    #[test]
    fn a_server_receives_the_messages_of_a_client(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..20),
        pieces in proptest::collection::vec(1_usize..30, 1..5),
    ) {
        let mut client = RelpClient::new(100);
        let mut stream = Vec::new();
        client.open(&mut stream);
        client.next(OPENED.as_bytes());
        let mut want = Vec::new();
        for message in &messages {
            let transaction = client.send(message, &mut stream).expect("the window is open");
            let trimmed = weir_codec::syslog_datagram(message, 1000).0;
            if !trimmed.is_empty() {
                want.push((transaction, trimmed.to_vec(), false));
            }
        }
        client.close(&mut stream);
        let seen = serve(&stream, 64, &pieces);
        prop_assert_eq!(&seen.messages, &want);
        prop_assert!(seen.is_closed && seen.error.is_none());
        let mut replies = &seen.replies.as_bytes()[OPENED.len()..];
        for _ in &messages {
            match client.next(replies) {
                RelpClientStep::Acknowledged { consumed, .. } => replies = &replies[consumed..],
                step => prop_assert!(false, "{step:?}"),
            }
        }
        prop_assert_eq!(client.unanswered().count(), 0);
    }

    #[test]
    fn any_split_gives_the_same_session(
        frames in proptest::collection::vec("([0-9]{1,3} (syslog|rsp|x) )?([0-9]{1,2} )?[a-z]{0,12}\n", 0..8),
        pieces in proptest::collection::vec(1_usize..9, 1..4),
    ) {
        let stream = [OPEN, frames.concat().as_bytes()].concat();
        prop_assert_eq!(serve(&stream, 8, &pieces), serve(&stream, 8, &[usize::MAX]));
    }
}
