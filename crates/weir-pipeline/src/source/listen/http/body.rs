//! Reads the body of a request, within limits of size, memory and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use super::super::limits::{
    BODY_BYTES_PER_SECOND_MIN, BODY_IDLE_TIMEOUT, BODY_TIMEOUT, DISCARD_TIMEOUT,
};
use super::budget::Charge;

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum BodyError {
    /// It exceeds the limit.
    TooLarge,
    /// Other requests use all of the memory.
    NoRoom,
    /// It was not received in time.
    Timeout,
    /// The connection failed, or the data was not valid HTTP.
    Broken,
}

/// A received body, and the memory charged for it.
#[derive(Debug)]
pub(in crate::source) struct Body {
    pub(in crate::source) bytes: Vec<u8>,
    /// Released when the body is dropped.
    _charge: Charge,
}

/// Returns the next bytes; `None` at the end.
async fn next(body: &mut Incoming, deadline: Instant) -> Result<Option<Bytes>, BodyError> {
    match timeout_at(deadline.min(Instant::now() + BODY_IDLE_TIMEOUT), body.frame()).await {
        Ok(None) => Ok(None),
        // Trailers are ignored.
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(_))) => Err(BodyError::Broken),
        Err(_) => Err(BodyError::Timeout),
    }
}

/// Reads the whole body.
pub(super) async fn read(
    body: &mut Incoming,
    bytes_max: usize,
    mut charge: Charge,
) -> Result<Body, BodyError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let started_at = Instant::now();
    // The stated length, so that nothing is copied while it grows: memory is used only as data
    // arrives.
    let mut bytes = Vec::with_capacity(body.size_hint().lower() as usize);
    while let Some(more) = next(body, started_at + time_limit(bytes.len())).await? {
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

/// Returns the maximum time to receive a body of which this many bytes have arrived.
fn time_limit(bytes: usize) -> Duration {
    BODY_TIMEOUT + Duration::from_secs((bytes / BODY_BYTES_PER_SECOND_MIN) as u64)
}

/// Discards the rest of an unwanted body, up to the usual limit: closing a connection with unread
/// bytes loses the response.
pub(super) async fn discard(mut body: Incoming, bytes_max: usize) {
    let deadline = Instant::now() + DISCARD_TIMEOUT;
    let mut left = bytes_max;
    while let Ok(Some(more)) = next(&mut body, deadline).await {
        let Some(rest) = left.checked_sub(more.len()) else { return };
        left = rest;
    }
}
