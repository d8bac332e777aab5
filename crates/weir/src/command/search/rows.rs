//! Records: page by page until the requested number is reached.

use std::collections::BTreeMap;
use std::io;

use anyhow::Result;
use serde_json::Value;
use weir_api::{LogEntry, SearchAnswer};
use weir_host::Zone;
use weir_host::terminal::printable;

use super::unit::{self, Units};
use super::{Search, counted, print};
use crate::cli::{SearchArgs, SearchOutput};
use crate::row::{Painter, Row, attribute, in_zone};
use crate::term::{Paint, Style};

/// Default number of rows.
const ROWS: u64 = 100;

/// Maximum number of records per page.
const PAGE: u64 = 1000;

/// Maximum width of a column that is used for alignment.
const COLUMN_CHARS_MAX: usize = 40;

impl Search<'_> {
    /// Prints records; returns their number.
    pub(super) fn rows(&mut self) -> Result<u64> {
        let mut printer = Printer::new(self.args, &self.request.query, self.paint());
        let (mut found, mut is_read) = (0, true);
        let has_more = self.pages(|page, units| {
            found += page.len() as u64;
            printer.units.add(units);
            is_read = printer.print(&page)?;
            Ok(is_read)
        })?;
        if !is_read {
            return Ok(found);
        }
        for name in printer.empty_columns().filter(|_| found > 0) {
            self.notes.warn(&format!("no row has the column {name}"));
        }
        let more = if has_more { ", and there are more (--limit)" } else { "" };
        self.notes.end(&format!("{}{more}", counted(found, "row")));
        Ok(found)
    }

    /// Passes on the requested number of records, page by page with the units of calculated fields,
    /// until the callback returns false. Returns true if there are more.
    pub(super) fn pages(
        &mut self,
        mut take: impl FnMut(Vec<LogEntry>, &BTreeMap<String, String>) -> Result<bool>,
    ) -> Result<bool> {
        let mut left = self.args.limit.unwrap_or(ROWS);
        let mut cursor: Option<String> = None;
        while left > 0 {
            let body = self.request.page(left.min(PAGE), cursor.as_deref());
            let page: SearchAnswer = self.client.post("/api/v2/logs/events/search", &body)?;
            self.notes.add(&page.meta);
            left = left.saturating_sub(page.data.len() as u64);
            cursor = page.meta.page.map(|page| page.after);
            if !take(page.data, &page.meta.weir.units)? || cursor.is_none() {
                break;
            }
        }
        Ok(cursor.is_some())
    }

    pub(super) fn paint(&self) -> Paint {
        Paint::for_stdout(self.color)
    }
}

/// Records as text.
pub(crate) struct Printer {
    output: SearchOutput,
    columns: Vec<String>,
    widths: Vec<usize>,
    /// Columns for which a row had a value.
    filled: Vec<bool>,
    has_head: bool,
    zone: Zone,
    pub(super) units: Units,
    paint: Paint,
    painter: Painter,
}

impl Printer {
    pub(super) fn new(args: &SearchArgs, query: &str, paint: Paint) -> Self {
        let columns = args.columns.clone();
        let widths = columns.iter().map(|name| printable(name).chars().count()).collect();
        let (painter, filled) = (Painter::new(query, paint), vec![false; columns.len()]);
        let (output, zone, units) = (args.output, args.zone(), Units::default());
        Self { output, columns, widths, filled, has_head: false, zone, units, paint, painter }
    }

    /// Columns for which no row had a value: perhaps misspelt.
    fn empty_columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().zip(&self.filled);
        columns.filter(|(_, filled)| !**filled).map(|(name, _)| name.as_str())
    }

    fn values(&mut self, entry: &LogEntry) -> Vec<Value> {
        let values: Vec<Value> = self.columns.iter().map(|name| value(entry, name)).collect();
        for (filled, value) in self.filled.iter_mut().zip(&values) {
            *filled |= !value.is_null();
        }
        values
    }

    /// Prints a page. `Ok(false)`: the reader has closed the pipe.
    pub(crate) fn print(&mut self, entries: &[LogEntry]) -> io::Result<bool> {
        print(&self.page(entries)?, self.output)
    }

    /// The text of a page.
    fn page(&mut self, entries: &[LogEntry]) -> serde_json::Result<String> {
        if !self.columns.is_empty() && self.output == SearchOutput::Text {
            return Ok(self.table(entries));
        }
        entries.iter().map(|entry| self.row(entry)).collect()
    }

    fn row(&mut self, entry: &LogEntry) -> serde_json::Result<String> {
        Ok(match self.output {
            SearchOutput::Text => self.painter.line(&Row::of_entry(entry).in_zone(&self.zone)),
            SearchOutput::Raw => Row::of_entry(entry).message + "\n",
            SearchOutput::Json => {
                // Only the requested columns, if any.
                let json = if self.columns.is_empty() {
                    serde_json::to_string(entry)?
                } else {
                    let values = self.values(entry);
                    let members = self.columns.iter().cloned().zip(values);
                    Value::Object(members.collect()).to_string()
                };
                json + "\n"
            }
        })
    }

    /// Aligned columns, also across pages.
    fn table(&mut self, entries: &[LogEntry]) -> String {
        let cells: Vec<Vec<String>> = entries.iter().map(|entry| self.cells(entry)).collect();
        for row in &cells {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().min(COLUMN_CHARS_MAX).max(*width);
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_head, true) && !cells.is_empty() {
            let head: Vec<String> =
                self.columns.iter().map(|name| printable(name).into_owned()).collect();
            let head = self.line(&head);
            text.push_str(&self.paint.paint(Style::Strong, head.trim_end()));
            text.push('\n');
        }
        for row in &cells {
            text.push_str(self.line(row).trim_end());
            text.push('\n');
        }
        text
    }

    fn cells(&mut self, entry: &LogEntry) -> Vec<String> {
        let values = self.values(entry);
        let columns = self.columns.iter().zip(&values);
        let shown = columns.map(|(column, value)| match value {
            Value::String(time) if column == "timestamp" => cell(&in_zone(time, &self.zone).into()),
            value => unit::value(value, self.units.of(column)),
        });
        shown.collect()
    }

    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            line.push_str(cell);
            let fill = (width + 2).saturating_sub(cell.chars().count()).max(2);
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line
    }
}

/// The value of a column in a record.
fn value(entry: &LogEntry, column: &str) -> Value {
    let record = &entry.attributes;
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::String);
    match column {
        "id" => entry.id.clone().into(),
        "timestamp" => match &entry.weir {
            Some(weir) => weir.timestamp.clone().into(),
            None => record.timestamp.clone().into(),
        },
        "service" => text(&record.service),
        "host" => text(&record.host),
        "status" => text(&record.status),
        "message" => text(&record.message),
        "source" => entry.weir.as_ref().map_or(Value::Null, |weir| text(&weir.source)),
        "tags" => record.tags.join(" ").into(),
        path => {
            let name = path.strip_prefix('@').unwrap_or(path);
            let tag = || record.tag(path).map(Value::from);
            let lag = || entry.weir.as_ref().filter(|_| path == "@lag")?.lag_ns.map(Value::from);
            let of_record = attribute(&record.attributes, name).cloned().or_else(tag);
            of_record.or_else(lag).unwrap_or_default()
        }
    }
}

/// On one line, without terminal control characters.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(&text.replace('\n', "⏎").replace('\t', " ")).into_owned(),
        value => printable(&value.to_string()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn heads_of_columns_are_escaped() {
        let column = "@\u{1b}]0;x\u{7}\u{1b}[8m\r\u{9b}";
        let cli = Cli::try_parse_from(["weir", "search", "--columns", column]).unwrap();
        let Command::Search(args) = cli.command else { unreachable!("it is a search") };
        for paint in [Paint::on(), Paint::off()] {
            let mut printer = Printer::new(&args, "", paint);
            let entry = serde_json::from_value(serde_json::json!({
                "id": "i", "type": "log", "attributes": { "timestamp": "t", "message": "m", "tags": [], "attributes": {} },
            }));
            let text = printer.page(&[entry.unwrap()]).unwrap();
            let head = "@\\u{1b}]0;x\\u{7}\\u{1b}[8m\\r\\u{9b}";
            assert!(text.contains(head) && !text.contains("\u{1b}[8m"), "{text:?}");
        }
    }
}
