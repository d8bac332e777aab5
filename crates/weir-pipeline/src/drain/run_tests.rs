//! The set of drains as lists and users change it, over a real journal.

use std::path::PathBuf;

use weir_host::RealDisk;
use weir_journal::JournalConfig;
use weir_testkit::{FakeClock, journal_config};

use super::*;
use crate::config::{Endpoint, TlsSettings};
use crate::drain::provider::{BindingList, ProviderSettings};
use crate::drain::registry::StoredDrain;
use crate::drain::sender::DrainNetworkSettings;

const MIB: u64 = 1 << 20;

/// The loop of a plan with the binding cache, and the sender of its lists.
struct Rig {
    drains: DrainLoop,
    lists: watch::Sender<ProviderState>,
    dir: PathBuf,
}

fn drain(app: &str) -> Definition {
    let stored = StoredDrain {
        app: Some(app.to_owned()),
        space: None,
        organization: None,
        url: format!("syslog://{app}.example:514"),
        hostname: String::new(),
        cert: None,
        key: None,
        ca: None,
    };
    stored.define(ADDED).unwrap()
}

fn plan() -> DrainsPlan {
    DrainsPlan {
        bytes_max: 16 * MIB,
        window_bytes: 4 * MIB,
        retry_for: Duration::MAX,
        with_metadata: true,
        network: DrainNetworkSettings::default(),
        drains: Vec::new(),
        providers: vec![ProviderSettings {
            kind: ProviderKind::BindingCache,
            endpoint: Endpoint::url("http://127.0.0.1:1").unwrap(),
            tls: TlsSettings::default(),
            interval: Duration::from_hours(1),
            drains_per_app_max: 10,
        }],
    }
}

impl Rig {
    fn start(dir: PathBuf, drains_max: usize) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let clock: Arc<dyn Clock> = Arc::new(FakeClock::at(1_800_000_000_000_000_000));
        let config = JournalConfig {
            ring_bytes: 8 * MIB,
            bytes_max: 64 * MIB,
            segment_bytes: MIB,
            ..journal_config(dir.join("journal"))
        };
        disk.create_dir_all(&config.dir).unwrap();
        let (journal, _writer) =
            Journal::open_with_writer(config, disk.clone(), clock.clone()).unwrap();
        let cursor = |name: &str| CursorSpec {
            name: name.to_owned(),
            when_full: WhenFull::Block,
            buffer_bytes_max: 16 * MIB,
            window_bytes: 4 * MIB,
        };
        let cursors =
            (journal.cursor(cursor(NAME)).unwrap(), journal.cursor(cursor(LAGGING)).unwrap());
        let plan = plan();
        let start = Start {
            network: DrainNetwork::new(&plan.network).unwrap(),
            providers: vec![(BINDING_CACHE, Provider::new(&plan.providers[0]).unwrap())],
            registry: Registry::open(disk, &dir, &[BINDING_CACHE]).unwrap(),
            plan,
            journal,
            cursors,
            clock,
            sources: Arc::default(),
        };
        let mut drains = DrainLoop::new(start, Arc::default());
        drains.drains_max = drains_max;
        let (_, lists) = drains.waiting_providers.remove(0);
        Self { drains, lists, dir }
    }

    fn list(&mut self, apps: &[&str]) {
        let bindings = apps.iter().map(|app| (*drain(app).binding).clone()).collect();
        let list = Some(Arc::new(BindingList { bindings, rejected: Vec::new() }));
        self.lists.send_replace(ProviderState { list, ..ProviderState::default() });
        self.drains.look_at_providers();
    }

    fn command(&mut self, command: Command) -> Answer {
        let (sender, mut answer) = oneshot::channel();
        self.drains.carry_out(command, sender);
        answer.try_recv().unwrap()
    }

    fn add(&mut self, app: &str) -> Answer {
        self.command(Command::Add(Box::new(drain(app))))
    }

    /// Whether a drain runs, and is paused.
    fn state(&self, app: &str) -> Option<bool> {
        let core = self.drains.pump.core.borrow();
        core.drains.get(&drain(app).id).map(|drain| drain.is_paused)
    }
}

#[test]
fn a_paused_drain_stays_paused_until_a_user_resumes_or_removes_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::start(dir.path().to_owned(), 10);
    rig.list(&["a", "b"]);
    assert_eq!(rig.add("c"), Ok(None));
    for app in ["a", "c"] {
        assert_eq!(rig.command(Command::Pause(drain(app).id, true)), Ok(None));
    }
    let states = |rig: &Rig| ["a", "b", "c"].map(|app| rig.state(app));
    assert_eq!(states(&rig), [Some(true), Some(false), Some(true)]);
    // It disappears from the list, and comes back: at once, and after a restart.
    rig.list(&["b"]);
    assert_eq!(states(&rig), [None, Some(false), Some(true)]);
    rig.list(&["a", "b"]);
    assert_eq!(states(&rig), [Some(true), Some(false), Some(true)]);
    rig.list(&["b"]);
    let Rig { dir: path, .. } = rig;
    let mut rig = Rig::start(path, 10);
    assert_eq!(states(&rig), [None, Some(false), Some(true)]);
    rig.list(&["a", "b"]);
    assert_eq!(states(&rig), [Some(true), Some(false), Some(true)]);
    // A user ends it, also while no list has the drain.
    rig.list(&["b"]);
    assert_eq!(rig.command(Command::Pause(drain("a").id, false)), Ok(None));
    rig.list(&["a", "b"]);
    assert_eq!(rig.command(Command::Remove(drain("c").id)), Ok(None));
    assert_eq!(rig.add("c"), Ok(None));
    assert_eq!(states(&rig), [Some(false); 3]);
    let id = drain("d").id;
    for command in [Command::Pause(id, true), Command::Pause(id, false), Command::Remove(id)] {
        assert_eq!(rig.command(command), Err(DrainChangeError::Unknown(id)));
    }
    let id = drain("a").id;
    assert_eq!(rig.command(Command::Remove(id)), Err(DrainChangeError::NotAdded(id)));
}

#[test]
fn drains_beyond_the_maximum_are_refused_or_wait_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::start(dir.path().to_owned(), 2);
    for app in ["a", "b"] {
        assert_eq!(rig.add(app), Ok(None));
    }
    assert_eq!(rig.add("c"), Err(DrainChangeError::TooMany(2)));
    assert!(!std::fs::read_to_string(rig.dir.join(FILE)).unwrap().contains("c.example"));
    rig.list(&["c", "d"]);
    let left_out = |rig: &Rig| rig.drains.shared.left_out.load(Ordering::Relaxed);
    let count = |rig: &Rig| rig.drains.pump.core.borrow().drains.len();
    assert_eq!((left_out(&rig), count(&rig)), (2, 2));
    assert!(!rig.drains.pump.core.borrow().is_complete, "their streams are kept");
    assert_eq!(rig.command(Command::Remove(drain("a").id)), Ok(None));
    assert_eq!((left_out(&rig), count(&rig)), (1, 2));
    rig.list(&["d"]);
    assert_eq!((left_out(&rig), rig.state("b"), rig.state("d")), (0, Some(false), Some(false)));
    assert!(rig.drains.pump.core.borrow().is_complete);
    rig.list(&[]);
    assert_eq!((rig.add("c"), count(&rig)), (Ok(None), 2));
}
