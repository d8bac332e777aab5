//! Limits of measuring containers, with their reasons.

use crate::source::listen::limits::SYSLOG_LISTENER_BYTES;

/// Maximum depth of the search in the cgroup tree: a pod's container is at the fifth level, and one
/// of a systemd user at the eighth.
pub(super) const DEPTH_MAX: usize = 10;

/// Maximum number of cgroups in one search: a machine with thousands of services and containers.
pub(super) const CGROUPS_MAX: usize = 50_000;

/// Maximum number of measured containers: more than any machine runs.
pub(super) const CONTAINERS_MAX: usize = 10_000;

/// Maximum size of a file of a runtime: descriptions with large environments have 100 KiB.
pub(super) const METADATA_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of containerd's namespaces.
pub(super) const NAMESPACES_MAX: usize = 64;

/// Maximum number of counted files of a container's writable layer, so that one with millions of
/// small files costs no more than 100 ms. The size of a larger one is a lower bound.
pub(super) const LAYER_FILES_MAX: usize = 50_000;

/// Memory of a source that measures containers: that of a listener without acknowledgement, and the
/// state of its containers.
pub const CONTAINER_METRICS_BYTES: u64 = SYSLOG_LISTENER_BYTES + (8 << 20);
