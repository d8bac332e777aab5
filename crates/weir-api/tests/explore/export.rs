//! Export of all records, as a stream.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use weir_api::Api;

use crate::support::{MemoryStore, api, api_of, connect, get, read, record, wait_until};

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
fn export_without_from_starts_at_the_first_record() {
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
fn records_missing_after_the_first_page_are_reported_in_a_trailer() {
    let records = (0..2500).map(record).collect();
    let store = MemoryStore { damaged_behind: Some(0), ..MemoryStore::new(records) };
    let answer = |api: &Api, format: &str, te: &str| {
        let mut stream = connect(api);
        let path = format!("/weir/v1/export?format={format}&{RANGE}");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{te}\r\n")
            .unwrap();
        read(stream)
    };
    let damaged_api = api_of(Arc::new(store));
    for format in ["ndjson", "csv"] {
        let reply = answer(&damaged_api, format, "te: trailers\r\n");
        assert!(reply.head.contains("\r\ntrailer: x-weir-partial\r\n"), "{}", reply.head);
        assert!(reply.text.ends_with("\r\n0\r\nx-weir-partial: damaged\r\n\r\n"));
        let cut = answer(&damaged_api, format, "");
        assert!(!cut.head.contains("x-weir-partial") && !cut.text.ends_with("0\r\n\r\n"));
        for text in [reply.text, cut.text] {
            assert_eq!(text.matches("request ").count(), 2500, "nothing else is missing");
        }
    }
    damaged_api.shutdown();
    let store = MemoryStore { is_late: true, ..MemoryStore::new((0..2500).map(record).collect()) };
    let api = api_of(Arc::new(store));
    let reply = answer(&api, "ndjson", "");
    assert!(reply.head.contains("x-weir-partial: deadline"), "{}", reply.head);
    assert!(reply.text.ends_with("0\r\n\r\n"), "it was said before");
    api.shutdown();
}

#[test]
fn export_page_size_adapts_to_record_size() {
    let (api, store) = api(5000);
    for record in store.records.lock().unwrap().iter_mut() {
        (record.attributes, record.resource, record.tags) = (Vec::new(), None, None);
    }
    let reply = get(&api, &format!("/weir/v1/export?{RANGE}"));
    assert_eq!(reply.text.lines().count(), 5000);
    let pages = store.started.load(Ordering::SeqCst);
    assert!(pages < 5, "{pages} pages");
    api.shutdown();
}

#[test]
fn csv_has_the_requested_columns() {
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
    assert!(wrong.text.contains("unknown column") && wrong.text.contains("sevice"));
    api.shutdown();
}

#[test]
fn parquet_export_is_a_complete_file() {
    let (api, _store) = api(1200);
    let (head, file) = parquet(&api, "");
    assert!(head.starts_with("HTTP/1.0 200") && next(&head).is_none(), "{head}");
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    api.shutdown();
}

/// A store with this many records, of which a thousand fill a Parquet file.
fn large_records(records: i64) -> Api {
    let (api, store) = api(records);
    for record in store.records.lock().unwrap().iter_mut() {
        record.message = Some("m".repeat(68_000));
    }
    api
}

/// Head and body of an export as Parquet.
fn parquet(api: &Api, parameters: &str) -> (String, Vec<u8>) {
    let mut stream = connect(api);
    let path = format!("/weir/v1/export?format=parquet&{parameters}&{RANGE}");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let file = answer.split_off(at);
    (String::from_utf8(answer).unwrap(), file)
}

fn next(head: &str) -> Option<String> {
    head.lines().find_map(|line| line.strip_prefix("x-weir-next: ")).map(str::to_owned)
}

#[test]
fn too_large_parquet_requires_pieces() {
    let api = large_records(1010);
    let (head, text) = parquet(&api, "");
    assert!(head.starts_with("HTTP/1.0 422"), "{head}");
    let problem: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&problem["status"], &problem["parameter"]), (&json!(422), &json!("pieces")));
    let title = problem["title"].as_str().unwrap();
    for part in ["first 1,000 of them", "MiB", "pieces=true"] {
        assert!(title.contains(part), "{title}");
    }
    let (head, file) = parquet(&api, "limit=1000");
    assert!(head.starts_with("HTTP/1.0 200") && next(&head).is_none(), "{head}");
    assert!(file.starts_with(b"PAR1"));
    let (head, file) = parquet(&api, "pieces=true");
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    // A client with a cursor knows about pieces.
    let cursor = next(&head).unwrap();
    let (head, _) = parquet(&api, &format!("cursor={cursor}"));
    assert!(head.starts_with("HTTP/1.0 200") && next(&head).is_none(), "{head}");
    api.shutdown();
}

#[test]
fn limit_applies_to_all_pieces_together() {
    let api = large_records(2010);
    let (head, _) = parquet(&api, "pieces=true&limit=1500");
    let cursor = next(&head).unwrap();
    let (head, _) = parquet(&api, &format!("limit=1500&cursor={cursor}"));
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert_eq!(next(&head), None, "500 are left, which fit");
    api.shutdown();
}

#[test]
fn invalid_export_is_rejected_before_it_starts() {
    let (api, _store) = api(1);
    for (parameters, named) in [
        ("query=(a", "query"),
        ("format=xml", "format"),
        ("cursor=a", "cursor"),
        ("pieces=true", "pieces"),
        ("foo=1", "foo"),
    ] {
        let reply = get(&api, &format!("/weir/v1/export?{parameters}"));
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.text.contains(named), "{reply:?}");
        assert_eq!(reply.json()["status"], json!(400));
    }
    api.shutdown();
}

#[test]
fn export_ends_when_its_client_disconnects() {
    let (api, store) = api(5000);
    let mut stream = connect(&api);
    write!(stream, "GET /weir/v1/export?{RANGE} HTTP/1.0\r\n\r\n").unwrap();
    let mut first = [0; 4096];
    stream.read_exact(&mut first).unwrap();
    store.set_closed(true);
    drop(stream);
    // Either no page was being read, or reading was cancelled.
    wait_until("nothing is being looked for", || {
        let page = get(&api, "/metrics").text;
        page.contains("\nweir_queries_running 0\n")
    });
    let started = store.started.load(Ordering::SeqCst);
    store.set_closed(false);
    assert!(started <= 5, "{started} pages of 5");
    assert_eq!(get(&api, &format!("/weir/v1/export?limit=1&{RANGE}")).status, 200);
    api.shutdown();
}
