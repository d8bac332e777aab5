//! Requests to the log-cache and its responses (`logcache.v1`), in Protocol Buffers and as JSON.
//!
//! Invariant: requests are not validated here; as in the original, that is up to the service.

use weir_model::RecordKind;

use super::wire::{Fields, LoggregatorError, Value, put_bytes_field, put_number_field};
use crate::escape::write_json_text;

/// The kinds of envelopes, with their numbers and names in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogCacheKind {
    /// All of them.
    Any,
    /// One of them.
    Only(RecordKind),
}

impl LogCacheKind {
    const ALL: [(&'static str, Self); 6] = [
        ("ANY", Self::Any),
        ("LOG", Self::Only(RecordKind::Log)),
        ("COUNTER", Self::Only(RecordKind::Counter)),
        ("GAUGE", Self::Only(RecordKind::Gauge)),
        ("TIMER", Self::Only(RecordKind::Timer)),
        ("EVENT", Self::Only(RecordKind::Event)),
    ];

    /// Returns the kind with this name or number.
    pub fn from_text(text: &str) -> Option<Self> {
        let by_name = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        by_name.or_else(|| Self::from_number(text.parse().ok()?))
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).map(|(_, kind)| *kind)
    }
}

/// A request for stored envelopes: a `ReadRequest`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogCacheRead {
    /// Source id.
    pub source_id: String,
    /// Start of the range, inclusive, nanoseconds since 1970.
    pub start_ns: i64,
    /// End of the range, exclusive, nanoseconds since 1970; 0 = now.
    pub end_ns: i64,
    /// Maximum number of envelopes; 0 = the default.
    pub limit: i64,
    /// Only these kinds; all if empty. An unknown number is `None`.
    pub kinds: Vec<Option<LogCacheKind>>,
    /// Newest first.
    pub is_descending: bool,
    /// Regular expression for the names of metrics; all envelopes if empty.
    pub name_filter: String,
}

impl LogCacheRead {
    /// Reads the bytes of a `ReadRequest`.
    pub fn parse(message: &[u8]) -> Result<Self, LoggregatorError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut read = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(source_id)) => read.source_id = text(source_id),
                (2, Value::Number(number)) => read.start_ns = number as i64,
                (3, Value::Number(number)) => read.end_ns = number as i64,
                (4, Value::Number(number)) => read.limit = number as i64,
                (5, Value::Number(number)) => read.kinds.push(LogCacheKind::from_number(number)),
                (5, Value::Bytes(packed)) => read.add_kinds(packed)?,
                (6, Value::Number(number)) => read.is_descending = number != 0,
                (7, Value::Bytes(pattern)) => read.name_filter = text(pattern),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Adds packed numbers.
    fn add_kinds(&mut self, packed: &[u8]) -> Result<(), LoggregatorError> {
        let mut numbers = Fields::new(packed);
        while !numbers.rest().is_empty() {
            self.kinds.push(LogCacheKind::from_number(numbers.number()?));
        }
        Ok(())
    }
}

/// Information about a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCacheSource<'s> {
    /// Its name.
    pub source_id: &'s str,
    /// Number of its envelopes.
    pub count: i64,
    /// Number of its envelopes that were deleted.
    pub expired: i64,
    /// Time of the oldest, nanoseconds since 1970.
    pub oldest_ns: i64,
    /// Time of the newest, nanoseconds since 1970.
    pub newest_ns: i64,
}

/// Returns the bytes of a `ReadResponse` with the envelopes of an `EnvelopeBatch`.
pub fn encode_log_cache_read(batch: &[u8]) -> Vec<u8> {
    let mut response = Vec::with_capacity(batch.len() + 8);
    put_bytes_field(1, batch, &mut response);
    response
}

/// Returns the bytes of a `MetaResponse`.
pub fn encode_log_cache_meta<'s>(sources: impl Iterator<Item = LogCacheSource<'s>>) -> Vec<u8> {
    let (mut response, mut entry, mut info) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        info.clear();
        let numbers = [source.count, source.expired, source.oldest_ns, source.newest_ns];
        for (field, number) in (1..).zip(numbers) {
            put_number_field(field, number as u64, &mut info);
        }
        entry.clear();
        put_bytes_field(1, source.source_id.as_bytes(), &mut entry);
        put_bytes_field(2, &info, &mut entry);
        put_bytes_field(1, &entry, &mut response);
    }
    response
}

/// Appends a `MetaResponse` as JSON.
pub fn write_log_cache_meta_json<'s>(
    sources: impl Iterator<Item = LogCacheSource<'s>>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"meta\":{");
    for (index, source) in sources.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_text(source.source_id.as_bytes(), out);
        let LogCacheSource { count, expired, oldest_ns, newest_ns, .. } = source;
        let info = format!(
            ":{{\"count\":\"{count}\",\"expired\":\"{expired}\",\"oldest_timestamp\":\"{oldest_ns}\",\
             \"newest_timestamp\":\"{newest_ns}\"}}"
        );
        out.extend_from_slice(info.as_bytes());
    }
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use super::super::wire::put_number;
    use super::*;

    #[test]
    fn every_field_of_a_request_is_read() {
        let mut bytes = Vec::new();
        put_bytes_field(1, b"app", &mut bytes);
        put_number_field(2, (-5_i64) as u64, &mut bytes);
        put_number_field(3, 7, &mut bytes);
        put_number_field(4, 1000, &mut bytes);
        put_number_field(5, 3, &mut bytes);
        let mut packed = Vec::new();
        for number in [0, 1, 9] {
            put_number(number, &mut packed);
        }
        put_bytes_field(5, &packed, &mut bytes);
        put_number_field(6, 1, &mut bytes);
        put_bytes_field(7, b"^cpu$", &mut bytes);
        let expected = LogCacheRead {
            source_id: "app".to_owned(),
            start_ns: -5,
            end_ns: 7,
            limit: 1000,
            kinds: vec![
                Some(LogCacheKind::Only(RecordKind::Gauge)),
                Some(LogCacheKind::Any),
                Some(LogCacheKind::Only(RecordKind::Log)),
                None,
            ],
            is_descending: true,
            name_filter: "^cpu$".to_owned(),
        };
        assert_eq!(LogCacheRead::parse(&bytes), Ok(expected));
        assert_eq!(LogCacheRead::parse(&[]), Ok(LogCacheRead::default()));
        assert!(LogCacheRead::parse(&[0x2a, 1, 0x80]).is_err());
        assert_eq!(LogCacheKind::from_text("5"), Some(LogCacheKind::Only(RecordKind::Event)));
        assert_eq!(LogCacheKind::from_text("log"), None);
    }

    #[test]
    fn answers_about_sources_have_the_form_of_the_original() {
        let source =
            LogCacheSource { source_id: "a\"b", count: 1, expired: 2, oldest_ns: -3, newest_ns: 4 };
        let mut json = Vec::new();
        write_log_cache_meta_json([source, source].into_iter(), &mut json);
        let one =
            r#""a\"b":{"count":"1","expired":"2","oldest_timestamp":"-3","newest_timestamp":"4"}"#;
        assert_eq!(String::from_utf8(json).unwrap(), format!("{{\"meta\":{{{one},{one}}}}}"));
        let bytes = encode_log_cache_meta(std::iter::once(source));
        let negative = b"\x18\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let info = [&b"\x08\x01\x10\x02"[..], negative, b"\x20\x04"].concat();
        let head = [0x0a, 7 + info.len() as u8, 0x0a, 3, b'a', b'"', b'b', 0x12, info.len() as u8];
        assert_eq!(bytes, [&head[..], &info].concat());
        assert_eq!(encode_log_cache_read(b"xy"), b"\x0a\x02xy");
    }
}
