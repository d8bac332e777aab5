//! Readers of envelopes in the ledger: each service, and who is connected to it.
//!
//! Invariant: every term is counted independently, except `unaccounted`, which is computed.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_host::units::format_rfc3339;
use weir_pipeline::live::{ReaderBook, ReaderService, ReaderServiceStats, ReaderStatus};
use weir_pipeline::stats;
use weir_pipeline::view::PipelineView;

use crate::access::Requester;

/// Maximum number of readers that are listed for a service: 100 KiB of the document.
const READERS_LISTED_MAX: usize = 200;

/// A service for readers of envelopes: `matched = delivered + lost + abandoned + queued`. They are
/// counted for each reader, since the start; nothing is held back for readers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ReadersEntry {
    /// Name of the service: `egress`, `gateway`, `traffic_controller` or `log_cache`.
    pub name: String,
    /// Its address, with the actual port if port 0 was configured.
    pub address: String,
    /// Current number of readers.
    pub readers: u64,
    /// Envelopes that matched the selectors of readers.
    pub matched: u64,
    /// Envelopes that were sent.
    pub delivered: u64,
    /// Envelopes that were lost because their readers were too slow; readers are told.
    pub lost: u64,
    /// Envelopes that were queued when their readers disconnected.
    pub abandoned: u64,
    /// Envelopes that wait.
    pub queued: u64,
    /// Memory of these, in bytes.
    pub queued_bytes: u64,
    /// Records that all readers missed, whether or not they matched their selectors. For
    /// developers 0, since they may be those of others.
    pub missed: u64,
    /// Requests and connections that were refused.
    pub refused: u64,
    /// Streams that were ended because their clients did not accept an envelope in time.
    #[serde(default)]
    pub cut: u64,
    /// 0 if everything is accounted for. While envelopes are sent the terms are from slightly
    /// different moments; at rest they are exact.
    pub unaccounted: i64,
    /// The current readers, those with losses and long queues first, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connected: Vec<ReaderEntry>,
}

/// A current reader of envelopes: `matched = delivered + lost + abandoned + queued`, since it
/// started.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ReaderEntry {
    /// Its address.
    pub peer: String,
    /// Of the readers with the same shard, one receives each envelope; if empty, this one receives
    /// all.
    pub shard_id: String,
    /// What it selects: `log of app-1`, `log, counter of all`.
    pub selects: String,
    /// When it started, RFC 3339.
    pub since: String,
    /// Envelopes that matched its selectors.
    pub matched: u64,
    /// Envelopes that were sent.
    pub delivered: u64,
    /// Envelopes that were lost because it was too slow.
    pub lost: u64,
    /// Envelopes that could not be sent.
    pub abandoned: u64,
    /// Envelopes that wait.
    pub queued: u64,
    /// Memory of these, in bytes.
    pub queued_bytes: u64,
    /// Records that it missed, whether or not they matched its selectors; for developers 0.
    pub missed: u64,
    /// 0 if everything is accounted for.
    pub unaccounted: i64,
}

impl From<&ReaderStatus> for ReaderEntry {
    fn from(status: &ReaderStatus) -> Self {
        let ReaderBook { matched, delivered, lost, abandoned, queued, queued_bytes, missed } =
            status.book;
        Self {
            peer: status.peer.to_string(),
            shard_id: status.shard_id.clone(),
            selects: status.selects.clone(),
            since: format_rfc3339(status.since_unix_ns),
            matched,
            delivered,
            lost,
            abandoned,
            queued,
            queued_bytes,
            missed,
            unaccounted: status.book.unaccounted(),
        }
    }
}

impl ReadersEntry {
    /// Reads the services that are configured.
    pub(crate) fn all(view: &PipelineView) -> Vec<Self> {
        ReaderService::ALL
            .into_iter()
            .filter_map(|service| Self::of(service, view.reader_service(service)))
            .collect()
    }

    /// The same with the current readers.
    pub(crate) fn with_connected(view: &PipelineView) -> Vec<Self> {
        let mut services = Self::all(view);
        let readers = view.connected_readers();
        for service in &mut services {
            service.connect(&readers);
        }
        services
    }

    /// The current readers that read only records which the requester may see, and the services
    /// that they use, with the counts of these readers.
    pub(crate) fn of_requester(view: &PipelineView, requester: &Requester) -> Vec<Self> {
        let mut readers = view.connected_readers();
        readers.retain(|reader| requester.may_see_all_of(reader.sources.as_deref()));
        for reader in &mut readers {
            reader.book.missed = 0;
        }
        let of = |service: ReaderService| {
            let address = view.reader_service(service).address.get()?.to_string();
            let mut entry = Self { name: service.name().to_owned(), address, ..Self::default() };
            for reader in readers.iter().filter(|reader| reader.service == service) {
                entry.add(&reader.book);
            }
            entry.connect(&readers);
            (entry.readers > 0).then_some(entry)
        };
        ReaderService::ALL.into_iter().filter_map(of).collect()
    }

    /// Adds a reader.
    fn add(&mut self, book: &ReaderBook) {
        self.readers += 1;
        self.matched += book.matched;
        self.delivered += book.delivered;
        self.lost += book.lost;
        self.abandoned += book.abandoned;
        self.queued += book.queued;
        self.queued_bytes += book.queued_bytes;
        self.unaccounted += book.unaccounted();
    }

    fn connect(&mut self, readers: &[ReaderStatus]) {
        let mut own: Vec<&ReaderStatus> =
            readers.iter().filter(|reader| reader.service.name() == self.name).collect();
        own.sort_by_key(|reader| Reverse((reader.book.lost, reader.book.queued)));
        own.truncate(READERS_LISTED_MAX);
        self.connected = own.into_iter().map(ReaderEntry::from).collect();
    }

    fn of(service: ReaderService, stats: &ReaderServiceStats) -> Option<Self> {
        let address = stats.address.get()?.to_string();
        let book = stats.book();
        let ReaderBook { matched, delivered, lost, abandoned, queued, queued_bytes, missed } = book;
        Some(Self {
            name: service.name().to_owned(),
            address,
            readers: stats::get(&stats.readers),
            matched,
            delivered,
            lost,
            abandoned,
            queued,
            queued_bytes,
            missed,
            refused: stats::get(&stats.refused),
            cut: stats::get(&stats.cut),
            unaccounted: book.unaccounted(),
            connected: Vec::new(),
        })
    }
}
