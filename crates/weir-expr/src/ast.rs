//! The typed form of an expression. Planners (rules, search, SQL dialects) match exhaustively on
//! [`ExprKind`], [`Field`] and [`Test`].
//!
//! Invariants of parser output: `And` and `Or` have at least two parts; [`Test::Words`] is only
//! used with [`Field::Message`] and [`Field::Any`], and the only other tests of those are
//! [`Test::Regexp`] and, for the message, [`Test::Exists`]. Equality ignores spans.

use crate::glob::Glob;
use crate::network::Network;
use crate::number::{Dimension, Number};

/// Bytes `start..end` of the parsed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// End (exclusive).
    pub end: usize,
}

/// An expression, with its location in the text.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The expression itself.
    pub kind: ExprKind,
    /// Where it was written; for a group, its content.
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `*`, or an empty text: every record.
    All,
    /// `NOT a`, `-a`.
    Not(Box<Expr>),
    /// `a AND b`, `a b`.
    And(Vec<Expr>),
    /// `a OR b`.
    Or(Vec<Expr>),
    /// A test of one field.
    Term(Term),
}

/// A test of one field: true if at least one value of the field passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Which values are tested.
    pub field: Field,
    /// The condition that one of them must satisfy.
    pub test: Test,
}

/// The origin of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The unescaped body. Never passed to [`crate::Fields::visit`].
    Message,
    /// A key that every record may have, written without `@`.
    Reserved(Reserved),
    /// `key:value` among the tags.
    Tag(String),
    /// `tags:x`: every whole tag, as `key:value` or a bare word.
    Tags,
    /// `@path`: an attribute; dots separate the keys of nested objects.
    Attribute(String),
    /// `*:x`: the message, and every reserved key, tag and attribute.
    Any,
}

macro_rules! reserved {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Keys that are written without `@` and are not tags.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reserved { $($(#[$doc])* $name,)* }

        impl Reserved {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the key as it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reserved! {
    /// The host that wrote the record.
    Host = "host",
    /// The service, application or process.
    Service = "service",
    /// The name of the source in weir's configuration, or the technology named in a record.
    Source = "source",
    /// The severity; compared as [`crate::Status`].
    Status = "status",
    /// The trace that the record belongs to.
    TraceId = "trace_id",
    /// The span that the record belongs to.
    SpanId = "span_id",
    /// The application on a platform (Loggregator's source id).
    SourceId = "source_id",
    /// The instance of an application.
    InstanceId = "instance_id",
    /// The syslog facility, by name (`local0`).
    Facility = "facility",
    /// The syslog application name.
    AppName = "app_name",
    /// The syslog process id.
    ProcId = "procid",
    /// The syslog message id.
    MsgId = "msgid",
    /// `stdout` or `stderr`.
    IoStream = "iostream",
}

impl Reserved {
    /// Returns the reserved key with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }
}

/// A condition on a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `key:*`: there is a value.
    Exists,
    /// `key:value`: the value equals this one.
    Equals(Literal),
    /// `key:web*`: the whole value matches the pattern; case-sensitive.
    Glob(Glob),
    /// `key:>5`, `key:[1 TO 5}`.
    Range(Range),
    /// `word`, `"a phrase"`: these words, adjacent to each other.
    Words(Phrase),
    /// `/regexp/`, `key:/regexp/`: found somewhere in the value.
    Regexp(Regexp),
    /// `CIDR(key,10.0.0.0/8,...)`: an address in one of the blocks.
    Cidr(Vec<Network>),
}

impl Test {
    /// Returns whether it compares with a number that was written with a unit.
    pub fn has_unit(&self) -> bool {
        match self {
            Self::Equals(literal) => {
                literal.number.is_some_and(|number| number.dimension.is_some())
            }
            Self::Range(range) => range.dimension().is_some(),
            Self::Exists | Self::Glob(_) | Self::Words(_) | Self::Regexp(_) | Self::Cidr(_) => {
                false
            }
        }
    }
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The text, unescaped.
    pub text: String,
    /// Its value, if it was written without quotes and is a number.
    pub number: Option<Number>,
}

impl Literal {
    /// Creates a literal that was quoted or escaped: text, whatever it looks like.
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), number: None }
    }

    /// Creates a literal that was written plainly: a number if it is one.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { number: Number::parse(&text), text }
    }
}

/// One bound of a range.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// `*`, or the open side of a comparison.
    Unbounded,
    /// `[`, `]`, `>=`, `<=`.
    Included(Literal),
    /// `{`, `}`, `>`, `<`.
    Excluded(Literal),
}

impl Bound {
    /// Returns the value of the bound.
    pub fn literal(&self) -> Option<&Literal> {
        match self {
            Self::Unbounded => None,
            Self::Included(literal) | Self::Excluded(literal) => Some(literal),
        }
    }
}

/// Values from `low` to `high`; at least one of them is bounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// The lower bound.
    pub low: Bound,
    /// The upper bound.
    pub high: Bound,
}

impl Range {
    /// Returns whether numbers are compared, which is the case if every bound is a number.
    /// Otherwise text is compared.
    pub fn is_numeric(&self) -> bool {
        self.literals().all(|literal| literal.number.is_some())
    }

    /// Returns the dimension of the bounds, if one of them has a unit.
    pub fn dimension(&self) -> Option<Dimension> {
        self.literals().find_map(|literal| literal.number?.dimension)
    }

    /// Returns the existing bounds.
    pub fn literals(&self) -> impl Iterator<Item = &Literal> {
        self.low.literal().into_iter().chain(self.high.literal())
    }
}

/// Adjacent words, in lower case. A phrase without words matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Phrase {
    /// One pattern per word.
    pub words: Vec<Glob>,
}

/// A regular expression in the syntax of Rust's `regex` crate, searched for anywhere in a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regexp {
    /// The pattern, without the slashes around it.
    pub pattern: String,
    /// It was written as `/pattern/i`.
    pub case_insensitive: bool,
}

impl Expr {
    /// Creates an expression that was not parsed from a text.
    pub fn new(kind: ExprKind) -> Self {
        Self { kind, span: Span::default() }
    }

    /// Creates the expression that matches every record.
    pub fn all() -> Self {
        Self::new(ExprKind::All)
    }

    /// Creates a test of one field.
    pub fn term(field: Field, test: Test) -> Self {
        Self::new(ExprKind::Term(Term { field, test }))
    }

    /// Negates the expression.
    #[must_use]
    pub fn negated(self) -> Self {
        let span = self.span;
        Self { kind: ExprKind::Not(Box::new(self)), span }
    }

    /// Returns the number of terms that test a regular expression.
    pub fn regexp_count(&self) -> usize {
        let mut count = 0;
        self.for_each_term(&mut |term, _| {
            count += usize::from(matches!(term.test, Test::Regexp(_)));
        });
        count
    }

    /// Calls `visit` for every term, with its location.
    pub fn for_each_term<'a>(&'a self, visit: &mut impl FnMut(&'a Term, Span)) {
        match &self.kind {
            ExprKind::All => {}
            ExprKind::Not(inner) => inner.for_each_term(visit),
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                for part in parts {
                    part.for_each_term(visit);
                }
            }
            ExprKind::Term(term) => visit(term, self.span),
        }
    }
}
