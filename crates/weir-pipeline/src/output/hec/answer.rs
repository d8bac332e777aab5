//! What a collector's answer means for the records that were sent.
//!
//! Invariant: records are refused for good only by an answer that says so about the request
//! itself; everything else is tried again, slowly where only an operator can help.

use std::time::Duration;

use serde::Deserialize;

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// It names itself Splunk, whose behaviour in detail is known.
    pub(crate) is_splunk: bool,
    pub(crate) body: Vec<u8>,
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

/// The JSON body of a collector's answer.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default)]
    text: String,
    code: Option<u16>,
    #[serde(rename = "ackId", alias = "ackID")]
    ack_id: Option<u64>,
    #[serde(rename = "invalid-event-number")]
    invalid_event_number: Option<usize>,
}

impl Answer {
    /// The verdict on the request that was answered.
    pub(crate) fn verdict(&self) -> Verdict {
        let body: Option<Body> = serde_json::from_slice(&self.body).ok();
        match (self.status, &body) {
            (200, Some(body)) => self.by_code(body),
            (200, None) if self.body.is_empty() => delivered(None, false),
            (200, None) => self.retry(
                "garbage",
                "answers 200 with something that is no collector's answer",
                false,
            ),
            (413, _) => Verdict::TooLarge,
            (400, Some(body)) if body.code.is_some() => self.by_code(body),
            (400, _) => self.refused(body.as_ref()),
            (401 | 403, _) => self.token(body.as_ref()),
            (415, _) => {
                self.alert("compression", "does not accept gzip: set compression = \"none\"")
            }
            (404 | 405, _) => {
                self.alert("endpoint", "has no event collector at this path: check endpoint")
            }
            (408 | 429 | 500..=599, _) => self.retry_later(body.as_ref()),
            (300..=399, _) => {
                self.alert("redirect", "answers with a redirect: set endpoint to where it leads")
            }
            _ => self
                .alert("status", "answers with a status that no collector gives: check endpoint"),
        }
    }

    fn by_code(&self, body: &Body) -> Verdict {
        match body.code {
            None | Some(0 | 17) => delivered(body.ack_id, false),
            Some(24 | 25) => delivered(body.ack_id, true),
            Some(1..=4 | 16 | 21 | 22) => self.token(Some(body)),
            Some(10 | 11) => self.alert("channel", "asks for a channel: set indexer_ack = true, or disable acknowledgement on the token"),
            Some(14) => self.alert("channel", "has no indexer acknowledgement for this token: set indexer_ack = false"),
            Some(8 | 9 | 18..=20 | 23 | 26 | 27) => self.retry_later(Some(body)),
            Some(_) => self.refused(Some(body)),
        }
    }

    fn refused(&self, body: Option<&Body>) -> Verdict {
        Verdict::Refused(Refusal {
            code: body.and_then(|b| b.code),
            reason: self.said(body),
            first_bad: body.and_then(|b| b.invalid_event_number),
            took_before: self.is_splunk,
        })
    }

    fn token(&self, body: Option<&Body>) -> Verdict {
        let what = match body.and_then(|b| b.code) {
            Some(1 | 22) => "says that the token is disabled: enable it there",
            _ => "does not accept the token: check token",
        };
        self.alert("token", what)
    }

    fn retry_later(&self, body: Option<&Body>) -> Verdict {
        let overload = self.status != 500 || body.and_then(|b| b.code).is_some_and(|c| c != 8);
        let kind = if overload { "busy" } else { "server_error" };
        self.retry(kind, "cannot take records now", overload)
    }

    fn alert(&self, kind: &'static str, what: &str) -> Verdict {
        Verdict::Alert(self.problem(kind, what, false))
    }

    fn retry(&self, kind: &'static str, what: &str, overload: bool) -> Verdict {
        Verdict::Retry(self.problem(kind, what, overload))
    }

    fn problem(&self, kind: &'static str, what: &str, overload: bool) -> Problem {
        let body: Option<Body> = serde_json::from_slice(&self.body).ok();
        let text = format!("{what} ({})", self.said(body.as_ref()));
        Problem { kind, text, after: self.retry_after, overload }
    }

    /// The answer in few words.
    fn said(&self, body: Option<&Body>) -> String {
        if let Some(Body { code: Some(code), text, .. }) = body {
            return format!("HTTP {}, code {code}: {text}", self.status);
        }
        let start = &self.body[..self.body.len().min(120)];
        let text = String::from_utf8_lossy(start);
        let words: Vec<&str> = text.split_whitespace().collect();
        let colon = if words.is_empty() { "" } else { ": " };
        format!("HTTP {}{colon}{}", self.status, words.join(" "))
    }
}

fn delivered(ack_id: Option<u64>, slow_down: bool) -> Verdict {
    Verdict::Delivered { ack_id, slow_down }
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

    fn verdict(status: u16, body: &str) -> Verdict {
        let body = body.as_bytes().to_vec();
        Answer { status, retry_after: None, is_splunk: false, body }.verdict()
    }

    fn word(status: u16, code: u16) -> &'static str {
        match verdict(status, &format!(r#"{{"text":"T","code":{code}}}"#)) {
            Verdict::Delivered { slow_down: false, .. } => "delivered",
            Verdict::Delivered { .. } => "delivered, slower",
            Verdict::TooLarge => "split",
            Verdict::Refused(_) => "refused",
            Verdict::Alert(problem) => problem.kind,
            Verdict::Retry(_) => "retry",
        }
    }

    #[test]
    fn every_code_of_the_protocol_has_its_verdict() {
        let expected = [
            (200, 0, "delivered"),
            (403, 1, "token"),
            (401, 2, "token"),
            (401, 3, "token"),
            (403, 4, "token"),
            (400, 5, "refused"),
            (400, 6, "refused"),
            (400, 7, "refused"),
            (500, 8, "retry"),
            (503, 9, "retry"),
            (400, 10, "channel"),
            (400, 11, "channel"),
            (400, 12, "refused"),
            (400, 13, "refused"),
            (400, 14, "channel"),
            (400, 15, "refused"),
            (400, 16, "token"),
            (200, 17, "delivered"),
            (503, 18, "retry"),
            (503, 19, "retry"),
            (503, 20, "retry"),
            (400, 21, "token"),
            (400, 22, "token"),
            (503, 23, "retry"),
            (200, 24, "delivered, slower"),
            (200, 25, "delivered, slower"),
            (429, 26, "retry"),
            (429, 27, "retry"),
            (413, 0, "split"),
            (404, 404, "endpoint"),
            (415, 0, "compression"),
            (302, 0, "redirect"),
            (418, 0, "status"),
            // An error in a body that says 200.
            (200, 6, "refused"),
            (200, 9, "retry"),
            (200, 4, "token"),
        ];
        for (status, code, want) in expected {
            assert_eq!(word(status, code), want, "HTTP {status} code {code}");
        }
    }

    #[test]
    fn answers_that_are_not_a_collectors_are_never_taken_as_success() {
        assert!(matches!(verdict(200, "<html>login</html>"), Verdict::Retry(_)));
        assert!(matches!(verdict(502, "<html>bad gateway</html>"), Verdict::Retry(_)));
        assert!(matches!(verdict(413, "<html>too large</html>"), Verdict::TooLarge));
        assert!(matches!(verdict(204, ""), Verdict::Alert(_)));
        assert_eq!(verdict(200, ""), delivered(None, false));
        let Verdict::Refused(refusal) = verdict(400, "<html>bad</html>") else { panic!() };
        assert_eq!(refusal.code, None);
    }

    #[test]
    fn numbers_in_the_answer_are_read() {
        let verdict_ok = verdict(200, r#"{"text":"Success","code":0,"ackId":7}"#);
        assert_eq!(verdict_ok, delivered(Some(7), false));
        let bad =
            verdict(400, r#"{"text":"Invalid data format","code":6,"invalid-event-number":3}"#);
        let Verdict::Refused(refusal) = bad else { panic!() };
        assert_eq!((refusal.code, refusal.first_bad), (Some(6), Some(3)));
        assert_eq!(refusal.reason, "HTTP 400, code 6: Invalid data format");
    }

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
