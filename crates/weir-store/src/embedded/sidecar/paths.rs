//! The paths that are in `_rest`, so that it is read only when needed.
//!
//! Encoding: one byte, 1 if the list is complete; then for each path, in order: length (varint),
//! path, and one byte: bit 0 = it has values, bit 1 = it has nulls.

use std::collections::BTreeMap;

use crate::embedded::segment::{VarintReader, varint};

/// Maximum number of paths in the list; more than that are machine-generated.
const PATHS_MAX: usize = 10_000;

/// What `_rest` contains for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RestPath {
    /// There are values.
    pub has_values: bool,
    /// There are nulls.
    pub has_nulls: bool,
}

/// The paths in `_rest` of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestPaths {
    paths: BTreeMap<String, RestPath>,
    is_complete: bool,
}

impl Default for RestPaths {
    fn default() -> Self {
        Self { paths: BTreeMap::new(), is_complete: true }
    }
}

impl RestPaths {
    /// Returns what there may be for a path.
    pub fn get(&self, path: &str) -> RestPath {
        let unknown = RestPath { has_values: !self.is_complete, has_nulls: !self.is_complete };
        self.paths.get(path).copied().unwrap_or(unknown)
    }

    /// Returns whether the list is complete. Otherwise there were too many paths.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the listed paths, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, RestPath)> {
        self.paths.iter().map(|(path, what)| (path.as_str(), *what))
    }

    pub(super) fn add(&mut self, path: &str, is_null: bool) {
        if let Some(what) = self.paths.get_mut(path) {
            what.has_nulls |= is_null;
            what.has_values |= !is_null;
        } else if self.paths.len() < PATHS_MAX {
            let what = RestPath { has_values: !is_null, has_nulls: is_null };
            self.paths.insert(path.to_owned(), what);
        } else {
            self.is_complete = false;
        }
    }

    /// Adds the list of another segment.
    pub(super) fn merge(&mut self, other: &Self) {
        self.is_complete &= other.is_complete;
        for (path, what) in &other.paths {
            if what.has_values {
                self.add(path, false);
            }
            if what.has_nulls {
                self.add(path, true);
            }
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.is_complete)];
        for (path, what) in &self.paths {
            varint(path.len() as u64, &mut out);
            out.extend_from_slice(path.as_bytes());
            out.push(u8::from(what.has_values) | u8::from(what.has_nulls) << 1);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (is_complete, rest) = bytes.split_first()?;
        let mut paths = BTreeMap::new();
        let mut reader = VarintReader::new(rest);
        while !reader.rest().is_empty() {
            let len = usize::try_from(reader.varint()?).ok()?;
            let path = std::str::from_utf8(reader.take(len)?).ok()?;
            let bits = reader.take(1)?[0];
            let what = RestPath { has_values: bits & 1 != 0, has_nulls: bits & 2 != 0 };
            paths.insert(path.to_owned(), what);
        }
        Some(Self { paths, is_complete: *is_complete == 1 })
    }
}
