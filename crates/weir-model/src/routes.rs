//! The route table of a frame: the sets of destinations that rows are routed to, without
//! duplicates.
//!
//! Invariants: a set is a sorted list of cursor indexes without repetition, stored in a frame as a
//! list or, where that is shorter, as bits; a row refers to its set by number. However many
//! destinations there are, [`crate::limits::ROUTED_RECORDS_MIN`] sets fit in the room that is
//! always reserved for them.

use crate::intern::{Interner, hash};
use crate::limits::CURSORS_MAX;

/// Size of an entry: row count, start of its set after the entries, length and form of the set.
pub(crate) const ENTRY_BYTES: usize = 12;
/// Maximum size of a set: all bits.
pub(crate) const SET_BYTES_MAX: usize = CURSORS_MAX / 8;
/// The form of a set that is stored as bits.
const BITS: u16 = 1;

/// The sets of destinations of a frame that is being filled.
#[derive(Debug)]
pub(crate) struct RouteTable {
    sets: Interner<u16>,
    /// Size of the table in the frame, in bytes.
    bytes: usize,
    /// The set requested last, because the next row often has the same.
    last: usize,
    counts: Vec<u32>,
}

/// Returns the number of words of a set in the frame.
fn words_of(destinations: &[u16]) -> usize {
    destinations.len().min(bit_words(destinations))
}

fn bit_words(destinations: &[u16]) -> usize {
    destinations.last().map_or(0, |last| usize::from(*last) / 16 + 1)
}

impl RouteTable {
    pub(crate) fn new() -> Self {
        Self { sets: Interner::new(), bytes: 0, last: 0, counts: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.sets.clear();
        (self.bytes, self.last) = (0, 0);
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.sets.copy_from(&other.sets);
        (self.bytes, self.last) = (other.bytes, other.last);
    }

    /// Returns the size of the table in the frame, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of a set, if it is present.
    pub(crate) fn find(&mut self, destinations: &[u16]) -> Option<u16> {
        if self.sets.get(self.last).is_some_and(|(_, last)| last == destinations) {
            return Some(self.last as u16);
        }
        let found = self.sets.find(hash_of(destinations), 0, destinations)?;
        self.last = usize::from(found);
        Some(found)
    }

    /// Returns the size of an additional set, in bytes.
    pub(crate) fn bytes_of(destinations: &[u16]) -> usize {
        ENTRY_BYTES + words_of(destinations) * 2
    }

    /// Adds a set that is not present.
    pub(crate) fn add(&mut self, destinations: &[u16]) -> u16 {
        debug_assert!(destinations.is_sorted_by(|a, b| a < b), "{destinations:?} is not sorted");
        self.bytes += Self::bytes_of(destinations);
        let number = self.sets.add(hash_of(destinations), 0, destinations);
        self.last = usize::from(number);
        number
    }

    /// Counts the rows of each set. Returns true if more than one set has rows, so that rows must
    /// refer to their set.
    pub(crate) fn count(&mut self, rows: impl ExactSizeIterator<Item = u16>) -> bool {
        self.counts.clear();
        self.counts.resize(self.sets.len(), 0);
        if let [only] = &mut self.counts[..] {
            *only = rows.len() as u32;
            return false;
        }
        for route in rows {
            if let Some(count) = self.counts.get_mut(usize::from(route)) {
                *count += 1;
            }
        }
        self.counts.iter().filter(|count| **count > 0).count() > 1
    }

    /// Writes the sets that were counted: all of them, or, if rows do not refer to their set, the
    /// only one that has rows. Returns the number of sets written and their size in bytes.
    pub(crate) fn write(&self, is_numbered: bool, out: &mut [u8]) -> (usize, usize) {
        let is_written = |number: &usize| is_numbered || self.counts[*number] > 0;
        let count = (0..self.counts.len()).filter(is_written).count();
        let mut at = count * ENTRY_BYTES;
        let mut entry_at = 0;
        for number in (0..self.counts.len()).filter(is_written) {
            let (_, destinations) = self.sets.get(number).unwrap_or_default();
            let (words, form) =
                (words_of(destinations), u16::from(words_of(destinations) < destinations.len()));
            let entry = &mut out[entry_at..entry_at + ENTRY_BYTES];
            entry[..4].copy_from_slice(&self.counts[number].to_le_bytes());
            entry[4..8].copy_from_slice(&((at - count * ENTRY_BYTES) as u32).to_le_bytes());
            entry[8..10].copy_from_slice(&(words as u16).to_le_bytes());
            entry[10..].copy_from_slice(&form.to_le_bytes());
            entry_at += ENTRY_BYTES;
            let set = out[at..at + words * 2].as_chunks_mut().0;
            write_set(destinations, form, set);
            at += words * 2;
        }
        (count, at)
    }
}

fn hash_of(destinations: &[u16]) -> u64 {
    hash(destinations.len() as u64, destinations.iter().map(|cursor| u64::from(*cursor)))
}

fn write_set(destinations: &[u16], form: u16, set: &mut [[u8; 2]]) {
    if form != BITS {
        for (cell, cursor) in set.iter_mut().zip(destinations) {
            *cell = cursor.to_le_bytes();
        }
        return;
    }
    set.fill([0; 2]);
    for cursor in destinations.iter().map(|cursor| usize::from(*cursor)) {
        set[cursor / 16][cursor % 16 / 8] |= 1 << (cursor % 8);
    }
}

/// The route table of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routes<'a> {
    entries: &'a [[u8; ENTRY_BYTES]],
    sets: &'a [u8],
}

/// A set of destinations in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destinations<'a> {
    List(&'a [[u8; 2]]),
    Bits(&'a [[u8; 2]]),
}

impl<'a> Routes<'a> {
    /// Wraps a table with this many entries; the bytes must be at least as long as the entries.
    pub(crate) fn new(bytes: &'a [u8], count: usize) -> Self {
        let (entries, sets) = bytes.split_at((count * ENTRY_BYTES).min(bytes.len()));
        Self { entries: entries.as_chunks().0, sets }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of rows that go to set `route`, and the set; none if there is no such
    /// set.
    pub(crate) fn get(&self, route: usize) -> (u64, Destinations<'a>) {
        const NOWHERE: Destinations<'static> = Destinations::List(&[]);
        let Some(entry) = self.entries.get(route) else { return (0, NOWHERE) };
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        let len = usize::from(u16::from_le_bytes([entry[8], entry[9]])) * 2;
        let start = u32_at(4) as usize;
        let set = self.sets.get(start..start + len).unwrap_or_default().as_chunks().0;
        let is_bits = u16::from_le_bytes([entry[10], entry[11]]) == BITS;
        let set = if is_bits { Destinations::Bits(set) } else { Destinations::List(set) };
        (u64::from(u32_at(0)), set)
    }
}

impl Destinations<'_> {
    pub(crate) fn contains(self, cursor: usize) -> bool {
        match self {
            Self::List(list) => list
                .binary_search_by_key(&cursor, |cell| usize::from(u16::from_le_bytes(*cell)))
                .is_ok(),
            Self::Bits(bits) => bits
                .get(cursor / 16)
                .is_some_and(|word| u16::from_le_bytes(*word) >> (cursor % 16) & 1 == 1),
        }
    }

    /// Calls `visit` for each in order.
    pub(crate) fn for_each(self, mut visit: impl FnMut(u16)) {
        match self {
            Self::List(list) => list.iter().for_each(|cell| visit(u16::from_le_bytes(*cell))),
            Self::Bits(bits) => {
                for (number, word) in (0..).zip(bits) {
                    let mut rest = u16::from_le_bytes(*word);
                    while rest != 0 {
                        visit(number * 16 + rest.trailing_zeros() as u16);
                        rest &= rest - 1;
                    }
                }
            }
        }
    }

    pub(crate) fn to_list(self) -> Vec<u16> {
        let mut list = Vec::new();
        self.for_each(|cursor| list.push(cursor));
        // They are sorted, except in a hostile frame.
        if !list.is_sorted_by(|a, b| a < b) {
            list.sort_unstable();
            list.dedup();
        }
        list
    }
}

/// The rows of a frame that are routed to one destination, perhaps without those of some keys.
#[derive(Debug, Clone)]
pub struct RoutedRows<'a> {
    /// The set of each row; empty if all rows have the same.
    pub(crate) routes: &'a [[u8; 2]],
    /// The sets that contain the destination: a mask of the first 64, and the others.
    first: u64,
    others: Vec<u64>,
    /// The resource of each row; empty if all rows have the first one.
    resources: &'a [[u8; 2]],
    /// Whether the rows of each resource are left out, and those of a resource that is not in the
    /// table; empty if none are.
    without: Vec<bool>,
}

impl<'a> RoutedRows<'a> {
    pub(crate) fn new(table: Routes<'_>, routes: &'a [[u8; 2]], cursor: usize) -> Self {
        let (others, resources, without) = (Vec::new(), Default::default(), Vec::new());
        let mut rows = Self { routes, first: 0, others, resources, without };
        for route in (0..table.len()).filter(|route| table.get(*route).1.contains(cursor)) {
            match route.checked_sub(64) {
                None => rows.first |= 1 << route,
                Some(other) => {
                    rows.others.resize(rows.others.len().max(other / 64 + 1), 0);
                    rows.others[other / 64] |= 1 << (other % 64);
                }
            }
        }
        rows
    }

    /// Leaves out the rows of some resources: one flag for each resource of the table, and one for
    /// all others.
    pub(crate) fn without(mut self, resources: &'a [[u8; 2]], without: Vec<bool>) -> Self {
        (self.resources, self.without) = (resources, without);
        self
    }

    fn is_left_out(&self, index: usize) -> bool {
        let number = self.resources.get(index).map_or(0, |cell| u16::from_le_bytes(*cell));
        let last = self.without.len() - 1;
        self.without[usize::from(number).min(last)]
    }

    /// Returns whether row `index` is one of them.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        if !self.without.is_empty() && self.is_left_out(index) {
            return false;
        }
        let route = self.routes.get(index).map_or(0, |cell| usize::from(u16::from_le_bytes(*cell)));
        let word = match route.checked_sub(64) {
            None => self.first,
            Some(other) => self.others.get(other / 64).copied().unwrap_or(0),
        };
        word >> (route % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_read_back_as_lists_or_bits() {
        let all: Vec<u16> = (0..CURSORS_MAX as u16).collect();
        let odd: Vec<u16> = all.iter().copied().filter(|cursor| cursor % 2 == 1).collect();
        let sets: [&[u16]; 6] = [&[], &[0], &[4095], &[3, 700, 4000], &odd, &all];
        let mut table = RouteTable::new();
        for (number, set) in (0..).zip(sets) {
            assert_eq!(table.find(set), None);
            assert_eq!(table.add(set), number);
            assert_eq!(table.find(set), Some(number));
            assert!(RouteTable::bytes_of(set) <= ENTRY_BYTES + SET_BYTES_MAX);
        }
        assert!(table.count([0, 1, 1, 4, 5].into_iter()));
        let mut out = vec![0xff; table.bytes()];
        assert_eq!(table.write(true, &mut out), (6, out.len()));
        let routes = Routes::new(&out, 6);
        for (number, set) in sets.iter().enumerate() {
            let (_, destinations) = routes.get(number);
            assert_eq!(destinations.to_list(), *set);
            for cursor in 0..CURSORS_MAX + 40 {
                let is_in = u16::try_from(cursor).is_ok_and(|cursor| set.contains(&cursor));
                assert_eq!(destinations.contains(cursor), is_in);
            }
        }
        assert_eq!((0..7).map(|n| routes.get(n).0).collect::<Vec<_>>(), [1, 2, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn rows_with_one_route_have_no_route_columns() {
        let mut table = RouteTable::new();
        table.add(&[]);
        table.add(&[2, 5]);
        assert!(!table.count([1, 1, 1].into_iter()));
        let mut out = vec![0; table.bytes()];
        let (count, len) = table.write(false, &mut out);
        let (rows, set) = Routes::new(&out[..len], count).get(0);
        assert_eq!((count, rows, set.to_list()), (1, 3, vec![2, 5]));
    }
}
