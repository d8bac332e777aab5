//! Keys of the sources that collect metrics.

use std::time::Duration;

use super::listeners::TAGS;
use super::{Component, Field, FieldDefault, TLS, ValueType, field, time};
use FieldDefault::{None, Required, Value};

pub(super) const PROMETHEUS_SOURCE: Component = Component {
    doc: "Scrapes metrics of targets over HTTP in the Prometheus text format. Each sample becomes a \
          Loggregator envelope.",
    fields: &[PROMETHEUS],
};

pub(super) const CONTAINER_METRICS_SOURCE: Component = Component {
    doc: "CPU, memory and disk usage of containers, from their cgroups (v1 and v2) and the files of \
          docker, containerd and CRI-O, as the gauges that Diego cells send.",
    fields: &[CONTAINER_METRICS],
};

/// The interval of Loggregator's own scraper.
const INTERVAL: &str = "\"15s\"";

const fn interval(default: FieldDefault) -> Field {
    field(
        "scrape_interval",
        time(Duration::from_millis(100), Duration::from_hours(24)),
        default,
        "Interval between scrapes of a target. Scrapes of different targets are spread over the \
         interval.",
    )
}

const fn timeout(default: FieldDefault) -> Field {
    field(
        "scrape_timeout",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        default,
        "Timeout of a scrape; at most the interval.",
    )
}

const PROMETHEUS: &[Field] = &[
    field(
        "targets",
        ValueType::Tables(TARGET),
        Value("[]"),
        "Targets to scrape: one `[[source.NAME.targets]]` for each.",
    ),
    field(
        "target_files",
        ValueType::Globs,
        Value("[]"),
        "Files that each describe one target on this machine, as for Loggregator's own scraper: \
         `[\"/var/vcap/jobs/*/config/prom_scraper_config.yml\"]`. See the \
         [guide](../guide/metrics.md).",
    ),
    field(
        "rescan_interval",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"30s\""),
        "How often to search for these files and read them.",
    ),
    field(
        "source_id",
        ValueType::Text,
        None("the name of the source"),
        "Source ID of the metrics of targets that do not set one.",
    ),
    interval(Value(INTERVAL)),
    timeout(Value("\"10s\"")),
    field(
        "body_max",
        ValueType::Size { min: 64 << 10, max: 256 << 20 },
        Value("\"8MiB\""),
        "Maximum size of a response, also after decompression. The scrape of a larger one fails.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 128 << 10, max: 4 << 30 },
        Value("\"32MiB\""),
        "Memory for all responses that are being received or parsed. When it is exhausted, further \
         scrapes fail.",
    ),
    TAGS,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates, and no client certificate"),
        "TLS settings for targets without their own `tls`, and for targets from files.",
    ),
];

const TARGET: &[Field] = &[
    field("url", ValueType::Url, Required, "URL to scrape: `\"http://127.0.0.1:9100/metrics\"`."),
    field("source_id", ValueType::Text, None("that of the source"), "The source of its metrics."),
    field("instance_id", ValueType::Text, None("none"), "The instance of its metrics."),
    field(
        "labels",
        ValueType::Values,
        None("none"),
        "Tags for metrics that have no label of the same name.",
    ),
    field(
        "headers",
        ValueType::Values,
        None("none"),
        "Additional headers, `{ \"X-Tenant\" = \"a\" }`.",
    ),
    field("bearer", ValueType::Secret, None("no token"), "Token for `Authorization: Bearer`."),
    field("user", ValueType::Text, None("no user"), "User for `Authorization: Basic`."),
    field("password", ValueType::Secret, None("no password"), "Password of `user`."),
    interval(None("that of the source")),
    timeout(None("that of the source")),
    field(
        "tls",
        ValueType::Table(TLS),
        None("that of the source"),
        "TLS settings for this target.",
    ),
];

const CONTAINER_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value(INTERVAL),
        "Interval between measurements of a container.",
    ),
    field(
        "cgroup_root",
        ValueType::Path,
        Value("\"/sys/fs/cgroup\""),
        "Mount point of the cgroup file system.",
    ),
    field(
        "docker_root",
        ValueType::Path,
        Value("\"/var/lib/docker\""),
        "docker's data directory, which has `containers`, and `image` and `overlay2` for writable \
         layers.",
    ),
    field(
        "containerd_roots",
        ValueType::Paths,
        Value("[\"/run/containerd/io.containerd.runtime.v2.task\"]"),
        "Directories with containerd's containers, by namespace (`k8s.io/ID/config.json`).",
    ),
    field(
        "crio_roots",
        ValueType::Paths,
        Value("[\"/run/containers/storage/overlay-containers\"]"),
        "Directories with CRI-O's containers (`ID/userdata/config.json`).",
    ),
    field(
        "proc_root",
        ValueType::Path,
        Value("\"/proc\""),
        "Mount point of procfs: `meminfo` is used for containers without a memory limit, and \
         `self/mountinfo` to find writable layers.",
    ),
    field(
        "source_id_labels",
        ValueType::Names,
        Value(
            "[\"cloudfoundry.org/app_guid\", \"korifi.cloudfoundry.org/app-guid\", \"source_id\"]",
        ),
        "Labels whose value is the source ID of a container; the first one that is present is \
         used. Without any, the source ID is the service of the container's logs.",
    ),
    field(
        "instance_id_labels",
        ValueType::Names,
        Value(
            "[\"instance_id\", \"apps.kubernetes.io/pod-index\", \"com.docker.compose.container-number\"]",
        ),
        "Labels whose value is the instance ID. Without any, it is the ordinal of the pod in its \
         stateful set, or otherwise the beginning of the container's ID.",
    ),
    field(
        "label_tags",
        ValueType::Values,
        None("organization, space and application, process type, and namespace, pod and container"),
        "Tags, each with the label that provides its value: `{ app_name = \
         \"cloudfoundry.org/app_name\" }`.",
    ),
    field(
        "disk_interval",
        time(Duration::ZERO, Duration::from_hours(24)),
        Value("\"5m\""),
        "Interval between measurements of writable layers, each of which visits all of their \
         files. With `\"0s\"` they are not measured, and disk usage is reported as 0.",
    ),
    TAGS,
];
