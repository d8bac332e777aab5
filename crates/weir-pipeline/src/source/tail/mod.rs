//! Tails files.
#![allow(dead_code, unused_imports, reason = "being built")]
mod containers;
mod discovery;
mod identity;
mod layout;
mod limit;
mod reader;
mod rotation;
mod state;
mod watch;
