//! Drains: the records of an application (a space, an organization, or all) go to a destination of
//! its owner. There may be ten thousand drains, and any of them may hang.
//!
//! All drains together are one destination of the journal, `drains`. A drain that lags is given a
//! stream of its own in the journal, read by a second destination, `drains/lagging`; so it takes
//! disk space for its own records, and does not delay other drains.
//!
//! Reading order: `binding` (what a drain is), `provider` (where bindings come from), `registry`
//! (all of them), `core` (decides), `pump` (journal), `worker` and `sender` (network), `run`.

pub mod binding;
mod book;
mod core;
mod envelopes;
mod finished;
mod limits;
mod matcher;
mod message;
mod moved;
mod plan;
pub mod provider;
mod pump;
mod registry;
mod run;
pub mod sender;
mod status;
mod stream;
mod taken;
#[cfg(test)]
mod tests;
mod worker;

pub use book::DrainBook;
pub(crate) use stream::source as relocated_source;

pub use message::DrainMessage;
pub use plan::{DrainsPlan, Selector};
pub use registry::{Definition, DefinitionError, DrainsFileError, StoredDrain};
pub(crate) use run::PreparedDrains;
pub use run::{DrainChangeError, Drains, DrainsError, LAGGING, NAME, TYPE_NAME};
pub use status::{DrainIdentity, DrainState, DrainStatus, ProviderStatus};
