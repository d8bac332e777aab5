//! Errors and warnings about a configuration, with what is needed to fix them: file, line and
//! column, key path, the line itself with a caret, and a suggestion.
//!
//! Invariants: all errors are collected, none hides another; a line that may contain a secret is
//! shown without its values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use weir_host::terminal::{printable, printable_lines};

use super::text::{SourceLocation, Texts};
use crate::term::{Paint, Style};

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Weir does not start.
    Error,
    /// Weir starts and logs it.
    Warning,
}

/// One error or warning.
#[derive(Debug)]
pub(crate) struct Diagnostic {
    pub(crate) level: Level,
    /// The message: one lower-case sentence without a full stop.
    pub(crate) message: String,
    pub(crate) location: Option<SourceLocation>,
    /// Such as `output.splunk.endpoint`; empty for the file as a whole.
    pub(crate) key_path: String,
    /// How to fix it.
    pub(crate) help: Vec<String>,
    /// A related place, and a description of it.
    pub(crate) other: Option<(SourceLocation, &'static str)>,
    /// The line may contain a secret.
    pub(crate) secret: bool,
}

/// All errors and warnings.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(pub(crate) Vec<Diagnostic>);

impl Diagnostics {
    /// Adds an error; returns it so that details can be added.
    pub(crate) fn error(
        &mut self,
        location: Option<SourceLocation>,
        key_path: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Level::Error, location, key_path, message.into())
    }

    /// Adds a warning.
    pub(crate) fn warn(
        &mut self,
        location: Option<SourceLocation>,
        key_path: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Level::Warning, location, key_path, message.into())
    }

    fn add(
        &mut self,
        level: Level,
        location: Option<SourceLocation>,
        key_path: &str,
        message: String,
    ) -> &mut Diagnostic {
        self.0.push(Diagnostic {
            level,
            message,
            location,
            key_path: key_path.to_owned(),
            help: Vec::new(),
            other: None,
            secret: false,
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Whether weir must not start.
    pub(crate) fn has_errors(&self) -> bool {
        self.count(Level::Error) > 0
    }

    /// The number of diagnostics of a level.
    pub(crate) fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|d| d.level == level).count()
    }

    /// Where the text is not valid TOML, removes the errors that follow from it: others on the same
    /// line, and missing keys of its table.
    pub(crate) fn drop_consequences(&mut self, texts: &Texts) {
        let line = |location: &SourceLocation| (location.file, texts.line(location).number);
        let is_syntax = |d: &Diagnostic| d.message.starts_with(NOT_TOML);
        let broken = self.0.iter().filter(|d| is_syntax(d)).filter_map(|d| d.location.as_ref());
        let broken: BTreeSet<_> = broken.map(line).collect();
        if broken.is_empty() {
            return;
        }
        let mut seen = BTreeSet::new();
        self.0.retain(|d| match &d.location {
            Some(location) if is_syntax(d) => seen.insert(line(location)),
            Some(location) => {
                let (file, number) = line(location);
                let rest = texts.files()[file].text.lines().skip(number);
                let table_len = rest.take_while(|line| !line.trim_start().starts_with('[')).count();
                let in_table = broken.range((file, number)..=(file, number + table_len));
                let lacks = d.message.ends_with("is missing") && in_table.count() > 0;
                !(lacks || broken.contains(&(file, number)))
            }
            None => false,
        });
    }

    /// Sorts them in the order of the text; those without a place come last.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|d| {
            d.location
                .as_ref()
                .map_or((usize::MAX, 0), |location| (location.file, location.span.start))
        });
    }

    /// Renders all of them for a terminal, each followed by an empty line.
    pub(crate) fn render(&self, texts: &Texts, paint: Paint) -> String {
        self.0.iter().map(|d| d.render(texts, paint) + "\n").collect()
    }

    /// Renders all of them as one JSON array.
    pub(crate) fn to_json(&self, texts: &Texts) -> Value {
        self.0.iter().map(|d| d.to_json(texts)).collect()
    }
}

impl Diagnostic {
    /// Adds a suggestion.
    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help.push(help.into());
        self
    }

    /// Adds `did you mean ...` if a known name is similar.
    pub(crate) fn nearest<'a>(
        &mut self,
        written: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> &mut Self {
        if let Some(name) = nearest(written, known) {
            self.help(format!("did you mean {name:?}?"));
        }
        self
    }

    /// Adds a second place.
    pub(crate) fn other(
        &mut self,
        location: Option<SourceLocation>,
        note: &'static str,
    ) -> &mut Self {
        self.other = location.map(|location| (location, note));
        self
    }

    /// Marks that the line may contain a secret: its values are not shown.
    pub(crate) fn secret(&mut self) -> &mut Self {
        self.secret = true;
        self
    }

    pub(crate) fn render(&self, texts: &Texts, paint: Paint) -> String {
        let (word, style) = match self.level {
            Level::Error => ("error", Style::Bad),
            Level::Warning => ("warning", Style::Warn),
        };
        let mut out = format!("{}: {}\n", paint.paint(style, word), printable_lines(&self.message));
        let mut margin = 1;
        if let Some(location) = &self.location {
            margin = self.render_location(location, texts, paint, style, &mut out);
        }
        if let Some((location, note)) = &self.other {
            let line = texts.line(location);
            let at = format!("{}:{}:{}", printable(texts.name(location)), line.number, line.column);
            let _infallible = writeln!(out, "{:margin$} = {note}: {at}", "");
        }
        for help in &self.help {
            let _infallible = writeln!(out, "{:margin$} = {}", "", printable_lines(help));
        }
        out
    }

    /// Renders the place, the line and the caret; returns the width of the margin.
    fn render_location(
        &self,
        location: &SourceLocation,
        texts: &Texts,
        paint: Paint,
        style: Style,
        out: &mut String,
    ) -> usize {
        let line = texts.line(location);
        let number = line.number.to_string();
        let margin = number.len();
        let shown = shown_line(line.text, self.secret);
        let (column, width) = caret(&shown, line.column, line.width);
        let caret = paint.paint(style, &"^".repeat(width));
        let path = if self.key_path.is_empty() {
            String::new()
        } else {
            format!("  {}", paint.paint(Style::Strong, &self.key_path))
        };
        let at = format!("{}:{}:{}", printable(texts.name(location)), line.number, line.column);
        let pad = " ".repeat(column - 1);
        let _infallible = write!(
            out,
            "{:margin$}--> {at}{path}\n{:margin$} |\n{number} | {shown}\n{:margin$} | {pad}{caret}\n",
            "", "", "",
        );
        margin
    }

    fn to_json(&self, texts: &Texts) -> Value {
        let at = |location: &SourceLocation| {
            let line = texts.line(location);
            json!({ "file": texts.name(location), "line": line.number, "column": line.column })
        };
        json!({
            "level": if self.level == Level::Error { "error" } else { "warning" },
            "message": self.message,
            "key": self.key_path,
            "place": self.location.as_ref().map(at),
            "other_place": self.other.as_ref().map(|(location, _)| at(location)),
            "help": self.help,
        })
    }
}

/// Start of the message about text that is not valid TOML.
pub(crate) const NOT_TOML: &str = "not valid TOML";

/// Maximum length of a line that is shown.
const LINE_CHARS_MAX: usize = 160;

/// The line as it can be shown: tabs become spaces, control characters are removed, and the values
/// on a line that may contain a secret are hidden. Key words in the line count too, because a
/// misspelt key or a syntax error must not print a token either.
fn shown_line(line: &str, secret: bool) -> String {
    const WORDS: [&str; 6] = ["token", "secret", "passw", "credential", "apikey", "api_key"];
    let lower = without_paths(&line.to_ascii_lowercase());
    let secret = secret || WORDS.iter().any(|word| lower.contains(word));
    let cut = match line.split_once('=') {
        Some((key, value)) if secret && !is_reference(value) => format!("{key}= ***"),
        None if secret && !line.trim_start().starts_with('[') => "***".to_owned(),
        _ => line.to_owned(),
    };
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_CHARS_MAX).collect()
}

/// The line without the paths in quotes: `/etc/passwd` is not a secret.
fn without_paths(line: &str) -> String {
    let is_path = |text: &str| {
        let is_start = ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
        is_start && !text.contains([' ', '=', ':', '?'])
    };
    let (mut text, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(at);
        let (quote, inner) = quoted.split_at(1);
        let Some((value, after)) = inner.split_once(quote) else { break };
        text.push_str(before);
        text.push_str(if is_path(value) { "" } else { value });
        rest = after;
    }
    text + rest
}

/// `{ env = "..." }` or `{ file = "..." }` and nothing else.
fn is_reference(value: &str) -> bool {
    let value = value.trim_start();
    value.starts_with('{')
        && (value.contains("env") || value.contains("file"))
        && value.matches(['"', '\'']).count() == 2
}

/// Column and width of the caret within the shown part of the line.
fn caret(shown: &str, column: usize, width: usize) -> (usize, usize) {
    let shown_width = shown.chars().count();
    let column = column.min(shown_width + 1);
    (column, width.min((shown_width + 1).saturating_sub(column)).max(1))
}

/// Former names of keys.
const FORMER_NAMES: [(&str, &str); 2] = [("limit", "size_max"), ("measures", "calculated_fields")];

/// The known name that is most similar to what was written, if it is similar enough.
pub(crate) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_ascii_lowercase().replace('-', "_");
    let known: Vec<&str> = known.collect();
    // `buffer_limit` is now `buffer_max`, and so on.
    let bound = lower.strip_suffix("_limit").map(|stem| format!("{stem}_max"));
    let current = FORMER_NAMES.iter().find(|(former, _)| *former == lower).map(|(_, name)| *name);
    let renamed = known.iter().find(|name| Some(**name) == bound.as_deref().or(current));
    if let Some(name) = renamed {
        return Some(name);
    }
    let near_max = (lower.chars().count() / 3).clamp(1, 3);
    // Every single letter is one edit away from every other.
    let is_letter = |name: &str| name.chars().nth(1).is_none();
    if is_letter(&lower) {
        return None;
    }
    known
        .into_iter()
        .filter(|name| !is_letter(name))
        .map(|name| {
            let distance = strsim::osa_distance(&lower, name);
            // A word that was left out (`size` for `batch_size`) is many edits away but still
            // similar.
            let inside = lower.len() >= 3
                && (name.split('_').any(|w| w == lower) || lower.split('_').any(|w| w == name));
            (if inside { distance.min(near_max) } else { distance }, name)
        })
        .filter(|(distance, _)| *distance <= near_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_tolerates_typos_case_and_old_names() {
        let known = [
            "endpoint",
            "batch_size",
            "connections_max",
            "ring",
            "buffer_max",
            "size_max",
            "calculated_fields",
            "p",
        ];
        for (written, expected) in [
            ("endpont", Some("endpoint")),
            ("Endpoint", Some("endpoint")),
            ("batch-size", Some("batch_size")),
            ("connections", Some("connections_max")),
            ("rnig", Some("ring")),
            ("colour", None),
            ("o", None),
            ("or", None),
            ("buffer_limit", Some("buffer_max")),
            ("limit", Some("size_max")),
            ("measures", Some("calculated_fields")),
        ] {
            assert_eq!(nearest(written, known.into_iter()), expected, "{written}");
        }
    }

    #[test]
    fn secret_values_are_hidden() {
        for (line, secret) in [
            ("token = \"hidden\"", false),
            ("tokn = \"hidden\"", true),
            ("hec_token=\"hidden\" # note", false),
            ("password \"hidden\"", false),
        ] {
            assert!(!shown_line(line, secret).contains("hidden"), "{line}");
        }
        assert!(shown_line("token = { env = \"HEC_TOKEN\" }", false).contains("HEC_TOKEN"));
        assert!(shown_line("endpoint = \"x\"", false).contains("\"x\""));
        assert!(shown_line("data_dir=\"/etc/passwd\"", false).contains("/etc/passwd"));
        assert!(!shown_line("tokn=\"/hidden\"", true).contains("hidden"));
        assert!(!shown_line("password=\"/hidden\"", false).contains("hidden"));
        assert!(!shown_line("x=\"/a?token=hidden\"", false).contains("hidden"));
    }

    #[test]
    fn only_colors_of_weir_are_in_the_text() {
        let mut texts = Texts::default();
        let file = texts.add("a\u{1b}[8m.toml", "x\u{1b}[8m = 1\n".to_owned());
        let mut diagnostics = Diagnostics::default();
        let location = Some(SourceLocation { file, span: 0..1 });
        diagnostics
            .error(location.clone(), "x.\u{1b}[8mk", "unknown key \u{1b}[8m")
            .help("write \u{1b}[8m")
            .other(location, "first defined here");
        let text = diagnostics.render(&texts, Paint::off());
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let text = diagnostics.render(&texts, Paint::on());
        assert!(!text.contains("\u{1b}[8m"), "{text:?}");
    }

    #[test]
    fn caret_stays_within_the_line() {
        assert_eq!(caret("abc", 2, 9), (2, 2));
        assert_eq!(caret("abc", 9, 9), (4, 1));
    }
}
