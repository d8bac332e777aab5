//! The values of one attribute path.

use std::cmp::Ordering;
use std::ops::Range;

use weir_codec::Scalar;

use super::texts::{Texts, allocated_bytes};

/// Integers up to this magnitude are exact as floats, and floats up to it as integers.
pub(crate) const EXACT_INT_MAX: i64 = 1 << 53;

/// Returns the value in the form in which the store keeps it. Numbers are normalized: `1.0` becomes
/// the integer 1, `-0` becomes 0, and a number that is not finite becomes null.
#[inline]
pub fn canonical(value: Scalar<'_>) -> Scalar<'_> {
    let Scalar::Float(number) = value else { return value };
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_INT_MAX as f64;
    if !number.is_finite() {
        Scalar::Null
    } else if is_whole {
        Scalar::Int(number as i64)
    } else {
        value
    }
}

/// A value of any type; texts are indexes into a [`Texts`].
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(u32),
}

#[derive(Debug, Clone)]
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Texts),
    /// At least two types, or nulls.
    Any(Vec<Cell>, Texts),
}

impl Values {
    fn of(value: Scalar<'_>) -> Self {
        match value {
            Scalar::Null => Self::Any(Vec::new(), Texts::default()),
            Scalar::Bool(_) => Self::Bool(Vec::new()),
            Scalar::Int(_) => Self::Int(Vec::new()),
            Scalar::Float(_) => Self::Float(Vec::new()),
            Scalar::Text(_) => Self::Text(Texts::default()),
        }
    }

    #[inline]
    fn push(&mut self, value: Scalar<'_>) {
        match (&mut *self, value) {
            (Self::Bool(values), Scalar::Bool(truth)) => values.push(truth),
            (Self::Int(values), Scalar::Int(number)) => values.push(number),
            (Self::Float(values), Scalar::Float(number)) => values.push(number),
            (Self::Text(values), Scalar::Text(text)) => values.push(text),
            (Self::Any(cells, texts), value) => cells.push(match value {
                Scalar::Null => Cell::Null,
                Scalar::Bool(truth) => Cell::Bool(truth),
                Scalar::Int(number) => Cell::Int(number),
                Scalar::Float(number) => Cell::Float(number),
                Scalar::Text(text) => {
                    texts.push(text);
                    Cell::Text(texts.len() as u32 - 1)
                }
            }),
            _ => {
                self.widen();
                self.push(value);
            }
        }
    }

    /// Switches to the representation that takes values of every type.
    fn widen(&mut self) {
        let (cells, texts) = match std::mem::replace(self, Self::Bool(Vec::new())) {
            Self::Bool(values) => (values.into_iter().map(Cell::Bool).collect(), Texts::default()),
            Self::Int(values) => (values.into_iter().map(Cell::Int).collect(), Texts::default()),
            Self::Float(values) => {
                (values.into_iter().map(Cell::Float).collect(), Texts::default())
            }
            Self::Text(texts) => ((0..texts.len() as u32).map(Cell::Text).collect(), texts),
            Self::Any(cells, texts) => (cells, texts),
        };
        *self = Self::Any(cells, texts);
    }

    #[inline]
    fn get(&self, index: usize) -> Scalar<'_> {
        match self {
            Self::Bool(values) => values.get(index).map_or(Scalar::Null, |v| Scalar::Bool(*v)),
            Self::Int(values) => values.get(index).map_or(Scalar::Null, |v| Scalar::Int(*v)),
            Self::Float(values) => values.get(index).map_or(Scalar::Null, |v| Scalar::Float(*v)),
            Self::Text(texts) => Scalar::Text(texts.get(index)),
            Self::Any(cells, texts) => match cells.get(index) {
                Some(Cell::Bool(truth)) => Scalar::Bool(*truth),
                Some(Cell::Int(number)) => Scalar::Int(*number),
                Some(Cell::Float(number)) => Scalar::Float(*number),
                Some(Cell::Text(text)) => Scalar::Text(texts.get(*text as usize)),
                Some(Cell::Null) | None => Scalar::Null,
            },
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Bool(values) => allocated_bytes(values),
            Self::Int(values) => allocated_bytes(values),
            Self::Float(values) => allocated_bytes(values),
            Self::Text(texts) => texts.memory_bytes(),
            Self::Any(cells, texts) => allocated_bytes(cells) + texts.memory_bytes(),
        }
    }
}

/// The values of one path, with the row of each. Several values of one row are adjacent.
#[derive(Debug, Clone)]
pub struct PathColumn {
    path: String,
    rows: Vec<u32>,
    values: Values,
    value_bytes: usize,
}

impl PathColumn {
    /// Creates a column for a path; `first` determines the initial type.
    pub(super) fn new(path: &str, first: Scalar<'_>) -> Self {
        let values = Values::of(canonical(first));
        Self { path: path.to_owned(), rows: Vec::new(), values, value_bytes: 0 }
    }

    /// Adds a value to a row, which must not be before the last one.
    #[inline]
    pub(super) fn push(&mut self, row: u32, value: Scalar<'_>) {
        self.value_bytes += match value {
            Scalar::Text(text) => 4 + text.len(),
            _ => 8,
        };
        self.rows.push(row);
        self.values.push(canonical(value));
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the row of each value, in order.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the value with that index (not of that row), in its canonical form.
    #[inline]
    pub fn value(&self, index: usize) -> Scalar<'_> {
        self.values.get(index)
    }

    /// Returns the values, if all are integers.
    pub(crate) fn ints(&self) -> Option<&[i64]> {
        if let Values::Int(values) = &self.values { Some(values) } else { None }
    }

    /// Returns whether all values are texts.
    pub(crate) fn has_only_texts(&self) -> bool {
        matches!(self.values, Values::Text(_))
    }

    /// Returns whether all values are of one type and none is null.
    pub(crate) fn has_one_type(&self) -> bool {
        !matches!(self.values, Values::Any(..))
    }

    /// Returns the total bytes of the values, which decide which paths get a column of their own.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Calls `each` for the values of some rows, which must be in order, with the index of the row
    /// in `rows` and the value.
    pub(super) fn each_of_rows<'a>(
        &'a self,
        rows: &[usize],
        mut each: impl FnMut(usize, Scalar<'a>),
    ) {
        let (mut place, mut number) = (0, 0);
        while let (Some(row), Some(found)) = (rows.get(place), self.rows.get(number)) {
            let found = *found as usize;
            match found.cmp(row) {
                Ordering::Less => {
                    number += ahead(&self.rows[number..], |found| (*found as usize) < *row);
                }
                Ordering::Greater => place += ahead(&rows[place..], |row| *row < found),
                Ordering::Equal => {
                    each(place, self.value(number));
                    number += 1;
                }
            }
        }
    }

    /// Returns the indexes of the values of some rows.
    pub(crate) fn values_of_rows(&self, rows: Range<u32>) -> Range<usize> {
        let before = |row: u32| self.rows.partition_point(|found| *found < row);
        before(rows.start)..before(rows.end)
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.path.capacity()
            + allocated_bytes(&self.rows)
            + self.values.memory_bytes()
    }
}

/// Returns how many of the leading items, which are sorted, come before the item sought. Fast when
/// they are few.
fn ahead<T>(items: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let (mut from, mut step) = (0, 1);
    while items.get(from + step).is_some_and(&is_before) {
        from += step;
        step *= 2;
    }
    let end = items.len().min(from + step);
    from + items[from..end].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stored_by_value_not_spelling() {
        assert_eq!(canonical(Scalar::Float(1.0)), Scalar::Int(1));
        assert_eq!(canonical(Scalar::Float(-0.0)), Scalar::Int(0));
        assert_eq!(canonical(Scalar::Float(0.0)), Scalar::Int(0));
        assert_eq!(canonical(Scalar::Float(1e300)), Scalar::Float(1e300));
        assert_eq!(canonical(Scalar::Float(f64::NAN)), Scalar::Null);
        assert_eq!(canonical(Scalar::Text(b"007")), Scalar::Text(b"007"));
    }

    #[test]
    fn path_column_takes_values_of_every_type() {
        let values = [
            Scalar::Int(1),
            Scalar::Text(b"007"),
            Scalar::Null,
            Scalar::Bool(true),
            Scalar::Float(0.5),
            Scalar::Text(b""),
        ];
        let mut column = PathColumn::new("a", values[0]);
        for (row, value) in values.iter().enumerate() {
            column.push(row as u32 / 2, *value);
        }
        let found: Vec<_> = (0..values.len()).map(|index| column.value(index)).collect();
        assert_eq!(found, values);
        let mut found = Vec::new();
        column.each_of_rows(&[1, 7], |place, value| found.push((place, value)));
        assert_eq!(found, [(0, values[2]), (0, values[3])]);
    }

    #[test]
    fn values_of_some_rows_equal_the_values_of_each() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let mut some = |share: u32| -> Vec<usize> {
                (0..rng.usize(1..300)).filter(|_| rng.u32(..100) < share).collect()
            };
            let (of_column, asked) = (some(30), some(10));
            let mut column = PathColumn::new("a", Scalar::Int(0));
            for row in &of_column {
                (0..=row % 3)
                    .for_each(|n| column.push(*row as u32, Scalar::Int((row * 10 + n) as i64)));
            }
            let mut found = Vec::new();
            column.each_of_rows(&asked, |place, value| found.push((place, value)));
            let places = asked.iter().enumerate().filter(|(_, row)| of_column.contains(row));
            let wanted: Vec<_> = places
                .flat_map(|(place, row)| {
                    (0..=row % 3).map(move |n| (place, Scalar::Int((row * 10 + n) as i64)))
                })
                .collect();
            assert_eq!(found, wanted);
        }
    }
}
