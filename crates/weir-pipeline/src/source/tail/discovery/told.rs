//! Files that the kernel reported under a name of the layout: each is found, wherever renames moved
//! it since, or is counted as unseen.
//!
//! Invariants: which names are owed follows from the kernel's events in their order. Looks run
//! ahead of events, so a file that a look finds may be later than the last one reported. Therefore
//! files found and files reported are balanced per reported path, and the balance is settled once
//! nothing has happened for [`SETTLED_TURNS`]. There is at most one entry per name, and one per
//! path and rename of the last turns.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weir_model::hash64;

use super::super::layout::Class;
use super::super::watch::Change;

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
enum Claim {
    /// The kernel reported it.
    Told,
    /// It was seen and was gone when it was opened, before the kernel reported it: the next event
    /// for the name says how it appeared, or disappeared.
    Listed,
    /// It may have been found, as events are missing: it is looked for but never counted.
    Perhaps,
}

/// A file that has been under a wanted name.
#[derive(Debug, Clone)]
pub(in crate::source::tail) struct Owed {
    /// The class of that name.
    pub class: Class,
    /// The path under that name.
    pub shown: PathBuf,
    claim: Claim,
    is_found: bool,
}

impl Owed {
    fn new((class, shown): Named, claim: Claim) -> Self {
        Self { class, shown, claim, is_found: false }
    }
}

/// Which file has a name, according to the events so far.
#[derive(Debug, Default)]
struct Holder {
    /// It was created under this name, not moved to it.
    is_born_here: bool,
    owed: Option<Box<Owed>>,
}

/// The names of one directory that the kernel reported.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<OsString, Holder>);

impl Holders {
    /// Returns true if the file was created under this name, not moved to it.
    pub(super) fn is_born_here(&self, name: &OsStr) -> bool {
        self.0.get(name).is_some_and(|holder| holder.is_born_here)
    }

    /// Returns the file that was under a wanted name and has this name now.
    pub(super) fn owed(&self, name: &OsStr) -> Option<&Owed> {
        self.0.get(name)?.owed.as_deref()
    }

    /// Records that the file with this name need not be found.
    pub(super) fn forgive(&mut self, name: &OsStr) {
        if let Some(holder) = self.0.get_mut(name) {
            holder.owed = None;
        }
    }

    /// Records that events were lost: owed files are still looked for.
    pub(super) fn doubt(&mut self) {
        let is_owed = |holder: &Holder| holder.owed.as_ref().is_some_and(|owed| !owed.is_found);
        self.0.retain(|_, holder| is_owed(holder));
        for owed in self.0.values_mut().filter_map(|holder| holder.owed.as_mut()) {
            owed.claim = Claim::Perhaps;
        }
    }
}

/// When a file was first found, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source::tail) struct Found {
    /// Hash of the path that it counts under.
    path: u64,
    turn: u64,
}

fn hash_of(path: &Path) -> u64 {
    hash64(path.as_os_str().as_bytes())
}

/// Number of files found under a path minus those reported, since the two were last equal.
#[derive(Debug)]
struct Balance {
    files: i64,
    since: u64,
    changed_in: u64,
}

/// What the kernel reported, over all directories.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Files between the two sides of a rename, with the turn of the first side.
    moving: HashMap<u32, (Holder, u64)>,
    balances: HashMap<PathBuf, Balance>,
    unseen: Vec<PathBuf>,
    turn: u64,
}

impl Told {
    /// Records what happened to a name. `named` is its class in the layout, `is_bound` means that
    /// it led to a followed file at the last look.
    pub(super) fn note(
        &mut self,
        holders: &mut Holders,
        (name, change): (&OsStr, Change),
        named: &dyn Fn() -> Option<Named>,
        is_bound: bool,
    ) {
        if change == Change::Unknown {
            return;
        }
        let before = holders.0.remove(name);
        let is_removed = change == Change::Removed;
        let now = match change {
            Change::Removed | Change::Unknown => None,
            Change::MovedAway(rename) => {
                let moved = moved(before, named, is_bound);
                self.moving.extend(moved.map(|holder| (rename, (holder, self.turn))));
                return;
            }
            Change::Made => named().map(|named| newcomer(named, true)),
            Change::MovedHere(rename) => match self.moving.remove(&rename) {
                Some((holder, _)) => Some(holder),
                None => named().map(|named| newcomer(named, false)),
            },
        };
        self.end(before, is_removed);
        holders.0.extend(now.map(|holder| (name.to_owned(), holder)));
    }

    /// Handles a file that was removed (`is_removed`), or replaced by another file.
    fn end(&mut self, holder: Option<Holder>, is_removed: bool) {
        let Some(owed) = holder.and_then(|holder| holder.owed) else { return };
        let is_counted = match owed.claim {
            Claim::Told => true,
            Claim::Listed => is_removed,
            Claim::Perhaps => false,
        };
        if is_counted && !owed.is_found {
            self.count(&owed.shown, -1);
        }
    }

    fn count(&mut self, path: &Path, files: i64) {
        let turn = self.turn;
        let new = Balance { files: 0, since: turn, changed_in: turn };
        let balance = self.balances.entry(path.to_owned()).or_insert(new);
        balance.files += files;
        balance.changed_in = turn;
        if balance.files == 0 {
            self.balances.remove(path);
        }
    }

    /// Records that a file sighted under this name and path is followed from now on.
    pub(super) fn adopted(&mut self, holders: &Holders, name: &OsStr, shown: &Path) -> Found {
        let path = holders.owed(name).map_or(shown, |owed| &owed.shown);
        let found = Found { path: hash_of(path), turn: self.turn };
        self.count(path, 1);
        found
    }

    /// Records that the name leads to a followed file.
    pub(super) fn found(&mut self, holders: &mut Holders, name: &OsStr, file: Option<Found>) {
        let Some(owed) = holders.0.get_mut(name).and_then(|h| h.owed.as_mut()) else { return };
        if owed.is_found || owed.claim == Claim::Listed {
            // It disappeared from a listing: not the file that has the name now.
            return;
        }
        owed.is_found = true;
        // Otherwise it is another name of a file that was already followed, not another file.
        let is_first = |found: Found| {
            found.path == hash_of(&owed.shown) && self.turn < found.turn + SETTLED_TURNS
        };
        if owed.claim == Claim::Told && file.is_some_and(is_first) {
            let shown = owed.shown.clone();
            self.count(&shown, -1);
        }
    }

    /// Records that a file of this name was seen but was gone when it was opened.
    pub(super) fn lost(holders: &mut Holders, name: OsString, named: Named) {
        holders.0.entry(name).or_insert_with(|| Holder {
            is_born_here: false,
            owed: Some(Box::new(Owed::new(named, Claim::Listed))),
        });
    }

    /// Records that the kernel reports nothing more about a directory.
    pub(super) fn end_all(&mut self, holders: Holders) {
        for holder in holders.0.into_values() {
            self.end(Some(holder), true);
        }
    }

    /// Records that events were lost, second sides of renames among them.
    pub(super) fn doubt(&mut self) {
        self.moving.clear();
        self.balances.clear();
    }

    /// Time has passed: renames without a reported second side lead out of the watched directories,
    /// and files that were reported and not found count as unseen.
    pub(super) fn end_turn(&mut self) {
        self.turn += 1;
        let turn = self.turn;
        let is_over = |since: u64| since + SETTLED_TURNS <= turn;
        let over: Vec<Holder> =
            self.moving.extract_if(|_, moving| is_over(moving.1)).map(|(_, m)| m.0).collect();
        for holder in over {
            self.end(Some(holder), true);
        }
        let is_settled =
            |b: &Balance| is_over(b.changed_in) || b.since + UNSETTLED_TURNS_MAX <= turn;
        for (path, balance) in self.balances.extract_if(|_, b| is_settled(b)) {
            let unseen = usize::try_from(-balance.files).unwrap_or(0);
            self.unseen.extend(std::iter::repeat_n(path, unseen));
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

/// A file that was not known before: owed if the configuration names it.
fn newcomer(named: Named, is_born_here: bool) -> Holder {
    let is_wanted = named.0.wanted;
    let owed = is_wanted.then(|| Box::new(Owed::new(named, Claim::Told)));
    Holder { is_born_here, owed }
}

/// What a rename carries along; `None` if the file is unknown so far.
fn moved(
    before: Option<Holder>,
    named: &dyn Fn() -> Option<Named>,
    is_bound: bool,
) -> Option<Holder> {
    if let Some(mut holder) = before {
        holder.is_born_here = false;
        if let Some(owed) = holder.owed.as_mut().filter(|owed| owed.claim == Claim::Listed) {
            // The kernel reported its removal; it existed before.
            owed.claim = Claim::Told;
        }
        return Some(holder);
    }
    if is_bound {
        return Some(Holder::default());
    }
    // It existed before it was watched: already followed, or renamed while the names were being
    // listed.
    let named = named().filter(|(class, _)| class.wanted)?;
    let owed = Some(Box::new(Owed::new(named, Claim::Perhaps)));
    Some(Holder { is_born_here: false, owed })
}

#[cfg(test)]
mod tests {
    use Change::{Made, MovedAway, MovedHere, Removed, Unknown};

    use super::super::super::layout::single;
    use super::*;

    #[derive(Default)]
    struct Dir {
        told: Told,
        holders: Holders,
    }

    impl Dir {
        /// Names that end in `.log` are wanted.
        fn note(&mut self, name: &str, change: Change) {
            let named = || name.strip_suffix(".log").map(|_| (single(name.as_ref()), name.into()));
            self.told.note(&mut self.holders, (OsStr::new(name), change), &named, false);
        }

        fn after(changes: &[(&str, Change)]) -> Self {
            let mut dir = Self::default();
            for (name, change) in changes {
                dir.note(name, *change);
            }
            dir
        }

        /// Returns the unseen files, once that is settled.
        fn unseen(&mut self) -> Vec<PathBuf> {
            for _ in 0..=2 * SETTLED_TURNS {
                self.told.end_turn();
            }
            let unseen = self.told.take_unseen();
            assert!(!self.told.is_pending());
            unseen
        }

        fn owes(&self, name: &str) -> bool {
            self.holders.owed(OsStr::new(name)).is_some_and(|owed| !owed.is_found)
        }

        /// A look finds a file of this name that is not followed yet.
        fn adopt(&mut self, name: &str) -> Found {
            let found = self.told.adopted(&self.holders, OsStr::new(name), name.as_ref());
            self.sight(name, found);
            found
        }

        fn sight(&mut self, name: &str, file: Found) {
            self.told.found(&mut self.holders, OsStr::new(name), Some(file));
        }
    }

    #[test]
    fn what_ends_before_it_is_found_is_unseen() {
        let a = |changes: &[Change]| {
            let changes: Vec<_> = changes.iter().map(|change| ("a.log", *change)).collect();
            Dir::after(&changes).unseen().len()
        };
        assert_eq!(a(&[Made, Removed]), 1);
        assert_eq!(a(&[Made, Unknown, Removed, Made, Removed]), 2);
        assert_eq!(a(&[Made, Removed, Made]), 1, "the second can still be seen");
        assert_eq!(a(&[Removed]), 0, "it was there before");
        assert_eq!(a(&[Made, MovedHere(1)]), 1, "another file took its place");
        assert_eq!(a(&[MovedHere(1), Removed]), 1, "it came from elsewhere");
        assert_eq!(a(&[MovedAway(1), MovedHere(1), Removed]), 0, "it was there before");
        assert!(Dir::after(&[("a.txt", Made), ("a.txt", Removed)]).unseen().is_empty());
        let mut dir = Dir::after(&[("a.log", Made)]);
        dir.adopt("a.log");
        assert!(!dir.owes("a.log"));
        dir.note("a.log", Removed);
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn a_look_that_runs_ahead_of_the_kernel_changes_no_count() {
        // It finds the second file, which the kernel reports later.
        let ahead = || {
            let mut dir = Dir::after(&[("a.log", Made)]);
            let second = dir.adopt("a.log");
            dir.note("a.log", Removed);
            dir.note("a.log", Made);
            (dir, second)
        };
        let (mut dir, second) = ahead();
        dir.sight("a.log", second);
        assert_eq!(dir.unseen().len(), 1);
        let (mut dir, _) = ahead();
        dir.note("a.log", Removed);
        assert_eq!(dir.unseen().len(), 1);
        // It has found both.
        let mut dir = Dir::after(&[("a.log", Made)]);
        dir.adopt("a.log");
        let second = dir.adopt("a.log");
        dir.note("a.log", Removed);
        dir.note("a.log", Made);
        dir.sight("a.log", second);
        assert!(dir.unseen().is_empty());
        // It finds a file before the kernel reports any.
        let mut dir = Dir::default();
        dir.adopt("a.log");
        dir.note("a.log", Made);
        dir.note("a.log", Removed);
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn another_name_of_a_file_is_not_another_file() {
        let mut dir = Dir::after(&[("a.log", Made)]);
        let file = dir.adopt("a.log");
        dir.note("b.log", Made);
        dir.sight("b.log", file);
        dir.note("a.log", Removed);
        dir.note("b.log", MovedAway(1));
        assert!(dir.unseen().is_empty());
        dir.note("a.log", MovedHere(2));
        dir.sight("a.log", file);
        assert!(dir.unseen().is_empty(), "it was moved away and came back");
    }

    #[test]
    fn a_name_that_never_rests_is_counted_all_the_same() {
        let mut dir = Dir::default();
        let mut counted = 0;
        for _ in 0..=UNSETTLED_TURNS_MAX {
            dir.note("a.log", Made);
            dir.note("a.log", Removed);
            dir.told.end_turn();
            counted += dir.told.take_unseen().len() as u64;
        }
        assert!(counted >= UNSETTLED_TURNS_MAX / 2, "{counted}");
        assert_eq!(counted + dir.unseen().len() as u64, UNSETTLED_TURNS_MAX + 1);
    }

    #[test]
    fn what_is_owed_goes_along_with_renames() {
        let renamed = [("a.log", Made), ("a.log", MovedAway(1)), ("a.old", MovedHere(1))];
        let mut dir = Dir::after(&renamed);
        assert!(dir.owes("a.old") && !dir.owes("a.log"));
        dir.adopt("a.old");
        dir.note("a.old", MovedAway(2));
        dir.note("b.log", MovedHere(2));
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
    fn what_was_lost_is_counted_when_the_kernel_says_that_it_went() {
        let lost = || {
            let mut dir = Dir::default();
            Told::lost(&mut dir.holders, "a.log".into(), (single("a".as_ref()), "a.log".into()));
            dir
        };
        let mut dir = lost();
        dir.note("a.log", Removed);
        assert_eq!(dir.unseen().len(), 1);
        // The look was ahead of the kernel, and another file has the name by now.
        let mut dir = lost();
        let other = dir.adopt("a.log");
        for change in [Made, Removed, Made] {
            dir.note("a.log", change);
        }
        dir.sight("a.log", other);
        assert_eq!(dir.unseen().len(), 1);
        let mut dir = lost();
        dir.note("a.log", MovedAway(1));
        dir.note("a.old", MovedHere(1));
        assert!(dir.owes("a.old"));
        dir.adopt("a.old");
        assert!(dir.unseen().is_empty());
    }

    #[test]
    fn after_lost_events_files_are_looked_for_and_not_counted() {
        let mut dir = Dir::after(&[("a.log", Made)]);
        dir.holders.doubt();
        assert!(dir.owes("a.log"));
        dir.note("a.log", Removed);
        dir.note("old.log", MovedAway(1));
        dir.note("old.txt", MovedHere(1));
        assert!(dir.owes("old.txt"), "it may have been missed at the start");
        dir.note("old.txt", Removed);
        assert!(dir.unseen().is_empty());
    }
}
