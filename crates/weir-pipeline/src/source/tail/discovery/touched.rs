//! What the kernel told of the names in a directory since they were last looked at.
//!
//! Invariants: what was told of a name is remembered until it was looked at; there are at most as
//! many names as the kernel tells of between two looks.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use super::super::watch::Change;

/// Names touched in one directory beyond which listing it is cheaper than looking for each.
const LISTED_FROM: usize = 256;

/// Looks for a name that was made and is not there, until it is given up: the kernel tells that
/// it was removed or moved a moment after it was.
const LOOKS_MAX: u8 = 8;

/// What happened under one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::source::tail) struct Trace {
    /// The file that has the name now, or had it last, was made there, not moved to it.
    pub is_born: bool,
    /// Files that were made there and removed before anybody looked.
    pub unseen: u32,
    /// How often it was looked for in vain since it was made.
    looks: u8,
}

impl Trace {
    fn note(&mut self, change: Change) {
        match change {
            Change::Made => *self = Self { is_born: true, unseen: self.unseen, looks: 0 },
            Change::Removed | Change::MovedHere => {
                self.unseen += u32::from(self.is_born);
                self.is_born = false;
            }
            Change::MovedAway => self.is_born = false,
            Change::Unknown => {}
        }
    }

    /// The name was made and leads nowhere. Returns what to remember until the kernel tells why;
    /// `None` when that is known, or never comes.
    pub(super) fn not_found(self) -> Option<Self> {
        let awaited = self.is_born && self.looks < LOOKS_MAX;
        awaited.then_some(Self { is_born: true, unseen: 0, looks: self.looks + 1 })
    }
}

/// What is to be looked at in a directory.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Names of which the kernel told.
    pub names: HashMap<OsString, Trace>,
    /// The directory is to be listed.
    pub is_everything: bool,
}

impl Touched {
    /// Nothing is to be looked at.
    pub(super) fn is_nothing(&self) -> bool {
        self.names.is_empty() && !self.is_everything
    }

    /// Notes a change of a name.
    pub(super) fn note(&mut self, name: &OsStr, change: Change) {
        self.trace(name).note(change);
    }

    /// Goes on with what was known of a name before it was looked for.
    pub(super) fn resume(&mut self, name: &OsStr, trace: Trace) {
        *self.trace(name) = trace;
    }

    fn trace(&mut self, name: &OsStr) -> &mut Trace {
        if !self.names.contains_key(name) {
            self.is_everything |= self.names.len() >= LISTED_FROM;
            self.names.insert(name.to_owned(), Trace::default());
        }
        self.names.get_mut(name).expect("it was put in")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(changes: &[Change]) -> Trace {
        let mut trace = Trace::default();
        for change in changes {
            trace.note(*change);
        }
        trace
    }

    #[test]
    fn only_what_is_made_and_removed_between_two_looks_is_unseen() {
        use Change::{Made, MovedAway, MovedHere, Removed, Unknown};
        let unseen = |changes: &[Change]| after(changes).unseen;
        assert_eq!(unseen(&[Made, Removed]), 1);
        assert_eq!(unseen(&[Made, Unknown, Removed, Made, Removed]), 2);
        assert_eq!(unseen(&[Made, Removed, Made]), 1, "the second is there to be seen");
        assert_eq!(unseen(&[Removed]), 0, "it was there at the last look");
        assert_eq!(unseen(&[Made, MovedHere]), 1, "another file took its place");
        assert_eq!(unseen(&[Made, MovedAway]), 0, "it has another name");
        assert_eq!(unseen(&[MovedHere, Removed]), 0, "it had another name");
        assert_eq!(unseen(&[Made, MovedAway, MovedHere, Removed]), 0);
    }

    #[test]
    fn what_was_made_and_is_not_there_is_waited_for_but_not_for_ever() {
        let mut trace = after(&[Change::Made]);
        let mut looks = 0;
        while let Some(next) = trace.not_found() {
            assert_eq!(next.unseen, 0, "counted once");
            trace = next;
            looks += 1;
        }
        assert_eq!(looks, LOOKS_MAX);
        let mut late = after(&[Change::Made]).not_found().unwrap();
        late.note(Change::Removed);
        assert_eq!(late.unseen, 1);
        assert_eq!(late.not_found(), None, "told");
        assert_eq!(after(&[]).not_found(), None);
    }

    #[test]
    fn too_many_names_are_listed_and_none_is_forgotten() {
        let mut touched = Touched::default();
        for n in 0..=LISTED_FROM {
            assert!(!touched.is_everything);
            touched.note(OsStr::new(&n.to_string()), Change::Made);
        }
        assert!(touched.is_everything);
        touched.note(OsStr::new("0"), Change::Removed);
        assert_eq!(touched.names[OsStr::new("0")].unseen, 1);
    }
}
