//! Cursors of outputs that are no longer configured, dropped while everything else runs.
//!
//! Invariants: a cursor is dropped only if no rule in force routes to its output. Whether the
//! output is configured is decided under the lock under which outputs get their cursors, so a
//! reload that brings it back either comes first, and the drop is refused, or later, and the output
//! is new.

use weir_host::units::group_digits;
use weir_journal::DropCursorError;

use crate::view::PipelineView;

/// Why a cursor is not dropped, or not for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CursorChangeError {
    /// It was not dropped.
    #[error(transparent)]
    Refused(#[from] DropCursorError),
    /// It was dropped, and this is not on stable storage.
    #[error(
        "the cursor {name:?} was dropped, but this could not be saved: {error}; if weir ends before \
         that, the cursor is back at the next start"
    )]
    NotSaved {
        /// Its name.
        name: String,
        /// The cause.
        error: String,
    },
}

impl PipelineView {
    /// Drops the cursor of an output that is no longer configured, with everything that waits for
    /// it. Returns the number of discarded records once the change is on stable storage, for which
    /// it waits.
    pub fn drop_cursor(&self, name: &str) -> Result<u64, CursorChangeError> {
        // An output that could not be restarted has no reader, but the rules route to it.
        if self.output(name).is_some() {
            return Err(DropCursorError::Configured { name: name.to_owned() }.into());
        }
        let records = self.journal.drop_cursor(name)?;
        tracing::info!(
            output = name,
            records,
            "the cursor of {name} was dropped: {} records discarded",
            group_digits(records),
        );
        let not_saved = |error| CursorChangeError::NotSaved { name: name.to_owned(), error };
        self.journal.try_flush().map_err(not_saved)?;
        self.journal.free_space();
        Ok(records)
    }
}
