//! The meaning of the end of a call for the envelopes that were sent.
//!
//! Invariant: only the status of a server that has read the whole call counts them as delivered;
//! nothing is refused, as no status concerns a single envelope.

use crate::output::post::answer::{Answer, GrpcEnd, Problem, Verdict};

/// Codes of <https://grpc.io/docs/guides/status-codes/>.
const OK: u32 = 0;
const UNKNOWN: u32 = 2;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// Message of the status with which Loggregator's servers end a call after its client has ended it:
/// the error that they got when reading the next message.
const END_OF_CALL: &str = "EOF";

impl Answer {
    /// Returns the verdict on the call.
    pub(crate) fn of_grpc(&self) -> Verdict {
        let Some(end) = &self.grpc else { return self.without_status() };
        match end.code {
            OK => Verdict::Delivered { ack_id: None, slow_down: false },
            UNKNOWN if end.message == END_OF_CALL => {
                Verdict::Delivered { ack_id: None, slow_down: false }
            }
            RESOURCE_EXHAUSTED if end.message.contains("larger than max") => Verdict::TooLarge,
            UNIMPLEMENTED => Verdict::Alert(
                end.problem("endpoint", "does not accept envelopes: check addresses"),
            ),
            PERMISSION_DENIED | UNAUTHENTICATED => {
                Verdict::Alert(end.problem("credentials", "does not accept the client: check tls"))
            }
            _ => Verdict::Retry(end.problem("busy", "cannot accept envelopes now")),
        }
    }

    /// Returns the verdict on a response that is not gRPC, or on a call that was cut off.
    fn without_status(&self) -> Verdict {
        match self.status {
            200 => Verdict::Retry(Problem {
                kind: "reset",
                text: "ended the call without a status".to_owned(),
                after: None,
                overload: false,
            }),
            _ => self.of_status(),
        }
    }
}

impl GrpcEnd {
    fn problem(&self, kind: &'static str, what: &str) -> Problem {
        let text = format!("{what} (gRPC status {}: {})", self.code, self.message);
        Problem { kind, text, after: None, overload: kind == "busy" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_verdict() {
        let word = |code: Option<u32>, message: &str| {
            let answer = Answer {
                status: 200,
                retry_after: None,
                is_splunk: false,
                grpc: code.map(|code| GrpcEnd { code, message: message.to_owned() }),
                body: Vec::new(),
                is_whole: true,
            };
            match answer.of_grpc() {
                Verdict::Delivered { .. } => "delivered",
                Verdict::TooLarge => "split",
                Verdict::Refused(_) => "refused",
                Verdict::Alert(problem) | Verdict::Retry(problem) => problem.kind,
            }
        };
        for (code, message, expected) in [
            (Some(0), "", "delivered"),
            (Some(2), "EOF", "delivered"),
            (Some(2), "unexpected EOF", "busy"),
            (Some(7), "", "credentials"),
            (Some(8), "grpc: received message larger than max (5 vs. 4)", "split"),
            (Some(8), "too many streams", "busy"),
            (Some(12), "unknown service", "endpoint"),
            (Some(14), "", "busy"),
            (Some(16), "", "credentials"),
            (None, "", "reset"),
        ] {
            assert_eq!(word(code, message), expected, "{code:?} {message}");
        }
    }
}
