//! The query interface of a store, independent of the engine.
//!
//! Reading order: [`SearchRequest`] and [`SearchPage`], [`AggregateRequest`] and [`Aggregate`],
//! then [`LogStore`], which every engine implements. Invariants: every read specifies what may be
//! seen ([`Access`]) and how much it may cost ([`Budget`]); a partial result is marked as such,
//! with the reasons ([`Coverage`]).

mod answer;
mod budget;
mod error;
mod fields;
pub mod naive;
mod request;
mod store;

pub use answer::{
    Aggregate, Bucket, ComputeValue, Coverage, Facet, Facets, FieldInfo, FieldList, GroupKey, Kept,
    PartialReason, Pattern, Patterns, RecordContext, ScanStats, SearchPage, ServiceSpan, Services,
    ValueType,
};
pub use budget::{Budget, StopReason, Turns};
pub use error::{CancelError, DeleteError, QueryError};
pub use fields::StoredFields;
pub use request::{
    Access, AggregateRequest, Aggregation, Compute, ContextRequest, DeletionRequest, FacetsRequest,
    Filter, GroupBy, GroupHistogram, GroupSort, Order, PageKey, PatternsRequest, ReceivedRequest,
    RecordId, SearchRequest, ServicesRequest, SortBy, TimeRange,
};
pub use store::{
    ColumnReport, DeletionReport, LogStore, ServiceReport, StoreMetrics, StoreReport, UnparsedRows,
};
pub use weir_expr::{CalculatedField, Units};

pub(crate) use answer::{compare_keys, compare_ranks, rank_of};
pub(crate) use fields::{resource_attributes, tag_value, tags_of};
