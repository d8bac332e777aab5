//! Finds source files that no `mod` declares: they are not compiled, so a test in one of them never
//! runs, and nothing else says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::paths;

/// Directories whose files are crates of their own.
const CRATE_DIRS: [&str; 5] = ["tests", "examples", "benches", "bin", "fuzz_targets"];
/// Files that cargo finds by their name.
const ROOTS: [&str; 4] = ["lib.rs", "main.rs", "mod.rs", "build.rs"];

/// Returns every file that is not compiled.
pub(crate) fn problems() -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for path in paths::files(&[".rs"])? {
        let text = paths::read(&path)?;
        texts.insert(path, text);
    }
    let manifests: BTreeSet<PathBuf> = paths::files(&["Cargo.toml"])?.into_iter().collect();
    let lost = texts.keys().filter(|path| {
        !is_root(path, &manifests) && !declarers(path).any(|by| declares(&texts, &by, path))
    });
    let problem = |path: &PathBuf| {
        format!("{}: declare it with `mod`, otherwise it is not compiled", path.display())
    };
    Ok(lost.map(problem).collect())
}

/// Returns whether cargo compiles the file without a declaration.
fn is_root(path: &Path, manifests: &BTreeSet<PathBuf>) -> bool {
    let name = path.file_name().unwrap_or_default();
    let dir = path.parent().unwrap_or(Path::new(""));
    let dir_name = dir.file_name().unwrap_or_default();
    let is_of_crate = || {
        let parents = dir.parent().into_iter().flat_map(|of| [Some(of), of.parent()]).flatten();
        parents.into_iter().any(|of| manifests.contains(&of.join("Cargo.toml")))
    };
    ROOTS.iter().any(|root| name == *root)
        || (CRATE_DIRS.iter().any(|crates| dir_name == *crates) && is_of_crate())
}

/// Returns the files that may declare this one.
fn declarers(path: &Path) -> impl Iterator<Item = PathBuf> {
    let dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let parent = dir.with_extension("rs");
    let roots = ["mod.rs", "lib.rs", "main.rs"].map(|root| dir.join(root));
    roots.into_iter().chain([parent])
}

/// Returns whether a file declares the other one, or any in the same directory does by its path.
fn declares(texts: &BTreeMap<PathBuf, String>, by: &Path, path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let has_mod = |text: &String| text.contains(&format!("mod {stem};"));
    if texts.get(by).is_some_and(has_mod) {
        return true;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let attributes = [format!("#[path = \"{name}\"]"), format!("/{name}\"]")];
    let has_path = |text: &String| {
        text.contains("#[path") && attributes.iter().any(|attribute| text.contains(attribute))
    };
    let near = |other: &&PathBuf| {
        let dir = path.parent();
        other.parent() == dir || other.parent() == dir.and_then(Path::parent)
    };
    texts.keys().filter(near).any(|other| texts.get(other).is_some_and(has_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_declaration_is_found() {
        let files = [("a/src/lib.rs", "mod known;\n#[path = \"by_path.rs\"]\nmod other;")];
        let texts = files.map(|(path, text)| (PathBuf::from(path), text.to_owned())).into();
        let is_declared = |path: &str| {
            declarers(Path::new(path)).any(|by| declares(&texts, &by, Path::new(path)))
        };
        assert!(is_declared("a/src/known.rs") && is_declared("a/src/by_path.rs"));
        assert!(!is_declared("a/src/lost.rs") && !is_declared("a/src/nown.rs"));
        let manifests = BTreeSet::from([PathBuf::from("a/Cargo.toml")]);
        assert!(is_root(Path::new("a/tests/one.rs"), &manifests));
        assert!(is_root(Path::new("a/src/bin/two.rs"), &manifests));
        assert!(!is_root(Path::new("a/src/three.rs"), &manifests));
        assert!(!is_root(Path::new("a/src/read/tests/four.rs"), &manifests));
    }
}
