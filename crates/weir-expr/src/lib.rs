//! The expression language of weir: one language for rules, drains, live tail, search and monitors,
//! and the rule set that matches all rules in a single pass.
//!
//! The language is defined in `docs/reference/expressions.md`, every example of which is a test,
//! and, as code, in [`naive`]. Invariants of this crate: no I/O, no clock, no threads; no text or
//! record causes a panic; matching takes time linear in the record; nothing is allocated per record
//! once buffers have grown.
//!
//! Reading order: [`Expr`] and [`parse`], [`Fields`], [`naive`], then [`RuleSet`].
#![forbid(unsafe_code)]

pub mod limits;
pub mod naive;
pub mod sample;
pub mod words;

mod ast;
mod calculated_field;
mod char_runs;
mod convention;
mod error;
mod fields;
mod glob;
mod lag;
mod lint;
mod matcher;
mod network;
mod normalize;
mod number;
mod parse;
mod print;
mod regexp;
mod set;
mod status;
mod unit;
mod value;

pub use ast::{
    Bound, Expr, ExprKind, Field, Literal, Phrase, Range, Regexp, Reserved, Span, Term, Test,
};
pub use calculated_field::{CalculatedField, Formula, WithCalculatedFields};
pub use convention::{MESSAGE_PATHS, tag_path};
pub use error::{CompileError, ParseError};
pub use fields::{Body, Constants, Fields, NoConstants, Value, Visitor};
pub use glob::{Glob, Piece};
pub use lag::{LAG, lag_ns, visit_lag};
pub use lint::{Lint, key_like};
pub use matcher::TermMatcher;
pub use network::Network;
pub use number::{Dimension, Number, Numeric};
pub use parse::{parse, parse_field};
pub use sample::SampleRecord;
pub use set::{BatchPass, Compiled, Finding, Hits, Limits, Meter, Rule, RuleSet, Scratch};
pub use status::Status;
pub use unit::{Unit, Units};
