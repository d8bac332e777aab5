//! Keys of the sources that obtain metrics themselves.

use std::time::Duration;

use super::listeners::TAGS;
use super::{Component, Field, FieldDefault, TLS, ValueType, field, time};
use FieldDefault::{None, Required, Value};

pub(super) const PROMETHEUS_SOURCE: Component = Component {
    doc: "Metrics of targets that answer in Prometheus' text format over HTTP, scraped at intervals. \
          Each sample becomes an envelope of Loggregator.",
    fields: &[PROMETHEUS],
};

pub(super) const CONTAINER_METRICS_SOURCE: Component = Component {
    doc: "CPU, memory and disk that containers use, from their cgroups (both versions) and the files \
          of docker, containerd and CRI-O, as the gauges that Diego's cells send.",
    fields: &[CONTAINER_METRICS],
};

/// The interval of Loggregator's own scraper.
const INTERVAL: &str = "\"15s\"";

const fn interval(default: FieldDefault) -> Field {
    field(
        "scrape_interval",
        time(Duration::from_millis(100), Duration::from_hours(24)),
        default,
        "How often a target is scraped: always at the same moment of the interval, and different \
         targets at different ones.",
    )
}

const fn timeout(default: FieldDefault) -> Field {
    field(
        "scrape_timeout",
        time(Duration::from_millis(10), Duration::from_hours(1)),
        default,
        "How long a complete answer may take, and never longer than the interval.",
    )
}

const PROMETHEUS: &[Field] = &[
    field(
        "targets",
        ValueType::Tables(TARGET),
        Value("[]"),
        "What is scraped: `[[source.NAME.targets]]`, once for each target.",
    ),
    field(
        "target_files",
        ValueType::Globs,
        Value("[]"),
        "Files that describe one target of this machine each, as for Loggregator's own scraper: \
         `[\"/var/vcap/jobs/*/config/prom_scraper_config.yml\"]`. See the \
         [guide](../guide/metrics.md).",
    ),
    field(
        "rescan_interval",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"30s\""),
        "How often these files are looked for and read.",
    ),
    field(
        "source_id",
        ValueType::Text,
        None("the name of the source"),
        "The source of metrics of targets that state none.",
    ),
    interval(Value(INTERVAL)),
    timeout(Value("\"10s\"")),
    field(
        "body_max",
        ValueType::Size { min: 64 << 10, max: 256 << 20 },
        Value("\"8MiB\""),
        "Maximum length of an answer, also after decompression. The scrape of a longer one fails.",
    ),
    field(
        "in_flight_max",
        ValueType::Size { min: 128 << 10, max: 4 << 30 },
        Value("\"32MiB\""),
        "Memory for all answers that are being received or read. When it is exhausted, further \
         scrapes fail.",
    ),
    TAGS,
    field(
        "tls",
        ValueType::Table(TLS),
        None("the system's CA certificates, and no client certificate"),
        "Certificates for targets without `tls` of their own, and for those of files.",
    ),
];

const TARGET: &[Field] = &[
    field(
        "url",
        ValueType::Url,
        Required,
        "Where it answers: `\"http://127.0.0.1:9100/metrics\"`.",
    ),
    field("source_id", ValueType::Text, None("that of the source"), "The source of its metrics."),
    field("instance_id", ValueType::Text, None("none"), "The instance of its metrics."),
    field(
        "labels",
        ValueType::Values,
        None("none"),
        "Tags of its metrics that have no label of that name.",
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
        "Certificates for this target.",
    ),
];

const CONTAINER_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value(INTERVAL),
        "How often containers are measured.",
    ),
    field(
        "cgroup_root",
        ValueType::Path,
        Value("\"/sys/fs/cgroup\""),
        "Where cgroups are mounted.",
    ),
    field(
        "docker_root",
        ValueType::Path,
        Value("\"/var/lib/docker\""),
        "docker's directory, with `containers`, and `image` and `overlay2` for writable layers.",
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
        "Where `meminfo` is, for containers without a limit, and `self/mountinfo`, which shows \
         where writable layers are.",
    ),
    field(
        "source_id_labels",
        ValueType::Names,
        Value(
            "[\"cloudfoundry.org/app_guid\", \"korifi.cloudfoundry.org/app-guid\", \"source_id\"]",
        ),
        "Labels with the source of a container: the first one that it has counts. Without any, the \
         source is the service that logs of the container are from.",
    ),
    field(
        "instance_id_labels",
        ValueType::Names,
        Value(
            "[\"instance_id\", \"apps.kubernetes.io/pod-index\", \"com.docker.compose.container-number\"]",
        ),
        "Labels with its instance. Without any, it is the ordinal of a pod of a stateful set, or \
         else the beginning of the container's ID.",
    ),
    field(
        "label_tags",
        ValueType::Values,
        None("organization, space and application, process type, and namespace, pod and container"),
        "Tags, each with the label that is its value: `{ app_name = \"cloudfoundry.org/app_name\" }`.",
    ),
    field(
        "disk_interval",
        time(Duration::ZERO, Duration::from_hours(24)),
        Value("\"5m\""),
        "How often writable layers are measured, which means to look at all of their files. With \
         `\"0s\"` the usage of disk is 0.",
    ),
    TAGS,
];
