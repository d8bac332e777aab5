//! Rotation of every kind, while weir is running and while it is not.

use std::fs::{remove_file, rename};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_model::AbandonReason;
use weir_pipeline::source::FileSource;

use crate::harness::*;

/// Renames `app.log` to `.1`, that to `.2` and so on, keeping `keep` old ones.
fn rotate(world: &World, name: &str, keep: usize) {
    let old = |n: usize| world.log(&format!("{name}.{n}"));
    if old(keep).exists() {
        remove_file(old(keep)).unwrap();
    }
    for n in (1..keep).rev() {
        if old(n).exists() {
            rename(old(n), old(n + 1)).unwrap();
        }
    }
    rename(world.log(name), old(1)).unwrap();
}

fn only_active(source: &mut FileSource) {
    source.tail.partial_timeout = Duration::from_mins(10);
}

#[test]
fn a_hundred_rotations_by_rename_lose_and_repeat_nothing() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    for n in 0..100 {
        let mut app = Writer::append(&world.log("app.log"));
        app.lines(&lines(n * 20..n * 20 + 20));
        rotate(&world, "app.log", 100);
    }
    running.expect_each_once(&lines(0..2000));
}

#[test]
fn the_old_file_is_read_on_when_its_writer_is_late() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.lines(&lines(0..10));
    running.inbox.wait(10);
    rename(world.log("app.log"), world.log("old-and-gone")).unwrap();
    let mut new = Writer::append(&world.log("app.log"));
    app.lines(&lines(10..20));
    running.inbox.wait(20);
    new.lines(&lines(20..30));
    running.expect(&lines(0..30));
}

#[test]
fn two_rotations_within_one_look_are_both_followed() {
    let world = World::files(&["app.log"], |s| s.tail.read_interval = Duration::from_millis(200));
    let running = world.start();
    Writer::append(&world.log("app.log")).lines(&lines(0..1));
    running.inbox.wait(1);
    // All of this happens while the source lets writes accumulate.
    Writer::append(&world.log("app.log")).lines(&lines(1..5));
    rotate(&world, "app.log", 5);
    Writer::append(&world.log("app.log")).lines(&lines(5..10));
    rotate(&world, "app.log", 5);
    Writer::append(&world.log("app.log")).lines(&lines(10..15));
    running.expect(&lines(0..15));
}

#[test]
fn generations_that_came_while_weir_did_not_run_are_read_in_order() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    Writer::append(&world.log("app.log")).lines(&lines(0..10));
    running.expect(&lines(0..10));
    running.stop();
    Writer::append(&world.log("app.log")).lines(&lines(10..20));
    for n in 2..6 {
        rotate(&world, "app.log", 9);
        Writer::append(&world.log("app.log")).lines(&lines(n * 10..n * 10 + 10));
    }
    // Neither an unrelated file nor a compressed one belongs to them.
    Writer::append(&world.log("app.log.1.gz")).lines(&lines(900..901));
    Writer::append(&world.log("other.log.1")).lines(&lines(901..902));
    let running = world.start();
    running.expect(&lines(10..60));
    running.stop();
    let running = world.start();
    running.expect(&[]);
}

#[test]
fn a_file_cut_by_copytruncate_is_read_from_its_beginning() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    for round in 0..5 {
        app.lines(&lines(round * 100..round * 100 + 100));
        running.inbox.wait(round * 100 + 100);
        std::fs::copy(world.log("app.log"), world.log("app.log.1")).unwrap();
        app.0.set_len(0).unwrap();
    }
    app.lines(&lines(500..510));
    running.expect(&lines(0..510));
    assert_eq!(running.book().abandoned_total(), 0);
}

#[test]
fn a_file_cut_and_grown_beyond_the_old_place_between_two_looks_is_noticed() {
    let world = World::files(&["app.log"], |s| s.tail.read_interval = Duration::from_millis(200));
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.lines(&lines(0..10));
    running.inbox.wait(10);
    app.lines(&lines(900..901));
    running.inbox.wait(11);
    app.0.set_len(0).unwrap();
    app.lines(&lines(10..50));
    let mut expected = lines(0..10);
    expected.extend(lines(900..901));
    expected.extend(lines(10..50));
    running.expect(&expected);
}

#[test]
fn unread_bytes_of_a_truncated_file_are_counted() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.text("line 000000\nunfinished");
    running.inbox.wait(1);
    app.0.set_len(0).unwrap();
    eventually("the truncation is seen", || running.book().abandoned_total() == 10);
    app.lines(&lines(1..2));
    running.expect(&lines(0..2));
    assert_eq!(running.book().bytes_abandoned[AbandonReason::Truncated as usize], 10);
}

#[test]
fn a_file_cut_while_weir_did_not_run_is_noticed_though_it_is_longer_now() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.lines(&lines(0..10));
    running.expect(&lines(0..10));
    running.stop();
    app.0.set_len(0).unwrap();
    app.lines(&lines(10..100));
    let running = world.start();
    running.expect(&lines(10..100));
}

#[test]
fn a_writer_that_goes_on_at_its_old_offset_leaves_a_hole_that_is_stepped_over() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let app = Writer::append(&world.log("app.log"));
    let old = "x".repeat(100_000) + "\n";
    app.0.set_len(0).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(world.log("app.log")).unwrap();
    file.write_all_at(old.as_bytes(), 0).unwrap();
    running.inbox.wait(1);
    file.set_len(0).unwrap();
    file.write_all_at(b"line 000001\n", old.len() as u64).unwrap();
    running.inbox.wait(2);
    assert_eq!(running.inbox.bodies()[1], "line 000001");
    running.assert_books();
}

#[test]
fn a_deleted_file_is_read_to_its_end_and_its_late_writes_too() {
    let world = World::files(&["*.log"], |s| s.tail.rotated_grace = Duration::from_secs(3));
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.block(&lines(0..20_000));
    // Once weir has opened the file, it may be removed at any time.
    eventually("it is being read", || running.book().records > 0);
    remove_file(world.log("app.log")).unwrap();
    app.lines(&lines(20_000..20_010));
    running.inbox.wait(20_010);
    app.lines(&lines(20_010..20_020));
    running.expect(&lines(0..20_020));
    eventually("its stream ends after the grace period", || running.streams() == 0);
    running.assert_books();
}

#[test]
fn a_deleted_file_that_is_written_to_after_its_grace_is_counted() {
    let world = World::files(&["*.log"], |s| s.tail.rotated_grace = Duration::ZERO);
    let running = world.start();
    let mut rare = Writer::append(&world.log("rare.log"));
    rare.lines(&lines(0..10));
    // Nobody writes to this one any more, and nothing is said of it.
    Writer::append(&world.log("closed.log")).lines(&lines(10..20));
    running.inbox.wait(20);
    remove_file(world.log("rare.log")).unwrap();
    remove_file(world.log("closed.log")).unwrap();
    eventually("their streams end", || running.streams() == 0);
    assert!(!running.book().is_at_least());
    rare.lines(&lines(20..30));
    eventually("the write is noticed", || running.book().files_unseen == 1);
    rare.lines(&lines(30..40));
    drop(rare);
    running.assert_books();
    assert!(running.book().is_at_least());
    assert_eq!(running.book().files_unseen, 1);
}

#[test]
fn a_short_lived_file_is_read_or_reported_unseen() {
    let world = World::files(&["*.log"], |_| {});
    let running = world.start();
    for n in 0..200 {
        // Half of them have the same name.
        let path = world.log(&format!("{}.log", n * (n % 2)));
        Writer::append(&path).block(&lines(n..n + 1));
        remove_file(&path).unwrap();
        // Nothing is logged about other files, and about names that it had only for a while.
        std::fs::write(world.log("noise.txt"), "x").unwrap();
        remove_file(world.log("noise.txt")).unwrap();
    }
    Writer::append(&world.log("last.tmp")).block(&lines(200..201));
    rename(world.log("last.tmp"), world.log("last.log")).unwrap();
    eventually("each is counted", || {
        let book = running.book();
        book.records + book.files_unseen == 201
    });
    running.assert_books();
    let book = running.book();
    assert_eq!(book.is_at_least(), book.files_unseen > 0);
    running.stop();
    let running = world.start();
    assert_eq!(running.book().files_unseen, book.files_unseen, "a restart forgets nothing");
}

#[test]
fn files_that_are_renamed_out_of_the_pattern_at_once_are_read_to_their_end() {
    let world = World::files(&["r*.log"], |_| {});
    let running = world.start();
    for n in 0..200 {
        let path = world.log(&format!("r{n}.log"));
        let mut file = Writer::append(&path);
        file.lines(&lines(n * 2..n * 2 + 1));
        rename(&path, world.log(&format!("done-{n}"))).unwrap();
        // Its writer is late.
        file.lines(&lines(n * 2 + 1..n * 2 + 2));
    }
    running.expect_each_once(&lines(0..400));
    assert_eq!(running.book().files_unseen, 0);
    let record = &running.inbox.records()[0];
    let path = record.resource.text("log.file.path").unwrap();
    let is_named = path.contains("/r") && path.strip_suffix(".log").is_some();
    assert!(is_named, "{path}: not as named by the configuration");
    running.stop();
    let running = world.start();
    running.expect(&[]);
}

#[test]
fn files_that_are_moved_out_of_every_watched_directory_at_once_are_read_or_unseen() {
    let world = World::files(&["r*.log"], |_| {});
    std::fs::create_dir(world.log("elsewhere")).unwrap();
    let running = world.start();
    for n in 0..200 {
        let path = world.log(&format!("r{n}.log"));
        Writer::append(&path).lines(&lines(n..n + 1));
        rename(&path, world.log(&format!("elsewhere/{n}"))).unwrap();
    }
    let accounted = || running.book().records + running.book().files_unseen;
    eventually("each is counted", || accounted() == 200);
    running.assert_books();
    assert_eq!(accounted(), 200);
}

#[test]
fn a_deleted_file_waits_for_a_destination_that_hangs_and_for_the_next_start() {
    let world = World::files(&["*.log"], |_| {});
    let mut running = world.start();
    running.inbox.is_hung.store(true, Ordering::Release);
    Writer::append(&world.log("app.log")).block(&lines(0..30_000));
    eventually("it is being read", || running.book().records > 0);
    remove_file(world.log("app.log")).unwrap();
    eventually("it is read to its end", || running.book().records == 30_000);
    running.stop_source();
    running.stop();
    let running = world.start();
    running.inbox.wait(30_000);
    assert_same(&running.inbox.bodies(), &lines(0..30_000));
}

#[test]
fn deleted_files_beyond_their_limit_are_given_up_and_counted() {
    let mut world = World::files(&["*.log"], |s| s.tail.deleted_bytes_max = 1 << 20);
    world.ring_bytes = 1 << 20;
    world.buffer_bytes_max = 1 << 20;
    let running = world.start();
    running.inbox.is_hung.store(true, Ordering::Release);
    let long: Vec<String> = (0..40_000).map(|n| format!("{n:08} {}", "x".repeat(200))).collect();
    Writer::append(&world.log("app.log")).block(&long);
    eventually("it is being read", || running.book().records > 0);
    remove_file(world.log("app.log")).unwrap();
    // A write notifies the source that something happened to the file.
    running.inbox.is_hung.store(false, Ordering::Release);
    eventually("all is accounted for", || {
        let book = running.book();
        book.bytes_read + book.abandoned_total() == 40_000 * 210
    });
    running.assert_books();
    assert!(running.book().bytes_abandoned[AbandonReason::DeletedTooLong as usize] > 0);
}

#[test]
fn a_file_that_vanished_while_weir_did_not_run_leaves_its_unread_bytes_in_the_book() {
    let world = World::files(&["*.log"], |_| {});
    let running = world.start();
    let mut app = Writer::append(&world.log("app.log"));
    app.text("line 000000\nnever finished");
    running.inbox.wait(1);
    eventually("the rest was seen", || running.book().lines == 1);
    app.text("\nline 000001\nhalf");
    running.inbox.wait(3);
    running.assert_books_but_for(4);
    running.stop();
    remove_file(world.log("app.log")).unwrap();
    let running = world.start();
    running.expect(&[]);
    eventually("its stream ends", || running.streams() == 0);
    running.assert_books();
    let book = running.book();
    assert_eq!(book.records, 3);
    assert!(book.bytes_abandoned[AbandonReason::Vanished as usize] <= 4);
}

#[test]
fn a_new_file_with_the_inode_of_a_removed_one_is_read_whole() {
    let world = World::files(&["*.log"], |_| {});
    let mut running = world.start();
    for n in 0..10 {
        Writer::append(&world.log("app.log")).lines(&lines(n * 3..n * 3 + 3));
        running.inbox.wait(3);
        running.assert_books();
        assert_same(&running.inbox.bodies(), &lines(n * 3..n * 3 + 3));
        running.stop();
        remove_file(world.log("app.log")).unwrap();
        running = world.start();
    }
}

#[test]
fn rotation_every_few_milliseconds_under_load_loses_nothing() {
    let world = World::files(&["app.log"], only_active);
    let running = world.start();
    let mut next = 0;
    for _ in 0..60 {
        let mut app = Writer::append(&world.log("app.log"));
        app.block(&lines(next..next + 2000));
        next += 2000;
        app.lines(&lines(next..next + 5));
        next += 5;
        rotate(&world, "app.log", 60);
    }
    running.expect_each_once(&lines(0..next));
}

#[test]
fn only_unacknowledged_records_are_sent_again_after_a_restart() {
    let world = World::files(&["app.log"], only_active);
    let mut app = Writer::append(&world.log("app.log"));
    app.lines(&lines(0..100));
    let running = world.start();
    running.expect(&lines(0..100));
    running.inbox.is_silent.store(true, Ordering::Release);
    app.lines(&lines(100..200));
    running.inbox.wait(200);
    rotate(&world, "app.log", 5);
    Writer::append(&world.log("app.log")).lines(&lines(200..300));
    running.inbox.wait(300);
    running.stop();
    let running = world.start();
    running.expect_each_once(&lines(100..300));
}
