//! `type = "file"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::time::Duration;

use weir_pipeline::config::{FilePath, OutputKind};
use weir_pipeline::output::{FileOutput, FsyncPolicy, Rotation};

use super::{DELIVERY, ENCODING, OutputDefinition};
use crate::config::choices::{Choice as _, FileCompression, Fsync};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::FieldDefault::{Required, Unset, Value};
use crate::config::field::{Field, ValueType, field, time};
use crate::config::glob;
use crate::config::section::Section;
use crate::config::sections::Sections;
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "A local file, or several files named by fields of the records, one line per \
              record.",
        fields: &[FILE, DELIVERY],
    },
    check,
    kind: |section| Some(OutputKind::File(settings(section)?)),
    written_path,
};

const FILE: &[Field] = &[
    field(
        "path",
        ValueType::Path,
        Required,
        "The file. Missing directories are created; lines are appended. If the \
         path contains fields, as in `\"/log/{host}/{service}.log\"`, each record \
         is written to the file that its values name. Fields are named as in \
         expressions; characters that are not allowed in a file name become `_`, \
         and files are never created outside the directory that precedes the \
         first field. `{arrival:%Y-%m-%d}` is the time of receipt in UTC, of `%Y`, \
         `%m`, `%d` and `%H`. A literal brace is doubled.",
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
        Unset("no rotation by size"),
        "A file that would become larger is rotated to \
         `NAME.20261122T011500.123Z`, and a new one is started.",
    ),
    field(
        "rotate_every",
        time(Duration::from_mins(1), Duration::from_hours(24 * 366)),
        Unset("no rotation by time"),
        "A file is rotated at the first line of a new period. Periods are counted \
         from 1970 in UTC: `\"24h\"` is midnight UTC.",
    ),
    field(
        "keep",
        ValueType::Count { min: 1, max: 1_000_000 },
        Unset("all of them"),
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

fn check(section: &Section, sections: &Sections, diagnostics: &mut Diagnostics) {
    path(section, sections, diagnostics);
    rotation(section, diagnostics);
}

fn written_path(section: &Section) -> Option<FilePath> {
    FilePath::parse(section.text("path")?).ok()
}

fn path(section: &Section, sections: &Sections, diagnostics: &mut Diagnostics) {
    let Some(text) = section.text("path") else { return };
    let key_path = section.key_path("path");
    let location = section.location("path");
    let path = match FilePath::parse(text) {
        Ok(path) => path,
        Err(error) => {
            diagnostics
                .error(location, &key_path, format!("{key_path}: {error}"))
                .help("fields are written in braces: \"/log/{host}/{service}.log\"");
            return;
        }
    };
    let example = path.example();
    if !path.is_template() && (example.is_dir() || text.ends_with('/')) {
        diagnostics
            .error(location, &key_path, format!("{} is a directory, not a file", example.display()))
            .help(format!(
                "write a file in that directory, such as \"{}\"",
                example.join("weir.log").display()
            ));
        return;
    }
    if let Some(data_dir) = sections.top.file("data_dir")
        && glob::resolved(&example).starts_with(glob::resolved(&data_dir))
    {
        let message = format!("{text} is in data_dir, which is reserved for weir's own files");
        diagnostics.error(location, &key_path, message).help("write the file elsewhere");
        return;
    }
    let dir = glob::absolute(if path.is_template() { path.base() } else { &example });
    let skipped = usize::from(!path.is_template());
    let blocker = dir.ancestors().skip(skipped).find(|path| path.exists());
    if let Some(blocker) = blocker.filter(|blocker| !blocker.is_dir()) {
        let message = format!("{text} cannot be created: {} is not a directory", blocker.display());
        diagnostics.error(location, &key_path, message);
    }
}

/// Keys that have no effect.
fn rotation(section: &Section, diagnostics: &mut Diagnostics) {
    if section.is_set("rotate_size") || section.is_set("rotate_every") {
        return;
    }
    for key in ["keep", "compress"] {
        if section.is_set(key) {
            let key_path = section.key_path(key);
            let message = format!("{key_path} has no effect: files are never rotated");
            diagnostics
                .warn(section.location(key), &key_path, message)
                .help("add rotate_size = \"100MiB\" or rotate_every = \"24h\"");
        }
    }
}

fn settings(section: &Section) -> Option<FileOutput> {
    Some(FileOutput {
        path: written_path(section)?,
        encoding: section.choice("encoding"),
        fsync: match section.optional_choice("fsync") {
            Some(Fsync::Always) => FsyncPolicy::Always,
            Some(Fsync::Never) => FsyncPolicy::Never,
            None => FsyncPolicy::Interval(section.duration("fsync")),
        },
        rotation: Rotation {
            size_bytes: section.is_set("rotate_size").then(|| section.size("rotate_size")),
            every: section.is_set("rotate_every").then(|| section.duration("rotate_every")),
            keep: section.count("keep").map(|count| count as usize),
            compress: section.choice::<FileCompression>("compress").into(),
        },
        open_files_max: section.count("open_files_max").unwrap_or(1) as usize,
    })
}
