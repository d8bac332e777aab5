//! All commands of the repository: `cargo xtask <command>`.
//!
//! Invariants: works on a fresh machine that has rustup and no other requirement of weir; what is
//! missing is reported, with the reason, before it is installed; tests and checks share one
//! profile, so nothing is built twice; the commands are the same here, in CI and for a developer.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a command-line tool reports on stderr what it does")]

mod arrows;
mod check;
mod closed;
mod dependencies;
mod generate;
mod modules;
mod page;
mod paths;
mod setup;
mod shell;
mod tidy;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::paths::Profile;
use crate::shell::{cargo, run};

/// All commands of the weir repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Set up, build and start weir with its built-in default configuration.
    Run {
        /// Passed on to `weir run`, for example `-- -c weir.toml`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Set up and build the release binary, with link-time optimization and without symbols.
    Dist,
    /// Set up, check, and run every test of the workspace.
    Test,
    /// Check formatting, lints, crate arrows, house rules, licenses and generated files.
    Check,
    /// Run one benchmark scenario (without a name: list them).
    Bench {
        /// Name of the scenario, and its options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fuzz one target of `fuzz/` (needs the nightly toolchain; without a name: list them).
    Fuzz {
        /// Name of the target.
        name: Option<String>,
        /// Duration in seconds.
        #[arg(long, default_value_t = 60)]
        secs: u64,
    },
    /// Run simulated histories of the journal, of a source of files or of listening sources,
    /// against an oracle for each destination, and print the shortest history that still fails.
    Simulate {
        /// A source that follows files: programs write and rotate logs while it runs.
        #[arg(long, conflicts_with = "damage")]
        tail: bool,
        /// Listening sources with quotas: senders with and without acknowledgement.
        #[arg(long, conflicts_with_all = ["damage", "tail"])]
        intake: bool,
        /// Number of seeds, one history each.
        #[arg(long, default_value_t = 20_000)]
        seeds: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Run only this seed, and print everything that happens.
        #[arg(long, conflicts_with_all = ["seeds", "from"])]
        seed: Option<u64>,
        /// Continue until this many have failed.
        #[arg(long, default_value_t = 1)]
        failures: u64,
        /// Also damage segments and the cursor log between two runs.
        #[arg(long)]
        damage: bool,
    },
    /// Set up, build, and draw every screen of the page in a browser, and the pictures of the
    /// guide.
    Screenshots {
        /// Folder for the screens.
        #[arg(default_value = "target/screenshots")]
        folder: PathBuf,
    },
    /// Write the generated files: reference pages and configuration schema.
    Gen {
        /// Write nothing; fail if a file is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(task: Task) -> Result<()> {
    match task {
        Task::Run { arguments } => start(&arguments),
        Task::Dist => {
            page::build()?;
            let binary = build_binary(setup::for_build()?, Profile::Dist)?;
            eprintln!("{}", binary.display());
            Ok(())
        }
        Task::Test => test(),
        Task::Check => {
            let features = setup::for_build()?;
            setup::for_checks()?;
            page::check()?;
            check::sources(features)?;
            generate::generate(&build_binary(features, Profile::Checked)?, true)
        }
        Task::Bench { arguments } => bench(&arguments),
        Task::Fuzz { name, secs } => fuzz(name.as_deref(), secs),
        Task::Simulate { tail, intake, seeds, from, seed, failures, damage } => {
            let mut command = simulator(tail, intake);
            command.env("WEIR_SIMULATE_SEEDS", seeds.to_string());
            command.env("WEIR_SIMULATE_FROM", from.to_string());
            command.env("WEIR_SIMULATE_FAILURES", failures.to_string());
            command.envs(seed.map(|seed| ("WEIR_SIMULATE_SEED", seed.to_string())));
            command.envs(damage.then_some(("WEIR_SIMULATE_DAMAGE", "1")));
            run(&mut command).context("a history failed")
        }
        Task::Screenshots { folder } => {
            page::build()?;
            page::draw(&build_binary(setup::for_build()?, Profile::Release)?, &folder)
        }
        Task::Gen { check } => {
            let binary = build_binary(setup::for_build()?, Profile::Checked)?;
            generate::generate(&binary, check)
        }
    }
}

fn start(arguments: &[String]) -> Result<()> {
    page::build_if_possible();
    let binary = build_binary(setup::for_build()?, Profile::Release)?;
    let mut command = Command::new(binary);
    command.current_dir(paths::root()).arg("run").args(arguments);
    // Weir replaces this process, so that signals reach it and its exit code is returned.
    Err(command.exec()).context("failed to start weir")
}

/// Builds weir; returns the path of the binary.
///
/// Cargo selects the features of dependencies for the packages of a command, and for tests once a
/// test is among its targets. So every command names the whole workspace, and commands with the
/// checked profile also a test: another selection would rebuild half of the dependencies.
fn build_binary(features: &[&str], profile: Profile) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--profile", profile.name(), "--workspace", "--bin", "weir"]);
    if profile == Profile::Checked {
        build.args(["--test", "simulate"]);
    }
    run(build.args(features))?;
    profile.binary("weir")
}

/// The last lines are cargo's own "test result" lines: nothing is printed after them.
fn test() -> Result<()> {
    let features = setup::for_build()?;
    let tools = setup::for_tests()?;
    page::check()?;
    page::build()?;
    check::sources(features)?;
    // Tests and programs in one go: cargo selects features for a whole command.
    let mut build = cargo();
    let profile = Profile::Checked;
    build.args(["build", "--profile", profile.name(), "--workspace", "--all-targets"]);
    run(build.args(features))?;
    let binary = profile.binary("weir")?;
    generate::generate(&binary, true)?;
    let mut command = cargo();
    command.args(["test", "--profile", profile.name(), "--workspace", "--no-fail-fast"]);
    command.args(features);
    command.env("WEIR_BIN", &binary).envs(tools);
    page::end_to_end(&binary)?;
    run(&mut command).context("tests failed")
}

fn bench(arguments: &[String]) -> Result<()> {
    let features = setup::for_build()?;
    let mut build = cargo();
    build.args(["build", "--release", "--workspace", "--bin", "weir", "--bin", "weir-bench"]);
    run(build.args(features))?;
    let binary = Profile::Release.binary("weir")?;
    let mut command = Command::new(Profile::Release.binary("weir-bench")?);
    command.current_dir(paths::root()).env("WEIR_BIN", binary).args(arguments);
    if arguments.first().is_some_and(|name| name.starts_with("syslog") || name == "all") {
        command.env("WEIR_SYSLOG_SERVERS", setup::syslog_servers()?);
    }
    run(&mut command)
}

/// The simulators are tests of the journal and of the pipeline, so that a part of them runs with
/// all other tests; environment variables control the rest.
fn simulator(tail: bool, intake: bool) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", Profile::Checked.name(), "--workspace"]);
    command.args(match (tail, intake) {
        (false, false) => [
            "--test=simulate",
            "every_record_has_arrived_at_each_destination_or_is_in_its_own_discards",
        ],
        (true, _) => {
            ["--lib", "every_line_has_arrived_at_each_destination_or_the_books_say_why_not"]
        }
        (false, true) => [
            "--lib",
            "what_was_acknowledged_has_arrived_and_what_was_lost_or_discarded_is_counted_exactly",
        ],
    });
    command.args(["--", "--nocapture"]);
    // The printed history shows the failure; a stack trace of the test does not help.
    command.env("RUST_BACKTRACE", "0");
    command
}

fn fuzz(name: Option<&str>, secs: u64) -> Result<()> {
    setup::for_fuzzing()?;
    let mut command = setup::cargo_fuzz()?;
    command.current_dir(paths::root());
    let Some(name) = name else { return run(command.arg("list")) };
    let corpus = paths::root().join("fuzz/corpus").join(name);
    std::fs::create_dir_all(&corpus).context("failed to create the corpus folder")?;
    command.arg("run").arg(name).arg(&corpus);
    let seeds = paths::root().join("fuzz/seeds").join(name);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    run(command.arg("--").arg(format!("-max_total_time={secs}")))
}
