//! A single compiled term, to be tested against many values: for searches, which test one field of
//! many records, then the next field.
//!
//! Invariant: the result for a value is that of [`crate::naive`].

use memchr::memmem;
use regex_automata::meta;
use regex_syntax::hir::Hir;

use crate::ast::{Field, Phrase, Span, Term, Test};
use crate::char_runs::CharRuns;
use crate::error::CompileError;
use crate::fields::Value;
use crate::glob::{Glob, Piece};
use crate::limits::REGEXP_CACHE_BYTES;
use crate::set::literal::{self, Literal};
use crate::value::{canonical, has_phrase, passes};
use crate::words::is_word_byte;

/// A compiled term. Each thread uses its own clone.
#[derive(Debug, Clone)]
pub struct TermMatcher {
    term: Term,
    search: SearchStrategy,
    /// Computed once, because it is used for every part that is searched.
    required: Option<Vec<Vec<Vec<u8>>>>,
    buffer: Vec<u8>,
}

/// How many texts are searched at once.
#[derive(Debug, Clone)]
enum SearchStrategy {
    /// Each one separately.
    Each,
    /// Only texts that contain this, in lower case, can pass.
    Word { finder: Box<memmem::Finder<'static>>, around: Option<AdjacentWords> },
    /// A regular expression.
    Regexp { regexp: meta::Regex, way: RegexpStrategy },
}

/// How many texts are searched for a regular expression.
#[derive(Debug, Clone)]
enum RegexpStrategy {
    /// As one text: a match does not depend on the surrounding text.
    AsOne,
    /// At every run of characters that it requires. It has no literal worth searching for.
    CharRuns(CharRuns),
    /// Each one separately.
    Each,
}

/// Minimum length of a literal to search for instead of a run.
const LITERAL_BYTES_MIN: usize = 3;

impl RegexpStrategy {
    fn of(hir: &Hir, has_literals: bool) -> Self {
        let char_runs = if has_literals { None } else { CharRuns::of(hir) };
        match char_runs {
            Some(char_runs) => Self::CharRuns(char_runs),
            None if hir.properties().look_set().is_empty() => Self::AsOne,
            None => Self::Each,
        }
    }
}

/// The other words of a phrase without wildcards, in lower case, which must surround the word that
/// is searched for.
#[derive(Debug, Clone)]
struct AdjacentWords {
    /// The words before it, nearest first.
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

impl AdjacentWords {
    /// Returns the words around the longest one.
    fn of(phrase: &Phrase, longest: &str) -> Option<Self> {
        let words: Vec<&str> = phrase.words.iter().map(Glob::as_text).collect::<Option<_>>()?;
        let place = words.iter().position(|word| *word == longest)?;
        let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut before: Vec<Vec<u8>> = bytes(&words[..place]);
        before.reverse();
        Some(Self { before, after: bytes(&words[place + 1..]) })
    }

    /// Returns whether this range of the text is the whole word, surrounded by the other words.
    fn is_at(&self, text: &[u8], place: std::ops::Range<usize>) -> bool {
        let (Some(mut head), Some(mut tail)) = (text.get(..place.start), text.get(place.end..))
        else {
            return false;
        };
        let ends_in_word = |text: &[u8]| text.last().is_some_and(|byte| is_word_byte(*byte));
        let begins_with_word = |text: &[u8]| text.first().is_some_and(|byte| is_word_byte(*byte));
        let mut follows = |word: &Vec<u8>| {
            tail = &tail[tail.iter().take_while(|byte| !is_word_byte(**byte)).count()..];
            tail.strip_prefix(&word[..]).is_some_and(|rest| {
                tail = rest;
                !begins_with_word(rest)
            })
        };
        let mut precedes = |word: &Vec<u8>| {
            let gap = head.iter().rev().take_while(|byte| !is_word_byte(**byte)).count();
            head = &head[..head.len() - gap];
            head.strip_suffix(&word[..]).is_some_and(|rest| {
                head = rest;
                !ends_in_word(rest)
            })
        };
        !text.get(..place.start).is_some_and(ends_in_word)
            && !text.get(place.end..).is_some_and(begins_with_word)
            && self.after.iter().all(&mut follows)
            && self.before.iter().all(&mut precedes)
    }
}

impl TermMatcher {
    /// Compiles the term.
    ///
    /// # Errors
    /// A regular expression that is too large when compiled.
    pub fn new(term: &Term) -> Result<Self, CompileError> {
        Self::with_cache(term, REGEXP_CACHE_BYTES)
    }

    /// Like [`Self::new`]; a regular expression caches at most about `cache_bytes`, in each clone.
    ///
    /// # Errors
    /// As those of [`Self::new`].
    pub fn with_cache(term: &Term, cache_bytes: usize) -> Result<Self, CompileError> {
        let mut required = None;
        let search = match &term.test {
            Test::Words(phrase) => {
                required = Some(vec![texts_of(phrase)]);
                SearchStrategy::of_phrase(phrase)
            }
            Test::Regexp(regexp) => {
                let error = |message| CompileError::Regexp {
                    rule: String::new(),
                    span: Span::default(),
                    pattern: regexp.pattern.clone(),
                    message,
                };
                let hir = regexp.hir().map_err(|refused| error(refused.message))?;
                let literals = literal::required(&hir);
                // Shorter ones, such as the ten digits, are in nearly every text.
                let is_rare = |literal: &Literal| literal.len() >= LITERAL_BYTES_MIN;
                let has_literals = literals.as_ref().is_some_and(|all| all.iter().all(is_rare));
                let way = RegexpStrategy::of(&hir, has_literals);
                required = literals.map(|all| all.iter().map(Literal::certain_parts).collect());
                SearchStrategy::Regexp { regexp: regexp.compile(cache_bytes).map_err(error)?, way }
            }
            _ => SearchStrategy::Each,
        };
        Ok(Self { term: term.clone(), search, required, buffer: Vec::new() })
    }

    /// Returns the size of its compiled form in bytes, without caches.
    pub fn compiled_bytes(&self) -> usize {
        match &self.search {
            SearchStrategy::Regexp { regexp, .. } => regexp.memory_usage(),
            _ => 0,
        }
    }

    /// Returns the term.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Returns whether a value of the field passes; not for messages.
    pub fn value(&mut self, value: Value<'_>) -> bool {
        match &self.search {
            SearchStrategy::Regexp { regexp, .. } => canonical(&self.term.field, value)
                .text(&mut self.buffer)
                .is_some_and(|text| regexp.is_match(text)),
            _ => passes(&self.term.field, &self.term.test, value, &mut self.buffer),
        }
    }

    /// Returns whether a message passes. For other fields this equals [`Self::value`] of the text,
    /// except for the status.
    pub fn text(&self, text: &[u8]) -> bool {
        match (&self.term.test, &self.search) {
            (Test::Exists, _) => !text.is_empty(),
            (_, SearchStrategy::Regexp { regexp, .. }) => regexp.is_match(text),
            (Test::Words(phrase), _) => has_phrase(text, &phrase.words),
            _ => false,
        }
    }

    /// Returns lists of texts in lower case: every message that passes contains all texts of one of
    /// the lists, ignoring the case of ASCII letters. `None` when nothing is certain.
    pub fn required_texts(&self) -> Option<&[Vec<Vec<u8>>]> {
        self.required.as_deref()
    }

    /// Returns whether [`Self::texts`] can be used instead of testing each value, because the test
    /// is a text search.
    pub fn is_search(&self) -> bool {
        let is_status = self.term.field == Field::Reserved(crate::Reserved::Status);
        matches!(self.term.test, Test::Words(_) | Test::Regexp(_)) && !is_status
    }

    /// Returns whether [`Self::texts`] requires ASCII letters in lower case: word searches ignore
    /// case, and converting all texts once serves all of them.
    pub fn wants_lower_case(&self) -> bool {
        matches!(self.search, SearchStrategy::Word { .. })
    }

    /// Calls `found` once with the number of each text that passes. Text `n` ends at `ends[n]` of
    /// `bytes` and starts at the end of the previous one. See [`Self::wants_lower_case`].
    ///
    /// The texts are searched as one, because candidate positions are far fewer than texts; the
    /// time is linear in the total length.
    pub fn texts(&self, bytes: &[u8], ends: &[u32], found: impl FnMut(usize)) {
        match &self.search {
            _ if self.text(b"") => self.texts_one_by_one(bytes, ends, found),
            SearchStrategy::Word { finder, around } => {
                self.texts_with_word(bytes, ends, (finder, around.as_ref()), found);
            }
            SearchStrategy::Regexp { regexp, way: RegexpStrategy::AsOne } => {
                texts_with_regexp(bytes, ends, regexp, found);
            }
            SearchStrategy::Regexp { regexp, way: RegexpStrategy::CharRuns(char_runs) } => {
                texts_with_char_run(bytes, ends, (char_runs, regexp), found);
            }
            _ => self.texts_one_by_one(bytes, ends, found),
        }
    }

    fn texts_with_word(
        &self,
        bytes: &[u8],
        ends: &[u32],
        (finder, around): (&memmem::Finder<'_>, Option<&AdjacentWords>),
        mut found: impl FnMut(usize),
    ) {
        let mut texts = TextCursor { ends, number: 0 };
        let mut from = 0;
        while let Some(place) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let place = from + place;
            let place_end = place + finder.needle().len();
            let Some((start, end)) = texts.of(place) else { return };
            let is_within = place_end <= end;
            let text = bytes.get(start..end).unwrap_or_default();
            let passes = is_within
                && match around {
                    Some(around) => around.is_at(text, place - start..place_end - start),
                    None => self.text(text),
                };
            if passes {
                found(texts.number);
            }
            let is_decided = passes || (is_within && around.is_none());
            from = if is_decided { end } else { place + 1 };
        }
    }

    fn texts_one_by_one(&self, bytes: &[u8], ends: &[u32], mut found: impl FnMut(usize)) {
        let mut start = 0;
        for (number, end) in ends.iter().enumerate() {
            let text = bytes.get(start..*end as usize).unwrap_or_default();
            if self.text(text) {
                found(number);
            }
            start = *end as usize;
        }
    }
}

/// Returns the texts of a phrase between its wildcards, in lower case.
fn texts_of(phrase: &Phrase) -> Vec<Vec<u8>> {
    let pieces = phrase.words.iter().flat_map(Glob::pieces);
    let texts = pieces.filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.to_ascii_lowercase().into_bytes()),
        Piece::Any | Piece::One => None,
    });
    texts.collect()
}

/// Searches for a regular expression that does not depend on the text around a match, and has no
/// empty matches. Each search finds the match that ends first: no text before that end can pass, so
/// the search continues after the text in which the match ends, whether that text passes or the
/// match started in an earlier one.
fn texts_with_regexp(
    bytes: &[u8],
    ends: &[u32],
    regexp: &meta::Regex,
    mut found: impl FnMut(usize),
) {
    let mut texts = TextCursor { ends, number: 0 };
    let mut from = 0;
    while let Some(place_end) = find_end(regexp, bytes, from) {
        let Some((start, end)) = texts.of(place_end.saturating_sub(1)) else { return };
        if regexp.is_match(bytes.get(start..end).unwrap_or_default()) {
            found(texts.number);
        }
        from = end;
    }
}

/// Searches for a regular expression that matches only where there is a run: each text with a
/// run is tested once.
fn texts_with_char_run(
    bytes: &[u8],
    ends: &[u32],
    (char_runs, regexp): (&CharRuns, &meta::Regex),
    mut found: impl FnMut(usize),
) {
    let mut texts = TextCursor { ends, number: 0 };
    let mut from = 0;
    while let Some(char_run) = char_runs.find(bytes, from) {
        let Some((start, end)) = texts.of(char_run.end - 1) else { return };
        if char_run.start < start {
            // It crosses the end of a text: the next text may contain a complete one.
            from = start;
            continue;
        }
        if regexp.is_match(bytes.get(start..end).unwrap_or_default()) {
            found(texts.number);
        }
        from = end;
    }
}

/// Returns the end of the first match after `from`.
fn find_end(regexp: &meta::Regex, bytes: &[u8], from: usize) -> Option<usize> {
    let input = regex_automata::Input::new(bytes).range(from.min(bytes.len())..).earliest(true);
    regexp.search_half(&input).map(|half| half.offset())
}

/// Advances over texts.
struct TextCursor<'a> {
    ends: &'a [u32],
    number: usize,
}

impl TextCursor<'_> {
    /// Returns start and end of the text that the byte belongs to.
    fn of(&mut self, at: usize) -> Option<(usize, usize)> {
        let rest = self.ends.get(self.number..)?;
        // Usually near the previous one.
        let near = rest.iter().take(8).position(|end| *end as usize > at);
        let skipped = near.unwrap_or_else(|| rest.partition_point(|end| *end as usize <= at));
        self.number += skipped;
        let end = *self.ends.get(self.number)? as usize;
        let start = self.number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some((start, end))
    }
}

impl SearchStrategy {
    fn of_phrase(phrase: &Phrase) -> Self {
        let pieces = phrase.words.iter().flat_map(|word| {
            word.pieces().iter().filter_map(|piece| match piece {
                Piece::Text(text) => Some(text.as_str()),
                Piece::Any | Piece::One => None,
            })
        });
        let Some(longest) = pieces.max_by_key(|text| text.len()) else { return Self::Each };
        let around = AdjacentWords::of(phrase, longest);
        Self::Word { finder: Box::new(memmem::Finder::new(longest).into_owned()), around }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ExprKind, SampleRecord, naive, parse};

    fn matcher(text: &str) -> (crate::Expr, TermMatcher) {
        let expr = parse(text).unwrap();
        let ExprKind::Term(term) = &expr.kind else { panic!("{text} is no term") };
        let matcher = TermMatcher::new(term).unwrap();
        (expr, matcher)
    }

    #[test]
    fn regexp_search_uses_a_rare_literal() {
        let way = |text: &str| match matcher(text).1.search {
            SearchStrategy::Regexp { way: RegexpStrategy::CharRuns(_), .. } => "runs",
            SearchStrategy::Regexp { way: RegexpStrategy::AsOne, .. } => "as one",
            _ => "each",
        };
        // The ten digits, and two letters, are literals too.
        for text in ["/[0-9]{9}/", "/\\b[0-9a-f]{16}\\b/", "/10[0-9]{6}/", "/#[0-9]{7}/"] {
            assert_eq!(way(text), "runs", "{text}");
        }
        for text in ["/user[0-9]{9}/", "/zqx[0-9]+/", "/[0-9]+/"] {
            assert_eq!(way(text), "as one", "{text}");
        }
        assert_eq!(way("/[0-9]$/"), "each");
    }

    const QUERIES: [&str; 27] = [
        "error",
        "\"b a\"",
        "\"a b a\"",
        "\"ab b\"",
        "er*",
        "*r",
        "*",
        "?",
        "a?",
        "\"\"",
        "/a.b/",
        "/^a/",
        "/b$/",
        "/\\bab\\b/",
        "/a*/",
        "/b+a/i",
        "/a.*b/",
        "/é/",
        "/b A/i",
        "/(a|éb*)b b/",
        "/[aé]B+a?/",
        "/[0-9]{5}/",
        "/\\b[0-9]{7}\\b/",
        "/^[0-3]{5}[0-9]?$/",
        "/x\\d{5}[a-f]/",
        "é",
        "message:*",
    ];

    proptest! {
        #[test]
        fn batch_search_agrees_with_single_texts(
            texts in prop::collection::vec(
                "[abAB é\n-]{0,9}|error|a b ERROR|[0-3]{3,8}[a٣]?|[x ]?[0-9]{4,8}[ ab]?",
                0..20,
            ),
        ) {
            let mut bytes = Vec::new();
            let mut ends = Vec::new();
            for text in &texts {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(bytes.len() as u32);
            }
            for query in QUERIES {
                let expr = parse(query).unwrap();
                let ExprKind::Term(term) = &expr.kind else { continue };
                let matcher = TermMatcher::new(term).unwrap();
                let mut found = Vec::new();
                let folded = bytes.to_ascii_lowercase();
                let searched = if matcher.wants_lower_case() { &folded } else { &bytes };
                matcher.texts(searched, &ends, |number| found.push(number));
                found.sort_unstable();
                found.dedup();
                let wanted: Vec<usize> = (0..texts.len())
                    .filter(|n| naive::matches(&expr, &SampleRecord::with_message(texts[*n].as_bytes())))
                    .collect();
                prop_assert_eq!(&found, &wanted, "{} in {:?}", query, texts);
                if let Some(lists) = matcher.required_texts() {
                    for number in &wanted {
                        let text = texts[*number].to_ascii_lowercase();
                        let has = |part: &Vec<u8>| memmem::find(text.as_bytes(), part).is_some();
                        prop_assert!(lists.iter().any(|list| list.iter().all(has)), "{}", query);
                    }
                }
                let each: Vec<usize> =
                    (0..texts.len()).filter(|n| matcher.text(texts[*n].as_bytes())).collect();
                prop_assert_eq!(each, wanted, "{} one by one in {:?}", query, texts);
            }
        }
    }

    #[test]
    fn required_literals_of_a_term_are_known() {
        let bytes_of =
            |list: &Vec<&str>| list.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        for (query, want) in [
            ("\"Time out*\"", Some(vec![vec!["time", "out"]])),
            ("?*", Some(vec![vec![]])),
            ("/Refused by [0-9]+/", Some(vec![vec!["refused by "]])),
            ("/(lost|gone) peer/", Some(vec![vec!["gone peer"], vec!["lost peer"]])),
            ("/desk lost/i", Some(vec![vec!["de", " lo", "t"]])),
            ("/[^a]+/", None),
            ("message:*", None),
        ] {
            let want: Option<Vec<_>> = want.map(|lists| lists.iter().map(bytes_of).collect());
            assert_eq!(matcher(query).1.required_texts(), want.as_deref(), "{query}");
        }
    }

    #[test]
    fn single_values_match_as_in_a_record() {
        for (query, value, want) in [
            ("@a:/^b/", Value::Text(b"bc"), true),
            ("@a:/^4/", Value::Int(404), true),
            ("@a:404", Value::Int(404), true),
            ("@a:>1s", Value::Text(b"2s"), true),
            ("status:err", Value::Text(b"error"), true),
            ("@a:*", Value::Null, false),
        ] {
            assert_eq!(matcher(query).1.value(value), want, "{query}");
        }
        assert!(matcher("@a:/x/").1.is_search());
        assert!(!matcher("status:/x/").1.is_search());
    }
}
