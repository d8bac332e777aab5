//! Common patterns of messages.

use anyhow::Result;
use weir_api::PatternsAnswer;
use weir_host::units::group_digits;

use super::{Search, counted, print};
use crate::cli::SearchOutput;
use crate::table::Table;

/// Default number of patterns.
const PATTERNS: u64 = 20;

impl Search<'_> {
    /// Prints patterns; returns the number of matching records.
    pub(super) fn patterns(&mut self) -> Result<u64> {
        let limit = self.args.limit.unwrap_or(PATTERNS);
        let path = self.request.address("/weir/v1/patterns", limit);
        let answer: PatternsAnswer = self.client.get(&path)?;
        self.notes.add(&answer.meta);
        let matched = answer.meta.weir.matched.unwrap_or(0);
        let text = match self.args.output {
            SearchOutput::Json => answer
                .patterns
                .iter()
                .map(|pattern| Ok(serde_json::to_string(pattern)? + "\n"))
                .collect::<Result<String>>()?,
            SearchOutput::Text | SearchOutput::Raw => table(&answer),
        };
        print(&text, self.args.output)?;
        let patterns = counted(answer.patterns.len() as u64, "pattern");
        self.notes.end(&format!("{patterns} in {}", counted(matched, "record")));
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
    let templates = answer.patterns.iter().map(|pattern| pattern.template.clone());
    table.with_last("PATTERN", templates)
}
