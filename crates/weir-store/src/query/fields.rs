//! The fields of a stored record as expressions see them; this defines what a search means.
//!
//! The message is the segment's `message`: for a JSON body its attribute `message` or `msg`, for
//! any other body the whole body. Service, host, source and status are those determined when the
//! record was received; other keys and tags come from its resource and its attributes. An attribute
//! that is kept in a field of the record's own remains an attribute. `@lag` is how late a record
//! arrived, unless it has an attribute of that name.

use weir_codec::{Attributes, Scalar};
use weir_expr::{Body, Field, Fields, LAG, Reserved, Value, Visitor, tag_path, visit_lag};

use crate::embedded::columns::{AttributeValue, StoredRecord, value_of};

/// Parses the attributes of an encoded resource.
pub(crate) fn resource_attributes(encoded: &[u8]) -> Attributes {
    let mut attributes = Attributes::new();
    // A resource that is not an object is treated as empty, as everywhere.
    let _ = attributes.read_json(encoded);
    attributes
}

/// Parses tags, a JSON array of strings.
pub(crate) fn tags_of(encoded: &[u8]) -> Vec<String> {
    serde_json::from_slice(encoded).unwrap_or_default()
}

/// Returns the value of a tag with this key.
pub(crate) fn tag_value<'a>(tag: &'a str, key: &str) -> Option<&'a str> {
    tag.strip_prefix(key)?.strip_prefix(':')
}

/// A record prepared for reading its fields.
#[derive(Debug)]
pub struct StoredFields<'a> {
    record: &'a StoredRecord,
    attributes: Vec<(String, Vec<AttributeValue>)>,
    resource: Attributes,
    tags: Vec<String>,
}

impl<'a> StoredFields<'a> {
    /// Prepares a record.
    pub fn new(record: &'a StoredRecord) -> Self {
        Self {
            record,
            attributes: record.all_attributes(),
            resource: resource_attributes(record.resource.as_deref().unwrap_or("").as_bytes()),
            tags: tags_of(record.tags.as_deref().unwrap_or("").as_bytes()),
        }
    }

    fn attribute(&self, path: &str, visit: &mut Visitor<'_>) {
        let mut is_object = false;
        for (known, values) in &self.attributes {
            match known.strip_prefix(path) {
                Some("") => values.iter().for_each(|value| visit(value_of(value.as_scalar()))),
                Some(rest) if rest.starts_with('.') => is_object = true,
                _ => {}
            }
        }
        if is_object {
            visit(Value::Object);
        }
    }

    fn reserved(&self, key: Reserved, visit: &mut Visitor<'_>) {
        let record = self.record;
        let (column, is_all) = match key {
            Reserved::Service => (record.service.as_deref(), true),
            Reserved::Host => (record.host.as_deref(), true),
            Reserved::Source => (record.source.as_deref(), true),
            Reserved::Status => (record.status.as_deref(), true),
            Reserved::IoStream => (record.form.flags().iostream(), true),
            Reserved::TraceId => (record.trace_id.as_deref(), false),
            Reserved::SpanId => (record.span_id.as_deref(), false),
            _ => (None, false),
        };
        if is_all || column.is_some() {
            return visit_text(column, visit);
        }
        let resource = key.resource_paths().iter().any(|path| self.of_resource(path, visit));
        if resource {
            return;
        }
        let _none = key.record_paths().iter().any(|path| {
            let found = self.attributes.iter().find(|(known, _)| known == path);
            let values = found.map_or(&[][..], |(_, values)| values);
            visit_all(values.iter().map(AttributeValue::as_scalar), visit)
        });
    }

    /// Visits the values of a path of the resource. Returns false when there are none.
    fn of_resource(&self, path: &str, visit: &mut Visitor<'_>) -> bool {
        visit_all(self.resource.values(path.as_bytes()), visit)
    }
}

/// Visits values. Returns false when there are none except nulls.
fn visit_all<'a>(values: impl Iterator<Item = Scalar<'a>>, visit: &mut Visitor<'_>) -> bool {
    let mut is_there = false;
    for value in values {
        is_there |= value != Scalar::Null;
        visit(value_of(value));
    }
    is_there
}

fn visit_text(text: Option<&str>, visit: &mut Visitor<'_>) {
    if let Some(text) = text {
        visit(Value::Text(text.as_bytes()));
    }
}

impl Fields for StoredFields<'_> {
    fn body(&self) -> Body<'_> {
        let bytes = self.record.message.as_deref().unwrap_or("").as_bytes();
        Body { bytes, json_escaped: false }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        match field {
            Field::Message => {}
            Field::Reserved(key) => self.reserved(*key, visit),
            Field::Attribute(path) if path == LAG => {
                visit_lag(|visit| self.attribute(LAG, visit), self.record.lag_ns(), visit);
            }
            Field::Attribute(path) => self.attribute(path, visit),
            Field::Tag(key) => {
                if !self.of_resource(tag_path(key), visit) {
                    for value in self.tags.iter().filter_map(|tag| tag_value(tag, key)) {
                        visit(Value::Text(value.as_bytes()));
                    }
                }
            }
            Field::Tags => self.tags.iter().for_each(|tag| visit(Value::Text(tag.as_bytes()))),
            Field::Any => {
                self.resource.iter().for_each(|(_, value)| visit(value_of(value)));
                for (_, values) in &self.attributes {
                    visit_all(values.iter().map(AttributeValue::as_scalar), visit);
                }
                for key in [Reserved::Source, Reserved::Status, Reserved::IoStream] {
                    self.reserved(key, visit);
                }
            }
        }
    }
}
