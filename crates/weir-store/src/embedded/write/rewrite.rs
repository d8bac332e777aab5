//! Rewriting a segment without some of its records.
//!
//! Invariants: a row group that loses no record is copied unchanged; one that does is encoded again
//! from the remaining records, so that nothing of the removed ones is left in any byte, including
//! statistics, column names and filters. Between row groups, requested flushes are performed and
//! deletions are cancelled. If one of the deletions that this rewrite is for is cancelled, the
//! rewrite is abandoned: what was written is removed, and the segment stays as it is.

use std::ops::Range;

use super::flusher::Flusher;
use super::manifest::SegmentEntry;
use super::merge::MERGE_LEVEL;
use crate::embedded::columns::Rows;
use crate::embedded::read::scan::DeletedRows;
use crate::embedded::read::snapshot::OpenSegment;
use crate::embedded::segment::{Fixed, Provenance, Segment, SegmentError, cut_segment};
use crate::embedded::sidecar::{SidecarError, cut_sidecar, write_segment_with_sidecar};
use crate::limits::CONCAT_BYTES_MIN;

/// Row groups that become one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    groups: Range<usize>,
    /// Records were removed from it; it is then a single row group.
    is_changed: bool,
    /// First and last sequence that it was made from.
    sequences: (u64, u64),
}

/// The segments that one segment became.
type WrittenSegments = Vec<(SegmentEntry, OpenSegment)>;

impl Flusher {
    /// Writes the records of a segment that these deletions do not concern, as one or several
    /// segments. Returns `None` when one of the deletions was cancelled in the meantime. In that
    /// case, and after an error, no written files remain.
    pub(crate) fn rewrite(
        &mut self,
        entry: &SegmentEntry,
        open: &OpenSegment,
        deleted: &DeletedRows,
        deletions: &[u64],
    ) -> Result<Option<WrittenSegments>, SidecarError> {
        self.check_maintenance_space(entry.segment_bytes)?;
        let mut written = Vec::new();
        let done = self.write_pieces((entry, open), deleted, deletions, &mut written);
        if !matches!(done, Ok(true)) {
            for (entry, _) in &written {
                let _removed_at_the_next_start =
                    self.shared.files(entry).remove(&*self.shared.disk);
            }
        }
        done.map(|is_whole| is_whole.then_some(written))
    }

    /// Returns false when the rewrite was abandoned.
    fn write_pieces(
        &mut self,
        (entry, open): (&SegmentEntry, &OpenSegment),
        deleted: &DeletedRows,
        deletions: &[u64],
        written: &mut WrittenSegments,
    ) -> Result<bool, SidecarError> {
        for piece in pieces(&open.segment, entry, deleted)? {
            if !self.run_urgent_work(deletions)? {
                return Ok(false);
            }
            written.push(self.write_piece(entry, open, &piece, deleted)?);
        }
        // So that a cancellation that arrives during the last piece is honored.
        self.run_urgent_work(deletions)
    }

    /// Processes pending cancellations and flushes. Returns false when one of the deletions has
    /// ended.
    fn run_urgent_work(&mut self, deletions: &[u64]) -> Result<bool, SidecarError> {
        while self.cancel_deletion()? {}
        let known = &self.contents().deletions;
        let is_pending =
            |id: &u64| known.get(id).is_some_and(|deletion| deletion.done_ns.is_none());
        if !deletions.iter().all(is_pending) {
            return Ok(false);
        }
        self.flush_waiting()?;
        Ok(true)
    }

    fn write_piece(
        &mut self,
        entry: &SegmentEntry,
        open: &OpenSegment,
        piece: &Piece,
        deleted: &DeletedRows,
    ) -> Result<(SegmentEntry, OpenSegment), SidecarError> {
        let segment = &open.segment;
        let raw_bytes = |rows: usize| {
            let share = u128::from(entry.raw_bytes) * rows as u128;
            (share / u128::from(entry.rows.max(1))) as u64
        };
        let provenance = |flusher: &mut Self, rows: usize| {
            let stored_ns = Some(entry.stored_ns);
            flusher.provenance(piece.sequences, stored_ns, entry.tier, raw_bytes(rows))
        };
        if let (true, group) = (piece.is_changed, piece.groups.start) {
            // With the level that it was compressed with before.
            let is_large = raw_bytes(segment.group_rows(group)) >= CONCAT_BYTES_MIN;
            let level = if is_large { self.shared.config.level } else { MERGE_LEVEL };
            let rows = remaining_rows(segment, group, deleted)?;
            let provenance = provenance(self, rows.len());
            return self.create(&provenance, |file, sidecar| {
                write_segment_with_sidecar(&rows, level, Some(&provenance), file, sidecar)
            });
        }
        let groups = piece.groups.clone();
        let rows = groups.clone().map(|group| segment.group_rows(group)).sum();
        let provenance: Provenance = provenance(self, rows);
        self.create(&provenance, |file, sidecar| {
            let summary = cut_segment(segment, groups.clone(), Some(&provenance), file)?;
            // Without a sidecar it is rebuilt later in the background.
            if let Some(known) = &open.sidecar {
                cut_sidecar(known, groups, &summary, sidecar)?;
            }
            Ok(summary)
        })
    }
}

/// Returns the records of a row group that stay.
fn remaining_rows(
    segment: &Segment,
    group: usize,
    deleted: &DeletedRows,
) -> Result<Rows, SegmentError> {
    let is_deleted = deleted.group(group).unwrap_or_default();
    let stays = |row: usize| !is_deleted.get(row).copied().unwrap_or(false);
    let mut rows = Rows::new();
    segment.copy_group(group, stays, &mut rows)?;
    Ok(rows)
}

/// Splits the segment into pieces: each row group that changes becomes its own segment, the
/// unchanged ones between them stay together, and groups without remaining records disappear.
fn pieces(
    segment: &Segment,
    entry: &SegmentEntry,
    deleted: &DeletedRows,
) -> Result<Vec<Piece>, SegmentError> {
    let mut pieces: Vec<Piece> = Vec::new();
    for group in 0..segment.group_count() {
        let is_deleted = deleted.group(group);
        if is_deleted.is_some_and(|rows| rows.iter().all(|is_deleted| *is_deleted)) {
            continue;
        }
        let is_changed = is_deleted.is_some();
        match pieces.last_mut() {
            Some(last) if !is_changed && !last.is_changed && last.groups.end == group => {
                last.groups.end = group + 1;
            }
            _ => pieces.push(Piece { groups: group..group + 1, is_changed, sequences: (0, 0) }),
        }
    }
    share_sequences(&mut pieces, entry.sequences, |group| {
        segment.group_range(Fixed::Sequence, group).map(|(_, last)| last.cast_unsigned())
    })?;
    Ok(pieces)
}

/// Distributes the sequences that the segment was made from over its pieces without gaps, so that
/// the files tell what they replace even without the manifest.
fn share_sequences(
    pieces: &mut [Piece],
    all: (u64, u64),
    last_of: impl Fn(usize) -> Option<u64>,
) -> Result<(), SegmentError> {
    let disorder = SegmentError::Damaged("wrong order of row groups");
    let (mut first, count) = (all.0, pieces.len());
    for (number, piece) in pieces.iter_mut().enumerate() {
        let groups = piece.groups.clone().map(&last_of);
        let last = if number + 1 == count { Some(all.1) } else { groups.max().flatten() };
        let Some(last) = last else { return Err(disorder) };
        if last < first || last > all.1 {
            return Err(disorder);
        }
        piece.sequences = (first, last);
        first = last + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_sequences_of_their_segment() {
        let piece = |groups| Piece { groups, is_changed: false, sequences: (0, 0) };
        let mut pieces = [piece(0..2), piece(2..3), piece(4..6)];
        let last = [19, 29, 39, 49, 59, 69];
        share_sequences(&mut pieces, (5, 80), |group| Some(last[group])).unwrap();
        let shares: Vec<_> = pieces.iter().map(|piece| piece.sequences).collect();
        assert_eq!(shares, [(5, 29), (30, 39), (40, 80)]);
        let turned = [19, 9, 39, 49, 59, 69];
        assert!(
            share_sequences(&mut [piece(0..1), piece(1..2), piece(2..3)], (5, 80), |group| {
                Some(turned[group])
            })
            .is_err()
        );
    }
}
