//! Finds the files that match a glob, for files that are re-read at intervals.
//!
//! Invariant: only directories that the glob names are read, and no more than
//! [`PATHS_MAX`](super::limits::PATHS_MAX) entries.

use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

use super::limits::PATHS_MAX;

/// Returns the paths that match a pattern, in order.
pub(super) fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut looked_at = 0;
    for component in Path::new(pattern).components() {
        let name = component.as_os_str().to_string_lossy();
        let is_pattern =
            matches!(component, Component::Normal(_)) && name.contains(['*', '?', '[', '{', '\\']);
        if !is_pattern {
            for path in &mut found {
                path.push(component);
            }
            continue;
        }
        let Ok(glob) = GlobBuilder::new(&name).literal_separator(true).build() else {
            return Vec::new();
        };
        let matcher = glob.compile_matcher();
        let mut below = Vec::new();
        for dir in found {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for entry in entries.filter_map(Result::ok) {
                looked_at += 1;
                if looked_at > PATHS_MAX {
                    break;
                }
                if matcher.is_match(entry.file_name()) {
                    below.push(entry.path());
                }
            }
        }
        found = below;
    }
    found.retain(|path| path.is_file());
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_in_directories() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir_all(dir.path().join(name).join("config")).unwrap();
            std::fs::write(dir.path().join(name).join("config/metrics_port.yml"), "").unwrap();
            std::fs::write(dir.path().join(name).join("config/other.yml"), "").unwrap();
        }
        let pattern = |text: &str| format!("{}/{text}", dir.path().display());
        let found = matching(&pattern("*/config/metrics_*.yml"));
        let expected = ["a", "b"].map(|name| dir.path().join(name).join("config/metrics_port.yml"));
        assert_eq!(found, expected);
        assert_eq!(matching(&pattern("a/config/other.yml")).len(), 1);
        assert_eq!(matching(&pattern("*")), Vec::<PathBuf>::new(), "directories");
        assert_eq!(matching(&pattern("none/*")), Vec::<PathBuf>::new());
    }
}
