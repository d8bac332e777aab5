//! Converts samples to envelopes: current values become gauges, and totals counters, as by
//! Loggregator's own scraper.

use crate::loggregator::{
    LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    encode_loggregator_envelope, encode_loggregator_metrics,
};

use super::text::{PrometheusKind, PrometheusSample};

/// The label with the source id of a sample, which overrides that of its target.
const SOURCE_ID: &str = "source_id";
/// The label with the instance id of a sample, if its target has none.
const INSTANCE_ID: &str = "instance_id";
/// The label with the unit of a gauge.
const UNIT: &str = "unit";

/// Properties of a target.
#[derive(Debug, Clone, Copy)]
pub struct PrometheusOrigin<'o> {
    /// Source id, unless a sample has the label `source_id`.
    pub source_id: &'o str,
    /// Instance id. If it is empty, the label `instance_id` is used.
    pub instance_id: &'o str,
    /// Tags added to its metrics that have no label of that name.
    pub labels: &'o [(String, String)],
}

impl PrometheusSample<'_> {
    /// Appends the envelope of a sample. Returns false, and appends nothing, if it is a total that
    /// is NaN or negative, which counters cannot represent.
    #[must_use]
    pub fn encode(
        &self,
        origin: &PrometheusOrigin<'_>,
        timestamp_ns: i64,
        out: &mut Vec<u8>,
    ) -> bool {
        let label = |wanted: &str| {
            let mut labels = self.labels.iter();
            labels.find(|(name, _)| *name == wanted).map(|(_, value)| value.as_ref())
        };
        let defaults = origin.labels.iter().filter(|(name, _)| label(name).is_none());
        let defaults = defaults.map(|(name, value)| (name.as_str(), value.as_str()));
        let own = self.labels.iter().map(|(name, value)| (*name, value.as_ref()));
        let own = own.filter(|(name, _)| *name != SOURCE_ID);
        let mut tags: Vec<(&str, &str)> = defaults.chain(own).collect();
        let mut metrics = Vec::new();
        let mut gauge = |unit: &str| {
            let metric = LoggregatorMetric {
                name: self.name.as_bytes(),
                unit: unit.as_bytes(),
                value: self.value,
            };
            encode_loggregator_metrics(&[metric], &mut metrics);
        };
        let mut total = None;
        match self.kind {
            PrometheusKind::Gauge => {
                let at = tags.iter().position(|(name, _)| *name == UNIT);
                gauge(at.map_or("", |at| tags.remove(at).1));
            }
            PrometheusKind::Part | PrometheusKind::Quantile => gauge(""),
            PrometheusKind::Counter | PrometheusKind::Bucket => {
                if !(self.value.is_finite() && self.value >= 0.0) {
                    return false;
                }
                total = Some(self.value as u64);
            }
        }
        let message = match total {
            Some(total) => {
                LoggregatorMessage::Counter { name: self.name.as_bytes(), delta: 0, total }
            }
            None => LoggregatorMessage::Gauge(LoggregatorGauge(&metrics)),
        };
        let instance_id = match origin.instance_id {
            "" => label(INSTANCE_ID).unwrap_or_default(),
            stated => stated,
        };
        let source_id = label(SOURCE_ID).filter(|source_id| !source_id.is_empty());
        let envelope = LoggregatorEnvelope {
            timestamp_ns,
            source_id: source_id.unwrap_or(origin.source_id).as_bytes(),
            instance_id: instance_id.as_bytes(),
            message,
            ..LoggregatorEnvelope::default()
        };
        encode_loggregator_envelope(&envelope, &tags, out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::PrometheusText;
    use super::*;
    use crate::loggregator::write_loggregator_json;

    /// The envelopes of an answer, as JSON.
    fn envelopes(body: &str, instance_id: &str) -> Vec<serde_json::Value> {
        let labels = [("bosh_job", "cell"), ("zone", "a")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let origin = PrometheusOrigin { source_id: "target", instance_id, labels: &labels };
        let mut text = PrometheusText::check(body.as_bytes()).unwrap();
        let mut found = Vec::new();
        while let Some(sample) = text.next_sample() {
            let mut bytes = Vec::new();
            if sample.encode(&origin, 5, &mut bytes) {
                let mut json = Vec::new();
                write_loggregator_json(&bytes, &mut json).unwrap();
                found.push(serde_json::from_slice(&json).unwrap());
            }
        }
        found
    }

    #[test]
    fn labels_become_tags_and_the_unit_and_the_source() {
        let body = "# TYPE a gauge\na{unit=\"bytes\",zone=\"b\",source_id=\"app\",instance_id=\"3\"} 1.5\n\
                    # TYPE b counter\nb{unit=\"x\",source_id=\"\"} 7.9\n";
        let found = envelopes(body, "");
        assert_eq!(found[0]["source_id"], "app");
        assert_eq!(found[0]["instance_id"], "3");
        assert_eq!(found[0]["gauge"]["metrics"]["a"]["unit"], "bytes");
        assert_eq!(found[0]["gauge"]["metrics"]["a"]["value"], 1.5);
        let tags = serde_json::json!({ "bosh_job": "cell", "zone": "b", "instance_id": "3" });
        assert_eq!(found[0]["tags"], tags);
        assert_eq!(found[1]["source_id"], "target");
        assert_eq!(found[1]["counter"]["total"], "7");
        assert_eq!(found[1]["counter"]["delta"], "0");
        assert_eq!(found[1]["tags"]["unit"], "x", "only a gauge has a unit");
        assert_eq!(envelopes(body, "own")[0]["instance_id"], "own");
    }

    #[test]
    fn parts_of_histograms_and_summaries_keep_their_names() {
        let body = "# TYPE d histogram\nd_bucket{le=\"0.5\"} 2\nd_sum 3.5\nd_count 4\n\
                    # TYPE s summary\ns{quantile=\"0.99\"} 0.25\ns_count 1\n";
        let found = envelopes(body, "0");
        assert_eq!(found[0]["counter"]["name"], "d_bucket");
        assert_eq!(found[0]["counter"]["total"], "2");
        assert_eq!(found[0]["tags"]["le"], "0.5");
        assert_eq!(found[1]["gauge"]["metrics"]["d_sum"]["value"], 3.5);
        assert_eq!(found[2]["counter"]["name"], "d_count");
        assert_eq!(found[3]["gauge"]["metrics"]["s"]["value"], 0.25);
        assert_eq!(found[3]["tags"]["quantile"], "0.99");
        assert_eq!(found[4]["counter"]["total"], "1");
    }

    #[test]
    fn totals_that_counters_cannot_represent_are_omitted() {
        let body = "# TYPE a counter\na{n=\"1\"} NaN\na{n=\"2\"} -1\na{n=\"3\"} +Inf\na 1e18\n";
        let found = envelopes(body, "");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["counter"]["total"], "1000000000000000000");
    }
}
