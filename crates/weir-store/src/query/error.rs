//! Why a question has no answer.

use weir_expr::CompileError;

use crate::embedded::segment::SegmentError;

/// Why a question has no answer, not even part of one.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The query has a regular expression that is too large when it is compiled.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// The question contradicts itself: says how.
    #[error("{0}")]
    Invalid(String),
    /// Nobody waits for the answer any more.
    #[error("nobody waits for the answer any more")]
    Cancelled,
    /// The disk failed: try again.
    #[error("{0}")]
    Read(#[from] SegmentError),
}
