//! Accumulators for each group, and the results computed from them.

use std::cell::RefCell;

use super::column::{Column, View, entry};
use super::group::{ByRow, NONE};
use super::row_set::RowSet;
use super::sketch::{Distinct, SKETCH_BYTES, Sketch};
use crate::embedded::hash::hash_bytes;
use crate::query::{Aggregation, Compute, ComputeValue};
use weir_expr::{Field, Numeric, Unit, Value};

/// What is accumulated for an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccumulatorKind {
    /// Number of records.
    Rows,
    /// Number of values.
    Values,
    Numbers,
    Distinct,
    Sketch,
}

/// An accumulator, used by one or more of the requested aggregates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AccumulatorSpec {
    pub(super) kind: AccumulatorKind,
    pub(super) field: Option<Field>,
    pub(super) interval_ns: Option<i64>,
}

impl AccumulatorSpec {
    /// Counts records.
    pub(super) const ROWS: Self =
        Self { kind: AccumulatorKind::Rows, field: None, interval_ns: None };

    pub(super) fn of(compute: &Compute) -> Self {
        let of_field = match compute.aggregation {
            Aggregation::Count => AccumulatorKind::Values,
            Aggregation::Cardinality => AccumulatorKind::Distinct,
            Aggregation::Percentile(_) => AccumulatorKind::Sketch,
            Aggregation::Sum | Aggregation::Average | Aggregation::Min | Aggregation::Max => {
                AccumulatorKind::Numbers
            }
        };
        let kind = if compute.field.is_some() { of_field } else { AccumulatorKind::Rows };
        Self { kind, field: compute.field.clone(), interval_ns: compute.interval_ns }
    }
}

/// A number to add.
#[derive(Debug, Clone, Copy)]
pub(super) enum AggregateNumber {
    Whole(i64),
    Float(f64),
}

impl AggregateNumber {
    /// Returns the value as a number in the unit of its field, if it is one or can be parsed as
    /// one.
    pub(super) fn of(value: Value<'_>, unit: Option<Unit>) -> Option<Self> {
        Some(match value.number_in(unit)? {
            Numeric::Int(whole) => Self::Whole(whole),
            Numeric::Float(float) => Self::Float(float),
        })
    }

    #[inline]
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }
}

/// Numbers of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberStats {
    count: u64,
    /// Sum of the integers: exact, and faster than floats, where each addition waits for the
    /// previous one.
    whole: i128,
    sum: f64,
    /// What the sum has lost by rounding (Kahan and Neumaier), so that sums hardly depend on the
    /// order.
    lost: f64,
    least: f64,
    most: f64,
}

impl Default for NumberStats {
    fn default() -> Self {
        let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, whole: 0, sum: 0.0, lost: 0.0, least, most }
    }
}

impl NumberStats {
    #[inline]
    pub(super) fn add(&mut self, number: AggregateNumber) {
        self.count += 1;
        match number {
            AggregateNumber::Whole(whole) => self.whole += i128::from(whole),
            AggregateNumber::Float(float) => self.add_to_sum(float),
        }
        let float = number.float();
        self.least = self.least.min(float);
        self.most = self.most.max(float);
    }

    #[inline]
    fn add_to_sum(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() {
            (self.sum - sum) + number
        } else {
            (number - sum) + self.sum
        };
        self.sum = sum;
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.whole += other.whole;
        self.add_to_sum(other.sum);
        self.lost += other.lost;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    fn total(&self) -> f64 {
        // The correction is not a number once the sum is infinite.
        let floats = if self.sum.is_finite() { self.sum + self.lost } else { self.sum };
        self.whole as f64 + floats
    }
}

/// An accumulator of many cells: a cell is a group, or a time bucket of a group.
#[derive(Debug, Clone)]
pub(super) enum Accumulators {
    Counts(Vec<u64>),
    Numbers(Vec<NumberStats>),
    Distinct(Vec<Distinct>),
    Sketches(Vec<Sketch>),
}

impl Accumulators {
    pub(super) fn new(kind: AccumulatorKind) -> Self {
        match kind {
            AccumulatorKind::Rows | AccumulatorKind::Values => Self::Counts(Vec::new()),
            AccumulatorKind::Numbers => Self::Numbers(Vec::new()),
            AccumulatorKind::Distinct => Self::Distinct(Vec::new()),
            AccumulatorKind::Sketch => Self::Sketches(Vec::new()),
        }
    }

    /// Returns the initial memory use of a cell in bytes.
    pub(super) fn cell_bytes(&self) -> usize {
        match self {
            Self::Counts(_) => size_of::<u64>(),
            Self::Numbers(_) => size_of::<NumberStats>(),
            Self::Distinct(_) => size_of::<Distinct>(),
            Self::Sketches(_) => size_of::<Sketch>() + SKETCH_BYTES,
        }
    }

    /// Grows to `count` cells.
    pub(super) fn resize(&mut self, count: usize) {
        match self {
            Self::Counts(cells) => cells.resize(count, 0),
            Self::Numbers(cells) => cells.resize(count, NumberStats::default()),
            Self::Distinct(cells) => cells.resize_with(count, Distinct::default),
            Self::Sketches(cells) => cells.resize_with(count, Sketch::default),
        }
    }

    /// Adds a cell of `other` to one of these.
    pub(super) fn merge(&mut self, cell: usize, other: &Self, other_cell: usize) {
        // A match over `self` alone, so that a new kind cannot be forgotten.
        match self {
            Self::Counts(cells) => {
                let Self::Counts(others) = other else { return different_kinds() };
                cells[cell] += others[other_cell];
            }
            Self::Numbers(cells) => {
                let Self::Numbers(others) = other else { return different_kinds() };
                cells[cell].merge(&others[other_cell]);
            }
            Self::Distinct(cells) => {
                let Self::Distinct(others) = other else { return different_kinds() };
                cells[cell].merge(&others[other_cell]);
            }
            Self::Sketches(cells) => {
                let Self::Sketches(others) = other else { return different_kinds() };
                cells[cell].merge(&others[other_cell]);
            }
        }
    }

    /// Adds the values of a column to the cells of their rows; numbers are in the unit of the
    /// field.
    pub(super) fn add_column(
        &mut self,
        column: &Column,
        unit: Option<Unit>,
        rows: &RowSet,
        cells: &ByRow,
    ) {
        match self {
            Self::Counts(counts) => {
                let count = column.view().len();
                each_cell(column, rows, cells, count, |_| Some(()), |cell, ()| counts[cell] += 1);
            }
            Self::Numbers(numbers) => {
                add_numbers(column, unit, rows, cells, |cell, number| numbers[cell].add(number));
            }
            Self::Sketches(sketches) => {
                add_numbers(column, unit, rows, cells, |cell, number| {
                    sketches[cell].add(number.float());
                });
            }
            Self::Distinct(distinct) => {
                let view = column.view();
                let buffer = RefCell::new(Vec::new());
                let hash = |n| view.value(n).text(&mut buffer.borrow_mut()).map(hash_bytes);
                each_cell(column, rows, cells, view.len(), hash, |cell, hash| {
                    distinct[cell].add(hash);
                });
            }
        }
    }

    /// Returns the aggregate over some cells.
    pub(super) fn value(&self, aggregation: Aggregation, cells: &[u32]) -> ComputeValue {
        let cells = cells.iter().map(|cell| *cell as usize);
        match self {
            Self::Counts(counts) => ComputeValue::Count(cells.map(|cell| counts[cell]).sum()),
            Self::Numbers(numbers) => {
                let mut all = NumberStats::default();
                cells.for_each(|cell| all.merge(&numbers[cell]));
                if all.count == 0 {
                    return ComputeValue::None;
                }
                match aggregation {
                    Aggregation::Sum => ComputeValue::Number(all.total()),
                    Aggregation::Average => ComputeValue::Number(all.total() / all.count as f64),
                    Aggregation::Min => ComputeValue::Number(all.least),
                    Aggregation::Max => ComputeValue::Number(all.most),
                    Aggregation::Count | Aggregation::Cardinality | Aggregation::Percentile(_) => {
                        debug_assert!(false, "{aggregation:?} is not computed from these numbers");
                        ComputeValue::None
                    }
                }
            }
            Self::Distinct(distinct) => {
                let mut all = Distinct::default();
                cells.for_each(|cell| all.merge(&distinct[cell]));
                ComputeValue::Count(all.count())
            }
            Self::Sketches(sketches) => {
                let mut all = Sketch::default();
                cells.for_each(|cell| all.merge(&sketches[cell]));
                let Aggregation::Percentile(percent) = aggregation else {
                    return ComputeValue::None;
                };
                all.percentile(percent).map_or(ComputeValue::None, ComputeValue::Number)
            }
        }
    }
}

/// Both are of the same kind: those of one request.
fn different_kinds() {
    debug_assert!(false, "cells of different kinds");
}

/// Calls `add` with every number of a column. Each column type has its own loop.
fn add_numbers(
    column: &Column,
    unit: Option<Unit>,
    rows: &RowSet,
    cells: &ByRow,
    add: impl FnMut(usize, AggregateNumber),
) {
    let view = column.view();
    let len = view.len();
    match view {
        View::Ints(values) => {
            each_cell(column, rows, cells, len, |n| Some(AggregateNumber::Whole(values[n])), add);
        }
        View::Doubles(values) => {
            each_cell(column, rows, cells, len, |n| Some(AggregateNumber::Float(values[n])), add);
        }
        View::Codes(codes, dictionary) => {
            let number = |code| AggregateNumber::of(entry(dictionary, code), unit);
            let numbers: Vec<_> = (0..dictionary.len()).map(number).collect();
            each_cell(column, rows, cells, len, |n| numbers[codes[n] as usize], add);
        }
        View::Bools(_) | View::Texts(_) | View::Picks(..) => {
            each_cell(column, rows, cells, len, |n| AggregateNumber::of(view.value(n), unit), add);
        }
    }
}

/// Calls `add` with the cells of the rows of each value for which there is something to add.
#[inline]
fn each_cell<T: Copy>(
    column: &Column,
    rows: &RowSet,
    cells: &ByRow,
    count: usize,
    value: impl Fn(usize) -> Option<T>,
    mut add: impl FnMut(usize, T),
) {
    let is_single = cells.extra.is_empty();
    for n in 0..count {
        let row = column.row(n);
        let Some(value) = rows.contains(row).then(|| value(n)).flatten() else { continue };
        if !is_single {
            cells.each(row, |cell| add(cell as usize, value));
        } else if cells.first[row] != NONE {
            add(cells.first[row] as usize, value);
        }
    }
}
