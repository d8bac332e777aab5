//! One column of one row group in memory, in file order: the stage between rows and pages when
//! writing, and between pages and filters when a sidecar is rebuilt.

use std::borrow::Cow;
use std::ops::Range;

use super::column::ValueKind;
use super::error::SegmentError;
use super::reader::{Dictionary, PageBuffer, PageValues, Segment};
use crate::embedded::columns::Texts;

/// Values of the rows that have one, in order.
#[derive(Debug, Clone)]
pub(crate) enum Values<'a> {
    Int(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<&'a [u8]>),
    /// Texts as indexes into distinct texts, not all of which need be used.
    Coded(Vec<u32>, &'a Texts),
}

impl<'a> Values<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Coded(codes, _) => codes.len(),
        }
    }

    /// Returns the texts, if the values are texts.
    pub(crate) fn texts(&self) -> Option<Cow<'_, [&'a [u8]]>> {
        match self {
            Self::Text(texts) => Some(Cow::Borrowed(texts)),
            Self::Coded(codes, texts) => {
                Some(codes.iter().map(|code| texts.get(*code as usize)).collect())
            }
            Self::Int(_) | Self::Double(_) | Self::Bool(_) => None,
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

/// A page of a chunk: its rows, and the range of its values.
#[derive(Debug, Clone)]
pub(crate) struct PageSpan {
    pub(crate) rows: Range<usize>,
    pub(crate) values: Range<usize>,
}

impl<'a> Chunk<'a> {
    /// Creates a column in which every row has a value.
    pub(crate) fn all(values: Values<'a>) -> Self {
        Self { present: None, rows: values.len(), values }
    }

    /// Returns the pages, each of at most `page_rows` rows.
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

/// A chunk that was read back, owning its texts.
#[derive(Debug)]
pub(crate) struct OwnedChunk {
    present: Option<Vec<bool>>,
    rows: usize,
    kind: ValueKind,
    ints: Vec<i64>,
    texts: Texts,
}

impl OwnedChunk {
    /// Reads a column of integers or texts.
    pub(crate) fn read(
        segment: &Segment,
        group: usize,
        column: usize,
        buffer: &mut PageBuffer,
    ) -> Result<Self, SegmentError> {
        let damaged = SegmentError::Damaged("invalid column values");
        let Some(description) = segment.columns().get(column) else { return Err(damaged) };
        let mut chunk = Self {
            present: (!description.is_required).then(Vec::new),
            rows: segment.group_rows(group),
            kind: description.kind,
            ints: Vec::new(),
            texts: Texts::default(),
        };
        let dictionary = segment.dictionary(group, column, buffer)?;
        for page in 0..segment.page_count(group) {
            segment.read_page(group, column, page, buffer)?;
            if let Some(present) = &mut chunk.present {
                match buffer.levels() {
                    Some(levels) => present.extend(levels.iter().map(|level| *level == 1)),
                    None => present.resize(present.len() + buffer.rows(), true),
                }
            }
            chunk
                .add(buffer.values(), dictionary.as_ref())
                .ok_or(SegmentError::Damaged("invalid column values"))?;
        }
        Ok(chunk)
    }

    fn add(&mut self, values: PageValues<'_>, dictionary: Option<&Dictionary>) -> Option<()> {
        match (values, dictionary) {
            (PageValues::Ints(values), _) => self.ints.extend_from_slice(values),
            (PageValues::Texts(texts), _) => {
                (0..texts.len()).for_each(|index| self.texts.push(texts.get(index)));
            }
            (PageValues::Codes(codes), Some(Dictionary::Ints(values))) => {
                for code in codes {
                    self.ints.push(*values.get(*code as usize)?);
                }
            }
            (PageValues::Codes(codes), Some(Dictionary::Texts(texts))) => {
                for code in codes {
                    ((*code as usize) < texts.len()).then_some(())?;
                    self.texts.push(texts.get(*code as usize));
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the chunk as it was when it was written.
    pub(crate) fn borrow(&self) -> Chunk<'_> {
        let values = match self.kind {
            ValueKind::Int => Values::Int(self.ints.clone()),
            _ => Values::Text(self.texts.iter().collect()),
        };
        Chunk { present: self.present.clone(), values, rows: self.rows }
    }
}
