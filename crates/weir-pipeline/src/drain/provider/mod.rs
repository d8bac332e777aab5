//! The sources of bindings: the binding cache or the Cloud Controller of Cloud Foundry, which are
//! polled for the complete list.
//!
//! Reading order: this file, `list`.
//!
//! Invariants: a list is complete or is not used: after an error on any of its pages the last list
//! stays in use; the size of responses is limited; messages never contain credentials.

mod list;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_host::ConnectError;

use crate::config::{Endpoint, TlsSettings};
use crate::platform::{PlatformClient, PlatformRequest};
pub use list::{BindingList, RejectedBinding};
use list::{ListBuilder, PageError};

/// Interval between requests, as in the original's job.
pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(15);

/// Maximum number of drains per application, as in the original.
pub const DRAINS_PER_APP_DEFAULT: usize = 5;

/// Maximum length of all responses for one list: 10,000 bindings with a certificate, a key and an
/// authority of 4 KiB each.
const LIST_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Maximum number of pages of a list, so that a faulty server does not cause an endless loop.
const PAGES_MAX: usize = 1000;

/// Bindings per request, as in the original.
const PAGE_BINDINGS: usize = 1000;

/// Random part of intervals, so that many machines do not send requests at the same time.
const JITTER: f64 = 0.2;

/// A server that lists bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// The binding cache: `/v2/bindings` and `/v2/aggregate`.
    BindingCache,
    /// The Cloud Controller: `/internal/v5/syslog_drain_urls`.
    CloudController,
    /// An older Cloud Controller, whose drains have no credentials:
    /// `/internal/v4/syslog_drain_urls`.
    CloudControllerV4,
}

/// Settings of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// Its API.
    pub kind: ProviderKind,
    /// Its address.
    pub endpoint: Endpoint,
    /// Its authority, and the client certificate that it requires.
    pub tls: TlsSettings,
    /// Time between two requests for the list.
    pub interval: Duration,
    /// Maximum number of drains per application; further ones are rejected.
    pub drains_per_app_max: usize,
}

/// Why a list could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The server was not reached.
    #[error("{0}")]
    Unreachable(String),
    /// It responded with an error.
    #[error("{target} responded to {path} with status {status}")]
    Status {
        /// Host and port.
        target: String,
        /// The path of the request.
        path: String,
        /// The status.
        status: u16,
    },
    /// Its response cannot be used.
    #[error("the response of {target} to {path} {error}")]
    Answer {
        /// Host and port.
        target: String,
        /// The path of the request.
        path: String,
        /// Why.
        error: PageError,
    },
    /// The list has too many pages.
    #[error("the list of {target} has more than {PAGES_MAX} pages or 128 MiB")]
    Endless {
        /// Host and port.
        target: String,
    },
}

/// The last list of a provider, and its statistics.
#[derive(Debug, Clone, Default)]
pub struct ProviderState {
    /// The last complete list; `None` before the first one.
    pub list: Option<Arc<BindingList>>,
    /// Number of requests for the list.
    pub refreshes: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// The error of the last request, if it failed.
    pub last_error: Option<ProviderError>,
    /// Duration of the last successful request.
    pub took: Duration,
}

/// A provider.
#[derive(Debug)]
pub struct Provider {
    client: PlatformClient,
    target: String,
    kind: ProviderKind,
    interval: Duration,
    drains_per_app_max: usize,
}

impl Provider {
    /// Reads the certificate files.
    pub fn new(settings: &ProviderSettings) -> Result<Self, ConnectError> {
        Ok(Self {
            client: PlatformClient::new(&settings.endpoint, settings.tls.files(), LIST_BYTES_MAX)?,
            target: settings.endpoint.authority.clone(),
            kind: settings.kind,
            interval: settings.interval,
            drains_per_app_max: settings.drains_per_app_max,
        })
    }

    /// Requests the list at intervals until all receivers are gone.
    pub async fn run(self, states: watch::Sender<ProviderState>) {
        loop {
            let started = tokio::time::Instant::now();
            let fetched = self.fetch().await;
            states.send_modify(|state| state.update(fetched, started.elapsed()));
            let pause = self.interval.mul_f64(1.0 + JITTER * (fastrand::f64() * 2.0 - 1.0));
            if tokio::time::timeout(pause, states.closed()).await.is_ok() {
                return;
            }
        }
    }

    /// Requests all bindings.
    pub async fn fetch(&self) -> Result<BindingList, ProviderError> {
        let mut list = ListBuilder::default();
        match self.kind {
            ProviderKind::BindingCache => {
                let path = "/v2/bindings";
                let body = self.get(path).await?;
                list.add_bindings(&body).map_err(|error| self.unusable(path, error))?;
                let path = "/v2/aggregate";
                match self.get(path).await {
                    Ok(body) => {
                        list.add_aggregate(&body).map_err(|error| self.unusable(path, error))?;
                    }
                    // Older versions have no drains for everything.
                    Err(ProviderError::Status { status: 404, .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            ProviderKind::CloudController => {
                self.fetch_pages("v5", &mut list, ListBuilder::add_page).await?;
            }
            ProviderKind::CloudControllerV4 => {
                self.fetch_pages("v4", &mut list, ListBuilder::add_page_v4).await?;
            }
        }
        Ok(list.build(self.drains_per_app_max))
    }

    async fn fetch_pages(
        &self,
        version: &str,
        list: &mut ListBuilder,
        add: impl Fn(&mut ListBuilder, &[u8]) -> Result<u64, PageError>,
    ) -> Result<(), ProviderError> {
        let (mut next_id, mut bytes) = (0, 0);
        for _ in 0..PAGES_MAX {
            let path = format!(
                "/internal/{version}/syslog_drain_urls?batch_size={PAGE_BINDINGS}&next_id={next_id}"
            );
            let body = self.get(&path).await?;
            bytes += body.len();
            if bytes > LIST_BYTES_MAX {
                break;
            }
            next_id = add(list, &body).map_err(|error| self.unusable(&path, error))?;
            if next_id == 0 {
                return Ok(());
            }
        }
        Err(ProviderError::Endless { target: self.target.clone() })
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, ProviderError> {
        let request = PlatformRequest::Get { path, token: None };
        let answer = self.client.send(&request).await.map_err(ProviderError::Unreachable)?;
        if answer.status != 200 {
            let (target, path) = (self.target.clone(), path.to_owned());
            return Err(ProviderError::Status { target, path, status: answer.status });
        }
        Ok(answer.body)
    }

    fn unusable(&self, path: &str, error: PageError) -> ProviderError {
        ProviderError::Answer { target: self.target.clone(), path: path.to_owned(), error }
    }
}

impl ProviderState {
    fn update(&mut self, fetched: Result<BindingList, ProviderError>, took: Duration) {
        self.refreshes += 1;
        match fetched {
            Ok(list) => {
                if self.last_error.take().is_some() {
                    tracing::info!("the list of drains is available again");
                }
                self.list = Some(Arc::new(list));
                self.took = took;
            }
            Err(error) => {
                self.errors += 1;
                if self.last_error.is_none() {
                    tracing::warn!(%error, "cannot load the list of drains; keeping the last one");
                }
                self.last_error = Some(error);
            }
        }
    }
}
