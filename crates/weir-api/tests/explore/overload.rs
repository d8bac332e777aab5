//! More queries than can be answered, and queries whose senders leave.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::{MemoryStore, api, api_of, get, read, record, send_post, wait_until};
use weir_api::{Api, ApiSettings};

const SEARCH: &str = "/api/v2/logs/events/search";

fn ask(api: &Api) -> std::net::TcpStream {
    let body = json!({ "filter": { "from": "2026-01-01" }, "weir": { "timeout": "1m" } });
    send_post(api, SEARCH, &body.to_string())
}

fn metric(api: &Api, name: &str) -> usize {
    let page = get(api, "/metrics").text;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Number of queries that run at once.
fn slots() -> usize {
    std::thread::available_parallelism().unwrap().get() * 2
}

/// Starts the query with this number, which does not end before the store is opened.
fn start_query(api: &Api, store: &MemoryStore, number: usize) -> std::net::TcpStream {
    let stream = ask(api);
    wait_until("it has started", || store.started.load(Ordering::SeqCst) == number);
    stream
}

#[test]
fn short_query_does_not_wait_for_long_ones() {
    let (api, store) = api(5);
    store.set_closed(true);
    let running: Vec<_> = (1..=slots()).map(|count| start_query(&api, &store, count)).collect();
    for _ in 0..5 {
        assert_eq!(get(&api, "/weir/v1/fields").status, 200);
    }
    wait_until("all but one of the slots are used", || {
        metric(&api, "weir_queries_running") == slots() - 1
    });
    assert_eq!(metric(&api, "weir_queries_paused"), 1);
    store.set_closed(false);
    for stream in running {
        assert_eq!(read(stream).status, 200);
    }
    assert_eq!(metric(&api, "weir_queries_paused"), 0);
    api.shutdown();
}

#[test]
fn paused_query_is_cancelled_when_its_client_disconnects() {
    let (api, store) = api(5);
    store.set_closed(true);
    let mut running: Vec<_> =
        (1..=slots() + 1).map(|count| start_query(&api, &store, count)).collect();
    wait_until("two are paused", || metric(&api, "weir_queries_paused") == 2);
    running.clear();
    wait_until("all have ended", || store.cancelled.load(Ordering::SeqCst) == slots() + 1);
    wait_until("none is left", || metric(&api, "weir_queries_paused") == 0);
    api.shutdown();
}

#[test]
fn overload_returns_retry_after_and_serves_the_rest() {
    let (api, store) = api(5);
    store.set_closed(true);
    // Long queries are paused, up to four for each that runs. One that cannot be paused is rejected
    // when another waits.
    let slots = slots();
    let queries = slots * 5;
    let mut running: Vec<_> = (1..=queries).map(|count| start_query(&api, &store, count)).collect();
    let last = running.pop().unwrap();
    running.push(start_query(&api, &store, queries + 1));
    let late = read(last);
    assert_eq!(late.status, 503, "{late:?}");
    assert!(late.head.contains("retry-after: 1\r\n"), "{late:?}");
    assert!(late.head.contains("x-ratelimit-reset: 1\r\n"), "{late:?}");
    assert!(late.json()["errors"][0].as_str().unwrap().contains("waited too long"));
    assert_eq!(metric(&api, "weir_queries_running"), slots);
    assert_eq!(metric(&api, "weir_queries_paused"), slots * 4);
    store.set_closed(false);
    for stream in running {
        assert_eq!(read(stream).status, 200);
    }
    assert_eq!(metric(&api, "weir_queries_total{kind=\"search\",outcome=\"complete\"}"), queries);
    assert_eq!(metric(&api, "weir_queries_total{kind=\"search\",outcome=\"refused_late\"}"), 1);
    assert_eq!(metric(&api, "weir_query_service_time_seconds_count"), queries + 1);
    assert_eq!(metric(&api, "weir_query_queueing_delay_seconds_count"), queries + 1);
    api.shutdown();
}

#[test]
fn query_is_cancelled_when_its_client_disconnects() {
    let (api, store) = api(5);
    store.set_closed(true);
    let request = ask(&api);
    wait_until("it has begun", || store.started.load(Ordering::SeqCst) == 1);
    drop(request);
    wait_until("it has ended", || store.cancelled.load(Ordering::SeqCst) == 1);
    wait_until("it was counted", || {
        metric(&api, "weir_queries_total{kind=\"search\",outcome=\"cancelled\"}") == 1
    });
    api.shutdown();
}

#[test]
fn stuck_query_does_not_delay_shutdown() {
    let store = MemoryStore { is_deaf: true, ..MemoryStore::new((0..5).map(record).collect()) };
    let store = Arc::new(store);
    let api = api_of(Arc::clone(&store));
    store.set_closed(true);
    let request = ask(&api);
    wait_until("it has begun", || store.started.load(Ordering::SeqCst) == 1);
    drop(request);
    api.shutdown();
    assert_eq!(store.cancelled.load(Ordering::SeqCst), 0, "it still runs");
    store.set_closed(false);
}

#[test]
fn without_store_every_path_returns_409() {
    let (api, store) = api(1);
    api.set_store(None);
    let reply = get(&api, "/weir/v1/store");
    assert_eq!(reply.status, 409);
    assert!(reply.text.contains("the store is disabled: [store] enabled = false"), "{reply:?}");
    assert_eq!(read(ask(&api)).status, 409);
    api.shutdown();
    let starting = Api::bind(&ApiSettings::at("127.0.0.1:0".parse().unwrap()), "1").unwrap();
    let reply = read(ask(&starting));
    assert_eq!(reply.status, 503);
    assert!(reply.text.contains("weir is starting"), "{reply:?}");
    starting.shutdown();
    api_of(store).shutdown();
}
