//! Logs of containers: docker's directories, pods and links; partial lines across rotation and
//! restart; metadata.

use std::fs::{create_dir_all, remove_dir_all, remove_file, rename};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_model::RecordFlags;
use weir_pipeline::config::RateLimit;

use crate::harness::*;

/// Creates a docker container with its metadata; returns the path of its log.
fn docker(world: &World, id: &str, name: &str) -> PathBuf {
    let dir = world.log("docker").join(id);
    create_dir_all(&dir).unwrap();
    let config = format!(
        r#"{{"ID":"{id}","Name":"/{name}","Config":{{"Image":"repo/{name}:1","Labels":{{}}}}}}"#
    );
    std::fs::write(dir.join("config.v2.json"), config).unwrap();
    let driver = r#"{"LogConfig":{"Type":"json-file","Config":{}}}"#;
    std::fs::write(dir.join("hostconfig.json"), driver).unwrap();
    dir.join(format!("{id}-json.log"))
}

fn json_line(log: &str, stream: &str) -> String {
    format!("{{\"log\":\"{log}\",\"stream\":\"{stream}\",\"time\":\"2026-01-31T10:15:00.5Z\"}}\n")
}

fn whole(line: &str) -> String {
    json_line(&format!("{line}\\n"), "stdout")
}

fn cri(tag: &str, stream: &str, text: &str) -> String {
    format!("2026-01-31T10:15:00.5Z {stream} {tag} {text}\n")
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn docker_containers_are_found_with_their_metadata() {
    let world = World::containers(|c| c.exclude_containers = vec!["noisy*".into()]);
    let running = world.start();
    let log = docker(&world, "aa11", "web");
    Writer::append(&log).text(&whole("hello"));
    Writer::append(&docker(&world, "bb22", "noisy-one")).text(&whole("left out"));
    let other = docker(&world, "cc33", "journal");
    std::fs::write(other.with_file_name("hostconfig.json"), r#"{"LogConfig":{"Type":"journald"}}"#)
        .unwrap();
    Writer::append(&other).text(&whole("left out"));
    running.expect(&strings(&["hello"]));
    let record = &running.inbox.records()[0];
    let text = |key: &str| record.resource.text(key);
    assert_eq!(text("container.id"), Some("aa11"));
    assert_eq!(text("container.name"), Some("web"));
    assert_eq!(text("container.image.name"), Some("repo/web"));
    assert_eq!(text("service.name"), Some("web"));
    assert_eq!(text("log.file.path"), log.to_str());
    assert!(record.flags.contains(RecordFlags::STDOUT));
}

#[test]
fn metadata_that_comes_after_the_log_is_used_from_then_on() {
    let world = World::containers(|_| {});
    let running = world.start();
    let dir = world.log("docker/aa11");
    create_dir_all(&dir).unwrap();
    let mut app = Writer::append(&dir.join("aa11-json.log"));
    app.text(&whole("before"));
    running.inbox.wait(1);
    docker(&world, "aa11", "web");
    for n in 1.. {
        app.text(&whole("after"));
        running.inbox.wait(n + 1);
        if running.inbox.records()[n].resource.text("container.name") == Some("web") {
            break;
        }
    }
    assert_eq!(running.inbox.records()[0].resource.text("container.id"), Some("aa11"));
    running.assert_books();
}

#[test]
fn a_line_in_parts_is_joined_over_a_rotation_of_docker() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    let mut app = Writer::append(&log);
    app.text(&json_line("one-", "stdout"));
    app.text(&json_line("err-", "stderr"));
    app.text(&json_line("two-", "stdout"));
    rename(&log, log.with_extension("log.1")).unwrap();
    let mut app = Writer::append(&log);
    app.text(&json_line("three\\n", "stdout"));
    app.text(&json_line("end\\n", "stderr"));
    app.text(&whole("next"));
    running.expect(&strings(&["one-two-three", "err-end", "next"]));
    let book = running.book();
    assert_eq!((book.lines, book.records, book.joined), (6, 3, 3));
}

#[test]
fn a_line_in_parts_is_joined_though_its_file_waited_long_behind_others() {
    // Reading the oldest generation takes longer than the timeout of an unfinished line.
    let world = World::containers(|c| {
        c.tail.rate_limit = Some(RateLimit { lines_per_second: 100.0, shed: false });
        c.tail.partial_timeout = Duration::from_millis(300);
        c.tail.rotated_grace = Duration::from_millis(50);
    });
    let log = docker(&world, "aa11", "web");
    let bodies = lines(0..200);
    let oldest: String = bodies.iter().map(|body| whole(body)).collect();
    Writer::append(&log.with_extension("log.3")).text(&oldest);
    Writer::append(&log.with_extension("log.2")).text(&json_line("one-", "stdout"));
    Writer::append(&log.with_extension("log.1")).text(&json_line("two-", "stdout"));
    Writer::append(&log).text(&json_line("three\\n", "stdout"));
    let running = world.start();
    let expected = [bodies, strings(&["one-two-three"])].concat();
    running.expect(&expected);
}

#[test]
fn a_line_in_parts_is_joined_over_a_restart_and_a_rotation_meanwhile() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    let mut app = Writer::append(&log);
    app.text(&(whole("first") + &json_line("one-", "stdout")));
    running.expect(&strings(&["first"]));
    running.stop();
    let running = world.start();
    app.text(&json_line("two-", "stdout"));
    eventually("it is read", || running.book().bytes_read > 150);
    running.stop();
    app.text(&json_line("three-", "stdout"));
    rename(&log, log.with_extension("log.1")).unwrap();
    Writer::append(&log).text(&json_line("four\\n", "stdout"));
    let running = world.start();
    running.expect(&strings(&["one-two-three-four"]));
    running.stop();
    let running = world.start();
    running.expect(&[]);
}

#[test]
fn a_line_in_parts_survives_the_deletion_of_its_file_while_weir_does_not_run() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    let mut app = Writer::append(&log);
    app.text(&(whole("first") + &json_line("one-", "stdout")));
    running.expect(&strings(&["first"]));
    running.stop();
    remove_file(&log).unwrap();
    Writer::append(&log).text(&json_line("two\\n", "stdout"));
    let running = world.start();
    running.expect(&strings(&["one-two"]));
    running.stop();
    let running = world.start();
    running.expect(&[]);
}

#[test]
fn a_line_in_parts_whose_rest_never_comes_is_delivered_after_the_timeout() {
    let world = World::containers(|c| c.tail.partial_timeout = Duration::from_millis(50));
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    Writer::append(&log).text(&json_line("no end", "stdout"));
    running.expect(&strings(&["no end"]));
}

#[test]
fn all_generations_of_a_container_are_read_oldest_first() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    // As docker creates them: each under the active name, and then renamed.
    let generations = [
        whole("oldest"),
        whole("middle") + &json_line("begin", "stdout"),
        json_line("-end\\n", "stdout") + &whole("newest"),
    ];
    for generation in &generations {
        let (first, second) = (log.with_extension("log.1"), log.with_extension("log.2"));
        if first.exists() {
            std::fs::rename(&first, second).unwrap();
        }
        if log.exists() {
            std::fs::rename(&log, first).unwrap();
        }
        Writer::append(&log).text(generation);
    }
    Writer::append(&log.with_extension("log.3.gz")).text("compressed");
    let running = world.start();
    running.expect(&strings(&["oldest", "middle", "begin-end", "newest"]));
}

#[test]
fn docker_with_one_file_unlinks_it_and_nothing_is_lost() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    let mut expected = Vec::new();
    for n in 0..30 {
        let mut app = Writer::append(&log);
        running.inbox.wait(expected.len());
        for line in lines(n * 50..n * 50 + 50) {
            app.text(&whole(&line));
            expected.push(line);
        }
        // Once weir has seen the file, it may be removed at any time.
        running.inbox.wait(n * 50 + 1);
        remove_file(&log).unwrap();
    }
    running.expect(&expected);
}

#[test]
fn a_removed_container_leaves_nothing_unread() {
    let world = World::containers(|_| {});
    let running = world.start();
    for n in 0..10 {
        let log = docker(&world, &format!("{n:04}"), "short");
        Writer::append(&log).text(&whole(&lines(n..n + 1)[0]));
        running.inbox.wait(n + 1);
        remove_dir_all(log.parent().unwrap()).unwrap();
    }
    running.expect(&lines(0..10));
    eventually("their streams end", || running.streams() == 0);
    running.assert_books();
}

/// Returns the directory of a pod's container.
fn pod(world: &World) -> PathBuf {
    let dir = world.log("pods/default_web-0_1234-5678/nginx");
    create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn pods_are_read_once_though_links_lead_to_them_too() {
    let world = World::containers(|_| {});
    let dir = pod(&world);
    let mut app = Writer::append(&dir.join("0.log"));
    app.text(&cri("F", "stdout", "hello"));
    let link = format!("containers/web-0_default_nginx-{}.log", "ab".repeat(32));
    symlink(dir.join("0.log"), world.log(&link)).unwrap();
    symlink(dir.join("0.log"), world.log("containers/cut-off_default_ngi.log")).unwrap();
    let running = world.start();
    running.inbox.wait(1);
    app.text(&cri("F", "stderr", "world"));
    running.expect(&strings(&["hello", "world"]));
    let record = &running.inbox.records()[1];
    assert_eq!(record.resource.text("k8s.namespace.name"), Some("default"));
    assert_eq!(record.resource.text("k8s.pod.name"), Some("web-0"));
    assert_eq!(record.resource.text("k8s.pod.uid"), Some("1234-5678"));
    assert_eq!(record.resource.text("k8s.container.name"), Some("nginx"));
    assert!(record.flags.contains(RecordFlags::STDERR));
    assert_eq!(running.streams(), 1);
}

#[test]
fn links_alone_are_enough_and_the_rotation_behind_them_is_followed() {
    let world = World::containers(|c| {
        c.docker_roots.clear();
        c.pod_roots.clear();
    });
    let running = world.start();
    let log = docker(&world, "aa11", "web");
    let mut app = Writer::append(&log);
    app.text(&whole("one"));
    // As with docker under the kubelet: a link to a link to the log.
    symlink(&log, pod(&world).join("0.log")).unwrap();
    symlink(pod(&world).join("0.log"), world.log("containers/web-0_default_nginx-aa.log")).unwrap();
    running.inbox.wait(1);
    rename(&log, log.with_extension("log.1")).unwrap();
    app.text(&whole("two"));
    Writer::append(&log).text(&whole("three"));
    running.expect(&strings(&["one", "two", "three"]));
    assert_eq!(running.inbox.records()[2].resource.text("container.name"), Some("web"));
}

#[test]
fn parts_are_joined_over_a_rotation_of_the_kubelet() {
    let world = World::containers(|_| {});
    let dir = pod(&world);
    let running = world.start();
    let mut app = Writer::append(&dir.join("0.log"));
    app.text(&cri("F", "stdout", "first"));
    running.inbox.wait(1);
    app.text(&cri("P", "stdout", "one-"));
    rename(dir.join("0.log"), dir.join("0.log.20260131-101500")).unwrap();
    // The runtime has not opened the new file yet.
    app.text(&cri("P", "stdout", "two-"));
    let mut new = Writer::append(&dir.join("0.log"));
    new.text(&cri("F", "stdout", "three"));
    new.text(&cri("F", "stdout", "last"));
    running.expect(&strings(&["first", "one-two-three", "last"]));
    // A restarted container starts a new file.
    Writer::append(&dir.join("1.log")).text(&cri("F", "stdout", "again"));
    running.inbox.wait(4);
    running.assert_books();
    let counts: Vec<String> = running
        .inbox
        .records()
        .iter()
        .map(|r| String::from_utf8(r.resource.encode()).unwrap())
        .filter(|r| r.contains(r#""k8s.container.restart_count":1"#))
        .collect();
    assert_eq!(counts.len(), 1);
}

#[test]
fn a_crash_after_the_next_file_took_the_parts_over_repeats_nothing_wrong() {
    let world = World::containers(|_| {});
    let log = docker(&world, "aa11", "web");
    let running = world.start();
    let mut app = Writer::append(&log);
    app.text(&(whole("first") + &json_line("one-", "stdout")));
    running.expect(&strings(&["first"]));
    // From here on nothing is acknowledged: the joined record must be read again, unchanged.
    running.inbox.is_silent.store(true, Ordering::Release);
    rename(&log, log.with_extension("log.1")).unwrap();
    let mut app = Writer::append(&log);
    app.text(&json_line("two\\n", "stdout"));
    running.inbox.wait(2);
    running.stop();
    app.text(&whole("last"));
    let running = world.start();
    running.expect(&strings(&["one-two", "last"]));
    running.stop();
    let running = world.start();
    running.expect(&[]);
}

#[test]
fn an_unfinished_line_is_not_joined_to_the_next_start_of_a_container() {
    let world = World::containers(|c| c.tail.partial_timeout = Duration::from_millis(200));
    let dir = pod(&world);
    let running = world.start();
    Writer::append(&dir.join("0.log")).text(&cri("P", "stdout", "unfinished"));
    Writer::append(&dir.join("1.log")).text(&cri("F", "stdout", "hello"));
    running.expect_each_once(&strings(&["hello", "unfinished"]));
    Writer::append(&dir.join("1.log")).text(&cri("P", "stdout", "cut"));
    eventually("it is read", || running.book().bytes_read > 100);
    running.stop();
    remove_file(dir.join("1.log")).unwrap();
    Writer::append(&dir.join("2.log")).text(&cri("F", "stdout", "again"));
    let running = world.start();
    running.inbox.wait(1);
    eventually("both are delivered", || running.book().records == 4);
    running.assert_books();
    assert!(running.inbox.bodies().contains(&"again".to_owned()));
}
