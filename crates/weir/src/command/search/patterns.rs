//! What messages have in common.

use anyhow::Result;
use weir_api::PatternsAnswer;
use weir_host::net::percent_encoded;
use weir_host::terminal::printable;
use weir_host::units::{format_duration, group_digits};

use super::{Search, counted};
use crate::cli::SearchOutput;
use crate::table::Table;
use crate::term::print_data;

/// Patterns, unless asked otherwise.
const PATTERNS: u64 = 20;

impl Search<'_> {
    /// Prints patterns; returns how many records match.
    pub(super) fn patterns(&mut self) -> Result<u64> {
        let (request, limit) = (&self.request, self.args.limit.unwrap_or(PATTERNS));
        let mut path = format!("/weir/v1/patterns?limit={limit}");
        let mut add = |name: &str, value: &str| {
            path.extend(["&", name, "=", &percent_encoded(value)]);
        };
        add("query", &request.query);
        add("from", &request.from);
        if let Some(to) = &request.to {
            add("to", to);
        }
        if !request.measures.is_empty() {
            add("measures", &serde_json::json!(request.measures).to_string());
        }
        if let Some(timeout) = self.args.timeout {
            add("timeout", &format_duration(timeout));
        }
        let answer: PatternsAnswer = self.client.get(&path)?;
        self.notes.add(&answer.meta);
        let matched = answer.meta.weir.matched.unwrap_or(0);
        let text = match self.args.output {
            SearchOutput::Json => answer
                .patterns
                .iter()
                .map(|pattern| serde_json::to_string(pattern).unwrap_or_default() + "\n")
                .collect(),
            SearchOutput::Text | SearchOutput::Raw => table(&answer),
        };
        print_data(&text)?;
        let patterns = counted(answer.patterns.len() as u64, "pattern");
        self.notes.end(&format!("{patterns} of {}", counted(matched, "record")));
        Ok(matched)
    }
}

fn table(answer: &PatternsAnswer) -> String {
    let mut table = Table::new(&["COUNT", "SHARE"], 0);
    for pattern in &answer.patterns {
        let share = match pattern.share * 100.0 {
            share if share < 0.05 => "<0.1 %".to_owned(),
            share => format!("{share:.1} %"),
        };
        table.row(vec![group_digits(pattern.count), share]);
    }
    let templates = answer.patterns.iter().map(|pattern| printable(&pattern.template).into_owned());
    let titles = std::iter::once("PATTERN".to_owned()).chain(templates);
    let lines = table.text();
    let mut text = String::new();
    for (line, title) in lines.lines().zip(titles) {
        text.extend([line, "  ", &title, "\n"]);
    }
    text
}
