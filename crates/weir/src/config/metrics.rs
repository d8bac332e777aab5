//! Settings of the components for metrics: the source `loggregator_metrics`, and the output
//! `datadog_metrics`.
//!
//! Invariant: as in `plan`: every value has been read through a field of `tables`.

use weir_pipeline::config::{DatadogMetricsOutput, LoggregatorMetricsSource};

use super::check_listen;
use super::choices::HttpCompression;
use super::outputs::requests;
use super::section::Section;
use super::sections::texts;

pub(crate) fn loggregator_metrics(section: &Section) -> LoggregatorMetricsSource {
    LoggregatorMetricsSource {
        interval: section.duration("interval"),
        tags: check_listen::default_tags(section),
    }
}

/// `None` only if the key is missing, which has been reported.
pub(crate) fn datadog(section: &Section) -> Option<DatadogMetricsOutput> {
    Some(DatadogMetricsOutput {
        url: section.text("url")?.to_owned(),
        api_key: section.secret("api_key")?,
        prefix: section.text("prefix")?.to_owned(),
        tags: texts(section, "tags"),
        requests: requests(section, section.choice::<HttpCompression>("compression").into()),
    })
}
