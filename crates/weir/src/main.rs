//! weir: collects logs, delivers and stores them, with a ledger that balances.
//!
//! The binary reads the command line and the configuration; the other crates do the work.
//! Invariants: a command returns an [`exit::Exit`] or an error, and only this file turns them into
//! an exit code and a line on stderr; nothing is opened before the whole configuration is valid.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod command;
mod config;
mod event;
mod exit;
mod logging;
mod row;
mod signal;
mod store;
mod table;
mod term;

use std::process::ExitCode;

use clap::CommandFactory as _;

use cli::{Cli, Command, LoadCommand};
use exit::{Exit, ExitError};
use term::{Paint, Style, note_painted};
use weir_host::terminal::printable_lines;

/// Returns memory to the system once it is no longer needed: ADR 26.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    let color = cli.color;
    let exit = dispatch(cli).unwrap_or_else(|error| {
        let (exit, message) = match error.downcast_ref::<ExitError>() {
            Some(error) => (error.exit, error.message.clone()),
            None => (Exit::Failed, format!("{error:#}")),
        };
        if !message.is_empty() {
            let word = Paint::for_stderr(color).paint(Style::Bad, "error");
            note_painted(&format!("{word}: {}", printable_lines(&message)));
        }
        exit
    });
    ExitCode::from(exit.code())
}

fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    let color = cli.color;
    match cli.command {
        Command::Run { config } => command::run::run(&config, color),
        Command::Config(command) => command::config::run(&command, color),
        Command::Ledger { api, output } => command::ledger::run(&api, output, color),
        Command::Rules { api, output } => command::rules::run(&api, output, color),
        Command::Tail(args) => command::tail::run(&args, color),
        Command::Search(args) => command::search::run(&args, color),
        Command::Store(command) => command::store::run(&command, color),
        Command::Top { api, once, interval } => command::top::run(&api, once, interval, color),
        Command::DeadLetter(command) => command::dead_letter::run(&command, color),
        Command::Cursor(command) => command::cursor::run(&command),
        Command::Drains(command) => command::drains::run(&command),
        Command::Load(LoadCommand::File(args)) => command::load::file(&args),
        Command::Load(LoadCommand::Demo(args)) => command::load::demo(&args),
        Command::Torture(args) => command::torture::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
            term::print_data(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Ok)
        }
        Command::Man { command } => {
            term::print_data(&command::man::page(Cli::command(), &command)?)?;
            Ok(Exit::Ok)
        }
    }
}
