//! The explore API over a real socket, with a store that answers according to the specification.

mod compression;
mod datadog;
mod deletions;
mod export;
mod overload;
mod queries;
mod support;
