//! `/weir/v1/store`: the contents of the store and its size.

use weir_store::query::{ColumnReport, ServiceReport, StoreReport};

use super::prelude::*;
use super::record::precise_time;

/// The contents of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreDocument {
    /// `weir.store.v1`.
    pub schema: String,
    /// Number of segments.
    pub segments: u64,
    /// Number of records in segments.
    pub rows: u64,
    /// Number of records that are not yet in a segment.
    pub head_rows: u64,
    /// Memory used by these records.
    pub head_bytes: u64,
    /// Size of the records in segments as received.
    pub raw_bytes: u64,
    /// Size of the segments.
    pub segment_bytes: u64,
    /// Size of the sidecars.
    pub sidecar_bytes: u64,
    /// Time of the earliest record in a segment, RFC 3339.
    pub first_time: Option<String>,
    /// Time of the latest record in a segment, RFC 3339.
    pub last_time: Option<String>,
    /// Records since the start that look like JSON or logfmt but are invalid, or do not have the
    /// format of their source; they are stored unparsed.
    #[serde(default)]
    pub unparsed_rows: u64,
    /// Whether the store has what the journal and the files of sources had when weir started.
    pub has_caught_up: bool,
    /// Segments that are damaged and were set aside.
    pub damaged: Vec<String>,
    /// Records by service, descending; an empty name stands for records without a service.
    pub services: Vec<StoreService>,
    /// Columns, largest first.
    pub columns: Vec<StoreColumn>,
}

/// Number of records of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreService {
    /// The service.
    pub name: String,
    /// Records.
    pub rows: u64,
}

/// Size of a column on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreColumn {
    /// Its name in the files.
    pub name: String,
    /// Bytes on disk.
    pub packed_bytes: u64,
    /// Bytes when decompressed.
    pub plain_bytes: u64,
}

impl From<StoreReport> for StoreDocument {
    fn from(report: StoreReport) -> Self {
        let service = |ServiceReport { name, rows }| StoreService { name, rows };
        let column = |ColumnReport { name, packed_bytes, plain_bytes }| StoreColumn {
            name,
            packed_bytes,
            plain_bytes,
        };
        Self {
            schema: "weir.store.v1".to_owned(),
            segments: report.segments,
            rows: report.rows,
            head_rows: report.head_rows,
            head_bytes: report.head_bytes,
            raw_bytes: report.raw_bytes,
            segment_bytes: report.segment_bytes,
            sidecar_bytes: report.sidecar_bytes,
            first_time: report.first_time_ns.map(precise_time),
            last_time: report.last_time_ns.map(precise_time),
            unparsed_rows: report.unparsed.total(),
            has_caught_up: report.has_caught_up,
            damaged: report.damaged,
            services: report.services.into_iter().map(service).collect(),
            columns: report.columns.into_iter().map(column).collect(),
        }
    }
}

impl Answer for StoreReport {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }
}

/// Contents of the store and its size
#[utoipa::path(
    get, path = "/weir/v1/store", tag = "store",
    responses((status = 200, description = "Contents of the store", body = StoreDocument))
)]
pub(crate) async fn get(State(state): State<Arc<ApiState>>) -> Result<Response, Problem> {
    let run = |store: &dyn LogStore, _budget: &_| Ok(store.report());
    let document = |report: StoreReport, _meta: Meta| Ok(StoreDocument::from(report));
    state
        .explore
        .run_query(
            QueryKind::Complete,
            Some(state.explore.deadline),
            state.explore.request_context(),
            run,
            document,
        )
        .await
}
