//! Deleted files that were read to their end and closed, though a program may still have them open.
//!
//! Data written to them later cannot be read. A watch on the file itself reports such a write, so
//! that it is counted. The kernel removes the watch together with the file, once no process has it
//! open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use weir_host::{TreeFile, TreeWatch};

/// Maximum number of files watched at once: the system limits the watches of each user.
const FILES_MAX: usize = 4096;

/// Deleted and closed files that are watched.
#[derive(Debug, Default)]
pub(super) struct ClosedFiles {
    watched: HashMap<i32, PathBuf>,
    written: Vec<PathBuf>,
}

impl ClosedFiles {
    /// Watches a file that is about to be closed. `None`: the system refused, or the limit is
    /// reached.
    pub(super) fn watch(
        &mut self,
        watcher: &dyn TreeWatch,
        file: &dyn TreeFile,
        shown: &Path,
    ) -> Option<i32> {
        if self.watched.len() >= FILES_MAX {
            return None;
        }
        let wd = watcher.add_file(file).ok()?;
        self.watched.insert(wd, shown.to_owned());
        Some(wd)
    }

    /// Notes that a file was written to.
    pub(super) fn note_written(&mut self, wd: i32) {
        self.written.extend(self.watched.remove(&wd));
    }

    /// Notes that a watch has ended, with the file or after its event.
    pub(super) fn note_gone(&mut self, wd: i32) {
        self.watched.remove(&wd);
    }

    /// Returns the files that were written to since the last call.
    pub(super) fn take_written(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.written)
    }
}
