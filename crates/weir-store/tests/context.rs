//! The records around a record in its stream, and what is read to find them.

mod support;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_host::RealClock;
use weir_model::{Position, StreamId};
use weir_store::embedded::columns::{NewRow, Rows, StoredRecord};
use weir_store::embedded::scan;
use weir_store::embedded::segment::Segment;
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{HeadChunk, OpenSegment, Snapshot};
use weir_store::query::{
    Access, Budget, ContextRequest, PartialReason, QueryError, RecordContext, RecordId,
};

use support::{Input, file, rows_of};

const DAY_NS: i64 = 86_400_000_000_000;
/// Stream ids are hashes: half of them are negative when compared as they are stored.
const HIGH: u64 = 1 << 63;

fn row(stream: u64, position: Position, time_ns: i64, sequence: u64) -> Input<'static> {
    let row = NewRow { stream, position, time_ns, sequence, ..NewRow::default() };
    Input { row, attributes: Vec::new() }
}

fn segment(rows: &Rows, number: usize) -> Arc<OpenSegment> {
    let (data, filters) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, None, &*data, &*filters).unwrap();
    let segment = Segment::open(data).unwrap();
    let sidecar = Some(Sidecar::open(filters, &segment).unwrap());
    Arc::new(OpenSegment { name: format!("seg-{number}"), segment, sidecar })
}

fn head(rows: Rows) -> (Arc<HeadChunk>, usize) {
    let len = rows.len();
    (Arc::new(HeadChunk::new(rows)), len)
}

fn id_of(record: &StoredRecord) -> RecordId {
    RecordId { time_ns: record.time_ns, stream: record.stream, position: record.position }
}

fn around(snapshot: &Snapshot, id: RecordId, before: usize, after: usize) -> RecordContext {
    let request = ContextRequest { id, before, after, access: Access::all() };
    scan::context(snapshot, &request, &budget(None)).unwrap().unwrap()
}

fn budget(time: Option<Duration>) -> Budget {
    Budget::new(Arc::new(RealClock::new()), time, usize::MAX)
}

/// Segments ten days apart in which two streams have fifty records each; one of the segments also
/// has three records of a third stream.
const SEGMENTS: u64 = 20;

fn two_streams_and_a_third(high: u64) -> Snapshot {
    let mut sequence = 0;
    let mut next = |stream: u64, day: u64| {
        sequence += 1;
        let time_ns = day as i64 * DAY_NS + sequence as i64;
        row(stream | high, Position::new(1, sequence * 10), time_ns, sequence)
    };
    let one = |number: u64| {
        let mut inputs = Vec::new();
        for line in 0..50 {
            inputs.extend([next(1, number * 10), next(2, number * 10)]);
            if number == 7 && line < 3 {
                inputs.push(next(5, number * 10));
            }
        }
        segment(&rows_of(&inputs), number as usize)
    };
    Snapshot { segments: (0..SEGMENTS).map(one).collect(), ..Snapshot::default() }
}

fn records_of(snapshot: &Snapshot, stream: u64) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    for open in &snapshot.segments {
        records.extend(support::read_all(&open.segment));
    }
    for (chunk, rows) in &snapshot.chunks {
        records.extend((0..*rows).map(|row| chunk.read().record(row).unwrap()));
    }
    records.retain(|record| record.stream == StreamId(stream));
    records.sort_by_key(|record| (record.position.epoch, record.position.offset));
    records
}

#[test]
fn context_at_the_ends_of_a_stream_reads_little() {
    let snapshot = two_streams_and_a_third(HIGH);
    let all = records_of(&snapshot, 1 | HIGH);
    let newest = around(&snapshot, id_of(&all[all.len() - 2]), 5, 5);
    assert_eq!((newest.before.len(), newest.after.len()), (5, 1));
    let oldest = around(&snapshot, id_of(&all[1]), 5, 5);
    assert_eq!((oldest.before.len(), oldest.after.len()), (1, 5));
    for context in [newest, oldest] {
        let scanned = context.coverage.scanned;
        // Stream, epoch, offset, sequence and time of one row group.
        assert_eq!((scanned.parts, scanned.pages), (1, 5), "{scanned:?}");
    }
}

#[test]
fn context_reads_only_row_groups_with_the_stream() {
    for (high, parts) in [(HIGH, SEGMENTS), (0, 1)] {
        let snapshot = two_streams_and_a_third(high);
        let all = records_of(&snapshot, 5 | high);
        let found = around(&snapshot, id_of(&all[1]), 5, 5);
        assert_eq!((&found.before[..], &found.after[..]), (&all[..1], &all[2..]));
        let scanned = found.coverage.scanned;
        // Where the smallest and largest stream are not known, the dictionary shows it.
        assert_eq!((scanned.parts, scanned.pages), (parts, 5), "{scanned:?}");
    }
}

#[test]
fn incomplete_context_search_is_inconclusive() {
    let snapshot = two_streams_and_a_third(HIGH);
    let id = id_of(&records_of(&snapshot, 1 | HIGH)[0]);
    let request = ContextRequest { id, before: 1, after: 1, access: Access::all() };
    let late = scan::context(&snapshot, &request, &budget(Some(Duration::ZERO)));
    assert!(matches!(late, Err(QueryError::Inconclusive(PartialReason::Deadline))), "{late:?}");
    let missing = RecordId { stream: StreamId(9), ..id };
    let request = ContextRequest { id: missing, ..request };
    assert_eq!(scan::context(&snapshot, &request, &budget(None)).unwrap(), None);
    // Nor may a record be reported missing that may still arrive, or is in an unreadable segment.
    let catching_up = Snapshot { is_catching_up: true, ..snapshot.clone() };
    let damaged = Snapshot { damaged: vec!["seg-7".to_owned()], ..snapshot };
    for (snapshot, reason) in [(catching_up, "is catching up"), (damaged, "damaged: seg-7")] {
        let unknown = scan::context(&snapshot, &request, &budget(None)).unwrap_err();
        assert!(unknown.to_string().ends_with(reason), "{unknown}");
    }
}

/// A record of a stream: which stream, how much later, whether its file was truncated before.
type Step = (u64, i64, bool);

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let jump = prop_oneof![
        8 => -5..5_i64,
        1 => Just(3 * DAY_NS),
        1 => Just(-40 * DAY_NS),
        1 => Just(90 * DAY_NS),
    ];
    let step = (0..4_u64, jump, prop::bool::weighted(0.05));
    prop::collection::vec(prop::collection::vec(step, 1..12), 1..9)
}

/// Builds segments from these records, the last part being in the head.
fn snapshot_of(parts: &[Vec<Step>]) -> Snapshot {
    let mut streams = [(Position::default(), 0_i64); 4];
    let mut snapshot = Snapshot::default();
    let mut sequence = 0;
    for (number, steps) in parts.iter().enumerate() {
        let inputs = steps.iter().map(|(stream, later_ns, is_truncated)| {
            let (position, time_ns) = &mut streams[*stream as usize];
            *time_ns += later_ns;
            *position = if *is_truncated {
                Position::new(position.epoch + 1, 7)
            } else {
                Position::new(position.epoch, position.offset + 10)
            };
            sequence += 1;
            row(stream << 62, *position, *time_ns, sequence)
        });
        let rows = rows_of(&inputs.collect::<Vec<_>>());
        if number + 1 == parts.len() {
            snapshot.chunks.push(head(rows));
        } else {
            snapshot.segments.push(segment(&rows, number));
        }
    }
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn context_finds_the_nearest_records_whatever_is_pruned(
        parts in steps(),
        which in any::<prop::sample::Index>(),
        (before, after) in (0_usize..6, 0_usize..6),
    ) {
        let snapshot = snapshot_of(&parts);
        let steps: Vec<&Step> = parts.iter().flatten().collect();
        let all = records_of(&snapshot, which.get(&steps).0 << 62);
        let at = which.index(all.len());
        let found = around(&snapshot, id_of(&all[at]), before, after);
        prop_assert_eq!(&found.record, &all[at]);
        prop_assert_eq!(&found.before[..], &all[at.saturating_sub(before)..at]);
        prop_assert_eq!(&found.after[..], &all[at + 1..(at + 1 + after).min(all.len())]);
        prop_assert_eq!(&found.coverage.partial_reasons, &Vec::<PartialReason>::new());
    }
}
