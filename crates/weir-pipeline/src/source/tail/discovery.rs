//! Finds files: watched directories, what was touched in them, and the slow rescan for the truth.
//!
//! Invariants: a directory is watched before it is listed, so nothing falls between; it is known
//! by its path without links, so it is watched and read once however it is reached; every change
//! of names ends in a [`Sighting`] of what a name leads to now, or in its absence. What the kernel
//! tells decides only *when* to look, never what is true.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::identity::Look;
use super::layout::{Class, Layout, Rule, single};
use super::watch::{Change, Event, Interest, Watcher};
use crate::source::OwnPath;
use crate::stats::{SourceStats, set};

use touched::{Touched, Trace};

mod touched;

/// Number of a directory.
pub(super) type DirId = usize;

/// Number that the engine gave a file.
pub(super) type FileKey = usize;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The directory.
    pub dir: DirId,
    /// The name in it.
    pub name: OsString,
}

/// What a name leads to at this moment.
#[derive(Debug)]
pub(super) struct Sighting {
    /// The file's own place, behind all links.
    pub place: Place,
    /// The file.
    pub look: Look,
    /// The path as the operator knows it.
    pub shown: PathBuf,
    /// The kernel told that it was made under this name, not moved to it.
    pub is_born_here: bool,
    /// What the layout makes of the name; `None` when the file is only known by its inode.
    pub class: Option<Class>,
}

/// What one look at the touched names found.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Names that lead to a file.
    pub sightings: Vec<Sighting>,
    /// Names that lead nowhere any more, and the file that they were bound to.
    pub gone: Vec<(Place, FileKey)>,
    /// Directories whose container metadata was written.
    pub described: Vec<DirId>,
    /// Paths, as the operator knows them, of files that came and went between two looks.
    pub unseen: Vec<PathBuf>,
}

#[derive(Debug)]
struct Dir {
    path: PathBuf,
    shown: PathBuf,
    rules: Vec<Rule>,
    wd: Option<i32>,
    /// It was said that inotify refused it.
    is_refused: bool,
    touched: Touched,
    /// Names that lead to followed files.
    bound: HashMap<OsString, FileKey>,
    /// Links (directory and name) to names in this directory.
    links: Vec<(OsString, Place)>,
    alive: bool,
}

/// The directories of one source.
#[derive(Debug)]
pub(super) struct Discovery {
    layout: Layout,
    watcher: Watcher,
    dirs: Vec<Dir>,
    free: Vec<DirId>,
    by_path: HashMap<PathBuf, DirId>,
    by_wd: HashMap<i32, Vec<DirId>>,
    dirty: Vec<DirId>,
    roots: Vec<(PathBuf, Rule)>,
    missing_roots: bool,
    /// Roots of which it was said that they cannot be reached.
    told_roots: HashSet<PathBuf>,
    hidden: Vec<OwnPath>,
    stats: Arc<SourceStats>,
}

impl Discovery {
    /// Discovery that leaves out everything below `hidden` (weir's own files).
    pub(super) fn new(layout: Layout, hidden: &[OwnPath], stats: Arc<SourceStats>) -> Self {
        let (watcher, refused) = Watcher::new();
        if let Some(error) = refused {
            let text = format!("inotify refused an instance ({error}): directories are rescanned");
            tracing::warn!("{text}");
            stats.errors.count("inotify", &text);
        }
        let roots = layout.roots();
        let hidden = hidden.iter().map(OwnPath::resolved);
        Self {
            layout,
            watcher,
            dirs: Vec::new(),
            free: Vec::new(),
            by_path: HashMap::new(),
            by_wd: HashMap::new(),
            dirty: Vec::new(),
            roots,
            missing_roots: true,
            told_roots: HashSet::new(),
            hidden: hidden.collect(),
            stats,
        }
    }

    /// What to wait on for changes.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.fd()
    }

    /// The rules.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The directory's path without links.
    pub(super) fn dir_path(&self, dir: DirId) -> &Path {
        &self.dirs[dir].path
    }

    /// Directories that only a rescan looks at.
    pub(super) fn unwatched(&self) -> u64 {
        self.dirs.iter().filter(|d| d.alive && d.wd.is_none()).count() as u64
    }

    /// Something was touched that [`Self::look`] has not looked at yet.
    pub(super) fn has_touched(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Names in the directory were touched that [`Self::look`] has not looked at yet.
    pub(super) fn is_touched(&self, dir: DirId) -> bool {
        !self.dirs[dir].touched.is_nothing()
    }

    /// The file that a place is bound to.
    pub(super) fn bound(&self, place: &Place) -> Option<FileKey> {
        self.dirs[place.dir].bound.get(&place.name).copied()
    }

    /// Every file bound to a name in the directory.
    pub(super) fn bound_in(&self, dir: DirId) -> Vec<FileKey> {
        self.dirs[dir].bound.values().copied().collect()
    }

    /// Binds a place to a file; returns the file that it was bound to before.
    pub(super) fn bind(&mut self, place: &Place, key: FileKey) -> Option<FileKey> {
        self.dirs[place.dir].bound.insert(place.name.clone(), key)
    }

    /// Forgets what the place was bound to.
    pub(super) fn unbind(&mut self, place: &Place) {
        self.dirs[place.dir].bound.remove(&place.name);
    }

    /// Looks at this name again at the next [`Self::look`].
    pub(super) fn touch(&mut self, place: &Place) {
        touch(&mut self.dirs, &mut self.dirty, place.dir, &place.name, Change::Unknown);
    }

    /// The file that was sighted under this name has gone before it could be opened: the kernel
    /// tells next whether it was removed or has another name.
    pub(super) fn touch_lost(&mut self, place: &Place) {
        touch(&mut self.dirs, &mut self.dirty, place.dir, &place.name, Change::Made);
    }

    /// Lists a directory again at the next [`Self::look`].
    pub(super) fn touch_dir(&mut self, dir: DirId) {
        if self.dirs[dir].alive {
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
    }

    /// Takes the kernel's events. Files that were written to go to `written`.
    pub(super) fn drain(&mut self, written: &mut Vec<FileKey>) {
        let Self { watcher, dirs, by_wd, dirty, .. } = self;
        let mut overflow = false;
        let mut gone = Vec::new();
        watcher.drain(|event| match event {
            Event::Written(wd, name) => {
                for dir in by_wd.get(&wd).into_iter().flatten() {
                    written.extend(dirs[*dir].bound.get(name));
                }
            }
            Event::Touched(wd, name, change) => {
                for dir in by_wd.get(&wd).into_iter().flatten() {
                    touch(dirs, dirty, *dir, name, change);
                }
            }
            Event::Gone(wd) => gone.push(wd),
            Event::Overflow => overflow = true,
        });
        for wd in gone {
            self.lost_watch(wd);
        }
        if overflow {
            tracing::warn!("the kernel's queue of file events overflowed: rescanning");
            self.stats.errors.count("inotify_overflow", "the queue of file events overflowed");
            self.rescan();
        }
    }

    /// A watched directory was removed or moved: what its path leads to now is looked at again.
    fn lost_watch(&mut self, wd: i32) {
        let Some(dirs) = self.by_wd.remove(&wd) else { return };
        self.watcher.remove(wd);
        for dir in dirs {
            self.dirs[dir].wd = None;
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
        self.missing_roots = true;
    }

    /// Everything is looked at again: roots, directories, files.
    pub(super) fn rescan(&mut self) {
        self.missing_roots = true;
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive {
                touch_all(&mut self.dirs, &mut self.dirty, dir);
            }
        }
    }

    /// Directories that inotify does not watch are looked at again.
    pub(super) fn rescan_unwatched(&mut self) {
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive && self.dirs[dir].wd.is_none() {
                touch_all(&mut self.dirs, &mut self.dirty, dir);
            }
        }
    }

    /// Looks at everything that was touched. Files without a name in the layout are reported only
    /// when `is_known` knows their inode.
    pub(super) fn look(&mut self, is_known: &dyn Fn(u64) -> bool) -> Report {
        let mut report = Report::default();
        if self.missing_roots {
            self.ensure_roots();
        }
        let mut awaited = Vec::new();
        while let Some(dir) = self.dirty.pop() {
            let touched = std::mem::take(&mut self.dirs[dir].touched);
            let found = report.sightings.len();
            if touched.is_everything {
                self.list(dir, is_known, &mut report);
            } else {
                for name in touched.names.keys() {
                    self.examine(dir, name, is_known, &mut report);
                }
            }
            let lost = self.trace_back(dir, touched.names, found, &mut report);
            awaited.extend(lost);
            if self.missing_roots || self.dirs[dir].rules.contains(&Rule::Ancestor) {
                self.ensure_roots();
            }
        }
        for (place, trace) in awaited {
            self.resume(&place, trace);
        }
        set(&self.stats.unwatched_dirs, self.unwatched());
        report
    }

    /// Adds to what a look found in a directory, from `found` on, what the kernel told of the names.
    /// Returns wanted files that were made and are not there, with what to remember of them.
    fn trace_back(
        &self,
        dir: DirId,
        mut traces: HashMap<OsString, Trace>,
        found: usize,
        report: &mut Report,
    ) -> Vec<(Place, Trace)> {
        for sighting in report.sightings[found..].iter_mut().filter(|s| s.place.dir == dir) {
            let trace = traces.get(&sighting.place.name);
            sighting.is_born_here = trace.is_some_and(|trace| trace.is_born);
        }
        let is_wanted = |name: &OsStr| self.class_of(dir, name).is_some_and(|class| class.wanted);
        traces.retain(|name, trace| (trace.is_born || trace.unseen > 0) && is_wanted(name));
        let mut lost = Vec::new();
        for (name, trace) in traces {
            let entry = &self.dirs[dir];
            let shown = entry.shown.join(&name);
            report.unseen.extend(std::iter::repeat_n(shown, trace.unseen as usize));
            let is_there = || Look::at_link(&entry.path.join(&name)).is_ok();
            let awaited = trace.not_found().filter(|_| !is_there());
            lost.extend(awaited.map(|trace| (Place { dir, name }, trace)));
        }
        lost
    }

    /// Waits for what the kernel tells of a name that was made and is not there, as long as it is
    /// watched.
    fn resume(&mut self, place: &Place, trace: Trace) {
        let dir = &self.dirs[place.dir];
        if dir.alive && dir.wd.is_some() {
            touched(&mut self.dirs, &mut self.dirty, place.dir).resume(&place.name, trace);
        }
    }

    fn ensure_roots(&mut self) {
        self.missing_roots = false;
        let mut missing = false;
        for (root, rule) in self.roots.clone() {
            match root.canonicalize() {
                Ok(real) => {
                    self.told_roots.remove(&root);
                    self.ensure_dir(&real, &root, &[rule]);
                    continue;
                }
                Err(error) => self.tell_root(&root, &error),
            }
            missing = true;
            let existing = root.ancestors().skip(1).find_map(|a| a.canonicalize().ok());
            if let Some(real) = existing {
                self.ensure_dir(&real.clone(), &real, &[Rule::Ancestor]);
            }
        }
        if !missing {
            self.drop_ancestors();
        }
    }

    /// A root that is not there yet is normal; one that must not be entered is said, once.
    fn tell_root(&mut self, root: &Path, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::NotFound && self.told_roots.insert(root.to_owned()) {
            let text = format!("cannot reach {}: {error}", root.display());
            tracing::warn!("{text}");
            self.stats.errors.count("directory", &text);
        }
    }

    /// Directories that were watched only to see a root appear.
    fn drop_ancestors(&mut self) {
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive && self.dirs[dir].rules == [Rule::Ancestor] {
                self.remove_dir(dir, &mut Report::default());
            }
        }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|own| own.covers(path))
    }

    /// Watches a directory and notes what it is; it is listed when it is new or was replaced.
    fn ensure_dir(&mut self, real: &Path, shown: &Path, rules: &[Rule]) -> Option<DirId> {
        if self.is_hidden(real) {
            return None;
        }
        let dir = match self.by_path.get(real) {
            Some(dir) => *dir,
            None => self.new_dir(real, shown),
        };
        let mut is_new = false;
        for rule in rules.iter().copied() {
            let mut next = Some(rule);
            while let Some(rule) = next.filter(|r| !self.dirs[dir].rules.contains(r)) {
                self.dirs[dir].rules.push(rule);
                is_new = true;
                next = self.layout.implied(rule);
            }
        }
        if is_new && rules != [Rule::Ancestor] {
            shown.clone_into(&mut self.dirs[dir].shown);
        }
        if self.watch(dir) || is_new {
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
        Some(dir)
    }

    fn new_dir(&mut self, real: &Path, shown: &Path) -> DirId {
        let new = Dir {
            path: real.to_owned(),
            shown: shown.to_owned(),
            rules: Vec::new(),
            wd: None,
            is_refused: false,
            touched: Touched::default(),
            bound: HashMap::new(),
            links: Vec::new(),
            alive: true,
        };
        let dir = if let Some(dir) = self.free.pop() {
            self.dirs[dir] = new;
            dir
        } else {
            self.dirs.push(new);
            self.dirs.len() - 1
        };
        self.by_path.insert(real.to_owned(), dir);
        dir
    }

    /// Asks for events. True when the directory is another one than was watched before.
    fn watch(&mut self, dir: DirId) -> bool {
        let entry = &self.dirs[dir];
        let follows = entry.rules.iter().any(|r| self.layout.holds_files(*r));
        let interest = if follows { Interest::Writes } else { Interest::Names };
        let before = entry.wd;
        match self.watcher.add(&entry.path, interest) {
            Ok(wd) if before == Some(wd) => false,
            Ok(wd) => {
                self.unmap_watch(dir);
                self.by_wd.entry(wd).or_default().push(dir);
                self.dirs[dir].wd = Some(wd);
                self.dirs[dir].is_refused = false;
                true
            }
            Err(Errno::NOENT | Errno::NOTDIR) => true,
            Err(error) => {
                self.unmap_watch(dir);
                self.tell_unwatched(dir, error);
                false
            }
        }
    }

    /// Said once per directory, not at every rescan.
    fn tell_unwatched(&mut self, dir: DirId, error: Errno) {
        let dir = &mut self.dirs[dir];
        if !std::mem::replace(&mut dir.is_refused, true) {
            let text = format!("{}: inotify refused ({error}): rescanned", dir.path.display());
            tracing::warn!("{text}");
            self.stats.errors.count("inotify", &text);
        }
    }

    fn unmap_watch(&mut self, dir: DirId) {
        let Some(wd) = self.dirs[dir].wd.take() else { return };
        let Some(users) = self.by_wd.get_mut(&wd) else { return };
        users.retain(|user| *user != dir);
        if users.is_empty() {
            self.by_wd.remove(&wd);
            self.watcher.remove(wd);
        }
    }

    fn remove_dir(&mut self, dir: DirId, report: &mut Report) {
        self.unmap_watch(dir);
        let entry = &mut self.dirs[dir];
        entry.alive = false;
        entry.touched = Touched::default();
        entry.links.clear();
        let gone = entry.bound.drain().map(|(name, key)| (Place { dir, name }, key));
        report.gone.extend(gone);
        self.by_path.remove(&entry.path);
        // The number may be used again at once: reports are taken in with what is gone first.
        self.dirty.retain(|d| *d != dir);
        self.free.push(dir);
    }

    fn list(&mut self, dir: DirId, is_known: &dyn Fn(u64) -> bool, report: &mut Report) {
        if !self.dirs[dir].alive {
            return;
        }
        self.watch(dir);
        let entries = match std::fs::read_dir(&self.dirs[dir].path) {
            Ok(entries) => entries,
            Err(e) => return self.unlistable(dir, &e, report),
        };
        let mut absent: HashSet<OsString> = self.dirs[dir].bound.keys().cloned().collect();
        let holds_files = self.dirs[dir].rules.iter().any(|r| self.layout.holds_files(*r));
        for entry in entries.flatten() {
            let name = entry.file_name();
            absent.remove(&name);
            let is_file = entry.file_type().is_ok_and(|t| t.is_file());
            let unwanted = is_file && (!holds_files || self.class_of(dir, &name).is_none());
            if unwanted && !is_known(entry.ino()) && !self.dirs[dir].bound.contains_key(&name) {
                self.note_description(dir, &name, report);
                continue;
            }
            self.examine(dir, &name, is_known, report);
        }
        for name in absent {
            self.gone(dir, &name, report);
        }
    }

    fn unlistable(&mut self, dir: DirId, error: &std::io::Error, report: &mut Report) {
        let is_gone = matches!(
            error.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
        );
        if is_gone {
            self.missing_roots = true;
            self.remove_dir(dir, report);
        } else {
            let text = format!("{}: {error}", self.dirs[dir].path.display());
            tracing::warn!("cannot list {text}");
            self.stats.errors.count("directory", &text);
        }
    }

    fn gone(&mut self, dir: DirId, name: &OsStr, report: &mut Report) {
        if let Some(key) = self.dirs[dir].bound.remove(name) {
            report.gone.push((Place { dir, name: name.to_owned() }, key));
        }
    }

    fn note_description(&self, dir: DirId, name: &OsStr, report: &mut Report) {
        let is_container = self.dirs[dir].rules.contains(&Rule::DockerContainer);
        if is_container && name == "config.v2.json" {
            report.described.push(dir);
        }
    }

    fn class_of(&self, dir: DirId, name: &OsStr) -> Option<Class> {
        let entry = &self.dirs[dir];
        let classes = entry
            .rules
            .iter()
            .filter_map(|rule| self.layout.classify(*rule, &entry.shown, &entry.path, name));
        // A name may be wanted by one glob and a sibling to another.
        classes.reduce(|best, next| if best.wanted { best } else { next })
    }

    /// Looks at what one name leads to now.
    fn examine(
        &mut self,
        dir: DirId,
        name: &OsStr,
        is_known: &dyn Fn(u64) -> bool,
        report: &mut Report,
    ) {
        if !self.dirs[dir].alive {
            return;
        }
        self.touch_links(dir, name);
        let path = self.dirs[dir].path.join(name);
        if self.is_hidden(&path) {
            return;
        }
        let look = match Look::at_link(&path) {
            Ok(look) => look,
            Err(_unreachable_now) => return self.gone(dir, name, report),
        };
        match look.kind {
            FileType::Symlink => self.examine_link(dir, name, &path, report),
            FileType::Directory => self.descend(dir, name, &path, false),
            FileType::RegularFile => {
                self.note_description(dir, name, report);
                let class = self.class_of(dir, name);
                if class.is_some() || is_known(look.id.inode) {
                    let place = Place { dir, name: name.to_owned() };
                    let shown = self.dirs[dir].shown.join(name);
                    let is_born_here = false;
                    report.sightings.push(Sighting { place, look, shown, is_born_here, class });
                }
            }
            _other_kinds_are_not_logs => {}
        }
    }

    /// A name in this directory may be what a link elsewhere leads to.
    fn touch_links(&mut self, dir: DirId, name: &OsStr) {
        let links: Vec<Place> = self.dirs[dir]
            .links
            .iter()
            .filter(|(target, _)| target == name)
            .map(|(_, place)| place.clone())
            .collect();
        for place in &links {
            if place.dir != dir && self.dirs[place.dir].alive {
                self.touch(place);
            }
        }
    }

    fn descend(&mut self, dir: DirId, name: &OsStr, real: &Path, is_link: bool) {
        let entry = &self.dirs[dir];
        let rules: Vec<Rule> =
            entry.rules.iter().filter_map(|r| self.layout.descend(*r, name, is_link)).collect();
        if rules.is_empty() {
            return;
        }
        let shown = entry.shown.join(name);
        self.ensure_dir(real, &shown, &rules);
    }

    /// A link: the file is followed at its own place, in its own directory.
    fn examine_link(&mut self, dir: DirId, name: &OsStr, path: &Path, report: &mut Report) {
        let rules = &self.dirs[dir].rules;
        let descends = rules.iter().any(|r| self.layout.descend(*r, name, true).is_some());
        let class = self.class_of(dir, name).filter(|class| class.wanted);
        if class.is_none() && !descends {
            return;
        }
        let (real, look) = match path.canonicalize() {
            Ok(real) => match Look::at(&real) {
                Ok(look) => (real, look),
                Err(_gone_meanwhile) => return,
            },
            Err(e) => return self.broken_link(path, &e),
        };
        match look.kind {
            FileType::Directory => self.descend(dir, name, &real, true),
            FileType::RegularFile if class.is_some() => {
                self.sight_target(&Place { dir, name: name.to_owned() }, path, &real, look, report);
            }
            _ => {}
        }
    }

    fn broken_link(&self, path: &Path, error: &std::io::Error) {
        // A target that is not there yet or any more is normal; a circle is not.
        if error.kind() != std::io::ErrorKind::NotFound {
            let text = format!("{}: {error}", path.display());
            tracing::warn!("cannot follow the link {text}");
            self.stats.errors.count("link", &text);
        }
    }

    fn sight_target(
        &mut self,
        link: &Place,
        shown: &Path,
        real: &Path,
        look: Look,
        report: &mut Report,
    ) {
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return };
        if self.is_hidden(real) {
            return;
        }
        let rule = self.layout.rule_of_target(real);
        let Some(dir) = self.ensure_dir(parent, parent, &[rule]) else { return };
        if !self.dirs[dir].links.iter().any(|(n, place)| n == name && place == link) {
            self.dirs[dir].links.push((name.to_owned(), link.clone()));
        }
        let (class, shown) = match rule {
            Rule::Target => (single(real), shown),
            rule => match self.layout.classify(rule, parent, parent, name) {
                Some(class) => (class, real),
                None => return,
            },
        };
        let place = Place { dir, name: name.to_owned() };
        let shown = shown.to_owned();
        report.sightings.push(Sighting {
            place,
            look,
            shown,
            is_born_here: false,
            class: Some(class),
        });
    }
}

/// What is to be looked at in a directory; it is looked at next.
fn touched<'a>(dirs: &'a mut [Dir], dirty: &mut Vec<DirId>, dir: DirId) -> &'a mut Touched {
    let touched = &mut dirs[dir].touched;
    if touched.is_nothing() {
        dirty.push(dir);
    }
    touched
}

fn touch_all(dirs: &mut [Dir], dirty: &mut Vec<DirId>, dir: DirId) {
    touched(dirs, dirty, dir).is_everything = true;
}

/// Notes what happened to a name.
fn touch(dirs: &mut [Dir], dirty: &mut Vec<DirId>, dir: DirId, name: &OsStr, change: Change) {
    touched(dirs, dirty, dir).note(name, change);
}

#[cfg(test)]
mod tests;
