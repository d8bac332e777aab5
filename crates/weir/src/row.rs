//! Formats one record for a terminal: time, stream, severity, message.
//!
//! Invariant: no part of a record reaches the terminal as a control character or changes the text
//! direction of what follows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use weir_api::{LogAttributes, LogDetails, LogEntry, nested_attributes, resource_tags};
use weir_codec::{Scalar, parse_rfc3339};
use weir_expr::{Expr, ExprKind, Glob, MESSAGE_PATHS, Piece, Reserved, Status, Test, lag_ns};
use weir_host::Zone;
use weir_host::terminal::printable;
use weir_host::units::format_rfc3339;
use weir_store::embedded::columns::{TIME_PATHS, TimeStyle};

use crate::term::{Paint, Style};

/// Colors that tell streams apart.
const TINTS: u64 = 6;

/// Maximum width of a stream name that is used for alignment.
const NAME_CHARS_MAX: usize = 24;

/// Formats rows.
pub(crate) struct Painter {
    paint: Paint,
    /// Words of the query, in lower case, to highlight.
    words: Vec<String>,
    name_chars: usize,
}

impl Painter {
    /// Creates a formatter for the rows of a query.
    pub(crate) fn new(query: &str, paint: Paint) -> Self {
        let mut words = Vec::new();
        if let Ok(expression) = weir_expr::parse(query) {
            collect_words(&expression, &mut words);
        }
        Self { paint, words, name_chars: 0 }
    }

    /// Returns the row, with its newline.
    pub(crate) fn line(&mut self, row: &Row) -> String {
        let name = printable(&row.name);
        self.name_chars = self.name_chars.max(name.chars().count()).min(NAME_CHARS_MAX);
        let fill = " ".repeat(self.name_chars.saturating_sub(name.chars().count()));
        let tint = name.bytes().fold(0_u64, |hash, byte| hash * 31 % 1009 + u64::from(byte));
        let severity = match printable(&row.severity) {
            text if text.is_empty() => String::new(),
            text => {
                format!("{} ", self.paint.paint(severity_style(&text), &format!("{text:<5}")))
            }
        };
        format!(
            "{} {}{fill} {severity}{}\n",
            printable(&row.time),
            self.paint.paint(Style::Tint((tint % TINTS) as u8), &name),
            self.message(&row.message),
        )
    }

    /// The message; further lines of it are indented by four spaces.
    fn message(&self, body: &str) -> String {
        let lines: Vec<String> = body.lines().map(|line| self.marked(&printable(line))).collect();
        lines.join("\n    ")
    }

    /// The message with the words of the query highlighted.
    fn marked(&self, line: &str) -> String {
        if !self.paint.is_on() || self.words.is_empty() {
            return line.to_owned();
        }
        let lower = line.to_ascii_lowercase();
        let (mut text, mut done) = (String::new(), 0);
        while let Some((start, len)) = self
            .words
            .iter()
            .filter_map(|word| Some((done + lower[done..].find(word.as_str())?, word.len())))
            .min_by_key(|(start, len)| (*start, usize::MAX - len))
        {
            text.push_str(&line[done..start]);
            text.push_str(&self.paint.paint(Style::Mark, &line[start..start + len]));
            done = start + len;
        }
        text + &line[done..]
    }
}

/// The parts of a record that are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    time: String,
    /// The most specific name of its stream.
    name: String,
    severity: String,
    /// The message.
    pub(crate) message: String,
}

/// Converts a UTC time to a time zone, with the same number of digits.
pub(crate) fn in_zone(time: &str, zone: &Zone) -> String {
    let parts = time.strip_suffix('Z').and_then(|text| text.split_at_checked(19));
    match (parts, parse_rfc3339(time.as_bytes())) {
        (Some((_, fraction)), Some(time_ns)) if !zone.is_utc() => {
            let local = zone.format_rfc3339(time_ns);
            format!("{}{fraction}{}", &local[..19], &local[23..])
        }
        _ => time.to_owned(),
    }
}

impl Row {
    /// The same record, with its time in a time zone.
    pub(crate) fn in_zone(self, zone: &Zone) -> Self {
        Self { time: in_zone(&self.time, zone), ..self }
    }

    /// Reads a record of a live tail, in the form that it will have once it is stored.
    pub(crate) fn of_tail(record: &Value) -> Self {
        Self::of_entry(&entry_of_tail(record))
    }

    /// Reads a record of a search.
    pub(crate) fn of_entry(entry: &LogEntry) -> Self {
        let LogEntry { attributes: record, weir, .. } = entry;
        let name = record
            .service
            .as_deref()
            .or_else(|| record.tag("container.name"))
            .or_else(|| record.tag("k8s.pod.name"))
            .or_else(|| record.tag("log.file.path").and_then(file_name))
            .or_else(|| weir.as_ref()?.source.as_deref());
        let time = weir.as_ref().map_or(&record.timestamp, |weir| &weir.timestamp);
        Self {
            time: if time.is_empty() { "-" } else { time }.to_owned(),
            name: name.unwrap_or("-").to_owned(),
            severity: record.status.as_deref().unwrap_or_default().to_uppercase(),
            message: record.message.clone().unwrap_or_else(|| attributes_text(record)),
        }
    }
}

/// Converts a record of a live tail to the form in which a search will show it once it is stored:
/// message, service and status are taken from the same places as by the store, attributes are
/// nested in the same way, and the id is the one that it will have.
pub(crate) fn entry_of_tail(record: &Value) -> LogEntry {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let details = LogDetails {
        timestamp: text(&record["timestamp"]).unwrap_or_default(),
        stream: text(&record["stream"]).unwrap_or_default(),
        position: text(&record["position"]).unwrap_or_default(),
        source: text(&record["source"]),
        arrival: text(&record["observed_timestamp"]),
        lag_ns: None,
    };
    let time_ns = parse_rfc3339(details.timestamp.as_bytes());
    let arrival_ns = details.arrival.as_ref().and_then(|text| parse_rfc3339(text.as_bytes()));
    let lag_ns = arrival_ns.zip(time_ns).map(|(arrival_ns, time_ns)| lag_ns(arrival_ns, time_ns));
    let details = LogDetails { lag_ns, ..details };
    let body = record["body"].as_str().unwrap_or_default();
    let inside: Option<Map<String, Value>> =
        Some(body).filter(|body| body.starts_with('{')).and_then(|b| serde_json::from_str(b).ok());
    let resource = record["resource"].as_object().cloned().unwrap_or_default();
    let mut own = record["attributes"].as_object().cloned().unwrap_or_default();
    own.extend(inside.iter().flatten().map(|(path, value)| (path.clone(), value.clone())));
    let find = |own: &Map<String, Value>, key: Reserved| {
        let of_resource = key.resource_paths().iter().find_map(|path| attribute(&resource, path));
        let of_record = || key.record_paths().iter().find_map(|path| attribute(own, path));
        of_resource.or_else(of_record).and_then(text)
    };
    let found = MESSAGE_PATHS.iter().find(|path| {
        inside.as_ref().is_some_and(|inside| inside.get(**path).is_some_and(Value::is_string))
    });
    let message = found.and_then(|path| own.remove(*path)).as_ref().and_then(text);
    let is_its_time = |path: &&&str| {
        let value = inside.as_ref().and_then(|inside| inside.get(**path));
        value.zip(time_ns).is_some_and(|(value, time_ns)| says_time(value, time_ns))
    };
    if let Some(path) = TIME_PATHS.iter().find(is_its_time) {
        own.remove(*path);
    }
    let status = text(&record["severity_text"]).or_else(|| find(&own, Reserved::Status));
    let status = status.map(|status| match Status::parse(status.as_bytes()) {
        Some(known) => known.name().to_owned(),
        None => status,
    });
    let (service, host) = (find(&own, Reserved::Service), find(&own, Reserved::Host));
    let mut flat = BTreeMap::new();
    flatten("", Value::Object(own), &mut flat);
    let source = record["source"].as_str().map(|name| format!("source:{name}"));
    let beside = resource_tags(&Value::Object(resource).to_string());
    let one_or_list = |(path, mut values): (String, Vec<Value>)| match values.len() {
        1 => (path, values.remove(0)),
        _ => (path, Value::Array(values)),
    };
    let attributes = nested_attributes(flat.into_iter().map(one_or_list).collect());
    LogEntry {
        id: text(&record["id"]).unwrap_or_default(),
        type_name: "log".to_owned(),
        attributes: LogAttributes {
            timestamp: time_ns.map_or_else(|| details.timestamp.clone(), format_rfc3339),
            host,
            service,
            status,
            // An object without a message consists of its attributes.
            message: message.or_else(|| inside.is_none().then(|| body.to_owned())),
            tags: source.into_iter().chain(beside).collect(),
            attributes,
        },
        weir: Some(details),
    }
}

/// The text for a record without a message.
fn attributes_text(record: &LogAttributes) -> String {
    if record.attributes.is_empty() {
        return String::new();
    }
    Value::Object(record.attributes.clone()).to_string()
}

/// Whether a value is this time, in one of the forms that the store need not keep.
fn says_time(value: &Value, time_ns: i64) -> bool {
    let scalar = match value {
        Value::String(text) => Scalar::Text(text.as_bytes()),
        Value::Number(number) => number.as_i64().map_or(Scalar::Null, Scalar::Int),
        _ => return false,
    };
    TimeStyle::of(scalar, time_ns).is_some()
}

/// Adds the values of nested objects by their paths, and each value of an array. An empty object or
/// array adds nothing.
fn flatten(path: &str, value: Value, flat: &mut BTreeMap<String, Vec<Value>>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, value, flat);
            }
        }
        Value::Array(values) => {
            for value in values {
                flatten(path, value, flat);
            }
        }
        value => flat.entry(path.to_owned()).or_default().push(value),
    }
}

fn file_name(path: &str) -> Option<&str> {
    path.rsplit('/').next()
}

/// Returns the value at a path of nested objects; names may contain dots themselves.
pub(crate) fn attribute<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    attribute(object.get(first)?.as_object()?, rest)
}

fn severity_style(text: &str) -> Style {
    match text.as_bytes().first() {
        Some(b'F' | b'E') => Style::Bad,
        Some(b'W') => Style::Warn,
        _ => Style::Strong,
    }
}

/// The words that a query looks for in messages, in lower case.
fn collect_words(expression: &Expr, words: &mut Vec<String>) {
    match &expression.kind {
        ExprKind::And(parts) | ExprKind::Or(parts) => {
            for part in parts {
                collect_words(part, words);
            }
        }
        ExprKind::Term(term) => {
            if let Test::Words(phrase) = &term.test {
                let pieces = phrase.words.iter().flat_map(Glob::pieces);
                words.extend(pieces.filter_map(|piece| match piece {
                    Piece::Text(text) => Some(text.to_lowercase()),
                    Piece::Any | Piece::One => None,
                }));
            }
        }
        // Negated words are not highlighted.
        ExprKind::All | ExprKind::Not(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_shows_time_stream_severity_and_message() {
        let mut painter = Painter::new("", Paint::off());
        let record = json!({
            "timestamp": "2026-01-01T00:00:00Z", "severity_text": "ERROR", "body": "first\n  second",
            "resource": { "service.name": "web", "log.file.path": "/var/log/a.log" },
        });
        let want = "2026-01-01T00:00:00Z web ERROR first\n      second\n";
        assert_eq!(painter.line(&Row::of_tail(&record)), want);
        let record = json!({ "timestamp": "t", "body": "b", "source": "x",
            "resource": { "log.file.path": "/var/log/api.log" } });
        assert_eq!(painter.line(&Row::of_tail(&record)), "t api.log b\n");
        assert_eq!(painter.line(&Row::of_tail(&json!({}))), "- -       \n");
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut painter = Painter::new("", Paint::off());
        let record = json!({ "timestamp": "t", "body": "\u{1b}[2Jx\u{7}\u{0}\u{202e}y\r",
            "resource": { "service.name": "\u{1b}]0;w" } });
        let line = painter.line(&Row::of_tail(&record));
        let is_harmless = |c: char| !c.is_control() && c != '\u{202e}';
        assert!(line.trim_end_matches('\n').chars().all(is_harmless), "{line:?}");
        assert!(line.contains("\\u{1b}[2Jx\\u{7}\\u{0}\\u{202e}y"), "{line:?}");
    }

    #[test]
    fn search_and_tail_rows_look_alike() {
        let entry: LogEntry = serde_json::from_value(json!({
            "id": "i", "type": "log",
            "attributes": { "timestamp": "2026", "status": "error", "message": "m",
                "tags": ["log.file.path:/var/log/a.log"], "attributes": { "a": 1, "a.b": 2 } },
            "weir": { "timestamp": "2026-01-01T00:00:00Z", "stream": "", "position": "" },
        }))
        .unwrap();
        let line = Painter::new("", Paint::off()).line(&Row::of_entry(&entry));
        assert_eq!(line, "2026-01-01T00:00:00Z a.log ERROR m\n");
        assert_eq!(attribute(&entry.attributes.attributes, "a.b"), Some(&json!(2)));
        let without = LogAttributes { message: None, ..entry.attributes.clone() };
        let entry = LogEntry { attributes: without, ..entry };
        assert_eq!(Row::of_entry(&entry).message, r#"{"a":1,"a.b":2}"#);
    }

    #[test]
    fn times_are_shown_in_a_zone_with_all_their_digits() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        for (time, want) in [
            ("2026-10-25T00:59:59.123456789Z", "2026-10-25T02:59:59.123456789+02:00"),
            ("2026-10-25T01:00:00Z", "2026-10-25T02:00:00+01:00"),
            ("1890-01-01T00:00:00.5Z", "1890-01-01T00:00:00.5Z"),
            ("-", "-"),
            ("2026-10-25T01:00:00+00:00", "2026-10-25T01:00:00+00:00"),
        ] {
            assert_eq!(in_zone(time, &berlin), want);
            assert_eq!(in_zone(time, &Zone::UTC), time);
        }
    }

    #[test]
    fn tailed_record_looks_like_the_stored_one() {
        let record = json!({
            "timestamp": "2026-01-01T00:00:00.000000001Z", "source": "app", "stream": "07",
            "position": "1:5", "id": "an-id", "resource": { "log.file.path": "/var/log/a.log" },
            "body": "{\"msg\":\"m\",\"level\":\"WARNING\",\"service\":\"web\",\"a\":{\"b\":1},\"e\":{},\"l\":[[],1],\"ts\":1767225600000000001}",
        });
        let entry = entry_of_tail(&record);
        let mut painter = Painter::new("", Paint::off());
        assert_eq!(
            painter.line(&Row::of_entry(&entry)),
            "2026-01-01T00:00:00.000000001Z web WARN  m\n"
        );
        assert_eq!(attribute(&entry.attributes.attributes, "a.b"), Some(&json!(1)));
        assert_eq!(entry.attributes.attributes.get("msg"), None);
        let bare = Row::of_tail(&json!({ "body": "{\"level\":\"info\",\"a\":{\"b\":1}}" }));
        assert_eq!(
            (bare.severity.as_str(), bare.message.as_str()),
            ("INFO", r#"{"a":{"b":1},"level":"info"}"#)
        );
        let json = serde_json::to_value(&entry).unwrap();
        let want = json!({
            "timestamp": "2026-01-01T00:00:00.000Z", "service": "web", "status": "warn",
            "message": "m", "tags": ["source:app", "log.file.path:/var/log/a.log"],
            "attributes": { "a": { "b": 1 }, "l": 1, "level": "WARNING", "service": "web" },
        });
        assert_eq!(json["attributes"], want);
        assert_eq!(json["id"], "an-id");
        let plain = entry_of_tail(&json!({ "body": "{no json", "severity_text": "ERROR" }));
        assert_eq!(plain.attributes.message.as_deref(), Some("{no json"));
        assert_eq!(plain.attributes.status.as_deref(), Some("error"));
    }

    #[test]
    fn query_matches_are_highlighted() {
        let painter = Painter::new("timed \"timed out\" -gone service:web", Paint::on());
        assert_eq!(painter.words, ["timed", "timed", "out"]);
        let mark = |text: &str| Paint::on().paint(Style::Mark, text);
        let line = painter.marked("It Timed Out, gone, timed É");
        assert_eq!(
            line,
            format!("It {} {}, gone, {} É", mark("Timed"), mark("Out"), mark("timed"))
        );
    }
}
