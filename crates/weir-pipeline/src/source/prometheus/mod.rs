//! `type = "prometheus"`: metrics of targets in the Prometheus text format, as Loggregator
//! envelopes.
//!
//! Each target has its own task, connection and offset in the interval, so that scrapes are spread
//! over time, and a slow target does not delay others.
//!
//! Invariants: a scrape yields all of its samples or none; a target has at most one scrape at a
//! time, and scrapes that become due meanwhile are skipped; the memory of each target and of all
//! targets together is limited.

mod client;
pub(in crate::source) mod limits;
mod paths;
mod target_file;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use weir_codec::{PrometheusOrigin, PrometheusText};
use weir_model::hash64;

use self::client::{Client, ScrapeError};
use self::limits::SCRAPE_TARGETS_MAX;
use super::listen::Budget;
use super::produce::{ENVELOPES_PER_TURN, Emitter};
use crate::config::{HttpAuth, TlsSettings};

/// `type = "prometheus"`.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusSource {
    /// The configured targets.
    pub targets: Vec<ScrapeTarget>,
    /// Globs of files that each describe one more target.
    pub target_files: Vec<String>,
    /// Interval at which these files are searched for and read.
    pub rescan_interval: Duration,
    /// Source id of targets from files that specify none.
    pub source_id: String,
    /// Scrape interval of targets from files that specify none.
    pub interval: Duration,
    /// Timeout of a scrape of a target from a file.
    pub timeout: Duration,
    /// TLS settings of targets from files.
    pub tls: TlsSettings,
    /// Maximum length of a response in bytes, before and after decompression.
    pub body_bytes_max: usize,
    /// Maximum size of all responses being received or processed, in bytes.
    pub in_flight_bytes_max: usize,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// A target of a scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrapeTarget {
    /// `http://` or `https://`, with path and query.
    pub url: String,
    /// Source id of its metrics.
    pub source_id: String,
    /// Instance id of its metrics.
    pub instance_id: String,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Credentials.
    pub auth: HttpAuth,
    /// Tags added to its metrics that have no label of that name.
    pub labels: Vec<(String, String)>,
    /// Scrape interval.
    pub interval: Duration,
    /// Timeout of a scrape.
    pub timeout: Duration,
    /// Certificates.
    pub tls: TlsSettings,
}

/// State shared by the tasks of a source.
struct ScrapeContext {
    emitter: Rc<Emitter>,
    budget: Budget,
    body_bytes_max: usize,
}

/// The targets with their tasks, which are aborted when this is dropped.
struct Targets {
    shared: Rc<ScrapeContext>,
    /// By a key that identifies a target across changes of its settings.
    running: HashMap<String, (ScrapeTarget, AbortHandle)>,
    tasks: JoinSet<()>,
}

/// Scrapes all targets; never returns.
pub(super) async fn run(source: &PrometheusSource, emitter: &Rc<Emitter>) {
    let stats = &emitter.context.stats;
    stats.collect.open();
    let shared = Rc::new(ScrapeContext {
        emitter: emitter.clone(),
        budget: Budget::new(source.in_flight_bytes_max, stats.clone()),
        body_bytes_max: source.body_bytes_max,
    });
    let mut targets = Targets { shared, running: HashMap::new(), tasks: JoinSet::new() };
    let mut broken = BTreeSet::new();
    loop {
        let own = source.targets.iter().enumerate();
        let mut wanted: HashMap<String, ScrapeTarget> =
            own.map(|(number, target)| (format!("#{number}"), target.clone())).collect();
        if !source.target_files.is_empty() {
            target_file::read_all(source, &mut wanted, &mut broken, &stats.collect, &stats.errors);
        }
        targets.follow(wanted);
        // Only removes ended tasks.
        while targets.tasks.try_join_next().is_some() {}
        sleep(source.rescan_interval).await;
    }
}

impl Targets {
    /// Starts and stops tasks, so that exactly these targets are scraped.
    fn follow(&mut self, wanted: HashMap<String, ScrapeTarget>) {
        let stats = &self.shared.emitter.context.stats;
        if wanted.len() > SCRAPE_TARGETS_MAX {
            let text = format!("only {SCRAPE_TARGETS_MAX} of {} targets are scraped", wanted.len());
            stats.errors.count("too_many_targets", &text);
        }
        self.running.retain(|key, (target, task)| {
            let is_wanted = wanted.get(key).is_some_and(|wanted| wanted == target);
            if !is_wanted {
                task.abort();
                stats.collect.recovered(&target.url);
            }
            is_wanted
        });
        for (key, target) in wanted {
            if self.running.len() < SCRAPE_TARGETS_MAX && !self.running.contains_key(&key) {
                let task = follow(key.clone(), target.clone(), self.shared.clone());
                self.running.insert(key, (target, self.tasks.spawn_local(task)));
            }
        }
        stats.collect.set_targets(self.running.len() as u64);
    }
}

/// Scrapes one target at intervals; never returns.
async fn follow(key: String, target: ScrapeTarget, shared: Rc<ScrapeContext>) {
    let stats = &shared.emitter.context.stats;
    let mut client = None;
    let mut next = Instant::now() + phase(&key, target.interval);
    loop {
        sleep_until(next).await;
        let begun = Instant::now();
        let scraped = scrape(&target, &mut client, &shared).await;
        stats.collect.count_duration(begun.elapsed());
        match scraped {
            Ok(()) => {
                if stats.collect.recovered(&target.url) {
                    let source = shared.emitter.context.name.as_str();
                    tracing::info!(
                        source,
                        target = target.url,
                        "scraping the target succeeds again"
                    );
                }
            }
            Err(error) => {
                let text = error.to_string();
                stats.errors.count(error.kind(), &format!("{}: {text}", target.url));
                if stats.collect.failed(&target.url, &target.source_id, &text) {
                    let source = shared.emitter.context.name.as_str();
                    tracing::warn!(
                        source,
                        target = target.url,
                        error = text,
                        "cannot scrape the target"
                    );
                }
            }
        }
        let missed = Instant::now().saturating_duration_since(next).as_nanos()
            / target.interval.as_nanos().max(1);
        next += target.interval * (u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1));
    }
}

/// Returns the offset in the interval at which a target is scraped: fixed for each target, and
/// spread over the targets.
fn phase(key: &str, interval: Duration) -> Duration {
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(hash64(key.as_bytes()) % interval_ns.max(1))
}

async fn scrape(
    target: &ScrapeTarget,
    client: &mut Option<Client>,
    shared: &ScrapeContext,
) -> Result<(), ScrapeError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::new(target, shared.body_bytes_max)?),
    };
    let fetched = timeout(target.timeout, client.fetch(&shared.budget)).await;
    let answer = fetched.unwrap_or(Err(ScrapeError::Timeout { after: target.timeout }))?;
    let mut text = PrometheusText::check(&answer.body)?;
    let (emitter, stats) = (&*shared.emitter, &shared.emitter.context.stats);
    let origin = PrometheusOrigin {
        source_id: &target.source_id,
        instance_id: &target.instance_id,
        labels: &target.labels,
    };
    let scraped_ns = emitter.context.clock.unix_ns();
    let (mut envelope, mut number, mut invalid) = (Vec::new(), 0_i64, 0_u64);
    while let Some(sample) = text.next_sample() {
        envelope.clear();
        // Each has a distinct time: readers of the log-cache continue after the last time they
        // have.
        if sample.encode(&origin, scraped_ns + number, &mut envelope) {
            emitter.emit(&envelope, scraped_ns).await;
        } else {
            invalid += 1;
        }
        number += 1;
        if number % ENVELOPES_PER_TURN == 0 {
            emitter.turn();
            tokio::task::yield_now().await;
        }
    }
    emitter.turn();
    if invalid > 0 {
        let text = format!("{}: {invalid} counters are negative or not a number", target.url);
        stats.errors.count_times(invalid, "invalid_total", &text);
    }
    Ok(())
}
