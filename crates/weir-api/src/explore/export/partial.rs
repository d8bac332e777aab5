//! Reports to the client why an export is partial.
//!
//! What is known before the first byte is sent in the header [`PARTIAL_HEADER`]. What is noticed
//! later, such as a damaged segment after the first page, is sent in a trailer of the same name,
//! for clients that accept trailers. For all others the connection is cut once everything else has
//! been sent.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use weir_store::query::PartialReason;

/// The header with the reasons why the response is partial.
pub(super) const PARTIAL_HEADER: HeaderName = HeaderName::from_static("x-weir-partial");

/// How long the connection stays open after the end of the data before it is cut: what the kernel
/// has not received by then, at most 16 KiB, is lost to a client that learns of missing records
/// anyway.
pub(super) const CLOSE_DELAY: Duration = Duration::from_millis(250);

/// The reasons so far, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartialReasons(Vec<&'static str>);

impl PartialReasons {
    /// Adds the reasons of a page.
    pub(super) fn add(&mut self, partial_reasons: &[PartialReason]) {
        for reason in partial_reasons {
            let name = match reason {
                PartialReason::Deadline => "deadline",
                PartialReason::Memory => "memory",
                PartialReason::CatchingUp => "catching_up",
                PartialReason::Damaged { .. } => "damaged",
            };
            if !self.0.contains(&name) {
                self.0.push(name);
            }
        }
    }

    /// The value of the header or trailer; `None` if there is no reason.
    pub(super) fn headers(&self) -> HeaderMap {
        let names = HeaderValue::from_str(&self.0.join(",")).ok();
        let names = names.filter(|names| !names.is_empty());
        names.into_iter().map(|names| (PARTIAL_HEADER, names)).collect()
    }
}

/// Whether the client accepts trailers (RFC 9110, 10.1.4).
pub(super) fn accepts_trailers(version: Version, headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::TE).into_iter().filter_map(|list| list.to_str().ok());
    let mut codings = lists.flat_map(|list| list.split(','));
    version >= Version::HTTP_11
        && codings.any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_reported_once() {
        let damaged = |name: &str| PartialReason::Damaged { segments: vec![name.to_owned()] };
        let mut reasons = PartialReasons::default();
        assert!(reasons.headers().is_empty());
        reasons.add(&[PartialReason::CatchingUp, damaged("a")]);
        reasons.add(&[]);
        reasons.add(&[damaged("b")]);
        assert_eq!(reasons.headers()[PARTIAL_HEADER], "catching_up,damaged");
    }
}
