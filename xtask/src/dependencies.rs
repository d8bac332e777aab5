//! Licenses, origins and duplicate versions of weir's dependencies, by the rules of `deny.toml`:
//! the same that `cargo deny check bans licenses sources` applies, without having to build that
//! tool first.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use crate::paths;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns the packages that break a rule.
pub(crate) fn problems() -> Result<Vec<String>> {
    let rules = paths::read("deny.toml")?;
    let metadata = paths::metadata()?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let allowed = quoted_in(&rules, "allow");
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        if package["source"] != Value::Null && text("source") != CRATES_IO {
            problems.push(format!("{} comes from {}", text("name"), text("source")));
        }
        if !License::new(text("license"), &allowed).accept() {
            problems.push(format!("{} has license \"{}\"", text("name"), text("license")));
        }
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let skipped = quoted_in(&rules, "skip");
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        // All but the newest version need an entry with a reason.
        let listed = |version: &&str| skipped.iter().any(|s| *s == format!("{name}@{version}"));
        if versions.iter().filter(|version| !listed(version)).count() > 1 {
            problems.push(format!("{name} is used in versions {versions:?}"));
        }
    }
    Ok(problems)
}

/// Returns the quoted strings in the list `key = [ ... ]` that are values, not reasons.
fn quoted_in<'a>(toml: &'a str, key: &str) -> Vec<&'a str> {
    let Some((_, rest)) = toml.split_once(&format!("\n{key} = [")) else { return Vec::new() };
    let list = rest.split_once("\n]").map_or(rest, |(list, _)| list);
    let without_reason = list.lines().map(|line| line.split("reason =").next().unwrap_or(line));
    without_reason.flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
}

/// An SPDX expression: `or` of `and` of names and groups.
struct License<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a [&'a str],
}

impl<'a> License<'a> {
    fn new(expression: &'a str, allowed: &'a [&'a str]) -> Self {
        let words = expression
            .split_inclusive(['(', ')', '/', ' '])
            .flat_map(|part| {
                let end = part.len() - usize::from(part.ends_with(['(', ')', '/', ' ']));
                [&part[..end], &part[end..]]
            })
            .filter(|word| !word.trim().is_empty())
            .collect();
        Self { words, next: 0, allowed }
    }

    /// Parses the whole expression; returns true if it can be met with the allowed licenses.
    fn accept(mut self) -> bool {
        !self.words.is_empty() && self.any() && self.next == self.words.len()
    }

    fn take(&mut self, wanted: &[&str]) -> bool {
        let found = self.words.get(self.next).is_some_and(|word| wanted.contains(word));
        self.next += usize::from(found);
        found
    }

    fn any(&mut self) -> bool {
        let mut allowed = self.all();
        while self.take(&["OR", "/"]) {
            allowed |= self.all();
        }
        allowed
    }

    fn all(&mut self) -> bool {
        let mut allowed = self.one();
        while self.take(&["AND"]) {
            allowed &= self.one();
        }
        allowed
    }

    fn one(&mut self) -> bool {
        if self.take(&["("]) {
            let allowed = self.any();
            return self.take(&[")"]) && allowed;
        }
        let allowed = self.words.get(self.next).is_some_and(|word| self.allowed.contains(word));
        self.next += 1;
        if self.take(&["WITH"]) {
            // An exception only adds permissions.
            self.next += 1;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weir_is_built_with_keeps_to_the_rules() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn license_expressions_are_understood() {
        let check = |expression, wanted| {
            let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
            assert_eq!(License::new(expression, &allowed).accept(), wanted, "{expression}");
        };
        check("MIT", true);
        check("MIT OR GPL-3.0", true);
        check("MIT/GPL-3.0", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true);
        check("(GPL-3.0 OR AGPL-3.0) AND MIT", false);
        check("", false);
        check("MIT OR", false);
        check("(MIT", false);
    }

    #[test]
    fn lists_are_read_without_their_reasons() {
        let toml = "[bans]\nskip = [\n  { crate = \"a@1.0\", reason = \"not \\\"b\\\"\" },\n  \"c@2\",\n]\nother = [\"d\"\n]";
        assert_eq!(quoted_in(toml, "skip"), ["a@1.0", "c@2"]);
    }
}
