//! SIGKILL within a chosen system call: the nth write, flush, rename, send of each thread.

use std::process::Command;
use std::time::Duration;

use weir_measure::load::{RotateWhen, Rotation};
use weir_testkit::{Answer, Collector, Oracle, PATIENCE, Weir, Writing};

use crate::scene::{OUTPUT, Scene, judge};

/// Calls that change what is on disk or what the collector has received.
const CALLS: [&str; 8] = [
    "pwritev",
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename,renameat,renameat2,unlink,unlinkat",
    "fallocate,ftruncate",
    "sendto,sendmsg,writev",
    "inotify_add_watch,pread64",
];

/// The number of the call in which a thread is killed.
const NTH: [u32; 4] = [1, 2, 4, 9];

fn assert_strace() {
    let found = Command::new("strace").arg("-V").output().is_ok_and(|out| out.status.success());
    assert!(found, "this test needs strace (Debian package strace)");
}

/// Kills weir at every point in turn, or after `reach` if the point was not reached. Returns the
/// number of points at which it was killed.
fn kill_at_every_point(scene: &Scene, config: &str, calls: &[&str], reach: Duration) -> u64 {
    let mut died = 0;
    for call in calls {
        for nth in NTH {
            let inject = format!("inject={call}:signal=KILL:when={nth}");
            let trace = format!("trace={call}");
            let wrapper =
                ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let mut weir = Weir::spawn(scene.dir(), config, &wrapper);
            // A point that is not reached within this time is not on this path.
            match weir.wait_end(reach) {
                Some(status) => {
                    let signal = Weir::ending_signal(status);
                    assert_eq!(signal, Some(9), "at {call} {nth}: {}", weir.log());
                    died += 1;
                }
                None => weir.kill(),
            }
        }
    }
    died
}

fn written_while_dying(scene: &Scene, collector: &Collector, keys: &str, calls: &[&str]) {
    assert_strace();
    let config = scene.config(collector, keys);
    let mut plan = scene.plan();
    plan.lines_per_second = Some(3000.0);
    plan.rotation = Some(Rotation::Rename { when: RotateWhen::Bytes(512 << 10), keep: 10_000 });
    let oracle = Oracle {
        crashes: (calls.len() * NTH.len()) as u64,
        body_bytes_min: plan.body_bytes.0 as u64,
        ..Oracle::strict(OUTPUT)
    };
    let writing = Writing::start(plan);
    let died = kill_at_every_point(scene, &config, calls, Duration::from_secs(1));
    println!("killed at {died} points");
    assert!(died >= 8, "only {died} points were reached");
    collector.answer(Answer::Accept);
    let written = [writing.stop()];
    let mut weir = scene.start(&config);
    judge(&oracle, &written, collector, &weir);
    weir.stop();
}

#[test]
fn death_inside_any_system_call_loses_nothing_while_the_collector_works() {
    let scene = Scene::new();
    let collector = Collector::start();
    written_while_dying(&scene, &collector, "", &CALLS);
}

#[test]
fn death_inside_any_system_call_loses_nothing_while_batches_go_to_disk() {
    let mut scene = Scene::new();
    scene.extra = "[journal]\nring = \"4MiB\"\n".to_owned();
    let collector = Collector::start();
    collector.answer(Answer::status(503));
    // A large backlog, so that the ring overflows at once.
    let mut plan = scene.plan();
    plan.streams = vec!["old".to_owned()];
    plan.lines = Some(60_000);
    let old = Writing::all(plan);
    assert!(old.bytes > 16 << 20);
    let config = scene.config(&collector, "window = \"1MiB\"\nbatch_size = \"256KiB\"");
    assert_strace();
    // A full ring waits a second for its slowest output before batches go to disk.
    let died = kill_at_every_point(&scene, &config, &CALLS[..6], Duration::from_millis(2500));
    println!("killed at {died} points");
    assert!(died >= 5, "only {died} points were reached");
    collector.answer(Answer::Accept);
    let mut weir = scene.start(&config);
    let oracle = Oracle {
        crashes: (CALLS.len() * NTH.len()) as u64,
        body_bytes_min: 100,
        ..Oracle::strict(OUTPUT)
    };
    judge(&oracle, &[old], &collector, &weir);
    weir.stop();
    assert!(weir.wait_end(PATIENCE).is_some());
}
