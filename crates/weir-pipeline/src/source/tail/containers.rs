//! The identity of a container: from its directory, docker's `config.v2.json` and the pod path,
//! named by OpenTelemetry's resource conventions.
//!
//! Invariants: nothing here waits for metadata; missing metadata is omitted, and read when it
//! appears. Damaged or unknown JSON is treated like missing JSON.

use std::path::Path;

use serde_json::Value;
use weir_host::FileTree;
use weir_model::Resource;

use super::layout::pod_of;

/// Metadata of a container.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Container {
    /// Attributes of its records.
    pub attributes: Resource,
    /// Names by which the configuration may exclude it.
    pub names: Vec<String>,
    /// Its log is not collected: another log driver writes it, or it is weir's own container.
    pub is_foreign: bool,
}

impl Container {
    fn name(&mut self, name: &str) {
        if !name.is_empty() && !self.names.iter().any(|n| n == name) {
            self.names.push(name.to_owned());
        }
    }
}

/// Maximum size of a metadata file.
const METADATA_BYTES_MAX: u64 = 4 * 1024 * 1024;

fn json_file(tree: &dyn FileTree, path: &Path) -> Value {
    let bytes = tree.read(path, METADATA_BYTES_MAX).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Describes the container whose docker directory is `dir`. `host` is the name of this machine:
/// inside a container, that is the beginning of the container's own id.
pub(super) fn docker(tree: &dyn FileTree, dir: &Path, host: &str) -> Container {
    let mut container = Container::default();
    let config = json_file(tree, &dir.join("config.v2.json"));
    let driver = json_file(tree, &dir.join("hostconfig.json"));
    let driver = driver.pointer("/LogConfig/Type").and_then(Value::as_str).unwrap_or_default();
    let in_name = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let id = config["ID"].as_str().unwrap_or(in_name);
    let is_own = host.len() == 12 && id.starts_with(host);
    container.is_foreign = is_own || !matches!(driver, "" | "json-file");
    container.attributes.set("container.id", id);
    container.attributes.set("container.runtime", "docker");
    let name = config["Name"].as_str().unwrap_or_default().trim_start_matches('/');
    set(&mut container.attributes, "container.name", name);
    container.name(name);
    let image = config.pointer("/Config/Image").and_then(Value::as_str).unwrap_or_default();
    image_name(&mut container.attributes, image);
    let labels = &config["Config"]["Labels"];
    let label = |key: &str| labels[key].as_str().unwrap_or_default();
    for (attribute, key) in KUBERNETES_LABELS {
        set(&mut container.attributes, attribute, label(key));
    }
    let restarts = label("annotation.io.kubernetes.container.restartCount");
    if let Ok(count) = restarts.parse::<i64>() {
        container.attributes.set("k8s.container.restart_count", count);
    }
    container.name(label("io.kubernetes.container.name"));
    let service =
        [label("com.docker.compose.service"), label("io.kubernetes.container.name"), name];
    let service = service.into_iter().find(|s| !s.is_empty()).unwrap_or_default();
    set(&mut container.attributes, "service.name", service);
    set(&mut container.attributes, "service.namespace", label("com.docker.compose.project"));
    container
}

/// The labels that the kubelet's docker shim sets on containers.
const KUBERNETES_LABELS: [(&str, &str); 4] = [
    ("k8s.namespace.name", "io.kubernetes.pod.namespace"),
    ("k8s.pod.name", "io.kubernetes.pod.name"),
    ("k8s.pod.uid", "io.kubernetes.pod.uid"),
    ("k8s.container.name", "io.kubernetes.container.name"),
];

fn set(attributes: &mut Resource, key: &str, value: &str) {
    if !value.is_empty() {
        attributes.set(key, value);
    }
}

/// Splits `registry:5000/team/app:1.2@sha256:…` into the name without tag, and the tag.
fn image_name(attributes: &mut Resource, image: &str) {
    let image = image.split('@').next().unwrap_or_default();
    let (name, tag) = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, ""),
    };
    set(attributes, "container.image.name", name);
    set(attributes, "container.image.tags", tag);
}

/// Describes the pod container that logs into `dir`.
pub(super) fn pod(dir: &Path, restart: u64, host: &str) -> Container {
    let Some([namespace, pod, uid, name]) = pod_of(dir) else { return Container::default() };
    let mut container = Container { is_foreign: pod == host, ..Container::default() };
    container.attributes.set("k8s.namespace.name", namespace);
    container.attributes.set("k8s.pod.name", pod);
    container.attributes.set("k8s.pod.uid", uid);
    container.attributes.set("k8s.container.name", name);
    container.attributes.set("k8s.container.restart_count", restart.cast_signed());
    container.attributes.set("service.name", name);
    container.name(name);
    container
}

/// Parses the name of a link: `<pod>_<namespace>_<container>-<id>.log`. The id may be truncated.
pub(super) fn link(name: &str) -> Container {
    let mut container = Container::default();
    let mut parts = name.trim_end_matches(".log").splitn(3, '_');
    let (Some(pod), Some(namespace), Some(rest)) = (parts.next(), parts.next(), parts.next())
    else {
        return container;
    };
    let is_id = |id: &str| id.len() >= 12 && id.bytes().all(|b| b.is_ascii_hexdigit());
    let name = match rest.rsplit_once('-') {
        Some((name, id)) if is_id(id) => name,
        _ => rest,
    };
    container.attributes.set("k8s.namespace.name", namespace);
    container.attributes.set("k8s.pod.name", pod);
    container.attributes.set("k8s.container.name", name);
    container.attributes.set("service.name", name);
    container.name(name);
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docker(dir: &Path, host: &str) -> Container {
        super::docker(&weir_host::RealFileTree, dir, host)
    }

    #[test]
    fn docker_metadata_is_read_from_the_containers_directory() {
        let dir = tempfile::tempdir().unwrap();
        let id = "ab".repeat(32);
        let home = dir.path().join(&id);
        std::fs::create_dir(&home).unwrap();
        assert_eq!(docker(&home, "vm").attributes.text("container.id"), Some(id.as_str()));
        let config = serde_json::json!({
            "ID": id, "Name": "/web",
            "Config": {
                "Image": "registry:5000/team/app:1.2",
                "Labels": {"com.docker.compose.service": "front"},
            },
        });
        std::fs::write(home.join("config.v2.json"), config.to_string()).unwrap();
        let container = docker(&home, "vm");
        let text = |key: &str| container.attributes.text(key);
        assert_eq!(text("container.name"), Some("web"));
        assert_eq!(text("container.image.name"), Some("registry:5000/team/app"));
        assert_eq!(text("container.image.tags"), Some("1.2"));
        assert_eq!(text("service.name"), Some("front"));
        assert_eq!(container.names, ["web"]);
        assert!(!container.is_foreign);
        assert!(docker(&home, &id[..12]).is_foreign, "weir's own container");
        let driver = r#"{"LogConfig":{"Type":"journald"}}"#;
        std::fs::write(home.join("hostconfig.json"), driver).unwrap();
        assert!(docker(&home, "vm").is_foreign, "another log driver");
        std::fs::write(home.join("config.v2.json"), "{half").unwrap();
        assert_eq!(docker(&home, "vm").attributes.text("container.name"), None);
    }

    #[test]
    fn pod_paths_and_links_name_their_container() {
        let dir = Path::new("/var/log/pods/default_web-0_1234/nginx");
        let container = pod(dir, 2, "node");
        let text = |key: &str| container.attributes.text(key);
        assert_eq!(text("k8s.namespace.name"), Some("default"));
        assert_eq!(text("k8s.pod.name"), Some("web-0"));
        assert_eq!(text("k8s.pod.uid"), Some("1234"));
        assert_eq!(text("k8s.container.name"), Some("nginx"));
        let encoded = String::from_utf8(container.attributes.encode()).unwrap();
        assert!(encoded.contains(r#""k8s.container.restart_count":2"#), "{encoded}");
        let id = "0123456789abcdef".repeat(4);
        for name in [format!("web-0_default_nginx-{id}.log"), "web-0_default_nginx".into()] {
            let container = link(&name);
            assert_eq!(container.attributes.text("k8s.container.name"), Some("nginx"), "{name}");
            assert_eq!(container.attributes.text("k8s.pod.name"), Some("web-0"));
        }
        assert_eq!(link("plain.log").names, Vec::<String>::new());
    }
}
