//! Keeping track of what is stored, from the start of the store on: `opening` (recovery), `catalog`
//! (what is stored at the moment, in memory), `deletion` (deletion on request) and `verify` (a
//! check of all files).

pub(super) mod catalog;
pub(super) mod deletion;
pub(super) mod opening;
pub(super) mod verify;
