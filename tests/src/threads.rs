//! Sources that receive with several threads: nothing is lost or counted twice between them,
//! whatever their number before and after a kill.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::Value;
use weir_testkit::{Collector, Oracle, PATIENCE, Pki, Tally, Weir, wait_for};

use crate::intake::{self, PATH};
use crate::scene::{OUTPUT, Scene, at_rest, hec, judge};
use crate::syslog::{RelpSender, file, message, source, streams_report};

const SENDERS: u64 = 12;

fn threads(protocol: &str, count: usize) -> String {
    let keys = format!("protocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"\nthreads = {count}");
    source("in", &keys)
}

/// Returns the name of the stream of a sender.
fn stream_of(sender: u64) -> String {
    format!("s{sender}")
}

/// Names of the files with the numbers of what the threads of a source received.
fn received_files(weir: &Weir) -> BTreeSet<String> {
    let entries = std::fs::read_dir(weir.data_dir().join("received")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Sends messages over several connections until they are closed. Returns the number of the next
/// message of each.
fn send_until_refused(address: SocketAddr, first: &[u64]) -> Vec<JoinHandle<u64>> {
    let senders = first.iter().enumerate().map(|(sender, first)| {
        let mut tcp = TcpStream::connect(address).unwrap();
        let (stream, mut seq) = (stream_of(sender as u64), *first);
        std::thread::spawn(move || {
            loop {
                let mut line = message(&stream, seq);
                line.push(b'\n');
                seq += 1;
                if tcp.write_all(&line).is_err() {
                    return seq;
                }
            }
        })
    });
    senders.collect()
}

#[test]
fn kills_count_what_every_thread_had_received_also_with_fewer_threads_afterwards() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = |count| threads("tcp", count) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config(4));
    let mut sent = vec![0; SENDERS as usize];
    for (kill, next_count) in [1, 3, 2].into_iter().enumerate() {
        let senders = send_until_refused(weir.source_address("in"), &sent);
        let before = collector.look(Tally::unique);
        assert!(collector.wait(PATIENCE, |tally| tally.unique() >= before + 8_000));
        weir.kill();
        sent = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        if kill == 0 {
            let expected = ["in", "in.1", "in.2", "in.3"].map(str::to_owned);
            assert_eq!(received_files(&weir), BTreeSet::from(expected));
        }
        weir = scene.start(&config(next_count));
    }
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    let book = &books.source("in")["book"];
    let crash = book["discarded"]["crash"].as_u64().unwrap_or(0);
    let lines = book["lines"].as_u64().unwrap();
    let arrived = collector.look(Tally::unique);
    let sent: u64 = sent.iter().sum();
    assert!(lines <= sent && arrived + crash >= lines, "{sent} {lines} {arrived} {crash}");
    assert_eq!(books.records() + crash, lines);
    assert_eq!(books.output(OUTPUT)["book"]["delivered"], books.records(), "{books}");
    weir.stop();
    println!("sent {sent}, read {lines}, arrived {arrived}, counted as lost {crash}");
}

#[test]
fn what_relp_acknowledged_over_several_threads_arrives_in_order_in_spite_of_a_kill() {
    const LINES: u64 = 2_000;
    let scene = Scene::new();
    let collector = Collector::start();
    let config = threads("relp", 3) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let send_all = |weir: &Weir, first: Vec<u64>| -> Vec<JoinHandle<u64>> {
        let address = weir.source_address("in");
        let senders = first.into_iter().enumerate().map(|(sender, first)| {
            let stream = stream_of(sender as u64);
            std::thread::spawn(move || {
                RelpSender::connect(address).unwrap().send(&stream, first, LINES)
            })
        });
        senders.collect()
    };
    let senders = send_all(&weir, vec![0; SENDERS as usize]);
    assert!(collector.wait(PATIENCE, |tally| tally.unique() >= SENDERS * LINES / 3));
    weir.kill();
    let acknowledged = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    weir = scene.start(&config);
    for sender in send_all(&weir, acknowledged) {
        assert_eq!(sender.join().unwrap(), LINES);
    }
    let names: Vec<String> = (0..SENDERS).map(stream_of).collect();
    let streams: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), LINES)).collect();
    let oracle =
        Oracle { ordered: false, lost_answers_lines: u64::MAX / 2, ..Oracle::strict(OUTPUT) };
    judge(&oracle, &streams_report(&streams), &collector, &weir);
    weir.stop();
}

#[test]
fn datagrams_of_many_senders_arrive_once_whichever_socket_receives_them() {
    const DATAGRAMS: u64 = 200;
    let scene = Scene::new();
    let collector = Collector::start();
    let config = threads("udp", 4) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config);
    let address = weir.source_address("in");
    let sockets: Vec<UdpSocket> =
        (0..SENDERS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for seq in 0..DATAGRAMS {
        for (socket, sender) in sockets.iter().zip(0..) {
            socket.send_to(&message(&stream_of(sender), seq), address).unwrap();
        }
    }
    let total = SENDERS * DATAGRAMS;
    weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == total);
    let tally = collector.tally();
    assert_eq!((tally.unique(), tally.duplicates()), (total, 0));
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}

#[test]
fn limits_of_connections_apply_to_all_threads_together() {
    let scene = Scene::new();
    let keys = "listen = \"127.0.0.1:0\"\nthreads = 4\nconnections_per_address_max = 3";
    let mut weir = scene.start(&(source("in", keys) + &file(&scene)));
    let connect = || TcpStream::connect(weir.source_address("in")).unwrap();
    let mut open: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
    for (number, stream) in open.iter_mut().enumerate() {
        stream.write_all(format!("<13>1 - h a - - - {number}\n").as_bytes()).unwrap();
    }
    weir.wait_books("all are served", PATIENCE, |books| books.delivered(OUTPUT) == 3);
    for _ in 0..8 {
        let mut one_more = connect();
        one_more.set_read_timeout(Some(PATIENCE)).unwrap();
        let is_closed = one_more.read(&mut [0]).map_or(true, |count| count == 0);
        assert!(is_closed, "{}", weir.log());
    }
    drop(open);
    let is_free = wait_for(PATIENCE, || {
        let mut stream = connect();
        stream.write_all(b"<13>1 - h a - - - again\n").ok()?;
        (weir.books().delivered(OUTPUT) > 3).then_some(())
    });
    assert!(is_free.is_some(), "{}", weir.log());
    weir.books().assert_balanced();
    weir.stop();
}

/// Sends a body many times over two connections with h2load, 16 requests at a time. Returns its
/// summary of the statuses.
fn h2load(url: &str, arguments: &[&str], count: usize) -> String {
    let mut command = Command::new("h2load");
    command.args(["-c", "2", "-m", "16", "-T", "60", "-H", "content-type: application/json"]);
    command.arg("-n").arg(count.to_string()).args(arguments).arg(url);
    let output = command.output().expect("h2load is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().find_map(|line| line.strip_prefix("status codes: "));
    summary.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn requests_share_a_connection_with_http_2_and_are_accepted_once() {
    const REQUESTS: usize = 60;
    let scene = Scene::new();
    let pki = Pki::new();
    let (certificate, key) = pki.server_pem();
    let path = |name: &str| scene.dir().join(name).display().to_string();
    let files = [("cert.pem", certificate), ("key.pem", key)];
    for (name, content) in files {
        std::fs::write(path(name), content).unwrap();
    }
    let items: Vec<Value> =
        (0..50).map(|number| serde_json::json!({ "message": format!("m{number}") })).collect();
    let body = path("body.json");
    std::fs::write(&body, serde_json::to_vec(&items).unwrap()).unwrap();
    let tls = format!(
        "\n[source.tls]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n\
         tls = {{ cert_file = \"{}\", key_file = \"{}\" }}\n",
        path("cert.pem"),
        path("key.pem")
    );
    let collector = Collector::start();
    let config = intake::config(&collector, "threads = 2\n", "") + &tls;
    let mut weir = scene.start(&config);
    let plain = format!("http://{}{PATH}", weir.source_address("intake"));
    let secret = format!("https://{}{PATH}", weir.source_address("tls"));
    let all = format!("{REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx");
    for (url, arguments) in [(&plain, &[][..]), (&secret, &[]), (&secret, &["--h1"])] {
        let arguments = [&["-d", &body], arguments].concat();
        assert_eq!(h2load(url, &arguments, REQUESTS), all, "{url}");
    }
    let none = format!("0 2xx, 0 3xx, {REQUESTS} 4xx, 0 5xx");
    assert_eq!(h2load(&plain, &[], REQUESTS), none, "without a body they are not even POST");
    let total = 50 * 3 * REQUESTS as u64;
    weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == total);
    assert_eq!(collector.look(|tally| tally.events), total);
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}
