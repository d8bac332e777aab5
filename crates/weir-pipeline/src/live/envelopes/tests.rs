//! The distribution of envelopes to readers, and losses of slow readers.

use std::collections::BTreeMap;

use weir_codec::{
    DropsondeEnvelope, DropsondeFilter, DropsondeMessage, DropsondeRequest, LoggregatorBatch,
    LoggregatorDecoder, LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage,
    LoggregatorMetric, LoggregatorOrigin, LoggregatorSelector, LoggregatorTags, LoggregatorWanted,
    encode_loggregator_envelope, encode_loggregator_metrics, write_loggregator_json,
};
use weir_host::RealClock;
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, RecordKind, Resource, Seal, SourceBook,
    SourceId, StreamId,
};

use super::super::limits::{CHUNK_ENVELOPES_MAX, READER_SHARE};
use super::*;

/// Readers without a thread: batches are dispatched by hand.
struct Scene {
    readings: Vec<Reading>,
    stats: Arc<ReaderServiceStats>,
    budget: Arc<Budget>,
    dispatcher: Dispatcher,
}

impl Default for Scene {
    fn default() -> Self {
        let budget = Arc::<Budget>::default();
        budget.set(128 << 20);
        let (readings, stats, dispatcher) = (Vec::new(), Arc::default(), Dispatcher::default());
        Self { readings, stats, budget, dispatcher }
    }
}

impl Scene {
    fn read(&mut self, request: LoggregatorRequest) -> Arc<Reader> {
        let form = if request.prefers_tags { Form::Tags } else { Form::DeprecatedTags };
        self.read_in(form, request)
    }

    fn read_in(&mut self, form: Form, request: LoggregatorRequest) -> Arc<Reader> {
        let clock = Arc::new(RealClock::new());
        let (stats, budget) = (self.stats.clone(), self.budget.clone());
        let peer = "127.0.0.1:1".parse().unwrap();
        let client = Some(ReaderClient { service: ReaderService::Egress, peer });
        let reader = Reader::new(form, client, stats, budget, clock);
        self.readings.push(Reading { reader: reader.clone(), request });
        self.dispatcher.change(Arc::new(Index::new(&self.readings)));
        reader
    }

    fn leave(&mut self, reader: &Arc<Reader>) {
        self.readings.retain(|reading| !Arc::ptr_eq(&reading.reader, reader));
        self.dispatcher.change(Arc::new(Index::new(&self.readings)));
        reader.leave();
    }

    fn dispatch(&mut self, batch: &Batch) {
        self.dispatcher.dispatch(batch, "cf", true, false);
    }

    fn assert_balanced(&self) {
        let of_readers =
            self.readings.iter().map(|reading| reading.reader.status(&reading.request));
        let of_readers = of_readers.map(|status| status.unwrap().book);
        for book in of_readers.chain([self.stats.book()]) {
            assert_eq!(book.unaccounted(), 0, "{book:?}");
        }
    }
}

fn all_of(wanted: LoggregatorWanted) -> LoggregatorSelector {
    LoggregatorSelector { source_id: String::new(), message: Some(wanted) }
}

fn of(source_id: &str, wanted: LoggregatorWanted) -> LoggregatorSelector {
    LoggregatorSelector { source_id: source_id.to_owned(), message: Some(wanted) }
}

fn request(selectors: &[LoggregatorSelector]) -> LoggregatorRequest {
    LoggregatorRequest {
        prefers_tags: true,
        selectors: selectors.to_vec(),
        ..LoggregatorRequest::default()
    }
}

fn shard(shard_id: &str, name: &str, selectors: &[LoggregatorSelector]) -> LoggregatorRequest {
    let (shard_id, deterministic_name) = (shard_id.to_owned(), name.to_owned());
    LoggregatorRequest { shard_id, deterministic_name, ..request(selectors) }
}

fn log(text: &str) -> LoggregatorMessage<'_> {
    LoggregatorMessage::Log { payload: text.as_bytes(), is_error: false }
}

fn counter(name: &str) -> LoggregatorMessage<'_> {
    LoggregatorMessage::Counter { name: name.as_bytes(), delta: 1, total: 1 }
}

fn gauge(names: &[&str]) -> Vec<u8> {
    let metric = |name: &&'_ str| name.as_bytes().to_vec();
    let names: Vec<Vec<u8>> = names.iter().map(metric).collect();
    let metrics: Vec<_> =
        names.iter().map(|name| LoggregatorMetric { name, unit: b"By", value: 0.5 }).collect();
    let mut bytes = Vec::new();
    encode_loggregator_metrics(&metrics, &mut bytes);
    bytes
}

/// Creates a batch of the source for envelopes.
fn batch(envelopes: &[(&str, LoggregatorMessage<'_>)]) -> Batch {
    let mut builder = BatchBuilder::new(Position::default());
    let (mut decoder, mut book) = (LoggregatorDecoder::default(), SourceBook::default());
    for (number, (source_id, message)) in envelopes.iter().enumerate() {
        let envelope = LoggregatorEnvelope {
            source_id: source_id.as_bytes(),
            message: *message,
            ..Default::default()
        };
        let (mut bytes, mut tags) = (Vec::new(), LoggregatorTags::default());
        encode_loggregator_envelope(&envelope, &[("job", "cell")], &mut bytes);
        let envelope = LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
        let encoded = Resource::new().with("service.name", *source_id).encode();
        let resource = builder.resource(1, &encoded).unwrap();
        let end_offset = number as u64 + 1;
        let origin = LoggregatorOrigin { resource, end_offset, ..Default::default() };
        decoder.push(&mut builder, &envelope, tags.iter(&bytes), &origin, &mut book).unwrap();
    }
    seal(builder, envelopes.len())
}

fn seal(mut builder: BatchBuilder, records: usize) -> Batch {
    builder.route_all(&[0]);
    builder.seal(&Seal {
        repeatable: false,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, records as u64),
        observed_ns: 0,
        rule_generation: 0,
        book: &SourceBook::default(),
        state: &[],
    })
}

/// Takes everything that waits for a reader, as JSON.
fn take(reader: &Reader) -> Vec<serde_json::Value> {
    reader.end();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut all = Vec::new();
    while let Some(chunk) = runtime.block_on(reader.next()) {
        assert!(chunk.envelopes() <= CHUNK_ENVELOPES_MAX);
        let mut count = 0;
        for envelope in LoggregatorBatch::new(chunk.batch()) {
            let mut json = Vec::new();
            write_loggregator_json(envelope.unwrap(), &mut json).unwrap();
            all.push(serde_json::from_slice(&json).unwrap());
            count += 1;
        }
        assert!(count == chunk.envelopes() || chunk.envelopes() == 0);
        let message = chunk.into_message();
        assert_eq!(message[..5], [&[0][..], &(message.len() as u32 - 5).to_be_bytes()].concat());
    }
    all
}

/// The names or texts of envelopes.
fn names(envelopes: &[serde_json::Value]) -> Vec<String> {
    let name = |envelope: &serde_json::Value| {
        use base64::Engine as _;
        if let Some(payload) = envelope["log"]["payload"].as_str() {
            let text = base64::engine::general_purpose::STANDARD.decode(payload).unwrap();
            return String::from_utf8(text).unwrap();
        }
        if let Some(metrics) = envelope["gauge"]["metrics"].as_object() {
            return metrics.keys().cloned().collect::<Vec<_>>().join(",");
        }
        let others = [&envelope["counter"]["name"], &envelope["timer"]["name"]];
        let name = others.into_iter().find_map(|name| name.as_str());
        name.or(envelope["event"]["title"].as_str()).unwrap().to_owned()
    };
    envelopes.iter().map(name).collect()
}

#[test]
fn every_selector_matches_its_envelopes_each_once() {
    let mut scene = Scene::default();
    let counter_of = |name: &str| LoggregatorWanted::Counter(name.to_owned());
    let gauge_of = |names: &[&str]| {
        LoggregatorWanted::gauge(names.iter().map(|name| (*name).to_owned()).collect())
    };
    let cases = [
        (vec![all_of(LoggregatorWanted::Log)], "one two"),
        (vec![of("b", LoggregatorWanted::Log)], "two"),
        // Both selectors match.
        (vec![all_of(LoggregatorWanted::Log), of("a", LoggregatorWanted::Log)], "one two"),
        (vec![all_of(counter_of(""))], "hits misses"),
        (vec![all_of(counter_of("misses"))], "misses"),
        (vec![of("b", counter_of("hits"))], ""),
        (vec![all_of(gauge_of(&[]))], "cpu cpu,memory"),
        (vec![all_of(gauge_of(&["memory", "cpu"]))], "cpu,memory"),
        (vec![all_of(gauge_of(&["memory"]))], ""),
        (vec![all_of(LoggregatorWanted::Timer), all_of(LoggregatorWanted::Event)], "http crash"),
    ];
    let readers: Vec<_> =
        cases.iter().map(|(selectors, _)| scene.read(request(selectors))).collect();
    let (cpu, both) = (gauge(&["cpu"]), gauge(&["memory", "cpu"]));
    scene.dispatch(&batch(&[
        ("a", log("one")),
        ("b", log("two")),
        ("a", counter("hits")),
        ("a", counter("misses")),
        ("a", LoggregatorMessage::Gauge(LoggregatorGauge(&cpu))),
        ("b", LoggregatorMessage::Gauge(LoggregatorGauge(&both))),
        ("a", LoggregatorMessage::Timer { name: b"http", start_ns: 1, stop_ns: 2 }),
        ("a", LoggregatorMessage::Event { title: b"crash", body: b"" }),
        ("a", LoggregatorMessage::None),
    ]));
    for ((selectors, expected), reader) in cases.iter().zip(&readers) {
        assert_eq!(names(&take(reader)).join(" "), *expected, "{selectors:?}");
    }
    scene.assert_balanced();
}

#[test]
fn one_reader_of_a_shard_gets_each_envelope_and_others_get_all() {
    let mut scene = Scene::default();
    let logs = [all_of(LoggregatorWanted::Log)];
    let both = [all_of(LoggregatorWanted::Log), of("a", LoggregatorWanted::Log)];
    let alone = scene.read(request(&logs));
    let shard_readers: Vec<_> = (0..3).map(|_| scene.read(shard("s", "", &logs))).collect();
    // Equal selectors that overlap: still one of them.
    let overlap: Vec<_> = (0..2).map(|_| scene.read(shard("o", "", &both))).collect();
    // The same shard with another selector is on its own.
    let other = scene.read(shard("s", "", &[of("a", LoggregatorWanted::Log)]));
    let lines: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let envelopes: Vec<_> = lines.iter().map(|line| ("a", log(line))).collect();
    scene.dispatch(&batch(&envelopes));
    assert_eq!(names(&take(&alone)), lines);
    assert_eq!(names(&take(&other)), lines);
    for group in [&shard_readers, &overlap] {
        let parts: Vec<Vec<String>> = group.iter().map(|reader| names(&take(reader))).collect();
        assert!(parts.iter().all(|part| part.len() > 30), "each gets a part");
        let mut all: Vec<u32> = parts.concat().iter().map(|line| line.parse().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..300).collect::<Vec<_>>());
    }
    scene.assert_balanced();
}

#[test]
fn counters_and_gauges_go_by_name_if_a_reader_asks_for_that() {
    let mut scene = Scene::default();
    let selectors = [
        all_of(LoggregatorWanted::Counter(String::new())),
        all_of(LoggregatorWanted::Gauge(Vec::new())),
    ];
    let readers = ["b", "c", "a"].map(|name| scene.read(shard("s", name, &selectors)));
    let names_of: Vec<String> = (0..50).map(|number| format!("name{number}")).collect();
    for _ in 0..3 {
        let envelopes: Vec<_> = names_of.iter().map(|name| ("app", counter(name))).collect();
        scene.dispatch(&batch(&envelopes));
    }
    let mut seen = BTreeMap::new();
    for (number, reader) in readers.iter().enumerate() {
        let found = names(&take(reader));
        assert!(!found.is_empty());
        for name in found {
            assert_eq!(*seen.entry(name.clone()).or_insert(number), number, "{name}");
        }
    }
    assert_eq!(seen.len(), 50);
    scene.assert_balanced();
}

#[test]
fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
    let mut scene = Scene::default();
    scene.budget.set(READER_SHARE * 300_000);
    let stuck = scene.read(request(&[all_of(LoggregatorWanted::Log)]));
    let quick = scene.read(request(&[of("quiet", LoggregatorWanted::Log)]));
    let text = "x".repeat(1000);
    for _ in 0..20 {
        let mut envelopes = vec![("noisy", log(&text)); 100];
        envelopes.push(("quiet", log("here")));
        scene.dispatch(&batch(&envelopes));
    }
    assert_eq!(names(&take(&quick)), ["here"; 20]);
    let found = take(&stuck);
    let (lost, rest) = found.split_first().unwrap();
    assert_eq!(lost["source_id"], "reverse_log_proxy");
    assert_eq!(lost["counter"]["name"], "dropped");
    assert_eq!(lost["tags"]["direction"], "egress");
    let count: usize = lost["counter"]["delta"].as_str().unwrap().parse().unwrap();
    assert_eq!(lost["counter"]["total"], lost["counter"]["delta"]);
    assert!(count > 1000, "{count}");
    assert_eq!(count + rest.len(), 20 * 101);
    scene.assert_balanced();
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(get(&scene.stats.lost), count as u64);
    assert_eq!(get(&scene.stats.queued_bytes), 0);
}

#[test]
fn memory_of_all_readers_is_limited_and_the_heaviest_loses() {
    let mut scene = Scene::default();
    scene.budget.set(4_000_000);
    let logs = [all_of(LoggregatorWanted::Log)];
    let stuck: Vec<_> = (0..20).map(|_| scene.read(request(&logs))).collect();
    let light = scene.read(request(&[of("quiet", LoggregatorWanted::Log)]));
    let text = "x".repeat(1000);
    for _ in 0..10 {
        let mut envelopes = vec![("noisy", log(&text)); 100];
        envelopes.push(("quiet", log("here")));
        scene.dispatch(&batch(&envelopes));
        let queued = scene.stats.queued_bytes.load(Ordering::Relaxed);
        assert!(queued <= 2_000_000, "{queued}");
    }
    assert_eq!(names(&take(&light)).len(), 10);
    scene.leave(&stuck[0]);
    assert!(scene.stats.abandoned.load(Ordering::Relaxed) > 0);
    scene.assert_balanced();
    for reader in &stuck[1..] {
        let found = take(reader);
        let lost: usize = found[0]["counter"]["delta"].as_str().unwrap().parse().unwrap();
        assert_eq!(lost + found.len() - 1, 1010);
    }
    scene.assert_balanced();
}

#[test]
fn envelopes_for_a_reader_that_has_left_take_no_memory() {
    let mut scene = Scene::default();
    let reader = scene.read(request(&[all_of(LoggregatorWanted::Log)]));
    scene.dispatch(&batch(&[("app", log("waits"))]));
    // The dispatcher does not know yet.
    reader.leave();
    scene.dispatch(&batch(&[("app", log("late"))]));
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!((get(&scene.stats.abandoned), get(&scene.stats.queued_bytes)), (2, 0));
    scene.assert_balanced();
}

#[test]
fn while_behind_envelopes_are_counted_as_lost_for_matching_readers() {
    let mut scene = Scene::default();
    let logs = scene.read(request(&[of("a", LoggregatorWanted::Log)]));
    let counters = scene.read(request(&[all_of(LoggregatorWanted::Counter("hits".to_owned()))]));
    let all = batch(&[("a", log("one")), ("b", log("two")), ("b", counter("hits"))]);
    scene.dispatcher.dispatch(&all, "cf", true, true);
    scene.dispatcher.missed(7);
    for reader in [&logs, &counters] {
        let found = take(reader);
        let delta = |at: usize| found[at]["counter"]["delta"].as_str().unwrap().to_owned();
        assert_eq!((found.len(), delta(0), delta(1)), (2, "1".to_owned(), "7".to_owned()));
        assert_eq!(found[1]["tags"]["accuracy"], "at_most");
    }
    scene.assert_balanced();
}

/// Takes everything that waits for a reader of version 1: names, texts, and increments.
fn take_v1(reader: &Reader) -> Vec<(String, u64)> {
    reader.end();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut all = Vec::new();
    while let Some(chunk) = runtime.block_on(reader.next()) {
        for envelope in LoggregatorBatch::new(chunk.batch()) {
            let envelope = DropsondeEnvelope::parse(envelope.unwrap()).unwrap();
            let (name, delta) = match envelope.message {
                DropsondeMessage::LogMessage { message, .. } => (message, 0),
                DropsondeMessage::CounterEvent { name, delta, .. } => (name, delta),
                DropsondeMessage::ValueMetric { name, .. } => (name, 0),
                other => panic!("{other:?}"),
            };
            all.push((String::from_utf8(name.to_vec()).unwrap(), delta));
        }
    }
    all
}

fn of_v1(scene: &mut Scene, app: &str, shard: &str, filter: DropsondeFilter) -> Arc<Reader> {
    let (app_id, shard_id) = (app.to_owned(), shard.to_owned());
    let request = DropsondeRequest { shard_id, app_id, filter };
    let in_v2 = request.in_v2();
    scene.read_in(Form::V1(request), in_v2)
}

#[test]
fn readers_of_the_older_version_get_it_each_by_its_filter() {
    for is_behind in [false, true] {
        let mut scene = Scene::default();
        let all = of_v1(&mut scene, "", "", DropsondeFilter::All);
        let logs = of_v1(&mut scene, "", "s", DropsondeFilter::Logs);
        let metrics = of_v1(&mut scene, "", "s", DropsondeFilter::Metrics);
        let app = of_v1(&mut scene, "a", "", DropsondeFilter::All);
        let others = scene.read(shard("s", "", &[all_of(LoggregatorWanted::Log)]));
        let gauge = gauge(&["x", "y", "z"]);
        let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&gauge));
        let event = LoggregatorMessage::Event { title: b"crash", body: b"" };
        let records = [
            ("a", log("one")),
            ("b", log("two")),
            ("a", counter("hits")),
            ("a", gauge),
            ("a", event),
        ];
        scene.dispatcher.dispatch(&batch(&records), "cf", true, is_behind);
        let expected: [(_, &[&str]); 4] = [
            (&all, &["one", "two", "hits", "x", "y", "z"]),
            (&logs, &["one", "two"]),
            (&metrics, &["hits", "x", "y", "z"]),
            (&app, &["one"]),
        ];
        for (reader, names) in expected {
            let found = take_v1(reader);
            if is_behind {
                assert_eq!(found, [("dropped".to_owned(), names.len() as u64)]);
            } else {
                assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
            }
        }
        assert_eq!(take(&others).len(), if is_behind { 1 } else { 2 });
        scene.assert_balanced();
    }
}

#[test]
fn a_gauge_that_would_be_repeated_without_end_is_counted_instead() {
    let mut scene = Scene::default();
    let reader = of_v1(&mut scene, "", "", DropsondeFilter::All);
    let names: Vec<String> = (0..2000).map(|number| format!("metric{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let gauge = gauge(&names);
    let source = "s".repeat(2000);
    let gauge = LoggregatorMessage::Gauge(LoggregatorGauge(&gauge));
    scene.dispatch(&batch(&[(&source, gauge)]));
    let found = take_v1(&reader);
    let lost = found[0].1;
    assert!(found[0].0 == "dropped" && lost > 1000, "{lost}");
    assert_eq!(found.len() as u64 - 1 + lost, 2000);
    scene.assert_balanced();
}

#[test]
fn tags_have_the_form_that_a_reader_wants() {
    let mut scene = Scene::default();
    let logs = [all_of(LoggregatorWanted::Log)];
    let preferred = scene.read(request(&logs));
    let deprecated = scene.read(LoggregatorRequest { prefers_tags: false, ..request(&logs) });
    scene.dispatch(&batch(&[("a", log("one"))]));
    assert_eq!(take(&preferred)[0]["tags"], serde_json::json!({"job": "cell"}));
    let found = take(&deprecated);
    assert_eq!(found[0]["tags"], serde_json::json!({}));
    assert_eq!(found[0]["deprecated_tags"], serde_json::json!({"job": {"text": "cell"}}));
}

/// Creates a batch of one record without an original.
fn plain(kind: RecordKind, body: &str, attributes: &str, resource: &Resource) -> Batch {
    let mut builder = BatchBuilder::new(Position::default());
    let resource = builder.resource(1, &resource.encode()).unwrap();
    let body = builder.append(body.as_bytes()).unwrap();
    let attributes = builder.append(attributes.as_bytes()).unwrap();
    let record = NewRecord {
        timestamp_ns: 3_000_000_000,
        end_offset: 1,
        body,
        attributes,
        flags: RecordFlags::STDERR,
        resource,
        kind,
        ..NewRecord::default()
    };
    builder.push(&record).unwrap();
    seal(builder, 1)
}

#[test]
fn records_without_an_envelope_are_written_as_one() {
    let mut scene = Scene::default();
    let all: Vec<_> = [
        LoggregatorWanted::Log,
        LoggregatorWanted::Counter("hits".to_owned()),
        LoggregatorWanted::Gauge(Vec::new()),
        LoggregatorWanted::Timer,
        LoggregatorWanted::Event,
    ]
    .map(all_of)
    .into();
    let reader = scene.read(request(&all));
    let mut resource = Resource::new().with("host.name", "vm").with("service.name", "app");
    resource.set("service.instance.id", "7");
    resource.set_tags(["job:cell", "zone:a:b"]);
    let log = plain(RecordKind::Log, "changed", r#"{"request":"1"}"#, &resource);
    scene.dispatcher.dispatch(&log, "cf", true, false);
    scene.dispatcher.dispatch(&log, "syslog", false, false);
    let unnamed = plain(RecordKind::Log, "no service", "", &Resource::new());
    scene.dispatcher.dispatch(&unnamed, "files", false, false);
    for (kind, body) in [
        (RecordKind::Counter, r#"{"name":"hits","value":3,"total":9,"tags":[["a","b"]]}"#),
        (RecordKind::Counter, r#"{"name":"misses","value":3}"#),
        (RecordKind::Gauge, r#"{"metrics":[{"name":"m","value":1.5,"unit":"By"}]}"#),
        (RecordKind::Gauge, r#"{"name":"m","value":0.5}"#),
        (RecordKind::Timer, r#"{"name":"http","value":2.0,"unit":"s"}"#),
        (RecordKind::Event, r#"{"name":"t","value":1,"tags":[["title","t"],["text","b"]]}"#),
        (RecordKind::Event, "not an object"),
    ] {
        let batch = plain(kind, body, "", &resource);
        scene.dispatcher.dispatch(&batch, "cf", true, false);
    }
    let found = take(&reader);
    assert_eq!(names(&found).join(" "), "changed changed no service hits m m http t");
    let tags = serde_json::json!({"job": "cell", "zone": "a:b", "request": "1"});
    assert_eq!((&found[0]["tags"], &found[0]["instance_id"]), (&tags, &"7".into()));
    assert_eq!(found[0]["log"]["type"], "ERR");
    let tags = serde_json::json!({"host.name": "vm", "job": "cell", "zone": "a:b"});
    assert_eq!(found[1]["tags"], tags);
    assert_eq!(found[2]["source_id"], "files");
    let counter = serde_json::json!({"name": "hits", "delta": "3", "total": "9"});
    assert_eq!((&found[3]["counter"], &found[3]["tags"]["a"]), (&counter, &"b".into()));
    assert_eq!(found[4]["gauge"]["metrics"]["m"]["unit"], "By");
    assert_eq!(found[6]["timer"]["start"], "1000000000");
    assert_eq!(found[7]["event"], serde_json::json!({"title": "t", "body": "b"}));
    scene.assert_balanced();
}
