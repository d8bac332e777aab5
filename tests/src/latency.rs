//! Times of requests: their units are the same in rules, live tails and searches.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use weir_codec::{parse_rfc3339, percent_encoded};
use weir_host::{Clock as _, RealClock};
use weir_testkit::{HttpSender, Weir};

use crate::explore::{said, wait_found, weir_command};
use crate::intake;
use crate::scene::{Scene, wait};
use crate::tail::Reader;

const UNITS: &str = "[store]\nenabled = true\n\
    [units]\ntook = \"ms\"\nupstream.first = \"us\"\n\
    [store.remap]\n\"took\" = \"http.took\"\n";

/// Expressions as a rule sees the record, and as it is stored, with the numbers of the records that
/// match.
const EXPRESSIONS: [(&str, &str, &[u64]); 6] = [
    ("@network.unicorn.queueing_delay:>300ms", "@network.unicorn.queueing_delay:>300ms", &[1, 3]),
    ("@took:>=300ms", "@http.took:>=300ms", &[0, 2, 4]),
    ("@took:[0.2s TO 299ms]", "@http.took:[0.2s TO 299ms]", &[3]),
    ("@upstream.first:<1ms", "@upstream.first:<1ms", &[0, 1, 3]),
    ("@request_time:>0.5s", "@request_time:>0.5s", &[0, 4]),
    ("@http_x_request_start:>1ms", "@http_x_request_start:>1ms", &[2]),
];

/// Records with times in the forms in which programs write them.
fn records() -> Vec<Value> {
    let of_unicorn = |delay: Value| json!({ "unicorn": { "queueing_delay": delay } });
    vec![
        json!({ "took": 740, "request_time": "0.612", "upstream": { "first": 999 },
            "network": of_unicorn(json!(0.3)) }),
        json!({ "took": 120, "request_time": 0.5, "upstream": { "first": "12" },
            "network": of_unicorn(json!("0.301")) }),
        json!({ "took": "300", "upstream": { "first": 1000 },
            "http_x_request_start": "t=1700000000.123" }),
        json!({ "took": "250ms", "upstream": { "first": 0.5 },
            "network": of_unicorn(json!("1.5s")) }),
        json!({ "took": 300.5, "request_time": "700ms" }),
        json!({ "took": "fast", "request_time": "-", "http_x_request_start": "t=5" }),
    ]
}

fn numbers(wanted: &[u64]) -> BTreeSet<u64> {
    wanted.iter().copied().collect()
}

/// Returns the numbers of the records that a search finds.
fn found(weir: &Weir, expression: &str) -> BTreeSet<u64> {
    let text = said(weir, &["search"], &[expression, "-o", "raw"]);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn an_expression_with_units_finds_the_same_records_in_rule_tail_and_search() {
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let rules = EXPRESSIONS.iter().enumerate().map(|(n, (expression, ..))| {
        format!(
            "[[rule]]\nname = \"r{n}\"\nwhen = '{expression}'\nset = {{ \"@r{n}\" = \"yes\" }}\n"
        )
    });
    let mut weir =
        scene.start(&(scene.source("raw") + UNITS + &rules.collect::<Vec<_>>().concat()));
    let tails = EXPRESSIONS.map(|(_, expression, _)| {
        Reader::start(&weir, &format!("query={}", percent_encoded(expression)), None)
    });
    for (n, mut record) in records().into_iter().enumerate() {
        record["message"] = n.to_string().into();
        writeln!(file, "{record}").unwrap();
    }
    wait_found(&weir, records().len() as u64);
    for (n, ((_, expression, wanted), mut tail)) in EXPRESSIONS.iter().zip(tails).enumerate() {
        let wanted = numbers(wanted);
        assert_eq!(found(&weir, expression), wanted, "found by {expression}");
        assert_eq!(found(&weir, &format!("@r{n}:yes")), wanted, "marked by {expression}");
        let message = |(_, body): (String, String)| {
            let record: Value = serde_json::from_str(&body).unwrap();
            record["message"].as_str().unwrap().parse::<u64>().unwrap()
        };
        let followed: BTreeSet<u64> = tail.rows(wanted.len()).into_iter().map(message).collect();
        assert_eq!(followed, wanted, "followed by {expression}");
    }
    let aggregates = "min:@http.took,max:@request_time,max:@http_x_request_start";
    let table = said(&weir, &["search"], &["*", "--compute", aggregates, "-o", "json"]);
    let table: Value = serde_json::from_str(table.trim()).unwrap();
    assert_eq!(table["computes"]["min:@http.took"], 120.0);
    assert_eq!(table["computes"]["max:@request_time"], 0.7);
    assert_eq!(table["computes"]["max:@http_x_request_start"], 1_700_000_000_123_000_000.0);
    let table = said(&weir, &["search"], &["*", "--compute", "min:@http.took,max:@request_time"]);
    assert!(table.contains("120 ms") && table.contains("700 ms"), "in their units: {table}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn the_configuration_of_the_guide_finds_slow_requests_and_their_delay() {
    let page = include_str!("../../docs/guide/latency.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (config, _) = rest.split_once("```").unwrap();
    let scene = Scene::new();
    let logs = scene.logs().display().to_string();
    let config = config.replace("/var/log/nginx", &logs).replace("/var/log/shop", &logs);
    let config = config.replace("/*.log", "/shop.log");
    let mut of_nginx = File::create(scene.logs().join("access.log")).unwrap();
    let mut of_shop = File::create(scene.logs().join("shop.log")).unwrap();
    let mut weir = scene.start(&config);
    for (path, total, upstream) in [("/cart", "0.612", "0.600"), ("/", "0.200", "0.100")] {
        let record = json!({ "message": path, "request_time": total,
            "upstream_response_time": upstream });
        writeln!(of_nginx, "{record}").unwrap();
    }
    for (message, render, started) in [("quick", 299, 735), ("slow", 301, 124)] {
        writeln!(
            of_shop,
            r#"{{"message":"{message}","render":{render},"started_s":1700000000.{started},"x_request_start":"t=1700000000.123"}}"#
        )
        .unwrap();
    }
    wait_found(&weir, 4);
    let lines = |expression: &str| {
        let text = said(&weir, &["search"], &[expression, "-o", "raw"]);
        text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let slow = BTreeSet::from(["/cart".to_owned(), "slow".to_owned()]);
    assert_eq!(lines("@slow:yes"), slow, "as the rule says");
    assert_eq!(lines("@request_time:>300ms OR @render:>300ms"), slow);
    assert_eq!(lines("@queueing_delay:>300ms"), BTreeSet::from(["quick".to_owned()]));
    assert_eq!(lines("@nginx_delay:>50ms"), BTreeSet::from(["/".to_owned()]));
    let delays = ["--compute", "min:@queueing_delay,max:@queueing_delay", "-o", "json"];
    let found: Value = serde_json::from_str(said(&weir, &["search"], &delays).trim()).unwrap();
    assert_eq!(found["computes"]["min:@queueing_delay"], 1e6);
    assert_eq!(found["computes"]["max:@queueing_delay"], 612e6);
    weir.books().assert_balanced();
    weir.stop();
}

/// A source whose records have times of their own, a store that keeps records in memory, and a
/// rule.
const LAGGING: &str = "[source.intake]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n\
    [store]\nenabled = true\nflush_interval = \"1h\"\n\
    [[rule]]\nname = \"late\"\nwhen = '@lag:>=5s'\nset = { \"@late\" = \"yes\" }\n";

/// The end of a range that contains a record whose sender's clock is an hour ahead.
const TO: &str = "now+2h";

/// Returns the aggregates of the lag of all records, and the lag of each record.
fn lags(weir: &Weir) -> (Value, Vec<Value>) {
    let computes = ["*", "--compute", "min:@lag,avg:@lag,max:@lag,p99:@lag,count", "-o", "json"];
    let computes = [&computes[..], &["--to", TO]].concat();
    let table: Value = serde_json::from_str(said(weir, &["search"], &computes).trim()).unwrap();
    let records = said(weir, &["search"], &["*", "-o", "json", "--to", TO]);
    let records = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (table["computes"].clone(), records)
}

/// Asserts that each record's lag is its arrival minus its time, and that rule and search agree.
fn assert_lags(weir: &Weir, records: &[Value]) {
    for record in records {
        let details = &record["weir"];
        let [time_ns, arrival_ns] = ["timestamp", "arrival"]
            .map(|name| parse_rfc3339(details[name].as_str().unwrap().as_bytes()).unwrap());
        assert_eq!(details["lag_ns"], arrival_ns - time_ns, "{record}");
    }
    assert_eq!(lines(weir, "@lag:>=5s"), ["late"]);
    assert_eq!(lines(weir, "@late:yes"), ["late"], "as the rule says");
    assert_eq!(lines(weir, "@lag:<0"), ["early"], "the clock of the sender is ahead");
    assert_eq!(lines(weir, "@lag:7"), ["own"], "an attribute takes precedence");
    assert_eq!(lines(weir, "@lag:[0 TO 5s} -@lag:7"), ["now"]);
    assert_eq!(lines(weir, "-@lag:*"), [""; 0]);
}

/// Returns the messages that a search finds.
fn lines(weir: &Weir, expression: &str) -> Vec<String> {
    let text = said(weir, &["search"], &[expression, "-o", "raw", "--to", TO]);
    text.lines().map(str::to_owned).collect()
}

fn wait_stored(weir: &Weir) {
    wait(weir, "four records are found", || {
        let found = ["*", "-o", "raw", "--to", TO];
        let found = weir_command(weir, &["search"], &found).output().unwrap();
        // While the store catches up, the answer is partial, and the exit code shows it.
        found.status.success() && found.stdout.lines().count() == 4
    });
}

#[test]
fn lag_is_found_by_rule_tail_and_search_in_memory_and_on_disk() {
    let scene = Scene::new();
    let mut weir = scene.start(LAGGING);
    let mut tail = Reader::start(&weir, &format!("query={}", percent_encoded("@lag:>=5s")), None);
    let before_ns = RealClock::new().unix_ns();
    let item = |message: &str, ago_ms: i64| json!({ "message": message, "timestamp": before_ns / 1_000_000 - ago_ms });
    let mut own = item("own", 60_000);
    own["lag"] = 7.into();
    let items = json!([item("late", 5_000), item("early", -3_600_000), own, { "message": "now" }]);
    let answer = HttpSender::new(weir.source_address("intake"))
        .post(intake::PATH, &[intake::JSON], items.to_string().as_bytes())
        .unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    let took_ns = (RealClock::new().unix_ns() - before_ns) as f64;
    wait_stored(&weir);
    let (_, body) = tail.rows(1).remove(0);
    assert!(body.contains("late"), "{body}");
    let (in_memory, records) = lags(&weir);
    assert_lags(&weir, &records);
    // A time is sent in milliseconds.
    let at_most_ns = 5e9 + took_ns + 1e6;
    let most = in_memory["max:@lag"].as_f64().unwrap();
    assert!((5e9..=at_most_ns).contains(&most), "{in_memory} within {took_ns} ns");
    let least = in_memory["min:@lag"].as_f64().unwrap();
    assert!((-3600e9..=-3600e9 + took_ns + 1e6).contains(&least), "{in_memory}");
    let table = said(&weir, &["search"], &["late", "--columns", "message,@lag"]);
    assert!(table.contains("5 s") || table.contains("5.0"), "in its unit: {table}");
    let csv = said(&weir, &["store", "export"], &["--format", "csv", "--columns", "message,@lag"]);
    let late = csv.lines().find_map(|line| line.strip_prefix("late,")).unwrap();
    assert_eq!(late, most.to_string(), "{csv}");
    assert!(csv.contains("own,7\r\n"), "{csv}");
    weir.books().assert_balanced();
    weir.stop();
    let mut weir = scene.start(LAGGING);
    wait_stored(&weir);
    assert_eq!(lags(&weir), (in_memory, records), "on disk as in memory");
    let (_, records) = lags(&weir);
    assert_lags(&weir, &records);
    weir.books().assert_balanced();
    weir.stop();
}
