//! `weir dead-letter list|resend`: records that a destination rejected permanently.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use weir_host::terminal::printable;
use weir_host::units::{format_rfc3339, group_digits};
use weir_host::{RealClock, RealDisk};
use weir_pipeline::output::OutputContext;
use weir_pipeline::output::dead_letter::{self, DeadLetter};

use crate::cli::{ConfigArgs, DeadLetterCommand, Output};
use crate::command::config::{load_plan, locate};
use crate::exit::{Exit, ExitError};
use crate::term::{ColorChoice, note, print_data, print_json, print_text};

/// Runs the command.
pub(crate) fn run(command: &DeadLetterCommand, color: ColorChoice) -> Result<Exit> {
    match command {
        DeadLetterCommand::List { name, config, output } => list(name.as_deref(), config, *output),
        DeadLetterCommand::Resend { name, config, timeout, output } => {
            resend(name, config, *timeout, *output, color)
        }
    }
}

fn list(name: Option<&str>, config: &ConfigArgs, output: Output) -> Result<Exit> {
    let settings = locate(config)?;
    let dir = &settings.data_dir;
    let stored = dead_letter::outputs(dir)
        .with_context(|| format!("failed to read the dead letters in {}", dir.display()))?;
    let chosen: Vec<String> = match name {
        None => stored,
        Some(name) if stored.iter().any(|n| n == name) => vec![name.to_owned()],
        Some(name) if settings.outputs.iter().any(|n| n == name) => Vec::new(),
        Some(name) => {
            let message = format!(
                "there is no output {name:?}, and there are no dead letters with that name"
            );
            return Err(ExitError::with(Exit::NotFound, message));
        }
    };
    let (mut shown, mut unreadable) = (0_u64, 0_u64);
    for name in &chosen {
        let letters = dead_letter::list(dir, name)
            .with_context(|| format!("failed to read the dead letters of {name}"))?;
        for letter in letters {
            match letter {
                Ok(letter) if !print(&letter, output)? => return Ok(Exit::Ok),
                Ok(_) => shown += 1,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => unreadable += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    if unreadable > 0 {
        note(&format!("{} lines are not valid dead letters", group_digits(unreadable)));
    }
    if output == Output::Text {
        note(&format!("{} dead letters", group_digits(shown)));
    }
    Ok(Exit::Ok)
}

/// One line: time, output, reason and record. `Ok(false)`: the reader has closed the pipe.
fn print(letter: &DeadLetter, output: Output) -> Result<bool> {
    if output == Output::Json {
        return Ok(print_json(&(serde_json::to_string(letter)? + "\n"))?);
    }
    let body = String::from_utf8_lossy(&letter.record.body);
    let time = format_rfc3339(letter.time_ns);
    let line = format!("{time} {} {}: {body}", letter.output, letter.reason);
    Ok(print_data(&(printable(&line).into_owned() + "\n"))?)
}

fn resend(
    name: &str,
    config: &ConfigArgs,
    timeout: Duration,
    output: Output,
    color: ColorChoice,
) -> Result<Exit> {
    let plan = load_plan(config, color)?.pipeline;
    let Some(target) = plan.outputs.iter().find(|output| output.name == name) else {
        let names: Vec<&str> = plan.outputs.iter().map(|output| output.name.as_str()).collect();
        let message =
            format!("there is no output {name:?}; existing outputs: {}", names.join(", "));
        return Err(ExitError::with(Exit::NotFound, message));
    };
    let clock = Arc::new(RealClock::new());
    let context = OutputContext::new(plan.data_dir.clone(), clock, Arc::new(RealDisk));
    let report = dead_letter::resend(target, &context, timeout)?;
    match output {
        Output::Json => print_json(&format!(
            "{:#}\n",
            json!({ "schema": "weir.resend.v1", "output": name, "report": report })
        ))?,
        Output::Text => print_text(&format!(
            "{name}: {} delivered, {} rejected again, {} left, {} unreadable\n",
            group_digits(report.delivered),
            group_digits(report.refused),
            group_digits(report.left),
            group_digits(report.unreadable),
        ))?,
    };
    if report.left > 0 {
        let problem = report.problem.unwrap_or("no response before the timeout");
        let message = format!("{} records were not sent: {problem}", group_digits(report.left));
        return Err(ExitError::with(Exit::Temporary, message));
    }
    Ok(Exit::Ok)
}
