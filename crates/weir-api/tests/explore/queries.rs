//! Requests and their responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_store::query::CalculatedField;

use crate::support::{MemoryStore, Reply, api, api_of, get, post, record};

const SEARCH: &str = "/api/v2/logs/events/search";
const AGGREGATE: &str = "/api/v2/logs/analytics/aggregate";

/// The range of all records of [`record`].
fn all() -> (&'static str, &'static str) {
    ("2026-01-01T00:00:00Z", "2026-01-02")
}

fn filter(query: &str) -> Value {
    json!({ "query": query, "from": all().0, "to": all().1 })
}

fn messages(reply: &Reply) -> Vec<String> {
    let page = reply.json();
    let data = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
    data.iter().map(|entry| entry["attributes"]["message"].as_str().unwrap().to_owned()).collect()
}

fn numbered(numbers: impl IntoIterator<Item = i64>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("request {n} done")).collect()
}

#[test]
fn record_has_datadog_format() {
    let (api, _store) = api(3);
    let reply = post(&api, SEARCH, &json!({ "filter": filter("status:error") }));
    assert_eq!(reply.status, 200, "{reply:?}");
    let page = reply.json();
    let entry = &page["data"][0];
    assert_eq!(entry["type"], "log");
    assert_eq!(
        entry["attributes"],
        json!({
            "timestamp": "2026-01-01T00:00:00.123Z",
            "host": "h1", "service": "web", "status": "error", "message": "request 0 done",
            "tags": ["env:prod", "blue", "source:app", "k8s.pod.name:p"],
            "attributes": {
                "duration": 0, "http": { "status_code": 500 }, "request_time": 5,
                "service_time": 0,
            },
        })
    );
    assert_eq!(page["meta"]["status"], "done");
    assert!(page["meta"]["elapsed"].is_u64() && page["meta"]["request_id"].is_string());
    assert!(page["meta"].get("page").is_none() && page.get("links").is_none());
    assert!(entry.get("weir").is_none());
    let body = json!({ "filter": filter("status:error"), "weir": { "details": true } });
    let entry = post(&api, SEARCH, &body).json()["data"][0].clone();
    let details = json!({
        "timestamp": "2026-01-01T00:00:00.123456789Z", "stream": "0000000000000007",
        "position": "1:100", "source": "app",
    });
    assert_eq!(entry["weir"], details);
    api.shutdown();
}

#[test]
fn paging_returns_every_record_once_during_ingest() {
    let (api, store) = api(25);
    let mut seen = Vec::new();
    let mut body = json!({
        "filter": { "query": "", "from": all().0, "to": 1_767_225_600_000_i64 + 3_600_000 },
        "page": { "limit": 10 },
    });
    loop {
        let reply = post(&api, SEARCH, &body);
        let page = reply.json();
        seen.extend(messages(&reply));
        let Some(after) = page["meta"]["page"]["after"].as_str() else { break };
        body["page"]["cursor"] = after.into();
        // The URL of the next page returns the same page.
        let next =
            page["links"]["next"].as_str().unwrap().strip_prefix("http://127.0.0.1").unwrap();
        assert_eq!(messages(&get(&api, next)), messages(&post(&api, SEARCH, &body)));
        let newer = 1000 + seen.len() as i64;
        store.records.lock().unwrap().push(record(newer));
    }
    assert_eq!(seen, numbered((0..25).rev()));
    let oldest = post(&api, SEARCH, &json!({ "filter": filter("request"), "sort": "timestamp" }));
    assert_eq!(messages(&oldest), numbered(0..10));
    api.shutdown();
}

#[test]
fn now_is_fixed_over_all_pages() {
    let (api, store) = api(0);
    // The range ends now: records with later times are not on later pages of the oldest first.
    store.records.lock().unwrap().extend((0..20).map(record));
    let from = "2026-01-01";
    let ask = |cursor: &Value| {
        let page = json!({ "limit": 10, "cursor": cursor });
        let page = if cursor.is_null() { json!({ "limit": 10 }) } else { page };
        let filter = json!({ "from": from, "to": "now" });
        post(&api, SEARCH, &json!({ "filter": filter, "sort": "timestamp", "page": page }))
    };
    let first = ask(&Value::Null);
    let mut late = record(20);
    late.time_ns = i64::MAX - 1;
    store.records.lock().unwrap().push(late);
    let second = ask(&first.json()["meta"]["page"]["after"]);
    assert_eq!(messages(&second), numbered(10..20));
    api.shutdown();
}

#[test]
fn search_accepts_a_query_string() {
    let (api, _store) = api(25);
    let path = "/api/v2/logs/events?filter[query]=service%3Aweb&filter[from]=2026-01-01&\
                filter[to]=1767312000000&sort=timestamp&page[limit]=2";
    assert_eq!(messages(&get(&api, path)), numbered([0, 10]));
    let calculated_fields =
        "weir.calculated_fields=%7B%22delay%22%3A%22%40request_time%20-%20%40service_time%22%7D";
    let path = format!(
        "{SEARCH}?filter[query]=@delay:5&filter[from]=2026-01-01&filter[to]=2026-01-02&{calculated_fields}"
    );
    assert_eq!(messages(&get(&api, &path)).len(), 10);
    api.shutdown();
}

#[test]
fn aggregates_have_datadog_format() {
    let (api, _store) = api(100);
    let body = json!({
        "filter": filter(""),
        "compute": [
            { "aggregation": "count" },
            { "aggregation": "avg", "metric": "@duration" },
            { "aggregation": "cardinality", "metric": "@http.status_code" },
            { "aggregation": "count", "type": "timeseries", "interval": "1m" },
            { "aggregation": "sum", "metric": "@nothing" },
        ],
        "group_by": [{ "facet": "service", "total": "all" }],
    });
    let reply = post(&api, AGGREGATE, &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    let buckets = reply.json()["data"]["buckets"].clone();
    let names: Vec<&str> =
        buckets.as_array().unwrap().iter().map(|b| b["by"]["service"].as_str().unwrap()).collect();
    assert_eq!(names, ["api", "web", "all"]);
    let web = &buckets[1]["computes"];
    assert_eq!(web["c0"], 10);
    assert_eq!(web["c1"], 45e6);
    assert_eq!(web["c2"], 1);
    let series = json!([
        { "time": "2026-01-01T00:00:00.000Z", "value": 6 },
        { "time": "2026-01-01T00:01:00.000Z", "value": 4 },
    ]);
    assert_eq!(web["c3"], series);
    assert!(web.get("c4").is_none(), "no record has a number there");
    let meta = &reply.json()["meta"]["weir"];
    assert_eq!((&meta["matched"], &meta["grouped"]), (&json!(100), &json!(100)));
    // Without parameters: one group of all records.
    let reply = post(&api, AGGREGATE, &json!({ "filter": filter("service:web") }));
    let buckets = json!([{ "by": {}, "computes": { "c0": 10 } }]);
    assert_eq!(reply.json()["data"]["buckets"], buckets);
    api.shutdown();
}

#[test]
fn days_use_the_requested_time_zone() {
    let (api, _store) = api(100);
    let body = |zone: &str| {
        json!({
            "filter": { "from": "2026-01-01", "to": "2026-01-02" },
            "compute": [{ "aggregation": "count", "type": "timeseries", "interval": "1w" }],
            "options": { "timezone": zone },
        })
    };
    // Weeks begin on Mondays; the 1st of January was a Thursday.
    for (zone, from, week) in [
        ("UTC", "2026-01-01T00:00:00.000000000Z", "2025-12-29T00:00:00.000Z"),
        ("Etc/UTC", "2026-01-01T00:00:00.000000000Z", "2025-12-29T00:00:00.000Z"),
        ("Europe/Berlin", "2025-12-31T23:00:00.000000000Z", "2025-12-28T23:00:00.000Z"),
        ("asia/kathmandu", "2025-12-31T18:15:00.000000000Z", "2025-12-28T18:15:00.000Z"),
        ("UTC+1", "2025-12-31T23:00:00.000000000Z", "2025-12-28T23:00:00.000Z"),
    ] {
        let reply = post(&api, AGGREGATE, &body(zone));
        let answer = reply.json();
        let series = json!([{ "time": week, "value": 100 }]);
        assert_eq!(answer["data"]["buckets"][0]["computes"]["c0"], series, "{zone}: {answer}");
        assert_eq!(answer["meta"]["weir"]["from"], from, "{zone}");
        assert_eq!(answer["meta"]["warnings"].as_array(), None, "{zone}: {answer}");
    }
    let page = json!({ "filter": { "from": "2026-01-01", "to": "2026-01-02" },
        "options": { "timezone": "-00:01" }, "sort": "timestamp" });
    assert_eq!(messages(&post(&api, SEARCH, &page)), numbered(60..70), "from 00:01 of UTC on");
    api.shutdown();
}

#[test]
fn unknown_time_zone_is_rejected() {
    let (api, _store) = api(1);
    for path in [SEARCH, AGGREGATE] {
        let body = json!({ "filter": filter(""), "options": { "timezone": "Europe/Berln" } });
        let reply = post(&api, path, &body);
        let problem = &reply.json()["weir"];
        assert_eq!((reply.status, &problem["parameter"]), (400, &"options.timezone".into()));
        let title = problem["title"].as_str().unwrap();
        assert!(title.contains("did you mean Europe/Berlin?"), "{title}");
        let body = json!({ "filter": filter(""), "options": { "timeOffset": 3600 } });
        assert_eq!(post(&api, path, &body).json()["meta"]["warnings"][0]["code"], "ignored");
    }
    api.shutdown();
}

#[test]
fn calculated_fields_can_be_searched_grouped_and_aggregated() {
    let (api, _store) = api(50);
    let body = json!({
        "filter": filter("@delay:5"),
        "compute": [{ "aggregation": "max", "metric": "@delay" }],
        "group_by": [{ "facet": "@delay" }],
        "weir": { "calculated_fields": { "delay": "@request_time - @service_time" } },
    });
    let reply = post(&api, AGGREGATE, &body);
    let buckets = json!([{ "by": { "@delay": 5 }, "computes": { "c0": 5.0 } }]);
    assert_eq!(reply.json()["data"]["buckets"], buckets, "{reply:?}");
    let units = &reply.json()["meta"]["weir"]["units"];
    assert_eq!(*units, json!({ "@delay": "s", "c0": "s" }), "that of nginx's request_time");
    api.shutdown();
}

#[test]
fn aggregates_have_units() {
    let (api, _store) = api(5);
    let compute =
        |aggregation: &str, metric| json!({ "aggregation": aggregation, "metric": metric });
    let body = json!({
        "filter": filter(""),
        "compute": [
            { "aggregation": "count" },
            compute("avg", "@duration"),
            compute("cardinality", "@duration"),
            compute("pc99", "@delay"),
            compute("max", "@http.status_code"),
        ],
        "group_by": [{ "facet": "@delay" }, { "facet": "service" }],
        "weir": { "calculated_fields": { "delay": "@wait_ms / 2" } },
    });
    let meta = post(&api, AGGREGATE, &body).json()["meta"]["weir"].clone();
    assert_eq!(meta["units"], json!({ "@delay": "ms", "c1": "ns", "c3": "ms" }));
    let calculated_fields = json!({ "delay": "@wait_ms / 2", "share": "@wait_ms / @duration" });
    let body = json!({ "filter": filter(""), "weir": { "calculated_fields": calculated_fields } });
    let meta = post(&api, SEARCH, &body).json()["meta"]["weir"].clone();
    assert_eq!(meta["units"], json!({ "@delay": "ms" }), "of what is computed");
    api.shutdown();
}

#[test]
fn records_include_calculated_fields() {
    let measure = |path: &str, text| CalculatedField {
        path: path.to_owned(),
        formula: weir_expr::Formula::parse(text).unwrap(),
    };
    let calculated_fields =
        vec![measure("delay", "1000"), measure("http.twice", "@http.status_code * 2")];
    let store = MemoryStore { calculated_fields, ..MemoryStore::new(vec![record(0)]) };
    let api = api_of(Arc::new(store));
    let body = json!({
        "filter": filter(""),
        "weir": { "calculated_fields": { "delay": "@request_time - @service_time", "none": "@a - @b" } },
    });
    let found = post(&api, SEARCH, &body).json()["data"][0]["attributes"]["attributes"].clone();
    assert_eq!(found["delay"], 5, "that of the question counts first: {found}");
    let status = found["http"]["status_code"].as_i64().unwrap();
    assert_eq!((found["http"]["twice"].as_i64(), found.get("none")), (Some(2 * status), None));
    api.shutdown();
}

#[test]
fn groups_are_paged() {
    let (api, _store) = api(2500);
    let mut body = json!({
        "filter": filter(""),
        "group_by": [{ "facet": "@duration", "limit": 10_000, "sort": { "order": "asc" } }],
    });
    let mut counts = Vec::new();
    loop {
        let page = post(&api, AGGREGATE, &body).json();
        counts.push(page["data"]["buckets"].as_array().unwrap().len());
        let Some(after) = page["meta"]["page"]["after"].as_str() else { break };
        body["page"] = json!({ "cursor": after });
    }
    assert_eq!(counts, [1000, 1000, 500]);
    api.shutdown();
}

#[test]
fn invalid_query_parts_are_named() {
    let (api, _store) = api(1);
    let doubled = |n: u32| (format!("m{}", 32 - n), format!("@m{0} * @m{0}", 33 - n));
    let doubled: BTreeMap<String, String> = (0..32).map(doubled).collect();
    let cases = [
        (SEARCH, json!({ "filter": { "query": "(a" } }), "filter.query"),
        (SEARCH, json!({ "filter": { "from": "now", "to": "now-1h" } }), "filter.from"),
        (SEARCH, json!({ "filter": { "from": "yesterday" } }), "filter.from"),
        (SEARCH, json!({ "page": { "limit": 1001 } }), "page.limit"),
        (SEARCH, json!({ "page": { "cursor": "abc" } }), "page.cursor"),
        (SEARCH, json!({ "sort": "service" }), "sort"),
        (SEARCH, json!({ "filter": { "querry": "" } }), "filter.querry"),
        (
            SEARCH,
            json!({ "weir": { "calculated_fields": { "d": "@a +" } } }),
            "weir.calculated_fields.d",
        ),
        (SEARCH, json!({ "weir": { "calculated_fields": doubled } }), "weir.calculated_fields.m1"),
        (SEARCH, json!({ "weir": { "timeout": "2h" } }), "weir.timeout"),
        (AGGREGATE, json!({ "compute": [{ "aggregation": "avg" }] }), "compute[0].metric"),
        (AGGREGATE, json!({ "compute": [{ "aggregation": "mean" }] }), "compute[0].aggregation"),
        (AGGREGATE, json!({ "group_by": [{ "facet": "a b" }] }), "group_by[0].facet"),
        (AGGREGATE, json!({ "group_by": [{ "facet": "a", "limit": 0 }] }), "group_by[0].limit"),
        (SEARCH, json!({ "filter": { "from": { "a": 1 } } }), "filter.from"),
        (SEARCH, json!({ "filter": ["a"] }), "filter"),
        (SEARCH, json!({ "page": { "limit": "ten" } }), "page.limit"),
        (SEARCH, json!({ "sort": 5 }), "sort"),
        (AGGREGATE, json!({ "compute": [["count"]] }), "compute[0]"),
        (
            AGGREGATE,
            json!({ "group_by": [{ "facet": "a", "sort": ["measure"] }] }),
            "group_by[0].sort",
        ),
    ];
    for (path, body, parameter) in cases {
        let reply = post(&api, path, &body);
        let document = reply.json();
        assert_eq!(reply.status, 400, "{body}: {document}");
        assert_eq!(document["weir"]["parameter"], parameter, "{document}");
        let title = document["weir"]["title"].as_str().unwrap();
        assert!(document["errors"][0].is_string());
        for word in ["struct", "variant", "enum", "Body", "usize", "sequence", "line 1"] {
            assert!(!title.contains(word), "{title}");
        }
    }
    let document = post(&api, SEARCH, &json!({ "filter": { "query": "a (b" } })).json();
    assert_eq!(document["weir"]["span"], json!({ "start": 2, "end": 3 }), "{document}");
    assert!(document["errors"][0].as_str().unwrap().contains("\n  a (b\n    ^"), "{document}");
    api.shutdown();
}

#[test]
fn too_large_regexp_is_located() {
    let (api, _store) = api(1);
    let large = "a AND /((a{100}){100}){100}/";
    let body = json!({ "filter": { "query": large } });
    for path in [SEARCH, AGGREGATE] {
        let reply = post(&api, path, &body);
        let problem = &reply.json()["weir"];
        assert_eq!(
            (reply.status, &problem["parameter"]),
            (400, &json!("filter.query")),
            "{reply:?}"
        );
        assert_eq!(problem["span"], json!({ "start": 6, "end": large.len() }), "{reply:?}");
        assert!(problem["detail"].as_str().unwrap().contains("\n        ^^^"), "{reply:?}");
    }
    let path = format!("/weir/v1/export?query={}", weir_codec::percent_encoded(large));
    let problem = get(&api, &path).json();
    assert_eq!((&problem["parameter"], &problem["span"]["start"]), (&json!("query"), &json!(6)));
    api.shutdown();
}

#[test]
fn body_must_be_an_object() {
    let (api, _store) = api(1);
    for (path, body, found) in [
        (SEARCH, json!([]), "an array"),
        (SEARCH, json!([{ "query": "(a" }, "timestamp"]), "an array"),
        (AGGREGATE, json!("a"), "the text \"a\""),
        (AGGREGATE, json!(5), "the number 5"),
    ] {
        let reply = post(&api, path, &body);
        let want = format!("the body is {found}, but must be an object");
        assert_eq!((reply.status, &reply.json()["errors"][0]), (400, &json!(want)), "{reply:?}");
    }
    api.shutdown();
}

#[test]
fn parameter_errors_are_in_plain_words() {
    let (api, _store) = api(1);
    for (path, parameter, what) in [
        ("/api/v2/logs/events?page[limit]=ten", "page[limit]", "whole number"),
        ("/weir/v1/patterns?limit=-1", "limit", "whole number"),
        ("/weir/v1/tail?max_rate=x", "max_rate", "whole number"),
        ("/weir/v1/tail?max_rate=0", "max_rate", "must be from 1"),
        ("/weir/v1/tail?foo=1", "foo", "unknown field"),
        ("/weir/v1/export?pieces=maybe", "pieces", "must be true or false"),
        ("/weir/v1/values", "field", "is missing"),
        ("/weir/v1/facets?fields=service,message", "fields", "values of message cannot be listed"),
        ("/weir/v1/facets?fields=", "fields", "missing key"),
        ("/weir/v1/facets?values=0", "values", "must be from 1 to 100"),
    ] {
        let reply = get(&api, path);
        let document = reply.json();
        let problem = document.get("weir").unwrap_or(&document);
        assert_eq!((reply.status, &problem["parameter"]), (400, &json!(parameter)), "{reply:?}");
        assert!(problem["title"].as_str().unwrap().contains(what), "{reply:?}");
    }
    api.shutdown();
}

#[test]
fn errors_on_datadog_paths_have_datadog_format() {
    let (api, _store) = api(1);
    for (reply, status) in [
        (get(&api, "/api/v2/nothing"), 404),
        (get(&api, "/api/v1/validate"), 404),
        (get(&api, AGGREGATE), 405),
    ] {
        let document = reply.json();
        assert_eq!((reply.status, &document["weir"]["status"]), (status, &json!(status)));
        assert_eq!(document["errors"][0], document["weir"]["title"], "{reply:?}");
        assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
    }
    let own = get(&api, "/weir/v1/nothing");
    assert_eq!((own.status, &own.json()["status"]), (404, &json!(404)));
    api.shutdown();
}

#[test]
fn cursor_of_another_query_is_rejected() {
    let (api, _store) = api(25);
    let first = post(&api, SEARCH, &json!({ "filter": filter("request") })).json();
    let page = json!({ "cursor": first["meta"]["page"]["after"] });
    let other = post(&api, SEARCH, &json!({ "filter": filter("done"), "page": page }));
    assert_eq!(other.status, 400);
    assert!(other.text.contains("belongs to another query"), "{other:?}");
    api.shutdown();
}

#[test]
fn bodies_and_methods_are_limited() {
    let (api, _store) = api(1);
    let long = json!({ "filter": { "query": "a".repeat(1024 * 1024) } });
    assert_eq!(post(&api, SEARCH, &long).status, 413);
    let reply = get(&api, AGGREGATE);
    assert_eq!(reply.status, 405);
    assert!(reply.head.contains("allow: post"), "{reply:?}");
    assert_eq!(post(&api, "/weir/v1/fields", &json!({})).status, 405);
    assert_eq!(get(&api, "/weir/v1/values?feild=a").status, 400);
    assert!(get(&api, "/weir/v1/values?feild=a").text.contains("feild"));
    api.shutdown();
}

#[test]
fn lints_are_returned_as_warnings() {
    let api = api_of(Arc::new(MemoryStore::new(vec![record(0)])));
    let warnings = |query: &str| {
        let reply = post(&api, SEARCH, &json!({ "filter": filter(query) })).json();
        let warnings = reply["meta"]["warnings"].as_array().cloned().unwrap_or_default();
        let text = |warning: &Value, key: &str| warning[key].as_str().unwrap().to_owned();
        warnings.iter().map(|warning| (text(warning, "code"), text(warning, "detail"))).collect()
    };
    for (query, code, detail) in [
        ("sevice:web", "likely_mistake", "did you mean service?"),
        ("@n:>5xs", "likely_mistake", "unknown unit xs"),
        ("@wait_ms:>5MB", "likely_mistake", "units are ns us ms"),
        ("status:eror", "never", "eror is not a status"),
        ("@n:[5 TO 1]", "never", "is empty"),
    ] {
        let warnings: Vec<(String, String)> = warnings(query);
        let [(found, text)] = &warnings[..] else { panic!("{query}: {warnings:?}") };
        assert_eq!(found, code, "{query}");
        assert!(text.contains(detail), "{query}: {text}");
    }
    assert_eq!(warnings("service:web status:error"), []);
    api.shutdown();
}

#[test]
fn partial_answer_is_marked() {
    let store = MemoryStore { is_late: true, ..MemoryStore::new(vec![record(0)]) };
    let api = api_of(Arc::new(store));
    let meta = post(&api, SEARCH, &json!({ "filter": filter("@xyz:1") })).json()["meta"].clone();
    assert_eq!(meta["status"], "timeout");
    assert_eq!(meta["weir"]["partial"], true);
    let codes: Vec<&str> = meta["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["deadline", "unknown_field"]);
    assert!(meta["warnings"][1]["detail"].as_str().unwrap().contains("@xyz"));
    // A record that was not found in time may still exist, so the response is not 404.
    let found = post(&api, SEARCH, &json!({ "filter": filter("*") })).json();
    let id = found["data"][0]["id"].as_str().unwrap();
    let late = get(&api, &format!("/weir/v1/context?id={id}"));
    assert!(late.status == 503 && late.text.contains("time limit was reached"), "{}", late.text);
    api.shutdown();
}

#[test]
fn fields_values_context_patterns_and_store_are_returned() {
    let (api, _store) = api(100);
    let fields = get(&api, "/weir/v1/fields?prefix=HTTP.s").json();
    let want = json!([{ "name": "@http.status_code", "type": "number", "parts": 1 }]);
    assert_eq!(fields["fields"], want);
    let range = "from=2026-01-01&to=2026-01-02";
    let values = get(&api, &format!("/weir/v1/values?field=service&{range}")).json();
    let want = json!([{ "value": "api", "count": 90 }, { "value": "web", "count": 10 }]);
    assert_eq!(values["values"], want);
    let values = get(&api, &format!("/weir/v1/values?field=service&prefix=w&{range}")).json();
    assert_eq!(values["values"], json!([{ "value": "web", "count": 10 }]));
    let facets = format!(
        "/weir/v1/facets?fields=@duration,service&values=1&query=@service_time:%3E49&{range}"
    );
    let facets = get(&api, &facets).json();
    let want = json!([
        { "name": "@duration", "unit": "ns", "type": "text", "count": 50, "distinct": 50, "values": [{ "value": 50_000_000, "count": 1 }], "min": 0.0, "max": 1.5 },
        { "name": "service", "type": "text", "count": 50, "distinct": 2, "values": [{ "value": "api", "count": 45 }], "min": 0.0, "max": 1.5 },
    ]);
    assert_eq!((&facets["facets"], &facets["left_out"]), (&want, &json!(0)));
    assert_eq!(facets["meta"]["weir"]["matched"], 50);
    let body = json!({ "filter": filter("\"request 50\"") });
    let id = post(&api, SEARCH, &body).json()["data"][0]["id"].as_str().unwrap().to_owned();
    let context = get(&api, &format!("/weir/v1/context?id={id}&before=2&after=1")).json();
    let message = |entry: &Value| entry["attributes"]["message"].clone();
    assert_eq!(message(&context["before"][0]), "request 48 done", "{context}");
    assert_eq!(message(&context["record"]), "request 50 done");
    assert_eq!(message(&context["after"][0]), "request 51 done");
    assert_eq!(context["after"].as_array().unwrap().len(), 1);
    assert_eq!(get(&api, "/weir/v1/context?id=abc").status, 400);
    let patterns = get(&api, &format!("/weir/v1/patterns?{range}")).json();
    assert_eq!(patterns["patterns"][0]["template"], "request ** done");
    assert_eq!(patterns["patterns"][0]["count"], 90);
    let store = get(&api, "/weir/v1/store").json();
    assert_eq!((&store["rows"], &store["schema"]), (&json!(100), &json!("weir.store.v1")));
    assert_eq!(store["first_time"], "2026-01-01T00:00:00.000000000Z");
    api.shutdown();
}

#[test]
fn store_metrics_exist_only_with_a_store() {
    let store = MemoryStore { is_late: true, ..MemoryStore::new((0..3).map(record).collect()) };
    let api = api_of(Arc::new(store));
    let page = get(&api, "/metrics").text;
    for row in [
        "weir_store_events 3",
        "weir_store_flush_seconds_sum 0.5",
        "weir_store_flush_seconds_count 2",
        "weir_store_failing 1",
        "weir_store_deleted_events_total 0",
        "weir_store_cpu_seconds_total{thread=\"intake\"} 0",
    ] {
        assert!(page.lines().any(|line| line == row), "{row}: {page}");
    }
    api.set_store(None);
    assert!(!get(&api, "/metrics").text.contains("weir_store_"));
}
