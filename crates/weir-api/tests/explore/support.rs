//! A store in memory that answers according to the specification, and requests over a real socket.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use weir_api::{Api, ApiSettings};
use weir_host::Zone;
use weir_model::{Position, StreamId};
use weir_store::embedded::columns::{AttributeValue, Form, StoredRecord};
use weir_store::query::{
    Access, Aggregate, AggregateRequest, Aggregation, Bucket, Budget, CalculatedField, CancelError,
    Compute, ComputeValue, ContextRequest, Coverage, DeleteError, DeletionReport, DeletionRequest,
    Facet, Facets, FacetsRequest, FieldInfo, FieldList, Filter, GroupBy, GroupKey, Kept, LogStore,
    PartialReason, Pattern, Patterns, PatternsRequest, QueryError, ReceivedRequest, RecordContext,
    SearchPage, SearchRequest, Services, ServicesRequest, StopReason, StoreMetrics, StoreReport,
    TimeRange, Units, ValueType, naive,
};

/// Time of the first record, nanoseconds since 1970: 2026-01-01T00:00:00Z.
pub(crate) const FIRST_NS: i64 = 1_767_225_600_000_000_000;

/// Maximum wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    pub(crate) records: Mutex<Vec<StoredRecord>>,
    /// Calculated fields of every query, when it returns records.
    pub(crate) calculated_fields: Vec<CalculatedField>,
    /// The units of attributes.
    pub(crate) units: Units,
    /// Reports that the deadline was reached before it was done.
    pub(crate) is_late: bool,
    /// Reports a damaged segment after the record with this sequence.
    pub(crate) damaged_behind: Option<u64>,
    /// The requested deletions.
    pub(crate) deletions: Mutex<Vec<Filter>>,
    pub(crate) cancelled_deletion: Mutex<Option<u64>>,
    /// Queries do not check whether they were cancelled.
    pub(crate) is_deaf: bool,
    /// Queries wait while it is closed.
    pub(crate) gate: Gate,
    /// Queries that have started.
    pub(crate) started: AtomicUsize,
    /// Queries that noticed that they were cancelled.
    pub(crate) cancelled: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl MemoryStore {
    pub(crate) fn new(records: Vec<StoredRecord>) -> Self {
        Self { records: records.into(), ..Self::default() }
    }

    pub(crate) fn set_closed(&self, is_closed: bool) {
        *self.gate.is_closed.lock().unwrap() = is_closed;
        self.gate.changed.notify_all();
    }

    /// Waits at the gate like a long query: until it may continue, or is cancelled.
    fn pass(&self, budget: &Budget) -> Result<(), QueryError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        // Other queries may run during the check.
        while self.is_deaf || budget.check() != Err(StopReason::Cancelled) {
            let closed = self.gate.is_closed.lock().unwrap();
            let wait = self.gate.changed.wait_timeout_while(
                closed,
                Duration::from_millis(5),
                |is_closed| *is_closed,
            );
            if !wait.unwrap().1.timed_out() {
                return Ok(());
            }
        }
        self.cancelled.fetch_add(1, Ordering::SeqCst);
        Err(QueryError::Cancelled)
    }
}

impl LogStore for MemoryStore {
    fn search(&self, request: &SearchRequest, budget: &Budget) -> Result<SearchPage, QueryError> {
        self.pass(budget)?;
        compiled(&request.filter.query)?;
        let mut page = naive::search(&self.records.lock().unwrap(), request);
        if self.is_late {
            page.coverage.partial_reasons.push(PartialReason::Deadline);
        }
        if let (Some(key), Some(first)) = (request.after, self.damaged_behind)
            && key.sequence >= first
        {
            page.coverage
                .partial_reasons
                .push(PartialReason::Damaged { segments: vec!["7".to_owned()] });
        }
        page.coverage.unknown_fields = unknown(&request.filter.query);
        Ok(page)
    }

    fn received(
        &self,
        request: &ReceivedRequest,
        budget: &Budget,
    ) -> Result<SearchPage, QueryError> {
        self.search(&request.search, budget)
    }

    fn services(&self, _: &ServicesRequest, _: &Budget) -> Result<Services, QueryError> {
        Ok(Services::default())
    }

    fn calculated_fields(&self) -> &[CalculatedField] {
        &self.calculated_fields
    }

    fn units(&self) -> &Units {
        &self.units
    }

    fn aggregate(
        &self,
        request: &AggregateRequest,
        budget: &Budget,
    ) -> Result<Aggregate, QueryError> {
        self.pass(budget)?;
        compiled(&request.filter.query)?;
        Ok(naive::aggregate(&self.records.lock().unwrap(), request))
    }

    fn context(
        &self,
        request: &ContextRequest,
        _budget: &Budget,
    ) -> Result<Option<RecordContext>, QueryError> {
        if self.is_late {
            return Err(QueryError::Inconclusive(PartialReason::Deadline));
        }
        let records = self.records.lock().unwrap();
        let mut stream: Vec<&StoredRecord> =
            records.iter().filter(|record| record.stream == request.id.stream).collect();
        stream.sort_by_key(|record| record.position);
        let Some(at) = stream.iter().position(|record| record.position == request.id.position)
        else {
            return Ok(None);
        };
        let copy = |records: &[&StoredRecord]| records.iter().map(|r| (*r).clone()).collect();
        Ok(Some(RecordContext {
            before: copy(&stream[at.saturating_sub(request.before)..at]),
            record: stream[at].clone(),
            after: copy(&stream[at + 1..stream.len().min(at + 1 + request.after)]),
            kept: Kept::InSegment { stored_ns: Some(FIRST_NS), is_merged: false },
            coverage: Coverage::default(),
        }))
    }

    fn patterns(&self, request: &PatternsRequest, _: &Budget) -> Result<Patterns, QueryError> {
        let mut counts: BTreeMap<String, Vec<StoredRecord>> = BTreeMap::new();
        for record in self.records.lock().unwrap().iter() {
            if naive::matches(&request.filter, record) {
                let message = record.message.clone().unwrap_or_default();
                let template = message.replace(|c: char| c.is_ascii_digit(), "*");
                counts.entry(template).or_default().push(record.clone());
            }
        }
        let matched = counts.values().map(|records| records.len() as u64).sum();
        let mut patterns: Vec<Pattern> = counts
            .into_iter()
            .map(|(template, mut records)| {
                let count = records.len() as u64;
                records.truncate(1);
                Pattern { template, count, examples: records }
            })
            .collect();
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.count));
        patterns.truncate(request.limit);
        Ok(Patterns { patterns, matched, is_approximate: false, coverage: Coverage::default() })
    }

    /// The values of the requested fields.
    fn facets(&self, request: &FacetsRequest, budget: &Budget) -> Result<Facets, QueryError> {
        let count = Compute { aggregation: Aggregation::Count, field: None, interval_ns: None };
        let mut answer = Facets::default();
        for field in &request.fields {
            let group_by = vec![GroupBy::top(field.clone(), usize::MAX)];
            let (filter, computes) = (request.filter.clone(), vec![count.clone()]);
            let aggregate = AggregateRequest { filter, computes, group_by, zone: Zone::UTC };
            let found = self.aggregate(&aggregate, budget)?;
            answer.matched = found.matched;
            let value = |bucket: &Bucket| match (&bucket.by[0], &bucket.computes[0]) {
                (GroupKey::Value(value), ComputeValue::Count(count)) => (value.clone(), *count),
                other => panic!("{other:?}"),
            };
            let mut values: Vec<_> = found.buckets.iter().map(value).collect();
            let records = values.iter().map(|(_, count)| count).sum();
            let distinct = Some(values.len() as u64);
            values.truncate(request.values);
            let (name, value_type) = (field.to_string(), ValueType::Text);
            let range = Some((0.0, 1.5));
            answer.facets.push(Facet { name, value_type, records, distinct, values, range });
        }
        Ok(answer)
    }

    fn fields(
        &self,
        _range: TimeRange,
        _access: &Access,
        _budget: &Budget,
    ) -> Result<FieldList, QueryError> {
        let field =
            |name: &str, value_type| FieldInfo { name: name.to_owned(), value_type, parts: 1 };
        let fields = vec![
            field("service", ValueType::Text),
            field("@http.status_code", ValueType::Number),
            field("@http.method", ValueType::Text),
        ];
        Ok(FieldList { fields, coverage: Coverage::default() })
    }

    fn metrics(&self) -> StoreMetrics {
        let rows = self.records.lock().unwrap().len() as u64;
        let error = self.is_late.then(|| "no space".to_owned());
        StoreMetrics { rows, flushes: 2, flush_seconds: 0.5, error, ..StoreMetrics::default() }
    }

    fn delete(&self, request: &DeletionRequest, _timeout: Duration) -> Result<u64, DeleteError> {
        let DeletionRequest { query, range, access } = request.clone();
        let filter = Filter { query, range, ..Filter::all(access) };
        self.records.lock().unwrap().retain(|record| !naive::matches(&filter, record));
        let mut deletions = self.deletions.lock().unwrap();
        deletions.push(filter);
        Ok(deletions.len() as u64)
    }

    fn deletions(&self, _access: &Access) -> Vec<DeletionReport> {
        let deletions = self.deletions.lock().unwrap();
        let report = |(index, filter): (usize, &Filter)| DeletionReport {
            id: index as u64 + 1,
            query: Some(filter.query.to_string()),
            range: filter.range,
            requested_ns: FIRST_NS,
            done_ns: None,
            is_cancelled: *self.cancelled_deletion.lock().unwrap() == Some(index as u64 + 1),
            rows: 0,
            segments_left: 1,
        };
        deletions.iter().enumerate().rev().map(report).collect()
    }

    fn cancel_deletion(
        &self,
        id: u64,
        access: &Access,
        _timeout: Duration,
    ) -> Result<DeletionReport, CancelError> {
        *self.cancelled_deletion.lock().unwrap() = Some(id);
        let report = self.deletions(access).into_iter().find(|report| report.id == id);
        report.ok_or(CancelError::Unknown(id))
    }

    fn report(&self) -> StoreReport {
        let rows = self.records.lock().unwrap().len() as u64;
        StoreReport { rows, first_time_ns: Some(FIRST_NS), ..StoreReport::default() }
    }
}

/// Like a real store: it knows only the parsed query.
fn compiled(query: &weir_expr::Expr) -> Result<(), QueryError> {
    let mut result = Ok(());
    query.for_each_term(&mut |term, _| {
        if let Err(error) = weir_expr::TermMatcher::new(term) {
            result = Err(error.into());
        }
    });
    result
}

/// Fields with an x in their name are unknown.
fn unknown(query: &weir_expr::Expr) -> Vec<String> {
    let mut names = Vec::new();
    query.for_each_term(&mut |term, _| {
        let name = term.field.to_string();
        if name.starts_with("@x") {
            names.push(name);
        }
    });
    names
}

/// A record of second `index`; every tenth is an error of service `web`, the others are of `api`.
pub(crate) fn record(index: i64) -> StoredRecord {
    let is_error = index % 10 == 0;
    StoredRecord {
        time_ns: FIRST_NS + index * 1_000_000_000 + 123_456_789,
        sequence: index as u64,
        stream: StreamId(7),
        position: Position::new(1, 100 * (index as u64 + 1)),
        form: Form::default(),
        service: Some(if is_error { "web" } else { "api" }.to_owned()),
        host: Some("h1".to_owned()),
        source: Some("app".to_owned()),
        status: Some(if is_error { "error" } else { "info" }.to_owned()),
        tags: Some("[\"env:prod\",\"blue\"]".to_owned()),
        resource: Some("{\"host.name\":\"h1\",\"k8s.pod.name\":\"p\"}".to_owned()),
        message: Some(format!("request {index} done")),
        trace_id: None,
        span_id: None,
        attributes: vec![
            ("duration".to_owned(), vec![AttributeValue::Int(index * 1_000_000)]),
            (
                "http.status_code".to_owned(),
                vec![AttributeValue::Int(if is_error { 500 } else { 200 })],
            ),
            ("request_time".to_owned(), vec![AttributeValue::Int(index + 5)]),
            ("service_time".to_owned(), vec![AttributeValue::Int(index)]),
        ],
        received: None,
        arrival_ns: None,
        original: None,
    }
}

/// An API whose store has this many records.
pub(crate) fn api(records: i64) -> (Api, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new((0..records).map(record).collect()));
    (api_of(store.clone()), store)
}

pub(crate) fn api_of(store: Arc<MemoryStore>) -> Api {
    let settings = ApiSettings::at(SocketAddr::from(([127, 0, 0, 1], 0)));
    let api = Api::bind(&settings, "1.2.3").unwrap();
    api.set_store(Some(store));
    api
}

/// Status, head and body of an answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

pub(crate) fn connect(api: &Api) -> TcpStream {
    let stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn read(mut stream: TcpStream) -> Reply {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(answer[..at].to_vec()).unwrap();
    let status = head[9..12].parse().unwrap();
    let text = String::from_utf8_lossy(&answer[at..]).into_owned();
    Reply { status, head: head.to_lowercase(), text }
}

pub(crate) fn send_post(api: &Api, path: &str, body: &str) -> TcpStream {
    let mut stream = connect(api);
    let len = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {len}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

pub(crate) fn post(api: &Api, path: &str, body: &Value) -> Reply {
    read(send_post(api, path, &body.to_string()))
}

/// The raw bytes of a response to an HTTP/1.1 request with additional header lines.
pub(crate) fn get_bytes(api: &Api, path: &str, head: &str) -> (String, Vec<u8>) {
    let mut stream = connect(api);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{head}\r\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let body = answer.split_off(at);
    (String::from_utf8(answer).unwrap().to_lowercase(), body)
}

pub(crate) fn get(api: &Api, path: &str) -> Reply {
    let mut stream = connect(api);
    write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
    read(stream)
}

/// Waits until the condition is true.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    weir_testkit::wait_for(PATIENCE, || is_so().then_some(())).unwrap_or_else(|| panic!("{what}"));
}
