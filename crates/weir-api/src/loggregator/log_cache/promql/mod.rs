//! A part of `PromQL` over stored metrics: `/api/v1/query` and `/api/v1/query_range` over HTTP,
//! `InstantQuery` and `RangeQuery` over gRPC.
//!
//! A query is parsed and checked ([`plan`]); the metrics of its sources are read from the store and
//! become series ([`series`]); it is evaluated at one time or at several ([`eval`]), and the result
//! has the format of Prometheus, or is a message ([`answer`]).
//!
//! Invariants: as in the original, each selector names its sources, and times have whole seconds;
//! what is not supported is an error before anything is read; length, number of points, series and
//! steps are limited, and a query ends at its deadline.

mod answer;
mod eval;
mod plan;
mod series;

use std::time::Duration;

use hyper::Response;
use weir_codec::{GrpcStatus, PromqlInstant, PromqlRange, parse_rfc3339};
use weir_pipeline::grpc::Status;

use super::super::ServiceState;
use super::super::body::ServiceBody;
use super::super::limits::{PROMQL_STEPS_MAX, PROMQL_TIMEOUT};
use super::super::stored::ReadError;
use super::request::{self, InvalidParameter};
use answer::Problem;
use eval::{Evaluation, Times, Value};
use plan::Query;

/// How far back an instant selector looks for the newest value.
const LOOKBACK: Duration = Duration::from_mins(5);

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryError {
    /// It cannot be parsed, or is not supported.
    Bad(String),
    /// Reading from the store failed.
    Read(ReadError),
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<InvalidParameter> for QueryError {
    fn from(error: InvalidParameter) -> Self {
        Self::Bad(error.0)
    }
}

impl From<QueryError> for Status {
    /// As in the original, invalid queries have no specific code.
    fn from(error: QueryError) -> Self {
        let code = match &error {
            QueryError::Bad(_) => GrpcStatus::Unknown,
            QueryError::Read(error) => error.code(),
        };
        Self::new(code, Problem::of(&error).message)
    }
}

/// Answers `/api/v1/query`.
pub(super) async fn query(state: &ServiceState, query: &str) -> Response<ServiceBody> {
    let asked = request::instant(query).map_err(QueryError::from);
    respond(state, asked.and_then(|asked| instant(state, &asked))).await
}

/// Answers `/api/v1/query_range`.
pub(super) async fn query_range(state: &ServiceState, query: &str) -> Response<ServiceBody> {
    let asked = request::range(query).map_err(QueryError::from);
    respond(state, asked.and_then(|asked| range(&asked))).await
}

/// Answers `InstantQuery` with the bytes of an `InstantQueryResult`.
pub(super) async fn instant_message(
    state: &ServiceState,
    asked: &PromqlInstant,
) -> Result<Vec<u8>, QueryError> {
    evaluate(state, instant(state, asked)?, answer::instant_message).await
}

/// Answers `RangeQuery` with the bytes of a `RangeQueryResult`.
pub(super) async fn range_message(
    state: &ServiceState,
    asked: &PromqlRange,
) -> Result<Vec<u8>, QueryError> {
    evaluate(state, range(asked)?, answer::range_message).await
}

/// Returns the sources that a query names; none if it cannot be parsed.
pub(super) fn sources(query: &str) -> Vec<String> {
    let Ok(Ok(query)) = request::instant(query).map(|asked| Query::parse(&asked.query)) else {
        return Vec::new();
    };
    let mut sources = Vec::new();
    query.0.for_each_selector(&mut |selector, _| sources.extend(selector.sources.iter().cloned()));
    sources
}

async fn respond(
    state: &ServiceState,
    asked: Result<(Query, Times), QueryError>,
) -> Response<ServiceBody> {
    let answered = match asked {
        Ok(asked) => evaluate(state, asked, answer::success).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(response) => response,
        Err(error) => {
            let problem = Problem::of(&error);
            state.refuse(&problem.message);
            problem.response()
        }
    }
}

/// Evaluates a query and creates a response from its result.
async fn evaluate<T: Send + 'static>(
    state: &ServiceState,
    (query, times): (Query, Times),
    answer: fn(&Value) -> T,
) -> Result<T, QueryError> {
    let _permit = state.streams.clone().try_acquire_owned().map_err(|_| ReadError::Busy)?;
    let sources = state.stored.envelope_sources();
    let evaluated = state.stored.run(PROMQL_TIMEOUT, move |store, budget| {
        let evaluation = Evaluation { times, store, sources: &sources, budget };
        Ok(evaluation.run(&query).map(|value| answer(&value)))
    });
    evaluated.await?
}

fn bad<T>(text: impl Into<String>) -> Result<T, QueryError> {
    Err(QueryError::Bad(text.into()))
}

fn instant(state: &ServiceState, asked: &PromqlInstant) -> Result<(Query, Times), QueryError> {
    let at_ms = match asked.time.as_str() {
        "" => state.stored.now_ns() / 1_000_000_000 * 1000,
        text => time(text)?,
    };
    Ok((Query::parse(&asked.query)?, Times::At(at_ms)))
}

fn range(asked: &PromqlRange) -> Result<(Query, Times), QueryError> {
    for (name, text) in [("start", &asked.start), ("end", &asked.end), ("step", &asked.step)] {
        if text.is_empty() {
            return bad(format!("couldn't parse {name}: it is missing"));
        }
    }
    let first_ms = time(&asked.start)?;
    let last_ms = time(&asked.end)?;
    let step_ms = duration_ms(&asked.step)?;
    if last_ms < first_ms {
        return bad("end timestamp must not be before start time");
    }
    if last_ms.saturating_sub(first_ms) / step_ms >= PROMQL_STEPS_MAX {
        return bad(format!("exceeded maximum resolution of {PROMQL_STEPS_MAX} points per series"));
    }
    let query = Query::parse(&asked.query)?;
    if query.is_matrix() {
        return bad("invalid expression type \"range vector\" for range query");
    }
    Ok((query, Times::Range { first_ms, last_ms, step_ms }))
}

/// Reads a time: seconds since 1970, or RFC 3339. In milliseconds.
fn time(text: &str) -> Result<i64, QueryError> {
    if let Some(ns) = parse_rfc3339(text.as_bytes()) {
        return Ok(ns.div_euclid(1_000_000));
    }
    match text.parse::<f64>() {
        Ok(seconds) if seconds.abs() < 9e9 => Ok((seconds * 1000.0).round() as i64),
        _ => bad(format!("couldn't parse time: \"{text}\" is neither seconds nor RFC 3339")),
    }
}

/// Reads a step: seconds, or a number with a unit. In milliseconds, at least one.
fn duration_ms(text: &str) -> Result<i64, QueryError> {
    const UNITS: [(&str, f64); 7] = [
        ("ms", 1.0),
        ("s", 1e3),
        ("m", 6e4),
        ("h", 3.6e6),
        ("d", 8.64e7),
        ("w", 6.048e8),
        ("y", 3.1536e10),
    ];
    let with_unit = UNITS.iter().find_map(|(unit, ms)| {
        let number = text.strip_suffix(unit)?;
        Some(number.parse::<f64>().ok()? * ms)
    });
    let ms = with_unit.or_else(|| Some(text.parse::<f64>().ok()? * 1000.0));
    match ms {
        Some(ms) if (1.0..9e12).contains(&ms) => Ok(ms as i64),
        _ => bad(format!("couldn't parse step: \"{text}\" is not a positive duration")),
    }
}
