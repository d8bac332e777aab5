//! A request of a reader: an `EgressRequest` or `EgressBatchRequest`, which have the same fields.
//!
//! Invariant: a selector without a message is kept as such, since rejecting it is up to the
//! service.

use super::wire::{Fields, LoggregatorError, Value};

/// A request for envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoggregatorRequest {
    /// Of the readers with the same shard, one receives each envelope; if empty, this one receives
    /// all.
    pub shard_id: String,
    /// Counters and gauges with the same names go to the same reader of a shard.
    pub deterministic_name: String,
    /// Requests tags as `tags` instead of `deprecated_tags`.
    pub prefers_tags: bool,
    /// The requested envelopes: those that match any selector.
    pub selectors: Vec<LoggregatorSelector>,
}

/// A selector of envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LoggregatorSelector {
    /// Source id; all sources if empty.
    pub source_id: String,
    /// The kind of envelopes; `None` if the selector has none.
    pub message: Option<LoggregatorWanted>,
}

/// A kind of envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LoggregatorWanted {
    /// Logs.
    Log,
    /// Counters of this name; all if empty.
    Counter(String),
    /// Gauges with exactly these measurements, sorted and unique; all if empty.
    Gauge(Vec<String>),
    /// Timers.
    Timer,
    /// Events.
    Event,
}

impl LoggregatorRequest {
    /// Reads the bytes of a request. The older single selector is used if there are no others.
    pub fn parse(message: &[u8]) -> Result<Self, LoggregatorError> {
        let (mut request, mut legacy) = (Self::default(), None);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(name)) => request.shard_id = text(name),
                (2, Value::Bytes(selector)) => legacy = Some(LoggregatorSelector::parse(selector)?),
                (3, Value::Number(number)) => request.prefers_tags = number != 0,
                (4, Value::Bytes(selector)) => {
                    request.selectors.push(LoggregatorSelector::parse(selector)?);
                }
                (5, Value::Bytes(name)) => request.deterministic_name = text(name),
                _ => {}
            }
        }
        if request.selectors.is_empty() {
            request.selectors.extend(legacy);
        }
        Ok(request)
    }
}

impl LoggregatorSelector {
    fn parse(selector: &[u8]) -> Result<Self, LoggregatorError> {
        let mut parsed = Self::default();
        for field in Fields::new(selector) {
            match field? {
                (1, Value::Bytes(source_id)) => parsed.source_id = text(source_id),
                (2, Value::Bytes(_)) => parsed.message = Some(LoggregatorWanted::Log),
                (3, Value::Bytes(counter)) => {
                    let name = texts(counter)?.pop().unwrap_or_default();
                    parsed.message = Some(LoggregatorWanted::Counter(name));
                }
                (4, Value::Bytes(gauge)) => {
                    parsed.message = Some(LoggregatorWanted::gauge(texts(gauge)?));
                }
                (5, Value::Bytes(_)) => parsed.message = Some(LoggregatorWanted::Timer),
                (6, Value::Bytes(_)) => parsed.message = Some(LoggregatorWanted::Event),
                _ => {}
            }
        }
        Ok(parsed)
    }
}

impl LoggregatorWanted {
    /// Gauges with exactly these measurements.
    pub fn gauge(mut names: Vec<String>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self::Gauge(names)
    }
}

/// Returns the texts in field 1 of a message.
fn texts(message: &[u8]) -> Result<Vec<String>, LoggregatorError> {
    let mut all = Vec::new();
    for field in Fields::new(message) {
        if let (1, Value::Bytes(bytes)) = field? {
            all.push(text(bytes));
        }
    }
    Ok(all)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::wire::{put_bytes_field, put_number_field};
    use super::*;

    /// A selector of this source, with a message in this field.
    fn selector(source_id: &str, field: u64, names: &[&str]) -> Vec<u8> {
        let (mut message, mut selector) = (Vec::new(), Vec::new());
        for name in names {
            put_bytes_field(1, name.as_bytes(), &mut message);
        }
        put_bytes_field(1, source_id.as_bytes(), &mut selector);
        if field > 0 {
            put_bytes_field(field, &message, &mut selector);
        }
        selector
    }

    #[test]
    fn every_selector_is_understood() {
        let mut bytes = Vec::new();
        put_bytes_field(1, b"nozzle", &mut bytes);
        put_bytes_field(2, &selector("old", 2, &[]), &mut bytes);
        put_number_field(3, 1, &mut bytes);
        for (field, names) in
            [(2, &[][..]), (3, &["hits"]), (4, &["b", "a", "b"]), (5, &[]), (6, &[]), (0, &[])]
        {
            put_bytes_field(4, &selector("app", field, names), &mut bytes);
        }
        put_bytes_field(5, b"two", &mut bytes);
        let request = LoggregatorRequest::parse(&bytes).unwrap();
        assert_eq!((request.shard_id.as_str(), request.prefers_tags), ("nozzle", true));
        assert_eq!(request.deterministic_name, "two");
        let wanted: Vec<_> = request.selectors.into_iter().map(|one| one.message).collect();
        let gauge = LoggregatorWanted::Gauge(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            wanted,
            [
                Some(LoggregatorWanted::Log),
                Some(LoggregatorWanted::Counter("hits".to_owned())),
                Some(gauge),
                Some(LoggregatorWanted::Timer),
                Some(LoggregatorWanted::Event),
                None
            ]
        );
    }

    #[test]
    fn the_older_selector_is_used_if_there_is_no_other() {
        let mut bytes = Vec::new();
        put_bytes_field(2, &selector("old", 2, &[]), &mut bytes);
        let request = LoggregatorRequest::parse(&bytes).unwrap();
        assert_eq!(request.selectors[0].source_id, "old");
        assert!(LoggregatorRequest::parse(&[0x0a, 9]).is_err());
        assert_eq!(LoggregatorRequest::parse(&[]), Ok(LoggregatorRequest::default()));
    }
}
