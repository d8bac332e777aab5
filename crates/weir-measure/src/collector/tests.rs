//! The collector against hand-written HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::load::LineId;

use super::*;

fn line(seq: u64) -> String {
    let mut text = Vec::new();
    LineId::write("a", 0, seq, b"payload", &mut text);
    String::from_utf8(text).unwrap()
}

fn event(seq: u64) -> String {
    format!(r#"{{"event":"{}","host":"h"}}"#, line(seq))
}

/// Sends one request on a new connection; the response is empty if the connection broke.
fn post(collector: &Collector, path: &str, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(collector.address()).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    if sent.and_then(|()| stream.read_to_end(&mut answer)).is_err() {
        answer.clear();
    }
    String::from_utf8_lossy(&answer).into_owned()
}

const EVENT: &str = "/services/collector/event";
const TOKEN: &str = "authorization: Splunk token\r\n";

#[test]
fn events_and_raw_lines_are_stored_and_counted() {
    let collector =
        Collector::with(CollectorConfig { keep_records: true, ..CollectorConfig::default() });
    let answer = post(&collector, EVENT, TOKEN, (event(0) + &event(1)).as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""code":0"#), "{answer}");
    let raw = format!("{}\n{}\n", line(2), line(1));
    post(&collector, "/services/collector/raw?source=%2Fx", TOKEN, raw.as_bytes());
    let tally = collector.tally();
    assert_eq!((tally.unique(), tally.duplicates(), tally.requests), (3, 1, 2));
    let records = collector.records();
    assert_eq!(records[0].host.as_deref(), Some("h"));
    assert_eq!(records[2].source.as_deref(), Some("/x"));
}

#[test]
fn compressed_bodies_of_several_members_are_read() {
    let collector = Collector::start();
    let mut body = Vec::new();
    for seq in 0..2 {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        member.write_all(event(seq).as_bytes()).unwrap();
        body.extend(member.finish().unwrap());
    }
    post(&collector, EVENT, &format!("{TOKEN}content-encoding: gzip\r\n"), &body);
    assert_eq!(collector.tally().unique(), 2);
}

#[test]
fn a_wrong_token_is_refused_as_splunk_refuses_it() {
    let collector = Collector::start();
    let body = event(0);
    assert!(post(&collector, EVENT, "", body.as_bytes()).starts_with("HTTP/1.1 401"));
    let wrong = post(&collector, EVENT, "authorization: Splunk other\r\n", body.as_bytes());
    assert!(wrong.starts_with("HTTP/1.1 403") && wrong.contains("Invalid token"), "{wrong}");
    assert_eq!(collector.tally().events, 0);
}

#[test]
fn every_third_request_can_fail() {
    let collector = Collector::start();
    collector.answer_with(|n| if n % 3 == 2 { Answer::status(503) } else { Answer::Accept });
    let stored: Vec<bool> = (0..6)
        .map(|seq| post(&collector, EVENT, TOKEN, event(seq).as_bytes()).contains(" 200 "))
        .collect();
    assert_eq!(stored, [true, true, false, true, true, false]);
    assert_eq!(collector.tally().streams["a"].gaps(0, 6), [2..3, 5..6]);
}

#[test]
fn connections_break_on_command() {
    let collector = Collector::start();
    for (answer, stored) in [
        (Answer::CloseBeforeReading, 0),
        (Answer::CloseAfterReading, 0),
        (Answer::Reset, 0),
        (Answer::AcceptThenClose, 1),
    ] {
        collector.answer(answer.clone());
        assert_eq!(post(&collector, EVENT, TOKEN, event(0).as_bytes()), "", "{answer:?}");
        assert_eq!(collector.tally().events, stored, "{answer:?}");
    }
    collector.answer(Answer::NotHttp);
    assert!(post(&collector, EVENT, TOKEN, event(0).as_bytes()).contains("not HTTP"));
}

#[test]
fn a_bad_event_is_named_and_those_before_it_are_kept() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseContaining("a/0/1/".to_owned()));
    let body = event(0) + &event(1) + &event(2);
    let answer = post(&collector, EVENT, TOKEN, body.as_bytes());
    assert!(answer.contains(r#""invalid-event-number":1"#), "{answer}");
    assert_eq!(collector.tally().unique(), 1);
}

#[test]
fn limits_and_waiting_times_are_told() {
    let collector = Collector::start();
    collector.answer(Answer::RefuseLargerThan(10));
    assert!(post(&collector, EVENT, TOKEN, event(0).as_bytes()).contains(" 413 "));
    collector.answer(Answer::status_retry_after(429, "7"));
    assert!(post(&collector, EVENT, TOKEN, event(0).as_bytes()).contains("retry-after: 7"));
}

#[test]
fn acknowledgements_come_late_or_never() {
    let channel = "x-splunk-request-channel: c\r\n";
    let polls = |acks| {
        let collector = Collector::with(CollectorConfig { acks, ..CollectorConfig::default() });
        let headers = format!("{TOKEN}{channel}");
        let answer = post(&collector, EVENT, &headers, event(0).as_bytes());
        assert!(answer.contains(r#""ackId":0"#), "{answer}");
        let poll = || {
            let body = br#"{"acks":[0]}"#;
            post(&collector, "/services/collector/ack", &headers, body).contains(r#""0":true"#)
        };
        let polled = [poll(), poll(), poll()];
        (polled, collector.tally().unique())
    };
    assert_eq!(polls(Acks::AtPoll(2)), ([false, true, false], 1));
    assert_eq!(polls(Acks::Never), ([false, false, false], 1));
    assert_eq!(polls(Acks::FirstLost(1)), ([false, false, false], 0));
}

#[test]
fn counts_survive_a_pause() {
    let mut collector = Collector::start();
    post(&collector, EVENT, TOKEN, event(0).as_bytes());
    collector.pause();
    assert!(TcpStream::connect(collector.address()).is_err());
    collector.resume();
    post(&collector, EVENT, TOKEN, event(1).as_bytes());
    assert!(collector.wait(Duration::from_secs(10), |tally| tally.unique() == 2));
}
