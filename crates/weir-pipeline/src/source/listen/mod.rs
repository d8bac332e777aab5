//! Sources that receive records in HTTP requests, in two parts.
//!
//! `accept` takes connections and connects them to the journal: the listener, the slots that limit
//! its connections, and the lanes, which are its streams. `http` handles what arrives on a
//! connection: requests, bodies and answers. What a request means is defined by one module per
//! protocol next to this directory; nothing in here is specific to a protocol.
//!
//! Invariants: the port is bound before the thread starts, so a port in use is an error at start; a
//! source is one thread with one event loop, so nothing here is shared with other threads except
//! statistics; a request is answered with success only when all of its records are on stable
//! storage.

mod accept;
mod http;
pub(in crate::source) mod limits;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_host::{Clock, WakeFd};
use weir_journal::Journal;

use crate::config::ListenSettings;
use crate::rule::RuleSwitch;
use crate::stats::SourceStats;

pub use accept::ListenError;
pub(super) use accept::{Listener, Refusal};
pub(super) use http::{Answer, Body, BodyError, Request, RequestContext, retry_after_seconds};

/// Dependencies and settings of a listening source.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) settings: ListenSettings,
    pub(super) journal: Journal,
    pub(super) rules: Arc<RuleSwitch>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stats: Arc<SourceStats>,
    pub(super) wake: WakeFd,
    pub(super) stop: Arc<AtomicBool>,
}

/// The meaning of requests: one variant per protocol.
pub(super) enum Protocol {
    /// Datadog's logs intake.
    DatadogIntake(super::datadog_intake::Intake),
}

impl Protocol {
    async fn respond(&self, context: &RequestContext, request: Request) -> Answer {
        match self {
            Self::DatadogIntake(intake) => intake.respond(context, request).await,
        }
    }
}
