//! Taking records in and writing them to disk.
//!
//! Reading order: `threads` (the two threads), `head` (records in memory), `flusher` (every write
//! to disk, one step at a time), `manifest` (what is stored), `files` (names, atomic creation),
//! `merge` and `rewrite` (replacing segments), `requests` (requests to the writing thread).

pub(super) mod files;
pub(super) mod flusher;
pub(super) mod head;
pub(super) mod manifest;
pub(super) mod merge;
pub(super) mod requests;
pub(super) mod rewrite;
pub(super) mod threads;
