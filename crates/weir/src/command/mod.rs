//! One file per command.

pub(crate) mod config;
pub(crate) mod cursor;
pub(crate) mod dead_letter;
pub(crate) mod drains;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod reload;
pub(crate) mod rule_test;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod sizing;
pub(crate) mod store;
pub(crate) mod tail;
pub(crate) mod top;
pub(crate) mod torture;
