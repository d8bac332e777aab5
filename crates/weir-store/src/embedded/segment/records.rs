//! Reads whole records from a segment: the last step, only for the rows to be returned.

use std::borrow::Cow;

use weir_codec::{Attributes, Scalar, is_shortened, lengthen_packed, packed_frame};
use weir_model::{Position, StreamId};

use super::column::{Fixed, Role};
use super::error::SegmentError;
use super::plan::value_of_kind;
use super::reader::{Dictionary, PageBuffer, PageValues, Segment};
use crate::embedded::columns::{AttributeValue, Form, Original, StoredRecord, add_attribute};
use crate::limits::PAGE_ROWS;

pub(super) const DAMAGED: SegmentError = SegmentError::Damaged("invalid record values");

impl Segment {
    /// Returns the records of some rows of a row group, in the order of `rows`, which is ascending.
    pub fn records(
        &self,
        group: usize,
        rows: &[usize],
        buffer: &mut PageBuffer,
    ) -> Result<Vec<StoredRecord>, SegmentError> {
        let mut records = vec![empty(); rows.len()];
        self.fill_columns(|_| true, group, rows, buffer, &mut records)?;
        Ok(records)
    }

    /// Like [`Self::records`], with only so much of each record.
    pub(crate) fn records_in(
        &self,
        detail: Detail,
        group: usize,
        rows: &[usize],
        buffer: &mut PageBuffer,
    ) -> Result<Vec<StoredRecord>, SegmentError> {
        let mut records = vec![empty(); rows.len()];
        let is_brief = detail == Detail::Received && self.column(&Role::Received).is_some();
        if !is_brief {
            return self.records(group, rows, buffer);
        }
        self.fill_columns(is_of_received, group, rows, buffer, &mut records)?;
        let is_without = |record: &StoredRecord| record.received.is_none();
        let others = rows.iter().zip(&records).filter(|(_, record)| is_without(record));
        let others: Vec<usize> = others.map(|(row, _)| *row).collect();
        if !others.is_empty() {
            let whole = self.records(group, &others, buffer)?;
            let places = records.iter_mut().filter(|record| is_without(record));
            places.zip(whole).for_each(|(place, record)| *place = record);
        }
        Ok(records)
    }

    fn fill_columns(
        &self,
        is_wanted: impl Fn(&Role) -> bool,
        group: usize,
        rows: &[usize],
        buffer: &mut PageBuffer,
        records: &mut [StoredRecord],
    ) -> Result<(), SegmentError> {
        for (column, description) in self.columns().iter().enumerate() {
            if matches!(description.role, Role::Number(_)) || !is_wanted(&description.role) {
                continue;
            }
            let dictionary = self.dictionary(group, column, buffer)?;
            let mut at = 0;
            for page_rows in rows.chunk_by(|a, b| a / PAGE_ROWS == b / PAGE_ROWS) {
                self.read_page(group, column, page_rows[0] / PAGE_ROWS, buffer)?;
                let part = &mut records[at..at + page_rows.len()];
                at += page_rows.len();
                fill(&description.role, page_rows, buffer, dictionary.as_ref(), part)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with every record, in file order, keeping one page of them in memory.
    pub fn for_each_record(
        &self,
        mut each: impl FnMut(StoredRecord) -> Result<(), SegmentError>,
    ) -> Result<(), SegmentError> {
        let mut buffer = PageBuffer::new()?;
        for group in 0..self.group_count() {
            let rows: Vec<usize> = (0..self.group_rows(group)).collect();
            for of_page in rows.chunks(PAGE_ROWS) {
                self.records(group, of_page, &mut buffer)?.into_iter().try_for_each(&mut each)?;
            }
        }
        Ok(())
    }
}

/// How much of a record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// All of it.
    All,
    /// Only what its received bytes consist of, if it has them.
    Received,
}

/// Returns whether the received bytes of a record need this column.
fn is_of_received(role: &Role) -> bool {
    matches!(role, Role::Received | Role::Fixed(Fixed::Time | Fixed::Message))
}

fn empty() -> StoredRecord {
    StoredRecord {
        time_ns: 0,
        sequence: 0,
        stream: StreamId(0),
        position: Position::default(),
        form: Form::default(),
        service: None,
        host: None,
        source: None,
        status: None,
        tags: None,
        resource: None,
        message: None,
        trace_id: None,
        span_id: None,
        attributes: Vec::new(),
        received: None,
        arrival_ns: None,
        original: None,
    }
}

/// Puts the values of a page's rows into their records.
fn fill(
    role: &Role,
    rows: &[usize],
    page: &PageBuffer,
    dictionary: Option<&Dictionary>,
    records: &mut [StoredRecord],
) -> Result<(), SegmentError> {
    // The index of the next row to process, and of its value.
    let (mut row, mut value) = (0, 0);
    for (wanted, record) in rows.iter().zip(records) {
        let wanted = wanted % PAGE_ROWS;
        if let Some(levels) = page.levels() {
            let before = levels.get(row..wanted).ok_or(DAMAGED)?;
            value += before.iter().map(|level| *level as usize).sum::<usize>();
            row = wanted;
            if levels.get(wanted) != Some(&1) {
                continue;
            }
        } else {
            value = wanted;
        }
        if *role == Role::Received {
            record.received = Some(received_at(page.values(), value).ok_or(DAMAGED)?.into_owned());
            continue;
        }
        let scalar = value_at(page.values(), dictionary, value).ok_or(DAMAGED)?;
        set(role, scalar, record).ok_or(DAMAGED)?;
    }
    Ok(())
}

/// Returns the bytes in which a record was received, with what they share with those before them on
/// the page.
pub(super) fn received_at(values: PageValues<'_>, index: usize) -> Option<Cow<'_, [u8]>> {
    let PageValues::Texts(texts) = values else { return None };
    texts.ends.get(index)?;
    let packed = texts.get(index);
    if !is_shortened(packed) {
        return Some(packed.into());
    }
    let frame = (0..index).rev().find_map(|before| packed_frame(texts.get(before)))?;
    Some(lengthen_packed(packed, frame)?.into())
}

pub(super) fn value_at<'a>(
    values: PageValues<'a>,
    dictionary: Option<&'a Dictionary>,
    index: usize,
) -> Option<Scalar<'a>> {
    Some(match values {
        PageValues::Ints(values) => Scalar::Int(*values.get(index)?),
        PageValues::Doubles(values) => Scalar::Float(*values.get(index)?),
        PageValues::Bools(values) => Scalar::Bool(*values.get(index)?),
        PageValues::Texts(texts) => {
            texts.ends.get(index)?;
            Scalar::Text(texts.get(index))
        }
        PageValues::Codes(codes) => {
            let code = *codes.get(index)? as usize;
            match dictionary? {
                Dictionary::Ints(values) => Scalar::Int(*values.get(code)?),
                Dictionary::Doubles(values) => Scalar::Float(*values.get(code)?),
                Dictionary::Texts(texts) => {
                    (code < texts.len()).then_some(Scalar::Text(texts.get(code)))?
                }
            }
        }
    })
}

fn set(role: &Role, value: Scalar<'_>, record: &mut StoredRecord) -> Option<()> {
    match (role, value) {
        (Role::Fixed(fixed), value) => return set_fixed(*fixed, value, record),
        (Role::Attribute(path), value) => {
            let value = crate::embedded::columns::canonical(value);
            add_attribute(&mut record.attributes, path, value);
        }
        (Role::Kind(path), Scalar::Int(kind)) => {
            let at = record.attributes.binary_search_by(|(known, _)| known.as_str().cmp(path));
            let values = &mut record.attributes.get_mut(at.ok()?)?.1;
            let [AttributeValue::Text(text)] = values.as_slice() else { return None };
            let value = AttributeValue::from(value_of_kind(kind, text.as_bytes())?);
            *values = vec![value];
        }
        (Role::Rest, Scalar::Text(json)) => {
            let mut attributes = Attributes::new();
            attributes.read_json(json)?;
            for (path, value) in attributes.iter() {
                add_attribute(&mut record.attributes, std::str::from_utf8(path).ok()?, value);
            }
        }
        (Role::Raw, Scalar::Text(bytes)) => record.original = Some(Original::new(bytes.to_vec())),
        (Role::Arrival, Scalar::Int(time_ns)) => record.arrival_ns = Some(time_ns),
        _ => return None,
    }
    Some(())
}

fn set_fixed(fixed: Fixed, value: Scalar<'_>, record: &mut StoredRecord) -> Option<()> {
    let text = match value {
        Scalar::Int(number) => {
            match fixed {
                Fixed::Time => record.time_ns = number,
                Fixed::Sequence => record.sequence = number.cast_unsigned(),
                Fixed::Stream => record.stream = StreamId(number.cast_unsigned()),
                Fixed::Epoch => record.position.epoch = number.try_into().ok()?,
                Fixed::Offset => record.position.offset = number.cast_unsigned(),
                Fixed::Form => record.form = Form(number.cast_unsigned()),
                _ => return None,
            }
            return Some(());
        }
        Scalar::Text(text) => std::str::from_utf8(text).ok()?.to_owned(),
        _ => return None,
    };
    let field = match fixed {
        Fixed::Service => &mut record.service,
        Fixed::Host => &mut record.host,
        Fixed::Source => &mut record.source,
        Fixed::Status => &mut record.status,
        Fixed::Tags => &mut record.tags,
        Fixed::Resource => &mut record.resource,
        Fixed::Message => &mut record.message,
        Fixed::TraceId => &mut record.trace_id,
        Fixed::SpanId => &mut record.span_id,
        _ => return None,
    };
    *field = Some(text);
    Some(())
}
