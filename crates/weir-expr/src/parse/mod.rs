//! The parser: converts text to [`Expr`] by recursive descent over the bytes.
//!
//! ```text
//! or     := and ( ("OR" | "||") and )*
//! and    := unary ( ("AND" | "&&")? unary )*
//! unary  := ("NOT" | "-") unary | primary
//! primary:= "(" or ")" | key ":" value | key ":" "(" or ")" | CIDR "(" key ("," block)+ ")"
//!         | "_exists_:" key | "_missing_:" key | word | "phrase" | /regexp/
//! value  := word | "text" | /regexp/ | "[" end "TO" end "]" | (">" | ">=" | "<" | "<=") value
//! ```
//!
//! Invariants: never panics; recursion is bounded by [`DEPTH_MAX`]; every span lies within the
//! text, on character boundaries. Only ASCII white space separates.

mod token;
mod value;

use crate::ast::{Expr, ExprKind, Field, Reserved, Span, Test};
use crate::error::ParseError;
use crate::limits::{CORRECTIONS_MAX, DEPTH_MAX, EXPRESSION_BYTES_MAX};
use crate::unit::Units;
use token::Token;

/// Parses an expression. An empty text is `*`.
///
/// # Errors
/// The first error, with its location. If it has a suggestion, that can be parsed.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    parse_text(text).map_err(with_valid_suggestion)
}

/// Corrects what is suggested until it can be parsed; otherwise nothing is suggested.
fn with_valid_suggestion(mut error: ParseError) -> ParseError {
    let mut next = error.suggestion.take();
    for _ in 0..CORRECTIONS_MAX {
        let Some(text) = next else { break };
        match parse_text(&text) {
            Ok(_) => {
                error.suggestion = Some(text);
                break;
            }
            Err(another) => next = another.suggestion,
        }
    }
    error
}

fn parse_text(text: &str) -> Result<Expr, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0, key: None };
    if text.len() > EXPRESSION_BYTES_MAX {
        let span = Span { start: EXPRESSION_BYTES_MAX, end: EXPRESSION_BYTES_MAX };
        let message = format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes");
        return Err(parser.error(span, message));
    }
    parser.skip_space();
    if parser.is_at_end() {
        return Ok(Expr::all());
    }
    let expr = parser.or()?;
    if parser.peek() == Some(')') {
        return Err(parser.error(parser.here(), "unmatched closing parenthesis"));
    }
    Ok(expr.in_units(&Units::default(), &[]))
}

/// Parses the name of a field as written before a colon: `service`, `@http.status_code`.
///
/// # Errors
/// The first error, with its location.
pub fn parse_field(text: &str) -> Result<Field, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0, key: None };
    parser.skip_space();
    let field = parser.key_argument()?;
    parser.skip_space();
    if !parser.is_at_end() {
        let rest = Span { start: parser.at, end: text.len() };
        return Err(parser.error(rest, "unexpected text after the field name"));
    }
    Ok(field)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The key of the list of values that is being parsed.
    key: Option<Field>,
}

type Parsed<T> = Result<T, ParseError>;

impl Parser<'_> {
    fn or(&mut self) -> Parsed<Expr> {
        let mut parts = vec![self.and()?];
        while self.take_operator("OR") || self.take_operator("||") {
            parts.push(self.and()?);
        }
        Ok(joined(parts, ExprKind::Or))
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut parts = vec![self.unary()?];
        loop {
            self.skip_space();
            let is_explicit = self.take_operator("AND") || self.take_operator("&&");
            let ends = self.is_at_end()
                || self.peek() == Some(')')
                || self.is_operator("OR")
                || self.is_operator("||");
            if ends && !is_explicit {
                return Ok(joined(parts, ExprKind::And));
            }
            parts.push(self.unary()?);
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.skip_space();
        let start = self.at;
        if self.take_operator("NOT") || self.take('-') {
            self.enter()?;
            let operator = self.since(start);
            let is_dash = operator.end == start + 1;
            if !is_dash {
                self.skip_space();
            }
            if self.is_at_end() || self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
                return Err(self
                    .error(operator, "nothing to negate")
                    .expected("a term directly after it, or the text in quotes"));
            }
            let inner = self.unary()?;
            self.depth -= 1;
            return Ok(Expr { kind: ExprKind::Not(Box::new(inner)), span: self.since(start) });
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.at;
        for operator in ["AND", "OR", "&&", "||"] {
            if self.is_operator(operator) {
                let span = Span { start, end: start + operator.len() };
                return Err(self
                    .error(span, format!("missing term before {operator}"))
                    .expected("a term"));
            }
        }
        let key = self.key.clone();
        match self.peek() {
            None => Err(self.error(self.here(), "unexpected end of expression").expected("a term")),
            Some('(') => self.group(),
            Some(')') => {
                Err(self.error(self.here(), "missing term before this").expected("a term"))
            }
            Some('!') => Err(self
                .error(self.here(), "! is not an operator")
                .expected("- or NOT")
                .suggest(self.replaced(self.here(), "-"))),
            Some('#') if key.is_none() => {
                Err(self.error(self.here(), "calculated fields (#) are not supported"))
            }
            Some(c @ ('[' | '{' | '<' | '>')) if key.is_none() => {
                let what = if matches!(c, '<' | '>') { "comparison" } else { "range" };
                Err(self
                    .error(self.here(), format!("a {what} needs a key"))
                    .expected("one as in @http.status_code:>=400, or the text in quotes"))
            }
            _ => match key {
                Some(field) => self.value(&field, start),
                None => self.keyed_or_text(),
            },
        }
    }

    fn group(&mut self) -> Parsed<Expr> {
        let open = self.here();
        self.enter()?;
        self.take('(');
        self.skip_space();
        if self.peek() == Some(')') {
            let span = Span { start: open.start, end: self.at + 1 };
            return Err(self
                .error(span, "empty parentheses")
                .expected("a term, or the text in quotes"));
        }
        let inner = self.or()?;
        self.skip_space();
        if !self.take(')') {
            let closed = format!("{})", self.text.trim_end());
            return Err(self
                .error(open, "this parenthesis is not closed")
                .expected(")")
                .suggest(closed));
        }
        self.depth -= 1;
        Ok(inner)
    }

    /// Parses `key:value`, `CIDR(...)`, or text to find in the message.
    fn keyed_or_text(&mut self) -> Parsed<Expr> {
        let start = self.at;
        if matches!(self.peek(), Some('"' | '“' | '”' | '/')) {
            return self.text_term(start);
        }
        let token = self.token(true)?;
        if self.peek() == Some('(') && token.is_plain("CIDR") {
            return self.cidr(start);
        }
        if self.peek() == Some('(') && token.is_plain("cidr") {
            return Err(self
                .error(self.since(start), "CIDR must be in upper case")
                .suggest(self.replaced(self.since(start), "CIDR")));
        }
        if !self.take(':') {
            self.at = start;
            return self.text_term(start);
        }
        self.keyed(&token, start)
    }

    fn keyed(&mut self, token: &Token, start: usize) -> Parsed<Expr> {
        match token.plain_text() {
            Some("_exists_") => {
                let field = self.key_argument()?;
                return Ok(self.exists(field, start));
            }
            Some("_missing_") => {
                let field = self.key_argument()?;
                let term = self.exists(field, start);
                return Ok(term.negated());
            }
            _ => {}
        }
        let field = self.field(token)?;
        if self.is_at_end() || self.peek().is_some_and(|c| c.is_ascii_whitespace() || c == ')') {
            let span = self.since(start);
            let mut right = self.text[span.start..span.end].to_owned();
            right.push('*');
            return Err(self
                .error(span, "missing value after the colon")
                .expected("one directly after it: a value, \"\", or * for any")
                .suggest(self.replaced(span, &right)));
        }
        if self.peek() == Some('(') {
            self.key = Some(field);
            let group = self.group();
            self.key = None;
            return group;
        }
        self.value(&field, start)
    }

    fn exists(&self, field: Field, start: usize) -> Expr {
        if field == Field::Any {
            return Expr { kind: ExprKind::All, span: self.since(start) };
        }
        Expr { span: self.since(start), ..Expr::term(field, Test::Exists) }
    }

    /// Parses the key after `_exists_:` or inside `CIDR(`.
    fn key_argument(&mut self) -> Parsed<Field> {
        let start = self.at;
        let token = self.key_token()?;
        if token.is_empty() {
            return Err(self
                .error(self.here(), "missing key")
                .expected("a key such as @http.url or service"));
        }
        let field = self.field(&token)?;
        if self.peek() == Some(':') {
            return Err(self.error(self.since(start), "a value is not allowed here, only a key"));
        }
        Ok(field)
    }

    /// Returns the field that a token before a colon refers to.
    fn field(&self, token: &Token) -> Parsed<Field> {
        if token.is_star() {
            return Ok(Field::Any);
        }
        if let Some(at) = token.odd {
            return Err(self
                .error(at, "this character cannot be used in a key")
                .expected("a key, a backslash before the character, or the whole text in quotes"));
        }
        let Some(name) = token.text() else {
            return Err(self.error(token.span, "a key cannot have wildcards"));
        };
        let is_attribute = self.text[token.span.start..].starts_with('@');
        match name {
            "" | "@" => Err(self.error(token.span, "missing key before the colon")),
            _ if is_attribute => Ok(Field::Attribute(name[1..].to_owned())),
            "message" => Ok(Field::Message),
            "tags" => Ok(Field::Tags),
            _ => match (Reserved::from_name(name), token.plain_text()) {
                (Some(key), _) => Ok(Field::Reserved(key)),
                (None, Some(plain)) if plain.starts_with('_') && plain.ends_with('_') => Err(self
                    .error(token.span, format!("unknown function {plain}"))
                    .expected("_exists_ or _missing_")),
                _ => Ok(Field::Tag(name.to_owned())),
            },
        }
    }

    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("the expression is nested more than {DEPTH_MAX} levels deep");
            return Err(self.error(self.here(), message));
        }
        Ok(())
    }

    /// `AND` is an operator only as a separate word.
    fn is_operator(&self, operator: &str) -> bool {
        let Some(rest) = self.rest().strip_prefix(operator) else { return false };
        let is_symbol = operator.starts_with(['&', '|']);
        is_symbol
            || rest
                .chars()
                .next()
                .is_none_or(|c| c.is_ascii_whitespace() || matches!(c, '(' | ')' | '"' | '“'))
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        self.skip_space();
        let is_there = self.is_operator(operator);
        if is_there {
            self.at += operator.len();
        }
        is_there
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn take(&mut self, c: char) -> bool {
        let is_there = self.peek() == Some(c);
        if is_there {
            self.at += c.len_utf8();
        }
        is_there
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
    }

    /// Returns the span of the next character.
    fn here(&self) -> Span {
        Span { start: self.at, end: self.at + self.peek().map_or(0, char::len_utf8) }
    }

    fn since(&self, start: usize) -> Span {
        Span { start, end: self.at }
    }

    fn error(&self, span: Span, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, span, message)
    }

    /// Returns the whole text with one part replaced.
    fn replaced(&self, span: Span, by: &str) -> String {
        format!("{}{by}{}", &self.text[..span.start], &self.text[span.end..])
    }
}

/// Joins the parts; a single part is returned unchanged.
fn joined(mut parts: Vec<Expr>, kind: fn(Vec<Expr>) -> ExprKind) -> Expr {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let span = Span {
        start: parts.first().map_or(0, |part| part.span.start),
        end: parts.last().map_or(0, |part| part.span.end),
    };
    Expr { kind: kind(parts), span }
}

#[cfg(test)]
mod tests;
