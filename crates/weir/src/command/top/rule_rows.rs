//! The busiest rules as rows of text.
//!
//! Invariant: at most [`ROWS_MAX`] rows, with the rules that matched most between the two readings
//! first, so that a thousand rules do not fill the screen; `weir rules` lists them all.

use weir_api::{RuleEntry, RulesDocument};
use weir_host::units::group_digits;

use super::model::{ComponentState, Rates, Row};

/// Columns of rules.
pub(super) const RULE_HEAD: [&str; 7] =
    ["RULE", "HITS/S", "SHARE", "CPU", "HITS", "UNPARSED", "LAST MATCH"];

/// Maximum number of rules shown.
pub(super) const ROWS_MAX: usize = 10;

/// The busiest rules.
pub(super) fn rows(earlier: &RulesDocument, now: &RulesDocument, rates: &Rates) -> Vec<Row> {
    let records = now.records.saturating_sub(earlier.records);
    let mut changes: Vec<RuleDelta<'_>> =
        now.rules.iter().map(|rule| RuleDelta::of(earlier, rule)).collect();
    changes.sort_by_key(|change| std::cmp::Reverse((change.hits(), change.now.hits)));
    let shown = changes.iter().take(ROWS_MAX);
    shown.map(|change| change.row(now, records, rates)).collect()
}

/// The title, with the number of rules if not all of them are shown.
pub(super) fn title(now: &RulesDocument) -> String {
    match now.rules.len() {
        count if count > ROWS_MAX => {
            format!("Rules (the busiest {ROWS_MAX} of {}; weir rules)", group_digits(count as u64))
        }
        _ => "Rules".to_owned(),
    }
}

/// A rule in two readings.
struct RuleDelta<'a> {
    earlier: Option<&'a RuleEntry>,
    now: &'a RuleEntry,
}

impl<'a> RuleDelta<'a> {
    fn of(earlier: &'a RulesDocument, now: &'a RuleEntry) -> Self {
        Self { earlier: earlier.rules.iter().find(|rule| rule.name == now.name), now }
    }

    /// Records that it matched between the readings.
    fn hits(&self) -> u64 {
        self.earlier.map_or(0, |earlier| self.now.hits.saturating_sub(earlier.hits))
    }

    fn row(&self, document: &RulesDocument, records: u64, rates: &Rates) -> Row {
        let earlier = self.earlier.unwrap_or(self.now);
        let share = match records {
            0 => "-".to_owned(),
            _ => format!("{:.1}%", self.hits() as f64 * 100.0 / records as f64),
        };
        let last = self.now.last_hit.clone().unwrap_or_else(|| "never".to_owned());
        Row {
            cells: vec![
                self.now.name.clone(),
                rates.count(earlier.hits, self.now.hits),
                share,
                rates.share(earlier.cpu_seconds, self.now.cpu_seconds),
                group_digits(self.now.hits),
                group_digits(self.now.unparsed),
                last,
            ],
            state: ComponentState::Ok,
            detail: format!(
                "rule {}: {} of {} records since {}, generation {}; {} records routed by no rule",
                self.now.name,
                group_digits(self.now.hits),
                group_digits(document.records),
                document.since,
                document.generation,
                group_digits(document.unrouted),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(records: u64, hits: &[(&str, u64)]) -> RulesDocument {
        let rule = |(name, hits): &(&str, u64)| RuleEntry {
            name: (*name).to_owned(),
            hits: *hits,
            unparsed: *hits / 10,
            last_hit: (*hits > 0).then(|| "2026-01-01T00:00:01Z".to_owned()),
            cpu_seconds: *hits as f64 / 1e4,
        };
        RulesDocument {
            schema: String::new(),
            generation: 3,
            since: "2026-01-01T00:00:00Z".to_owned(),
            records,
            unrouted: 10,
            cpu_seconds: 0.0,
            rules: hits.iter().map(rule).collect(),
        }
    }

    #[test]
    fn busiest_rule_is_first() {
        let earlier = document(1000, &[("old", 900), ("never", 0), ("new", 10)]);
        let now = document(1400, &[("old", 900), ("never", 0), ("new", 110)]);
        let rows = rows(&earlier, &now, &Rates::over(2.0));
        let names: Vec<&str> = rows.iter().map(|row| row.cells[0].as_str()).collect();
        assert_eq!(names, ["new", "old", "never"]);
        assert_eq!(rows[0].cells[1..6], ["50", "25.0%", "0.5%", "110", "11"]);
        assert_eq!(rows[2].cells[1..], ["0", "0.0%", "0.0%", "0", "0", "never"]);
        assert_eq!(title(&now), "Rules");
    }

    #[test]
    fn rule_rows_are_limited() {
        let names: Vec<String> = (0..1000).map(|n| format!("r{n}")).collect();
        let hits: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let now = document(1000, &hits);
        assert_eq!(rows(&now, &now, &Rates::over(1.0)).len(), ROWS_MAX);
        assert_eq!(title(&now), "Rules (the busiest 10 of 1,000; weir rules)");
    }
}
