//! What waits for a destination that discards, by key: whenever it discards, the heaviest key
//! loses.
//!
//! The journal tells which batches wait, and which keys of them it has discarded. The rows and
//! their keys are known here.

use std::collections::BTreeMap;

use weir_journal::{Journal, WaitingBatch};

use crate::files::{key_of, wanted};
use crate::support::STEP;

/// A key, or the stream of rows without one.
type Group = (u64, Option<u64>);

/// What waits for one destination.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Batches by stream and epoch, each with its first and last row.
    batches: Vec<(u64, u32, Batch)>,
    /// Every key is known to the journal.
    is_known: bool,
}

/// The rows of a batch that wait.
#[derive(Debug)]
struct Batch {
    rows: Vec<u64>,
    /// Number of rows with those that were discarded before, and what all of them weigh.
    all: (u64, u64),
}

impl Batch {
    /// Returns what `rows` of its rows weigh.
    fn weight(&self, rows: u64) -> u64 {
        (self.all.1 * rows / self.all.0).max(1)
    }
}

impl Waiting {
    /// Returns what waits for a destination; `slot` is its number in row masks.
    pub(crate) fn of(journal: &Journal, index: usize, slot: u64) -> Self {
        let waiting = journal.waiting(index);
        let is_known = waiting.iter().all(|batch| batch.has_known_keys);
        let batches = waiting.iter().map(|batch| batch_of(batch, slot)).collect();
        Self { batches, is_known }
    }

    /// Returns the rows that wait, with the batch of each.
    fn rows(&self) -> BTreeMap<(u64, u32, u64), usize> {
        let of = |(at, (stream, epoch, batch)): (usize, &(u64, u32, Batch))| {
            let place = (*stream, *epoch);
            batch.rows.iter().map(move |row| ((place.0, place.1, *row), at)).collect::<Vec<_>>()
        };
        self.batches.iter().enumerate().flat_map(of).collect()
    }

    /// Asserts, for a later moment between which and this one rows were only appended and
    /// discarded, that each key was the heaviest one when it lost its last rows. Returns how many
    /// batches have lost some of their rows, and not all.
    pub(crate) fn check(&self, after: &Self) -> u64 {
        if !self.is_known {
            return 0;
        }
        let left = after.rows();
        let mut weights: BTreeMap<Group, u64> = BTreeMap::new();
        let mut lost: BTreeMap<Group, u64> = BTreeMap::new();
        let mut cuts = 0;
        for (stream, epoch, batch) in &self.batches {
            let mut rows: BTreeMap<Group, (u64, u64)> = BTreeMap::new();
            for row in &batch.rows {
                let is_left = left.contains_key(&(*stream, *epoch, *row));
                let (left, lost) = rows.entry(group_of(*stream, *row)).or_default();
                *if is_left { left } else { lost } += 1;
            }
            cuts += u64::from(rows.values().any(|r| r.0 > 0) && rows.values().any(|r| r.1 > 0));
            for (group, (left_rows, lost_rows)) in rows {
                assert!(left_rows == 0 || lost_rows == 0, "{group:?} was divided in {stream}");
                if left_rows > 0 {
                    *weights.entry(group).or_default() += batch.weight(left_rows);
                } else {
                    let largest = lost.entry(group).or_default();
                    *largest = batch.weight(lost_rows).max(*largest);
                }
            }
        }
        let heaviest = weights.iter().max_by_key(|(_, weight)| **weight);
        let Some((heaviest, most)) = heaviest else { return cuts };
        for (group, last) in lost {
            let weight = weights.get(&group).copied().unwrap_or_default() + last;
            assert!(
                weight >= *most,
                "{group:?} weighed at most {weight} when it lost rows, and {heaviest:?} {most}"
            );
        }
        cuts
    }
}

fn group_of(stream: u64, row: u64) -> Group {
    let key = key_of(stream, row);
    (key, (key == 0).then_some(stream))
}

/// Returns the rows of a batch: as many as it says, up to its end.
fn batch_of(batch: &WaitingBatch, slot: u64) -> (u64, u32, Batch) {
    let stream = batch.stream.0;
    let is_its = |row: &u64| wanted(stream, *row) >> slot & 1 == 1;
    let up_to_end = (0..batch.end.offset / STEP).rev().filter(is_its);
    let all: Vec<u64> = up_to_end.take(batch.records as usize).collect();
    let is_discarded = |row: &u64| batch.discarded_keys.contains(&key_of(stream, *row));
    let (discarded, rows): (Vec<u64>, Vec<u64>) = all.into_iter().partition(is_discarded);
    assert_eq!(discarded.len() as u64, batch.discarded, "discarded rows of {batch:?}");
    (stream, batch.end.epoch, Batch { rows, all: (batch.records, batch.bytes) })
}
