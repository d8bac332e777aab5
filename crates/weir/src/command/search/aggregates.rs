//! Aggregates of groups, as a table.

use anyhow::Result;
use serde_json::{Map, Value, json};
use weir_api::{AggregateAnswer, AggregateBucket, ScanMeta};

use super::request::Aggregate;
use super::unit::{self, Units};
use super::{Search, counted, print};
use crate::cli::SearchOutput;
use crate::table::Table;
use crate::term::note;

/// Default number of values per field.
const GROUPS: u64 = 10;

/// Maximum number of characters of a value in a table; `--output json` shows all.
const VALUE_CHARS_MAX: usize = 100;

impl Search<'_> {
    /// Prints groups; returns the number of records in them.
    pub(super) fn print_aggregates(&mut self) -> Result<u64> {
        let aggregates = Aggregate::all(self.args);
        let limit = self.args.limit.unwrap_or(GROUPS);
        let mut body = self.request.aggregates_body(&aggregates, &self.args.group_by, limit);
        let mut buckets: Vec<AggregateBucket> = Vec::new();
        let meta = loop {
            let page = self.aggregate(&body)?;
            buckets.extend(page.data.buckets);
            let Some(next) = page.meta.page else { break page.meta.weir };
            body["page"] = serde_json::json!({ "cursor": next.after });
        };
        let matched = meta.matched.unwrap_or(0);
        let text = match self.args.output {
            SearchOutput::Json => json_lines(&aggregates, &buckets),
            SearchOutput::Text | SearchOutput::Raw => {
                table(&self.args.group_by, &aggregates, &meta, &buckets)
            }
        };
        print(&text, self.args.output)?;
        let without = matched.saturating_sub(meta.grouped.unwrap_or(matched));
        // For an unknown field a warning has already said that no record has it.
        if without > 0 && !(without == matched && self.notes.has("unknown_field")) {
            let have = if without == 1 { "has" } else { "have" };
            let fields = self.args.group_by.join(" or no ");
            note(&format!("{} {have} no {fields}", counted(without, "record")));
        }
        let groups = counted(buckets.len() as u64, "group");
        self.notes.end(&format!("{groups} in {}", counted(matched, "record")));
        Ok(matched)
    }

    pub(super) fn aggregate(&mut self, body: &Value) -> Result<AggregateAnswer> {
        let answer: AggregateAnswer = self.client.post("/api/v2/logs/analytics/aggregate", body)?;
        self.notes.add(&answer.meta);
        Ok(answer)
    }
}

/// Aggregates are named as they were requested.
fn json_lines(aggregates: &[Aggregate], buckets: &[AggregateBucket]) -> String {
    let line = |bucket: &AggregateBucket| {
        let named = aggregates.iter().enumerate();
        let named = named.filter_map(|(index, f)| Some((f.name(), bucket.value(index)?.clone())));
        let computes: Map<String, Value> = named.collect();
        json!({ "by": bucket.by, "computes": computes }).to_string() + "\n"
    };
    buckets.iter().map(line).collect()
}

fn table(
    fields: &[String],
    aggregates: &[Aggregate],
    meta: &ScanMeta,
    buckets: &[AggregateBucket],
) -> String {
    let mut units = Units::default();
    units.add(&meta.units);
    let titles: Vec<String> = aggregates.iter().map(Aggregate::title).collect();
    let head: Vec<&str> = fields.iter().chain(&titles).map(String::as_str).collect();
    let mut table = Table::new(&head, fields.len());
    for bucket in buckets {
        let by = fields.iter().map(|field| {
            let value = bucket.by.get(field).unwrap_or(&Value::Null);
            short(unit::value(value, units.of(field)), VALUE_CHARS_MAX)
        });
        let computes = (0..aggregates.len()).map(|index| {
            let number = bucket.value(index).and_then(Value::as_f64);
            number.map_or_else(|| "-".to_owned(), |number| unit::show(number, meta.unit(index)))
        });
        table.row(by.chain(computes).collect());
    }
    table.text()
}

/// Truncates a value that is too long for a table.
pub(super) fn short(value: String, chars_max: usize) -> String {
    match value.char_indices().nth(chars_max) {
        None => value,
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_truncated() {
        let most = "ü".repeat(VALUE_CHARS_MAX);
        let short = |value: &str| short(value.to_owned(), VALUE_CHARS_MAX);
        assert_eq!(short(&most), most);
        assert_eq!(short(&format!("{most}üx")), most + "…");
    }

    #[test]
    fn groups_table_has_units() {
        let bucket = |by: Value, computes: Value| {
            serde_json::from_value(json!({ "by": by, "computes": computes })).unwrap()
        };
        let buckets = [
            bucket(
                json!({ "service": "web", "@delay": 65_000_000 }),
                json!({ "c0": 1200, "c1": 2.5e6 }),
            ),
            bucket(json!({ "service": "\u{1b}[2J" }), json!({ "c0": 3 })),
        ];
        let aggregates = [Aggregate::parse("count"), Aggregate::parse("avg:@duration")];
        let units =
            [("c1", "ns"), ("@delay", "ns")].map(|(of, unit)| (of.to_owned(), unit.to_owned()));
        let meta = ScanMeta { units: units.into(), ..ScanMeta::default() };
        let want = "  service    @delay  count  avg(@duration)\n  web        65ms    1,200         2.50 ms\n  \\u{1b}[2J  -           3               -\n";
        let fields = ["service", "@delay"].map(str::to_owned);
        assert_eq!(table(&fields, &aggregates, &meta, &buckets), want);
        let lines = json_lines(&aggregates, &buckets);
        let want = r#"{"by":{"@delay":65000000,"service":"web"},"computes":{"avg:@duration":2500000.0,"count":1200}}"#;
        assert_eq!(lines.lines().next(), Some(want));
        assert!(lines.lines().nth(1).unwrap().ends_with(r#""computes":{"count":3}}"#), "{lines}");
    }
}
