//! Everything that takes records in or sends them out, and the wiring between them.
//!
//! One thread per source and per output: a slow one cannot hold up another, and the CPU time of
//! each is simply the CPU time of its thread.
#![forbid(unsafe_code)]

mod component;
pub mod config;
pub mod health;
pub mod live;
pub mod output;
mod pipeline;
pub mod rule;
pub mod source;
pub mod stats;
pub mod view;

pub use pipeline::{Destination, Pipeline, Running, StartDestination, StartError, Trouble};
