//! The syslog source as the central server of many machines: a large configuration of rules, and a
//! disk that fails under load. Every message is where the rules say, or is counted.

use std::net::UdpSocket;

use weir_testkit::{Answer, Books, Collector, PATIENCE, Tally, Weir, wait_for};

use crate::scene::{OUTPUT, Scene, at_rest, hec};
use crate::syslog::{message, source};

const UDP: &str = "protocol = \"udp\"\nlisten = \"127.0.0.1:0\"\nreceive_buffer = \"8MiB\"\n";

fn counted(books: &Books, reason: &str) -> u64 {
    books.source("udp")["book"]["discarded"][reason].as_u64().unwrap_or(0)
}

#[test]
fn a_disk_that_fails_under_udp_load_loses_only_what_is_counted() {
    let scene = Scene::new();
    let collector = Collector::start();
    // Nothing is delivered, so everything has to be written.
    collector.answer(Answer::status(503));
    let config = source("udp", UDP) + &hec(OUTPUT, &collector, "");
    let failing = "inject=pwritev,pwritev2,pwrite64:error=EIO:when=20..120";
    let trace = "trace=pwritev,pwritev2,pwrite64";
    let wrapper = ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e", trace, "-e", failing];
    let mut weir = Weir::spawn(scene.dir(), &config, &wrapper);
    weir.wait_ready();
    let address = weir.source_address("udp");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    let mut send = |count: u64| {
        for _ in 0..count {
            socket.send_to(&message("s0", sent), address).unwrap();
            sent += 1;
        }
        sent
    };
    let has_error = |weir: &Weir| weir.books().json()["journal"]["disk_error"].is_string();
    let failed = wait_for(PATIENCE, || {
        send(200);
        has_error(&weir).then_some(())
    });
    assert!(failed.is_some(), "no write failed: {}", weir.books());
    // It is accepted meanwhile.
    send(2_000);
    let healed = wait_for(PATIENCE, || {
        send(200);
        (!has_error(&weir)).then_some(())
    });
    assert!(healed.is_some(), "the disk never works again: {}", weir.books());
    let sent = send(2_000);
    let is_complete = |books: &Books| books.records() + counted(books, "receive_buffer") == sent;
    weir.wait_books("all is read or counted", PATIENCE, is_complete);
    collector.answer(Answer::Accept);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    assert_eq!(books.delivered(OUTPUT), books.records(), "{books}");
    assert_eq!(collector.look(Tally::unique), books.records(), "{books}");
    weir.stop();
}

/// Number of rules, each with a file of its own.
const RULES: u64 = 300;
const ROUNDS: u64 = 20;

/// The condition of a rule, in the ways in which configurations of syslog-ng filter.
fn condition(rule: u64) -> String {
    match rule % 5 {
        0 => format!("host:web{rule} app_name:prog{rule}"),
        1 => format!("app_name:prog{rule} CIDR(peer, 127.0.0.0/8)"),
        2 => format!("app_name:prog{rule} facility:local{}", rule % 8),
        3 => format!("app_name:prog{rule} status:(error OR critical)"),
        _ => format!("/task {rule} (started|ended)\\b/"),
    }
}

/// A message that only this rule matches.
fn matching(rule: u64, round: u64) -> String {
    let facility = if rule % 5 == 2 { 16 + rule % 8 } else { 1 };
    let severity = if rule % 5 == 3 { 3 } else { 6 };
    let priority = facility * 8 + severity;
    let (host, app) = if rule % 5 == 4 {
        ("other".to_owned(), "other".to_owned())
    } else {
        (format!("web{rule}"), format!("prog{rule}"))
    };
    format!(
        "<{priority}>1 2026-01-02T03:04:05Z {host} {app} 1 - - task {rule} started, round {round}\n"
    )
}

#[test]
fn three_hundred_rules_write_three_hundred_files_and_what_none_matches_is_elsewhere() {
    let scene = Scene::new();
    let path = |name: &str| scene.dir().join("log").join(name);
    let output = |name: &str| {
        let path = path(name);
        format!("[output.{name}]\ntype = \"file\"\npath = \"{}\"\n", path.display())
    };
    let mut config = "default_to = [\"rest\"]\n".to_owned();
    config += &source("tcp", "listen = \"127.0.0.1:0\"");
    for rule in 0..RULES {
        let (name, when) = (format!("r{rule}"), condition(rule));
        config += &output(&name);
        let keys = format!("name = \"{name}\"\nwhen = '{when}'\nto = [\"{name}\"]\nfinal = true\n");
        config = config + "[[rule]]\n" + &keys;
    }
    config += &output("rest");
    let mut weir = scene.start(&config);
    let mut tcp = std::net::TcpStream::connect(weir.source_address("tcp")).unwrap();
    for round in 0..ROUNDS {
        for rule in 0..=RULES {
            let line = if rule == RULES {
                "<14>1 - other other - - - nothing that a rule names\n".to_owned()
            } else {
                matching(rule, round)
            };
            std::io::Write::write_all(&mut tcp, line.as_bytes()).unwrap();
        }
    }
    let total = (RULES + 1) * ROUNDS;
    let outputs = || (0..RULES).map(|rule| format!("r{rule}")).chain(["rest".to_owned()]);
    let are_delivered = |books: &Books| outputs().map(|name| books.delivered(&name)).sum::<u64>();
    weir.wait_books("all is delivered", PATIENCE, |books| are_delivered(books) == total);
    let books = weir.books();
    books.assert_balanced();
    assert_eq!(books.records(), total, "{books}");
    for name in outputs() {
        let text = std::fs::read_to_string(path(&name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len() as u64, ROUNDS, "{name}: {lines:?}");
        let rule = name.trim_start_matches('r');
        let is_right =
            |line: &&str| name == "rest" || line.contains(&format!("task {rule} started"));
        assert!(lines.iter().all(is_right), "{name}: {lines:?}");
    }
    weir.stop();
}
