//! Copies rows of a segment back into rows, to write them again: for a merge, or without some of
//! them.
//!
//! Invariants: the copied rows are what [`Segment::records`] would return, and a row for which that
//! is incomplete is not copied; one page of each column is in memory, and nothing is allocated per
//! row.

use std::borrow::Cow;

use weir_codec::{Attributes, Scalar};

use super::column::{Fixed, Role};
use super::error::SegmentError;
use super::plan::value_of_kind;
use super::reader::{Dictionary, PageBuffer, PageTexts, PageValues, Segment};
use super::records::{DAMAGED, received_at, value_at};
use crate::embedded::columns::{Form, NewRow, Original, Rows};
use crate::limits::PAGE_ROWS;

impl Segment {
    /// Adds the wanted rows of a row group, in order.
    pub fn copy_group(
        &self,
        group: usize,
        is_wanted: impl Fn(usize) -> bool,
        rows: &mut Rows,
    ) -> Result<(), SegmentError> {
        let mut buffer = PageBuffer::new()?;
        let sources = self.sources(group, &mut buffer)?;
        let mut rest = Attributes::new();
        for page in 0..self.page_count(group) {
            let first = page * PAGE_ROWS;
            let end = self.group_rows(group).min(first + PAGE_ROWS);
            let mut wanted = (first..end).filter(|row| is_wanted(*row)).peekable();
            if wanted.peek().is_none() {
                continue;
            }
            let cells = sources
                .iter()
                .map(|source| {
                    self.read_page(group, source.column, page, &mut buffer)?;
                    Ok(PageCells::of(source, &buffer))
                })
                .collect::<Result<Vec<_>, SegmentError>>()?;
            let mut attributes = Vec::new();
            for row in wanted {
                copy_row(&cells, row - first, &mut attributes, &mut rest, rows)?;
            }
        }
        Ok(())
    }

    /// Returns the columns that make up a record.
    fn sources(
        &self,
        group: usize,
        buffer: &mut PageBuffer,
    ) -> Result<Vec<SourceColumn>, SegmentError> {
        let is_own = |(_, role): &(usize, &Role)| !matches!(role, Role::Number(_));
        let roles = self.columns().iter().map(|column| &column.role).enumerate().filter(is_own);
        let roles: Vec<(usize, &Role)> = roles.collect();
        let index_of = |wanted: &Role| roles.iter().position(|(_, role)| *role == wanted);
        let source = |(column, role): &(usize, &Role)| {
            let kinds = match role {
                Role::Attribute(path) => index_of(&Role::Kind(path.clone())),
                _ => None,
            };
            let dictionary = self.dictionary(group, *column, buffer)?;
            Ok(SourceColumn { column: *column, role: (*role).clone(), kinds, dictionary })
        };
        roles.iter().map(source).collect()
    }
}

/// A column of a row group.
#[derive(Debug)]
struct SourceColumn {
    column: usize,
    role: Role,
    /// Index of the source that gives the types of the values.
    kinds: Option<usize>,
    dictionary: Option<Dictionary>,
}

/// Marks a row without a value.
const NONE: u32 = u32::MAX;

/// The values of a page of a column.
#[derive(Debug)]
struct PageCells<'s> {
    source: &'s SourceColumn,
    /// For each row the index of its value; `None` when every row has one.
    numbers: Option<Vec<u32>>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Ints(Vec<i64>),
    Doubles(Vec<f64>),
    Bools(Vec<bool>),
    /// The end of each text, and all texts.
    Texts(Vec<u32>, Vec<u8>),
    Codes(Vec<u32>),
}

impl<'s> PageCells<'s> {
    fn of(source: &'s SourceColumn, page: &PageBuffer) -> Self {
        let values = match page.values() {
            PageValues::Ints(values) => Values::Ints(values.to_vec()),
            PageValues::Doubles(values) => Values::Doubles(values.to_vec()),
            PageValues::Bools(values) => Values::Bools(values.to_vec()),
            PageValues::Texts(texts) => Values::Texts(texts.ends.to_vec(), texts.bytes.to_vec()),
            PageValues::Codes(codes) => Values::Codes(codes.to_vec()),
        };
        let numbers = page.levels().map(|levels| {
            let mut next = 0;
            let number = |level: &u32| {
                let number = if *level == 1 { next } else { NONE };
                next += level;
                number
            };
            levels.iter().map(number).collect()
        });
        Self { source, numbers, values }
    }

    fn value(&self, row: usize) -> Result<Option<Scalar<'_>>, SegmentError> {
        let Some(number) = self.number(row)? else { return Ok(None) };
        let dictionary = self.source.dictionary.as_ref();
        value_at(self.values(), dictionary, number).ok_or(DAMAGED).map(Some)
    }

    /// Returns the bytes in which the record of a row was received.
    fn received(&self, row: usize) -> Result<Option<Cow<'_, [u8]>>, SegmentError> {
        let Some(number) = self.number(row)? else { return Ok(None) };
        received_at(self.values(), number).ok_or(DAMAGED).map(Some)
    }

    /// Returns the index of the value of a row.
    fn number(&self, row: usize) -> Result<Option<usize>, SegmentError> {
        Ok(match &self.numbers {
            None => Some(row),
            Some(numbers) => match *numbers.get(row).ok_or(DAMAGED)? {
                NONE => None,
                number => Some(number as usize),
            },
        })
    }

    fn values(&self) -> PageValues<'_> {
        match &self.values {
            Values::Ints(values) => PageValues::Ints(values),
            Values::Doubles(values) => PageValues::Doubles(values),
            Values::Bools(values) => PageValues::Bools(values),
            Values::Texts(ends, bytes) => PageValues::Texts(PageTexts { ends, bytes }),
            Values::Codes(codes) => PageValues::Codes(codes),
        }
    }
}

/// Adds a row. `attributes` and `rest` are scratch buffers.
fn copy_row<'c>(
    columns: &'c [PageCells<'_>],
    row: usize,
    attributes: &mut Vec<(&'c [u8], Scalar<'c>)>,
    rest: &mut Attributes,
    rows: &mut Rows,
) -> Result<(), SegmentError> {
    attributes.clear();
    rest.clear();
    let mut new = NewRow::default();
    let (mut original, mut received) = (None, None);
    for cells in columns {
        let Some(value) = cells.value(row)? else { continue };
        match (&cells.source.role, value) {
            (Role::Fixed(fixed), value) => set_fixed(*fixed, value, &mut new).ok_or(DAMAGED)?,
            (Role::Attribute(path), value) => {
                let kinds = cells.source.kinds.and_then(|place| columns.get(place));
                let kind = kinds.map(|kinds| kinds.value(row)).transpose()?.flatten();
                let value = match (kind, value) {
                    (None, value) => value,
                    (Some(Scalar::Int(kind)), Scalar::Text(text)) => {
                        value_of_kind(kind, text).ok_or(DAMAGED)?
                    }
                    _ => return Err(DAMAGED),
                };
                attributes.push((path.as_bytes(), value));
            }
            (Role::Rest, Scalar::Text(json)) => {
                rest.read_members(json).ok_or(DAMAGED)?;
                if rest.is_cut() {
                    // No row is written with more than this; do not discard what is not understood.
                    return Err(DAMAGED);
                }
            }
            (Role::Received, Scalar::Text(_)) => {
                received = cells.received(row)?;
            }
            (Role::Raw, Scalar::Text(bytes)) => original = Some(Original::new(bytes.to_vec())),
            (Role::Arrival, Scalar::Int(time_ns)) => new.arrival_ns = Some(time_ns),
            // Read together with its attribute.
            (Role::Kind(_), Scalar::Int(_)) => {}
            _ => return Err(DAMAGED),
        }
    }
    let new = NewRow { received: received.as_deref(), ..new };
    let all = attributes.iter().copied().chain(rest.iter());
    rows.push_again(&new, all, original).map_err(|error| SegmentError::Write(error.to_string()))
}

fn set_fixed<'a>(fixed: Fixed, value: Scalar<'a>, row: &mut NewRow<'a>) -> Option<()> {
    match (fixed, value) {
        (Fixed::Time, Scalar::Int(number)) => row.time_ns = number,
        (Fixed::Sequence, Scalar::Int(number)) => row.sequence = number.cast_unsigned(),
        (Fixed::Stream, Scalar::Int(number)) => row.stream = number.cast_unsigned(),
        (Fixed::Epoch, Scalar::Int(number)) => row.position.epoch = number.try_into().ok()?,
        (Fixed::Offset, Scalar::Int(number)) => row.position.offset = number.cast_unsigned(),
        (Fixed::Form, Scalar::Int(number)) => row.form = Form(number.cast_unsigned()),
        (Fixed::Service, Scalar::Text(text)) => row.service = Some(text),
        (Fixed::Host, Scalar::Text(text)) => row.host = Some(text),
        (Fixed::Source, Scalar::Text(text)) => row.source = Some(text),
        (Fixed::Status, Scalar::Text(text)) => row.status = Some(text),
        (Fixed::Tags, Scalar::Text(text)) => row.tags = Some(text),
        (Fixed::Resource, Scalar::Text(text)) => row.resource = Some(text),
        (Fixed::Message, Scalar::Text(text)) => row.message = Some(text),
        (Fixed::TraceId, Scalar::Text(text)) => row.trace_id = Some(text),
        (Fixed::SpanId, Scalar::Text(text)) => row.span_id = Some(text),
        _ => return None,
    }
    Some(())
}
