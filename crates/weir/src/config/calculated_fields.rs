//! `store.calculated_fields`: attributes that are computed from others at query time.
//!
//! Invariant: an error points at its place in the text of the expression.

use weir_expr::Formula;
use weir_store::query::{CalculatedField, Units};

use super::diagnostic::Diagnostics;
use super::rules::inside;
use super::section::Section;
use super::tree::{Entry, NodeValue};

/// Reads the entries; invalid ones are reported and skipped.
pub(crate) fn calculated_fields(
    store: &Section,
    units: &Units,
    diagnostics: &mut Diagnostics,
) -> Vec<CalculatedField> {
    let entries = store.values("calculated_fields").iter();
    let found = entries.filter_map(|entry| calculated_field(store, entry, diagnostics));
    let found = CalculatedField::resolve_units(found, units);
    let wrong = if let Some(trail) = CalculatedField::find_cycle(&found) {
        let through = match &trail[1..] {
            [] => String::new(),
            others => format!(" through {}", others.join(", ")),
        };
        let text = format!("is computed from itself{through}, so it never has a value");
        Some((trail[0], text, "give it another name"))
    } else {
        let text = "is too long after the fields that it uses are expanded".to_owned();
        CalculatedField::too_long(&found).map(|path| (path, text, "use each of them fewer times"))
    };
    if let Some((path, text, help)) = wrong {
        let is_it = |entry: &&Entry| path_of(entry) == path;
        let location =
            store.values("calculated_fields").iter().find(is_it).map(|e| e.node.location.clone());
        let key_path = format!("{}.{path}", store.key_path("calculated_fields"));
        diagnostics.error(location, &key_path, format!("{key_path} {text}")).help(help);
    }
    found
}

/// The attribute that the entry defines.
fn path_of(entry: &Entry) -> &str {
    entry.key.strip_prefix('@').unwrap_or(&entry.key)
}

fn calculated_field(
    store: &Section,
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<CalculatedField> {
    let path = path_of(entry).to_owned();
    let key_path = format!("{}.{}", store.key_path("calculated_fields"), entry.key);
    let location = &entry.node.location;
    let NodeValue::Text(text) = &entry.node.value else {
        let message = format!("{key_path} must be text");
        diagnostics
            .error(Some(location.clone()), &key_path, message)
            .help("calculated_fields = { queueing_delay = \"@request_time - @service_time\" }");
        return None;
    };
    match Formula::parse(text) {
        Ok(_) if path.is_empty() => {
            let message = format!("{key_path}: a calculated field needs a name");
            diagnostics.error(Some(location.clone()), &key_path, message);
            None
        }
        Ok(measure) => Some(CalculatedField { path, formula: measure }),
        Err(error) => {
            let mut message = format!("{key_path}: {}", error.message);
            if let Some(expected) = &error.expected {
                message = format!("{message}; expected {expected}");
            }
            let at = inside(location, &error.text, error.span);
            let diagnostic = diagnostics.error(Some(at), &key_path, message);
            if let Some(suggestion) = &error.suggestion {
                diagnostic.help(format!("did you mean: {suggestion}"));
            }
            None
        }
    }
}
