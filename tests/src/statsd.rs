//! Metrics of statsd: every value becomes a record, and nothing is lost or counted twice.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use serde_json::Value;
use weir_testkit::{Answer, Collector, PATIENCE, Tally};

use crate::scene::{OUTPUT, Scene, at_rest, hec};
use crate::syslog::{file, records};

const SOURCE: &str = "[source.statsd]\ntype = \"statsd\"\nlisten = \"127.0.0.1:0\"\n\
                      tags = { deployment = \"cf\" }\n";

#[test]
fn every_value_becomes_a_metric_of_its_source() {
    let scene = Scene::new();
    let mut weir = scene.start(&(SOURCE.to_owned() + &file(&scene)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = weir.source_address("statsd");
    let datagrams: [&[u8]; 4] = [
        b"router.requests:3|c|@0.5|#code:200\nrouter.requests:4|c|@0.5|#code:200\n",
        b"router.queue:10|g\nrouter.queue:+5|g",
        b"latency:320:321|ms|#source_id:app-guid",
        b"no metric\n\xff\xfe|c\nrouter.set:1|s",
    ];
    for datagram in datagrams {
        socket.send_to(datagram, address).unwrap();
    }
    let books = weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) == 9);
    books.assert_balanced();
    assert_eq!(books.source("statsd")["book"]["malformed"], 3);
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in records(&scene.dir().join("out.log")) {
        let Some(Ok(body)) = record["body"].as_str().map(serde_json::from_str::<Value>) else {
            continue;
        };
        let service = record["resource"]["service.name"].as_str().unwrap_or_default();
        let name = body["name"].as_str().unwrap_or_default();
        assert!(record["resource"]["tags"].to_string().contains("deployment:cf"), "{record}");
        found.entry(format!("{service}/{name}")).or_default().push(body);
    }
    let of = |key: &str, field: &str| -> Vec<f64> {
        found[key].iter().filter_map(|body| body[field].as_f64()).collect()
    };
    // Increments are as if everything had been sent, and totals are kept for each set of tags.
    assert_eq!(of("router/requests", "value"), [6.0, 8.0]);
    assert_eq!(of("router/requests", "total"), [6.0, 14.0]);
    assert_eq!(of("router/queue", "value"), [10.0, 15.0]);
    assert_eq!(of("app-guid/latency", "value"), [320.0, 321.0]);
    assert!(weir.metrics().contains("error_type=\"malformed_metric\""));
    weir.stop();
}

#[test]
fn a_full_buffer_neither_loses_nor_repeats_parts_of_a_datagram() {
    let scene = Scene::new();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let keys = "window = \"1MiB\"\nbuffer_max = \"4MiB\"\n";
    let mut weir = scene.start(&(SOURCE.to_owned() + &hec(OUTPUT, &collector, keys)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = weir.source_address("statsd");
    let datagram = "router.requests:1|c\n".repeat(100);
    // More than all buffers hold.
    let mut sent = 0;
    let is_full = |books: &weir_testkit::Books| books.output(OUTPUT)["blocking"] == true;
    while !is_full(&weir.books()) {
        for _ in 0..20 {
            socket.send_to(datagram.as_bytes(), address).unwrap();
            sent += 100;
        }
    }
    collector.answer(Answer::Accept);
    let dropped = |books: &weir_testkit::Books| {
        let book = &books.source("statsd")["book"];
        book["discarded"]["receive_buffer"].as_u64().unwrap_or(0)
    };
    // A dropped datagram is one line, whatever was in it.
    let all = |books: &weir_testkit::Books| books.records() + 100 * dropped(books) == sent;
    weir.wait_books("all is read or counted", PATIENCE, all);
    let books = at_rest(&weir, OUTPUT);
    books.assert_balanced();
    assert_eq!(collector.look(|tally: &Tally| tally.events), books.records());
    weir.stop();
}
