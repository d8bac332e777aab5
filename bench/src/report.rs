//! Measurements, with their targets and limits, as a table and as recorded results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::process::Cpu;

/// The value that a measurement must reach.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// More is better.
    AtLeast(f64),
    /// Less is better.
    AtMost(f64),
}

/// A physical limit, measured in the same run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// Description of the limit.
    pub(crate) what: String,
    /// In the unit of the measurement.
    pub(crate) value: f64,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// Description, including the unit.
    pub(crate) what: String,
    /// Its value.
    pub(crate) value: f64,
    /// Its target.
    pub(crate) target: Option<Target>,
    /// The measured limit.
    pub(crate) limit: Option<Limit>,
}

impl Measurement {
    /// Creates a measurement without a target.
    pub(crate) fn new(what: &str, value: f64) -> Self {
        Self { what: what.to_owned(), value, target: None, limit: None }
    }

    /// Sets the target.
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Sets a limit measured in the same run.
    pub(crate) fn limit(mut self, what: &str, value: f64) -> Self {
        self.limit = Some(Limit { what: what.to_owned(), value });
        self
    }

    fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtLeast(wanted) => self.value >= wanted,
            Target::AtMost(wanted) => self.value <= wanted,
        })
    }

    fn row(&self) -> [String; 6] {
        let target = match self.target {
            Some(Target::AtLeast(value)) => format!(">= {}", number(value)),
            Some(Target::AtMost(value)) => format!("<= {}", number(value)),
            None => String::new(),
        };
        let met = self.is_met().map_or("", |met| if met { "yes" } else { "NO" });
        let limit = self.limit.as_ref();
        let ratio = limit.map_or(String::new(), |l| format!("{:.2}", self.value / l.value));
        let limit = limit.map_or(String::new(), |l| format!("{} ({})", number(l.value), l.what));
        [self.what.clone(), number(self.value), target, met.to_owned(), limit, ratio]
    }
}

/// The measurements of one scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Description of the scenario, in one sentence.
    pub(crate) what: String,
    /// The measurements.
    pub(crate) measurements: Vec<Measurement>,
    /// CPU-seconds of weir by thread, in the run of the first measurement.
    pub(crate) cpu_seconds: BTreeMap<String, f64>,
    /// Measurements of other programs for the same job, made elsewhere, for reference.
    pub(crate) reference: Option<String>,
}

impl Outcome {
    /// Creates an outcome without measurements.
    pub(crate) fn new(what: String) -> Self {
        Self { what, measurements: Vec::new(), cpu_seconds: BTreeMap::new(), reference: None }
    }

    /// Records the CPU time by thread.
    pub(crate) fn set_cpu(&mut self, cpu: &Cpu) {
        let seconds = |(name, time): (&String, &std::time::Duration)| {
            (name.clone(), (time.as_secs_f64() * 1000.0).round() / 1000.0)
        };
        self.cpu_seconds = cpu.threads.iter().map(seconds).filter(|(_, s)| *s > 0.0).collect();
    }

    /// Returns true if every target was reached.
    pub(crate) fn is_met(&self) -> bool {
        self.measurements.iter().all(|measurement| measurement.is_met() != Some(false))
    }

    /// Returns the outcome as Markdown, which is also how it is printed.
    pub(crate) fn page(&self, name: &str) -> String {
        let mut page = format!("## {name}\n\n{}\n\n", self.what);
        let head = ["measurement", "measured", "target", "met", "limit in the same run", "ratio"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.measurements.iter().map(Measurement::row));
        let width = |column: usize| rows.iter().map(|r| r[column].len()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for (index, row) in rows.iter().enumerate() {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            let _ = writeln!(page, "| {} |", cells.join(" | "));
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
                let _ = writeln!(page, "| {} |", rules.join(" | "));
            }
        }
        if !self.cpu_seconds.is_empty() {
            let parts: Vec<String> =
                self.cpu_seconds.iter().map(|(name, s)| format!("{name} {s:.3}")).collect();
            let _ = writeln!(page, "\nCPU-seconds by thread: {}.", parts.join(", "));
        }
        if let Some(reference) = &self.reference {
            let _ = writeln!(page, "\nFor reference: {reference}");
        }
        page
    }
}

/// Returns the value below which this share of sorted values lies; `None` if there are none.
pub(crate) fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    sorted.get((sorted.len().saturating_sub(1) as f64 * share) as usize).copied()
}

/// Formats a number with an appropriate number of digits.
fn number(value: f64) -> String {
    if value.abs() < 1000.0 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[derive(Debug, Serialize, Deserialize)]
struct Results {
    machine: Machine,
    scenarios: BTreeMap<String, Outcome>,
}

/// Replaces the earlier outcome of the same scenario and machine.
pub(crate) fn record(name: &str, outcome: &Outcome) -> Result<()> {
    let machine = Machine::here();
    let dir = Path::new("bench/results");
    let json = dir.join(format!("{}.json", machine.name));
    let mut results = match fs::read(&json) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("recorded results are damaged")?,
        Err(_) => Results { machine: machine.clone(), scenarios: BTreeMap::new() },
    };
    results.machine = machine;
    results.scenarios.insert(name.to_owned(), outcome.clone());
    fs::write(&json, serde_json::to_string_pretty(&results)? + "\n")?;
    fs::write(json.with_extension("md"), results_page(&results))?;
    Ok(())
}

fn results_page(results: &Results) -> String {
    let machine = &results.machine;
    let mut page = format!(
        "# Results on {}\n\nWritten by `cargo xtask bench`. {}, {} cores, {} GiB, Linux {}.\n",
        machine.name, machine.processor, machine.cores, machine.memory_gib, machine.kernel
    );
    for (name, outcome) in &results.scenarios {
        page.push('\n');
        page.push_str(&outcome.page(name));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            ["0.25", "3", "1,000", "1,234,567"],
            [0.25, 3.0, 1000.0, 1_234_567.0].map(number)[..]
        );
    }

    #[test]
    fn the_report_marks_missed_targets() {
        let mut outcome = Outcome::new("A job.".to_owned());
        outcome.measurements.push(
            Measurement::new("lines", 10.0).target(Target::AtLeast(20.0)).limit("bare loop", 40.0),
        );
        assert!(!outcome.is_met());
        let page = outcome.page("x");
        let row = page.lines().find(|line| line.starts_with("| lines ")).expect("its row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..6], ["lines", "10", ">= 20", "NO", "40 (bare loop)"]);
    }
}
