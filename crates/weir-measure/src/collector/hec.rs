//! The wire format of the HTTP event collector, parsed strictly and independently of weir's writer.

use std::borrow::Cow;
use std::io::Read as _;

use serde::Deserialize;
use serde_json::value::RawValue;

/// One event of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The event as in the request: JSON, or the line of a raw request.
    pub event: Vec<u8>,
    /// Its text: the string, or the message member of an object.
    pub text: Vec<u8>,
    /// Seconds since 1970 as written.
    pub time: Option<String>,
    /// Metadata.
    pub host: Option<String>,
    /// Metadata.
    pub source: Option<String>,
    /// Metadata.
    pub sourcetype: Option<String>,
    /// Metadata.
    pub index: Option<String>,
    /// Indexed fields as JSON; empty if there were none.
    pub fields: String,
}

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the wire format")]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    #[serde(borrow)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow)]
    sourcetype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    index: Option<Cow<'a, str>>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
}

/// Why a body is refused: HEC's code and the number of the bad event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadEvent {
    pub(super) code: u16,
    pub(super) number: usize,
}

/// Decompresses all members of a gzip body.
pub(super) fn inflate(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() * 8);
    flate2::read::MultiGzDecoder::new(body).read_to_end(&mut out)?;
    Ok(out)
}

/// Parses the events of a body: consecutive objects, or one array of objects.
pub(super) fn events(body: &[u8]) -> Result<Vec<Event<'_>>, BadEvent> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let mut events = Vec::new();
    match first {
        None => return Err(BadEvent { code: 5, number: 0 }),
        Some(b'[') => {
            events = serde_json::from_slice(body).map_err(|_| BadEvent { code: 6, number: 0 })?;
        }
        Some(_) => {
            for event in serde_json::Deserializer::from_slice(body).into_iter() {
                events.push(event.map_err(|_| BadEvent { code: 6, number: events.len() })?);
            }
        }
    }
    match events.iter().position(|event: &Event<'_>| event.raw().is_none_or(is_blank)) {
        Some(number) if events[number].raw().is_none() => Err(BadEvent { code: 12, number }),
        Some(number) => Err(BadEvent { code: 13, number }),
        None => Ok(events),
    }
}

fn is_blank(event: &str) -> bool {
    event == "\"\"" || event == "null"
}

impl Event<'_> {
    fn raw(&self) -> Option<&str> {
        self.event.map(RawValue::get)
    }

    /// Returns the text to search for an ID.
    pub(super) fn text(&self) -> Cow<'_, str> {
        text_of(self.raw().unwrap_or_default())
    }

    pub(super) fn to_record(&self) -> Record {
        let owned = |value: &Option<Cow<'_, str>>| value.as_deref().map(str::to_owned);
        Record {
            event: self.raw().unwrap_or_default().as_bytes().to_vec(),
            text: self.text().into_owned().into_bytes(),
            time: self.time.map(|time| time.get().trim_matches('"').to_owned()),
            host: owned(&self.host),
            source: owned(&self.source),
            sourcetype: owned(&self.sourcetype),
            index: owned(&self.index),
            fields: self.fields.map(|fields| fields.get().to_owned()).unwrap_or_default(),
        }
    }
}

fn text_of(event: &str) -> Cow<'_, str> {
    let text = match event.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Cow::Borrowed(event),
        Some(inside) if !inside.contains('\\') => Cow::Borrowed(inside),
        Some(_) => serde_json::from_str(event).map_or(Cow::Borrowed(event), Cow::Owned),
    };
    // An object, or a string that contains one: a line of JSON as in the file.
    if !text.starts_with('{') {
        return text;
    }
    let object: Option<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&text).ok();
    let message = object.and_then(|mut object| {
        ["message", "line", "log", "msg"].iter().find_map(|key| match object.remove(*key) {
            Some(serde_json::Value::String(text)) => Some(text),
            _ => None,
        })
    });
    message.map_or(text, Cow::Owned)
}

/// Parses a line of a raw request, with the metadata of its query string.
pub(super) fn raw_record(line: &[u8], query: &str) -> Record {
    let value = |key: &str| {
        query
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key))
            .map(|(_, value)| percent_decoded(value))
    };
    Record {
        event: line.to_vec(),
        text: line.to_vec(),
        time: None,
        host: value("host"),
        source: value("source"),
        sourcetype: value("sourcetype"),
        index: value("index"),
        fields: String::new(),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns HEC's text for a code.
pub(super) fn text_of_code(code: u16) -> &'static str {
    match code {
        0 => "Success",
        2 => "Token is required",
        3 => "Invalid authorization",
        4 => "Invalid token",
        5 => "No data",
        6 => "Invalid data format",
        8 => "Internal server error",
        9 => "Server is busy",
        10 => "Data channel is missing",
        12 => "Event field is required",
        13 => "Event field cannot be blank",
        14 => "ACK is disabled",
        17 => "HEC is healthy",
        26 => "Queue at capacity",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(body: &[u8]) -> Vec<String> {
        events(body).unwrap().iter().map(|event| event.text().into_owned()).collect()
    }

    #[test]
    fn events_may_touch_be_apart_or_stand_in_an_array() {
        assert_eq!(texts(br#"{"event":"a\n"}{"event":"b"}"#), ["a\n", "b"]);
        assert_eq!(texts(b"{\"event\":\"a\"}\n {\"event\":{\"line\":\"b\"}}"), ["a", "b"]);
        assert_eq!(texts(br#"[{"event":"a"},{"event":1}]"#), ["a", "1"]);
    }

    #[test]
    fn the_bad_event_is_named_by_its_number() {
        let bad = |body: &[u8]| events(body).unwrap_err();
        assert_eq!(bad(b""), BadEvent { code: 5, number: 0 });
        assert_eq!(bad(br#"{"event":"a"}{"event":"b""#), BadEvent { code: 6, number: 1 });
        assert_eq!(bad(br#"{"event":"a"}{"host":"b"}"#), BadEvent { code: 12, number: 1 });
        assert_eq!(bad(br#"{"event":""}"#), BadEvent { code: 13, number: 0 });
        assert_eq!(bad(b"{\"event\":\"\xff\"}"), BadEvent { code: 6, number: 0 });
    }

    #[test]
    fn metadata_of_raw_requests_is_in_the_query() {
        let record = raw_record(b"x", "source=%2Fvar%2Flog+a&index=main");
        assert_eq!(record.source.as_deref(), Some("/var/log a"));
        assert_eq!(record.index.as_deref(), Some("main"));
    }
}
