//! Results in the format of Prometheus, and as messages of `logcache.v1`.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json, json};
use weir_codec::{
    PromqlSeries, encode_promql_matrix, encode_promql_range, encode_promql_scalar,
    encode_promql_vector,
};

use super::super::super::body::ServiceBody;
use super::super::super::stored::ReadError;
use super::QueryError;
use super::eval::Value;
use super::series::{Labels, Series};

/// An error.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn of(error: &QueryError) -> Self {
        let (status, kind) = match error {
            QueryError::Bad(_) => (StatusCode::BAD_REQUEST, "bad_data"),
            QueryError::Read(ReadError::Late) => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            QueryError::Read(ReadError::Busy | ReadError::Starting) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            QueryError::Read(
                ReadError::Invalid(_) | ReadError::TooLarge | ReadError::Failed(_),
            ) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let message = match error {
            QueryError::Bad(text) => text.clone(),
            QueryError::Read(ReadError::TooLarge) => {
                "the query needs too many envelopes or series: use a shorter range".to_owned()
            }
            QueryError::Read(error) => error.to_string(),
        };
        Self { status, kind, message }
    }

    pub(super) fn response(&self) -> Response<ServiceBody> {
        let Self { status, kind, message } = self;
        let body = json!({ "status": "error", "errorType": kind, "error": message });
        respond(*status, &body)
    }
}

/// The response with a result.
pub(super) fn success(value: &Value) -> Response<ServiceBody> {
    let (kind, result) = match value {
        Value::Scalar(at_ms, value) => ("scalar", point(*at_ms, *value)),
        Value::Vector(all) => ("vector", all.iter().map(sample).collect()),
        Value::Matrix(all) => ("matrix", all.iter().map(series).collect()),
    };
    let data = json!({ "resultType": kind, "result": result });
    respond(StatusCode::OK, &json!({ "status": "success", "data": data }))
}

/// The bytes of an `InstantQueryResult`.
pub(super) fn instant_message(value: &Value) -> Vec<u8> {
    match value {
        Value::Scalar(at_ms, value) => encode_promql_scalar(*at_ms, *value),
        Value::Vector(all) => encode_promql_vector(messages(all)),
        Value::Matrix(all) => encode_promql_matrix(messages(all)),
    }
}

/// The bytes of a `RangeQueryResult`, which consists of series.
pub(super) fn range_message(value: &Value) -> Vec<u8> {
    match value {
        Value::Matrix(all) => encode_promql_range(messages(all)),
        Value::Scalar(..) | Value::Vector(_) => encode_promql_range(std::iter::empty()),
    }
}

fn messages(all: &[Series]) -> impl Iterator<Item = PromqlSeries<'_>> {
    all.iter().map(|series| PromqlSeries { labels: &series.labels, points: &series.points })
}

fn respond(status: StatusCode, body: &Json) -> Response<ServiceBody> {
    let text = format!("{body}\n");
    let mut response = Response::new(ServiceBody::Whole(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn sample(series: &Series) -> Json {
    let value = series.points.first().map(|(at_ms, value)| point(*at_ms, *value));
    json!({ "metric": metric(&series.labels), "value": value })
}

fn series(series: &Series) -> Json {
    let values: Vec<Json> = series.points.iter().map(|(at, value)| point(*at, *value)).collect();
    json!({ "metric": metric(&series.labels), "values": values })
}

fn metric(labels: &Labels) -> Map<String, Json> {
    labels.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect()
}

/// Seconds since 1970, and the value as text.
fn point(at_ms: i64, value: f64) -> Json {
    let text = if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    };
    match at_ms % 1000 {
        0 => json!([at_ms / 1000, text]),
        _ => json!([at_ms as f64 / 1000.0, text]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_the_format_of_prometheus() {
        assert_eq!(point(1000, 1e21).to_string(), r#"[1,"1000000000000000000000"]"#);
        assert_eq!(point(1500, f64::INFINITY).to_string(), r#"[1.5,"+Inf"]"#);
        assert_eq!(point(-1000, f64::NAN).to_string(), r#"[-1,"NaN"]"#);
    }
}
