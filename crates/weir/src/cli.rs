//! The command line: commands and options as clap reads them, nothing else.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use weir_host::units;

use crate::term::ColorChoice;

mod drains;
mod error;
mod negation;
mod search;
pub(crate) mod sizing;

pub(crate) use drains::{AddDrainArgs, DrainsCommand};
pub(crate) use search::{
    DeleteArgs, ExportArgs, ExportFormat, RangeArgs, RowOrder, SearchArgs, SearchOutput,
    StoreCommand,
};

const AFTER_HELP: &str = "Exit codes:
  0    done
  1    failed
  2    wrong usage, such as an invalid query
  3    the configuration is not valid
  4    a named object does not exist; nothing was found, with --exit-on-empty
  5    the result is incomplete
  6    the books do not balance
  75   temporarily unavailable, try again
  130  interrupted by Ctrl-C

Data goes to stdout, everything else to stderr.
Start with `weir run`; then, in another terminal, try `weir load file` and `weir top`.";

/// Collects logs, delivers and stores them, and accounts for every record: how many were read,
/// where each one went, how late it was and how many were lost.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colors: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Reads the arguments of the process. After an error, or for the help, the exit code is returned,
/// and everything has been printed.
pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    let args: Vec<OsString> = args.into_iter().collect();
    parsed(&args).map_err(|error| error::print(error, &args))
}

fn parsed(args: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(negation::arguments(args.iter().cloned()))
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Collect, buffer and deliver logs until stopped.
    ///
    /// Without -c the built-in default is used: it follows the logs of all containers and of this
    /// machine and prints each new line on stdout. SIGTERM or Ctrl-C stops reading, delivers what
    /// it can within 10 seconds and keeps the rest for the next start; a second signal stops at
    /// once.
    Run {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Check, print or describe the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the ledger of a running weir: what was read, where it went, what was lost.
    Ledger {
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print statistics for each rule of a running weir: hits, cost, last match.
    Rules {
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Follow the records of a running weir as they arrive.
    ///
    /// Shows time (UTC), stream, severity and message of each record. If records arrive too fast,
    /// the number of missed records is printed. Press Ctrl-C to stop.
    Tail(TailArgs),
    /// Search the store of a running weir.
    ///
    /// Prints records, newest first; with --fields the fields of the records, with --group-by or
    /// --compute aggregates, with --histogram their distribution over time, with --patterns the
    /// common patterns of their messages.
    Search(Box<SearchArgs>),
    /// Show, export, delete and verify stored records.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Show sources and outputs of a running weir: rates, lag, fill level, loss.
    ///
    /// On a terminal, prints a live table (keys: j k move, g G first/last, ? help, q quit);
    /// otherwise, or with --once, plain lines.
    Top {
        #[command(flatten)]
        api: ApiArgs,
        /// Take one reading over one interval, print it and exit.
        #[arg(long)]
        once: bool,
        /// Time between readings.
        #[arg(long, default_value = "1s", value_parser = interval, value_name = "DURATION")]
        interval: Duration,
    },
    /// List or resend records that a destination rejected permanently.
    #[command(subcommand)]
    DeadLetter(DeadLetterCommand),
    /// List or drop the positions of outputs in the journal.
    #[command(subcommand)]
    Cursor(CursorCommand),
    /// List, add, remove, pause and test the drains of a running weir.
    #[command(subcommand)]
    Drains(DrainsCommand),
    /// Write log lines: numbered ones at a known rate, so that loss can be measured, or a demo.
    #[command(subcommand)]
    Load(LoadCommand),
    /// Verify on this machine that nothing is lost without being counted.
    ///
    /// Runs weir in an empty directory with its own files, outputs and journal, and injects faults:
    /// kills it, stops it, rotates, truncates and deletes files, lets destinations hang and reject
    /// requests, damages the journal, fills the disk. Then everything recovers, and for each
    /// destination what was written is compared, line by line, with what arrived and with the
    /// ledger. Exits with 1 if they do not agree.
    Torture(TortureArgs),
    /// Print a shell completion script.
    Completions {
        /// Shell to print the script for.
        shell: clap_complete::Shell,
    },
    /// Print a manual page: `weir man | man -l -`, `weir man load file | man -l -`.
    Man {
        /// The command. Default: weir itself.
        command: Vec<String>,
    },
}

/// What to follow, and how to show it.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// An expression: words, "a phrase", service:web, status:error, @duration:>300ms, /regexp/,
    /// with AND, OR, NOT and parentheses. Default: every record.
    #[arg(value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: TailOutput,
    /// Exit after this many rows.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Maximum rows per second; above it, a uniform sample is shown and its ratio is printed.
    #[arg(long, default_value_t = 500, value_name = "ROWS")]
    pub(crate) max_rate: u32,
}

/// Format of a row on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TailOutput {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// The message alone, unchanged.
    Raw,
}

/// `NAME=EXPRESSION`.
fn calculated_field(text: &str) -> Result<(String, String), String> {
    key_value(text)
        .map_err(|_| "write NAME=EXPRESSION, such as delay='@total - @service'".to_owned())
}

/// `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as service.name=web".to_owned()),
    }
}

/// The location of the configuration.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file, or a directory whose *.toml files are merged. Default: built in.
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

/// Which running weir to query.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// File with the token for the API, if it requires one. Default: the environment variable
    /// `WEIR_TOKEN`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Address of the API, or its URL if it uses TLS (`https://`). Default: `api.listen` of the
    /// configuration.
    #[arg(
        long,
        value_name = "ADDRESS|URL",
        env = "WEIR_API",
        hide_env_values = true,
        value_parser = api_address
    )]
    pub(crate) api: Option<ApiAddress>,
    /// PEM file of certificate authorities to trust in addition to the system's, for an `https://`
    /// URL of the API. If the address comes from the configuration, only the configured certificate
    /// is accepted.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Where the API of a running weir is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiAddress {
    /// The address.
    pub(crate) socket: SocketAddr,
    /// The name in the server's certificate; `None`: no TLS.
    pub(crate) tls_host: Option<String>,
}

/// An address such as `127.0.0.1:8686`, with a host name, or the URL that weir prints when it
/// starts.
fn api_address(text: &str) -> Result<ApiAddress, String> {
    let (address, is_tls) = match text.split_once("://") {
        None => (text, false),
        Some(("http", address)) => (address, false),
        Some(("https", address)) => (address, true),
        Some(_) => return Err("the URL must begin with http:// or https://".to_owned()),
    };
    let address = address.trim_end_matches('/');
    let mut found = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let socket = found.next().ok_or("the name does not resolve to an address")?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    Ok(ApiAddress { socket, tls_host: is_tls.then(|| host.to_owned()) })
}

/// Format of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// The load for which `weir config check` calculates how long the buffers last.
#[derive(Debug, Clone, Args)]
pub(crate) struct SizingArgs {
    /// Also show how long the buffers last at this many messages per second, and what syslog-ng's
    /// formulas give for its window and queue.
    #[arg(
        long,
        value_name = "MESSAGES",
        value_parser = clap::value_parser!(u64).range(1..=sizing::RATE_MAX)
    )]
    pub(crate) rate: Option<u64>,
    /// Size of a message, for --rate.
    #[arg(long, value_name = "SIZE", default_value = "200B", value_parser = sizing::message_size, requires = "rate")]
    pub(crate) message_size: u64,
    /// Messages that syslog-ng reads from a connection at a time (`log_fetch_limit`), for --rate.
    #[arg(
        long,
        value_name = "MESSAGES",
        default_value_t = 100,
        requires = "rate",
        value_parser = clap::value_parser!(u64).range(1..=sizing::FETCH_LIMIT_MAX)
    )]
    pub(crate) fetch_limit: u64,
}

/// `weir config ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate the whole configuration and report all errors, with file, line and a suggestion.
    Check {
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        sizing: SizingArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Run the tests that are defined next to the rules, and print the differences.
    Test {
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show which rules a line matches and why, where it goes and how it is changed.
    Explain {
        /// The line as it appears in a file. Default: lines are read from standard input.
        line: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Format of the line, as in the configuration.
        #[arg(long, default_value = "auto", value_name = "FORMAT")]
        format: String,
        /// Name of the source of the line.
        #[arg(long, default_value = "", value_name = "NAME")]
        source: String,
        /// Known metadata of the line, such as service.name=web. May be repeated.
        #[arg(long = "resource", value_name = "KEY=VALUE", value_parser = key_value)]
        resource: Vec<(String, String)>,
        /// Also show rules that do not match.
        #[arg(long)]
        all: bool,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the built-in default, with comments: a starting point for your own configuration.
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
        /// Show only those of this output.
        name: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format. Both print one line per record; with json, each line is an object.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Send the dead letters of an output again; records that are rejected again are kept.
    Resend {
        /// Name of the output.
        name: String,
        #[command(flatten)]
        config: ConfigArgs,
        /// How long to wait for the destination; records not delivered by then are kept.
        #[arg(long, default_value = "30s", value_parser = units::parse_duration, value_name = "DURATION")]
        timeout: Duration,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// `weir cursor ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum CursorCommand {
    /// Print the cursors of a running weir, or otherwise those in `data_dir`.
    List {
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Drop the cursor of an output that is no longer configured, and all records that wait for it.
    ///
    /// A running weir drops it at once; if none answers, it is dropped in `data_dir`. The disk
    /// space of the records is freed, and they are counted as discarded (`cursor_dropped`).
    Drop {
        /// Name of the output.
        name: String,
        #[command(flatten)]
        api: ApiArgs,
    },
}

/// `weir load ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Write lines to files as programs or container runtimes do.
    File(Box<LoadFileArgs>),
    /// Write the logs of a small web shop: services, traces, incidents. Meant for the web page.
    Demo(LoadDemoArgs),
}

/// `weir load demo ...`.
#[derive(Debug, Args)]
pub(crate) struct LoadDemoArgs {
    /// Directory of the files; created if missing. The built-in default configuration follows the
    /// default directory.
    #[arg(default_value = "weir-demo", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Requests to the shop per second; each writes several lines.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(crate) rate: u32,
    /// How much history to write first.
    #[arg(long, default_value = "15m", value_parser = units::parse_duration)]
    pub(crate) backfill: Duration,
    /// How long to run. Default: until Ctrl-C.
    #[arg(long, value_parser = units::parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Seed of the random generator.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// `weir load file ...`.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
#[derive(Debug, Args)]
pub(crate) struct LoadFileArgs {
    /// Directory of the files; created if missing. The built-in default configuration follows the
    /// default directory.
    #[arg(default_value = "weir-demo", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Format of the lines.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LoadFormat,
    /// Total lines per second over all files, or `max` (requires --lines or --duration).
    #[arg(long, default_value = "10", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Total number of lines. Default: until --duration or Ctrl-C.
    #[arg(long)]
    pub(crate) lines: Option<u64>,
    /// How long to run. Default: until --lines or Ctrl-C.
    #[arg(long, value_parser = units::parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Size of a line's body, or minimum and maximum: `200`, `1KiB`, `100-2000`.
    #[arg(long, default_value = "200", value_parser = size_range, value_name = "SIZE")]
    pub(crate) size: (usize, usize),
    /// Number of files, written in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) files: u32,
    /// Base name of the files: NAME.log, or NAME-0.log, NAME-1.log ... if there are several.
    #[arg(long, default_value = "app", value_parser = name)]
    pub(crate) name: String,
    /// Use the directory layout of the format's container runtime.
    #[arg(long)]
    pub(crate) containers: bool,
    /// Rotate a file before it exceeds this size.
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE", conflicts_with = "rotate_every")]
    pub(crate) rotate_size: Option<u64>,
    /// Rotate files at this interval.
    #[arg(long, value_parser = units::parse_duration, value_name = "DURATION")]
    pub(crate) rotate_every: Option<Duration>,
    /// How to rotate files.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rotation: RotationKind,
    /// Number of rotated files to keep.
    #[arg(long, default_value_t = 3)]
    pub(crate) keep: usize,
    /// Content of the bodies.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) content: LoadContent,
    /// Split bodies over 16 KiB into partial lines, as docker and containerd do.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Write a line to stderr between the parts of every split line.
    #[arg(long, requires = "partial")]
    pub(crate) interleave: bool,
    /// Write each line separately instead of in blocks.
    #[arg(long)]
    pub(crate) line_by_line: bool,
    /// Number of the first line, to continue after an earlier run.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) first: u64,
    /// Seed for the content.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// `weir torture`.
#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// How long to inject faults; the recovery at the end takes additional time.
    #[arg(long = "for", default_value = "60s", value_parser = units::parse_duration, value_name = "DURATION")]
    pub(crate) duration: Duration,
    /// Seed for the sequence of faults, from the report of an earlier run. Default: random.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Directory for logs, data and history; must be empty or missing. Removed at the end unless
    /// the check failed.
    #[arg(long, default_value = "weir-torture", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Total lines per second over all files.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Output format.
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
    /// This many lines per second.
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
    /// Copied and truncated, as with logrotate's copytruncate.
    Copytruncate,
}

/// `--content`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LoadContent {
    /// Plain words.
    #[default]
    Plain,
    /// Words with quotes, backslashes, control characters and multi-byte characters.
    Escapes,
    /// The same, and bytes that are not UTF-8.
    InvalidUtf8,
}

fn interval(text: &str) -> Result<Duration, String> {
    let duration = units::parse_duration(text).map_err(|error| error.to_string())?;
    // Redrawing more than four times a second has no benefit.
    let bounds = Duration::from_millis(250)..=Duration::from_hours(1);
    if bounds.contains(&duration) {
        Ok(duration)
    } else {
        Err("must be between 250ms and 1h".into())
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(Rate::PerSecond(rate)),
        _ => Err("must be a number above 0 or \"max\"".to_owned()),
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
        return Err("must have the smaller number first".to_owned());
    }
    if max > 16 << 20 {
        return Err("exceeds the maximum of 16MiB".to_owned());
    }
    Ok((min as usize, max as usize))
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_plain) {
        return Err("may only contain the characters A-Z, a-z, 0-9, _, - and .".to_owned());
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
    fn api_address_accepts_a_url() {
        let socket = "127.0.0.1:8686".parse().unwrap();
        for text in ["127.0.0.1:8686", "http://127.0.0.1:8686", "http://127.0.0.1:8686/"] {
            assert_eq!(api_address(text), Ok(ApiAddress { socket, tls_host: None }), "{text}");
        }
        let tls_host = Some("127.0.0.1".to_owned());
        assert_eq!(api_address("https://127.0.0.1:8686"), Ok(ApiAddress { socket, tls_host }));
        let tls_host = |text| api_address(text).unwrap().tls_host;
        assert_eq!(tls_host("https://[::1]:1/").as_deref(), Some("::1"));
        assert_eq!(tls_host("https://localhost:1").as_deref(), Some("localhost"));
        assert!(api_address("ftp://127.0.0.1:1").is_err());
        assert!(api_address("127.0.0.1").is_err() && api_address("[::1]:x").is_err());
    }
}
