//! Scrapes of real targets: every sample becomes an envelope of its target, and a failing target
//! does not affect others.
//!
//! Needs Python, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use weir_testkit::{Answer, Books, Collector, PATIENCE, Tally, Weir};

use crate::loggregator::{Certificates, python};
use crate::scene::{OUTPUT, Scene, at_rest, hec, metric, wait};
use crate::syslog::{file, records};

const TARGET: &str = include_str!("prometheus_target.py");

/// Samples of an answer that become envelopes.
const SAMPLES: u64 = 11;

/// A target; it is killed at the end.
struct Target {
    child: Child,
    port: u16,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Target {
    fn start(tls: &[&str]) -> Self {
        let mut command = Command::new(python());
        command.args(["-c", TARGET]).args(tls);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it has an output");
        BufReader::new(stdout).read_line(&mut line).expect("it says its port");
        Self { child, port: line.trim().parse().expect("a port") }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// A source that scrapes often.
fn source(keys: &str) -> String {
    format!(
        "[source.apps]\ntype = \"prometheus\"\nscrape_interval = \"200ms\"\n\
         rescan_interval = \"100ms\"\ntags = {{ deployment = \"cf\" }}\n{keys}\n"
    )
}

fn target(url: &str, keys: &str) -> String {
    format!("[[source.apps.targets]]\nurl = \"{url}\"\n{keys}\n")
}

/// The metrics of delivered records, each with its resource.
fn metrics(scene: &Scene) -> Vec<(Value, Value)> {
    let all = records(&scene.dir().join("out.log")).into_iter();
    let body = |record: &Value| serde_json::from_str(record["body"].as_str()?).ok();
    all.filter_map(|record| Some((body(&record)?, record["resource"].clone()))).collect()
}

fn failed(weir: &Weir, source_id: &str) -> u64 {
    let label = format!("scrape_target_source_id=\"{source_id}\"");
    let metrics = weir.metrics();
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.contains("failed_scrapes_total") && line.contains(&label));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn every_type_of_metric_arrives_over_mutual_tls_with_its_labels() {
    let scene = Scene::new();
    let files = Certificates::write(&scene);
    let app = Target::start(&[&files.server.0, &files.server.1, &files.ca]);
    let url = format!("https://127.0.0.1:{}/metrics", app.port);
    let (cert, key) = &files.good;
    let tls =
        format!("tls = {{ ca_file = {:?}, cert_file = {cert:?}, key_file = {key:?} }}", files.ca);
    let keys =
        "source_id = \"cell\"\ninstance_id = \"7\"\nlabels = { zone = \"a\", az = \"z1\" }\n";
    let config = source(&tls) + &target(&url, keys) + &file(&scene);
    let mut weir = scene.start(&config);
    weir.wait_books("two scrapes", PATIENCE, |books| books.delivered(OUTPUT) >= 2 * SAMPLES);
    weir.stop();
    let all = metrics(&scene);
    let first: Vec<&Value> = all.iter().take(SAMPLES as usize).map(|(body, _)| body).collect();
    let of = |name: &str| -> Vec<Value> {
        first.iter().filter(|body| body["name"] == name).map(|body| (*body).clone()).collect()
    };
    let has_tag = |body: &Value, name: &str, value: &str| {
        body["tags"].as_array().is_some_and(|tags| tags.contains(&json!([name, value])))
    };
    let (requests, resource) =
        all.iter().find(|(body, _)| body["name"] == "requests_total").unwrap();
    assert_eq!(requests["total"], 1);
    assert!(has_tag(requests, "code", "200") && has_tag(requests, "az", "z1"), "{requests}");
    assert_eq!(resource["service.name"], "app-guid");
    assert_eq!(resource["service.instance.id"], "7", "the target says it");
    assert!(resource["tags"].to_string().contains("deployment:cf"), "{resource}");
    let queue = &of("queue")[0];
    assert_eq!((&queue["value"], &queue["unit"]), (&json!(1.5), &json!("entries")));
    assert!(has_tag(queue, "zone", "b") && !has_tag(queue, "zone", "a"), "{queue}");
    let buckets = of("latency_bucket");
    for (bucket, (le, total)) in buckets.iter().zip([("0.5", 2), ("1e+06", 3), ("+Inf", 4)]) {
        assert!(has_tag(bucket, "le", le) && bucket["total"] == total, "{bucket}");
    }
    assert_eq!(of("latency_sum")[0]["value"], 5.25);
    assert_eq!(of("latency_count")[0]["total"], 4);
    assert!(has_tag(&of("pause")[0], "quantile", "0.99"));
    assert_eq!(
        (&of("pause_sum")[0]["value"], &of("pause_count")[0]["total"]),
        (&json!(7.0), &json!(8))
    );
    assert!(has_tag(&of("unknown")[0], "text", "a\\b\"c\n"));
    assert_eq!(of("invalid"), [] as [Value; 0], "no counter is negative");
    assert!(all.iter().any(|(body, _)| body["name"] == "requests_total" && body["total"] == 2));
}

#[test]
fn targets_that_hang_or_answer_garbage_delay_no_other() {
    let scene = Scene::new();
    let app = Target::start(&[]);
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = format!("http://{refused}/metrics");
    let mut config = source("scrape_timeout = \"150ms\"\nbody_max = \"12MiB\"\n");
    config += &target(&app.url("/metrics"), "source_id = \"good\"\n");
    config += &target(&app.url("/secret"), "source_id = \"denied\"\n");
    let slow = "scrape_interval = \"1s\"\nscrape_timeout = \"1s\"\n";
    for (path, id) in
        [("/hang", "hang"), ("/trickle", "trickle"), ("/garbage", "garbage"), ("/large", "large")]
    {
        config += &target(&app.url(path), &format!("source_id = \"{id}\"\n{slow}"));
    }
    config += &target(&refused, "source_id = \"refused\"\n");
    let mut weir = scene.start(&(config + &file(&scene)));
    let bad = ["denied", "hang", "trickle", "garbage", "large", "refused"];
    wait(&weir, "all of them fail twice", || bad.iter().all(|id| failed(&weir, id) >= 2));
    weir.wait_books("the good one goes on", PATIENCE, |books| {
        books.delivered(OUTPUT) >= 10 * SAMPLES
    });
    assert_eq!(failed(&weir, "good"), 0, "{}", weir.log());
    let failing = metric(&weir, "weir_source_failing_targets{");
    assert_eq!(failing, bad.len() as u64);
    let health = weir.health();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["reasons"][0]["reason"], "targets");
    let metrics = weir.metrics();
    for kind in ["timeout", "status", "malformed_metrics", "too_large", "refused", "invalid_total"]
    {
        assert!(metrics.contains(&format!("error_type=\"{kind}\"")), "{kind}: {metrics}");
    }
    at_rest_while_scraping(&weir);
    weir.stop();
    assert!(self::metrics(&scene).iter().all(|(_, resource)| {
        ["good", "app-guid"].contains(&resource["service.name"].as_str().unwrap())
    }));
}

/// The books, which balance at every moment.
fn at_rest_while_scraping(weir: &Weir) -> Books {
    let books = weir.books();
    books.assert_balanced();
    books
}

#[test]
fn files_of_targets_are_followed_and_weir_scrapes_itself() {
    let scene = Scene::new();
    let app = Target::start(&[]);
    let jobs = scene.dir().join("jobs");
    let path = |job: &str| {
        let dir = jobs.join(job).join("config");
        std::fs::create_dir_all(&dir).unwrap();
        dir.join("metrics_port.yml")
    };
    let keys = format!("target_files = [\"{}/*/config/metrics_port.yml\"]\n", jobs.display());
    let config = source(&keys) + &file(&scene);
    let mut weir = scene.start(&config);
    let own = weir.api().unwrap().port();
    let text =
        format!("---\nport: {own} # weir's own\nsource_id: weir\nlabels: {{ origin: own }}\n");
    std::fs::write(path("weir"), text + "scrape_interval: 200ms\n").unwrap();
    let text =
        format!("port: \"{}\"\nsource_id: job\nheaders:\n  Authorization: Basic dTpw\n", app.port);
    std::fs::write(path("job"), format!("{text}path: secret\n")).unwrap();
    std::fs::write(path("bad"), "port: none\n").unwrap();
    let from =
        |name: &str| metrics(&scene).iter().filter(|(_, r)| r["service.name"] == name).count();
    // At the first scrape nothing has been received yet, so the counter has no total.
    let own = || {
        let has_total = |(body, _): &(Value, Value)| {
            body["name"] == "weir_component_received_events_total" && body["total"].is_u64()
        };
        metrics(&scene).into_iter().find(has_total)
    };
    wait(&weir, "both are scraped", || own().is_some() && from("job") > 10);
    let (_, resource) = own().unwrap();
    assert!(resource["tags"].to_string().contains("origin:own"), "{resource}");
    assert_eq!(metric(&weir, "weir_source_targets{"), 2);
    assert_eq!(weir.health()["reasons"][0]["reason"], "targets", "the bad file");
    std::fs::remove_file(path("bad")).unwrap();
    std::fs::remove_file(path("job")).unwrap();
    wait(&weir, "one is left, and no problem", || {
        metric(&weir, "weir_source_targets{") == 1
            && weir.health()["reasons"].as_array().is_some_and(Vec::is_empty)
    });
    at_rest_while_scraping(&weir);
    weir.stop();
}

#[test]
fn nothing_is_lost_uncounted_over_a_full_buffer_and_kills() {
    let scene = Scene::new();
    let app = Target::start(&[]);
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let keys = "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n";
    let many: String = (0..20)
        .map(|n| target(&app.url(&format!("/metrics?{n}")), &format!("source_id = \"a{n}\"\n")))
        .collect();
    let config = source("scrape_interval = \"100ms\"\n")
        .replace("scrape_interval = \"200ms\"\n", "")
        + &many
        + &hec(OUTPUT, &collector, keys);
    for round in 0..3 {
        let mut weir = scene.start(&config);
        let before = weir.books().records();
        weir.wait_books("it is scraped", PATIENCE, |books| books.records() > before + 500);
        weir.books().assert_balanced();
        if round < 2 {
            weir.kill();
        } else {
            collector.answer(Answer::Accept);
            weir.wait_books("it arrives", PATIENCE, |books| books.delivered(OUTPUT) > 1000);
            drop(app);
            let books = at_rest(&weir, OUTPUT);
            let events = collector.look(|tally: &Tally| tally.events);
            assert!(events >= books.delivered(OUTPUT), "{events} {books}");
            weir.stop();
            break;
        }
    }
}
