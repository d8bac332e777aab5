//! `/weir/v1/export`: all records that match an expression, as a stream.
//!
//! NDJSON and CSV are sent page by page: a page is requested when the reader has taken all but
//! [`CHUNKS_WAITING`] chunks of the previous one, so an export holds two pages in memory, whatever
//! its length. Parquet requires all columns before the first row: a file is produced as a whole,
//! and records that do not fit into one file are an error, unless pieces were requested, each of
//! which is a complete file; the header [`NEXT_HEADER`] contains the cursor of the next piece.
//!
//! Invariants: a response is completed, or the connection is cut, which every HTTP/1.1 client
//! notices; missing records are reported, whenever they are noticed ([`partial`]); an export ends
//! when its reader leaves; at most [`exports_max`] run at once, so that workers remain for
//! searches.

mod csv;
mod parquet;
mod partial;

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Version, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use weir_store::embedded::columns::{AttributeValue, StoredRecord};
use weir_store::query::{
    CalculatedField, Order, PageKey, PartialReason, SearchPage, SearchRequest,
};

use super::admission::{AnswerStatus, Rejection};
use super::limits::{EXPORT_BYTES_MAX, EXPORT_RECORDS_MAX, PAGE_RECORDS_MAX};
use super::prelude::*;
use super::record::LogEntry;
use super::{rejection_problem, store_problem};
use crate::response::NO_STORE;
use crate::stream::{BodyPart, IncompleteResponse, StreamBody};
use csv::CsvColumns;
use parquet::Piece;
use partial::{CLOSE_DELAY, PARTIAL_HEADER, PartialReasons, accepts_trailers};

/// Chunks that may wait for the reader.
const CHUNKS_WAITING: usize = 1;

/// How often a page is requested again under overload.
const ATTEMPTS_MAX: usize = 30;

/// Cursor of the next piece.
const NEXT_HEADER: HeaderName = HeaderName::from_static("x-weir-next");

/// Maximum number of concurrent exports: half of the workers.
pub(super) fn exports_max(workers: usize) -> usize {
    (workers / 2).max(1)
}

/// Format of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// One JSON object per line, as in the answer of a search.
    #[default]
    Ndjson,
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// A Parquet file, in the schema of the store.
    Parquet,
}

/// Request for an export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// Default: `ndjson`.
    #[serde(default)]
    #[param(inline)]
    format: Format,
    /// An expression; if empty, every record.
    #[serde(default)]
    query: String,
    /// Start of the range (inclusive). Default: the first record.
    from: Option<String>,
    /// End of the range (exclusive). Default: `now`.
    to: Option<String>,
    /// `timestamp` (default): oldest first; `-timestamp`: newest first.
    sort: Option<super::search::Sort>,
    /// Maximum number of records. Default: all.
    limit: Option<u64>,
    /// Comma-separated columns of CSV. Default: `timestamp,host,service,status,message,attributes`.
    columns: Option<String>,
    /// Calculated fields: a JSON object from name to expression.
    calculated_fields: Option<String>,
    /// Parquet: records that do not fit into one file are returned in pieces; otherwise they are an
    /// error (422). Default: `false`, but `true` with a `cursor`.
    #[serde(default)]
    pieces: bool,
    /// Parquet: the header `x-weir-next` of the previous piece.
    cursor: Option<String>,
}

impl ExportQuery {
    fn wants_pieces(&self) -> bool {
        self.pieces || self.cursor.is_some()
    }
}

/// All records that match an expression, as a stream
///
/// A connection that ends before the response does means that the response is incomplete. If it
/// turns out after the first page that records are missing (`x-weir-partial`), NDJSON and CSV are
/// still sent to their end; `x-weir-partial` is then a trailer for clients that send
/// `TE: trailers`, and for others the connection ends before the response does.
#[utoipa::path(
    get, path = "/weir/v1/export", tag = "export", params(ExportQuery),
    responses(
        (status = 200, description = "The records", headers(
            ("x-weir-next" = String, description = "Parquet: there are more records; this is the \
                                                    `cursor` of the next piece"),
            ("x-weir-partial" = String, description = "The response is partial; comma-separated \
                                                       reasons: `damaged`, `catching_up`, \
                                                       `memory`, `deadline`"),
         ), content(
            (String = "application/x-ndjson"),
            (String = "text/csv; charset=utf-8; header=present"),
            (String = "application/vnd.apache.parquet"),
         )),
        (status = 422, description = "The records do not fit into one Parquet file, and pieces \
                                      were not requested"),
        (status = 503, description = "The maximum number of exports is running"),
    )
)]
pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(requester): Extension<Requester>,
    version: Version,
    headers: HeaderMap,
    query: Result<Query<ExportQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let params = parameters(query)?;
    let ExportStart { request, spec, hash, remaining } =
        ExportStart::of(&state, &requester, &params)?;
    let columns = CsvColumns::parse(params.columns.as_deref())?;
    let calculated_fields =
        state.explore.calculated_fields(&request.filter.calculated_fields)?.into();
    let store = state.explore.store()?;
    let permit = state.explore.exports.clone().try_acquire_owned().map_err(|_| {
        let title = "the maximum number of exports is running; try again when one has ended";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(10)
    })?;
    let reasons = PartialReasons::default();
    let (records_max, is_done) = (EXPORT_RECORDS_MAX, remaining == 0);
    let export = Export { state, store, request, records_max, remaining, is_done, reasons };
    let response = match params.format {
        Format::Ndjson | Format::Csv => {
            let columns = (params.format == Format::Csv).then(|| Arc::new(columns));
            let accepts_trailers = accepts_trailers(version, &headers);
            lines(export, LineFormat { calculated_fields, columns }, accepts_trailers, permit).await
        }
        Format::Parquet => {
            let piece = Piece {
                query_hash: hash,
                limit: params.limit,
                pieces_requested: params.wants_pieces(),
            };
            parquet::file(export, piece).await
        }
    };
    response.map_err(|problem| spec.with_span(problem))
}

/// Where an export starts.
struct ExportStart {
    /// The first page.
    request: SearchRequest,
    spec: QuerySpec,
    /// Hash of the query.
    hash: u64,
    /// Maximum number of records.
    remaining: u64,
}

impl ExportStart {
    fn of(state: &ApiState, requester: &Requester, params: &ExportQuery) -> Result<Self, Problem> {
        let (from, to) = (params.from.as_deref(), params.to.as_deref());
        let spec = QuerySpec::from_query_string(
            &params.query,
            from,
            to,
            params.calculated_fields.as_deref(),
        )?
        .without_default_start();
        let mut filter =
            spec.filter(state.explore.request_context().now_ns(), requester.access())?;
        let hash = spec.hash(&format!("export {:?} {:?}", params.sort, params.limit));
        if params.wants_pieces() && params.format != Format::Parquet {
            let name = if params.cursor.is_some() { "cursor" } else { "pieces" };
            return Err(Problem::parameter(name, "requires format=parquet"));
        }
        let (cursor, remaining) = parquet::split_cursor(params.cursor.as_deref());
        let after = spec.resume_from(cursor, hash, &mut filter)?;
        // The limit no longer includes the records of the previous pieces.
        let remaining = remaining.or(params.limit).unwrap_or(u64::MAX);
        let order = match params.sort {
            Some(super::search::Sort::Newest) => Order::NewestFirst,
            _ => Order::OldestFirst,
        };
        let request = SearchRequest { filter, order, limit: PAGE_RECORDS_MAX, after };
        Ok(Self { request, spec, hash, remaining })
    }
}

/// An export in progress.
struct Export {
    state: Arc<ApiState>,
    store: Arc<dyn LogStore>,
    /// The next page.
    request: SearchRequest,
    /// Maximum number of records per page.
    records_max: usize,
    /// Records that remain until the limit.
    remaining: u64,
    is_done: bool,
    /// Why it is partial, as known so far.
    reasons: PartialReasons,
}

/// A page, converted by a worker.
struct ConvertedPage<T> {
    content: T,
    rows: usize,
    /// Approximate memory of the records.
    bytes: usize,
    next: Option<PageKey>,
    partial_reasons: Vec<PartialReason>,
}

impl Export {
    /// Reads the next page and converts its records, both on a worker. Retries under overload, and
    /// with fewer records if they need too much memory. The page after it has as many records as
    /// fit into [`EXPORT_BYTES_MAX`] at the same record size.
    async fn next<T: Send + 'static>(
        &mut self,
        convert: impl Fn(Vec<StoredRecord>) -> T + Clone + Send + 'static,
    ) -> Result<T, Problem> {
        let mut attempts = 0;
        loop {
            let mut request = self.request.clone();
            request.limit =
                request.limit.min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
            match self.page(request, convert.clone()).await {
                Ok(Ok(page)) => {
                    let needs_less = page.partial_reasons.contains(&PartialReason::Memory);
                    if needs_less && self.request.limit > 1 {
                        self.request.limit /= 2;
                        self.records_max = self.request.limit;
                        continue;
                    }
                    self.request.limit = self.next_limit(page.rows, page.bytes);
                    self.remaining -= (page.rows as u64).min(self.remaining);
                    self.is_done = page.next.is_none() || self.remaining == 0;
                    self.request.after = page.next;
                    self.reasons.add(&page.partial_reasons);
                    return Ok(page.content);
                }
                Ok(Err(problem)) => return Err(problem),
                Err(Rejection::Full(seconds) | Rejection::Late(seconds))
                    if attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                Err(error) => return Err(rejection_problem(error)),
            }
        }
    }

    /// Number of records of the next page, given the memory of this one.
    fn next_limit(&self, rows: usize, bytes: usize) -> usize {
        let next_limit = rows * EXPORT_BYTES_MAX / bytes.max(1);
        // A few records are not representative; and where records are large, the store ends a page
        // early.
        let most = self.request.limit.saturating_mul(4).min(self.records_max);
        next_limit.clamp(PAGE_RECORDS_MAX.min(most), most)
    }

    async fn page<T: Send + 'static>(
        &self,
        request: SearchRequest,
        convert: impl FnOnce(Vec<StoredRecord>) -> T + Send + 'static,
    ) -> Result<Result<ConvertedPage<T>, Problem>, Rejection> {
        let store = Arc::clone(&self.store);
        let work = move |budget: &_| match store.search(&request, budget) {
            Ok(SearchPage { records, next, coverage }) => {
                let rows = records.len();
                let bytes = records.iter().map(memory_bytes).sum();
                let status = if coverage.is_partial() {
                    AnswerStatus::Partial
                } else {
                    AnswerStatus::Complete
                };
                let partial_reasons = coverage.partial_reasons;
                let page =
                    ConvertedPage { content: convert(records), rows, bytes, next, partial_reasons };
                (Ok(page), status)
            }
            Err(error) => (Err(store_problem(&error)), AnswerStatus::Failed),
        };
        self.state.explore.admission.run(QueryKind::Export, None, work).await
    }
}

/// Approximate memory of a record.
fn memory_bytes(record: &StoredRecord) -> usize {
    let StoredRecord { service, host, source, status, tags, resource, message, .. } = record;
    let texts = [service, host, source, status, tags, resource, message];
    let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
    let value = |value: &AttributeValue| match value {
        AttributeValue::Text(text) => size_of::<AttributeValue>() + text.len(),
        _ => size_of::<AttributeValue>(),
    };
    let attributes = record.attributes.iter().map(|attribute| {
        let (path, values) = attribute;
        size_of_val(attribute) + path.len() + values.iter().map(value).sum::<usize>()
    });
    size_of::<StoredRecord>() + texts + attributes.sum::<usize>()
}

/// Formats that are written record by record.
#[derive(Debug, Clone)]
struct LineFormat {
    calculated_fields: Arc<[CalculatedField]>,
    /// The columns of CSV; `None` means NDJSON.
    columns: Option<Arc<CsvColumns>>,
}

impl LineFormat {
    fn content_type(&self) -> &'static str {
        match self.columns {
            None => "application/x-ndjson",
            Some(_) => "text/csv; charset=utf-8; header=present",
        }
    }

    fn head(&self) -> Vec<u8> {
        self.columns.as_ref().map(|columns| columns.head()).unwrap_or_default()
    }

    /// Returns the function that formats a page.
    fn formatter(self) -> impl Fn(Vec<StoredRecord>) -> Vec<u8> + Clone + Send + 'static {
        move |records| self.page(records)
    }

    fn page(&self, records: Vec<StoredRecord>) -> Vec<u8> {
        // About as long as its input.
        let mut text = Vec::with_capacity(records.iter().map(memory_bytes).sum());
        for record in records {
            match &self.columns {
                None => {
                    let entry = LogEntry::new(record, true, &self.calculated_fields);
                    // Texts and numbers can always be written.
                    let _infallible = serde_json::to_writer(&mut text, &entry);
                    text.push(b'\n');
                }
                Some(columns) => columns.row(record, &self.calculated_fields, &mut text),
            }
        }
        text
    }
}

/// Responds with the first page, and sends the others as the reader takes them.
async fn lines(
    mut export: Export,
    lines: LineFormat,
    accepts_trailers: bool,
    permit: OwnedSemaphorePermit,
) -> Result<Response, Problem> {
    let mut first = lines.head();
    if !export.is_done {
        first.extend_from_slice(&export.next(lines.clone().formatter()).await?);
    }
    let mut headers = export.reasons.headers();
    let reasons_sent = export.reasons.clone();
    let content_type = HeaderValue::from_static(lines.content_type());
    let (sender, body) = StreamBody::new(CHUNKS_WAITING);
    tokio::spawn(async move {
        // The reader may leave.
        let end = match send(&mut export, lines, first.into(), &sender).await {
            Err(None) => return,
            Err(Some(problem)) => {
                tracing::warn!(?problem, "an export was interrupted");
                Some(Err(IncompleteResponse))
            }
            Ok(()) if export.reasons == reasons_sent => None,
            Ok(()) if accepts_trailers => Some(Ok(Frame::trailers(export.reasons.headers()))),
            Ok(()) => {
                tokio::time::sleep(CLOSE_DELAY).await;
                Some(Err(IncompleteResponse))
            }
        };
        if let Some(end) = end {
            let _gone = sender.send(end).await;
        }
        drop(permit);
    });
    headers.insert(header::CONTENT_TYPE, content_type);
    if accepts_trailers {
        headers.insert(header::TRAILER, PARTIAL_HEADER.into());
    }
    Ok((headers, [NO_STORE], axum::body::Body::new(body)).into_response())
}

/// Sends the first page and all others.
///
/// # Errors
/// Why there is no further page; `None` means that the reader has left.
async fn send(
    export: &mut Export,
    lines: LineFormat,
    first: Bytes,
    sender: &mpsc::Sender<BodyPart>,
) -> Result<(), Option<Problem>> {
    let convert = lines.formatter();
    let mut chunk = first;
    loop {
        if !chunk.is_empty() {
            sender.send(Ok(Frame::data(chunk))).await.map_err(|_| None)?;
        }
        if export.is_done {
            return Ok(());
        }
        chunk = tokio::select! {
            page = export.next(convert.clone()) => page.map_err(Some)?.into(),
            () = sender.closed() => return Err(None),
        };
    }
}
