//! Readers of destinations, which are replaced and taken away while the process runs.

use fastrand::Rng;
use weir_journal::{CursorSpec, WhenFull};

use super::World;
use crate::oracle::Sink;
use crate::process::Reader;
use crate::support::{KIB, MIB, assert_books_balance};

impl World<'_> {
    /// Replaces the reader of a destination, takes it away, or gives one to a destination without.
    pub(super) fn change_reader(&mut self, rng: &mut Rng) {
        let index = rng.usize(..self.present.len());
        let Some(process) = &mut self.process else { return };
        let sink = &mut self.oracle.sinks[index];
        if !self.present[index] || process.readers[index].as_ref().is_some_and(Reader::holds) {
            return;
        }
        let name = sink.name.clone();
        let before = process.readers[index].take();
        let is_removed = before.is_some() && rng.bool();
        if is_removed {
            process.journal.detach(sink.index);
            process.removed.extend(before.map(|before| (name.clone(), before)));
        } else {
            let cursor = process.journal.cursor(spec(sink, rng)).expect("a cursor");
            let before = before.or_else(|| process.removed.remove(&name));
            let reader = Reader::new(cursor);
            process.readers[index] = Some(match before {
                Some(before) => before.replaced_by(reader),
                None => reader,
            });
        }
        assert_books_balance(&process.journal);
        self.trace
            .note(|| format!("  {name} {}", if is_removed { "is removed" } else { "is read" }));
        self.met(if is_removed { "Remove" } else { "NewReader" });
    }
}

/// Returns the settings of a destination's cursor.
pub(super) fn spec(sink: &Sink, rng: &mut Rng) -> CursorSpec {
    CursorSpec {
        name: sink.name.clone(),
        when_full: if sink.drops_oldest { WhenFull::DropOldest } else { WhenFull::Block },
        buffer_bytes_max: if sink.drops_oldest { rng.u64(1..16) * KIB } else { 64 * MIB },
        window_bytes: rng.u64(1..64) * KIB,
    }
}
