//! One column of one row group in memory, in the order of the file: between rows and pages when
//! it is written, between pages and filters when those are built anew.

use std::ops::Range;

/// Values of the rows that have one, in order.
#[derive(Debug, Clone)]
pub(crate) enum Values<'a> {
    Int(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<&'a [u8]>),
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }
}

/// One column of one row group.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<'a> {
    /// Which rows have a value; `None` when all do.
    pub(crate) present: Option<Vec<bool>>,
    pub(crate) values: Values<'a>,
    pub(crate) rows: usize,
}

/// A page of a chunk: its rows, and which of the values are theirs.
#[derive(Debug, Clone)]
pub(crate) struct PageSpan {
    pub(crate) rows: Range<usize>,
    pub(crate) values: Range<usize>,
}

impl<'a> Chunk<'a> {
    /// A column in which every row has a value.
    pub(crate) fn all(values: Values<'a>) -> Self {
        Self { present: None, rows: values.len(), values }
    }

    /// The pages, each of at most `page_rows` rows.
    pub(crate) fn pages(&self, page_rows: usize) -> Vec<PageSpan> {
        let mut value = 0;
        (0..self.rows.div_ceil(page_rows))
            .map(|page| {
                let rows = page * page_rows..((page + 1) * page_rows).min(self.rows);
                let count = match &self.present {
                    Some(present) => present[rows.clone()].iter().filter(|is| **is).count(),
                    None => rows.len(),
                };
                let values = value..value + count;
                value += count;
                PageSpan { rows, values }
            })
            .collect()
    }
}
