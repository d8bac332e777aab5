//! Metrics and health under the names of the originals, and the usual set of services: the values
//! agree with the books.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use serde_json::{Value, json};
use weir_testkit::{PATIENCE, Weir};

use crate::loggregator::{batches, messages, python, said, send};
use crate::loggregator_egress::{BLACKHOLE, Reader, address, service};
use crate::scene::{Scene, metric};
use crate::syslog::records;

/// The usual set of services, at free ports.
const USUAL: &str = "[loggregator]\nusual_set = true\nmetrics = true\nbuffer_max = \"16MiB\"\n\
    egress = { listen = \"127.0.0.1:0\" }\n\
    gateway = { listen = \"127.0.0.1:0\" }\n\
    traffic_controller = { listen = \"127.0.0.1:0\" }\n\
    log_cache = { listen = \"127.0.0.1:0\" }\n\
    [loggregator.health]\n\
    metron = \"127.0.0.1:0\"\ndoppler = \"127.0.0.1:0\"\nreverse_log_proxy = \"127.0.0.1:0\"\n\
    [source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:0\"\n\
    [source.udp]\ntype = \"dropsonde\"\nlisten = \"127.0.0.1:0\"\n\
    [source.own]\ntype = \"loggregator_metrics\"\ninterval = \"100ms\"\ntags = { job = \"weir\" }\n";

/// The address of a port for health.
fn health_address(weir: &Weir, name: &str) -> SocketAddr {
    let log = weir.wait_log(&format!("loggregator.health.{name} listens"));
    let is_it = |line: &&str| line.contains(&format!("loggregator.health.{name} listens"));
    let line: Value = serde_json::from_str(log.lines().find(is_it).unwrap()).unwrap();
    let address = line["address"].as_str().or(line["fields"]["address"].as_str());
    address.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

/// Sends a request; returns the status, and the body once the connection ends.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(tcp, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).expect("an answer arrives");
    let (head, body) = answer.split_once("\r\n\r\n").expect("there is a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The gauges of a page.
fn gauges(page: &str) -> BTreeMap<&str, &str> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once(' ')).collect()
}

#[test]
fn every_part_of_the_usual_set_answers() {
    let scene = Scene::new();
    let mut weir = scene.start(&(USUAL.to_owned() + "[store]\nflush_interval = \"1s\"\n"));
    let path = messages(&scene, "lines", &batches("app", 3));
    assert_eq!(said(send(&python(), &weir, "BatchSender", &path, &[])), "OK 3\n");
    let (status, page) = get(health_address(&weir, "metron"), "/health");
    assert_eq!((status, gauges(&page)["loggregator_metron_dopplerConnections"]), (200, "1"));
    let doppler = health_address(&weir, "doppler");
    let (status, page) = get(doppler, "/health");
    assert_eq!((status, gauges(&page).len()), (200, 7), "{page}");
    assert_eq!(gauges(&page)["loggregator_doppler_subscriptionCount"], "0");
    assert_eq!(get(doppler, "/other").0, 404);
    let proxy = health_address(&weir, "reverse_log_proxy");
    let _reader =
        Reader::open(&weir, "BatchedReceiver", &json!({ "selectors": [["a", "log"]] }), 1);
    let (_, page) = get(proxy, "/health");
    assert_eq!(gauges(&page)["loggregator_reverseLogProxy_subscriptionCount"], "1");
    // The log-cache had the port of the drains' programs, and those of two other services.
    let (status, text) = get(address(&weir, "log_cache"), "/health");
    let drains: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &drains["drainCount"], &drains["adapterCount"]),
        (200, &0.into(), &0.into())
    );
    for name in ["log_cache", "traffic_controller", "gateway"] {
        let (status, text) = get(address(&weir, name), "/api/v1/info");
        assert!(status == 200 && text.contains("vm_uptime"), "{name}: {status} {text}");
    }
    assert_eq!(get(address(&weir, "traffic_controller"), "/apps/a/containermetrics").0, 200);
    let (status, _) = get(address(&weir, "gateway"), "/v2/read");
    assert_eq!(status, 400);
    let is_stored = |books: &weir_testkit::Books| books.delivered("store") >= 300;
    weir.wait_books("all are stored", PATIENCE, is_stored).assert_balanced();
    weir.stop();
}

#[test]
fn metrics_under_the_names_of_the_originals_agree_with_the_books() {
    let scene = Scene::new();
    let rule = "[[rule]]\nname = \"own\"\nwhen = 'source:own'\nto = [\"file\"]\nfinal = true\n\
                [[rule]]\nname = \"others\"\nto = [\"none\"]\n";
    let file = format!(
        "[output.file]\ntype = \"file\"\npath = \"{}\"\nencoding = \"json\"\nfsync = \"never\"\n",
        scene.dir().join("out.log").display()
    );
    let without = USUAL.replace("metrics = true\n", "metrics = true\nwithout = [\"log_cache\"]\n");
    let without = without.replace("log_cache = { listen = \"127.0.0.1:0\" }\n", "");
    // Without a log-cache, there is a port for drains.
    let health = "[loggregator.health]\n";
    let without = without.replace(health, &format!("{health}drains = \"127.0.0.1:0\"\n"));
    let mut weir = scene
        .start(&("default_to = [\"none\"]\n".to_owned() + &without + BLACKHOLE + &file + rule));
    let firehose = json!({ "selectors": [["", "log"]] });
    let reader = Reader::open(&weir, "BatchedReceiver", &firehose, 500);
    let counters = json!({ "selectors": [["doppler", "counter", "ingress"]] });
    let metrics = Reader::open(&weir, "BatchedReceiver", &counters, 1);
    let path = messages(&scene, "lines", &batches("app", 5));
    assert_eq!(said(send(&python(), &weir, "BatchSender", &path, &[])), "OK 5\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        socket.send_to(b"no envelope", weir.source_address("udp")).unwrap();
    }
    assert_eq!(reader.rest().len(), 500);
    assert!(metrics.rest()[0].starts_with("counter doppler ingress "));
    // The last emitted values are those of the books at the end.
    let newest = || {
        let mut newest: BTreeMap<String, u64> = BTreeMap::new();
        for record in records(&scene.dir().join("out.log")) {
            let Some(Ok(body)) = record["body"].as_str().map(serde_json::from_str::<Value>) else {
                continue;
            };
            let tags = &record["resource"]["tags"].to_string();
            assert!(tags.contains("job:weir"), "{record}");
            let origin = tags.split("origin:").nth(1).and_then(|rest| rest.split('"').next());
            let direction = body["tags"].to_string().contains("\"egress\"");
            let direction = if direction { "/egress" } else { "" };
            let name = body["name"].as_str().unwrap_or_default();
            let key = format!("{}.{name}{direction}", origin.unwrap_or_default());
            newest.insert(key, body["total"].as_u64().unwrap_or_default());
        }
        newest
    };
    let expected = [
        ("loggregator.doppler.ingress", 500),
        ("loggregator.metron.ingress", 520),
        ("loggregator.doppler.dropped/egress", 0),
        ("DopplerServer.listeners.receivedEnvelopes", 20),
        ("loggregator.rlp.dropped/egress", 0),
    ];
    let is_stated = |_: &weir_testkit::Books| {
        let newest = newest();
        expected.iter().all(|(name, value)| newest.get(*name) == Some(value))
            && newest.get("loggregator.doppler.egress").is_some_and(|total| *total >= 500)
    };
    let books = weir.wait_books("all is stated", PATIENCE, is_stated);
    books.assert_balanced();
    assert_eq!(service(&books, "egress")["lost"], 0, "{books}");
    let on_page = "ingress{source_id=\"doppler\",origin=\"loggregator.doppler\"}";
    assert_eq!(metric(&weir, on_page), 500, "{}", weir.metrics());
    let dropped = "dropped{source_id=\"reverse_log_proxy\",origin=\"loggregator.rlp\"";
    assert!(weir.metrics().lines().any(|line| line.starts_with(dropped)));
    weir.stop();
}

#[test]
fn kills_lose_no_metric_uncounted() {
    let scene = Scene::new();
    let own = "[source.own]\ntype = \"loggregator_metrics\"\ninterval = \"10ms\"\n";
    let config = own.to_owned() + BLACKHOLE;
    let mut records = 0;
    for _ in 0..4 {
        let mut weir = scene.start(&config);
        let more = |books: &weir_testkit::Books| books.records() > records + 100;
        records = weir.wait_books("metrics are made", PATIENCE, more).records();
        weir.kill();
    }
    let mut weir = scene.start(&config);
    let books = weir.books();
    books.assert_balanced();
    weir.stop();
}
