//! Files that the kernel reported under a name of the layout: each is found, wherever renames moved
//! it since, or is counted as unseen.
//!
//! Invariants: which names are expected follows from the kernel's events in their order. Looks run
//! ahead of events, so a file that a look finds may be later than the last one reported, and have
//! another name of its group by then. Therefore files found and files reported are balanced per
//! group, and the balance is settled once nothing has happened for [`SETTLED_TURNS`]. There is at
//! most one entry per name, and one per group and rename of the last turns.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weir_host::file_tree::NameChange;
use weir_model::hash64;

use super::super::layout::Class;
use super::super::parked::shrink;

/// Number of turns after which all events before a look have been reported, including both sides of
/// a rename: one is needed, and a few more if the program that renames was interrupted in between.
const SETTLED_TURNS: u64 = 8;

/// Number of turns after which a balance is settled even if its names never settle, so that it is
/// reported eventually.
const UNSETTLED_TURNS_MAX: u64 = 200;

/// The class of a name, and its path for display.
pub(super) type Named = (Class, PathBuf);

/// How certain it is that a file has not been found yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// The kernel reported it.
    Reported,
    /// It was seen and was gone when it was opened, before the kernel reported it: the next event
    /// for the name says how it appeared, or disappeared.
    Listed,
    /// It may have been found, as events are missing: it is looked for but never counted.
    Uncertain,
}

/// A file that has been under a wanted name.
#[derive(Debug, Clone)]
pub(in crate::source::tail) struct ExpectedFile {
    /// The class of that name.
    pub class: Class,
    /// The path under that name.
    pub shown: PathBuf,
    certainty: Certainty,
    is_found: bool,
}

impl ExpectedFile {
    fn new((class, shown): Named, certainty: Certainty) -> Self {
        Self { class, shown, certainty, is_found: false }
    }
}

/// Which file has a name, according to the events so far.
#[derive(Debug, Default)]
struct NameState {
    /// It was created under a name that is not wanted: a copy, whatever it is called since.
    is_copy: bool,
    expected: Option<Box<ExpectedFile>>,
}

/// The names of one directory that the kernel reported.
#[derive(Debug, Default)]
pub(super) struct NameStates(HashMap<OsString, NameState>);

impl NameStates {
    /// Returns true if the file was created under a name that is not wanted.
    pub(super) fn is_copy(&self, name: &OsStr) -> bool {
        self.0.get(name).is_some_and(|name_state| name_state.is_copy)
    }

    /// Returns the file that was under a wanted name and has this name now.
    pub(super) fn expected(&self, name: &OsStr) -> Option<&ExpectedFile> {
        self.0.get(name)?.expected.as_deref()
    }

    /// Records that the file with this name need not be found.
    pub(super) fn forget_expected(&mut self, name: &OsStr) {
        if let Some(name_state) = self.0.get_mut(name) {
            name_state.expected = None;
        }
    }

    /// Returns true if the kernel has reported nothing of the name, or nothing that still counts.
    pub(super) fn is_nothing_known(&self, name: &OsStr) -> bool {
        !self.0.contains_key(name)
    }

    /// Forgets how the file with this name, which is followed, was found: a file that existed
    /// before the directory was watched has no state either.
    pub(super) fn settled(&mut self, name: &OsStr) {
        let is_found = |name_state: &NameState| {
            name_state.expected.as_ref().is_some_and(|expected| expected.is_found)
        };
        if self.0.get(name).is_some_and(is_found) {
            self.0.remove(name);
            if self.0.is_empty() {
                self.0 = HashMap::new();
            }
            shrink(&mut self.0);
        }
    }

    /// Records that events were lost: expected files are still looked for.
    pub(super) fn events_lost(&mut self) {
        let is_owed = |name_state: &NameState| {
            name_state.expected.as_ref().is_some_and(|expected| !expected.is_found)
        };
        self.0.retain(|_, name_state| is_owed(name_state));
        for expected in self.0.values_mut().filter_map(|name_state| name_state.expected.as_mut()) {
            expected.certainty = Certainty::Uncertain;
        }
    }
}

/// When a file was first found, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source::tail) struct FirstSighting {
    /// The group that it counts in.
    group: GroupHash,
    turn: u64,
}

/// Hash of the name of a group; of its path for a file without a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GroupHash(u64);

impl GroupHash {
    fn of(class: &Class) -> Self {
        Self(hash64(class.group.as_bytes()))
    }

    fn of_path(path: &Path) -> Self {
        Self(hash64(path.as_os_str().as_bytes()))
    }
}

/// Number of files found in a group minus those reported, since the two were last equal.
#[derive(Debug)]
struct Balance {
    /// The last path that was counted.
    shown: PathBuf,
    files: i64,
    since: u64,
    changed_in: u64,
}

/// What the kernel reported, over all directories.
#[derive(Debug, Default)]
pub(super) struct ReportedFiles {
    /// Files between the two sides of a rename, with the turn of the first side.
    moving: HashMap<u32, (NameState, u64)>,
    balances: BTreeMap<GroupHash, Balance>,
    unseen: Vec<PathBuf>,
    turn: u64,
}

impl ReportedFiles {
    /// Records what happened to a name. `named` is its class in the layout, `is_bound` means that
    /// it led to a followed file at the last look.
    pub(super) fn note(
        &mut self,
        name_states: &mut NameStates,
        (name, change): (&OsStr, NameChange),
        named: &dyn Fn() -> Option<Named>,
        is_bound: bool,
    ) {
        if change == NameChange::Unknown {
            return;
        }
        let before = name_states.0.remove(name);
        let is_removed = change == NameChange::Removed;
        let now = match change {
            NameChange::Removed | NameChange::Unknown => None,
            NameChange::MovedFrom(rename) => {
                let moved = moved(before, named, is_bound);
                self.moving.extend(moved.map(|name_state| (rename, (name_state, self.turn))));
                return;
            }
            NameChange::Created => named().map(|named| new_file(named, true)),
            NameChange::MovedTo(rename) => match self.moving.remove(&rename) {
                Some((name_state, _)) => Some(name_state),
                None => named().map(|named| new_file(named, false)),
            },
        };
        self.end(before, is_removed);
        name_states.0.extend(now.map(|name_state| (name.to_owned(), name_state)));
    }

    /// Handles a file that was removed (`is_removed`), or replaced by another file.
    fn end(&mut self, name_state: Option<NameState>, is_removed: bool) {
        let Some(expected) = name_state.and_then(|name_state| name_state.expected) else { return };
        let is_counted = match expected.certainty {
            Certainty::Reported => true,
            Certainty::Listed => is_removed,
            Certainty::Uncertain => false,
        };
        if is_counted && !expected.is_found {
            self.count(GroupHash::of(&expected.class), &expected.shown, -1);
        }
    }

    fn count(&mut self, group: GroupHash, shown: &Path, files: i64) {
        let turn = self.turn;
        let new = || Balance { shown: shown.into(), files: 0, since: turn, changed_in: turn };
        let balance = self.balances.entry(group).or_insert_with(new);
        balance.files += files;
        balance.changed_in = turn;
        if files < 0 {
            shown.clone_into(&mut balance.shown);
        }
        if balance.files == 0 {
            self.balances.remove(&group);
        }
    }

    /// Records that a file sighted under this name, class and path is followed from now on.
    pub(super) fn adopted(
        &mut self,
        name_states: &NameStates,
        name: &OsStr,
        class: Option<&Class>,
        shown: &Path,
    ) -> FirstSighting {
        let expected = name_states.expected(name).map(|expected| &expected.class);
        let group = expected.or(class).map_or_else(|| GroupHash::of_path(shown), GroupHash::of);
        self.count(group, shown, 1);
        FirstSighting { group, turn: self.turn }
    }

    /// Records that the name leads to a followed file.
    pub(super) fn found(
        &mut self,
        name_states: &mut NameStates,
        name: &OsStr,
        file: Option<FirstSighting>,
    ) {
        let Some(expected) = name_states.0.get_mut(name).and_then(|h| h.expected.as_mut()) else {
            return;
        };
        if expected.is_found || expected.certainty == Certainty::Listed {
            // It disappeared from a listing: not the file that has the name now.
            return;
        }
        expected.is_found = true;
        // Otherwise it is another name of a file that was already followed, not another file.
        let is_first = |found: FirstSighting| {
            found.group == GroupHash::of(&expected.class) && self.turn < found.turn + SETTLED_TURNS
        };
        if expected.certainty == Certainty::Reported && file.is_some_and(is_first) {
            let (group, shown) = (GroupHash::of(&expected.class), expected.shown.clone());
            self.count(group, &shown, -1);
        }
    }

    /// Records that a file of this name was seen but was gone when it was opened.
    pub(super) fn lost(name_states: &mut NameStates, name: &OsStr, named: Named) {
        name_states.0.entry(name.to_owned()).or_insert_with(|| NameState {
            is_copy: false,
            expected: Some(Box::new(ExpectedFile::new(named, Certainty::Listed))),
        });
    }

    /// Records that the kernel reports nothing more about a directory.
    pub(super) fn end_all(&mut self, name_states: NameStates) {
        for name_state in name_states.0.into_values() {
            self.end(Some(name_state), true);
        }
    }

    /// Records that events were lost, second sides of renames among them.
    pub(super) fn events_lost(&mut self) {
        self.moving.clear();
        self.balances.clear();
    }

    /// Time has passed: renames without a reported second side lead out of the watched directories,
    /// and files that were reported and not found count as unseen.
    pub(super) fn end_turn(&mut self) {
        self.turn += 1;
        let turn = self.turn;
        let is_over = |since: u64| since + SETTLED_TURNS <= turn;
        let over: Vec<NameState> =
            self.moving.extract_if(|_, moving| is_over(moving.1)).map(|(_, m)| m.0).collect();
        for name_state in over {
            self.end(Some(name_state), true);
        }
        let is_settled =
            |b: &Balance| is_over(b.changed_in) || b.since + UNSETTLED_TURNS_MAX <= turn;
        for (_, balance) in self.balances.extract_if(.., |_, b| is_settled(b)) {
            let unseen = usize::try_from(-balance.files).unwrap_or(0);
            self.unseen.extend(std::iter::repeat_n(balance.shown, unseen));
        }
    }

    /// Returns true if something is waited for, or there is something to report.
    pub(super) fn is_pending(&self) -> bool {
        !(self.unseen.is_empty() && self.balances.is_empty() && self.moving.is_empty())
    }

    /// Returns the unseen files since the last call.
    pub(super) fn take_unseen(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.unseen)
    }
}

/// A file that was not known before: expected if the configuration names it.
fn new_file(named: Named, is_created: bool) -> NameState {
    let is_wanted = named.0.wanted;
    let expected = is_wanted.then(|| Box::new(ExpectedFile::new(named, Certainty::Reported)));
    NameState { is_copy: is_created && !is_wanted, expected }
}

/// What a rename carries along; `None` if the file is unknown so far.
fn moved(
    before: Option<NameState>,
    named: &dyn Fn() -> Option<Named>,
    is_bound: bool,
) -> Option<NameState> {
    if let Some(mut name_state) = before {
        if let Some(expected) =
            name_state.expected.as_mut().filter(|expected| expected.certainty == Certainty::Listed)
        {
            // The kernel reported its removal; it existed before.
            expected.certainty = Certainty::Reported;
        }
        return Some(name_state);
    }
    if is_bound {
        return Some(NameState::default());
    }
    // It existed before it was watched: already followed, or renamed while the names were being
    // listed.
    let named = named().filter(|(class, _)| class.wanted)?;
    let expected = Some(Box::new(ExpectedFile::new(named, Certainty::Uncertain)));
    Some(NameState { is_copy: false, expected })
}

#[cfg(test)]
mod tests {
    use NameChange::{Created, MovedFrom, MovedTo, Removed, Unknown};

    use super::super::super::layout::single;
    use super::*;

    #[derive(Default)]
    struct Dir {
        reported: ReportedFiles,
        name_states: NameStates,
    }

    impl Dir {
        /// Names that end in `.log` are wanted.
        fn note(&mut self, name: &str, change: NameChange) {
            let named = || name.strip_suffix(".log").map(|_| (single(name.as_ref()), name.into()));
            self.reported.note(&mut self.name_states, (OsStr::new(name), change), &named, false);
        }

        fn after(changes: &[(&str, NameChange)]) -> Self {
            let mut dir = Self::default();
            for (name, change) in changes {
                dir.note(name, *change);
            }
            dir
        }

        /// Returns the unseen files, once that is settled.
        fn unseen(&mut self) -> Vec<PathBuf> {
            for _ in 0..=2 * SETTLED_TURNS {
                self.reported.end_turn();
            }
            let unseen = self.reported.take_unseen();
            assert!(!self.reported.is_pending());
            unseen
        }

        fn owes(&self, name: &str) -> bool {
            self.name_states.expected(OsStr::new(name)).is_some_and(|expected| !expected.is_found)
        }

        /// A look finds a file of this name that is not followed yet.
        fn adopt(&mut self, name: &str) -> FirstSighting {
            let class = single(name.as_ref());
            let name_states = &self.name_states;
            let found =
                self.reported.adopted(name_states, OsStr::new(name), Some(&class), name.as_ref());
            self.sight(name, found);
            found
        }

        fn sight(&mut self, name: &str, file: FirstSighting) {
            self.reported.found(&mut self.name_states, OsStr::new(name), Some(file));
        }
    }

    #[test]
    fn a_file_removed_before_it_is_found_is_unseen() {
        let a = |changes: &[NameChange]| {
            let changes: Vec<_> = changes.iter().map(|change| ("a.log", *change)).collect();
            Dir::after(&changes).unseen().len()
        };
        assert_eq!(a(&[Created, Removed]), 1);
        assert_eq!(a(&[Created, Unknown, Removed, Created, Removed]), 2);
        assert_eq!(a(&[Created, Removed, Created]), 1, "the second can still be seen");
        assert_eq!(a(&[Removed]), 0, "it was there before");
        assert_eq!(a(&[Created, MovedTo(1)]), 1, "another file took its place");
        assert_eq!(a(&[MovedTo(1), Removed]), 1, "it came from elsewhere");
        assert_eq!(a(&[MovedFrom(1), MovedTo(1), Removed]), 0, "it was there before");
        assert!(Dir::after(&[("a.txt", Created), ("a.txt", Removed)]).unseen().is_empty());
        let mut dir = Dir::after(&[("a.log", Created)]);
        dir.adopt("a.log");
        assert!(!dir.owes("a.log"));
        dir.note("a.log", Removed);
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn listing_ahead_of_kernel_events_does_not_change_counts() {
        // It finds the second file, which the kernel reports later.
        let ahead = || {
            let mut dir = Dir::after(&[("a.log", Created)]);
            let second = dir.adopt("a.log");
            dir.note("a.log", Removed);
            dir.note("a.log", Created);
            (dir, second)
        };
        let (mut dir, second) = ahead();
        dir.sight("a.log", second);
        assert_eq!(dir.unseen().len(), 1);
        let (mut dir, _) = ahead();
        dir.note("a.log", Removed);
        assert_eq!(dir.unseen().len(), 1);
        // It has found both.
        let mut dir = Dir::after(&[("a.log", Created)]);
        dir.adopt("a.log");
        let second = dir.adopt("a.log");
        dir.note("a.log", Removed);
        dir.note("a.log", Created);
        dir.sight("a.log", second);
        assert!(dir.unseen().is_empty());
        // It finds a file before the kernel reports any.
        let mut dir = Dir::default();
        dir.adopt("a.log");
        dir.note("a.log", Created);
        dir.note("a.log", Removed);
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn another_name_of_a_file_is_not_another_file() {
        let mut dir = Dir::after(&[("a.log", Created)]);
        let file = dir.adopt("a.log");
        dir.note("b.log", Created);
        dir.sight("b.log", file);
        dir.note("a.log", Removed);
        dir.note("b.log", MovedFrom(1));
        assert!(dir.unseen().is_empty());
        dir.note("a.log", MovedTo(2));
        dir.sight("a.log", file);
        assert!(dir.unseen().is_empty(), "it was moved away and came back");
    }

    #[test]
    fn files_under_a_constantly_changing_name_are_counted() {
        let mut dir = Dir::default();
        let mut counted = 0;
        for _ in 0..=UNSETTLED_TURNS_MAX {
            dir.note("a.log", Created);
            dir.note("a.log", Removed);
            dir.reported.end_turn();
            counted += dir.reported.take_unseen().len() as u64;
        }
        assert!(counted >= UNSETTLED_TURNS_MAX / 2, "{counted}");
        assert_eq!(counted + dir.unseen().len() as u64, UNSETTLED_TURNS_MAX + 1);
    }

    #[test]
    fn expected_files_are_tracked_through_renames() {
        let renamed = [("a.log", Created), ("a.log", MovedFrom(1)), ("a.old", MovedTo(1))];
        let mut dir = Dir::after(&renamed);
        assert!(dir.owes("a.old") && !dir.owes("a.log"));
        dir.adopt("a.old");
        dir.note("a.old", MovedFrom(2));
        dir.note("b.log", MovedTo(2));
        assert!(!dir.owes("b.log"), "it was found before");
        dir.note("b.log", Removed);
        assert!(dir.unseen().is_empty());
        let mut dir = Dir::after(&renamed);
        dir.note("a.old", Removed);
        assert_eq!(dir.unseen(), [PathBuf::from("a.log")]);
        // Out of the watched directories.
        assert_eq!(Dir::after(&renamed[..2]).unseen(), [PathBuf::from("a.log")]);
    }

    #[test]
    fn a_file_lost_while_opening_is_counted_on_its_removal_event() {
        let lost = || {
            let mut dir = Dir::default();
            ReportedFiles::lost(
                &mut dir.name_states,
                "a.log".as_ref(),
                (single("a".as_ref()), "a.log".into()),
            );
            dir
        };
        let mut dir = lost();
        dir.note("a.log", Removed);
        assert_eq!(dir.unseen().len(), 1);
        // The look was ahead of the kernel, and another file has the name by now.
        let mut dir = lost();
        let other = dir.adopt("a.log");
        for change in [Created, Removed, Created] {
            dir.note("a.log", change);
        }
        dir.sight("a.log", other);
        assert_eq!(dir.unseen().len(), 1);
        let mut dir = lost();
        dir.note("a.log", MovedFrom(1));
        dir.note("a.old", MovedTo(1));
        assert!(dir.owes("a.old"));
        dir.adopt("a.old");
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn after_an_overflow_files_are_searched_but_not_counted() {
        let mut dir = Dir::after(&[("a.log", Created)]);
        dir.name_states.events_lost();
        assert!(dir.owes("a.log"));
        dir.note("a.log", Removed);
        dir.note("old.log", MovedFrom(1));
        dir.note("old.txt", MovedTo(1));
        assert!(dir.owes("old.txt"), "it may have been missed at the start");
        dir.note("old.txt", Removed);
        assert!(dir.unseen().is_empty());
    }
}
