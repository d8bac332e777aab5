//! The output `socket` against peers that listen, hang, disconnect and go away.

mod harness;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use harness::{DEADLINE, Line, Rig};
use rustls::{ServerConnection, StreamOwned};
use weir_pipeline::config::{Encoding, OutputKind, TlsSettings};
use weir_pipeline::output::{SocketOutput, SocketProtocol};
use weir_pipeline::stats::get;
use weir_testkit::{LineId, Pki, ServerCertificate};

fn socket(address: SocketAddr, protocol: SocketProtocol) -> SocketOutput {
    SocketOutput {
        address: address.to_string(),
        protocol,
        encoding: Encoding::Raw,
        datagram_bytes_max: 1024,
        write_timeout: Duration::from_secs(5),
        retry_min: Duration::from_millis(2),
        retry_max: Duration::from_millis(50),
        tls: TlsSettings::default(),
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Listens with receive buffers so small that a writer soon has to wait.
fn listen_narrow() -> (TcpListener, SocketAddr) {
    let (listener, address) = listen();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    (listener, address)
}

fn start(plan: SocketOutput) -> Rig {
    Rig::start(OutputKind::Socket(Box::new(plan)))
}

fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    BufReader::new(stream)
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

/// Reads everything until the end of the connection.
fn read_all(mut reader: BufReader<TcpStream>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    })
}

/// Returns the numbers of complete lines; an incomplete last one is ignored.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let lines = bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
    lines
        .map(|line| {
            let id = LineId::parse(&line[..line.len() - 1]).unwrap();
            assert!(id.intact);
            id.seq
        })
        .collect()
}

#[test]
fn lines_arrive_in_order_over_tcp_raw_and_as_json() {
    for encoding in [Encoding::Raw, Encoding::Json] {
        let (listener, address) = listen();
        let plan = SocketOutput { encoding, ..socket(address, SocketProtocol::Tcp) };
        let mut rig = start(plan);
        rig.append(1, &[Line::new("one"), Line::new("two\nlines"), Line::new("three")]);
        let mut reader = accept(&listener);
        let seen: Vec<String> = (0..3).map(|_| line(&mut reader)).collect();
        if encoding == Encoding::Raw {
            assert_eq!(seen, ["one\n", "two\\nlines\n", "three\n"]);
        } else {
            let object: serde_json::Value = serde_json::from_str(&seen[1]).unwrap();
            assert_eq!(object["body"], "two\nlines");
        }
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 3);
    }
}

/// Returns settings for a listener with a valid certificate of an authority that is trusted or not.
fn tls(address: SocketAddr, dir: &tempfile::TempDir, trusted: &Pki) -> SocketOutput {
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, trusted.ca_pem()).unwrap();
    SocketOutput {
        tls: TlsSettings { ca_file: Some(ca_file), ..TlsSettings::default() },
        ..socket(address, SocketProtocol::Tls)
    }
}

fn accept_tls(listener: &TcpListener, pki: &Pki) -> impl BufRead + use<> {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let server = ServerConnection::new(pki.server(ServerCertificate::Good)).unwrap();
    BufReader::new(StreamOwned::new(server, stream))
}

#[test]
fn lines_arrive_over_tls_before_they_are_settled() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    let (listener, address) = listen();
    let mut rig = start(tls(address, &dir, &pki));
    rig.append_numbered(1, 1000, 100);
    let mut reader = accept_tls(&listener, &pki);
    let mut seen = Vec::new();
    for _ in 0..1000 {
        reader.read_until(b'\n', &mut seen).unwrap();
    }
    assert_eq!(numbers(&seen), (0..1000).collect::<Vec<_>>());
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 1000);
}

#[test]
fn a_peer_whose_certificate_is_not_trusted_gets_nothing() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    let (listener, address) = listen();
    let mut rig = start(tls(address, &dir, &Pki::new()));
    rig.append_numbered(1, 10, 10);
    let mut sent = String::new();
    // The rejection is an error on this side, too.
    assert!(accept_tls(&listener, &pki).read_line(&mut sent).is_err(), "{sent:?} was sent");
    rig.wait("the error is counted", |rig| rig.errors("certificate_unknown_authority") > 0);
    assert!(rig.last_error().contains("certificate"), "{}", rig.last_error());
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.in_flight), (0, 10));
}

#[test]
fn a_peer_that_is_down_gets_everything_when_it_is_back() {
    let (listener, address) = listen();
    drop(listener);
    let mut rig = start(socket(address, SocketProtocol::Tcp));
    rig.append_numbered(1, 1000, 100);
    rig.wait("it is failing", |rig| rig.stats.failing.load(Ordering::Relaxed));
    assert_eq!(rig.book().book.delivered, 0);
    let listener = TcpListener::bind(address).unwrap();
    let reading = read_all(accept(&listener));
    rig.drain();
    assert_eq!(rig.last_error(), "");
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 1000);
    assert_eq!(numbers(&reading.join().unwrap()), (0..1000).collect::<Vec<_>>());
}

#[test]
fn after_a_break_the_next_connection_begins_with_a_whole_line_and_misses_nothing_unsent() {
    let (listener, address) = listen_narrow();
    let mut rig = start(socket(address, SocketProtocol::Tcp));
    // More than all buffers on the way hold, so that the connection breaks in the middle.
    let lines: Vec<Line> = (0..100)
        .map(|seq| {
            let mut body = Vec::new();
            LineId::write("s", 0, seq, &vec![b'x'; 50_000], &mut body);
            Line::new(body)
        })
        .collect();
    let feed = |rig: &mut Rig, lines: &[Line]| {
        lines.chunks(2).for_each(|batch| rig.append(1, batch));
    };
    feed(&mut rig, &lines[..10]);
    let mut first = accept(&listener);
    let mut begun = vec![0; 600_000];
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| first.read_exact(&mut begun).unwrap());
        rig.wait("ten lines are settled", |rig| rig.book().book.delivered == 10);
        feed(&mut rig, &lines[10..20]);
        reading.join().unwrap();
    });
    drop(first);
    feed(&mut rig, &lines[20..30]);
    let second = accept(&listener);
    let settled = rig.book().book.delivered;
    let reading = read_all(second);
    for part in lines[30..].chunks(10) {
        rig.drain();
        feed(&mut rig, part);
    }
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 100);
    let rest = numbers(&reading.join().unwrap());
    assert!(rest[0] <= settled, "{} was never sent, {settled} were settled", rest[0]);
    assert_eq!(rest, (rest[0]..100).collect::<Vec<_>>());
}

#[test]
fn a_peer_that_accepts_nothing_is_abandoned_after_the_timeout() {
    let (listener, address) = listen_narrow();
    let plan = SocketOutput {
        write_timeout: Duration::from_millis(200),
        ..socket(address, SocketProtocol::Tcp)
    };
    let mut rig = start(plan);
    let name = |seq: u64| Line::new(vec![b'a' + (seq % 26) as u8; 250_000]);
    // Connections stay in the listener's queue, where nobody reads them.
    let mut seq = 0;
    rig.append(1, &[name(seq)]);
    while rig.errors("timeout") == 0 {
        assert!(seq < 100, "100 lines were taken");
        rig.wait("a line is taken, or not", |rig| {
            rig.book().in_flight == 0 || rig.errors("timeout") > 0
        });
        if rig.book().in_flight == 0 {
            seq += 1;
            rig.append(1, &[name(seq)]);
        }
    }
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered + ledger.in_flight, seq + 1);
    drop(listener);
}

#[test]
fn every_record_is_a_datagram_and_long_ones_are_cut_and_counted() {
    for encoding in [Encoding::Raw, Encoding::Json] {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(DEADLINE)).unwrap();
        let plan =
            SocketOutput { encoding, ..socket(peer.local_addr().unwrap(), SocketProtocol::Udp) };
        let mut rig = start(plan);
        let long = "\"é".repeat(5000);
        rig.append(1, &[Line::new("one"), Line::new(long.clone()), Line::new("three")]);
        let mut datagrams = Vec::new();
        for _ in 0..3 {
            let mut buffer = vec![0; 65_536];
            let len = peer.recv(&mut buffer).unwrap();
            datagrams.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        }
        rig.drain();
        assert_eq!(rig.errors("cut"), 1);
        assert!(datagrams[1].len() <= 1024);
        if encoding == Encoding::Raw {
            assert_eq!((datagrams[0].as_str(), datagrams[2].as_str()), ("one", "three"));
            assert!(long.starts_with(&datagrams[1]) && datagrams[1].len() > 1000);
        } else {
            let object: serde_json::Value = serde_json::from_str(&datagrams[1]).unwrap();
            assert!(long.starts_with(object["body"].as_str().unwrap()));
            assert_eq!(object["attributes"]["log.truncated"], true);
        }
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 3);
    }
}

#[test]
fn a_udp_peer_that_is_away_is_tried_again_and_the_book_balances() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    drop(peer);
    let mut rig = start(socket(address, SocketProtocol::Udp));
    rig.append_numbered(1, 100, 10);
    rig.wait("a refusal", |rig| rig.errors("reset") > 0);
    let _peer = UdpSocket::bind(address).unwrap();
    rig.drain();
    assert!(get(&rig.stats.bytes_sent) > 0);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 100);
}

#[test]
fn a_stop_keeps_unsent_records() {
    let (listener, address) = listen();
    drop(listener);
    let mut rig = start(socket(address, SocketProtocol::Tcp));
    rig.append_numbered(1, 10, 10);
    rig.wait("an error", |rig| {
        rig.errors("refused") > 0 || rig.stats.failing.load(Ordering::Relaxed)
    });
    rig.stop(Duration::ZERO);
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.in_flight), (0, 10));
}
