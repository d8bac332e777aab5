//! Totals of counters, which are added to envelopes that contain only an increment, as by an agent.
//!
//! Invariants: an increment counts once, when its envelope was added; the number of counters is
//! limited, and all are forgotten at once, as by an agent.

use std::collections::HashMap;

use weir_codec::{LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags};
use weir_model::hash64;

/// Maximum number of counters, as in an agent.
const COUNTERS_MAX: usize = 10_000;

/// Recently seen counters, by source, name and tags.
#[derive(Debug, Default)]
pub(super) struct Totals {
    by_key: HashMap<Vec<u8>, u64>,
    key: Vec<u8>,
}

impl Totals {
    /// Returns the total of the counter including this envelope, or `None` if the envelope is not a
    /// counter. It counts once it is passed to [`Self::set`].
    #[inline]
    pub(super) fn with(
        &mut self,
        envelope: &LoggregatorEnvelope<'_>,
        source_id: &[u8],
        tags: &LoggregatorTags,
    ) -> Option<u64> {
        let LoggregatorMessage::Counter { name, delta, total } = envelope.message else {
            return None;
        };
        self.key.clear();
        for part in [source_id, name] {
            self.key.extend_from_slice(&(part.len() as u32).to_le_bytes());
            self.key.extend_from_slice(part);
        }
        let mut tags_hash = 0_u64;
        let mut text = Vec::new();
        for (tag, value) in tags.iter(envelope.bytes) {
            text.clear();
            text.extend_from_slice(tag);
            text.push(0);
            value.write(&mut text);
            // A sum, since the order of tags is irrelevant.
            tags_hash = tags_hash.wrapping_add(hash64(&text));
        }
        self.key.extend_from_slice(&tags_hash.to_le_bytes());
        if total != 0 || delta == 0 {
            return Some(total);
        }
        let known = self.by_key.get(&self.key).copied().unwrap_or(0);
        Some(known.wrapping_add(delta))
    }

    /// Sets the total of the counter of the last call of [`Self::with`].
    pub(super) fn set(&mut self, total: u64) {
        if let Some(known) = self.by_key.get_mut(&self.key) {
            *known = total;
            return;
        }
        if self.by_key.len() >= COUNTERS_MAX {
            self.by_key.clear();
        }
        self.by_key.insert(self.key.clone(), total);
    }
}

#[cfg(test)]
mod tests {
    use weir_codec::encode_loggregator_envelope;

    use super::*;

    fn total(totals: &mut Totals, delta: u64, total: u64, tags: &[(&str, &str)]) -> Option<u64> {
        let message = LoggregatorMessage::Counter { name: b"hits", delta, total };
        let envelope = LoggregatorEnvelope { source_id: b"app", message, ..Default::default() };
        let (mut bytes, mut read) = (Vec::new(), LoggregatorTags::default());
        encode_loggregator_envelope(&envelope, tags, &mut bytes);
        let envelope = LoggregatorEnvelope::parse(&bytes, &mut read).unwrap();
        let total = totals.with(&envelope, b"app", &read)?;
        totals.set(total);
        Some(total)
    }

    #[test]
    fn increments_add_up_by_tags_and_a_stated_total_replaces_them() {
        let mut totals = Totals::default();
        let (a, b) = (("zone", "a"), ("job", "b"));
        assert_eq!(total(&mut totals, 3, 0, &[a, b]), Some(3));
        assert_eq!(total(&mut totals, 4, 0, &[b, a]), Some(7));
        assert_eq!(total(&mut totals, 4, 0, &[a]), Some(4));
        assert_eq!(total(&mut totals, 1, 100, &[a, b]), Some(100));
        assert_eq!(total(&mut totals, 1, 0, &[a, b]), Some(101));
        assert_eq!(total(&mut totals, 0, 0, &[a, b]), Some(0));
    }

    #[test]
    fn an_increment_that_was_not_added_does_not_count() {
        let mut totals = Totals::default();
        let message = LoggregatorMessage::Counter { name: b"hits", delta: 5, total: 0 };
        let envelope = LoggregatorEnvelope { message, ..Default::default() };
        let tags = LoggregatorTags::default();
        for _ in 0..2 {
            assert_eq!(totals.with(&envelope, b"app", &tags), Some(5));
        }
        let none = LoggregatorEnvelope::default();
        assert_eq!(totals.with(&none, b"app", &tags), None);
    }

    #[test]
    fn memory_for_counters_is_limited() {
        let mut totals = Totals::default();
        for number in 0..3 * COUNTERS_MAX {
            total(&mut totals, 1, 0, &[("number", &number.to_string())]);
        }
        assert!(totals.by_key.len() <= COUNTERS_MAX);
    }
}
