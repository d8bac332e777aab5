//! Bytes to records and back, without I/O: the caller reads blocks into a
//! [`BatchBuilder`](weir_model::BatchBuilder), and a [`LineDecoder`] marks the records in them.
//!
//! Invariants of this crate: no I/O, no clock, no thread; no input makes it panic or stall; every
//! line is counted once in the [`SourceBook`](weir_model::SourceBook) that is passed in, and `lines
//! = records + joined + discarded` holds after every call.
//!
//! Reading order: [`Format`] and [`detect`], [`LineDecoder`] (how blocks become lines), then one
//! module per format, [`Multiline`] (which lines become one record), then [`Attributes`] (the
//! fields of one record) and [`severity_of_text`] (the severity of a record without fields), then
//! what the outputs use: [`escape_json_into`] and the formats of time. Syslog is received by
//! [`SyslogFraming`] or [`RelpServer`], becomes records by [`SyslogDecoder`], and is sent by
//! [`SyslogEncoder`]. Loggregator envelopes arrive in gRPC messages ([`GrpcFraming`]), and become
//! records by [`LoggregatorDecoder`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used))]

mod attributes;
mod cri;
mod datadog;
mod decoder;
mod detect;
mod docker;
mod encode;
mod escape;
mod grpc;
mod join;
mod json;
mod loggregator;
mod multiline;
mod percent;
mod prometheus;
mod relp;
mod state;
mod statsd;
mod structured;
mod syslog;
mod text;
mod time;

pub use attributes::{
    ATTRIBUTES_MAX, Attributes, Change, LineFormat, LineFormatError, PATH_BYTES_MAX, Part, Renames,
    Scalar, Stated, rewrite_json,
};
pub use datadog::{
    DATADOG_ITEMS_MAX, DATADOG_LINES_MAX, DatadogDefaults, DatadogError, DatadogFormat,
    DatadogItems, DatadogRequest,
};
pub use decoder::{Consumed, LineDecoder, Stop};
pub use detect::{DETECT_BYTES_MAX, Format, detect};
pub use encode::{
    Encoding, Framing, HecEncoder, HecMetadata, HecMode, SyslogEncoder, SyslogOutputFraming,
    datagram, open_json,
};
pub use escape::escape_json_into;
pub use grpc::{GRPC_PREFIX_LEN, GrpcError, GrpcFraming, GrpcStatus, GrpcStep, write_grpc_message};
pub use join::{Partials, cut_body};
pub use json::is_json_object;
pub use loggregator::{
    DrainEncoder, DrainError, DrainFormat, DropsondeContainer, DropsondeConverter,
    DropsondeEnvelope, DropsondeFilter, DropsondeForwarded, DropsondeHttp, DropsondeMessage,
    DropsondeOutline, DropsondeReceiver, DropsondeRequest, DropsondeType, DropsondeUuid,
    LogCacheKind, LogCacheRead, LogCacheSource, LoggregatorBatch, LoggregatorDecoder,
    LoggregatorEnvelope, LoggregatorError, LoggregatorGauge, LoggregatorMessage, LoggregatorMetric,
    LoggregatorOrigin, LoggregatorPacker, LoggregatorRequest, LoggregatorSelector,
    LoggregatorTagValue, LoggregatorTags, LoggregatorWanted, PromqlInstant, PromqlRange,
    PromqlSeries, add_to_loggregator_batch, convert_loggregator_tags, encode_log_cache_meta,
    encode_log_cache_read, encode_loggregator_envelope, encode_loggregator_gauge,
    encode_loggregator_metrics, encode_loggregator_source, encode_loggregator_tag,
    encode_loggregator_time, encode_loggregator_total, encode_promql_matrix, encode_promql_range,
    encode_promql_scalar, encode_promql_vector, has_loggregator_tags, is_shortened,
    lengthen_packed, packed_frame, shorten_packed, unpack_loggregator_envelope,
    write_log_cache_meta_json, write_loggregator_json,
};
pub use multiline::{MULTILINE_LINES_DEFAULT, Multiline, MultilineError, MultilinePreset};
pub use percent::{form_decoded, form_decoded_strictly, path_segment, percent_encoded};
pub use prometheus::{
    FlatYaml, FlatYamlError, PrometheusError, PrometheusKind, PrometheusOrigin, PrometheusSample,
    PrometheusText,
};
pub use relp::{
    RELP_UNANSWERED_MAX, RELP_WINDOW_DEFAULT, RelpClient, RelpClientStep, RelpError, RelpServer,
    RelpStep, RelpTransaction,
};
pub use state::StateError;
pub use statsd::{StatsdDecoder, StatsdError};
pub use syslog::{
    SYSLOG_MESSAGE_BYTES_DEFAULT, SyslogDecoder, SyslogEnd, SyslogFormat, SyslogFraming,
    SyslogFramingError, SyslogFramingKind, SyslogMessage, SyslogOrigin, SyslogStep,
    syslog_datagram,
};
pub use text::{read_text, severity_of_escaped_text, severity_of_text};
pub use time::{TimeParser, civil_from_days, format_rfc3339_ns, format_unix_time, parse_rfc3339};
