//! Stored records are found: over HTTP, in the terminal, and by Datadog's own client.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use weir_testkit::{PATIENCE, Weir, binary, wait_for};

use crate::drains::api;
use crate::scene::{Scene, metric};

const STORE: &str = "[store]\nenabled = true\n";

/// Starts a weir that stores a file of JSON lines.
fn storing() -> (Scene, Weir, File) {
    let scene = Scene::new();
    let file = File::create(scene.logs().join("app.log")).unwrap();
    let weir = scene.start(&(scene.source("json") + STORE));
    (scene, weir, file)
}

/// Every tenth line is an error of service `web`, the others are of `api`.
fn line(n: u32) -> String {
    let (service, level, code) =
        if n.is_multiple_of(10) { ("web", "error", 500) } else { ("api", "info", 200) };
    let record = json!({
        "level": level, "service": service, "message": format!("request {n} done"), "n": n,
        "http": { "status_code": code }, "duration": u64::from(n) * 1_000_000,
        "total": n + 5, "work": n,
        // An array without elements is not a value.
        "rare": if n == 7 { json!("seven") } else { json!([]) },
    });
    format!("{record}\n")
}

fn write_lines(file: &mut File, numbers: std::ops::Range<u32>) {
    let text: String = numbers.map(line).collect();
    file.write_all(text.as_bytes()).unwrap();
}

pub(crate) fn weir_command(weir: &Weir, words: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(words).args(["--api", &weir.api().unwrap().to_string()]).args(args);
    command.env("COLUMNS", "100");
    command
}

fn output(weir: &Weir, words: &[&str], args: &[&str]) -> Output {
    weir_command(weir, words, args).output().unwrap()
}

/// Returns the standard output of a command that succeeded.
#[track_caller]
pub(crate) fn said(weir: &Weir, words: &[&str], args: &[&str]) -> String {
    let output = output(weir, words, args);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} {args:?}: {notes}");
    String::from_utf8(output.stdout).unwrap()
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until this many records can be found.
pub(crate) fn wait_found(weir: &Weir, records: u64) {
    let found = || {
        let counted = output(weir, &["search"], &["--compute", "count", "-o", "json"]);
        let text = String::from_utf8(counted.stdout).unwrap();
        // While the store catches up, the answer is partial, and the exit code shows it.
        let is_all = json_lines(&text)[0]["computes"]["count"] == records;
        (counted.status.success() && is_all).then_some(())
    };
    assert!(wait_for(PATIENCE, found).is_some(), "{records} records are not found");
}

#[test]
fn what_was_received_is_found_counted_and_exported_exactly() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..3000);
    wait_found(&weir, 3000);
    let rows = said(&weir, &["search"], &["@n:1234", "-o", "raw"]);
    assert_eq!(rows, "request 1234 done\n");
    let rows = said(&weir, &["search"], &["status:error", "-o", "json", "-n", "5000"]);
    assert_eq!(json_lines(&rows).len(), 300, "more than one page");
    let groups = ["--group-by", "service", "--compute", "count,max:@duration", "-o", "json"];
    let groups = json_lines(&said(&weir, &["search"], &groups));
    assert_eq!(groups[0]["by"]["service"], "api");
    assert_eq!(groups[0]["computes"]["count"], 2700);
    assert_eq!(groups[1]["computes"]["max:@duration"], 2990e6);
    let table = said(&weir, &["search"], &["--group-by", "@http.status_code"]);
    assert_eq!(
        table,
        "  @http.status_code  count\n  200                2,700\n  500                  300\n"
    );
    let slow = ["@n:2990", "--columns", "@duration,@half,@n", "--calculate", "half=@duration / 2"];
    let table = said(&weir, &["search"], &slow);
    assert_eq!(table, "@duration  @half   @n\n2.99s      1.495s  2990\n", "with their units");
    let rare = output(&weir, &["search"], &["*", "--group-by", "@rare,service"]);
    let notes = String::from_utf8_lossy(&rare.stderr).into_owned();
    assert!(notes.contains("2,999 records have no @rare or no service"), "{notes}");
    assert!(notes.contains("; 3,000 records scanned"), "once: {notes}");
    let unknown = output(&weir, &["search"], &["--group-by", "sevice"]);
    let notes = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(notes.contains("did you mean service?") && !notes.contains("have no"), "{notes}");
    let all = output(&weir, &["search"], &["--group-by", "service"]);
    assert!(!String::from_utf8_lossy(&all.stderr).contains("have no"), "{all:?}");
    let delay =
        ["@delay:5", "--calculate", "delay=@total - @work", "--compute", "count,avg:@delay"];
    assert!(said(&weir, &["search"], &delay).ends_with("  3,000            5\n"));
    let bars = said(&weir, &["search"], &["--histogram", "-o", "json"]);
    let sum: f64 = json_lines(&bars).iter().filter_map(|bar| bar["value"].as_f64()).sum();
    assert!((sum - 3000.0).abs() < 0.1, "{bars}");
    let patterns = said(&weir, &["search"], &["--patterns", "-o", "json"]);
    assert_eq!(json_lines(&patterns)[0]["count"], 3000, "{patterns}");
    let fields = json_lines(&said(&weir, &["search"], &["service:web", "--fields", "-o", "json"]));
    let code = fields.iter().find(|field| field["name"] == "@http.status_code").unwrap();
    let want = json!({ "name": "@http.status_code", "type": "number", "count": 300, "distinct": 1,
        "values": [{ "value": 500, "count": 300 }], "min": 500.0, "max": 500.0 });
    assert_eq!(*code, want);
    let table = said(&weir, &["search"], &["--fields", "-n", "50"]);
    let service = table.lines().find(|line| line.starts_with("  service ")).unwrap();
    assert!(service.ends_with(" 3,000       2  api (2,700), web (300)"), "{table}");
    let export = said(&weir, &["store", "export"], &["service:web"]);
    let numbers: Vec<u64> = json_lines(&export)
        .iter()
        .map(|entry| entry["attributes"]["attributes"]["n"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..3000).step_by(10).collect::<Vec<u64>>());
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_day_of_25_hours_is_one_bar_in_its_zone() {
    let (_scene, mut weir, mut file) = storing();
    // The day on which the clock in Berlin is set back; the first hour is 22:00 UTC.
    for hour in 22..48 {
        let (day, hour) = (24 + hour / 24, hour % 24);
        let time = format!("2026-10-{day}T{hour:02}:00:00Z");
        writeln!(file, "{}", json!({ "timestamp": time, "message": format!("at {time}") }))
            .unwrap();
    }
    let day = ["--from", "2026-10-25", "--to", "2026-10-27", "--timezone", "europe/berlin"];
    let search = |args: &[&str]| said(&weir, &["search"], &[&day, args].concat());
    let all = || {
        let rows = output(&weir, &["search"], &[&day[..], &["-o", "raw"]].concat());
        let count = rows.stdout.as_slice().lines().count();
        (rows.status.success() && count == 26).then_some(())
    };
    assert!(wait_for(PATIENCE, all).is_some(), "the records of 26 hours are not found");
    let bars = json_lines(&search(&["--histogram", "--interval", "1d", "-o", "json"]));
    let want = [
        json!({ "time": "2026-10-25T00:00:00.000+02:00", "value": 25.0 }),
        json!({ "time": "2026-10-26T00:00:00.000+01:00", "value": 1.0 }),
    ];
    assert_eq!(bars, want);
    let night = ["--to", "2026-10-25 04:00:00", "--histogram", "--interval", "1h"];
    let hours = said(&weir, &["search"], &[&day[..2], &day[4..], &night].concat());
    let times: Vec<&str> = hours.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let twice = ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"];
    assert_eq!((times.len(), &times[2..4]), (5, &twice[..]), "{hours}");
    let rows = search(&["-n", "1", "--order", "oldest"]);
    assert!(rows.starts_with("2026-10-25T00:00:00"), "{rows}");
    assert!(rows.contains("+02:00 ") && rows.contains("at 2026-10-24T22:00:00Z"), "{rows}");
    let wrong = output(&weir, &["search"], &["--timezone", "Europe/Berln"]);
    let notes = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{notes}");
    assert!(notes.contains("did you mean Europe/Berlin?"), "{notes}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_search_that_is_followed_shows_every_record_once() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..50);
    wait_found(&weir, 50);
    // Lines are written continuously from before the search until it has seen enough.
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            let mut n = 50;
            while !is_over.load(Ordering::Relaxed) {
                write_lines(&mut file, n..n + 2);
                n += 2;
                std::thread::park_timeout(std::time::Duration::from_millis(2));
            }
        })
    };
    let args = ["--follow", "-o", "raw", "-n", "1000", "request"];
    let mut child = weir_command(&weir, &["search"], &args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 0..1500 {
        assert_eq!(rows.next().unwrap().unwrap(), format!("request {n} done"));
    }
    is_over.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    weir.stop();
}

#[test]
fn a_search_that_is_followed_has_one_shape_for_programs() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..1);
    wait_found(&weir, 1);
    let mut child = weir_command(&weir, &["search"], &["--follow", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut row = || -> Value { serde_json::from_str(&rows.next().unwrap().unwrap()).unwrap() };
    let stored = row();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(notes.any(|note| note.unwrap().contains("now following")));
    write_lines(&mut file, 1..2);
    let coming = row();
    for (row, n, code) in [(&stored, 0, 500), (&coming, 1, 200)] {
        let attributes = &row["attributes"]["attributes"];
        assert_eq!(attributes["http"]["status_code"], code, "{row}");
        assert_eq!(attributes["n"], n, "{row}");
        let tags = row["attributes"]["tags"].as_array().unwrap();
        let is_path = |tag: &Value| tag.as_str().unwrap().starts_with("log.file.path:/");
        assert!(tags.iter().any(is_path), "{row}");
    }
    let names = |row: &Value| -> Vec<String> {
        let attributes = row["attributes"]["attributes"].as_object().unwrap();
        attributes.keys().cloned().collect()
    };
    assert_eq!(names(&stored), names(&coming));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_found(&weir, 2);
    let found = json_lines(&said(&weir, &["search"], &["@n:1", "-o", "json"])).remove(0);
    assert_eq!(found, coming, "it is the same as after it was stored");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_search_that_is_followed_has_the_columns_that_were_asked_for() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..1);
    wait_found(&weir, 1);
    let mut child = weir_command(&weir, &["search"], &["--follow", "--columns", "service,@n"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || rows.next().unwrap().unwrap();
    assert_eq!([next(), next()], ["service  @n", "web      0"]);
    write_lines(&mut file, 1..2);
    assert_eq!(next(), "api      1");
    child.kill().unwrap();
    child.wait().unwrap();
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_search_that_is_followed_begins_with_as_many_rows_as_were_asked_for() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..2_300);
    wait_found(&weir, 2_300);
    let arguments = ["--follow", "-n", "2200", "--columns", "@n"];
    let mut child = weir_command(&weir, &["search"], &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || rows.next().unwrap().unwrap();
    assert_eq!(next(), "@n");
    for n in 100..2_300 {
        assert_eq!(next(), n.to_string());
    }
    write_lines(&mut file, 2_300..2_301);
    assert_eq!(next(), "2300");
    child.kill().unwrap();
    child.wait().unwrap();
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_search_reports_errors_and_missing_results() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..10);
    wait_found(&weir, 10);
    let wrong = output(&weir, &["search"], &["service:(web OR"]);
    let notes = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{notes}");
    assert!(notes.contains("unexpected end") && notes.contains('^'), "{notes}");
    let empty = output(&weir, &["search"], &["@no.such.field:1", "--exit-on-empty"]);
    let notes = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert_eq!((empty.status.code(), empty.stdout.len()), (Some(4), 0), "{notes}");
    assert!(notes.contains("no record has a field @no.such.field"), "{notes}");
    let columns = output(&weir, &["search"], &["--columns", "service,@m", "-n", "1"]);
    let notes = String::from_utf8_lossy(&columns.stderr).into_owned();
    assert!(notes.contains("no row has the column @m"), "{notes}");
    assert!(!notes.contains("column service"), "{notes}");
    let reversed = output(&weir, &["search"], &["--from", "now", "--to", "now-1h"]);
    assert!(String::from_utf8_lossy(&reversed.stderr).contains("must be before"));
    weir.stop();
}

#[test]
fn without_a_store_a_search_says_that_it_is_off() {
    let scene = Scene::new();
    let nowhere = "[output.nowhere]\ntype = \"blackhole\"\n[store]\nenabled = false\n";
    let mut weir = scene.start(&(scene.source("json") + nowhere));
    let off = output(&weir, &["search"], &[]);
    let notes = String::from_utf8_lossy(&off.stderr).into_owned();
    assert_eq!(off.status.code(), Some(1));
    assert!(notes.contains("the store is disabled: [store] enabled = false"), "{notes}");
    weir.stop();
}

#[test]
fn the_context_of_a_record_is_its_neighbors_in_the_file() {
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..100);
    wait_found(&weir, 100);
    let row = json_lines(&said(&weir, &["search"], &["@n:50", "-o", "json"])).remove(0);
    let path = format!("/weir/v1/context?id={}&before=2&after=2", row["id"].as_str().unwrap());
    let (status, body) = weir.get(&path).unwrap();
    assert_eq!(status, 200, "{body}");
    let context: Value = serde_json::from_str(&body).unwrap();
    let numbers = |part: &str| -> Vec<u64> {
        let entries = context[part].as_array().unwrap();
        entries.iter().map(|e| e["attributes"]["attributes"]["n"].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers("before"), numbers("after")), (vec![48, 49], vec![51, 52]), "{body}");
    weir.stop();
}

/// Submits logs with Datadog's own client, and finds them again with it.
const CLIENT: &str = r#"
import sys, time
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.http_log import HTTPLog
from datadog_api_client.v2.model.http_log_item import HTTPLogItem
from datadog_api_client.v2.model.logs_aggregate_request import LogsAggregateRequest
from datadog_api_client.v2.model.logs_aggregation_function import LogsAggregationFunction as F
from datadog_api_client.v2.model.logs_compute import LogsCompute
from datadog_api_client.v2.model.logs_group_by import LogsGroupBy
from datadog_api_client.v2.model.logs_list_request import LogsListRequest
from datadog_api_client.v2.model.logs_list_request_page import LogsListRequestPage
from datadog_api_client.v2.model.logs_query_filter import LogsQueryFilter

intake, api = sys.argv[1:]
configuration = Configuration(host=f"http://{api}", api_key={"apiKeyAuth": "a", "appKeyAuth": "b"})
configuration.server_operation_index["submit_log"] = 1
configuration.server_operation_variables["submit_log"] = {"protocol": "http", "name": intake}
logs = LogsApi(ApiClient(configuration))
item = lambda n: HTTPLogItem(message=f"order {n} paid", service="shop", ddsource="python", ddtags="env:prod,team:a", hostname="h1", n=str(n), status="error" if n % 5 == 0 else "info")
for first in range(0, 100, 25):
    logs.submit_log(body=HTTPLog([item(n) for n in range(first, first + 25)]))

filter = LogsQueryFilter(query="service:shop env:prod paid", _from="now-1h", to="now")
count = lambda: logs.aggregate_logs(body=LogsAggregateRequest(filter=filter, compute=[LogsCompute(aggregation=F.COUNT)])).data.buckets[0].computes["c0"]
deadline = time.monotonic() + 30
while count() < 100 and time.monotonic() < deadline:
    pass
assert count() == 100, count()
found = list(logs.list_logs_with_pagination(body=LogsListRequest(filter=filter, page=LogsListRequestPage(limit=30))))
assert sorted(log.attributes.message for log in found) == sorted(f"order {n} paid" for n in range(100)), found
log = next(log for log in found if log.attributes.message == "order 5 paid")
assert log.attributes.service == "shop" and log.attributes.host == "h1" and log.attributes.status == "error", log
assert "env:prod" in log.attributes.tags and "team:a" in log.attributes.tags, log
assert log.attributes.attributes["n"] == "5", log
answer = logs.aggregate_logs(body=LogsAggregateRequest(filter=filter, compute=[LogsCompute(aggregation=F.COUNT)], group_by=[LogsGroupBy(facet="status"), LogsGroupBy(facet="team")]))
groups = {(b.by["status"], b.by["team"]): b.computes["c0"] for b in answer.data.buckets}
assert groups == {("info", "a"): 80, ("error", "a"): 20}, groups
print("as expected")
"#;

#[test]
fn what_datadogs_own_client_submits_it_finds_again() {
    let Some(python) = std::env::var_os("WEIR_PYTHON") else { return };
    let scene = Scene::new();
    let intake = "[source.intake]\ntype = \"datadog_intake\"\nlisten = \"127.0.0.1:0\"\n";
    let mut weir = scene.start(&format!("{intake}{STORE}"));
    let intake = weir.source_address("intake").to_string();
    let api = weir.api().unwrap().to_string();
    let out = Command::new(python).args(["-c", CLIENT, &intake, &api]).output().unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("as expected"), "{said}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn memory_of_refused_queries_is_returned_to_the_system() {
    const MIB: u64 = 1024 * 1024;
    let (_scene, mut weir, mut file) = storing();
    write_lines(&mut file, 0..10);
    weir.wait_books("all are read", PATIENCE, |books| books.routed("store") == 10);
    let resident = || metric(&weir, "process_resident_memory_bytes ");
    let before = resident();
    for round in 0..3 {
        std::thread::scope(|scope| {
            for client in 0..8 {
                let weir = &weir;
                scope.spawn(move || {
                    let repeated = 200 + (round * 8 + client) % 50;
                    let terms: Vec<String> =
                        (0..1500).map(|n| format!("message:/[^a]{{{repeated}}}x{n}/")).collect();
                    let body = json!({
                        "compute": [{ "aggregation": "count" }],
                        "filter": { "query": terms.join(" OR "), "from": "now-1h", "to": "now" },
                    });
                    let (status, answer) =
                        api(weir, "POST", "/api/v2/logs/analytics/aggregate", &body);
                    assert!(status >= 400, "{status}: {answer}");
                });
            }
        });
    }
    let is_returned = || (resident() < before + 32 * MIB).then_some(());
    let is_returned = wait_for(PATIENCE, is_returned);
    assert!(is_returned.is_some(), "{} MiB instead of {}", resident() / MIB, before / MIB);
    weir.books().assert_balanced();
    weir.stop();
}
