//! What is known about the words of messages without reading a message: the pages that may have
//! them, and the rows that have the frequent ones.
//!
//! Invariants: a page or row that has the words is never left out. A sidecar that cannot be read
//! gives no information.

use std::rc::Rc;

use weir_expr::{Phrase, Test};

use super::eval::Evaluator;
use super::plan::TermId;
use super::prune::ALL;
use super::row_set::RowSet;
use super::unit::RowLocation;
use crate::embedded::sidecar::{Sidecar, word_term};
use crate::limits::PAGE_ROWS;

/// Rows of a row group that have all frequent words of a phrase.
#[derive(Debug)]
pub(super) struct WordRows {
    /// One bit for each row.
    rows: Vec<u64>,
    /// The phrase is a single word: exactly these rows match.
    pub(super) is_all: bool,
}

impl WordRows {
    fn of(sidecar: &Sidecar, group: usize, rows: usize, phrase: &Phrase) -> Option<Self> {
        let mut found: Option<Vec<u64>> = None;
        for word in phrase.words.iter().filter_map(|word| word.as_text()) {
            let known = sidecar.rows_of_word(group, rows, word.as_bytes());
            let Ok(Some(known)) = known else { continue };
            match &mut found {
                Some(found) => found.iter_mut().zip(known).for_each(|(a, b)| *a &= b),
                None => found = Some(known),
            }
        }
        Some(Self { rows: found?, is_all: phrase.words.len() == 1 })
    }

    /// Returns the rows of a page with the given number of rows.
    pub(super) fn of_page(&self, page: usize, rows: usize) -> RowSet {
        let start = page * (PAGE_ROWS / 64);
        RowSet::of_words(rows, self.rows.get(start..).unwrap_or_default())
    }
}

impl Evaluator {
    /// Returns the pages of the current unit whose messages may pass the term.
    pub(super) fn message_pages(&self, id: TermId) -> u64 {
        let term = self.plan.term(id);
        let of_words = match &term.test {
            Test::Words(phrase) => {
                let words = phrase.words.iter().filter_map(|word| word.as_text());
                words.fold(ALL, |mask, word| mask & self.filter_pages(word_term(word.as_bytes())))
            }
            Test::Regexp(_) => ALL,
            _ => return ALL,
        };
        if of_words == 0 { 0 } else { of_words & self.gram_pages(id) }
    }

    /// Returns the pages with all trigrams of the texts that a message must contain.
    fn gram_pages(&self, id: TermId) -> u64 {
        if let Test::Words(phrase) = &self.plan.term(id).test
            && phrase.words.iter().all(|word| word.as_text().is_some())
        {
            // The filters cover them as whole words.
            return ALL;
        }
        let RowLocation::Group { segment, group } = &self.reader.unit.location else { return ALL };
        let Some(lists) = self.plan.terms[id].required_texts() else { return ALL };
        let Some(sidecar) = &segment.sidecar else { return ALL };
        let Ok(Some(grams)) = sidecar.grams(*group) else { return ALL };
        let of_list =
            |list: &Vec<Vec<u8>>| list.iter().fold(ALL, |mask, text| mask & grams.pages(text));
        lists.iter().fold(0, |mask, list| mask | of_list(list))
    }

    /// Returns the rows of the current unit with the frequent words of the term; `None` when it has
    /// none.
    pub(super) fn word_rows(&mut self, id: TermId) -> Option<Rc<WordRows>> {
        if let Some(known) = self.word_rows.get(&id) {
            return known.clone();
        }
        let found = self.find_word_rows(id).map(Rc::new);
        self.word_rows.insert(id, found.clone());
        found
    }

    fn find_word_rows(&self, id: TermId) -> Option<WordRows> {
        let Test::Words(phrase) = &self.plan.term(id).test else { return None };
        let RowLocation::Group { segment, group } = &self.reader.unit.location else { return None };
        let rows = segment.segment.group_rows(*group);
        WordRows::of(segment.sidecar.as_ref()?, *group, rows, phrase)
    }
}
