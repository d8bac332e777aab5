//! `type = "loggregator_metrics"`: weir's own counts, as envelopes with the metrics and events of
//! the Loggregator components that it replaces ([`crate::originals`]).
//!
//! Invariants: they are records like any others, received, routed and counted; while the journal
//! has no room, none are emitted, and the next ones include the missed increments; the increment of
//! a counter is the change since it was last emitted; an event is emitted once, with the time at
//! which it happened.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    encode_loggregator_envelope, encode_loggregator_metrics,
};

use super::produce::Emitter;
use crate::originals::{Original, OriginalEvent, OriginalMetric, OriginalValue};
use crate::view::PipelineView;

/// `type = "loggregator_metrics"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorMetricsSource {
    /// Interval at which metrics are emitted.
    pub interval: Duration,
    /// Tags of metrics.
    pub tags: Vec<(String, String)>,
}

/// Number of intervals after which components with less frequent metrics emit them: every minute
/// with the usual interval of five seconds.
const RARE_INTERVALS: u64 = 12;

/// The pipeline that a source belongs to; set once it is started.
pub type ViewSlot = Arc<OnceLock<Weak<PipelineView>>>;

/// Emits metrics at intervals; never returns.
pub(super) async fn run(source: &LoggregatorMetricsSource, view: &ViewSlot, emitter: &Emitter) {
    let mut ticks = interval(source.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stated = HashMap::new();
    for number in 0_u64.. {
        ticks.tick().await;
        let Some(view) = view.get().and_then(Weak::upgrade) else { continue };
        let is_rare_due = number.is_multiple_of(RARE_INTERVALS);
        for metric in view.original_metrics() {
            if (!metric.of.is_rare() || is_rare_due) && !state(&metric, &mut stated, emitter) {
                break;
            }
        }
        view.original_events.state_each(|event| {
            emitter.try_emit(&envelope_of_event(event), emitter.context.clock.unix_ns())
        });
        emitter.turn();
    }
}

/// Returns the envelope of an event.
fn envelope_of_event(event: &OriginalEvent) -> Vec<u8> {
    let (title, body) = (event.title.as_bytes(), event.body.as_bytes());
    let envelope = LoggregatorEnvelope {
        timestamp_ns: event.timestamp_ns,
        source_id: event.of.source_id().as_bytes(),
        message: LoggregatorMessage::Event { title, body },
        ..LoggregatorEnvelope::default()
    };
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &[("origin", event.of.origin())], &mut bytes);
    bytes
}

/// Identifies a counter.
type Key = (Original, &'static str, &'static [(&'static str, &'static str)]);

/// Emits the envelope of a metric; `stated` are the last emitted totals. Returns false if the
/// journal has no room.
fn state(metric: &OriginalMetric, stated: &mut HashMap<Key, u64>, emitter: &Emitter) -> bool {
    let key = (metric.of, metric.name, metric.tags);
    let timestamp_ns = emitter.context.clock.unix_ns();
    let envelope = envelope(metric, stated.get(&key).copied(), timestamp_ns);
    let is_emitted = emitter.try_emit(&envelope, timestamp_ns);
    if is_emitted && let OriginalValue::Counter(total) = metric.value {
        stated.insert(key, total);
    }
    is_emitted
}

/// Returns the envelope of a metric, given its last emitted total.
fn envelope(metric: &OriginalMetric, stated: Option<u64>, timestamp_ns: i64) -> Vec<u8> {
    let name = metric.name.as_bytes();
    let mut measurements = Vec::new();
    let message = match metric.value {
        OriginalValue::Counter(total) => {
            // Counts of an earlier process are not an increment of this one.
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
    fn a_counter_emits_its_total_and_its_increment() {
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
