//! The arguments of `weir search` and `weir store`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use weir_host::{Zone, units};
use weir_store::query::Aggregation;

use super::{ApiArgs, ConfigArgs, Output, calculated_field, negation};

/// The help of `--compute`, with every aggregation.
fn compute_help() -> String {
    let named = Aggregation::NAMED.iter().map(|(name, _)| *name);
    let of_field: Vec<&str> = named.filter(|name| *name != "count").collect();
    format!(
        "Aggregates: count, or {}, p99 with a field, such as avg:@duration. The first one determines \
         the order of groups. Default: count",
        of_field.join(", ")
    )
}

/// The time range.
#[derive(Debug, Clone, Args)]
pub(crate) struct RangeArgs {
    /// How far back to search.
    #[arg(
        long,
        default_value = "1h",
        value_parser = units::parse_duration,
        value_name = "DURATION",
        conflicts_with = "from"
    )]
    pub(crate) since: Duration,
    /// Start of the range (inclusive): 2026-11-21T20:00:00Z, 2026-11-21, now-1d/d, or milliseconds
    /// since 1970.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// End of the range (exclusive). Default: now.
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
    /// Maximum number of rows; with --group-by, of values per field; with --fields, of fields.
    /// Default: 100 rows, 10 values, 20 fields.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Sort order; it also determines which rows are shown if there are more than --limit.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) order: RowOrder,
    /// Columns to show: timestamp, service, host, status, message, source, tags, id, or an
    /// attribute such as @duration.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) columns: Vec<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SearchOutput,
    /// Show aggregates grouped by these fields.
    #[arg(long, value_delimiter = ',', value_name = "FIELDS")]
    pub(crate) group_by: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "AGGREGATES", help = compute_help())]
    pub(crate) compute: Vec<String>,
    /// A calculated field, such as delay='@total - @service', that can be used like any other. May
    /// be repeated.
    #[arg(long = "calculate", value_name = "NAME=EXPRESSION", value_parser = calculated_field)]
    pub(crate) calculated_fields: Vec<(String, String)>,
    /// Draw the first aggregate over time, with one bar per interval.
    #[arg(long, conflicts_with_all = ["group_by", "columns"])]
    pub(crate) histogram: bool,
    /// Interval of the histogram. Default: an interval that gives about 30 bars.
    #[arg(long, value_name = "DURATION", requires = "histogram")]
    pub(crate) interval: Option<String>,
    /// Time zone for showing times, for the start of days and weeks, and for reading dates:
    /// Europe/Berlin, UTC+1, +02:00. Default: UTC.
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, allow_hyphen_values = true)]
    pub(crate) timezone: Option<Zone>,
    /// Show the common patterns of messages instead of rows.
    #[arg(long, conflicts_with_all = ["group_by", "compute", "histogram", "columns", "timezone"])]
    pub(crate) patterns: bool,
    /// Show the fields of the records, with their most common values, instead of rows.
    #[arg(
        long,
        conflicts_with_all = ["group_by", "compute", "histogram", "patterns", "columns", "timezone"]
    )]
    pub(crate) fields: bool,
    /// Continue with new records as they arrive, after the stored ones, without gaps or duplicates.
    #[arg(
        short,
        long,
        conflicts_with_all =
            ["group_by", "compute", "histogram", "patterns", "fields", "calculated_fields", "to", "order"]
    )]
    pub(crate) follow: bool,
    /// Deadline of the query; what was found by then is shown. Default: 1500ms.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Exit with code 4 if nothing was found.
    #[arg(long)]
    pub(crate) exit_on_empty: bool,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

impl SearchArgs {
    /// The time zone for showing times.
    pub(crate) fn zone(&self) -> Zone {
        self.timezone.clone().unwrap_or_default()
    }
}

/// Sort order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RowOrder {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
}

/// Format of the results on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SearchOutput {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// The message of each record alone, unchanged.
    Raw,
}

/// `weir store ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print statistics of the store: records, bytes, by service and by column.
    Info {
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Write all records that match an expression as NDJSON, CSV or Parquet.
    Export(Box<ExportArgs>),
    /// Delete records permanently: count the records that match an expression, ask for
    /// confirmation, hide them at once, and remove them from the disk in the background.
    Delete(DeleteArgs),
    /// List the requested deletions and their progress, or cancel a deletion.
    Deletions {
        /// Cancel this deletion: records that have not been removed yet become visible again.
        #[arg(long, value_name = "ID", conflicts_with = "output")]
        cancel: Option<u64>,
        #[command(flatten)]
        api: ApiArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Read every file of the store and report damage; can be used while weir runs.
    Verify {
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// `weir store delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// An expression, as for `weir search`; '*' matches every record. Records that arrive later are
    /// not deleted.
    #[arg(required = true, value_parser = negation::word)]
    pub(crate) query: Vec<String>,
    /// Start of the range (inclusive), as for `weir search`. Default: no limit.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// End of the range (exclusive). Default: no limit.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Only count the records.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
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
    /// How far back to export. Default: to the first record.
    #[arg(
        long,
        value_parser = units::parse_duration,
        value_name = "DURATION",
        conflicts_with = "from"
    )]
    pub(crate) since: Option<Duration>,
    /// Start of the range (inclusive), as for `weir search`. Default: the first record.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// End of the range (exclusive). Default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Format of the records.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,
    /// Columns of CSV: those of `weir search`, and attributes (all of them, as JSON).
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) columns: Vec<String>,
    /// Sort order.
    #[arg(long, value_enum, default_value = "oldest")]
    pub(crate) order: RowOrder,
    /// Maximum number of records. Default: all.
    #[arg(short = 'n', long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,
    /// Output file. Default: standard output. If it does not fit into one Parquet file, it
    /// continues in FILE.2, FILE.3 ...
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object per line.
    #[default]
    Ndjson,
    /// Comma-separated values with a header.
    Csv,
    /// Parquet, in the schema of the store.
    Parquet,
}
