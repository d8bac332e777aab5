//! Rules where they run: between reading and the journal. Discarded records are counted in the book
//! of the source, hidden text is stored nowhere, and a batch that becomes too large is read again
//! in parts.

use std::sync::atomic::Ordering;

use weir_model::DiscardReason;
use weir_pipeline::config::RulePlan;
use weir_pipeline::rule::{
    Action, Keep, Pattern, Redaction, Replacement, Scope, SetValue, Target, Template,
};

use crate::harness::*;

fn rule(when: &str) -> RulePlan {
    RulePlan {
        name: when.to_owned(),
        when: weir_expr::parse(when).unwrap(),
        to: vec!["out".to_owned()],
        is_final: false,
        keep: Keep::All,
        actions: Vec::new(),
    }
}

fn world(rules: Vec<RulePlan>) -> World {
    let mut world = World::files(&["app.log"], |_| {});
    world.rules = rules;
    world
}

#[test]
fn records_dropped_by_a_rule_are_only_in_the_book() {
    let world = world(vec![RulePlan { keep: Keep::None, to: Vec::new(), ..rule("/[05]$/") }]);
    let running = world.start();
    Writer::append(&world.log("app.log")).lines(&lines(0..1000));
    let kept: Vec<String> =
        lines(0..1000).into_iter().filter(|line| !line.ends_with(['0', '5'])).collect();
    assert_eq!(kept.len(), 800);
    running.inbox.wait(800);
    running.assert_books();
    let book = running.book();
    assert_eq!((book.lines, book.records), (1000, 800));
    assert_eq!(book.discarded[DiscardReason::Rule as usize], 200);
    running.expect(&kept);
}

#[test]
fn a_sample_is_the_same_after_every_restart() {
    let world = world(vec![RulePlan { keep: Keep::Share(0.25), ..rule("*") }]);
    let sampled = |world: &World| {
        let running = world.start();
        eventually("all lines are read", || running.book().lines == 4000);
        running.assert_books();
        let book = running.book();
        (book.records, book.discarded[DiscardReason::Sampled as usize])
    };
    Writer::append(&world.log("app.log")).lines(&lines(0..4000));
    let (kept, out) = sampled(&world);
    assert_eq!(kept + out, 4000);
    assert!((800..1200).contains(&kept), "{kept} of 4,000 is not a quarter");
    assert_eq!(sampled(&world), (kept, out));
}

#[test]
fn a_batch_that_rules_make_too_large_is_read_again_in_parts() {
    // 192 KiB of short lines become 4 MiB.
    let text = format!("{}{{message}}", "long ".repeat(20));
    let set = |path: &str| {
        let template = Template::parse(&text).unwrap();
        Action::Set(Target::Attribute(path.to_owned()), SetValue::Template(template))
    };
    let world = world(vec![RulePlan { actions: vec![set("a"), set("b")], ..rule("*") }]);
    Writer::append(&world.log("app.log")).lines(&lines(0..30_000));
    let running = world.start();
    running.expect_each_once(&lines(0..30_000));
}

#[test]
fn a_single_record_that_rules_make_too_large_is_cut_and_kept() {
    let double = Template::parse("{message}{message}{message}").unwrap();
    let action = Action::Set(Target::Message, SetValue::Template(double));
    let world = world(vec![RulePlan { actions: vec![action], ..rule("*") }]);
    let long = "x".repeat(190 * 1024);
    Writer::append(&world.log("app.log")).lines(&[long.clone(), "short".to_owned(), long]);
    let running = world.start();
    running.inbox.wait(3);
    running.assert_books();
    let lens: Vec<usize> = running.inbox.bodies().iter().map(String::len).collect();
    assert_eq!(lens[1], 15);
    assert!(lens[0] > 400 * 1024 && lens[2] > 400 * 1024, "{lens:?}");
}

#[test]
fn redacted_text_is_in_no_written_byte() {
    let redaction = Redaction {
        pattern: Pattern::new(r"secret-\d+").unwrap(),
        with: Replacement::Text("[gone]".to_owned()),
        scope: Scope::Everything,
    };
    let mut world =
        world(vec![RulePlan { actions: vec![Action::Redact(redaction)], ..rule("secret") }]);
    // The destination hangs, so that everything is written to disk.
    world.ring_bytes = 4 << 20;
    let running = world.start();
    running.inbox.is_hung.store(true, Ordering::Release);
    let text: Vec<String> =
        (0..60_000).map(|n| format!("{n} user joe has secret-{n} {}", "pad ".repeat(20))).collect();
    Writer::append(&world.log("app.log")).lines(&text);
    eventually("batches reach the disk", || running.journal.ledger().journal.disk_bytes > 1 << 20);
    for entry in std::fs::read_dir(world.data_dir()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, b"secret-").is_none(), "a secret is on disk");
    }
    running.inbox.is_hung.store(false, Ordering::Release);
    let hidden: Vec<String> =
        (0..60_000).map(|n| format!("{n} user joe has [gone] {}", "pad ".repeat(20))).collect();
    running.expect_each_once(&hidden);
}
