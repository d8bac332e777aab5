//! Errors of queries and deletions.

use weir_expr::CompileError;

use super::answer::PartialReason;
use crate::embedded::segment::SegmentError;
use crate::limits::DELETIONS_PENDING_MAX;

/// Reasons why a query has no result, not even a partial one.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The compiled regular expressions of the query are too large.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// The request is invalid, with the reason.
    #[error("{0}")]
    Invalid(String),
    /// The time limit was reached before the query was compiled.
    #[error("time limit reached while compiling the regular expressions of the query")]
    TooSlow,
    /// The record was not found, but not everything could be searched.
    #[error("record not found, but the search was incomplete: {}", reason(.0))]
    Inconclusive(PartialReason),
    /// The query was cancelled.
    #[error("query cancelled")]
    Cancelled,
    /// The disk failed: retry.
    #[error("{0}")]
    Read(#[from] SegmentError),
}

/// Returns the reason why not everything was searched.
fn reason(reason: &PartialReason) -> String {
    match reason {
        PartialReason::Deadline => "the time limit was reached".to_owned(),
        PartialReason::Memory => "the memory limit of a query was reached".to_owned(),
        PartialReason::CatchingUp => "the store is catching up".to_owned(),
        PartialReason::Damaged { segments } => {
            format!("these segments are damaged: {}", segments.join(", "))
        }
    }
}

/// Reasons why a deletion is not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// There is no deletion with this number, it is no longer listed, or the requester may not see
    /// all records.
    #[error("there is no deletion {0}")]
    Unknown(u64),
    /// Its records have been removed.
    #[error("deletion {0} is done: its records cannot be restored")]
    Done(u64),
    /// The store is starting or stopping.
    #[error("the store is not running")]
    NotRunning,
    /// The disk did not accept the change in time. The deletion continues.
    #[error("the cancellation could not be made durable in time: the deletion continues")]
    Late,
    /// The disk does not respond: check the list of deletions for the outcome.
    #[error("the cancellation was not confirmed in time: check the list of deletions")]
    Uncertain,
}

/// Reasons why nothing is deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Each pending deletion slows down every query. Retry when one is done.
    #[error("{} deletions are still pending: wait until one is done", DELETIONS_PENDING_MAX)]
    TooMany,
    /// The query uses a field that is calculated at query time, and whose calculation may change.
    #[error("@{0} is a calculated field: select the records to delete by stored fields")]
    CalculatedField(String),
    /// The query compares a number with a unit with a field whose unit is declared in the
    /// configuration, and may change.
    #[error("the unit of @{0} is declared in the configuration: write numbers without a unit")]
    DeclaredUnit(String),
    /// The store is starting or stopping.
    #[error("the store is not running")]
    NotRunning,
    /// The disk did not accept the request in time. Nothing was deleted.
    #[error("the deletion could not be made durable in time: nothing was deleted")]
    Late,
    /// The disk does not respond: check the list of deletions for the outcome.
    #[error("the deletion was not confirmed in time: check the list of deletions")]
    Uncertain,
}
