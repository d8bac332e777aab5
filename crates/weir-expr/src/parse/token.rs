//! Tokens: bare words with escapes and wildcards, and quoted texts.

use super::{Parsed, Parser};
use crate::ast::Span;
use crate::glob::{Glob, Piece};
use crate::print::is_key_char;

/// A run of characters without quotes.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) glob: Glob,
    /// Whether it contained a backslash: then it is text, whatever it looks like.
    pub(super) has_escapes: bool,
    /// The first unescaped character that is not allowed in a key.
    pub(super) odd: Option<Span>,
    pub(super) span: Span,
}

impl Token {
    pub(super) fn is_empty(&self) -> bool {
        self.span.start == self.span.end
    }

    /// Returns its text, if it has no wildcards.
    pub(super) fn text(&self) -> Option<&str> {
        self.glob.as_text()
    }

    /// Returns its text, if it has neither wildcards nor escapes.
    pub(super) fn plain_text(&self) -> Option<&str> {
        self.text().filter(|_| !self.has_escapes)
    }

    pub(super) fn is_plain(&self, text: &str) -> bool {
        self.plain_text() == Some(text)
    }

    /// Returns whether it is only `*`.
    pub(super) fn is_star(&self) -> bool {
        self.glob.is_any()
    }
}

impl Parser<'_> {
    /// Reads up to white space, a parenthesis, a quote, or, if `colon_ends`, a colon.
    pub(super) fn token(&mut self, colon_ends: bool) -> Parsed<Token> {
        self.token_until(|c| {
            c.is_ascii_whitespace()
                || matches!(c, '(' | ')' | '"' | '“' | '”')
                || (colon_ends && c == ':')
        })
    }

    /// Reads a key inside `CIDR(...)` or after `_exists_:`.
    pub(super) fn key_token(&mut self) -> Parsed<Token> {
        self.token_until(|c| {
            c.is_ascii_whitespace() || matches!(c, '(' | ')' | '"' | '“' | '”' | ':' | ',')
        })
    }

    /// Reads one bound of a range.
    pub(super) fn end_token(&mut self) -> Parsed<Token> {
        self.token_until(|c| {
            c.is_ascii_whitespace() || matches!(c, '(' | ')' | '"' | '“' | '”' | ']' | '}')
        })
    }

    fn token_until(&mut self, ends: impl Fn(char) -> bool) -> Parsed<Token> {
        let start = self.at;
        let mut pieces = Vec::new();
        let mut has_escapes = false;
        let mut odd = None;
        while let Some(c) = self.peek().filter(|c| !ends(*c)) {
            let here = self.here();
            self.at = here.end;
            pieces.push(match c {
                '*' => Piece::Any,
                '?' => Piece::One,
                '\\' => {
                    has_escapes = true;
                    let Some(escaped) = self.peek() else {
                        return Err(self
                            .error(here, "a backslash at the end escapes nothing")
                            .expected("\\\\ for a backslash"));
                    };
                    self.take(escaped);
                    Piece::Text(escaped.to_string())
                }
                c => {
                    if !is_key_char(c) {
                        odd = odd.or(Some(here));
                    }
                    Piece::Text(c.to_string())
                }
            });
        }
        Ok(Token { glob: Glob::new(pieces), has_escapes, odd, span: self.since(start) })
    }

    /// Reads a text in `"` or in `“ ”`. `\"` and `\\` stand for a quote and a backslash; before any
    /// other character a backslash stands for itself.
    pub(super) fn quoted(&mut self) -> Parsed<String> {
        let open = self.here();
        let opening = self.peek().unwrap_or('"');
        self.at = open.end;
        let closes = |c: char| if opening == '"' { c == '"' } else { matches!(c, '“' | '”') };
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if closes(c) {
                return Ok(text);
            }
            if c == '\\'
                && let Some(next) = self.peek().filter(|next| *next == '\\' || closes(*next))
            {
                self.take(next);
                text.push(next);
                continue;
            }
            text.push(c);
        }
        self.at = self.text.len();
        let closing = if opening == '"' { '"' } else { '”' };
        let closed = format!("{}{closing}", self.text);
        Err(self
            .error(open, "this quote is not closed")
            .expected("a closing quote")
            .suggest(closed))
    }
}
