//! Records as columns in memory: what the head of the store is made of, and what a segment is
//! written from.
//!
//! [`Intake`] reads one record after another out of batches and adds it to [`Rows`]. Invariants:
//! what was added comes back from [`Rows::record`] as it was; text is UTF-8 in every column, and
//! a row that came with other bytes keeps them beside ([`Original`]); nothing is allocated per
//! row once the buffers have grown.

mod form;
mod intake;
mod original;
mod path;
mod record;
mod resources;
mod rows;
mod texts;

pub use form::{Form, MESSAGE_PATHS, TIME_PATHS, TimeStyle};
pub use intake::Intake;
pub use original::Original;
pub(crate) use path::EXACT_INT_MAX;
pub use path::{PathColumn, canonical};
pub use record::{AttributeValue, StoredRecord};
pub use rows::{CodeColumn, Full, NewRow, Rows, Spilled};
pub use texts::Texts;

pub(crate) use record::{add_attribute, value_of};
pub(crate) use rows::SparseTexts;
