//! The response of a destination, and its meaning for the records that were sent.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};

/// A response as received.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// How the call ended, if it was a gRPC call.
    pub(crate) grpc: Option<GrpcEnd>,
    /// It identifies itself as Splunk, whose behavior is known in detail.
    pub(crate) is_splunk: bool,
    pub(crate) body: Vec<u8>,
    /// The body is complete: it ended properly, within the limit for responses.
    pub(crate) is_whole: bool,
}

/// The status of a gRPC call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrpcEnd {
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl GrpcEnd {
    /// Returns the status in headers or trailers, if there is one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let message = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
        Some(Self { code, message: String::from_utf8_lossy(message).into_owned() })
    }
}

/// What to do after a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The destination has accepted the records.
    Delivered {
        /// ID with which the indexer acknowledgement can be queried.
        ack_id: Option<u64>,
        /// It asks for less traffic.
        slow_down: bool,
    },
    /// The request is too large: send it in parts.
    TooLarge,
    /// Some of the records are not acceptable.
    Refused(Refusal),
    /// Only an operator can help: retry slowly, keep everything.
    Alert(Problem),
    /// Retry.
    Retry(Problem),
}

/// Why records were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The collector's code; `None` if the response was not from a collector, and might concern
    /// something other than the records.
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
    /// The first bad record.
    pub(crate) first_bad: Option<usize>,
    /// The records before it were accepted, as Splunk does. Other destinations accept nothing of
    /// such a request, or do not say: then a duplicate is better than a loss.
    pub(crate) took_before: bool,
}

/// A problem, for counters and for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Fixed identifier.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// How long the collector asks to wait.
    pub(crate) after: Option<Duration>,
    /// The collector or the network is overloaded.
    pub(crate) overload: bool,
}

impl Answer {
    /// Summarizes the response.
    pub(crate) fn said(&self) -> String {
        let start = &self.body[..self.body.len().min(120)];
        let text = String::from_utf8_lossy(start);
        let words: Vec<&str> = text.split_whitespace().collect();
        let colon = if words.is_empty() { "" } else { ": " };
        format!("HTTP {}{colon}{}", self.status, words.join(" "))
    }
}

/// Maximum `Retry-After` that is honored: one wrong response, or a wrong clock combined with a
/// date, must not stop an output for days.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// Parses a `Retry-After` header: seconds, or an HTTP date relative to `now_unix_ns`.
pub(crate) fn retry_after(value: &str, now_unix_ns: i64) -> Option<Duration> {
    asked_pause(value.trim(), now_unix_ns).map(|pause| pause.min(RETRY_AFTER_MAX))
}

fn asked_pause(value: &str, now_unix_ns: i64) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?;
    let now = Duration::from_nanos(now_unix_ns.max(0).cast_unsigned());
    Some(date.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = 784_111_777 * 1_000_000_000;
        assert_eq!(retry_after("120", now), Some(Duration::from_mins(2)));
        let date = "Sun, 06 Nov 1994 08:49:47 GMT";
        assert_eq!(retry_after(date, now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after(date, now * 2), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("99999999999", now), Some(RETRY_AFTER_MAX));
    }
}
