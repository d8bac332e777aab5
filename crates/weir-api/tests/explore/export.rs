//! All records, as a stream.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::support::{api, connect, get, wait_until};

const RANGE: &str = "from=2026-01-01&to=2026-01-02";

#[test]
fn ndjson_has_every_record_once_in_order() {
    let (api, _store) = api(2500);
    let reply = get(&api, &format!("/weir/v1/export?query=service:api&{RANGE}"));
    assert_eq!(reply.status, 200);
    assert!(reply.head.contains("content-type: application/x-ndjson"), "{}", reply.head);
    let entries: Vec<Value> =
        reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<i64> = entries
        .iter()
        .map(|entry| entry["attributes"]["attributes"]["service_time"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, (0..2500).filter(|n| n % 10 != 0).collect::<Vec<i64>>());
    assert_eq!(entries[0]["weir"]["position"], "1:200");
    let reply = get(&api, &format!("/weir/v1/export?limit=1500&sort=-timestamp&{RANGE}"));
    assert_eq!(reply.text.lines().count(), 1500);
    api.shutdown();
}

#[test]
fn an_export_without_a_first_time_begins_with_the_first_record() {
    let (api, _store) = api(1200);
    let lines = |parameters: &str| {
        let reply = get(&api, &format!("/weir/v1/export?{parameters}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text.lines().count()
    };
    assert_eq!(lines(""), 1200, "all of them are older than 15 minutes");
    assert_eq!(lines("to=2026-01-02"), 1200, "an end long ago is behind the first record");
    assert_eq!(lines("from=now-15m"), 0);
    let search = get(&api, "/api/v2/logs/events").json();
    assert_eq!(search["data"], json!([]), "a search keeps its 15 minutes");
    api.shutdown();
}

#[test]
fn csv_has_the_columns_that_were_asked_for() {
    let (api, store) = api(1);
    store.records.lock().unwrap()[0].message = Some("a \"b\",\nc".to_owned());
    let path = format!(
        "/weir/v1/export?format=csv&columns=timestamp,pod_name,env,@http.status_code,@none,message&{RANGE}"
    );
    let want = "timestamp,pod_name,env,@http.status_code,@none,message\r\n\
                2026-01-01T00:00:00.123456789Z,p,prod,500,,\"a \"\"b\"\",\nc\"\r\n";
    assert_eq!(get(&api, &path).text, want);
    let wrong = get(&api, &format!("/weir/v1/export?format=csv&columns=sevice&{RANGE}"));
    assert_eq!(wrong.status, 400);
    assert!(wrong.text.contains("there is no column") && wrong.text.contains("sevice"));
    api.shutdown();
}

#[test]
fn parquet_is_a_whole_file() {
    let (api, _store) = api(1200);
    let mut stream = connect(&api);
    write!(stream, "GET /weir/v1/export?format=parquet&{RANGE} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let (head, file) = answer.split_at(at);
    let head = String::from_utf8_lossy(head).to_lowercase();
    assert!(head.starts_with("http/1.0 200") && !head.contains("x-weir-next"), "{head}");
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    api.shutdown();
}

#[test]
fn what_is_wrong_with_an_export_is_said_before_it_begins() {
    let (api, _store) = api(1);
    for (parameters, named) in
        [("query=(a", "query"), ("format=xml", "format"), ("cursor=a", "cursor"), ("foo=1", "foo")]
    {
        let reply = get(&api, &format!("/weir/v1/export?{parameters}"));
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.text.contains(named), "{reply:?}");
        assert_eq!(reply.json()["status"], json!(400));
    }
    api.shutdown();
}

#[test]
fn an_export_ends_when_its_reader_leaves() {
    let (api, store) = api(5000);
    let mut stream = connect(&api);
    write!(stream, "GET /weir/v1/export?{RANGE} HTTP/1.0\r\n\r\n").unwrap();
    let mut first = [0; 4096];
    stream.read_exact(&mut first).unwrap();
    store.set_closed(true);
    drop(stream);
    // Either no page was being looked for, or it is given up.
    wait_until("nothing is being looked for", || {
        let page = get(&api, "/metrics").text;
        page.contains("\nweir_queries_running 0\n")
    });
    let begun = store.begun.load(Ordering::SeqCst);
    store.set_closed(false);
    assert!(begun <= 5, "{begun} pages of 5");
    assert_eq!(get(&api, &format!("/weir/v1/export?limit=1&{RANGE}")).status, 200);
    api.shutdown();
}
