//! Slots of running queries: short queries do not wait until long ones have ended.
//!
//! A query is short until it has run for [`SHORT_QUERY_TIME_MAX`]. Some of the slots are for short
//! queries only. A query that is no longer short takes one of the other slots; if none is free, it
//! is paused until one is.
//!
//! [`SHORT_QUERY_TIME_MAX`]: super::limits::SHORT_QUERY_TIME_MAX
//!
//! Invariants: a query starts only if a slot is free; paused queries have no slot, continue in the
//! order in which they started, and before one that has just become long; at most
//! [`Slots::paused_max`] are paused.

use std::collections::BTreeMap;

use super::limits::{PAUSED_PER_SLOT, SLOTS_PER_SHORT_SLOT};

/// A running query. Later ones have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What a running query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryState {
    Short,
    Long,
    Paused,
}

/// All running queries.
#[derive(Debug)]
pub(super) struct Slots {
    total: usize,
    queries: BTreeMap<Ticket, QueryState>,
    next: u64,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self { total: slots, queries: BTreeMap::new(), next: 0 }
    }

    /// Maximum number of paused queries.
    pub(super) fn paused_max(&self) -> usize {
        self.total * PAUSED_PER_SLOT
    }

    /// Number of threads for queries that run or are paused.
    pub(super) fn threads(&self) -> usize {
        self.total + self.paused_max()
    }

    /// Number of queries that run or are paused.
    pub(super) fn started(&self) -> usize {
        self.queries.len()
    }

    /// Number of paused queries.
    pub(super) fn paused(&self) -> usize {
        self.count(QueryState::Paused)
    }

    /// Returns whether a query may start.
    pub(super) fn has_room(&self) -> bool {
        self.started() - self.paused() < self.total
    }

    /// Starts a query.
    pub(super) fn start(&mut self) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.queries.insert(ticket, QueryState::Short);
        ticket
    }

    pub(super) fn state(&self, ticket: Ticket) -> Option<QueryState> {
        self.queries.get(&ticket).copied()
    }

    /// Handles a query that has run longer than short ones do. `may_pause`: it does not keep too
    /// much memory.
    pub(super) fn lengthen(&mut self, ticket: Ticket, may_pause: bool) -> Option<QueryState> {
        let has_long_slot = self.has_long_slot();
        let may_pause = may_pause && self.paused() < self.paused_max();
        let state = self.queries.get_mut(&ticket)?;
        if *state == QueryState::Short {
            *state = match () {
                () if has_long_slot => QueryState::Long,
                () if may_pause => QueryState::Paused,
                () => QueryState::Short,
            };
        }
        Some(*state)
    }

    /// Ends a query. Returns whether a paused one continues.
    pub(super) fn end(&mut self, ticket: Ticket) -> bool {
        self.queries.remove(&ticket);
        let mut has_resumed = false;
        while self.has_long_slot() && self.has_room() {
            let is_paused = |state: &&mut QueryState| **state == QueryState::Paused;
            let Some(state) = self.queries.values_mut().find(is_paused) else { break };
            *state = QueryState::Long;
            has_resumed = true;
        }
        has_resumed
    }

    /// Lets a paused query continue without a slot, because it is about to end.
    pub(super) fn resume(&mut self, ticket: Ticket) {
        if let Some(state) = self.queries.get_mut(&ticket) {
            *state = QueryState::Long;
        }
    }

    fn has_long_slot(&self) -> bool {
        let for_short = match self.total {
            0 | 1 => 0,
            slots => (slots / SLOTS_PER_SHORT_SLOT).max(1),
        };
        self.count(QueryState::Long) + for_short < self.total
    }

    fn count(&self, state: QueryState) -> usize {
        self.queries.values().filter(|known| **known == state).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_queries_leave_a_slot_for_short_ones() {
        let mut slots = Slots::new(4);
        let tickets: Vec<_> = (0..4).map(|_| slots.start()).collect();
        assert!(!slots.has_room());
        for ticket in &tickets[..3] {
            assert_eq!(slots.lengthen(*ticket, true), Some(QueryState::Long));
        }
        // Paused queries keep too much memory: the fourth keeps its slot.
        assert_eq!(slots.lengthen(tickets[3], false), Some(QueryState::Short));
        assert_eq!(slots.lengthen(tickets[3], true), Some(QueryState::Paused));
        assert!(slots.has_room());
        let fifth = slots.start();
        assert!(!slots.has_room());
        assert_eq!(slots.lengthen(fifth, true), Some(QueryState::Paused));
        assert!(!slots.end(fifth), "no slot for long queries is free");
        assert!(slots.end(tickets[0]), "now one is");
        assert_eq!(slots.state(tickets[3]), Some(QueryState::Long));
        assert_eq!((slots.started(), slots.paused()), (3, 0));
    }

    #[test]
    fn paused_queries_continue_in_order() {
        let mut slots = Slots::new(2);
        let long = slots.start();
        assert_eq!(slots.lengthen(long, true), Some(QueryState::Long));
        let paused: Vec<_> = (0..8).map(|_| slots.start()).collect();
        for ticket in &paused {
            assert_eq!(slots.lengthen(*ticket, true), Some(QueryState::Paused));
        }
        let ninth = slots.start();
        assert_eq!(slots.lengthen(ninth, true), Some(QueryState::Short), "too many are paused");
        slots.resume(paused[3]);
        assert!(!slots.end(paused[3]), "it ended after its deadline");
        let mut next = long;
        for ticket in [&paused[..3], &paused[4..]].concat() {
            // Whether the short query still occupies its slot does not matter.
            assert!(slots.end(next));
            assert_eq!(slots.state(ticket), Some(QueryState::Long));
            next = ticket;
        }
    }

    #[test]
    fn the_only_slot_is_for_all_queries() {
        let mut slots = Slots::new(1);
        let only = slots.start();
        assert_eq!(slots.lengthen(only, true), Some(QueryState::Long));
        assert!(!slots.has_room());
        assert!(!slots.end(only));
        assert!(slots.has_room());
    }
}
