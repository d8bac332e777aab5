//! What a rule redacts, from its item in the configuration.

use weir_host::Secret;
use weir_pipeline::rule::{PRESETS, Pattern, Redaction, Replacement, Scope};

use super::check::kept_secret;
use super::diagnostic::Diagnostics;
use super::field::{Field, FieldDefault, ValueType, list_or};
use super::section;
use super::tree::{Node, NodeTable, NodeValue};

const fn field(name: &'static str, value_type: ValueType) -> Field {
    Field { name, value_type, default: FieldDefault::Unset(""), doc: "" }
}

const FIELDS: &[Field] = &[
    field("preset", ValueType::Text),
    field("pattern", ValueType::Text),
    field("with", ValueType::Text),
    field("key", ValueType::Secret),
    field("field", ValueType::Text),
];

const PATH: &str = "rule.redact";

/// Reads one item and reports errors.
pub(crate) fn read(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Redaction>> {
    match &node.value {
        NodeValue::Text(name) => {
            let patterns = preset(name, node, diagnostics)?;
            let with = Replacement::Text(format!("[{name}]"));
            Some(redactions(patterns, &with, &Scope::Everything))
        }
        NodeValue::Table(table) => from_table(table, node, diagnostics),
        other => {
            let message =
                format!("an item of {PATH} must be text or a table, not {}", other.type_name());
            diagnostics.error(Some(node.location.clone()), PATH, message);
            None
        }
    }
}

fn redactions(patterns: Vec<Pattern>, with: &Replacement, scope: &Scope) -> Vec<Redaction> {
    let one = |pattern| Redaction { pattern, with: with.clone(), scope: scope.clone() };
    patterns.into_iter().map(one).collect()
}

fn preset(name: &str, node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Pattern>> {
    let patterns = Pattern::preset(name);
    if patterns.is_none() {
        let names = || PRESETS.iter().map(|preset| preset.name);
        diagnostics
            .error(Some(node.location.clone()), PATH, format!("unknown preset {name:?}"))
            .help(format!(
                "presets are {}; a custom pattern is {{ pattern = '...' }}",
                list_or(names())
            ))
            .nearest(name, names());
    }
    patterns
}

fn from_table(
    table: &NodeTable,
    node: &Node,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Redaction>> {
    let before = diagnostics.0.len();
    let location = Some(node.location.clone());
    let section = section::read(table, &[FIELDS], &[], PATH, location.clone(), diagnostics);
    if diagnostics.0.len() > before {
        return None;
    }
    let (patterns, name) = match (section.text("preset"), section.text("pattern")) {
        (Some(name), None) => (preset(name, node, diagnostics)?, name),
        (None, Some(pattern)) => match Pattern::new(pattern) {
            Ok(pattern) => (vec![pattern], "redacted"),
            Err(error) => {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let message = format!("{PATH}.pattern is not a valid regular expression: {reason}");
                diagnostics.error(section.location("pattern"), PATH, message);
                return None;
            }
        },
        _ => {
            diagnostics
                .error(location, PATH, "an item of rule.redact must have either preset or pattern")
                .help("write { preset = \"card\" } or { pattern = 'id=(\\d+)' }");
            return None;
        }
    };
    let scope = match section.text("field") {
        None => Scope::Everything,
        Some("message") => Scope::Message,
        Some(name) => Scope::Attribute(attribute(name, &section, diagnostics)?),
    };
    let with = match section.text("with") {
        None => Replacement::Text(format!("[{name}]")),
        Some("*") => Replacement::Stars,
        Some("hash") => Replacement::hash(secret(&section, diagnostics)?.expose().as_bytes()),
        Some(text) => Replacement::Text(text.to_owned()),
    };
    Some(redactions(patterns, &with, &scope))
}

fn attribute(
    name: &str,
    section: &section::Section,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let path = name.strip_prefix('@').filter(|path| !path.is_empty());
    if path.is_none() {
        diagnostics
            .error(section.location("field"), PATH, format!("{name:?} cannot be redacted"))
            .help("write \"message\" or \"@attribute\", or remove it to redact everywhere");
    }
    path.map(str::to_owned)
}

/// The key of a hash: without one, short texts can be recovered by brute force.
fn secret(section: &section::Section, diagnostics: &mut Diagnostics) -> Option<Secret> {
    let secret = section.secret("key");
    if secret.is_none() {
        diagnostics
            .error(
                section.location("with"),
                PATH,
                "a hash needs a key: without one it can be reversed by brute force",
            )
            .help("add key = { env = \"NAME\" } or key = { file = \"/path\" }");
    }
    if let Some(path) = section.secret_file("key") {
        kept_secret(path, section.location("key"), PATH, diagnostics);
    }
    secret
}
