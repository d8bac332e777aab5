//! Groups messages by their template: the words that are neither numbers nor identifiers.
//!
//! A template is the message with `*` in place of every word that contains a digit, is the name of
//! a day or a month, or is too long to be a word; adjacent `*` are merged. That takes one pass over
//! each message. At the end, templates that differ only in some words are merged.
//!
//! When there are more templates than fit into memory, the rarer half is repeatedly dropped; the
//! answer reports that.

use std::collections::HashMap;

use weir_expr::words::is_word_byte;

use super::clusters::clusters;
use super::column::View;
use super::eval::Evaluator;
use super::fields::unknown_fields;
use super::page::Source;
use super::plan::Plan;
use super::row_set::RowSet;
use super::run::{ScanStop, Sink, run, thread_count};
use super::search::{RowRef, records_of};
use super::unit::Unit;
use crate::embedded::hash::{FoldState, hash_bytes};
use crate::embedded::read::snapshot::Snapshot;
use crate::embedded::segment::{Detail, Fixed};
use crate::query::{Budget, Pattern, Patterns, PatternsRequest, QueryError};

/// Number of example records of each pattern.
const EXAMPLES: usize = 3;

/// Maximum length of a template in bytes; what follows does not distinguish messages.
const TEMPLATE_BYTES_MAX: usize = 512;

/// A longer run of letters is not considered a word.
const WORD_BYTES_MAX: usize = 40;

/// Memory used by a template besides its text, in bytes.
const KNOWN_BYTES: usize = 256;

/// Parts of a date that contain no digits.
const NAMES: [&[u8]; 19] = [
    b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun", b"Jan", b"Feb", b"Mar", b"Apr", b"May",
    b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// What is known about a template.
struct TemplateStats {
    template: Vec<u8>,
    count: u64,
    examples: Vec<RowRef>,
}

/// The templates seen by one thread.
struct TemplateCollector {
    templates: HashMap<u64, TemplateStats, FoldState>,
    matched: u64,
    /// Memory limit for templates, and how much of it they use.
    bytes_max: usize,
    bytes: usize,
    is_approximate: bool,
    buffer: Vec<u8>,
}

impl TemplateCollector {
    fn new(bytes_max: usize) -> Self {
        Self {
            templates: HashMap::default(),
            matched: 0,
            bytes_max,
            bytes: 0,
            is_approximate: false,
            buffer: Vec::new(),
        }
    }

    /// Drops the rarer half of the templates until they fit.
    fn fit(&mut self) {
        while self.bytes > self.bytes_max && self.templates.len() > 1 {
            let mut counts: Vec<(u64, u64)> =
                self.templates.iter().map(|(hash, known)| (known.count, *hash)).collect();
            let half = counts.len() / 2;
            let (_, first_kept, _) = counts.select_nth_unstable(half);
            let first_kept = *first_kept;
            self.templates.retain(|hash, known| (known.count, *hash) >= first_kept);
            self.bytes = self.templates.values().map(TemplateStats::bytes).sum();
            self.is_approximate = true;
        }
    }

    fn add(&mut self, message: &[u8], row_ref: RowRef) {
        self.buffer.clear();
        template_of(message, &mut self.buffer);
        let hash = hash_bytes(&self.buffer);
        if let Some(known) = self.templates.get_mut(&hash) {
            known.count += 1;
            if known.examples.len() < EXAMPLES {
                known.examples.push(row_ref);
            }
        } else {
            let known =
                TemplateStats { template: self.buffer.clone(), count: 1, examples: vec![row_ref] };
            self.bytes += known.bytes();
            self.templates.insert(hash, known);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        self.is_approximate |= other.is_approximate;
        for (hash, theirs) in other.templates {
            if let Some(known) = self.templates.get_mut(&hash) {
                known.merge(theirs);
            } else {
                self.bytes += theirs.bytes();
                self.templates.insert(hash, theirs);
            }
        }
        self.fit();
    }
}

impl TemplateStats {
    fn bytes(&self) -> usize {
        self.template.len() + KNOWN_BYTES
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES);
    }
}

impl Sink for TemplateCollector {
    fn rows(&mut self, at: &mut Evaluator, rows: &RowSet) -> Result<(), ScanStop> {
        self.matched += rows.count() as u64;
        // A page may exceed the memory limit.
        self.fit();
        let unit = at.reader.unit_number;
        let first = at.reader.first_row();
        let messages = at.reader.column(&Source::Fixed(Fixed::Message))?;
        let mut left = rows.clone();
        if let View::Texts(texts) = messages.view() {
            for n in 0..texts.len() {
                let row = messages.row(n);
                if rows.contains(row) {
                    self.add(texts.get(n), RowRef { rank: (0, 0), unit, row: first + row });
                }
            }
            left.subtract(&messages.present(rows.len()));
        }
        for row in left.iter() {
            self.add(b"", RowRef { rank: (0, 0), unit, row: first + row });
        }
        Ok(())
    }
}

/// Writes the template of a message.
fn template_of(message: &[u8], template: &mut Vec<u8>) {
    let mut rest = message.trim_ascii_end();
    while let Some(first) = rest.first() {
        let is_word = is_word_byte(*first);
        let len = rest.iter().position(|byte| is_word_byte(*byte) != is_word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(len);
        rest = after;
        let differs = is_word
            && (len > WORD_BYTES_MAX || run.iter().any(u8::is_ascii_digit) || NAMES.contains(&run));
        if differs {
            push_star(template);
        } else if run.iter().all(|byte| *byte == b' ') {
            // Runs of blanks become one: alignment varies from message to message.
            template.push(b' ');
        } else {
            template.extend_from_slice(run);
        }
        if template.len() > TEMPLATE_BYTES_MAX {
            template.truncate(TEMPLATE_BYTES_MAX);
            return;
        }
    }
}

/// Merges `*.*` and `*-*` into one `*`: addresses, times and identifiers have parts. A sign belongs
/// to its number and does not distinguish messages: `= -*` becomes `= *`.
fn push_star(template: &mut Vec<u8>) {
    match template[..] {
        [.., b'*'] => return,
        [.., b'*', b'.' | b'-' | b':' | b'/' | b',' | b'_'] => {
            template.truncate(template.len() - 2);
        }
        [.., before, b'-' | b'+'] if !is_word_byte(before) => drop(template.pop()),
        [b'-' | b'+'] => template.clear(),
        _ => {}
    }
    template.push(b'*');
}

/// Merges templates that belong together, the most frequent first.
fn clustered(mut templates: Vec<TemplateStats>) -> Vec<TemplateStats> {
    let order = |a: &TemplateStats, b: &TemplateStats| {
        b.count.cmp(&a.count).then_with(|| a.template.cmp(&b.template))
    };
    templates.sort_by(order);
    let texts: Vec<&[u8]> = templates.iter().map(|known| &known.template[..]).collect();
    let clusters = clusters(&texts);
    let mut templates: Vec<Option<TemplateStats>> = templates.into_iter().map(Some).collect();
    let together = clusters.into_iter().filter_map(|cluster| {
        let mut members = cluster.members.iter().filter_map(|number| templates[*number].take());
        let mut known = members.next()?;
        members.for_each(|member| known.merge(member));
        known.template = cluster.template;
        Some(known)
    });
    // A template may have become equal to one that had a number in place of the word.
    let mut same: HashMap<Vec<u8>, TemplateStats> = HashMap::new();
    for known in together {
        match same.get_mut(&known.template) {
            Some(first) => first.merge(known),
            None => drop(same.insert(known.template.clone(), known)),
        }
    }
    let mut found: Vec<TemplateStats> = same.into_values().collect();
    found.sort_by(order);
    found
}

/// Returns the patterns of messages.
///
/// # Errors
/// See [`QueryError`].
pub fn patterns(
    snapshot: &Snapshot,
    request: &PatternsRequest,
    budget: &Budget,
) -> Result<Patterns, QueryError> {
    let plan = Plan::new(&request.filter, &snapshot.deletions, budget)?;
    let units = Unit::of(snapshot, plan.range);
    let memory_bytes = budget.memory_left_bytes();
    let bytes_max = memory_bytes / thread_count(units.len());
    let done = run(snapshot, &units, &plan, budget, || TemplateCollector::new(bytes_max))?;
    let mut seen = TemplateCollector::new(memory_bytes);
    done.sinks.into_iter().for_each(|sink| seen.merge(sink));
    let mut found = clustered(seen.templates.into_values().collect());
    found.truncate(request.limit);
    let mut coverage = done.coverage;
    let mut patterns = Vec::with_capacity(found.len());
    for known in found {
        patterns.push(Pattern {
            template: String::from_utf8_lossy(&known.template).into_owned(),
            count: known.count,
            examples: records_of(&units, &known.examples, Detail::All, &mut coverage)?,
        });
    }
    let TemplateCollector { matched, is_approximate, .. } = seen;
    coverage.unknown_fields = unknown_fields(snapshot, &request.filter, [], matched > 0, budget)?;
    Ok(Patterns { patterns, matched, is_approximate, coverage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_log_statement_share_a_template() {
        for (message, want) in [
            ("request 42 took 1.5 ms", "request * took * ms"),
            ("request 7 took 20 ms", "request * took * ms"),
            ("GET /a/17/b from 10.0.0.1:80", "GET /a/*/b from *"),
            ("id=4f1c-99aa-00bc done", "id=* done"),
            ("no number", "no number"),
            ("boot = -17 or +4, -1.5\r", "boot = * or *, *"),
            ("got blk_-16 and blk_17 of x-1", "got blk_* and blk_* of x-*"),
            ("Sun Dec  4 04:47:44 2005 Monday", "* * * * * Monday"),
            ("-1", "*"),
            ("", ""),
        ] {
            let mut template = Vec::new();
            template_of(message.as_bytes(), &mut template);
            assert_eq!(String::from_utf8_lossy(&template), want, "{message}");
        }
    }
}
