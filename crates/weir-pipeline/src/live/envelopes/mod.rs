//! Loggregator envelopes for readers that request them by selectors: firehoses, shards of them, and
//! streams of single applications.
//!
//! They share the reader of the journal and its thread with live tails. Records are looked up in
//! one [`index`] by source and kind; the envelope of a record is written into the [`queue`] of each
//! matching reader, from which the reader takes whole batches.
//!
//! Invariants: a reader receives each matching envelope once, or it is counted as lost, in its own
//! stream and in the statistics of its service; a slow reader has a limited queue and does not
//! affect others; all queues together have one memory limit; the envelope of a record that a rule
//! has changed is rewritten, so that no redacted byte remains.

mod dispatch;
mod index;
mod queue;
mod records;
mod status;
mod write;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weir_codec::{DropsondeFilter, DropsondeRequest, LoggregatorRequest};

use super::LiveError;
use super::hub::Hub;
use crate::view::PipelineView;
pub(super) use dispatch::Dispatcher;
pub(super) use index::{Index, Reading};
pub use queue::EnvelopeChunk;
pub(super) use queue::{Budget, Reader};
pub(crate) use records::RecordEnvelopes;
pub use status::{ReaderBook, ReaderStatus};
pub(super) use status::{describe, sources_of};
pub use write::Origin as EnvelopeOrigin;

/// The service through which envelopes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderService {
    /// gRPC, as from the reverse log proxy.
    Egress,
    /// HTTP, as from its gateway.
    Gateway,
    /// Websockets and HTTP with envelopes of version 1, as from the traffic controller.
    TrafficController,
    /// HTTP and gRPC, as from the log-cache: stored envelopes, not live ones.
    LogCache,
}

impl ReaderService {
    /// All services.
    pub const ALL: [Self; 4] =
        [Self::Egress, Self::Gateway, Self::TrafficController, Self::LogCache];

    /// Returns whether it reads stored envelopes.
    pub fn reads_store(self) -> bool {
        match self {
            Self::Egress | Self::Gateway => false,
            Self::TrafficController | Self::LogCache => true,
        }
    }

    /// Returns whether its readers can have tokens. Those of the reverse log proxy have
    /// certificates.
    pub fn has_tokens(self) -> bool {
        match self {
            Self::Egress => false,
            Self::Gateway | Self::TrafficController | Self::LogCache => true,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Gateway => "gateway",
            Self::TrafficController => "traffic_controller",
            Self::LogCache => "log_cache",
        }
    }
}

/// The counts of a service: `matched = delivered + lost + abandoned + queued` envelopes.
#[derive(Debug, Default)]
pub struct ReaderServiceStats {
    /// The address of the service; unset if it is not configured.
    pub address: OnceLock<SocketAddr>,
    /// Current number of readers.
    pub readers: AtomicU64,
    /// Of these, firehoses in version 1.
    pub firehoses: AtomicU64,
    /// Envelopes that matched readers, counted for each reader.
    pub matched: AtomicU64,
    /// Envelopes that were handed over for sending.
    pub delivered: AtomicU64,
    /// Of these, envelopes of firehoses in version 1.
    pub delivered_to_firehoses: AtomicU64,
    /// Envelopes that were lost because their readers were too slow.
    pub lost: AtomicU64,
    /// Envelopes that were queued when their readers left.
    pub abandoned: AtomicU64,
    /// Envelopes that are queued.
    pub queued: AtomicU64,
    /// Memory of those, in bytes.
    pub queued_bytes: AtomicU64,
    /// Records that all readers missed, counted for each of them, whether or not they match.
    pub missed: AtomicU64,
    /// Requests that were refused.
    pub refused: AtomicU64,
    /// Streams that were ended because their clients did not take an envelope in time.
    pub cut: AtomicU64,
}

impl ReaderServiceStats {
    /// Returns the book of all its readers. Its terms are read one after the other.
    pub fn book(&self) -> ReaderBook {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ReaderBook {
            matched: get(&self.matched),
            delivered: get(&self.delivered),
            lost: get(&self.lost),
            abandoned: get(&self.abandoned),
            queued: get(&self.queued),
            queued_bytes: get(&self.queued_bytes),
            missed: get(&self.missed),
        }
    }
}

/// The client of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderClient {
    /// The service that it uses.
    pub service: ReaderService,
    /// Its address.
    pub peer: SocketAddr,
}

/// The form in which a reader receives envelopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Version 2, with all tags as `tags`.
    Tags,
    /// Version 2, with all tags as `deprecated_tags`.
    DeprecatedTags,
    /// Version 1: only the requested types.
    V1(DropsondeRequest),
}

/// Statistics of all services.
#[derive(Debug, Default)]
pub(super) struct ReaderServicesStats([Arc<ReaderServiceStats>; ReaderService::ALL.len()]);

impl ReaderServicesStats {
    pub(super) fn of(&self, service: ReaderService) -> &Arc<ReaderServiceStats> {
        match service {
            ReaderService::Egress => &self.0[0],
            ReaderService::Gateway => &self.0[1],
            ReaderService::TrafficController => &self.0[2],
            ReaderService::LogCache => &self.0[3],
        }
    }
}

/// The envelopes that match a request, from now on.
#[derive(Debug)]
pub struct EnvelopeStream {
    hub: Arc<Hub>,
    reader: Arc<Reader>,
}

impl EnvelopeStream {
    /// Starts with the records appended from now on.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(
        view: &PipelineView,
        client: ReaderClient,
        request: &LoggregatorRequest,
    ) -> Result<Self, LiveError> {
        let form = if request.prefers_tags { Form::Tags } else { Form::DeprecatedTags };
        Self::start(view, Some(client), form, request.clone())
    }

    /// The same with envelopes of version 1.
    ///
    /// # Errors
    /// As above.
    pub fn of_v1(
        view: &PipelineView,
        client: ReaderClient,
        request: DropsondeRequest,
    ) -> Result<Self, LiveError> {
        let in_v2 = request.in_v2();
        Self::start(view, Some(client), Form::V1(request), in_v2)
    }

    /// The metrics of all containers, in version 1. It does not count as a reader in the
    /// statistics.
    ///
    /// # Errors
    /// As above.
    pub fn of_containers(view: &PipelineView) -> Result<Self, LiveError> {
        let filter = DropsondeFilter::Containers;
        let request = DropsondeRequest { filter, ..DropsondeRequest::default() };
        let in_v2 = request.in_v2();
        Self::start(view, None, Form::V1(request), in_v2)
    }

    fn start(
        view: &PipelineView,
        client: Option<ReaderClient>,
        form: Form,
        request: LoggregatorRequest,
    ) -> Result<Self, LiveError> {
        let reader = view.live.read(view, client, form, request)?;
        Ok(Self { hub: view.live.clone(), reader })
    }

    /// Counts envelopes of the last batch that were not sent as abandoned.
    pub fn give_up(&self, envelopes: u64) {
        self.reader.give_up(envelopes);
    }

    /// Returns the next envelopes; `None` when the pipeline has ended. Nothing is lost if the
    /// future is dropped before it completes.
    pub async fn next(&mut self) -> Option<EnvelopeChunk> {
        self.reader.next().await
    }
}

impl Drop for EnvelopeStream {
    fn drop(&mut self) {
        self.hub.stop_reading(&self.reader);
    }
}

impl PipelineView {
    /// Sets the memory limit of everything queued for readers of envelopes, in bytes: half of it
    /// for batches queued for the thread, half for the queues of readers. To be called before any
    /// reader joins.
    pub fn set_envelope_bytes_max(&self, bytes: u64) {
        self.live.budget.set(bytes);
    }

    /// Returns the current readers of all services, in the order in which they started.
    pub fn connected_readers(&self) -> Vec<ReaderStatus> {
        self.live.readers()
    }

    /// Returns the counts of a service.
    pub fn reader_service(&self, service: ReaderService) -> &ReaderServiceStats {
        self.live.reader_services.of(service)
    }
}

/// Adds to a statistic.
fn add(statistic: &AtomicU64, count: u64) {
    statistic.fetch_add(count, Ordering::Relaxed);
}

/// Subtracts from a statistic.
fn subtract(statistic: &AtomicU64, count: u64) {
    statistic.fetch_sub(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
