//! Records as comma-separated values (RFC 4180).

use serde_json::{Map, Value};
use weir_expr::{Field, LAG, key_like};
use weir_store::embedded::columns::StoredRecord;
use weir_store::query::CalculatedField;

use crate::explore::query::field;
use crate::explore::record::{LogAttributes, LogEntry, precise_time};
use crate::problem::Problem;

const COLUMNS: &str = "timestamp,host,service,status,message,attributes";

/// The columns of an export.
#[derive(Debug)]
pub(super) struct CsvColumns(Vec<(String, Column)>);

#[derive(Debug)]
enum Column {
    Id,
    Timestamp,
    Host,
    Service,
    Status,
    Message,
    Source,
    Tags,
    /// All attributes, as a JSON object.
    Attributes,
    /// A single attribute.
    Attribute(String),
    /// The first value of a tag.
    Tag(String),
}

impl CsvColumns {
    /// Reads a list of columns.
    pub(super) fn parse(list: Option<&str>) -> Result<Self, Problem> {
        let names = list.unwrap_or(COLUMNS).split(',').map(str::trim);
        let columns = names.map(|name| Ok((name.to_owned(), Column::parse(name)?)));
        columns.collect::<Result<_, _>>().map(Self)
    }

    /// The names of the columns.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (index, (name, _)) in self.0.iter().enumerate() {
            push(index, name, &mut text);
        }
        text.extend_from_slice(b"\r\n");
        text
    }

    /// Appends a record, with calculated fields.
    pub(super) fn row(
        &self,
        record: StoredRecord,
        calculated_fields: &[CalculatedField],
        text: &mut Vec<u8>,
    ) {
        let source = record.source.clone().unwrap_or_default();
        let time = precise_time(record.time_ns);
        let lag = record.lag_ns().map(|lag_ns| lag_ns.to_string()).unwrap_or_default();
        let LogEntry { id, attributes: record, .. } =
            LogEntry::new(record, false, calculated_fields);
        for (index, (_, column)) in self.0.iter().enumerate() {
            let value = match column {
                Column::Id => id.clone(),
                Column::Timestamp => time.clone(),
                Column::Source => source.clone(),
                Column::Attribute(path)
                    if path == LAG && attribute(&record.attributes, path).is_none() =>
                {
                    lag.clone()
                }
                column => column.value(&record),
            };
            push(index, &value, text);
        }
        text.extend_from_slice(b"\r\n");
    }
}

impl Column {
    fn parse(name: &str) -> Result<Self, Problem> {
        Ok(match name {
            "id" => Self::Id,
            "timestamp" => Self::Timestamp,
            "host" => Self::Host,
            "service" => Self::Service,
            "status" => Self::Status,
            "message" => Self::Message,
            "source" => Self::Source,
            "tags" => Self::Tags,
            "attributes" => Self::Attributes,
            _ => match field("columns", name)? {
                Field::Attribute(path) => Self::Attribute(path),
                Field::Tag(key) if key_like(&key).is_none() => Self::Tag(key),
                _ => {
                    let what = format!(
                        "unknown column {name:?}; known are id, timestamp, host, service, status, \
                         message, source, tags, attributes, attributes such as @http.url, and tags \
                         such as pod_name"
                    );
                    return Err(Problem::parameter("columns", what));
                }
            },
        })
    }

    fn value(&self, record: &LogAttributes) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Self::Id | Self::Timestamp | Self::Source => String::new(),
            Self::Host => text(&record.host),
            Self::Service => text(&record.service),
            Self::Status => text(&record.status),
            Self::Message => text(&record.message),
            Self::Tags => record.tags.join(" "),
            Self::Attributes => Value::Object(record.attributes.clone()).to_string(),
            Self::Tag(key) => record.tag(key).unwrap_or_default().to_owned(),
            Self::Attribute(path) => match attribute(&record.attributes, path) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            },
        }
    }
}

/// The value at a path of nested objects.
fn attribute<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    attribute(object.get(first)?.as_object()?, rest)
}

fn push(index: usize, value: &str, text: &mut Vec<u8>) {
    if index > 0 {
        text.push(b',');
    }
    if value.contains(['"', ',', '\r', '\n']) {
        text.push(b'"');
        text.extend_from_slice(value.replace('"', "\"\"").as_bytes());
        text.push(b'"');
    } else {
        text.extend_from_slice(value.as_bytes());
    }
}
