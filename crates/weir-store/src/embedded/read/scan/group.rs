//! The groups that the rows of a page belong to.

use std::collections::HashMap;
use std::rc::Rc;

use weir_expr::{Field, Unit, Value};

use super::accumulator::AggregateNumber;
use super::column::{Column, View, entry};
use super::eval::Evaluator;
use super::row_set::RowSet;
use crate::embedded::hash::{FoldState, Interner};
use crate::embedded::segment::SegmentError;
use crate::query::{GroupBy, GroupHistogram, GroupKey};

/// Marks a row that is in no group.
pub(super) const NONE: u32 = u32::MAX;

/// A number for each row; rows that have several have the others in `extra`.
#[derive(Debug, Default)]
pub(super) struct ByRow {
    pub(super) first: Vec<u32>,
    /// Row and number, sorted by row.
    pub(super) extra: Vec<(u16, u32)>,
}

impl ByRow {
    pub(super) fn none(rows: usize) -> Self {
        Self { first: vec![NONE; rows], extra: Vec::new() }
    }

    /// Adds a number to a row, unless the row already has it.
    fn add(&mut self, row: usize, number: u32) {
        let first = &mut self.first[row];
        if *first == NONE {
            *first = number;
        } else if *first != number && !self.extra.contains(&(row as u16, number)) {
            self.extra.push((row as u16, number));
        }
    }

    /// Calls `each` with the numbers of a row.
    #[inline]
    pub(super) fn each(&self, row: usize, mut each: impl FnMut(u32)) {
        let first = self.first[row];
        if first == NONE {
            return;
        }
        each(first);
        if !self.extra.is_empty() {
            let from = self.extra.partition_point(|(found, _)| usize::from(*found) < row);
            let of_row =
                self.extra[from..].iter().take_while(|(found, _)| usize::from(*found) == row);
            of_row.for_each(|(_, number)| each(*number));
        }
    }
}

/// The values of one field that records are grouped by, each with a number.
#[derive(Debug)]
pub(super) struct GroupField {
    pub(super) by: GroupBy,
    texts: Interner,
    pub(super) keys: Vec<GroupKey>,
    of_int: HashMap<i64, u32, FoldState>,
    /// The number for records without a value.
    missing: Option<u32>,
    buffer: Vec<u8>,
    /// The unit of the field's numbers.
    unit: Option<Unit>,
}

/// Keys of groups that are not values; no value has such a text.
const MISSING_TEXT: &[u8] = b"\xff";
const TOTAL_TEXT: &[u8] = b"\xfe";
const REST_TEXT: &[u8] = b"\xfd";

impl GroupField {
    pub(super) fn new(by: &GroupBy) -> Self {
        Self {
            by: by.clone(),
            texts: Interner::default(),
            keys: Vec::new(),
            of_int: HashMap::default(),
            missing: None,
            buffer: Vec::new(),
            unit: None,
        }
    }

    /// Returns the total length of its texts, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        Self::bytes_of_texts(self.texts.texts().byte_count())
    }

    /// Returns the memory used by texts of this total length: each is stored for lookup and for
    /// output.
    pub(super) fn bytes_of_texts(bytes: usize) -> usize {
        2 * bytes
    }

    /// Returns the text that identifies a group.
    pub(super) fn text(&self, number: u32) -> &[u8] {
        self.texts.texts().get(number as usize)
    }

    /// Returns the number of a group by its text, adding it if needed.
    pub(super) fn number_of(&mut self, text: &[u8], key: impl FnOnce() -> GroupKey) -> u32 {
        let number = self.texts.intern(text);
        if number as usize == self.keys.len() {
            self.keys.push(key());
        }
        number
    }

    /// Returns the number for what was merged to save memory. It is not reported as a group, but
    /// counts towards the groups of the preceding fields.
    pub(super) fn rest(&mut self) -> u32 {
        self.number_of(REST_TEXT, || GroupKey::Total(String::new()))
    }

    /// Returns whether the number is the one for merged groups.
    pub(super) fn is_rest(&self, number: u32) -> bool {
        self.text(number) == REST_TEXT
    }

    /// Returns the number of a value; `None` when it is in no group.
    fn number(&mut self, value: Value<'_>) -> Option<u32> {
        if let Some(histogram) = self.by.histogram {
            let from = step_of(value, self.unit, histogram)?;
            return Some(self.number_of(from.to_string().as_bytes(), || GroupKey::From(from)));
        }
        if let Value::Int(whole) = value
            && let Some(known) = self.of_int.get(&whole)
        {
            return Some(*known);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let number = value
            .text(&mut buffer)
            .map(|text| self.number_of(text, || GroupKey::Value(value.into())));
        self.buffer = buffer;
        if let (Value::Int(whole), Some(number)) = (value, number) {
            self.of_int.insert(whole, number);
        }
        number
    }

    /// Returns the number of a text, or of a missing value.
    pub(super) fn number_of_text(&mut self, text: Option<&[u8]>) -> Option<u32> {
        match text {
            Some(text) => self.number(Value::Text(text)),
            None => self.missing(),
        }
    }

    fn missing(&mut self) -> Option<u32> {
        let name = self.by.missing.clone()?;
        if self.missing.is_none() {
            self.missing = Some(self.number_of(MISSING_TEXT, || GroupKey::Missing(name)));
        }
        self.missing
    }

    /// Returns the groups of the rows of the current page.
    pub(super) fn numbers(
        &mut self,
        at: &mut Evaluator,
        rows: &RowSet,
    ) -> Result<ByRow, SegmentError> {
        let mut found = ByRow::none(rows.len());
        self.unit = at.unit_of(&self.by.field);
        let mut left = rows.clone();
        for columns in at.columns_of(&self.by.field.clone())? {
            let mut present = RowSet::none(rows.len());
            for column in &columns {
                self.add_column(column, &left, &mut found);
                present.unite(&column.present(rows.len()));
            }
            left.subtract(&present);
            if left.is_empty() {
                break;
            }
        }
        if self.by.missing.is_some() {
            for row in rows.iter() {
                if found.first[row] == NONE {
                    found.first[row] = self.missing().unwrap_or(NONE);
                }
            }
        }
        if let Some(name) = self.by.total.clone() {
            let total = self.number_of(TOTAL_TEXT, || GroupKey::Total(name));
            let is_in_one = |row: &usize| found.first[*row] != NONE;
            found.extra.extend(rows.iter().filter(is_in_one).map(|row| (row as u16, total)));
        }
        // The columns were read one after the other.
        found.extra.sort_unstable();
        Ok(found)
    }

    fn add_column(&mut self, column: &Rc<Column>, rows: &RowSet, found: &mut ByRow) {
        let view = column.view();
        if let View::Codes(codes, dictionary) = view {
            // These rows may not contain all values of the dictionary.
            let mut numbers: Vec<Option<Option<u32>>> = vec![None; dictionary.len()];
            for (n, code) in codes.iter().enumerate() {
                let row = column.row(n);
                if !rows.contains(row) {
                    continue;
                }
                let Some(known) = numbers.get_mut(*code as usize) else { continue };
                let number =
                    *known.get_or_insert_with(|| self.number(entry(dictionary, *code as usize)));
                if let Some(number) = number {
                    found.add(row, number);
                }
            }
            return;
        }
        for n in 0..view.len() {
            let row = column.row(n);
            if rows.contains(row)
                && let Some(number) = self.number(view.value(n))
            {
                found.add(row, number);
            }
        }
    }
}

/// Returns the start of the histogram step that contains a number.
fn step_of(value: Value<'_>, unit: Option<Unit>, histogram: GroupHistogram) -> Option<f64> {
    let number = AggregateNumber::of(value, unit)?.float();
    let is_within = histogram.min <= number && number <= histogram.max;
    let step = ((number - histogram.min) / histogram.interval).floor();
    is_within.then_some(histogram.min + step * histogram.interval)
}

/// Values of rows that are added at once use at most this fraction of the memory for values.
pub(super) const PART_SHARE: usize = 4;

/// Splits the rows of a page into parts, between which memory can be freed. It is a single part,
/// unless the values of these fields are so long that those of the page would use more than
/// `part_bytes`.
pub(super) fn parts_of<'a>(
    at: &mut Evaluator,
    fields: impl Iterator<Item = &'a Field>,
    rows: &RowSet,
    part_bytes: usize,
) -> Result<Vec<RowSet>, SegmentError> {
    let mut bytes = 0;
    for field in fields {
        let columns = at.columns_of(field)?;
        let texts = columns.iter().flatten().map(|column| column.view().text_bytes());
        bytes += GroupField::bytes_of_texts(texts.sum());
    }
    let count = bytes.div_ceil(part_bytes.max(1)).clamp(1, rows.len().max(1));
    if count == 1 {
        return Ok(vec![rows.clone()]);
    }
    let step = rows.len().div_ceil(count);
    let part = |part| RowSet::of(rows.len(), |row| row / step == part && rows.contains(row));
    Ok((0..count).map(part).filter(|part| !part.is_empty()).collect())
}
