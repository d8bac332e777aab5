//! Deletion of records.

use std::io::Write as _;

use serde_json::json;

use crate::support::{api, connect, get, post, read};

const PATH: &str = "/weir/v1/store/deletions";

#[test]
fn dry_run_counts_then_deletion_deletes() {
    let (api, store) = api(30);
    assert_eq!(get(&api, PATH).json(), json!({ "schema": "weir.deletions.v1", "deletions": [] }));
    let from = "2026-01-01T00:00:05Z";
    let dry = json!({ "query": "status:error", "from": from, "dry_run": true });
    let reply = post(&api, PATH, &dry);
    assert_eq!((reply.status, &reply.json()["records"]), (200, &json!(2)), "{reply:?}");
    assert!(reply.json()["id"].is_null() && store.records.lock().unwrap().len() == 30);
    let reply = post(&api, PATH, &json!({ "query": "status:error", "from": from }));
    assert_eq!((reply.status, &reply.json()["id"]), (200, &json!(1)), "{reply:?}");
    assert_eq!(store.records.lock().unwrap().len(), 28);
    let entry = get(&api, PATH).json()["deletions"][0].clone();
    assert_eq!(
        entry,
        json!({
            "id": 1, "status": "pending", "query": "status:error",
            "from": "2026-01-01T00:00:05.000000000Z", "to": null,
            "requested": "2026-01-01T00:00:00.000000000Z", "done": null,
            "records": 0, "segments_left": 1,
        })
    );
}

#[test]
fn incomplete_deletion_requests_are_rejected() {
    let (api, store) = api(3);
    for body in [
        json!({}),
        json!({ "query": " " }),
        json!({ "query": "(a" }),
        json!({ "query": "a", "from": "now", "to": "now-1d" }),
        json!({ "query": "a", "dryrun": true }),
    ] {
        let reply = post(&api, PATH, &body);
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
    }
    // What a page of another site can send from a browser without a preflight request.
    for content_type in ["", "content-type: text/plain\r\n"] {
        let mut stream = connect(&api);
        let body = json!({ "query": "*" }).to_string();
        let len = body.len();
        write!(stream, "POST {PATH} HTTP/1.0\r\n{content_type}content-length: {len}\r\n\r\n{body}")
            .unwrap();
        assert_eq!(read(stream).status, 415);
    }
    // What it can send if its own host name resolves to this machine.
    for request in [format!("POST {PATH}"), format!("DELETE {PATH}/1")] {
        let mut stream = connect(&api);
        let body = json!({ "query": "*" }).to_string();
        let len = body.len();
        write!(
            stream,
            "{request} HTTP/1.0\r\nhost: evil.example\r\ncontent-type: application/json\r\n\
             content-length: {len}\r\n\r\n{body}"
        )
        .unwrap();
        assert_eq!(read(stream).status, 421, "{request}");
    }
    assert_eq!(store.records.lock().unwrap().len(), 3);
    assert!(store.deletions.lock().unwrap().is_empty());
}

#[test]
fn deletion_is_cancelled_by_id() {
    let (api, _store) = api(30);
    assert_eq!(post(&api, PATH, &json!({ "query": "status:error" })).status, 200);
    let cancel = |id: &str| {
        let mut stream = connect(&api);
        write!(stream, "DELETE {PATH}/{id} HTTP/1.0\r\n\r\n").unwrap();
        read(stream)
    };
    let reply = cancel("1");
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("cancelled")), "{reply:?}");
    let reply = cancel("7");
    assert_eq!((reply.status, &reply.json()["title"]), (404, &json!("there is no deletion 7")));
    assert_eq!(cancel("x").status, 400);
    let reply = get(&api, &format!("{PATH}/1"));
    assert!(reply.status == 405 && reply.head.contains("allow: delete"), "{reply:?}");
}
