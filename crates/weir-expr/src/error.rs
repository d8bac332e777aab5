//! What is wrong with an expression: where, what was expected, and what would be right.

use std::fmt;

use crate::ast::Span;

/// An expression that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// The whole text that was parsed.
    pub text: String,
    /// Where it is wrong.
    pub span: Span,
    /// What is wrong there, in lower case.
    pub message: String,
    /// What could stand there.
    pub expected: Option<String>,
    /// What would probably be right, in full.
    pub suggestion: Option<String>,
}

/// The message, the line of the text with the place marked below it, and the hints.
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

/// Longest part of a line that is shown, bytes; the rest of it is left out.
const SHOWN_BYTES: usize = 160;

impl ParseError {
    /// An error at a place of a text.
    pub(crate) fn new(text: &str, span: Span, message: impl Into<String>) -> Self {
        let (text, message) = (text.to_owned(), message.into());
        Self { text, span, message, expected: None, suggestion: None }
    }

    /// With what could stand there.
    pub(crate) fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// With what would probably be right.
    pub(crate) fn suggest(mut self, text: String) -> Self {
        self.suggestion = Some(text);
        self
    }

    /// The line that the error begins in, cut to what can be shown, and the error's place in it.
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

/// The nearest place at or before `at` where a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A set of rules, or a single expression, that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There are more rules than a set can hold.
    #[error("{count} rules are too many for one set; at most {max} fit")]
    TooManyRules {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A regular expression is wrong, or too large when it is compiled.
    #[error("{}/{pattern}/ {message}", of_rule(rule))]
    Regexp {
        /// The rule that it is in; empty for a single expression.
        rule: String,
        /// Where in the rule's expression.
        span: Span,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// All regular expressions together take more memory than is allowed.
    #[error(
        "{}the regular expressions up to here take {bytes} bytes; at most {max} are allowed",
        of_rule(rule)
    )]
    TooLarge {
        /// The rule at which the limit was passed.
        rule: String,
        /// What they take.
        bytes: usize,
        /// What they may take.
        max: usize,
    },
}

/// The rule that something is wrong with, for errors of expressions that are in one.
fn of_rule(rule: &str) -> String {
    if rule.is_empty() { String::new() } else { format!("rule \"{rule}\": ") }
}
