//! Queries, checked: only what can be evaluated.

use std::collections::BTreeSet;
use std::time::Duration;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::token::{
    T_ADD, T_AVG, T_COUNT, T_DIV, T_MAX, T_MIN, T_MOD, T_MUL, T_POW, T_SUB, T_SUM, TokenType,
};
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, MatrixSelector, Offset, VectorSelector,
};

use super::super::super::limits::{PROMQL_BYTES_MAX, PROMQL_DEPTH_MAX, PROMQL_SOURCES_MAX};
use super::{QueryError, bad};

/// A function of the values in a range of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeFunction {
    Rate,
    Increase,
    Delta,
    Average,
    Least,
    Most,
    Sum,
    Count,
}

impl RangeFunction {
    const ALL: [(&'static str, Self); 8] = [
        ("rate", Self::Rate),
        ("increase", Self::Increase),
        ("delta", Self::Delta),
        ("avg_over_time", Self::Average),
        ("min_over_time", Self::Least),
        ("max_over_time", Self::Most),
        ("sum_over_time", Self::Sum),
        ("count_over_time", Self::Count),
    ];
}

/// An aggregation over all series of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregator {
    Sum,
    Average,
    Least,
    Most,
    Count,
}

/// An operator between two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

/// Which labels make up a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grouping {
    By(BTreeSet<String>),
    Without(BTreeSet<String>),
}

/// A selector of series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selector {
    /// The name of the metric, as the original writes it.
    pub(super) name: String,
    /// The source IDs.
    pub(super) sources: BTreeSet<String>,
    /// Matchers of labels.
    pub(super) matchers: Vec<Matcher>,
    /// The offset, in milliseconds.
    pub(super) offset_ms: i64,
}

/// A part of a query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Number(f64),
    Newest(Selector),
    /// All values in a range of milliseconds.
    Range(Selector, i64),
    Over(RangeFunction, Selector, i64),
    Aggregate(Aggregator, Grouping, Box<Node>),
    Negate(Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
}

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query(pub(super) Node);

impl Query {
    /// Parses and checks a query.
    pub(super) fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > PROMQL_BYTES_MAX {
            return bad(format!("the query is longer than {PROMQL_BYTES_MAX} bytes"));
        }
        // Brackets and prefix operators nest; those in strings are counted too, which is harmless.
        let nesting = text.bytes().filter(|byte| matches!(byte, b'(' | b'-' | b'+')).count();
        if nesting > PROMQL_DEPTH_MAX {
            return bad("the query is nested too deeply");
        }
        let parsed = promql_parser::parser::parse(text);
        let node = node(&parsed.or_else(bad)?)?;
        let mut selectors = 0;
        node.for_each_selector(&mut |_, _| selectors += 1);
        if selectors == 0 && !matches!(node, Node::Number(_) | Node::Arithmetic(..)) {
            return bad("query does not request any source_ids");
        }
        Ok(Self(node))
    }

    /// Returns whether its result is all values in a range.
    pub(super) fn is_matrix(&self) -> bool {
        matches!(self.0, Node::Range(..))
    }
}

impl Node {
    /// Returns whether it has one value without labels.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Newest(_) | Self::Range(..) | Self::Over(..) | Self::Aggregate(..) => false,
            Self::Negate(inner) => inner.is_number(),
            Self::Arithmetic(_, left, right) => left.is_number() && right.is_number(),
        }
    }

    /// Calls `each` with the selectors, and how far back from the time of evaluation they read, in
    /// milliseconds.
    pub(super) fn for_each_selector<'n>(&'n self, each: &mut impl FnMut(&'n Selector, i64)) {
        match self {
            Self::Number(_) => {}
            Self::Newest(selector) => each(selector, super::LOOKBACK.as_millis() as i64),
            Self::Range(selector, range_ms) | Self::Over(_, selector, range_ms) => {
                each(selector, *range_ms);
            }
            Self::Aggregate(_, _, inner) | Self::Negate(inner) => inner.for_each_selector(each),
            Self::Arithmetic(_, left, right) => {
                left.for_each_selector(each);
                right.for_each_selector(each);
            }
        }
    }
}

fn node(expr: &Expr) -> Result<Node, QueryError> {
    match expr {
        Expr::Paren(inner) => node(&inner.expr),
        Expr::NumberLiteral(number) => Ok(Node::Number(number.val)),
        Expr::Unary(inner) => Ok(Node::Negate(Box::new(values(&inner.expr)?))),
        Expr::VectorSelector(selector) => Ok(Node::Newest(of_selector(selector)?)),
        Expr::MatrixSelector(matrix) => {
            let (selector, range_ms) = of_matrix(matrix)?;
            Ok(Node::Range(selector, range_ms))
        }
        Expr::Call(call) => of_call(call),
        Expr::Aggregate(aggregate) => of_aggregate(aggregate),
        Expr::Binary(binary) => of_binary(binary),
        Expr::Subquery(_) => bad("subqueries are not supported"),
        Expr::StringLiteral(_) => bad("strings are not supported"),
        Expr::Extension(_) => bad("extensions are not supported"),
    }
}

/// Like [`node`], but not for a range of values.
fn values(expr: &Expr) -> Result<Node, QueryError> {
    match node(expr)? {
        Node::Range(..) => bad("a range of values can only be the argument of a function"),
        node => Ok(node),
    }
}

fn of_selector(selector: &VectorSelector) -> Result<Selector, QueryError> {
    if selector.at.is_some() {
        return bad("the modifier @ is not supported");
    }
    if !selector.matchers.or_matchers.is_empty() {
        return bad("alternatives of matchers are not supported");
    }
    let (mut name, mut sources, mut matchers) =
        (selector.name.clone(), BTreeSet::new(), Vec::new());
    for matcher in &selector.matchers.matchers {
        match (matcher.name.as_str(), &matcher.op) {
            ("__name__", MatchOp::Equal) => name = Some(matcher.value.clone()),
            ("__name__", _) => return bad("the name of a metric must be stated"),
            ("source_id", MatchOp::Equal) => _ = sources.insert(matcher.value.clone()),
            ("source_id", MatchOp::Re(_)) => {
                sources.extend(matcher.value.split('|').map(str::to_owned));
            }
            _ => matchers.push(matcher.clone()),
        }
    }
    let Some(name) = name else { return bad("the name of a metric must be stated") };
    if sources.is_empty() {
        return bad("query does not request any source_ids");
    }
    if sources.len() > PROMQL_SOURCES_MAX {
        return bad(format!("the query has more than {PROMQL_SOURCES_MAX} sources"));
    }
    let offset_ms = match &selector.offset {
        None => 0,
        Some(Offset::Pos(offset)) => ms(*offset)?,
        Some(Offset::Neg(offset)) => -ms(*offset)?,
    };
    Ok(Selector { name, sources, matchers, offset_ms })
}

fn of_matrix(matrix: &MatrixSelector) -> Result<(Selector, i64), QueryError> {
    Ok((of_selector(&matrix.vs)?, ms(matrix.range)?))
}

fn ms(duration: Duration) -> Result<i64, QueryError> {
    match i64::try_from(duration.as_millis()) {
        Ok(ms) if ms < i64::MAX / 4_000_000 => Ok(ms),
        _ => bad("the duration is too long"),
    }
}

fn of_call(call: &Call) -> Result<Node, QueryError> {
    let name = call.func.name;
    let known = RangeFunction::ALL.iter().find(|(known, _)| *known == name);
    let Some((_, function)) = known else {
        return bad(format!("the function {name} is not supported"));
    };
    let [argument] = call.args.args.as_slice() else {
        return bad(format!("the function {name} has one argument"));
    };
    let mut argument: &Expr = argument;
    while let Expr::Paren(inner) = argument {
        argument = &inner.expr;
    }
    let Expr::MatrixSelector(matrix) = argument else {
        return bad(format!("the argument of {name} must be a selector with a range"));
    };
    let (selector, range_ms) = of_matrix(matrix)?;
    Ok(Node::Over(*function, selector, range_ms))
}

fn of_aggregate(aggregate: &AggregateExpr) -> Result<Node, QueryError> {
    let aggregator = match aggregate.op.id() {
        T_SUM => Aggregator::Sum,
        T_AVG => Aggregator::Average,
        T_MIN => Aggregator::Least,
        T_MAX => Aggregator::Most,
        T_COUNT => Aggregator::Count,
        _ => return bad(format!("the aggregation {} is not supported", aggregate.op)),
    };
    let grouping = match &aggregate.modifier {
        None => Grouping::By(BTreeSet::new()),
        Some(LabelModifier::Include(labels)) => {
            Grouping::By(labels.labels.iter().cloned().collect())
        }
        Some(LabelModifier::Exclude(labels)) => {
            Grouping::Without(labels.labels.iter().cloned().collect())
        }
    };
    let inner = values(&aggregate.expr)?;
    if inner.is_number() {
        return bad(format!("the argument of {} must be a vector", aggregate.op));
    }
    Ok(Node::Aggregate(aggregator, grouping, Box::new(inner)))
}

fn of_binary(binary: &BinaryExpr) -> Result<Node, QueryError> {
    let operator = operator(binary.op)?;
    let (left, right) = (values(&binary.lhs)?, values(&binary.rhs)?);
    if !left.is_number() && !right.is_number() {
        return bad("operators between two vectors are not supported: one side must be a number");
    }
    Ok(Node::Arithmetic(operator, Box::new(left), Box::new(right)))
}

fn operator(token: TokenType) -> Result<Operator, QueryError> {
    Ok(match token.id() {
        T_ADD => Operator::Add,
        T_SUB => Operator::Subtract,
        T_MUL => Operator::Multiply,
        T_DIV => Operator::Divide,
        T_MOD => Operator::Modulo,
        T_POW => Operator::Power,
        _ => return bad(format!("the operator {token} is not supported")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_queries_are_parsed() {
        let query = Query::parse(
            "sum by (deployment, job) (rate(http_requests{source_id=\"a\", code!=\"500\"}[5m] \
             offset 1m)) * 60",
        );
        let Ok(Query(Node::Arithmetic(Operator::Multiply, left, right))) = query else {
            panic!("{query:?}");
        };
        assert_eq!(*right, Node::Number(60.0));
        let Node::Aggregate(Aggregator::Sum, Grouping::By(labels), inner) = *left else {
            panic!("{left:?}");
        };
        assert_eq!(labels.len(), 2);
        let Node::Over(RangeFunction::Rate, selector, 300_000) = *inner else {
            panic!("{inner:?}");
        };
        assert_eq!((selector.name.as_str(), selector.offset_ms), ("http_requests", 60_000));
        assert_eq!(selector.sources, ["a".to_owned()].into());
        assert_eq!(selector.matchers.len(), 1);
        let both = Query::parse("cpu{source_id=~\"a|b\"}").unwrap();
        let Query(Node::Newest(selector)) = both else { panic!("{both:?}") };
        assert_eq!(selector.sources.len(), 2);
        assert!(Query::parse("cpu{source_id=\"a\"}[1m]").unwrap().is_matrix());
        assert!(Query::parse("1 + -2").unwrap().0.is_number());
    }

    #[test]
    fn everything_else_is_an_error() {
        for (text, what) in [
            ("", ""),
            ("cpu", "source_ids"),
            ("cpu{source_id!=\"a\"}", "source_ids"),
            ("{source_id=\"a\"}", "name of a metric"),
            ("{__name__=~\"c.*\", source_id=\"a\"}", "name of a metric"),
            ("cpu{source_id=\"a\"} @ 5", "modifier @"),
            ("cpu{source_id=\"a\"} + cpu{source_id=\"b\"}", "two vectors"),
            ("cpu{source_id=\"a\"} > 5", "operator >"),
            ("topk(5, cpu{source_id=\"a\"})", "aggregation topk"),
            ("histogram_quantile(0.9, cpu{source_id=\"a\"})", "histogram_quantile"),
            ("rate(cpu{source_id=\"a\"}[5m:1m])", "selector with a range"),
            ("max_over_time(rate(cpu{source_id=\"a\"}[5m])[1h:1m])", "selector with a range"),
            ("sum(5)", ""),
            ("\"text\"", "strings"),
            ("cpu{source_id=\"a\"", ""),
        ] {
            let error = Query::parse(text).expect_err(text);
            let QueryError::Bad(found) = error else { panic!("{error:?}") };
            assert!(found.contains(what), "{text}: {found}");
        }
        let deep = format!("{}1{}", "(".repeat(2000), ")".repeat(2000));
        assert!(Query::parse(&deep).is_err() && Query::parse(&"-".repeat(3000)).is_err());
        assert!(Query::parse(&format!("{}1", "1+".repeat(100_000))).is_err());
    }
}
