//! Values, and what they mean for the field that they are used with.

use super::token::Token;
use super::{Parsed, Parser};
use crate::ast::{Bound, Expr, ExprKind, Field, Literal, Phrase, Range, Regexp, Span, Test};
use crate::glob::{Glob, Piece};
use crate::network::Network;
use crate::number::{Numeric, is_too_large};
use crate::words;

impl Parser<'_> {
    /// Parses text to find in the message, without a key.
    pub(super) fn text_term(&mut self, start: usize) -> Parsed<Expr> {
        if matches!(self.peek(), Some('"' | '“' | '”')) {
            let text = self.quoted()?;
            if self.peek() == Some(':') {
                return Err(self
                    .error(self.since(start), "a key cannot be quoted")
                    .expected("a backslash before each special character"));
            }
            return Ok(self.term(Field::Message, Test::Words(quoted_words(&text)), start));
        }
        if let Some(regexp) = self.regexp()? {
            return Ok(self.term(Field::Message, Test::Regexp(regexp), start));
        }
        let token = self.token(true)?;
        self.refuse_broken_regexp(token.span)?;
        if self.peek() == Some(':') {
            // A path with a colon: everything before the colon is a key.
            self.at += 1;
            return self.keyed(&token, start);
        }
        if token.is_star() {
            return Ok(Expr { kind: ExprKind::All, span: token.span });
        }
        Ok(self.term(Field::Message, Test::Words(bare_words(&token.glob)), start))
    }

    /// Rejects text that looks like a regular expression with a slash inside, which would silently
    /// be parsed as words.
    fn refuse_broken_regexp(&self, span: Span) -> Parsed<()> {
        let written = &self.text[span.start..span.end];
        let body = written.strip_suffix('i').unwrap_or(written);
        let is_enclosed = written.starts_with('/') && body.len() > 2 && body.ends_with('/');
        if !is_enclosed || !written.contains(['\\', '[', '|', '+', '^', '$']) {
            return Ok(());
        }
        let inner = body[1..body.len() - 1].replace("\\/", "/").replace('/', "\\/");
        let right = format!("/{inner}{}", &written[body.len() - 1..]);
        Err(self
            .error(span, "an unescaped slash ends the regexp")
            .expected("\\/ inside the regexp, or the text in quotes")
            .suggest(self.replaced(span, &right)))
    }

    /// Parses the value of a key; `start` is where the key starts.
    pub(super) fn value(&mut self, field: &Field, start: usize) -> Parsed<Expr> {
        let value_start = self.at;
        let test = match self.peek() {
            Some('"' | '“' | '”') => {
                let text = self.quoted()?;
                if is_text(field) {
                    Test::Words(quoted_words(&text))
                } else {
                    Test::Equals(Literal::quoted(text))
                }
            }
            Some('[' | '{') => self.range()?,
            Some('<' | '>') => self.comparison()?,
            _ => match self.regexp()? {
                Some(regexp) => Test::Regexp(regexp),
                None => self.bare_value(field)?,
            },
        };
        if matches!(test, Test::Range(_)) && is_text(field) {
            return Err(self
                .error(self.since(value_start), format!("{field}: is text and has no order"))
                .expected("words, a phrase or a regexp"));
        }
        if *field == Field::Any && test == Test::Exists {
            return Ok(Expr { kind: ExprKind::All, span: self.since(start) });
        }
        Ok(self.term(field.clone(), test, start))
    }

    fn bare_value(&mut self, field: &Field) -> Parsed<Test> {
        let token = self.token(true)?;
        if matches!(self.peek(), Some(':' | '(' | '"' | '“' | '”')) {
            return Err(self.unquoted(&token));
        }
        Ok(if token.is_star() {
            Test::Exists
        } else if is_text(field) {
            Test::Words(bare_words(&token.glob))
        } else if let Some(text) = token.plain_text() {
            Test::Equals(Literal::plain(text))
        } else if let Some(text) = token.text() {
            Test::Equals(Literal::quoted(text))
        } else {
            Test::Glob(token.glob)
        })
    }

    /// Returns the error for a value that is followed by a character that ends it.
    fn unquoted(&mut self, token: &Token) -> crate::ParseError {
        let here = self.here();
        let message = match (self.peek(), self.key.is_some()) {
            (Some(':'), true) => "a list of values cannot contain keys",
            (Some(':'), false) => "a colon inside a value must be quoted or escaped",
            _ => "a quote or parenthesis inside a value must be quoted or escaped",
        };
        let rest = &self.text[token.span.start..];
        let len = rest.find(|c: char| c.is_ascii_whitespace() || c == ')').unwrap_or(rest.len());
        let right = rest[..len].replace('"', "");
        let span = Span { start: token.span.start, end: token.span.start + len };
        let error = self.error(here, message).expected("the value in quotes");
        error.suggest(self.replaced(span, &format!("{right:?}")))
    }

    fn range(&mut self) -> Parsed<Test> {
        let start = self.at;
        let low_included = self.take('[');
        if !low_included {
            self.take('{');
        }
        let low = self.range_end()?;
        self.skip_space();
        let to = self.here();
        if !self.take_operator("TO") {
            let mut error = self.error(to, "TO is missing in this range").expected("[low TO high]");
            if self.rest().starts_with("to ") {
                error =
                    error.suggest(self.replaced(Span { start: to.start, end: to.start + 2 }, "TO"));
            }
            return Err(error);
        }
        let high = self.range_end()?;
        let end = Span { start: self.at, end: self.at };
        self.skip_space();
        let high_included = self.take(']');
        if !high_included && !self.take('}') {
            return Err(self
                .error(self.since(start), "this range is not closed")
                .expected("] or }")
                .suggest(self.replaced(end, "]")));
        }
        let bound = |literal: Option<Literal>, included| match literal {
            None => Bound::Unbounded,
            Some(literal) if included => Bound::Included(literal),
            Some(literal) => Bound::Excluded(literal),
        };
        let range = Range { low: bound(low, low_included), high: bound(high, high_included) };
        self.checked(range, start)
    }

    /// Parses one bound of a range; `*` is none.
    fn range_end(&mut self) -> Parsed<Option<Literal>> {
        self.skip_space();
        if matches!(self.peek(), Some('"' | '“' | '”')) {
            return Ok(Some(Literal::quoted(self.quoted()?)));
        }
        let token = self.end_token()?;
        if token.is_star() {
            return Ok(None);
        }
        self.literal(&token).map(Some)
    }

    fn comparison(&mut self) -> Parsed<Test> {
        let start = self.at;
        let is_low = self.take('>');
        if !is_low {
            self.take('<');
        }
        let included = self.take('=');
        let literal = if matches!(self.peek(), Some('"' | '“' | '”')) {
            Literal::quoted(self.quoted()?)
        } else {
            let token = self.token(true)?;
            if self.peek() == Some(':') {
                return Err(self.unquoted(&token));
            }
            self.literal(&token)?
        };
        let bound = if included { Bound::Included(literal) } else { Bound::Excluded(literal) };
        let range = if is_low {
            Range { low: bound, high: Bound::Unbounded }
        } else {
            Range { low: Bound::Unbounded, high: bound }
        };
        self.checked(range, start)
    }

    fn literal(&self, token: &Token) -> Parsed<Literal> {
        match (token.plain_text(), token.text()) {
            (Some(""), _) => {
                Err(self.error(self.here(), "missing value to compare with").expected("a value"))
            }
            (Some(text), _) if is_too_large(text) => Err(self
                .error(token.span, "this number is too large")
                .expected("a number up to 1.7e308, * for no limit, or text in quotes")),
            (Some(text), _) => Ok(Literal::plain(text)),
            (None, Some(text)) => Ok(Literal::quoted(text)),
            (None, None) => Err(self
                .error(token.span, "a wildcard cannot be used in a comparison")
                .expected("a value, or the text in quotes")),
        }
    }

    /// Checks that both bounds have the same dimension.
    fn checked(&self, range: Range, start: usize) -> Parsed<Test> {
        if range.literals().next().is_none() {
            return Ok(Test::Exists);
        }
        let dimension = range.dimension();
        let is_zero = |literal: &Literal| {
            literal.number.is_some_and(|n| n.dimension.is_none() && n.value == Numeric::Int(0))
        };
        let differs = range.literals().any(|literal| {
            literal.number.is_some_and(|n| n.dimension != dimension) && !is_zero(literal)
        });
        if range.is_numeric() && differs {
            return Err(self
                .error(self.since(start), "the bounds of this range have different units")
                .expected("two units of time, two units of size, or none"));
        }
        Ok(Test::Range(range))
    }

    /// Parses `/pattern/` or `/pattern/i` if the text has this form: the first unescaped slash ends
    /// the pattern and must end the value. Otherwise the slash is an ordinary character, as in a
    /// path.
    fn regexp(&mut self) -> Parsed<Option<Regexp>> {
        let start = self.at;
        let Some(rest) = self.rest().strip_prefix('/') else { return Ok(None) };
        let mut pattern = String::new();
        let mut chars = rest.char_indices();
        let close = loop {
            match chars.next() {
                None => return Ok(None),
                Some((at, '/')) => break at,
                Some((_, '\\')) => match chars.next() {
                    None => return Ok(None),
                    Some((_, '/')) => pattern.push('/'),
                    Some((_, next)) => pattern.extend(['\\', next]),
                },
                Some((_, c)) => pattern.push(c),
            }
        };
        let after = &rest[close + 1..];
        let case_insensitive = after.starts_with('i');
        let after = &after[usize::from(case_insensitive)..];
        let ends = after.chars().next().is_none_or(|c| c.is_ascii_whitespace() || c == ')');
        if pattern.is_empty() || !ends {
            return Ok(None);
        }
        self.at = self.text.len() - after.len();
        let regexp = Regexp { pattern, case_insensitive };
        if let Err(refused) = regexp.hir() {
            let in_text = |offset: usize| {
                let before = regexp.pattern.get(..offset).unwrap_or(&regexp.pattern);
                let place = start + 1 + offset + before.matches('/').count();
                place.min(start + 1 + close)
            };
            let span = Span { start: in_text(refused.span.start), end: in_text(refused.span.end) };
            let error = self.error(span, format!("invalid regexp: {}", refused.message));
            return Err(error.expected("a valid regexp, or the text in quotes"));
        }
        Ok(Some(regexp))
    }

    /// Parses `CIDR(key,block,...)`; the parenthesis comes next.
    pub(super) fn cidr(&mut self, start: usize) -> Parsed<Expr> {
        self.take('(');
        self.skip_space();
        let key_start = self.at;
        let field = self.key_argument()?;
        if is_text(&field) {
            return Err(self
                .error(self.since(key_start), "CIDR needs a key other than message or *")
                .expected("a key such as @network.client.ip or host"));
        }
        let mut networks = Vec::new();
        loop {
            self.skip_space();
            if self.take(')') {
                break;
            }
            if !self.take(',') {
                return Err(self
                    .error(self.here(), "CIDR( is not closed")
                    .expected("a comma and an address block, or )"));
            }
            self.skip_space();
            let block_start = self.at;
            let rest = self.rest();
            let len = rest
                .find(|c: char| c.is_ascii_whitespace() || matches!(c, ',' | ')'))
                .unwrap_or(rest.len());
            let network = Network::parse(&rest[..len]);
            self.at += len;
            let Some(network) = network else {
                return Err(self
                    .error(self.since(block_start), "this is not an address block")
                    .expected("a block such as 10.0.0.0/8 or fd00::/8"));
            };
            networks.push(network);
        }
        if networks.is_empty() {
            return Err(self
                .error(self.since(start), "CIDR without an address block")
                .expected("a block such as 10.0.0.0/8 after the key"));
        }
        Ok(self.term(field, Test::Cidr(networks), start))
    }

    fn term(&self, field: Field, test: Test, start: usize) -> Expr {
        Expr { span: self.since(start), ..Expr::term(field, test) }
    }
}

/// Returns whether words are searched for in the field.
fn is_text(field: &Field) -> bool {
    matches!(field, Field::Message | Field::Any)
}

fn quoted_words(text: &str) -> Phrase {
    let word = |word: &[u8]| {
        let text = words::fold(&String::from_utf8_lossy(word));
        Glob::new([Piece::Text(text)])
    };
    Phrase { words: words::split(text.as_bytes()).map(word).collect() }
}

/// Returns the words of a text with wildcards; a wildcard belongs to the word next to it.
fn bare_words(glob: &Glob) -> Phrase {
    let mut found = Vec::new();
    let mut word: Vec<Piece> = Vec::new();
    for piece in glob.pieces() {
        let Piece::Text(text) = piece else {
            word.push(piece.clone());
            continue;
        };
        for c in text.chars() {
            if c.is_ascii() && !c.is_ascii_alphanumeric() {
                found.push(std::mem::take(&mut word));
            } else {
                word.push(Piece::Text(c.to_ascii_lowercase().to_string()));
            }
        }
    }
    found.push(word);
    let words = found.into_iter().filter(|word| !word.is_empty()).map(Glob::new);
    Phrase { words: words.collect() }
}
