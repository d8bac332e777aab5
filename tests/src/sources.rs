//! Sources that are added, changed and removed while weir runs: the others keep their connections,
//! and nothing is lost.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_measure::load::{RotateWhen, Rotation};
use weir_testkit::{Answer, Collector, Oracle, PATIENCE, Weir, Writing};

use crate::intake::{Senders, at_least_once};
use crate::scene::{OUTPUT, Scene, apply, at_rest, hec, judge, metric, moment, total_lines, wait};
use crate::syslog::{message, source, streams_report};

/// Output for the records of clients that send a request again if its response was lost.
const REPEATED: &str = "repeated";

/// Number of times that a source is changed, removed and added.
const ROUNDS: usize = 8;

fn intake(keys: &str) -> String {
    format!("[source.intake]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n{keys}\n")
}

fn syslog(keys: &str) -> String {
    source("tcp", &format!("listen = \"127.0.0.1:0\"\n{keys}"))
}

/// A sender of syslog with one connection, which must not break.
pub(crate) struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sender {
    /// Sends what `line` returns for each number.
    pub(crate) fn start(address: SocketAddr, line: fn(u64) -> Vec<u8>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut connection = TcpStream::connect(address).unwrap();
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                connection.write_all(&line(sent)).expect("the connection is open");
                sent += 1;
                moment(Duration::from_micros(200));
            }
            sent
        });
        Self { stop, thread }
    }

    /// Returns how many lines were sent.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn line(number: u64) -> Vec<u8> {
    let mut line = message("web7", number);
    line.push(b'\n');
    line
}

/// Returns the number of open connections of a source.
pub(crate) fn connections(weir: &Weir, source: &str) -> u64 {
    let (metrics, source) = (weir.metrics(), format!("\"{source}\""));
    let is_it =
        |line: &&str| line.starts_with("weir_source_connections{") && line.contains(&source);
    let line = metrics.lines().find(is_it).expect("the source listens");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn assert_not_restarted(weir: &Weir) {
    assert!(!weir.log().contains("restarting"), "{}", weir.log());
}

#[test]
fn sources_come_and_go_under_load_and_nothing_else_is_disturbed() {
    let scene = Scene::new();
    let (once, repeated) = (Collector::start(), Collector::start());
    let outputs = format!(
        "{}{}[[rule]]\nname = \"repeated\"\nwhen = \"source:intake\"\nto = [\"{REPEATED}\"]\n\
         final = true\n",
        hec(OUTPUT, &once, ""),
        hec(REPEATED, &repeated, ""),
    );
    let files = scene.source("docker_json");
    let changed_files = files.replace("500ms", "400ms");
    let with =
        |sources: &[&str]| format!("default_to = [\"{OUTPUT}\"]\n{}{outputs}", sources.concat());
    let mut weir = scene.start(&with(&[&files, &syslog(""), &intake("")]));
    let mut plan = scene.plan();
    plan.lines_per_second = Some(4000.0);
    let when = RotateWhen::Bytes(1 << 20);
    plan.rotation = Some(Rotation::Rename { when, keep: 1000 });
    let writing = Writing::start(plan);
    let sender = Sender::start(weir.source_address("tcp"), line);
    let clients = Senders::start(&weir, 3, u64::MAX);
    for _ in 0..ROUNDS {
        for config in [
            with(&[&changed_files, &syslog(""), &intake("")]),
            with(&[&syslog(""), &intake("")]),
            with(&[&files, &syslog(""), &intake("")]),
        ] {
            apply(&weir, &config);
        }
    }
    assert_eq!(connections(&weir, "intake"), 3);
    for _ in 0..ROUNDS {
        apply(&weir, &with(&[&files, &syslog(""), &intake("connections_max = 40")]));
        clients.follow(&weir);
        apply(&weir, &with(&[&files, &syslog("")]));
        apply(&weir, &with(&[&files, &syslog(""), &intake("")]));
        clients.follow(&weir);
    }
    assert_eq!(connections(&weir, "tcp"), 1);
    let accepted = clients.stop();
    let (written, sent) = (writing.stop(), sender.stop());
    let mut all = vec![written];
    all.extend(streams_report(&[("web7", sent)]));
    // The books of the sources together do not say when the files are read.
    let lines = total_lines(&all);
    let _all_arrived = once.wait(PATIENCE, |tally| tally.unique() >= lines);
    judge(&Oracle::strict(OUTPUT), &all, &once, &weir);
    judge(&at_least_once(REPEATED), &accepted, &repeated, &weir);
    assert_not_restarted(&weir);
    weir.stop();
}

#[test]
fn a_listener_that_changes_keeps_what_it_has_received_and_its_book() {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = |keys: &str| syslog(keys) + &hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&config(""));
    let mut sent = 0;
    for round in 0..20 {
        let mut connection = TcpStream::connect(weir.source_address("tcp")).unwrap();
        for _ in 0..200 {
            connection.write_all(&line(sent)).unwrap();
            sent += 1;
        }
        drop(connection);
        weir.wait_books("all were received", PATIENCE, |books| books.records() == sent);
        apply(&weir, &config(&format!("connections_max = {}", 10 + round)));
        assert_eq!(weir.books().records(), sent, "{}", weir.books());
        // Without records in between.
        apply(&weir, &config(&format!("connections_max = {}", 50 + round)));
    }
    let books =
        judge(&Oracle::strict(OUTPUT), &streams_report(&[("web7", sent)]), &collector, &weir);
    assert_eq!(collector.tally().duplicates(), 0, "{books}");
    assert!(!weir.log().contains("too many starts"), "{}", weir.log());
    assert_not_restarted(&weir);
    weir.stop();
}

#[test]
fn a_source_that_cannot_be_started_leaves_all_others_as_they_were() {
    let scene = Scene::new();
    let collector = Collector::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let files = scene.source("docker_json");
    let output = hec(OUTPUT, &collector, "");
    let mut weir = scene.start(&[files.as_str(), &syslog(""), &output].concat());
    let mut plan = scene.plan();
    plan.lines_per_second = Some(2000.0);
    let writing = Writing::start(plan);
    let sender = Sender::start(weir.source_address("tcp"), line);
    let second = source("second", &format!("listen = \"{address}\""));
    let wrong = [files.replace("500ms", "300ms"), syslog(""), second, output].concat();
    weir.reload(&wrong);
    wait(&weir, "the configuration is refused", || {
        metric(&weir, "weir_config_reloads_total{result=\"refused\"}") == 1
    });
    let log = weir.wait_log("keeping the previous configuration");
    assert!(log.contains(&address.to_string()), "{log}");
    assert_eq!(connections(&weir, "tcp"), 1);
    drop(taken);
    // The source whose change was given up runs, and the same configuration can be applied now.
    apply(&weir, &wrong);
    let (written, sent) = (writing.stop(), sender.stop());
    let mut all = vec![written];
    all.extend(streams_report(&[("web7", sent)]));
    judge(&Oracle::strict(OUTPUT), &all, &collector, &weir);
    assert_not_restarted(&weir);
    weir.stop();
}

#[test]
fn what_a_removed_source_has_read_survives_a_kill() {
    let scene = Scene::new();
    let collector = Collector::start();
    let (files, output) = (scene.source("docker_json"), hec(OUTPUT, &collector, ""));
    let without = syslog("") + &output;
    let mut weir = scene.start(&(files + &without));
    collector.answer(Answer::status(503));
    let mut plan = scene.plan();
    plan.lines = Some(3000);
    let written = Writing::all(plan);
    weir.wait_books("everything is read", PATIENCE, |books| books.records() == 3000);
    apply(&weir, &without);
    let waiting = weir.books().output(OUTPUT)["pending_bytes"].as_u64().unwrap();
    wait(&weir, "it is on disk", || metric(&weir, "weir_journal_disk_size_bytes") >= waiting);
    weir.kill();
    collector.answer(Answer::Accept);
    let mut weir = scene.start(&without);
    assert!(collector.wait(PATIENCE, |tally| tally.unique() == 3000), "{}", weir.books());
    let oracle = Oracle { crashes: 1, ..Oracle::strict(OUTPUT) };
    let books = at_rest(&weir, OUTPUT);
    oracle.check(&[written], &collector.tally(), &books);
    weir.stop();
}
