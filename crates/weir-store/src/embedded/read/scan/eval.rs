//! Determines which rows of a page match a query.
//!
//! Invariant: the rows are those that [`weir_expr::naive`] finds on the records. A column is read
//! only while undecided rows depend on it.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_codec::Scalar;
use weir_expr::{Field, Fields, Numeric, Test, Unit, Value, Visitor};

use super::column::{Column, Data, PickCollector, View, entry, float};
use super::number::IntRange;
use super::page::{PageReader, Source, whole_numbers};
use super::plan::{DeletedFilter, Node, Plan, TermId};
use super::row_set::RowSet;
use super::run::ScanStop;
use super::sources::{Alternatives, is_below};
use super::unit::RowLocation;
use super::words::WordRows;
use crate::embedded::columns::value_of;
use crate::embedded::segment::{CodeSet, Fixed, PageTexts, Role, SegmentError};
use crate::query::{Budget, CalculatedField, StopReason};

/// Evaluates a plan page by page.
#[derive(Debug)]
pub(super) struct Evaluator {
    pub(super) plan: Plan,
    pub(super) reader: PageReader,
    /// Calculated fields being computed: one that depends on itself has no value.
    computing: Vec<usize>,
    /// Where fields are stored in the current unit.
    sources: HashMap<(Field, bool), Rc<Alternatives>>,
    /// What is known about the words of terms in the current unit.
    pub(super) word_rows: HashMap<TermId, Option<Rc<WordRows>>>,
    meter: BudgetMeter,
}

/// Number of bytes to compare between checks of whether to continue: a regular expression may take
/// a second for a megabyte.
const PIECE_BYTES: usize = 256 * 1024;

/// Number of bytes that a value counts as, at least. A query may have thousands of terms, each of
/// which is compared with every value of a page.
const VALUE_BYTES_MIN: usize = 16;

/// Checks from time to time whether to continue, by what was compared since the last check.
#[derive(Debug)]
struct BudgetMeter {
    budget: Budget,
    /// Bytes since the last check.
    bytes: usize,
    /// Why the current page was not searched to its end.
    stopped: Option<StopReason>,
}

impl BudgetMeter {
    /// Returns whether to compare so many bytes too.
    fn may_read(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.bytes > PIECE_BYTES {
            self.check();
        }
        self.stopped.is_none()
    }

    fn check(&mut self) {
        self.bytes = 0;
        if self.stopped.is_none() {
            self.stopped = self.budget.check().err();
        }
    }

    /// Returns whether to compare so many numbers, or indexes of values, too.
    fn may_read_values(&mut self, count: usize) -> bool {
        self.may_read(count * VALUE_BYTES_MIN)
    }

    /// Returns whether to compare this value too.
    fn may_read_value(&mut self, value: Value<'_>) -> bool {
        let bytes = if let Value::Text(text) = value { text.len() } else { 0 };
        self.may_read(bytes.max(VALUE_BYTES_MIN))
    }
}

/// With fewer candidates than one row in this many, each row is checked individually.
const SPARSE: usize = 16;

impl Evaluator {
    pub(super) fn new(plan: Plan, reader: PageReader, budget: Budget) -> Self {
        Self {
            meter: BudgetMeter { budget, bytes: 0, stopped: None },
            plan,
            reader,
            computing: Vec::new(),
            sources: HashMap::new(),
            word_rows: HashMap::new(),
        }
    }

    /// Checks whether to continue. May wait while others run.
    pub(super) fn check_budget(&self) -> Result<(), StopReason> {
        self.meter.budget.check()
    }

    /// Starts another unit.
    pub(super) fn begin_unit(&mut self, number: usize, unit: super::unit::Unit) {
        self.sources.clear();
        self.word_rows.clear();
        self.reader.begin_unit(number, unit);
    }

    /// Returns whether every row of the unit is known to match without looking at any.
    pub(super) fn matches_all_rows(&self, unit: &super::unit::Unit) -> bool {
        let range = self.plan.range;
        let is_deleted =
            |deleted: &DeletedFilter| deleted.range.overlaps(unit.first_ns, unit.last_ns);
        self.plan.node.is_all()
            && range.contains(unit.first_ns)
            && range.contains(unit.last_ns)
            && !self.plan.deleted.iter().any(is_deleted)
    }

    /// Returns the rows of the page whose time is in the range.
    pub(super) fn in_range(&mut self) -> Result<RowSet, SegmentError> {
        let range = self.plan.range;
        let rows = self.reader.rows();
        let (first_ns, last_ns) = self.reader.page_times();
        if range.contains(first_ns) && range.contains(last_ns) {
            return Ok(RowSet::all(rows));
        }
        let times = self.reader.column(&Source::Fixed(Fixed::Time))?;
        let times = whole_numbers(&times)?;
        Ok(RowSet::of(rows, |row| range.contains(times[row])))
    }

    /// Returns the candidates that match the query.
    pub(super) fn matching(&mut self, candidates: &RowSet) -> Result<RowSet, ScanStop> {
        self.reader.scanned.rows += candidates.count() as u64;
        let node = Arc::clone(&self.plan.node);
        let mut found = self.node(&node, candidates)?;
        for number in 0..self.plan.deleted.len() {
            if found.is_empty() {
                break;
            }
            let deleted = self.plan.deleted[number].clone();
            self.subtract_deleted(&deleted, &mut found)?;
        }
        self.meter.stopped.take().map_or(Ok(found), |stop| Err(ScanStop::Stop(stop)))
    }

    fn subtract_deleted(
        &mut self,
        deleted: &DeletedFilter,
        found: &mut RowSet,
    ) -> Result<(), SegmentError> {
        let range = deleted.range;
        let (first_ns, last_ns) = self.reader.page_times();
        if !range.overlaps(first_ns, last_ns) {
            return Ok(());
        }
        let times = self.reader.column(&Source::Fixed(Fixed::Time))?;
        let sequences = self.reader.column(&Source::Fixed(Fixed::Sequence))?;
        let (times, sequences) = (whole_numbers(&times)?, whole_numbers(&sequences)?);
        let is_meant = |row: usize| {
            range.contains(times[row]) && sequences[row].cast_unsigned() < deleted.before_sequence
        };
        let mut meant = RowSet::of(found.len(), is_meant);
        meant.intersect(found);
        if !meant.is_empty() {
            found.subtract(&self.node(&deleted.node, &meant)?);
        }
        Ok(())
    }

    /// Returns the candidates that match the node.
    fn node(&mut self, node: &Node, candidates: &RowSet) -> Result<RowSet, SegmentError> {
        if candidates.is_empty() {
            return Ok(candidates.clone());
        }
        match node {
            Node::All => Ok(candidates.clone()),
            Node::Not(inner) => {
                let mut left = candidates.clone();
                left.subtract(&self.node(inner, candidates)?);
                Ok(left)
            }
            Node::And(parts) => {
                let mut left = candidates.clone();
                for part in parts {
                    left = self.node(part, &left)?;
                }
                Ok(left)
            }
            Node::Or(parts) => {
                let mut found = RowSet::none(candidates.len());
                let mut left = candidates.clone();
                for part in parts {
                    let passed = self.node(part, &left)?;
                    left.subtract(&passed);
                    found.unite(&passed);
                }
                Ok(found)
            }
            Node::Term(id) => {
                let mut found = self.term(*id, candidates)?;
                found.intersect(candidates);
                Ok(found)
            }
        }
    }

    /// Returns rows in which the term is true: correct for the candidates, arbitrary for others,
    /// and for all once the meter has stopped.
    fn term(&mut self, id: TermId, candidates: &RowSet) -> Result<RowSet, SegmentError> {
        if self.meter.stopped.is_some() {
            return Ok(RowSet::none(candidates.len()));
        }
        let field = self.plan.term(id).field.clone();
        if field == Field::Message {
            return self.message(id, candidates);
        }
        let mut found = RowSet::none(candidates.len());
        if field == Field::Any {
            found = self.message(id, candidates)?;
        }
        let is_plain = id >= self.plan.first_plain_term;
        let alternatives = self.sources_of(&field, is_plain);
        let mut left = candidates.clone();
        for (number, sources) in alternatives.iter().enumerate() {
            let is_last = number + 1 == alternatives.len();
            let mut present = RowSet::none(candidates.len());
            for source in sources {
                let (passed, has_value) = self.source(id, source, &left, !is_last)?;
                let mut passed = passed;
                passed.intersect(&left);
                found.unite(&passed);
                if let Some(has_value) = has_value {
                    present.unite(&has_value);
                }
            }
            left.subtract(&present);
            if left.is_empty() {
                break;
            }
        }
        let is_computed =
            matches!(&alternatives[..], [only] if matches!(only[..], [Source::CalculatedField(_)]));
        if let (Field::Attribute(path), Test::Exists) = (&field, &self.plan.term(id).test)
            && !is_computed
        {
            let path = path.clone();
            found.unite(&self.objects(&path)?);
        }
        Ok(found)
    }

    /// Returns where the field is stored in the current unit.
    pub(super) fn sources_of(&mut self, field: &Field, is_plain: bool) -> Rc<Alternatives> {
        if let Some(known) = self.sources.get(&(field.clone(), is_plain)) {
            return Rc::clone(known);
        }
        let calculated_fields: &[CalculatedField] =
            if is_plain { &[] } else { &self.plan.calculated_fields };
        let found = Rc::new(self.reader.sources(field, calculated_fields));
        self.sources.insert((field.clone(), is_plain), Rc::clone(&found));
        found
    }

    /// Reads the values that fields have on this page without a column of their own. Several fields
    /// are read at once, because all such values are stored together.
    pub(super) fn read_rest_of<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a Field>,
    ) -> Result<(), SegmentError> {
        let mut paths = Vec::new();
        for field in fields {
            let sources = self.sources_of(field, false);
            paths.extend(sources.iter().flatten().filter_map(|source| match source {
                Source::Rest(path) => Some(path.clone()),
                _ => None,
            }));
        }
        if paths.len() > 1 { self.reader.read_rest_of(&paths) } else { Ok(()) }
    }

    /// Returns rows in which a value of the source passes and, if requested, rows that have a
    /// value.
    fn source(
        &mut self,
        id: TermId,
        source: &Source,
        candidates: &RowSet,
        needs_present: bool,
    ) -> Result<(RowSet, Option<RowSet>), SegmentError> {
        let rows = candidates.len();
        if !needs_present && self.is_never(id, source)? {
            return Ok((RowSet::none(rows), None));
        }
        let column = self.values(source)?;
        if !self.meter.may_read_values(column.view().len()) {
            return Ok((RowSet::none(rows), None));
        }
        let present = || column.present(rows);
        if self.plan.term(id).test == Test::Exists {
            return Ok((present(), needs_present.then(present)));
        }
        let passed = self.passing(id, source, &column, candidates);
        Ok((passed, needs_present.then(present)))
    }

    /// Returns whether the dictionary shows that no value of the source in the whole row group
    /// passes.
    fn is_never(&mut self, id: TermId, source: &Source) -> Result<bool, SegmentError> {
        let role = match source {
            Source::Fixed(fixed) => Role::Fixed(*fixed),
            Source::Attribute(path) => Role::Attribute(path.clone()),
            _ => return Ok(false),
        };
        let RowLocation::Group { segment, .. } = &self.reader.unit.location else {
            return Ok(false);
        };
        let Some(number) = segment.segment.column(&role) else { return Ok(true) };
        if let Role::Attribute(path) = role
            && segment.segment.column(&Role::Kind(path)).is_some()
        {
            return Ok(false);
        }
        let Some(dictionary) = self.reader.dictionary(number)? else { return Ok(false) };
        Ok(self.verdict(id, source, &dictionary).is_empty())
    }

    /// Returns the values of a dictionary that pass.
    fn verdict(
        &mut self,
        id: TermId,
        source: &Source,
        dictionary: &crate::embedded::segment::Dictionary,
    ) -> Rc<CodeSet> {
        let key = (id, source.clone());
        if let Some(known) = self.reader.verdicts.get(&key) {
            return Rc::clone(known);
        }
        let meter = &mut self.meter;
        let matcher = &mut self.plan.terms[id];
        let of_code = |code| {
            let value = entry(dictionary, code);
            meter.may_read_value(value) && matcher.value(value)
        };
        let verdict = Rc::new(CodeSet::new((0..dictionary.len()).map(of_code).collect()));
        if self.meter.stopped.is_none() {
            self.reader.verdicts.insert(key, Rc::clone(&verdict));
        }
        verdict
    }

    /// Returns rows in which a value passes.
    fn passing(
        &mut self,
        id: TermId,
        source: &Source,
        column: &Column,
        candidates: &RowSet,
    ) -> RowSet {
        let rows = candidates.len();
        if let Some(dictionary) = &column.dictionary
            && let Some(found) = column.rows_in(rows, &self.verdict(id, source, dictionary))
        {
            return found;
        }
        match column.view() {
            View::Picks(picks, distinct) => {
                let matcher = &mut self.plan.terms[id];
                let values = distinct.iter().map(|value| value_of(value.as_scalar()));
                let verdict: Vec<bool> = values.map(|value| matcher.value(value)).collect();
                column.rows_where(rows, |n| verdict.get(picks[n] as usize) == Some(&true))
            }
            View::Ints(values) => match IntRange::of(self.plan.term(id)) {
                Some(range) => {
                    column.rows_of(rows, RowSet::of_values(values, |value| range.contains(value)))
                }
                None => self.one_by_one(id, column, candidates),
            },
            View::Texts(texts) if self.plan.terms[id].is_search() && !is_sparse(candidates) => {
                self.search(id, column, texts, rows)
            }
            _ => self.one_by_one(id, column, candidates),
        }
    }

    /// Returns rows whose texts pass, searching the texts of all rows.
    fn search(&mut self, id: TermId, column: &Column, texts: PageTexts<'_>, rows: usize) -> RowSet {
        let mut found = RowSet::none(rows);
        let matcher = &self.plan.terms[id];
        let (bytes, ends) = (column.bytes_for(matcher, texts), texts.ends);
        let (mut first, mut start) = (0, 0);
        while first < ends.len() && self.meter.stopped.is_none() {
            let is_within = |end: &u32| *end as usize <= start + PIECE_BYTES;
            let after = first + ends[first..].partition_point(is_within).max(1);
            let end = ends[after - 1] as usize;
            let of_piece = ends[first..after].iter().map(|end| end - start as u32);
            let piece = bytes.get(start..end).unwrap_or_default();
            matcher.texts(piece, &of_piece.collect::<Vec<_>>(), |n| {
                found.insert(column.row(first + n));
            });
            (first, start) = (after, end);
            self.meter.check();
        }
        found
    }

    fn one_by_one(&mut self, id: TermId, column: &Column, candidates: &RowSet) -> RowSet {
        let view = column.view();
        let meter = &mut self.meter;
        let matcher = &mut self.plan.terms[id];
        column.rows_where(candidates.len(), |n| {
            if !candidates.contains(column.row(n)) {
                return false;
            }
            let value = view.value(n);
            meter.may_read_value(value) && matcher.value(value)
        })
    }

    /// Returns rows whose message passes, by what is known about its words, otherwise by reading
    /// it.
    fn message(&mut self, id: TermId, candidates: &RowSet) -> Result<RowSet, SegmentError> {
        let Some(words) = self.word_rows(id) else { return self.read_messages(id, candidates) };
        let mut found = words.of_page(self.reader.page, candidates.len());
        if words.is_all {
            return Ok(found);
        }
        found.intersect(candidates);
        if found.is_empty() { Ok(found) } else { self.read_messages(id, &found) }
    }

    fn read_messages(&mut self, id: TermId, candidates: &RowSet) -> Result<RowSet, SegmentError> {
        let column = self.reader.column(&Source::Fixed(Fixed::Message))?;
        let rows = candidates.len();
        let View::Texts(texts) = column.view() else {
            return self.messages_of_codes(id, &column, rows);
        };
        let mut found = if is_sparse(candidates) {
            let meter = &mut self.meter;
            let matcher = &self.plan.terms[id];
            column.rows_where(rows, |n| {
                let text = texts.get(n);
                candidates.contains(column.row(n))
                    && meter.may_read_value(Value::Text(text))
                    && matcher.text(text)
            })
        } else {
            self.search(id, &column, texts, rows)
        };
        self.add_without_message(id, &column, &mut found);
        Ok(found)
    }

    /// Adds rows without a message, which are treated as having an empty one.
    fn add_without_message(&self, id: TermId, column: &Column, found: &mut RowSet) {
        if column.rows.is_some() && self.plan.terms[id].text(b"") {
            let mut without = RowSet::all(found.len());
            without.subtract(&column.present(found.len()));
            found.unite(&without);
        }
    }

    /// Messages are not dictionary-encoded, but a column without any message looks like values of
    /// no type.
    fn messages_of_codes(
        &self,
        id: TermId,
        column: &Column,
        rows: usize,
    ) -> Result<RowSet, SegmentError> {
        if column.view().len() > 0 {
            return Err(SegmentError::Damaged("invalid message column"));
        }
        let mut found = RowSet::none(rows);
        self.add_without_message(id, column, &mut found);
        Ok(found)
    }

    /// Returns rows that have an attribute below the path, including nulls.
    fn objects(&mut self, path: &str) -> Result<RowSet, SegmentError> {
        let rows = self.reader.rows();
        let mut found = RowSet::none(rows);
        if let RowLocation::Head(chunk) = &self.reader.unit.location {
            let first = self.reader.first_row();
            let span = first as u32..(first + rows) as u32;
            let chunk = chunk.read();
            for column in chunk.paths().iter().filter(|column| is_below(column.path(), path)) {
                let numbers = column.values_of_rows(span.clone());
                column.rows()[numbers].iter().for_each(|row| found.insert(*row as usize - first));
            }
        } else {
            for below in self.reader.attribute_paths() {
                if is_below(&below, path) {
                    found.unite(&self.reader.column(&Source::Attribute(below))?.present(rows));
                }
            }
        }
        if self.reader.may_be_in_rest(path) {
            self.reader.for_each_rest(|row, known, _| {
                if std::str::from_utf8(known).is_ok_and(|known| is_below(known, path)) {
                    found.insert(row);
                }
            })?;
        }
        for promoted in PageReader::promoted_below(path) {
            found.unite(&self.reader.column(&Source::Promoted(promoted.to_owned()))?.present(rows));
        }
        Ok(found)
    }

    /// Returns the values of a source on the page.
    pub(super) fn values(&mut self, source: &Source) -> Result<Rc<Column>, SegmentError> {
        let Source::CalculatedField(number) = source else { return self.reader.column(source) };
        if let Some(known) = self.reader.kept(source) {
            return Ok(known);
        }
        let column = self.calculate(*number)?;
        Ok(self.reader.keep(source.clone(), column))
    }

    /// Returns the values of a field by alternatives; in each row the first that has a value
    /// applies.
    pub(super) fn columns_of(
        &mut self,
        field: &Field,
    ) -> Result<Vec<Vec<Rc<Column>>>, SegmentError> {
        let alternatives = self.sources_of(field, false);
        let mut all = Vec::with_capacity(alternatives.len());
        for sources in alternatives.iter() {
            let columns = sources.iter().map(|source| self.values(source));
            all.push(columns.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(all)
    }

    /// Computes a calculated field for every row of the page.
    fn calculate(&mut self, number: usize) -> Result<Column, SegmentError> {
        if self.computing.contains(&number) {
            return Ok(Column::empty());
        }
        self.computing.push(number);
        let computed = self.compute(number);
        self.computing.pop();
        computed
    }

    fn compute(&mut self, number: usize) -> Result<Column, SegmentError> {
        let rows = self.reader.rows();
        let calculated_fields = Arc::clone(&self.plan.calculated_fields);
        let mut numbers = RowNumbers { row: 0, fields: Vec::new() };
        for field in calculated_fields[number].formula.fields() {
            let of_field = self.first_numbers(field)?;
            numbers.fields.push((field.clone(), of_field));
        }
        let (mut found, mut values) = (Vec::new(), Vec::new());
        for row in 0..rows {
            numbers.row = row;
            if let Some(value) = calculated_fields[number].formula.value(&numbers) {
                found.push(row as u16);
                values.push(value);
            }
        }
        let ints = values.iter().map(|value| match value {
            Numeric::Int(whole) => Some(*whole),
            Numeric::Float(_) => None,
        });
        if let Some(ints) = ints.collect::<Option<Vec<i64>>>() {
            return Ok(Column::new(Some(found), Data::Ints(ints), None));
        }
        let mut gathered = PickCollector::default();
        for (row, value) in found.iter().zip(values) {
            let value = match value {
                Numeric::Int(whole) => Scalar::Int(whole),
                Numeric::Float(float) => Scalar::Float(float),
            };
            gathered.push(usize::from(*row), value);
        }
        Ok(gathered.finish())
    }

    /// Returns the unit of the numbers of a field.
    pub(super) fn unit_of(&self, field: &Field) -> Option<Unit> {
        self.plan.units.of(field, &self.plan.calculated_fields)
    }

    /// Returns for each row the first value of the field that is a number, in the unit of the
    /// field.
    fn first_numbers(&mut self, field: &Field) -> Result<Vec<Option<Numeric>>, SegmentError> {
        let unit = self.unit_of(field);
        let mut numbers = vec![None; self.reader.rows()];
        let mut is_decided = RowSet::none(numbers.len());
        for columns in self.columns_of(field)? {
            let mut present = RowSet::none(numbers.len());
            for column in columns {
                let view = column.view();
                for n in 0..view.len() {
                    let row = column.row(n);
                    present.insert(row);
                    if !is_decided.contains(row) && numbers[row].is_none() {
                        numbers[row] = view.value(n).number_in(unit);
                    }
                }
            }
            is_decided.unite(&present);
        }
        Ok(numbers)
    }
}

fn is_sparse(candidates: &RowSet) -> bool {
    candidates.count() * SPARSE < candidates.len()
}

/// The numbers of one row, as a record for calculated fields.
struct RowNumbers {
    row: usize,
    fields: Vec<(Field, Vec<Option<Numeric>>)>,
}

impl Fields for RowNumbers {
    fn body(&self) -> weir_expr::Body<'_> {
        weir_expr::Body { bytes: b"", json_escaped: false }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        let found = self.fields.iter().find(|(known, _)| known == field);
        match found.and_then(|(_, numbers)| *numbers.get(self.row)?) {
            Some(Numeric::Int(whole)) => visit(Value::Int(whole)),
            Some(Numeric::Float(value)) => visit(float(value)),
            None => {}
        }
    }
}
