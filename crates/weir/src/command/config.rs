//! `weir config check|default|schema|reference`, and what every command that needs a
//! configuration does with a wrong one.

use anyhow::Result;
use serde_json::json;

use crate::cli::{ConfigArgs, ConfigCommand, Output};
use crate::config::{self, Level, Loaded, Plan};
use crate::exit::{Exit, ExitError};
use crate::term::{ColorChoice, Paint, note, print_data};

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand, color: ColorChoice) -> Result<Exit> {
    match command {
        ConfigCommand::Check { config, output } => check(config, *output, color),
        ConfigCommand::Default => print(config::DEFAULT),
        ConfigCommand::Schema => print(&format!("{:#}\n", config::schema())),
        ConfigCommand::Reference => print(&config::reference()),
    }
}

fn print(text: &str) -> Result<Exit> {
    print_data(text)?;
    Ok(Exit::Ok)
}

fn check(args: &ConfigArgs, output: Output, color: ColorChoice) -> Result<Exit> {
    let loaded = load(args)?;
    let exit = if loaded.diagnostics.has_errors() { Exit::ConfigInvalid } else { Exit::Ok };
    if output == Output::Json {
        let report = json!({
            "schema": "weir.config_check.v1",
            "valid": exit == Exit::Ok,
            "diagnostics": loaded.diagnostics.to_json(&loaded.texts),
        });
        return print(&format!("{report:#}\n")).map(|_| exit);
    }
    show(&loaded, color);
    if let Some(plan) = &loaded.plan {
        print(&format!("the configuration is valid: {}\n", summary(plan)))?;
    }
    Ok(exit)
}

/// Reads the configuration; a file that cannot be read is a wrong configuration.
pub(crate) fn load(args: &ConfigArgs) -> Result<Loaded> {
    config::load(args.config.as_deref())
        .map_err(|error| ExitError::with(Exit::ConfigInvalid, error.to_string()))
}

/// The plan, or all that is wrong on stderr. Warnings are shown either way.
pub(crate) fn load_plan(args: &ConfigArgs, color: ColorChoice) -> Result<Plan> {
    let loaded = load(args)?;
    show(&loaded, color);
    loaded.plan.ok_or_else(|| ExitError::with(Exit::ConfigInvalid, ""))
}

fn show(loaded: &Loaded, color: ColorChoice) {
    let diagnostics = &loaded.diagnostics;
    if diagnostics.0.is_empty() {
        return;
    }
    let text = diagnostics.render(&loaded.texts, Paint::for_stderr(color));
    note(text.trim_end());
    let counts = [
        counted(diagnostics.count(Level::Error), "error"),
        counted(diagnostics.count(Level::Warning), "warning"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let place = match loaded.texts.files() {
        [one] => one.name.clone(),
        many => format!("{} files", many.len()),
    };
    note(&format!("\n{} in {place}", counts.join(" and ")));
}

/// `1 error`, `2 errors`; none for none.
fn counted(n: usize, noun: &str) -> Option<String> {
    match n {
        0 => None,
        1 => Some(format!("1 {noun}")),
        n => Some(format!("{n} {noun}s")),
    }
}

/// `2 sources, 1 output, API on 127.0.0.1:7080`.
pub(crate) fn summary(plan: &Plan) -> String {
    let api = match plan.api_listen {
        Some(address) => format!("API on http://{address}"),
        None => "no API".to_owned(),
    };
    let parts = [
        counted(plan.pipeline.sources.len(), "source"),
        counted(plan.pipeline.outputs.len(), "output"),
        Some(api),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
