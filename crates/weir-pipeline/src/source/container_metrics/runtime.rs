//! Metadata of a container from its runtime: docker's `config.v2.json` and `hostconfig.json`, and
//! the OCI specifications of containerd and CRI-O.
//!
//! Invariants: labels have the names of Kubernetes for every runtime; damaged files are treated
//! like missing ones, and read again when they change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use weir_codec::parse_rfc3339;
use weir_host::units::parse_size;

use super::ContainerMetricsSource;
use super::limits::{METADATA_BYTES_MAX, NAMESPACES_MAX};

/// Annotations of an OCI specification, with the labels that they become.
const ANNOTATIONS: [(&str, &str); 8] = [
    ("io.kubernetes.cri.container-name", "io.kubernetes.container.name"),
    ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"),
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
    ("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"),
    ("io.kubernetes.container.name", "io.kubernetes.container.name"),
    ("io.kubernetes.pod.name", "io.kubernetes.pod.name"),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.namespace"),
    ("io.kubernetes.pod.uid", "io.kubernetes.pod.uid"),
];

/// The annotation in which CRI-O keeps the labels of a container, as JSON.
const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";

/// Location of the writable layer of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layer {
    /// In this directory.
    Dir(PathBuf),
    /// The upper directory of the overlay that is mounted here.
    MountedAt(PathBuf),
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    /// Labels and annotations.
    pub(super) labels: BTreeMap<String, String>,
    /// The name of its service, as in its logs.
    pub(super) service: String,
    /// When it was started, in nanoseconds since 1970.
    pub(super) started_ns: Option<i64>,
    /// Maximum size of its writable layer, in bytes.
    pub(super) disk_bytes_max: Option<u64>,
    pub(super) layer: Option<Layer>,
    /// It only holds the namespaces of a pod.
    pub(super) is_sandbox: bool,
    /// The file that it was read from, and its modification time.
    read_from: (PathBuf, Option<SystemTime>),
}

impl Container {
    /// Finds the description of a container.
    pub(super) fn find(id: &str, source: &ContainerMetricsSource) -> Option<Self> {
        let docker = source.docker_root.join("containers").join(id).join("config.v2.json");
        if docker.is_file() {
            return Self::docker(id, &docker, &source.docker_root);
        }
        let crio = source.crio_roots.iter();
        let crio = crio.map(|root| root.join(id).join("userdata/config.json"));
        let containerd = source.containerd_roots.iter().flat_map(|root| namespaces(root));
        let containerd = containerd.map(|root| root.join(id).join("config.json"));
        let found = containerd.chain(crio).find(|path| path.is_file())?;
        Self::oci(&found)
    }

    /// Returns whether the description has changed since, or is gone.
    pub(super) fn has_changed(&self) -> bool {
        changed_at(&self.read_from.0) != self.read_from.1
    }

    fn docker(id: &str, path: &Path, root: &Path) -> Option<Self> {
        let read_from = (path.to_owned(), changed_at(path));
        let config = json_file(path)?;
        let host = path.with_file_name("hostconfig.json");
        let host = json_file(&host).unwrap_or_default();
        let labels = texts(&config["Config"]["Labels"]);
        let name = config["Name"].as_str().unwrap_or_default().trim_start_matches('/');
        let service = ["com.docker.compose.service", "io.kubernetes.container.name"];
        let service = service.iter().find_map(|label| labels.get(*label));
        let size = host["StorageOpt"]["size"].as_str();
        let started = config["State"]["StartedAt"].as_str();
        // Before the first start, docker writes the year 1.
        let started = started.and_then(|text| parse_rfc3339(text.as_bytes()));
        let mount_id = root.join("image/overlay2/layerdb/mounts").join(id).join("mount-id");
        let mount_id = fs::read_to_string(mount_id).ok();
        let layer = mount_id.map(|id| root.join("overlay2").join(id.trim()).join("diff"));
        let sandbox = labels.get("io.kubernetes.docker.type");
        Some(Self {
            service: service.map_or(name, String::as_str).to_owned(),
            started_ns: started.filter(|started| *started > 0),
            disk_bytes_max: size.and_then(docker_size),
            layer: layer.map(Layer::Dir),
            is_sandbox: sandbox.is_some_and(|kind| kind == "podsandbox"),
            labels,
            read_from,
        })
    }

    fn oci(path: &Path) -> Option<Self> {
        let read_from = (path.to_owned(), changed_at(path));
        let spec = json_file(path)?;
        let annotations = texts(&spec["annotations"]);
        let mut labels = annotations.clone();
        if let Some(json) = annotations.get(CRIO_LABELS) {
            labels.extend(texts(&serde_json::from_str(json).unwrap_or_default()));
        }
        for (annotation, label) in ANNOTATIONS {
            if let Some(value) = annotations.get(annotation) {
                labels.insert(label.to_owned(), value.clone());
            }
        }
        let kinds = ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"];
        let mut kinds = kinds.iter().filter_map(|kind| annotations.get(*kind));
        let is_sandbox = kinds.any(|kind| kind == "sandbox");
        let rootfs = spec["root"]["path"].as_str().unwrap_or("rootfs");
        let rootfs = path.parent().unwrap_or(path).join(rootfs);
        let hostname = spec["hostname"].as_str().unwrap_or_default();
        let service = labels.get("io.kubernetes.container.name").map_or(hostname, String::as_str);
        Some(Self {
            service: service.to_owned(),
            started_ns: None,
            disk_bytes_max: None,
            layer: Some(Layer::MountedAt(rootfs)),
            is_sandbox,
            labels,
            read_from,
        })
    }
}

/// Returns the directories with the containers of each of containerd's namespaces.
fn namespaces(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    entries.take(NAMESPACES_MAX).map(|entry| entry.path()).collect()
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn json_file(path: &Path) -> Option<Value> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= METADATA_BYTES_MAX);
    let bytes = is_small.then(|| fs::read(path).ok()).flatten()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the strings of an object.
fn texts(object: &Value) -> BTreeMap<String, String> {
    let entries = object.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Reads a size as docker writes it: `10G`, with binary units.
fn docker_size(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(number.len()..)?.to_ascii_uppercase();
    let unit = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => "B".to_owned(),
        unit => format!("{unit}iB"),
    };
    parse_size(&format!("{number}{unit}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, json: &Value) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json.to_string()).unwrap();
    }

    fn source(root: &Path) -> ContainerMetricsSource {
        ContainerMetricsSource {
            docker_root: root.join("docker"),
            containerd_roots: vec![root.join("containerd")],
            crio_roots: vec![root.join("crio")],
            ..ContainerMetricsSource::default()
        }
    }

    #[test]
    fn docker_describes_its_containers_in_two_files() {
        let dir = tempfile::tempdir().unwrap();
        let (source, id) = (source(dir.path()), "3d".repeat(32));
        assert_eq!(Container::find(&id, &source), None);
        let home = source.docker_root.join("containers").join(&id);
        let config = serde_json::json!({
            "Name": "/web", "State": { "StartedAt": "2026-11-25T12:00:00Z" },
            "Config": { "Labels": { "com.docker.compose.service": "front", "a": "b" } },
        });
        write(&home.join("config.v2.json"), &config);
        write(
            &home.join("hostconfig.json"),
            &serde_json::json!({ "StorageOpt": { "size": "10G" } }),
        );
        let mounts = source.docker_root.join("image/overlay2/layerdb/mounts").join(&id);
        fs::create_dir_all(&mounts).unwrap();
        fs::write(mounts.join("mount-id"), "abc").unwrap();
        let container = Container::find(&id, &source).unwrap();
        assert_eq!((container.service.as_str(), container.labels["a"].as_str()), ("front", "b"));
        assert_eq!(container.started_ns, Some(1_795_608_000_000_000_000));
        assert_eq!(container.disk_bytes_max, Some(10 << 30));
        let layer = source.docker_root.join("overlay2/abc/diff");
        assert_eq!(container.layer, Some(Layer::Dir(layer)));
        assert!(!container.has_changed() && !container.is_sandbox);
        fs::remove_dir_all(&home).unwrap();
        assert!(container.has_changed());
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.v2.json"), "{half").unwrap();
        assert_eq!(Container::find(&id, &source), None);
    }

    #[test]
    fn containerd_and_crio_describe_them_in_annotations() {
        let dir = tempfile::tempdir().unwrap();
        let source = source(dir.path());
        let (one, other, pause) = ("4c".repeat(32), "5b".repeat(32), "6a".repeat(32));
        let containerd = dir.path().join("containerd/k8s.io");
        let spec = serde_json::json!({
            "root": { "path": "rootfs" },
            "annotations": {
                "io.kubernetes.cri.container-type": "container",
                "io.kubernetes.cri.container-name": "web",
                "io.kubernetes.cri.sandbox-name": "web-2",
                "cloudfoundry.org/app_guid": "guid",
            },
        });
        write(&containerd.join(&one).join("config.json"), &spec);
        let found = Container::find(&one, &source).unwrap();
        assert_eq!((found.service.as_str(), found.is_sandbox), ("web", false));
        assert_eq!(found.labels["io.kubernetes.pod.name"], "web-2");
        assert_eq!(found.labels["cloudfoundry.org/app_guid"], "guid");
        let rootfs = containerd.join(&one).join("rootfs");
        assert_eq!(found.layer, Some(Layer::MountedAt(rootfs)));
        let spec = serde_json::json!({
            "annotations": { "io.kubernetes.cri.container-type": "sandbox" },
        });
        write(&containerd.join(&pause).join("config.json"), &spec);
        assert!(Container::find(&pause, &source).unwrap().is_sandbox);
        let spec = serde_json::json!({
            "root": { "path": "/merged" },
            "annotations": {
                "io.kubernetes.container.name": "db",
                "io.kubernetes.cri-o.Labels": "{\"app\":\"db\"}",
            },
        });
        write(&dir.path().join("crio").join(&other).join("userdata/config.json"), &spec);
        let found = Container::find(&other, &source).unwrap();
        assert_eq!((found.service.as_str(), found.labels["app"].as_str()), ("db", "db"));
        assert_eq!(found.layer, Some(Layer::MountedAt("/merged".into())));
    }

    #[test]
    fn sizes_are_those_of_docker() {
        for (text, bytes) in
            [("10G", 10 << 30), ("512m", 512 << 20), ("1gb", 1 << 30), ("4096", 4096)]
        {
            assert_eq!(docker_size(text), Some(bytes), "{text}");
        }
        assert_eq!(docker_size("much"), None);
    }
}
