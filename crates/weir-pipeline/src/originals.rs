//! Weir's counts as the metrics of the Loggregator components that it replaces, under the names
//! that their operators know.
//!
//! Invariants: every value is read from the books and the statistics, so it cannot disagree with
//! them; a metric is provided only if weir counts what its name means.

mod events;

use std::sync::Arc;

use weir_journal::Ledger;
use weir_model::{DiscardReason, SourceBook};

use crate::config::{OutputType, SourceType};
use crate::live::{ReaderService, ReaderServiceStats};
use crate::source::Envelopes;
use crate::stats::{self, get};
use crate::view::PipelineView;
pub use events::OriginalEvent;
pub(crate) use events::OriginalEvents;

/// A component of Loggregator, or a part of one with another origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Original {
    /// The agent on each machine.
    Metron,
    /// The router.
    Doppler,
    /// The router, as it identifies itself in version 1.
    DopplerServer,
    /// The server for readers of version 2.
    ReverseLogProxy,
    /// The server for readers of version 1.
    TrafficController,
    /// The scheduler of drains.
    Scheduler,
    /// The adapter, which sends to drains.
    Adapter,
}

impl Original {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Metron,
        Self::Doppler,
        Self::DopplerServer,
        Self::ReverseLogProxy,
        Self::TrafficController,
        Self::Scheduler,
        Self::Adapter,
    ];

    /// The source id of its envelopes.
    pub fn source_id(self) -> &'static str {
        match self {
            Self::Metron => "metron",
            Self::Doppler | Self::DopplerServer => "doppler",
            Self::ReverseLogProxy => "reverse_log_proxy",
            Self::TrafficController => "traffic_controller",
            Self::Scheduler => "drain_scheduler",
            Self::Adapter => "drain_adapter",
        }
    }

    /// The tag `origin` of its envelopes, which prefixes the names of metrics.
    pub fn origin(self) -> &'static str {
        match self {
            Self::Metron => "loggregator.metron",
            Self::Doppler => "loggregator.doppler",
            Self::DopplerServer => "DopplerServer",
            Self::ReverseLogProxy => "loggregator.rlp",
            Self::TrafficController => "loggregator.trafficcontroller",
            Self::Scheduler => "cf-syslog-drain.scheduler",
            Self::Adapter => "cf-syslog-drain.adapter",
        }
    }

    /// Whether it emits its metrics every minute instead of every five seconds.
    pub(crate) fn is_rare(self) -> bool {
        match self {
            Self::Metron | Self::Doppler | Self::DopplerServer => false,
            Self::ReverseLogProxy | Self::TrafficController | Self::Scheduler | Self::Adapter => {
                true
            }
        }
    }

    /// Tags of all its metrics.
    pub fn tags(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::DopplerServer => &[],
            Self::Metron
            | Self::Doppler
            | Self::ReverseLogProxy
            | Self::TrafficController
            | Self::Scheduler
            | Self::Adapter => &[("metric_version", "2.0")],
        }
    }
}

/// A metric of one of these components.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OriginalMetric {
    /// The component.
    pub of: Original,
    /// Its name, without the origin.
    pub name: &'static str,
    /// Tags that distinguish it from others of that name.
    pub tags: &'static [(&'static str, &'static str)],
    /// Its value.
    pub value: OriginalValue,
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OriginalValue {
    /// A total since the data directory was created, or since the start.
    Counter(u64),
    /// A current value.
    Gauge {
        /// The value, in its unit.
        value: f64,
        /// The unit.
        unit: &'static str,
    },
}

/// Totals of all drains, in Loggregator's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainCounts {
    /// Drains to which envelopes are sent.
    pub drains: u64,
    /// Drains whose URL is invalid or not allowed.
    pub refused_drains: u64,
    /// Envelopes routed to drains.
    pub ingress: u64,
    /// Envelopes accepted by drains.
    pub egress: u64,
    /// Envelopes routed to drains and lost.
    pub dropped: u64,
}

/// The metrics that are being collected.
struct Metrics {
    of: Original,
    all: Vec<OriginalMetric>,
}

impl Metrics {
    fn of(&mut self, of: Original) -> &mut Self {
        self.of = of;
        self
    }

    fn counter(
        &mut self,
        name: &'static str,
        tags: &'static [(&'static str, &'static str)],
        value: u64,
    ) -> &mut Self {
        let value = OriginalValue::Counter(value);
        self.all.push(OriginalMetric { of: self.of, name, tags, value });
        self
    }

    fn gauge(&mut self, name: &'static str, unit: &'static str, value: f64) -> &mut Self {
        let value = OriginalValue::Gauge { value, unit };
        self.all.push(OriginalMetric { of: self.of, name, tags: &[], value });
        self
    }
}

const INGRESS: &[(&str, &str)] = &[("direction", "ingress")];
const EGRESS: &[(&str, &str)] = &[("direction", "egress")];
const AT_MOST: &[(&str, &str)] = &[("direction", "egress"), ("accuracy", "at_most")];
const GRPC: &[(&str, &str)] = &[("protocol", "grpc")];
const GRPC_EGRESS: &[(&str, &str)] = &[("protocol", "grpc"), ("direction", "egress")];
const STREAM: &[(&str, &str)] = &[("endpoint", "stream")];
const FIREHOSE: &[(&str, &str)] = &[("endpoint", "firehose")];

/// Reasons for discarding received records that are losses, not configured behavior.
const LOSSES: [DiscardReason; 4] = [
    DiscardReason::Crash,
    DiscardReason::ReceiveBuffer,
    DiscardReason::RateLimit,
    DiscardReason::PartialLost,
];

fn losses(book: &SourceBook) -> u64 {
    LOSSES.iter().map(|reason| book.discarded[*reason as usize]).sum()
}

/// Counts summed over several services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaderCounts {
    /// Current number of readers.
    pub readers: u64,
    /// Of these, firehoses in version 1.
    pub firehoses: u64,
    /// Envelopes that matched readers.
    pub matched: u64,
    /// Envelopes delivered to readers.
    pub delivered: u64,
    /// Of these, envelopes of firehoses in version 1.
    pub delivered_to_firehoses: u64,
    /// Envelopes lost by readers.
    pub lost: u64,
    /// Records that all of them missed, whether or not they match.
    pub missed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Streams that were ended because their readers were too slow.
    pub cut: u64,
}

impl ReaderCounts {
    fn add(mut self, service: &ReaderServiceStats) -> Self {
        self.readers += get(&service.readers);
        self.firehoses += get(&service.firehoses);
        self.matched += get(&service.matched);
        self.delivered += get(&service.delivered);
        self.delivered_to_firehoses += get(&service.delivered_to_firehoses);
        self.lost += get(&service.lost);
        self.missed += get(&service.missed);
        self.refused += get(&service.refused);
        self.cut += get(&service.cut);
        self
    }
}

impl PipelineView {
    /// Queues an event to be emitted.
    pub fn note_original_event(&self, event: OriginalEvent) {
        self.original_events.add(event);
    }

    /// Returns the sum of the counts of these services.
    pub fn readers(&self, reader_services: &[ReaderService]) -> ReaderCounts {
        reader_services
            .iter()
            .fold(ReaderCounts::default(), |sum, service| sum.add(self.reader_service(*service)))
    }

    /// Returns the totals of all drains; `None` if there are none.
    pub fn drain_counts(&self) -> Option<DrainCounts> {
        let drains = self.drains()?;
        let mut counts = DrainCounts::default();
        for drain in drains.statuses().iter() {
            counts.drains += 1;
            counts.ingress += drain.book.routed;
            counts.egress += drain.book.delivered;
            counts.dropped += drain.book.discarded_total();
        }
        let refused = drains.providers().iter().map(|provider| provider.rejected as u64).sum();
        Some(DrainCounts { refused_drains: refused, ..counts })
    }

    /// Returns the number of open connections and sessions over which envelopes arrive.
    pub fn ingress_streams(&self) -> u64 {
        let is_router = |source_type| source_type == SourceType::Loggregator;
        let sources = self.sources();
        let routers = sources.iter().filter(|source| is_router(source.source_type));
        routers.map(|source| get(&source.stats.listener.connections)).sum()
    }

    /// Returns the number of destinations of envelopes, as an agent counts its routers: working
    /// outputs for envelopes, and weir itself if it has readers.
    pub fn routers(&self) -> u64 {
        let outputs = self.outputs();
        let works = outputs.iter().filter(|output| {
            output.output_type == Some(OutputType::Loggregator)
                && !output.stats.failing.load(std::sync::atomic::Ordering::Relaxed)
        });
        let serves = ReaderService::ALL
            .iter()
            .any(|service| self.reader_service(*service).address.get().is_some());
        works.count() as u64 + u64::from(serves)
    }

    /// Returns the metrics of all components that weir replaces.
    pub fn original_metrics(&self) -> Vec<OriginalMetric> {
        let ledger = self.journal.ledger();
        let mut metrics = Metrics { of: Original::Metron, all: Vec::new() };
        self.received(&ledger, &mut metrics);
        self.forwarded(&ledger, &mut metrics);
        self.read(&mut metrics);
        if let Some(drains) = self.drain_counts() {
            of_drains(&drains, &mut metrics);
        }
        metrics.all
    }

    /// Adds the metrics of agents and routers about received envelopes.
    fn received(&self, ledger: &Ledger, metrics: &mut Metrics) {
        let (mut v1, mut v2) = (SourceBook::default(), SourceBook::default());
        for source in self.sources().iter() {
            let book = ledger.sources.iter().find(|book| book.name == source.name);
            let Some(book) = book.map(|ledger| &ledger.book) else { continue };
            match source.source_type.envelopes() {
                Envelopes::V1 => v1.add(book),
                Envelopes::V2 => v2.add(book),
                // Weir's own metrics and messages are not traffic.
                Envelopes::Own | Envelopes::None => {}
            }
        }
        let mut all = v1;
        all.add(&v2);
        metrics
            .of(Original::Metron)
            .counter("ingress", &[], all.lines)
            .counter("egress", &[], all.records)
            .counter("dropped", INGRESS, losses(&all))
            .counter("dropsondeUnmarshaller.receivedEnvelopes", &[], v1.lines);
        if let Some(average) = all.bytes_read.checked_div(all.lines) {
            metrics.gauge("average_envelope", "bytes", average as f64);
        }
        metrics.of(Original::Doppler).counter("ingress", &[], v2.lines).counter(
            "dropped",
            INGRESS,
            losses(&v2),
        );
        metrics
            .of(Original::DopplerServer)
            .counter("listeners.receivedEnvelopes", &[], v1.lines)
            .counter("listeners.totalReceivedMessageCount", &[], v1.lines)
            .counter("doppler.shedEnvelopes", &[], losses(&v1));
    }

    /// Adds the metrics of an agent about envelopes sent to routers.
    fn forwarded(&self, ledger: &Ledger, metrics: &mut Metrics) {
        let (mut sent, mut errors, mut lost) = (0, 0, 0);
        let outputs: Arc<[_]> = self.outputs();
        let routers =
            outputs.iter().filter(|output| output.output_type == Some(OutputType::Loggregator));
        let mut has_routers = false;
        for output in routers {
            has_routers = true;
            errors += stats::get(&output.stats.retries);
            if let Some(cursor) = ledger.cursors.iter().find(|cursor| cursor.name == output.name) {
                sent += cursor.book.delivered;
                lost += cursor.book.discarded_total() + cursor.book.dead_lettered;
            }
        }
        metrics.of(Original::Metron).counter("dropped", EGRESS, lost);
        if has_routers {
            metrics
                .counter("DopplerForwarder.sentMessages", &[], sent)
                .counter("grpc.sentMessageCount", &[], sent)
                .counter("grpc.sendErrorCount", &[], errors);
        }
    }

    /// Adds the metrics about the envelopes of readers.
    fn read(&self, metrics: &mut Metrics) {
        let all = self.readers(&[
            ReaderService::Egress,
            ReaderService::Gateway,
            ReaderService::TrafficController,
        ]);
        metrics
            .of(Original::Doppler)
            .counter("egress", &[], all.delivered)
            .counter("dropped", EGRESS, all.lost)
            .gauge("subscriptions", "subscriptions", all.readers as f64);
        if all.missed > 0 {
            metrics.counter("dropped", AT_MOST, all.missed);
        }
        let v1 = self.readers(&[ReaderService::TrafficController]);
        metrics
            .of(Original::DopplerServer)
            .counter("sinks.dropped", &[], v1.lost)
            .gauge("messageRouter.numberOfFirehoseSinks", "sinks", v1.firehoses as f64)
            .gauge("grpcManager.subscriptions", "subscriptions", all.readers as f64);
        let proxy = self.readers(&[ReaderService::Egress, ReaderService::Gateway]);
        metrics
            .of(Original::ReverseLogProxy)
            .counter("ingress", GRPC, proxy.matched)
            .counter("egress", GRPC, proxy.delivered)
            .counter("dropped", GRPC_EGRESS, proxy.lost)
            .counter("rejected_streams", &[], proxy.refused)
            .gauge("subscriptions", "total", proxy.readers as f64);
        let streams = v1.readers.saturating_sub(v1.firehoses);
        let to_streams = v1.delivered.saturating_sub(v1.delivered_to_firehoses);
        metrics
            .of(Original::TrafficController)
            .counter("ingress", GRPC, v1.matched)
            .counter("egress", STREAM, to_streams)
            .counter("egress", FIREHOSE, v1.delivered_to_firehoses)
            .counter("dropped", EGRESS, v1.lost)
            .counter("doppler_proxy.slow_consumer", &[], v1.cut)
            .gauge("doppler_proxy.firehoses", "connections", v1.firehoses as f64)
            .gauge("doppler_proxy.app_streams", "connections", streams as f64);
    }
}

/// Adds the metrics of a scheduler and one adapter: weir is both.
fn of_drains(drains: &DrainCounts, metrics: &mut Metrics) {
    metrics
        .of(Original::Scheduler)
        .gauge("drains", "count", drains.drains as f64)
        .gauge("adapters", "count", 1.0);
    metrics
        .of(Original::Adapter)
        .counter("ingress", &[], drains.ingress)
        .counter("egress", &[], drains.egress)
        .counter("dropped", EGRESS, drains.dropped)
        .counter("rejected_bindings", &[], drains.refused_drains)
        .gauge("drain_bindings", "bindings", drains.drains as f64);
}
