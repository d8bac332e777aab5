//! Errors in expressions: the location, what was expected, and a suggestion.

use std::fmt;

use crate::ast::Span;

/// An expression that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// The whole text that was parsed.
    pub text: String,
    /// Where the error is.
    pub span: Span,
    /// The error, in lower case.
    pub message: String,
    /// What was expected there.
    pub expected: Option<String>,
    /// The whole text with the probable correction.
    pub suggestion: Option<String>,
}

/// Shows the message, the line of the text with the location marked below it, and the hints.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        let (line, start, end) = self.line();
        let before: usize = line[..start].chars().count();
        let marked = line[start..end].chars().count().max(1);
        write!(f, "\n  {line}\n  {:before$}{}", "", "^".repeat(marked))?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, "\n  did you mean: {suggestion}")?;
        }
        Ok(())
    }
}

/// Maximum number of bytes of a line to show; the rest is left out.
const SHOWN_BYTES: usize = 160;

impl ParseError {
    /// Creates an error at a location in a text.
    pub(crate) fn new(text: &str, span: Span, message: impl Into<String>) -> Self {
        let (text, message) = (text.to_owned(), message.into());
        Self { text, span, message, expected: None, suggestion: None }
    }

    /// Adds what was expected.
    pub(crate) fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// Adds the probable correction.
    pub(crate) fn suggest(mut self, text: String) -> Self {
        self.suggestion = Some(text);
        self
    }

    /// Returns the line in which the error starts, shortened for display, and the error's position
    /// in it.
    fn line(&self) -> (&str, usize, usize) {
        let text = &self.text;
        let at = floor(text, self.span.start.min(text.len()));
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let start = floor(text, line_start.max(at.saturating_sub(SHOWN_BYTES / 2)));
        let end = floor(text, line_end.min(start + SHOWN_BYTES)).max(at);
        let marked_end = floor(text, self.span.end.clamp(at, end));
        (&text[start..end], at - start, marked_end - start)
    }
}

/// Returns the nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Reasons why a set of rules or a single expression cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There are more rules than a set can hold.
    #[error("too many rules: {count}, the maximum is {max}")]
    TooManyRules {
        /// Number of rules.
        count: usize,
        /// Maximum number of rules.
        max: usize,
    },
    /// A regular expression is invalid, or too large when compiled.
    #[error("{}/{pattern}/ {message}", of_rule(rule))]
    Regexp {
        /// The rule that contains it; empty for a single expression.
        rule: String,
        /// Its location in the rule's expression.
        span: Span,
        /// The pattern.
        pattern: String,
        /// The error.
        message: String,
    },
    /// All regular expressions together exceed the memory limit.
    #[error("{} take {bytes} bytes when compiled; the maximum is {max}", all_of(rule))]
    TooLarge {
        /// The rule at which the limit was exceeded; empty for a single expression.
        rule: String,
        /// The memory that they take.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// Returns the prefix of an error message that names the rule, if there is one.
fn of_rule(rule: &str) -> String {
    if rule.is_empty() { String::new() } else { format!("rule \"{rule}\": ") }
}

/// Returns what exceeds a limit: the regular expressions of a single expression, or those of all
/// rules up to this one.
fn all_of(rule: &str) -> String {
    if rule.is_empty() {
        "the regular expressions together".to_owned()
    } else {
        format!("{}the regular expressions up to this rule", of_rule(rule))
    }
}
