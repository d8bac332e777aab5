//! Sources that tail files: the keys that they share, their checks, and their settings.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_pipeline::config::{RateLimit, ReadFrom, TailSettings};

use super::containers::ROOTS;
use super::multiline::{self, MULTILINE};
use crate::config::choices::{Choice as _, OFF_OR_PRESET, WhenLimited};
use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{DAY, Field, MS, ValueType, field, time};
use crate::config::glob;
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::ComponentType as _;
use crate::config::text::SourceLocation;

/// Keys of every source that tails files.
pub(super) const TAIL: &[Field] = &[
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
        Unset("no limit"),
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

/// How to write a character that has a meaning in patterns.
pub(super) const LITERAL: &str = "a literal [, {, * or ? is written [[], [{], [*] or [?]";

/// Checks the keys that all of them have.
pub(super) fn check(section: &Section, diagnostics: &mut Diagnostics) {
    limit(section, diagnostics);
    multiline::check(section, diagnostics);
}

fn limit(section: &Section, diagnostics: &mut Diagnostics) {
    if section.is_set("when_limited") && section.count("rate_limit").is_none() {
        let key_path = section.key_path("when_limited");
        diagnostics
            .warn(
                section.location("when_limited"),
                &key_path,
                format!("{key_path} has no effect without rate_limit"),
            )
            .help("add rate_limit, or remove it");
    }
}

/// Reports an error about one item of a list.
pub(super) fn wrong<'a>(
    section: &Section,
    key: &str,
    location: &SourceLocation,
    message: String,
    diagnostics: &'a mut Diagnostics,
) -> &'a mut Diagnostic {
    diagnostics.error(Some(location.clone()), &section.key_path(key), message)
}

/// The settings that all of them have.
pub(super) fn settings(section: &Section) -> TailSettings {
    TailSettings {
        read_from: section.choice("read_from"),
        line_bytes_max: section.size("line_max") as usize,
        rescan_interval: section.duration("rescan_interval"),
        multiline: multiline::joining(section),
        partial_timeout: section.duration("partial_timeout"),
        rotated_grace: section.duration("rotated_grace"),
        deleted_bytes_max: section.size("deleted_max"),
        rate_limit: section.count("rate_limit").map(|lines| RateLimit {
            lines_per_second: lines as f64,
            shed: section.choice::<WhenLimited>("when_limited") == WhenLimited::Discard,
        }),
        read_interval: section.duration("read_interval"),
    }
}

/// The same pattern or root in two places would read and deliver every line twice.
pub(crate) fn read_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    for keys in [&["include"][..], &ROOTS] {
        let mut seen: BTreeMap<PathBuf, Option<SourceLocation>> = BTreeMap::new();
        for source in &sections.sources {
            let fields = source.component_type.component().fields;
            let reads_by = |key: &str| fields.iter().copied().flatten().any(|f| f.name == key);
            for key in keys.iter().filter(|key| reads_by(key)) {
                for (item, location) in source.section.list(key) {
                    // Defaults have no place in a file.
                    let location =
                        if source.section.is_set(key) { Some(location.clone()) } else { None };
                    let location = location.or_else(|| Some(source.name_location.clone()));
                    let path = glob::absolute(Path::new(item));
                    if let Some(first) = seen.insert(path, location.clone()) {
                        let message = format!(
                            "{item:?} is included twice: its lines are read and delivered twice"
                        );
                        diagnostics
                            .warn(location, &source.section.key_path(key), message)
                            .other(first, "it is also included at");
                    }
                }
            }
        }
    }
}
