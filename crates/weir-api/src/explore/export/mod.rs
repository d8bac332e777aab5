//! `/weir/v1/export`: all records that match an expression, as a stream.
//!
//! NDJSON and CSV are sent page by page: a page is requested when the reader has taken all but
//! [`CHUNKS_WAITING`] chunks of the previous one, so an export holds two pages in memory, whatever
//! its length. Parquet requires all columns before the first row: a file is produced as a whole,
//! and records that do not fit into one file are an error, unless pieces were requested, each of
//! which is a complete file; the header [`NEXT`] contains the cursor of the next piece.
//!
//! Invariants: a response is completed, or the connection is cut, which every HTTP/1.1 client
//! notices; missing records are reported, whenever they are noticed ([`partial`]); an export ends
//! when its reader leaves; at most [`exports_max`] run at once, so that workers remain for
//! searches.

mod csv;
mod parquet;
mod partial;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa::{IntoParams, ToSchema};
use weir_store::embedded::columns::{AttributeValue, StoredRecord};
use weir_store::query::{
    CalculatedField, LogStore, Order, PageKey, PartialReason, SearchPage, SearchRequest,
};

use super::access::access;
use super::admission::{Ending, Refused};
use super::limits::{EXPORT_BYTES_MAX, EXPORT_RECORDS_MAX, PAGE_RECORDS_MAX};
use super::question::{Question, parameters};
use super::record::LogEntry;
use super::{Kind, failed, refused};
use crate::problem::{NO_STORE, Problem};
use crate::routes::Shared;
use crate::stream::{CutOff, Part, StreamBody};
use csv::CsvColumns;
use parquet::Piece;
use partial::{LINGER, PARTIAL, Reasons, takes_trailers};

/// Chunks that may wait for the reader.
const CHUNKS_WAITING: usize = 1;

/// How often a page is requested again under overload.
const TRIES_MAX: usize = 30;

/// Cursor of the next piece.
const NEXT: HeaderName = HeaderName::from_static("x-weir-next");

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
    measures: Option<String>,
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
    State(shared): State<Arc<Shared>>,
    version: Version,
    headers: HeaderMap,
    query: Result<Query<ExportQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = parameters(query)?;
    let First { request, question, hash, left } = First::of(&shared, &headers, &asked)?;
    let columns = CsvColumns::parse(asked.columns.as_deref())?;
    let measures = shared.explore.measures(&request.filter.calculated_fields)?.into();
    let store = shared.explore.store()?;
    let permit = shared.explore.exports.clone().try_acquire_owned().map_err(|_| {
        let title = "the maximum number of exports is running; try again when one has ended";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(10)
    })?;
    let reasons = Reasons::default();
    let (records_max, is_done) = (EXPORT_RECORDS_MAX, left == 0);
    let export = Export { shared, store, request, records_max, left, is_done, reasons };
    let exporting = match asked.format {
        Format::Ndjson | Format::Csv => {
            let columns = (asked.format == Format::Csv).then(|| Arc::new(columns));
            let takes_trailers = takes_trailers(version, &headers);
            lines(export, Lines { measures, columns }, takes_trailers, permit).await
        }
        Format::Parquet => {
            let piece =
                Piece { question: hash, limit: asked.limit, is_one_of_many: asked.wants_pieces() };
            parquet::file(export, piece).await
        }
    };
    exporting.map_err(|problem| question.placed(problem))
}

/// Where an export starts.
struct First {
    /// The first page.
    request: SearchRequest,
    question: Question,
    /// Hash of the query.
    hash: u64,
    /// Maximum number of records.
    left: u64,
}

impl First {
    fn of(shared: &Shared, headers: &HeaderMap, asked: &ExportQuery) -> Result<Self, Problem> {
        let (from, to) = (asked.from.as_deref(), asked.to.as_deref());
        let question =
            Question::own(&asked.query, from, to, asked.measures.as_deref())?.of_all_time();
        let mut filter = question.filter(shared.explore.arrival().now_ns(), access(headers))?;
        let hash = question.hash(&format!("export {:?} {:?}", asked.sort, asked.limit));
        if asked.wants_pieces() && asked.format != Format::Parquet {
            let name = if asked.cursor.is_some() { "cursor" } else { "pieces" };
            return Err(Problem::parameter(name, "requires format=parquet"));
        }
        let (cursor, left) = parquet::parts_of(asked.cursor.as_deref());
        let after = question.go_on(cursor, hash, &mut filter)?;
        // The limit no longer includes the records of the previous pieces.
        let left = left.or(asked.limit).unwrap_or(u64::MAX);
        let order = match asked.sort {
            Some(super::search::Sort::Newest) => Order::NewestFirst,
            _ => Order::OldestFirst,
        };
        let request = SearchRequest { filter, order, limit: PAGE_RECORDS_MAX, after };
        Ok(Self { request, question, hash, left })
    }
}

/// An export in progress.
struct Export {
    shared: Arc<Shared>,
    store: Arc<dyn LogStore>,
    /// The next page.
    request: SearchRequest,
    /// Maximum number of records per page.
    records_max: usize,
    /// Records that remain until the limit.
    left: u64,
    is_done: bool,
    /// Why it is partial, as known so far.
    reasons: Reasons,
}

/// A page, converted by a worker.
struct Made<T> {
    product: T,
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
        make: impl Fn(Vec<StoredRecord>) -> T + Clone + Send + 'static,
    ) -> Result<T, Problem> {
        let mut tries = 0;
        loop {
            let mut request = self.request.clone();
            request.limit = request.limit.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match self.page(request, make.clone()).await {
                Ok(Ok(made)) => {
                    let needs_less = made.partial_reasons.contains(&PartialReason::Memory);
                    if needs_less && self.request.limit > 1 {
                        self.request.limit /= 2;
                        self.records_max = self.request.limit;
                        continue;
                    }
                    self.request.limit = self.fitting(made.rows, made.bytes);
                    self.left -= (made.rows as u64).min(self.left);
                    self.is_done = made.next.is_none() || self.left == 0;
                    self.request.after = made.next;
                    self.reasons.add(&made.partial_reasons);
                    return Ok(made.product);
                }
                Ok(Err(problem)) => return Err(problem),
                Err(Refused::Full(seconds) | Refused::Late(seconds)) if tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }

    /// Number of records of the next page, given the memory of this one.
    fn fitting(&self, rows: usize, bytes: usize) -> usize {
        let fitting = rows * EXPORT_BYTES_MAX / bytes.max(1);
        // A few records are not representative; and where records are large, the store ends a page
        // early.
        let most = self.request.limit.saturating_mul(4).min(self.records_max);
        fitting.clamp(PAGE_RECORDS_MAX.min(most), most)
    }

    async fn page<T: Send + 'static>(
        &self,
        request: SearchRequest,
        make: impl FnOnce(Vec<StoredRecord>) -> T + Send + 'static,
    ) -> Result<Result<Made<T>, Problem>, Refused> {
        let store = Arc::clone(&self.store);
        let work = move |budget: &_| match store.search(&request, budget) {
            Ok(SearchPage { records, next, coverage }) => {
                let rows = records.len();
                let bytes = records.iter().map(memory_bytes).sum();
                let ending = if coverage.is_partial() { Ending::Partial } else { Ending::Complete };
                let partial_reasons = coverage.partial_reasons;
                let made = Made { product: make(records), rows, bytes, next, partial_reasons };
                (Ok(made), ending)
            }
            Err(error) => (Err(failed(&error)), Ending::Failed),
        };
        self.shared.explore.admission.run(Kind::Export, None, work).await
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
struct Lines {
    measures: Arc<[CalculatedField]>,
    /// The columns of CSV; `None` means NDJSON.
    columns: Option<Arc<CsvColumns>>,
}

impl Lines {
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
    fn maker(self) -> impl Fn(Vec<StoredRecord>) -> Vec<u8> + Clone + Send + 'static {
        move |records| self.page(records)
    }

    fn page(&self, records: Vec<StoredRecord>) -> Vec<u8> {
        // About as long as its input.
        let mut text = Vec::with_capacity(records.iter().map(memory_bytes).sum());
        for record in records {
            match &self.columns {
                None => {
                    let entry = LogEntry::new(record, true, &self.measures);
                    // Texts and numbers can always be written.
                    let _infallible = serde_json::to_writer(&mut text, &entry);
                    text.push(b'\n');
                }
                Some(columns) => columns.row(record, &self.measures, &mut text),
            }
        }
        text
    }
}

/// Responds with the first page, and sends the others as the reader takes them.
async fn lines(
    mut export: Export,
    lines: Lines,
    takes_trailers: bool,
    permit: OwnedSemaphorePermit,
) -> Result<Response, Problem> {
    let mut first = lines.head();
    if !export.is_done {
        first.extend_from_slice(&export.next(lines.clone().maker()).await?);
    }
    let mut headers = export.reasons.headers();
    let said = export.reasons.clone();
    let content_type = HeaderValue::from_static(lines.content_type());
    let (sender, body) = StreamBody::new(CHUNKS_WAITING);
    tokio::spawn(async move {
        // The reader may leave.
        let end = match send(&mut export, lines, first.into(), &sender).await {
            Err(None) => return,
            Err(Some(problem)) => {
                tracing::warn!(?problem, "an export was cut off");
                Some(Err(CutOff))
            }
            Ok(()) if export.reasons == said => None,
            Ok(()) if takes_trailers => Some(Ok(Frame::trailers(export.reasons.headers()))),
            Ok(()) => {
                tokio::time::sleep(LINGER).await;
                Some(Err(CutOff))
            }
        };
        if let Some(end) = end {
            let _gone = sender.send(end).await;
        }
        drop(permit);
    });
    headers.insert(header::CONTENT_TYPE, content_type);
    if takes_trailers {
        headers.insert(header::TRAILER, PARTIAL.into());
    }
    Ok((headers, [NO_STORE], axum::body::Body::new(body)).into_response())
}

/// Sends the first page and all others.
///
/// # Errors
/// Why there is no further page; `None` means that the reader has left.
async fn send(
    export: &mut Export,
    lines: Lines,
    first: Bytes,
    sender: &mpsc::Sender<Part>,
) -> Result<(), Option<Problem>> {
    let make = lines.maker();
    let mut chunk = first;
    loop {
        if !chunk.is_empty() {
            sender.send(Ok(Frame::data(chunk))).await.map_err(|_| None)?;
        }
        if export.is_done {
            return Ok(());
        }
        chunk = tokio::select! {
            page = export.next(make.clone()) => page.map_err(Some)?.into(),
            () = sender.closed() => return Err(None),
        };
    }
}
