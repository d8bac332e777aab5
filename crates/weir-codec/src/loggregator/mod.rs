//! Loggregator envelopes: logs, metrics and events, each with its source and tags. Version 2 is
//! read and written here; [`v1`] contains the older version, and converts between the two.
//!
//! [`LoggregatorEnvelope::parse`] reads the fields of an envelope that a record needs, and
//! [`LoggregatorBatch`] finds the envelopes of a batch. The caller chooses the record's resource by
//! source, instance and tags; [`LoggregatorDecoder::push`] adds the record to a batch.
//! [`LoggregatorRequest`] is a request of a reader of envelopes; for drains, [`DrainEncoder`]
//! writes envelopes as syslog messages.
//!
//! ```
//! use weir_codec::{
//!     LoggregatorDecoder, LoggregatorEnvelope, LoggregatorMessage, LoggregatorOrigin,
//!     LoggregatorTags, encode_loggregator_envelope,
//! };
//! use weir_model::{BatchBuilder, Position, RecordKind, SourceBook};
//!
//! let message = LoggregatorMessage::Counter { name: b"requests", delta: 3, total: 0 };
//! let envelope = LoggregatorEnvelope { source_id: b"router", message, ..Default::default() };
//! let mut bytes = Vec::new();
//! encode_loggregator_envelope(&envelope, &[("zone", "z1")], &mut bytes);
//!
//! let mut tags = LoggregatorTags::default();
//! let envelope = LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
//! let mut batch = BatchBuilder::new(Position::default());
//! let resource = batch.resource(7, br#"{"service.name":"router"}"#).unwrap();
//! let origin = LoggregatorOrigin { resource, end_offset: 1, observed_ns: 1, added: b"" };
//! let mut decoder = LoggregatorDecoder::default();
//! let mut book = SourceBook::default();
//! decoder.push(&mut batch, &envelope, tags.iter(&bytes), &origin, &mut book).unwrap();
//! let record = batch.record(0);
//! assert_eq!(record.kind(), RecordKind::Counter);
//! assert_eq!(record.body, br#"{"name":"requests","value":3,"tags":[["zone","z1"]]}"#);
//! assert_eq!(record.original(), bytes);
//! ```
//!
//! Invariants: every envelope, valid or not, becomes one record, and its bytes are the record's
//! original, so unknown fields are kept; only a metric that is longer than all before it allocates;
//! deprecated tags are treated like others, and replace those with the same name.

mod drain;
mod encode;
mod envelope;
mod json;
mod log_cache;
mod packed;
mod promql;
mod record;
mod request;
mod tags;
#[cfg(test)]
mod tests;
mod v1;
mod wire;

pub use drain::{DrainEncoder, DrainError, DrainFormat};
pub use encode::{
    add_to_loggregator_batch, encode_loggregator_envelope, encode_loggregator_gauge,
    encode_loggregator_metrics, encode_loggregator_source, encode_loggregator_tag,
    encode_loggregator_time, encode_loggregator_total,
};
pub use envelope::{
    LoggregatorBatch, LoggregatorEnvelope, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    LoggregatorTagValue, LoggregatorTags,
};
pub use json::write_loggregator_json;
pub use log_cache::{
    LogCacheKind, LogCacheRead, LogCacheSource, encode_log_cache_meta, encode_log_cache_read,
    write_log_cache_meta_json,
};
pub use packed::{
    LoggregatorPacker, is_shortened, lengthen_packed, packed_frame, shorten_packed,
    unpack_loggregator_envelope,
};
pub use promql::{
    PromqlInstant, PromqlRange, PromqlSeries, encode_promql_matrix, encode_promql_range,
    encode_promql_scalar, encode_promql_vector,
};
pub use record::{LoggregatorDecoder, LoggregatorOrigin};
pub use request::{LoggregatorRequest, LoggregatorSelector, LoggregatorWanted};
pub use tags::{convert_loggregator_tags, has_loggregator_tags};
pub use v1::{
    DropsondeContainer, DropsondeConverter, DropsondeEnvelope, DropsondeFilter, DropsondeForwarded,
    DropsondeHttp, DropsondeMessage, DropsondeOutline, DropsondeReceiver, DropsondeRequest,
    DropsondeType, DropsondeUuid,
};
pub use wire::LoggregatorError;
