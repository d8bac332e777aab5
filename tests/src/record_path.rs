//! One record followed through weir: its id in a live tail and in the store, and its time at each
//! hop.

use std::fs::File;
use std::io::Write as _;

use serde_json::Value;
use weir_testkit::{Answer, Collector, PATIENCE, Weir, wait_for};

use crate::explore::wait_found;
use crate::scene::{Scene, at_rest, hec};
use crate::tail::Reader;

fn json(weir: &Weir, path: &str) -> (u16, Value) {
    let (status, body) = weir.get(path).unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

/// The rows of a live tail.
fn tailed(reader: &mut Reader, count: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    while rows.len() < count {
        let (name, _, data) = reader.event();
        assert_ne!(name, "gap", "{data}");
        if name == "row" {
            rows.push(data);
        }
    }
    rows
}

fn path(weir: &Weir, id: &str) -> Value {
    let path = format!("/weir/v1/path?id={id}");
    let found = wait_for(PATIENCE, || {
        // Until the store has taken in what was there before it started.
        let (status, body) = json(weir, &path);
        (status != 503).then_some((status, body))
    });
    let (status, body) = found.expect("the store catches up");
    assert_eq!(status, 200, "{body}");
    body
}

fn hop<'a>(path: &'a Value, kind: &str) -> &'a Value {
    let hops = path["hops"].as_array().unwrap();
    hops.iter().find(|hop| hop["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {path}"))
}

#[test]
fn a_row_of_a_live_tail_has_the_id_of_the_stored_record() {
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let mut weir = scene.start(&(scene.source("raw") + "[store]\nenabled = true\n"));
    let mut reader = Reader::start(&weir, "query=&max_rate=100000", None);
    // Lines with the same content, at once.
    file.write_all("the same\n".repeat(200).as_bytes()).unwrap();
    let rows = tailed(&mut reader, 200);
    wait_found(&weir, 200);
    let search = "/api/v2/logs/events?filter[from]=now-1h&filter[to]=now%2B1h&page[limit]=1000";
    let (_, found) = json(&weir, search);
    let ids = |rows: &[Value]| -> Vec<String> {
        let mut ids: Vec<_> = rows.iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    let (of_tail, stored) = (ids(&rows), ids(found["data"].as_array().unwrap()));
    assert_eq!(of_tail, stored);
    // In the order of the stream, with the same neighbors.
    let id = |at: usize| rows[at]["id"].as_str().unwrap();
    let (status, context) =
        json(&weir, &format!("/weir/v1/context?id={}&before=1&after=1", id(100)));
    assert_eq!(status, 200, "{context}");
    assert_eq!(context["before"][0]["id"], id(99));
    assert_eq!(context["record"]["id"], id(100));
    assert_eq!(context["after"][0]["id"], id(101));
    // The store has them in memory, and has not settled them yet.
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn the_path_of_a_record_has_its_time_at_each_hop() {
    let collector = Collector::start();
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let late = Collector::start();
    late.answer(Answer::status(503));
    let outputs = hec("quick", &collector, "") + &hec("late", &late, "");
    let config = scene.source("raw") + &outputs + "[store]\nenabled = true\n";
    let mut weir = scene.start(&config);
    let mut reader = Reader::start(&weir, "query=&max_rate=100000", None);
    file.write_all(b"one\ntwo\nthree\n").unwrap();
    let rows = tailed(&mut reader, 3);
    wait_found(&weir, 3);
    weir.wait_books("the collector has it", PATIENCE, |books| books.in_flight("quick") == 0);

    let id = rows[1]["id"].as_str().unwrap();
    // A search finds a record a moment before the store has settled its batch.
    let is_held = |path: &Value| hop(path, "store")["time"].is_string();
    let before = wait_for(PATIENCE, || Some(path(&weir, id)).filter(is_held)).unwrap();
    assert_eq!(before["stored"], true, "{before}");
    for (kind, of) in
        [("written", "record"), ("received", "block"), ("journal", "batch"), ("store", "batch")]
    {
        let hop = hop(&before, kind);
        assert_eq!((&hop["state"], &hop["time_of"]), (&"passed".into(), &of.into()), "{before}");
        assert!(hop["time"].is_string(), "{before}");
    }
    assert_eq!(hop(&before, "received")["name"], "logs");
    assert_eq!(hop(&before, "received")["time"], rows[1]["observed_timestamp"]);
    assert_eq!(hop(&before, "written")["time"], rows[1]["timestamp"]);
    let outputs = |path: &Value| -> Vec<Value> {
        let hops = path["hops"].as_array().unwrap();
        hops.iter().filter(|hop| hop["kind"] == "output").cloned().collect()
    };
    let named = |path: &Value, name: &str| {
        outputs(path).into_iter().find(|hop| hop["name"] == name).unwrap()
    };
    let quick = named(&before, "quick");
    assert_eq!((&quick["state"], &quick["type"]), (&"delivered".into(), &"splunk_hec".into()));
    assert_eq!(quick["since"], "journal");
    assert!(quick["delay_ns"].as_i64() >= Some(0), "{quick}");
    let waiting = named(&before, "late");
    assert_eq!(waiting["state"], "waiting", "{waiting}");
    assert!(waiting["time"].is_null() && waiting["delay_ns"].is_null(), "{waiting}");

    late.answer(Answer::Accept);
    at_rest(&weir, "late");
    assert_eq!(named(&path(&weir, id), "late")["state"], "delivered");
    weir.stop();

    // Times of batches are not kept, so none is reported; outcomes that are certain from the books
    // are.
    let mut weir = scene.start(&config);
    weir.wait_ready();
    let after = path(&weir, id);
    for name in ["quick", "late"] {
        let hop = named(&after, name);
        assert_eq!(hop["state"], "delivered", "{after}");
        assert!(hop["time"].is_null() && hop["delay_ns"].is_null(), "{after}");
    }
    assert_eq!(hop(&after, "received"), hop(&before, "received"));
    let segment = hop(&after, "segment");
    assert_eq!((&segment["state"], &segment["time_of"]), (&"passed".into(), &"batch".into()));
    at_rest(&weir, "late");
    weir.stop();
}

#[test]
fn without_a_store_the_path_is_what_the_journal_knows() {
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let nowhere = "[output.nowhere]\ntype = \"blackhole\"\n[store]\nenabled = false\n";
    let mut weir = scene.start(&(scene.source("raw") + nowhere));
    let mut reader = Reader::start(&weir, "query=&max_rate=100000", None);
    file.write_all(b"one\n").unwrap();
    let row = tailed(&mut reader, 1).remove(0);
    at_rest(&weir, "nowhere");
    let found = path(&weir, row["id"].as_str().unwrap());
    assert_eq!(found["stored"], false, "{found}");
    assert_eq!(hop(&found, "received")["time"], row["observed_timestamp"]);
    assert_eq!(hop(&found, "output")["state"], "delivered");
    assert!(hop(&found, "output")["time"].is_string(), "{found}");
    weir.stop();
}
