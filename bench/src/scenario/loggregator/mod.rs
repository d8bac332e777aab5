//! Weir as the router of Loggregator: envelopes in over gRPC and UDP, out to nozzles and to those
//! who follow single applications; and drains.
//!
//! Invariant: every reader counts what it gets. A run in which one envelope is missing that the
//! ledger does not count as lost fails.

mod drains;
mod load;
mod pki;
mod readers;
mod relay;
mod router;
mod syslog_sink;

pub(crate) use drains::{drains_scenario, idle_scenario};
pub(crate) use router::{handbook_scenario, latency_scenario, router_scenario};
