//! Joining of lines into records in files that grow, are rotated, truncated and read again.

use std::fs::rename;
use std::sync::Arc;
use std::time::Duration;

use weir_codec::{Multiline, MultilinePreset};
use weir_model::DiscardReason;
use weir_pipeline::config::{Joining, RateLimit, SourceKind, TailSettings};

use crate::harness::*;

/// Longer than any test.
const NEVER: Duration = Duration::from_mins(10);

const HEAD: &str = "java.lang.IllegalStateException: no stock\n";
const FRAME: &str = "\tat com.example.Stock.take(Stock.java:88)\n";
const CAUSE: &str = "Caused by: java.io.IOException: gone\n";

fn world(timeout: Duration) -> World {
    let mut world = World::files(&["app.log"], |_| {});
    change_tail(&mut world, |tail| {
        let rule = Arc::new(Multiline::preset(MultilinePreset::Auto));
        tail.multiline = Some(Joining { rule, timeout });
    });
    world
}

fn change_tail(world: &mut World, change: impl FnOnce(&mut TailSettings)) {
    let SourceKind::File(source) = &mut world.plan.kind else { panic!("this world tails files") };
    change(&mut source.tail);
}

fn record(lines: &[&str]) -> String {
    lines.concat().trim_end().to_owned()
}

#[test]
fn a_stack_trace_written_in_parts_is_one_record() {
    let world = world(NEVER);
    let running = world.start();
    let mut log = Writer::append(&world.log("app.log"));
    for text in ["before\n", HEAD, FRAME, FRAME, CAUSE, FRAME] {
        log.text(text);
        let read = world.log("app.log").metadata().unwrap().len();
        eventually("the line is read", || running.book().bytes_read == read);
    }
    log.text("after\n");
    let trace = record(&[HEAD, FRAME, FRAME, CAUSE, FRAME]);
    running.expect(&["before".to_owned(), trace, "after".to_owned()]);
    let book = running.book();
    assert_eq!((book.lines, book.records, book.joined), (7, 3, 4));
}

#[test]
fn the_last_record_comes_when_nothing_was_written_for_long() {
    let world = world(Duration::from_millis(100));
    let running = world.start();
    let mut log = Writer::append(&world.log("app.log"));
    log.text(&[HEAD, FRAME].concat());
    running.inbox.wait(1);
    log.text("half a li");
    log.text("ne\n");
    running.expect(&[record(&[HEAD, FRAME]), "half a line".to_owned()]);
}

#[test]
fn a_stack_trace_is_joined_over_rotation() {
    let world = world(NEVER);
    let running = world.start();
    Writer::append(&world.log("app.log")).text(&[HEAD, FRAME].concat());
    let read = (HEAD.len() + FRAME.len()) as u64;
    eventually("the old file is read", || running.book().bytes_read == read);
    rename(world.log("app.log"), world.log("app.log.1")).unwrap();
    Writer::append(&world.log("app.log")).text(&[FRAME, CAUSE, FRAME, "after\n"].concat());
    let trace = record(&[HEAD, FRAME, FRAME, CAUSE, FRAME]);
    running.expect(&[trace, "after".to_owned()]);
}

#[test]
fn a_stack_trace_is_joined_over_restarts() {
    let world = world(NEVER);
    let mut log = Writer::append(&world.log("app.log"));
    let mut read = 0;
    for text in ["before\n", HEAD, FRAME, CAUSE] {
        let running = world.start();
        log.text(text);
        read += text.len() as u64;
        eventually("the line is read", || running.book().bytes_read == read);
        running.stop();
    }
    let running = world.start();
    log.text(FRAME);
    log.text("after\n");
    running.expect(&[record(&[HEAD, FRAME, CAUSE, FRAME]), "after".to_owned()]);
}

#[test]
fn held_lines_are_not_lost_when_joining_is_disabled() {
    let mut world = world(NEVER);
    let running = world.start();
    let mut log = Writer::append(&world.log("app.log"));
    log.text(HEAD);
    eventually("it is read", || running.book().bytes_read == HEAD.len() as u64);
    running.stop();
    change_tail(&mut world, |tail| tail.multiline = None);
    let running = world.start();
    running.inbox.wait(1);
    log.text(FRAME);
    running.expect(&[record(&[HEAD]), FRAME.trim_end_matches('\n').to_owned()]);
}

#[test]
fn shed_lines_take_no_part_of_a_kept_record_with_them() {
    let mut world = world(NEVER);
    change_tail(&mut world, |tail| {
        tail.rate_limit = Some(RateLimit { lines_per_second: 2.0, shed: true });
    });
    Writer::append(&world.log("app.log")).text(&[HEAD, FRAME, &FRAME.repeat(98)].concat());
    let running = world.start();
    running.expect(&[record(&[HEAD, FRAME])]);
    let book = running.book();
    assert_eq!((book.lines, book.records, book.joined), (100, 1, 1));
    assert_eq!(book.discarded[DiscardReason::RateLimit as usize], 98);
}
