//! Loggregator envelopes of version 1 (dropsonde), and their conversion to and from version 2.
//!
//! [`DropsondeEnvelope`] is an envelope to read or write; [`DropsondeConverter`] converts the bytes
//! of one version to those of the other, by the rules of the original: a timer is an HTTP request,
//! a gauge is the metrics of a container or one metric for each measurement, an error is a log with
//! a tag. [`DropsondeRequest`] is a request of a reader of version 1.
//!
//! ```
//! use weir_codec::{
//!     DropsondeConverter, DropsondeEnvelope, DropsondeMessage, DropsondeReceiver,
//!     LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags,
//! };
//!
//! let message = DropsondeMessage::CounterEvent { name: b"requests", delta: 3, total: 17 };
//! let envelope = DropsondeEnvelope { origin: b"router", message, ..Default::default() };
//! let mut received = Vec::new();
//! envelope.encode([].into_iter(), &mut received);
//!
//! let mut converter = DropsondeConverter::default();
//! let receiver = DropsondeReceiver { tags: &[], is_agent: true };
//! let bytes = converter.to_v2(&received, &receiver).unwrap().to_vec();
//! let mut tags = LoggregatorTags::default();
//! let counter = LoggregatorEnvelope::parse(&bytes, &mut tags).unwrap();
//! let message = LoggregatorMessage::Counter { name: b"requests", delta: 3, total: 17 };
//! assert_eq!((counter.source_id, counter.message), (&b"router"[..], message));
//!
//! let mut back = Vec::new();
//! converter.to_v1(&bytes, 1024, |envelope| back.push(envelope.to_vec())).unwrap();
//! assert_eq!(DropsondeEnvelope::parse(&back[0]).unwrap().message, envelope.message);
//! ```
//!
//! Invariants: only envelopes that are longer than all before them, and gauges with many
//! measurements, allocate; bytes without a required field are not an envelope, as in the original;
//! texts of version 2 are valid UTF-8, since its readers reject whole batches otherwise.

mod convert;
mod encode;
mod envelope;
mod names;
mod request;
#[cfg(test)]
mod tests;

pub use convert::{DropsondeConverter, DropsondeOutline, DropsondeReceiver};
pub use envelope::{
    DropsondeContainer, DropsondeEnvelope, DropsondeForwarded, DropsondeHttp, DropsondeMessage,
    DropsondeType, DropsondeUuid,
};
pub use request::{DropsondeFilter, DropsondeRequest};
