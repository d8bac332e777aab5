//! First starts, restarts, and files that cannot be read.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use weir_model::AbandonReason;
use weir_pipeline::config::ReadFrom;
use weir_pipeline::stats::get;

use crate::harness::*;

#[test]
fn reading_from_the_end_holds_for_the_very_first_start_only() {
    let world = World::files(&["*.log"], |s| s.tail.read_from = ReadFrom::End);
    let mut app = Writer::append(&world.log("app.log"));
    app.text("skipped\nskipped\nline 0000");
    let running = world.start();
    app.text("00\nline 000001\n");
    Writer::append(&world.log("new.log")).lines(&lines(2..3));
    running.inbox.wait(3);
    running.assert_books();
    let mut bodies = running.inbox.bodies();
    bodies.sort();
    assert_same(&bodies, &lines(0..3));
    assert_eq!(running.book().bytes_abandoned[AbandonReason::SkippedAtStart as usize], 16);
    running.stop();
    Writer::append(&world.log("while-stopped.log")).lines(&lines(3..4));
    let running = world.start();
    running.expect(&lines(3..4));
}

#[test]
fn a_restart_goes_on_where_it_stopped() {
    let world = World::files(&["*.log"], |_| {});
    let mut app = Writer::append(&world.log("app.log"));
    for round in 0..5 {
        app.lines(&lines(round * 10..round * 10 + 5));
        let running = world.start();
        app.lines(&lines(round * 10 + 5..round * 10 + 10));
        running.expect(&lines(round * 10..round * 10 + 10));
        assert_eq!(running.book().records as usize, round * 10 + 10);
        running.stop();
    }
}

/// Starts as a user without permissions if the tests run as root, which may access anything.
fn start_without_rights(world: &World) -> Running {
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            std::fs::create_dir_all(world.data_dir()).unwrap();
            if rustix::process::geteuid().is_root() {
                let everybody = std::fs::Permissions::from_mode(0o777);
                std::fs::set_permissions(world.data_dir(), everybody.clone()).unwrap();
                std::fs::set_permissions(world.log(".."), everybody.clone()).unwrap();
                std::fs::set_permissions(world.log(""), everybody).unwrap();
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            world.start()
        });
        started.join().unwrap()
    })
}

#[test]
fn a_file_without_permission_is_named_counted_and_read_once_it_is_allowed() {
    let world = World::files(&["*.log"], |_| {});
    let path = world.log("secret.log");
    Writer::append(&path).lines(&lines(0..3));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let running = start_without_rights(&world);
    eventually("it is counted", || get(&running.stats.unreadable_files) == 1);
    let message = running.stats.errors.last().unwrap();
    assert!(message.contains("secret.log") && message.contains("denied"), "{message}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    running.expect(&lines(0..3));
    eventually("it is no longer counted", || get(&running.stats.unreadable_files) == 0);
}

#[test]
fn slow_writes_wake_the_source_once_per_interval() {
    let world = World::files(&["*.log"], |_| {});
    let mut app = Writer::append(&world.log("app.log"));
    let running = world.start();
    let cpu = || {
        running.stats_after_a_wake();
        get(&running.stats.cpu_ns)
    };
    let before = cpu();
    let line = "x".repeat(99);
    let started = std::time::Instant::now();
    for n in 0..1000_u32 {
        let due = started + Duration::from_millis(1) * n;
        eventually("the next line is due", || std::time::Instant::now() >= due);
        app.text(&format!("{line}\n"));
    }
    running.inbox.wait(1000);
    let used = Duration::from_nanos(cpu() - before);
    eprintln!("{used:?} of the source's thread for 1,000 lines in {:?}", started.elapsed());
    // The guarantee is 0.3 % of a core for optimized code and the whole program.
    assert!(used < Duration::from_millis(50), "{used:?}");
    running.assert_books();
}

#[test]
fn idle_files_cost_nothing() {
    let world = World::files(&["*.log"], |_| {});
    for n in 0..1000 {
        Writer::append(&world.log(&format!("{n}.log"))).lines(&lines(n..n + 1));
    }
    let running = world.start();
    running.inbox.wait(1000);
    running.assert_books();
    let cpu = || {
        running.stats_after_a_wake();
        get(&running.stats.cpu_ns)
    };
    let before = cpu();
    let until = std::time::Instant::now() + Duration::from_secs(1);
    eventually("a second passes", || std::time::Instant::now() >= until);
    let used = Duration::from_nanos(cpu() - before);
    eprintln!("{used:?} of the source's thread in a second");
    // The guarantee is 0.1 % of a core for optimized code; this is unoptimized.
    assert!(used < Duration::from_millis(5), "{used:?} in a second");
}

#[test]
fn a_directory_that_must_not_be_entered_is_named_and_read_once_it_is_allowed() {
    let world = World::files(&["closed/in/*.log"], |s| {
        s.tail.rescan_interval = Duration::from_millis(100);
    });
    std::fs::create_dir_all(world.log("closed/in")).unwrap();
    Writer::append(&world.log("closed/in/app.log")).lines(&lines(0..3));
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(world.log("closed"), mode(0o000)).unwrap();
    let running = start_without_rights(&world);
    let message = running.stats.errors.last().unwrap();
    assert!(message.contains("logs/closed") && message.contains("denied"), "{message}");
    std::fs::set_permissions(world.log("closed"), mode(0o755)).unwrap();
    running.expect(&lines(0..3));
}
