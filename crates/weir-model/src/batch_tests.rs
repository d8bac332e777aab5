//! The content of a frame is read back unchanged, however it was built, copied or merged; bytes
//! that are not a frame are rejected, and content of another release is distinguished from damage.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::builder::{NewRecord, Seal};
use crate::limits::{
    CURSORS_MAX, FRAME_BYTES_MAX, RESOURCE_BYTES_MAX, RESOURCE_TABLE_BYTES_MAX, ROUTED_RECORDS_MIN,
    STATE_BYTES_MAX,
};
use crate::{BatchBuilder, Kinds, Share, SourceId, StreamId};

static BOOK: std::sync::LazyLock<SourceBook> =
    std::sync::LazyLock::new(|| SourceBook { lines: 9, records: 9, ..SourceBook::default() });

fn seal_at(end: Position) -> Seal<'static> {
    Seal {
        repeatable: true,
        stream: StreamId(42),
        group: 7,
        source: SourceId(3),
        end,
        observed_ns: 99,
        rule_generation: 1,
        book: &BOOK,
        state: b"state",
    }
}

fn written(batch: &Batch) -> Vec<u8> {
    let (head, rest) = batch.frame_parts();
    [&head, rest].concat()
}

fn again(batch: &Batch) -> Batch {
    let again = Batch::from_frame(written(batch)).unwrap();
    assert_eq!(again.header(), batch.header());
    again
}

/// A record with its resource and destinations.
#[derive(Debug, Clone, Default, PartialEq)]
struct Given {
    timestamp_ns: i64,
    body: Vec<u8>,
    attributes: Vec<u8>,
    severity: Severity,
    flags: RecordFlags,
    /// The sender's bytes before and after the body, if those are kept.
    original: Option<(Vec<u8>, Vec<u8>)>,
    process_id: Vec<u8>,
    message_id: Vec<u8>,
    resource: (u64, Vec<u8>),
    kind: RecordKind,
    facility: Facility,
    destinations: Vec<u16>,
}

impl Given {
    fn original(&self) -> Vec<u8> {
        let around = self.original.as_ref();
        around.map_or_else(Vec::new, |(before, behind)| [&before[..], &self.body, behind].concat())
    }

    fn push(&self, end_offset: u64, builder: &mut BatchBuilder) -> Result<(), crate::Full> {
        let mut append = |bytes: &[u8]| match bytes {
            [] => Ok(0..0),
            _ => builder.append(bytes),
        };
        let (body, original) = if let Some((before, _)) = &self.original {
            let whole = append(&self.original())?;
            let start = whole.start + before.len();
            (start..start + self.body.len(), whole)
        } else {
            (append(&self.body)?, 0..0)
        };
        let record = NewRecord {
            timestamp_ns: self.timestamp_ns,
            end_offset,
            body,
            attributes: append(&self.attributes)?,
            severity: self.severity,
            flags: self.flags,
            original,
            process_id: append(&self.process_id)?,
            message_id: append(&self.message_id)?,
            resource: builder.resource(self.resource.0, &self.resource.1)?,
            kind: self.kind,
            facility: self.facility,
        };
        builder.push(&record)
    }

    fn assert_is(&self, batch: &Batch, index: usize) {
        let view = batch.record(index);
        let seen =
            [view.body, view.attributes, view.original(), view.process_id(), view.message_id()];
        let whole = self.original();
        let want = [&self.body[..], &self.attributes, &whole, &self.process_id, &self.message_id];
        assert_eq!(seen, want);
        assert_eq!((view.timestamp_ns, view.severity), (self.timestamp_ns, self.severity));
        assert_eq!((view.flags, view.kind()), (self.flags, self.kind));
        assert_eq!(view.facility(), self.facility);
        let (key, encoded) = (self.resource.0, &self.resource.1[..]);
        assert_eq!(batch.resource(view.resource()), ResourceView { key, encoded });
        assert_eq!(batch.resource_of(index), batch.resource(view.resource()));
    }
}

/// Builds a batch of the records, each ending one further than the previous one.
fn built(base: Position, all: &[Given]) -> Batch {
    let mut builder = BatchBuilder::new(base);
    let mut end = base;
    for given in all {
        end.offset += 1;
        given.push(end.offset, &mut builder).unwrap();
    }
    builder.route_all(all.last().map_or(&[0][..], |last| &last.destinations));
    for (index, given) in all.iter().enumerate() {
        builder.route(index, &given.destinations).unwrap();
    }
    builder.seal(&seal_at(end))
}

fn assert_holds(batch: &Batch, all: &[Given]) {
    assert_eq!(batch.record_count(), all.len());
    assert_eq!(batch.records().len(), all.len());
    for (index, given) in all.iter().enumerate() {
        given.assert_is(batch, index);
    }
    let mut cursors: Vec<u16> = all.iter().flat_map(|given| given.destinations.clone()).collect();
    cursors.sort_unstable();
    cursors.dedup();
    let mut counts = Vec::new();
    for cursor in cursors.iter().map(|cursor| usize::from(*cursor)).chain([4096, 70_000]) {
        let is_to = |given: &&Given| given.destinations.iter().any(|to| usize::from(*to) == cursor);
        let count = all.iter().filter(is_to).count() as u64;
        assert_eq!(batch.routed_count(cursor), count);
        let rows = batch.routed_rows(cursor);
        for (index, given) in all.iter().enumerate() {
            assert_eq!(batch.is_routed(index, cursor), is_to(&given));
            assert_eq!(rows.contains(index), is_to(&given));
        }
        if count > 0 {
            counts.push((cursor, count));
        }
    }
    assert_eq!(batch.routed_counts(), counts);
    let kinds = all.iter().fold(Kinds::NONE, |kinds, given| kinds.with(given.kind));
    assert_eq!(batch.header().kinds, kinds);
    assert_eq!((batch.book(), batch.state()), (*BOOK, &b"state"[..]));
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), proptest::collection::vec(any::<u8>(), 0..max)]
}

fn resource() -> impl Strategy<Value = (u64, Vec<u8>)> {
    (0_u64..4, 0..5).prop_map(|(key, number)| (key, format!("{{\"n\":{number}}}").into_bytes()))
}

prop_compose! {
    fn given()(
        texts in (bytes(40), bytes(20), bytes(9), bytes(9)),
        original in proptest::option::weighted(0.3, (bytes(9), bytes(9))),
        numbers in (any::<i64>(), 0_u8..25, any::<u8>(), 0_u8..5, 0_u8..30),
        resource in resource(),
        destinations in proptest::collection::btree_set(0_u16..CURSORS_MAX as u16, 0..6),
    ) -> Given {
        let (body, attributes, process_id, message_id) = texts;
        let (timestamp_ns, severity, flags, kind, facility) = numbers;
        let original = original.filter(|(before, behind)| {
            before.len() + body.len() + behind.len() > 0
        });
        Given {
            timestamp_ns,
            body,
            attributes,
            severity: Severity(severity),
            flags: RecordFlags(flags),
            original,
            process_id,
            message_id,
            resource,
            kind: RecordKind::of_number(kind),
            facility: Facility::of_code(facility),
            destinations: destinations.into_iter().collect(),
        }
    }
}

/// Records that are all like those from files, or arbitrary ones.
fn records() -> impl Strategy<Value = Vec<Given>> {
    let plain = bytes(40).prop_map(|body| Given {
        body,
        resource: (1, b"{}".to_vec()),
        destinations: vec![0, 700],
        ..Given::default()
    });
    prop_oneof![proptest::collection::vec(plain, 0..20), proptest::collection::vec(given(), 0..20),]
}

proptest! {
    #[test]
    fn a_frame_reads_back_as_it_was_built(all in records()) {
        let batch = built(Position::new(3, 1000), &all);
        assert_holds(&batch, &all);
        assert_holds(&again(&batch), &all);
    }

    #[test]
    fn what_is_still_needed_of_several_batches_is_in_one(
        parts in proptest::collection::vec((records(), 0_usize..800, 0_u64..4, 0_u64..3), 1..5),
    ) {
        let mut end = Position::new(3, 1000);
        let mut batches = Vec::new();
        for (all, cursor, without, gap) in &parts {
            end.offset += gap;
            let batch = built(end, all);
            end = batch.header().end();
            let first = batch.routed_counts().first().map_or(0, |(cursor, _)| *cursor);
            let share = Share { cursor: first, without: vec![*without] };
            batches.push((batch, vec![Share::all(*cursor), share]));
        }
        let shares: Vec<_> = batches.iter().map(|(batch, shares)| (batch, &shares[..])).collect();
        let merged = again(&Batch::merge_all(&shares).unwrap());
        // Each part alone is what `only_for` says.
        let alone: Vec<Batch> =
            shares.iter().map(|(batch, shares)| batch.only_for(shares).unwrap()).collect();
        let mut index = 0;
        for (part, (_, shares)) in alone.iter().zip(&shares) {
            for (at, record) in part.records().enumerate() {
                let view = merged.record(index);
                prop_assert_eq!(view.position, record.position);
                prop_assert_eq!((view.body, view.original()), (record.body, record.original()));
                prop_assert_eq!((view.attributes, view.kind()), (record.attributes, record.kind()));
                prop_assert_eq!(merged.resource_of(index), part.resource_of(at));
                for Share { cursor, .. } in *shares {
                    prop_assert_eq!(merged.is_routed(index, *cursor), part.is_routed(at, *cursor));
                }
                index += 1;
            }
        }
        prop_assert_eq!(merged.record_count(), index);
        let count: u64 = alone.iter().flat_map(Batch::routed_counts).map(|(_, count)| count).sum();
        let routed = merged.routed_counts();
        prop_assert_eq!(routed.iter().map(|(_, count)| count).sum::<u64>(), count);
        let (first, last) = (&batches[0].0, &batches[batches.len() - 1].0);
        prop_assert_eq!(merged.header().base(), first.header().base());
        prop_assert_eq!(merged.header().end(), last.header().end());
        prop_assert!(merged.header().merged);
        prop_assert_eq!((merged.book(), merged.state()), (last.book(), last.state()));
    }

    #[test]
    fn only_still_needed_rows_of_a_batch_remain(
        all in records(),
        cursor in 0_usize..800,
        without in 0_u64..4,
    ) {
        let batch = built(Position::new(3, 1000), &all);
        let first = batch.routed_counts().first().map_or(0, |(cursor, _)| *cursor);
        let shares = [Share::all(cursor), Share { cursor: first, without: vec![without] }];
        let is_wanted = |given: &Given, to: u16| {
            usize::from(to) == cursor || (usize::from(to) == first && given.resource.0 != without)
        };
        let left = batch.only_for(&shares).unwrap();
        let needed = |given: &Given| given.destinations.iter().any(|to| is_wanted(given, *to));
        let kept: Vec<usize> = (0..all.len()).filter(|index| needed(&all[*index])).collect();
        let mut expected: Vec<Given> = kept.iter().map(|index| all[*index].clone()).collect();
        for given in &mut expected {
            let of = given.clone();
            given.destinations.retain(|to| is_wanted(&of, *to));
        }
        assert_holds(&again(&left), &expected);
        for (index, original) in kept.into_iter().enumerate() {
            prop_assert_eq!(left.record(index).position, batch.record(original).position);
        }
        prop_assert_eq!(left.header().base(), batch.header().base());
        prop_assert_eq!(left.header().end(), batch.header().end());
    }

    #[test]
    fn rows_are_counted_and_left_out_by_key(all in records(), from in 0_usize..20) {
        let batch = built(Position::new(3, 1000), &all);
        let Some((cursor, _)) = batch.routed_counts().first().copied() else { return Ok(()) };
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        let routed = |given: &&Given| given.destinations.contains(&(cursor as u16));
        for given in all.iter().skip(from).filter(routed) {
            *expected.entry(given.resource.0).or_default() += 1;
        }
        let counted = batch.routed_keys(cursor, from);
        prop_assert_eq!(&counted, &expected.into_iter().collect::<Vec<_>>());
        for (key, rows) in counted {
            let left = batch.routed_rows_without(cursor, &[key]);
            let routed = batch.routed_rows(cursor);
            let count = |of: &RoutedRows<'_>| (from..all.len()).filter(|i| of.contains(*i)).count();
            prop_assert_eq!(count(&routed) - count(&left), rows as usize);
        }
    }

    #[test]
    fn merged_frames_hold_what_both_held(mut all in records(), cut in 0_usize..20) {
        for given in &mut all {
            given.destinations = vec![2, 5];
        }
        let (first, second) = all.split_at(cut.min(all.len()));
        let (first, second) =
            (built(Position::new(3, 1000), first), built(Position::new(3, 1000 + first.len() as u64), second));
        let merged = Batch::merge(&first, &second);
        if let [a, b] = [&first, &second].map(Batch::record_count) && a > 0 && b > 0 {
            let merged = merged.unwrap();
            assert_holds(&again(&merged), &all);
            prop_assert_eq!(merged.header().base(), first.header().base());
            prop_assert_eq!(merged.header().end(), second.header().end());
            prop_assert_eq!(merged.header().observed_ns, 99);
        }
    }

    #[test]
    fn a_record_that_is_copied_keeps_its_body_inside_its_original(all in records()) {
        let batch = built(Position::new(3, 1000), &all);
        let mut copy = BatchBuilder::new(Position::new(3, 1000));
        for resource in batch.resources() {
            copy.resource(resource.key, resource.encoded).unwrap();
        }
        for record in batch.records() {
            copy.copy(&record, record.original(), record.resource()).unwrap();
        }
        prop_assert_eq!(copy.arena().len() - HEADER_LEN, batch.arena().len());
        for (index, record) in all.iter().enumerate() {
            let view = copy.record(index);
            prop_assert_eq!(view.original(), record.original());
            prop_assert_eq!(view.body, &record.body);
        }
    }

    #[test]
    fn whatever_the_bytes_are_reading_does_not_panic(
        all in records(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut frame = written(&built(Position::new(3, 1000), &all));
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let sum = frame::checksum(&frame);
        frame[12..16].copy_from_slice(&sum.to_le_bytes());
        if let Ok(batch) = Batch::from_frame(frame) {
            prop_assert_eq!(batch.records().count(), batch.record_count());
            for index in 0..batch.record_count() {
                let _ = (batch.is_routed(index, 3), batch.resource_of(index));
                let _ = (batch.record(index).plain_body(), batch.to_log_record(index));
            }
            let _ = (batch.routed_counts(), batch.routed_rows(5).contains(3), batch.keys());
            let _ = (batch.book(), batch.state(), batch.routed_keys(5, 0));
            let _ = batch.only_for(&[Share::all(0), Share { cursor: 700, without: vec![0, 3] }]);
        }
    }
}

fn plain(body: &str) -> Given {
    Given {
        body: body.into(),
        resource: (5, br#"{"host.name":"a"}"#.to_vec()),
        destinations: vec![0, 2, 64],
        ..Given::default()
    }
}

fn rich(body: &str) -> Given {
    Given {
        attributes: br#"{"a":"b"}"#.to_vec(),
        severity: Severity::INFO,
        original: Some((b"<13>".to_vec(), b"\n".to_vec())),
        process_id: b"17".to_vec(),
        message_id: b"m".to_vec(),
        resource: (6, b"{}".to_vec()),
        kind: RecordKind::Gauge,
        facility: Facility::of_code(1),
        destinations: vec![1],
        ..plain(body)
    }
}

#[test]
fn plain_records_of_one_resource_have_no_optional_columns() {
    let batch = built(Position::default(), &[plain("one"), plain("two"), plain("three")]);
    assert_eq!(batch.header().columns, Columns::default());
    assert_eq!(batch.header().tail_at - batch.header().columns_at, 3 * 21 + 1);
    assert_eq!((batch.keys(), batch.resource_count()), (vec![5], 1));
    let batch = built(Position::default(), &[plain("one"), rich("two")]);
    assert_eq!(batch.header().columns.row_bytes(), 60);
    assert_eq!(batch.keys(), [5, 6]);
}

#[test]
fn records_of_480_resources_go_to_300_sets_of_destinations() {
    let given = |number: usize| Given {
        body: format!("line {number}").into_bytes(),
        resource: (
            number as u64 % 480 + 1,
            format!(r#"{{"service.name":"app-{}","weir.tenant":"team"}}"#, number % 480).into(),
        ),
        // Two to four of 500 destinations, depending on the resource.
        destinations: {
            let set = number % 480 % 300;
            let mut to = vec![set as u16, 499 - (set % 100) as u16, 300 + (set / 8) as u16];
            to.sort_unstable();
            to.dedup();
            to
        },
        ..Given::default()
    };
    let all: Vec<Given> = (0..2000).map(given).collect();
    let batch = built(Position::default(), &all);
    assert_eq!((batch.resource_count(), batch.keys().len()), (480, 480));
    assert_eq!(batch.header().route_count, 300);
    assert_holds(&again(&batch), &all);
}

#[test]
fn a_full_resource_table_is_reported_before_a_row_is_pushed() {
    let mut builder = BatchBuilder::new(Position::default());
    let big = |number: u64| format!(r#"{{"n":"{number:016300}"}}"#).into_bytes();
    let fit = (0..100).take_while(|n| builder.resource(*n, &big(*n)).is_ok()).count();
    assert_eq!(fit, RESOURCE_TABLE_BYTES_MAX / (16 + big(0).len()));
    assert_eq!(builder.resource(1, &big(1)), Ok(1));
    assert!(builder.resource(1, &big(2)).is_err(), "the key alone does not identify a resource");
    // They reduce the room in the arena, except the first, for which room is always reserved.
    let before = BatchBuilder::new(Position::default()).room();
    assert_eq!(before - builder.room(), fit * (16 + big(0).len()) - RESOURCE_BYTES_MAX - 16);
}

#[test]
fn a_few_records_can_each_go_elsewhere_whatever_destinations_there_are() {
    let count = ROUTED_RECORDS_MIN;
    let mut builder = BatchBuilder::new(Position::default());
    builder.reserve_state(STATE_BYTES_MAX);
    for end_offset in 1..=count as u64 {
        let body = builder.append(b"x").unwrap();
        builder.push(&NewRecord { end_offset, body, ..NewRecord::default() }).unwrap();
    }
    // Nothing else fits.
    let space = builder.read_space(FRAME_BYTES_MAX).len();
    builder.advance(space);
    assert_eq!(builder.room(), 0);
    builder.route_all(&[]);
    let most: Vec<u16> = (0..CURSORS_MAX as u16).filter(|cursor| cursor % 2 == 1).collect();
    for index in 0..count {
        let mut destinations = most.clone();
        destinations.remove(index);
        builder.route(index, &destinations).unwrap();
    }
    let state = vec![b's'; STATE_BYTES_MAX];
    builder.resource(1, &vec![b'r'; RESOURCE_BYTES_MAX]).unwrap();
    let end = Position::new(0, count as u64);
    let batch = builder.seal(&Seal { state: &state, ..seal_at(end) });
    assert!(batch.frame_bytes() <= FRAME_BYTES_MAX);
    assert_eq!(again(&batch).routed_count(CURSORS_MAX - 1), count as u64);
}

#[test]
fn records_up_to_a_position_are_found() {
    let batch = built(Position::new(3, 1000), &[plain("a"), plain("b"), rich("c")]);
    let up_to = |offset| batch.records_up_to(Position::new(3, offset));
    assert_eq!([up_to(1000), up_to(1001), up_to(1002), up_to(1003)], [0, 1, 2, 3]);
    assert_eq!(batch.records_up_to(Position::new(2, 9999)), 0);
    assert_eq!(batch.records_up_to(Position::new(4, 0)), 3);
}

#[test]
fn every_damaged_byte_is_noticed_and_none_passes_for_another_release() {
    let frame = written(&built(Position::new(3, 0), &[plain("one"), rich("two"), plain("three")]));
    for at in 0..frame.len() {
        for bit in 0..8 {
            let mut damaged = frame.clone();
            damaged[at] ^= 1 << bit;
            let error = Batch::from_frame(damaged).expect_err("damage that was not noticed");
            assert!(!error.is_unknown(), "byte {at}: {error}");
        }
    }
    for len in 0..frame.len() {
        let error = Batch::from_frame(frame[..len].to_vec()).expect_err("a frame that was cut");
        assert!(!error.is_unknown(), "cut to {len}: {error}");
    }
}

#[test]
fn what_a_later_release_wrote_is_unknown_not_damaged() {
    let frame = written(&built(Position::default(), &[rich("one")]));
    let changed = |at: usize, value: u16| {
        let mut frame = frame.clone();
        frame[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let sum = frame::checksum(&frame);
        frame[12..16].copy_from_slice(&sum.to_le_bytes());
        Batch::from_frame(frame).map(|_| ())
    };
    let unknown = |what, number| Err(FrameError::Unknown { what, number });
    assert_eq!(changed(4, 3), Err(FrameError::Version(3)));
    assert_eq!(changed(4, 1), Err(FrameError::Version(1)));
    assert_eq!(changed(6, 1 << 9), unknown("flag", 9));
    assert_eq!(changed(76, 1 << 9), unknown("column", 9));
    assert_eq!(changed(78, 1 << 2), unknown("column", 18));
    assert_eq!(changed(112, 1 << 5), unknown("kind", 5));
    // A wrong field in a frame with a correct checksum is not a new feature.
    assert_eq!(changed(108, 7000), Err(FrameError::Bounds("route_count")));
}

#[test]
fn a_builder_reports_full_before_a_frame_overflows() {
    for is_rich in [false, true] {
        let mut builder = BatchBuilder::new(Position::default());
        builder.reserve_state(STATE_BYTES_MAX);
        builder.resource(1, &vec![b'r'; RESOURCE_BYTES_MAX]).unwrap();
        let one = if is_rich { rich("") } else { Given { resource: (0, vec![]), ..plain("") } };
        while one.push(1, &mut builder).is_ok() {}
        assert!(builder.record_count() > 1000);
        let state = vec![b's'; STATE_BYTES_MAX];
        let batch = builder.seal(&Seal { state: &state, ..seal_at(Position::new(0, 1)) });
        assert!(batch.frame_bytes() <= FRAME_BYTES_MAX);
        again(&batch);
    }
}

#[test]
fn columns_that_begin_late_hold_nothing_for_earlier_records() {
    let all = [plain("one"), plain("two"), rich("three"), plain("four"), rich("five")];
    let mut builder = BatchBuilder::new(Position::default());
    for (end, given) in (1..).zip(&all) {
        given.push(end, &mut builder).unwrap();
    }
    builder.route_all(&[0, 2, 64]);
    builder.retain(|index| index != 2);
    builder.route(3, &[1]).unwrap();
    let batch = builder.seal(&seal_at(Position::new(0, 5)));
    let left = [&all[..2], &all[3..]].concat();
    assert_holds(&again(&batch), &left);
}
