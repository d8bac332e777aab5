//! The values of one field on one page, whatever their origin.
//!
//! Invariant: values are in the order of their rows; a row may have none or several; there are no
//! nulls.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use weir_expr::{TermMatcher, Value};

use super::row_set::RowSet;
use crate::embedded::columns::{AttributeValue, Texts, canonical, value_of};
use crate::embedded::segment::{CodeSet, Dictionary, PageBuffer, PageTexts, PageValues};
use weir_codec::Scalar;

/// Storage of the values.
#[derive(Debug)]
pub(super) enum Data {
    /// As read from the file.
    Page(Box<PageBuffer>),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Texts(Texts),
    /// Indexes into the dictionary.
    Codes(Vec<u32>),
    /// Indexes into values of any type.
    Picks(Vec<u32>, Vec<AttributeValue>),
}

/// Values with their rows.
#[derive(Debug)]
pub(super) struct Column {
    /// The row of each value; `None` when value `n` belongs to row `n`.
    pub(super) rows: Option<Vec<u16>>,
    pub(super) data: Data,
    /// The dictionary that codes refer to. The same for all pages of a row group.
    pub(super) dictionary: Option<Arc<Dictionary>>,
    /// All texts in lower case, computed on demand; `None` when they already are.
    folded: OnceCell<Option<Vec<u8>>>,
    /// A buffer for them, reused from page to page.
    room: RefCell<Vec<u8>>,
}

/// The values by type, for iteration.
#[derive(Debug, Clone, Copy)]
pub(super) enum View<'a> {
    Ints(&'a [i64]),
    Doubles(&'a [f64]),
    Bools(&'a [bool]),
    Texts(PageTexts<'a>),
    Codes(&'a [u32], &'a Dictionary),
    Picks(&'a [u32], &'a [AttributeValue]),
}

impl Column {
    /// Creates a column without values.
    pub(super) fn empty() -> Self {
        Self::picks(Vec::new(), Vec::new(), Vec::new())
    }

    /// Creates a column of values of any type: each row with the index of its value.
    pub(super) fn picks(rows: Vec<u16>, picks: Vec<u32>, distinct: Vec<AttributeValue>) -> Self {
        Self::new(Some(rows), Data::Picks(picks, distinct), None)
    }

    pub(super) fn new(
        rows: Option<Vec<u16>>,
        data: Data,
        dictionary: Option<Arc<Dictionary>>,
    ) -> Self {
        Self { rows, data, dictionary, folded: OnceCell::new(), room: RefCell::default() }
    }

    /// Sets the buffer for lower-case texts; its content is overwritten.
    pub(super) fn with_room(self, room: Vec<u8>) -> Self {
        Self { room: RefCell::new(room), ..self }
    }

    /// Returns the buffers of a column that is no longer needed.
    pub(super) fn into_memory(self) -> (Option<PageBuffer>, Vec<u8>) {
        let page = if let Data::Page(page) = self.data { Some(*page) } else { None };
        (page, self.folded.into_inner().flatten().unwrap_or_else(|| self.room.into_inner()))
    }

    /// Returns the bytes of the texts as the matcher expects them.
    pub(super) fn bytes_for<'a>(&'a self, matcher: &TermMatcher, texts: PageTexts<'a>) -> &'a [u8] {
        if !matcher.wants_lower_case() {
            return texts.bytes;
        }
        let folded = self.folded.get_or_init(|| {
            has_upper_case(texts.bytes).then(|| {
                let mut folded = self.room.take();
                folded.clear();
                folded.extend(texts.bytes.iter().map(u8::to_ascii_lowercase));
                folded
            })
        });
        folded.as_deref().unwrap_or(texts.bytes)
    }

    pub(super) fn view(&self) -> View<'_> {
        match (&self.data, &self.dictionary) {
            (Data::Page(page), dictionary) => match (page.values(), dictionary) {
                (PageValues::Ints(values), _) => View::Ints(values),
                (PageValues::Doubles(values), _) => View::Doubles(values),
                (PageValues::Bools(values), _) => View::Bools(values),
                (PageValues::Texts(texts), _) => View::Texts(texts),
                (PageValues::Codes(codes), Some(dictionary)) => View::Codes(codes, dictionary),
                (PageValues::Codes(_), None) => View::Ints(&[]),
            },
            (Data::Codes(codes), Some(dictionary)) => View::Codes(codes, dictionary),
            (Data::Codes(_), None) => View::Ints(&[]),
            (Data::Ints(values), _) => View::Ints(values),
            (Data::Bools(values), _) => View::Bools(values),
            (Data::Texts(texts), _) => View::Texts(texts.as_page()),
            (Data::Picks(picks, distinct), _) => View::Picks(picks, distinct),
        }
    }

    /// Returns the number of values.
    fn len(&self) -> usize {
        match &self.data {
            Data::Page(page) => page.value_count(),
            _ => self.view().len(),
        }
    }

    /// Returns which of `len` rows have a value whose code is in the set; `None` when values are
    /// not codes.
    pub(super) fn rows_in(&self, len: usize, set: &CodeSet) -> Option<RowSet> {
        let values = match &self.data {
            Data::Page(page) => RowSet::of_words(page.value_count(), &page.values_in(set)?),
            Data::Codes(codes) => RowSet::of_values(codes, |code| set.contains(code)),
            _ => return None,
        };
        Some(self.rows_of(len, values))
    }

    /// Returns the rows of some values.
    pub(super) fn rows_of(&self, len: usize, values: RowSet) -> RowSet {
        let Some(rows) = &self.rows else { return values };
        let mut set = RowSet::none(len);
        values.iter().for_each(|number| set.insert(usize::from(rows[number])));
        set
    }

    /// Returns the row of a value.
    #[inline]
    pub(super) fn row(&self, value: usize) -> usize {
        self.rows.as_ref().map_or(value, |rows| usize::from(rows[value]))
    }

    /// Returns which of `len` rows have a value.
    pub(super) fn present(&self, len: usize) -> RowSet {
        match &self.rows {
            None => RowSet::all(len.min(self.len())),
            Some(rows) => {
                let mut set = RowSet::none(len);
                for row in rows {
                    set.insert(usize::from(*row));
                }
                set
            }
        }
    }

    /// Returns the rows of the values for which `passes` returns true.
    pub(super) fn rows_where(&self, len: usize, mut passes: impl FnMut(usize) -> bool) -> RowSet {
        match &self.rows {
            None => RowSet::of(len, passes),
            Some(rows) => {
                let mut set = RowSet::none(len);
                for (number, row) in rows.iter().enumerate() {
                    if passes(number) {
                        set.insert(usize::from(*row));
                    }
                }
                set
            }
        }
    }
}

impl<'a> View<'a> {
    /// Returns the number of values.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Bools(values) => values.len(),
            Self::Texts(texts) => texts.len(),
            Self::Codes(codes, _) | Self::Picks(codes, _) => codes.len(),
        }
    }

    /// Returns the length of the texts in bytes. Codes are not counted: a dictionary has few texts.
    pub(super) fn text_bytes(self) -> usize {
        let bytes = |value: &AttributeValue| match value {
            AttributeValue::Text(text) => text.len(),
            _ => 0,
        };
        match self {
            Self::Texts(texts) => texts.bytes.len(),
            Self::Picks(_, distinct) => distinct.iter().map(bytes).sum(),
            _ => 0,
        }
    }

    /// Returns a value; null when the index is out of range.
    #[inline]
    pub(super) fn value(self, number: usize) -> Value<'a> {
        let missing = Value::Null;
        match self {
            Self::Ints(values) => values.get(number).map_or(missing, |value| Value::Int(*value)),
            Self::Doubles(values) => values.get(number).map_or(missing, |value| float(*value)),
            Self::Bools(values) => values.get(number).map_or(missing, |value| Value::Bool(*value)),
            Self::Texts(texts) => Value::Text(texts.get(number)),
            Self::Codes(codes, dictionary) => {
                codes.get(number).map_or(missing, |code| entry(dictionary, *code as usize))
            }
            Self::Picks(picks, distinct) => picks
                .get(number)
                .and_then(|pick| distinct.get(*pick as usize))
                .map_or(missing, |value| value_of(value.as_scalar())),
        }
    }
}

/// Checks whole blocks, which is many times faster than stopping at the first byte.
fn has_upper_case(bytes: &[u8]) -> bool {
    let is_one = |block: &[u8]| block.iter().fold(false, |is, byte| is | byte.is_ascii_uppercase());
    bytes.chunks(4096).any(is_one)
}

/// Returns a float as it is compared: as an integer when it is one.
pub(super) fn float<'a>(value: f64) -> Value<'a> {
    value_of(canonical(Scalar::Float(value)))
}

/// Returns a value of a dictionary.
#[inline]
pub(super) fn entry(dictionary: &Dictionary, code: usize) -> Value<'_> {
    match dictionary {
        Dictionary::Ints(values) => values.get(code).map_or(Value::Null, |v| Value::Int(*v)),
        Dictionary::Doubles(values) => values.get(code).map_or(Value::Null, |v| float(*v)),
        Dictionary::Texts(texts) => Value::Text(texts.get(code)),
    }
}

/// Collects values of any type.
#[derive(Debug, Default)]
pub(super) struct PickCollector {
    rows: Vec<u16>,
    picks: Vec<u32>,
    distinct: Vec<AttributeValue>,
}

impl PickCollector {
    /// Adds a value of a row that is not before the last one; nulls are skipped.
    pub(super) fn push(&mut self, row: usize, value: Scalar<'_>) {
        if value == Scalar::Null {
            return;
        }
        let value = AttributeValue::from(canonical(value));
        // Neighboring values are usually equal.
        if self.distinct.last() != Some(&value) {
            self.distinct.push(value);
        }
        self.rows.push(row as u16);
        self.picks.push(self.distinct.len() as u32 - 1);
    }

    pub(super) fn finish(self) -> Column {
        Column::picks(self.rows, self.picks, self.distinct)
    }
}
