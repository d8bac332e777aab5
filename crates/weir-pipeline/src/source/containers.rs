//! `type = "containers"`: the settings of a source that reads the logs of containers; `tail`
//! follows them.
//!
//! Invariant: a root that does not exist yet is not an error; it is read when it appears.

use std::path::PathBuf;

use crate::config::TailSettings;

/// `type = "containers"`.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainersSource {
    /// Roots of docker's container directories (`<id>/<id>-json.log` with `config.v2.json`).
    pub docker_roots: Vec<PathBuf>,
    /// Roots of Kubernetes pod directories (`<ns>_<pod>_<uid>/<container>/<n>.log`).
    pub pod_roots: Vec<PathBuf>,
    /// Directories of links to container logs (`<pod>_<ns>_<container>-<id>.log`).
    pub link_roots: Vec<PathBuf>,
    /// Container names (globs) to exclude.
    pub exclude_containers: Vec<String>,
    /// Settings shared by all sources that tail files.
    pub tail: TailSettings,
}
