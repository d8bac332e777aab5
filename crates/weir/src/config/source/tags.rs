//! The tags that a source adds to envelopes.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::Unset;
use crate::config::field::{Field, ValueType, field};
use crate::config::section::Section;
use crate::config::tree::NodeValue;

/// Maximum number of tags that a source adds, and length of each with its name: they are in every
/// resource, together with the attributes from its sender.
const TAGS_MAX: usize = 32;
const TAG_BYTES_MAX: usize = 128;

/// The key of the tags.
pub(super) const TAGS: Field = field(
    "tags",
    ValueType::Values,
    Unset("no tags"),
    "Tags to add to envelopes that do not have them, as an agent does: `{ deployment = \"cf\", job = \
     \"cell\" }`.",
);

/// Checks a table of tags.
pub(super) fn check(section: &Section, key: &str, diagnostics: &mut Diagnostics) {
    for entry in section.values(key) {
        let is_tag = match &entry.node.value {
            NodeValue::Text(text) => entry.key.len() + text.len() <= TAG_BYTES_MAX,
            _ => false,
        };
        if !is_tag || entry.key.is_empty() {
            let key_path = format!("{}.{}", section.key_path(key), entry.key);
            let message = format!("{key_path} must be a name and a short text");
            diagnostics
                .error(Some(entry.node.location.clone()), &key_path, message)
                .help(format!("{key} = {{ deployment = \"cf\" }}"));
        }
    }
    if section.values(key).len() > TAGS_MAX {
        let key_path = section.key_path(key);
        let message = format!("{key_path} has more than {TAGS_MAX} tags");
        diagnostics
            .error(section.location(key), &key_path, message)
            .help("tag records with a rule instead");
    }
}

/// The tags that a source adds to envelopes.
pub(super) fn default_tags(section: &Section) -> Vec<(String, String)> {
    tags_of(section, "tags")
}

/// The texts in a table of tags.
pub(super) fn tags_of(section: &Section, key: &str) -> Vec<(String, String)> {
    let text = |value: &NodeValue| match value {
        NodeValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let entries = section.values(key).iter();
    entries.filter_map(|entry| Some((entry.key.clone(), text(&entry.node.value)?))).collect()
}
