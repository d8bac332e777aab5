//! One stream: its messages, until it ends.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use hyper::Request;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use weir_codec::{
    GrpcError, GrpcFraming, GrpcStatus as Code, GrpcStep, LoggregatorBatch, LoggregatorError,
};
use weir_model::DiscardReason;

use super::super::lanes::{Blocked, GatheredLanes};
use super::super::limiter::{Incoming as _, Round, Wait};
use super::super::limits::{
    DRAIN_TIME, GRPC_MESSAGE_BYTES_MAX, GRPC_SPARE_BYTES_MAX, GRPC_SPARES_MAX, GRPC_WIDE_AFTER,
    MESSAGE_TIMEOUT,
};
use super::call::{Call, respond_with};
use super::{Caller, GrpcService};
use crate::grpc::{Refused, Status};
use crate::source::loggregator::LoggregatorVersion;
use crate::stats::{SourceStats, add, sub};

/// Reserved memory for a message, released when it is dropped.
struct Reserved {
    _permit: OwnedSemaphorePermit,
    len: usize,
    stats: Arc<SourceStats>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        sub(&self.stats.listener.in_flight_bytes, self.len as u64);
    }
}

/// The state of a stream.
struct Session {
    framing: GrpcFraming,
    /// Memory for an incomplete message.
    permit: Option<Reserved>,
    /// Deadline for the rest of an incomplete message.
    deadline: Option<Instant>,
    /// Pause before the next read, for the rate limit.
    wait: Option<Wait>,
    /// Number of complete messages.
    messages: u64,
    /// Number of received bytes.
    received: u64,
    /// How long to continue reading once the source is told to stop.
    drain_until: Option<Instant>,
}

impl GrpcService {
    /// Serves a call until it ends.
    pub(super) async fn answer(
        self: Rc<Self>,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        caller: Caller,
    ) {
        let (head, body) = request.into_parts();
        let ended = match Call::of(&head) {
            Ok(call) => match self.receive(call, body, caller).await {
                Some(status) => Ok(status),
                // The client is gone.
                None => return,
            },
            Err(refused) => Err(refused),
        };
        if let Err(Refused::Status(status)) = &ended {
            self.count("call", &status.message);
        }
        if let Err(error) = respond_with(respond, &ended) {
            tracing::debug!(%error, "cannot send the status of a call");
        }
    }

    /// Takes the messages of a stream. Returns how the call ends; `None` if the client has ended
    /// it.
    async fn receive(&self, call: Call, mut body: RecvStream, caller: Caller) -> Option<Status> {
        let mut session = Session {
            framing: GrpcFraming::new(GRPC_MESSAGE_BYTES_MAX),
            permit: None,
            deadline: None,
            wait: None,
            messages: 0,
            received: 0,
            drain_until: None,
        };
        let mut working = None;
        let ended = loop {
            let bytes = match self.next(&mut body, &mut session, &caller).await {
                Ok(bytes) => bytes,
                Err(ended) => break ended,
            };
            let taken = self.take(call, &bytes, &mut session, &caller).await;
            let _window = body.flow_control().release_capacity(bytes.len());
            let was_heavy = session.received >= GRPC_WIDE_AFTER;
            session.received += bytes.len() as u64;
            if !was_heavy && session.received >= GRPC_WIDE_AFTER {
                caller.is_heavy.notify_one();
            }
            if let Err(status) = taken {
                break Some(status);
            }
            if working.is_none() && session.messages > 0 {
                caller.slot.admit();
                // A connection is not closed even if its sender is silent for days.
                working = Some(caller.slot.working());
            }
        };
        self.end(call, &session, ended).await
    }

    /// Waits for room, then for the next bytes. The error is the end of the stream.
    async fn next(
        &self,
        body: &mut RecvStream,
        session: &mut Session,
        caller: &Caller,
    ) -> Result<Bytes, Option<Status>> {
        if let Some(limiter) = &self.limiter
            && session.drain_until.is_none()
            && limiter.wait(&mut session.wait).await
            && session.deadline.is_some()
        {
            // The sender is not to blame for the delay.
            session.deadline = Some(Instant::now() + MESSAGE_TIMEOUT);
        }
        self.lanes.room().await;
        let mut stopped = caller.stopped.clone();
        loop {
            let far = Instant::now() + MESSAGE_TIMEOUT;
            let (deadline, drain_until) = (session.deadline, session.drain_until);
            tokio::select! {
                biased;
                () = sleep_until(drain_until.unwrap_or(far)), if drain_until.is_some() => {
                    return Err(Some(Status::new(Code::Unavailable, "the server is stopping")));
                }
                data = body.data() => {
                    return match data {
                        None => Err(Some(Status::new(Code::Ok, ""))),
                        Some(Ok(bytes)) => Ok(bytes),
                        Some(Err(error)) => {
                            tracing::debug!(%error, "the client ended a stream");
                            Err(None)
                        }
                    };
                }
                () = sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => {
                    let text = "a message was not received in time";
                    return Err(Some(Status::new(Code::DeadlineExceeded, text)));
                }
                _ = stopped.wait_for(|stopped| *stopped), if drain_until.is_none() => {
                    // Arrived data is read, for a limited time if the sender does not stop.
                    session.drain_until = Some(Instant::now() + DRAIN_TIME);
                }
            }
        }
    }

    /// Takes complete messages, and keeps the rest.
    async fn take(
        &self,
        call: Call,
        bytes: &[u8],
        session: &mut Session,
        caller: &Caller,
    ) -> Result<(), Status> {
        if session.framing.unfinished_bytes() == 0 {
            let spare = self.spare.borrow_mut().pop();
            session.framing.exchange(spare.unwrap_or_default());
        }
        let Session { framing, permit, deadline, wait, messages, .. } = session;
        let mut rest = bytes;
        loop {
            match framing.next(&mut rest) {
                Ok(GrpcStep::Message(message)) => {
                    let taken = self.take_message(call, message, wait, caller).await;
                    *messages += 1;
                    *permit = None;
                    *deadline = None;
                    taken?;
                }
                Ok(GrpcStep::NeedMore { len }) => {
                    if let Some(len) = len.filter(|_| permit.is_none()) {
                        *permit = self.reserve(len).await;
                    }
                    break;
                }
                Err(error) => {
                    *permit = None;
                    return Err(self.refused(&error));
                }
            }
        }
        if framing.unfinished_bytes() > 0 {
            deadline.get_or_insert_with(|| Instant::now() + MESSAGE_TIMEOUT);
        } else {
            let memory = framing.exchange(Vec::new());
            let mut spare = self.spare.borrow_mut();
            if spare.len() < GRPC_SPARES_MAX && memory.capacity() <= GRPC_SPARE_BYTES_MAX {
                spare.push(memory);
            }
        }
        Ok(())
    }

    fn refused(&self, error: &GrpcError) -> Status {
        let (code, kind) = match error {
            GrpcError::TooLong { .. } => (Code::ResourceExhausted, "message_too_long"),
            GrpcError::Compressed => (Code::Unimplemented, "call"),
        };
        self.count(kind, &error.to_string());
        Status::new(code, format!("grpc: {error}"))
    }

    /// Waits for memory for a message of this length.
    async fn reserve(&self, len: usize) -> Option<Reserved> {
        let memory = Arc::clone(&self.memory);
        let permit = memory.acquire_many_owned(len as u32).await.ok()?;
        let stats = Arc::clone(self.stats());
        add(&stats.listener.in_flight_bytes, len as u64);
        Some(Reserved { _permit: permit, len, stats })
    }

    /// Takes the envelopes of a message.
    async fn take_message(
        &self,
        call: Call,
        message: &[u8],
        wait: &mut Option<Wait>,
        caller: &Caller,
    ) -> Result<(), Status> {
        let observed_ns = self.context.clock.unix_ns();
        let mut round = self.limiter.as_ref().map(|limiter| limiter.round()).unwrap_or_default();
        let mut taken = Ok(());
        match call {
            Call::Sender => {
                self.take_envelope(call, message, &mut round, caller, observed_ns).await;
            }
            // A message with one envelope has the form of a batch.
            Call::BatchSender | Call::Send | Call::Pusher => {
                taken = self.take_batch(call, message, &mut round, caller, observed_ns).await;
            }
            // The batch is a field of the request, and may come in several parts.
            Call::LogCacheSend => {
                for batch in LoggregatorBatch::new(message) {
                    taken = match batch {
                        Ok(batch) => {
                            let rest =
                                self.take_batch(call, batch, &mut round, caller, observed_ns);
                            taken.and(rest.await)
                        }
                        Err(error) => Err(self.malformed(&error)),
                    };
                }
            }
        }
        round.count(&self.lanes);
        *wait = (*wait).max(round.wait());
        self.lanes.mark_received();
        self.cpu_time.publish(&*self.context.clock, &self.context.stats);
        taken
    }

    /// Takes the envelopes of a batch.
    async fn take_batch(
        &self,
        call: Call,
        batch: &[u8],
        round: &mut Round,
        caller: &Caller,
        observed_ns: i64,
    ) -> Result<(), Status> {
        let mut taken = Ok(());
        for envelope in LoggregatorBatch::new(batch) {
            match envelope {
                Ok(envelope) => {
                    self.take_envelope(call, envelope, round, caller, observed_ns).await;
                }
                Err(error) => taken = Err(self.malformed(&error)),
            }
        }
        taken
    }

    /// Counts a malformed message, and returns the status of its call.
    fn malformed(&self, error: &LoggregatorError) -> Status {
        self.count("malformed_message", &error.to_string());
        self.lanes.count_lost(DiscardReason::PartialLost, 1);
        Status::unreadable(error)
    }

    /// Takes an envelope, as soon as there is room.
    async fn take_envelope(
        &self,
        call: Call,
        envelope: &[u8],
        round: &mut Round,
        caller: &Caller,
        observed_ns: i64,
    ) {
        while self.push(call, envelope, round, caller, observed_ns).is_err() {
            round.count(&self.lanes);
            self.lanes.mark_received();
            self.lanes.room().await;
        }
    }

    #[inline]
    fn push(
        &self,
        call: Call,
        envelope: &[u8],
        round: &mut Round,
        caller: &Caller,
        observed_ns: i64,
    ) -> Result<(), Blocked> {
        let mut intake = self.intake.borrow_mut();
        let version = match call {
            Call::Sender | Call::BatchSender | Call::Send | Call::LogCacheSend => {
                LoggregatorVersion::V2
            }
            Call::Pusher => LoggregatorVersion::V1 { is_agent: false },
        };
        let mut parsed = intake.parse(version, envelope, caller.peer, observed_ns);
        let error = parsed.error();
        let pushed = if let Some(limiter) = &self.limiter {
            limiter.push(&self.lanes, &mut parsed, round)
        } else {
            let lane = GatheredLanes::lane_of(parsed.lane_hash());
            self.lanes.push(lane, |batch, end, book| parsed.push(batch, end, book))
        };
        if let Some(error) = error.filter(|_| pushed.is_ok()) {
            self.count("malformed_envelope", &error.to_string());
        }
        pushed
    }

    /// Counts an incomplete message, and returns the status of the call.
    async fn end(&self, call: Call, session: &Session, ended: Option<Status>) -> Option<Status> {
        let received = session.framing.unfinished_bytes();
        if received > 0 {
            let text = format!("stream ended {received} bytes into a message");
            self.count("incomplete_message", &text);
            self.lanes.count_lost(DiscardReason::PartialLost, 1);
            let status = Status::new(Code::Internal, text);
            return ended.map(|ended| if ended.code == Code::Ok { status } else { ended });
        }
        let is_ok = ended.as_ref().is_some_and(|ended| ended.code == Code::Ok);
        if is_ok && call.is_unary() {
            if session.messages == 0 {
                return Some(Status::new(Code::Internal, "the call has no request message"));
            }
            self.lanes.appended().await;
        }
        ended
    }
}
