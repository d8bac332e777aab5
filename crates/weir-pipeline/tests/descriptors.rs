//! More files than descriptors. Runs in a process of its own, since the limit is per process.

#[path = "tailing/harness.rs"]
#[expect(dead_code, reason = "shared with the other tests of tailing")]
mod harness;

use harness::{World, Writer, lines};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn more_files_than_descriptors_are_all_read_and_followed() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
    let world = World::files(&["*.log"], |_| {});
    let path = |n: usize| world.log(&format!("{n:03}.log"));
    for n in 0..200 {
        Writer::append(&path(n)).lines(&lines(n..n + 1));
    }
    let running = world.start();
    running.expect_each_once(&lines(0..200));
    for n in 0..200 {
        Writer::append(&path(n)).lines(&lines(200 + n..201 + n));
    }
    running.expect_each_once(&lines(0..400));
}
