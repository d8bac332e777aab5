//! What a record offers to expressions. The pipeline, the store and the tests each implement
//! [`Fields`] over their own form of a record.

use std::borrow::Cow;

use weir_model::unescape_json;

use crate::ast::Field;
use crate::number::{Number, Numeric};
use crate::unit::Unit;

/// The message of a record.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The message, escaped if `json_escaped` says so.
    pub bytes: &'a [u8],
    /// `bytes` is the inside of a JSON string, valid as such. Expressions see it unescaped, as
    /// [`weir_model::unescape_json`] defines it.
    pub json_escaped: bool,
}

impl<'a> Body<'a> {
    /// The message without escapes.
    pub fn plain(self) -> Cow<'a, [u8]> {
        if self.json_escaped { unescape_json(self.bytes) } else { self.bytes.into() }
    }
}

/// One value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Text, unescaped; not always UTF-8.
    Text(&'a [u8]),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A null, which counts as nothing.
    Null,
    /// An object with at least one member: it exists, and no other test is true of it.
    Object,
}

impl Value<'_> {
    /// Its value as so many of the unit of its field, where that has one: only a text can have a
    /// unit of its own.
    pub fn number_in(self, unit: Option<Unit>) -> Option<Numeric> {
        let number = self.number()?;
        Some(unit.map_or(number, |unit| number.in_unit(unit)).value)
    }

    /// Its value as a number, when it is one or, being text, reads as one.
    pub fn number(self) -> Option<Number> {
        let value = match self {
            Self::Int(value) => Numeric::Int(value),
            Self::Float(value) => Numeric::Float(value),
            Self::Text(text) => return Number::parse_bytes(text),
            Self::Bool(_) | Self::Null | Self::Object => return None,
        };
        Some(Number::plain(value))
    }

    /// Its text, in `buffer` when it is not text already. `None` for nulls and objects.
    pub fn text<'b>(&'b self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        use std::io::Write as _;
        buffer.clear();
        // Writing to a vector cannot fail.
        let _ = match self {
            Self::Text(text) => return Some(text),
            Self::Bool(true) => return Some(b"true"),
            Self::Bool(false) => return Some(b"false"),
            Self::Int(value) => write!(buffer, "{value}"),
            Self::Float(value) => write!(buffer, "{value}"),
            Self::Null | Self::Object => return None,
        };
        Some(buffer)
    }
}

/// Takes one value after the other.
pub type Visitor<'v> = dyn FnMut(Value<'_>) + 'v;

/// A record, as expressions see it.
///
/// The same field must give the same values however often it is asked. Attributes are asked for
/// last, and only when the answer depends on them, so that parsing them can wait until then; keep
/// what was parsed until the record is done.
pub trait Fields {
    /// The message.
    fn body(&self) -> Body<'_>;

    /// Calls `visit` for every value that the field has in this record: each element of an array,
    /// also through arrays of objects on the way; the members of an object that is itself the
    /// value are not visited, [`Value::Object`] is. [`Field::Any`] means every value of every
    /// field except the message. Never called with [`Field::Message`].
    fn visit(&self, field: &Field, visit: &mut Visitor<'_>);
}

/// What is the same for all records of a batch: resource, source, stream.
pub trait Constants {
    /// When the field has the same values in every record of the batch: calls `visit` for each of
    /// them (there may be none) and returns true. Otherwise returns false without a call.
    fn constant(&self, field: &Field, visit: &mut Visitor<'_>) -> bool;
}

/// Nothing is known about the batch as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoConstants;

impl Constants for NoConstants {
    fn constant(&self, _field: &Field, _visit: &mut Visitor<'_>) -> bool {
        false
    }
}
