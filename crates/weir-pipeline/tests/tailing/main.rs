//! Tailing, against real files, real inotify and the real journal. Each test is a bug that
//! somebody's users had: nothing lost, nothing twice, and every book balances.

mod containers;
mod following;
mod harness;
mod multiline;
mod rotation;
mod rules;
mod starting;
