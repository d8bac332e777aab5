//! Sends one request until every record of it has a final outcome.
//!
//! Invariants: the parts of a request are sent one after the other, in order; a record is written
//! to the dead-letter file only after the collector refused a request that contained nothing else,
//! or identified the record; transport failures are retried forever. If a refused request
//! identifies its first bad event, Splunk has accepted the events before it, so they are not sent
//! again; other collectors accept nothing of it, or leave it open, and receive them again.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderMap;
use weir_host::units::format_rfc3339;
use weir_host::{Clock, ConnectError, Connector, ConnectorSettings, TlsFiles};
use weir_model::DiscardReason;

use super::ack::Acks;
use super::answer::{Answer, Problem, Refusal, Verdict};
use super::client::{Client, Reply, SendError};
use super::concurrency::ConcurrencyLimiter;
use super::endpoint::Endpoint;
use super::request::{Encoder, Renderer, Request, RequestBuilder, Unacknowledged};
use crate::config::{OutputPlan, RequestSettings};
use crate::output::dead_letter::{Appended, DeadLetter, DeadLetterFile};
use crate::output::pending::PendingBatch;
use crate::output::{OutputContext, OutputError};
use crate::stats::{OutputStats, add, set};

/// Maximum time to open a connection, including the TLS handshake: a peer that does not respond
/// sooner is treated as unavailable.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// State shared by the requests of one output.
#[derive(Debug)]
pub(crate) struct Sender {
    output: String,
    pub(crate) client: Client,
    pub(crate) limiter: ConcurrencyLimiter,
    pub(crate) renderer: Arc<Mutex<Renderer>>,
    pub(crate) acks: Option<Acks>,
    pub(crate) stats: Arc<OutputStats>,
    refused: RefusedRecords,
    clock: Arc<dyn Clock>,
    pub(crate) sending: SenderSettings,
    /// Target size of a request before compression; less than configured once the collector has
    /// rejected a request as too large.
    batch_bytes: AtomicUsize,
    /// The collector has accepted something since the last alert: it is the right one, and a
    /// refusal without a code concerns the records.
    has_succeeded: AtomicBool,
    /// Records refused since the last success, for a destination that gives no reasons of its own.
    unproven: AtomicUsize,
}

/// Where and how requests are sent.
#[derive(Debug)]
pub(crate) struct SenderSettings {
    pub(crate) protocol: Protocol,
    /// Where to connect; at least one.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) method: Method,
    /// Path and query of the requests.
    pub(crate) path: String,
    /// Headers of every request.
    pub(crate) headers: HeaderMap,
    /// Every request carries the channel of its connection.
    pub(crate) send_channel: bool,
    /// Where acknowledgements are queried, and their timeout.
    pub(crate) acks: Option<(String, Duration)>,
    pub(crate) requests: RequestSettings,
}

/// What happens to records that are permanently refused.
#[derive(Debug)]
enum RefusedRecords {
    /// They are counted as rejected.
    Rejected,
    /// They are written to the dead-letter file.
    Written(DeadLetterFile),
    /// They are kept for the caller of [`Sender::take_refused`].
    Kept(Mutex<Vec<DeadLetter>>),
}

/// Why records are set aside.
struct Cause {
    /// Fixed identifier.
    kind: &'static str,
    /// For the log.
    text: String,
    /// For the dead letter.
    reason: String,
    code: Option<u16>,
}

/// How responses are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The HTTP event collector's codes.
    Collector,
    /// By the status code alone.
    Status,
    /// By the status of a gRPC call.
    Grpc,
}

impl Protocol {
    pub(crate) fn is_http_2(self) -> bool {
        match self {
            Self::Collector | Self::Status => false,
            Self::Grpc => true,
        }
    }

    fn verdict(self, answer: &Answer) -> Verdict {
        match self {
            Self::Collector => answer.of_collector(),
            Self::Status => answer.of_status(),
            Self::Grpc => answer.of_grpc(),
        }
    }

    /// Returns how many records may be refused, one by one, before anything was ever accepted. The
    /// code of a collector shows that a refusal concerns the records; a bare status may also mean
    /// that the URL is wrong, and then everything must wait for the operator.
    fn unproven_max(self) -> usize {
        match self {
            Self::Collector => 0,
            Self::Status | Self::Grpc => UNPROVEN_MAX,
        }
    }
}

/// Result of one attempt to send a part.
enum Step {
    /// Settled, or put back as smaller parts.
    Done,
    /// These records were permanently refused; the rest is settled or put back.
    PutAside { refused: Range<usize>, reason: String, code: Option<u16> },
    /// Retry the same part after a pause.
    Again(Duration),
}

impl Sender {
    /// Reads the certificate files.
    pub(crate) fn new(
        plan: &OutputPlan,
        sending: SenderSettings,
        encoder: Encoder,
        context: &OutputContext,
        stats: &Arc<OutputStats>,
    ) -> Result<Self, OutputError> {
        let output = plan.name.clone();
        let connectors = connectors(&sending)
            .map_err(|error| OutputError::Tls { output: output.clone(), error })?;
        let has_tls = sending.endpoints.iter().any(|endpoint| endpoint.tls);
        if sending.requests.tls.insecure_skip_verify && has_tls {
            tracing::warn!(%output, "certificates are not verified (tls.insecure_skip_verify)");
        }
        let clock = context.clock.clone();
        let acks = sending.acks.clone().map(|(path, timeout)| Acks::new(path, timeout));
        let file = || DeadLetterFile::new(context.disk.clone(), &context.data_dir, &output);
        let refused = match plan.dead_letter {
            _ if context.is_resend => RefusedRecords::Kept(Mutex::default()),
            true => RefusedRecords::Written(file()),
            false => RefusedRecords::Rejected,
        };
        Ok(Self {
            client: Client::new(connectors, &sending, clock.clone()),
            limiter: ConcurrencyLimiter::new(
                sending.requests.connections_max,
                sending.requests.retry_min,
                sending.requests.retry_max,
            ),
            renderer: Arc::new(Mutex::new(Renderer::new(encoder, sending.requests.compression))),
            acks,
            stats: stats.clone(),
            refused,
            clock,
            batch_bytes: AtomicUsize::new(sending.requests.batch_bytes),
            has_succeeded: AtomicBool::new(false),
            unproven: AtomicUsize::new(0),
            output,
            sending,
        })
    }

    /// Sends the pending parts of a request. Ends when nothing is left except, possibly, waiting
    /// for acknowledgements.
    pub(crate) async fn send(self: Arc<Self>, mut request: Request) -> Request {
        if !request.was_sent {
            self.count_queueing(&request);
            self.put_aside_unsendable(&mut request).await;
        }
        // Shrinks with every refusal, so that many consecutive bad records do not mean sending the
        // whole rest for each of them.
        let mut part_max = usize::MAX;
        while let Some(mut part) = request.todo.pop_front() {
            if part.len() > part_max {
                request.todo.push_front(part.start + part_max..part.end);
                part.end = part.start + part_max;
            }
            self.send_part(&mut request, &part, &mut part_max).await;
        }
        request.drop_body();
        request
    }

    /// Sets aside records that cannot be encoded in the format of the destination.
    async fn put_aside_unsendable(&self, request: &mut Request) {
        let records = request.unsendable(&self.renderer);
        for record in &records {
            let reason = "it cannot be encoded in the format of this destination";
            let cause = Cause {
                kind: "not_encodable",
                text: format!("a record was not sent to {}: {reason}", self.client.target()),
                reason: reason.to_owned(),
                code: None,
            };
            self.put_aside(request, &(*record..record + 1), cause).await;
        }
        request.exclude(&records);
    }

    /// Takes the records that were refused in a resend.
    pub(crate) fn take_refused(&self) -> Vec<DeadLetter> {
        match &self.refused {
            RefusedRecords::Kept(letters) => {
                std::mem::take(&mut *letters.lock().unwrap_or_else(PoisonError::into_inner))
            }
            RefusedRecords::Rejected | RefusedRecords::Written(_) => Vec::new(),
        }
    }

    pub(super) fn renderer(&self) -> MutexGuard<'_, Renderer> {
        self.renderer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes a batch as a part of a request to `query`; returns it if it belongs in another one.
    pub(super) fn add(
        &self,
        pending: PendingBatch,
        query: &str,
        request: &mut RequestBuilder,
    ) -> Result<(), PendingBatch> {
        let mut renderer = self.renderer();
        if renderer.encoder.first_query(&pending).as_ref() != query {
            return Err(pending);
        }
        request.add(pending, &mut renderer, self.batch_bytes());
        Ok(())
    }

    /// Combines batches into one request, encoded.
    pub(crate) fn request(&self, batches: Vec<PendingBatch>) -> Request {
        let mut renderer = self.renderer();
        let mut request_builder = RequestBuilder::default();
        for pending in batches {
            request_builder.add(pending, &mut renderer, 0);
        }
        request_builder.finish(&mut renderer)
    }

    /// Sends a single request until every record has a final outcome, including acknowledgements.
    pub(crate) async fn send_acknowledged(self: Arc<Self>, mut request: Request) -> Request {
        loop {
            request = self.clone().send(request).await;
            if let Some(acks) = &self.acks
                && !request.unacknowledged.is_empty()
            {
                let report = |text: &str| self.stats.errors.count("ack", text);
                request = tokio::select! {
                    request = request.acknowledged(acks.timeout()) => request,
                    never = acks.poll(&self.client, report) => match never {},
                };
            }
            if request.todo.is_empty() {
                return request;
            }
        }
    }

    async fn send_part(&self, request: &mut Request, part: &Range<usize>, part_max: &mut usize) {
        let body = request.body(part, &self.renderer);
        let path = format!("{}{}", self.sending.path, request.query(part));
        loop {
            let slot = self.limiter.acquire().await;
            if request.was_sent {
                request.count(part, |outcome, n| outcome.resent += n);
            }
            add(&self.stats.in_flight_requests, 1);
            let started = self.clock.monotonic();
            let result = self.client.post(&path, &body, None).await;
            let took = self.clock.monotonic().saturating_sub(started);
            self.stats.in_flight_requests.fetch_sub(1, Ordering::Relaxed);
            drop(slot);
            request.was_sent |= result.as_ref().map_or_else(SendError::may_have_arrived, |_| true);
            let bytes = body.len() as u64;
            match self.settle(request, part, part_max, result, took, bytes) {
                Step::Done => return,
                Step::PutAside { refused, reason, code } => {
                    // The collector responds: the connection works.
                    self.limiter.success(Duration::ZERO, false);
                    let text = format!("{} refused a record: {reason}", self.client.target());
                    let cause = Cause { kind: "refused", text, reason, code };
                    return self.put_aside(request, &refused, cause).await;
                }
                Step::Again(pause) => {
                    add(&self.stats.retries, 1);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Handles the result of one attempt.
    fn settle(
        &self,
        request: &mut Request,
        part: &Range<usize>,
        part_max: &mut usize,
        result: Result<Reply, SendError>,
        took: Duration,
        bytes: u64,
    ) -> Step {
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => return Step::Again(self.unreachable(&error)),
        };
        match self.sending.protocol.verdict(&reply.answer) {
            Verdict::Delivered { ack_id, slow_down } => {
                add(&self.stats.bytes_sent, bytes);
                self.delivered(took, slow_down);
                *part_max = part_max.saturating_mul(2);
                self.taken(request, part, ack_id, reply.channel);
                Step::Done
            }
            Verdict::TooLarge if part.len() > 1 => {
                let less = (request.plain_len / 2).max(BATCH_BYTES_MIN);
                self.batch_bytes.fetch_min(less, Ordering::Relaxed);
                let text = format!(
                    "{} rejected a request as too large: sending smaller requests",
                    self.client.target()
                );
                self.stats.errors.count("too_large", &text);
                halve(request, part, part_max);
                Step::Done
            }
            Verdict::TooLarge => {
                let reason = "HTTP 413: a single record is larger than the destination accepts";
                if self.is_doubtful(part, UNPROVEN_MAX) {
                    return Step::Again(self.alert(&wrong_endpoint(reason)));
                }
                Step::PutAside { refused: part.clone(), reason: reason.to_owned(), code: Some(413) }
            }
            Verdict::Refused(refusal) => self.refused(request, part, part_max, &refusal),
            Verdict::Alert(problem) => Step::Again(self.alert(&problem)),
            Verdict::Retry(problem) => {
                let pause = self.limiter.failure(problem.overload, problem.after);
                self.report(problem.kind, &self.with_next_attempt(&problem, pause));
                Step::Again(pause)
            }
        }
    }

    fn delivered(&self, took: Duration, slow_down: bool) {
        add(&self.stats.requests, 1);
        add(&self.stats.service_ns, took.as_nanos() as u64);
        self.limiter.success(took, slow_down);
        self.has_succeeded.store(true, Ordering::Relaxed);
        self.unproven.store(0, Ordering::Relaxed);
        self.stats.errors.clear_last();
        if self.stats.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(output = %self.output, "{} accepts records again", self.client.target());
        }
    }

    /// Handles an accepted part: it is done, or waits for the acknowledgement of the indexer.
    fn taken(
        &self,
        request: &mut Request,
        part: &Range<usize>,
        ack_id: Option<u64>,
        channel: Arc<str>,
    ) {
        match (&self.acks, ack_id) {
            (Some(acks), Some(id)) => {
                self.stats.no_ack_ids.store(false, Ordering::Relaxed);
                request.unacknowledged.push(Unacknowledged {
                    range: part.clone(),
                    acknowledged: acks.wait_for(channel, id),
                });
            }
            (Some(_), None) => {
                // Sending again would not return an ID either, only create duplicates.
                let text = format!("{} {NO_ACK_ID}", self.client.target());
                self.stats.errors.count("no_ack_id", &text);
                if !self.stats.no_ack_ids.swap(true, Ordering::Relaxed) {
                    tracing::warn!(output = %self.output, "{text}; counted as delivered");
                }
                request.count(part, |outcome, n| outcome.delivered += n);
            }
            (None, _) => request.count(part, |outcome, n| outcome.delivered += n),
        }
    }

    fn refused(
        &self,
        request: &mut Request,
        part: &Range<usize>,
        part_max: &mut usize,
        refusal: &Refusal,
    ) -> Step {
        let unproven_max = self.sending.protocol.unproven_max();
        if refusal.code.is_none() && self.is_doubtful(part, unproven_max) {
            return Step::Again(self.alert(&wrong_endpoint(&refusal.reason)));
        }
        let bad = refusal.first_bad.filter(|k| *k < part.len()).map(|k| part.start + k);
        let bad = bad.or((part.len() == 1).then_some(part.start));
        let Some(bad) = bad else {
            halve(request, part, part_max);
            return Step::Done;
        };
        if refusal.code == Some(INCORRECT_INDEX) && !self.has_own_index(request, bad) {
            return Step::Again(self.alert(&Problem {
                kind: "index",
                text: format!(
                    "does not have the index, or the token may not use it: create it, or change \
                     index ({})",
                    refusal.reason
                ),
                after: None,
                overload: false,
            }));
        }
        *part_max = (part.len() / 2).max(1);
        if bad + 1 < part.end {
            request.todo.push_front(bad + 1..part.end);
        }
        if part.start < bad {
            self.before_refused(request, part.start..bad, refusal.took_before);
        }
        let reason = refusal.reason.clone();
        Step::PutAside { refused: bad..bad + 1, reason, code: refusal.code }
    }

    /// Returns true if a refusal may concern something other than the records, of which at most
    /// `max` may be refused before anything was accepted. In a resend, every record was refused
    /// before, and stays a dead letter.
    fn is_doubtful(&self, part: &Range<usize>, max: usize) -> bool {
        let is_resend = matches!(self.refused, RefusedRecords::Kept(_));
        if is_resend || self.has_succeeded.load(Ordering::Relaxed) {
            return false;
        }
        if part.len() > 1 {
            return max == 0;
        }
        self.unproven.fetch_add(1, Ordering::Relaxed) >= max
    }

    /// Handles the events before the first bad one: they are accepted if the collector is known to
    /// do so. With acknowledgements, they came without an ID to query, so they are sent again.
    fn before_refused(&self, request: &mut Request, part: Range<usize>, taken: bool) {
        if taken && self.acks.is_none() {
            self.has_succeeded.store(true, Ordering::Relaxed);
            request.count(&part, |outcome, n| outcome.delivered += n);
        } else {
            request.todo.push_front(part);
        }
    }

    fn has_own_index(&self, request: &Request, record: usize) -> bool {
        let mut renderer = self.renderer();
        let mut batches = request.overlaps(record..record + 1);
        batches.any(|(pending, part)| {
            renderer.encoder.has_own_index(&request.batches[pending], part.start)
        })
    }

    /// Writes refused records to the dead-letter file, retrying for as long as necessary.
    async fn put_aside(&self, request: &mut Request, part: &Range<usize>, cause: Cause) {
        let text = &cause.text;
        self.stats.errors.count(cause.kind, text);
        let file = match &self.refused {
            RefusedRecords::Written(file) => file,
            RefusedRecords::Kept(kept) => {
                let letters = self.letters(request, part, &cause);
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(letters);
                return request.count(part, |outcome, n| outcome.dead_lettered += n);
            }
            RefusedRecords::Rejected => {
                tracing::warn!(output = %self.output, "{text}; counted as rejected");
                return reject(request, part);
            }
        };
        let letters = self.letters(request, part, &cause);
        loop {
            match file.append(&letters) {
                Ok(Appended::Durable) => {
                    let path = file.path().display();
                    tracing::warn!(output = %self.output, file = %path, "{text}; dead-lettered");
                    return request.count(part, |outcome, n| outcome.dead_lettered += n);
                }
                Ok(Appended::Full) => {
                    let text = format!("{} is full: see `weir dead-letter`", file.path().display());
                    self.stats.errors.count("dead_letter_full", &text);
                    return reject(request, part);
                }
                Err(error) => {
                    let text = format!("{}: {error}", file.path().display());
                    let pause = self.limiter.failure(false, None);
                    self.report("dead_letter_file", &text);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn letters(&self, request: &Request, part: &Range<usize>, cause: &Cause) -> Vec<DeadLetter> {
        let now_ns = self.clock.unix_ns();
        let of_parcel = |(pending, part): (usize, Range<usize>)| {
            let batch = &request.batches[pending].records.batch();
            let records =
                request.batches[pending].records.records().skip(part.start).take(part.len());
            let letter = |(index, record): (usize, weir_model::RecordView<'_>)| {
                let (log, flags) = (batch.to_log_record(index), record.flags.0);
                DeadLetter::new(now_ns, &self.output, &cause.reason, cause.code, log, flags)
            };
            records.map(letter).collect::<Vec<_>>()
        };
        request.overlaps(part.clone()).flat_map(of_parcel).collect()
    }

    fn unreachable(&self, error: &SendError) -> Duration {
        let overload = matches!(error, SendError::Timeout { .. });
        let pause = self.limiter.failure(overload, None);
        let reload = self.client.reload_error().map(|e| format!(" (certificates: {e})"));
        self.report(error.kind(), &format!("{error}{}", reload.unwrap_or_default()));
        pause
    }

    fn alert(&self, problem: &Problem) -> Duration {
        self.has_succeeded.store(false, Ordering::Relaxed);
        let pause = self.limiter.alert(problem.after);
        self.report(problem.kind, &self.with_next_attempt(problem, pause));
        pause
    }

    /// Returns the text of a problem, with the time of the next attempt if the destination asked
    /// for a pause, which may be much longer than those in between otherwise.
    fn with_next_attempt(&self, problem: &Problem, pause: Duration) -> String {
        if problem.after.is_none() {
            return problem.text.clone();
        }
        let pause_ns = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        let seconds = self.clock.unix_ns().saturating_add(pause_ns) / 1_000_000_000;
        let at = format_rfc3339(seconds.saturating_mul(1_000_000_000));
        format!("{}; as requested with Retry-After, the next attempt is at {at}", problem.text)
    }

    /// Counts an error; the first in a row is also logged. A single failed attempt does not mark
    /// the output as failing.
    fn report(&self, kind: &'static str, text: &str) {
        let target = self.client.target();
        let text =
            if text.contains(&target) { text.to_owned() } else { format!("{target} {text}") };
        self.stats.errors.count(kind, &text);
        let alert = !self.has_succeeded.load(Ordering::Relaxed);
        if (alert || self.limiter.failures() > 1)
            && !self.stats.failing.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(output = %self.output, "{text}; retrying, no records are lost");
        }
    }

    fn count_queueing(&self, request: &Request) {
        let batches = request.batches.iter().map(|pending| &**pending.records.batch());
        self.stats.count_queueing(batches, self.clock.unix_ns());
        add(&self.stats.bytes_encoded, request.plain_len as u64);
    }

    /// Returns the target size of a request before compression.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes.load(Ordering::Relaxed)
    }

    /// Publishes the gauges.
    pub(crate) fn publish(&self) {
        set(&self.stats.concurrency_limit, self.limiter.limit() as u64);
    }
}

/// Minimum to which the request size is reduced when requests are too large: below that, a single
/// record is the cause.
const BATCH_BYTES_MIN: usize = 64 * 1024;

/// Maximum number of records that are refused, one by one, before the destination has accepted
/// anything: a few bad records at the very beginning are possible, many are a sign of a wrong URL.
const UNPROVEN_MAX: usize = 8;

/// The error about a missing ack ID.
pub(crate) const NO_ACK_ID: &str = "answered without an ackId: enable indexer acknowledgment for \
                                    the token or set indexer_ack = false";

/// HEC code 7.
const INCORRECT_INDEX: u16 = 7;

fn wrong_endpoint(reason: &str) -> Problem {
    Problem {
        kind: "endpoint",
        text: format!("may be the wrong endpoint: check the URL ({reason})"),
        after: None,
        overload: false,
    }
}

fn reject(request: &mut Request, part: &Range<usize>) {
    request.count(part, |outcome, n| {
        let before = outcome.discarded.map_or(0, |(_, n)| n);
        outcome.discarded = Some((DiscardReason::Rejected, before + n));
    });
}

fn halve(request: &mut Request, part: &Range<usize>, part_max: &mut usize) {
    let middle = part.start + part.len() / 2;
    request.todo.push_front(middle..part.end);
    request.todo.push_front(part.start..middle);
    *part_max = (part.len() / 2).max(1);
}

fn connectors(sending: &SenderSettings) -> Result<Vec<Connector>, ConnectError> {
    let step_timeout = sending.requests.request_timeout.min(CONNECT_TIMEOUT_MAX);
    let is_http_2 = sending.protocol.is_http_2();
    let tls = || TlsFiles { is_http_2, ..sending.requests.tls.files() };
    let connector = |endpoint: &Endpoint| {
        Connector::new(ConnectorSettings {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: endpoint.tls.then(tls),
            connect_timeout: step_timeout,
            handshake_timeout: step_timeout,
        })
    };
    sending.endpoints.iter().map(connector).collect()
}
