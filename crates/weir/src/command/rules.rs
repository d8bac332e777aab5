//! `weir rules`: statistics for each rule of a running weir, as text or as JSON.

use anyhow::{Context as _, Result};
use weir_api::RulesDocument;
use weir_host::units::group_digits;

use crate::cli::{ApiArgs, Output};
use crate::client::Client;
use crate::exit::Exit;
use crate::table::Table;
use crate::term::{ColorChoice, Paint, Style, note, print_json, print_painted};

/// Runs the command.
pub(crate) fn run(args: &ApiArgs, output: Output, color: ColorChoice) -> Result<Exit> {
    let body = Client::new(args)?.get_text("/weir/v1/rules")?;
    let rules: RulesDocument = serde_json::from_str(&body)
        .context("the rules are not in the format that this release of weir expects")?;
    match output {
        Output::Json => print_json(&body)?,
        Output::Text => print_painted(&text(&rules, Paint::for_stdout(color)))?,
    };
    if rules.rules.is_empty() {
        note("there are no rules: every record goes to every output");
    }
    Ok(Exit::Ok)
}

fn text(document: &RulesDocument, paint: Paint) -> String {
    let mut table = Table::new(&["RULE", "HITS", "SHARE", "UNPARSED", "CPU", "LAST MATCH"], 1);
    for rule in &document.rules {
        table.row(vec![
            rule.name.clone(),
            group_digits(rule.hits),
            share(rule.hits, document.records),
            group_digits(rule.unparsed),
            cpu(rule.cpu_seconds, document.records),
            rule.last_hit.clone().unwrap_or_else(|| "never".to_owned()),
        ]);
    }
    let title = format!("Rules, generation {} since {}", document.generation, document.since);
    format!(
        "{}\n{}\n  {} records checked, {} routed by no rule; all rules {} CPU per record\n",
        paint.paint(Style::Strong, &title),
        table.text(),
        group_digits(document.records),
        group_digits(document.unrouted),
        cpu(document.cpu_seconds, document.records),
    )
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

/// CPU time per record.
fn cpu(seconds: f64, records: u64) -> String {
    if records == 0 { "-".to_owned() } else { format!("{:.0} ns", seconds * 1e9 / records as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::RuleEntry;

    #[test]
    fn rules_are_shown_with_hits_cost_and_last_match() {
        let rule = |name: &str, hits, last: Option<&str>| RuleEntry {
            name: name.to_owned(),
            hits,
            unparsed: hits / 4,
            last_hit: last.map(str::to_owned),
            cpu_seconds: 0.000_1,
        };
        let document = RulesDocument {
            schema: String::new(),
            generation: 3,
            since: "2026-01-01T00:00:00Z".to_owned(),
            records: 2000,
            unrouted: 10,
            cpu_seconds: 0.001,
            rules: vec![rule("web", 500, Some("2026-01-01T00:00:01Z")), rule("never", 0, None)],
        };
        let want = "Rules, generation 3 since 2026-01-01T00:00:00Z
  RULE   HITS  SHARE  UNPARSED    CPU            LAST MATCH
  web     500  25.0%       125  50 ns  2026-01-01T00:00:01Z
  never     0   0.0%         0  50 ns                 never

  2,000 records checked, 10 routed by no rule; all rules 500 ns CPU per record
";
        assert_eq!(text(&document, Paint::off()), want);
    }
}
