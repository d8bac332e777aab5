//! Regular expressions: what is supported, and how it is compiled.
//!
//! Invariant: matching takes time linear in the text. The syntax is that of Rust's `regex` crate on
//! bytes; look-around and back-references, which need more than linear time, are rejected.

use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::Hir;

use crate::ast::{Regexp, Span};
use crate::limits::{REGEXP_BYTES_MAX, REGEXP_DEPTH_MAX};

/// An error in a pattern, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegexpError {
    pub(crate) span: Span,
    pub(crate) message: String,
}

impl Regexp {
    fn syntax(&self) -> syntax::Config {
        syntax::Config::new()
            .utf8(false)
            .case_insensitive(self.case_insensitive)
            .nest_limit(REGEXP_DEPTH_MAX)
    }

    /// Returns the syntax tree, if the pattern is supported.
    pub(crate) fn hir(&self) -> Result<Hir, RegexpError> {
        let config = self.syntax();
        syntax::parse_with(&self.pattern, &config).map_err(|error| refused(&error))
    }

    /// Compiles the pattern for searching. It only reports whether there is a match, not groups.
    /// Each clone takes up to about `cache_bytes` once it is used.
    pub(crate) fn compile(&self, cache_bytes: usize) -> Result<meta::Regex, String> {
        meta::Builder::new()
            .syntax(self.syntax())
            .configure(
                meta::Config::new()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(REGEXP_BYTES_MAX))
                    .hybrid_cache_capacity(cache_bytes)
                    .which_captures(WhichCaptures::Implicit),
            )
            .build(&self.pattern)
            .map_err(|error| describe_build(&error))
    }
}

fn describe_build(error: &meta::BuildError) -> String {
    match error.syntax_error() {
        Some(error) => refused(error).message,
        None if error.size_limit().is_some() => format!(
            "takes more than {REGEXP_BYTES_MAX} bytes when compiled; \
             make the counted repetitions smaller"
        ),
        None => error.to_string(),
    }
}

fn refused(error: &regex_syntax::Error) -> RegexpError {
    match error {
        regex_syntax::Error::Parse(error) => {
            let message = match error.kind() {
                ErrorKind::UnsupportedLookAround => {
                    "look-around is not supported: it needs more than linear time".to_owned()
                }
                ErrorKind::UnsupportedBackreference => {
                    "back-references are not supported: they need more than linear time".to_owned()
                }
                kind => kind.to_string(),
            };
            RegexpError { span: span_of(error.span()), message }
        }
        regex_syntax::Error::Translate(error) => {
            RegexpError { span: span_of(error.span()), message: error.kind().to_string() }
        }
        other => RegexpError { span: Span::default(), message: other.to_string() },
    }
}

fn span_of(span: &regex_syntax::ast::Span) -> Span {
    Span { start: span.start.offset, end: span.end.offset }
}
