//! The output `syslog` over RELP, against servers that answer late, in any order, with refusals,
//! or not at all, and that disconnect.

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use harness::{DEADLINE, Line, Rig};
use rustls::{ServerConnection, StreamOwned};
use weir_codec::{RelpServer, RelpStep, RelpTransaction};
use weir_host::Zone;
use weir_pipeline::config::{OutputKind, SyslogFormat, TlsSettings};
use weir_pipeline::output::{SyslogOutput, SyslogTransport};
use weir_pipeline::stats::get;
use weir_testkit::{Pki, ServerCertificate};

/// The header of the harness's records.
const HEADER: &str = "<13>1 2023-11-14T22:13:20.000000Z vm - - - -";

/// What a server answers when a session is opened.
const OPENED: &str = "1 rsp 53 200 OK\nrelp_version=0\nrelp_software=x\ncommands=syslog\n";

fn relp(address: SocketAddr, unanswered_max: usize) -> SyslogOutput {
    let ack_timeout = DEADLINE;
    SyslogOutput {
        address: address.to_string(),
        transport: SyslogTransport::Relp { unanswered_max, ack_timeout },
        tls: None,
        format: SyslogFormat::Rfc5424,
        zone: Zone::UTC,
        message_bytes_max: 65_536,
        write_timeout: Duration::from_secs(5),
        retry_min: Duration::from_millis(2),
        retry_max: Duration::from_millis(50),
    }
}

fn start(plan: SyslogOutput) -> Rig {
    Rig::start(OutputKind::Syslog(Box::new(plan)))
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Appends messages `first..first + count`, each in a stream of its own: what is next to each other
/// in a stream is delivered as one batch.
fn append(rig: &mut Rig, first: usize, count: usize) {
    for number in first..first + count {
        rig.append(number as u64, &[Line::new(format!("number {number}"))]);
    }
}

/// Reads as many bytes as are expected, and compares them.
fn expect(reader: &mut impl Read, expected: &str) {
    let mut seen = vec![0; expected.len()];
    reader.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8(seen).unwrap(), expected);
}

/// A server whose test decides what is answered.
struct Server<S> {
    stream: S,
    relp: RelpServer,
    incoming: Vec<u8>,
    replies: Vec<u8>,
}

impl<S: Read + Write> Server<S> {
    fn new(stream: S) -> Self {
        let relp = RelpServer::new(65_536);
        Self { stream, relp, incoming: Vec::new(), replies: Vec::new() }
    }

    /// Returns the number in the next message, and how to answer it. `None` at the end.
    fn message(&mut self) -> Option<(RelpTransaction, usize)> {
        loop {
            let step = self.relp.next(&self.incoming, &mut self.replies);
            self.reply();
            let consumed = match step {
                RelpStep::Message { transaction, span, consumed, is_truncated: false } => {
                    let message = String::from_utf8(self.incoming[span].to_vec()).unwrap();
                    let number = message.strip_prefix(&format!("{HEADER} number ")).unwrap();
                    self.incoming.drain(..consumed);
                    return Some((transaction, number.parse().unwrap()));
                }
                RelpStep::Opened { consumed } => consumed,
                RelpStep::Closed { .. } => return None,
                RelpStep::NeedMore { consumed } => {
                    self.incoming.drain(..consumed);
                    let mut buffer = [0; 4096];
                    let len = self.stream.read(&mut buffer).unwrap_or(0);
                    if len == 0 {
                        return None;
                    }
                    self.incoming.extend_from_slice(&buffer[..len]);
                    0
                }
                step => panic!("{step:?}"),
            };
            self.incoming.drain(..consumed);
        }
    }

    /// Returns the next messages and their numbers.
    fn messages(&mut self, count: usize) -> (Vec<RelpTransaction>, Vec<usize>) {
        (0..count).map(|_| self.message().unwrap()).unzip()
    }

    fn acknowledge(&mut self, transaction: RelpTransaction) {
        self.relp.acknowledge(transaction, &mut self.replies);
        self.reply();
    }

    fn refuse(&mut self, transaction: RelpTransaction) {
        self.relp.refuse(transaction, "disk full", &mut self.replies);
        self.reply();
    }

    /// Sends the answers that are known. The client may be gone.
    fn reply(&mut self) {
        let _is_gone = self.stream.write_all(&self.replies);
        self.replies.clear();
    }

    /// Acknowledges everything from now on; returns the numbers.
    fn acknowledge_rest(mut self) -> JoinHandle<Vec<usize>>
    where
        S: Send + 'static,
    {
        std::thread::spawn(move || {
            let mut numbers = Vec::new();
            while let Some((transaction, number)) = self.message() {
                numbers.push(number);
                self.acknowledge(transaction);
            }
            numbers
        })
    }
}

/// Waits until everything is delivered. Returns what a server got until then, and the number of
/// records that were delivered and sent again.
fn finish(rig: Rig, rest: JoinHandle<Vec<usize>>) -> (Vec<usize>, u64, u64) {
    rig.drain();
    let (ledger, _dir) = rig.finish();
    (rest.join().unwrap(), ledger.book.delivered, ledger.book.resent)
}

#[test]
fn frames_follow_the_protocol_and_the_session_is_closed_in_order() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    rig.append(1, &[Line::new("one"), Line::new("two\nlines")]);
    let mut stream = accept(&listener);
    expect(&mut stream, "1 open 49 relp_version=0\nrelp_software=weir\ncommands=syslog\n");
    stream.write_all(OPENED.as_bytes()).unwrap();
    let messages = format!("2 syslog 48 {HEADER} one\n3 syslog 54 {HEADER} two\nlines\n");
    expect(&mut stream, &messages);
    stream.write_all(b"2 rsp 6 200 OK\n3 rsp 6 200 OK\n").unwrap();
    rig.drain();
    let closing = std::thread::spawn(move || {
        expect(&mut stream, "4 close 0\n");
        stream.write_all(b"4 rsp 0\n0 serverclose 0\n").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    assert_eq!(rig.errors("closed"), 0);
    let (ledger, _dir) = rig.finish();
    closing.join().unwrap();
    assert_eq!((ledger.book.delivered, ledger.book.resent), (2, 0));
}

#[test]
fn a_message_of_the_wanted_format_is_sent_as_it_arrived() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    let message = "<165>1 2003-10-11T22:14:15.003000001z h app 8710 ID47 [ex@1 a=\"1\"]  text";
    rig.append_syslog(1, &[message.as_bytes()]);
    let mut stream = accept(&listener);
    expect(&mut stream, "1 open 49 relp_version=0\nrelp_software=weir\ncommands=syslog\n");
    stream.write_all(OPENED.as_bytes()).unwrap();
    expect(&mut stream, &format!("2 syslog {} {message}\n", message.len()));
    stream.write_all(b"2 rsp 6 200 OK\n").unwrap();
    rig.drain();
    drop(stream);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 1);
}

#[test]
fn no_more_than_the_window_is_unanswered_and_a_batch_is_settled_by_its_last_answer() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 4));
    let lines: Vec<Line> = (0..10).map(|number| Line::new(format!("number {number}"))).collect();
    rig.append(1, &lines);
    let mut server = Server::new(accept(&listener));
    let (mut transactions, numbers) = server.messages(4);
    assert_eq!(numbers, [0, 1, 2, 3]);
    for number in 4..10 {
        rig.wait("the window is full", |rig| get(&rig.stats.in_flight_requests) == 4);
        server.acknowledge(transactions.remove(0));
        let (transaction, next) = server.message().unwrap();
        assert_eq!(next, number);
        transactions.push(transaction);
    }
    for transaction in transactions.drain(..3) {
        server.acknowledge(transaction);
    }
    rig.wait("one is unanswered", |rig| get(&rig.stats.in_flight_requests) == 1);
    assert_eq!(rig.book().book.delivered, 0);
    server.acknowledge(transactions[0]);
    let (rest, delivered, resent) = finish(rig, server.acknowledge_rest());
    assert_eq!((rest, delivered, resent), (vec![], 10, 0));
}

#[test]
fn answers_may_come_in_any_order() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 3);
    let mut server = Server::new(accept(&listener));
    let (transactions, _) = server.messages(3);
    for (place, delivered) in [(2, 1), (0, 2), (1, 3)] {
        let answer = format!("{} rsp 6 200 OK\n", transactions[place]);
        server.stream.write_all(answer.as_bytes()).unwrap();
        rig.wait("it is settled", |rig| rig.book().book.delivered == delivered);
    }
    drop(server);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.resent), (3, 0));
}

#[test]
fn after_a_break_all_that_is_unanswered_is_sent_again_in_order_before_anything_new() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 20);
    let mut server = Server::new(accept(&listener));
    let (transactions, mut expected) = server.messages(20);
    transactions[..5].iter().for_each(|transaction| server.acknowledge(*transaction));
    rig.wait("five are settled", |rig| rig.book().book.delivered == 5);
    drop(server);
    append(&mut rig, 20, 5);
    let rest = Server::new(accept(&listener)).acknowledge_rest();
    let (rest, delivered, resent) = finish(rig, rest);
    expected.drain(..5);
    assert_eq!(rest[..15], expected);
    assert_eq!((rest.len(), delivered, resent), (20, 25, 15));
}

#[test]
fn a_server_that_drops_every_connection_after_a_few_messages_gets_all_of_them() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 16));
    append(&mut rig, 0, 200);
    let mut stored = Vec::new();
    let (mut breaks, mut received) = (0, 0);
    while stored.len() < 150 {
        let mut server = Server::new(accept(&listener));
        for index in 0..20 {
            let Some((transaction, number)) = server.message() else { break };
            received += 1;
            // The last ones are stored, but their answers never arrive.
            stored.push(number);
            if index < 15 {
                server.acknowledge(transaction);
            }
        }
        breaks += 1;
    }
    let rest = Server::new(accept(&listener)).acknowledge_rest();
    let (rest, delivered, resent) = finish(rig, rest);
    stored.extend(&rest);
    let copies = (stored.len() - 200) as u64;
    stored.sort_unstable();
    stored.dedup();
    assert_eq!(stored, (0..200).collect::<Vec<_>>());
    assert_eq!(delivered, 200);
    assert!(resent >= copies, "{resent} of {copies} are counted; {received} {breaks}");
}

#[test]
fn a_refused_message_is_sent_again_after_others_and_is_not_lost() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 10);
    let mut server = Server::new(accept(&listener));
    let (transactions, numbers) = server.messages(10);
    server.refuse(transactions[0]);
    transactions[1..].iter().for_each(|transaction| server.acknowledge(*transaction));
    rig.wait("the others are settled", |rig| rig.book().book.delivered == 9);
    assert!(rig.last_error().ends_with("did not accept a message: disk full"));
    let (transaction, number) = server.message().unwrap();
    assert_eq!(number, numbers[0]);
    server.refuse(transaction);
    rig.wait("it is failing", |rig| rig.stats.failing.load(Ordering::Relaxed));
    let (transaction, number) = server.message().unwrap();
    assert_eq!(number, numbers[0]);
    server.acknowledge(transaction);
    rig.wait("it has recovered", |rig| !rig.stats.failing.load(Ordering::Relaxed));
    assert_eq!((rig.errors("rejected"), rig.last_error().as_str()), (2, ""));
    let (rest, delivered, resent) = finish(rig, server.acknowledge_rest());
    assert_eq!((rest, delivered, resent), (vec![], 10, 2));
}

#[test]
fn a_server_that_refuses_everything_for_a_while_gets_everything_afterwards() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 8));
    append(&mut rig, 0, 50);
    let mut server = Server::new(accept(&listener));
    for _ in 0..100 {
        let (transaction, _) = server.message().unwrap();
        server.refuse(transaction);
    }
    assert_eq!(rig.book().book.delivered, 0);
    let (mut rest, delivered, resent) = finish(rig, server.acknowledge_rest());
    rest.sort_unstable();
    assert_eq!(rest, (0..50).collect::<Vec<_>>());
    assert_eq!((delivered, resent), (50, 100));
}

#[test]
fn a_server_that_does_not_answer_messages_is_left_after_the_timeout() {
    let (listener, address) = listen();
    let transport =
        SyslogTransport::Relp { unanswered_max: 128, ack_timeout: Duration::from_millis(200) };
    let mut rig = start(SyslogOutput { transport, ..relp(address, 128) });
    append(&mut rig, 0, 3);
    let mut hanging = Server::new(accept(&listener));
    hanging.messages(3);
    let rest = Server::new(accept(&listener)).acknowledge_rest();
    assert_eq!(rig.errors("ack"), 1);
    let (mut rest, delivered, resent) = finish(rig, rest);
    rest.sort_unstable();
    assert_eq!((rest, delivered, resent), (vec![0, 1, 2], 3, 3));
}

#[test]
fn a_server_that_does_not_open_the_session_is_left_after_the_timeout() {
    let (listener, address) = listen();
    let write_timeout = Duration::from_millis(200);
    let mut rig = start(SyslogOutput { write_timeout, ..relp(address, 128) });
    append(&mut rig, 0, 3);
    let _hanging = accept(&listener);
    let second = accept(&listener);
    assert!(rig.last_error().contains("did not answer within 200ms"), "{}", rig.last_error());
    let (mut rest, delivered, resent) = finish(rig, Server::new(second).acknowledge_rest());
    rest.sort_unstable();
    assert_eq!((rest, delivered, resent), (vec![0, 1, 2], 3, 0));
}

#[test]
fn a_peer_that_does_not_speak_relp_gets_no_records() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 3);
    let mut stream = accept(&listener);
    stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    let mut seen = String::new();
    stream.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "1 open 49 relp_version=0\nrelp_software=weir\ncommands=syslog\n");
    let rest = Server::new(accept(&listener)).acknowledge_rest();
    assert_eq!(rig.errors("protocol"), 1);
    let (mut rest, delivered, resent) = finish(rig, rest);
    rest.sort_unstable();
    assert_eq!((rest, delivered, resent), (vec![0, 1, 2], 3, 0));
}

#[test]
fn closing_an_idle_session_is_not_an_error() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 1);
    let mut server = Server::new(accept(&listener));
    let (transaction, _) = server.message().unwrap();
    server.acknowledge(transaction);
    rig.drain();
    server.relp.shut_down(&mut server.replies);
    server.reply();
    // The client closes the connection, too.
    assert_eq!(server.message(), None);
    append(&mut rig, 1, 1);
    let rest = Server::new(accept(&listener)).acknowledge_rest();
    rig.drain();
    assert!(rig.stats.errors.by_kind().is_empty());
    let (rest, delivered, resent) = finish(rig, rest);
    assert_eq!((rest, delivered, resent), (vec![1], 2, 0));
}

#[test]
fn messages_are_acknowledged_over_tls() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, pki.ca_pem()).unwrap();
    let (listener, address) = listen();
    let tls = Some(TlsSettings { ca_file: Some(ca_file), ..TlsSettings::default() });
    let mut rig = start(SyslogOutput { tls, ..relp(address, 128) });
    append(&mut rig, 0, 500);
    let connection = ServerConnection::new(pki.server(ServerCertificate::Good)).unwrap();
    let server = Server::new(StreamOwned::new(connection, accept(&listener)));
    let (mut rest, delivered, resent) = finish(rig, server.acknowledge_rest());
    rest.sort_unstable();
    assert_eq!(rest, (0..500).collect::<Vec<_>>());
    assert_eq!((delivered, resent), (500, 0));
}

#[test]
fn large_messages_are_sent_while_answers_arrive() {
    let (listener, address) = listen();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let mut rig = start(relp(address, 128));
    for _ in 0..16 {
        rig.append(1, &[Line::new(vec![b'x'; 60_000])]);
    }
    let mut stream = accept(&listener);
    expect(&mut stream, "1 open 49 relp_version=0\nrelp_software=weir\ncommands=syslog\n");
    stream.write_all(OPENED.as_bytes()).unwrap();
    for transaction in 2..18 {
        let head = format!("{transaction} syslog 60045 {HEADER} ");
        expect(&mut stream, &head);
        let mut body = vec![0; 60_001];
        stream.read_exact(&mut body).unwrap();
        assert!(body.ends_with(b"x\n"));
        stream.write_all(format!("{transaction} rsp 6 200 OK\n").as_bytes()).unwrap();
    }
    rig.drain();
    drop(stream);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.resent), (16, 0));
}

#[test]
fn a_stop_keeps_unacknowledged_records() {
    let (listener, address) = listen();
    let mut rig = start(relp(address, 128));
    append(&mut rig, 0, 10);
    let mut server = Server::new(accept(&listener));
    let (transactions, _) = server.messages(10);
    transactions[..4].iter().for_each(|transaction| server.acknowledge(*transaction));
    rig.wait("four are settled", |rig| rig.book().book.delivered == 4);
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.in_flight), (4, 6));
}
