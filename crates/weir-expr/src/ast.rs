//! The typed form of an expression. Whoever plans with it (rules, search, SQL dialects) matches
//! exhaustively on [`ExprKind`], [`Field`] and [`Test`].
//!
//! Invariants of what the parser gives: `And` and `Or` have at least two parts; [`Test::Words`]
//! stands only beside [`Field::Message`] and [`Field::Any`], and nothing else but
//! [`Test::Regexp`] and, for the message, [`Test::Exists`] stands beside those. Equality ignores
//! spans.

use crate::glob::Glob;
use crate::network::Network;
use crate::number::{Dimension, Number};

/// Bytes `start..end` of the text that was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

/// An expression, with its place in the text.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// Where it was written; of a group, what is inside.
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// What an expression says.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `*`, or nothing at all: every record.
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

/// A test of one field: true when at least one value of the field passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Which values are looked at.
    pub field: Field,
    /// What must be true of one of them.
    pub test: Test,
}

/// Where values come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The unescaped body. Never asked of [`crate::Fields::visit`].
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

            /// The key as it is written.
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
    /// The name of the source in weir's configuration, or the technology that a record states.
    Source = "source",
    /// How bad it is; compared as [`crate::Status`].
    Status = "status",
    /// Trace that the record belongs to.
    TraceId = "trace_id",
    /// Span that the record belongs to.
    SpanId = "span_id",
    /// Application of a platform (Loggregator's source id).
    SourceId = "source_id",
    /// Instance of an application.
    InstanceId = "instance_id",
    /// Syslog's facility, by name (`local0`).
    Facility = "facility",
    /// Syslog's application name.
    AppName = "app_name",
    /// Syslog's process id.
    ProcId = "procid",
    /// Syslog's message id.
    MsgId = "msgid",
    /// `stdout` or `stderr`.
    IoStream = "iostream",
}

impl Reserved {
    /// The reserved key of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }
}

/// What must be true of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `key:*`: there is a value.
    Exists,
    /// `key:value`: the value is this one.
    Equals(Literal),
    /// `key:web*`: the whole value is as the pattern says, case counts.
    Glob(Glob),
    /// `key:>5`, `key:[1 TO 5}`.
    Range(Range),
    /// `word`, `"a phrase"`: these words, next to each other.
    Words(Phrase),
    /// `/regexp/`, `key:/regexp/`: found somewhere in the value.
    Regexp(Regexp),
    /// `CIDR(key,10.0.0.0/8,...)`: an address in one of the blocks.
    Cidr(Vec<Network>),
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The text, unescaped.
    pub text: String,
    /// Its value, when it was written without quotes and is a number.
    pub number: Option<Number>,
}

impl Literal {
    /// What stood in quotes or was escaped: text, whatever it looks like.
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { text: text.into(), number: None }
    }

    /// What stood there plainly: a number if it is one.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { number: Number::parse(&text), text }
    }
}

/// One end of a range.
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
    /// The value at this end.
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
    /// Where it begins.
    pub low: Bound,
    /// Where it ends.
    pub high: Bound,
}

impl Range {
    /// Numbers are compared, since every end that there is is a number. Otherwise text is.
    pub fn is_numeric(&self) -> bool {
        self.literals().all(|literal| literal.number.is_some())
    }

    /// What the ends measure, when one of them has a unit.
    pub fn dimension(&self) -> Option<Dimension> {
        self.literals().find_map(|literal| literal.number?.dimension)
    }

    /// The ends that there are.
    pub fn literals(&self) -> impl Iterator<Item = &Literal> {
        self.low.literal().into_iter().chain(self.high.literal())
    }
}

/// Words that stand next to each other, in lower case; no word at all is found everywhere.
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
    /// Written as `/pattern/i`.
    pub case_insensitive: bool,
}

impl Expr {
    /// An expression that was not parsed from a text.
    pub fn new(kind: ExprKind) -> Self {
        Self { kind, span: Span::default() }
    }

    /// Every record.
    pub fn all() -> Self {
        Self::new(ExprKind::All)
    }

    /// A test of one field.
    pub fn term(field: Field, test: Test) -> Self {
        Self::new(ExprKind::Term(Term { field, test }))
    }

    /// The opposite.
    #[must_use]
    pub fn negated(self) -> Self {
        let span = self.span;
        Self { kind: ExprKind::Not(Box::new(self)), span }
    }

    /// Calls `visit` for every term, with where it was written.
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
