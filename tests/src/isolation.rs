//! One bad destination or one noisy application, next to good and quiet ones.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use weir_testkit::{Answer, Collector, Oracle, PATIENCE, Weir, Writing, wait_for};

use crate::scene::{OUTPUT, Scene, at_rest, hec, judge, moment};
use crate::syslog::{message, source, streams_report};

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

const QUIET_HOSTS: u64 = 20;
/// Lines of each quiet host in a round, and of the noisy one for each of those.
const ROUND: (u64, u64) = (50, 60);

/// Returns a syslog server over TCP, with an output whose buffer is smaller than what the noisy
/// host sends in a round, and larger than what the others send in all.
fn one_listener(collector: &Collector) -> String {
    let keys = "when_full = \"drop_oldest\"\nbuffer_max = \"4MiB\"\nwindow = \"1MiB\"\n\
                batch_size = \"128KiB\"\n";
    source("tcp", "listen = \"127.0.0.1:0\"") + &hec(OUTPUT, collector, keys)
}

/// Sends a round of lines of all hosts over one connection, and waits again and again until they
/// are read. Returns how many the noisy host has sent in all.
fn send_round(weir: &Weir, round: u64) -> u64 {
    let (quiet, noisy) = ROUND;
    let mut connection = TcpStream::connect(weir.source_address("tcp")).unwrap();
    let mut sent = round * quiet * QUIET_HOSTS * noisy;
    for number in round * quiet..(round + 1) * quiet {
        for host in 0..QUIET_HOSTS {
            let mut lines = message(&format!("quiet{host}"), number);
            lines.push(b'\n');
            for seq in sent..sent + noisy {
                lines.extend(message("noisy", seq));
                lines.push(b'\n');
            }
            sent += noisy;
            connection.write_all(&lines).unwrap();
        }
        let all = sent + (number + 1) * QUIET_HOSTS;
        weir.wait_books("all is read", PATIENCE, |books| books.records() == all);
    }
    sent
}

/// Lets the collector accept everything, and checks what arrives after this many rounds.
fn assert_quiet_hosts_are_whole(weir: &Weir, collector: &Collector, (rounds, noisy): (u64, u64)) {
    let before = weir.books();
    before.assert_balanced();
    assert!(before.discarded(OUTPUT) > noisy / 2, "{before}");
    collector.answer(Answer::Accept);
    let books = at_rest(weir, OUTPUT);
    let tally = collector.tally();
    for host in (0..QUIET_HOSTS).map(|host| format!("quiet{host}")) {
        assert_eq!(tally.unique_of(&host), rounds * ROUND.0, "{host}: {books}");
    }
    assert_eq!(tally.unique_of("noisy") + books.discarded(OUTPUT), noisy, "{books}");
    assert_eq!(books.output(OUTPUT)["book"]["discarded"]["buffer_full"], books.discarded(OUTPUT));
    let quiet: Vec<String> = (0..QUIET_HOSTS).map(|host| format!("quiet{host}")).collect();
    let sent = quiet.iter().map(|host| (host.as_str(), rounds * ROUND.0));
    let streams: Vec<(&str, u64)> = sent.chain([("noisy", noisy)]).collect();
    Oracle::strict(OUTPUT).check(&streams_report(&streams), &tally, &books);
}

#[test]
fn quiet_hosts_lose_nothing_beside_a_noisy_one_on_the_same_connection() {
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let scene = Scene::new();
    let mut weir = scene.start(&one_listener(&collector));
    let noisy = send_round(&weir, 0);
    assert_quiet_hosts_are_whole(&weir, &collector, (1, noisy));
    weir.stop();
}

#[test]
fn quiet_hosts_lose_nothing_beside_a_noisy_one_if_weir_is_killed_meanwhile() {
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    let scene = Scene::new();
    let config = one_listener(&collector);
    let mut weir = scene.start(&config);
    send_round(&weir, 0);
    // What was received is on stable storage after 20 ms.
    moment(Duration::from_millis(200));
    weir.kill();
    let mut weir = scene.start(&config);
    let noisy = send_round(&weir, 1);
    let books = weir.books();
    assert_eq!(books.lines_discarded(), 0, "{books}");
    assert_quiet_hosts_are_whole(&weir, &collector, (2, noisy));
    weir.stop();
}
