//! End-to-end tests: the real binary, real files, a real collector over loopback.
//!
//! Every test that moves a record ends with the oracle (`weir_testkit::Oracle`) or with balanced
//! books. No fixed ports, no sleeps: tests poll for the expected state, with a deadline.
#![forbid(unsafe_code)]

#[cfg(test)]
mod api_access;
mod api_tls;
#[cfg(test)]
mod behind;
#[cfg(test)]
mod console;
#[cfg(test)]
mod container_metrics;
#[cfg(test)]
mod cursors;
#[cfg(test)]
mod datadog_client;
#[cfg(test)]
mod datadog_metrics;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod drain_receivers;
#[cfg(test)]
mod drains;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod hec;
#[cfg(test)]
mod input;
#[cfg(test)]
mod intake;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod latency;
#[cfg(test)]
mod log_cache;
#[cfg(test)]
mod loggregator;
#[cfg(test)]
mod loggregator_access;
#[cfg(test)]
mod loggregator_egress;
#[cfg(test)]
mod loggregator_names;
#[cfg(test)]
mod loggregator_output;
#[cfg(test)]
mod loggregator_v1;
#[cfg(test)]
mod multiline;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod partial;
#[cfg(test)]
mod points;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod record_path;
#[cfg(test)]
mod reliability;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod statsd;
#[cfg(test)]
mod store;
#[cfg(test)]
mod syslog;
#[cfg(test)]
mod syslog_load;
#[cfg(test)]
mod syslog_senders;
#[cfg(test)]
mod tail;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod torture;
