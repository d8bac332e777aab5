//! Stored metrics as series of values.
//!
//! Invariants: as in the original, the value of a counter is its total, that of a timer its
//! duration in nanoseconds; times have whole seconds; names of metrics consist of letters, digits
//! and underscores; labels are the tags, with source and instance.

use std::collections::BTreeMap;

use weir_codec::{LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags};

use super::super::super::limits::PROMQL_SERIES_MAX;
use super::super::super::stored::{ReadError, StoredBatch};
use super::plan::Selector;

/// Names and values.
pub(super) type Labels = BTreeMap<String, String>;

/// Values with the same labels, in the order of their times.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Series {
    pub(super) labels: Labels,
    /// Milliseconds since 1970, and the value.
    pub(super) points: Vec<(i64, f64)>,
}

impl Series {
    /// Returns the points from `first_ms` to `last_ms`, inclusive.
    pub(super) fn between(&self, first_ms: i64, last_ms: i64) -> &[(i64, f64)] {
        let start = self.points.partition_point(|(at, _)| *at < first_ms);
        let end = self.points.partition_point(|(at, _)| *at <= last_ms);
        self.points.get(start..end).unwrap_or_default()
    }
}

/// The series that a selector selects.
#[derive(Debug, Default)]
pub(super) struct SeriesSet(BTreeMap<Labels, Vec<(i64, f64)>>);

impl SeriesSet {
    /// Adds the envelopes of one source, oldest first.
    pub(super) fn add(
        &mut self,
        selector: &Selector,
        batch: &StoredBatch,
    ) -> Result<(), ReadError> {
        let mut tags = LoggregatorTags::default();
        for bytes in batch.envelopes() {
            let Ok(envelope) = LoggregatorEnvelope::parse(bytes, &mut tags) else { continue };
            let Some(value) = value_of(&envelope, &selector.name) else { continue };
            let labels = labels_of(&envelope, &tags);
            let label = |name: &str| labels.get(name).map_or("", String::as_str);
            if !selector.matchers.iter().all(|matcher| matcher.is_match(label(&matcher.name))) {
                continue;
            }
            let at_ms = envelope.timestamp_ns.div_euclid(1_000_000_000) * 1000;
            self.0.entry(labels).or_default().push((at_ms, value));
            if self.0.len() > PROMQL_SERIES_MAX {
                return Err(ReadError::TooLarge);
            }
        }
        Ok(())
    }

    /// Returns the series. Of several values of a second, the newest counts.
    pub(super) fn finish(self) -> Vec<Series> {
        let finished = |(labels, mut points): (Labels, Vec<(i64, f64)>)| {
            points.reverse();
            points.sort_by_key(|(at, _)| *at);
            points.dedup_by_key(|(at, _)| *at);
            Series { labels, points }
        };
        self.0.into_iter().map(finished).collect()
    }
}

fn value_of(envelope: &LoggregatorEnvelope<'_>, name: &str) -> Option<f64> {
    match envelope.message {
        LoggregatorMessage::Counter { name: found, total, .. } => {
            (sanitized(found) == name).then_some(total as f64)
        }
        LoggregatorMessage::Gauge(gauge) => {
            gauge.metrics().find(|metric| sanitized(metric.name) == name).map(|metric| metric.value)
        }
        LoggregatorMessage::Timer { name: found, start_ns, stop_ns } => {
            (sanitized(found) == name).then_some(stop_ns.saturating_sub(start_ns) as f64)
        }
        LoggregatorMessage::None
        | LoggregatorMessage::Log { .. }
        | LoggregatorMessage::Event { .. } => None,
    }
}

fn labels_of(envelope: &LoggregatorEnvelope<'_>, tags: &LoggregatorTags) -> Labels {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut labels = Labels::new();
    let mut value = Vec::new();
    for (key, tag) in tags.iter(envelope.bytes) {
        value.clear();
        tag.write(&mut value);
        labels.insert(sanitized(key), text(&value));
    }
    labels.insert("source_id".to_owned(), text(envelope.source_id));
    if !envelope.instance_id.is_empty() {
        labels.insert("instance_id".to_owned(), text(envelope.instance_id));
    }
    labels
}

/// Returns the name with an underscore in place of everything that a name cannot contain.
fn sanitized(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let fits = |(index, c): (usize, char)| match c {
        '0'..='9' if index == 0 => '_',
        'a'..='z' | 'A'..='Z' | '0'..='9' => c,
        _ => '_',
    };
    text.chars().enumerate().map(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_points_have_the_format_of_the_original() {
        assert_eq!(sanitized(b"2xx.http-requests_total"), "_xx_http_requests_total");
        let mut set = SeriesSet::default();
        let points = vec![(2000, 1.0), (1000, 2.0), (2000, 3.0)];
        set.0.insert(Labels::new(), points);
        let series = set.finish().pop().unwrap();
        assert_eq!(series.points, [(1000, 2.0), (2000, 3.0)]);
        assert_eq!(series.between(1001, 2000), [(2000, 3.0)]);
        assert_eq!(series.between(2001, 2000), []);
    }
}
