//! `type = "container_metrics"`: the resource usage of containers, from their cgroups and the files
//! of their runtime, as the gauges that Diego's cells send.
//!
//! Two envelopes for each container and interval: one with `cpu`, `memory`, `disk`, `memory_quota`
//! and `disk_quota`, which readers of version 1 receive as a container metric, and one with
//! `absolute_usage` and, if it is known, `container_age`. Values that are not available on the
//! machine are omitted: CPU entitlements and log rates.
//!
//! Invariants: a container is measured once per interval; one that ends while it is being read is
//! not an error; containers of unknown runtimes are not measured, and reported.

mod cgroup;
mod disk;
pub(in crate::source) mod limits;
mod mapping;
mod runtime;

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    encode_loggregator_envelope, encode_loggregator_metrics,
};

use self::cgroup::{Cgroup, Usage};
use self::disk::LayerSize;
use self::mapping::Identity;
use self::runtime::Container;
use super::produce::Emitter;

/// `type = "container_metrics"`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContainerMetricsSource {
    /// Interval at which containers are measured.
    pub interval: Duration,
    /// Mount point of the cgroup file systems.
    pub cgroup_root: PathBuf,
    /// docker's data directory.
    pub docker_root: PathBuf,
    /// Directories with containerd's tasks, by namespace.
    pub containerd_roots: Vec<PathBuf>,
    /// Directories with CRI-O's containers.
    pub crio_roots: Vec<PathBuf>,
    /// Where `meminfo` and `self/mountinfo` are.
    pub proc_root: PathBuf,
    /// Labels with the source id of a container, in order of preference.
    pub source_id_labels: Vec<String>,
    /// Labels with the instance id of a container, in order of preference.
    pub instance_id_labels: Vec<String>,
    /// Names of tags, with the labels that contain their values.
    pub label_tags: Vec<(String, String)>,
    /// Interval at which writable layers are measured; `None` = never.
    pub disk_interval: Option<Duration>,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// State of a container that is kept between intervals.
struct ContainerState {
    container: Container,
    identity: Identity,
    /// CPU time in nanoseconds, and the monotonic time of the measurement.
    cpu: Option<(u64, Duration)>,
    disk: Option<LayerSize>,
    disk_measured_at: Option<Duration>,
}

/// Measures all containers of a source.
struct Meter<'s> {
    source: &'s ContainerMetricsSource,
    emitter: Rc<Emitter>,
    known: HashMap<String, ContainerState>,
}

/// Measures all containers at intervals; never returns.
pub(super) async fn run(source: &ContainerMetricsSource, emitter: &Rc<Emitter>) {
    emitter.context.stats.collect.open();
    let mut meter = Meter { source, emitter: emitter.clone(), known: HashMap::new() };
    let mut next = Instant::now();
    loop {
        sleep_until(next).await;
        let begun = Instant::now();
        meter.measure_all().await;
        emitter.context.stats.collect.count_duration(begun.elapsed());
        // Measurements that are already due again are skipped.
        while next <= Instant::now() {
            next += source.interval;
        }
    }
}

impl Meter<'_> {
    async fn measure_all(&mut self) {
        let stats = self.emitter.context.stats.clone();
        let (cgroups, is_complete) = match cgroup::find(&self.source.cgroup_root) {
            Ok(cgroups) => cgroups,
            Err(error) => {
                stats.errors.count("cgroups", &error.to_string());
                stats.collect.failed("the containers", "", &error.to_string());
                return;
            }
        };
        stats.collect.recovered("the containers");
        self.known.retain(|id, known| {
            !known.container.has_changed() && cgroups.iter().any(|cgroup| cgroup.id == *id)
        });
        let (mut measured, mut unknown, mut first_error) = (0, 0, None);
        for cgroup in &cgroups {
            match self.measure(cgroup).await {
                Ok(true) => measured += 1,
                Ok(false) => {}
                Err(Unmeasured::Unknown) => unknown += 1,
                Err(Unmeasured::Unreadable(error)) => {
                    first_error.get_or_insert(error);
                }
            }
            // Many containers must not hold up other work of this thread.
            self.emitter.turn();
            tokio::task::yield_now().await;
        }
        stats.collect.set_targets(measured);
        self.report(
            "containers of unknown runtimes",
            (unknown > 0).then(|| {
                format!(
                    "{unknown} were not found under docker_root, containerd_roots or crio_roots"
                )
            }),
        );
        self.report("unreadable cgroups", first_error);
        let cut = || format!("only {} containers are measured", cgroups.len());
        self.report("too many cgroups", (!is_complete).then(cut));
    }

    /// Reports a problem, or its end.
    fn report(&self, what: &'static str, problem: Option<String>) {
        let stats = &self.emitter.context.stats;
        match problem {
            None => {
                stats.collect.recovered(what);
            }
            Some(text) => {
                stats.errors.count("containers", &format!("{what}: {text}"));
                if stats.collect.set_problem(what, &text) {
                    let source = self.emitter.context.name.as_str();
                    tracing::warn!(source, "{what}: {text}");
                }
            }
        }
    }

    /// Measures a container. Returns false if it has no metrics of its own.
    async fn measure(&mut self, cgroup: &Cgroup) -> Result<bool, Unmeasured> {
        let Meter { source, emitter, known } = self;
        if !known.contains_key(&cgroup.id) {
            let container = Container::find(&cgroup.id, source).ok_or(Unmeasured::Unknown)?;
            let identity = Identity::of(&cgroup.id, &container, source);
            let new = ContainerState {
                container,
                identity,
                cpu: None,
                disk: None,
                disk_measured_at: None,
            };
            known.insert(cgroup.id.clone(), new);
        }
        let Some(known) = known.get_mut(&cgroup.id) else { return Err(Unmeasured::Unknown) };
        if known.container.is_sandbox {
            return Ok(false);
        }
        let clock = &emitter.context.clock;
        let usage = match cgroup.usage() {
            Ok(usage) => usage,
            Err(_) if cgroup.has_ended() => return Ok(false),
            Err(error) => return Err(Unmeasured::Unreadable(error.to_string())),
        };
        let machine_bytes = || cgroup::machine_bytes(&source.proc_root);
        let bytes_max = match usage.memory_bytes_max {
            Some(bytes) => bytes,
            None => machine_bytes().map_err(|e| Unmeasured::Unreadable(e.to_string()))?,
        };
        let (now, now_ns) = (clock.monotonic(), clock.unix_ns());
        known.measure_disk(source, now);
        let metrics = known.container_metrics(&usage, bytes_max, now);
        let others = known.others(&usage, now_ns);
        let mut envelope = Vec::new();
        for metrics in [metrics, others] {
            envelope.clear();
            known.identity.encode(&metrics, now_ns, &mut envelope);
            emitter.emit(&envelope, now_ns).await;
        }
        Ok(true)
    }
}

/// Why a container is not measured.
enum Unmeasured {
    /// No runtime describes it.
    Unknown,
    /// Its files cannot be read.
    Unreadable(String),
}

impl ContainerState {
    fn measure_disk(&mut self, source: &ContainerMetricsSource, now: Duration) {
        let Some(interval) = source.disk_interval else { return };
        let is_due = self.disk_measured_at.is_none_or(|at| now.saturating_sub(at) >= interval);
        if let Some(layer) = self.container.layer.as_ref().filter(|_| is_due) {
            self.disk = disk::measure(layer, &source.proc_root);
            self.disk_measured_at = Some(now);
        }
    }

    /// Returns the gauges that make up a container metric.
    fn container_metrics(
        &mut self,
        usage: &Usage,
        bytes_max: u64,
        now: Duration,
    ) -> Vec<LoggregatorMetric<'static>> {
        let before = self.cpu.replace((usage.cpu_ns, now));
        let disk_limit = self.container.disk_bytes_max.or(self.disk.map(|disk| disk.total_bytes));
        let bytes = |name: &'static [u8], value: u64| metric(name, b"bytes", value as f64);
        vec![
            metric(b"cpu", b"percentage", cpu_percentage(before, (usage.cpu_ns, now))),
            bytes(b"memory", usage.memory_bytes),
            bytes(b"disk", self.disk.map_or(0, |disk| disk.used_bytes)),
            bytes(b"memory_quota", bytes_max),
            bytes(b"disk_quota", disk_limit.unwrap_or(0)),
        ]
    }

    /// Returns the gauges of the second envelope.
    fn others(&self, usage: &Usage, now_ns: i64) -> Vec<LoggregatorMetric<'static>> {
        let mut metrics = vec![metric(b"absolute_usage", b"nanoseconds", usage.cpu_ns as f64)];
        if let Some(started_ns) = self.container.started_ns {
            let age_ns = now_ns.saturating_sub(started_ns).max(0);
            metrics.push(metric(b"container_age", b"nanoseconds", age_ns as f64));
        }
        metrics
    }
}

fn metric(name: &'static [u8], unit: &'static [u8], value: f64) -> LoggregatorMetric<'static> {
    LoggregatorMetric { name, unit, value }
}

/// Returns the share of one processor used between two measurements, in percent; 0 for the first
/// one, as by Diego.
fn cpu_percentage(before: Option<(u64, Duration)>, (used_ns, now): (u64, Duration)) -> f64 {
    let Some((used_before_ns, then)) = before else { return 0.0 };
    let passed_ns = now.saturating_sub(then).as_nanos();
    if passed_ns == 0 {
        return 0.0;
    }
    used_ns.saturating_sub(used_before_ns) as f64 * 100.0 / passed_ns as f64
}

impl Identity {
    /// Appends an envelope with gauges.
    fn encode(&self, metrics: &[LoggregatorMetric<'_>], now_ns: i64, out: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        encode_loggregator_metrics(metrics, &mut encoded);
        let envelope = LoggregatorEnvelope {
            timestamp_ns: now_ns,
            source_id: self.source_id.as_bytes(),
            instance_id: self.instance_id.as_bytes(),
            message: LoggregatorMessage::Gauge(LoggregatorGauge(&encoded)),
            ..LoggregatorEnvelope::default()
        };
        let tags: Vec<(&str, &str)> =
            self.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        encode_loggregator_envelope(&envelope, &tags, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_percentage_is_the_usage_divided_by_the_elapsed_time() {
        let at = Duration::from_secs;
        let percent = |before, now| cpu_percentage(before, now).round() as i64;
        assert_eq!(percent(None, (5, at(1))), 0);
        let half = (1_500_000_000, at(3));
        assert_eq!(percent(Some((500_000_000, at(1))), half), 50);
        assert_eq!(percent(Some((0, at(3))), half), 0, "no time has passed");
        assert_eq!(percent(Some((2_000_000_000, at(1))), half), 0, "it began anew");
    }
}
