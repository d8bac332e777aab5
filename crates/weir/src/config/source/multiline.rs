//! The key `multiline` of sources: a word for the stack traces of a language, or a table.
//!
//! Invariant: [`joining`] builds a rule from everything that [`check`] accepts.

use std::sync::Arc;
use std::time::Duration;

use weir_codec::{Multiline, MultilineError, MultilinePreset};
use weir_pipeline::config::Joining;

use crate::config::choices::Choice as _;
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{Field, ValueType, field, time};
use crate::config::section::{self, Section};
use crate::config::tree::NodeTable;

const KEY: &str = "multiline";

/// `multiline` as a table.
pub(super) const MULTILINE: &[Field] = &[
    field(
        "preset",
        ValueType::Choice(MultilinePreset::WORDS),
        Unset("`start` and `continue` define it"),
        "Stack traces of a language, with limits other than the defaults.",
    ),
    field(
        "start",
        ValueType::Text,
        Unset("any line that does not match `continue`"),
        "Regular expression: a line that matches it starts a record.",
    ),
    field(
        "continue",
        ValueType::Text,
        Unset("any line that does not match `start`"),
        "Regular expression: a line that matches it continues the record before it.",
    ),
    field(
        "timeout",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"1s\""),
        "How long to wait for further lines of a record after the last write.",
    ),
    field(
        "lines_max",
        ValueType::Count { min: 2, max: 100_000 },
        Value("500"),
        "Maximum number of lines per record; further lines start a new record. A record never has \
         more bytes than `line_max`.",
    ),
];

/// The rule of a source; `None` if its lines are not joined or the table is invalid.
pub(super) fn joining(source: &Section) -> Option<Joining> {
    let written = source.table(KEY);
    let preset = match written {
        Some(table) => table.optional_choice("preset"),
        None => source.optional_choice(KEY),
    };
    let rule = match (preset, written) {
        (Some(preset), _) => Multiline::preset(preset),
        (None, Some(table)) => {
            Multiline::pattern(table.text("start"), table.text("continue")).ok()?
        }
        (None, None) => return None,
    };
    // A word alone has the same limits as a table that does not set any.
    let defaults = defaults();
    let bounds = written.unwrap_or(&defaults);
    let lines = bounds.count("lines_max").and_then(|lines| u32::try_from(lines).ok());
    let rule = lines.map_or(rule.clone(), |lines| rule.lines_max(lines));
    Some(Joining { rule: Arc::new(rule), timeout: bounds.duration("timeout") })
}

/// The table with all defaults.
fn defaults() -> Section {
    let (empty, mut no_faults) = (NodeTable::default(), Diagnostics::default());
    section::read(&empty, &[MULTILINE], &[], KEY, None, &mut no_faults)
}

/// Checks the table.
pub(super) fn check(source: &Section, diagnostics: &mut Diagnostics) {
    let Some(table) = source.table(KEY) else { return };
    let patterns = ["start", "continue"];
    if table.is_set("preset") {
        for key in patterns.iter().filter(|key| table.is_set(key)) {
            let key_path = table.key_path(key);
            diagnostics
                .error(
                    table.location(key),
                    &key_path,
                    format!(
                        "{key_path} cannot be combined with preset, which has its own patterns"
                    ),
                )
                .other(table.location("preset"), "the preset is set at")
                .help("remove one of them");
        }
    } else if !patterns.iter().any(|key| table.is_set(key)) {
        diagnostics
            .error(
                table.location.clone(),
                &table.path,
                format!("{} does not define which lines belong together", table.path),
            )
            .help("add preset, start or continue, for example start = '^\\['");
    }
    for key in patterns {
        let Some(pattern) = table.text(key) else { continue };
        let Err(error) = Multiline::pattern(Some(pattern), None) else { continue };
        let key_path = table.key_path(key);
        let problem = match &error {
            MultilineError::Syntax(text) => text.lines().last().unwrap_or_default(),
            MultilineError::TooLarge => "it needs too much memory when compiled",
        };
        let problem = problem.trim_start_matches("error: ");
        diagnostics
            .error(
                table.location(key),
                &key_path,
                format!("{pattern:?} is not a valid regular expression: {problem}"),
            )
            .help("the syntax is that of RE2, without look-around and backreferences")
            .help("'...' preserves backslashes");
    }
}
