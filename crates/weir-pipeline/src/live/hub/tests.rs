//! The events that tails take from the backlog: each record in its place, or counted in a gap.

use weir_model::{
    BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId, StreamId,
};

use super::super::limits::BACKLOG_BYTES;
use super::*;
use crate::rule::{RuleSwitch, Rules};
use weir_testkit::journal_config;

/// Creates a batch of records, each with a body of this size.
fn batch(records: usize, bytes: usize) -> Arc<Batch> {
    let mut builder = BatchBuilder::new(Position::default());
    for end_offset in 1..=records as u64 {
        let body = builder.append(&vec![b'x'; bytes]).unwrap();
        let attributes = builder.append(b"").unwrap();
        let record = NewRecord {
            timestamp_ns: 0,
            end_offset,
            body,
            attributes,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::STDOUT,
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.route_all(&[0]);
    Arc::new(builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, records as u64),
        observed_ns: 0,
        rule_generation: 0,
        book: &SourceBook::default(),
        state: &[],
    }))
}

/// Returns all records of a batch, for tails with one of these expressions.
fn found(batch: &Arc<Batch>, expressions: &[u64]) -> MatchedBatch {
    let indexes: Arc<[u32]> = (0..batch.record_count() as u32).collect();
    let matches = |expression: &u64| Matches { expression: *expression, indexes: indexes.clone() };
    MatchedBatch::new(batch.clone(), "app".into(), expressions.iter().map(matches).collect())
}

/// Adds a tail without starting a matching thread.
fn join(state: &mut HubState, query: &str) -> u64 {
    let query = weir_expr::parse(query).unwrap();
    let expression = state.followed(&query).unwrap_or_else(|| {
        let (expression, wanted) = state.wanted_with(&query);
        state.set = Some(Arc::new(Set::compile(wanted).unwrap()));
        expression
    });
    state.add(expression, Arc::default())
}

/// What a tail finds.
#[derive(Debug, PartialEq)]
enum Seen {
    Rows(u64),
    Gap(u64),
}

/// Takes everything that is available to a tail.
fn take_all(state: &mut HubState, id: u64) -> Vec<Seen> {
    let next = || match state.take(id) {
        TailNext::Event(LiveEvent::Rows(rows)) => Some(Seen::Rows(rows.indexes.len() as u64)),
        TailNext::Event(LiveEvent::Gap { records }) => Some(Seen::Gap(records)),
        TailNext::Nothing | TailNext::Over => None,
    };
    std::iter::from_fn(next).collect()
}

fn count(seen: &[Seen]) -> u64 {
    seen.iter().map(|(Seen::Rows(records) | Seen::Gap(records))| records).sum()
}

#[track_caller]
fn assert_empty(state: &HubState) {
    assert_eq!((state.backlog.len(), state.backlog_bytes), (0, 0));
}

#[test]
fn a_gap_is_reported_in_place_and_not_to_tails_that_joined_later() {
    let mut state = HubState::default();
    let (all, slow) = (join(&mut state, "*"), join(&mut state, "x"));
    state.push(Entry::Matched(found(&batch(3, 1), &[0])));
    state.push(Entry::Gap(7));
    let late = join(&mut state, "*");
    state.push(Entry::Matched(found(&batch(2, 1), &[0, 1])));
    assert_eq!(take_all(&mut state, all), [Seen::Rows(3), Seen::Gap(7), Seen::Rows(2)]);
    assert_eq!(take_all(&mut state, late), [Seen::Rows(2)]);
    assert_eq!(state.backlog.len(), 2, "one of them has not taken the gap");
    assert_eq!(take_all(&mut state, slow), [Seen::Gap(7), Seen::Rows(2)]);
    assert_empty(&state);
    state.push(Entry::Gap(1));
    assert_eq!(take_all(&mut state, late), [Seen::Gap(1)], "this gap is reported to it");
}

#[test]
fn losses_around_a_gap_are_counted_exactly_for_each_tail() {
    let mut state = HubState::default();
    let early = join(&mut state, "*");
    let large = batch(2, 64 * 1024);
    let fitting = BACKLOG_BYTES / large.memory_bytes() as u64;
    for _ in 0..fitting / 2 {
        state.push(Entry::Matched(found(&large, &[0])));
    }
    state.push(Entry::Gap(1000));
    let late = join(&mut state, "*");
    // The first half is dropped, and the gap keeps its position.
    for _ in 0..fitting / 2 + 2 {
        state.push(Entry::Matched(found(&large, &[0])));
    }
    let pushed = 2 * (fitting / 2 + fitting / 2 + 2) + 1000;
    let gap = take_of(&mut state, early);
    assert!(gap < 20, "{gap} are lost so far");
    let rest = take_all(&mut state, early);
    let place = rest.iter().position(|seen| *seen == Seen::Gap(1000));
    let before = fitting as usize / 2 - gap as usize / 2;
    assert_eq!((place, gap + count(&rest)), (Some(before), pushed));
    // Now the gap itself is dropped, too, with what followed it.
    for _ in 0..fitting {
        state.push(Entry::Matched(found(&large, &[0])));
    }
    let second = take_all(&mut state, early);
    assert_eq!(gap + count(&rest) + count(&second), pushed + 2 * fitting);
    let late = take_all(&mut state, late);
    assert_eq!(count(&late), 2 * (fitting / 2 + 2 + fitting), "the gap is not its own");
    assert!(matches!(late[..], [Seen::Gap(_), Seen::Rows(2), ..]), "lost first, then rows");
    assert_empty(&state);
}

/// Takes the gap that must come next.
#[track_caller]
fn take_of(state: &mut HubState, id: u64) -> u64 {
    match state.take(id) {
        TailNext::Event(LiveEvent::Gap { records }) => records,
        other => panic!("no gap: {other:?}"),
    }
}

#[test]
fn a_dropped_gap_is_added_to_the_next_reported_gap() {
    let mut state = HubState::default();
    let (early, gone) = (join(&mut state, "*"), join(&mut state, "*"));
    state.push(Entry::Matched(found(&batch(3, 1), &[0])));
    state.push(Entry::Gap(7));
    let late = join(&mut state, "*");
    state.push(Entry::Matched(found(&batch(5, 1), &[0])));
    state.leave(gone);
    for _ in 0..3 {
        state.lose_first();
    }
    assert_empty(&state);
    assert_eq!(take_all(&mut state, early), [Seen::Gap(15)]);
    assert_eq!(take_all(&mut state, late), [Seen::Gap(5)]);
}

#[test]
fn consecutive_gaps_use_bounded_memory() {
    let mut state = HubState::default();
    let (slow, gone) = (join(&mut state, "*"), join(&mut state, "*"));
    for _ in 0..500_000 {
        state.push(Entry::Gap(1));
    }
    assert!(state.backlog_bytes <= BACKLOG_BYTES && state.backlog.len() < 500_000);
    state.leave(gone);
    assert_eq!(count(&take_all(&mut state, slow)), 500_000);
    assert_empty(&state);
}

#[test]
fn unfollowed_expressions_are_dropped_when_the_next_tail_joins() {
    let hub = Hub::default();
    let even = join(&mut hub.state(), "even");
    let odd = join(&mut hub.state(), "odd");
    let set = hub.state().set.clone().unwrap();
    let version = hub.state().version;
    hub.leave(even);
    assert!(matches!(hub.wanted(version), Wanted::Same), "the reader continues");
    assert!(Arc::ptr_eq(&set, hub.state().set.as_ref().unwrap()), "nothing is compiled");
    hub.push(found(&batch(3, 1), &[0]));
    assert_empty(&hub.state());
    hub.push(found(&batch(2, 1), &[0, 1]));
    assert_eq!(take_all(&mut hub.state(), odd), [Seen::Rows(2)]);
    assert_empty(&hub.state());
    // The next compiled set no longer contains it.
    join(&mut hub.state(), "third");
    let numbers = |set: &Set| set.expressions().iter().map(|(number, _)| *number).collect();
    let now: Vec<u64> = numbers(hub.state().set.as_ref().unwrap());
    assert_eq!(now, [1, 2]);
}

#[test]
fn the_compiled_set_is_dropped_with_the_last_tail() {
    let hub = Hub::default();
    let only = join(&mut hub.state(), "even");
    hub.leave(only);
    assert!(matches!(hub.wanted(0), Wanted::Nothing));
    assert!(hub.state().set.is_none());
}

#[test]
fn new_names_apply_without_recompiling_the_set() {
    let hub = Hub::default();
    join(&mut hub.state(), "@delay:5");
    let set = hub.state().set.clone().unwrap();
    let version = hub.state().version;
    let measure = weir_expr::Formula::parse("@total - @service").unwrap();
    let calculated_fields = [CalculatedField { path: "delay".to_owned(), formula: measure }];
    let names = Names { calculated_fields: calculated_fields.into(), ..Names::default() };
    hub.set_names(names.clone());
    let Wanted::Changed { version, set: same, names: told, .. } = hub.wanted(version) else {
        panic!("the reader is not notified");
    };
    assert!(same.is_some_and(|same| Arc::ptr_eq(&set, &same)));
    assert_eq!(told, names);
    hub.set_names(names);
    assert!(matches!(hub.wanted(version), Wanted::Same), "they are the same");
}

#[test]
fn tails_join_and_read_while_another_compiles() {
    let dir = tempfile::tempdir().unwrap();
    let view = view(dir.path());
    let hub = &view.live;
    let tail = |query: &str| {
        let query = weir_expr::parse(query).unwrap();
        hub.join(&view, &query, Arc::default()).unwrap()
    };
    let first = tail("even");
    std::thread::scope(|scope| {
        // As if another caller were compiling.
        let turn = hub.turn.lock().unwrap();
        let waiting = scope.spawn(|| tail("odd"));
        let second = tail("even");
        hub.push(found(&batch(2, 1), &[0]));
        for id in [first, second] {
            assert_eq!(take_all(&mut hub.state(), id), [Seen::Rows(2)]);
        }
        hub.leave(second);
        assert!(!waiting.is_finished(), "it must wait for its turn");
        drop(turn);
        let third = waiting.join().unwrap();
        hub.push(found(&batch(3, 1), &[0, 1]));
        for id in [first, third] {
            assert_eq!(take_all(&mut hub.state(), id), [Seen::Rows(3)]);
            hub.leave(id);
        }
    });
    assert_empty(&hub.state());
    view.journal.close();
    view.journal.shutdown();
}

/// A pipeline that consists only of a journal.
fn view(dir: &std::path::Path) -> PipelineView {
    let clock: Arc<dyn weir_host::Clock> = Arc::new(weir_host::RealClock::new());
    let config = journal_config(dir);
    let disk = Arc::new(weir_host::RealDisk);
    let journal = weir_journal::Journal::open(config, disk, clock.clone()).unwrap();
    let rules = RuleSwitch::new(Rules::to_all(1, []), 0);
    PipelineView::new(journal, Vec::new(), Vec::new(), Arc::new(rules), clock)
}
