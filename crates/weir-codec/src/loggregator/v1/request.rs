//! A request of a reader of version 1: a `SubscriptionRequest` of `plumbing.Doppler`.

use super::super::request::{LoggregatorRequest, LoggregatorSelector, LoggregatorWanted};
use super::super::wire::{Fields, LoggregatorError, Value};
use super::envelope::DropsondeType;

/// A request for envelopes of version 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DropsondeRequest {
    /// Of the readers with the same shard and the same request, one receives each envelope; if
    /// empty, this one receives all.
    pub shard_id: String,
    /// Only envelopes of this application; all if empty.
    pub app_id: String,
    /// Only these types.
    pub filter: DropsondeFilter,
}

/// The types of envelopes that a reader requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DropsondeFilter {
    /// All.
    #[default]
    All,
    /// Logs of applications.
    Logs,
    /// Everything else.
    Metrics,
    /// Metrics of containers; clients cannot request this.
    Containers,
}

impl DropsondeRequest {
    /// Reads the bytes of a request.
    pub fn parse(message: &[u8]) -> Result<Self, LoggregatorError> {
        let mut request = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(name)) => request.shard_id = text(name),
                (2, Value::Bytes(filter)) => {
                    for field in Fields::new(filter) {
                        match field? {
                            (1, Value::Bytes(name)) => request.app_id = text(name),
                            (2, Value::Bytes(_)) => request.filter = DropsondeFilter::Logs,
                            (3, Value::Bytes(_)) => request.filter = DropsondeFilter::Metrics,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(request)
    }

    /// Returns whether envelopes of this type are requested. As in the original, only logs,
    /// requests and metrics of containers belong to an application.
    pub fn wants(&self, event_type: DropsondeType) -> bool {
        let is_of_app = match event_type {
            DropsondeType::LogMessage
            | DropsondeType::HttpStartStop
            | DropsondeType::ContainerMetric => true,
            DropsondeType::ValueMetric | DropsondeType::CounterEvent | DropsondeType::Error => {
                self.app_id.is_empty()
            }
        };
        let is_log = event_type == DropsondeType::LogMessage;
        is_of_app
            && match self.filter {
                DropsondeFilter::All => true,
                DropsondeFilter::Logs => is_log,
                DropsondeFilter::Metrics => !is_log,
                DropsondeFilter::Containers => event_type == DropsondeType::ContainerMetric,
            }
    }

    /// Returns the request for the envelopes of version 2 that can be converted to the requested
    /// ones. Its shard is shared by readers with exactly the same request.
    pub fn in_v2(&self) -> LoggregatorRequest {
        let any = String::new;
        let wanted = |types: &[DropsondeType]| types.iter().any(|kind| self.wants(*kind));
        let kinds = [
            (LoggregatorWanted::Log, wanted(&[DropsondeType::LogMessage, DropsondeType::Error])),
            (LoggregatorWanted::Counter(any()), wanted(&[DropsondeType::CounterEvent])),
            (
                LoggregatorWanted::Gauge(Vec::new()),
                wanted(&[DropsondeType::ValueMetric, DropsondeType::ContainerMetric]),
            ),
            (LoggregatorWanted::Timer, wanted(&[DropsondeType::HttpStartStop])),
        ];
        let selectors = kinds.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let selectors = selectors.map(|(message, _)| LoggregatorSelector {
            source_id: self.app_id.clone(),
            message: Some(message),
        });
        let shard_id = match self.shard_id.as_str() {
            "" => String::new(),
            name => format!("v1\0{:?}\0{name}", self.filter),
        };
        LoggregatorRequest {
            shard_id,
            deterministic_name: String::new(),
            prefers_tags: true,
            selectors: selectors.collect(),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
