//! Quotas by key: a noisy sender does not affect quiet ones, its records above the limit are
//! counted, and it is reported by name.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_testkit::{Books, HttpSender, PATIENCE, Weir, binary, wait_for};

use crate::intake::{JSON, PATH};
use crate::scene::{OUTPUT, Scene, at_rest};
use crate::syslog::{RelpSender, file, records, source};

const QUIET_HOSTS: u64 = 20;
const QUIET_MESSAGES: u64 = 50;

/// Returns a syslog source with a limit of each program of a host.
fn limited(protocol: &str, limit: &str) -> String {
    limited_with(&format!("protocol = \"{protocol}\""), limit)
}

/// The same, with these keys of the source.
fn limited_with(keys: &str, limit: &str) -> String {
    let keys = format!(
        "{keys}\nlisten = \"127.0.0.1:0\"\n[source.in.rate_limit]\n\
         by = [\"host\", \"app_name\"]\n{limit}"
    );
    source("in", &keys)
}

fn message(host: &str, number: u64) -> String {
    let filling = "x".repeat(150);
    format!("<13>Oct 11 22:14:15 {host} app[7]: {number} {filling}")
}

/// Returns a count of the source's book.
fn count(books: &Books, name: &str) -> u64 {
    books.source("in")["book"][name].as_u64().unwrap_or(0)
}

fn discarded(books: &Books, reason: &str) -> u64 {
    books.source("in")["book"]["discarded"][reason].as_u64().unwrap_or(0)
}

/// Returns what the rate limit reports.
fn limit(books: &Books) -> &Value {
    &books.source("in")["rate_limit"]
}

/// Returns whether the source's book has this count plus the notices, of which there must be at
/// least one.
fn has_with_notices(books: &Books, name: &str, total: u64) -> bool {
    let notices = limit(books)["notices"].as_u64().unwrap_or(0);
    notices > 0 && count(books, name) == total + notices
}

/// Returns how many records of each host arrived, without those that weir wrote itself, and the
/// latter.
fn arrived(scene: &Scene) -> (BTreeMap<String, u64>, Vec<Value>) {
    let (mut hosts, mut notices) = (BTreeMap::new(), Vec::new());
    for record in records(&scene.dir().join("out.log")) {
        if record["body"].as_str().is_some_and(|body| body.starts_with("weir: ")) {
            notices.push(record);
        } else {
            let host = record["resource"]["host.name"].as_str().unwrap_or_default().to_owned();
            *hosts.entry(host).or_default() += 1;
        }
    }
    (hosts, notices)
}

fn assert_quiet_ones_arrived(hosts: &BTreeMap<String, u64>) {
    for number in 0..QUIET_HOSTS {
        let host = format!("quiet{number}");
        assert_eq!(hosts.get(&host), Some(&QUIET_MESSAGES), "{host}");
    }
}

/// The key `noisy` is named in records, in the ledger, in metrics, and in health while it lasts.
fn assert_named(weir: &Weir, notices: &[Value], action: &str) {
    let first = &notices[0];
    let body = first["body"].as_str().unwrap();
    assert!(body.contains("host=noisy app_name=app exceed rate_limit"), "{body}");
    assert!(body.contains("(limit 50 records/s)"), "{body}");
    assert_eq!(first["severity_text"], "WARN", "{first}");
    assert_eq!(first["resource"]["host.name"], "noisy", "{first}");
    assert_eq!(first["resource"]["service.name"], "app", "{first}");
    let metrics = weir.metrics();
    let labels = format!("key=\"host=noisy app_name=app\",action=\"{action}\"}}");
    assert!(metrics.contains(&labels), "{metrics}");
    let books = weir.books();
    let keys = limit(&books)["keys"].as_array().unwrap().clone();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert_eq!(keys[0]["key"], "host=noisy app_name=app");
    let api = weir.api().unwrap().to_string();
    for arguments in [&["ledger"][..], &["top", "--once", "--interval", "250ms"]] {
        let mut command = Command::new(binary());
        let shown = command.args(arguments).args(["--api", &api]).output().unwrap();
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let problem = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(text.contains("host=noisy app_name=app"), "{arguments:?}: {text}{problem}");
    }
}

/// What was discarded and what became a record add up to what was sent, also by key.
fn assert_exact(books: &Books, noisy: u64, noisy_arrived: u64, notices: u64, kernel: u64) {
    books.assert_balanced();
    let limited = discarded(books, "rate_limit");
    assert_eq!(noisy_arrived + limited + kernel, noisy, "{books}");
    let quiet = QUIET_HOSTS * QUIET_MESSAGES;
    assert_eq!(count(books, "lines"), noisy + quiet + notices, "{books}");
    let limit = limit(books);
    assert_eq!(limit["total"]["discarded_records"], limited, "{limit}");
    assert_eq!(limit["keys"][0]["discarded_records"], limited, "{limit}");
    assert_eq!(limit["notices"], notices, "{limit}");
}

#[test]
fn over_udp_a_noisy_sender_takes_nothing_from_quiet_ones_and_is_named() {
    let scene = Scene::new();
    let mut weir =
        scene.start(&(limited("udp", "records_per_second = 50\nburst = \"2s\"") + &file(&scene)));
    let address = weir.source_address("in");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |host: &str, number| {
        socket.send_to(message(host, number).as_bytes(), address).unwrap();
    };
    let noisy = 10_000;
    for number in 0..noisy {
        send("noisy", number);
        if number % 10 == 0 && number / 10 < QUIET_HOSTS * QUIET_MESSAGES {
            send(&format!("quiet{}", number / 10 % QUIET_HOSTS), number);
        }
        // No more than the receive buffer holds.
        if number % 500 == 499 {
            weir.wait_books("it is read", PATIENCE, |books| count(books, "lines") > number);
        }
    }
    let total = noisy + QUIET_HOSTS * QUIET_MESSAGES;
    let all = |books: &Books| has_with_notices(books, "lines", total);
    weir.wait_books("all is read or counted", PATIENCE, all);
    let is_degraded = || {
        let health = weir.health();
        let text = health["reasons"].to_string();
        (health["status"] == "degraded" && text.contains("host=noisy app_name=app")).then_some(())
    };
    assert!(wait_for(PATIENCE, is_degraded).is_some(), "{}", weir.health());
    let books = at_rest(&weir, OUTPUT);
    let (hosts, notices) = arrived(&scene);
    assert_quiet_ones_arrived(&hosts);
    let kernel = discarded(&books, "receive_buffer");
    assert_exact(&books, noisy, hosts["noisy"], notices.len() as u64, kernel);
    assert!(discarded(&books, "rate_limit") > noisy / 2, "{books}");
    assert_named(&weir, &notices, "discarded");
    // At the stop the episode ends, and is summed up.
    weir.stop();
    let mut weir = scene.start(&(limited("udp", "records_per_second = 50") + &file(&scene)));
    let books = at_rest(&weir, OUTPUT);
    assert_eq!(discarded(&books, "rate_limit") + hosts["noisy"] + kernel, noisy, "{books}");
    let (_, notices) = arrived(&scene);
    let last = notices.last().unwrap()["body"].as_str().unwrap();
    assert!(last.contains("is within rate_limit again"), "{last}");
    assert!(last.contains(&discarded(&books, "rate_limit").to_string()), "{last}");
    weir.stop();
}

/// Sends messages of a host over its own connection.
fn send_over_tcp(address: SocketAddr, host: &str, messages: u64) -> TcpStream {
    let mut tcp = TcpStream::connect(address).unwrap();
    for number in 0..messages {
        tcp.write_all((message(host, number) + "\n").as_bytes()).unwrap();
    }
    tcp
}

#[test]
fn over_tcp_what_is_above_the_limit_is_discarded_exactly() {
    let scene = Scene::new();
    let keys = "records_per_second = 50\nburst = \"1s\"\nwhen_limited = \"discard\"";
    let mut weir = scene.start(&(limited("tcp", keys) + &file(&scene)));
    let address = weir.source_address("in");
    let noisy = 20_000;
    let sending = std::thread::spawn(move || send_over_tcp(address, "noisy", noisy));
    let quiet: Vec<_> = (0..QUIET_HOSTS)
        .map(|number| send_over_tcp(address, &format!("quiet{number}"), QUIET_MESSAGES))
        .collect();
    sending.join().unwrap();
    drop(quiet);
    let total = noisy + QUIET_HOSTS * QUIET_MESSAGES;
    let all = |books: &Books| has_with_notices(books, "lines", total);
    weir.wait_books("all is read or counted", PATIENCE, all);
    let books = at_rest(&weir, OUTPUT);
    let (hosts, notices) = arrived(&scene);
    assert_quiet_ones_arrived(&hosts);
    assert!(hosts["noisy"] >= 50, "{hosts:?}");
    assert_exact(&books, noisy, hosts["noisy"], notices.len() as u64, 0);
    assert_named(&weir, &notices, "discarded");
    weir.stop();
}

#[test]
fn the_connections_of_a_sender_share_its_limit_on_all_threads() {
    let scene = Scene::new();
    let keys = "records_per_second = 50\nburst = \"1s\"\nwhen_limited = \"discard\"";
    let source = limited_with("protocol = \"tcp\"\nthreads = 4", keys);
    let mut weir = scene.start(&(source + &file(&scene)));
    let address = weir.source_address("in");
    let (connections, each, begun) = (16, 1_000, Instant::now());
    let send = || std::thread::spawn(move || send_over_tcp(address, "noisy", each));
    let sending: Vec<_> = (0..connections).map(|_| send()).collect();
    let quiet: Vec<_> = (0..QUIET_HOSTS)
        .map(|number| send_over_tcp(address, &format!("quiet{number}"), QUIET_MESSAGES))
        .collect();
    for sender in sending {
        sender.join().unwrap();
    }
    drop(quiet);
    let noisy = connections * each;
    let total = noisy + QUIET_HOSTS * QUIET_MESSAGES;
    let all = |books: &Books| has_with_notices(books, "lines", total);
    weir.wait_books("all is read or counted", PATIENCE, all);
    let allowed = 50 * (begun.elapsed().as_secs() + 2);
    let books = at_rest(&weir, OUTPUT);
    let (hosts, notices) = arrived(&scene);
    assert_quiet_ones_arrived(&hosts);
    assert!((50..=allowed).contains(&hosts["noisy"]), "{hosts:?}, {allowed} at most");
    assert_exact(&books, noisy, hosts["noisy"], notices.len() as u64, 0);
    assert_named(&weir, &notices, "discarded");
    weir.stop();
}

#[test]
fn over_tcp_a_noisy_connection_waits_alone_and_loses_nothing() {
    let scene = Scene::new();
    let keys = "records_per_second = 50\nburst = \"1s\"";
    let mut weir = scene.start(&(limited("tcp", keys) + &file(&scene)));
    let address = weir.source_address("in");
    // More than one read brings.
    let (noisy, begun) = (600, Instant::now());
    let sending = std::thread::spawn(move || send_over_tcp(address, "noisy", noisy));
    weir.wait_books("the noisy one is noticed", PATIENCE, |books| {
        limit(books)["keys_over"].as_u64() == Some(1)
    });
    let quiet: Vec<_> = (0..QUIET_HOSTS)
        .map(|number| send_over_tcp(address, &format!("quiet{number}"), QUIET_MESSAGES))
        .collect();
    let quiet_arrived = || {
        let (hosts, _) = arrived(&scene);
        let is_there = |number: u64| hosts.get(&format!("quiet{number}")) == Some(&QUIET_MESSAGES);
        (0..QUIET_HOSTS).all(is_there).then_some(hosts)
    };
    let hosts = wait_for(PATIENCE, quiet_arrived).expect("quiet connections are read");
    drop(quiet);
    // One read brings at most 64 KiB.
    assert!(hosts["noisy"] < noisy, "the noisy one waits: {hosts:?}");
    sending.join().unwrap();
    let total = noisy + QUIET_HOSTS * QUIET_MESSAGES;
    let books = weir.wait_books("all arrived", PATIENCE, |books| {
        count(books, "lines") >= total + limit(books)["notices"].as_u64().unwrap_or(0)
    });
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(books.lines_discarded(), 0, "{books}");
    assert!(limit(&books)["total"]["delayed_seconds"].as_f64() > Some(1.0), "{books}");
    at_rest(&weir, OUTPUT).assert_balanced();
    let (hosts, notices) = arrived(&scene);
    assert_eq!(hosts["noisy"], noisy);
    assert_named(&weir, &notices, "delayed");
    // Delayed records are not lost, so health is `ok`.
    assert_eq!(weir.health()["status"], "ok");
    weir.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_debt() {
    for protocol in ["tcp", "relp"] {
        let scene = Scene::new();
        let config = limited(protocol, "records_per_second = 5\nburst = \"1s\"") + &file(&scene);
        let mut weir = scene.start(&config);
        let address = weir.source_address("in");
        let sent = 300;
        let _open = if protocol == "tcp" {
            send_over_tcp(address, "noisy", sent)
        } else {
            let mut relp = RelpSender::connect(address).unwrap();
            assert_eq!(relp.send("noisy", 0, 100), 100, "answers are not delayed");
            relp.stream
        };
        weir.wait_books("it is above its limit", PATIENCE, |books| {
            limit(books)["keys_over"].as_u64() == Some(1)
        });
        let begun = Instant::now();
        weir.stop();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let mut weir = scene.start(&config);
        let books = at_rest(&weir, OUTPUT);
        assert_eq!(books.lines_discarded(), 0, "{books}");
        assert!(books.records() >= 100, "{books}");
        weir.stop();
    }
}

#[test]
fn a_kill_while_records_are_discarded_leaves_books_that_balance() {
    let scene = Scene::new();
    let keys = "bytes_per_second = \"20KiB\"\nburst = \"1s\"\nwhen_limited = \"discard\"";
    let config = limited("tcp", keys) + &file(&scene);
    let mut weir = scene.start(&config);
    let mut before = 0;
    for _ in 0..3 {
        let _open = send_over_tcp(weir.source_address("in"), "noisy", 3_000);
        let has_some = |books: &Books| discarded(books, "rate_limit") > before + 1_000;
        weir.wait_books("some are discarded", PATIENCE, has_some);
        weir.kill();
        weir = scene.start(&config);
        let after = at_rest(&weir, OUTPUT);
        before = discarded(&after, "rate_limit");
        assert!(limit(&after)["keys"].as_array().is_some_and(Vec::is_empty), "{after}");
    }
    let books = weir.books();
    books.assert_balanced();
    let lost = discarded(&books, "rate_limit") + discarded(&books, "crash");
    assert_eq!(books.records() + lost, count(&books, "lines"), "{books}");
    weir.stop();
}

#[test]
fn relp_answers_what_it_discards_and_counts_it() {
    let scene = Scene::new();
    let keys = "records_per_second = 10\nburst = \"1s\"\nwhen_limited = \"discard\"";
    let mut weir = scene.start(&(limited("relp", keys) + &file(&scene)));
    let mut relp = RelpSender::connect(weir.source_address("in")).unwrap();
    assert_eq!(relp.send("noisy", 0, 1_000), 1_000);
    let books =
        weir.wait_books("it is counted", PATIENCE, |books| has_with_notices(books, "lines", 1_000));
    books.assert_balanced();
    let books = at_rest(&weir, OUTPUT);
    let (hosts, notices) = arrived(&scene);
    let limited = discarded(&books, "rate_limit");
    assert_eq!(hosts["noisy"] + limited, 1_000, "{books}");
    assert!(limited > 500 && !notices.is_empty(), "{books}");
    assert_eq!(limit(&books)["total"]["discarded_records"], limited, "{books}");
    weir.stop();
}

/// Posts logs of a host; returns the status and when to retry.
fn post(sender: &mut HttpSender, host: &str, logs: u64) -> (u16, Option<u64>) {
    let log = |number: u64| json!({"message": "x", "hostname": host, "n": number});
    let body = serde_json::to_vec(&(0..logs).map(log).collect::<Vec<_>>()).unwrap();
    let answer = sender.post(PATH, &[JSON], &body).unwrap();
    let retry = answer.header("retry-after").and_then(|text| text.parse().ok());
    (answer.status, retry)
}

fn intake(scene: &Scene, keys: &str) -> String {
    format!(
        "[source.in]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n\
         rate_limit = {{ records_per_second = 10, burst = \"1s\"{keys} }}\n{}",
        file(scene)
    )
}

#[test]
fn over_http_a_request_above_the_limit_is_refused_as_a_whole() {
    let scene = Scene::new();
    let mut weir = scene.start(&intake(&scene, ""));
    let mut sender = HttpSender::new(weir.source_address("in"));
    assert_eq!(post(&mut sender, "noisy", 40), (202, None), "it overdraws the bucket");
    let (status, retry) = post(&mut sender, "noisy", 1);
    assert_eq!(status, 429);
    // 30 in debt at 10 per second, and one for the next.
    assert!((2..=4).contains(&retry.unwrap()), "{retry:?}");
    assert_eq!(post(&mut sender, "quiet", 10).0, 202);
    let again = wait_for(PATIENCE, || (post(&mut sender, "noisy", 1).0 == 202).then_some(()));
    assert!(again.is_some(), "the debt is paid off");
    let books =
        weir.wait_books("it is at rest", PATIENCE, |books| has_with_notices(books, "records", 51));
    assert_eq!(books.lines_discarded(), 0, "{books}");
    assert!(limit(&books)["total"]["refused_records"].as_u64() >= Some(2), "{books}");
    assert_eq!(limit(&books)["keys"][0]["key"], "host=noisy", "{books}");
    at_rest(&weir, OUTPUT).assert_balanced();
    weir.stop();
}

#[test]
fn over_http_what_is_above_the_limit_can_be_discarded() {
    let scene = Scene::new();
    let mut weir = scene.start(&intake(&scene, ", when_limited = \"discard\""));
    let mut sender = HttpSender::new(weir.source_address("in"));
    for _ in 0..5 {
        assert_eq!(post(&mut sender, "noisy", 100), (202, None));
        assert_eq!(post(&mut sender, "quiet", 1), (202, None));
    }
    let books =
        weir.wait_books("it is counted", PATIENCE, |books| has_with_notices(books, "lines", 505));
    books.assert_balanced();
    let books = at_rest(&weir, OUTPUT);
    let limited = discarded(&books, "rate_limit");
    assert!(limited > 400, "{books}");
    assert_eq!(limit(&books)["total"]["discarded_records"], limited, "{books}");
    assert_eq!(limit(&books)["others"]["discarded_records"], 0, "{books}");
    let notices = limit(&books)["notices"].as_u64().unwrap();
    assert_eq!(count(&books, "records"), 505 - limited + notices, "{books}");
    weir.stop();
}
