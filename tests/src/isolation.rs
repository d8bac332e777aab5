//! One bad destination or one noisy application, next to good and quiet ones.

use std::time::Duration;

use weir_testkit::{Answer, Collector, Oracle, PATIENCE, Writing, wait_for};

use crate::scene::{OUTPUT, Scene, hec, judge};

const MEMORY_BYTES_MAX: u64 = 128 << 20;

#[test]
fn a_hung_output_does_not_affect_healthy_ones_or_memory() {
    let (healthy, hung) = (Collector::start(), Collector::start());
    hung.answer(Answer::Hang);
    let mut scene = Scene::new();
    scene.extra = hec("hung", &hung, "request_timeout = \"60s\"\n");
    let mut weir = scene.start(&scene.config(&healthy, ""));
    let mut plan = scene.plan();
    plan.lines_per_second = Some(20_000.0);
    plan.body_bytes = (1000, 1000);
    plan.duration = Some(Duration::from_secs(8));
    let written = [Writing::all(plan)];
    // 160 MB are waiting for the hung output; the healthy one has everything.
    let books = judge(&Oracle::strict(OUTPUT), &written, &healthy, &weir);
    assert_eq!(books.in_flight("hung"), written[0].lines, "{books}");
    let memory = weir.memory_max_bytes();
    println!("{} MiB", memory >> 20);
    assert!(memory < MEMORY_BYTES_MAX, "{} MiB", memory >> 20);
    hung.answer(Answer::Accept);
    weir.kill();
    let mut weir = scene.start(&scene.config(&healthy, ""));
    let oracle = Oracle { crashes: 1, body_bytes_min: 1000, ..Oracle::strict("hung") };
    judge(&oracle, &written, &hung, &weir);
    weir.stop();
}

#[test]
fn block_stops_the_sources_at_the_limit_and_goes_on_without_loss() {
    let (healthy, hung) = (Collector::start(), Collector::start());
    hung.answer(Answer::status(503));
    let mut scene = Scene::new();
    scene.extra =
        hec("hung", &hung, "buffer_max = \"8MiB\"\nwindow = \"1MiB\"\nbatch_size = \"256KiB\"\n");
    let mut weir = scene.start(&scene.config(&healthy, ""));
    let mut plan = scene.plan();
    plan.body_bytes = (1000, 1000);
    plan.lines = Some(40_000);
    let written = [Writing::all(plan)];
    let blocked = wait_for(PATIENCE, || {
        let books = weir.books();
        (books.output("hung")["blocking"] == true).then_some(books)
    });
    let books = blocked.unwrap_or_else(|| panic!("nothing was blocked: {}", weir.books()));
    books.assert_balanced();
    let pending = books.output("hung")["pending_bytes"].as_u64().unwrap();
    assert!(pending <= 9 << 20, "{pending} bytes wait");
    let health = weir.health().to_string();
    assert!(health.contains("hung"), "health does not report it: {health}");
    hung.answer(Answer::Accept);
    judge(&Oracle::strict(OUTPUT), &written, &healthy, &weir);
    judge(&Oracle::strict("hung"), &written, &hung, &weir);
    weir.stop();
}

#[test]
fn drop_oldest_discards_exactly_what_it_counts() {
    let (healthy, hung) = (Collector::start(), Collector::start());
    hung.answer(Answer::status(503));
    let mut scene = Scene::new();
    scene.extra = hec(
        "hung",
        &hung,
        "buffer_max = \"8MiB\"\nwindow = \"1MiB\"\nbatch_size = \"256KiB\"\nwhen_full = \"drop_oldest\"\n",
    );
    let mut weir = scene.start(&scene.config(&healthy, ""));
    let mut plan = scene.plan();
    plan.body_bytes = (1000, 1000);
    plan.lines = Some(40_000);
    let written = [Writing::all(plan)];
    judge(&Oracle::strict(OUTPUT), &written, &healthy, &weir);
    let before = weir.books();
    assert!(before.discarded("hung") > 20_000, "{before}");
    hung.answer(Answer::Accept);
    let books = weir.wait_books("all is settled", PATIENCE, |b| b.in_flight("hung") == 0);
    Oracle::strict("hung").check(&written, &hung.tally(), &books);
    weir.stop();
}

#[test]
fn ninety_nine_quiet_applications_lose_nothing_beside_a_loud_one() {
    let collector = Collector::start();
    // At most about 20,000 lines/s.
    collector.answer(Answer::AcceptAfter(Duration::from_millis(50)));
    let scene = Scene::new();
    let keys = "when_full = \"drop_oldest\"\nbuffer_max = \"16MiB\"\nwindow = \"4MiB\"\n\
                batch_size = \"256KiB\"\nconnections_max = 1\n";
    let mut weir = scene.start(&scene.config(&collector, keys));
    let mut loud = scene.plan();
    loud.streams = vec!["loud".to_owned()];
    loud.lines_per_second = Some(100_000.0);
    loud.body_bytes = (200, 200);
    loud.duration = Some(Duration::from_secs(10));
    let mut quiet = scene.plan();
    quiet.streams = (0..99).map(|i| format!("quiet{i}")).collect();
    quiet.lines_per_second = Some(2.0 * 99.0);
    quiet.line_by_line = true;
    quiet.duration = Some(Duration::from_secs(10));
    let (loud, quiet) = (Writing::start(loud), Writing::start(quiet));
    let written = [loud.finish(), quiet.finish()];
    let books = weir.wait_books("all is settled", PATIENCE, |books| {
        books.records() == written[0].lines + written[1].lines && books.in_flight(OUTPUT) == 0
    });
    let tally = collector.tally();
    for stream in &written[1].streams {
        assert_eq!(tally.unique_of(&stream.name), stream.lines, "{}: {books}", stream.name);
    }
    println!("{} lines of the noisy application discarded", books.discarded(OUTPUT));
    assert!(books.discarded(OUTPUT) > 0, "the output was not slow enough: {books}");
    Oracle::strict(OUTPUT).check(&written, &tally, &books);
    weir.stop();
}
