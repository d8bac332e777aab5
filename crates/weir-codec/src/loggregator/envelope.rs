//! One envelope, and batches of envelopes.
//!
//! Invariants: everything refers to the received bytes; a repeated field has its last value; a
//! field with the wrong type is treated as unknown, as by other readers, and unknown fields are
//! skipped.

use std::ops::Range;

use super::wire::{Fields, LoggregatorError, Value};

/// Maximum number of parsed tags of an envelope; further ones are only in its bytes.
pub(super) const TAGS_MAX: usize = 256;

/// A missing text.
const EMPTY: &[u8] = b"";

/// An envelope without its tags, which are in [`LoggregatorTags`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoggregatorEnvelope<'e> {
    /// The whole envelope.
    pub bytes: &'e [u8],
    /// Nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// Source id: the GUID of an application, or the name of a job.
    pub source_id: &'e [u8],
    /// Instance id.
    pub instance_id: &'e [u8],
    /// Its message.
    pub message: LoggregatorMessage<'e>,
}

/// The message of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum LoggregatorMessage<'e> {
    /// None, or one of an unknown type.
    #[default]
    None,
    /// A log line.
    Log {
        /// Its text.
        payload: &'e [u8],
        /// It was not written to standard output: as in the original, unknown types count as
        /// standard error.
        is_error: bool,
    },
    /// An increment of a counter, or its total.
    Counter {
        /// Its name.
        name: &'e [u8],
        /// The increment.
        delta: u64,
        /// The total, or 0.
        total: u64,
    },
    /// Current values.
    Gauge(LoggregatorGauge<'e>),
    /// A duration.
    Timer {
        /// Its name.
        name: &'e [u8],
        /// Nanoseconds since 1970.
        start_ns: i64,
        /// Nanoseconds since 1970.
        stop_ns: i64,
    },
    /// An event.
    Event {
        /// Its title.
        title: &'e [u8],
        /// Its text.
        body: &'e [u8],
    },
}

/// The measurements of a gauge, in the bytes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoggregatorGauge<'e>(pub &'e [u8]);

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoggregatorMetric<'e> {
    /// Its name.
    pub name: &'e [u8],
    /// Its unit.
    pub unit: &'e [u8],
    /// Its value, in that unit.
    pub value: f64,
}

/// The value of a tag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoggregatorTagValue<'e> {
    /// Text.
    Text(&'e [u8]),
    /// An integer, of a deprecated tag.
    Integer(i64),
    /// A number, of a deprecated tag.
    Decimal(f64),
}

/// The tags of an envelope, as ranges of its bytes. Reused for one envelope after another.
#[derive(Debug, Clone, Default)]
pub struct LoggregatorTags {
    places: Vec<TagRange>,
}

#[derive(Debug, Clone)]
struct TagRange {
    key: Range<u32>,
    value: Range<u32>,
    is_deprecated: bool,
}

/// The envelopes of a batch. After an error there are none.
#[derive(Debug, Clone)]
pub struct LoggregatorBatch<'b>(Fields<'b>);

impl<'b> LoggregatorBatch<'b> {
    /// Reads the bytes of an `EnvelopeBatch`.
    pub fn new(message: &'b [u8]) -> Self {
        Self(Fields::new(message))
    }
}

impl<'b> Iterator for LoggregatorBatch<'b> {
    type Item = Result<&'b [u8], LoggregatorError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.next()? {
                Ok((1, Value::Bytes(envelope))) => return Some(Ok(envelope)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<'e> LoggregatorEnvelope<'e> {
    /// Parses an envelope; its tags replace those in `tags`.
    pub fn parse(bytes: &'e [u8], tags: &mut LoggregatorTags) -> Result<Self, LoggregatorError> {
        let mut envelope = Self { bytes, ..Self::default() };
        tags.places.clear();
        let mut deprecated = false;
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Number(number)) => envelope.timestamp_ns = number as i64,
                (2, Value::Bytes(text)) => envelope.source_id = text,
                (8, Value::Bytes(text)) => envelope.instance_id = text,
                (9, Value::Bytes(entry)) => tags.add(bytes, entry, false)?,
                (3, Value::Bytes(entry)) => {
                    deprecated = true;
                    tags.add(bytes, entry, true)?;
                }
                (number, Value::Bytes(message)) => {
                    if let Some(message) = LoggregatorMessage::parse(number, message)? {
                        envelope.message = message;
                    }
                }
                _ => {}
            }
        }
        if deprecated {
            // Deprecated tags come last.
            tags.places.sort_by_key(|place| place.is_deprecated);
        }
        Ok(envelope)
    }
}

impl<'e> LoggregatorMessage<'e> {
    fn parse(number: u32, message: &'e [u8]) -> Result<Option<Self>, LoggregatorError> {
        Ok(Some(match number {
            4 => Self::log(message)?,
            5 => Self::counter(message)?,
            6 => Self::gauge(message)?,
            7 => Self::timer(message)?,
            10 => Self::event(message)?,
            _ => return Ok(None),
        }))
    }

    fn log(message: &'e [u8]) -> Result<Self, LoggregatorError> {
        let (mut payload, mut is_error) = (EMPTY, false);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => payload = bytes,
                (2, Value::Number(number)) => is_error = number as i32 != 0,
                _ => {}
            }
        }
        Ok(Self::Log { payload, is_error })
    }

    fn counter(message: &'e [u8]) -> Result<Self, LoggregatorError> {
        let (mut name, mut delta, mut total) = (EMPTY, 0, 0);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(text)) => name = text,
                (2, Value::Number(number)) => delta = number,
                (3, Value::Number(number)) => total = number,
                _ => {}
            }
        }
        Ok(Self::Counter { name, delta, total })
    }

    fn gauge(message: &'e [u8]) -> Result<Self, LoggregatorError> {
        for field in Fields::new(message) {
            if let (1, Value::Bytes(entry)) = field? {
                LoggregatorMetric::parse(entry)?;
            }
        }
        Ok(Self::Gauge(LoggregatorGauge(message)))
    }

    fn timer(message: &'e [u8]) -> Result<Self, LoggregatorError> {
        let (mut name, mut start_ns, mut stop_ns) = (EMPTY, 0, 0);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(text)) => name = text,
                (2, Value::Number(number)) => start_ns = number as i64,
                (3, Value::Number(number)) => stop_ns = number as i64,
                _ => {}
            }
        }
        Ok(Self::Timer { name, start_ns, stop_ns })
    }

    fn event(message: &'e [u8]) -> Result<Self, LoggregatorError> {
        let (mut title, mut body) = (EMPTY, EMPTY);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(text)) => title = text,
                (2, Value::Bytes(text)) => body = text,
                _ => {}
            }
        }
        Ok(Self::Event { title, body })
    }
}

impl<'e> LoggregatorGauge<'e> {
    /// Returns the measurements, in the order in which they were received.
    pub fn metrics(self) -> impl Iterator<Item = LoggregatorMetric<'e>> + Clone {
        Fields::new(self.0).filter_map(|field| match field {
            Ok((1, Value::Bytes(entry))) => LoggregatorMetric::parse(entry).ok(),
            Ok(_) | Err(_) => None,
        })
    }
}

impl<'e> LoggregatorMetric<'e> {
    fn parse(entry: &'e [u8]) -> Result<Self, LoggregatorError> {
        let mut metric = Self::default();
        for field in Fields::new(entry) {
            match field? {
                (1, Value::Bytes(name)) => metric.name = name,
                (2, Value::Bytes(value)) => {
                    for field in Fields::new(value) {
                        match field? {
                            (1, Value::Bytes(unit)) => metric.unit = unit,
                            (2, Value::Fixed64(bits)) => metric.value = f64::from_bits(bits),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(metric)
    }
}

impl LoggregatorTags {
    #[inline]
    fn add(
        &mut self,
        bytes: &[u8],
        entry: &[u8],
        is_deprecated: bool,
    ) -> Result<(), LoggregatorError> {
        let (mut key, mut value) = (EMPTY, EMPTY);
        for field in Fields::new(entry) {
            match field? {
                (1, Value::Bytes(text)) => key = text,
                (2, Value::Bytes(text)) => value = text,
                _ => {}
            }
        }
        if is_deprecated {
            LoggregatorTagValue::parse(value)?;
        }
        if self.places.len() < TAGS_MAX {
            let (key, value) = (place(bytes, key), place(bytes, value));
            self.places.push(TagRange { key, value, is_deprecated });
        }
        Ok(())
    }

    /// Sorts the tags of the last parsed envelope by name; `bytes` are those of the envelope. Tags
    /// with the same name stay in their order.
    pub(super) fn sort(&mut self, bytes: &[u8]) {
        let name = |place: &TagRange| bytes.get(place.key.start as usize..place.key.end as usize);
        let order = |place: &TagRange| (place.is_deprecated, place.value.start);
        self.places
            .sort_unstable_by(|a, b| name(a).cmp(&name(b)).then_with(|| order(a).cmp(&order(b))));
    }

    /// Returns the tags of the last parsed envelope; `bytes` are those of the envelope. A later tag
    /// replaces an earlier one with the same name.
    pub fn iter<'e>(
        &self,
        bytes: &'e [u8],
    ) -> impl Iterator<Item = (&'e [u8], LoggregatorTagValue<'e>)> + Clone {
        self.places.iter().map(move |place| {
            let part = |range: &Range<u32>| {
                bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
            };
            let value = part(&place.value);
            let value = if place.is_deprecated {
                LoggregatorTagValue::parse(value).unwrap_or(LoggregatorTagValue::Text(b""))
            } else {
                LoggregatorTagValue::Text(value)
            };
            (part(&place.key), value)
        })
    }
}

/// Returns the range of a part of the bytes.
fn place(bytes: &[u8], part: &[u8]) -> Range<u32> {
    let start = part.as_ptr().addr().saturating_sub(bytes.as_ptr().addr());
    start as u32..(start + part.len()) as u32
}

impl<'e> LoggregatorTagValue<'e> {
    /// Reads the value of a deprecated tag.
    pub(super) fn parse(value: &'e [u8]) -> Result<Self, LoggregatorError> {
        let mut read = Self::Text(EMPTY);
        for field in Fields::new(value) {
            match field? {
                (1, Value::Bytes(text)) => read = Self::Text(text),
                (2, Value::Number(number)) => read = Self::Integer(number as i64),
                (3, Value::Fixed64(bits)) => read = Self::Decimal(f64::from_bits(bits)),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Appends the value as text.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            // As in Go.
            Self::Decimal(number) if number.is_infinite() => {
                out.extend_from_slice(if *number > 0.0 { b"+Inf" } else { b"-Inf" });
            }
            Self::Decimal(number) => out.extend_from_slice(number.to_string().as_bytes()),
        }
    }
}
