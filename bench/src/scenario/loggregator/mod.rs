//! Weir as the router of Loggregator: envelopes arrive over gRPC and UDP, and go to nozzles and to
//! readers of single applications; and drains.
//!
//! Invariant: every reader counts the envelopes that it gets. A run fails if one is missing that
//! the ledger does not count as lost.

mod drains;
mod load;
mod pki;
mod readers;
mod relay;
mod router;
mod syslog_sink;

pub(crate) use drains::{drains_scenario, idle_scenario};
pub(crate) use router::{handbook_scenario, hour_scenario, latency_scenario, router_scenario};
