//! What the output `file` logs. Runs in a process of its own, since it captures the whole log.

mod harness;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use harness::{Line, Rig};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weir_host::RealDisk;
use weir_model::Resource;
use weir_pipeline::config::{Encoding, FilePath, OutputKind};
use weir_pipeline::output::{FileOutput, FsyncPolicy, Rotation};

/// Collects every warning.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn an_impossible_file_name_is_logged_once_and_its_records_are_counted() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("a.log")).unwrap();
    std::fs::create_dir_all(tree.join("b.log")).unwrap();
    let plan = FileOutput {
        path: FilePath::parse(&format!("{}/{{service}}.log", tree.display())).unwrap(),
        encoding: Encoding::Raw,
        fsync: FsyncPolicy::Always,
        rotation: Rotation::default(),
        open_files_max: 4,
    };
    let mut rig = Rig::start_in(dir, Arc::new(RealDisk), OutputKind::File(plan));
    for _ in 0..3 {
        for (stream, service) in [(1, "a"), (2, "b"), (3, "good")] {
            let resource = Resource::new().with("service.name", service);
            rig.append_with(stream, &resource, &[Line::new("one"), Line::new("two")]);
        }
        rig.drain();
    }
    let (ledger, _dir) = rig.finish();
    assert_eq!((ledger.book.delivered, ledger.book.dead_lettered), (6, 12));
    let warnings = warnings.0.lock().unwrap();
    for name in ["a.log", "b.log"] {
        let said = warnings.iter().filter(|text| text.contains(name)).count();
        assert_eq!(said, 1, "{warnings:#?}");
    }
}
