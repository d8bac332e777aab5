//! What a collector's response means for the records that were sent.
//!
//! Invariant: records are permanently refused only by a response that says so about the request
//! itself; everything else is retried, slowly where only an operator can help.

use serde::Deserialize;

use crate::output::post::answer::{Answer, Problem, Refusal, Verdict};

/// The JSON body of a collector's response.
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
    /// Returns the verdict on the request.
    pub(crate) fn of_collector(&self) -> Verdict {
        let body: Option<Body> = serde_json::from_slice(&self.body).ok();
        match (self.status, &body) {
            (200, _) if !self.is_whole => {
                self.retry("garbage", "sent an incomplete or oversized response", false)
            }
            (200, Some(body)) => self.by_code(body),
            (200, None) if self.body.is_empty() => delivered(None, false),
            (200, None) => {
                self.retry("garbage", "responded with status 200 but not as a collector", false)
            }
            (413, _) => Verdict::TooLarge,
            (400, Some(body)) if body.code.is_some() => self.by_code(body),
            (400, _) => self.refused(body.as_ref()),
            (401 | 403, _) => self.token(body.as_ref()),
            (415, _) => {
                self.alert("compression", "does not accept gzip: set compression = \"none\"")
            }
            (404 | 405, _) => {
                self.alert("endpoint", "has no HTTP event collector at this path: check endpoint")
            }
            (408 | 429 | 500..=599, _) => self.retry_later(body.as_ref()),
            (300..=303 | 305..=399, _) => {
                self.alert("redirect", "responded with a redirect: set endpoint to its target")
            }
            _ => self.alert(
                "status",
                "responded with a status that is unusual for a collector: check endpoint",
            ),
        }
    }

    fn by_code(&self, body: &Body) -> Verdict {
        match body.code {
            None | Some(0 | 17) => delivered(body.ack_id, false),
            Some(24 | 25) => delivered(body.ack_id, true),
            Some(1..=4 | 16 | 21 | 22) => self.token(Some(body)),
            Some(10 | 11) => self.alert(
                "channel",
                "requires a channel: set indexer_ack = true, or disable acknowledgement on the \
                 token",
            ),
            Some(14) => self.alert(
                "channel",
                "has indexer acknowledgement disabled for this token: set indexer_ack = false",
            ),
            Some(8 | 9 | 18..=20 | 23 | 26 | 27) => self.retry_later(Some(body)),
            Some(_) => self.refused(Some(body)),
        }
    }

    fn refused(&self, body: Option<&Body>) -> Verdict {
        Verdict::Refused(Refusal {
            code: body.and_then(|b| b.code),
            reason: self.said_about(body),
            first_bad: body.and_then(|b| b.invalid_event_number),
            took_before: self.is_splunk,
        })
    }

    fn token(&self, body: Option<&Body>) -> Verdict {
        let what = match body.and_then(|b| b.code) {
            Some(1 | 22) => "reports that the token is disabled: enable it there",
            _ => "does not accept the token: check token",
        };
        self.alert("token", what)
    }

    fn retry_later(&self, body: Option<&Body>) -> Verdict {
        let overload = self.status != 500 || body.and_then(|b| b.code).is_some_and(|c| c != 8);
        let kind = if overload { "busy" } else { "server_error" };
        self.retry(kind, "cannot accept records now", overload)
    }

    fn alert(&self, kind: &'static str, what: &str) -> Verdict {
        Verdict::Alert(self.problem(kind, what, false))
    }

    fn retry(&self, kind: &'static str, what: &str, overload: bool) -> Verdict {
        Verdict::Retry(self.problem(kind, what, overload))
    }

    fn problem(&self, kind: &'static str, what: &str, overload: bool) -> Problem {
        let body: Option<Body> = serde_json::from_slice(&self.body).ok();
        let text = format!("{what} ({})", self.said_about(body.as_ref()));
        Problem { kind, text, after: self.retry_after, overload }
    }

    /// Summarizes the response, in the collector's own words if it has any.
    fn said_about(&self, body: Option<&Body>) -> String {
        if let Some(Body { code: Some(code), text, .. }) = body {
            return format!("HTTP {}, code {code}: {text}", self.status);
        }
        self.said()
    }
}

fn delivered(ack_id: Option<u64>, slow_down: bool) -> Verdict {
    Verdict::Delivered { ack_id, slow_down }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, body: &str) -> Verdict {
        let body = body.as_bytes().to_vec();
        Answer { status, retry_after: None, is_splunk: false, grpc: None, body, is_whole: true }
            .of_collector()
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
            (304, 0, "status"),
            (418, 0, "status"),
            // An error in a body despite status 200.
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
}
