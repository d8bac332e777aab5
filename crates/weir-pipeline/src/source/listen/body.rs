//! Reads the body of a request, within limits of size, memory and time.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use super::budget::Charge;
use super::limits::{BODY_IDLE_TIMEOUT, BODY_TIMEOUT};

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum BodyError {
    /// It exceeds the limit.
    TooLarge,
    /// Other requests occupy the memory.
    NoRoom,
    /// It was not received in time.
    Timeout,
    /// The connection broke, or the data was not valid HTTP.
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
    let frame = timeout(BODY_IDLE_TIMEOUT, timeout_at(deadline, body.frame())).await;
    match frame {
        Ok(Ok(None)) => Ok(None),
        // Trailers are ignored.
        Ok(Ok(Some(Ok(frame)))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Ok(Some(Err(_)))) => Err(BodyError::Broken),
        Ok(Err(_)) | Err(_) => Err(BodyError::Timeout),
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
    let deadline = Instant::now() + BODY_TIMEOUT;
    // The stated length, so that nothing is copied while it grows: memory is used only as data
    // arrives.
    let mut bytes = Vec::with_capacity(body.size_hint().lower() as usize);
    while let Some(more) = next(body, deadline).await? {
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

/// Discards the rest of an unwanted body, up to the usual limit: many clients send all of it before
/// they read the response, and closing a connection with unread bytes loses the response.
pub(super) async fn discard(body: &mut Incoming, bytes_max: usize) {
    let deadline = Instant::now() + BODY_TIMEOUT;
    let mut left = bytes_max;
    while let Ok(Some(more)) = next(body, deadline).await {
        let Some(rest) = left.checked_sub(more.len()) else { return };
        left = rest;
    }
}
