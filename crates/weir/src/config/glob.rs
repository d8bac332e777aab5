//! Checks file patterns: whether they are valid, and whether they can match a given path.
//!
//! Invariant: patterns have the same meaning as in the sources: `*` stays within a name, `**`
//! crosses directories, relative patterns are relative to the working directory.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// Compiles a pattern; the error describes what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<GlobMatcher, String> {
    let pattern = if pattern.starts_with("**/") {
        PathBuf::from(pattern)
    } else {
        absolute(Path::new(pattern))
    };
    GlobBuilder::new(&pattern.to_string_lossy())
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| error.kind().to_string())
}

/// Whether any of the patterns matches the path.
pub(crate) fn any_matches<'a>(patterns: impl Iterator<Item = &'a str>, path: &Path) -> bool {
    let path = absolute(path);
    patterns.filter_map(|pattern| compile(pattern).ok()).any(|glob| glob.is_match(&path))
}

/// The absolute form of an inclusion, without `.` and `..`.
pub(crate) fn inclusion(pattern: &str) -> String {
    absolute(Path::new(pattern)).to_string_lossy().into_owned()
}

/// Compiles an exclusion in the way that sources compare it, with whole paths: without a `/` it
/// matches the file name alone, otherwise it is relative to the working directory, as inclusions
/// are.
pub(crate) fn exclusion(pattern: &str) -> String {
    if pattern.contains('/') && !pattern.starts_with("**/") {
        absolute(Path::new(pattern)).to_string_lossy().into_owned()
    } else if pattern.contains('/') {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    }
}

/// The directory part of a pattern before its first wildcard.
pub(crate) fn fixed_part(pattern: &str) -> PathBuf {
    let is_wild = |part: &Component<'_>| {
        part.as_os_str().as_encoded_bytes().iter().any(|b| b"*?[{\\".contains(b))
    };
    absolute(Path::new(pattern)).components().take_while(|part| !is_wild(part)).collect()
}

/// The absolute path, with `.` and `..` resolved lexically, since files that do not exist yet
/// cannot be resolved in any other way.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// The path with links resolved as far as it exists, so that two names of one file compare equal.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path = absolute(path);
    let mut tail = PathBuf::new();
    let mut head = path.clone();
    loop {
        if let Ok(real) = head.canonicalize() {
            return if tail.as_os_str().is_empty() { real } else { real.join(tail) };
        }
        let Some(name) = head.file_name().map(PathBuf::from) else { return path };
        tail = if tail.as_os_str().is_empty() { name } else { name.join(tail) };
        head.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stays_in_a_name_and_two_cross_directories() {
        let matches =
            |pattern: &str, path: &str| any_matches([pattern].into_iter(), Path::new(path));
        assert!(matches("/var/log/*.log", "/var/log/a.log"));
        assert!(!matches("/var/log/*.log", "/var/log/b/a.log"));
        assert!(matches("/var/log/**/*.log", "/var/log/b/c/a.log"));
        assert!(matches("/var/./log/../log/*.log", "/var/log/a.log"));
        assert!(compile("/var/log/[a.log").is_err());
        let excludes = |pattern: &str, path: &str| matches(&exclusion(pattern), path);
        assert!(excludes("*.old", "/var/log/b/a.old") && excludes("**/b/*", "/var/log/b/a"));
        assert!(excludes("/var/log/*", "/var/log/a") && !excludes("log/a", "/var/log/a"));
        assert_eq!(fixed_part("/var/log/a*/b.log"), Path::new("/var/log"));
    }

    #[test]
    fn links_resolve_to_one_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let one = resolved(&dir.path().join("link/new/out.log"));
        assert_eq!(one, resolved(&dir.path().join("real/new/../new/out.log")));
    }
}
