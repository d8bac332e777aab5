//! Every table of the configuration and its keys. Those of sources and outputs are in `source` and
//! `output`, one file per type.
//!
//! Invariant: a key is defined once, as data; what reads, checks and documents it follows from
//! that.

mod access;
mod drains;
mod queries;
mod readers;
mod rules;

use std::time::Duration;

use super::choices::{Choice as _, LogLevel};
use super::diagnostic::Diagnostics;
use super::field::FieldDefault::{Unset, Value};
use super::field::{Field, FieldDefault, ValueType, field, time};
use super::plan::LogFormat;
use super::sections::{ComponentSection, Sections};
use super::server::CERTIFICATE;

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
        Unset("every output and the store if no rule has `to`, otherwise the store"),
        "Outputs for records that no rule routes; `store` is weir's own store. Required if a rule \
         has `to` and the store is disabled. With an empty list such records are discarded and \
         counted as `unrouted`.",
    ),
    field(
        "units",
        ValueType::Values,
        Unset("units of well-known attributes, see the guide on latency"),
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
                ValueType::Table(CERTIFICATE),
                Unset("no TLS"),
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
                Unset("every client that can connect may read everything"),
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
                Unset("`128MiB`, or less if `limits.memory` is small"),
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
                Unset("none"),
                "Renames attributes, and those below them, when they are stored: `{ \
                 \"http.response.status\" = \"http.status_code\" }`. Searches and live tails use \
                 only the new name; rules see the record as it arrived. A record that already has \
                 the new name is left as it is.",
            ),
            field(
                "calculated_fields",
                ValueType::Values,
                Unset("none"),
                "Calculated fields: attributes that are computed from others and can be used in \
                 every search: `{ queueing_delay = \"@request_time - @service_time\" }`. Supported \
                 are `+ - * /`, parentheses, numbers with units (`250ms`, `4KiB`) and fields; \
                 operands are converted to a common unit if the field names end in one (`_ms`, \
                 `_bytes`).",
            ),
        ],
    },
];
