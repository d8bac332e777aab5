//! Every table of the configuration and its keys. This is the only place where a key is defined.

mod listeners;
mod outputs;
mod queries;

use std::time::Duration;

use weir_codec::MultilinePreset;
use weir_journal::WhenFull;
use weir_pipeline::config::{Encoding, Format, OutputType, ReadFrom, SourceType};

use super::choices::{Choice as _, FileCompression, Fsync, LogLevel, OFF_OR_PRESET, WhenLimited};
use super::field::{Default, Field, Kind};
use super::plan::LogFormat;

/// A table that may stand once: `[journal]`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// What stands in a table of one type of source or output: `[source.NAME]` with `type = "file"`.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) doc: &'static str,
    /// Its own keys first, then those that it has in common with others.
    pub(crate) fields: &'static [&'static [Field]],
}

/// A table that may stand any number of times, in order: `[[rule]]`.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A type of source or output: what can stand below `[source.NAME]` or `[output.NAME]`.
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

    /// `a source`, `an output`.
    fn with_article() -> String {
        let article = if Self::FAMILY.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} {}", Self::FAMILY)
    }
}

/// Least memory of the ring: one full batch for each of a few streams, and the window beside it.
pub(crate) const RING_BYTES_MIN: u64 = 4 << 20;
/// Least window: one request of the default size, in batches of at most 512 KiB.
pub(crate) const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Least buffer: the default window, and as much again to wait behind it.
pub(crate) const BUFFER_BYTES_MIN: u64 = 4 << 20;
/// Least memory of the store's head.
pub(crate) const HEAD_BYTES_MIN: u64 = weir_store::limits::HEAD_BYTES_MIN;
/// Memory of the store's head, where there is enough.
pub(crate) const HEAD_BYTES: u64 = 128 << 20;
/// Flushing and merging take as much again as the head.
pub(crate) const STORE_PER_HEAD: u64 = 2;
/// Memory of weir beside ring and windows: code, connections, compressors, buffers of reading.
pub(crate) const BASE_BYTES: u64 = 32 << 20;

const DAY: Duration = Duration::from_hours(24);
const MS: Duration = Duration::from_millis(1);

const fn field(name: &'static str, kind: Kind, default: Default, doc: &'static str) -> Field {
    Field { name, kind, default, doc }
}

const fn time(min: Duration, max: Duration) -> Kind {
    Kind::Duration { min, max }
}

use Default::{None, Required, Value};

/// Keys that stand before the first table.
pub(crate) const TOP: &[Field] = &[
    field(
        "data_dir",
        Kind::Path,
        Value("\"weir-data\""),
        "Directory of the journal, the positions and the dead-letter files. Created when missing; \
         one weir uses it at a time. A relative path is relative to the directory that weir is \
         started in.",
    ),
    field(
        "default_to",
        Kind::Names,
        None("every output and the store while no rule has `to`, else the store"),
        "Outputs for records that no rule routes; `store` is weir's own store. Without it, and \
         with a rule that has `to`, they go to the store, or this must be written where there is \
         none. With an empty list such records are discarded, and counted as `unrouted`.",
    ),
];

/// Tables that may stand any number of times, in reading order.
pub(crate) const LISTS: &[List] = &[
    List {
        name: "rule",
        doc: "A rule: which records go where, and how they are changed before. Every `when` sees \
              the record as it was read, so rules match whatever their order. Then what the \
              matching rules say is done in their order (that of the files' names, then of the \
              text), up to the first that is `final`. Within a rule the order is `parse`, \
              `extract`, `set`, `remove`, `redact`. Changes are for all outputs.",
        fields: RULE,
    },
    List {
        name: "test",
        doc: "A record, and what the rules must do with it; run by `weir config test`.",
        fields: TEST,
    },
];

const RULE: &[Field] = &[
    field("name", Kind::Text, Required, "Its name in metrics and messages; each stands once."),
    field(
        "when",
        Kind::Expression,
        Value("\"*\""),
        "Which records: an [expression](expressions.md). Single quotes spare backslashes.",
    ),
    field(
        "to",
        Kind::Names,
        None("adds no output"),
        "Outputs that get these records; `store` is weir's own store.",
    ),
    field(
        "final",
        Kind::Bool,
        Value("false"),
        "Whether later rules are left out for records that match.",
    ),
    field(
        "drop",
        Kind::Bool,
        Value("false"),
        "Discards the records, whatever earlier rules said; counted under the reason `rule`.",
    ),
    field(
        "sample",
        Kind::Share,
        None("all of them"),
        "Share of the records that is kept, the same ones whenever they are read; the others are \
         discarded, counted under the reason `sampled`.",
    ),
    field(
        "parse",
        Kind::Names,
        None("nothing"),
        "Formats to read attributes from: `json`, `logfmt`, `syslog`, `common`, `combined`, \
         `nginx`, or a format of your own as nginx writes `log_format`; `text` takes time and \
         severity from the head of a line of plain text. The first that fits is taken; a message \
         that fits none stays as it is.",
    ),
    field(
        "extract",
        Kind::Text,
        None("nothing"),
        "A regular expression; what its named groups `(?<name>...)` find in the message become \
         attributes. Two underscores in a name stand for a point.",
    ),
    field(
        "set",
        Kind::Values,
        None("nothing"),
        "Values for `\"@attribute\"`, `message`, `status`, `service` or `host`: numbers, truth \
         values, text with fields in it (`\"{service} {@user.id}\"`; a brace as such is written \
         twice), or `{ measure = \"@request_time - @upstream_response_time\" }`.",
    ),
    field(
        "remove",
        Kind::Names,
        None("nothing"),
        "Attributes (`\"@password\"`) to take away, also out of a message that is JSON.",
    ),
    field(
        "redact",
        Kind::Items,
        None("nothing"),
        "What to hide before it reaches a disk: `\"card\"`, `\"email\"`, `\"token\"`, `\"ip\"`, or \
         a table with `preset` or `pattern` (its first group is what is hidden), `with` (a text, \
         `\"*\"` for as many asterisks, or `\"hash\"`), `key` (of the hash, a secret), and `field` \
         (`message` or `\"@attribute\"`; default: everywhere).",
    ),
];

const TEST: &[Field] = &[
    field("name", Kind::Text, Required, "What it shows."),
    field(
        "record",
        Kind::Values,
        Required,
        "The record: `message`, and where they matter `source`, `service`, `host`, `status`, \
         `iostream`, `\"@attribute\"` and the names of tags.",
    ),
    field("rules", Kind::Names, None("not looked at"), "The rules that must match, all of them."),
    field(
        "to",
        Kind::Names,
        None("not looked at"),
        "The outputs that must get it, all of them; an empty list when it must be discarded.",
    ),
    field(
        "expect",
        Kind::Values,
        None("not looked at"),
        "What must be there afterwards: `message`, `status`, `\"@attribute\"`; `false` for an \
         attribute that must be gone.",
    ),
];

/// Tables that may stand once, in reading order.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "api",
        doc: "Where metrics, health and the ledger are served over HTTP. `weir top` and \
              `weir ledger` ask there too.",
        fields: &[
            field("enabled", Kind::Bool, Value("true"), "Whether anything is served."),
            field(
                "listen",
                Kind::Listen,
                Value("\"127.0.0.1:7080\""),
                "Address to listen on. There is no authentication: keep it on the loopback \
                 address, or on a network whose users may all read the figures. Port 0 takes a \
                 free port, which is printed.",
            ),
            field(
                "allowed_hosts",
                Kind::Names,
                Value("[]"),
                "Names under which the API may be asked, beside addresses, `localhost` and the \
                 name of the machine. Requests with another `Host` are answered with 421: else a \
                 page in a browser could make its own name lead here.",
            ),
            field(
                "queries",
                Kind::Table(queries::QUERIES),
                Value("{}"),
                "Bounds of searching and following.",
            ),
        ],
    },
    Table {
        name: "journal",
        doc: "The buffer between sources and outputs: a ring in memory, and segment files in \
              `data_dir` for what an output is behind with.",
        fields: &[
            field(
                "ring",
                Kind::Size { min: RING_BYTES_MIN, max: 64 << 30 },
                Value("\"64MiB\""),
                "Memory for records that some output still needs. Only what does not fit goes \
                 to disk.",
            ),
            field(
                "limit",
                Kind::SizeOrShare { min: 16 << 20 },
                Value("\"10%\""),
                "Maximum disk space for the segment files in all; a share is of the file system \
                 that holds `data_dir`. When an eighth of it is left, the output that needs most \
                 of it counts as full (`when_full`), and no other.",
            ),
            field(
                "keep_free",
                Kind::SizeOrShare { min: 0 },
                Value("\"5%\""),
                "Disk that always stays free, whatever `limit` says.",
            ),
        ],
    },
    Table {
        name: "limits",
        doc: "Bounds of the process as a whole.",
        fields: &[field(
            "memory",
            Kind::Size { min: 48 << 20, max: 1 << 40 },
            Value("\"512MiB\""),
            "Memory that weir plans with: the ring, the windows of all outputs, what sources that \
             listen hold, twice the head of the store and 32 MiB for weir itself must fit in it, or \
             the configuration is refused.",
        )],
    },
    Table {
        name: "log",
        doc: "What weir says about itself, on stderr.",
        fields: &[
            field(
                "level",
                Kind::Choice(LogLevel::WORDS),
                Value("\"info\""),
                "Least severity that is said. The environment variable `WEIR_LOG` wins; it may \
                 also name parts: `info,weir_journal=debug`.",
            ),
            field("format", Kind::Choice(LogFormat::WORDS), Value("\"auto\""), "How it is said."),
        ],
    },
    Table {
        name: "store",
        doc: "Weir's own store, in `data_dir`: everything that is routed to `store` is kept there \
              and can be searched (`weir search`). Where no rule says otherwise that is every \
              record.",
        fields: &[
            field("enabled", Kind::Bool, Value("true"), "Whether anything is stored."),
            field(
                "retention",
                time(Duration::from_mins(1), Duration::from_hours(24 * 36_500)),
                Value("\"7d\""),
                "How long records are kept, counted from when they were stored. They go in whole \
                 segments, so some stay a little longer.",
            ),
            field(
                "retention_size",
                Kind::SizeOrShare { min: 64 << 20 },
                Value("\"20%\""),
                "Most disk that the store may use; beyond that the oldest records go. A share is \
                 of the file system that holds `data_dir`.",
            ),
            field(
                "head",
                Kind::Size { min: HEAD_BYTES_MIN, max: 16 << 30 },
                None("`128MiB`, or less where `limits.memory` is small"),
                "Memory for records that are not in a file yet. Flushing and merging take as much \
                 again at most.",
            ),
            field(
                "flush_interval",
                time(Duration::from_secs(1), Duration::from_hours(1)),
                Value("\"60s\""),
                "How long records may be in memory only. They can be searched at once; after a \
                 crash they are read again, or sent again from the journal.",
            ),
            field(
                "level",
                Kind::Count { min: 1, max: 19 },
                Value("1"),
                "Level of zstd for new files: higher ones take more time and less disk.",
            ),
            field(
                "remap",
                Kind::Values,
                None("none"),
                "By which names attributes are kept, with those below them: \
                 `{ \"http.response.status\" = \"http.status_code\" }`. Searches and live tails know \
                 them by the new name only; rules see the record as it came. A record that has the \
                 new name already stays as it is.",
            ),
            field(
                "measures",
                Kind::Values,
                None("none"),
                "Attributes that no record has and every search can use, computed from others: \
                 `{ queueing_delay = \"@request_time - @service_time\" }`. Arithmetic with \
                 `+ - * /`, parentheses, numbers with units (`250ms`, `4KiB`) and fields; what is \
                 added up or divided is brought to one unit where the names of fields tell it \
                 (`_ms`, `_bytes`).",
            ),
        ],
    },
];

/// `multiline` as a table.
pub(crate) const MULTILINE: &[Field] = &[
    field(
        "preset",
        Kind::Choice(MultilinePreset::WORDS),
        None("`start` and `continue` say it"),
        "Stack traces of a language, for other bounds than the usual ones.",
    ),
    field(
        "start",
        Kind::Text,
        None("any line that does not match `continue`"),
        "Regular expression: a line that matches it is the first of a record.",
    ),
    field(
        "continue",
        Kind::Text,
        None("any line that does not match `start`"),
        "Regular expression: a line that matches it goes on with the record before it.",
    ),
    field(
        "timeout",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"1s\""),
        "How long a record waits for a further line after the last write.",
    ),
    field(
        "lines_max",
        Kind::Count { min: 2, max: 100_000 },
        Value("500"),
        "Most lines of a record; what is beyond begins a further one. It never has more bytes \
         than `line_max`.",
    ),
];

/// Keys of every source that tails files.
const TAIL: &[Field] = &[
    field(
        "read_from",
        Kind::Choice(ReadFrom::WORDS),
        Value("\"beginning\""),
        "Where to begin with files that are there when weir first runs with this `data_dir`. \
         Files that come later are always read from their first byte, and a restart goes on \
         where the outputs are.",
    ),
    field(
        "line_max",
        Kind::Size { min: 1 << 10, max: 256 << 10 },
        Value("\"192KiB\""),
        "Length at which a line is cut, in bytes as they stand in the file. The record is kept \
         and counted as truncated; the bytes behind the limit are counted as abandoned.",
    ),
    field(
        "rescan_interval",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"10s\""),
        "How often directories are looked through for what inotify did not tell.",
    ),
    field(
        "multiline",
        Kind::ChoiceOrTable(OFF_OR_PRESET, MULTILINE),
        Value("\"off\""),
        "Which lines are joined to one record, with a line feed between them.",
    ),
    field(
        "partial_timeout",
        time(Duration::from_millis(50), Duration::from_hours(1)),
        Value("\"10s\""),
        "How long a partial line (docker's 16 KiB pieces, a last line without its newline) \
         waits for its rest after the last write, before it becomes a record as it is.",
    ),
    field(
        "rotated_grace",
        time(Duration::ZERO, DAY),
        Value("\"10s\""),
        "How long a renamed or deleted file is followed behind its end, for late writes.",
    ),
    field(
        "deleted_limit",
        Kind::Size { min: 0, max: u64::MAX },
        Value("\"1GiB\""),
        "Most bytes that deleted files may hold in all while they wait to be read. Beyond that \
         the oldest is given up, and its bytes are counted as abandoned.",
    ),
    field(
        "rate_limit",
        Kind::Count { min: 1, max: 1_000_000_000 },
        None("no limit"),
        "Lines per second of each file or container, with a burst of one second.",
    ),
    field(
        "when_limited",
        Kind::Choice(WhenLimited::WORDS),
        Value("\"delay\""),
        "What happens to lines beyond `rate_limit`.",
    ),
    field(
        "read_interval",
        time(MS, Duration::from_secs(10)),
        Value("\"60ms\""),
        "While a file is written to in a trickle, its reads are at least this far apart. Longer \
         costs less CPU time; a file that is far behind is read without pause.",
    ),
];

/// Keys of every output.
const DELIVERY: &[Field] = &[
    field(
        "when_full",
        Kind::Choice(WhenFull::WORDS),
        Value("\"block\""),
        "What happens when `buffer_limit` is used up.",
    ),
    field(
        "buffer_limit",
        Kind::Size { min: BUFFER_BYTES_MIN, max: u64::MAX },
        Value("\"1GiB\""),
        "Bytes that may wait for this output, in memory and on disk together.",
    ),
    field(
        "window",
        Kind::Size { min: WINDOW_BYTES_MIN, max: 4 << 30 },
        Value("\"16MiB\""),
        "Bytes that may be on their way and not yet acknowledged. After a crash at most this \
         much is sent again.",
    ),
    field(
        "dead_letter",
        Kind::Bool,
        Value("true"),
        "Whether records that the destination refuses for good are kept in a file, with the \
         reason (see `weir dead-letter`). Otherwise they are discarded and counted.",
    ),
];

/// Client side of TLS.
const TLS: &[Field] = &[
    field(
        "ca_file",
        Kind::Path,
        None("the system's authorities only"),
        "PEM file of authorities to trust beside the system's.",
    ),
    field(
        "cert_file",
        Kind::Path,
        None("no client certificate"),
        "PEM file of the client certificate and its chain. Needs `key_file`.",
    ),
    field(
        "key_file",
        Kind::Path,
        None("no client certificate"),
        "PEM file of the client certificate's private key. Needs `cert_file`.",
    ),
    field(
        "server_name",
        Kind::Text,
        None("the host of the endpoint"),
        "Name that the server's certificate must have.",
    ),
    field(
        "insecure_skip_verify",
        Kind::Bool,
        Value("false"),
        "Accept any certificate. Whoever is in between can then read everything; weir says so \
         in its health.",
    ),
];

const ENCODING: Field = field(
    "encoding",
    Kind::Choice(Encoding::WORDS),
    Value("\"raw\""),
    "How a record becomes a line.",
);

use listeners::{DATADOG_INTAKE, LISTEN};
use outputs::{HTTP, SOCKET, SPLUNK_HEC};

/// Keys of `type = "containers"` alone.
const CONTAINERS: &[Field] = &[
    field(
        "docker_roots",
        Kind::Paths,
        Value("[\"/var/lib/docker/containers\"]"),
        "docker's container directories (`<id>/<id>-json.log`).",
    ),
    field(
        "pod_roots",
        Kind::Paths,
        Value("[\"/var/log/pods\"]"),
        "Kubernetes pod directories (`<namespace>_<pod>_<uid>/<container>/<n>.log`).",
    ),
    field(
        "link_roots",
        Kind::Paths,
        Value("[\"/var/log/containers\"]"),
        "Directories of links to container logs \
         (`<pod>_<namespace>_<container>-<id>.log`).",
    ),
    field(
        "exclude_containers",
        Kind::Names,
        Value("[]"),
        "Names of containers to leave out; `*` stands for anything.",
    ),
];

/// Keys of a source of `type = "file"` alone.
const FILE_SOURCE: &[Field] = &[
    field(
        "include",
        Kind::Globs,
        Required,
        "Files to tail. `*` stands for anything within a name, `**` for any \
         directories, `{a,b}` for either; a relative pattern begins at the \
         working directory. Files that come later are found too.",
    ),
    field(
        "exclude",
        Kind::Globs,
        Value("[]"),
        "Files to leave out; a pattern without `/` is about the name alone. Compressed files (`*.gz`, `*.zst`, `*.xz`, `*.bz2`) \
         and `*.tmp` are always left out.",
    ),
    field(
        "format",
        Kind::Choice(Format::WORDS),
        Value("\"auto\""),
        "Format of the lines. A line that is not in it becomes a record all the \
         same and is counted as malformed.",
    ),
];

/// Keys of an output of `type = "file"` alone.
const FILE_OUTPUT: &[Field] = &[
    field(
        "path",
        Kind::Path,
        Required,
        "The file. Missing directories are created; lines are appended. With \
         fields in it, `\"/log/{host}/{service}.log\"`, each record goes to the \
         file that it names: fields are named as in expressions; what no name may \
         hold becomes `_`, and no file is ever outside the directory before the \
         first field. A brace as such is written twice.",
    ),
    ENCODING,
    field(
        "fsync",
        Kind::ChoiceOrDuration(Fsync::WORDS),
        Value("\"1s\""),
        "When written lines are flushed to stable storage; a duration is the \
         longest that they wait. Records count as delivered only then, but with \
         `never` once they are written.",
    ),
    field(
        "rotate_size",
        Kind::Size { min: 64 << 10, max: u64::MAX },
        None("not by size"),
        "A file that would become larger is put aside, as \
         `NAME.20261122T011500.123Z`, and a new one begun.",
    ),
    field(
        "rotate_every",
        time(Duration::from_mins(1), Duration::from_hours(24 * 366)),
        None("not by time"),
        "A file is put aside with the first line of a new period. Periods are \
         counted from 1970 in UTC: `\"24h\"` is midnight UTC.",
    ),
    field(
        "keep",
        Kind::Count { min: 1, max: 1_000_000 },
        None("all of them"),
        "How many files that were put aside are kept beside each file.",
    ),
    field(
        "compress",
        Kind::Choice(FileCompression::WORDS),
        Value("\"none\""),
        "Compression of files that were put aside.",
    ),
    field(
        "open_files_max",
        Kind::Count { min: 1, max: 65_536 },
        Value("256"),
        "Most files that are open at once; the one not written to for longest is \
         closed for the next.",
    ),
];

impl ComponentType for SourceType {
    const FAMILY: &'static str = "source";
    const FAMILY_DOC: &'static str =
        "Where records come from. Each source has a name of its own and a `type`.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        match self {
            Self::Containers => Component {
                doc: "The logs of all containers of this machine: docker's json-file driver and \
                      Kubernetes nodes (CRI). Directories that do not exist yet are waited for.",
                fields: &[CONTAINERS, TAIL],
            },
            Self::File => Component { doc: "Log files by name.", fields: &[FILE_SOURCE, TAIL] },
            Self::DatadogIntake => Component {
                doc: "Logs that Datadog's agents and client libraries send over HTTP \
                      (`POST /api/v2/logs`, and `/v1/input` of older ones). They are told that a \
                      request is accepted once all its records are on stable storage.",
                fields: &[DATADOG_INTAKE, LISTEN],
            },
        }
    }
}

impl ComponentType for OutputType {
    const FAMILY: &'static str = "output";
    const FAMILY_DOC: &'static str = "Where records go. Each output has a name of its own and a `type`, and gets every \
          record. The name is also that of its place in the journal: under a new name an output \
          begins with what is read from then on.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        match self {
            Self::SplunkHec => Component {
                doc: "A Splunk HTTP event collector, or anything that speaks its protocol.",
                fields: &[SPLUNK_HEC, DELIVERY],
            },
            Self::Http => Component {
                doc: "Any endpoint that takes JSON over HTTP. Any status from 200 to 299 means that it \
                      has the records.",
                fields: &[HTTP, DELIVERY],
            },
            Self::Socket => Component {
                doc: "Lines over TCP or TLS, or one datagram per record over UDP. Nothing is \
                      acknowledged there: a record counts as delivered once the kernel has taken it, \
                      and what is on its way when a connection breaks is lost without anybody knowing.",
                fields: &[SOCKET, DELIVERY],
            },
            Self::File => Component {
                doc: "A local file, or many that the records name, one line per record.",
                fields: &[FILE_OUTPUT, DELIVERY],
            },
            Self::Stdout => Component {
                doc: "Standard output, one line per record. At most one output has this type.",
                fields: &[&[ENCODING], DELIVERY],
            },
            Self::Blackhole => Component {
                doc: "Nowhere: records are counted and forgotten.",
                fields: &[DELIVERY],
            },
        }
    }
}
