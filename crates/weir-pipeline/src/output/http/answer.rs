//! What a status code means for the records that were sent.
//!
//! Invariant: only a status that concerns the content of the request refuses records; if it
//! concerns the URL, the credentials or a temporary condition, the records are kept.

use crate::output::post::answer::{Answer, Problem, Refusal, Verdict};

impl Answer {
    /// Returns the verdict on the request.
    pub(crate) fn of_status(&self) -> Verdict {
        let alert = |kind, what| Verdict::Alert(self.about(kind, what, false));
        match self.status {
            200..=299 => Verdict::Delivered { ack_id: None, slow_down: false },
            300..=303 | 305..=399 => {
                alert("redirect", "responded with a redirect: set url to its target")
            }
            401 | 403 | 407 => alert("credentials", "does not accept the credentials: check them"),
            404 | 405 | 410 => {
                alert("endpoint", "accepts nothing at this path: check url and method")
            }
            413 => Verdict::TooLarge,
            415 => alert("format", "does not accept the format or compression: change one of them"),
            408 | 421 | 425 | 429 | 500..=599 => {
                let overload = !matches!(self.status, 500 | 501);
                let kind = if overload { "busy" } else { "server_error" };
                Verdict::Retry(self.about(kind, "cannot accept records now", overload))
            }
            400..=499 => Verdict::Refused(Refusal {
                code: None,
                reason: self.said(),
                first_bad: None,
                took_before: false,
            }),
            _ => alert("status", "responded with an unexpected status: check url"),
        }
    }

    fn about(&self, kind: &'static str, what: &str, overload: bool) -> Problem {
        let text = format!("{what} ({})", self.said());
        Problem { kind, text, after: self.retry_after, overload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_verdict() {
        let word = |status| {
            let answer = Answer {
                status,
                retry_after: None,
                is_splunk: false,
                grpc: None,
                body: Vec::new(),
                is_whole: false,
            };
            match answer.of_status() {
                Verdict::Delivered { .. } => "delivered",
                Verdict::TooLarge => "split",
                Verdict::Refused(_) => "refused",
                Verdict::Alert(problem) | Verdict::Retry(problem) => problem.kind,
            }
        };
        for (status, expected) in [
            (200, "delivered"),
            (202, "delivered"),
            (204, "delivered"),
            (302, "redirect"),
            (304, "status"),
            (400, "refused"),
            (401, "credentials"),
            (403, "credentials"),
            (404, "endpoint"),
            (405, "endpoint"),
            (408, "busy"),
            (413, "split"),
            (415, "format"),
            (422, "refused"),
            (429, "busy"),
            (500, "server_error"),
            (503, "busy"),
            (101, "status"),
            (999, "status"),
        ] {
            assert_eq!(word(status), expected, "HTTP {status}");
        }
    }
}
