//! The JSON Schema of the configuration, for editors, derived from the fields.
//!
//! Invariant: whatever the schema rejects, weir rejects; weir checks more (units, files, and
//! constraints between keys).

use serde_json::{Map, Value, json};
use weir_pipeline::config::{OutputType, SourceType};

use super::field::{Field, FieldDefault, ValueType, Word};
use super::tables::{ComponentType, LISTS, TABLES, TOP};
use super::tree::{NodeValue, parse_value};

const SIZE: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*(B|kB|KB|KiB|MB|MiB|GB|GiB|TB|TiB)\s*$|^0$";
const SHARE: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*(B|kB|KB|KiB|MB|MiB|GB|GiB|TB|TiB|%)\s*$|^0$";
const DURATION: &str = r"^\s*([0-9]+(\.[0-9]+)?\s*(ns|us|µs|μs|ms|s|m|h|d|w)\s*)+$|^0$";

/// The whole schema.
pub(crate) fn json_schema() -> Value {
    let mut properties = Map::new();
    for field in TOP {
        properties.insert(field.name.to_owned(), field_schema(field));
    }
    for table in TABLES {
        let schema = object(table.doc, table.fields.iter(), None);
        properties.insert(table.name.to_owned(), schema);
    }
    for list in LISTS {
        let items = object(list.doc, list.fields.iter(), None);
        properties.insert(list.name.to_owned(), json!({ "type": "array", "items": items }));
    }
    properties.insert(SourceType::FAMILY.to_owned(), family_schema::<SourceType>());
    properties.insert(OutputType::FAMILY.to_owned(), family_schema::<OutputType>());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir.toml",
        "description": "Configuration of weir",
        "type": "object",
        "additionalProperties": false,
        "required": [SourceType::FAMILY, OutputType::FAMILY],
        "properties": properties,
    })
}

fn family_schema<T: ComponentType>() -> Value {
    let kinds: Vec<Value> = T::ALL.iter().map(|known| component_schema(*known)).collect();
    json!({
        "description": T::FAMILY_DOC,
        "type": "object",
        "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,64}$" },
        "additionalProperties": { "oneOf": kinds },
    })
}

fn component_schema<T: ComponentType>(known: T) -> Value {
    let component = known.component();
    let fields = component.fields.iter().flat_map(|group| group.iter());
    object(component.doc, fields, Some(known.name()))
}

fn object<'a>(
    doc: &str,
    fields: impl Iterator<Item = &'a Field>,
    type_name: Option<&str>,
) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if let Some(name) = type_name {
        properties.insert("type".to_owned(), json!({ "const": name }));
        required.push("type");
    }
    for field in fields {
        properties.insert(field.name.to_owned(), field_schema(field));
        if matches!(field.default, FieldDefault::Required) {
            required.push(field.name);
        }
    }
    json!({
        "description": doc,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

fn field_schema(field: &Field) -> Value {
    let text = || json!({ "type": "string", "minLength": 1 });
    let mut schema = match &field.value_type {
        ValueType::Bool => json!({ "type": "boolean" }),
        ValueType::Text | ValueType::Path | ValueType::Listen | ValueType::Expression => text(),
        ValueType::Share => {
            json!({ "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$" })
        }
        ValueType::Values => json!({ "type": "object" }),
        ValueType::Items => json!({
            "type": "array",
            "items": { "anyOf": [text(), { "type": "object" }] },
        }),
        ValueType::Url => json!({ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://" }),
        ValueType::Globs | ValueType::Names | ValueType::Paths | ValueType::Networks => {
            json!({ "type": "array", "items": text() })
        }
        ValueType::Choice(words) => json!({ "enum": names(words) }),
        ValueType::ChoiceOrDuration(words) => json!({
            "anyOf": [{ "enum": names(words) }, { "type": "string", "pattern": DURATION }],
        }),
        ValueType::Size { .. } => json!({ "type": "string", "pattern": SIZE }),
        ValueType::SizeOrShare { .. } => json!({ "type": "string", "pattern": SHARE }),
        ValueType::Duration { .. } => json!({ "type": "string", "pattern": DURATION }),
        ValueType::Count { min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        ValueType::Secret => {
            let location = |key: &str| {
                json!({
                    "type": "object",
                    "additionalProperties": false,
                    "properties": { key: text() },
                    "required": [key],
                })
            };
            json!({ "oneOf": [location("env"), location("file")] })
        }
        ValueType::Table(fields) => object(field.doc, fields.iter(), None),
        ValueType::Tables(fields) => {
            json!({ "type": "array", "items": object(field.doc, fields.iter(), None) })
        }
        ValueType::ChoiceOrTable(words, fields) => json!({
            "anyOf": [{ "enum": names(words) }, object(field.doc, fields.iter(), None)],
        }),
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), json!(field.doc));
        if let FieldDefault::Value(toml) = field.default {
            schema.insert("default".to_owned(), to_json(&parse_value(toml).value));
        }
    }
    schema
}

fn names(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| word.word).collect()
}

/// A TOML default as JSON. No default is a table, a date or a fraction.
fn to_json(value: &NodeValue) -> Value {
    match value {
        NodeValue::Text(text) => json!(text),
        NodeValue::Integer(n) => json!(n),
        NodeValue::Bool(value) => json!(value),
        NodeValue::Array(items) => items.iter().map(|item| to_json(&item.value)).collect(),
        NodeValue::Float(_) | NodeValue::Datetime | NodeValue::Table(_) => Value::Null,
    }
}
