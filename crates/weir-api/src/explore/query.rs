//! The common parts of all queries: which records, at what cost, and how the parts are named in
//! errors.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, Query, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_expr::{Expr, Field, Formula, parse, parse_field};
use weir_host::units::{format_rfc3339, parse_duration};
use weir_host::{ConnectionSlot, Zone};
use weir_store::query::{Access, CalculatedField, Filter, PageKey, TimeRange};

use super::cursor::Cursor;
use super::deserialize::{Object, plain_error};
use super::limits::{BODY_BYTES_MAX, BODY_TIMEOUT, CALCULATED_FIELDS_MAX, DEADLINE_MAX};
use super::time::TimeText;
use crate::problem::Problem;

/// Names of the parts of a request, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParameterNames {
    pub(super) query: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) limit: &'static str,
    pub(super) cursor: &'static str,
    pub(super) calculated_fields: &'static str,
    pub(super) timeout: &'static str,
}

impl ParameterNames {
    /// In a request body.
    pub(super) const BODY: Self = Self {
        query: "filter.query",
        from: "filter.from",
        to: "filter.to",
        limit: "page.limit",
        cursor: "page.cursor",
        calculated_fields: "weir.calculated_fields",
        timeout: "weir.timeout",
    };
    /// In the query string of one of Datadog's paths.
    pub(super) const DATADOG: Self = Self {
        query: "filter[query]",
        from: "filter[from]",
        to: "filter[to]",
        limit: "page[limit]",
        cursor: "page[cursor]",
        calculated_fields: "weir.calculated_fields",
        timeout: "weir.timeout",
    };
    /// In the query string of one of weir's own paths.
    pub(super) const WEIR: Self = Self {
        query: "query",
        from: "from",
        to: "to",
        limit: "limit",
        cursor: "cursor",
        calculated_fields: "calculated_fields",
        timeout: "timeout",
    };
}

/// Selects records, in a request body.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FilterBody {
    /// An expression; if empty, every record.
    pub(super) query: String,
    /// Start of the range (inclusive). Default: `now-15m`.
    pub(super) from: Option<TimeText>,
    /// End of the range (exclusive). Default: `now`.
    pub(super) to: Option<TimeText>,
    /// Ignored: there is one index.
    pub(super) indexes: Vec<String>,
    /// Ignored: there is one storage tier.
    pub(super) storage_tier: Option<String>,
}

/// Time options.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OptionsBody {
    /// Time zone for the start of days, weeks and intervals, and for dates without a zone:
    /// `Europe/Berlin`, `UTC+1`, `+02:00`. Default: `UTC`. Times in answers are in UTC.
    timezone: Option<String>,
    /// Not supported; `timezone` can be an offset.
    #[serde(rename = "timeOffset")]
    time_offset: Option<i64>,
}

impl OptionsBody {
    /// The time zone that determines when a day starts.
    pub(super) fn zone(&self) -> Result<Zone, Problem> {
        let Some(text) = &self.timezone else { return Ok(Zone::UTC) };
        Zone::parse(text).map_err(|error| Problem::parameter("options.timezone", error))
    }

    /// Why the option is ignored.
    pub(super) fn ignored(&self) -> Option<String> {
        self.time_offset
            .is_some_and(|seconds| seconds != 0)
            .then(|| "options.timeOffset: use options.timezone with an offset instead".to_owned())
    }
}

/// Options that only weir has.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WeirOptions {
    /// Calculated fields, by name: `{"queueing_delay": "@request_time - @service_time"}`. They can
    /// be used wherever an attribute can.
    pub(super) calculated_fields: BTreeMap<String, String>,
    /// Deadline of the query, such as `5s`; the answer contains what was found by then. Default:
    /// 1500ms.
    pub(super) timeout: Option<String>,
    /// Adds stream, position and exact time to each record.
    pub(super) details: bool,
    /// Approximate number of points of a series if no interval is given. Default: 150.
    pub(super) points: Option<usize>,
}

/// An unparsed query: which records, and at what cost.
#[derive(Debug, Clone)]
pub(super) struct QuerySpec {
    names: ParameterNames,
    pub(super) query: String,
    from: Option<TimeText>,
    to: Option<TimeText>,
    /// Without `from` the range starts at the first record, not 15 minutes ago.
    is_from_first: bool,
    /// The time zone of days.
    zone: Zone,
    calculated_fields: BTreeMap<String, String>,
}

impl QuerySpec {
    /// From a request body, or the query string of one of Datadog's paths.
    pub(super) fn new(
        names: ParameterNames,
        filter: &FilterBody,
        calculated_fields: &BTreeMap<String, String>,
    ) -> Self {
        let FilterBody { query, from, to, .. } = filter.clone();
        let (is_from_first, zone) = (false, Zone::UTC);
        Self {
            names,
            query,
            from,
            to,
            is_from_first,
            zone,
            calculated_fields: calculated_fields.clone(),
        }
    }

    /// The same, with a time zone.
    pub(super) fn with_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// From the query string of one of weir's own paths; `calculated_fields` is a JSON object of
    /// texts.
    pub(super) fn from_query_string(
        query: &str,
        from: Option<&str>,
        to: Option<&str>,
        calculated_fields: Option<&str>,
    ) -> Result<Self, Problem> {
        let names = ParameterNames::WEIR;
        let calculated_fields =
            parse_calculated_fields(names.calculated_fields, calculated_fields)?;
        let [from, to] = [from, to].map(|time| time.map(TimeText::from));
        let (query, is_from_first, zone) = (query.to_owned(), false, Zone::UTC);
        Ok(Self { names, query, from, to, is_from_first, zone, calculated_fields })
    }

    /// The same, but without `from` the range starts at the first record.
    pub(super) fn without_default_start(self) -> Self {
        Self { is_from_first: true, ..self }
    }

    /// Returns the selection of records.
    pub(super) fn filter(&self, now_ns: i64, access: Access) -> Result<Filter, Problem> {
        let query: Expr =
            parse(&self.query).map_err(|error| Problem::expression(self.names.query, &error))?;
        let range = self.range(now_ns)?;
        let calculated_fields = self.calculated_fields()?;
        Ok(Filter { query, range, calculated_fields, ..Filter::all(access) })
    }

    /// Converts an error of the store about the query, with its place in it.
    pub(super) fn with_span(&self, problem: Problem) -> Problem {
        match parse(&self.query) {
            Ok(expr) => problem.with_span(self.names.query, &self.query, &expr),
            Err(_) => problem,
        }
    }

    fn range(&self, now_ns: i64) -> Result<TimeRange, Problem> {
        let time = |name: &str, text: Option<&TimeText>, default: &str| {
            let text = text.cloned().unwrap_or_else(|| default.into());
            text.resolve(now_ns, &self.zone).map_err(|error| Problem::parameter(name, error))
        };
        let from_ns = match &self.from {
            None if self.is_from_first => TimeRange::ALL.from_ns,
            from => time(self.names.from, from.as_ref(), "now-15m")?,
        };
        let to_ns = time(self.names.to, self.to.as_ref(), "now")?;
        let range = TimeRange { from_ns, to_ns };
        if range.is_empty() {
            let (from, to) = (format_rfc3339(from_ns), format_rfc3339(to_ns));
            let what = format!("{from} must be before {to}, the end of the range");
            return Err(Problem::parameter(self.names.from, what));
        }
        Ok(range)
    }

    fn calculated_fields(&self) -> Result<Vec<CalculatedField>, Problem> {
        if self.calculated_fields.len() > CALCULATED_FIELDS_MAX {
            let what = format!("has more than {CALCULATED_FIELDS_MAX} items");
            return Err(Problem::parameter(self.names.calculated_fields, what));
        }
        let read = |(name, text): (&String, &String)| {
            let path = name.strip_prefix('@').unwrap_or(name).to_owned();
            let at = format!("{}.{name}", self.names.calculated_fields);
            if path.is_empty() {
                return Err(Problem::parameter(
                    self.names.calculated_fields,
                    "a calculated field has no name",
                ));
            }
            match Formula::parse(text) {
                Ok(measure) => Ok(CalculatedField { path, formula: measure }),
                Err(error) => Err(Problem::expression(&at, &error)),
            }
        };
        let calculated_fields: Vec<CalculatedField> =
            self.calculated_fields.iter().map(read).collect::<Result<_, _>>()?;
        let Some(path) = CalculatedField::too_long(&calculated_fields) else {
            return Ok(calculated_fields);
        };
        let at = format!("{}.{path}", self.names.calculated_fields);
        Err(Problem::parameter(&at, "is too long after the fields that it uses are expanded"))
    }

    /// Returns where the page of a cursor starts, and sets the range to that of the first page.
    pub(super) fn resume_from(
        &self,
        cursor: Option<&str>,
        hash: u64,
        filter: &mut Filter,
    ) -> Result<Option<PageKey>, Problem> {
        let Some(cursor) = cursor else { return Ok(None) };
        let cursor = Cursor::decode(cursor, hash)
            .map_err(|error| Problem::parameter(self.names.cursor, error))?;
        filter.range = cursor.range;
        Ok(Some(cursor.key))
    }

    /// Identifies this query, for cursors.
    pub(super) fn hash(&self, rest: &str) -> u64 {
        let Self { query, from, to, calculated_fields, .. } = self;
        let [from, to] = [from, to].map(|time| time.as_ref().map(ToString::to_string));
        weir_model::hash64(
            format!("{query}\0{from:?}\0{to:?}\0{calculated_fields:?}\0{rest}").as_bytes(),
        )
    }
}

/// The deadline of the query.
pub(super) fn deadline(name: &str, text: &str) -> Result<Duration, Problem> {
    let time = parse_duration(text).map_err(|error| Problem::parameter(name, error))?;
    if time.is_zero() || time > DEADLINE_MAX {
        let most = DEADLINE_MAX.as_secs();
        return Err(Problem::parameter(
            name,
            format!("must be greater than 0 and at most {most}s"),
        ));
    }
    Ok(time)
}

/// Checks the bounds of a number.
pub(super) fn bounded(
    name: &str,
    number: Option<usize>,
    default: usize,
    max: usize,
) -> Result<usize, Problem> {
    match number.unwrap_or(default) {
        number if (1..=max).contains(&number) => Ok(number),
        number => Err(Problem::parameter(name, format!("is {number}; it must be from 1 to {max}"))),
    }
}

/// Reads a field that records can be grouped by, or that has numbers.
pub(super) fn field(name: &str, text: &str) -> Result<Field, Problem> {
    match parse_field(text).map_err(|error| Problem::expression(name, &error))? {
        Field::Any => Err(Problem::parameter(name, "must be a single field, not *")),
        field => Ok(field),
    }
}

/// Reads calculated fields from a query string: a JSON object of texts.
pub(super) fn parse_calculated_fields(
    name: &str,
    json: Option<&str>,
) -> Result<BTreeMap<String, String>, Problem> {
    let Some(json) = json else { return Ok(BTreeMap::new()) };
    serde_json::from_str(json).map_err(|error| {
        Problem::parameter(name, format!("is not a JSON object of texts: {error}"))
    })
}

/// Reads the body of a request within its limits of size and time.
#[derive(Debug)]
pub(crate) struct RequestBody(Result<Bytes, Problem>);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        let slot = request.extensions().get::<ConnectionSlot>().cloned();
        let _receiving = slot.as_ref().map(ConnectionSlot::receiving);
        let reading = Bytes::from_request(request, state);
        let read = tokio::time::timeout(BODY_TIMEOUT, reading).await;
        Ok(Self(read.map_or_else(
            |_| Err(body_timeout()),
            |read| read.map_err(|error| invalid_body(&error)),
        )))
    }
}

fn body_timeout() -> Problem {
    let seconds = BODY_TIMEOUT.as_secs();
    let title = format!("the body was not received within {seconds} s");
    Problem::new(StatusCode::REQUEST_TIMEOUT, title)
}

fn invalid_body(error: &BytesRejection) -> Problem {
    let title = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("the body exceeds the limit of {BODY_BYTES_MAX} bytes")
        }
        _ => error.body_text(),
    };
    Problem::new(error.status(), title)
}

/// Parses the body of a request. No body is an empty object.
pub(crate) fn body<T: DeserializeOwned>(
    headers: &HeaderMap,
    RequestBody(body): RequestBody,
) -> Result<T, Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let title = "the body must not be compressed";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, title));
    }
    let bytes = body?;
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes[..] };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let what = plain_error(&error.inner().to_string());
        match error.path().to_string() {
            // The whole document.
            path if path == "." || path == "?" => {
                let colon = if what.starts_with("is ") { "" } else { ":" };
                Problem::new(StatusCode::BAD_REQUEST, format!("the body{colon} {what}"))
            }
            path => Problem::parameter(&path, what),
        }
    })?;
    reader.end().map_err(|error| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            format!("unexpected data after the JSON body: {error}"),
        )
    })?;
    Ok(value)
}

/// Parses the parameters of a query string.
pub(crate) fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query
        .map(|Query(parameters)| parameters)
        .map_err(|error| invalid_parameters(&error.body_text()))
}

/// Converts an error about a query string to a problem about the parameter.
fn invalid_parameters(error: &str) -> Problem {
    let error = error.strip_prefix("Failed to deserialize query string: ").unwrap_or(error);
    let named = error.split_once(": ").filter(|(name, _)| !name.contains(char::is_whitespace));
    let missing = error.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    match (named, missing) {
        (Some((name, what)), _) => Problem::parameter(name, plain_error(what)),
        (None, Some(name)) => Problem::parameter(name, "is missing"),
        (None, None) => Problem::new(StatusCode::BAD_REQUEST, plain_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_range_calculated_field_and_query_are_reported() {
        let wrong = |query: &str, from: &str, measure: &str| {
            let calculated_fields = format!("{{\"delay\":\"{measure}\"}}");
            let spec =
                QuerySpec::from_query_string(query, Some(from), None, Some(&calculated_fields))
                    .unwrap();
            let problem = spec.filter(1_000_000_000, Access::all()).unwrap_err();
            serde_json::to_value(problem).unwrap()
        };
        let problem = wrong("a", "now+1s", "1");
        assert_eq!(problem["parameter"], "from");
        assert!(problem["title"].as_str().unwrap().contains("must be before"), "{problem}");
        let problem = wrong("a", "now-1s", "@a - ");
        assert_eq!(problem["parameter"], "calculated_fields.delay");
        assert_eq!(problem["span"]["start"], 5);
        let problem = wrong("(a", "now-1s", "1");
        assert_eq!((&problem["parameter"], &problem["expected"]), (&"query".into(), &")".into()));
    }

    #[test]
    fn body_error_names_the_member() {
        let read = |text: &'static str| {
            let received = RequestBody(Ok(Bytes::from_static(text.as_bytes())));
            body::<FilterBody>(&HeaderMap::new(), received)
        };
        assert!(read("").is_ok() && read(" {} ").is_ok());
        let wrong = |text| serde_json::to_value(read(text).unwrap_err()).unwrap();
        let problem = wrong("{\"querry\":\"a\"}");
        assert_eq!(problem["parameter"], "querry", "{problem}");
        assert!(problem["title"].as_str().unwrap().contains("expected one of `query`, `from`"));
        assert_eq!(wrong("{\"query\":5}")["parameter"], "query");
        assert!(wrong("{").get("parameter").is_none());
        assert!(wrong("{} x")["title"].as_str().unwrap().contains("unexpected data after"));
    }

    #[test]
    fn deadlines_and_numbers_are_bounded() {
        assert_eq!(deadline("t", "5s"), Ok(Duration::from_secs(5)));
        assert!(deadline("t", "61s").is_err() && deadline("t", "0s").is_err());
        assert_eq!(bounded("n", None, 10, 1000), Ok(10));
        assert!(bounded("n", Some(0), 10, 1000).is_err());
        assert!(bounded("n", Some(1001), 10, 1000).is_err());
    }
}
