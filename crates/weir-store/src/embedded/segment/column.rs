//! The columns of a segment: their names, their roles, and their Parquet types.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::error::SegmentError;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// INT64.
    Int,
    /// DOUBLE.
    Double,
    /// BOOLEAN.
    Bool,
    /// `BYTE_ARRAY`, a string.
    Text,
    /// `BYTE_ARRAY`, arbitrary bytes.
    Bytes,
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident, $required:literal;)*) => {
        /// Columns that every segment has, in file order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fixed { $($(#[$doc])* $name,)* }

        impl Fixed {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the column's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            fn kind(self) -> ValueKind {
                match self { $(Self::$name => ValueKind::$kind,)* }
            }

            fn is_required(self) -> bool {
                match self { $(Self::$name => $required,)* }
            }
        }
    };
}

fixed! {
    /// Time of the event, nanoseconds since 1970.
    Time = "ts", Int, true;
    /// Sequence number in the order in which the store took records in; unsigned.
    Sequence = "seq", Int, true;
    /// The stream; unsigned.
    Stream = "stream", Int, true;
    /// Epoch of the position; unsigned.
    Epoch = "epoch", Int, true;
    /// Offset of the position; unsigned.
    Offset = "offset", Int, true;
    /// The original form of the record, a [`crate::embedded::columns::Form`].
    Form = "form", Int, true;
    /// The service that wrote it.
    Service = "service", Text, false;
    /// The host on which it was written.
    Host = "host", Text, false;
    /// The source that received it.
    Source = "source", Text, false;
    /// The status.
    Status = "status", Text, false;
    /// Its tags, a JSON array.
    Tags = "tags", Text, false;
    /// The resource of its batch, a JSON object.
    Resource = "resource", Text, false;
    /// The message.
    Message = "message", Text, false;
    /// The trace.
    TraceId = "trace_id", Text, false;
    /// The span.
    SpanId = "span_id", Text, false;
}

/// The role of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// One of the columns that every segment has.
    Fixed(Fixed),
    /// Values of an attribute, by its path. Named `@path`.
    Attribute(String),
    /// The numeric values of a text column. Named `number@path`.
    Number(String),
    /// The type of each value of a text column with several types: 0 text, 1 integer, 2 float, 3
    /// boolean. Named `kind@path`.
    Kind(String),
    /// Attributes that have no column of their own, a JSON object. Named `_rest`.
    Rest,
    /// The whole record, when it has bytes that are not UTF-8. Named `_raw`.
    Raw,
    /// The bytes in which the record was received, without its message. Named `_received`.
    Received,
    /// When weir received the record, nanoseconds since 1970. Named `_arrival`.
    Arrival,
}

const ATTRIBUTE: &str = "@";
const NUMBER: &str = "number@";
const KIND: &str = "kind@";
const REST: &str = "_rest";
const RAW: &str = "_raw";
const RECEIVED: &str = "_received";
const ARRIVAL: &str = "_arrival";

impl Role {
    fn name(&self) -> String {
        match self {
            Self::Fixed(fixed) => fixed.name().to_owned(),
            Self::Attribute(path) => format!("{ATTRIBUTE}{path}"),
            Self::Number(path) => format!("{NUMBER}{path}"),
            Self::Kind(path) => format!("{KIND}{path}"),
            Self::Rest => REST.to_owned(),
            Self::Raw => RAW.to_owned(),
            Self::Received => RECEIVED.to_owned(),
            Self::Arrival => ARRIVAL.to_owned(),
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        let fixed = Fixed::ALL.iter().find(|fixed| fixed.name() == name);
        if let Some(fixed) = fixed {
            return Some(Self::Fixed(*fixed));
        }
        match name {
            REST => return Some(Self::Rest),
            RAW => return Some(Self::Raw),
            RECEIVED => return Some(Self::Received),
            ARRIVAL => return Some(Self::Arrival),
            _ => {}
        }
        let path = |prefix| name.strip_prefix(prefix).map(str::to_owned);
        path(ATTRIBUTE)
            .map(Self::Attribute)
            .or_else(|| path(NUMBER).map(Self::Number))
            .or_else(|| path(KIND).map(Self::Kind))
    }
}

/// A column of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its role.
    pub role: Role,
    /// The type of its values.
    pub kind: ValueKind,
    /// Every row has a value.
    pub is_required: bool,
}

impl Column {
    /// Creates a column that every segment has.
    pub(crate) fn fixed(fixed: Fixed) -> Self {
        Self { role: Role::Fixed(fixed), kind: fixed.kind(), is_required: fixed.is_required() }
    }

    /// Creates a column in which some rows have a value.
    pub(crate) fn optional(role: Role, kind: ValueKind) -> Self {
        Self { role, kind, is_required: false }
    }

    /// Returns the name in the file.
    pub fn name(&self) -> String {
        self.role.name()
    }

    /// Returns whether it is stored as Parquet's timestamp.
    fn is_time(&self) -> bool {
        matches!(self.role, Role::Fixed(Fixed::Time) | Role::Arrival)
    }

    /// Returns whether it is stored as Parquet's unsigned 64-bit integer.
    fn is_unsigned(&self) -> bool {
        use Fixed::{Epoch, Form, Offset, Sequence, Stream};
        matches!(self.role, Role::Fixed(Sequence | Stream | Epoch | Offset | Form))
    }

    /// Returns whether values repeat enough for a dictionary to be worth trying.
    pub(crate) fn may_have_dictionary(&self) -> bool {
        use Fixed::{Message, Offset, Sequence, Time};
        let is_fixed = matches!(self.role, Role::Fixed(Time | Sequence | Offset | Message));
        !is_fixed && !matches!(self.kind, ValueKind::Bool | ValueKind::Bytes)
    }

    fn to_parquet(&self) -> Result<TypePtr, SegmentError> {
        let (physical, logical) = match self.kind {
            ValueKind::Int if self.is_time() => {
                (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
            }
            ValueKind::Int if self.is_unsigned() => {
                (PhysicalType::INT64, Some(LogicalType::integer(64, false)))
            }
            ValueKind::Int => (PhysicalType::INT64, None),
            ValueKind::Double => (PhysicalType::DOUBLE, None),
            ValueKind::Bool => (PhysicalType::BOOLEAN, None),
            ValueKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ValueKind::Bytes => (PhysicalType::BYTE_ARRAY, None),
        };
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let field = Type::primitive_type_builder(&self.name(), physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    }

    fn from_parquet(field: &Type) -> Option<Self> {
        let role = Role::of_name(field.name())?;
        let is_required = field.get_basic_info().repetition() == Repetition::REQUIRED;
        let is_text = field.get_basic_info().logical_type_ref() == Some(&LogicalType::String);
        let kind = match field.get_physical_type() {
            PhysicalType::INT64 => ValueKind::Int,
            PhysicalType::DOUBLE => ValueKind::Double,
            PhysicalType::BOOLEAN => ValueKind::Bool,
            PhysicalType::BYTE_ARRAY if is_text => ValueKind::Text,
            PhysicalType::BYTE_ARRAY => ValueKind::Bytes,
            _ => return None,
        };
        Some(Self { role, kind, is_required })
    }
}

/// Returns the Parquet schema of some columns.
pub(crate) fn to_schema(columns: &[Column]) -> Result<TypePtr, SegmentError> {
    let fields = columns.iter().map(Column::to_parquet).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Type::group_type_builder("weir").with_fields(fields).build()?))
}

/// Returns the columns of a Parquet schema; `None` when it is not that of a segment.
pub(crate) fn from_schema(schema: &SchemaDescriptor) -> Option<Vec<Column>> {
    let fields = schema.root_schema().get_fields();
    let columns =
        fields.iter().map(|field| field.is_primitive().then(|| Column::from_parquet(field))?);
    let columns: Vec<Column> = columns.collect::<Option<_>>()?;
    let are_fixed = Fixed::ALL
        .iter()
        .enumerate()
        .all(|(index, fixed)| columns.get(index) == Some(&Column::fixed(*fixed)));
    are_fixed.then_some(columns)
}
