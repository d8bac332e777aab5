//! `[units]`: the units of attributes.
//!
//! Invariants: an attribute has one unit, under whichever of its names; if `store.remap` gives it
//! another name, the unit that is declared or known for the former name applies to the new one as
//! well.

use std::collections::BTreeMap;

use weir_codec::Renames;
use weir_expr::{LAG, Unit, Units};

use super::diagnostic::{Diagnostics, nearest};
use super::renames::is_part;
use super::section::Section;
use super::tree::{Entry, NodeValue};

/// Reads the entries; invalid ones are reported and skipped.
pub(crate) fn units(top: &Section, renames: &Renames, diagnostics: &mut Diagnostics) -> Units {
    let mut declared = BTreeMap::new();
    add(top.values("units"), "", &mut declared, diagnostics);
    let known = Units::new(declared.clone());
    for (from, to) in renames.paths() {
        let below = declared.iter().filter(|(path, _)| is_part(path, from));
        let mut renamed: Vec<(String, Unit)> =
            below.map(|(path, unit)| (format!("{to}{}", &path[from.len()..]), *unit)).collect();
        if let (Some(unit), None) = (known.of_attribute(from), known.of_attribute(to)) {
            renamed.push((to.clone(), unit));
        }
        for (path, unit) in renamed {
            declared.entry(path).or_insert(unit);
        }
    }
    check_lag(top, renames, &declared, diagnostics);
    Units::new(declared)
}

/// Rejects another unit of `lag`: a record without such an attribute has a lag in nanoseconds.
fn check_lag(
    top: &Section,
    renames: &Renames,
    declared: &BTreeMap<String, Unit>,
    diagnostics: &mut Diagnostics,
) {
    if declared.get(LAG).is_none_or(|unit| *unit == Unit::Nanosecond) {
        return;
    }
    let mut entries = top.values("units").iter();
    let is_lag = |path: &str| {
        path == LAG || renames.paths().iter().any(|(from, to)| from == path && to == LAG)
    };
    let entry = entries.find(|entry| is_lag(entry.key.trim_start_matches('@')));
    let location = entry.map(|entry| entry.node.location.clone());
    let message = "units.lag: @lag is in nanoseconds, since it is the time from event to arrival";
    diagnostics
        .error(location, "units.lag", message.to_owned())
        .help("give the attribute another name with store.remap, and that name a unit");
}

/// Adds the entries of a table. A path without quotes, `http.took = "ms"`, is a table for TOML.
fn add(
    entries: &[Entry],
    prefix: &str,
    declared: &mut BTreeMap<String, Unit>,
    diagnostics: &mut Diagnostics,
) {
    for entry in entries {
        let key = entry.key.strip_prefix('@').unwrap_or(&entry.key);
        let path = format!("{prefix}{key}");
        let key_path = format!("units.{path}");
        let location = entry.node.location.clone();
        let text = match &entry.node.value {
            NodeValue::Table(table) => {
                add(&table.entries, &format!("{path}."), declared, diagnostics);
                continue;
            }
            NodeValue::Text(text) => text,
            _ => {
                let message = format!("{key_path} must be a unit, as text");
                diagnostics.error(Some(location), &key_path, message).help("took = \"ms\"");
                continue;
            }
        };
        if path.split('.').any(str::is_empty) {
            let message = format!("{key_path}: a name cannot have an empty part");
            diagnostics
                .error(Some(location), &key_path, message)
                .help("write a path such as http.took");
            continue;
        }
        match Unit::from_symbol(text) {
            Some(unit) if declared.get(&path).is_some_and(|other| *other != unit) => {
                let message = format!("{key_path} has two units");
                diagnostics.error(Some(location), &key_path, message).help("remove one of them");
            }
            Some(unit) => {
                declared.insert(path, unit);
            }
            None => {
                let symbols: Vec<&str> = Unit::ALL.iter().map(|unit| unit.symbol()).collect();
                let message = format!("{key_path}: {text:?} is not a unit");
                let help = match nearest_unit(text) {
                    Some(unit) => format!("did you mean {unit:?}?"),
                    None => format!("units are {}", symbols.join(" ")),
                };
                diagnostics.error(Some(location), &key_path, message).help(help);
            }
        }
    }
}

/// Returns the unit that was probably meant.
fn nearest_unit(text: &str) -> Option<&'static str> {
    let symbols = Unit::ALL.iter().map(|unit| unit.symbol()).filter(|symbol| symbol.len() > 1);
    Unit::like(text).map(Unit::symbol).or_else(|| nearest(text, symbols))
}
