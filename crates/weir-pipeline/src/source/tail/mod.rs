//! Tailing of files: the engine shared by `file` and `containers`.
//!
//! Modules: `discovery` (which names lead to which files, by inotify and rescan), `identity` (which
//! file it is, independent of its name), `reader` and `follow` (blocks into batches), `ending`
//! (rotation, hand-over, truncation, deletion), `intake` (new files, and those of the last run),
//! `parked` (what is kept of quiet files), `engine` (the loop).
//!
//! Descriptors: a followed file is kept open, because an idle one may get its last lines and be
//! removed within a millisecond. An idle descriptor costs no CPU. Only when three quarters of the
//! process's limit are in use are the files that have been idle longest closed; they are opened
//! again at the next write. Rotated files are closed when they have been read to their end.

mod containers;
mod discovery;
mod ending;
mod engine;
mod file;
mod follow;
mod identity;
mod intake;
mod layout;
mod limit;
mod parked;
mod reader;
mod rotation;
mod state;

pub use layout::LayoutError;
pub use rotation::is_compressed_or_temporary;

use std::sync::Arc;

use crate::config::{ContainersSource, FileSource};
use discovery::Discovery;
use engine::Engine;
pub(super) use engine::Parts;
use layout::Layout;

/// A tailing source, ready to run in its thread.
pub(super) struct Tail(Engine);

/// Returns the layout of a source of files.
pub(super) fn files(source: &FileSource) -> Result<Layout, LayoutError> {
    let current_dir = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Layout::files(source, &current_dir)
}

/// Returns the layout of a source of containers.
pub(super) fn containers(source: &ContainersSource) -> Result<Layout, LayoutError> {
    Layout::containers(source)
}

/// Settings for tests, with the times of a source that waits for nothing else.
#[cfg(test)]
fn test_settings() -> crate::config::TailSettings {
    use std::time::Duration;
    crate::config::TailSettings {
        read_from: crate::config::ReadFrom::Beginning,
        line_bytes_max: 1024,
        rescan_interval: Duration::from_mins(1),
        multiline: None,
        partial_timeout: Duration::from_secs(5),
        rotated_grace: Duration::from_secs(5),
        deleted_bytes_max: 1 << 30,
        rate_limit: None,
        read_interval: Duration::from_millis(20),
    }
}

impl Tail {
    /// Creates a source; `hidden` are weir's own files and directories, which are never tailed.
    pub(super) fn new(layout: Layout, parts: Parts, hidden: super::OwnPaths) -> Self {
        let discovery =
            Discovery::new(layout, hidden, parts.stats.clone(), Arc::clone(&parts.tree));
        Self(Engine::new(parts, discovery))
    }

    /// Opens the streams of all existing files.
    pub(super) fn start(&mut self) {
        self.0.start();
    }

    /// Runs until told to stop. Calls `when_backlog_read` when the journal has what was in the
    /// files at the start.
    pub(super) fn run(&mut self, when_backlog_read: impl FnOnce()) {
        self.0.run(when_backlog_read);
    }
}
