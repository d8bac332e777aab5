//! The paths that weir itself writes, which no source may tail.
//!
//! Invariant: a path is listed before anything is written to it, even by an output that is added
//! while weir runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::output::FilePath;

/// Paths that weir itself writes.
#[derive(Debug, Clone)]
pub enum OwnPath {
    /// A directory and everything in it.
    Below(PathBuf),
    /// The files of an output, including the rotated ones.
    Files(FilePath),
}

impl OwnPath {
    fn covers(&self, path: &Path) -> bool {
        match self {
            Self::Below(dir) => path.starts_with(dir),
            Self::Files(files) => files.covers(path),
        }
    }

    /// Returns the same with links resolved as far as possible now.
    fn resolved(&self) -> Self {
        match self {
            Self::Below(dir) => Self::Below(dir.canonicalize().unwrap_or_else(|_| dir.clone())),
            Self::Files(files) => Self::Files(files.resolved()),
        }
    }
}

/// All of them. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct OwnPaths(Arc<RwLock<Vec<OwnPath>>>);

impl OwnPaths {
    /// Creates the list.
    pub fn new(paths: &[OwnPath]) -> Self {
        let own = Self::default();
        own.replace(paths);
        own
    }

    /// Replaces the list, for all clones.
    pub fn replace(&self, paths: &[OwnPath]) {
        let resolved = paths.iter().map(OwnPath::resolved).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = resolved;
    }

    /// Returns true if the path is one of them.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let paths = self.0.read().unwrap_or_else(PoisonError::into_inner);
        paths.iter().any(|own| own.covers(path))
    }
}
