//! The output `http` against a server with all kinds of behavior.

mod harness;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::{DEADLINE, Line, Rig, quick_requests};
use serde_json::Value;
use weir_host::Secret;
use weir_pipeline::config::{Compression, Framing, HttpAuth, OutputKind};
use weir_pipeline::output::dead_letter;
use weir_pipeline::output::{HttpMethod, HttpOutput};

/// A request as received.
#[derive(Debug, Clone)]
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| {
            line.split_once(": ").is_some_and(|(n, _)| n.eq_ignore_ascii_case(name))
        };
        self.head
            .lines()
            .find(|line| of(line))
            .and_then(|line| line.split_once(": "))
            .map(|(_, v)| v)
    }

    /// Returns the objects in it.
    fn objects(&self) -> Vec<Value> {
        let mut plain = Vec::new();
        match self.header("content-encoding") {
            Some("gzip") => {
                flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut plain).unwrap();
            }
            Some("zstd") => plain = zstd::decode_all(&self.body[..]).unwrap(),
            _ => plain.clone_from(&self.body),
        }
        if self.header("content-type") == Some("application/json") {
            return serde_json::from_slice(&plain).unwrap();
        }
        let lines = plain.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

/// What the server does with a request.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Responds with this status.
    Say(u16),
    /// Asks the client to retry after a second.
    Later,
    /// Accepts the request, with a response that is larger than anyone reads.
    Talk,
    /// Accepts the request, with a response that is announced but never completed.
    Mumble,
    /// Accepts the request, and closes the connection in the middle of the response.
    BreakOff,
    /// Closes the connection.
    Reset,
    /// Never responds.
    Hang,
    /// Refuses requests with a record whose body is `bad`.
    Judge,
}

struct Server {
    url: String,
    taken: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Follows the script, then always acts as `then`.
    fn start(script: &[Act], then: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in?k=v", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(script.iter().copied().collect::<VecDeque<_>>()));
        let all = taken.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, all) = (script.clone(), all.clone());
                std::thread::spawn(move || serve(stream, &script, then, &all));
            }
        });
        Self { url, taken }
    }

    fn taken(&self) -> Vec<Request> {
        self.taken.lock().unwrap().clone()
    }

    fn bodies(&self) -> Vec<String> {
        let objects = self.taken().into_iter().flat_map(|request| request.objects());
        objects.map(|object| object["body"].as_str().unwrap().to_owned()).collect()
    }
}

fn serve(stream: TcpStream, script: &Mutex<VecDeque<Act>>, then: Act, taken: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        let act = script.lock().unwrap().pop_front().unwrap_or(then);
        let status = match act {
            Act::Say(status) => status,
            Act::Later => 429,
            Act::Talk | Act::Mumble | Act::BreakOff => 200,
            Act::Reset => return,
            Act::Hang => {
                // Until the client gives up.
                let _ = reader.read(&mut [0]);
                return;
            }
            Act::Judge => {
                let is_bad = |object: &Value| object["body"] == "bad";
                if request.objects().iter().any(is_bad) { 400 } else { 202 }
            }
        };
        if (200..300).contains(&status) {
            taken.lock().unwrap().push(request);
        }
        let later = if matches!(act, Act::Later) { "Retry-After: 1\r\n" } else { "" };
        let (len, said) = match act {
            Act::Talk => (1 << 20, 1 << 20),
            Act::Mumble | Act::BreakOff => (100, 10),
            _ => (0, 0),
        };
        let head = format!("HTTP/1.1 {status} x\r\n{later}Content-Length: {len}\r\n\r\n");
        let answer = [head.as_bytes(), &vec![b'x'; said]].concat();
        if writer.write_all(&answer).is_err() || matches!(act, Act::BreakOff) {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut request = Request { head, body: Vec::new() };
    let len = request.header("content-length").unwrap().parse().unwrap();
    request.body.resize(len, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn http(server: &Server) -> HttpOutput {
    HttpOutput {
        url: server.url.clone(),
        method: HttpMethod::Post,
        framing: Framing::Lines,
        headers: Vec::new(),
        auth: HttpAuth::None,
        requests: quick_requests(),
    }
}

fn start(server: &Server, change: impl FnOnce(&mut HttpOutput)) -> Rig {
    let mut plan = http(server);
    change(&mut plan);
    Rig::start(OutputKind::Http(Box::new(plan)))
}

#[test]
fn records_arrive_in_every_format_and_compression() {
    for format in [Framing::Lines, Framing::Array] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let server = Server::start(&[], Act::Say(200));
            let mut rig = start(&server, |plan| {
                plan.framing = format;
                plan.requests.compression = compression;
            });
            rig.append(1, &[Line::new("one \"quoted\""), Line::new("two\nlines"), Line::new("")]);
            rig.append(1, &[Line::new(b"bytes \xff".to_vec())]);
            rig.drain();
            let expected = ["one \"quoted\"", "two\nlines", "", "bytes \u{fffd}"];
            assert_eq!(server.bodies(), expected, "{format:?} {compression:?}");
            let (ledger, _dir) = rig.finish();
            assert_eq!(ledger.book.delivered, 4);
        }
    }
}

#[test]
fn method_path_headers_and_credentials_are_as_configured() {
    let secret = |text: &str| Secret::new(text.to_owned());
    let basic = HttpAuth::Basic { user: "me".to_owned(), password: secret("pass") };
    for (auth, expected) in [
        (HttpAuth::None, None),
        (HttpAuth::Bearer(secret("abc")), Some("Bearer abc")),
        (basic, Some("Basic bWU6cGFzcw==")),
    ] {
        let server = Server::start(&[], Act::Say(204));
        let mut rig = start(&server, |plan| {
            plan.method = HttpMethod::Put;
            plan.auth = auth;
            plan.headers = vec![
                ("X-Tenant".to_owned(), "a".to_owned()),
                ("Content-Type".to_owned(), "application/other".to_owned()),
            ];
        });
        rig.append(1, &[Line::new("one")]);
        rig.drain();
        let request = server.taken().remove(0);
        assert!(request.head.starts_with("PUT /in?k=v HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(request.header("authorization"), expected);
        assert_eq!(request.header("x-tenant"), Some("a"));
        assert_eq!(request.header("content-type"), Some("application/other"));
        let (_ledger, _dir) = rig.finish();
    }
}

#[test]
fn failures_are_tried_again_and_nothing_is_lost() {
    let script = [
        Act::Say(503),
        Act::Reset,
        Act::Say(429),
        Act::Later,
        Act::Hang,
        Act::Say(500),
        Act::Say(401),
        Act::Say(302),
        Act::Say(404),
    ];
    let server = Server::start(&script, Act::Say(200));
    let mut rig = start(&server, |plan| plan.requests.request_timeout = Duration::from_millis(300));
    rig.append(1, &[Line::new("one"), Line::new("two")]);
    rig.drain();
    for kind in ["busy", "reset", "timeout", "server_error", "credentials", "redirect", "endpoint"]
    {
        assert!(rig.errors(kind) > 0, "{kind}: {:?}", rig.stats.errors);
    }
    assert!(!rig.stats.failing.load(Ordering::Relaxed));
    assert_eq!(server.bodies(), ["one", "two"]);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (2, 0));
}

#[test]
fn a_delivered_verdict_does_not_depend_on_the_rest_of_the_response() {
    let server = Server::start(&[Act::Talk, Act::Mumble, Act::BreakOff], Act::Say(200));
    let mut rig = start(&server, |plan| plan.requests.request_timeout = Duration::from_millis(300));
    let texts = ["one", "two", "three", "four"];
    for text in texts {
        rig.append(1, &[Line::new(text)]);
        rig.drain();
    }
    assert_eq!(server.bodies(), texts);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.resent), (4, 0));
}

#[test]
fn records_wait_for_an_absent_server() {
    let server = Server::start(&[], Act::Say(200));
    let mut rig = start(&server, |plan| plan.url = "http://127.0.0.1:1/".to_owned());
    rig.append(1, &[Line::new("one")]);
    rig.wait("an error", |rig| rig.stats.failing.load(Ordering::Relaxed));
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.in_flight), (0, 1));
}

#[test]
fn a_refused_record_is_identified_and_dead_lettered() {
    let server = Server::start(&[], Act::Judge);
    let mut rig = start(&server, |_| {});
    let mut lines: Vec<Line> = (0..100).map(|n| Line::new(format!("line {n}"))).collect();
    // The very first one, before anything was accepted.
    lines[0] = Line::new("bad");
    lines[57] = Line::new("bad");
    rig.append(1, &lines);
    rig.drain();
    let expected: Vec<String> =
        (0..100).filter(|n| ![0, 57].contains(n)).map(|n| format!("line {n}")).collect();
    assert_eq!(server.bodies(), expected);
    let (ledger, dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (98, 2));
    assert_eq!(dead_letter::list(dir.path(), "out").unwrap().count(), 2);
}

/// An endpoint that answers every request with this status, from the first on: asserts that few
/// records are dead-lettered and the others wait. Returns the error.
fn few_dead_letters_at(status: u16, lines: u64) -> String {
    let server = Server::start(&[], Act::Say(status));
    let mut rig = start(&server, |_| {});
    let written: Vec<Line> = (0..lines).map(|n| Line::new(format!("line {n}"))).collect();
    rig.append(1, &written);
    rig.wait("an alert", |rig| rig.errors("endpoint") > 1);
    let error = rig.last_error();
    assert!(error.contains("wrong endpoint"), "{error}");
    rig.stop(Duration::ZERO);
    let (ledger, dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.in_flight), (0, lines));
    let letters = dead_letter::list(dir.path(), "out").unwrap().count();
    assert!(letters <= 8, "{letters}");
    error
}

#[test]
fn a_wrong_endpoint_causes_few_dead_letters() {
    few_dead_letters_at(400, 1000);
}

#[test]
fn an_endpoint_that_finds_every_record_too_large_causes_few_dead_letters() {
    let error = few_dead_letters_at(413, 100);
    assert!(error.contains("HTTP 413"), "{error}");
}

#[test]
fn a_single_record_that_is_too_large_is_dead_lettered_and_the_rest_delivered() {
    let server = Server::start(&[Act::Say(413), Act::Say(413)], Act::Say(200));
    let mut rig = start(&server, |_| {});
    rig.append(1, &[Line::new("large"), Line::new("small")]);
    rig.drain();
    assert_eq!(server.bodies(), ["small"]);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (1, 1));
}

#[test]
fn a_requested_pause_is_reported_with_the_time_of_the_next_attempt() {
    let server = Server::start(&[Act::Later, Act::Later], Act::Say(200));
    let mut rig = start(&server, |_| {});
    rig.append(1, &[Line::new("one")]);
    rig.wait("an error", |rig| rig.errors("busy") > 0);
    let error = rig.last_error();
    assert!(error.contains("HTTP 429") && error.contains("the next attempt is at 2"), "{error}");
    rig.drain();
    assert_eq!(rig.finish().0.book.delivered, 1);
}

#[test]
fn resending_to_a_destination_that_refuses_everything_keeps_every_letter_once() {
    let server = Server::start(&[], Act::Judge);
    let mut rig = start(&server, |_| {});
    // More than may be refused by a destination that has accepted nothing.
    let lines: Vec<Line> =
        std::iter::once(Line::new("good")).chain((0..20).map(|_| Line::new("bad"))).collect();
    rig.append(1, &lines);
    rig.drain();
    let (plan, context) = (rig.plan.clone(), rig.context());
    let letters = || dead_letter::list(&context.data_dir, "out").unwrap().count();
    assert_eq!(letters(), 20);
    for _ in 0..3 {
        let report = dead_letter::resend(&plan, &context, DEADLINE).unwrap();
        assert_eq!((report.delivered, report.refused, report.left), (0, 20, 0));
        assert_eq!(letters(), 20);
    }
    assert_eq!(rig.finish().0.book.dead_lettered, 20);
}

#[test]
fn a_resend_that_ends_early_keeps_every_line_once() {
    let server = Server::start(&[], Act::Judge);
    let mut rig = start(&server, |_| {});
    rig.append(1, &[Line::new("bad"), Line::new("good"), Line::new("bad")]);
    rig.drain();
    let (mut plan, context) = (rig.plan.clone(), rig.context());
    let file = context.data_dir.join("dead-letter/out.jsonl");
    let mut content = std::fs::read(&file).unwrap();
    content.extend_from_slice(b"not a letter\n");
    std::fs::write(&file, content).unwrap();
    // The first record is refused again; then nothing is answered.
    let silent = Server::start(&[Act::Say(400), Act::Say(400)], Act::Hang);
    plan.kind = OutputKind::Http(Box::new(http(&silent)));
    for _ in 0..2 {
        let report = dead_letter::resend(&plan, &context, Duration::from_millis(500)).unwrap();
        assert_eq!((report.refused, report.left, report.unreadable), (0, 2, 1));
        let letters = dead_letter::list(&context.data_dir, "out").unwrap();
        let (valid, invalid): (Vec<_>, Vec<_>) = letters.partition(Result::is_ok);
        assert_eq!((valid.len(), invalid.len()), (2, 1));
    }
    assert_eq!(rig.finish().0.book.dead_lettered, 2);
}

#[test]
fn a_request_that_is_too_large_is_sent_in_parts() {
    let server = Server::start(&[Act::Say(413), Act::Say(413)], Act::Say(200));
    let mut rig = start(&server, |plan| plan.framing = Framing::Array);
    let lines: Vec<Line> = (0..100).map(|n| Line::new(format!("line {n}"))).collect();
    rig.append(1, &lines);
    rig.drain();
    assert!(server.taken().len() > 1);
    assert_eq!(server.bodies(), (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>());
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 100);
}
