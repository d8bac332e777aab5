//! Envelopes from the store, for the log-cache and recent logs.
//!
//! Queries run on their own threads, with a queue of limited length and wait, as in the search.
//! Invariants: nothing here blocks the thread of the services; a query ends at its deadline, or
//! when its client disconnects; memory of a query and of its result is limited.

mod envelope;
mod read;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use weir_codec::{GrpcStatus, LoggregatorBatch, add_to_loggregator_batch};
use weir_host::Clock;
use weir_store::query::{Access, Budget, LogStore, QueryError, Services, ServicesRequest};

use super::limits::{META_TIMEOUT, RECENT_LOGS_MAX, SOURCES_MAX, stored_limits};
use crate::explore::{Admission, AnswerStatus, QueryKind, Rejection};
pub(super) use read::StoredRead;

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The response would be too large.
    #[error("the response is too large: request fewer envelopes")]
    TooLarge,
    /// The deadline was reached.
    #[error("the deadline was reached")]
    Late,
    /// Too many requests are waiting.
    #[error("too many requests are waiting")]
    Busy,
    /// There is no store at the moment.
    #[error("the server is starting")]
    Starting,
    /// Reading failed.
    #[error("{0}")]
    Failed(String),
}

impl ReadError {
    fn of(error: &QueryError) -> Self {
        Self::Failed(error.to_string())
    }

    /// Returns the gRPC status. As in the original, it does not distinguish invalid requests.
    pub(super) fn code(&self) -> GrpcStatus {
        match self {
            Self::Invalid(_) => GrpcStatus::Unknown,
            Self::TooLarge => GrpcStatus::ResourceExhausted,
            Self::Late => GrpcStatus::DeadlineExceeded,
            Self::Busy | Self::Starting => GrpcStatus::Unavailable,
            Self::Failed(_) => GrpcStatus::Internal,
        }
    }

    fn is_of_server(&self) -> bool {
        !matches!(self, Self::Invalid(_))
    }
}

/// Envelopes in the requested order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StoredBatch {
    envelopes: Vec<Vec<u8>>,
    bytes: usize,
    /// Why the result may be incomplete.
    pub(super) partial: Option<&'static str>,
}

impl StoredBatch {
    fn push(&mut self, envelope: Vec<u8>) {
        self.bytes += envelope.len();
        self.envelopes.push(envelope);
    }

    /// Returns the number of envelopes.
    pub(super) fn count(&self) -> usize {
        self.envelopes.len()
    }

    /// Returns the envelopes.
    pub(super) fn envelopes(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.envelopes.iter().map(Vec::as_slice)
    }

    /// Returns the bytes of an `EnvelopeBatch`.
    pub(super) fn message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.bytes + 8 * self.count());
        self.envelopes().for_each(|envelope| add_to_loggregator_batch(envelope, &mut message));
        debug_assert_eq!(LoggregatorBatch::new(&message).flatten().count(), self.count());
        message
    }
}

/// What can be read now.
#[derive(Debug, Default)]
struct Content {
    store: Option<Arc<dyn LogStore>>,
    /// Sources that receive envelopes.
    sources: BTreeSet<String>,
}

/// The stored envelopes, for all services.
#[derive(Debug)]
pub(super) struct StoredEnvelopes {
    content: RwLock<Content>,
    admission: Admission,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

impl StoredEnvelopes {
    /// A read takes at most `deadline`.
    pub(super) fn new(deadline: Duration, clock: Arc<dyn Clock>) -> Self {
        let admission = Admission::new(stored_limits(), clock.clone());
        Self { content: RwLock::default(), admission, clock, deadline }
    }

    /// Sets the store to read from, and the sources that receive envelopes.
    pub(super) fn set_store(&self, store: Option<Arc<dyn LogStore>>, sources: BTreeSet<String>) {
        if store.is_some()
            && let Err(error) = self.admission.start()
        {
            tracing::error!(%error, "could not start enough threads for reading stored envelopes");
        }
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Content { store, sources };
    }

    /// Returns the sources that receive envelopes.
    pub(super) fn envelope_sources(&self) -> BTreeSet<String> {
        self.content().sources.clone()
    }

    fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all queries.
    pub(super) fn stop(&self) {
        self.admission.stop();
    }

    /// The time, nanoseconds since 1970.
    pub(super) fn now_ns(&self) -> i64 {
        self.clock.unix_ns()
    }

    /// Reads envelopes and creates a response from them.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: StoredRead,
        answer: impl FnOnce(StoredBatch) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let sources = self.envelope_sources();
        self.run(self.deadline, move |store, budget| read.run(store, &sources, budget).map(answer))
            .await
    }

    /// Returns the newest logs of a source in the order of their times, for `/recentlogs`.
    pub(super) async fn recent_logs(
        &self,
        source_id: String,
        limit: usize,
    ) -> Result<StoredBatch, ReadError> {
        let read = StoredRead::newest_logs(source_id, limit.min(RECENT_LOGS_MAX));
        let in_order = |mut batch: StoredBatch| {
            batch.envelopes.reverse();
            batch
        };
        self.read(read, in_order).await
    }

    /// Returns statistics of all sources.
    pub(super) async fn sources(&self) -> Result<Services, ReadError> {
        let request = ServicesRequest { access: Access::all(), limit: SOURCES_MAX };
        self.run(META_TIMEOUT, move |store, budget| {
            store.services(&request, budget).map_err(|error| ReadError::of(&error))
        })
        .await
    }

    /// Runs a query on a thread for queries.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl FnOnce(&dyn LogStore, &Budget) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let store = self.content().store.clone();
        let store = store.ok_or(ReadError::Starting)?;
        let work = move |budget: &Budget| {
            let answer = work(&*store, budget);
            let is_failed = answer.as_ref().is_err_and(ReadError::is_of_server);
            let status = if is_failed { AnswerStatus::Failed } else { AnswerStatus::Complete };
            (answer, status)
        };
        let ran = self.admission.run(QueryKind::Search, Some(deadline), work).await;
        ran.map_err(|rejection| match rejection {
            Rejection::Full(_) | Rejection::Late(_) => ReadError::Busy,
            Rejection::Failed => ReadError::Failed("internal error".to_owned()),
        })?
    }
}
