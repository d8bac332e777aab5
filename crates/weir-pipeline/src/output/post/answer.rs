//! What came back from a destination, and what that means for the records that were sent.

use std::time::Duration;

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// It names itself Splunk, whose behaviour in detail is known.
    pub(crate) is_splunk: bool,
    pub(crate) body: Vec<u8>,
    /// The body is all that the destination had to say: it ended properly, within what is read of
    /// an answer.
    pub(crate) is_whole: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The collector has the records.
    Delivered {
        /// Number under which the indexer's acknowledgement can be asked for.
        ack_id: Option<u64>,
        /// It asks to be sent less.
        slow_down: bool,
    },
    /// The request is too large: send it in parts.
    TooLarge,
    /// Some of the records are not acceptable.
    Refused(Refusal),
    /// Only an operator can help: try again slowly, keep everything.
    Alert(Problem),
    /// Try again.
    Retry(Problem),
}

/// Why records were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The collector's code; `None` when the answer was not one of a collector, and might be
    /// about something else than the records.
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
    /// The first bad record.
    pub(crate) first_bad: Option<usize>,
    /// Those before it were taken, as Splunk does. Others take nothing of such a request, or do
    /// not say: then a duplicate is better than a loss.
    pub(crate) took_before: bool,
}

/// What is wrong, for counters and for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Fixed word.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// How long the collector asks to be left alone.
    pub(crate) after: Option<Duration>,
    /// The collector or the way to it has too much to do.
    pub(crate) overload: bool,
}

impl Answer {
    /// The answer in few words.
    pub(crate) fn said(&self) -> String {
        let start = &self.body[..self.body.len().min(120)];
        let text = String::from_utf8_lossy(start);
        let words: Vec<&str> = text.split_whitespace().collect();
        let colon = if words.is_empty() { "" } else { ": " };
        format!("HTTP {}{colon}{}", self.status, words.join(" "))
    }
}

/// Longest that a `Retry-After` is followed: one wrong answer, or a wrong clock beside a date,
/// must not stop an output for days.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// Reads a `Retry-After` header: seconds, or an HTTP date seen from `now_unix_ns`.
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
