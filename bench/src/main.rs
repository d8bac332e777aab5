//! Benchmarks of the whole product: `cargo xtask bench <scenario>`.
//!
//! Invariants: weir runs as its own process and only its CPU time is counted; what it is compared
//! with (a bare loop, the compressor, the disk) is measured in the same run on the same bytes; a
//! run in which a record is missing fails, however fast it was.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tables go to stdout and progress to stderr"
)]

mod agent;
mod bare;
mod clock;
mod data;
mod grpc;
mod http;
mod machine;
mod peer;
mod process;
mod report;
mod scenario;
mod sink;
mod weir;
mod writer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Benchmarks of weir; `WEIR_BIN` is the binary under test.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", subcommand_required = false)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// Scenario; without one they are listed, `all` runs all of them.
    scenario: Option<String>,
    #[command(flatten)]
    options: scenario::Options,
}

/// Processes that scenarios start next to weir, so that their CPU time is not weir's.
#[derive(Debug, Subcommand)]
enum Part {
    /// A collector that responds at once and counts.
    #[command(hide = true)]
    Sink(sink::Settings),
    /// Writes lines at a fixed rate.
    #[command(hide = true)]
    Write(writer::Settings),
    /// Appends to a journal as a source does.
    #[command(hide = true, name = "drive-journal")]
    Journal(scenario::journal::Settings),
    /// Fills a journal that no destination reads.
    #[command(hide = true, name = "fill-journal")]
    Fill(scenario::backlog::Settings),
}

fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<()> {
    match cli.part {
        Some(Part::Sink(settings)) => sink::serve(&settings),
        Some(Part::Write(settings)) => writer::write(&settings),
        Some(Part::Journal(settings)) => scenario::journal::drive(&settings),
        Some(Part::Fill(settings)) => scenario::backlog::fill(&settings),
        None => scenario::run(cli.scenario.as_deref(), &cli.options),
    }
}
