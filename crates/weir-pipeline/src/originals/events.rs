//! Events that the Loggregator components replaced by weir would emit, such as that a reader was
//! too slow. A source of type `loggregator_metrics` emits them.
//!
//! Invariants: adding an event never waits; the queue is limited, and the oldest event is dropped,
//! since metrics count the same incidents.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::Original;

/// Maximum number of queued events: more slow readers within one interval add no information. Each
/// event takes less than 3 KiB.
const EVENTS_MAX: usize = 100;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalEvent {
    /// The component.
    pub of: Original,
    /// When it happened, nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// Its title.
    pub title: &'static str,
    /// Its text: which reader, and the consequence.
    pub body: String,
}

/// The queued events, oldest first.
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

    /// Calls `state` with each event until it returns false, and removes the events before that.
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
