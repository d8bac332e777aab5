//! Measuring log systems from outside, as a black box.
//!
//! Invariant: knows files and protocols, nothing of weir's insides; what it reports was counted
//! by itself.
#![forbid(unsafe_code)]

pub mod load;
