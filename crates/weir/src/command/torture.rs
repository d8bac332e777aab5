//! `weir torture`: tests this binary on this machine's disk, and verifies its ledger.

use std::io::{self, IsTerminal as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;
use weir_measure::torture::{self, TortureError, TorturePlan, TortureReport};

use crate::cli::{Output, TortureArgs};
use crate::exit::{Exit, ExitError};
use crate::term::{note, note_in_place, print_json, print_text};

/// Runs the command.
pub(crate) fn run(args: &TortureArgs) -> Result<Exit> {
    let binary = std::env::current_exe().context("failed to find this executable")?;
    let dir = empty_dir(&args.dir)?;
    let seed = args.seed.unwrap_or_else(seed);
    let plan = TorturePlan {
        binary,
        dir,
        duration: args.duration,
        seed,
        lines_per_second: f64::from(args.rate),
    };
    let shown = plan.dir.display();
    note(&format!("torture in {shown} for {:?}, seed {seed}", args.duration));
    let report = match tortured(&plan) {
        Ok(report) => report,
        Err(TortureError::Interrupted) => {
            note(&format!("interrupted; {shown} is kept"));
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error).context(format!("no result; see {shown}")),
    };
    match args.output {
        Output::Text if !args.json => print_text(&report.to_string())?,
        _ => {
            let verdict = report.is_passed();
            let document =
                json!({ "schema": "weir.torture.v1", "passed": verdict, "report": report });
            print_json(&format!("{document:#}\n"))?
        }
    };
    end(&plan, &report)
}

/// Prints how to reproduce the run, or cleans up.
fn end(plan: &TorturePlan, report: &TortureReport) -> Result<Exit> {
    let dir = plan.dir.display();
    if report.is_passed() {
        std::fs::remove_dir_all(&plan.dir).with_context(|| format!("failed to remove {dir}"))?;
        return Ok(Exit::Ok);
    }
    note(&format!("kept: {dir} (history.txt, weir.log, logs, data)"));
    note(&format!(
        "to repeat: weir torture --for {}s --seed {} --rate {} --dir AN_EMPTY_DIRECTORY",
        plan.duration.as_secs_f64().ceil(),
        plan.seed,
        plan.lines_per_second
    ));
    Ok(Exit::Failed)
}

/// Runs the test, and shows the injected faults if stderr is a terminal.
fn tortured(plan: &TorturePlan) -> Result<TortureReport, TortureError> {
    let is_interrupted = crate::signal::interrupted()
        .map_err(|source| TortureError::Io { what: "receive signals", source })?;
    let is_terminal = io::stderr().is_terminal();
    let started = Instant::now();
    let report = torture::run(plan, |what| {
        if is_terminal && !what.is_empty() {
            note_in_place(&format!("{:>4} s  {what}", started.elapsed().as_secs()));
        }
        let is_over = is_interrupted.load(Ordering::Relaxed);
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if is_terminal {
        note("");
    }
    report
}

/// Returns the directory as an absolute path; creates it if missing, and fails if it is not empty.
fn empty_dir(dir: &Path) -> Result<std::path::PathBuf> {
    let shown = dir.display();
    std::fs::create_dir_all(dir).with_context(|| format!("failed to create {shown}"))?;
    let mut entries = std::fs::read_dir(dir).with_context(|| format!("failed to list {shown}"))?;
    if entries.next().is_some() {
        let message = format!("{shown} is not empty: name another one with --dir, or remove it");
        return Err(ExitError::with(Exit::Usage, message));
    }
    std::fs::canonicalize(dir).with_context(|| format!("failed to resolve {shown}"))
}

/// A random seed.
fn seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    // Short enough to type.
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000_000
}
