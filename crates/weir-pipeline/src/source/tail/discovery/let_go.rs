//! Files without a name that were read to their end and closed, though a program may still have
//! them open.
//!
//! Nobody can read what is written to them from now on. A watch on the file itself says that it
//! was, so that it is counted; the kernel removes the watch with the file, when nobody has it open
//! any more.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::source::tail::watch::Watcher;

/// Files that are watched at once: a watch is a share of what the system allows each user.
const FILES_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LetGo {
    watched: HashMap<i32, PathBuf>,
    written: Vec<PathBuf>,
}

impl LetGo {
    /// Watches a file that is about to be closed. `None`: the system refuses, or there are too many.
    pub(super) fn watch(
        &mut self,
        watcher: &Watcher,
        file: BorrowedFd<'_>,
        shown: &Path,
    ) -> Option<i32> {
        if self.watched.len() >= FILES_MAX {
            return None;
        }
        // It has no other name.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let wd = watcher.add_file(Path::new(&path)).ok()?;
        self.watched.insert(wd, shown.to_owned());
        Some(wd)
    }

    /// A file was written to.
    pub(super) fn note_written(&mut self, wd: i32) {
        self.written.extend(self.watched.remove(&wd));
    }

    /// A watch is gone, with the file or after it has told.
    pub(super) fn note_gone(&mut self, wd: i32) {
        self.watched.remove(&wd);
    }

    /// The files that were written to since the last call.
    pub(super) fn take_written(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.written)
    }
}
