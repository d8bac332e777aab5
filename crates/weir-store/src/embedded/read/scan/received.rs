//! A page of the records of one service in the form in which they were received.
//!
//! The rows of a service are found without reading others: in a row group from its cached services
//! ([`super::services`]), in the head by the number of the service's name.

use std::ops::Range;
use std::sync::atomic::AtomicI64;

use weir_expr::Value;
use weir_model::Kinds;

use super::column::{Column, View, entry};
use super::eval::Evaluator;
use super::page::{Source, form_of};
use super::plan::Plan;
use super::prune::ALL;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink};
use super::search::{TopRows, page_of};
use super::services::SpanCache;
use super::unit::Unit;
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::{Detail, Fixed};
use crate::limits::PAGE_ROWS;
use crate::query::{Budget, QueryError, ReceivedRequest, SearchPage};

/// The best rows of a service that one thread has found.
struct ServiceRows<'a> {
    top: TopRows<'a>,
    name: &'a [u8],
    kinds: Kinds,
    cache: &'a SpanCache,
    /// Rows of the current unit that are all of the service; otherwise each is checked.
    dense: Option<Range<usize>>,
}

impl<'a> ServiceRows<'a> {
    fn top(self) -> TopRows<'a> {
        self.top
    }

    /// Returns the rows of a page that are of the service: by its name, or without a service from
    /// the source of that name.
    fn matching(&self, at: &mut Evaluator, rows: &RowSet) -> Result<RowSet, ScanStop> {
        let services = at.reader.column(&Source::Fixed(Fixed::Service))?;
        let mut found = equal(&services, self.name, rows.len());
        let mut without = rows.clone();
        without.subtract(&services.present(rows.len()));
        if !without.is_empty() {
            let sources = at.reader.column(&Source::Fixed(Fixed::Source))?;
            without.intersect(&equal(&sources, self.name, rows.len()));
            found.unite(&without);
        }
        Ok(found)
    }
}

/// Returns the rows whose value is this text.
fn equal(column: &Column, text: &[u8], rows: usize) -> RowSet {
    let view = column.view();
    let mut found = RowSet::none(rows);
    let is_equal = |value: Value<'_>| matches!(value, Value::Text(value) if value == text);
    if let View::Codes(codes, dictionary) = view {
        let wanted = (0..dictionary.len()).find(|code| is_equal(entry(dictionary, *code)));
        let Some(wanted) = wanted else { return found };
        let numbers = codes.iter().enumerate().filter(|(_, code)| **code as usize == wanted);
        for (number, _) in numbers {
            found.insert(column.row(number));
        }
        return found;
    }
    for number in (0..view.len()).filter(|number| is_equal(view.value(*number))) {
        found.insert(column.row(number));
    }
    found
}

/// The bits of the pages in which these rows are.
fn pages_of(rows: &Range<usize>) -> u64 {
    let (first, last) = (rows.start / PAGE_ROWS, rows.end.saturating_sub(1) / PAGE_ROWS);
    (first..=last).fold(0, |mask, page| mask | 1 << page.min(63))
}

impl Sink for ServiceRows<'_> {
    fn may_contribute(&self, unit: &Unit) -> bool {
        self.top.may_contribute(unit)
    }

    fn pages(&mut self, at: &mut Evaluator) -> Result<u64, ScanStop> {
        self.dense = None;
        let Some(known) = self.cache.of_group(at)? else { return Ok(ALL) };
        let spans = known.of(self.name);
        let is_of_use =
            |span: &&super::services::Span| self.top.is_of_use_until((span.first_ns, span.last_ns));
        let mut mask = 0;
        for span in spans.into_iter().flatten().filter(is_of_use) {
            mask |= pages_of(&span.range());
        }
        if let [Some(span), None] = spans
            && span.is_dense()
        {
            self.dense = Some(span.range());
        }
        Ok(mask)
    }

    fn page_order(&self, unit: &Unit) -> Vec<usize> {
        self.top.page_order(unit)
    }

    fn narrow(&mut self, at: &mut Evaluator, mut rows: RowSet) -> Result<RowSet, ScanStop> {
        let found = match &self.dense {
            Some(dense) => {
                let first = at.reader.first_row();
                RowSet::of(rows.len(), |row| dense.contains(&(first + row)))
            }
            None => self.matching(at, &rows)?,
        };
        rows.intersect(&found);
        if rows.is_empty() { Ok(rows) } else { self.top.narrow(at, rows) }
    }

    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        if self.kinds == Kinds::ALL {
            return self.top.rows(at, rows);
        }
        let forms = at.reader.column(&Source::Fixed(Fixed::Form))?;
        let mut wanted = RowSet::none(rows.len());
        for row in rows.iter() {
            if form_of(&forms, row).is_none_or(|form| self.kinds.contains(form.kind())) {
                wanted.insert(row);
            }
        }
        self.top.rows(at, &wanted)
    }
}

/// Returns a page of records with the bytes in which they were received.
///
/// # Errors
/// See [`QueryError`].
pub fn received(
    snapshot: &Snapshot,
    request: &ReceivedRequest,
    cache: &SpanCache,
    budget: &Budget,
) -> Result<SearchPage, QueryError> {
    let plan = Plan::new(&request.search.filter, &snapshot.deletions, budget)?;
    let bound = AtomicI64::new(i64::MAX);
    let make = || ServiceRows {
        top: TopRows::new(&request.search, &bound),
        name: request.service.as_bytes(),
        kinds: request.kinds,
        cache,
        dense: None,
    };
    page_of(snapshot, &request.search, &plan, budget, Detail::Received, make, ServiceRows::top)
}
