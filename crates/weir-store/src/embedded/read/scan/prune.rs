//! Determines which pages of a row group can be skipped, from what is known about them.
//!
//! Invariant: a page with a matching row is never skipped. A sidecar that cannot be read gives no
//! information: then all pages are read.

use weir_codec::Scalar;
use weir_expr::{Field, Literal, Numeric, Reserved, Term, Test, lag_ns};

use super::eval::Evaluator;
use super::number::IntRange;
use super::page::Source;
use super::plan::{Node, TermId};
use super::unit::RowLocation;
use crate::embedded::columns::EXACT_INT_MAX;
use crate::embedded::segment::{ChunkInfo, Fixed, MinMax, Role, ValueKind};
use crate::embedded::sidecar::value_term;

/// All pages.
pub(super) const ALL: u64 = u64::MAX;

impl Evaluator {
    /// Returns the pages of the current unit that may have matching rows, one bit each.
    pub(super) fn pages(&mut self) -> u64 {
        let of_range = self
            .reader
            .unit
            .page_times
            .iter()
            .enumerate()
            .filter(|(_, (first_ns, last_ns))| self.plan.range.overlaps(*first_ns, *last_ns));
        // The head may have more pages than there are bits: the last bit stands for the remaining
        // ones.
        let in_range = of_range.fold(0, |mask, (page, _)| mask | 1 << page.min(63));
        if in_range == 0 || matches!(self.reader.unit.location, RowLocation::Head(_)) {
            return in_range;
        }
        let node = std::sync::Arc::clone(&self.plan.node);
        in_range & self.node_pages(&node)
    }

    fn node_pages(&mut self, node: &Node) -> u64 {
        match node {
            Node::All | Node::Not(_) => ALL,
            Node::And(parts) => {
                let mut mask = ALL;
                for part in parts {
                    if mask != 0 {
                        mask &= self.node_pages(part);
                    }
                }
                mask
            }
            Node::Or(parts) => parts.iter().fold(0, |mask, part| mask | self.node_pages(part)),
            Node::Term(id) => self.term_pages(*id),
        }
    }

    fn term_pages(&mut self, id: TermId) -> u64 {
        let term = &self.plan.term(id).clone();
        let is_plain = id >= self.plan.first_plain_term;
        match &term.field {
            Field::Message => self.message_pages(id),
            Field::Attribute(path) if term.test == Test::Exists && self.has_below(path) => ALL,
            Field::Attribute(_) | Field::Reserved(Reserved::TraceId | Reserved::SpanId) => {
                let alternatives = self.sources_of(&term.field, is_plain);
                let sources = alternatives.iter().flatten();
                sources.fold(0, |mask, source| mask | self.source_pages(source, term))
            }
            _ => ALL,
        }
    }

    /// Returns whether there may be attributes below the path.
    fn has_below(&mut self, path: &str) -> bool {
        let below = |known: &str| super::sources::is_below(known, path);
        self.reader.attribute_paths().iter().any(|known| below(known))
            || super::page::PageReader::promoted_below(path).next().is_some()
            || self.reader.may_be_in_rest(path)
    }

    /// Returns the pages that may contain the term.
    pub(super) fn filter_pages(&self, term: u64) -> u64 {
        let RowLocation::Group { segment, group } = &self.reader.unit.location else { return ALL };
        let Some(sidecar) = &segment.sidecar else { return ALL };
        sidecar.pages(*group, term).unwrap_or(ALL)
    }

    fn source_pages(&mut self, source: &Source, term: &Term) -> u64 {
        match source {
            Source::Attribute(path) => self.column_pages(&Role::Attribute(path.clone()), term),
            Source::Fixed(fixed @ (Fixed::TraceId | Fixed::SpanId)) => {
                self.column_pages(&Role::Fixed(*fixed), term)
            }
            Source::Rest(path) => match &term.test {
                Test::Equals(literal) => self.value_pages(&format!("@{path}"), literal),
                _ => ALL,
            },
            Source::Lag => self.lag_pages(term),
            _ => ALL,
        }
    }

    /// Returns the pages in which a record may have such a lag, from the times and arrivals of
    /// each.
    fn lag_pages(&self, term: &Term) -> u64 {
        let RowLocation::Group { segment, group } = &self.reader.unit.location else { return ALL };
        let segment = &segment.segment;
        let Some(arrivals) = segment.column(&Role::Arrival) else { return 0 };
        let arrivals = segment.chunk(*group, arrivals).and_then(ChunkInfo::ranges);
        let Some((arrivals, lags)) = arrivals.zip(IntRange::of(term)) else { return ALL };
        let may_have = |page: usize, arrivals: &Option<MinMax>| {
            let Some(MinMax::Int(first_ns, last_ns)) = arrivals else { return arrivals.is_some() };
            let page_times = self.reader.unit.page_times.get(page);
            page_times.is_none_or(|(earliest_ns, latest_ns)| {
                lags.overlaps(lag_ns(*first_ns, *latest_ns), lag_ns(*last_ns, *earliest_ns))
            })
        };
        let pages = arrivals.iter().enumerate().filter(|(page, known)| may_have(*page, known));
        pages.fold(0, |mask, (page, _)| mask | 1_u64.checked_shl(page as u32).unwrap_or(0))
    }

    fn column_pages(&mut self, role: &Role, term: &Term) -> u64 {
        let RowLocation::Group { segment, group } = &self.reader.unit.location else { return ALL };
        let Some(number) = segment.segment.column(role) else { return 0 };
        let (column, chunk) =
            (&segment.segment.columns()[number], segment.segment.chunk(*group, number));
        let (kind, name) = (column.kind, column.name());
        let Some(chunk) = chunk else { return ALL };
        match kind {
            ValueKind::Int | ValueKind::Double => {
                IntRange::of(term).map_or(ALL, |range| range_pages(chunk, range, term))
            }
            ValueKind::Text if !chunk.is_dictionary() => match &term.test {
                Test::Equals(literal) => self.value_pages(&name, literal),
                _ => ALL,
            },
            _ => ALL,
        }
    }

    /// Returns the pages that may contain a value equal to the literal: its text, or its number in
    /// any form.
    fn value_pages(&self, column: &str, literal: &Literal) -> u64 {
        let text = Scalar::Text(literal.text.as_bytes());
        let numbers = literal.number.map_or([None; 2], |number| forms_of(number.value));
        let values = [Some(text)].into_iter().chain(numbers).flatten();
        let terms = values.filter_map(|value| value_term(column, value));
        terms.fold(0, |mask, term| mask | self.filter_pages(term))
    }
}

/// Returns the forms in which numbers equal to this one are stored: an integer beyond 2^53 may also
/// be stored as a float, and zero with and without a sign.
fn forms_of(number: Numeric) -> [Option<Scalar<'static>>; 2] {
    let is_large = |float: f64| float.abs() >= EXACT_INT_MAX as f64;
    match number {
        Numeric::Int(0) => [Some(Scalar::Int(0)), Some(Scalar::Float(-0.0))],
        Numeric::Int(whole) => {
            let float = whole as f64;
            [Some(Scalar::Int(whole)), is_large(float).then_some(Scalar::Float(float))]
        }
        Numeric::Float(0.0) => forms_of(Numeric::Int(0)),
        // A float beyond all integers equals none of them; using the nearest one may find too much,
        // never too little.
        Numeric::Float(float) => {
            let whole = is_large(float).then_some(Scalar::Int(float as i64));
            [Some(Scalar::Float(float)), whole]
        }
    }
}

/// Returns the pages whose smallest and largest numbers allow for one that passes.
fn range_pages(chunk: &ChunkInfo, range: IntRange, term: &Term) -> u64 {
    let Some(ranges) = chunk.ranges() else { return ALL };
    let may_have = |known: &Option<MinMax>| match known {
        None => false,
        Some(MinMax::Int(least, most)) => range.overlaps(*least, *most),
        Some(MinMax::Double(least, most)) => may_have_float(term, *least, *most),
    };
    let pages = ranges.iter().enumerate().filter(|(_, known)| may_have(known));
    pages.fold(0, |mask, (page, _)| mask | 1_u64.checked_shl(page as u32).unwrap_or(0))
}

/// Returns whether a float in this range may pass.
fn may_have_float(term: &Term, least: f64, most: f64) -> bool {
    let (low, high) = match &term.test {
        Test::Range(range) => (range.low.literal(), range.high.literal()),
        Test::Equals(literal) => (Some(literal), Some(literal)),
        _ => return true,
    };
    let float = |literal: &Literal| match literal.number.map(|number| number.value) {
        Some(Numeric::Int(whole)) => Some(whole as f64),
        Some(Numeric::Float(float)) => Some(float),
        None => None,
    };
    // A bound rounded to a float may be off by one place, so bounds count as inclusive.
    let is_low = low.and_then(float).is_none_or(|low| low <= most);
    let is_high = high.and_then(float).is_none_or(|high| least <= high);
    is_low && is_high
}
