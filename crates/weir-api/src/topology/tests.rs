//! Documents of small pipelines, and what changes between two of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn source(name: &str, records: u64, discarded: &Value) -> SourceStatus {
    let lines: u64 =
        records + discarded.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    let book = json!({
        "lines": lines, "records": records, "joined": 0, "discarded": discarded, "malformed": 0,
        "truncated": 0, "bytes_read": 100, "bytes_abandoned": {},
    });
    let status = json!({
        "book": { "name": name, "type": "file", "streams": 1, "book": book, "unaccounted_lines": 0 },
        "files": 1, "unreadable_files": 0, "lag_seconds": 2.5, "blocked": false,
        "blocked_seconds": 0.0, "errors": 0, "cpu_seconds": 0.25,
    });
    serde_json::from_value(status).unwrap()
}

fn output(name: &str, routed: u64, delivered: u64) -> OutputStatus {
    let counts = json!({
        "routed": routed, "delivered": delivered, "discarded": {}, "dead_lettered": 0, "resent": 0,
    });
    let book = json!({
        "name": name, "type": if name == "store" { "store" } else { "http" }, "active": true,
        "when_full": "block", "book": counts, "in_flight": routed - delivered, "taken": 1,
        "pending_bytes": 90, "buffer_bytes_max": 100, "lag_seconds": 7.0, "blocking": false,
        "unaccounted_records": 0,
    });
    let status = json!({
        "book": book, "failing": false, "last_error": null, "requests": 0, "retries": 0,
        "sent_bytes": 0, "in_flight_requests": 0, "concurrency_limit": 0, "service_seconds": 0.0,
        "queueing_seconds": 0.0, "batches": 0, "errors": 0, "cpu_seconds": 0.5,
    });
    serde_json::from_value(status).unwrap()
}

fn rules(names: &[&str]) -> RulesDocument {
    let rule =
        |name: &&str| json!({ "name": name, "hits": 1, "last_hit": null, "cpu_seconds": 0.0 });
    let document = json!({
        "schema": "weir.rules.v1", "generation": 1, "since": "", "records": 1, "unrouted": 0,
        "cpu_seconds": 0.125, "rules": names.iter().map(rule).collect::<Vec<_>>(),
    });
    serde_json::from_value(document).unwrap()
}

/// Two sources, a rule that discards, two outputs of which one was removed, drains, and readers.
fn reading() -> Reading {
    let mut removed = output("removed", 9, 9);
    removed.book.active = false;
    let readers = ReadersEntry {
        name: "egress".into(),
        matched: 5,
        delivered: 3,
        lost: 2,
        ..ReadersEntry::default()
    };
    Reading {
        process: ProcessEntry::default(),
        health: HealthEntry::default(),
        sources: vec![
            source("a", 10, &json!({ "rule": 4, "crash": 1 })),
            source("b", 20, &json!({ "sampled": 3 })),
        ],
        rules: rules(&["noise"]),
        journal: JournalStatus { disk_bytes: 1, disk_bytes_max: 4, ..JournalStatus::default() },
        outputs: vec![
            output("store", 30, 25),
            output("copy", 20, 20),
            removed,
            output(drain::NAME, 30, 20),
            output(drain::LAGGING, 8, 2),
        ],
        readers: vec![readers],
    }
}

/// A small document in which an output has received this many records.
pub(super) fn document(records: u64) -> TopologyDocument {
    TopologyDocument::new(0, &Reading { outputs: vec![output("copy", records, 0)], ..reading() })
}

fn node<'a>(document: &'a TopologyDocument, id: &str) -> &'a TopologyNode {
    document.nodes.iter().find(|node| node.id == id).unwrap_or_else(|| panic!("no {id}"))
}

fn edges(document: &TopologyDocument) -> Vec<(&str, u64)> {
    document.edges.iter().map(|edge| (edge.id.as_str(), edge.records)).collect()
}

#[test]
fn every_node_receives_what_its_edges_carry() {
    let document = TopologyDocument::new(0, &reading());
    let wanted = [
        ("source:a>rules", 14),
        ("source:b>rules", 23),
        ("rules>journal", 30),
        ("journal>output:store", 30),
        ("journal>output:copy", 20),
        ("journal>output:drains", 30),
        ("output:drains>output:drains/lagging", 8),
        ("journal>readers:egress", 5),
    ];
    assert_eq!(edges(&document), wanted);
    let ids: BTreeSet<&str> = document.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids.len(), document.nodes.len());
    for node in document.nodes.iter().filter(|node| node.kind != NodeKind::Source) {
        let incoming = document.edges.iter().filter(|edge| edge.to == node.id);
        assert_eq!(incoming.map(|edge| edge.records).sum::<u64>(), node.received, "{}", node.id);
    }
    assert!(document.edges.iter().all(|edge| ids.contains(&*edge.from) && ids.contains(&*edge.to)));
    let discarded = |id| Vec::from_iter(node(&document, id).discarded.clone());
    assert_eq!(discarded("source:a"), [("crash".to_owned(), 1)]);
    assert_eq!(discarded("rules"), [("rule".to_owned(), 4), ("sampled".to_owned(), 3)]);
    assert_eq!(discarded("readers:egress"), [("too_slow".to_owned(), 2)]);
}

#[test]
fn nodes_have_the_values_of_their_status() {
    let document = TopologyDocument::new(0, &reading());
    let source = node(&document, "source:a");
    assert_eq!((source.lag_seconds, source.cpu_seconds), (Some(2.5), Some(0.25)));
    let store = node(&document, "output:store");
    assert_eq!((store.kind, store.waiting, store.taken), (NodeKind::Store, 5, 1));
    assert_eq!((store.queue_bytes, store.queue_bytes_max), (90, Some(100)));
    assert_eq!(store.oldest_unacknowledged_seconds, Some(7.0));
    assert_eq!(node(&document, "output:drains/lagging").kind, NodeKind::Drains);
    assert_eq!(node(&document, "journal").queue_bytes_max, Some(4));
    for (node, status) in
        document.nodes.iter().filter_map(|node| Some((node, node.output.as_ref()?)))
    {
        assert_eq!((&node.name, node.received), (&status.book.name, status.book.book.routed));
    }
    assert_eq!(source.source.as_ref().map(|status| status.book.book.lines), Some(15));
    let journal = node(&document, "journal").journal.as_ref();
    assert_eq!(journal.map(|status| status.disk_bytes_max), Some(4));
    let inactive = document.inactive.iter().map(|output| output.book.name.as_str());
    assert_eq!(inactive.collect::<Vec<_>>(), ["removed"]);
    assert!(document.nodes.iter().all(|node| node.state == NodeState::Ok));
}

#[test]
fn without_rules_sources_feed_the_journal() {
    let reading = Reading { rules: rules(&[]), ..reading() };
    let document = TopologyDocument::new(0, &reading);
    assert_eq!(edges(&document)[..2], [("source:a>journal", 10), ("source:b>journal", 20)]);
    assert!(document.nodes.iter().all(|node| node.kind != NodeKind::Rules));
    assert_eq!(node(&document, "source:a").discarded.len(), 2);
}

#[test]
fn a_blocked_source_names_what_blocks_it() {
    let mut reading = reading();
    for source in &mut reading.sources {
        source.blocked = true;
    }
    reading.sources[0].blocked_by = Some("copy".to_owned());
    reading.outputs[0].failing = true;
    reading.outputs[1].book.blocking = true;
    reading.journal.disk_error = Some("no space".to_owned());
    let document = TopologyDocument::new(0, &reading);
    let state = |id| (node(&document, id).state, node(&document, id).blocked_by.as_deref());
    assert_eq!(state("source:a"), (NodeState::Blocked, Some("output:copy")));
    assert_eq!(state("source:b"), (NodeState::Blocked, Some("journal")));
    assert_eq!(state("output:copy"), (NodeState::Blocking, None));
    assert_eq!(state("output:store"), (NodeState::Failing, None));
    assert_eq!(state("journal"), (NodeState::Failing, None));
    assert_eq!(node(&document, "journal").last_error.as_deref(), Some("no space"));
}

#[test]
fn a_change_contains_what_differs_and_nothing_else() {
    let before = TopologyDocument::new(0, &reading());
    let same = TopologyDocument::new(1, &reading()).since(&before);
    assert!(same.nodes.is_empty() && same.edges.is_empty() && same.removed.is_empty());
    assert_eq!(
        (same.time_unix_ns, same.process, same.health, same.inactive),
        (1, None, None, None)
    );
    let mut reading = reading();
    reading.outputs[1] = output("new", 1, 0);
    reading.outputs[0] = output("store", 31, 25);
    let change = TopologyDocument::new(2, &reading).since(&before);
    assert_eq!(change.time_unix_ns, 2);
    let nodes: Vec<&str> = change.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(nodes, ["journal", "output:store", "output:new"]);
    let edges: Vec<&str> = change.edges.iter().map(|edge| edge.id.as_str()).collect();
    assert_eq!(edges, ["journal>output:store", "journal>output:new"]);
    assert_eq!(change.removed, ["output:copy", "journal>output:copy"]);
    assert_eq!((change.process, change.health, change.inactive), (None, None, None));
}

#[test]
fn a_change_has_the_process_health_and_inactive_outputs_only_if_they_differ() {
    let before = TopologyDocument::new(0, &reading());
    let change = |reading: &Reading| TopologyDocument::new(1, reading).since(&before);
    let process = ProcessEntry { resident_bytes: 5, ..ProcessEntry::default() };
    let changed = change(&Reading { process: process.clone(), ..reading() });
    assert_eq!((changed.process, changed.health, changed.nodes), (Some(process), None, vec![]));
    let health = HealthEntry { status: "ok".to_owned(), ..HealthEntry::default() };
    let changed = change(&Reading { health: health.clone(), ..reading() });
    assert_eq!((changed.process, changed.health), (None, Some(health)));
    let mut reading = reading();
    reading.outputs[2].book.in_flight += 1;
    let changed = change(&reading);
    assert_eq!(changed.inactive.map(|outputs| outputs[0].book.in_flight), Some(1));
    let json = serde_json::to_value(TopologyDocument::new(2, &reading).since(&before)).unwrap();
    assert!(json.get("process").is_none() && json.get("health").is_none(), "{json}");
}
