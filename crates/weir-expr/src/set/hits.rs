//! The rules that one record matches.

/// Rules by their index in the set, in ascending order. Reused from record to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    rules: Vec<u32>,
}

impl Hits {
    /// Returns the rules, in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.rules.iter().map(|rule| *rule as usize)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether no rule matches.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether this rule matches.
    pub fn contains(&self, rule: usize) -> bool {
        self.rules.binary_search_by(|at| (*at as usize).cmp(&rule)).is_ok()
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Sorts the rules after all have been added.
    pub(crate) fn sort(&mut self) {
        if self.rules.len() > 1 {
            self.rules.sort_unstable();
        }
    }

    pub(crate) fn push(&mut self, rule: usize) {
        self.rules.push(rule as u32);
    }
}
