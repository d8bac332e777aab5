//! Encoding of manifest records.
//!
//! Invariant: decoding returns what was encoded, and never panics on other bytes.

use weir_host::record_file;
use weir_model::{Position, StreamId};

use super::{Counters, DeletionEntry, ManifestChange, Retired, SegmentEntry};
use crate::query::TimeRange;

/// Number of numeric fields of a deletion, before its query.
const DELETION_FIELDS: usize = 7;
/// Stands for the completion time of a deletion that is not done.
const NOT_DONE: i64 = i64::MIN;

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordKind {
    /// Replaces everything before it.
    Snapshot = 1,
    /// Adds to what is before it.
    Change = 2,
}

/// Kinds of entries in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum EntryKind {
    Counters = 1,
    Added = 2,
    Removed = 3,
    Position = 4,
    Forgotten = 5,
    Deletion = 6,
    DeletionForgotten = 7,
    DeletionCancelled = 8,
}

/// Encodes a record with its header.
pub(super) fn encode(kind: RecordKind, change: &ManifestChange, salt: &[u8]) -> Vec<u8> {
    record_file::record(salt, |out| {
        out.push(kind as u8);
        put_entries(change, out);
    })
}

fn put_entries(change: &ManifestChange, out: &mut Vec<u8>) {
    let mut put = |kind: EntryKind, entry: &dyn Fn(&mut Vec<u8>)| {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(kind as u8);
        entry(out);
        let len = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    };
    put(EntryKind::Counters, &|out| put_counters(&change.counters, out));
    for entry in &change.added {
        put(EntryKind::Added, &|out| put_segment(entry, out));
    }
    for id in &change.removed {
        put(EntryKind::Removed, &|out| put_u64s(&[*id], out));
    }
    for (stream, position) in &change.positions {
        let fields = [stream.0, u64::from(position.epoch), position.offset];
        put(EntryKind::Position, &|out| put_u64s(&fields, out));
    }
    for stream in &change.forgotten {
        put(EntryKind::Forgotten, &|out| put_u64s(&[stream.0], out));
    }
    for (id, deletion) in &change.deletions {
        let range = deletion.range;
        let fields = [
            *id,
            range.from_ns.cast_unsigned(),
            range.to_ns.cast_unsigned(),
            deletion.before_sequence,
            deletion.requested_ns.cast_unsigned(),
            deletion.done_ns.unwrap_or(NOT_DONE).cast_unsigned(),
            deletion.removed,
        ];
        put(EntryKind::Deletion, &|out| {
            put_u64s(&fields, out);
            out.extend_from_slice(deletion.query.as_bytes());
        });
    }
    // After the deletion, so that a release that does not know this entry sees it as ended.
    for (id, _) in change.deletions.iter().filter(|(_, deletion)| deletion.is_cancelled) {
        put(EntryKind::DeletionCancelled, &|out| put_u64s(&[*id], out));
    }
    for id in &change.deletions_forgotten {
        put(EntryKind::DeletionForgotten, &|out| put_u64s(&[*id], out));
    }
}

fn put_u64s(fields: &[u64], out: &mut Vec<u8>) {
    for field in fields {
        out.extend_from_slice(&field.to_le_bytes());
    }
}

fn put_counters(counters: &Counters, out: &mut Vec<u8>) {
    let retired = &counters.retired;
    let fields = [
        counters.next_segment,
        counters.next_sequence,
        counters.next_deletion,
        retired.segments,
        retired.rows,
        retired.bytes,
        counters.deleted,
    ];
    put_u64s(&fields, out);
}

fn put_segment(entry: &SegmentEntry, out: &mut Vec<u8>) {
    let fields = [
        entry.id,
        entry.stored_ns.cast_unsigned(),
        u64::from(entry.hour),
        u64::from(entry.tier),
        entry.rows,
        entry.raw_bytes,
        entry.segment_bytes,
        entry.sidecar_bytes,
        entry.times_ns.0.cast_unsigned(),
        entry.times_ns.1.cast_unsigned(),
        entry.sequences.0,
        entry.sequences.1,
    ];
    put_u64s(&fields, out);
}

/// Decodes a record's payload; `None` when this release does not understand it.
pub(super) fn decode(payload: &[u8]) -> Option<(RecordKind, ManifestChange)> {
    let (kind, entries) = payload.split_first()?;
    let kind = match *kind {
        1 => RecordKind::Snapshot,
        2 => RecordKind::Change,
        _ => return None,
    };
    Some((kind, decode_entries(entries)?))
}

fn decode_entries(mut rest: &[u8]) -> Option<ManifestChange> {
    let mut change = ManifestChange::default();
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk()?;
        let (entry, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        rest = after;
        let (kind, fields) = entry.split_first()?;
        decode_entry(*kind, fields, &mut change)?;
    }
    Some(change)
}

/// Adds an entry. Unknown kinds are skipped: they are from a later release of the same version.
fn decode_entry(kind: u8, fields: &[u8], change: &mut ManifestChange) -> Option<()> {
    let (numbers, _) = fields.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map(|bytes| u64::from_le_bytes(*bytes));
    match kind {
        k if k == EntryKind::Counters as u8 => {
            change.counters = Counters {
                next_segment: number(0)?,
                next_sequence: number(1)?,
                next_deletion: number(2)?,
                retired: Retired { segments: number(3)?, rows: number(4)?, bytes: number(5)? },
                deleted: number(6).unwrap_or(0),
            };
        }
        k if k == EntryKind::Added as u8 => change.added.push(SegmentEntry {
            id: number(0)?,
            stored_ns: number(1)?.cast_signed(),
            hour: number(2)?.try_into().ok()?,
            tier: number(3)?.try_into().ok()?,
            rows: number(4)?,
            raw_bytes: number(5)?,
            segment_bytes: number(6)?,
            sidecar_bytes: number(7)?,
            times_ns: (number(8)?.cast_signed(), number(9)?.cast_signed()),
            sequences: (number(10)?, number(11)?),
        }),
        k if k == EntryKind::Removed as u8 => change.removed.push(number(0)?),
        k if k == EntryKind::Position as u8 => {
            let position = Position::new(number(1)?.try_into().ok()?, number(2)?);
            change.positions.push((StreamId(number(0)?), position));
        }
        k if k == EntryKind::Forgotten as u8 => change.forgotten.push(StreamId(number(0)?)),
        k if k == EntryKind::Deletion as u8 => change.deletions.push(decode_deletion(fields)?),
        k if k == EntryKind::DeletionCancelled as u8 => {
            let id = number(0)?;
            let known = change.deletions.iter_mut().rfind(|(known, _)| *known == id);
            known?.1.is_cancelled = true;
        }
        k if k == EntryKind::DeletionForgotten as u8 => change.deletions_forgotten.push(number(0)?),
        _ => {}
    }
    Some(())
}

fn decode_deletion(fields: &[u8]) -> Option<(u64, DeletionEntry)> {
    let (numbers, query) = fields.split_at_checked(DELETION_FIELDS * 8)?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map(|bytes| u64::from_le_bytes(*bytes));
    let signed = |at: usize| number(at).map(u64::cast_signed);
    let deletion = DeletionEntry {
        query: String::from_utf8(query.to_vec()).ok()?,
        range: TimeRange { from_ns: signed(1)?, to_ns: signed(2)? },
        before_sequence: number(3)?,
        requested_ns: signed(4)?,
        done_ns: signed(5).filter(|time| *time != NOT_DONE),
        is_cancelled: false,
        removed: number(6)?,
    };
    Some((number(0)?, deletion))
}
