//! Lines that were split into parts are joined again across rotations, restarts and kills.

use std::time::Duration;

use weir_measure::load::{Content, Layout, LineFormat, LoadPlan, RotateWhen, Rotation};
use weir_testkit::{Collector, Oracle, Weir, Writing};

use crate::scene::{OUTPUT, Scene, hec, judge, moment};

fn containers(scene: &Scene, collector: &Collector) -> String {
    format!(
        "[source.containers]\ntype = \"containers\"\ndocker_roots = [\"{0}/docker\"]\n\
         pod_roots = [\"{0}/pods\"]\nlink_roots = []\nrotated_grace = \"1s\"\n\
         rescan_interval = \"500ms\"\n{1}",
        scene.dir().display(),
        hec(OUTPUT, collector, ""),
    )
}

/// Long lines in parts, with stderr between them, rotated between any two parts.
fn plan(scene: &Scene, format: LineFormat) -> LoadPlan {
    let dir = if format == LineFormat::Docker { "docker" } else { "pods" };
    let mut plan = LoadPlan::new(scene.dir().join(dir));
    plan.format = format;
    plan.layout = Layout::Containers;
    plan.content = Content::Escapes;
    plan.body_bytes = (1000, 60_000);
    (plan.partial, plan.interleave, plan.line_by_line) = (true, true, true);
    plan.lines_per_second = Some(400.0);
    // About forty times a second; nothing is deleted while weir is down.
    let when = RotateWhen::Bytes(300_000);
    plan.rotation = Some(match format {
        LineFormat::Docker => Rotation::Rename { when, keep: 1000 },
        _ => Rotation::Kubelet { when, keep: 1000 },
    });
    plan.streams = vec!["one".to_owned(), "two".to_owned()];
    plan
}

fn joined_over_restarts(format: LineFormat, graceful: bool) {
    let scene = Scene::new();
    let collector = Collector::start();
    let config = containers(&scene, &collector);
    let plan = plan(&scene, format);
    std::fs::create_dir_all(&plan.dir).unwrap();
    let mut oracle = Oracle::strict(OUTPUT);
    // A joined line is a record of the file that contains its end.
    oracle.ordered = false;
    let writing = Writing::start(plan);
    for round in 0..8 {
        let mut weir = scene.start(&config);
        moment(Duration::from_millis(150 + 37 * round));
        if graceful {
            weir.stop();
        } else {
            weir.kill();
            oracle.crashes += 1;
        }
    }
    let written = [writing.stop()];
    let weir: Weir = scene.start(&config);
    judge(&oracle, &written, &collector, &weir);
}

#[test]
fn docker_parts_are_joined_over_rotation_and_restart() {
    joined_over_restarts(LineFormat::Docker, true);
}

#[test]
fn docker_parts_are_joined_over_rotation_and_kill() {
    joined_over_restarts(LineFormat::Docker, false);
}

#[test]
fn cri_parts_are_joined_over_rotation_and_restart() {
    joined_over_restarts(LineFormat::Cri, true);
}

#[test]
fn cri_parts_are_joined_over_rotation_and_kill() {
    joined_over_restarts(LineFormat::Cri, false);
}
