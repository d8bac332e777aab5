//! Which lines belong to the record of the line before them: stack traces by preset, anything else
//! by a configured pattern.
//!
//! A rule is a small state machine over whole lines: a line may *start* a record, which results in
//! a [`State`], and a line may *follow* in a state, which results in the next one. Following lines
//! are joined with a line feed; a line that neither starts nor follows is a record by itself and is
//! never held.
//!
//! Invariants: matching takes time linear in the line and keeps nothing but the state; a line is
//! judged by its text alone, so docker's escaped form, CRI and plain files of one text give the
//! same records; the codes of states are stored in resume states and never change their meaning.

mod presets;
mod record;

use std::borrow::Cow;

use regex_automata::meta;
use regex_automata::util::syntax;
use weir_model::{RecordFlags, unescape_json};

pub(crate) use record::OpenRecord;

/// Maximum memory of one compiled pattern, bytes: thousands of times what a sensible pattern needs.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Maximum nesting of groups in a pattern.
const PATTERN_DEPTH_MAX: u32 = 64;

/// Default maximum number of joined lines: a deep stack trace has a few hundred.
pub const MULTILINE_LINES_DEFAULT: u32 = 500;

/// State of a reader in a multi-line record. 0: in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State(pub(crate) u8);

impl State {
    pub(crate) const NONE: Self = Self(0);
    /// In a record of a configured pattern.
    const PATTERN: Self = Self(1);
}

/// A predefined rule for the stack traces of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultilinePreset {
    /// Any of the others.
    Auto,
    /// Java, Kotlin, Scala: `java.lang.IllegalStateException: ...`, `\tat`, `Caused by:`.
    Java,
    /// Python: `Traceback (most recent call last):`, including chained and grouped ones.
    Python,
    /// Go: `panic: ...`, `fatal error: ...`, `goroutine 1 [running]:`.
    Go,
    /// Node.js: `TypeError: ...`, ` at`, with the source excerpt before it.
    Node,
    /// .NET: `System.InvalidOperationException: ...`, `   at`, ` ---> `.
    Dotnet,
    /// Ruby: ``a.rb:1:in `b': ... (RuntimeError)``, `\tfrom`; including those of Rails.
    Ruby,
    /// PHP: `Fatal error: Uncaught ...`, `Stack trace:`, `#0`; including those of Laravel.
    Php,
}

/// Why a pattern is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MultilineError {
    /// Its syntax is invalid, or it needs more than linear time.
    #[error("{0}")]
    Syntax(String),
    /// It is too large when compiled.
    #[error(
        "exceeds {PATTERN_BYTES_MAX} bytes when compiled; reduce the counted \
             repetitions"
    )]
    TooLarge,
}

/// The rule by which lines are joined into records.
#[derive(Debug, Clone)]
pub struct Multiline {
    rule: Rule,
    written: Written,
    lines_max: u32,
}

/// The rule as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Preset(MultilinePreset),
    Pattern { start: Option<String>, next: Option<String> },
}

impl PartialEq for Multiline {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written && self.lines_max == other.lines_max
    }
}

#[derive(Debug, Clone)]
enum Rule {
    Presets(presets::Presets),
    Pattern { start: Option<meta::Regex>, next: Option<meta::Regex> },
}

impl Multiline {
    /// Creates a rule that joins the stack traces of a language.
    pub fn preset(preset: MultilinePreset) -> Self {
        Self {
            rule: Rule::Presets(presets::Presets::of(preset)),
            written: Written::Preset(preset),
            lines_max: MULTILINE_LINES_DEFAULT,
        }
    }

    /// Creates a rule that joins by patterns (in the syntax of Rust's `regex`, on bytes, matched
    /// anywhere in the line). A line that matches `start` starts a record; one that matches `next`
    /// continues the record before it. Without `next`, every line that does not start a record
    /// continues it; without `start`, a record starts with any line.
    pub fn pattern(start: Option<&str>, next: Option<&str>) -> Result<Self, MultilineError> {
        let compiled = |pattern: Option<&str>| pattern.map(compile).transpose();
        let rule = Rule::Pattern { start: compiled(start)?, next: compiled(next)? };
        let written =
            Written::Pattern { start: start.map(str::to_owned), next: next.map(str::to_owned) };
        Ok(Self { rule, written, lines_max: MULTILINE_LINES_DEFAULT })
    }

    /// Limits the number of joined lines; a further record starts after that many.
    #[must_use]
    pub fn lines_max(mut self, lines: u32) -> Self {
        self.lines_max = lines.max(1);
        self
    }

    /// Returns the state after a line that starts a record; none if it is one by itself.
    #[inline]
    pub(crate) fn start(&self, body: &[u8], flags: RecordFlags) -> State {
        match &self.rule {
            // They search for nothing that docker escapes.
            Rule::Presets(presets) => presets.start(body, flags),
            Rule::Pattern { start: Some(start), .. } if !start.is_match(&*text(body, flags)) => {
                State::NONE
            }
            Rule::Pattern { .. } => State::PATTERN,
        }
    }

    /// Returns the state after a line that continues the record in `state`; none if it does not.
    pub(crate) fn follow(&self, state: State, body: &[u8], flags: RecordFlags) -> State {
        let text = text(body, flags);
        let is_next = match &self.rule {
            Rule::Presets(presets) => return presets.follow(state, &text),
            Rule::Pattern { next: Some(next), .. } => next.is_match(&*text),
            Rule::Pattern { start: Some(start), .. } => !start.is_match(&*text),
            Rule::Pattern { start: None, next: None } => false,
        };
        if is_next && state == State::PATTERN { State::PATTERN } else { State::NONE }
    }
}

/// Returns the line as it was written.
fn text(body: &[u8], flags: RecordFlags) -> Cow<'_, [u8]> {
    if flags.contains(RecordFlags::JSON_ESCAPED) {
        unescape_json(body)
    } else {
        Cow::Borrowed(body)
    }
}

fn compile(pattern: &str) -> Result<meta::Regex, MultilineError> {
    let syntax = syntax::Config::new().utf8(false).nest_limit(PATTERN_DEPTH_MAX);
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(PATTERN_BYTES_MAX));
    let mut builder = meta::Builder::new();
    builder.syntax(syntax).configure(config).build(pattern).map_err(|error| {
        match error.syntax_error() {
            Some(error) => MultilineError::Syntax(error.to_string()),
            None if error.size_limit().is_some() => MultilineError::TooLarge,
            None => MultilineError::Syntax(error.to_string()),
        }
    })
}
