//! Messages by what they have in common: the words that are no numbers and no identifiers.
//!
//! A template is the message with `*` in place of every word that has a digit in it, or that is
//! longer than a word is; neighbouring `*` are one. That needs one look at each message, and puts
//! together what a program wrote by one statement, unless it puts plain words into it.

use std::collections::HashMap;

use weir_expr::words::is_word_byte;

use super::column::View;
use super::eval::Evaluator;
use super::fields::unknown_fields;
use super::page::Source;
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{Halt, Sink, run};
use super::search::{Spot, records_of};
use super::unit::Unit;
use crate::embedded::hash::{FoldState, hash_bytes};
use crate::embedded::segment::Fixed;
use crate::embedded::snapshot::Snapshot;
use crate::query::{Budget, Pattern, Patterns, PatternsRequest, QueryError, Stop};

/// Records that are shown of each pattern.
const EXAMPLES: usize = 3;

/// Bytes of a template: what is behind them does not tell messages apart.
const TEMPLATE_BYTES_MAX: usize = 512;

/// A longer run of letters is no word.
const WORD_BYTES_MAX: usize = 40;

/// What is known of a template.
struct Known {
    template: Vec<u8>,
    count: u64,
    examples: Vec<Spot>,
}

/// The templates that one thread has seen.
struct Seen {
    budget: Budget,
    templates: HashMap<u64, Known, FoldState>,
    matched: u64,
    is_cut: bool,
    buffer: Vec<u8>,
}

impl Seen {
    fn add(&mut self, message: &[u8], spot: Spot) {
        self.buffer.clear();
        template_of(message, &mut self.buffer);
        let hash = hash_bytes(&self.buffer);
        if let Some(known) = self.templates.get_mut(&hash) {
            known.count += 1;
            if known.examples.len() < EXAMPLES {
                known.examples.push(spot);
            }
        } else if self.budget.take(self.buffer.len() + 256).is_ok() {
            let known = Known { template: self.buffer.clone(), count: 1, examples: vec![spot] };
            self.templates.insert(hash, known);
        } else {
            self.is_cut = true;
        }
    }

    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        self.is_cut |= other.is_cut;
        for (hash, theirs) in other.templates {
            match self.templates.get_mut(&hash) {
                Some(known) => {
                    known.count += theirs.count;
                    known.examples.extend(theirs.examples);
                    known.examples.truncate(EXAMPLES);
                }
                None => drop(self.templates.insert(hash, theirs)),
            }
        }
    }
}

impl Sink for Seen {
    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), Halt> {
        self.matched += rows.count() as u64;
        let unit = at.reader.unit_number;
        let first = at.reader.first_row();
        let messages = at.reader.column(&Source::Fixed(Fixed::Message))?;
        let mut left = rows.clone();
        if let View::Texts(texts) = messages.view() {
            for n in 0..texts.len() {
                let row = messages.row(n);
                if rows.contains(row) {
                    self.add(texts.get(n), Spot { rank: (0, 0), unit, row: first + row });
                }
            }
            left.subtract(&messages.present(rows.len()));
        }
        for row in left.iter() {
            self.add(b"", Spot { rank: (0, 0), unit, row: first + row });
        }
        if self.is_cut { Err(Halt::Stop(Stop::Memory)) } else { Ok(()) }
    }
}

/// Writes the template of a message.
fn template_of(message: &[u8], template: &mut Vec<u8>) {
    let mut rest = message;
    while let Some(first) = rest.first() {
        let is_word = is_word_byte(*first);
        let len = rest.iter().position(|byte| is_word_byte(*byte) != is_word).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(len);
        rest = behind;
        let differs = is_word && (len > WORD_BYTES_MAX || run.iter().any(u8::is_ascii_digit));
        if !differs {
            template.extend_from_slice(run);
        } else if template.last() != Some(&b'*') {
            template.push(b'*');
        }
        merge_stars(template);
        if template.len() > TEMPLATE_BYTES_MAX {
            template.truncate(TEMPLATE_BYTES_MAX);
            return;
        }
    }
}

/// `*.*` and `*-*` are one: addresses, times and identifiers have parts.
fn merge_stars(template: &mut Vec<u8>) {
    if let [.., b'*', b'.' | b'-' | b':' | b'/' | b',' | b'_', b'*'] = template[..] {
        template.truncate(template.len() - 2);
    }
}

/// Messages by what they have in common.
///
/// # Errors
/// See [`QueryError`].
pub fn patterns(
    snapshot: &Snapshot,
    request: &PatternsRequest,
    budget: &Budget,
) -> Result<Patterns, QueryError> {
    let plan = Plan::new(&request.filter, &snapshot.deletions)?;
    let units = Unit::of(snapshot, plan.range);
    let make = || Seen {
        budget: budget.clone(),
        templates: HashMap::default(),
        matched: 0,
        is_cut: false,
        buffer: Vec::new(),
    };
    let done = run(snapshot, &units, &plan, budget, make)?;
    let mut seen = make();
    done.sinks.into_iter().for_each(|sink| seen.merge(sink));
    let mut found: Vec<Known> = seen.templates.into_values().collect();
    found.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.template.cmp(&b.template)));
    found.truncate(request.limit);
    let mut coverage = done.coverage;
    let mut patterns = Vec::with_capacity(found.len());
    for known in found {
        patterns.push(Pattern {
            template: String::from_utf8_lossy(&known.template).into_owned(),
            count: known.count,
            examples: records_of(&units, &known.examples, &mut coverage)?,
        });
    }
    coverage.unknown_fields = unknown_fields(snapshot, &request.filter, [], budget)?;
    Ok(Patterns { patterns, matched: seen.matched, coverage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_statement_have_one_template() {
        for (message, want) in [
            ("request 42 took 1.5 ms", "request * took * ms"),
            ("request 7 took 20 ms", "request * took * ms"),
            ("GET /a/17/b from 10.0.0.1:80", "GET /a/*/b from *"),
            ("id=4f1c-99aa-00bc done", "id=* done"),
            ("no number", "no number"),
            ("", ""),
        ] {
            let mut template = Vec::new();
            template_of(message.as_bytes(), &mut template);
            assert_eq!(String::from_utf8_lossy(&template), want, "{message}");
        }
    }
}
