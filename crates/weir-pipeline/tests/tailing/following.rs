//! Reading existing and new data.

use std::fs::FileTimes;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant, SystemTime};

use weir_model::{AbandonReason, DiscardReason};
use weir_pipeline::config::RateLimit;
use weir_pipeline::stats::get;

use crate::harness::*;

#[test]
fn existing_and_appended_lines_arrive_once_and_in_order() {
    let world = World::files(&["*.log"], |_| {});
    let mut app = Writer::append(&world.log("app.log"));
    app.block(&lines(0..5000));
    let running = world.start();
    running.inbox.wait(5000);
    for n in 0..20 {
        app.lines(&lines(5000 + n * 10..5010 + n * 10));
    }
    running.expect(&lines(0..5200));
    let first = &running.inbox.records()[0];
    let path = world.log("app.log").display().to_string();
    assert_eq!(first.resource.text("log.file.path"), Some(path.as_str()));
    assert!(first.resource.text("host.name").is_some());
}

#[test]
fn much_more_than_a_block_is_read_at_full_speed() {
    let world = World::files(&["*.log"], |_| {});
    let long: Vec<String> = (0..20_000).map(|n| format!("{n:08} {}", "x".repeat(300))).collect();
    Writer::append(&world.log("app.log")).block(&long);
    let running = world.start();
    running.expect(&long);
}

#[test]
fn reading_a_file_leaves_its_time_of_access() {
    let world = World::files(&["*.log"], |_| {});
    let path = world.log("app.log");
    let mut app = Writer::append(&path);
    app.lines(&lines(0..10));
    let accessed = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_accessed(accessed)).unwrap();
    let running = world.start();
    running.inbox.wait(10);
    app.lines(&lines(10..20));
    running.expect(&lines(0..20));
    assert_eq!(path.metadata().unwrap().accessed().unwrap(), accessed);
}

#[test]
fn a_new_file_is_found_by_inotify_at_once() {
    let world = World::files(&["**/*.log"], |_| {});
    let running = world.start();
    let created = Instant::now();
    Writer::append(&world.log("new.log")).lines(&lines(0..1));
    running.inbox.wait(1);
    // The guarantee is 100 ms; a busy machine gets some more. The rescan comes after ten minutes.
    assert!(created.elapsed() < Duration::from_secs(2), "{:?}", created.elapsed());
    assert_eq!(get(&running.stats.discovered_files), 1);
    std::fs::create_dir_all(world.log("deep/er")).unwrap();
    Writer::append(&world.log("deep/er/x.log")).lines(&lines(1..2));
    running.expect(&lines(0..2));
}

#[test]
fn a_line_is_read_when_it_is_complete_and_not_before() {
    let world = World::files(&["*.log"], |_| {});
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.text("line 000000\nline 0");
    running.inbox.wait(1);
    assert_eq!(get(&running.stats.bytes_unread), 6);
    app.text("00001\n");
    running.expect(&lines(0..2));
}

#[test]
fn a_last_line_without_end_comes_after_the_timeout() {
    let world = World::files(&["*.log"], |s| {
        s.tail.partial_timeout = Duration::from_millis(50);
    });
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.text("line 000000");
    running.expect(&lines(0..1));
    app.text("\nline 000001\n");
    running.inbox.wait(2);
    assert_eq!(running.inbox.bodies().last().unwrap(), "line 000001");
    running.assert_books();
}

#[test]
fn files_with_equal_heads_and_empty_files_are_told_apart() {
    let world = World::files(&["*.log"], |_| {});
    let mut expected = Vec::new();
    for n in 0..50 {
        let mut app = Writer::append(&world.log(&format!("{n:02}.log")));
        if n % 5 != 0 {
            app.text("the same header\n");
            expected.push("the same header".to_owned());
        }
    }
    let running = world.start();
    running.inbox.wait(expected.len());
    for n in 0..50 {
        Writer::append(&world.log(&format!("{n:02}.log"))).text(&format!("line {n:06}\n"));
    }
    expected.extend(lines(0..50));
    running.inbox.wait(expected.len());
    running.assert_books();
    let running = restart(running, &world);
    let mut bodies = running.inbox.bodies();
    bodies.sort();
    assert_eq!(bodies, Vec::<String>::new(), "nothing comes again after a restart");
}

fn restart(running: Running, world: &World) -> Running {
    running.stop();
    let running = world.start();
    running.assert_books();
    running
}

#[test]
fn directories_may_come_later_go_and_come_back() {
    let world = World::files(&["a/b/*.log"], |_| {});
    let running = world.start();
    for round in 0..3 {
        std::fs::create_dir_all(world.log("a/b")).unwrap();
        Writer::append(&world.log("a/b/app.log")).lines(&lines(round..round + 1));
        running.inbox.wait(round + 1);
        std::fs::remove_dir_all(world.log("a")).unwrap();
    }
    running.expect(&lines(0..3));
    eventually("the streams of removed files end", || running.streams() == 0);
    running.assert_books();
}

#[test]
fn a_renamed_directory_is_no_longer_followed_and_a_new_one_is() {
    let world = World::files(&["*/app.log"], |_| {});
    std::fs::create_dir(world.log("x")).unwrap();
    let running = world.start();
    Writer::append(&world.log("x/app.log")).lines(&lines(0..1));
    running.inbox.wait(1);
    std::fs::rename(world.log("x"), world.log("y")).unwrap();
    Writer::append(&world.log("y/app.log")).lines(&lines(1..2));
    running.inbox.wait(2);
    std::fs::create_dir(world.log("x")).unwrap();
    Writer::append(&world.log("x/app.log")).lines(&lines(2..3));
    running.expect(&lines(0..3));
}

#[test]
fn a_link_is_followed_to_its_target_and_the_target_is_read_once() {
    let world = World::files(&["links/*.log", "real/*.log"], |_| {});
    for dir in ["links", "real", "elsewhere"] {
        std::fs::create_dir(world.log(dir)).unwrap();
    }
    let mut app = Writer::append(&world.log("real/app.log"));
    app.lines(&lines(0..1));
    symlink(world.log("real/app.log"), world.log("links/one.log")).unwrap();
    symlink("one.log", world.log("links/two.log")).unwrap();
    symlink("circle.log", world.log("links/circle.log")).unwrap();
    let running = world.start();
    running.inbox.wait(1);
    app.lines(&lines(1..2));
    running.inbox.wait(2);
    // A target in a directory that no glob names, which appears after the link.
    symlink(world.log("elsewhere/late.log"), world.log("links/late.log")).unwrap();
    assert_eq!(running.stats.errors.by_kind(), [("link", 1)], "only the loop is an error");
    running.expect(&lines(0..2));
}

#[test]
fn the_target_of_a_link_may_be_rotated() {
    let world = World::files(&["current.log"], |_| {});
    std::fs::create_dir(world.log("real")).unwrap();
    let mut app = Writer::append(&world.log("real/app.log"));
    symlink(world.log("real/app.log"), world.log("current.log")).unwrap();
    app.lines(&lines(0..1));
    let running = world.start();
    running.inbox.wait(1);
    std::fs::rename(world.log("real/app.log"), world.log("real/app.log.1")).unwrap();
    app.lines(&lines(1..2));
    running.inbox.wait(2);
    Writer::append(&world.log("real/app.log")).lines(&lines(2..3));
    running.expect(&lines(0..3));
}

#[test]
fn weirs_own_files_are_never_followed() {
    let world = World::files(&["../**/*"], |_| {});
    let running = world.start();
    Writer::append(&world.log("app.log")).lines(&lines(0..10));
    running.expect(&lines(0..10));
}

#[test]
fn holes_of_nul_bytes_are_counted_and_not_read() {
    let world = World::files(&["*.log"], |_| {});
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.lines(&lines(0..1));
    app.0.set_len(20 << 30).unwrap();
    app.lines(&lines(1..2));
    running.expect(&lines(0..2));
    let book = running.book();
    assert!(book.bytes_read > 20 << 30);
    assert_eq!(book.discarded[DiscardReason::NulBytes as usize], 1);
}

#[test]
fn a_rate_limit_reads_later() {
    let world = World::files(&["*.log"], |s| {
        s.tail.rate_limit = Some(RateLimit { lines_per_second: 1000.0, shed: false });
    });
    Writer::append(&world.log("app.log")).block(&lines(0..1500));
    let started = Instant::now();
    let running = world.start();
    running.expect(&lines(0..1500));
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn a_rate_limit_that_sheds_counts_what_it_sheds() {
    let world = World::files(&["*.log"], |s| {
        s.tail.rate_limit = Some(RateLimit { lines_per_second: 100.0, shed: true });
    });
    Writer::append(&world.log("app.log")).block(&lines(0..50_000));
    let running = world.start();
    eventually("everything is read", || running.book().lines == 50_000);
    running.assert_books();
    let shed = running.book().discarded[DiscardReason::RateLimit as usize];
    assert_eq!(shed + running.book().records, 50_000);
    assert!(shed > 49_000, "{shed}");
    assert_eq!(running.inbox.bodies()[..100], lines(0..100));
}

#[test]
fn a_destination_that_hangs_holds_the_file_and_loses_nothing() {
    let mut world = World::files(&["*.log"], |_| {});
    world.ring_bytes = 2 << 20;
    world.buffer_bytes_max = 4 << 20;
    let long: Vec<String> = (0..100_000).map(|n| format!("{n:08} {}", "x".repeat(200))).collect();
    for (n, part) in long.chunks(10_000).enumerate() {
        Writer::append(&world.log(&format!("{n}.log"))).block(part);
    }
    let running = world.start();
    running.inbox.is_hung.store(true, std::sync::atomic::Ordering::Release);
    eventually("the source is refused", || get(&running.stats.blocked_total) > 0);
    eventually("unread bytes are reported", || get(&running.stats.bytes_unread) > 10 << 20);
    eventually("the source is shown as blocked", || running.stats.is_blocked());
    assert_eq!(running.stats.refused_by().as_deref(), Some("out"));
    eventually("for how long", || get(&running.stats.blocked_ns) > 0);
    running.inbox.is_hung.store(false, std::sync::atomic::Ordering::Release);
    eventually("it is not blocked any more", || !running.stats.is_blocked());
    running.expect_each_once(&long);
}

#[test]
fn a_file_cut_behind_what_was_read_counts_what_is_gone() {
    let world = World::files(&["*.log"], |_| {});
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.text("line 000000\nhalf a li");
    eventually("the rest is seen", || get(&running.stats.bytes_unread) == 9);
    app.0.set_len(12).unwrap();
    // What happens to another file later is seen later.
    Writer::append(&world.log("other.log")).lines(&lines(1..2));
    running.inbox.wait(2);
    app.lines(&lines(2..3));
    running.expect(&lines(0..3));
    assert_eq!(running.book().bytes_abandoned[AbandonReason::Truncated as usize], 9);
}
