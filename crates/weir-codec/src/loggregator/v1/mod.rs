//! Envelopes of Loggregator, version 1 (dropsonde), and what they are in version 2.
//!
//! [`DropsondeEnvelope`] is one that was parsed or is to be written; [`DropsondeConverter`] turns the
//! bytes of one version into those of the other, by the rules of the original: a timer is an HTTP
//! request, a gauge is the metrics of a container or one metric for each measurement, an error is a
//! log with a tag. [`DropsondeRequest`] is what a reader of version 1 asks for.
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
//! Invariants: nothing is allocated for an envelope except by one that is longer than all before it,
//! and for gauges with many measurements; what lacks a required field is not an envelope, as for the
//! original; texts of version 2 are valid UTF-8, since its readers reject whole batches otherwise.

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
