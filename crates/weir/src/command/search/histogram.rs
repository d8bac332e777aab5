//! An aggregate over time, drawn with bars as wide as the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};
use weir_api::AggregateAnswer;
use weir_codec::parse_rfc3339;
use weir_expr::{Status, Unit};
use weir_host::units::format_duration;
use weir_host::{Calendar, Zone};

use super::request::Aggregate;
use super::unit;
use super::{Search, counted};
use crate::cli::SearchOutput;
use crate::term::{Paint, Style, note, stdout_width};

/// Maximum number of bars: intervals without records are drawn too.
const BARS_MAX: usize = 10_000;

/// Minimum width of a bar.
const BAR_CHARS_MIN: usize = 10;

/// Eighths of a character, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bar {
    /// `None` if there is no value to compute from: a gap, not a 0.
    value: Option<f64>,
    /// The part of the value for errors and above.
    bad: f64,
}

impl Search<'_> {
    /// Prints a bar for each interval; returns the number of records.
    pub(super) fn histogram(&mut self) -> Result<u64> {
        let aggregate = Aggregate::all(self.args).swap_remove(0);
        let body = self.request.series(&aggregate, self.args.interval.as_deref());
        let answer = self.aggregate(&body)?;
        let matched = answer.meta.weir.matched.unwrap_or(0);
        let interval_ns = answer.meta.weir.interval_ns.unwrap_or(0).max(1);
        // Without records the count is 0; any other aggregate has no value.
        let empty = Bar { value: aggregate.is_count().then_some(0.0), bad: 0.0 };
        let zone = self.args.zone();
        let bars = bars(&answer, &Calendar::new(&zone, interval_ns), empty);
        let text = match self.args.output {
            SearchOutput::Json => json_lines(&bars, &zone),
            SearchOutput::Text | SearchOutput::Raw => {
                draw(&bars, &zone, answer.meta.weir.unit(0), stdout_width(), self.paint())
            }
        };
        super::print(&text, self.args.output)?;
        let interval = std::time::Duration::from_nanos(interval_ns.cast_unsigned());
        let bad = if aggregate.is_count() { "; ▓ marks errors and above" } else { "" };
        note(&format!(
            "each bar covers {} of {}{bad}",
            format_duration(interval),
            aggregate.title()
        ));
        self.notes.end(&counted(matched, "record"));
        Ok(matched)
    }
}

/// A bar for each interval of the range, including those without records.
fn bars(answer: &AggregateAnswer, calendar: &Calendar, empty: Bar) -> BTreeMap<i64, Bar> {
    let time = |text: Option<&str>| parse_rfc3339(text?.as_bytes());
    let mut bars: BTreeMap<i64, Bar> = BTreeMap::new();
    let meta = &answer.meta.weir;
    if let (Some(from_ns), Some(to_ns)) = (time(meta.from.as_deref()), time(meta.to.as_deref())) {
        let mut at = calendar.bucket(from_ns).0;
        while at < to_ns && bars.len() < BARS_MAX {
            bars.insert(at, empty);
            at = calendar.bucket(at).1;
        }
    }
    for bucket in &answer.data.buckets {
        let status = bucket.by.get("status").and_then(Value::as_str);
        let is_bad = status
            .and_then(|text| Status::parse(text.as_bytes()))
            .is_some_and(|status| status >= Status::Error);
        for point in bucket.value(0).and_then(Value::as_array).into_iter().flatten() {
            let (Some(at), Some(value)) = (time(point["time"].as_str()), point["value"].as_f64())
            else {
                continue;
            };
            let bar = bars.entry(at).or_default();
            bar.value = Some(bar.value.unwrap_or(0.0) + value);
            bar.bad += if is_bad { value } else { 0.0 };
        }
    }
    bars
}

fn json_lines(bars: &BTreeMap<i64, Bar>, zone: &Zone) -> String {
    let line = |(time_ns, bar): (&i64, &Bar)| {
        format!("{}\n", json!({ "time": zone.format_rfc3339(*time_ns), "value": bar.value }))
    };
    bars.iter().map(line).collect()
}

/// With the UTC offset unless the zone is UTC, since an hour may occur twice.
fn time_text(time_ns: i64, zone: &Zone) -> String {
    let text = zone.format_rfc3339(time_ns);
    let offset = if zone.is_utc() { "" } else { &text[23..] };
    format!("{}{offset}", &text[..19])
}

fn draw(
    bars: &BTreeMap<i64, Bar>,
    zone: &Zone,
    unit: Option<Unit>,
    width: usize,
    paint: Paint,
) -> String {
    let most = bars.values().filter_map(|bar| bar.value).fold(0.0, f64::max);
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit::show(value, unit));
    let values: Vec<String> = bars.values().map(|bar| shown(bar.value)).collect();
    let value_width = values.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let times: Vec<String> = bars.keys().map(|time_ns| time_text(*time_ns, zone)).collect();
    let time_width = times.iter().map(String::len).max().unwrap_or(0);
    // Time, value, and two separators of two spaces.
    let taken = time_width + 2 + 2 + value_width;
    let bar_width = width.saturating_sub(taken).max(BAR_CHARS_MIN);
    let mut text = String::new();
    for ((time, bar), value) in times.iter().zip(bars.values()).zip(&values) {
        let drawn = draw_bar(*bar, most, bar_width, paint);
        // Writing to a string cannot fail.
        let line = format!("{time:time_width$}  {value:>value_width$}  {drawn}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A bar for `done` out of `most`, at most `width` characters wide.
pub(crate) fn bar(done: f64, most: f64, width: usize) -> String {
    draw_bar(Bar { value: Some(done), bad: 0.0 }, most, width, Paint::off())
}

/// A bar in eighths of characters; any value above 0 is visible.
fn draw_bar(bar: Bar, most: f64, width: usize, paint: Paint) -> String {
    let eighths = |value: f64| match value {
        value if value > 0.0 => ((value / most * width as f64 * 8.0) as usize).max(1),
        _ => 0,
    };
    let bad = eighths(bar.bad).div_ceil(8);
    let rest = eighths(bar.value.unwrap_or(0.0)).saturating_sub(bad * 8);
    let mut text = String::new();
    if bad > 0 {
        text.push_str(&paint.paint(Style::Bad, &"▓".repeat(bad)));
    }
    text.push_str(&"█".repeat(rest / 8));
    text.extend((rest % 8).checked_sub(1).and_then(|eighth| EIGHTHS.get(eighth)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_the_width() {
        let answer: AggregateAnswer = serde_json::from_value(json!({
            "data": { "buckets": [
                { "by": { "status": "error" }, "computes": { "c0": [
                    { "time": "2026-01-01T00:00:00.000Z", "value": 2 }] } },
                { "by": { "status": "info" }, "computes": { "c0": [
                    { "time": "2026-01-01T00:00:00.000Z", "value": 6 },
                    { "time": "2026-01-01T00:02:00.000Z", "value": 1 }] } },
            ] },
            "meta": { "elapsed": 1, "request_id": "", "status": "done", "weir": {
                "partial": false, "from": "2026-01-01T00:00:01Z", "to": "2026-01-01T00:03:00Z",
                "parts": 0, "rows": 0, "pages": 0, "pages_pruned": 0, "bytes": 0 } },
        }))
        .unwrap();
        let counted = Bar { value: Some(0.0), bad: 0.0 };
        let minutes = Calendar::new(&Zone::UTC, 60_000_000_000);
        let gaps = super::bars(&answer, &minutes, Bar::default());
        let bars = bars(&answer, &minutes, counted);
        let text = draw(&bars, &Zone::UTC, None, 40, Paint::off());
        let want = "\
2026-01-01T00:00:00  8  ▓▓▓▓████████████
2026-01-01T00:01:00  0
2026-01-01T00:02:00  1  ██
";
        assert_eq!(text, want);
        let text = draw(&gaps, &Zone::UTC, None, 40, Paint::off());
        assert_eq!(text.lines().nth(1), Some("2026-01-01T00:01:00  -"));
        let lines = json_lines(&gaps, &Zone::UTC);
        assert!(lines.lines().nth(1).unwrap().ends_with("\"value\":null}"), "{lines}");
        assert_eq!(draw_bar(Bar { value: Some(1.0), bad: 0.0 }, 100.0, 10, Paint::off()), "▏");
        assert_eq!(draw_bar(Bar { value: Some(1.0), bad: 1.0 }, 100.0, 10, Paint::off()), "▓");
        assert!(
            json_lines(&bars, &Zone::UTC)
                .starts_with("{\"time\":\"2026-01-01T00:00:00.000Z\",\"value\":8.0}")
        );
    }

    #[test]
    fn daily_bars_follow_the_zone() {
        let answer: AggregateAnswer = serde_json::from_value(json!({
            "data": { "buckets": [{ "by": {}, "computes": { "c0": [
                { "time": "2026-10-25T23:00:00.000Z", "value": 2 }] } }] },
            "meta": { "elapsed": 1, "request_id": "", "status": "done", "weir": {
                "partial": false, "from": "2026-10-24T12:00:00Z", "to": "2026-10-26T12:00:00Z",
                "parts": 0, "rows": 0, "pages": 0, "pages_pruned": 0, "bytes": 0 } },
        }))
        .unwrap();
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let days = Calendar::new(&zone, 86_400_000_000_000);
        let bars = bars(&answer, &days, Bar { value: Some(0.0), bad: 0.0 });
        let want = "\
2026-10-24T00:00:00+02:00  0
2026-10-25T00:00:00+02:00  0
2026-10-26T00:00:00+01:00  2  ██████████
";
        assert_eq!(draw(&bars, &zone, None, 40, Paint::off()), want);
        let lines = json_lines(&bars, &zone);
        assert!(lines.ends_with("{\"time\":\"2026-10-26T00:00:00.000+01:00\",\"value\":2.0}\n"));
    }
}
