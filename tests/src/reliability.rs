//! The readings that weir keeps of its own books: windows continue across restarts and kills.

use std::fs::File;
use std::io::Write as _;

use serde_json::Value;
use weir_testkit::{Answer, Collector, PATIENCE, Weir, wait_for};

use crate::scene::{Scene, at_rest, hec};

fn json(weir: &Weir, path: &str) -> Value {
    let found = wait_for(PATIENCE, || {
        // Until the first reading was made.
        let (status, body) = weir.get(path).unwrap();
        (status != 503).then_some((status, body))
    });
    let (status, body) = found.expect("the books are read");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// A window of a component.
fn window<'a>(document: &'a Value, name: &str, window: &str) -> &'a Value {
    let all = document["components"].as_array().unwrap();
    let component = all.iter().find(|one| one["name"] == name);
    let component = component.unwrap_or_else(|| panic!("{name}: {document}"));
    let windows = component["windows"].as_array().unwrap();
    windows.iter().find(|one| one["window"] == window).unwrap()
}

/// Received, delivered and lost.
fn counts(window: &Value) -> [u64; 3] {
    ["received", "delivered", "lost"].map(|key| window[key].as_u64().unwrap())
}

#[test]
fn what_was_received_delivered_and_lost_is_recorded_over_kills_and_restarts() {
    let collector = Collector::start();
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let config = scene.source("raw") + &hec("hec", &collector, "");
    let mut weir = scene.start(&config);
    let first = json(&weir, "/weir/v1/reliability");
    assert_eq!(counts(window(&first, "hec", "30d")), [0; 3], "{first}");
    assert!(first["problem"].is_null() && window(&first, "hec", "1h")["arrived"].is_null());

    let write = |file: &mut File, lines: usize| {
        file.write_all("a line\n".repeat(lines).as_bytes()).unwrap();
    };
    write(&mut file, 300);
    let has = |weir: &Weir, delivered: u64, lost: u64| {
        weir.wait_books("all is settled", PATIENCE, |books| {
            books.records() == delivered + lost && books.in_flight("hec") == 0
        });
        at_rest(weir, "hec");
        let document = json(weir, "/weir/v1/reliability");
        assert_eq!(document["recorded_since"], first["recorded_since"]);
        for length in ["1h", "6h", "1d", "7d", "30d"] {
            let hec = window(&document, "hec", length);
            assert_eq!(counts(hec), [delivered + lost, delivered, lost], "{document}");
            let arrived = delivered as f64 / (delivered + lost) as f64;
            assert_eq!(hec["arrived"].as_f64(), Some(arrived));
            let logs = window(&document, "logs", length);
            assert_eq!(counts(logs), [delivered + lost, delivered + lost, 0], "{document}");
        }
    };
    has(&weir, 300, 0);
    weir.stop();

    let mut weir = scene.start(&config);
    weir.wait_ready();
    write(&mut file, 200);
    has(&weir, 500, 0);
    weir.kill();
    drop(weir);

    // Records whose settlement was rolled back by the kill are sent again, and counted once.
    let mut weir = scene.start(&config);
    weir.wait_ready();
    has(&weir, 500, 0);
    // A collector that does not accept any: without a dead-letter file they are lost.
    collector.answer(Answer::status(400));
    write(&mut file, 100);
    has(&weir, 500, 100);
    let steps = json(&weir, "/weir/v1/reliability/steps?kind=output&name=hec&window=1d");
    let steps = steps["steps"].as_array().unwrap();
    let lost: u64 = steps.iter().map(|step| step["lost"].as_u64().unwrap()).sum();
    let ran: f64 = steps.iter().map(|step| step["running_seconds"].as_f64().unwrap()).sum();
    assert_eq!(lost, 100);
    assert!(ran > 0.0, "{steps:?}");
    let all = json(&weir, "/weir/v1/reliability/steps?kind=source&window=1d");
    let lines = all["steps"].as_array().unwrap().iter().map(|step| &step["received"]);
    assert_eq!(lines.map(|lines| lines.as_u64().unwrap()).sum::<u64>(), 600, "{all}");
    for (query, named) in [("kind=output&name=hec", "window"), ("kind=output&window=1d", "name")] {
        let (status, body) = weir.get(&format!("/weir/v1/reliability/steps?{query}")).unwrap();
        assert!(status == 400 && body.contains(named), "{body}");
    }
    weir.stop();
}
