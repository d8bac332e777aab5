//! `type = "datadog_intake"`: Datadog's logs intake, compatible with its agents, client libraries
//! and log shippers (<https://docs.datadoghq.com/api/latest/logs/#send-logs>).
//!
//! Invariants: 202 is returned only when every log of the request is on stable storage, or was
//! discarded by rules and counted; a request is accepted as a whole or not at all; clients are told
//! to retry only if the reason is temporary, everything else is refused permanently.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts as Head;
use hyper::{Method, StatusCode};
use weir_codec::{DatadogDefaults, DatadogError, DatadogFormat, DatadogItems, DatadogRequest};
use weir_host::{ContentCoding, DecompressError, Secret};
use weir_model::DiscardReason;
use weir_model::limits::LINE_BYTES_MAX;

use super::listen::limits::{
    BODY_BYTES_MAX, RETRY_AFTER_BUSY, RETRY_AFTER_DISK, RETRY_AFTER_LIMIT_MAX,
};
use super::listen::{
    Answer, Body, BodyError, Claim, Limiter, Origin, Refusal, Request, RequestContext,
    retry_after_seconds,
};
use crate::config::ListenSettings;

/// `type = "datadog_intake"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DatadogIntake {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Maximum size of the bodies being received, over all connections.
    pub in_flight_bytes_max: usize,
    /// Comma-separated keys, one of which clients must send; `None` = no key is required.
    pub api_keys: Option<Secret>,
}

/// The state of the intake that is independent of requests.
pub(super) struct Intake {
    /// Keys, one of which a client must send; `None` = no key is required.
    keys: Option<Vec<String>>,
    scratch: RefCell<Scratch>,
}

/// Buffers, reused for one request after another.
#[derive(Default)]
struct Scratch {
    plain: Vec<u8>,
    items: DatadogItems,
    /// For each item whether it is discarded for its quota; empty if there is none.
    discarded: Vec<bool>,
    key: Vec<u8>,
}

/// The meaning of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route<'a> {
    /// `/api/v2/logs`.
    Logs,
    /// `/v1/input`, possibly with the key in the path.
    LegacyLogs(Option<&'a str>),
    /// `/api/v1/validate`.
    Validate,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        match path.trim_end_matches('/') {
            "/api/v2/logs" => Some(Self::Logs),
            "/v1/input" => Some(Self::LegacyLogs(None)),
            "/api/v1/validate" => Some(Self::Validate),
            other => Some(Self::LegacyLogs(Some(other.strip_prefix("/v1/input/")?))),
        }
    }

    fn method(self) -> Method {
        if self == Self::Validate { Method::GET } else { Method::POST }
    }
}

impl Intake {
    /// Creates an intake with the comma-separated keys, one of which clients must send.
    pub(super) fn new(keys: Option<&Secret>) -> Self {
        // An invalid list, which the configuration check rejects, matches no key.
        let list = |keys: &Secret| {
            keys.list().unwrap_or_default().into_iter().map(str::to_owned).collect()
        };
        Self { keys: keys.map(list), scratch: RefCell::default() }
    }

    /// Handles a request.
    pub(super) async fn respond(&self, context: &RequestContext, mut request: Request) -> Answer {
        let path = request.head.uri.path().to_owned();
        let answer = match self.admit(&path, &request.head) {
            Ok(Route::Validate) => Answer::new(StatusCode::OK, r#"{"valid":true}"#),
            Ok(route) => {
                request.admit();
                return self.logs(context, request, route).await;
            }
            Err(answer) => answer,
        };
        request.discard_body();
        answer
    }

    /// Checks whether the request is allowed at all.
    fn admit<'p>(&self, path: &'p str, head: &Head) -> Result<Route<'p>, Answer> {
        let Some(route) = Route::of(path) else {
            return Err(error(StatusCode::NOT_FOUND, "unknown path"));
        };
        if head.method != route.method() {
            let detail = format!("this path accepts only {}", route.method());
            return Err(error(StatusCode::METHOD_NOT_ALLOWED, &detail));
        }
        let Some(keys) = &self.keys else { return Ok(route) };
        let in_path = if let Route::LegacyLogs(key) = route { key } else { None };
        let in_header = head.headers.get("dd-api-key").and_then(|value| value.to_str().ok());
        let in_query = || query(head).find(|(name, _)| matches!(&**name, "dd-api-key" | "api_key"));
        let key = match in_header.or(in_path) {
            Some(key) => Some(key.to_owned()),
            None => in_query().map(|(_, key)| String::from_utf8_lossy(&key).into_owned()),
        };
        match key {
            None => Err(error(StatusCode::UNAUTHORIZED, "the DD-API-KEY header is missing")),
            Some(key) if is_among(keys, &key) => Ok(route),
            Some(_) => Err(error(StatusCode::FORBIDDEN, "the API key is not valid")),
        }
    }

    async fn logs(
        &self,
        context: &RequestContext,
        mut request: Request,
        route: Route<'_>,
    ) -> Answer {
        let Some(coding) = coding(&request.head) else {
            request.discard_body();
            let detail = "Content-Encoding must be gzip, deflate, zstd or identity";
            return error(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
        };
        let body = match context.body(&mut request, BODY_BYTES_MAX).await {
            Ok(body) => body,
            Err(problem) => return not_read(problem),
        };
        let head = &request.head;
        let turn = match context.lanes.enter(request.lane).await {
            Ok(turn) => turn,
            Err(refusal) => return refused(&refusal),
        };
        let prepared = {
            let scratch = &mut *self.scratch.borrow_mut();
            match scratch.read(body, coding, format(head)) {
                Ok(0) => return accepted(route),
                Ok(_) => {}
                Err(answer) => return answer,
            }
            let defaults = defaults(head);
            let claim = match scratch.claim(context.limiter.as_ref(), &defaults, request.peer) {
                Ok(claim) => claim,
                Err(pause) => return limited(pause),
            };
            let Scratch { plain, items, discarded, .. } = scratch;
            let described = DatadogRequest {
                body: plain,
                defaults: &defaults,
                observed_ns: context.clock.unix_ns(),
                item_bytes_max: LINE_BYTES_MAX,
            };
            let count = items.len();
            let prepared = context.lanes.prepare(&turn, count, &mut |index, batch, end, book| {
                if discarded.get(index).is_some_and(|is_discarded| *is_discarded) {
                    items.discard(index, DiscardReason::RateLimit, book);
                    return Ok(());
                }
                items.push(index, &described, batch, end, book)
            });
            prepared.map(|prepared| prepared.with_claim(claim))
        };
        let appended = match prepared {
            Ok(prepared) => context.lanes.append(turn, prepared).await,
            Err(refusal) => Err(refusal),
        };
        match appended {
            Ok(()) => accepted(route),
            Err(refusal) => refused(&refusal),
        }
    }
}

impl Scratch {
    /// Reads a body; returns the number of records in it.
    fn read(
        &mut self,
        body: Body,
        coding: ContentCoding,
        format: DatadogFormat,
    ) -> Result<usize, Answer> {
        coding.decompress(&body.bytes, BODY_BYTES_MAX, &mut self.plain).map_err(|problem| {
            let status = match problem {
                DecompressError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                DecompressError::Corrupt { .. } => StatusCode::BAD_REQUEST,
            };
            error(status, &problem.to_string())
        })?;
        // The received body is no longer needed.
        drop(body);
        self.items.read(&mut self.plain, format).map_err(|problem| {
            let status = match problem {
                DatadogError::TooMany { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                _ => StatusCode::BAD_REQUEST,
            };
            error(status, &problem.to_string())
        })?;
        Ok(self.items.len())
    }
}

impl Scratch {
    /// Charges the items to the quotas of their keys. If one of the keys has no room and the
    /// request is refused because of it, returns when to retry.
    fn claim(
        &mut self,
        limiter: Option<&Rc<Limiter>>,
        defaults: &DatadogDefaults,
        peer: Option<IpAddr>,
    ) -> Result<Option<Claim>, Duration> {
        let Self { plain, items, discarded, key } = self;
        discarded.clear();
        let Some(limiter) = limiter else { return Ok(None) };
        let mut claim = limiter.claim();
        let origin = |index| {
            let (host, service) = items.origin(index, plain, defaults);
            Origin { host, service, peer }
        };
        let fields = limiter.fields();
        if claim.refuses() {
            let mut pause = None;
            for index in 0..items.len() {
                let origin = origin(index);
                let name = || fields.name(&origin);
                let wait = claim.look(fields.key(&origin, key), items.item_len(index), name);
                pause = pause.max(wait);
            }
            if let Some(pause) = pause {
                return Err(pause);
            }
        }
        for index in 0..items.len() {
            let origin = origin(index);
            let name = || fields.name(&origin);
            let is_discarded = claim.take(fields.key(&origin, key), items.item_len(index), name);
            discarded.push(is_discarded);
        }
        Ok(Some(claim))
    }
}

/// Returns the coding of the body; `None` if it is not supported.
fn coding(head: &Head) -> Option<ContentCoding> {
    let mut codings = head.headers.get_all(CONTENT_ENCODING).iter();
    let coding = match codings.next() {
        Some(value) => ContentCoding::parse(value.to_str().ok()?)?,
        None => ContentCoding::Identity,
    };
    codings.next().is_none().then_some(coding)
}

fn format(head: &Head) -> DatadogFormat {
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.map_or(DatadogFormat::Json, DatadogFormat::of_content_type)
}

/// Returns the values that the request sets for all its logs, in its query or in headers of the
/// same names.
fn defaults(head: &Head) -> DatadogDefaults {
    let mut defaults = DatadogDefaults::default();
    for name in ["ddsource", "ddtags", "service", "hostname"] {
        if let Some(value) = head.headers.get(name) {
            defaults.set(name, value.as_bytes());
        }
    }
    for (name, value) in query(head) {
        defaults.set(&name, &value);
    }
    defaults
}

/// Returns the decoded names and values of the query.
fn query(head: &Head) -> impl Iterator<Item = (String, Vec<u8>)> {
    let pairs = head.uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = weir_codec::form_decoded(name);
        (String::from_utf8_lossy(&name).into_owned(), weir_codec::form_decoded(value))
    })
}

fn accepted(route: Route<'_>) -> Answer {
    let status = match route {
        Route::LegacyLogs(_) => StatusCode::OK,
        Route::Logs | Route::Validate => StatusCode::ACCEPTED,
    };
    Answer::new(status, "{}")
}

/// Creates an error response in the format of this API.
fn error(status: StatusCode, detail: &str) -> Answer {
    let body = serde_json::json!({"errors": [{
        "status": status.as_str(),
        "title": status.canonical_reason().unwrap_or_default(),
        "detail": detail,
    }]});
    Answer::new(status, body.to_string())
}

/// Creates an error response after which the client should retry. Datadog's clients read
/// `X-RateLimit-Reset`.
fn retry_later(status: StatusCode, detail: &str, pause: Duration) -> Answer {
    let seconds = HeaderValue::from(retry_after_seconds(pause));
    error(status, detail).retry_after(pause).header("x-ratelimit-reset", seconds)
}

/// A key of the request has used up its quota.
fn limited(pause: Duration) -> Answer {
    // Rounded up, so that there is room by then.
    let pause = Duration::from_secs(pause.as_secs().saturating_add(1)).min(RETRY_AFTER_LIMIT_MAX);
    retry_later(StatusCode::TOO_MANY_REQUESTS, "the rate limit is exceeded", pause)
}

fn not_read(problem: BodyError) -> Answer {
    match problem {
        BodyError::TooLarge => {
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            error(StatusCode::PAYLOAD_TOO_LARGE, &detail)
        }
        BodyError::NoRoom => {
            let detail = "too many requests are being received at once";
            retry_later(StatusCode::TOO_MANY_REQUESTS, detail, RETRY_AFTER_BUSY)
        }
        BodyError::Timeout => {
            error(StatusCode::REQUEST_TIMEOUT, "the body was not received in time")
        }
        BodyError::Broken => error(StatusCode::BAD_REQUEST, "the body is incomplete"),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::Full(why) => retry_later(StatusCode::TOO_MANY_REQUESTS, why, RETRY_AFTER_BUSY),
        Refusal::Disk(why) => {
            let detail = format!("records cannot be stored at the moment: {why}");
            retry_later(StatusCode::SERVICE_UNAVAILABLE, &detail, RETRY_AFTER_DISK)
        }
        Refusal::Slow => {
            let detail = "the disk did not respond in time";
            retry_later(StatusCode::SERVICE_UNAVAILABLE, detail, RETRY_AFTER_DISK)
        }
        Refusal::Closed => {
            retry_later(StatusCode::SERVICE_UNAVAILABLE, "weir is stopping", RETRY_AFTER_BUSY)
        }
        Refusal::TooLarge => error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "a log is too large with the attributes that rules add",
        ),
    }
}

/// Compares in constant time, so that the duration does not reveal how much of a key matches.
fn is_among(keys: &[String], key: &str) -> bool {
    let differs = |known: &String| {
        let pairs = known.bytes().zip(key.bytes());
        pairs.fold(known.len() ^ key.len(), |bits, (a, b)| bits | usize::from(a ^ b))
    };
    keys.iter().map(differs).filter(|differs| *differs == 0).count() > 0
}
