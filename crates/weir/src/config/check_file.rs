//! Constraints within outputs of type `file`, and between them.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_pipeline::config::{FilePath, OutputType};

use super::diagnostic::Diagnostics;
use super::glob;
use super::section::Section;
use super::sections::{ComponentSection, Sections};

/// All checks of one output.
pub(crate) fn file(
    output: &ComponentSection<OutputType>,
    sections: &Sections,
    diagnostics: &mut Diagnostics,
) {
    path(&output.section, sections, diagnostics);
    rotation(&output.section, diagnostics);
}

/// A file that the output may write: its path with a sample in place of the fields.
pub(crate) fn example(section: &Section) -> Option<PathBuf> {
    FilePath::parse(section.text("path")?).ok().map(|path| path.example())
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

/// Two outputs must not write to the same file. Where fields could expand to the file of another
/// output, that is for the operator to know.
pub(crate) fn written_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    let files = || sections.outputs.iter().filter(|o| o.component_type == OutputType::File);
    let parsed = |output: &ComponentSection<OutputType>| {
        output.section.text("path").and_then(|text| FilePath::parse(text).ok())
    };
    let paths: Vec<_> = files().filter_map(|output| Some((output, parsed(output)?))).collect();
    let trees: Vec<_> = paths.iter().filter(|(_, path)| path.is_template()).collect();
    let mut seen: BTreeMap<PathBuf, &ComponentSection<OutputType>> = BTreeMap::new();
    for (output, path) in &paths {
        let example = path.example();
        let location = glob::resolved(&example);
        let (section, key_path) = (&output.section, output.section.key_path("path"));
        let place = section.location("path");
        if let Some(first) = seen.get(&location) {
            let written = format!("{} is already written by", example.display());
            diagnostics
                .error(place, &key_path, format!("{written} output {:?}", first.name))
                .other(first.section.location("path"), "it is also named at")
                .help("use a different file for each output");
        } else if !path.is_template()
            && let Some((tree, _)) = trees.iter().find(|(_, tree)| tree.covers(&location))
        {
            let written = format!("{} could also be written by", example.display());
            diagnostics
                .warn(place, &key_path, format!("{written} output {:?}", tree.name))
                .other(tree.section.location("path"), "its fields could expand to that path:")
                .help("use a different directory, unless rules ensure that this does not happen");
        }
        seen.insert(location, output);
    }
}
