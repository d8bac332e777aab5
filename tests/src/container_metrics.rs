//! Metrics of containers, from simulated trees of cgroups and runtimes, and from a cgroup of this
//! machine: they reach firehoses and requests for the latest ones.
//!
//! Needs Python with the package `websocket-client`, given in `WEIR_PYTHON`; `cargo xtask test`
//! provides it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use weir_testkit::{PATIENCE, wait_for};

use crate::loggregator_egress::BLACKHOLE;
use crate::loggregator_v1::{CONTROLLER, Reader, containers_in, get, plain};
use crate::scene::{OUTPUT, Scene, metric, wait};
use crate::syslog::{file, records};

const APP: &str = "b3015d69-09cd-476d-aace-ad2d824d5ab7";

/// A machine with containers, as files.
struct Machine {
    root: PathBuf,
}

fn id(digits: &str) -> String {
    digits.repeat(32)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Machine {
    fn new(scene: &Scene) -> Self {
        let root = scene.dir().join("machine");
        write(&root.join("cgroup/cgroup.controllers"), "cpu memory\n");
        write(&root.join("proc/meminfo"), "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
        write(&root.join("proc/self/mountinfo"), "");
        Self { root }
    }

    fn source(&self) -> String {
        let root = self.root.display();
        format!(
            "[source.containers]\ntype = \"container_metrics\"\ninterval = \"200ms\"\n\
             cgroup_root = \"{root}/cgroup\"\nproc_root = \"{root}/proc\"\n\
             docker_root = \"{root}/docker\"\ncontainerd_roots = [\"{root}/containerd\"]\n\
             crio_roots = []\n"
        )
    }

    fn docker_cgroup(&self, id: &str) -> PathBuf {
        self.root.join("cgroup/system.slice").join(format!("docker-{id}.scope"))
    }

    /// Adds a container of docker, with a writable layer of 4 KiB or more.
    fn docker(&self, id: &str, labels: &Value, cpu_us: u64) {
        let docker = self.root.join("docker");
        let config = json!({
            "Name": "/name", "Config": { "Labels": labels },
            "State": { "StartedAt": "2026-01-01T00:00:00Z" },
        });
        let home = docker.join("containers").join(id);
        write(&home.join("config.v2.json"), &config.to_string());
        write(&home.join("hostconfig.json"), r#"{"StorageOpt":{"size":"1G"}}"#);
        write(&docker.join("image/overlay2/layerdb/mounts").join(id).join("mount-id"), "layer");
        write(&docker.join("overlay2/layer/diff/file"), "content");
        self.use_cpu(id, cpu_us);
        let cgroup = self.docker_cgroup(id);
        write(&cgroup.join("memory.stat"), "anon 4096\nfile 8192\ninactive_file 2048\n");
        write(&cgroup.join("memory.max"), "16777216\n");
    }

    fn use_cpu(&self, id: &str, cpu_us: u64) {
        write(&self.docker_cgroup(id).join("cpu.stat"), &format!("usage_usec {cpu_us}\n"));
    }

    /// Adds a container of a pod, without a limit.
    fn pod(&self, id: &str, annotations: &Value) {
        let cgroup = self.root.join("cgroup/kubepods.slice/kubepods-pod1.slice");
        let cgroup = cgroup.join(format!("cri-containerd-{id}.scope"));
        write(&cgroup.join("cpu.stat"), "usage_usec 5\n");
        write(&cgroup.join("memory.stat"), "anon 1\nfile 2\ninactive_file 0\n");
        write(&cgroup.join("memory.max"), "max\n");
        let spec = json!({ "root": { "path": "rootfs" }, "annotations": annotations });
        let home = self.root.join("containerd/k8s.io").join(id);
        write(&home.join("config.json"), &spec.to_string());
    }
}

/// The gauges of delivered records with a name in them, each with its resource.
fn gauges(scene: &Scene, source_id: &str) -> Vec<(Value, Value)> {
    let all = records(&scene.dir().join("out.log")).into_iter();
    let of = all.filter(|record| record["resource"]["service.name"] == source_id);
    of.filter_map(|record| {
        let body: Value = serde_json::from_str(record["body"].as_str()?).ok()?;
        Some((body, record["resource"].clone()))
    })
    .collect()
}

/// The value and unit of a metric in a record with several, or with one.
fn value(body: &Value, name: &str) -> Option<(f64, String)> {
    let one = [body.clone()];
    let metrics = body["metrics"].as_array().map_or(&one[..], Vec::as_slice);
    let metric = metrics.iter().find(|metric| metric["name"] == name)?;
    Some((metric["value"].as_f64()?, metric["unit"].as_str()?.to_owned()))
}

#[test]
fn container_metrics_reach_firehoses_and_requests() {
    let scene = Scene::new();
    let machine = Machine::new(&scene);
    let (first, second) = (id("1a"), id("2b"));
    let labels = |instance: &str| {
        json!({ "cloudfoundry.org/app_guid": APP, "instance_id": instance,
                "cloudfoundry.org/process_type": "web" })
    };
    machine.docker(&first, &labels("0"), 1000);
    machine.docker(&second, &labels("1"), 1000);
    let config = machine.source() + "tags = { deployment = \"cf\" }\n" + BLACKHOLE + CONTROLLER;
    let mut weir = scene.start(&(config + &file(&scene)));
    let firehose = Reader::websocket(&weir, "/firehose/all", 8);
    let request = plain(&format!("GET /apps/{APP}/containermetrics"));
    let mut cpu_us = 1000;
    // The second one uses CPU time, the first one none.
    let found = wait_for(PATIENCE, || {
        cpu_us += 50_000;
        machine.use_cpu(&second, cpu_us);
        let (head, body) = get(&weir, &request);
        containers_in(&head, &body).filter(
            |found| matches!(found[..], [(0, idle), (1, busy)] if idle == 0.0 && busy > 0.0),
        )
    });
    assert!(found.is_some(), "{}", weir.log());
    let lines = firehose.rest();
    let metrics = lines.iter().filter(|line| line.starts_with("container "));
    assert!(metrics.clone().count() >= 2, "{lines:?}");
    assert!(metrics.clone().all(|line| line.ends_with(&format!("{APP} {APP}"))), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("absolute_usage")), "{lines:?}");
    weir.books().assert_balanced();
    weir.stop();
    let all = gauges(&scene, APP);
    let (body, resource) = all.iter().find(|(body, _)| value(body, "cpu").is_some()).unwrap();
    let bytes = |number: f64| Some((number, "bytes".to_owned()));
    assert_eq!(value(body, "memory"), bytes(4096.0 + 8192.0 - 2048.0));
    assert_eq!(value(body, "memory_quota"), bytes(16_777_216.0));
    assert_eq!(value(body, "disk_quota"), bytes(f64::from(1 << 30)));
    assert!(value(body, "disk").is_some_and(|(disk, _)| disk > 0.0), "{body}");
    assert_eq!(value(body, "cpu").unwrap().1, "percentage");
    let tags = resource["tags"].to_string();
    assert!(tags.contains("process_type:web") && tags.contains("deployment:cf"), "{resource}");
    let (other, _) = all.iter().find(|(body, _)| value(body, "absolute_usage").is_some()).unwrap();
    assert_eq!(value(other, "absolute_usage").unwrap().1, "nanoseconds");
    assert!(value(other, "container_age").is_some_and(|(age, _)| age > 1e15), "{other}");
}

#[test]
fn containers_of_pods_come_and_go_and_unknown_ones_are_reported() {
    let scene = Scene::new();
    let machine = Machine::new(&scene);
    let pod = |kind: &str| {
        json!({
            "io.kubernetes.cri.container-type": kind,
            "io.kubernetes.cri.container-name": "web",
            "io.kubernetes.cri.sandbox-name": "web-2",
            "io.kubernetes.cri.sandbox-namespace": "default",
        })
    };
    machine.pod(&id("3c"), &pod("container"));
    machine.pod(&id("4d"), &pod("sandbox"));
    let mut weir = scene.start(&(machine.source() + &file(&scene)));
    wait(&weir, "it is measured", || gauges(&scene, "web").len() >= 4);
    let (body, resource) = gauges(&scene, "web").into_iter().next().unwrap();
    assert_eq!(resource["service.instance.id"], "2", "of a stateful set");
    let of_machine = Some((f64::from(1 << 30), "bytes".to_owned()));
    assert_eq!(value(&body, "memory_quota"), of_machine);
    assert_eq!(metric(&weir, "weir_source_targets{"), 1, "without the sandbox");
    assert_eq!(weir.health()["status"], "ok");
    // One without metadata, and one without a memory controller.
    let unknown = machine.docker_cgroup(&id("5e"));
    write(&unknown.join("cpu.stat"), "usage_usec 1\n");
    let broken = id("6f");
    machine.docker(&broken, &json!({}), 1);
    fs::remove_file(machine.docker_cgroup(&broken).join("memory.stat")).unwrap();
    wait(&weir, "both are reported", || metric(&weir, "weir_source_failing_targets{") == 2);
    let health = weir.health();
    assert_eq!(health["status"], "degraded");
    assert!(health["reasons"].to_string().contains("of unknown runtimes"), "{health}");
    for gone in [unknown, machine.docker_cgroup(&broken)] {
        fs::remove_dir_all(gone).unwrap();
    }
    wait(&weir, "both are gone", || weir.health()["status"] == "ok");
    fs::remove_dir_all(machine.root.join("cgroup")).unwrap();
    wait(&weir, "without cgroups", || weir.health()["status"] == "degraded");
    weir.books().assert_balanced();
    weir.kill();
    let machine = Machine::new(&scene);
    machine.pod(&id("3c"), &pod("container"));
    let mut weir = scene.start(&(machine.source() + &file(&scene)));
    let before = gauges(&scene, "web").len();
    wait(&weir, "it goes on", || gauges(&scene, "web").len() > before + 4);
    weir.wait_books("all arrived", PATIENCE, |books| books.delivered(OUTPUT) > 4);
    weir.books().assert_balanced();
    weir.stop();
}

/// A process in a cgroup of this machine; both are removed at the end.
struct Burning {
    child: Child,
    dirs: Vec<PathBuf>,
}

impl Drop for Burning {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

impl Burning {
    /// `None` if this machine has no cgroups of version 1 that may be created.
    fn start(id: &str) -> Option<Self> {
        let dirs = ["memory", "cpuacct"].map(|controller| {
            Path::new("/sys/fs/cgroup").join(controller).join(format!("weir-test-{id}"))
        });
        for dir in &dirs {
            fs::create_dir(dir).ok()?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", "read line; while :; do :; done"]).stdin(Stdio::piped());
        let child = command.spawn().expect("a shell runs");
        let mut burning = Self { child, dirs: dirs.to_vec() };
        for dir in &burning.dirs {
            fs::write(dir.join("cgroup.procs"), burning.child.id().to_string()).ok()?;
        }
        // It waits for the end of its standard input.
        drop(burning.child.stdin.take());
        Some(burning)
    }
}

#[test]
fn a_real_cgroup_is_measured() {
    let scene = Scene::new();
    let machine = Machine::new(&scene);
    let id = id(&format!("{:02x}", std::process::id() % 256));
    let Some(_burning) = Burning::start(&id) else { return };
    machine.docker(&id, &json!({ "source_id": "burning" }), 0);
    let root = format!("{}/cgroup\"", machine.root.display());
    let config = machine.source().replace(&root, "/sys/fs/cgroup\"");
    let mut weir = scene.start(&(config + &file(&scene)));
    wait(&weir, "it uses a processor", || {
        let all = gauges(&scene, "burning");
        all.iter().any(|(body, _)| value(body, "cpu").is_some_and(|(cpu, _)| cpu > 5.0))
    });
    let all = gauges(&scene, "burning");
    // Memory stays charged where it was first used, outside of the new cgroup.
    assert!(all.iter().any(|(body, _)| value(body, "memory").is_some()), "{all:?}");
    let shares = all.iter().filter_map(|(body, _)| value(body, "cpu"));
    assert!(shares.into_iter().all(|(cpu, _)| cpu < 150.0), "one thread: {all:?}");
    weir.books().assert_balanced();
    weir.stop();
}
