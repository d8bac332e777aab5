//! The canonical text of an expression. Parsing it yields the same expression.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::ast::{Bound, Expr, ExprKind, Field, Literal, Phrase, Range, Regexp, Term, Test};
use crate::glob::{Glob, Piece};
use crate::number::Number;
use crate::words::is_word_byte;

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::All => f.write_str("*"),
            ExprKind::Not(inner) => {
                f.write_char('-')?;
                in_group(f, inner)
            }
            ExprKind::And(parts) => joined(f, parts, " AND "),
            ExprKind::Or(parts) => joined(f, parts, " OR "),
            ExprKind::Term(term) => term.fmt(f),
        }
    }
}

fn joined(f: &mut Formatter<'_>, parts: &[Expr], operator: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(operator)?;
        }
        in_group(f, part)?;
    }
    Ok(())
}

/// Adds parentheses even where precedence would suffice, so that readers need not know it by heart.
fn in_group(f: &mut Formatter<'_>, part: &Expr) -> fmt::Result {
    match part.kind {
        ExprKind::And(_) | ExprKind::Or(_) => write!(f, "({part})"),
        _ => part.fmt(f),
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Test::Cidr(networks) = &self.test {
            write!(f, "CIDR({}", self.field)?;
            for network in networks {
                write!(f, ",{network}")?;
            }
            return f.write_char(')');
        }
        // Text to find in the message needs no key.
        if self.field != Field::Message || self.test == Test::Exists {
            write!(f, "{}:", self.field)?;
        }
        match &self.test {
            Test::Exists => f.write_char('*'),
            Test::Equals(literal) => literal.fmt(f),
            Test::Glob(glob) => glob.fmt(f),
            Test::Range(range) => range.fmt(f),
            Test::Words(phrase) => phrase.fmt(f),
            Test::Regexp(regexp) => regexp.fmt(f),
            Test::Cidr(_) => Ok(()),
        }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message => f.write_str("message"),
            Self::Reserved(key) => f.write_str(key.name()),
            Self::Tags => f.write_str("tags"),
            Self::Any => f.write_char('*'),
            Self::Attribute(path) => {
                f.write_char('@')?;
                escaped(f, path, is_key_char)
            }
            Self::Tag(key) => {
                // At the start, these would mark an operator, a regexp, an attribute or a function.
                let special = key.starts_with(['-', '/', '@']) || key.starts_with('_');
                if special {
                    f.write_char('\\')?;
                    let first = key.chars().next().map_or(0, char::len_utf8);
                    f.write_str(&key[..first])?;
                    return escaped(f, &key[first..], is_key_char);
                }
                escaped(f, key, is_key_char)
            }
        }
    }
}

/// Returns whether the character can be used in a key without escaping.
pub(crate) fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '-' | '.' | '/' | '$' | '@' | '%')
        || (!c.is_ascii() && !matches!(c, '“' | '”'))
}

/// Returns whether the character can be used in a value without escaping.
fn is_value_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '-' | '.' | '/' | '$' | '@' | '%' | ',' | ';')
        || (!c.is_ascii() && !matches!(c, '“' | '”'))
}

fn escaped(f: &mut Formatter<'_>, text: &str, is_plain: fn(char) -> bool) -> fmt::Result {
    for c in text.chars() {
        if !is_plain(c) {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    Ok(())
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_plain = match self.number {
            Some(_) => true,
            None => {
                !self.text.is_empty()
                    && !self.text.starts_with('/')
                    && self.text.chars().all(is_value_char)
                    && Number::parse(&self.text).is_none()
                    && !["AND", "OR", "NOT", "TO"].contains(&&*self.text)
            }
        };
        if is_plain { f.write_str(&self.text) } else { quoted(f, &self.text) }
    }
}

impl Display for Glob {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces().iter().enumerate() {
            match piece {
                Piece::Any => f.write_char('*')?,
                Piece::One => f.write_char('?')?,
                // A slash at the start would begin a regexp.
                Piece::Text(text) if index == 0 && text.starts_with('/') => {
                    f.write_str("\\/")?;
                    escaped(f, &text[1..], is_value_char)?;
                }
                Piece::Text(text) => escaped(f, text, is_value_char)?,
            }
        }
        Ok(())
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.low, &self.high) {
            (Bound::Excluded(low), Bound::Unbounded) => write!(f, ">{low}"),
            (Bound::Included(low), Bound::Unbounded) => write!(f, ">={low}"),
            (Bound::Unbounded, Bound::Excluded(high)) => write!(f, "<{high}"),
            (Bound::Unbounded, Bound::Included(high)) => write!(f, "<={high}"),
            (low, high) => {
                f.write_char(if matches!(low, Bound::Excluded(_)) { '{' } else { '[' })?;
                end(f, low)?;
                f.write_str(" TO ")?;
                end(f, high)?;
                f.write_char(if matches!(high, Bound::Excluded(_)) { '}' } else { ']' })
            }
        }
    }
}

fn end(f: &mut Formatter<'_>, bound: &Bound) -> fmt::Result {
    match bound.literal() {
        Some(literal) => literal.fmt(f),
        None => f.write_char('*'),
    }
}

impl Display for Phrase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let texts: Option<Vec<&str>> = self.words.iter().map(Glob::as_text).collect();
        match texts.as_deref() {
            Some([word]) if word.chars().all(is_value_char) && word.bytes().all(is_word_byte) => {
                f.write_str(word)
            }
            Some(words) => quoted(f, &words.join(" ")),
            // Any word; without the separator it would mean every record.
            None if self.words.len() == 1 && self.words[0].is_any() => f.write_str("*_"),
            None => {
                for (index, word) in self.words.iter().enumerate() {
                    // Any separator works that does not end an unquoted text.
                    f.write_str(if index > 0 { "_" } else { "" })?;
                    word.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Regexp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('/')?;
        let mut chars = self.pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '/' => f.write_str("\\/")?,
                '\\' => {
                    f.write_char(c)?;
                    if let Some(next) = chars.next() {
                        f.write_char(next)?;
                    }
                }
                _ => f.write_char(c)?,
            }
        }
        f.write_str(if self.case_insensitive { "/i" } else { "/" })
    }
}
