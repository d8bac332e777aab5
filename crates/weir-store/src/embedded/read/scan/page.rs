//! The columns of one page after the other, each read on demand.
//!
//! Invariant: what is cached for a page is dropped before the next page; what is cached for a row
//! group (dictionaries, and what was derived from their values) before the next group.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_codec::Attributes;
use weir_expr::{Reserved, lag_ns};

use super::column::{Column, Data, PickCollector};
use super::plan::TermId;
use super::sources::is_below;
use super::unit::{RowLocation, Unit};
use crate::embedded::columns::{
    AttributeValue, CodeColumn, Form, MESSAGE_PATHS, PathColumn, Rows, SparseTexts, TIME_PATHS,
    Texts,
};
use crate::embedded::segment::{
    CodeSet, Dictionary, Fixed, PageBuffer, PageValues, Role, SegmentError, ValueKind,
    value_of_kind,
};
use crate::embedded::sidecar::RestPaths;
use crate::limits::PAGE_ROWS;
use crate::query::ScanStats;

/// What a column contains: the key under which it is cached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A column of the record's own.
    Fixed(Fixed),
    /// Single values of an attribute.
    Attribute(String),
    /// Values of an attribute that has no column, or has several values or nulls in a row.
    Rest(String),
    /// Values of all attributes that have no column.
    AllRest,
    /// Values of an attribute that is kept in a column of the record's own.
    Promoted(String),
    /// Values of a path of the resource.
    Resource(String),
    /// All values of the resource.
    AllResource,
    /// Values of tags with a key.
    Tag(String),
    /// Whole tags.
    Tags,
    /// `stdout` or `stderr`.
    IoStream,
    /// How long after its event each record arrived.
    Lag,
    /// A calculated field, by its index.
    CalculatedField(usize),
}

/// Reads the pages of the units that a thread works on.
#[derive(Debug)]
pub(super) struct PageReader {
    pub(super) unit: Unit,
    /// The index of the unit among those of the query.
    pub(super) unit_number: usize,
    pub(super) page: usize,
    columns: HashMap<Source, Rc<Column>>,
    dictionaries: HashMap<usize, Option<Arc<Dictionary>>>,
    /// For each term and column the values of the dictionary that pass.
    pub(super) verdicts: HashMap<(TermId, Source), Rc<CodeSet>>,
    /// The parsed content of dictionary values, for those that are parsed further.
    derived: HashMap<Source, Rc<[Vec<AttributeValue>]>>,
    head_texts: HashMap<Fixed, Arc<Dictionary>>,
    rest_paths: Option<Rc<RestPaths>>,
    free: Vec<PageBuffer>,
    /// A buffer for the lower-case texts of a page.
    room: Vec<u8>,
    attributes: Attributes,
    pub(super) scanned: ScanStats,
}

impl PageReader {
    pub(super) fn new(unit: Unit) -> Self {
        Self {
            unit,
            unit_number: 0,
            page: 0,
            columns: HashMap::new(),
            dictionaries: HashMap::new(),
            verdicts: HashMap::new(),
            derived: HashMap::new(),
            head_texts: HashMap::new(),
            rest_paths: None,
            free: Vec::new(),
            room: Vec::new(),
            attributes: Attributes::new(),
            scanned: ScanStats::default(),
        }
    }

    /// Starts another unit.
    pub(super) fn begin_unit(&mut self, number: usize, unit: Unit) {
        self.begin_page(0);
        (self.unit_number, self.unit) = (number, unit);
        self.dictionaries.clear();
        self.verdicts.clear();
        self.derived.clear();
        self.head_texts.clear();
        self.rest_paths = None;
        self.scanned.parts += 1;
    }

    /// Starts another page of the unit.
    pub(super) fn begin_page(&mut self, page: usize) {
        self.page = page;
        for column in std::mem::take(&mut self.columns).into_values() {
            self.recycle(column);
        }
    }

    /// Drops a column of this page that is no longer needed.
    pub(super) fn forget(&mut self, source: &Source, column: Rc<Column>) {
        self.columns.remove(source);
        self.recycle(column);
    }

    /// Keeps the buffers of a column that is not shared.
    fn recycle(&mut self, column: Rc<Column>) {
        let Some(column) = Rc::into_inner(column) else { return };
        let (page, folded) = column.into_memory();
        self.free.extend(page);
        if folded.capacity() > self.room.capacity() {
            self.room = folded;
        }
    }

    /// Returns the number of rows of the page.
    pub(super) fn rows(&self) -> usize {
        self.unit.page_rows(self.page)
    }

    /// Returns the earliest and latest time of the rows of the page.
    pub(super) fn page_times(&self) -> (i64, i64) {
        self.unit.page_times.get(self.page).copied().unwrap_or(self.unit.times())
    }

    /// Returns the index of the first row of the page among those of the unit.
    pub(super) fn first_row(&self) -> usize {
        self.page * PAGE_ROWS
    }

    /// Returns the column if it was already read for this page.
    pub(super) fn kept(&self, source: &Source) -> Option<Rc<Column>> {
        self.columns.get(source).map(Rc::clone)
    }

    /// Caches a column that was computed for this page.
    pub(super) fn keep(&mut self, source: Source, column: Column) -> Rc<Column> {
        let column = Rc::new(column);
        self.columns.insert(source, Rc::clone(&column));
        column
    }

    /// Returns the values of a source on this page; not for calculated fields.
    pub(super) fn column(&mut self, source: &Source) -> Result<Rc<Column>, SegmentError> {
        if let Some(column) = self.kept(source) {
            return Ok(column);
        }
        let column = match source {
            Source::Fixed(fixed) => self.fixed(*fixed)?,
            Source::Attribute(path) => self.attribute(path)?,
            Source::Rest(path) => self.rest(Some(path))?,
            Source::AllRest => self.rest(None)?,
            Source::Promoted(path) => self.promoted(path)?,
            Source::Resource(_) | Source::AllResource => {
                self.derived_from(Fixed::Resource, source)?
            }
            Source::Tag(_) | Source::Tags => self.derived_from(Fixed::Tags, source)?,
            Source::IoStream => self.io_stream()?,
            Source::Lag => self.lag()?,
            Source::CalculatedField(_) => Column::empty(),
        };
        Ok(self.keep(source.clone(), column))
    }

    fn fixed(&mut self, fixed: Fixed) -> Result<Column, SegmentError> {
        match &self.unit.location {
            RowLocation::Group { segment, .. } => match segment.segment.column(&Role::Fixed(fixed))
            {
                Some(column) => self.read(column),
                None => Ok(Column::empty()),
            },
            RowLocation::Head(chunk) => {
                let chunk = Arc::clone(chunk);
                let span = self.first_row()..self.first_row() + self.rows();
                let texts = &mut self.head_texts;
                Ok(head_column(&chunk.read(), fixed, span, texts))
            }
        }
    }

    fn attribute(&mut self, path: &str) -> Result<Column, SegmentError> {
        let segment = match &self.unit.location {
            RowLocation::Group { segment, .. } => Arc::clone(segment),
            RowLocation::Head(chunk) => {
                let span = self.first_row()..self.first_row() + self.rows();
                let rows = chunk.read();
                let column = rows.paths().iter().find(|column| column.path() == path);
                return Ok(column.map_or_else(Column::empty, |column| path_column(column, span)));
            }
        };
        let Some(column) = segment.segment.column(&Role::Attribute(path.to_owned())) else {
            return Ok(Column::empty());
        };
        let texts = self.read(column)?;
        match segment.segment.column(&Role::Kind(path.to_owned())) {
            Some(kinds) => {
                let kinds = self.read(kinds)?;
                mixed(&texts, &kinds)
            }
            None => Ok(texts),
        }
    }

    /// Reads a column of a segment.
    fn read(&mut self, column: usize) -> Result<Column, SegmentError> {
        let RowLocation::Group { segment, group } = &self.unit.location else {
            return Ok(Column::empty());
        };
        let (segment, group) = (Arc::clone(segment), *group);
        let dictionary = self.dictionary(column)?;
        let mut buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => PageBuffer::new()?,
        };
        segment.segment.read_page(group, column, self.page, &mut buffer)?;
        self.scanned.pages += 1;
        self.scanned.bytes += buffer.body_bytes() as u64;
        let rows = buffer.levels().map(|levels| {
            let present = levels.iter().enumerate().filter(|(_, level)| **level == 1);
            present.map(|(row, _)| row as u16).collect()
        });
        let is_whole =
            rows.as_ref().is_none_or(|rows: &Vec<u16>| rows.len() == buffer.value_count());
        if !is_whole {
            return Err(SegmentError::Damaged("invalid page values"));
        }
        let column = Column::new(rows, Data::Page(Box::new(buffer)), dictionary);
        Ok(column.with_room(std::mem::take(&mut self.room)))
    }

    /// Returns the dictionary of a column of the segment, if it has one.
    pub(super) fn dictionary(
        &mut self,
        column: usize,
    ) -> Result<Option<Arc<Dictionary>>, SegmentError> {
        if let Some(dictionary) = self.dictionaries.get(&column) {
            return Ok(dictionary.clone());
        }
        let RowLocation::Group { segment, group } = &self.unit.location else { return Ok(None) };
        let mut buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => PageBuffer::new()?,
        };
        let dictionary = segment.segment.dictionary(*group, column, &mut buffer)?.map(Arc::new);
        self.free.push(buffer);
        self.dictionaries.insert(column, dictionary.clone());
        Ok(dictionary)
    }

    /// Returns the paths that the segment has in `_rest`; `None` when they are not known.
    pub(super) fn rest_paths(&mut self) -> Option<Rc<RestPaths>> {
        let RowLocation::Group { segment, .. } = &self.unit.location else { return None };
        if self.rest_paths.is_none() {
            let paths = segment.sidecar.as_ref().and_then(|sidecar| sidecar.rest_paths().ok());
            self.rest_paths = paths.map(Rc::new);
        }
        self.rest_paths.clone()
    }

    /// Returns whether `_rest` may have values of the path, or of paths below it.
    pub(super) fn may_be_in_rest(&mut self, path: &str) -> bool {
        match &self.unit.location {
            RowLocation::Head(chunk) => !chunk.read().spilled().is_empty(),
            RowLocation::Group { segment, .. } => {
                if segment.segment.column(&Role::Rest).is_none() {
                    return false;
                }
                let Some(paths) = self.rest_paths() else { return true };
                let mut known = paths.iter().map(|(known, _)| known);
                !paths.is_complete() || known.any(|known| known == path || is_below(known, path))
            }
        }
    }

    /// Returns the values of attributes that have no column: of one path, or of all.
    fn rest(&mut self, path: Option<&str>) -> Result<Column, SegmentError> {
        let mut gathered = PickCollector::default();
        self.for_each_rest(|row, found, value| {
            if path.is_none_or(|path| path.as_bytes() == found) {
                gathered.push(row, value);
            }
        })?;
        Ok(gathered.finish())
    }

    /// Reads the values that these attributes, which may contain duplicates, have without a column
    /// on this page.
    pub(super) fn read_rest_of(&mut self, paths: &[String]) -> Result<(), SegmentError> {
        let of_path = |path: &'_ String| (path.clone(), PickCollector::default());
        let mut gathered: HashMap<String, PickCollector> = paths.iter().map(of_path).collect();
        self.for_each_rest(|row, path, value| {
            let known = std::str::from_utf8(path).ok().and_then(|path| gathered.get_mut(path));
            if let Some(values) = known {
                values.push(row, value);
            }
        })?;
        for (path, values) in gathered {
            self.keep(Source::Rest(path), values.finish());
        }
        Ok(())
    }

    /// Calls `each` with row, path and value of all attributes without a column, nulls included.
    pub(super) fn for_each_rest(
        &mut self,
        mut each: impl FnMut(usize, &[u8], weir_codec::Scalar<'_>),
    ) -> Result<(), SegmentError> {
        let segment = match &self.unit.location {
            RowLocation::Head(chunk) => {
                let first = self.first_row();
                let span = first as u32..(first + self.rows()) as u32;
                let rows = chunk.read();
                for (row, path, value) in rows.spilled().of_rows(span) {
                    each(row as usize - first, path.as_bytes(), value);
                }
                return Ok(());
            }
            RowLocation::Group { segment, .. } => Arc::clone(segment),
        };
        let Some(column) = segment.segment.column(&Role::Rest) else { return Ok(()) };
        let rest = self.read(column)?;
        let view = rest.view();
        for number in 0..view.len() {
            let weir_expr::Value::Text(json) = view.value(number) else { continue };
            self.attributes.clear();
            let read = self.attributes.read_json(json);
            read.ok_or(SegmentError::Damaged("invalid record attributes"))?;
            for (path, value) in self.attributes.iter() {
                each(rest.row(number), path, value);
            }
        }
        Ok(())
    }

    /// Returns the values of an attribute in those rows in which it is kept in a column of the
    /// record's own.
    fn promoted(&mut self, path: &str) -> Result<Column, SegmentError> {
        type PromotedPath = fn(Form) -> Option<&'static str>;
        let texts: [(Fixed, &[&str], PromotedPath); 3] = [
            (Fixed::Message, &MESSAGE_PATHS, Form::message_path),
            (Fixed::TraceId, Reserved::TraceId.record_paths(), Form::trace_path),
            (Fixed::SpanId, Reserved::SpanId.record_paths(), Form::span_path),
        ];
        // Messages, which are long, are read only for their own paths.
        let text = texts.into_iter().find(|(_, paths, _)| paths.contains(&path));
        let mut gathered = PickCollector::default();
        let forms = self.column(&Source::Fixed(Fixed::Form))?;
        if let Some((fixed, _, promoted)) = text {
            let column = self.column(&Source::Fixed(fixed))?;
            // The index of the next value.
            let mut next = 0;
            for row in 0..self.rows() {
                let is_there = next < column.view().len() && column.row(next) == row;
                if is_there
                    && form_of(&forms, row).and_then(promoted) == Some(path)
                    && let weir_expr::Value::Text(text) = column.view().value(next)
                {
                    gathered.push(row, weir_codec::Scalar::Text(text));
                }
                next += usize::from(is_there);
            }
        } else if TIME_PATHS.contains(&path) {
            let times = self.column(&Source::Fixed(Fixed::Time))?;
            let mut buffer = Vec::new();
            for row in 0..self.rows() {
                let style = form_of(&forms, row).and_then(Form::time_path);
                if let Some((_, style)) = style.filter(|(promoted, _)| *promoted == path)
                    && let weir_expr::Value::Int(time_ns) = times.view().value(row)
                {
                    gathered.push(row, style.value(time_ns, &mut buffer));
                }
            }
        }
        Ok(gathered.finish())
    }

    /// Returns the lag of the rows whose arrival is known.
    fn lag(&mut self) -> Result<Column, SegmentError> {
        let damaged = || SegmentError::Damaged("invalid arrival column");
        let arrivals = self.arrivals()?;
        let times = self.column(&Source::Fixed(Fixed::Time))?;
        let times = whole_numbers(&times)?;
        let view = arrivals.view();
        let lag_of = |number: usize| {
            let weir_expr::Value::Int(arrival_ns) = view.value(number) else {
                return Err(damaged());
            };
            let time_ns = times.get(arrivals.row(number)).ok_or_else(damaged)?;
            Ok(lag_ns(arrival_ns, *time_ns))
        };
        let lags = (0..view.len()).map(lag_of).collect::<Result<Vec<i64>, _>>()?;
        Ok(Column::new(arrivals.rows.clone(), Data::Ints(lags), None))
    }

    /// Returns when the rows arrived; nothing for those that do not have that.
    fn arrivals(&mut self) -> Result<Column, SegmentError> {
        let segment = match &self.unit.location {
            RowLocation::Group { segment, .. } => Arc::clone(segment),
            RowLocation::Head(chunk) => {
                let span = self.first_row()..self.first_row() + self.rows();
                let rows = chunk.read();
                let known = span
                    .enumerate()
                    .filter_map(|(at, row)| Some((at as u16, rows.arrivals.get(row)?)));
                let (rows, arrivals) = known.unzip();
                return Ok(Column::new(Some(rows), Data::Ints(arrivals), None));
            }
        };
        match segment.segment.column(&Role::Arrival) {
            Some(column) => self.read(column),
            None => Ok(Column::empty()),
        }
    }

    fn io_stream(&mut self) -> Result<Column, SegmentError> {
        let forms = self.column(&Source::Fixed(Fixed::Form))?;
        let mut gathered = PickCollector::default();
        for row in 0..self.rows() {
            let form = form_of(&forms, row);
            if let Some(name) = form.and_then(|form| form.flags().iostream()) {
                gathered.push(row, weir_codec::Scalar::Text(name.as_bytes()));
            }
        }
        Ok(gathered.finish())
    }

    /// Returns values that are parsed from those of a column with few distinct texts.
    fn derived_from(&mut self, fixed: Fixed, source: &Source) -> Result<Column, SegmentError> {
        let column = self.column(&Source::Fixed(fixed))?;
        let (mut rows, mut picks, mut distinct) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |row: usize, first: usize, count: usize| {
            for pick in first..first + count {
                rows.push(row as u16);
                picks.push(pick as u32);
            }
        };
        if let super::column::View::Codes(codes, dictionary) = column.view() {
            let values = self.derived_values(source, dictionary);
            let mut firsts = Vec::with_capacity(values.len());
            for of_code in values.iter() {
                firsts.push(distinct.len());
                distinct.extend(of_code.iter().cloned());
            }
            for (number, code) in codes.iter().enumerate() {
                let code = *code as usize;
                let of_code = values.get(code).map_or(0, Vec::len);
                add(column.row(number), firsts.get(code).copied().unwrap_or(0), of_code);
            }
        } else {
            for number in 0..column.view().len() {
                let weir_expr::Value::Text(text) = column.view().value(number) else { continue };
                let values = derive(source, text);
                add(column.row(number), distinct.len(), values.len());
                distinct.extend(values);
            }
        }
        Ok(Column::picks(rows, picks, distinct))
    }

    fn derived_values(
        &mut self,
        source: &Source,
        dictionary: &Dictionary,
    ) -> Rc<[Vec<AttributeValue>]> {
        let known = self.derived.get(source).filter(|values| values.len() == dictionary.len());
        if let Some(values) = known {
            return Rc::clone(values);
        }
        let Dictionary::Texts(texts) = dictionary else { return Rc::default() };
        let values: Rc<[_]> = texts.iter().map(|text| derive(source, text)).collect();
        self.derived.insert(source.clone(), Rc::clone(&values));
        values
    }
}

/// Returns the original form of the record of a row.
pub(super) fn form_of(forms: &Column, row: usize) -> Option<Form> {
    match forms.view().value(row) {
        weir_expr::Value::Int(form) => Some(Form(form.cast_unsigned())),
        _ => None,
    }
}

/// Returns the values of a source in a resource or a list of tags.
fn derive(source: &Source, text: &[u8]) -> Vec<AttributeValue> {
    let of_text = |text: &str| AttributeValue::Text(text.to_owned());
    match source {
        Source::Tags => crate::query::tags_of(text).into_iter().map(AttributeValue::Text).collect(),
        Source::Tag(key) => {
            let tags = crate::query::tags_of(text);
            tags.iter().filter_map(|tag| crate::query::tag_value(tag, key)).map(of_text).collect()
        }
        _ => {
            let attributes = crate::query::resource_attributes(text);
            let is_wanted = |path: &[u8]| match source {
                Source::Resource(wanted) => wanted.as_bytes() == path,
                _ => true,
            };
            let values = attributes.iter().filter(|(path, _)| is_wanted(path));
            let values = values.filter(|(_, value)| *value != weir_codec::Scalar::Null);
            values.map(|(_, value)| AttributeValue::from(value)).collect()
        }
    }
}

/// Returns values of several types, from their texts and kinds.
fn mixed(texts: &Column, kinds: &Column) -> Result<Column, SegmentError> {
    let damaged = SegmentError::Damaged("invalid column types");
    let (text_view, kind_view) = (texts.view(), kinds.view());
    if text_view.len() != kind_view.len() {
        return Err(damaged);
    }
    let mut gathered = PickCollector::default();
    for number in 0..text_view.len() {
        let (weir_expr::Value::Text(text), weir_expr::Value::Int(kind)) =
            (text_view.value(number), kind_view.value(number))
        else {
            return Err(damaged);
        };
        let value =
            value_of_kind(kind, text).ok_or(SegmentError::Damaged("invalid column value"))?;
        gathered.push(texts.row(number), value);
    }
    Ok(gathered.finish())
}

/// Returns a column of the head.
fn head_column(
    rows: &Rows,
    fixed: Fixed,
    span: std::ops::Range<usize>,
    dictionaries: &mut HashMap<Fixed, Arc<Dictionary>>,
) -> Column {
    let ints = |values: Vec<i64>| Column::new(None, Data::Ints(values), None);
    let unsigned = |values: &[u64]| {
        ints(values[span.clone()].iter().map(|value| value.cast_signed()).collect())
    };
    let mut codes = |column: &CodeColumn| {
        let dictionary = dictionaries
            .entry(fixed)
            .or_insert_with(|| Arc::new(Dictionary::Texts(column.texts().clone())));
        code_column(column, span.clone(), Arc::clone(dictionary))
    };
    match fixed {
        Fixed::Time => ints(rows.time_ns[span.clone()].to_vec()),
        Fixed::Sequence => unsigned(&rows.sequence),
        Fixed::Stream => unsigned(&rows.stream),
        Fixed::Epoch => ints(rows.epoch[span.clone()].iter().map(|e| i64::from(*e)).collect()),
        Fixed::Offset => unsigned(&rows.offset),
        Fixed::Form => unsigned(&rows.form),
        Fixed::Service => codes(&rows.service),
        Fixed::Host => codes(&rows.host),
        Fixed::Source => codes(&rows.source),
        Fixed::Status => codes(&rows.status),
        Fixed::Tags => codes(&rows.tags),
        Fixed::Resource => codes(&rows.resource),
        Fixed::Message => text_column(&rows.message, span.clone()),
        Fixed::TraceId => text_column(&rows.trace_id, span.clone()),
        Fixed::SpanId => text_column(&rows.span_id, span.clone()),
    }
}

fn code_column(
    column: &CodeColumn,
    span: std::ops::Range<usize>,
    dictionary: Arc<Dictionary>,
) -> Column {
    let (mut rows, mut codes) = (Vec::with_capacity(span.len()), Vec::with_capacity(span.len()));
    for (row, code) in span.enumerate().filter_map(|(at, row)| Some((at, column.code(row)?))) {
        rows.push(row as u16);
        codes.push(code);
    }
    Column::new(Some(rows), Data::Codes(codes), Some(dictionary))
}

fn text_column(column: &SparseTexts, span: std::ops::Range<usize>) -> Column {
    let (mut rows, mut texts) = (Vec::with_capacity(span.len()), Texts::default());
    for (row, text) in span.enumerate().filter_map(|(at, row)| Some((at, column.get(row)?))) {
        rows.push(row as u16);
        texts.push(text);
    }
    Column::new(Some(rows), Data::Texts(texts), None)
}

/// Returns an attribute of the head, in the type that its values have here.
fn path_column(column: &PathColumn, span: std::ops::Range<usize>) -> Column {
    use weir_codec::Scalar;
    let numbers = column.values_of_rows(span.start as u32..span.end as u32);
    let rows: Vec<u16> = column.rows()[numbers.clone()]
        .iter()
        .map(|row| (*row as usize - span.start) as u16)
        .collect();
    let values = || numbers.clone().map(|number| column.value(number));
    let kind = |value: Scalar<'_>| match value {
        Scalar::Int(_) => Some(ValueKind::Int),
        Scalar::Bool(_) => Some(ValueKind::Bool),
        Scalar::Text(_) => Some(ValueKind::Text),
        Scalar::Float(_) | Scalar::Null => None,
    };
    let first = values().next().and_then(kind);
    let first = first.filter(|first| values().all(|value| kind(value) == Some(*first)));
    let data = match first {
        Some(ValueKind::Int) => Data::Ints(
            values().map(|v| if let Scalar::Int(number) = v { number } else { 0 }).collect(),
        ),
        Some(ValueKind::Bool) => Data::Bools(values().map(|v| v == Scalar::Bool(true)).collect()),
        Some(ValueKind::Text) => {
            let mut texts = Texts::default();
            values().for_each(|v| texts.push(if let Scalar::Text(text) = v { text } else { b"" }));
            Data::Texts(texts)
        }
        _ => {
            let mut gathered = PickCollector::default();
            for (row, value) in rows.iter().zip(values()) {
                gathered.push(usize::from(*row), value);
            }
            return gathered.finish();
        }
    };
    Column::new(Some(rows), data, None)
}

/// Returns the integer values of a page, by row, of a column that every row has a value in.
pub(super) fn whole_numbers(column: &Column) -> Result<&[i64], SegmentError> {
    match &column.data {
        Data::Ints(values) => Ok(values),
        Data::Page(page) => match page.values() {
            PageValues::Ints(values) => Ok(values),
            _ => Err(SegmentError::Damaged("invalid time column")),
        },
        _ => Err(SegmentError::Damaged("invalid time column")),
    }
}
