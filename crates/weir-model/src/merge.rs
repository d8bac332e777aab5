//! Joins two small consecutive batches of one stream into one, so that a trickle that nobody
//! reads at present does not cost a frame per line.

use crate::builder::{BatchBuilder, NewRecord, Seal};
use crate::frame::HEADER_LEN;
use crate::limits::FRAME_BYTES_MAX;
use crate::{Batch, RecordView};

impl Batch {
    /// The records of `first` and then `second` in one batch, with the end, book and state of
    /// `second`. `None` when they do not follow each other, differ in what a batch has in common
    /// (resource, class, routes, keys), or do not fit in one frame.
    pub fn merge(first: &Self, second: &Self) -> Option<Self> {
        let (a, b) = (first.header(), second.header());
        let follows = a.stream == b.stream && a.end() == b.base() && a.class == b.class;
        let alike = first.resource() == second.resource()
            && a.repeatable == b.repeatable
            && a.rule_generation == b.rule_generation
            && first.keys().eq(second.keys());
        let fits = first.frame_bytes() + second.frame_bytes() < FRAME_BYTES_MAX / 2;
        let mask = first.single_route().filter(|mask| second.single_route().as_ref() == Some(mask));
        if !follows || !alike || !fits {
            return None;
        }
        let mut builder = BatchBuilder::new(a.base());
        for record in first.records().chain(second.records()) {
            copy_record(&mut builder, &record)?;
        }
        if first.is_utf8() && second.is_utf8() {
            builder.vouch_utf8(HEADER_LEN..builder.arena().len());
        }
        builder.route_all(&mask?);
        let keys: Vec<u64> = first.keys().collect();
        Some(builder.seal(&Seal {
            class: b.class,
            repeatable: b.repeatable,
            stream: b.stream,
            group: b.group,
            source: b.source,
            end: b.end(),
            observed_ns: a.observed_ns,
            rule_generation: b.rule_generation,
            keys: &keys,
            resource: second.resource(),
            book: &second.book(),
            state: second.state(),
        }))
    }
}

/// Copies a record, routed to nothing; `None` when it does not fit.
pub(crate) fn copy_record(builder: &mut BatchBuilder, record: &RecordView<'_>) -> Option<()> {
    let body = builder.append(record.body).ok()?;
    let attributes = builder.append(record.attributes).ok()?;
    let copy = NewRecord {
        timestamp_ns: record.timestamp_ns,
        end_offset: record.position.offset,
        body,
        attributes,
        severity: record.severity,
        flags: record.flags,
    };
    builder.push(&copy).ok()
}
