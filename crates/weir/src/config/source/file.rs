//! `type = "file"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::path::Path;

use weir_pipeline::config::{Format, SourceKind};
use weir_pipeline::source::{FileSource, is_compressed_or_temporary};

use super::SourceDefinition;
use super::tail::{self, LITERAL, TAIL, wrong};
use crate::config::choices::Choice as _;
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Value};
use crate::config::field::{Field, ValueType, field};
use crate::config::glob;
use crate::config::section::{Section, is_shell};
use crate::config::sections::texts;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component { doc: "Log files by name.", fields: &[FILE, TAIL] },
    check,
    kind: |_, section| Some(kind(section)),
    memory_bytes: |_| 0,
    endpoint: |_| None,
};

const FILE: &[Field] = &[
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

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    patterns(section, diagnostics);
    what_is_left(section, diagnostics);
    tail::check(section, diagnostics);
}

fn patterns(section: &Section, diagnostics: &mut Diagnostics) {
    for key in ["include", "exclude"] {
        for (pattern, location) in section.list(key) {
            if let Err(error) = glob::compile(pattern) {
                let message = format!("{pattern:?} is not a valid pattern: {error}");
                wrong(section, key, location, message, diagnostics).help(LITERAL);
            } else if key == "include" && Path::new(pattern).is_dir() {
                let dir = pattern.trim_end_matches('/');
                let message = format!("{pattern:?} is a directory, not a file");
                wrong(section, key, location, message, diagnostics)
                    .help(format!("to tail the files in it, write \"{dir}/*.log\""));
            } else if is_shell(pattern) {
                let message = format!("{pattern:?}: ~ and $ are not expanded in patterns");
                wrong(section, key, location, message, diagnostics).help("write the full path");
            } else if pattern.contains("://") {
                let path = pattern.split_once("://").map_or("", |(_, path)| path);
                wrong(
                    section,
                    key,
                    location,
                    format!("{pattern:?} is a URL, not a path"),
                    diagnostics,
                )
                .help(format!("write {path:?}"));
            }
        }
    }
    if section.is_empty_list("include") {
        let key_path = section.key_path("include");
        diagnostics
            .error(section.location("include"), &key_path, format!("{key_path} names no file"))
            .help("write at least one pattern, such as [\"/var/log/app/*.log\"]");
    }
}

/// Reports patterns that can never match a file that is read.
fn what_is_left(section: &Section, diagnostics: &mut Diagnostics) {
    let key_path = section.key_path("include");
    for (pattern, location) in section.list("include") {
        let at = Some(location.clone());
        if is_compressed_or_temporary(pattern) {
            let message = format!("{pattern:?}: compressed and temporary files are never read");
            diagnostics
                .warn(at, &key_path, message)
                .help("use the name of the file while it is written");
        } else if section.list("exclude").iter().any(|(excluded, _)| excluded == pattern) {
            let message = format!("{pattern:?} is also excluded, so it matches nothing");
            diagnostics
                .warn(at, &key_path, message)
                .other(section.location("exclude"), "it is excluded at")
                .help("remove it from exclude, or exclude less");
        }
    }
}

fn kind(section: &Section) -> SourceKind {
    SourceKind::File(FileSource {
        include: texts(section, "include").iter().map(|p| glob::inclusion(p)).collect(),
        exclude: texts(section, "exclude").iter().map(|p| glob::exclusion(p)).collect(),
        format: section.choice("format"),
        tail: tail::settings(section),
    })
}
