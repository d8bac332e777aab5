//! Translates expressions to SQL over the columns of a segment, as far as these tests need it.

use weir_expr::{
    Bound, Expr, ExprKind, Field, Glob, Literal, Numeric, Phrase, Piece, Range, Reserved, Status,
    Term, Test,
};

/// The engine whose dialect is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    DuckDb,
    ClickHouse,
}

/// The characters of a word, as a class of a regular expression.
const WORD: &str = "0-9A-Za-z\\x{80}-\\x{10FFFF}";

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn escaped(text: &str) -> String {
    let escape = |c: char| {
        if c.is_ascii_alphanumeric() || !c.is_ascii() { c.to_string() } else { format!("\\{c}") }
    };
    text.chars().map(escape).collect()
}

impl Dialect {
    /// Quotes a text. Strings of `DuckDB` have no escapes.
    fn text(self, value: &str) -> String {
        match self {
            Self::DuckDb => format!("'{}'", value.replace('\'', "''")),
            Self::ClickHouse => text(value),
        }
    }

    /// Returns the nearest-rank quantile.
    pub(crate) fn quantile(self, column: &str, share: f64) -> String {
        let rank = format!("floor({share} * (count({column}) - 1) + 0.5)");
        match self {
            Self::DuckDb => {
                let values = format!("list_sort(list({column}) filter ({column} is not null))");
                format!("{values}[cast({rank} as bigint) + 1]")
            }
            Self::ClickHouse => {
                format!("arraySort(groupArray({column}))[toInt64({rank}) + 1]")
            }
        }
    }

    pub(crate) fn in_range(self, from_ns: i64, to_ns: i64) -> String {
        let ns = match self {
            Self::DuckDb => "epoch_ns(ts)",
            Self::ClickHouse => "toUnixTimestamp64Nano(ts)",
        };
        format!("{ns} >= {from_ns} and {ns} < {to_ns}")
    }

    fn found(self, column: &str, pattern: &str) -> String {
        let function = match self {
            Self::DuckDb => "regexp_matches",
            Self::ClickHouse => "match",
        };
        format!("{function}({column}, {})", self.text(pattern))
    }

    /// Returns the condition, which is never null.
    pub(crate) fn condition(self, expr: &Expr) -> String {
        let all = |parts: &[Expr], between: &str| {
            let parts: Vec<String> = parts.iter().map(|part| self.condition(part)).collect();
            format!("({})", parts.join(between))
        };
        match &expr.kind {
            ExprKind::All => "true".to_owned(),
            ExprKind::Not(inner) => format!("not {}", self.condition(inner)),
            ExprKind::And(parts) => all(parts, " and "),
            ExprKind::Or(parts) => all(parts, " or "),
            ExprKind::Term(term) => format!("coalesce({}, false)", self.term(term)),
        }
    }

    fn term(self, term: &Term) -> String {
        let column = column(&term.field);
        match &term.test {
            Test::Exists if term.field == Field::Attribute("http".to_owned()) => {
                "\"@http.ok\" is not null".to_owned()
            }
            Test::Exists if term.field == Field::Message => format!("{column} <> ''"),
            Test::Exists => format!("{column} is not null"),
            Test::Words(phrase) => self.found(&column, &words(phrase)),
            Test::Regexp(regexp) => self.found(&column, &regexp.pattern),
            Test::Glob(glob) => self.found(&column, &format!("^{}$", pattern(glob, "."))),
            Test::Equals(literal) => self.equals(&term.field, &column, literal),
            Test::Range(range) => in_range(&term.field, &column, range),
            Test::Cidr(_) => unreachable!("no question has one"),
        }
    }

    fn equals(self, field: &Field, column: &str, literal: &Literal) -> String {
        if *field == Field::Reserved(Reserved::Status) {
            let status = Status::parse(literal.text.as_bytes()).unwrap();
            return format!("{column} = '{}'", status.name());
        }
        match (literal.number, literal.text.as_str()) {
            (Some(number), _) => format!("{column} = {}", shown(number.value)),
            (None, "true" | "false") => format!("{column} = {}", literal.text),
            (None, value) => format!("{column} = {}", self.text(value)),
        }
    }
}

fn in_range(field: &Field, column: &str, range: &Range) -> String {
    if *field == Field::Reserved(Reserved::Status) {
        let Bound::Included(low) = &range.low else { unreachable!("questions have >=") };
        let low = Status::parse(low.text.as_bytes()).unwrap();
        let names = ["debug", "ok", "info", "notice", "warn", "error", "critical"];
        let above = names.iter().filter(|name| Status::parse(name.as_bytes()) >= Some(low));
        let above: Vec<String> = above.map(|name| format!("'{name}'")).collect();
        return format!("{column} in ({})", above.join(", "));
    }
    // Comparisons with a unit use a separate column of numbers.
    let column = match (field, range.dimension()) {
        (Field::Attribute(path), Some(_)) => format!("\"number@{path}\""),
        _ => column.to_owned(),
    };
    let number = |literal: &Literal| shown(literal.number.unwrap().value);
    let low = match &range.low {
        Bound::Unbounded => None,
        Bound::Included(low) => Some(format!("{column} >= {}", number(low))),
        Bound::Excluded(low) => Some(format!("{column} > {}", number(low))),
    };
    let high = match &range.high {
        Bound::Unbounded => None,
        Bound::Included(high) => Some(format!("{column} <= {}", number(high))),
        Bound::Excluded(high) => Some(format!("{column} < {}", number(high))),
    };
    let both: Vec<String> = low.into_iter().chain(high).collect();
    format!("({})", both.join(" and "))
}

fn column(field: &Field) -> String {
    match field {
        Field::Message => "\"message\"".to_owned(),
        Field::Reserved(key) => format!("\"{}\"", key.name()),
        Field::Attribute(path) => format!("\"@{path}\""),
        Field::Tag(_) | Field::Tags | Field::Any => unreachable!("no question has one"),
    }
}

fn shown(number: Numeric) -> String {
    match number {
        Numeric::Int(number) => number.to_string(),
        Numeric::Float(number) => number.to_string(),
    }
}

/// Matches adjacent words, ignoring case.
fn words(phrase: &Phrase) -> String {
    let one = format!("[{WORD}]");
    let words: Vec<String> = phrase.words.iter().map(|word| pattern(word, &one)).collect();
    format!("(?i)(^|[^{WORD}]){}($|[^{WORD}])", words.join(&format!("[^{WORD}]+")))
}

/// Returns a pattern in which wildcards are replaced by `any`.
fn pattern(glob: &Glob, any: &str) -> String {
    let pieces = glob.pieces().iter().map(|piece| match piece {
        Piece::Text(text) => escaped(text),
        Piece::Any => format!("{any}*"),
        Piece::One => any.to_owned(),
    });
    pieces.collect()
}
