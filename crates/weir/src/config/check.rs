//! Constraints between the parts of a configuration, and between it and the machine.
//!
//! Invariants: a check only reads; it names the place to change and suggests a fix. What cannot
//! work, or would lose or repeat records without end, is an error; what works but is probably not
//! intended is a warning.

use std::path::Path;

use weir_host::secret::is_world_readable;
use weir_host::units::{SizeOrShare, format_size};
use weir_host::{PEM_FILE_BYTES_MAX, read_named_file};
use weir_pipeline::config::{OutputType, SourceType};

use super::diagnostic::Diagnostics;
use super::glob;
use super::section::Section;
use super::sections::{ComponentSection, Sections};
use super::tables::{BASE_BYTES, ComponentType as _, STORE_PER_HEAD};
use super::text::SourceLocation;

/// All checks.
pub(crate) fn check(sections: &Sections, diagnostics: &mut Diagnostics) {
    sources_and_outputs(sections, diagnostics);
    data_dir(sections, diagnostics);
    api(sections.table("api"), diagnostics);
    memory(sections, diagnostics);
    queries(sections, diagnostics);
    disk(sections.table("journal"), diagnostics);
    super::disk::check(sections, diagnostics);
    for source in &sections.sources {
        SourceType::check(source, sections, diagnostics);
    }
    for output in &sections.outputs {
        buffer(output, diagnostics);
        OutputType::check(output, sections, diagnostics);
    }
    super::source::read_twice(sections, diagnostics);
    super::source::listen_twice(sections, diagnostics);
    super::access::check(sections, diagnostics);
    super::readers::check(sections, diagnostics);
    super::drains::check(sections, diagnostics);
    super::output::written_twice(sections, diagnostics);
    one_stdout(sections, diagnostics);
    loops(sections, diagnostics);
}

/// There must be a source and a destination. A component that exists but is invalid has its own
/// error.
fn sources_and_outputs(sections: &Sections, diagnostics: &mut Diagnostics) {
    let wrong = |family: &str| {
        let prefix = format!("{family}.");
        diagnostics.0.iter().any(|d| d.key_path == family || d.key_path.starts_with(&prefix))
    };
    let no_sources = sections.sources.is_empty() && !wrong("source");
    let no_outputs = sections.outputs.is_empty()
        && !wrong("output")
        && !sections.has_store()
        && !super::drains::are_enabled(sections);
    let source_help = "for example: [source.containers] with type = \"containers\"";
    let output_help = "for example: [output.console] with type = \"stdout\"";
    if no_sources && no_outputs {
        diagnostics
            .error(None, "", "nothing is configured: there is no source and no output")
            .help(source_help)
            .help(output_help)
            .help("`weir config default` prints a configuration to start with");
    } else if no_sources {
        diagnostics
            .error(None, "source", "there is no source: nothing would be read")
            .help(source_help);
    } else if no_outputs {
        diagnostics
            .error(None, "output", "there is no output: records would have no destination")
            .help(output_help)
            .help("or let weir store the records: [store] with enabled = true");
    }
}

fn data_dir(sections: &Sections, diagnostics: &mut Diagnostics) {
    if sections.top.file("data_dir").is_none() {
        return;
    }
    let dir = glob::absolute(&sections.data_dir());
    let Some(blocker) = dir.ancestors().find(|path| path.exists()) else { return };
    if !blocker.is_dir() {
        let message =
            format!("data_dir cannot be created: {} is not a directory", blocker.display());
        diagnostics.error(sections.top.location("data_dir"), "data_dir", message);
    }
}

/// Checks that the memory of all concurrent queries fits in the memory that weir may use. It is not
/// part of the memory plan, since it is rarely needed, so only explicitly set values are checked.
fn queries(sections: &Sections, diagnostics: &mut Diagnostics) {
    let Some(queries) = sections.table("api").table("queries") else { return };
    let Some(key) = ["memory_max", "concurrent_max"].into_iter().find(|key| queries.is_set(key))
    else {
        return;
    };
    let limits = super::plan::queries(queries);
    let concurrent = limits.workers;
    let (each, memory) = (queries.size("memory_max"), sections.table("limits").size("memory"));
    let running = each.saturating_mul(concurrent as u64);
    let sum = running.saturating_add(limits.paused_bytes_max() as u64);
    if memory == 0 || sum <= memory {
        return;
    }
    let message = format!(
        "{concurrent} queries of {} at once, and paused ones, need {}, but limits.memory is {}",
        format_size(each),
        format_size(sum),
        format_size(memory),
    );
    diagnostics.error(queries.location(key), &queries.key_path(key), message).help(
        "reduce api.queries.memory_max or api.queries.concurrent_max, or increase limits.memory",
    );
}

fn api(api: &Section, diagnostics: &mut Diagnostics) {
    super::server::tls(api, diagnostics);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    for (name, location) in api.list("allowed_hosts") {
        if name.is_empty() || !name.chars().all(is_name) {
            let message = format!("{name:?} is not a host name");
            diagnostics
                .error(Some(location.clone()), "api.allowed_hosts", message)
                .help("write each name in full, without scheme and port; there are no wildcards");
        }
    }
    let Some(listen) = api.listen("listen").filter(|_| api.bool("enabled")) else { return };
    if listen.ip().is_loopback() {
        return;
    }
    let (message, help) = match (api.table("access"), api.table("tls")) {
        (Some(_), Some(_)) => return,
        (Some(_), None) => (
            format!("tokens and records cross the network unencrypted at {listen}"),
            "add [api.tls], or write \"127.0.0.1:7080\", with a proxy in front of it that \
             terminates TLS",
        ),
        (None, _) => (
            format!("the API is open to the network at {listen} without authentication"),
            "add [api.access], or write \"127.0.0.1:7080\" unless every user of that network may \
             read the data",
        ),
    };
    diagnostics.warn(api.location("listen"), "api.listen", message).help(help);
}

/// Ring, windows, listeners and the store's head must fit in the memory that weir may use.
fn memory(sections: &Sections, diagnostics: &mut Diagnostics) {
    let limits = sections.table("limits");
    let journal = sections.table("journal");
    let (memory, ring) = (limits.size("memory"), journal.size("ring"));
    let windows = sections.windows_bytes();
    let listeners = sections.listeners_bytes();
    let store =
        if sections.has_store() { sections.head_bytes().saturating_mul(STORE_PER_HEAD) } else { 0 };
    let sum = sections.memory_beside_store().saturating_add(store);
    if memory == 0 || ring == 0 || sum <= memory {
        return;
    }
    let of_store = match store {
        0 => String::new(),
        _ => format!(" + {} for the store", format_size(store)),
    };
    let head = sections.table("store");
    let (section, key) = match (limits.is_set("memory"), journal.is_set("ring")) {
        (false, true) => (journal, "ring"),
        (false, false) if store > 0 && head.is_set("head") => (head, "head"),
        _ => (limits, "memory"),
    };
    let part = |what: &str, bytes: u64| match bytes {
        0 => String::new(),
        bytes => format!("{what} {} + ", format_size(bytes)),
    };
    let listening = part("listening sources", listeners)
        + &part("readers of envelopes", super::readers::memory_bytes(sections))
        + &part("the window of drains", super::drains::memory_bytes(sections));
    let message = format!(
        "limits.memory is {}, which is less than ring {} + records in flight of {} {} {}{of_store} + \
         {listening}{} for weir itself = {}",
        format_size(memory),
        format_size(ring),
        sections.outputs.len(),
        if sections.outputs.len() == 1 { "output" } else { "outputs" },
        format_size(windows),
        format_size(BASE_BYTES),
        format_size(sum),
    );
    diagnostics.error(section.location(key), &section.key_path(key), message).help(format!(
        "set limits.memory to {} or more, or reduce ring or windows{}",
        format_size(sum),
        if store > 0 { " or store.head" } else { "" },
    ));
}

fn disk(journal: &Section, diagnostics: &mut Diagnostics) {
    let shares = (journal.size_or_share("size_max"), journal.size_or_share("keep_free"));
    match shares {
        (SizeOrShare::Share(0), _) => {
            diagnostics
                .error(
                    journal.location("size_max"),
                    "journal.size_max",
                    "journal.size_max leaves no disk space for the journal",
                )
                .help("write a share such as \"10%\", or a size such as \"10GiB\"");
        }
        (SizeOrShare::Share(limit), SizeOrShare::Share(free)) if limit + free > 10_000 => {
            let key = if journal.is_set("size_max") { "size_max" } else { "keep_free" };
            diagnostics
                .error(
                    journal.location(key),
                    &journal.key_path(key),
                    "journal.size_max and journal.keep_free together exceed 100%",
                )
                .help("journal.size_max can be at most what keep_free leaves");
        }
        (_, SizeOrShare::Share(10_000)) => {
            diagnostics
                .error(
                    journal.location("keep_free"),
                    "journal.keep_free",
                    "journal.keep_free leaves no disk space for the journal",
                )
                .help("write a share such as \"5%\"");
        }
        _ => {}
    }
}

/// The buffer must hold the window; otherwise nothing could ever wait.
fn buffer(output: &ComponentSection<OutputType>, diagnostics: &mut Diagnostics) {
    let section = &output.section;
    let (limit, window) = (section.size("buffer_max"), section.size("window"));
    if limit != 0 && window != 0 && limit < window {
        let key = if section.is_set("buffer_max") { "buffer_max" } else { "window" };
        let message = format!(
            "buffer_max {} of {} is less than its window {}",
            format_size(limit),
            section.path,
            format_size(window),
        );
        diagnostics.error(section.location(key), &section.key_path(key), message).help(
            "records in flight count towards the buffer: increase buffer_max or reduce window",
        );
    }
}

fn one_stdout(sections: &Sections, diagnostics: &mut Diagnostics) {
    let mut outputs = sections.outputs.iter().filter(|o| o.component_type == OutputType::Stdout);
    let Some(first) = outputs.next() else { return };
    for output in outputs {
        diagnostics
            .error(
                Some(output.name_location.clone()),
                &output.section.path,
                format!("standard output is already written by output {:?}", first.name),
            )
            .other(Some(first.name_location.clone()), "the other one is at")
            .help("at most one output is of type \"stdout\"");
    }
}

/// A source must not read what an output writes: each line would be processed endlessly.
fn loops(sections: &Sections, diagnostics: &mut Diagnostics) {
    let has_data_dir = sections.top.file("data_dir").is_some();
    let data_dir = glob::absolute(&sections.data_dir());
    for source in
        sections.sources.iter().filter(|s| super::source::reads_included(s.component_type))
    {
        let section = &source.section;
        let excluded = |path: &Path| {
            let patterns: Vec<String> =
                section.list("exclude").iter().map(|(p, _)| glob::exclusion(p)).collect();
            glob::any_matches(patterns.iter().map(String::as_str), path)
        };
        for (pattern, location) in section.list("include") {
            let reads = |path: &Path| {
                let pattern = glob::absolute(Path::new(pattern));
                let pattern = pattern.to_string_lossy();
                glob::any_matches([pattern.as_ref()].into_iter(), path) && !excluded(path)
            };
            for output in &sections.outputs {
                let Some(path) = super::output::written_path(output) else { continue };
                let path = path.example();
                if reads(&path) || reads(&glob::resolved(&path)) {
                    diagnostics
                        .error(
                            Some(location.clone()),
                            &section.key_path("include"),
                            format!(
                                "{pattern:?} would read {}, which output {:?} writes: every line \
                                 would loop endlessly",
                                path.display(),
                                output.name,
                            ),
                        )
                        .other(output.section.location("path"), "the output's path is at")
                        .help(format!(
                            "add exclude = [{:?}], or write the file elsewhere",
                            path.display().to_string()
                        ));
                }
            }
            if has_data_dir && glob::fixed_part(pattern).starts_with(&data_dir) {
                diagnostics
                    .error(
                        Some(location.clone()),
                        &section.key_path("include"),
                        format!("{pattern:?} is in data_dir, where weir does not read logs"),
                    )
                    .help("keep logs and weir's own data in separate directories");
            }
        }
    }
}

/// Reports keys that have no effect with the `protocol` of their section.
pub(crate) fn without_effect(section: &Section, keys: &[&str], diagnostics: &mut Diagnostics) {
    for key in keys.iter().filter(|key| section.is_set(key)) {
        let key_path = section.key_path(key);
        let protocol = section.word("protocol").unwrap_or_default();
        diagnostics
            .warn(
                section.location(key),
                &key_path,
                format!("{key_path} has no effect with protocol = \"{protocol}\""),
            )
            .help("remove it");
    }
}

/// A file that a key names must exist and be readable.
pub(crate) fn readable_file(
    section: &Section,
    key: &str,
    marker: &str,
    diagnostics: &mut Diagnostics,
) {
    let Some(path) = section.file(key) else { return };
    let key_path = section.key_path(key);
    match read_named_file(&path, PEM_FILE_BYTES_MAX) {
        Err(error) => {
            let message = format!("{key_path}: {} could not be read: {error}", path.display());
            diagnostics.error(section.location(key), &key_path, message);
        }
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let has = text.lines().any(|line| {
                line.starts_with("-----BEGIN ") && line.trim_end_matches('-').ends_with(marker)
            });
            if !has {
                let message = format!(
                    "{key_path}: {} does not contain a PEM {}",
                    path.display(),
                    marker.to_lowercase()
                );
                diagnostics
                    .error(section.location(key), &key_path, message)
                    .help(format!("a PEM file contains a line \"-----BEGIN {marker}-----\""));
            }
        }
    }
    if marker == "PRIVATE KEY" {
        kept_secret(&path, section.location(key), &key_path, diagnostics);
    }
}

/// A file that every user may read is not secret.
pub(crate) fn kept_secret(
    path: &Path,
    location: Option<SourceLocation>,
    key_path: &str,
    diagnostics: &mut Diagnostics,
) {
    if is_world_readable(path) {
        diagnostics
            .warn(location, key_path, format!("every user can read {}", path.display()))
            .help(format!("chmod 600 {}", path.display()));
    }
}
