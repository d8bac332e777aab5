//! Cursors of outputs that were removed: dropped while weir runs, and while it does not.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::json;
use weir_host::units::group_digits;
use weir_testkit::{Answer, Books, Collector, PATIENCE, Tally, Weir, Writing, binary};

use crate::drains::api;
use crate::scene::{Scene, apply, hec, wait};

/// Number of lines: enough for several segments of the journal.
const KEPT: u64 = 100_000;

/// A weir of which one output has everything, and nothing was delivered to the other.
struct World {
    scene: Scene,
    well: Collector,
    hung: Collector,
    weir: Weir,
    lines: u64,
}

impl World {
    fn start(lines: u64) -> Self {
        let (scene, well, hung) = (Scene::new(), Collector::start(), Collector::start());
        hung.answer(Answer::status(503));
        let weir = scene.start(&config(&scene, &[("well", &well), ("hung", &hung)]));
        let mut plan = scene.plan();
        plan.lines = Some(lines);
        assert_eq!(Writing::all(plan).lines, lines);
        weir.wait_books("one output has everything", PATIENCE, |books| {
            books.delivered("well") == lines && books.in_flight("hung") == lines
        });
        Self { scene, well, hung, weir, lines }
    }

    /// Writes into another file until the writing is stopped.
    fn write(&self, name: &str) -> Writing {
        let mut plan = self.scene.plan();
        (plan.streams, plan.lines_per_second) = (vec![name.to_owned()], Some(2000.0));
        Writing::start(plan)
    }

    /// Removes the output to which nothing is delivered, without waiting for its end.
    fn remove(&self) {
        apply(&self.weir, &config(&self.scene, &[("well", &self.well)]));
    }

    fn wait_removed(&self) {
        self.weir.wait_log("output hung was removed before it could deliver");
    }

    /// A configuration with which commands find the running weir, or its data if it does not run.
    fn client_config(&self) -> PathBuf {
        let path = self.scene.dir().join("client.toml");
        let (dir, api) = (self.weir.data_dir(), self.weir.api().unwrap());
        let listen = format!("data_dir = \"{}\"\n[api]\nlisten = \"{api}\"\n", dir.display());
        let text = listen + "[store]\nenabled = false\n" + &hec("well", &self.well, "");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The size of the journal's files on the disk.
    fn journal_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.weir.data_dir().join("journal")).unwrap();
        // A segment may be removed in the meantime.
        files
            .flatten()
            .filter_map(|file| file.metadata().ok())
            .map(|meta| meta.blocks() * 512)
            .sum()
    }

    fn is_listed(&self, name: &str) -> bool {
        let books = self.weir.books();
        let names = books.json()["cursors"].as_array().unwrap().iter();
        names.map(|cursor| cursor["name"].as_str().unwrap()).any(|known| known == name)
    }

    /// Waits until the healthy output has so many lines, and stops weir.
    fn finish(&mut self, lines: u64) -> Books {
        let books = self.weir.wait_books("the other one has everything", PATIENCE, |books| {
            books.delivered("well") == lines && books.files_balance()
        });
        books.assert_balanced();
        assert_eq!(self.well.look(Tally::unique), lines, "{books}");
        self.weir.stop();
        books
    }
}

fn config(scene: &Scene, outputs: &[(&str, &Collector)]) -> String {
    let all = outputs.iter().map(|(name, collector)| hec(name, collector, ""));
    scene.source("docker_json") + &all.collect::<String>()
}

/// Runs `weir cursor drop`.
fn drop_cursor(name: &str, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(["cursor", "drop", name]).args(args).env_remove("WEIR_API").output().unwrap()
}

/// Asserts that it was refused with this exit code and text.
#[track_caller]
fn assert_refused(output: &Output, code: i32, text: &str) {
    let notes = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{notes}");
    assert!(notes.contains(text) && output.stdout.is_empty(), "{notes}");
}

#[test]
fn a_removed_output_is_dropped_under_load_its_space_is_freed_and_it_stays_away() {
    let mut world = World::start(KEPT);
    let at = world.weir.api().unwrap().to_string();
    let writing = world.write("second");
    let more = |world: &World, lines: u64| {
        wait(&world.weir, "it is read", || world.weir.books().delivered("well") > KEPT + lines);
    };
    more(&world, 1000);
    let configured = "output \"hung\" is configured: remove it from the configuration first";
    assert_refused(&drop_cursor("hung", &["--api", &at]), 1, configured);
    world.remove();
    let stopping = "output \"hung\" was removed and is still stopping";
    assert_refused(&drop_cursor("hung", &["--api", &at]), 1, stopping);
    world.wait_removed();
    let before = world.weir.books();
    before.assert_balanced();
    let waiting = before.in_flight("hung");
    assert!(waiting > KEPT, "{before}");
    wait(&world.weir, "they are on disk", || world.journal_bytes() > 24 << 20);
    let bytes = world.journal_bytes();

    let client = world.client_config();
    let dropped = drop_cursor("hung", &["-c", client.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&dropped.stdout);
    let expected = format!("dropped hung: {} records discarded\n", group_digits(waiting));
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&dropped.stderr));

    assert!(!world.is_listed("hung"), "{}", world.weir.books());
    world.weir.books().assert_balanced();
    assert!(!world.weir.metrics().contains("\"hung\""), "{}", world.weir.metrics());
    assert!(!world.weir.health().to_string().contains("hung"), "{}", world.weir.health());
    wait(&world.weir, "its space is freed", || world.journal_bytes() < bytes / 4);
    let delivered = world.weir.books().delivered("well") - KEPT;
    more(&world, delivered + 1000);
    let lines = KEPT + writing.stop().lines;
    world.finish(lines);
    assert!(!world.weir.log().contains("restarting"), "{}", world.weir.log());

    // It is not back after a restart, and new once it is configured again.
    let unknown = "there is no cursor \"hung\"; existing cursors: well";
    assert_refused(&drop_cursor("hung", &["-c", client.to_str().unwrap()]), 4, unknown);
    world.weir = world.scene.start(&config(&world.scene, &[("well", &world.well)]));
    assert!(!world.is_listed("hung"), "{}", world.weir.books());
    world.hung.answer(Answer::Accept);
    let both = [("well", &world.well), ("hung", &world.hung)];
    apply(&world.weir, &config(&world.scene, &both));
    let writing = world.write("third");
    wait(&world.weir, "it gets what is new", || world.hung.look(Tally::unique) >= 1000);
    let new = writing.stop().lines;
    let books = world.weir.wait_books("it has what is new", PATIENCE, |books| {
        books.in_flight("hung") == 0 && books.delivered("hung") == new
    });
    assert_eq!(books.routed("hung"), new, "{books}");
    world.finish(lines + new);
}

#[test]
fn a_drop_that_is_refused_says_why_and_changes_nothing() {
    let mut world = World::start(500);
    let weir = &world.weir;
    let at = weir.api().unwrap().to_string();
    let unknown = "there is no cursor \"nobody/%\"; existing cursors: hung, well";
    let sorted = |output: &Output| {
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        notes.replace("well, hung", "hung, well")
    };
    let refused = drop_cursor("nobody/%", &["--api", &at]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(sorted(&refused).contains(unknown), "{refused:?}");
    let (status, answer) = api(weir, "DELETE", "/weir/v1/cursors/well", &json!({}));
    assert_eq!((status, &answer["status"]), (409, &json!(409)), "{answer}");
    assert_eq!(api(weir, "GET", "/weir/v1/cursors/well", &json!({})).0, 405);
    // Its own configuration does not say where its API is.
    let own = world.scene.dir().join("weir.toml").display().to_string();
    let refused = drop_cursor("hung", &["-c", &own]);
    assert_refused(&refused, 1, "output \"hung\" is configured");
    world.remove();
    world.wait_removed();
    let in_use =
        "is in use by another weir, which cannot be reached (api.listen does not set a port): pass";
    assert_refused(&drop_cursor("hung", &["-c", &own]), 75, in_use);
    let books = world.weir.books();
    assert_eq!(books.in_flight("hung"), world.lines, "{books}");

    // If no weir answers, the data directory is opened.
    let client = world.client_config().display().to_string();
    world.finish(world.lines);
    let configured = "output \"well\" is configured: remove it from the configuration first";
    assert_refused(&drop_cursor("well", &["-c", &client]), 1, configured);
    assert_refused(&drop_cursor("hung", &["--api", &at]), 1, "no weir is running at");
    let dropped = drop_cursor("hung", &["-c", &client]);
    assert_eq!(String::from_utf8_lossy(&dropped.stdout), "dropped hung: 500 records discarded\n");
    world.weir = world.scene.start(&config(&world.scene, &[("well", &world.well)]));
    assert!(!world.is_listed("hung"), "{}", world.weir.books());
    world.finish(world.lines);
}
