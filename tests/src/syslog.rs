//! The syslog source: acknowledged messages are delivered, and losses of unacknowledged ones are
//! counted, despite kills and failures.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use weir_measure::load::{LoadReport, StreamReport};
use weir_testkit::{Answer, Books, Collector, LineId, Oracle, PATIENCE, Tally, wait_for};

use crate::scene::{OUTPUT, Scene, at_rest, hec, judge};

/// Returns a source with these keys.
pub(crate) fn source(name: &str, keys: &str) -> String {
    format!("[source.{name}]\ntype = \"syslog\"\n{keys}\n")
}

const ANY_PORT: &str = "listen = \"127.0.0.1:0\"";

/// Returns an output to a file of JSON lines.
pub(crate) fn file(scene: &Scene) -> String {
    format!(
        "[output.{OUTPUT}]\ntype = \"file\"\npath = \"{}\"\nencoding = \"json\"\n",
        scene.dir().join("out.log").display()
    )
}

pub(crate) fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // Of a line that is just being written, there may be a part.
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// Returns the message of a numbered line from a host.
pub(crate) fn message(stream: &str, seq: u64) -> Vec<u8> {
    let mut line = format!("<13>Oct 11 22:14:15 {stream} app[7]: ").into_bytes();
    LineId::write(stream, 0, seq, &[b'x'; 150], &mut line);
    line
}

/// Returns what senders of these streams would report.
pub(crate) fn streams_report(streams: &[(&str, u64)]) -> Vec<LoadReport> {
    let lines = streams.iter().map(|(_, lines)| lines).sum();
    let streams = streams
        .iter()
        .map(|(name, lines)| StreamReport { name: (*name).to_owned(), first_seq: 0, lines: *lines })
        .collect();
    let (bytes, rotations, seconds, lateness_max_seconds) = (0, 0, 0.0, 0.0);
    vec![LoadReport { lines, bytes, rotations, seconds, lateness_max_seconds, streams }]
}

/// Returns how many lines a source discarded for this reason.
fn lost(books: &Books, source: &str, reason: &str) -> u64 {
    books.source(source)["book"]["discarded"][reason].as_u64().unwrap_or(0)
}

#[test]
fn messages_over_every_transport_arrive_with_their_host_and_program() {
    let scene = Scene::new();
    let (stream, datagram) = (scene.dir().join("stream.sock"), scene.dir().join("dgram.sock"));
    let unix = |protocol: &str, path: &Path| {
        format!("protocol = \"{protocol}\"\npath = \"{}\"", path.display())
    };
    let mut weir = scene.start(
        &[
            source("tcp", ANY_PORT),
            source("udp", &format!("protocol = \"udp\"\n{ANY_PORT}")),
            source("stream", &unix("unix_stream", &stream)),
            source("datagram", &unix("unix_datagram", &datagram)),
            file(&scene),
        ]
        .concat(),
    );
    let mut tcp = TcpStream::connect(weir.source_address("tcp")).unwrap();
    tcp.write_all(b"<34>Oct 11 22:14:15 web0001 su[42]: tcp by line\n").unwrap();
    let counted = "<165>1 2026-10-11T22:14:15.003Z web0002 app 1 ID1 - tcp count";
    tcp.write_all(format!("{} {counted}\n", counted.len()).as_bytes()).unwrap();
    tcp.write_all(b"tcp without a header\n<13>Oct 11 22:14:15 web0003 a: tcp without an end")
        .unwrap();
    drop(tcp);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"<13>Oct 11 22:14:15 web0004 a: udp\n", weir.source_address("udp")).unwrap();
    let mut unix = UnixStream::connect(&stream).unwrap();
    unix.write_all(b"<13>Oct 11 22:14:15 cron[7]: stream\n").unwrap();
    UnixDatagram::unbound().unwrap().send_to(b"<13>datagram", &datagram).unwrap();
    let books = weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == 7);
    books.assert_balanced();
    let by_body: BTreeMap<String, Value> = records(&scene.dir().join("out.log"))
        .into_iter()
        .map(|record| (record["body"].as_str().unwrap().to_owned(), record))
        .collect();
    let of = |body: &str, attribute: &str| by_body[body]["resource"][attribute].clone();
    for (body, host, program) in [
        ("tcp by line", "web0001", Value::from("su")),
        ("tcp count", "web0002", "app".into()),
        ("tcp without a header", "127.0.0.1", Value::Null),
        ("tcp without an end", "web0003", "a".into()),
        ("udp", "web0004", "a".into()),
    ] {
        assert_eq!(of(body, "host.name"), host, "{body}");
        assert_eq!(of(body, "service.name"), program, "{body}");
        assert_eq!(of(body, "network.peer.address"), "127.0.0.1", "{body}");
    }
    assert_eq!(of("stream", "service.name"), "cron");
    assert_eq!(of("datagram", "network.peer.address"), Value::Null);
    assert_eq!(by_body["tcp count"]["severity_text"], "NOTICE");
    weir.stop();
    assert!(!stream.exists() && !datagram.exists(), "sockets are removed");
}

#[test]
fn messages_do_not_depend_on_packets_and_long_ones_are_truncated_and_counted() {
    let scene = Scene::new();
    let source = source("tcp", &format!("{ANY_PORT}\nmessage_max = \"1KiB\""));
    let mut weir = scene.start(&(source + &file(&scene)));
    let mut sent = Vec::new();
    for seq in 0..50 {
        let line = format!("<13>1 - h a - - - {seq} {}", "y".repeat(seq * 60));
        match seq % 2 {
            0 => sent.extend_from_slice(format!("{line}\n").as_bytes()),
            _ => sent.extend_from_slice(format!("{} {line}", line.len()).as_bytes()),
        }
    }
    let mut tcp = TcpStream::connect(weir.source_address("tcp")).unwrap();
    tcp.set_nodelay(true).unwrap();
    for piece in sent.chunks(7) {
        tcp.write_all(piece).unwrap();
    }
    drop(tcp);
    let books = weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == 50);
    let arrived = records(&scene.dir().join("out.log"));
    for (seq, record) in arrived.iter().enumerate() {
        let body = record["body"].as_str().unwrap();
        assert!(body.starts_with(&format!("{seq} y")) || seq == 0, "{seq}: {body}");
        let is_cut = record["attributes"]["log.truncated"] == true;
        assert_eq!(is_cut, body.len() < seq * 60, "{seq}");
    }
    let abandoned = books.source("tcp")["book"]["bytes_abandoned"]["line_too_long"].as_u64();
    let read = books.source("tcp")["book"]["bytes_read"].as_u64().unwrap();
    let lines: usize =
        (0..50).map(|seq| format!("<13>1 - h a - - - {seq} ").len() + seq * 60).sum();
    assert_eq!(read + abandoned.unwrap(), lines as u64);
    books.assert_balanced();
    weir.stop();
}

/// A client of RELP that sends numbered messages and notes how many were acknowledged.
pub(crate) struct RelpSender {
    pub(crate) stream: TcpStream,
    answers: BufReader<TcpStream>,
    transaction: u64,
}

impl RelpSender {
    pub(crate) fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let answers = BufReader::new(stream.try_clone()?);
        let mut sender = Self { stream, answers, transaction: 0 };
        let offer = b"relp_version=0\nrelp_software=test\ncommands=syslog";
        sender.frame("open", offer)?;
        let answer = sender.answer()?;
        assert!(answer.contains("200 OK"), "{answer}");
        Ok(sender)
    }

    fn frame(&mut self, command: &str, data: &[u8]) -> std::io::Result<()> {
        let frame = self.next_frame(command, data);
        self.stream.write_all(&frame)
    }

    fn next_frame(&mut self, command: &str, data: &[u8]) -> Vec<u8> {
        self.transaction += 1;
        let mut frame = format!("{} {command} {} ", self.transaction, data.len()).into_bytes();
        frame.extend_from_slice(data);
        frame.push(b'\n');
        frame
    }

    fn answer(&mut self) -> std::io::Result<String> {
        let mut head = Vec::new();
        for _ in 0..3 {
            self.answers.read_until(b' ', &mut head)?;
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let len = head.split(' ').nth(2).and_then(|len| len.parse().ok());
        let len: usize = len.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let mut data = vec![0; len + 1];
        self.answers.read_exact(&mut data)?;
        Ok(head + &String::from_utf8_lossy(&data))
    }

    /// Sends messages from `first` on in windows of 100; returns the first that is not acknowledged
    /// for certain.
    pub(crate) fn send(&mut self, stream: &str, first: u64, end: u64) -> u64 {
        let mut acknowledged = first;
        while acknowledged < end {
            let window = (end - acknowledged).min(100);
            let seqs = acknowledged..acknowledged + window;
            let frames: Vec<u8> =
                seqs.flat_map(|seq| self.next_frame("syslog", &message(stream, seq))).collect();
            if self.stream.write_all(&frames).is_err() {
                return acknowledged;
            }
            for _ in 0..window {
                match self.answer() {
                    Ok(answer) => assert!(answer.contains(" rsp 6 200 OK"), "{answer}"),
                    Err(_) => return acknowledged,
                }
                acknowledged += 1;
            }
        }
        acknowledged
    }
}

#[test]
fn kills_lose_nothing_that_relp_has_acknowledged() {
    let scene = Scene::new();
    let collector = Collector::start();
    let source = source("relp", &format!("protocol = \"relp\"\n{ANY_PORT}"));
    let config = source + &hec(OUTPUT, &collector, "window = \"1MiB\"\nbatch_size = \"128KiB\"\n");
    let mut weir = scene.start(&config);
    let mut acknowledged = 0;
    for kill_at in [3_000, 9_000, 16_000] {
        let address = weir.source_address("relp");
        let sending = std::thread::spawn(move || {
            RelpSender::connect(address).unwrap().send("s0", acknowledged, 20_000)
        });
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= kill_at));
        weir.kill();
        acknowledged = sending.join().unwrap();
        weir = scene.start(&config);
    }
    let mut sender = RelpSender::connect(weir.source_address("relp")).unwrap();
    assert_eq!(sender.send("s0", acknowledged, 20_000), 20_000);
    let oracle =
        Oracle { ordered: false, lost_answers_lines: u64::MAX / 2, ..Oracle::strict(OUTPUT) };
    judge(&oracle, &streams_report(&[("s0", 20_000)]), &collector, &weir);
    sender.frame("close", b"").unwrap();
    let mut end = String::new();
    sender.answers.read_to_string(&mut end).unwrap();
    assert_eq!(end, format!("{} rsp 0\n0 serverclose 0\n", sender.transaction));
    weir.stop();
}

/// Sends messages until the connection is closed. Returns the number of the next one.
fn send_until_refused(address: SocketAddr, first: u64) -> JoinHandle<u64> {
    let mut tcp = TcpStream::connect(address).unwrap();
    std::thread::spawn(move || {
        let mut seq = first;
        loop {
            let mut line = message("s0", seq);
            line.push(b'\n');
            seq += 1;
            if tcp.write_all(&line).is_err() {
                return seq;
            }
        }
    })
}

#[test]
fn kills_under_load_count_what_was_received_and_not_stored() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = source("tcp", ANY_PORT) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let mut sent = 0;
    for kill in 0..4 {
        let sender = send_until_refused(weir.source_address("tcp"), sent);
        let delivered = |books: &Books| books.output(OUTPUT)["book"]["delivered"].as_u64().unwrap();
        let before = delivered(&weir.books());
        // The last messages are still on their way when weir is killed.
        let enough = |books: &Books| delivered(books) >= before + 3_000 + kill * 2_500;
        weir.wait_books("some were delivered", PATIENCE, enough);
        weir.kill();
        sent = sender.join().unwrap();
        weir = scene.start(&config);
    }
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    let (crash, arrived) = (lost(&books, "tcp", "crash"), collector.look(Tally::unique));
    let lines = books.source("tcp")["book"]["lines"].as_u64().unwrap();
    // Weir delivered or counted everything that it read; the rest never left the kernel's buffers.
    assert!(lines <= sent && arrived + crash >= lines, "{sent} {lines} {arrived} {crash}");
    assert_eq!(books.records() + crash, lines);
    // Records that were delivered before a kill, and never written, are in the book of the output
    // as well.
    let book = &books.output(OUTPUT)["book"];
    assert_eq!(book["routed"], books.records(), "{book}");
    assert_eq!(book["delivered"], books.records(), "{book}");
    weir.stop();
    println!("sent {sent}, read {lines}, arrived {arrived}, counted as lost {crash}");
}

#[test]
fn a_full_buffer_stops_tcp_and_counts_what_the_kernel_drops_of_udp() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let udp_keys = format!("protocol = \"udp\"\nreceive_buffer = \"256KiB\"\n{ANY_PORT}");
    let config = source("tcp", ANY_PORT)
        + &source("udp", &udp_keys)
        + &hec(OUTPUT, &collector, "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n");
    let mut weir = scene.start(&config);
    let address = weir.source_address("tcp");
    // More than all buffers hold: the sender has to wait.
    let sending = std::thread::spawn(move || {
        let mut tcp = TcpStream::connect(address).unwrap();
        for seq in 0..60_000 {
            let mut line = message("s0", seq);
            line.push(b'\n');
            tcp.write_all(&line).unwrap();
        }
    });
    let is_full = |books: &Books| books.output(OUTPUT)["blocking"] == true;
    weir.wait_books("the buffer is full", PATIENCE, is_full);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = weir.source_address("udp");
    let mut datagrams = 0;
    let dropped = wait_for(PATIENCE, || {
        for _ in 0..500 {
            socket.send_to(&message("s1", datagrams), address).unwrap();
            datagrams += 1;
        }
        (kernel_drops(address) > 100).then_some(())
    });
    assert!(dropped.is_some(), "the kernel drops nothing");
    collector.answer(Answer::Accept);
    sending.join().unwrap();
    let total = 60_000 + datagrams;
    let all = |books: &Books| books.records() + lost(books, "udp", "receive_buffer") == total;
    weir.wait_books("all is read or counted", PATIENCE, all);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    let dropped = lost(&books, "udp", "receive_buffer");
    assert!(dropped > 100, "{books}");
    assert_eq!(collector.look(|tally| tally.unique_of("s0")), 60_000);
    assert_eq!(collector.look(|tally| tally.unique_of("s1")) + dropped, datagrams);
    weir.stop();
}

/// Returns how many datagrams the kernel has dropped from a UDP socket.
fn kernel_drops(address: SocketAddr) -> u64 {
    let port = format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let line = table
        .lines()
        .find(|line| line.split_whitespace().nth(1).is_some_and(|a| a.ends_with(&port)));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

#[test]
fn nonsense_closes_its_connection_only_and_addresses_can_be_refused() {
    let scene = Scene::new();
    let refused = format!("{ANY_PORT}\nallow = [\"192.0.2.0/24\"]");
    let few = format!("{ANY_PORT}\nconnections_per_address_max = 2");
    let config = source("tcp", ANY_PORT)
        + &source("closed", &refused)
        + &source("few", &few)
        + &file(&scene);
    let mut weir = scene.start(&config);
    let mut good = TcpStream::connect(weir.source_address("tcp")).unwrap();
    good.write_all(b"<13>1 - h a - - - before\n").unwrap();
    let mut bad = TcpStream::connect(weir.source_address("tcp")).unwrap();
    bad.write_all(b"<13>1 - h a - - - kept\n99999999999999999999 <13>x").unwrap();
    let mut rest = Vec::new();
    bad.set_read_timeout(Some(PATIENCE)).unwrap();
    let _closed = bad.read_to_end(&mut rest);
    good.write_all(b"<13>1 - h a - - - after\n").unwrap();
    let is_closed = |name: &str| {
        let mut stranger = TcpStream::connect(weir.source_address(name)).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        // The connection ends, in one way or another.
        stranger.read(&mut [0]).map_or(true, |count| count == 0)
    };
    assert!(is_closed("closed"));
    let mut two: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(weir.source_address("few")).unwrap()).collect();
    two[1].write_all(b"<13>1 - h a - - - second\n").unwrap();
    weir.wait_books("it is served", PATIENCE, |books| books.delivered(OUTPUT) == 4);
    assert!(is_closed("few"));
    let metrics = weir.metrics();
    for kind in ["framing", "not_allowed", "too_many_connections"] {
        assert!(metrics.contains(&format!("error_type=\"{kind}\"")), "{kind}: {metrics}");
    }
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_stop_takes_what_has_arrived_and_ends_in_time() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = source("tcp", ANY_PORT) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let mut tcp = TcpStream::connect(weir.source_address("tcp")).unwrap();
    let mut idle = TcpStream::connect(weir.source_address("tcp")).unwrap();
    idle.write_all(b"<13>unfinished").unwrap();
    for seq in 0..2_000 {
        let mut line = message("s0", seq);
        line.push(b'\n');
        tcp.write_all(&line).unwrap();
    }
    weir.wait_books("some has arrived", PATIENCE, |books| books.records() > 0);
    let begun = std::time::Instant::now();
    weir.stop();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let mut weir = scene.start(&config);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    assert_eq!((books.records(), lost(&books, "tcp", "crash")), (2_001, 0));
    assert_eq!(collector.look(Tally::unique), 2_000);
    weir.stop();
}
