//! The names to look at in a directory: those that the kernel reported, or all of them.
//!
//! Invariant: a reported name is remembered until it was looked at; there are at most as many names
//! as the kernel reports between two looks.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// Number of touched names in one directory from which on listing it is cheaper than looking at
/// each.
const LISTED_FROM: usize = 256;

/// The names to look at in a directory.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Names that the kernel reported.
    pub names: BTreeSet<OsString>,
    /// The whole directory is to be listed.
    pub is_everything: bool,
}

impl Touched {
    /// Returns true if there is nothing to look at.
    pub(super) fn is_nothing(&self) -> bool {
        self.names.is_empty() && !self.is_everything
    }

    /// Records that something happened to a name.
    pub(super) fn note(&mut self, name: &OsStr) {
        if self.is_everything || self.names.contains(name) {
            return;
        }
        if self.names.len() >= LISTED_FROM {
            self.is_everything = true;
            self.names.clear();
        } else {
            self.names.insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_are_listed() {
        let mut touched = Touched::default();
        assert!(touched.is_nothing());
        for n in 0..=LISTED_FROM {
            assert!(!touched.is_everything);
            touched.note(OsStr::new(&n.to_string()));
        }
        assert!(touched.is_everything && touched.names.is_empty());
    }
}
