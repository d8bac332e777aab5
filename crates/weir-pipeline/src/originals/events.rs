//! What the programs of Loggregator that weir replaces would state as events: that a reader was too
//! slow. A source of type `loggregator_metrics` states them.
//!
//! Invariants: nothing waits for anyone; what waits to be stated is limited, and the oldest is
//! dropped, since what was done is counted elsewhere.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::Original;

/// Events that wait: more readers that are cut within one interval say nothing new. Each has less
/// than 3 KiB.
const EVENTS_MAX: usize = 100;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalEvent {
    /// Whose event it is.
    pub of: Original,
    /// When it happened, nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// What happened.
    pub title: &'static str,
    /// To whom, and what it means.
    pub body: String,
}

/// The events that wait to be stated, oldest first.
#[derive(Debug, Default)]
pub(crate) struct OriginalEvents(Mutex<VecDeque<OriginalEvent>>);

impl OriginalEvents {
    /// Adds an event.
    pub(crate) fn add(&self, event: OriginalEvent) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= EVENTS_MAX {
            waiting.pop_front();
        }
        waiting.push_back(event);
    }

    /// Calls `state` with one after the other until it returns false, and removes those before.
    pub(crate) fn state_each(&self, mut state: impl FnMut(&OriginalEvent) -> bool) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(event) = waiting.front() {
            if !state(event) {
                return;
            }
            waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_in_order_and_the_newest_are_kept() {
        let events = OriginalEvents::default();
        for number in 0..EVENTS_MAX as i64 + 2 {
            let of = Original::TrafficController;
            let (title, body) = ("slow", String::new());
            events.add(OriginalEvent { of, timestamp_ns: number, title, body });
        }
        let mut stated = Vec::new();
        events.state_each(|event| {
            stated.push(event.timestamp_ns);
            stated.len() <= 2
        });
        // The third could not be stated, and waits.
        assert_eq!(stated, [2, 3, 4]);
        events.state_each(|event| {
            stated.push(event.timestamp_ns);
            true
        });
        assert_eq!(stated[3..], (4..EVENTS_MAX as i64 + 2).collect::<Vec<_>>());
    }
}
