//! The command line: commands and options as clap reads them, nothing else.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::term::ColorChoice;

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    the configuration is not valid
  4    what was named does not exist
  75   not possible now, try again
  130  ended by Ctrl-C

Data goes to stdout, everything else to stderr.
Begin with `weir run`; then, in another terminal, `weir top` and `weir load file`.";

/// Tails logs and delivers them, and always knows how many it read, where each one went, how late
/// it was and how many were lost.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check, print or describe the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file, or a directory whose *.toml files are taken together. Default: built in.
    #[arg(short, long, value_name = "FILE|DIR", env = "WEIR_CONFIG", value_hint = ValueHint::AnyPath)]
    pub(crate) config: Option<PathBuf>,
}

/// Form of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// `weir config ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate everything and say all that is wrong, with file, line and what would be right.
    Check {
        #[command(flatten)]
        config: ConfigArgs,
        /// Form of what is found.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the built-in default, with comments: the beginning of a configuration of your own.
    Default,
    /// Print a JSON Schema of the configuration, for editors.
    Schema,
    /// Print the reference of all keys as Markdown.
    Reference,
}
