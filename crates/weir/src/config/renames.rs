//! `store.remap`: the names under which attributes are stored.
//!
//! Invariant: the order of the entries does not matter: no name is renamed twice, and none is part
//! of another renamed name.

use weir_codec::Renames;

use super::diagnostic::Diagnostics;
use super::section::Section;
use super::text::SourceLocation;
use super::tree::{Entry, NodeValue};

/// Reads the entries; invalid ones are reported and skipped.
pub(crate) fn renames(store: &Section, diagnostics: &mut Diagnostics) -> Renames {
    let mut names: Vec<(String, String)> = Vec::new();
    for entry in store.values("remap") {
        let key_path = format!("{}.{}", store.key_path("remap"), entry.key);
        match rename(entry, &key_path, &names) {
            Ok(pair) => names.push(pair),
            Err((location, message, help)) => {
                diagnostics.error(Some(location), &key_path, message).help(help);
            }
        }
    }
    Renames::new(names)
}

type Mistake = (SourceLocation, String, &'static str);

fn rename(
    entry: &Entry,
    key_path: &str,
    others: &[(String, String)],
) -> Result<(String, String), Mistake> {
    let location = || entry.node.location.clone();
    let NodeValue::Text(to) = &entry.node.value else {
        let help = "remap = { \"http.response.status\" = \"http.status_code\" }";
        return Err((location(), format!("{key_path} must be the new name, as text"), help));
    };
    let [from, to] = [&entry.key, to].map(|path| path.strip_prefix('@').unwrap_or(path).to_owned());
    if [&from, &to].iter().any(|path| path.split('.').any(str::is_empty)) {
        let help = "write a path such as http.status_code";
        return Err((location(), format!("{key_path}: a name cannot have an empty part"), help));
    }
    if is_part(&from, &to) || is_part(&to, &from) {
        let message = format!("{key_path}: {from} and {to} are part of each other");
        return Err((location(), message, "the new name must be in a different place"));
    }
    let clash = others.iter().find(|(other_from, other_to)| {
        [(&from, other_from), (&from, other_to), (&to, other_from)]
            .iter()
            .any(|(a, b)| is_part(a, b) || is_part(b, a))
    });
    match clash {
        Some((other, _)) => {
            let message = format!("{key_path}: overlaps with the entry {other}");
            Err((location(), message, "rename each attribute once, directly to its final name"))
        }
        None => Ok((from, to)),
    }
}

/// Whether `path` is `parent` or below it.
pub(super) fn is_part(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
