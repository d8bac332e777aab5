//! The topology of the running configuration: a document, and the stream of its changes.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use weir_measure::load::LoadPlan;
use weir_testkit::{Answer, Collector, PATIENCE, Weir, Writing, wait_for};

use crate::scene::{Scene, apply, at_rest, hec};
use crate::tail::Reader;

/// Nodes and edges by id, as the stream describes them.
struct Followed {
    reader: Reader,
    items: BTreeMap<String, Value>,
}

impl Followed {
    fn start(weir: &Weir) -> Self {
        let mut reader = Reader::of(weir, "/weir/v1/topology/stream", "");
        let (name, _, snapshot) = reader.event();
        assert_eq!(name, "snapshot");
        assert_eq!(snapshot["schema"], "weir.topology.v1");
        Self { reader, items: by_id(&snapshot) }
    }

    /// Applies the next change, which contains only what differs; returns the ids that are gone.
    fn change(&mut self) -> Vec<String> {
        let (name, _, change) = self.reader.event();
        assert_eq!(name, "change");
        for (id, item) in by_id(&change) {
            let before = self.items.insert(id, item.clone());
            assert_ne!(before, Some(item), "it has not changed");
        }
        let removed = change["removed"].as_array().unwrap().iter().filter_map(Value::as_str);
        let removed: Vec<String> = removed.map(str::to_owned).collect();
        for id in &removed {
            assert!(self.items.remove(id).is_some(), "{id} was not there");
        }
        removed
    }

    /// Applies changes until an item has this value.
    fn until(&mut self, id: &str, key: &str, value: &Value) {
        let found = wait_for(PATIENCE, || {
            let is_so = self.items[id].get(key).unwrap_or(&Value::Null) == value;
            if !is_so {
                self.change();
            }
            is_so.then_some(())
        });
        assert!(found.is_some(), "{id}: {key} is not {value}: {}", self.items[id]);
    }
}

/// The nodes and edges of a document or a change.
fn by_id(document: &Value) -> BTreeMap<String, Value> {
    let items = ["nodes", "edges"].map(|key| document[key].as_array().unwrap().clone());
    let items = items.into_iter().flatten();
    items.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect()
}

fn topology(weir: &Weir) -> BTreeMap<String, Value> {
    let (status, body) = weir.get("/weir/v1/topology").unwrap();
    assert_eq!(status, 200, "{body}");
    by_id(&serde_json::from_str(&body).unwrap())
}

/// A source of a folder with its name.
fn source(scene: &Scene, name: &str) -> String {
    let folder = scene.dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    format!(
        "[source.{name}]\ntype = \"file\"\ninclude = [\"{}/*.log\"]\nformat = \"docker_json\"\n",
        folder.display()
    )
}

fn plan(scene: &Scene, source: &str, lines: u64) -> LoadPlan {
    let mut plan = LoadPlan::new(scene.dir().join(source));
    plan.streams = vec![source.to_owned()];
    plan.body_bytes = (1000, 1000);
    plan.lines = Some(lines);
    plan
}

#[test]
fn the_topology_names_the_output_that_blocks_a_source() {
    let (up, down) = (Collector::start(), Collector::start());
    down.answer(Answer::status(503));
    let scene = Scene::new();
    let small = "buffer_max = \"8MiB\"\nwindow = \"1MiB\"\nbatch_size = \"256KiB\"\n";
    let parts = [source(&scene, "loud"), source(&scene, "quiet"), hec("up", &up, "")].concat();
    let parts = format!("default_to = [\"up\"]\n{parts}{}", hec("down", &down, small));
    let rule = "[[rule]]\nname = \"loud\"\nwhen = \"source:loud\"\nto = [\"down\"]\n";
    let mut weir = scene.start(&(parts.clone() + rule));
    let mut followed = Followed::start(&weir);
    assert_eq!(followed.items["source:loud"]["state"], "ok");
    for edge in ["source:loud>rules", "source:quiet>rules", "rules>journal", "journal>output:down"]
    {
        assert_eq!(followed.items[edge]["records"], 0, "{edge}");
    }

    let written =
        [Writing::all(plan(&scene, "loud", 40_000)), Writing::all(plan(&scene, "quiet", 500))];
    followed.until("source:loud", "blocked_by", &"output:down".into());
    followed.until("output:down", "state", &"blocking".into());
    followed.until("journal>output:up", "records", &500.into());
    let quiet = &followed.items["source:quiet"];
    assert!(quiet["state"] == "ok" && quiet.get("blocked_by").is_none(), "{quiet}");
    assert_eq!(topology(&weir)["source:loud"]["blocked_by"], "output:down");
    weir.books().assert_balanced();

    down.answer(Answer::Accept);
    followed.until("source:loud", "state", &"ok".into());
    followed.until("output:down", "sent", &40_000.into());
    for (report, (collector, output)) in written.iter().zip([(&down, "down"), (&up, "up")]) {
        let books = at_rest(&weir, output);
        assert_eq!(books.delivered(output), report.lines, "{books}");
        assert_eq!(collector.tally().unique(), report.lines);
    }
    let edges = |items: &BTreeMap<String, Value>| {
        items.values().filter_map(|item| item["records"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(edges(&followed.items), edges(&topology(&weir)));

    // The stream continues with another configuration, and ends when weir does.
    apply(&weir, &parts);
    let gone = wait_for(PATIENCE, || Some(followed.change()).filter(|gone| !gone.is_empty()));
    let gone = gone.expect("the rules are gone");
    assert!(gone.contains(&"rules".to_owned()), "{gone:?}");
    assert_eq!(followed.items["source:loud>journal"]["records"], 40_000);
    at_rest(&weir, "down");
    weir.stop();
    followed.reader.read_to_end();
}
