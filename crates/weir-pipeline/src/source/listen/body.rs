//! Reads the body of a request, within its bounds of bytes, memory and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use super::budget::Charge;
use super::limits::{BODY_BYTES_PER_SECOND_MIN, BODY_IDLE_TIMEOUT, BODY_TIMEOUT, DISCARD_TIMEOUT};

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum BodyError {
    /// It is larger than allowed.
    TooLarge,
    /// Other requests hold the memory.
    NoRoom,
    /// It did not come in time.
    Timeout,
    /// The connection broke, or what came is no HTTP.
    Broken,
}

/// A body as it came, and the memory that it is charged for.
#[derive(Debug)]
pub(in crate::source) struct Body {
    pub(in crate::source) bytes: Vec<u8>,
    /// Given back when the body is dropped.
    _charge: Charge,
}

/// The next bytes; `None` at the end.
async fn next(body: &mut Incoming, deadline: Instant) -> Result<Option<Bytes>, BodyError> {
    match timeout_at(deadline.min(Instant::now() + BODY_IDLE_TIMEOUT), body.frame()).await {
        Ok(None) => Ok(None),
        // Trailers say nothing.
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(_))) => Err(BodyError::Broken),
        Err(_) => Err(BodyError::Timeout),
    }
}

/// Reads all of it.
pub(super) async fn read(
    body: &mut Incoming,
    bytes_max: usize,
    mut charge: Charge,
) -> Result<Body, BodyError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let begun = Instant::now();
    // What is stated, so that nothing is copied while it grows: it costs memory only as it comes.
    let mut bytes = Vec::with_capacity(body.size_hint().lower() as usize);
    while let Some(more) = next(body, begun + time_for(bytes.len())).await? {
        if bytes.len() + more.len() > bytes_max {
            return Err(BodyError::TooLarge);
        }
        if !charge.grow(more.len()) {
            return Err(BodyError::NoRoom);
        }
        bytes.extend_from_slice(&more);
    }
    Ok(Body { bytes, _charge: charge })
}

/// Longest time for a body of which so many bytes have come.
fn time_for(bytes: usize) -> Duration {
    BODY_TIMEOUT + Duration::from_secs((bytes / BODY_BYTES_PER_SECOND_MIN) as u64)
}

/// Takes what is left of a body that is not wanted, as much as would have been read: a connection
/// that is closed over unread bytes loses the answer.
pub(super) async fn discard(mut body: Incoming, bytes_max: usize) {
    let deadline = Instant::now() + DISCARD_TIMEOUT;
    let mut left = bytes_max;
    while let Ok(Some(more)) = next(&mut body, deadline).await {
        let Some(rest) = left.checked_sub(more.len()) else { return };
        left = rest;
    }
}
