//! The output for Datadog: each measurement arrives as a point despite failures of the intake and
//! of weir, and records that are not metrics go elsewhere.
//!
//! Needs Python, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use weir_testkit::{PATIENCE, Weir};

use crate::loggregator::python;
use crate::scene::{Scene, at_rest, metric};

const STATSD: &str = "[source.statsd]\ntype = \"statsd\"\nlisten = \"127.0.0.1:0\"\n\
                      tags = { deployment = \"cf\" }\n";

/// An intake in another process.
struct Intake {
    process: Child,
    port: u16,
    accepted: PathBuf,
}

impl Intake {
    fn start(scene: &Scene, behaviors: &[&str]) -> Self {
        let accepted = scene.dir().join("accepted");
        let mut command = Command::new(python());
        command.args(["-c", include_str!("datadog_series_intake.py")]).arg(&accepted);
        command.args(behaviors).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python runs");
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().expect("it is piped"));
        said.read_line(&mut line).expect("the intake says its port");
        Self { process, port: line.trim().parse().expect("it is a port"), accepted }
    }

    /// Returns the distinct points that it has accepted.
    fn points(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(&self.accepted).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns an output to it, with quick retries.
    fn output(&self) -> String {
        format!(
            "[output.datadog]\ntype = \"datadog_metrics\"\nurl = \"http://127.0.0.1:{}\"\n\
             api_key = {{ env = \"HEC_TOKEN\" }}\ntags = [\"foundation:test\"]\n\
             batch_age = \"20ms\"\nrequest_timeout = \"1s\"\nretry_min = \"10ms\"\n\
             retry_max = \"100ms\"\n",
            self.port
        )
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

/// Sends a counter and a gauge for each number, and waits until weir has them: losses on arrival
/// are not the subject here.
fn send(weir: &Weir, numbers: std::ops::Range<u64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = weir.books().source("statsd")["book"]["lines"].as_u64().unwrap();
    let count = numbers.end - numbers.start;
    for number in numbers {
        let text = format!(
            "gorouter.requests.{number}:{}|c|#origin:gorouter,index:0\n\
             app.level.{number}:{number}.5|g|#source_id:app-guid",
            // An increment of zero is not a record.
            number + 1
        );
        socket.send_to(text.as_bytes(), weir.source_address("statsd")).unwrap();
    }
    let is_there =
        |books: &weir_testkit::Books| books.source("statsd")["book"]["lines"] == before + 2 * count;
    weir.wait_books("all arrived", PATIENCE, is_there);
}

#[test]
fn every_point_arrives_whatever_the_intake_and_weir_do() {
    const COUNT: u64 = 1_200;
    let scene = Scene::new();
    let intake = Intake::start(&scene, &["500", "hang", "429", "503", "408", "500", "hang"]);
    std::fs::write(scene.logs().join("app.log"), "one\ntwo\nthree\n").unwrap();
    let other = "[output.none]\ntype = \"blackhole\"\n";
    let config = STATSD.to_owned() + &scene.source("raw") + &intake.output() + other;
    let mut weir = scene.start(&config);
    for kill in 0..3 {
        send(&weir, COUNT / 3 * kill..COUNT / 3 * (kill + 1));
        if kill < 2 {
            weir.kill();
            weir = scene.start(&config);
        }
    }
    let all = |books: &weir_testkit::Books| {
        books.in_flight("datadog") == 0 && books.in_flight("none") == 0
    };
    weir.wait_books("all are delivered", PATIENCE, all);
    let books = at_rest(&weir, "datadog");
    // A kill may lose what was not flushed yet; it is counted.
    let lost = books.source("statsd")["book"]["discarded"]["crash"].as_u64().unwrap_or(0);
    let points = intake.points();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for point in &points {
        let mut parts = point.split(' ');
        let (name, value) = (parts.next().unwrap(), parts.nth(1).unwrap());
        names.insert(name);
        let (group, _) = name.rsplit_once('.').unwrap();
        *sums.entry(group).or_default() += value.parse::<f64>().unwrap();
    }
    assert_eq!(names.len(), points.len(), "a point that is sent again is the same point");
    assert_eq!(points.len() as u64 + lost, 2 * COUNT, "{books}");
    if lost == 0 {
        let whole = COUNT * (COUNT - 1) / 2;
        let expected = BTreeMap::from([
            ("datadog.nozzle.gorouter.requests", (whole + COUNT) as f64),
            ("datadog.nozzle.app.level", whole as f64 + COUNT as f64 / 2.0),
        ]);
        assert_eq!(sums, expected);
    }
    let of = |name: &str| points.iter().find(|point| point.starts_with(name)).unwrap();
    let counter = of("datadog.nozzle.gorouter.requests.1100 ");
    for tag in ["deployment:cf", "index:0", "source_id:gorouter", "foundation:test"] {
        assert!(counter.split(' ').any(|part| part == tag), "{counter}");
    }
    assert!(
        !counter.contains("origin:") && of("datadog.nozzle.app.level.1100 ").contains("app-guid")
    );
    assert_eq!(books.output("datadog")["book"]["routed"], 2 * COUNT - lost);
    assert_eq!(books.output("none")["book"]["routed"], 2 * COUNT - lost + 3);
    weir.stop();
}

#[test]
fn what_is_refused_is_put_aside_alone_and_large_requests_are_divided() {
    let scene = Scene::new();
    let intake = Intake::start(&scene, &["500"]);
    let output = intake.output().replace("batch_age = \"20ms\"", "batch_age = \"1s\"");
    let mut weir = scene.start(&(STATSD.to_owned() + &output));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = weir.source_address("statsd");
    send(&weir, 0..1_000);
    socket.send_to(b"app.refused:1|g", address).unwrap();
    let is_there = |books: &weir_testkit::Books| books.source("statsd")["book"]["lines"] == 2_001;
    weir.wait_books("it arrived", PATIENCE, is_there);
    send(&weir, 1_000..1_010);
    let is_done =
        |books: &weir_testkit::Books| books.records() == 2_021 && books.in_flight("datadog") == 0;
    weir.wait_books("all have an outcome", PATIENCE, is_done);
    let books = at_rest(&weir, "datadog");
    let book = &books.output("datadog")["book"];
    assert_eq!((&book["delivered"], &book["dead_lettered"]), (&2_020.into(), &1.into()), "{books}");
    assert_eq!(intake.points().len(), 2_020);
    let errors = "weir_component_errors_total{component_id=\"datadog\",component_kind=\"output\",\
                  component_type=\"datadog_metrics\",error_type=\"too_large\"}";
    assert!(metric(&weir, errors) > 0, "{}", weir.metrics());
    weir.stop();
}

#[test]
fn logs_without_another_output_are_unrouted_and_counted() {
    let scene = Scene::new();
    let intake = Intake::start(&scene, &[]);
    std::fs::write(scene.logs().join("app.log"), "one\ntwo\n").unwrap();
    let mut weir = scene.start(&(STATSD.to_owned() + &scene.source("raw") + &intake.output()));
    send(&weir, 0..10);
    let is_read = |books: &weir_testkit::Books| {
        books.source("logs")["book"]["lines"] == 2 && books.delivered("datadog") == 20
    };
    weir.wait_books("all have an outcome", PATIENCE, is_read);
    let books = at_rest(&weir, "datadog");
    assert_eq!(books.source("logs")["book"]["discarded"]["unrouted"], 2, "{books}");
    weir.stop();
}
