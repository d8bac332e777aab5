//! Groups items: the records of a batch by resource, or by the file that they go to.
//!
//! Invariants: every item is in exactly one group, and in its group in its order; the work is
//! proportional to the number of items and groups, in whatever order the groups come.

use std::ops::Range;

/// Groups sets of items one after the other, reusing its memory.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Items, group by group.
    order: Vec<u32>,
    /// For each group its end in `order`.
    ends: Vec<usize>,
}

impl Groups {
    /// Groups items 0 to `count`; `group_of` returns the number of an item's group. Counting is
    /// several times faster than sorting.
    pub(crate) fn group(&mut self, count: usize, group_of: impl Fn(usize) -> usize) {
        let Self { order, ends } = self;
        ends.clear();
        for item in 0..count {
            let group = group_of(item);
            if group >= ends.len() {
                ends.resize(group + 1, 0);
            }
            ends[group] += 1;
        }
        let mut start = 0;
        for end in &mut *ends {
            // Starts as the group's start, and moves to its end while items are added.
            start += std::mem::replace(end, start);
        }
        order.clear();
        order.resize(count, 0);
        for item in 0..count {
            let end = &mut ends[group_of(item)];
            order[*end] = item as u32;
            *end += 1;
        }
    }

    /// Returns the number of groups; some may be empty.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the items of a group.
    pub(crate) fn items(&self, group: usize) -> impl ExactSizeIterator<Item = usize> {
        self.order[self.range(group)].iter().map(|item| *item as usize)
    }

    fn range(&self, group: usize) -> Range<usize> {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[group]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_grouped_in_their_order() {
        let mut groups = Groups::default();
        for of in [&[2, 0, 2, 4, 0, 2][..], &[], &[7], &[1, 1, 0]] {
            groups.group(of.len(), |item| of[item]);
            for group in 0..groups.len() {
                let wanted: Vec<usize> = (0..of.len()).filter(|item| of[*item] == group).collect();
                assert_eq!(groups.items(group).collect::<Vec<_>>(), wanted);
            }
            let total: usize = (0..groups.len()).map(|group| groups.items(group).len()).sum();
            assert_eq!(total, of.len());
        }
    }
}
