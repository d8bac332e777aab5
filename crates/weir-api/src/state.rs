//! The state that all handlers share.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use weir_host::RealClock;
use weir_pipeline::view::PipelineView;

use crate::access::Gate;
use crate::explore::{Explore, QueryLimits};
use crate::reliability::{Recorder, Shown};
use crate::server::ApiTls;
use crate::tail::Sessions;
use crate::topology::TopologyStreams;
use crate::views::Views;

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct ApiState {
    pub(crate) version: &'static str,
    pub(crate) gate: Arc<Gate>,
    /// `None`: clients do not use TLS.
    pub(crate) tls: Option<Arc<ApiTls>>,
    /// `None` until the pipeline has started; replaced by a reload.
    pub(crate) view: RwLock<Option<Arc<PipelineView>>>,
    pub(crate) shown: Shown,
    pub(crate) reliability: Recorder,
    pub(crate) reloads: Reloads,
    /// Whether `/metrics` also includes the metrics of Loggregator's programs.
    pub(crate) has_originals: AtomicBool,
    pub(crate) tails: Arc<Sessions>,
    pub(crate) topology: TopologyStreams,
    pub(crate) views: Arc<Views>,
    pub(crate) explore: Explore,
    /// Set when the API ends.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Results of configuration reloads.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) applied: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// The last one was refused.
    pub(crate) is_refused: AtomicBool,
}

impl ApiState {
    /// The state before the pipeline has started.
    pub(crate) fn new(
        version: &'static str,
        limits: &QueryLimits,
        gate: Gate,
        tls: Option<Arc<ApiTls>>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            version,
            gate: Arc::new(gate),
            tls,
            view: RwLock::new(None),
            shown: Shown::default(),
            reliability: Recorder::new(Arc::new(RealClock::new())),
            reloads: Reloads::default(),
            has_originals: AtomicBool::new(false),
            tails: Sessions::new(limits.tails_max),
            topology: TopologyStreams::default(),
            views: Arc::default(),
            explore: Explore::new(Arc::new(RealClock::new()), *limits),
            stopped,
        }
    }

    pub(crate) fn view(&self) -> Option<Arc<PipelineView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
