//! A store and a journal, both driven step by step on a disk that fails and loses unflushed data.

mod basics;
mod crash;
mod deletion;
mod faults;
mod maintenance;
mod manifest;
mod world;
