//! `type = "container_metrics"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::path::PathBuf;
use std::time::Duration;

use weir_pipeline::config::SourceKind;
use weir_pipeline::source::{CONTAINER_METRICS_BYTES, ContainerMetricsSource};

use super::SourceDefinition;
use super::tags::{self, TAGS};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{Field, ValueType, field, time};
use crate::config::section::Section;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "CPU, memory and disk usage of containers, from their cgroups (v1 and v2) and the \
              files of docker, containerd and CRI-O, as the gauges that Diego cells send.",
        fields: &[CONTAINER_METRICS],
    },
    check,
    kind: |_, section| Some(SourceKind::ContainerMetrics(Box::new(settings(section)?))),
    memory_bytes: |_| CONTAINER_METRICS_BYTES,
    endpoint: |_| None,
};

const CONTAINER_METRICS: &[Field] = &[
    field(
        "interval",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value("\"15s\""),
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
        Unset(
            "organization, space and application, process type, and namespace, pod and container",
        ),
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

/// Tags of a container's metrics, and the labels that are their values: those that Cloud Foundry's
/// schedulers for Kubernetes and Kubernetes itself set.
const LABEL_TAGS: [(&str, &str); 9] = [
    ("organization_id", "cloudfoundry.org/org_guid"),
    ("organization_name", "cloudfoundry.org/org_name"),
    ("space_id", "cloudfoundry.org/space_guid"),
    ("space_name", "cloudfoundry.org/space_name"),
    ("app_name", "cloudfoundry.org/app_name"),
    ("process_type", "cloudfoundry.org/process_type"),
    ("namespace", "io.kubernetes.pod.namespace"),
    ("pod", "io.kubernetes.pod.name"),
    ("container", "io.kubernetes.container.name"),
];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    tags::check(section, "tags", diagnostics);
    tags::check(section, "label_tags", diagnostics);
}

fn settings(section: &Section) -> Option<ContainerMetricsSource> {
    let texts = |key| section.list(key).iter().map(|(text, _)| text.clone()).collect();
    let paths = |key| section.list(key).iter().map(|(text, _)| PathBuf::from(text)).collect();
    let label_tags = if section.is_set("label_tags") {
        tags::tags_of(section, "label_tags")
    } else {
        LABEL_TAGS.map(|(tag, label)| (tag.to_owned(), label.to_owned())).to_vec()
    };
    let disk_interval = section.duration("disk_interval");
    Some(ContainerMetricsSource {
        interval: section.duration("interval"),
        cgroup_root: section.file("cgroup_root")?,
        docker_root: section.file("docker_root")?,
        containerd_roots: paths("containerd_roots"),
        crio_roots: paths("crio_roots"),
        proc_root: section.file("proc_root")?,
        source_id_labels: texts("source_id_labels"),
        instance_id_labels: texts("instance_id_labels"),
        label_tags,
        disk_interval: (!disk_interval.is_zero()).then_some(disk_interval),
        tags: tags::tags_of(section, "tags"),
    })
}
