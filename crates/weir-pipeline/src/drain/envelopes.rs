//! Records as Loggregator envelopes, which drains send.
//!
//! Invariant: the streams of drains contain envelopes.

use std::sync::Arc;

use super::taken::{Origin, Row};
use crate::live::RecordEnvelopes;
use crate::source::SourceNames;

/// Finds or writes envelopes.
#[derive(Debug)]
pub(super) struct Envelopes(RecordEnvelopes);

impl Envelopes {
    pub(super) fn new(sources: Arc<SourceNames>) -> Self {
        Self(RecordEnvelopes::new(sources))
    }

    /// Returns the envelope of a record.
    pub(super) fn of<'a>(&'a mut self, row: &'a Row) -> &'a [u8] {
        let record = row.record();
        match row.taken.origin {
            Origin::Stream => record.original(),
            Origin::Source => {
                self.0.envelope(&row.taken.delivery.batch, &record).unwrap_or_default()
            }
        }
    }
}
