//! The cookies of requests (RFC 6265, section 4.2).
//!
//! Invariant: of several cookies with a name the first one counts, as clients send the one with the
//! longest path first.

use hyper::header::{COOKIE, HeaderMap};

/// Returns the value of a cookie, as it was sent.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = texts.flat_map(|text| text.split(';')).filter_map(|c| c.split_once('='));
    cookies.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}
