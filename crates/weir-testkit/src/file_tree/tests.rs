//! The tree in memory behaves like the one of the machine, for the same actions.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use weir_host::RealFileTree;

use super::*;

/// What a program does.
const ACTIONS: [&str; 14] = [
    "append a.log",
    "append a.log",
    "rename a.log a.log.1",
    "append a.log",
    "link a.log b.log",
    "append b.log",
    "remove a.log",
    "rename b.log a.log.1",
    "mkdir sub",
    "append sub/x",
    "rename sub sub2",
    "remove sub2/x",
    "remove sub2",
    "remove a.log.1",
];

/// Performs an action in a directory of the machine.
fn act(dir: &Path, action: &str) {
    let mut words = action.split(' ');
    let (what, first) = (words.next().unwrap(), dir.join(words.next().unwrap()));
    match what {
        "append" => {
            let file = OpenOptions::new().create(true).append(true).open(first);
            file.unwrap().write_all(b"line\n").unwrap();
        }
        "rename" => std::fs::rename(first, dir.join(words.next().unwrap())).unwrap(),
        "link" => std::fs::hard_link(first, dir.join(words.next().unwrap())).unwrap(),
        "mkdir" => std::fs::create_dir(first).unwrap(),
        _ if first.is_dir() => std::fs::remove_dir(first).unwrap(),
        _ => std::fs::remove_file(first).unwrap(),
    }
}

/// Performs an action in the tree in memory.
fn act_in(tree: &FakeTree, action: &str) {
    let mut words = action.split(' ');
    let mut path = || format!("/logs/{}", words.next().unwrap());
    match path().as_str() {
        "/logs/append" => tree.append_to(&path()).unwrap().append(b"line\n"),
        "/logs/rename" => assert!(tree.rename(&path(), &path())),
        "/logs/link" => assert!(tree.link(&path(), &path())),
        "/logs/mkdir" => assert!(tree.make_dir(&path())),
        _ => assert!(tree.remove(&path())),
    }
}

/// Returns the reports in a form that does not depend on numbers.
fn reports(watch: &dyn TreeWatch) -> Vec<String> {
    let mut all = Vec::new();
    assert!(watch.drain(&mut |event| {
        all.push(match event {
            WatchEvent::Touched(_, name, change) => {
                let change = format!("{change:?}");
                format!("{} {}", name.display(), change.split('(').next().unwrap())
            }
            WatchEvent::Written(_, name) => format!("{} written", name.display()),
            other => format!("{other:?}"),
        });
    }));
    // A changed number of names is reported for watched files only, which none is here.
    all
}

fn names(tree: &dyn FileTree, dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    tree.list(dir, &mut |entry| {
        names.push(format!("{} {:?}", entry.name.display(), entry.kind));
    })
    .unwrap();
    names.sort();
    names
}

#[test]
fn names_and_reports_are_those_of_the_machine() {
    let home = tempfile::tempdir().unwrap();
    let fake = FakeTree::new(FakeClock::default());
    fake.make_dir("/logs");
    let (real_watch, _) = RealFileTree.watch();
    real_watch.add_dir(home.path(), Interest::Writes).unwrap();
    let (fake_watch, _) = fake.watch();
    fake_watch.add_dir("/logs".as_ref(), Interest::Writes).unwrap();
    for action in ACTIONS {
        act(home.path(), action);
        act_in(&fake, action);
        assert_eq!(reports(&*fake_watch), reports(&*real_watch), "{action}");
        assert_eq!(names(&fake, "/logs".as_ref()), names(&RealFileTree, home.path()), "{action}");
    }
}

#[test]
fn an_open_file_remains_and_its_number_is_reused_afterwards() {
    let clock = FakeClock::default();
    let tree = FakeTree::new(clock.clone());
    let writer = tree.append_to("/a").unwrap();
    writer.append(b"one\n");
    let file = tree.open("/a".as_ref()).unwrap();
    let before = file.stat().unwrap();
    assert!(tree.remove("/a"));
    writer.append(b"two\n");
    drop(writer);
    let mut bytes = [0; 16];
    assert_eq!(file.read_at(&mut [IoSliceMut::new(&mut bytes)], 0).unwrap(), 8);
    assert_eq!(file.stat().unwrap().links, 0);
    drop(file);
    clock.advance(Duration::from_secs(1));
    drop(tree.append_to("/b"));
    let after = tree.stat("/b".as_ref()).unwrap();
    assert_eq!(after.id.inode, before.id.inode);
    assert_ne!(after.id, before.id);
}

#[test]
fn links_are_followed_except_at_the_end_and_loops_end() {
    let tree = FakeTree::new(FakeClock::default());
    tree.make_dir("/real");
    drop(tree.append_to("/real/a"));
    tree.symlink("/real", "/way");
    tree.symlink("a", "/real/b");
    tree.symlink("/loop", "/loop");
    assert_eq!(
        tree.stat("/way/a".as_ref()).unwrap().kind,
        weir_host::file_tree::FileType::RegularFile
    );
    assert_eq!(tree.stat("/way/b".as_ref()).unwrap().kind, weir_host::file_tree::FileType::Symlink);
    assert_eq!(tree.canonicalize("/way/b".as_ref()).unwrap(), Path::new("/real/a"));
    assert_eq!(tree.open("/loop".as_ref()).unwrap_err(), Errno::LOOP);
}

#[test]
fn changes_happen_between_the_parts_of_a_listing() {
    let tree = FakeTree::new(FakeClock::default());
    for n in 0..20 {
        drop(tree.append_to(&format!("/{n}")));
    }
    let (changed, mut calls) = (tree.clone(), 0);
    tree.change_between_calls(move || {
        calls += 1;
        if calls == 3 {
            (0..20).for_each(|n| assert!(changed.remove(&format!("/{n}"))));
        }
    });
    assert_eq!(names(&tree, "/".as_ref()).len(), 2 * LISTED_AT_A_TIME);
    tree.stop_changes();
}

#[test]
fn reports_beyond_the_limit_are_lost_and_that_is_reported() {
    let tree = FakeTree::new(FakeClock::default());
    tree.set_limits(TreeLimits { reports_max: 3, ..TreeLimits::default() });
    let (watch, _) = tree.watch();
    watch.add_dir("/".as_ref(), Interest::Names).unwrap();
    for n in 0..5 {
        drop(tree.append_to(&format!("/{n}")));
    }
    let reports = reports(&*watch);
    assert_eq!(reports.len(), 4);
    assert_eq!(reports.last().unwrap(), "Overflow");
}
