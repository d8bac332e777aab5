//! What discovery asks the engine about followed files.
//!
//! Invariant: an answer changes only what is reported, never what is remembered of a name.

use std::ffi::OsStr;

use weir_host::file_tree::FileStat;

use super::{DirId, FileKey};

/// What the engine knows of the files that it follows.
pub(in crate::source::tail) trait Known {
    /// Returns true if a file with this inode is followed or remembered.
    fn has_inode(&self, inode: u64) -> bool;
    /// Returns true if a sighting of this file under this name says nothing new.
    fn is_unchanged(&self, key: FileKey, name: (DirId, &OsStr), stat: &FileStat) -> bool;
}

/// Nothing is followed.
#[cfg(test)]
pub(in crate::source::tail) struct Nothing;

#[cfg(test)]
impl Known for Nothing {
    fn has_inode(&self, _: u64) -> bool {
        false
    }

    fn is_unchanged(&self, _: FileKey, _: (DirId, &OsStr), _: &FileStat) -> bool {
        false
    }
}
