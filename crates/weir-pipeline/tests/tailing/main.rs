//! Tailing, against real files, real inotify and the real journal. Each test covers a bug known
//! from practice: nothing is lost, nothing is duplicated, and every book balances.

mod containers;
mod following;
mod harness;
mod multiline;
mod rotation;
mod rules;
mod starting;
