//! The fields of records.

use anyhow::Result;
use serde_json::Value;
use weir_api::{FacetEntry, FacetsAnswer};
use weir_host::units::group_digits;

use super::aggregates::short;
use super::unit;
use super::{Search, counted, print};
use crate::cli::SearchOutput;
use crate::table::Table;
use crate::term::{note, terminal_width};

/// Default number of fields.
const FIELDS: u64 = 20;

/// Floating-point numbers represent every integer below this, 2^53.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Maximum number of characters shown of a value.
const VALUE_CHARS_MAX: usize = 40;

impl Search<'_> {
    /// Prints fields with their values; returns the number of matching records.
    pub(super) fn fields(&mut self) -> Result<u64> {
        let limit = self.args.limit.unwrap_or(FIELDS);
        let answer: FacetsAnswer =
            self.client.get(&self.request.address("/weir/v1/facets", limit))?;
        self.notes.add(&answer.meta);
        let matched = answer.meta.weir.matched.unwrap_or(0);
        let text = match self.args.output {
            SearchOutput::Json => answer
                .facets
                .iter()
                .map(|facet| Ok(serde_json::to_string(facet)? + "\n"))
                .collect::<Result<String>>()?,
            SearchOutput::Text | SearchOutput::Raw => table(&answer.facets, terminal_width()),
        };
        print(&text, self.args.output)?;
        if answer.left_out > 0 {
            note(&format!("{} more (--limit)", counted(answer.left_out, "field")));
        }
        let fields = counted(answer.facets.len() as u64, "field");
        self.notes.end(&format!("{fields} in {}", counted(matched, "record")));
        Ok(matched)
    }
}

/// With a terminal width no line is wrapped: only as many values are shown as fit.
fn table(facets: &[FacetEntry], width: Option<usize>) -> String {
    let mut table = Table::new(&["FIELD", "RECORDS", "VALUES"], 1);
    for facet in facets {
        let distinct = facet.distinct.map_or_else(|| "many".to_owned(), group_digits);
        table.row(vec![facet.name.clone(), group_digits(facet.count), distinct]);
    }
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(table.width() + 2));
    table.with_last("MOST COMMON", facets.iter().map(|facet| most_common(facet, room)))
}

/// Some values with the number of records for each, and the range of numbers if there are more
/// values; limited to this many characters, but at least one item.
fn most_common(facet: &FacetEntry, room: usize) -> String {
    let has_more = facet.distinct.is_none_or(|distinct| distinct > facet.values.len() as u64);
    let range = match (facet.min, facet.max) {
        (Some(min), Some(max)) if has_more => {
            format!("{} to {}", bound(facet, min), bound(facet, max))
        }
        _ => String::new(),
    };
    let is_each_once = facet.values.first().is_some_and(|first| first.count == 1);
    let values = match () {
        () if is_each_once && facet.count > 1 => "each once".to_owned(),
        () => values(facet, room.saturating_sub(range.chars().count() + 2)),
    };
    let parts = [range, values].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<String>>().join(": ")
}

/// A value of the field.
fn shown(facet: &FacetEntry, value: &Value) -> String {
    unit::value(value, unit::to_show(&facet.name, facet.unit.as_deref()))
}

/// The minimum or maximum value, without a decimal point if it is an integer.
fn bound(facet: &FacetEntry, number: f64) -> String {
    let is_whole = number.fract() == 0.0 && number.abs() < EXACT_INTEGER_MAX;
    shown(facet, &if is_whole { (number as i64).into() } else { number.into() })
}

fn values(facet: &FacetEntry, room: usize) -> String {
    let mut text = String::new();
    for value in &facet.values {
        let name = short(shown(facet, &value.value), VALUE_CHARS_MAX);
        let next = format!("{name} ({})", group_digits(value.count));
        if text.is_empty() {
            text = next;
        } else if text.chars().count() + next.chars().count() + ",  …".chars().count() <= room {
            text = format!("{text}, {next}");
        } else {
            return text + " …";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_table_has_values_and_ranges() {
        let facet = |name: &str, count: u64, distinct: Option<u64>, values: &[(Value, u64)]| {
            let value = |(value, count): &(Value, u64)| json!({ "value": value, "count": count });
            let values: Vec<Value> = values.iter().map(value).collect();
            let mut facet =
                json!({ "name": name, "type": "text", "count": count, "values": values });
            if let Some(distinct) = distinct {
                facet["distinct"] = distinct.into();
            }
            serde_json::from_value(facet).unwrap()
        };
        let mut number: FacetEntry = facet("@n", 20, Some(20), &[(json!(1), 1), (json!(2), 1)]);
        (number.min, number.max) = (Some(1.0), Some(20.5));
        let mut code: FacetEntry = facet("@code", 2, Some(1), &[(json!(200), 2)]);
        (code.min, code.max) = (Some(200.0), Some(200.0));
        let facets = [
            facet("status", 3000, Some(2), &[(json!("info"), 2900), (json!("e\nr"), 100)]),
            number,
            code,
            facet("@id", 7, None, &[]),
        ];
        let text = table(&facets, None);
        let want = "  FIELD   RECORDS  VALUES  MOST COMMON\n  status    3,000       2  info (2,900), e⏎r (100)\n  @n           20      20  1 to 20.5: each once\n  @code         2       1  200 (2)\n  @id           7    many\n";
        assert_eq!(text, want);
        assert_eq!(table(&facets, Some(60)), want, "there is room");
        let narrow = table(&facets, Some(50));
        assert!(narrow.contains("  info (2,900) …\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    }
}
