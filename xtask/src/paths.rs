//! Paths: the repository, its files, and build results.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, output};

/// Directories without source files of the repository.
const SKIPPED: [&str; 8] =
    ["target", ".git", ".tools", ".cache", "node_modules", "weir-data", "corpus", "dist"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map(Path::to_path_buf).unwrap_or(manifest_dir)
}

/// Returns every file of the repository with one of these extensions, relative to the root, sorted.
pub(crate) fn files(endings: &[&str]) -> Result<Vec<PathBuf>> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("failed to list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    folders.push(entry.path());
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(entry.path().strip_prefix(&root)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file of the repository.
pub(crate) fn read(relative: impl AsRef<Path>) -> Result<String> {
    let path = root().join(relative);
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

/// Returns the output of `cargo metadata`, for this machine.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let target = host_target()?;
    let text = output(cargo().args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &target,
    ]))?;
    serde_json::from_str(&text).context("cargo metadata is not JSON")
}

fn host_target() -> Result<String> {
    let text = output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// How programs are compiled (the profiles of `Cargo.toml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For running by hand and for measuring.
    Release,
    /// The same with the assertions of weir's own crates: for tests.
    Checked,
    /// As released: with link-time optimization, without symbols.
    Dist,
}

impl Profile {
    /// Returns the name of the profile, which is also that of its directory below `target`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Checked => "checked",
            Self::Dist => "dist",
        }
    }

    /// Returns the path of a program that was built with this profile.
    pub(crate) fn binary(self, name: &str) -> Result<PathBuf> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), |dir| root().join(dir));
        let binary = target.join(self.name()).join(name);
        if !binary.is_file() {
            bail!("{} was not built", binary.display());
        }
        Ok(binary)
    }
}
