//! Merging: a trickle for a destination that is down does not use up the permitted number of
//! batches, every destination gets exactly its records, in order, and a crash at any disk call
//! changes nothing.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use support::{
    ALL_IS_DUE, KIB, MIB, Part, STEP, assert_books_balance, body, config, cursor, drain, numbers,
    open_stream, push_record_of, sealed, settle, take, write_all_due,
};
use weir_journal::{Cursor, Journal, JournalConfig, JournalWriter, Outcome, WritePolicy};
use weir_model::{BatchBuilder, Position};
use weir_testkit::{FakeClock, Fault, FaultKind, FaultyDisk};

const STREAMS: u64 = 3;
/// Destinations: the first takes everything at once; the second is down and wants every record, the
/// third is down and wants every seventh.
const NAMES: [&str; 3] = ["all", "down", "sparse"];
const SPARSE: u64 = 7;

struct World {
    disk: FaultyDisk,
    clock: FakeClock,
    journal: Journal,
    writer: JournalWriter,
    cursors: Vec<Cursor>,
    policy: WritePolicy,
    /// The next record of each stream.
    next: HashMap<u64, u64>,
}

fn small() -> JournalConfig {
    JournalConfig {
        segment_bytes: 16 * KIB,
        ring_bytes: 16 * KIB,
        bytes_max: 64 * MIB,
        commit_interval: Duration::from_millis(20),
        merge_from_batches: 64,
        punch_bytes_min: 1,
        ..config("/data/journal")
    }
}

impl World {
    fn start(disk: FaultyDisk, policy: WritePolicy) -> Self {
        let clock = FakeClock::default();
        let opened =
            Journal::open_with_writer(small(), Arc::new(disk.clone()), Arc::new(clock.clone()));
        let (journal, writer) = opened.unwrap();
        let cursors = NAMES.iter().map(|name| cursor(&journal, name)).collect();
        let resume = |stream| open_stream(&journal, stream).position.offset / support::STEP;
        let next = (1..=STREAMS).map(|stream| (stream, resume(stream))).collect();
        journal.release_unclaimed();
        Self { disk, clock, journal, writer, cursors, policy, next }
    }

    /// Appends that many batches of one record to each stream, of which the first destination takes
    /// all; stops when the disk is dead.
    fn run(&mut self, count: u64) {
        for _ in 0..count {
            for stream in 1..=STREAMS {
                let first = self.next[&stream];
                let mask = if first.is_multiple_of(SPARSE) { 0b111 } else { 0b011 };
                let part = Part::new(stream, first, 1).mask(mask).padding(100);
                let is_repeatable = self.policy == WritePolicy::OnLag;
                let part = if is_repeatable { part } else { part.unrepeatable() };
                if self.journal.append(part.build(), self.policy).is_ok() {
                    self.next.insert(stream, first + 1);
                }
            }
            self.clock.advance(ALL_IS_DUE);
            self.steps();
            if self.disk.is_dead() {
                return;
            }
            while let Some(delivery) = take(&mut self.cursors[0]) {
                self.cursors[0].ack(&delivery, Outcome::delivered(delivery.record_count));
            }
            assert_books_balance(&self.journal);
        }
    }

    fn settle(&mut self) {
        settle(&mut self.writer, &self.clock);
    }

    fn steps(&mut self) {
        write_all_due(&mut self.writer);
    }

    fn waiting(&self, index: usize) -> usize {
        self.journal.waiting(index).len()
    }

    /// Takes everything, and asserts that each destination that was down gets each of its records
    /// of every stream, in order, and once.
    fn assert_all_arrive(&mut self) {
        for (index, step) in [(1, 1), (2, SPARSE)] {
            let mut arrived: HashMap<u64, Vec<u64>> = HashMap::new();
            for (stream, number) in drain(&mut self.cursors[index]) {
                arrived.entry(stream).or_default().push(number);
            }
            for stream in 1..=STREAMS {
                let wanted: Vec<u64> =
                    (0..self.next[&stream]).filter(|n| n.is_multiple_of(step)).collect();
                assert_eq!(arrived.remove(&stream).unwrap_or_default(), wanted, "{index} {stream}");
            }
        }
        assert!(self.journal.ledger().journal.recovery.lost.is_empty());
        assert_books_balance(&self.journal);
    }
}

#[test]
fn a_trickle_for_destinations_that_are_down_takes_few_batches() {
    for policy in [WritePolicy::OnAppend, WritePolicy::Soon, WritePolicy::OnLag] {
        let mut world = World::start(FaultyDisk::new(), policy);
        world.run(1000);
        world.settle();
        let (all, sparse) = (world.waiting(1), world.waiting(2));
        assert!(all < 300 && sparse < 150, "{policy:?}: {all} and {sparse} of 3,000 batches");
        assert!(world.journal.ledger().journal.frames_merged > 2000, "{policy:?}");
        // Nothing is left to merge.
        let merged = world.journal.ledger().journal.frames_merged;
        world.settle();
        assert_eq!(world.journal.ledger().journal.frames_merged, merged);
        world.assert_all_arrive();
        world.settle();
        assert!(world.journal.ledger().journal.segments <= 1, "all space is freed");
    }
}

#[test]
fn merged_batches_survive_a_restart() {
    for policy in [WritePolicy::OnAppend, WritePolicy::OnLag] {
        let mut world = World::start(FaultyDisk::new(), policy);
        world.run(400);
        world.settle();
        assert!(world.journal.ledger().journal.frames_merged > 500, "{policy:?}");
        let before = world.waiting(1);
        let next = world.next.clone();
        let disk = world.disk.kill();
        drop(world);
        let mut world = World::start(disk, policy);
        assert_eq!(world.journal.ledger().journal.recovery.damaged_bytes, 0);
        assert!(world.waiting(1) <= before, "{} of {before}", world.waiting(1));
        // A source that can read again does so from the first batch that was only in memory.
        while next.iter().any(|(stream, until)| world.next[stream] < *until) {
            world.run(1);
        }
        world.run(100);
        world.settle();
        world.assert_all_arrive();
    }
}

#[test]
fn a_crash_at_any_call_of_the_disk_loses_and_repeats_nothing() {
    let mut number = 0;
    loop {
        let mut world = World::start(FaultyDisk::new(), WritePolicy::OnAppend);
        world.run(60);
        assert!(world.journal.ledger().journal.frames_merged < 200);
        number += 1;
        world.disk.inject(Fault::new(FaultKind::Crash).nth(number));
        world.run(30);
        let is_over = !world.disk.is_dead();
        if is_over {
            assert!(world.journal.ledger().journal.frames_merged > 40, "they were merged");
        }
        let disk = if number % 2 == 0 { world.disk.crash(number) } else { world.disk.kill() };
        drop(world);
        let mut world = World::start(disk, WritePolicy::OnAppend);
        drain(&mut world.cursors[0]);
        world.assert_all_arrive();
        if is_over {
            assert!(number > 100, "{number} calls");
            return;
        }
    }
}

#[test]
fn a_batch_that_is_taken_while_it_is_merged_is_delivered_once() {
    let mut world = World::start(FaultyDisk::new(), WritePolicy::OnAppend);
    let mut arrived = Vec::new();
    for round in 0..800 {
        world.run(1);
        if round > 100 {
            // Between the steps of the writer, so also between choosing frames and replacing them.
            for _ in 0..4 {
                let Some(delivery) = take(&mut world.cursors[1]) else { break };
                let stream = delivery.stream().0;
                arrived.extend(numbers(&delivery).into_iter().map(|number| (stream, number)));
                world.cursors[1].ack(&delivery, Outcome::delivered(delivery.record_count));
                world.writer.step();
            }
        }
    }
    world.settle();
    arrived.extend(drain(&mut world.cursors[1]));
    for stream in 1..=STREAMS {
        let of_stream: Vec<u64> =
            arrived.iter().filter(|(of, _)| *of == stream).map(|(_, number)| *number).collect();
        assert!(
            of_stream == (0..world.next[&stream]).collect::<Vec<_>>(),
            "{stream}: {of_stream:?}"
        );
    }
    assert_books_balance(&world.journal);
}

/// Every batch is of another application, so the table of resources of a frame is full before the
/// frame is.
#[test]
fn frames_whose_resources_do_not_fit_in_one_are_merged_into_several() {
    let mut world = World::start(FaultyDisk::new(), WritePolicy::OnAppend);
    let resource = vec![b'a'; 1024];
    for number in 0..400 {
        let mut builder = BatchBuilder::new(Position::new(0, number * STEP));
        let resource = builder.resource(number + 1, &resource).unwrap();
        push_record_of(&mut builder, number, resource, &body(1, 0, number));
        builder.route_all(&[0, 1]);
        let batch = sealed(&mut builder, 1, number + 1);
        world.journal.append(batch, WritePolicy::OnAppend).unwrap();
        world.clock.advance(ALL_IS_DUE);
        world.steps();
        drain(&mut world.cursors[0]);
    }
    world.next = HashMap::from([(1, 400), (2, 0), (3, 0)]);
    world.settle();
    let waiting = world.waiting(1);
    assert!(waiting < 100, "{waiting} of 400");
    let merged = world.journal.ledger().journal.frames_merged;
    world.settle();
    assert_eq!(world.journal.ledger().journal.frames_merged, merged);
    let arrived: Vec<u64> = drain(&mut world.cursors[1]).into_iter().map(|(_, n)| n).collect();
    assert_eq!(arrived, (0..400).collect::<Vec<_>>());
    assert_books_balance(&world.journal);
}

/// A merged frame has one time of arrival.
#[test]
fn frames_that_arrived_more_than_a_minute_apart_are_not_merged() {
    let mut world = World::start(FaultyDisk::new(), WritePolicy::OnAppend);
    let minute_ns = 60_000_000_000;
    for first in 0..300 {
        let observed_ns = minute_ns * 2 * (first as i64 / 100);
        let part = Part::new(1, first, 1).mask(0b011).padding(100).unrepeatable();
        let batch = Part { observed_ns, ..part }.build();
        world.journal.append(batch, WritePolicy::OnAppend).unwrap();
        world.clock.advance(ALL_IS_DUE);
        world.steps();
        drain(&mut world.cursors[0]);
    }
    world.settle();
    assert!(world.waiting(1) < 150, "{}", world.waiting(1));
    let mut arrivals = HashMap::new();
    while let Some(delivery) = take(&mut world.cursors[1]) {
        for number in numbers(&delivery) {
            arrivals.insert(number, delivery.batch.header().observed_ns);
        }
        world.cursors[1].ack(&delivery, Outcome::delivered(delivery.record_count));
    }
    for first in 0..300 {
        assert_eq!(arrivals[&first], minute_ns * 2 * (first as i64 / 100), "{first}");
    }
    assert_books_balance(&world.journal);
}
