//! Plans the columns of a segment for some rows: the order of the rows, and the type of each
//! attribute's column.
//!
//! Invariant: whatever values an attribute has, they can be read back from where the plan puts
//! them. A column holds at most one value per row and no nulls. If a row has several values of a
//! path, or a null, all of them go to `_rest`, as do paths beyond the maximum number of columns.

use std::collections::BTreeMap;

use weir_codec::{Scalar, packed_frame, shorten_packed};
use weir_expr::{Dimension, Numeric, Value};

use super::chunk::{Chunk, Values};
use super::column::{Column, Fixed, Role, ValueKind};
use crate::embedded::columns::{CodeColumn, EXACT_INT_MAX, PathColumn, Rows, SparseTexts, Texts};
use crate::limits::{ATTRIBUTE_COLUMNS_MAX, PAGE_ROWS};

/// A text column gets a column of numbers only if at least one text in this many is a number.
const NUMBER_SHARE: usize = 16;

/// Number of texts after which a path with too few numbers is given up.
const NUMBER_SAMPLE: usize = 1024;

/// What the attribute's column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Int,
    Double,
    Bool,
    Text,
    /// Texts of values of several types, with the type of each in a second column.
    Mixed,
}

/// What is known about the values of a path.
#[derive(Debug, Default)]
struct ValueStats {
    bools: usize,
    ints: usize,
    floats: usize,
    texts: usize,
    has_large_int: bool,
    numbers: usize,
    /// The dimension that all of its numbers share.
    dimension: Option<Dimension>,
    /// The numbers have several dimensions, are not exact as floats, or are too few.
    no_numbers: bool,
}

impl ValueStats {
    fn of(column: &PathColumn) -> Self {
        let mut facts = Self::default();
        let is_plain = is_one_per_row(column);
        if is_plain && let Some(ints) = column.ints() {
            facts.ints = ints.len();
            let is_large = |n: &i64| n.unsigned_abs() > EXACT_INT_MAX.unsigned_abs();
            facts.has_large_int = ints.iter().any(is_large);
            facts.no_numbers = true;
            return facts;
        }
        for (index, value) in single_values(column) {
            if facts.no_numbers && is_plain && column.has_only_texts() {
                // The remaining values are like this one.
                facts.texts += column.rows().len() - index;
                break;
            }
            facts.add(value);
        }
        facts.no_numbers |=
            facts.texts == 0 || facts.numbers == 0 || facts.numbers * NUMBER_SHARE < facts.total();
        facts
    }

    fn total(&self) -> usize {
        self.bools + self.ints + self.floats + self.texts
    }

    fn add(&mut self, value: Scalar<'_>) {
        match value {
            Scalar::Null => return,
            Scalar::Bool(_) => self.bools += 1,
            Scalar::Int(number) => {
                self.ints += 1;
                self.has_large_int |= number.unsigned_abs() > EXACT_INT_MAX.unsigned_abs();
            }
            Scalar::Float(_) => self.floats += 1,
            Scalar::Text(_) => self.texts += 1,
        }
        if self.no_numbers {
            return;
        }
        if let Some((_, dimension, is_exact)) = number_of(value) {
            let is_first = self.numbers == 0;
            self.numbers += 1;
            self.dimension = if is_first { dimension } else { self.dimension };
            self.no_numbers |= self.dimension != dimension || !is_exact;
        }
        let total = self.total();
        self.no_numbers |= total >= NUMBER_SAMPLE && self.numbers * NUMBER_SHARE < total;
    }

    fn storage(&self) -> Option<Storage> {
        Some(match (self.bools, self.ints, self.floats, self.texts) {
            (0, 0, 0, 0) => return None,
            (0, _, 0, 0) => Storage::Int,
            (0, _, _, 0) if !self.has_large_int => Storage::Double,
            (_, 0, 0, 0) => Storage::Bool,
            (0, 0, 0, _) => Storage::Text,
            _ => Storage::Mixed,
        })
    }
}

/// Returns the value as a float, its dimension, and whether the float is exact.
fn number_of(value: Scalar<'_>) -> Option<(f64, Option<Dimension>, bool)> {
    let value = match value {
        Scalar::Int(number) => Value::Int(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Text(text) => Value::Text(text),
        Scalar::Null | Scalar::Bool(_) => return None,
    };
    let number = value.number()?;
    Some(match number.value {
        Numeric::Int(whole) => {
            (whole as f64, number.dimension, whole.unsigned_abs() <= EXACT_INT_MAX.unsigned_abs())
        }
        Numeric::Float(float) => (float, number.dimension, true),
    })
}

/// Returns index and value of the values that are the only one in their row and not null.
fn single_values(column: &PathColumn) -> impl Iterator<Item = (usize, Scalar<'_>)> {
    (0..column.rows().len())
        .filter(|index| is_single(column.rows(), *index))
        .map(|index| (index, column.value(index)))
        .filter(|(_, value)| *value != Scalar::Null)
}

/// Returns whether no row has two values.
fn is_one_per_row(column: &PathColumn) -> bool {
    column.rows().is_sorted_by(|a, b| a < b)
}

fn is_single(rows: &[u32], index: usize) -> bool {
    let row = rows[index];
    let before = index.checked_sub(1).map(|before| rows[before]);
    before != Some(row) && rows.get(index + 1) != Some(&row)
}

/// The origin of a column's values.
#[derive(Debug)]
enum ColumnSource {
    Fixed(Fixed),
    /// The path with that index, and how it is stored.
    Attribute(usize, Storage),
    Number(usize),
    Kind(usize),
    Rest,
    Raw,
    Received,
    Arrival,
}

/// How rows become a row group.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    rows: &'a Rows,
    /// The row at each position.
    order: Vec<u32>,
    sources: Vec<ColumnSource>,
    columns: Vec<Column>,
    /// The dimensions of the numbers among the texts of a path.
    pub(super) units: BTreeMap<String, Dimension>,
    /// By original row number: the JSON of `_rest`.
    rest: BTreeMap<u32, Vec<u8>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(rows: &'a Rows) -> Self {
        let mut plan = Self {
            rows,
            order: order_of(rows),
            sources: Vec::new(),
            columns: Vec::new(),
            units: BTreeMap::new(),
            rest: BTreeMap::new(),
        };
        for fixed in Fixed::ALL {
            plan.add(ColumnSource::Fixed(*fixed), Column::fixed(*fixed));
        }
        plan.add_attributes();
        if !plan.rest.is_empty() {
            plan.add(ColumnSource::Rest, Column::optional(Role::Rest, ValueKind::Text));
        }
        if !rows.originals.is_empty() {
            plan.add(ColumnSource::Raw, Column::optional(Role::Raw, ValueKind::Bytes));
        }
        if !rows.received.is_empty() {
            plan.add(ColumnSource::Received, Column::optional(Role::Received, ValueKind::Bytes));
        }
        if !rows.arrivals.is_empty() {
            plan.add(ColumnSource::Arrival, Column::optional(Role::Arrival, ValueKind::Int));
        }
        plan
    }

    fn add(&mut self, source: ColumnSource, column: Column) {
        self.sources.push(source);
        self.columns.push(column);
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn add_attributes(&mut self) {
        let paths = self.rows.paths();
        let mut by_size: Vec<usize> = (0..paths.len()).collect();
        by_size.sort_by_key(|index| {
            (std::cmp::Reverse(paths[*index].value_bytes()), paths[*index].path())
        });
        let mut chosen = by_size[..by_size.len().min(ATTRIBUTE_COLUMNS_MAX)].to_vec();
        chosen.sort_by_key(|index| paths[*index].path());
        let mut is_chosen = vec![false; paths.len()];
        for index in chosen {
            let facts = ValueStats::of(&paths[index]);
            let Some(storage) = facts.storage() else { continue };
            is_chosen[index] = true;
            self.add_attribute(index, storage, &facts);
        }
        self.fill_rest(&is_chosen);
    }

    fn add_attribute(&mut self, index: usize, storage: Storage, facts: &ValueStats) {
        let path = self.rows.paths()[index].path().to_owned();
        let kind = match storage {
            Storage::Int => ValueKind::Int,
            Storage::Double => ValueKind::Double,
            Storage::Bool => ValueKind::Bool,
            Storage::Text | Storage::Mixed => ValueKind::Text,
        };
        let role = Role::Attribute(path.clone());
        self.add(ColumnSource::Attribute(index, storage), Column::optional(role, kind));
        if storage == Storage::Mixed {
            let role = Role::Kind(path.clone());
            self.add(ColumnSource::Kind(index), Column::optional(role, ValueKind::Int));
        }
        if !facts.no_numbers {
            if let Some(dimension) = facts.dimension {
                self.units.insert(path.clone(), dimension);
            }
            let role = Role::Number(path);
            self.add(ColumnSource::Number(index), Column::optional(role, ValueKind::Double));
        }
    }

    /// Writes the values that have no place in a column, row by row, paths in order.
    fn fill_rest(&mut self, is_chosen: &[bool]) {
        // Entries are sorted by the rank of their path, which is cheaper than comparing paths.
        let mut names: Vec<&str> = self.rows.paths().iter().map(PathColumn::path).collect();
        names.extend(self.rows.spilled().iter().map(|(_, path, _)| path));
        names.sort_unstable();
        names.dedup();
        let place = |path: &str| names.binary_search(&path).unwrap_or_default() as u32;
        let spilled = self.rows.spilled().iter();
        let mut entries: Vec<(u32, u32, Scalar<'_>)> =
            spilled.map(|(row, path, value)| (row, place(path), value)).collect();
        for (column, is_chosen) in self.rows.paths().iter().zip(is_chosen) {
            let place = place(column.path());
            for (index, row) in column.rows().iter().enumerate() {
                let value = column.value(index);
                let has_place =
                    *is_chosen && is_single(column.rows(), index) && value != Scalar::Null;
                if !has_place {
                    entries.push((*row, place, value));
                }
            }
        }
        // A stable sort: values of a path stay in order.
        entries.sort_by_key(|(row, place, _)| u64::from(*row) << 32 | u64::from(*place));
        for row in entries.chunk_by(|a, b| a.0 == b.0) {
            let mut json = vec![b'{'];
            for (number, values) in row.chunk_by(|a, b| a.1 == b.1).enumerate() {
                let path = names.get(values[0].1 as usize).copied().unwrap_or_default();
                write_member(number > 0, path, values, &mut json);
            }
            json.push(b'}');
            self.rest.insert(row[0].0, json);
        }
    }

    /// Returns the values of a column, in file order. `texts` holds those that are created here.
    pub(super) fn chunk<'b>(&'b self, column: usize, texts: &'b mut Texts) -> Chunk<'b> {
        match &self.sources[column] {
            ColumnSource::Fixed(fixed) => self.fixed_chunk(*fixed),
            ColumnSource::Attribute(index, storage) => {
                self.attribute_chunk(*index, *storage, texts)
            }
            ColumnSource::Number(index) => self.sparse(
                *index,
                |value| number_of(value).map(|(number, ..)| number),
                Values::Double,
            ),
            ColumnSource::Kind(index) => self.sparse(*index, kind_of, Values::Int),
            ColumnSource::Rest => {
                self.optional(|row| self.rest.get(&row).map(Vec::as_slice), Values::Text)
            }
            ColumnSource::Raw => self.optional(|row| self.original(row), Values::Text),
            ColumnSource::Received => self.received_chunk(texts),
            ColumnSource::Arrival => {
                self.optional(|row| self.rows.arrivals.get(row as usize), Values::Int)
            }
        }
    }

    /// Returns the bytes in which records were received. What they share with those before them on
    /// the same page is left out.
    fn received_chunk<'b>(&'b self, texts: &'b mut Texts) -> Chunk<'b> {
        *texts = Texts::default();
        let (mut frame, mut short) = (None, Vec::new());
        let mut numbers = vec![u32::MAX; self.rows.len()];
        for (place, row) in self.order.iter().enumerate() {
            if place % PAGE_ROWS == 0 {
                frame = None;
            }
            let Some(packed) = self.rows.received.get(*row as usize) else { continue };
            let own = packed_frame(packed);
            numbers[*row as usize] = texts.len() as u32;
            if own.is_some() && own == frame {
                short.clear();
                shorten_packed(packed, &mut short);
                texts.push(&short);
            } else {
                texts.push(packed);
                frame = own.or(frame);
            }
        }
        let texts: &'b Texts = texts;
        let text = move |row: u32| {
            let number = numbers.get(row as usize).filter(|number| **number != u32::MAX)?;
            Some(texts.get(*number as usize))
        };
        self.optional(text, Values::Text)
    }

    fn original(&self, row: u32) -> Option<&[u8]> {
        let originals = &self.rows.originals;
        let at = originals.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        Some(originals[at].1.as_bytes())
    }

    fn fixed_chunk(&self, fixed: Fixed) -> Chunk<'_> {
        let rows = self.rows;
        let code = |column: &'a CodeColumn| {
            let coded = |codes| Values::Coded(codes, column.texts());
            self.optional(move |row| column.code(row as usize), coded)
        };
        let sparse = |column: &'a SparseTexts| {
            self.optional(move |row| column.get(row as usize), Values::Text)
        };
        match fixed {
            Fixed::Time => self.required(|row| rows.time_ns[row]),
            Fixed::Sequence => self.required(|row| rows.sequence[row].cast_signed()),
            Fixed::Stream => self.required(|row| rows.stream[row].cast_signed()),
            Fixed::Epoch => self.required(|row| i64::from(rows.epoch[row])),
            Fixed::Offset => self.required(|row| rows.offset[row].cast_signed()),
            Fixed::Form => self.required(|row| rows.form[row].cast_signed()),
            Fixed::Service => code(&rows.service),
            Fixed::Host => code(&rows.host),
            Fixed::Source => code(&rows.source),
            Fixed::Status => code(&rows.status),
            Fixed::Tags => code(&rows.tags),
            Fixed::Resource => code(&rows.resource),
            Fixed::Message => sparse(&rows.message),
            Fixed::TraceId => sparse(&rows.trace_id),
            Fixed::SpanId => sparse(&rows.span_id),
        }
    }

    fn required(&self, value: impl Fn(usize) -> i64) -> Chunk<'_> {
        let values = self.order.iter().map(|row| value(*row as usize)).collect();
        Chunk::all(Values::Int(values))
    }

    fn optional<'b, T>(
        &self,
        value: impl Fn(u32) -> Option<T>,
        values: impl FnOnce(Vec<T>) -> Values<'b>,
    ) -> Chunk<'b> {
        let rows = self.order.len();
        let mut found = Vec::with_capacity(rows);
        found.extend(self.order.iter().map_while(|row| value(*row)));
        if found.len() == rows {
            return Chunk { present: None, rows, values: values(found) };
        }
        let mut present = vec![true; rows];
        let after = found.len();
        for (is_present, row) in present.iter_mut().zip(&self.order).skip(after) {
            match value(*row) {
                Some(value) => found.push(value),
                None => *is_present = false,
            }
        }
        Chunk { present: Some(present), rows, values: values(found) }
    }

    /// Builds a chunk of the values that are the only one in their row.
    fn sparse<'b, T>(
        &'b self,
        index: usize,
        convert: impl Fn(Scalar<'b>) -> Option<T>,
        values: impl FnOnce(Vec<T>) -> Values<'b>,
    ) -> Chunk<'b> {
        let column = &self.rows.paths()[index];
        let is_dense = column.rows().len() == self.rows.len() && is_one_per_row(column);
        if is_dense && column.has_one_type() {
            return self.optional(|row| convert(column.value(row as usize)), values);
        }
        let mut number_of_row = vec![u32::MAX; self.rows.len()];
        for (number, _) in single_values(column) {
            number_of_row[column.rows()[number] as usize] = number as u32;
        }
        let value = |row: u32| {
            let number = number_of_row[row as usize];
            (number != u32::MAX).then(|| convert(column.value(number as usize)))?
        };
        self.optional(value, values)
    }

    fn attribute_chunk<'b>(
        &'b self,
        index: usize,
        storage: Storage,
        texts: &'b mut Texts,
    ) -> Chunk<'b> {
        match storage {
            Storage::Int => self.sparse(index, as_int, Values::Int),
            Storage::Double => self.sparse(index, as_double, Values::Double),
            Storage::Bool => self.sparse(index, as_bool, Values::Bool),
            Storage::Text => self.sparse(index, as_text, Values::Text),
            Storage::Mixed => {
                let column = &self.rows.paths()[index];
                *texts = Texts::default();
                let mut text = Vec::new();
                for number in 0..column.rows().len() {
                    write_text(column.value(number), &mut text);
                    texts.push(&text);
                }
                let texts: &'b Texts = texts;
                let numbers = self.sparse_numbers(index);
                let found = numbers.1.iter().map(|number| texts.get(*number as usize)).collect();
                Chunk { values: Values::Text(found), ..numbers.0 }
            }
        }
    }

    /// Returns which rows have a value of the path, and the index of each value.
    fn sparse_numbers(&self, index: usize) -> (Chunk<'_>, Vec<u32>) {
        let column = &self.rows.paths()[index];
        let mut number_of_row = vec![u32::MAX; self.rows.len()];
        for (number, _) in single_values(column) {
            number_of_row[column.rows()[number] as usize] = number as u32;
        }
        let numbers: Vec<u32> = self.order.iter().map(|row| number_of_row[*row as usize]).collect();
        let present = numbers.iter().map(|number| *number != u32::MAX).collect();
        let found = numbers.into_iter().filter(|number| *number != u32::MAX).collect();
        let rows = self.order.len();
        (Chunk { present: Some(present), rows, values: Values::Bool(Vec::new()) }, found)
    }
}

fn as_int(value: Scalar<'_>) -> Option<i64> {
    if let Scalar::Int(number) = value { Some(number) } else { None }
}

fn as_double(value: Scalar<'_>) -> Option<f64> {
    match value {
        Scalar::Int(number) => Some(number as f64),
        Scalar::Float(number) => Some(number),
        _ => None,
    }
}

fn as_bool(value: Scalar<'_>) -> Option<bool> {
    if let Scalar::Bool(truth) = value { Some(truth) } else { None }
}

fn as_text(value: Scalar<'_>) -> Option<&[u8]> {
    if let Scalar::Text(text) = value { Some(text) } else { None }
}

/// Returns the number for a value's type in a column of kinds.
fn kind_of(value: Scalar<'_>) -> Option<i64> {
    match value {
        Scalar::Null => None,
        Scalar::Text(_) => Some(0),
        Scalar::Int(_) => Some(1),
        Scalar::Float(_) => Some(2),
        Scalar::Bool(_) => Some(3),
    }
}

/// Parses the text of a value of the given kind.
pub(crate) fn value_of_kind(kind: i64, text: &[u8]) -> Option<Scalar<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    Some(match kind {
        0 => Scalar::Text(text.as_bytes()),
        1 => Scalar::Int(text.parse().ok()?),
        2 => Scalar::Float(text.parse().ok()?),
        3 => Scalar::Bool(text == "true"),
        _ => return None,
    })
}

/// Writes the text of a value in a column of several types, so that it can be parsed again.
fn write_text(value: Scalar<'_>, out: &mut Vec<u8>) {
    out.clear();
    match value {
        Scalar::Null => {}
        Scalar::Text(text) => out.extend_from_slice(text),
        value => value.write_json(out),
    }
}

fn write_member(
    has_one_before: bool,
    path: &str,
    values: &[(u32, u32, Scalar<'_>)],
    json: &mut Vec<u8>,
) {
    if has_one_before {
        json.push(b',');
    }
    Scalar::Text(path.as_bytes()).write_json(json);
    json.push(b':');
    if let [(_, _, value)] = values {
        return value.write_json(json);
    }
    for (number, (_, _, value)) in values.iter().enumerate() {
        json.push(if number == 0 { b'[' } else { b',' });
        value.write_json(json);
    }
    json.push(b']');
}

/// Returns the order of rows in a row group: by service, host, source and stream, then by time.
/// Rows of a stream with equal times stay in order of arrival.
fn order_of(rows: &Rows) -> Vec<u32> {
    let mut group_of = std::collections::HashMap::new();
    let mut groups = Vec::new();
    let mut last = None;
    let mut keys: Vec<(u32, i64, u64, u32)> = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let key =
            (rows.service.code(row), rows.host.code(row), rows.source.code(row), rows.stream[row]);
        // Neighboring rows are usually from the same batch.
        let group = match last {
            Some((known, group)) if known == key => group,
            _ => *group_of.entry(key).or_insert_with(|| {
                groups.push(row);
                groups.len() as u32 - 1
            }),
        };
        last = Some((key, group));
        keys.push((group, rows.time_ns[row], rows.sequence[row], row as u32));
    }
    let mut by_name: Vec<u32> = (0..groups.len() as u32).collect();
    by_name.sort_by_key(|group| {
        let row = groups[*group as usize];
        (rows.service.text(row), rows.host.text(row), rows.source.text(row), rows.stream[row])
    });
    let mut rank = vec![0; groups.len()];
    for (place, group) in by_name.into_iter().enumerate() {
        rank[group as usize] = place as u32;
    }
    for key in &mut keys {
        key.0 = rank[key.0 as usize];
    }
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, _, row)| row).collect()
}
