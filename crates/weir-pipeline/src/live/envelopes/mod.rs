//! Envelopes of Loggregator for those who ask for some of them by selectors: firehoses, shards of
//! them, and streams of single applications.
//!
//! They share the reader of the journal and its thread with live tails. Records are looked up in
//! one [`index`] by source and kind; for each reader that gets one, its envelope is written once,
//! into the [`queue`] from which the reader takes whole batches.
//!
//! Invariants: a reader gets each envelope that it asks for once, or it is counted as lost, in its
//! own stream and in the statistics of its face; a slow reader has a limited queue and takes nothing
//! from others; memory of all queues together has one limit; a record that a rule has changed is
//! written anew, so that no byte of what was hidden remains.

mod dispatch;
mod index;
mod queue;
mod records;
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
pub use write::Origin as EnvelopeOrigin;

/// By which service envelopes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// gRPC, as from the reverse log proxy.
    Egress,
    /// HTTP, as from its gateway.
    Gateway,
    /// Websockets and HTTP with envelopes of version 1, as from the traffic controller.
    TrafficController,
    /// HTTP and gRPC, as from the log-cache: what is stored, not what comes in.
    LogCache,
}

impl Face {
    /// All faces.
    pub const ALL: [Self; 4] =
        [Self::Egress, Self::Gateway, Self::TrafficController, Self::LogCache];

    /// Whether it reads what is stored.
    pub fn reads_store(self) -> bool {
        match self {
            Self::Egress | Self::Gateway => false,
            Self::TrafficController | Self::LogCache => true,
        }
    }

    /// Whether its readers can have tokens. Those of the reverse log proxy have certificates.
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

/// What became of envelopes of a face: `matched = delivered + lost + abandoned + queued`.
#[derive(Debug, Default)]
pub struct FaceStats {
    /// The address of the service; nothing if it is not configured.
    pub address: OnceLock<SocketAddr>,
    /// Readers now.
    pub readers: AtomicU64,
    /// Of these, readers of everything in version 1.
    pub firehoses: AtomicU64,
    /// Envelopes that readers have asked for, counted for each of them.
    pub matched: AtomicU64,
    /// Envelopes that were handed over for sending.
    pub delivered: AtomicU64,
    /// Of these, those of readers of everything in version 1.
    pub delivered_to_firehoses: AtomicU64,
    /// Envelopes that were lost, since their readers were too slow.
    pub lost: AtomicU64,
    /// Envelopes that waited when their readers left.
    pub abandoned: AtomicU64,
    /// Envelopes that wait.
    pub queued: AtomicU64,
    /// Memory of those, in bytes.
    pub queued_bytes: AtomicU64,
    /// Records that were missed for all readers together, counted for each of them: it is not known
    /// whether they had asked for them.
    pub missed: AtomicU64,
    /// Requests that were refused.
    pub refused: AtomicU64,
    /// Streams that were ended since their clients did not take an envelope in time.
    pub cut: AtomicU64,
}

/// The form in which a reader gets envelopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Version 2, with all tags as `tags`.
    Tags,
    /// Version 2, with all tags as `deprecated_tags`.
    DeprecatedTags,
    /// Version 1: those of these types.
    V1(DropsondeRequest),
}

/// Statistics of all faces.
#[derive(Debug, Default)]
pub(super) struct FacesStats([Arc<FaceStats>; Face::ALL.len()]);

impl FacesStats {
    pub(super) fn of(&self, face: Face) -> &Arc<FaceStats> {
        match face {
            Face::Egress => &self.0[0],
            Face::Gateway => &self.0[1],
            Face::TrafficController => &self.0[2],
            Face::LogCache => &self.0[3],
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
    /// Starts with what is appended from now on.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(
        view: &PipelineView,
        face: Face,
        request: &LoggregatorRequest,
    ) -> Result<Self, LiveError> {
        let form = if request.prefers_tags { Form::Tags } else { Form::DeprecatedTags };
        Self::start(view, view.live.faces.of(face).clone(), form, request.clone())
    }

    /// The same with envelopes of version 1.
    ///
    /// # Errors
    /// As above.
    pub fn of_v1(
        view: &PipelineView,
        face: Face,
        request: DropsondeRequest,
    ) -> Result<Self, LiveError> {
        let stats = view.live.faces.of(face).clone();
        let in_v2 = request.in_v2();
        Self::start(view, stats, Form::V1(request), in_v2)
    }

    /// The metrics of all containers, in version 1. This is no reader: it is in no statistics.
    ///
    /// # Errors
    /// As above.
    pub fn of_containers(view: &PipelineView) -> Result<Self, LiveError> {
        let filter = DropsondeFilter::Containers;
        let request = DropsondeRequest { filter, ..DropsondeRequest::default() };
        let in_v2 = request.in_v2();
        Self::start(view, Arc::default(), Form::V1(request), in_v2)
    }

    fn start(
        view: &PipelineView,
        stats: Arc<FaceStats>,
        form: Form,
        request: LoggregatorRequest,
    ) -> Result<Self, LiveError> {
        let reader = view.live.read(view, stats, form, request)?;
        Ok(Self { hub: view.live.clone(), reader })
    }

    /// Counts envelopes of the last batch that were not sent in the end as abandoned.
    pub fn give_up(&self, envelopes: u64) {
        self.reader.give_up(envelopes);
    }

    /// Returns the next envelopes; `None` when the pipeline has ended. Nothing is lost if the future
    /// is dropped before it completes.
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
    /// Sets the memory of everything that waits for readers of envelopes, in bytes: half of it in
    /// front of the thread, half for the envelopes of readers. To be called before any reader joins.
    pub fn set_envelope_bytes_max(&self, bytes: u64) {
        self.live.budget.set(bytes);
    }

    /// Returns what became of the envelopes of a face.
    pub fn face(&self, face: Face) -> &FaceStats {
        self.live.faces.of(face)
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
