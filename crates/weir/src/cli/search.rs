//! The arguments of `weir search` and `weir store`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use weir_host::{Zone, units};

use super::{ApiArgs, ConfigArgs, Output, key_value, negation};

/// Of which time.
#[derive(Debug, Clone, Args)]
pub(crate) struct RangeArgs {
    /// How far back.
    #[arg(
        long,
        default_value = "1h",
        value_parser = units::parse_duration,
        value_name = "DURATION",
        conflicts_with = "from"
    )]
    pub(crate) since: Duration,
    /// The first time: 2026-11-21T20:00:00Z, 2026-11-21, now-1d/d, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Behind the last time. Default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
}

/// `weir search`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
pub(crate) struct SearchArgs {
    /// An expression: words, "a phrase", service:web, status:error, @duration:>300ms, /regexp/,
    /// with AND, OR, NOT and parentheses. Default: every record.
    #[arg(value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Most rows; with --group-by, most values of each field; with --fields, most fields. Default:
    /// 100 rows, 10 values, 20 fields.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Which rows come first, and are shown when there are more than --limit.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) order: RowOrder,
    /// Columns to show instead: timestamp, service, host, status, message, source, tags, id, or an
    /// attribute such as @duration.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) columns: Vec<String>,
    /// Form of the data.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SearchOutput,
    /// Figures by the values of these fields.
    #[arg(long, value_delimiter = ',', value_name = "FIELDS")]
    pub(crate) group_by: Vec<String>,
    /// Figures: count, or cardinality, sum, avg, min, max, median, p99 with a field, such as
    /// avg:@duration. The first orders the groups. Default: count.
    #[arg(long, value_delimiter = ',', value_name = "FIGURES")]
    pub(crate) compute: Vec<String>,
    /// A computed attribute, such as delay='@total - @service', to be used like any other. May be
    /// repeated.
    #[arg(long = "measure", value_name = "NAME=MEASURE", value_parser = key_value)]
    pub(crate) measures: Vec<(String, String)>,
    /// Draw the first figure over time, a bar for each stretch.
    #[arg(long, conflicts_with_all = ["group_by", "columns"])]
    pub(crate) histogram: bool,
    /// Length of a stretch of time. Default: so that there are about 30.
    #[arg(long, value_name = "DURATION", requires = "histogram")]
    pub(crate) interval: Option<String>,
    /// Show times as clocks of this zone do, begin days and weeks there, and read dates so:
    /// Europe/Berlin, UTC+1, +02:00. Default: UTC.
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, allow_hyphen_values = true)]
    pub(crate) timezone: Option<Zone>,
    /// What messages have in common, instead of rows.
    #[arg(long, conflicts_with_all = ["group_by", "compute", "histogram", "columns", "timezone"])]
    pub(crate) patterns: bool,
    /// What fields the records have, with their most common values, instead of rows.
    #[arg(
        long,
        conflicts_with_all = ["group_by", "compute", "histogram", "patterns", "columns", "timezone"]
    )]
    pub(crate) fields: bool,
    /// Go on with records as they come in, after those that are stored: none is left out, none
    /// comes twice.
    #[arg(
        short,
        long,
        conflicts_with_all =
            ["group_by", "compute", "histogram", "patterns", "fields", "measures", "to", "order"]
    )]
    pub(crate) follow: bool,
    /// How long to wait for an answer: what was found by then is shown. Default: 1500ms.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// End with code 4 when nothing was found.
    #[arg(long)]
    pub(crate) exit_on_empty: bool,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

impl SearchArgs {
    /// Whose clocks times are shown by.
    pub(crate) fn zone(&self) -> Zone {
        self.timezone.clone().unwrap_or_default()
    }
}

/// Which rows come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RowOrder {
    /// The latest.
    #[default]
    Newest,
    /// The earliest.
    Oldest,
}

/// Form of what was found on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SearchOutput {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// Of records the message alone, as it is.
    Raw,
}

/// `weir store ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print what is stored: records, bytes, by service and by column.
    Info {
        #[command(flatten)]
        api: ApiArgs,
        /// Form of the figures.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Write all records that an expression describes, of all time, as NDJSON, CSV or Parquet.
    Export(Box<ExportArgs>),
    /// Delete records for good: count those that an expression describes, ask, hide them at once,
    /// and remove them from the disk in the background.
    Delete(DeleteArgs),
    /// List what was asked to be deleted, and how far that is; or cancel a deletion.
    Deletions {
        /// End this deletion: what it has not removed yet is shown again.
        #[arg(long, value_name = "ID", conflicts_with = "output")]
        cancel: Option<u64>,
        #[command(flatten)]
        api: ApiArgs,
        /// Form of the list.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Read every file of the store, also while weir runs, and say what is damaged.
    Verify {
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// `weir store delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// An expression, as for `weir search`; '*' is every record. Records that come in later are not
    /// deleted.
    #[arg(required = true, value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    /// The first time, as for `weir search`. Default: the first of all.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Behind the last time. Default: behind the last of all.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only count.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

/// `weir store export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// An expression, as for `weir search`. Default: every record.
    #[arg(value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    /// How far back. Default: to the first record.
    #[arg(
        long,
        value_parser = units::parse_duration,
        value_name = "DURATION",
        conflicts_with = "from"
    )]
    pub(crate) since: Option<Duration>,
    /// The first time, as for `weir search`. Default: that of the first record.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Behind the last time. Default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Form of the records.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,
    /// Columns of CSV: as for `weir search`, and attributes (all of them, as JSON).
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) columns: Vec<String>,
    /// Which records come first.
    #[arg(long, value_enum, default_value = "oldest")]
    pub(crate) order: RowOrder,
    /// Most records. Default: all.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Where to write. Default: standard output. What does not fit into one Parquet file goes on
    /// in FILE.2, FILE.3 ...
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

/// Form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A JSON object per line.
    #[default]
    Ndjson,
    /// Comma-separated values with a head.
    Csv,
    /// Parquet, as the store keeps it.
    Parquet,
}
