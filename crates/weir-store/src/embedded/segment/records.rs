//! Reads whole records from a segment: the last step, only for the rows to be returned.

use weir_codec::{Attributes, Scalar};
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
        for (column, description) in self.columns().iter().enumerate() {
            if matches!(description.role, Role::Number(_)) {
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
        Ok(records)
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
        let scalar = value_at(page.values(), dictionary, value).ok_or(DAMAGED)?;
        set(role, scalar, record).ok_or(DAMAGED)?;
    }
    Ok(())
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
