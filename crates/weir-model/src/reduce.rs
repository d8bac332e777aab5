//! A batch with fewer of its records: what is left for those that still need any of it.

use crate::Batch;
use crate::builder::{BatchBuilder, Seal};
use crate::frame::HEADER_LEN;
use crate::merge::copy_record;

impl Batch {
    /// The records that any of these destinations gets, routed to them alone, in a batch from the
    /// same base to the same end, with the same book and state. `None` when that cannot be built.
    pub fn only_for(&self, cursors: &[usize]) -> Option<Self> {
        let header = self.header();
        let mut builder = BatchBuilder::new(header.base());
        let mut kept = Vec::new();
        for (index, record) in self.records().enumerate() {
            if !cursors.iter().any(|cursor| self.is_routed(index, *cursor)) {
                continue;
            }
            copy_record(&mut builder, &record)?;
            kept.push(index);
        }
        if self.is_utf8() {
            builder.vouch_utf8(HEADER_LEN..builder.arena().len());
        }
        let mut wanted = vec![0; cursors.iter().max().map_or(0, |last| last / 64 + 1)];
        for cursor in cursors {
            wanted[cursor / 64] |= 1 << (cursor % 64);
        }
        builder.route_all(&[]);
        for (index, original) in kept.into_iter().enumerate() {
            let mut mask = self.mask_of(original);
            for (word, bits) in mask.iter_mut().enumerate() {
                *bits &= wanted.get(word).copied().unwrap_or(0);
            }
            builder.route(index, &mask).ok()?;
        }
        let keys: Vec<u64> = self.keys().collect();
        Some(builder.seal(&Seal {
            class: header.class,
            repeatable: header.repeatable,
            stream: header.stream,
            group: header.group,
            source: header.source,
            end: header.end(),
            observed_ns: header.observed_ns,
            rule_generation: header.rule_generation,
            keys: &keys,
            resource: self.resource(),
            book: &self.book(),
            state: self.state(),
        }))
    }
}
