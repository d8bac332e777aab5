//! Drains whose receivers are foreign programs that hang, trickle, or break off: other drains get
//! everything meanwhile, and nothing is lost that is not counted.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use weir_testkit::{PATIENCE, Weir};

use crate::drains::{all_of, batches_with, book_of, drains};
use crate::loggregator::{Certificates, messages, python, said, send, source};
use crate::scene::{Scene, wait};

const SERVER: &str = include_str!("drain_receiver.py");

/// How many messages may come again after a connection with TLS was given up: those of one write,
/// of 64 KiB, since it is not known how much of it has left. Otherwise only one that was sent in
/// part is sent again.
const REPEATED_MAX: u64 = 14;

/// What receivers do; the first one only receives.
const CONDUCTS: [&str; 5] = ["receives", "hangs", "trickles", "halves", "resets"];

/// The receiver of one drain; it is killed at the end.
struct Receiver {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    conduct: &'static str,
    app: String,
    url: String,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Receiver {
    fn start(conduct: &'static str, scheme: &str, tls: &[&str]) -> Self {
        let mut command = Command::new(python());
        command.args(["-c", SERVER, conduct]).args(tls);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python runs");
        let stdin = child.stdin.take().expect("it has an input");
        let stdout = BufReader::new(child.stdout.take().expect("it has an output"));
        let (app, url) = (format!("{conduct}-{scheme}"), String::new());
        let mut receiver = Self { child, stdin, stdout, conduct, app, url };
        receiver.url = format!("{scheme}://127.0.0.1:{}", receiver.line());
        if receiver.is_good() {
            receiver.receive();
        }
        receiver
    }

    fn is_good(&self) -> bool {
        self.conduct == CONDUCTS[0]
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the receiver writes");
        line.trim_end().to_owned()
    }

    /// From now on, it receives everything.
    fn receive(&mut self) {
        self.stdin.write_all(b"receive\n").unwrap();
    }

    /// How many connections there were, and the numbers of the messages so far, in order.
    fn status(&mut self) -> (u64, Vec<u64>) {
        self.stdin.write_all(b"status\n").unwrap();
        let line = self.line();
        let mut all = line.split_whitespace().map(|number| number.parse().unwrap());
        (all.next().expect("the number of connections"), all.collect())
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.status().1
    }
}

/// Sends that many logs of 5 kB of an application, numbered from there.
fn logs(scene: &Scene, weir: &Weir, app: &str, first: u64, count: u64) {
    let batches = batches_with(app, first, count, &"x".repeat(5000));
    let path = messages(scene, &format!("{app}-{first}"), &batches);
    assert!(said(send(&python(), weir, "BatchSender", &path, &[])).starts_with("OK"));
}

fn drain_of(weir: &Weir, app: &str) -> Value {
    let selects = format!("app {app}");
    drains(weir).into_iter().find(|drain| drain["selects"] == selects).expect("it is listed")
}

#[test]
fn receivers_that_hang_trickle_or_break_off_delay_no_other_and_get_everything_in_order() {
    const LOGS: u64 = 2000;
    let scene = Scene::new();
    let Certificates { ca, server, .. } = Certificates::write(&scene);
    let secured: &[&str] = &[&server.0, &server.1];
    let schemes = [("syslog", &[][..]), ("syslog-tls", secured)];
    let mut receivers: Vec<Receiver> = Vec::new();
    for (scheme, tls) in schemes {
        receivers.extend(CONDUCTS.map(|conduct| Receiver::start(conduct, scheme, tls)));
    }
    let drain = |of: &Receiver| format!("[[drain]]\napp = \"{}\"\nurl = \"{}\"\n", of.app, of.url);
    let all_drains: String = receivers.iter().map(drain).collect();
    let keys = format!("[drains]\nmessages = false\nca_file = {ca:?}\n");
    let mut weir = scene.start(&(source("") + &keys + &all_drains));
    for receiver in &receivers {
        logs(&scene, &weir, &receiver.app, 0, LOGS);
    }
    let (mut good, mut bad): (Vec<_>, Vec<_>) = receivers.into_iter().partition(Receiver::is_good);
    for receiver in &mut bad {
        let app = receiver.app.clone();
        wait(&weir, &format!("{app} lags or fails"), || {
            let drain = drain_of(&weir, &app);
            let is_hung = ["hangs", "trickles"].contains(&receiver.conduct);
            let is_failing = drain["state"] == "failing" && drain["error"].is_string();
            drain["book"]["moved"] != 0 && (is_hung || is_failing)
        });
        // Those that hang are given up: after ten seconds, over which the system takes some
        // megabytes for them.
        wait(&weir, &format!("{app} is connected to again"), || receiver.status().0 > 1);
        assert_ne!(book_of(&weir, &app)["waiting"], 0, "{app}");
    }
    // None of them has all, and the others go on.
    for receiver in &mut good {
        logs(&scene, &weir, &receiver.app, LOGS, 500);
        wait(&weir, "a good one has all", || receiver.numbers().len() as u64 == LOGS + 500);
        assert_eq!(receiver.numbers(), all_of(LOGS + 500), "each once, in order");
    }
    weir.books().assert_balanced();
    for receiver in &mut bad {
        receiver.receive();
    }
    for receiver in &mut bad {
        let app = receiver.app.clone();
        wait(&weir, "nothing waits for it", || book_of(&weir, &app)["waiting"] == 0);
        let book = book_of(&weir, &app);
        assert_eq!((&book["routed"], &book["delivered"]), (&LOGS.into(), &LOGS.into()), "{book}");
        let has_last = |receiver: &mut Receiver| receiver.numbers().last() == Some(&(LOGS - 1));
        wait(&weir, "it has the last one", || has_last(receiver));
        let numbers = receiver.numbers();
        let repeated_max = if app.ends_with("tls") { REPEATED_MAX } else { 0 };
        let is_next = |pair: &[u64]| pair[0] < pair[1] + repeated_max;
        assert!(numbers.windows(2).all(is_next), "{app} has them in order: {numbers:?}");
        if ["hangs", "trickles"].contains(&receiver.conduct) {
            let all: BTreeSet<u64> = numbers.into_iter().collect();
            assert_eq!(all.into_iter().collect::<Vec<_>>(), all_of(LOGS), "{app}");
        }
    }
    let books = weir.wait_books("everything is settled", PATIENCE, |books| {
        books.in_flight("drains") + books.in_flight("drains/lagging") == 0
    });
    books.assert_balanced();
    assert_eq!(books.discarded("drains") + books.discarded("drains/lagging"), 0, "{books}");
    weir.stop();
}
