//! The interface of records to expressions. The pipeline, the store and the tests each implement
//! [`Fields`] for their own form of a record.

use std::borrow::Cow;

use weir_model::unescape_json;

use crate::ast::Field;
use crate::number::{Number, Numeric};
use crate::unit::Unit;

/// The message of a record.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The message, escaped if `json_escaped` is set.
    pub bytes: &'a [u8],
    /// `bytes` is the valid content of a JSON string. Expressions see it unescaped, as defined by
    /// [`weir_model::unescape_json`].
    pub json_escaped: bool,
}

impl<'a> Body<'a> {
    /// Returns the message without escapes.
    pub fn plain(self) -> Cow<'a, [u8]> {
        if self.json_escaped { unescape_json(self.bytes) } else { self.bytes.into() }
    }
}

/// One value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Text, unescaped; not necessarily UTF-8.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A null, which is treated as no value.
    Null,
    /// An object with at least one member: it exists, but passes no other test.
    Object,
}

impl Value<'_> {
    /// Returns its value in the unit of its field, if the field has one: only a text can have a
    /// unit of its own.
    pub fn number_in(self, unit: Option<Unit>) -> Option<Numeric> {
        let number = self.number()?;
        Some(unit.map_or(number, |unit| number.in_unit(unit)).value)
    }

    /// Returns its value as a number, if it is one or is a text that parses as one.
    pub fn number(self) -> Option<Number> {
        let value = match self {
            Self::Int(value) => Numeric::Int(value),
            Self::Float(value) => Numeric::Float(value),
            Self::Text(text) => return Number::parse_bytes(text),
            Self::Bool(_) | Self::Null | Self::Object => return None,
        };
        Some(Number::plain(value))
    }

    /// Returns its text, in `buffer` if it is not text already. `None` for nulls and objects.
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

/// Receives values one after the other.
pub type Visitor<'v> = dyn FnMut(Value<'_>) + 'v;

/// A record as seen by expressions.
///
/// The same field must yield the same values however often it is visited. Attributes are visited
/// last, and only if the result depends on them, so that parsing them can be deferred until then;
/// keep the parsed attributes until the record is done.
pub trait Fields {
    /// Returns the message.
    fn body(&self) -> Body<'_>;

    /// Calls `visit` for every value that the field has in this record. Every element of an array
    /// is visited, including arrays of objects along the path; for a value that is an object,
    /// [`Value::Object`] is visited instead of its members. [`Field::Any`] means every value of
    /// every field except the message. Never called with [`Field::Message`].
    fn visit(&self, field: &Field, visit: &mut Visitor<'_>);
}

/// What is the same for all records of a batch: resource, source, stream.
pub trait Constants {
    /// If the field has the same values in every record of the batch, calls `visit` for each of
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
