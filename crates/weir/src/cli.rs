//! The command line: commands and options as clap reads them, nothing else.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use weir_host::units;

use crate::term::ColorChoice;

mod negation;
mod search;

pub(crate) use negation::arguments;
pub(crate) use search::{
    DeleteArgs, ExportArgs, ExportFormat, RangeArgs, RowOrder, SearchArgs, SearchOutput,
    StoreCommand,
};

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    failed
  2    wrong usage, such as a query that cannot be read
  3    the configuration is not valid
  4    what was named does not exist; nothing was found, with --exit-on-empty
  5    the answer is not the whole one
  6    the books do not balance
  75   not possible now, try again
  130  ended by Ctrl-C before it was done

Data goes to stdout, everything else to stderr.
Begin with `weir run`; then, in another terminal, `weir load file` and `weir top`.";

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
    /// Tail, buffer and deliver until told to stop.
    ///
    /// Without -c the built-in default runs: it follows the logs of all containers and of this
    /// machine and prints each new line on stdout. SIGTERM or Ctrl-C stops reading, delivers what
    /// it can within 10 seconds and keeps the rest for the next start; a second one stops at once.
    Run {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Check, print or describe the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the books of a running weir: what was read, where it went, what was lost.
    Ledger {
        #[command(flatten)]
        api: ApiArgs,
        /// Form of the books.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print what each rule of a running weir did: hits, cost, last match.
    Rules {
        #[command(flatten)]
        api: ApiArgs,
        /// Form of the figures.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Follow records of a running weir as they come in.
    ///
    /// Shows time (UTC), stream, severity and message of each. What is missed because it comes too
    /// fast is said with its number. Ends with Ctrl-C.
    Tail(TailArgs),
    /// Search what a running weir has stored.
    ///
    /// Prints records, newest first; with --fields what fields they have, with --group-by or
    /// --compute figures, with --histogram how they are spread over time, with --patterns what
    /// their messages have in common.
    Search(Box<SearchArgs>),
    /// What is stored: how much of what, and all of it as a file.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Show sources and outputs of a running weir: rates, lag, fill, loss.
    ///
    /// On a terminal a live table (keys: j k move, g G ends, ? help, q quit); else, or with
    /// --once, plain lines.
    Top {
        #[command(flatten)]
        api: ApiArgs,
        /// Take one reading over one interval, print it and end.
        #[arg(long)]
        once: bool,
        /// Time between two readings.
        #[arg(long, default_value = "1s", value_parser = interval, value_name = "DURATION")]
        interval: Duration,
    },
    /// Records that a destination refused for good.
    #[command(subcommand)]
    DeadLetter(DeadLetterCommand),
    /// Positions of outputs in the journal.
    #[command(subcommand)]
    Cursor(CursorCommand),
    /// Write numbered log lines at a known rate, so that loss can be counted.
    #[command(subcommand)]
    Load(LoadCommand),
    /// Prove on this machine that nothing is lost without being counted.
    ///
    /// Runs weir on files, outputs and a journal of its own in an empty directory, and does to it
    /// what machines and people do: kills it, stops it, rotates, cuts and deletes files, lets
    /// destinations hang and refuse, damages the journal, leaves it no disk. Then everything
    /// recovers, and for each destination what was written is compared, line by line, with what
    /// arrived and with what the ledger says. Ends with 1 when they do not agree.
    Torture(TortureArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page: `weir man | man -l -`, `weir man load file | man -l -`.
    Man {
        /// The command. Default: weir itself.
        command: Vec<String>,
    },
}

/// What is followed, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// An expression: words, "a phrase", service:web, status:error, @duration:>300ms, /regexp/,
    /// with AND, OR, NOT and parentheses. Default: every record.
    #[arg(value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// Form of the rows.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: TailOutput,
    /// End after so many rows.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Most rows per second; above it, a uniform sample is shown, and its share is said.
    #[arg(long, default_value_t = 500, value_name = "ROWS")]
    pub(crate) max_rate: u32,
}

/// Form of a row on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TailOutput {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// The message alone, as it is.
    Raw,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as service.name=web".to_owned()),
    }
}

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file, or a directory whose *.toml files are taken together. Default: built in.
    #[arg(
        short,
        long,
        value_name = "FILE|DIR",
        env = "WEIR_CONFIG",
        hide_env_values = true,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) config: Option<PathBuf>,
}

/// Which running weir is asked.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// Address of its API. Default: `api.listen` of its configuration.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WEIR_API",
        hide_env_values = true,
        value_parser = api_address
    )]
    pub(crate) api: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// An address as `127.0.0.1:8686`, by name, or as the URL that a starting weir prints.
fn api_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let mut found = address.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
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
    /// Run the tests that are written beside the rules, and say what came out differently.
    Test {
        #[command(flatten)]
        config: ConfigArgs,
        /// Form of the results.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show which rules a line matches and why, where it goes and what becomes of it.
    Explain {
        /// The line as it stands in a file; without it, lines are read from standard input.
        line: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Format of the line, as in the configuration.
        #[arg(long, default_value = "auto", value_name = "FORMAT")]
        format: String,
        /// Name of the source that it is of.
        #[arg(long, default_value = "", value_name = "NAME")]
        source: String,
        /// What is known of where it is from, such as service.name=web. May be repeated.
        #[arg(long = "resource", value_name = "KEY=VALUE", value_parser = key_value)]
        resource: Vec<(String, String)>,
        /// Show rules that do not match, too.
        #[arg(long)]
        all: bool,
        /// Form of the answer.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the built-in default, with comments: the beginning of a configuration of your own.
    Default,
    /// Print a JSON Schema of the configuration, for editors.
    Schema,
    /// Print the reference of all keys as Markdown.
    Reference,
    /// Print the reference of all metrics as Markdown.
    #[command(hide = true)]
    Metrics,
    /// Print the `OpenAPI` document of the API.
    #[command(hide = true)]
    Openapi,
}

/// `weir dead-letter ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// Print the dead letters, oldest first.
    List {
        /// Only those of this output.
        name: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Form: text has one line per record, json one object per line.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Send the dead letters of an output again; what is refused again stays.
    Resend {
        /// The output.
        name: String,
        #[command(flatten)]
        config: ConfigArgs,
        /// How long to wait for the destination before giving up; the rest is kept.
        #[arg(long, default_value = "30s", value_parser = units::parse_duration, value_name = "DURATION")]
        patience: Duration,
        /// Form of the report.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// `weir cursor ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum CursorCommand {
    /// Print the cursors: those of a running weir, else those in `data_dir`.
    List {
        #[command(flatten)]
        api: ApiArgs,
        /// Form of the list.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Give up the cursor of an output that is no longer configured, and all that waits for it.
    ///
    /// Weir must not be running. What is given up is counted as discarded (`cursor_dropped`).
    Drop {
        /// Name of the output.
        name: String,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// `weir load ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Write lines into files, as programs or container runtimes do.
    File(Box<LoadFileArgs>),
}

/// `weir load file ...`.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
#[derive(Debug, Args)]
pub(crate) struct LoadFileArgs {
    /// Directory of the files; created when missing. The built-in default configuration follows
    /// the default.
    #[arg(default_value = "weir-demo", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Format of the lines.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LoadFormat,
    /// Lines per second over all files, or `max` (needs --lines or --duration).
    #[arg(long, default_value = "10", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Lines in all. Default: until --duration or Ctrl-C.
    #[arg(long)]
    pub(crate) lines: Option<u64>,
    /// How long. Default: until --lines or Ctrl-C.
    #[arg(long, value_parser = units::parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Size of a line's body, or smallest and largest: `200`, `1KiB`, `100-2000`.
    #[arg(long, default_value = "200", value_parser = size_range, value_name = "SIZE")]
    pub(crate) size: (usize, usize),
    /// Files that are written in turns.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) files: u32,
    /// What files are called: NAME.log, or NAME-0.log, NAME-1.log ... when there are several.
    #[arg(long, default_value = "app", value_parser = name)]
    pub(crate) name: String,
    /// Lay files out as the container runtime of the format does.
    #[arg(long)]
    pub(crate) containers: bool,
    /// Rotate a file before it exceeds this size.
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE", conflicts_with = "rotate_every")]
    pub(crate) rotate_size: Option<u64>,
    /// Rotate files this often.
    #[arg(long, value_parser = units::parse_duration, value_name = "DURATION")]
    pub(crate) rotate_every: Option<Duration>,
    /// How files are rotated.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rotation: RotationKind,
    /// Rotated files to keep.
    #[arg(long, default_value_t = 3)]
    pub(crate) keep: usize,
    /// What bodies are made of.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) content: LoadContent,
    /// Cut bodies over 16 KiB into partial lines, as docker and containerd do.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Write a line to stderr between the parts of every cut line.
    #[arg(long, requires = "partial")]
    pub(crate) interleave: bool,
    /// Write each line by itself instead of in blocks.
    #[arg(long)]
    pub(crate) line_by_line: bool,
    /// Number of the first line, to go on after an earlier run.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) first: u64,
    /// Seed of the content.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// `weir torture`.
#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// How long; recovery at the end takes some more time.
    #[arg(long = "for", default_value = "60s", value_parser = units::parse_duration, value_name = "DURATION")]
    pub(crate) duration: Duration,
    /// Seed of what is done, from the report of an earlier run. Default: another one each time.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Directory for logs, data and history; must be empty or missing. Removed at the end unless
    /// something is wrong.
    #[arg(long, default_value = "weir-torture", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Lines per second over all files.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// The same as `--output json`.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

/// Lines per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// As fast as possible.
    Max,
    /// So many.
    PerSecond(f64),
}

/// `--format`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LoadFormat {
    /// The line is the body.
    #[default]
    Raw,
    /// docker's json-file driver.
    Docker,
    /// Kubernetes container runtimes.
    Cri,
    /// A JSON object with time, level and message.
    Json,
}

/// `--rotation`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum RotationKind {
    /// To `.1`, `.2` ..., as docker and logrotate do.
    #[default]
    Rename,
    /// To `.YYYYMMDD-HHMMSS`, as kubelet does.
    Kubelet,
    /// Copied and cut to nothing, as logrotate's copytruncate does.
    Copytruncate,
}

/// `--content`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LoadContent {
    /// Words.
    #[default]
    Plain,
    /// Words with quotes, backslashes, control characters and characters of several bytes.
    Escapes,
    /// That, and bytes that are not UTF-8.
    InvalidUtf8,
}

fn interval(text: &str) -> Result<Duration, String> {
    let duration = units::parse_duration(text).map_err(|error| error.to_string())?;
    // Redrawing faster than four times a second is of no use to anybody.
    let bounds = Duration::from_millis(250)..=Duration::from_hours(1);
    if bounds.contains(&duration) { Ok(duration) } else { Err("is not from 250ms to 1h".into()) }
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(Rate::PerSecond(rate)),
        _ => Err("is neither a number above 0 nor \"max\"".to_owned()),
    }
}

/// A bare number is bytes.
fn size_range(text: &str) -> Result<(usize, usize), String> {
    let one = |text: &str| {
        let bytes = text.parse::<u64>().or_else(|_| units::parse_size(text));
        bytes.map_err(|error| error.to_string())
    };
    let (min, max) = match text.split_once('-') {
        Some((min, max)) => (one(min)?, one(max)?),
        None => (one(text)?, one(text)?),
    };
    if min > max {
        return Err("has its larger number first".to_owned());
    }
    if max > 16 << 20 {
        return Err("is more than 16MiB".to_owned());
    }
    Ok((min as usize, max as usize))
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_plain) {
        return Err("has other characters than A-Z, a-z, 0-9, _, - and .".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn values_of_load_are_read_with_their_units() {
        assert_eq!(size_range("200"), Ok((200, 200)));
        assert_eq!(size_range("100-2KiB"), Ok((100, 2048)));
        assert!(size_range("200-100").is_err() && size_range("x").is_err());
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(rate("0.5"), Ok(Rate::PerSecond(0.5)));
        assert!(rate("0").is_err() && rate("-1").is_err() && rate("nan").is_err());
        assert!(interval("1ms").is_err() && interval("1s").is_ok());
    }

    #[test]
    fn the_api_may_be_named_as_weir_prints_it() {
        let address = "127.0.0.1:8686".parse().unwrap();
        for text in ["127.0.0.1:8686", "http://127.0.0.1:8686", "http://127.0.0.1:8686/"] {
            assert_eq!(api_address(text), Ok(address), "{text}");
        }
        assert!(api_address("127.0.0.1").is_err() && api_address("[::1]:x").is_err());
    }
}
