//! Outputs that post requests: the keys that they share, their checks, and their settings; and the
//! keys of timeouts and pauses, which outputs with connections have too.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_host::units::{format_duration, format_size};
use weir_pipeline::config::{Compression, Endpoint, RequestSettings};

use crate::config::choices::{Choice as _, HttpCompression};
use crate::config::destination::{TLS, tls_settings, url};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{DAY, Field, MS, ValueType, field, time};
use crate::config::section::Section;

pub(super) const BATCH_SIZE: Field = field(
    "batch_size",
    ValueType::Size { min: 1 << 10, max: 64 << 20 },
    Value("\"1MiB\""),
    "Target size of a request, before compression.",
);

pub(super) const BATCH_AGE: Field = field(
    "batch_age",
    time(MS, Duration::from_mins(5)),
    Value("\"1s\""),
    "Maximum time that a record waits for a batch to fill.",
);

pub(super) const CONNECTIONS_MAX: Field = field(
    "connections_max",
    ValueType::Count { min: 1, max: 64 },
    Value("4"),
    "Maximum number of concurrent requests. The order within a file or container is preserved.",
);

pub(super) const COMPRESSION: Field = field(
    "compression",
    ValueType::Choice(HttpCompression::WORDS),
    Value("\"gzip\""),
    "Compression of requests.",
);

/// The key of TLS for `https` URLs.
pub(super) const HTTPS_TLS: Field = field(
    "tls",
    ValueType::Table(TLS),
    Unset("the system's CA certificates"),
    "TLS settings for `https`.",
);

pub(super) const REQUEST_TIMEOUT: Field = field(
    "request_timeout",
    time(Duration::from_millis(100), Duration::from_hours(1)),
    Value("\"30s\""),
    "Timeout of one request.",
);

pub(super) const RETRY_MIN: Field = field(
    "retry_min",
    time(MS, Duration::from_hours(1)),
    Value("\"500ms\""),
    "Pause after the first failure; it doubles with each further one. Half of each pause is \
     random.",
);

pub(super) const RETRY_MAX: Field = field(
    "retry_max",
    time(MS, DAY),
    Value("\"30s\""),
    "Maximum pause between attempts. Attempts continue indefinitely. A destination may ask for a \
     longer pause with `Retry-After`, which is respected up to 10 minutes.",
);

pub(super) const WRITE_TIMEOUT: Field = field(
    "write_timeout",
    time(Duration::from_millis(100), Duration::from_hours(1)),
    Value("\"30s\""),
    "Time without progress in writing to the peer after which the connection is closed.",
);

/// Checks the size of requests and the pauses between attempts.
pub(super) fn bounds(section: &Section, diagnostics: &mut Diagnostics) {
    let (batch, window) = (section.size("batch_size"), section.size("window"));
    if batch != 0 && window != 0 && batch > window {
        let key = if section.is_set("batch_size") { "batch_size" } else { "window" };
        let message = format!(
            "batch_size {} of {} exceeds its window {}",
            format_size(batch),
            section.path,
            format_size(window),
        );
        diagnostics
            .error(section.location(key), &section.key_path(key), message)
            .help("increase window to at least the size of one request");
    }
    pauses(section, diagnostics);
}

/// Checks the pauses between attempts.
pub(super) fn pauses(section: &Section, diagnostics: &mut Diagnostics) {
    let (min, max) = (section.duration("retry_min"), section.duration("retry_max"));
    if !max.is_zero() && min > max {
        let key = if section.is_set("retry_max") { "retry_max" } else { "retry_min" };
        let message = format!(
            "retry_min {} of {} exceeds its retry_max {}",
            format_duration(min),
            section.path,
            format_duration(max),
        );
        diagnostics.error(section.location(key), &section.key_path(key), message);
    }
}

/// Whether it is `https`; `None` if it is not a valid URL.
pub(super) fn is_https(section: &Section, diagnostics: &mut Diagnostics) -> Option<bool> {
    let url = url(section, "url", Endpoint::url, diagnostics)?;
    if !url.tls && !url.is_local() {
        let message = "all records, and credentials, cross the network unencrypted";
        diagnostics
            .warn(section.location("url"), &section.key_path("url"), message)
            .help("write https:// if the endpoint supports it");
    }
    Some(url.tls)
}

/// The settings of requests.
pub(super) fn settings(section: &Section, compression: Compression) -> RequestSettings {
    RequestSettings {
        compression,
        batch_bytes: section.size("batch_size") as usize,
        batch_age: section.duration("batch_age"),
        connections_max: section.count("connections_max").unwrap_or(1) as usize,
        request_timeout: section.duration("request_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
        tls: tls_settings(section),
    }
}
