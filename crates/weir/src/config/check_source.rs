//! Constraints within a source.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_pipeline::source::is_compressed_or_temporary;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::glob;
use super::section::{Section, is_shell};
use super::sections::Sections;
use super::tables::ComponentType as _;
use super::text::SourceLocation;

/// Keys of directories that are searched for containers.
const ROOTS: [&str; 3] = ["docker_roots", "pod_roots", "link_roots"];

/// All checks of a source of files.
pub(crate) fn files(section: &Section, diagnostics: &mut Diagnostics) {
    patterns(section, diagnostics);
    what_is_left(section, diagnostics);
    tail(section, diagnostics);
}

/// All checks of a source of containers.
pub(crate) fn containers(section: &Section, diagnostics: &mut Diagnostics) {
    roots(section, diagnostics);
    container_names(section, diagnostics);
    tail(section, diagnostics);
}

fn tail(section: &Section, diagnostics: &mut Diagnostics) {
    limit(section, diagnostics);
    super::multiline::check(section, diagnostics);
}

/// Reports an error about one item of a list.
fn wrong<'a>(
    section: &Section,
    key: &str,
    location: &SourceLocation,
    message: String,
    diagnostics: &'a mut Diagnostics,
) -> &'a mut Diagnostic {
    diagnostics.error(Some(location.clone()), &section.key_path(key), message)
}

const LITERAL: &str = "a literal [, {, * or ? is written [[], [{], [*] or [?]";

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

/// A pattern that can never match a file that is read.
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

fn roots(section: &Section, diagnostics: &mut Diagnostics) {
    if ROOTS.iter().all(|key| section.list(key).is_empty()) {
        diagnostics
            .error(
                section.location("docker_roots"),
                &section.path,
                format!("{} has no root directory", section.path),
            )
            .help("remove the keys to search the usual directories");
    }
    for key in ROOTS {
        for (root, location) in section.list(key) {
            let path = Path::new(root);
            if root.contains(['*', '?', '[', '{']) {
                wrong(section, key, location, format!("{root:?} is a pattern"), diagnostics)
                    .help("a root is one directory, which is searched recursively");
            } else if path.exists() && !path.is_dir() {
                wrong(section, key, location, format!("{root:?} is not a directory"), diagnostics)
                    .help("write the directory that contains the logs of all containers");
            }
        }
    }
}

fn container_names(section: &Section, diagnostics: &mut Diagnostics) {
    let key = "exclude_containers";
    for (pattern, location) in section.list(key) {
        if let Err(error) = glob::compile(pattern) {
            let message = format!("{pattern:?} is not a valid pattern: {error}");
            wrong(section, key, location, message, diagnostics).help(LITERAL);
        }
    }
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
