//! Paths that were logged, so that each is logged once and not at every rescan.
//!
//! Invariant: it never holds more than a fixed number of paths.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Maximum number of paths. A directory with more links that lead nowhere has one cause, which is
/// in the log by then.
const PATHS_MAX: usize = 1024;

/// The logged paths.
#[derive(Debug, Default)]
pub(super) struct LoggedPaths(HashSet<PathBuf>);

impl LoggedPaths {
    /// Returns whether the path must be logged now: it was not before, and there is room for it.
    pub(super) fn insert(&mut self, path: &Path) -> bool {
        let has_room = self.0.len() < PATHS_MAX;
        has_room && self.0.insert(path.to_owned())
    }

    /// The path can be reached: the next problem with it is a new one.
    pub(super) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_logged_once_until_it_works_again() {
        let mut logged = LoggedPaths::default();
        let path = Path::new("/a");
        assert!(logged.insert(path) && !logged.insert(path));
        logged.remove(path);
        assert!(logged.insert(path));
        let count = (0..PATHS_MAX + 9).filter(|n| logged.insert(Path::new(&n.to_string()))).count();
        assert_eq!(count, PATHS_MAX - 1);
    }
}
