//! Sources, outputs, rules and live subscriptions, and the wiring between them.
//!
//! Each source has threads of its own; outputs share a few event loops, and drains have one. A slow
//! component does not hold up another, and the CPU time of each is measured.
#![forbid(unsafe_code)]

mod component;
pub mod config;
pub mod cursors;
pub mod drain;
mod groups;
pub mod grpc;
pub mod health;
pub mod live;
pub mod originals;
pub mod output;
mod pipeline;
pub mod platform;
pub mod rule;
pub mod source;
pub mod stats;
pub mod view;

pub use pipeline::{
    ActiveProblem, Applied, ChangedComponents, Changes, Destination, Pipeline, Running,
    STORE_TYPE_NAME, StartDestination, StartError,
};
