//! Records as columns in memory: the content of the store's head, and the input from which segments
//! are written.
//!
//! [`Intake`] reads one record after another out of batches and adds it to [`Rows`]. Invariants:
//! [`Rows::record`] returns a record as it was added; text is UTF-8 in every column, and a row that
//! came with other bytes also keeps those bytes ([`Original`]); nothing is allocated per row once
//! the buffers have grown.

mod arrivals;
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
