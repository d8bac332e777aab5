//! Finds files: watched directories, the names changed in them, and a slow rescan that finds
//! everything.
//!
//! Invariants: a directory is watched before it is listed, so nothing is missed in between; it is
//! identified by its path without links, so it is watched and read once however it is reached;
//! every change of names results in a [`Sighting`] of what a name leads to now, or in its absence.
//! Events from the kernel determine *when* to look, and under which names a reported file is still
//! expected; they are never taken as the state of a name.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_host::file_tree::{
    Errno, FileStat, FileType, Interest, NameChange, TreeEntry, WatchEvent,
};
use weir_host::{FileTree, TreeFile, TreeWatch, WakeFd};

use super::layout::{Class, Layout, Rule};
use super::parked::shrink;
use crate::source::OwnPaths;
use crate::stats::{SourceStats, set};

use closed::ClosedFiles;
use logged::LoggedPaths;
use reported::{NameStates, Named, ReportedFiles};
use touched::Touched;

pub(super) use known::Known;
#[cfg(test)]
pub(super) use known::Nothing;
pub(super) use reported::{ExpectedFile, FirstSighting};

mod closed;
mod known;
mod links;
mod logged;
mod reported;
mod touched;

/// Index of a directory.
pub(super) type DirId = usize;

/// Key that the engine assigned to a file.
pub(super) type FileKey = usize;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileLocation {
    /// The directory.
    pub dir: DirId,
    /// The name in it, shared with what is bound to it.
    pub name: Arc<OsStr>,
}

/// What a name leads to at this moment.
#[derive(Debug)]
pub(super) struct Sighting {
    /// The file's own location, with all links resolved.
    pub location: FileLocation,
    /// Attributes of the file.
    pub stat: FileStat,
    /// The path as configured, for display.
    pub shown: PathBuf,
    /// The kernel reported that it was created under a name that is not wanted.
    pub is_copy: bool,
    /// How the layout classifies the name; `None` if the file is only known by inode, or expected.
    pub class: Option<Class>,
    /// Set if the kernel reported the file under a wanted name before and this name is not wanted
    /// itself.
    pub expected: Option<ExpectedFile>,
}

impl Sighting {
    /// Returns the class of the file: of its name, or of the name under which it is expected.
    pub(super) fn known_as(&self) -> Option<&Class> {
        self.class.as_ref().or_else(|| self.expected.as_ref().map(|expected| &expected.class))
    }
}

/// What one look at the touched names found.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Names that lead to a file.
    pub sightings: Vec<Sighting>,
    /// Names that no longer lead to a file, and the file that they were bound to.
    pub gone: Vec<(FileLocation, FileKey)>,
    /// Names that were seen before their directory was found to be gone.
    pub vanished: Vec<Sighting>,
    /// Directories whose container metadata was written.
    pub described: Vec<DirId>,
    /// Display paths of files that appeared and disappeared before they were found.
    pub unseen: Vec<PathBuf>,
}

#[derive(Debug)]
struct Dir {
    path: PathBuf,
    /// Shared with the files that are parked in it.
    shown: Arc<Path>,
    rules: Vec<Rule>,
    wd: Option<i32>,
    /// It was already logged that inotify refused it.
    is_refused: bool,
    touched: Touched,
    /// What the kernel reported about names.
    name_states: NameStates,
    /// Names that lead to followed files.
    bound: HashMap<Arc<OsStr>, FileKey>,
    /// Links (directory and name) to names in this directory.
    links: Vec<(OsString, FileLocation)>,
    /// Its rules have changed since it was last listed, and may say something else of its names.
    is_reclassified: bool,
    alive: bool,
}

impl Dir {
    /// Returns true for the file in which docker describes the container of this directory.
    fn is_description(&self, name: &OsStr) -> bool {
        name == "config.v2.json" && self.rules.contains(&Rule::DockerContainer)
    }

    fn class_of(&self, layout: &Layout, name: &OsStr) -> Option<Class> {
        let classes = self
            .rules
            .iter()
            .filter_map(|rule| layout.classify(*rule, &self.shown, &self.path, name));
        // A name may be wanted by one glob and be a sibling for another.
        classes.reduce(|best, next| if best.wanted { best } else { next })
    }

    /// Returns how the layout classifies a name, excluding weir's own files.
    fn named(&self, layout: &Layout, hidden: &OwnPaths, name: &OsStr) -> Option<Named> {
        let class = self.class_of(layout, name)?;
        let path = self.path.join(name);
        let is_own = hidden.covers(&path);
        (!is_own).then(|| (class, self.shown.join(name)))
    }
}

/// The directories of one source.
#[derive(Debug)]
pub(super) struct Discovery {
    layout: Layout,
    tree: Arc<dyn FileTree>,
    watcher: Box<dyn TreeWatch>,
    dirs: Vec<Dir>,
    free: Vec<DirId>,
    by_path: HashMap<PathBuf, DirId>,
    by_wd: HashMap<i32, Vec<DirId>>,
    dirty: Vec<DirId>,
    reported: ReportedFiles,
    closed: ClosedFiles,
    roots: Vec<(PathBuf, Rule)>,
    missing_roots: bool,
    /// Roots and links for which it was already logged that they cannot be reached.
    logged: LoggedPaths,
    hidden: OwnPaths,
    stats: Arc<SourceStats>,
}

impl Discovery {
    /// Creates a discovery that excludes everything below `hidden` (weir's own files).
    pub(super) fn new(
        layout: Layout,
        hidden: OwnPaths,
        stats: Arc<SourceStats>,
        tree: Arc<dyn FileTree>,
    ) -> Self {
        let (watcher, refused) = tree.watch();
        if let Some(error) = refused {
            let text =
                format!("cannot create an inotify instance ({error}): rescanning directories");
            tracing::warn!("{text}");
            stats.errors.count("inotify", &text);
        }
        let roots = layout.roots();
        Self {
            layout,
            tree,
            watcher,
            dirs: Vec::new(),
            free: Vec::new(),
            by_path: HashMap::new(),
            by_wd: HashMap::new(),
            dirty: Vec::new(),
            reported: ReportedFiles::default(),
            closed: ClosedFiles::default(),
            roots,
            missing_roots: true,
            logged: LoggedPaths::default(),
            hidden,
            stats,
        }
    }

    /// Waits as [`TreeWatch::wait`].
    pub(super) fn wait(&self, wake: &WakeFd, for_events: bool, timeout: Duration) -> bool {
        self.watcher.wait(wake, for_events, timeout)
    }

    /// Returns the rules.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the directory's path without links.
    pub(super) fn dir_path(&self, dir: DirId) -> &Path {
        &self.dirs[dir].path
    }

    /// Returns the directory's path for display.
    pub(super) fn shown_dir(&self, dir: DirId) -> Arc<Path> {
        Arc::clone(&self.dirs[dir].shown)
    }

    /// Returns the number of directories that are only rescanned.
    pub(super) fn unwatched(&self) -> u64 {
        self.dirs.iter().filter(|d| d.alive && d.wd.is_none()).count() as u64
    }

    /// Returns true if something was touched that [`Self::look`] has not looked at yet, or if what
    /// the kernel reported is still incomplete.
    pub(super) fn has_touched(&self) -> bool {
        !self.dirty.is_empty() || self.reported.is_pending()
    }

    /// Returns true if the name was touched and [`Self::look`] has not looked at it yet.
    pub(super) fn is_name_touched(&self, location: &FileLocation) -> bool {
        let touched = &self.dirs[location.dir].touched;
        touched.is_everything || touched.names.contains(&*location.name)
    }

    /// Returns true if names in the directory were touched that [`Self::look`] has not looked at
    /// yet.
    pub(super) fn is_touched(&self, dir: DirId) -> bool {
        !self.dirs[dir].touched.is_nothing()
    }

    /// Returns the file that a location is bound to.
    pub(super) fn bound(&self, location: &FileLocation) -> Option<FileKey> {
        self.dirs[location.dir].bound.get(&location.name).copied()
    }

    /// Returns every file bound to a name in the directory.
    pub(super) fn bound_in(&self, dir: DirId) -> Vec<FileKey> {
        sorted(self.dirs[dir].bound.values().copied())
    }

    /// Binds a location to a file; returns the file that it was bound to before.
    pub(super) fn bind(&mut self, location: &FileLocation, key: FileKey) -> Option<FileKey> {
        self.dirs[location.dir].bound.insert(location.name.clone(), key)
    }

    /// Removes the binding of a location.
    pub(super) fn unbind(&mut self, location: &FileLocation) {
        let bound = &mut self.dirs[location.dir].bound;
        bound.remove(&location.name);
        shrink(bound);
    }

    /// Records that nothing more is expected of a followed file of this name: what the kernel
    /// reported before is as good as forgotten.
    pub(super) fn settled(&mut self, location: &FileLocation) {
        self.dirs[location.dir].name_states.settled(&location.name);
    }

    /// Makes the next [`Self::look`] look at this name again.
    pub(super) fn touch(&mut self, location: &FileLocation) {
        touched(&mut self.dirs, &mut self.dirty, location.dir).note(&location.name);
    }

    /// Records that a file sighted at this location, as `shown`, is followed from now on.
    pub(super) fn adopted(&mut self, location: &FileLocation, shown: &Path) -> FirstSighting {
        let class = self.class_of(location.dir, &location.name);
        let name_states = &self.dirs[location.dir].name_states;
        self.reported.adopted(name_states, &location.name, class.as_ref(), shown)
    }

    /// Records that the location leads to a followed file.
    pub(super) fn found(&mut self, location: &FileLocation, file: Option<FirstSighting>) {
        self.reported.found(&mut self.dirs[location.dir].name_states, &location.name, file);
    }

    /// Records that the file at this location is not to be followed.
    pub(super) fn forget_expected(&mut self, location: &FileLocation) {
        self.dirs[location.dir].name_states.forget_expected(&location.name);
    }

    /// Records that a sighted file was gone before it could be opened: later events show whether it
    /// was removed or renamed.
    pub(super) fn lost(&mut self, sighting: Sighting) {
        self.touch(&sighting.location);
        let FileLocation { dir, name } = sighting.location;
        let dir = &mut self.dirs[dir];
        if let Some(class) = sighting.class.filter(|class| class.wanted && dir.wd.is_some()) {
            ReportedFiles::lost(&mut dir.name_states, &name, (class, sighting.shown));
        }
    }

    /// Watches a deleted file that is about to be closed for later writes. `None`: such writes will
    /// go unnoticed.
    pub(super) fn watch_closed(&mut self, file: &dyn TreeFile, shown: &Path) -> Option<i32> {
        self.closed.watch(self.watcher.as_ref(), file, shown)
    }

    /// Stops watching a file that is followed further.
    pub(super) fn unwatch_closed(&mut self, wd: i32) {
        self.watcher.remove(wd);
        self.closed.note_gone(wd);
    }

    /// Returns files that were written to after they were closed, each once.
    pub(super) fn take_written_late(&mut self) -> Vec<PathBuf> {
        self.closed.take_written()
    }

    /// Called when events were drained and time has passed since the last call.
    pub(super) fn end_turn(&mut self) {
        self.reported.end_turn();
    }

    /// Makes the next [`Self::look`] list a directory again.
    pub(super) fn touch_dir(&mut self, dir: DirId) {
        if self.dirs[dir].alive {
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
    }

    /// Reads the kernel's events. Files that were written to are added to `written`.
    pub(super) fn drain(&mut self, written: &mut Vec<FileKey>) {
        let Self { layout, hidden, watcher, dirs, by_wd, dirty, reported, closed, .. } = self;
        let mut overflow = false;
        let mut gone = Vec::new();
        watcher.drain(&mut |event| match event {
            WatchEvent::Written(wd, name) => {
                for dir in by_wd.get(&wd).into_iter().flatten() {
                    written.extend(dirs[*dir].bound.get(name));
                    if dirs[*dir].is_description(name) {
                        touched(dirs, dirty, *dir).note(name);
                    }
                }
            }
            WatchEvent::Touched(wd, name, change) => {
                let users = by_wd.get(&wd).map_or(&[][..], Vec::as_slice);
                // A directory that is reached by several paths holds its files only once.
                if let Some(dir) = users.first() {
                    note(&mut dirs[*dir], reported, layout, hidden, (name, change));
                }
                for dir in users {
                    touched(dirs, dirty, *dir).note(name);
                }
            }
            WatchEvent::FileWritten(wd) => closed.note_written(wd),
            WatchEvent::Gone(wd) => gone.push(wd),
            WatchEvent::Overflow => overflow = true,
        });
        for wd in gone {
            self.lost_watch(wd);
        }
        if overflow {
            // A file that was truncated and written again may even have its old size.
            for dir in &self.dirs {
                written.extend(sorted(dir.bound.values().copied()));
            }
            self.overflowed();
        }
    }

    /// The missing events are unknown. Files that appeared and disappeared meanwhile are not
    /// counted.
    fn overflowed(&mut self) {
        tracing::warn!(
            "inotify event queue overflowed: rescanning; files that were created and \
             removed meanwhile are not counted"
        );
        let text = "inotify event queue overflowed: files created and removed are not counted";
        self.stats.errors.count("inotify_overflow", text);
        self.reported.events_lost();
        for dir in &mut self.dirs {
            dir.name_states.events_lost();
        }
        self.rescan();
    }

    /// A watched directory was removed or moved: looks again at what its path leads to now.
    fn lost_watch(&mut self, wd: i32) {
        let Some(dirs) = self.by_wd.remove(&wd) else { return self.closed.note_gone(wd) };
        self.watcher.remove(wd);
        for dir in dirs {
            self.dirs[dir].wd = None;
            self.reported.end_all(std::mem::take(&mut self.dirs[dir].name_states));
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
        self.missing_roots = true;
    }

    /// Looks at everything again: roots, directories, files.
    pub(super) fn rescan(&mut self) {
        self.missing_roots = true;
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive {
                touch_all(&mut self.dirs, &mut self.dirty, dir);
            }
        }
    }

    /// Looks again at directories that inotify does not watch.
    pub(super) fn rescan_unwatched(&mut self) {
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive && self.dirs[dir].wd.is_none() {
                touch_all(&mut self.dirs, &mut self.dirty, dir);
            }
        }
    }

    /// Looks at everything that was touched. Files whose name is not in the layout are reported
    /// only if their inode is known.
    pub(super) fn look(&mut self, known: &dyn Known) -> Report {
        let mut report = Report::default();
        if self.missing_roots {
            self.ensure_roots();
        }
        while let Some(dir) = self.dirty.pop() {
            let touched = std::mem::take(&mut self.dirs[dir].touched);
            if touched.is_everything {
                self.list(dir, known, &mut report);
            } else {
                for name in &touched.names {
                    self.examine(dir, name, known, &mut report);
                }
            }
            if self.missing_roots || self.dirs[dir].rules.contains(&Rule::Ancestor) {
                self.ensure_roots();
            }
        }
        report.unseen = self.reported.take_unseen();
        set(&self.stats.unwatched_dirs, self.unwatched());
        report
    }

    fn ensure_roots(&mut self) {
        self.missing_roots = false;
        let mut missing = false;
        for (root, rule) in self.roots.clone() {
            match self.tree.canonicalize(&root) {
                Ok(real) => {
                    self.logged.remove(&root);
                    self.ensure_dir(&real, &root, &[rule]);
                    continue;
                }
                Err(error) => self.report_root(&root, &error),
            }
            missing = true;
            let existing = root.ancestors().skip(1).find_map(|a| self.tree.canonicalize(a).ok());
            if let Some(real) = existing {
                self.ensure_dir(&real.clone(), &real, &[Rule::Ancestor]);
            }
        }
        if !missing {
            self.drop_ancestors();
        }
    }

    /// A missing root is normal; one that cannot be accessed is logged, once.
    fn report_root(&mut self, root: &Path, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::NotFound && self.logged.insert(root) {
            let text = format!("cannot reach {}: {error}", root.display());
            tracing::warn!("{text}");
            self.stats.errors.count("directory", &text);
        }
    }

    /// Drops directories that were watched only to see a root appear.
    fn drop_ancestors(&mut self) {
        for dir in 0..self.dirs.len() {
            if self.dirs[dir].alive && self.dirs[dir].rules == [Rule::Ancestor] {
                self.remove_dir(dir, &mut Report::default());
            }
        }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.covers(path)
    }

    /// Watches a directory and records its rules; it is listed if it is new or was replaced.
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
                self.dirs[dir].is_reclassified = true;
                is_new = true;
                next = self.layout.implied(rule);
            }
        }
        if is_new && rules != [Rule::Ancestor] {
            self.dirs[dir].shown = Arc::from(shown);
        }
        if self.watch(dir) || is_new {
            touch_all(&mut self.dirs, &mut self.dirty, dir);
        }
        Some(dir)
    }

    fn new_dir(&mut self, real: &Path, shown: &Path) -> DirId {
        let new = Dir {
            path: real.to_owned(),
            shown: Arc::from(shown),
            rules: Vec::new(),
            wd: None,
            is_refused: false,
            touched: Touched::default(),
            name_states: NameStates::default(),
            bound: HashMap::new(),
            links: Vec::new(),
            is_reclassified: false,
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

    /// Requests events. Returns true if the directory is not the one that was watched before.
    fn watch(&mut self, dir: DirId) -> bool {
        let entry = &self.dirs[dir];
        let follows = entry.rules.iter().any(|r| self.layout.holds_files(*r));
        let interest = if follows { Interest::Writes } else { Interest::Names };
        let before = entry.wd;
        match self.watcher.add_dir(&entry.path, interest) {
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
                self.dirs[dir].name_states.events_lost();
                self.unmap_watch(dir);
                self.report_unwatched(dir, error);
                false
            }
        }
    }

    /// Logged once per directory, not at every rescan.
    fn report_unwatched(&mut self, dir: DirId, error: Errno) {
        let dir = &mut self.dirs[dir];
        if !std::mem::replace(&mut dir.is_refused, true) {
            let text =
                format!("{}: inotify refused a watch ({error}): rescanning", dir.path.display());
            tracing::warn!("{text}");
            self.stats.errors.count("inotify", &text);
        }
    }

    fn unmap_watch(&mut self, dir: DirId) {
        self.reported.end_all(std::mem::take(&mut self.dirs[dir].name_states));
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
        let gone = entry.bound.drain().map(|(name, key)| (FileLocation { dir, name }, key));
        report.gone.extend(gone);
        let is_gone = |sighting: &mut Sighting| sighting.location.dir == dir;
        report.vanished.extend(report.sightings.extract_if(.., is_gone));
        self.by_path.remove(&entry.path);
        // The index may be reused at once: removals in reports are processed first.
        self.dirty.retain(|d| *d != dir);
        self.free.push(dir);
    }

    fn list(&mut self, dir: DirId, known: &dyn Known, report: &mut Report) {
        if !self.dirs[dir].alive {
            return;
        }
        self.watch(dir);
        let (tree, path) = (Arc::clone(&self.tree), self.dirs[dir].path.clone());
        let mut absent: BTreeSet<Arc<OsStr>> = self.dirs[dir].bound.keys().cloned().collect();
        let listed = tree.list(&path, &mut |entry| {
            absent.remove(&*entry.name);
            self.examine_listed(dir, &entry, known, report);
        });
        self.dirs[dir].is_reclassified = false;
        if let Err(error) = listed {
            return self.unlistable(dir, &error, report);
        }
        for name in absent {
            self.gone(dir, &name, report);
        }
    }

    fn examine_listed(
        &mut self,
        dir: DirId,
        entry: &TreeEntry,
        known: &dyn Known,
        report: &mut Report,
    ) {
        let TreeEntry { name, inode, kind } = entry;
        let listed = &self.dirs[dir];
        let is_sought =
            || listed.bound.contains_key(&**name) || listed.name_states.expected(name).is_some();
        let is_wanted = || {
            let holds_files = listed.rules.iter().any(|rule| self.layout.holds_files(*rule));
            holds_files && self.class_of(dir, name).is_some()
        };
        let is_other = || !is_sought() && !known.has_inode(*inode) && !is_wanted();
        if *kind == FileType::RegularFile && is_other() {
            return self.note_description(dir, name, report);
        }
        self.examine(dir, name, known, report);
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
        let bound = &mut self.dirs[dir].bound;
        if let Some((name, key)) = bound.remove_entry(name) {
            report.gone.push((FileLocation { dir, name }, key));
            shrink(bound);
        }
    }

    fn note_description(&self, dir: DirId, name: &OsStr, report: &mut Report) {
        if self.dirs[dir].is_description(name) {
            report.described.push(dir);
        }
    }

    fn class_of(&self, dir: DirId, name: &OsStr) -> Option<Class> {
        self.dirs[dir].class_of(&self.layout, name)
    }

    /// Looks at what one name leads to now.
    fn examine(&mut self, dir: DirId, name: &OsStr, known: &dyn Known, report: &mut Report) {
        if !self.dirs[dir].alive {
            return;
        }
        self.touch_links(dir, name);
        let path = self.dirs[dir].path.join(name);
        if self.is_hidden(&path) {
            return;
        }
        let stat = match self.tree.stat(&path) {
            Ok(stat) => stat,
            Err(_unreachable_now) => return self.gone(dir, name, report),
        };
        match stat.kind {
            FileType::RegularFile => {
                self.note_description(dir, name, report);
                return self.sight(dir, name, stat, known, report);
            }
            FileType::Symlink => self.examine_link(dir, name, &path, report),
            FileType::Directory => self.descend(dir, name, &path, false),
            _other_kinds_are_not_logs => {}
        }
        // Not a file, so none is expected.
        self.dirs[dir].name_states.forget_expected(name);
    }

    fn sight(
        &self,
        dir: DirId,
        name: &OsStr,
        stat: FileStat,
        known: &dyn Known,
        report: &mut Report,
    ) {
        let entry = &self.dirs[dir];
        if !entry.is_reclassified
            && entry.name_states.is_nothing_known(name)
            && let Some(key) = entry.bound.get(name)
            && known.is_unchanged(*key, (dir, name), &stat)
        {
            return;
        }
        let class = self.class_of(dir, name);
        let is_wanted = class.as_ref().is_some_and(|class| class.wanted);
        let expected = entry.name_states.expected(name).filter(|_| !is_wanted).cloned();
        if class.is_some() || expected.is_some() || known.has_inode(stat.id.inode) {
            report.sightings.push(Sighting {
                location: FileLocation { dir, name: name.into() },
                stat,
                shown: entry.shown.join(name),
                is_copy: entry.name_states.is_copy(name),
                class,
                expected,
            });
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
}

fn sorted(keys: impl Iterator<Item = FileKey>) -> Vec<FileKey> {
    let mut keys: Vec<FileKey> = keys.collect();
    keys.sort_unstable();
    keys
}

/// Returns what to look at in a directory, and queues the directory for the next look.
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

/// Records what the kernel reported about a name.
fn note(
    dir: &mut Dir,
    reported: &mut ReportedFiles,
    layout: &Layout,
    hidden: &OwnPaths,
    (name, change): (&OsStr, NameChange),
) {
    let mut name_states = std::mem::take(&mut dir.name_states);
    let is_bound = dir.bound.contains_key(name);
    reported.note(&mut name_states, (name, change), &|| dir.named(layout, hidden, name), is_bound);
    dir.name_states = name_states;
}

#[cfg(test)]
mod tests;
