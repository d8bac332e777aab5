//! Keys of drains.

use std::time::Duration;

use super::super::destination::TLS as CLIENT_TLS;
use super::super::field::DAY;
use super::{Field, FieldDefault, List, Table, ValueType, field, time};
use FieldDefault::{Required, Unset, Value};

pub(super) const DRAINS: Table = Table {
    name: "drains",
    doc: "Drains deliver the records of an application to a destination of its owner. They are off \
          unless this table or a `[[drain]]` exists. See [drains](../guide/drains.md).",
    fields: &[
        field("enabled", ValueType::Bool, Value("true"), "Whether to deliver to drains."),
        field(
            "messages",
            ValueType::Bool,
            Value("true"),
            "Whether to report in the log of an application that one of its drains is invalid, does \
             not accept records, or has lost some (source type `LGR`).",
        ),
        field(
            "size_max",
            ValueType::Size { min: 1 << 20, max: 1 << 50 },
            Value("\"1GiB\""),
            "Disk space for the records of drains that lag; it is part of the journal's. Above it, \
             the oldest records of the drain that uses the most are discarded and counted.",
        ),
        field(
            "window",
            ValueType::Size { min: 4 << 20, max: 16 << 30 },
            Value("\"32MiB\""),
            "Memory for records that drains have not accepted yet. The records of a drain that lags \
             wait on disk instead.",
        ),
        field(
            "retry_for",
            ValueType::Duration { min: Duration::from_mins(1), max: Duration::from_hours(8760) },
            Value("\"24h\""),
            "How long to keep records for a drain that cannot be reached. Older ones are discarded \
             and counted as `expired`.",
        ),
        field(
            "metadata",
            ValueType::Bool,
            Value("true"),
            "Whether messages include the tags of their envelopes. The URL of a drain can override \
             this: `?disable-metadata=true`.",
        ),
        field(
            "https_in_flight",
            ValueType::Count { min: 1, max: 16 },
            Value("1"),
            "Maximum number of requests that an `https` drain has in flight, each over its own \
             connection. With more than one, the records of each application instance stay in \
             order, but not those of different instances.",
        ),
        field(
            "denied_networks",
            ValueType::Names,
            Unset("any address is allowed"),
            "Addresses to which drains never connect, also if a host name resolves to them: networks \
             (`10.0.0.0/8`) and ranges (`10.0.0.5-10.0.0.9`).",
        ),
        field(
            "ca_file",
            ValueType::Path,
            Unset("the system's CA certificates only"),
            "PEM file of CA certificates that all drains trust in addition to the system's.",
        ),
        field(
            "insecure_skip_verify",
            ValueType::Bool,
            Value("false"),
            "Accept any certificate of any drain. An attacker on the network path can then read \
             everything.",
        ),
        field(
            "binding_cache",
            ValueType::Table(PROVIDER),
            Unset("no binding cache"),
            "Loggregator's binding cache, from which to obtain drains.",
        ),
        field(
            "cloud_controller",
            ValueType::Table(CLOUD_CONTROLLER),
            Unset("no Cloud Controller"),
            "The Cloud Controller, from which to obtain drains.",
        ),
    ],
};

const URL: Field =
    field("url", ValueType::Url, Required, "Its URL. Lists contain credentials: use https.");

const INTERVAL: Field = field(
    "interval",
    time(Duration::from_secs(1), DAY),
    Value("\"15s\""),
    "Interval between requests for the list.",
);

const PER_APP: Field = field(
    "drains_per_app_max",
    ValueType::Count { min: 1, max: 1000 },
    Value("5"),
    "Maximum number of drains per application; further ones are ignored.",
);

const PROVIDER_TLS: Field = field(
    "tls",
    ValueType::Table(CLIENT_TLS),
    Unset("with https, the system's CA certificates"),
    "Certificates.",
);

const PROVIDER: &[Field] = &[URL, INTERVAL, PER_APP, PROVIDER_TLS];

const CLOUD_CONTROLLER: &[Field] = &[
    URL,
    field(
        "version",
        ValueType::Count { min: 4, max: 5 },
        Value("5"),
        "API version of `/internal/v5/syslog_drain_urls`: 5 includes client certificates, 4 does \
         not.",
    ),
    INTERVAL,
    PER_APP,
    PROVIDER_TLS,
];

pub(super) const DRAIN: List = List {
    name: "drain",
    doc: "A drain. Without `app`, `space` and `organization` it receives the records of all \
          applications.",
    fields: &[
        field("app", ValueType::Text, Unset("not for one application"), "ID of the application."),
        field(
            "space",
            ValueType::Text,
            Unset("not for a space"),
            "ID of a space: the drain is for all of its applications (tag `space_id`).",
        ),
        field(
            "organization",
            ValueType::Text,
            Unset("not for an organization"),
            "ID of an organization: the drain is for all of its applications (tag \
             `organization_id`).",
        ),
        field(
            "url",
            ValueType::Text,
            Unset("required, if there is no `url_secret`"),
            "Where the records go: `syslog://`, `syslog-tls://`, `https://` or `https-batch://`, with \
             [parameters](../guide/drains.md#parameters-of-the-url).",
        ),
        field(
            "url_secret",
            ValueType::Secret,
            Unset("the URL is in `url`"),
            "The URL, if it contains credentials.",
        ),
        field(
            "hostname",
            ValueType::Text,
            Unset("no host name"),
            "Host name in messages whose record has no application in its tags.",
        ),
        field(
            "cert_file",
            ValueType::Path,
            Unset("no client certificate"),
            "PEM file of the client certificate.",
        ),
        field(
            "key_file",
            ValueType::Path,
            Unset("no client certificate"),
            "PEM file of the client certificate's private key.",
        ),
        field(
            "ca_file",
            ValueType::Path,
            Unset("those that all drains trust"),
            "PEM file of CA certificates to trust in addition.",
        ),
    ],
};
