//! `type = "loggregator_metrics"`: what weir has counted, as envelopes with the metrics of the
//! programs of Loggregator that it replaces ([`crate::originals`]).
//!
//! Invariants: they are records like any others, received, routed and counted; while the journal has
//! no room, none are made, and the next ones state what was not stated; the increment of a counter
//! is what was counted since it was stated last.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    encode_loggregator_envelope, encode_loggregator_metrics,
};
use weir_host::{Disk, WakeFd};

use super::listen::{GatheredLanes, Incoming as _, KeyFields, LaneContext, Wakes};
use super::loggregator::{LoggregatorIntake, LoggregatorVersion};
use crate::config::LoggregatorMetricsSource;
use crate::originals::{Original, OriginalMetric, OriginalValue};
use crate::view::PipelineView;

/// After how many intervals those programs state their metrics that do it less often: with the
/// usual interval of five seconds, every minute.
const RARE_INTERVALS: u64 = 12;

/// The pipeline that a source belongs to, once it is there.
pub type ViewSlot = Arc<OnceLock<Weak<PipelineView>>>;

/// The thread of the source.
pub(super) struct OriginalMetrics {
    pub(super) settings: LoggregatorMetricsSource,
    pub(super) context: LaneContext,
    pub(super) view: ViewSlot,
    pub(super) disk: Arc<dyn Disk>,
    /// File for the number of records that were made.
    pub(super) received_file: PathBuf,
    pub(super) wake: WakeFd,
    pub(super) stop: Arc<AtomicBool>,
}

impl OriginalMetrics {
    /// Opens the streams, calls `opened`, and states metrics until told to stop.
    pub(super) fn run(self, opened: impl FnOnce()) {
        let name = self.context.name.clone();
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => LocalSet::new().block_on(&runtime, async {
                if let Err(error) = self.serve(opened).await {
                    tracing::error!(source = name, %error, "source cannot wait for its turn");
                }
            }),
            Err(error) => tracing::error!(source = name, %error, "cannot start event loop"),
        }
    }

    async fn serve(self, opened: impl FnOnce()) -> io::Result<()> {
        let wakes = Wakes::new(&self.wake)?;
        self.context.journal.register_source(&self.context.name);
        self.context.journal.on_room(self.wake.clone());
        let lanes = GatheredLanes::open(self.context.clone(), &*self.disk, &self.received_file);
        opened();
        let stopped = async {
            while !self.stop.load(Ordering::Acquire) {
                wakes.next().await?;
                lanes.wake();
            }
            io::Result::Ok(())
        };
        tokio::select! {
            stopped = stopped => stopped?,
            () = self.state(&lanes) => {}
            () = lanes.flush_in_time() => {}
        }
        if !wakes.finish(|| lanes.wake(), lanes.drain()).await {
            let name = &self.context.name;
            tracing::warn!(source = name, "the journal has no room for the last metrics");
        }
        Ok(())
    }

    /// States metrics at intervals; never returns.
    async fn state(&self, lanes: &Rc<GatheredLanes>) {
        let mut ticks = interval(self.settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let intake = LoggregatorIntake::new(&self.settings.tags, KeyFields::default());
        let mut writer = Writer { intake, stated: HashMap::new(), clock: self.context.clone() };
        for number in 0_u64.. {
            ticks.tick().await;
            let Some(view) = self.view.get().and_then(Weak::upgrade) else { continue };
            let is_rare_due = number.is_multiple_of(RARE_INTERVALS);
            for metric in view.original_metrics() {
                if (!metric.of.is_rare() || is_rare_due) && !writer.write(&metric, lanes) {
                    break;
                }
            }
            lanes.mark_received();
            weir_host::process::publish_cpu(&self.context.stats.cpu_ns);
        }
    }
}

/// What tells a counter from all others.
type Key = (Original, &'static str, &'static [(&'static str, &'static str)]);

/// Turns metrics into records.
struct Writer {
    intake: LoggregatorIntake,
    /// Totals that were stated last.
    stated: HashMap<Key, u64>,
    clock: LaneContext,
}

impl Writer {
    /// Adds the envelope of a metric. Returns false if the journal has no room.
    fn write(&mut self, metric: &OriginalMetric, lanes: &GatheredLanes) -> bool {
        let key = (metric.of, metric.name, metric.tags);
        let timestamp_ns = self.clock.clock.unix_ns();
        let envelope = envelope(metric, self.stated.get(&key).copied(), timestamp_ns);
        let version = LoggregatorVersion::V2;
        let mut parsed = self.intake.parse(version, &envelope, None, timestamp_ns);
        let lane = GatheredLanes::lane_of(parsed.lane_hash());
        let pushed = lanes.push(lane, |batch, end, book| parsed.push(batch, end, book));
        if pushed.is_ok()
            && let OriginalValue::Counter(total) = metric.value
        {
            self.stated.insert(key, total);
        }
        pushed.is_ok()
    }
}

/// The envelope of a metric, of which this total was stated last.
fn envelope(metric: &OriginalMetric, stated: Option<u64>, timestamp_ns: i64) -> Vec<u8> {
    let name = metric.name.as_bytes();
    let mut measurements = Vec::new();
    let message = match metric.value {
        OriginalValue::Counter(total) => {
            // What was counted by an earlier process is no increment of this one.
            let delta = total.saturating_sub(stated.unwrap_or(total));
            LoggregatorMessage::Counter { name, delta, total }
        }
        OriginalValue::Gauge { value, unit } => {
            let unit = unit.as_bytes();
            let one = LoggregatorMetric { name, unit, value };
            encode_loggregator_metrics(&[one], &mut measurements);
            LoggregatorMessage::Gauge(LoggregatorGauge(&measurements))
        }
    };
    let envelope = LoggregatorEnvelope {
        timestamp_ns,
        source_id: metric.of.source_id().as_bytes(),
        message,
        ..LoggregatorEnvelope::default()
    };
    let mut tags = vec![("origin", metric.of.origin())];
    tags.extend(metric.of.tags().iter().chain(metric.tags));
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &tags, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use weir_codec::LoggregatorTags;

    use super::*;

    #[test]
    fn a_counter_states_its_total_and_what_was_counted_since_it_was_stated_last() {
        let metric = |total| OriginalMetric {
            of: Original::Doppler,
            name: "dropped",
            tags: &[("direction", "egress")],
            value: OriginalValue::Counter(total),
        };
        for (stated, total, delta) in [(None, 7, 0), (Some(7), 19, 12), (Some(19), 3, 0)] {
            let bytes = envelope(&metric(total), stated, 5);
            let mut tags = LoggregatorTags::default();
            let read = LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
            let expected = LoggregatorMessage::Counter { name: b"dropped", delta, total };
            assert_eq!((read.source_id, read.message), (&b"doppler"[..], expected));
            assert_eq!(tags.iter(&bytes).count(), 3);
        }
    }
}
