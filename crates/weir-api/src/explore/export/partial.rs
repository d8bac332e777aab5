//! Why an export is not the whole one, as its reader hears it.
//!
//! What is known before the first byte stands in the header [`PARTIAL`]. What turns up later, such
//! as a damaged segment behind the first page, stands in a trailer of that name, for readers that
//! take trailers. For all others the connection is cut once everything else has been sent.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use weir_store::query::Shortfall;

/// Why the answer is not the whole one.
pub(super) const PARTIAL: HeaderName = HeaderName::from_static("x-weir-partial");

/// How long the end of what was sent has to leave before the connection is cut: what has not been
/// given to the kernel by then, 16 KiB at most, is lost to a reader that hears of a loss anyway.
pub(super) const LINGER: Duration = Duration::from_millis(250);

/// The reasons so far, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reasons(Vec<&'static str>);

impl Reasons {
    /// Adds those of a page.
    pub(super) fn add(&mut self, shortfalls: &[Shortfall]) {
        for shortfall in shortfalls {
            let name = match shortfall {
                Shortfall::Deadline => "deadline",
                Shortfall::Memory => "memory",
                Shortfall::CatchingUp => "catching_up",
                Shortfall::Damaged { .. } => "damaged",
            };
            if !self.0.contains(&name) {
                self.0.push(name);
            }
        }
    }

    /// As a header or trailer: none when there is no reason.
    pub(super) fn headers(&self) -> HeaderMap {
        let names = HeaderValue::from_str(&self.0.join(",")).ok();
        let names = names.filter(|names| !names.is_empty());
        names.into_iter().map(|names| (PARTIAL, names)).collect()
    }
}

/// Whether whoever asks takes trailers (RFC 9110, 10.1.4).
pub(super) fn takes_trailers(version: Version, headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::TE).into_iter().filter_map(|list| list.to_str().ok());
    let mut codings = lists.flat_map(|list| list.split(','));
    version >= Version::HTTP_11
        && codings.any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_said_once() {
        let damaged = |name: &str| Shortfall::Damaged { segments: vec![name.to_owned()] };
        let mut reasons = Reasons::default();
        assert!(reasons.headers().is_empty());
        reasons.add(&[Shortfall::CatchingUp, damaged("a")]);
        reasons.add(&[]);
        reasons.add(&[damaged("b")]);
        assert_eq!(reasons.headers()[PARTIAL], "catching_up,damaged");
    }
}
