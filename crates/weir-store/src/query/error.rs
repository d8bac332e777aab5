//! Why a question has no answer.

use weir_expr::CompileError;

use super::answer::Shortfall;
use crate::embedded::segment::SegmentError;
use crate::limits::DELETIONS_PENDING_MAX;

/// Why a question has no answer, not even part of one.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Regular expressions of the query are too large when they are compiled.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// The question contradicts itself: says how.
    #[error("{0}")]
    Invalid(String),
    /// The time was up before it was clear what is sought.
    #[error("the time was up while the regular expressions of the query were compiled")]
    TooSlow,
    /// A record was not found where it could be looked for, which was not everywhere.
    #[error("the record was not found, but may be there: {}", reason(.0))]
    Unfound(Shortfall),
    /// Nobody waits for the answer any more.
    #[error("nobody waits for the answer any more")]
    Cancelled,
    /// The disk failed: try again.
    #[error("{0}")]
    Read(#[from] SegmentError),
}

/// Why not everything was looked at.
fn reason(shortfall: &Shortfall) -> String {
    match shortfall {
        Shortfall::Deadline => "the time was up".to_owned(),
        Shortfall::Memory => "the memory of a query was used up".to_owned(),
        Shortfall::CatchingUp => "the store is catching up".to_owned(),
        Shortfall::Damaged { segments } => {
            format!("these segments are damaged: {}", segments.join(", "))
        }
    }
}

/// Why a deletion is not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// There is none of this number, or it is forgotten; or whoever asks may not see everything.
    #[error("there is no deletion {0}")]
    Unknown(u64),
    /// Its records are gone.
    #[error("deletion {0} is done: nothing is left to be shown again")]
    Done(u64),
    /// The store is starting or stopping.
    #[error("the store does not run")]
    NotRunning,
    /// The disk does not take it. The deletion goes on.
    #[error("it could not be made durable in time, and was given up: the deletion goes on")]
    Late,
    /// The disk does not answer: look into the list whether it counts.
    #[error("it could not be made durable in time, but may be: look what is listed")]
    Uncertain,
}

/// Why nothing is deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Each pending one costs every query something. Try again when one is done.
    #[error("{} deletions are not done yet: wait for one", DELETIONS_PENDING_MAX)]
    TooMany,
    /// The query names an attribute that is computed when it is asked for, and may be computed
    /// otherwise tomorrow.
    #[error("@{0} is computed, and no record has it: delete by what records have")]
    Computed(String),
    /// The store is starting or stopping.
    #[error("the store does not run")]
    NotRunning,
    /// The disk does not take it. Nothing was deleted.
    #[error("it could not be made durable in time, and was given up: nothing was deleted")]
    Late,
    /// The disk does not answer: look into the list whether it counts.
    #[error("it could not be made durable in time, but may be: look whether it is listed")]
    Uncertain,
}
