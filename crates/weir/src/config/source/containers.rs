//! `type = "containers"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::path::Path;

use weir_pipeline::config::SourceKind;
use weir_pipeline::source::ContainersSource;

use super::SourceDefinition;
use super::tail::{self, LITERAL, TAIL, wrong};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::Value;
use crate::config::field::{Field, ValueType, field};
use crate::config::glob;
use crate::config::section::Section;
use crate::config::sections::texts;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "The logs of all containers on this machine: docker's json-file driver and \
              Kubernetes nodes (CRI). Directories that do not exist yet are picked up when \
              they appear.",
        fields: &[CONTAINERS, TAIL],
    },
    check,
    kind: |_, section| Some(kind(section)),
    memory_bytes: |_| 0,
    endpoint: |_| None,
};

const CONTAINERS: &[Field] = &[
    field(
        "docker_roots",
        ValueType::Paths,
        Value("[\"/var/lib/docker/containers\"]"),
        "docker's container directories (`<id>/<id>-json.log`).",
    ),
    field(
        "pod_roots",
        ValueType::Paths,
        Value("[\"/var/log/pods\"]"),
        "Kubernetes pod directories \
         (`<namespace>_<pod>_<uid>/<container>/<n>.log`).",
    ),
    field(
        "link_roots",
        ValueType::Paths,
        Value("[\"/var/log/containers\"]"),
        "Directories of links to container logs \
         (`<pod>_<namespace>_<container>-<id>.log`).",
    ),
    field(
        "exclude_containers",
        ValueType::Names,
        Value("[]"),
        "Names of containers to exclude; `*` matches anything.",
    ),
];

/// Keys of directories that are searched for containers.
pub(super) const ROOTS: [&str; 3] = ["docker_roots", "pod_roots", "link_roots"];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    roots(section, diagnostics);
    container_names(section, diagnostics);
    tail::check(section, diagnostics);
}

fn roots(section: &Section, diagnostics: &mut Diagnostics) {
    if ROOTS.iter().all(|key| section.list(key).is_empty()) {
        diagnostics
            .error(
                section.location("docker_roots"),
                &section.path,
                format!("{} has no root directory", section.path),
            )
            .help("remove the keys to search the usual directories");
    }
    for key in ROOTS {
        for (root, location) in section.list(key) {
            let path = Path::new(root);
            if root.contains(['*', '?', '[', '{']) {
                wrong(section, key, location, format!("{root:?} is a pattern"), diagnostics)
                    .help("a root is one directory, which is searched recursively");
            } else if path.exists() && !path.is_dir() {
                wrong(section, key, location, format!("{root:?} is not a directory"), diagnostics)
                    .help("write the directory that contains the logs of all containers");
            }
        }
    }
}

fn container_names(section: &Section, diagnostics: &mut Diagnostics) {
    let key = "exclude_containers";
    for (pattern, location) in section.list(key) {
        if let Err(error) = glob::compile(pattern) {
            let message = format!("{pattern:?} is not a valid pattern: {error}");
            wrong(section, key, location, message, diagnostics).help(LITERAL);
        }
    }
}

fn kind(section: &Section) -> SourceKind {
    let paths = |name| section.list(name).iter().map(|(text, _)| text.into()).collect();
    SourceKind::Containers(ContainersSource {
        docker_roots: paths("docker_roots"),
        pod_roots: paths("pod_roots"),
        link_roots: paths("link_roots"),
        exclude_containers: texts(section, "exclude_containers"),
        tail: tail::settings(section),
    })
}
