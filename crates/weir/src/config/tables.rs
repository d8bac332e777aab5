//! Every table of the configuration and its keys. This is the only place where keys are defined.

mod access;
mod collectors;
mod drains;
mod listeners;
mod outputs;
mod queries;
mod readers;
mod rules;

use std::time::Duration;

use weir_codec::MultilinePreset;
use weir_pipeline::config::{Encoding, Format, OutputType, ReadFrom, SourceType};

use super::choices::{
    Choice as _, FileCompression, Fsync, LogLevel, OFF_OR_PRESET, WhenFull, WhenLimited,
};
use super::diagnostic::Diagnostics;
use super::field::{Field, FieldDefault, ValueType};
use super::plan::LogFormat;
use super::sections::{ComponentSection, Sections};
use super::{check_file, check_hec, check_http, check_listen, check_source, check_syslog, collect};

/// A table that appears at most once: `[journal]`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// The keys of one type of source or output: `[source.NAME]` with `type = "file"`.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) doc: &'static str,
    /// Its own keys first, then those that it shares with others.
    pub(crate) fields: &'static [&'static [Field]],
}

/// A table that can be repeated, in order: `[[rule]]`.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// The types of a family: those of sources (`[source.NAME]`) or of outputs (`[output.NAME]`).
pub(crate) trait ComponentType: Copy + Eq + 'static {
    /// `source` or `output`.
    const FAMILY: &'static str;
    const FAMILY_DOC: &'static str;
    /// All types, in the order of the reference.
    const ALL: &'static [Self];

    /// The value of `type`.
    fn name(self) -> &'static str;

    /// Its keys.
    fn component(self) -> Component;

    /// Checks that involve more than one field.
    fn check(named: &ComponentSection<Self>, sections: &Sections, diagnostics: &mut Diagnostics);

    /// `a source`, `an output`.
    fn with_article() -> String {
        let article = if Self::FAMILY.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} {}", Self::FAMILY)
    }
}

/// Minimum memory for the ring: one full batch for each of a few streams, plus the window.
pub(crate) const RING_BYTES_MIN: u64 = 4 << 20;
/// Minimum window: one request of the default size, in batches of at most 512 KiB.
pub(crate) const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Maximum size of a batch.
pub(crate) const BATCH_BYTES_MAX: u64 = 512 << 10;
/// Minimum buffer: the default window, and the same amount for records that wait.
pub(crate) const BUFFER_BYTES_MIN: u64 = 4 << 20;
/// Minimum memory for the store's head.
pub(crate) const HEAD_BYTES_MIN: u64 = weir_store::limits::HEAD_BYTES_MIN;
/// Default memory for the store's head where there is enough.
pub(crate) const HEAD_BYTES: u64 = 128 << 20;
/// Flushing and merging together use as much again as the head.
pub(crate) const STORE_PER_HEAD: u64 = 2;
/// Memory of weir apart from ring and windows: code, connections, compressors, read buffers.
pub(crate) const BASE_BYTES: u64 = 32 << 20;

const DAY: Duration = Duration::from_hours(24);
const MS: Duration = Duration::from_millis(1);

const fn field(
    name: &'static str,
    value_type: ValueType,
    default: FieldDefault,
    doc: &'static str,
) -> Field {
    Field { name, value_type, default, doc }
}

const fn time(min: Duration, max: Duration) -> ValueType {
    ValueType::Duration { min, max }
}

use FieldDefault::{None, Required, Value};

/// Keys before the first table.
pub(crate) const TOP: &[Field] = &[
    field(
        "data_dir",
        ValueType::Path,
        Value("\"weir-data\""),
        "Directory for the journal, positions and dead-letter files. Created if missing; used by \
         one weir process at a time. A relative path is relative to the directory in which weir is \
         started.",
    ),
    field(
        "default_to",
        ValueType::Names,
        None("every output and the store if no rule has `to`, otherwise the store"),
        "Outputs for records that no rule routes; `store` is weir's own store. Required if a rule \
         has `to` and the store is disabled. With an empty list such records are discarded and \
         counted as `unrouted`.",
    ),
    field(
        "units",
        ValueType::Values,
        None("units of well-known attributes, see the guide on latency"),
        "Units of attributes, for rules, searches and live tails alike: `[units]`, then \
         `queueing_delay = \"ms\"`. A value of this attribute without a unit, whether a number or \
         text that is only a number, is in this unit. Units are `ns us ms s min h` and `B kB KiB \
         MB MiB GB GiB`. The attribute is named as in expressions, without `@`; if `store.remap` \
         renames it, the unit applies to both names.",
    ),
];

/// Tables that can be repeated, in the order of the reference.
pub(crate) const LISTS: &[List] = &[
    List {
        name: "rule",
        doc: "A rule: which records go where, and how they are changed first. Every `when` sees \
              the record as it was read, so rules match regardless of their order. The actions of \
              the matching rules are then applied in order (by file name, then by position in the \
              file), up to the first rule that is `final`. Within a rule the order is `parse`, \
              `extract`, `set`, `remove`, `redact`. Changes apply to all outputs.",
        fields: rules::RULE,
    },
    List {
        name: "test",
        doc: "A record and what the rules must do with it; run by `weir config test`.",
        fields: rules::TEST,
    },
    drains::DRAIN,
];

/// Tables that appear at most once, in the order of the reference.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "api",
        doc: "HTTP API for metrics, health and the ledger. `weir top` and `weir ledger` use it \
              too.",
        fields: &[
            field("enabled", ValueType::Bool, Value("true"), "Whether to serve the API."),
            field(
                "listen",
                ValueType::Listen,
                Value("\"127.0.0.1:7080\""),
                "Address to listen on. Without `access` there is no authentication: keep it on the \
                 loopback address, or on a network where every user may read the data. Port 0 picks \
                 a free port, which is printed.",
            ),
            field(
                "tls",
                ValueType::Table(listeners::CERTIFICATE),
                None("no TLS"),
                "Certificates: clients must use `https://`, over HTTP/1.1 or HTTP/2. The files are \
                 reloaded when they change.",
            ),
            field(
                "allowed_hosts",
                ValueType::Names,
                Value("[]"),
                "Host names accepted in requests, in addition to IP addresses, `localhost` and the \
                 machine's name; each in full, without a port, and without wildcards. \
                 Requests with any other `Host` are answered with 421, which protects against DNS \
                 rebinding from a browser.",
            ),
            field(
                "queries",
                ValueType::Table(queries::QUERIES),
                Value("{}"),
                "Limits for searches and live tails.",
            ),
            field(
                "access",
                ValueType::Table(access::API),
                None("every client that can connect may read everything"),
                "Access control: all requests need a token, except for `/health` and the files of \
                 the page. See [access](../guide/access.md).",
            ),
        ],
    },
    drains::DRAINS,
    Table {
        name: "journal",
        doc: "The buffer between sources and outputs: a ring in memory, and segment files in \
              `data_dir` for records that an output has not caught up with.",
        fields: &[
            field(
                "ring",
                ValueType::Size { min: RING_BYTES_MIN, max: 64 << 30 },
                Value("\"64MiB\""),
                "Memory for records that an output still needs. Records that do not fit are written \
                 to disk.",
            ),
            field(
                "size_max",
                ValueType::SizeOrShare { min: 16 << 20 },
                Value("\"10%\""),
                "Maximum total disk space for the segment files; a share is of the file system \
                 that holds `data_dir`. When only an eighth of it is left, the output that needs \
                 most of it counts as full (`when_full`); other outputs are not affected.",
            ),
            field(
                "keep_free",
                ValueType::SizeOrShare { min: 0 },
                Value("\"5%\""),
                "Disk space that is always left free, regardless of `size_max`.",
            ),
        ],
    },
    Table {
        name: "limits",
        doc: "Limits of the whole process.",
        fields: &[field(
            "memory",
            ValueType::Size { min: 48 << 20, max: 1 << 40 },
            Value("\"512MiB\""),
            "Memory budget of weir. It must cover the ring, the records that outputs have in flight \
             (an eighth of the budget, or more for a large window or for more than a hundred \
             outputs), listening sources, the `buffer_max` of `[loggregator]`, the `window` of \
             `[drains]`, twice the head of the store, and 32 MiB for weir itself; otherwise the \
             configuration is rejected.",
        )],
    },
    readers::LOGGREGATOR,
    Table {
        name: "log",
        doc: "Weir's own log, written to stderr.",
        fields: &[
            field(
                "level",
                ValueType::Choice(LogLevel::WORDS),
                Value("\"info\""),
                "Minimum severity to log. The environment variable `WEIR_LOG` takes precedence; it \
                 can also set levels per module: `info,weir_journal=debug`.",
            ),
            field(
                "format",
                ValueType::Choice(LogFormat::WORDS),
                Value("\"auto\""),
                "Format of the log.",
            ),
        ],
    },
    Table {
        name: "store",
        doc: "Weir's own store, in `data_dir`. It keeps the records that are routed to `store` \
              (every record, unless a rule routes it elsewhere), so that they can be searched \
              (`weir search`).",
        fields: &[
            field("enabled", ValueType::Bool, Value("true"), "Whether to store records."),
            field(
                "retention",
                time(Duration::from_mins(1), Duration::from_hours(24 * 36_500)),
                Value("\"7d\""),
                "How long records are kept, counted from when they were stored. Whole segments are \
                 deleted, so some records stay a little longer.",
            ),
            field(
                "retention_size",
                ValueType::SizeOrShare { min: 64 << 20 },
                Value("\"20%\""),
                "Maximum disk space for the store; beyond it the oldest records are deleted. A \
                 share is of the file system that holds `data_dir`. On a small disk it is less: at \
                 most half of what `journal.keep_free` and a flush of the store leave. On a full \
                 disk where only a flush lets the journal free space, the oldest records make room \
                 for it.",
            ),
            field(
                "head",
                ValueType::Size { min: HEAD_BYTES_MIN, max: 16 << 30 },
                None("`128MiB`, or less if `limits.memory` is small"),
                "Memory for records that are not yet in a file. Flushing and merging use at most \
                 as much again.",
            ),
            field(
                "flush_interval",
                time(Duration::from_secs(1), Duration::from_hours(1)),
                Value("\"60s\""),
                "Maximum time that records are in memory only. They can be searched immediately; \
                 after a crash they are read again from the source or the journal.",
            ),
            field(
                "level",
                ValueType::Count { min: 1, max: 19 },
                Value("1"),
                "zstd compression level of new files: higher levels use more time and less disk.",
            ),
            field(
                "remap",
                ValueType::Values,
                None("none"),
                "Renames attributes, and those below them, when they are stored: `{ \
                 \"http.response.status\" = \"http.status_code\" }`. Searches and live tails use \
                 only the new name; rules see the record as it arrived. A record that already has \
                 the new name is left as it is.",
            ),
            field(
                "calculated_fields",
                ValueType::Values,
                None("none"),
                "Calculated fields: attributes that are computed from others and can be used in \
                 every search: `{ queueing_delay = \"@request_time - @service_time\" }`. Supported \
                 are `+ - * /`, parentheses, numbers with units (`250ms`, `4KiB`) and fields; \
                 operands are converted to a common unit if the field names end in one (`_ms`, \
                 `_bytes`).",
            ),
        ],
    },
];

/// `multiline` as a table.
pub(crate) const MULTILINE: &[Field] = &[
    field(
        "preset",
        ValueType::Choice(MultilinePreset::WORDS),
        None("`start` and `continue` define it"),
        "Stack traces of a language, with limits other than the defaults.",
    ),
    field(
        "start",
        ValueType::Text,
        None("any line that does not match `continue`"),
        "Regular expression: a line that matches it starts a record.",
    ),
    field(
        "continue",
        ValueType::Text,
        None("any line that does not match `start`"),
        "Regular expression: a line that matches it continues the record before it.",
    ),
    field(
        "timeout",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"1s\""),
        "How long to wait for further lines of a record after the last write.",
    ),
    field(
        "lines_max",
        ValueType::Count { min: 2, max: 100_000 },
        Value("500"),
        "Maximum number of lines per record; further lines start a new record. A record never has \
         more bytes than `line_max`.",
    ),
];

/// Keys of every source that tails files.
const TAIL: &[Field] = &[
    field(
        "read_from",
        ValueType::Choice(ReadFrom::WORDS),
        Value("\"beginning\""),
        "Where to start in files that already exist when weir first runs with this `data_dir`. \
         Files that appear later are always read from the first byte, and after a restart reading \
         resumes where the outputs are.",
    ),
    field(
        "line_max",
        ValueType::Size { min: 1 << 10, max: 256 << 10 },
        Value("\"192KiB\""),
        "Maximum length of a line, in bytes as stored in the file. A longer line is cut: the \
         record is kept and counted as truncated, and the remaining bytes are counted as \
         abandoned.",
    ),
    field(
        "rescan_interval",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"10s\""),
        "How often directories are scanned for changes that inotify did not report.",
    ),
    field(
        "multiline",
        ValueType::ChoiceOrTable(OFF_OR_PRESET, MULTILINE),
        Value("\"off\""),
        "Which lines are joined into one record, separated by line feeds.",
    ),
    field(
        "partial_timeout",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"10s\""),
        "How long a partial line (one of docker's 16 KiB pieces, or a last line without a newline) \
         waits for the rest, counted from the last write, before it becomes a record as it is.",
    ),
    field(
        "rotated_grace",
        time(Duration::ZERO, DAY),
        Value("\"10s\""),
        "How long a renamed or deleted file is kept open after its end was reached, to read late \
         writes.",
    ),
    field(
        "deleted_max",
        ValueType::Size { min: 0, max: u64::MAX },
        Value("\"1GiB\""),
        "Maximum total size of deleted files that are kept open until they are read. Above it the \
         oldest file is given up, and its unread bytes are counted as abandoned.",
    ),
    field(
        "rate_limit",
        ValueType::Count { min: 1, max: 1_000_000_000 },
        None("no limit"),
        "Lines per second per file or container, with a burst of one second.",
    ),
    field(
        "when_limited",
        ValueType::Choice(WhenLimited::WORDS),
        Value("\"delay\""),
        "What to do with lines above `rate_limit`.",
    ),
    field(
        "read_interval",
        time(MS, Duration::from_secs(10)),
        Value("\"60ms\""),
        "Minimum time between reads of a file that is written to slowly. A longer interval uses \
         less CPU; a file that is far behind is read without pauses.",
    ),
];

/// Keys of every output.
const DELIVERY: &[Field] = &[
    field(
        "when_full",
        ValueType::Choice(WhenFull::WORDS),
        Value("\"block\""),
        "What to do when `buffer_max` is reached.",
    ),
    field(
        "buffer_max",
        ValueType::Size { min: BUFFER_BYTES_MIN, max: u64::MAX },
        Value("\"1GiB\""),
        "Maximum bytes that wait for this output, in memory and on disk together.",
    ),
    field(
        "window",
        ValueType::Size { min: WINDOW_BYTES_MIN, max: 4 << 30 },
        Value("\"16MiB\""),
        "Maximum bytes in flight, that is, sent but not acknowledged. After a crash at most this \
         much is sent again. All outputs share the memory for records in flight: when it is used \
         up, each has one batch in flight.",
    ),
    field(
        "dead_letter",
        ValueType::Bool,
        Value("true"),
        "Whether to keep records that the destination rejects permanently in a file, together \
         with the reason (see `weir dead-letter`). Otherwise they are discarded and counted.",
    ),
];

/// Client side of TLS.
const TLS: &[Field] = &[
    field(
        "ca_file",
        ValueType::Path,
        None("the system's CA certificates only"),
        "PEM file of CA certificates to trust in addition to the system's.",
    ),
    field(
        "cert_file",
        ValueType::Path,
        None("no client certificate"),
        "PEM file of the client certificate and its chain. Needs `key_file`.",
    ),
    field(
        "key_file",
        ValueType::Path,
        None("no client certificate"),
        "PEM file of the client certificate's private key. Needs `cert_file`.",
    ),
    field(
        "server_name",
        ValueType::Text,
        None("the host of the endpoint"),
        "Name for which the server's certificate must be valid.",
    ),
    field(
        "insecure_skip_verify",
        ValueType::Bool,
        Value("false"),
        "Accept any certificate. An attacker on the network path can then read everything; weir \
         reports this in its health.",
    ),
];

const ENCODING: Field = field(
    "encoding",
    ValueType::Choice(Encoding::WORDS),
    Value("\"raw\""),
    "How a record is written as a line.",
);

use outputs::{HTTP, LOGGREGATOR_OUTPUT, SOCKET, SPLUNK_HEC, SYSLOG_OUTPUT};

/// Keys of `type = "containers"` alone.
const CONTAINERS: &[Field] = &[
    field(
        "docker_roots",
        ValueType::Paths,
        Value("[\"/var/lib/docker/containers\"]"),
        "docker's container directories (`<id>/<id>-json.log`).",
    ),
    field(
        "pod_roots",
        ValueType::Paths,
        Value("[\"/var/log/pods\"]"),
        "Kubernetes pod directories \
         (`<namespace>_<pod>_<uid>/<container>/<n>.log`).",
    ),
    field(
        "link_roots",
        ValueType::Paths,
        Value("[\"/var/log/containers\"]"),
        "Directories of links to container logs \
         (`<pod>_<namespace>_<container>-<id>.log`).",
    ),
    field(
        "exclude_containers",
        ValueType::Names,
        Value("[]"),
        "Names of containers to exclude; `*` matches anything.",
    ),
];

/// Keys of a source of `type = "file"` alone.
const FILE_SOURCE: &[Field] = &[
    field(
        "include",
        ValueType::Globs,
        Required,
        "Files to tail. `*` matches anything within a name, `**` any directories, \
         `{a,b}` either; a relative pattern is relative to the working directory. \
         Files that appear later are found too.",
    ),
    field(
        "exclude",
        ValueType::Globs,
        Value("[]"),
        "Files to exclude; a pattern without `/` matches the file name alone. \
         Compressed files (`*.gz`, `*.zst`, `*.xz`, `*.bz2`) and `*.tmp` are \
         always excluded.",
    ),
    field(
        "format",
        ValueType::Choice(Format::WORDS),
        Value("\"auto\""),
        "Format of the lines. A line that does not have this format still becomes \
         a record and is counted as malformed.",
    ),
];

/// Keys of an output of `type = "file"` alone.
const FILE_OUTPUT: &[Field] = &[
    field(
        "path",
        ValueType::Path,
        Required,
        "The file. Missing directories are created; lines are appended. If the \
         path contains fields, as in `\"/log/{host}/{service}.log\"`, each record \
         is written to the file that its values name. Fields are named as in \
         expressions; characters that are not allowed in a file name become `_`, \
         and files are never created outside the directory that precedes the \
         first field. A literal brace is doubled.",
    ),
    ENCODING,
    field(
        "fsync",
        ValueType::ChoiceOrDuration(Fsync::WORDS),
        Value("\"1s\""),
        "When written lines are flushed to stable storage; a duration is the \
         maximum time until then. Records count as delivered once they are \
         flushed, or with `never` once they are written.",
    ),
    field(
        "rotate_size",
        ValueType::Size { min: 64 << 10, max: u64::MAX },
        None("no rotation by size"),
        "A file that would become larger is rotated to \
         `NAME.20261122T011500.123Z`, and a new one is started.",
    ),
    field(
        "rotate_every",
        time(Duration::from_mins(1), Duration::from_hours(24 * 366)),
        None("no rotation by time"),
        "A file is rotated at the first line of a new period. Periods are counted \
         from 1970 in UTC: `\"24h\"` is midnight UTC.",
    ),
    field(
        "keep",
        ValueType::Count { min: 1, max: 1_000_000 },
        None("all of them"),
        "Number of rotated files to keep for each file.",
    ),
    field(
        "compress",
        ValueType::Choice(FileCompression::WORDS),
        Value("\"none\""),
        "Compression of rotated files.",
    ),
    field(
        "open_files_max",
        ValueType::Count { min: 1, max: 65_536 },
        Value("256"),
        "Maximum number of open files; the least recently written one is closed \
         to make room for another.",
    ),
];

impl ComponentType for SourceType {
    const FAMILY: &'static str = "source";
    const FAMILY_DOC: &'static str =
        "Where records come from. Each source has its own name and a `type`.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        match self {
            Self::Containers => Component {
                doc: "The logs of all containers on this machine: docker's json-file driver and \
                      Kubernetes nodes (CRI). Directories that do not exist yet are picked up when \
                      they appear.",
                fields: &[CONTAINERS, TAIL],
            },
            Self::File => Component { doc: "Log files by name.", fields: &[FILE_SOURCE, TAIL] },
            Self::Syslog => listeners::SYSLOG_SOURCE,
            Self::Loggregator => listeners::LOGGREGATOR_SOURCE,
            Self::Dropsonde => listeners::DROPSONDE_SOURCE,
            Self::Statsd => listeners::STATSD_SOURCE,
            Self::LoggregatorMetrics => listeners::LOGGREGATOR_METRICS_SOURCE,
            Self::DrainMessages => listeners::DRAIN_MESSAGES_SOURCE,
            Self::Prometheus => collectors::PROMETHEUS_SOURCE,
            Self::ContainerMetrics => collectors::CONTAINER_METRICS_SOURCE,
            Self::DatadogIntake => listeners::DATADOG_INTAKE_SOURCE,
        }
    }

    fn check(named: &ComponentSection<Self>, _: &Sections, diagnostics: &mut Diagnostics) {
        let section = &named.section;
        match named.component_type {
            Self::Containers => check_source::containers(section, diagnostics),
            Self::File => check_source::files(section, diagnostics),
            Self::Syslog => check_listen::syslog(section, diagnostics),
            Self::Loggregator => check_listen::loggregator(section, diagnostics),
            Self::Dropsonde | Self::Statsd => check_listen::dropsonde(section, diagnostics),
            Self::LoggregatorMetrics | Self::DrainMessages => {
                check_listen::tags(section, "tags", diagnostics);
            }
            Self::Prometheus => collect::check_prometheus(section, diagnostics),
            Self::ContainerMetrics => collect::check_container_metrics(section, diagnostics),
            Self::DatadogIntake => check_listen::datadog_intake(section, diagnostics),
        }
    }
}

impl ComponentType for OutputType {
    const FAMILY: &'static str = "output";
    const FAMILY_DOC: &'static str = "Where records go. Each output has its own name and a `type`, and receives every record \
          unless rules route them. The name also identifies its position in the journal: an output \
          with a new name receives only records that are read after it was added.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        match self {
            Self::SplunkHec => Component {
                doc: "A Splunk HTTP Event Collector, or anything that speaks its protocol.",
                fields: &[SPLUNK_HEC, DELIVERY],
            },
            Self::Http => Component {
                doc: "Any endpoint that accepts JSON over HTTP. A status from 200 to 299 means that \
                      the records were accepted.",
                fields: &[HTTP, DELIVERY],
            },
            Self::Socket => Component {
                doc: "Lines over TCP or TLS, or one datagram per record over UDP. The protocol has no \
                      acknowledgements: a record counts as delivered once the kernel has accepted it, \
                      and records in flight when a connection breaks are lost without being noticed.",
                fields: &[SOCKET, DELIVERY],
            },
            Self::Loggregator => LOGGREGATOR_OUTPUT,
            Self::DatadogMetrics => outputs::DATADOG_METRICS_OUTPUT,
            Self::Syslog => Component {
                doc: "Syslog (RFC 5424 or RFC 3164) over TCP, TLS, UDP or RELP. Only RELP acknowledges \
                      messages; with the others, a record counts as delivered as in `socket`.",
                fields: &[SYSLOG_OUTPUT, DELIVERY],
            },
            Self::File => Component {
                doc: "A local file, or several files named by fields of the records, one line per \
                      record.",
                fields: &[FILE_OUTPUT, DELIVERY],
            },
            Self::Stdout => Component {
                doc: "Standard output, one line per record. At most one output can have this type.",
                fields: &[&[ENCODING], DELIVERY],
            },
            Self::Blackhole => {
                Component { doc: "Discards all records and counts them.", fields: &[DELIVERY] }
            }
        }
    }

    fn check(named: &ComponentSection<Self>, sections: &Sections, diagnostics: &mut Diagnostics) {
        let section = &named.section;
        match named.component_type {
            Self::SplunkHec => check_hec::splunk_hec(section, diagnostics),
            Self::Http => check_http::http(section, diagnostics),
            Self::Socket => check_http::socket(section, diagnostics),
            Self::Loggregator => check_http::loggregator(section, diagnostics),
            Self::DatadogMetrics => check_http::datadog_metrics(named, sections, diagnostics),
            Self::Syslog => check_syslog::syslog(section, diagnostics),
            Self::File => check_file::file(named, sections, diagnostics),
            Self::Stdout | Self::Blackhole => {}
        }
    }
}

#[cfg(test)]
mod tests;
