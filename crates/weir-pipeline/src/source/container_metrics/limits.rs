//! Limits of measuring containers, with their reasons.

use crate::source::listen::limits::SYSLOG_LISTENER_BYTES;

/// Depth of the tree of cgroups that is searched: a pod's container is in the fifth level, and one
/// of a systemd user in the eighth.
pub(super) const DEPTH_MAX: usize = 10;

/// Cgroups that are looked at in one search: a machine with thousands of services and containers.
pub(super) const CGROUPS_MAX: usize = 50_000;

/// Containers that are measured: more than any machine runs.
pub(super) const CONTAINERS_MAX: usize = 10_000;

/// Maximum size of a file of a runtime: descriptions with large environments have 100 KiB.
pub(super) const METADATA_BYTES_MAX: u64 = 4 << 20;

/// Namespaces of containerd that are looked at.
pub(super) const NAMESPACES_MAX: usize = 64;

/// Files of a container's writable layer that are counted, so that one with millions of small files
/// costs no more than 100 ms. The size of a larger one is a lower bound.
pub(super) const LAYER_FILES_MAX: usize = 50_000;

/// Memory of a source that measures containers: as of one that listens without acknowledgement,
/// and what is known about its containers.
pub const CONTAINER_METRICS_BYTES: u64 = SYSLOG_LISTENER_BYTES + (8 << 20);
