//! The output `syslog` without acknowledgement: over TCP, TLS and UDP.

mod harness;

use std::io::{BufRead as _, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use harness::{DEADLINE, Line, Rig};
use rustls::{ServerConnection, StreamOwned};
use weir_host::Zone;
use weir_pipeline::config::{OutputKind, SyslogFormat, SyslogOutputFraming, TlsSettings};
use weir_pipeline::output::{SyslogOutput, SyslogTransport};
use weir_testkit::{Pki, ServerCertificate};

const LINES: SyslogTransport = SyslogTransport::Stream(SyslogOutputFraming::Lines);
const COUNTED: SyslogTransport = SyslogTransport::Stream(SyslogOutputFraming::OctetCounted);

/// The header of the harness's records.
const HEADER: &str = "<13>1 2023-11-14T22:13:20.000000Z vm - - - -";

fn syslog(address: SocketAddr, transport: SyslogTransport) -> SyslogOutput {
    SyslogOutput {
        address: address.to_string(),
        transport,
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

/// Reads as many bytes as are expected, and compares them.
fn expect(reader: &mut impl Read, expected: &str) {
    let mut seen = vec![0; expected.len()];
    reader.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8(seen).unwrap(), expected);
}

fn counted(message: &str) -> String {
    format!("{} {message}", message.len())
}

#[test]
fn messages_are_lines_with_escaped_newlines() {
    let (listener, address) = listen();
    let mut rig = start(syslog(address, LINES));
    rig.append(1, &[Line::new("one"), Line::new("two\nlines")]);
    expect(&mut accept(&listener), &format!("{HEADER} one\n{HEADER} two\\nlines\n"));
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 2);
}

#[test]
fn octet_counted_messages_keep_their_newlines() {
    let (listener, address) = listen();
    let mut rig = start(syslog(address, COUNTED));
    rig.append(1, &[Line::new("one"), Line::new("two\nlines")]);
    let expected = format!("48 {HEADER} one54 {HEADER} two\nlines");
    expect(&mut accept(&listener), &expected);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 2);
}

#[test]
fn rfc_3164_has_the_local_time_that_was_valid_at_the_time_of_the_record() {
    let (listener, address) = listen();
    let plan = SyslogOutput {
        format: SyslogFormat::Rfc3164,
        zone: Zone::parse("Europe/Berlin").unwrap(),
        ..syslog(address, LINES)
    };
    let mut rig = start(plan);
    rig.append(1, &[Line::new("in winter")]);
    rig.append_syslog(2, &[b"<34>1 2023-07-14T22:13:20Z h su 42 - - in summer"]);
    let mut reader = BufReader::new(accept(&listener));
    let mut seen = [String::new(), String::new()];
    for line in &mut seen {
        reader.read_line(line).unwrap();
    }
    seen.sort();
    let winter = "<13>Nov 14 23:13:20 vm in winter\n";
    assert_eq!(seen, [winter, "<34>Jul 15 00:13:20 vm su[42]: in summer\n"]);
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 2);
}

#[test]
fn messages_in_the_configured_format_are_sent_unchanged() {
    let new: &str = "<165>1 2003-10-11T22:14:15.003000001z h app 8710 ID47 [ex@1 a=\"1\"]  text \t";
    let old: &str = "<34>Oct  1 22:14:15 mymachine su[42]:  failed";
    for (format, kept) in [(SyslogFormat::Rfc5424, new), (SyslogFormat::Rfc3164, old)] {
        let (listener, address) = listen();
        let mut rig = start(SyslogOutput { format, ..syslog(address, COUNTED) });
        rig.append_syslog(1, &[kept.as_bytes(), new.as_bytes(), old.as_bytes(), kept.as_bytes()]);
        let mut stream = accept(&listener);
        expect(&mut stream, &counted(kept));
        rig.drain();
        let (ledger, _dir) = rig.finish();
        assert_eq!(ledger.book.delivered, 4);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with(&counted(kept)), "{rest:?}");
        let is_kept = |message: &str| rest.contains(&counted(message));
        assert_eq!((is_kept(new), is_kept(old)), (kept == new, kept == old));
    }
}

#[test]
fn messages_arrive_over_tls_before_they_are_settled() {
    let (pki, dir) = (Pki::new(), tempfile::tempdir().unwrap());
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, pki.ca_pem()).unwrap();
    let (listener, address) = listen();
    let tls = Some(TlsSettings { ca_file: Some(ca_file), ..TlsSettings::default() });
    let mut rig = start(SyslogOutput { tls, ..syslog(address, COUNTED) });
    rig.append(1, &[Line::new("secret")]);
    let server = ServerConnection::new(pki.server(ServerCertificate::Good)).unwrap();
    let mut stream = StreamOwned::new(server, accept(&listener));
    expect(&mut stream, &counted(&format!("{HEADER} secret")));
    rig.drain();
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 1);
}

#[test]
fn every_message_is_a_datagram_and_long_ones_are_cut_and_counted() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(DEADLINE)).unwrap();
    let address = peer.local_addr().unwrap();
    let plan =
        SyslogOutput { message_bytes_max: 480, ..syslog(address, SyslogTransport::Datagrams) };
    let mut rig = start(plan);
    rig.append(1, &[Line::new("one"), Line::new("é".repeat(500)), Line::new("three")]);
    let datagram = || {
        let mut buffer = vec![0; 65_536];
        let len = peer.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    };
    assert_eq!(datagram(), format!("{HEADER} one"));
    let cut = datagram();
    assert!(cut.starts_with(&format!("{HEADER} éé")) && [479, 480].contains(&cut.len()), "{cut}");
    assert_eq!(datagram(), format!("{HEADER} three"));
    rig.drain();
    assert_eq!(rig.errors("cut"), 1);
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 3);
}

#[test]
fn a_peer_that_is_down_gets_everything_when_it_is_back() {
    let (listener, address) = listen();
    drop(listener);
    let mut rig = start(syslog(address, LINES));
    rig.append(1, &[Line::new("one")]);
    rig.wait("it is refused", |rig| rig.errors("refused") > 1);
    let listener = TcpListener::bind(address).unwrap();
    expect(&mut accept(&listener), &format!("{HEADER} one\n"));
    rig.wait("it has recovered", |rig| rig.last_error().is_empty());
    let (ledger, _dir) = rig.finish();
    assert_eq!(ledger.book.delivered, 1);
}
