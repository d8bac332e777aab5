//! The current readers of envelopes, for the ledger: who reads what, and what became of it.
//!
//! Invariant: the counts of a reader are read at one moment, so they always balance.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_codec::{LoggregatorRequest, LoggregatorWanted};

use super::ReaderService;

/// Maximum number of sources that a description names.
const SOURCES_DESCRIBED_MAX: usize = 3;

/// A current reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderStatus {
    /// The service that it uses.
    pub service: ReaderService,
    /// Its address.
    pub peer: SocketAddr,
    /// Of the readers with the same shard, one receives each envelope; if empty, this one receives
    /// all.
    pub shard_id: String,
    /// What it selects: `log of app-1`, `log, counter of all`.
    pub selects: String,
    /// The sources that it selects; `None`: all.
    pub sources: Option<Vec<String>>,
    /// When it started, nanoseconds since 1970.
    pub since_unix_ns: i64,
    /// Its book.
    pub book: ReaderBook,
}

/// The book of a reader, or of all readers of a service: `matched = delivered + lost + abandoned +
/// queued` envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaderBook {
    /// Envelopes that matched.
    pub matched: u64,
    /// Envelopes that were handed over for sending.
    pub delivered: u64,
    /// Envelopes that were lost because it was too slow.
    pub lost: u64,
    /// Envelopes that could not be sent.
    pub abandoned: u64,
    /// Envelopes that are queued.
    pub queued: u64,
    /// Memory of those, in bytes.
    pub queued_bytes: u64,
    /// Records that all readers missed, whether or not they match.
    pub missed: u64,
}

impl ReaderBook {
    /// Returns the number of unaccounted envelopes; 0 when the book balances.
    pub fn unaccounted(&self) -> i64 {
        let accounted = self.delivered + self.lost + self.abandoned + self.queued;
        self.matched as i64 - accounted as i64
    }
}

/// Describes the selectors of a request, by source.
pub(in super::super) fn describe(request: &LoggregatorRequest) -> String {
    let mut sources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for selector in &request.selectors {
        let Some(wanted) = &selector.message else { continue };
        let kinds = sources.entry(&selector.source_id).or_default();
        let kind = kind_of(wanted);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let more = sources.len().saturating_sub(SOURCES_DESCRIBED_MAX);
    let described = sources.iter().take(SOURCES_DESCRIBED_MAX).map(|(source, kinds)| {
        format!("{} of {}", kinds.join(", "), if source.is_empty() { "all" } else { source })
    });
    let described: Vec<String> = described.collect();
    match more {
        0 => described.join("; "),
        more => format!("{}; and {more} more", described.join("; ")),
    }
}

/// Returns the sources that a request selects; `None` if it selects all.
pub(in super::super) fn sources_of(request: &LoggregatorRequest) -> Option<Vec<String>> {
    let sources = request.selectors.iter().map(|selector| &selector.source_id);
    let mut sources: Vec<String> = sources.cloned().collect();
    sources.sort_unstable();
    sources.dedup();
    (!sources.is_empty() && !sources.iter().any(String::is_empty)).then_some(sources)
}

fn kind_of(wanted: &LoggregatorWanted) -> &'static str {
    match wanted {
        LoggregatorWanted::Log => "log",
        LoggregatorWanted::Counter(_) => "counter",
        LoggregatorWanted::Gauge(_) => "gauge",
        LoggregatorWanted::Timer => "timer",
        LoggregatorWanted::Event => "event",
    }
}

#[cfg(test)]
mod tests {
    use weir_codec::LoggregatorSelector;

    use super::*;

    #[test]
    fn selectors_are_described_by_source() {
        let select = |source: &str, wanted| LoggregatorSelector {
            source_id: source.to_owned(),
            message: Some(wanted),
        };
        let mut request = LoggregatorRequest {
            selectors: vec![
                select("", LoggregatorWanted::Log),
                select("", LoggregatorWanted::Counter("requests".to_owned())),
                select("", LoggregatorWanted::Counter("errors".to_owned())),
                select("app", LoggregatorWanted::Timer),
            ],
            ..LoggregatorRequest::default()
        };
        assert_eq!(describe(&request), "log, counter of all; timer of app");
        assert_eq!(sources_of(&request), None, "of all");
        for n in 0..10 {
            request.selectors.push(select(&format!("app-{n}"), LoggregatorWanted::Log));
        }
        let want = "log, counter of all; timer of app; log of app-0; and 9 more";
        assert_eq!(describe(&request), want);
        request.selectors.drain(..request.selectors.len() - 2);
        request.selectors.push(select("app-8", LoggregatorWanted::Timer));
        assert_eq!(sources_of(&request).unwrap(), ["app-8", "app-9"]);
        assert_eq!(sources_of(&LoggregatorRequest::default()), None);
    }
}
