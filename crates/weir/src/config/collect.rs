//! Sources that collect metrics: their constraints and settings.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::path::PathBuf;

use weir_pipeline::config::{ContainerMetricsSource, Endpoint, PrometheusSource, ScrapeTarget};
use weir_pipeline::source::{PROMETHEUS_SOURCE_BYTES, SCRAPE_TARGETS_MAX};

use super::check_hec::{tls, url};
use super::check_http::{credentials, header_values, headers};
use super::check_listen::{tags, tags_of};
use super::diagnostic::Diagnostics;
use super::glob;
use super::outputs::{http_auth, tls_settings};
use super::section::Section;

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

/// All checks of a source of type `prometheus`.
pub(crate) fn check_prometheus(section: &Section, diagnostics: &mut Diagnostics) {
    let targets = section.tables("targets");
    if targets.is_empty() && section.list("target_files").is_empty() {
        diagnostics
            .error(
                section.location.clone(),
                &section.path,
                format!("{} has no target", section.path),
            )
            .help("add targets = [{ url = \"http://127.0.0.1:9100/metrics\" }]");
    }
    if targets.len() > SCRAPE_TARGETS_MAX {
        let key_path = section.key_path("targets");
        let message = format!("{key_path} has more than {SCRAPE_TARGETS_MAX} targets");
        diagnostics.error(section.location("targets"), &key_path, message);
    }
    for (pattern, location) in section.list("target_files") {
        if let Err(error) = glob::compile(pattern) {
            let message = format!("{pattern:?} is not a valid pattern: {error}");
            diagnostics.error(Some(location.clone()), &section.key_path("target_files"), message);
        }
    }
    tags(section, "tags", diagnostics);
    tls(section, Some(true), diagnostics);
    for target in targets {
        check_target(target, diagnostics);
    }
}

fn check_target(target: &Section, diagnostics: &mut Diagnostics) {
    let is_https = url(target, "url", Endpoint::url, diagnostics).map(|url| url.tls);
    tls(target, is_https, diagnostics);
    credentials(target, diagnostics);
    header_values(target, diagnostics);
    tags(target, "labels", diagnostics);
}

/// The settings of a source of type `prometheus`; `None` only if something required is missing,
/// which has been reported.
pub(crate) fn prometheus(name: &str, section: &Section) -> Option<PrometheusSource> {
    let source_id = section.text("source_id").unwrap_or(name);
    let targets = section.tables("targets").iter().map(|target| {
        let own = |key: &str| target.is_set(key).then(|| target.duration(key));
        let interval = own("scrape_interval").unwrap_or(section.duration("scrape_interval"));
        let timeout = own("scrape_timeout").unwrap_or(section.duration("scrape_timeout"));
        Some(ScrapeTarget {
            url: target.text("url")?.to_owned(),
            source_id: target.text("source_id").unwrap_or(source_id).to_owned(),
            instance_id: target.text("instance_id").unwrap_or_default().to_owned(),
            headers: headers(target),
            auth: http_auth(target),
            labels: tags_of(target, "labels"),
            interval,
            timeout: timeout.min(interval),
            tls: tls_settings(if target.is_set("tls") { target } else { section }),
        })
    });
    let patterns = section.list("target_files").iter();
    Some(PrometheusSource {
        targets: targets.collect::<Option<_>>()?,
        target_files: patterns.map(|(pattern, _)| glob::inclusion(pattern)).collect(),
        rescan_interval: section.duration("rescan_interval"),
        source_id: source_id.to_owned(),
        interval: section.duration("scrape_interval"),
        timeout: section.duration("scrape_timeout"),
        tls: tls_settings(section),
        body_bytes_max: section.size("body_max") as usize,
        in_flight_bytes_max: section.size("in_flight_max") as usize,
        tags: tags_of(section, "tags"),
    })
}

/// Memory of a source of type `prometheus`, bytes.
pub(crate) fn prometheus_bytes(section: &Section) -> u64 {
    // Decompressed answers are charged once they are complete.
    PROMETHEUS_SOURCE_BYTES + section.size("in_flight_max") + section.size("body_max")
}

/// All checks of a source of type `container_metrics`.
pub(crate) fn check_container_metrics(section: &Section, diagnostics: &mut Diagnostics) {
    tags(section, "tags", diagnostics);
    tags(section, "label_tags", diagnostics);
}

/// The settings of a source of type `container_metrics`; `None` only if a path is not valid, which
/// has been reported.
pub(crate) fn container_metrics(section: &Section) -> Option<ContainerMetricsSource> {
    let texts = |key| section.list(key).iter().map(|(text, _)| text.clone()).collect();
    let paths = |key| section.list(key).iter().map(|(text, _)| PathBuf::from(text)).collect();
    let label_tags = if section.is_set("label_tags") {
        tags_of(section, "label_tags")
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
        tags: tags_of(section, "tags"),
    })
}
