//! The dependency arrows between the crates: compares `cargo metadata` with the table in
//! ARCHITECTURE.md.
//!
//! The table is the one place where an arrow is allowed; a crate that is not in it may use nothing,
//! and an arrow in the table that no crate uses is only a permission.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::paths;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns arrows that exist but are not in the table, including those in `dev-dependencies`.
pub(crate) fn problems() -> Result<Vec<String>> {
    Ok(compare(&drawn(&paths::read("ARCHITECTURE.md")?), &existing(&paths::metadata()?)))
}

fn compare(drawn: &Arrows, existing: &Arrows) -> Vec<String> {
    let mut problems = Vec::new();
    for (from, targets) in existing {
        let Some(allowed) = drawn.get(from) else {
            problems.push(format!("crate {from} is not in the table of ARCHITECTURE.md"));
            continue;
        };
        for to in targets.difference(allowed) {
            problems.push(format!("{from} -> {to} is not in the table of ARCHITECTURE.md"));
        }
    }
    for crate_name in drawn.keys().filter(|name| !existing.contains_key(*name)) {
        problems.push(format!("ARCHITECTURE.md lists {crate_name}, which does not exist"));
    }
    problems
}

/// Parses rows of the form "| `crate` | `other`, `other` | ... |" under the heading "Arrows".
fn drawn(page: &str) -> Arrows {
    let section = page.split("\n## ").find(|section| section.starts_with("Arrows"));
    let rows = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.filter_map(|row| {
        let mut cells = row.split('|').skip(1);
        let from: BTreeSet<String> = quoted(cells.next()?);
        Some((from.into_iter().next()?, quoted(cells.next()?)))
    })
    .collect()
}

fn existing(metadata: &serde_json::Value) -> Arrows {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let ours = || packages.iter().filter(|package| package["source"].is_null());
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = ours().map(name).collect();
    ours()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
            let targets = dependencies.iter().map(name).filter(|n| names.contains(n)).collect();
            (name(package), targets)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_keep_to_the_arrows_that_are_drawn() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_named() {
        let page = "# A\n\n## Arrows\n\n| crate | may use |\n|---|---|\n| `a` | `b`, `c` |\n| `b` | |\n| `c` | `b` |\n\n## Next\n| `x` | `y` |\n";
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "source": null, "dependencies": [{"name": "b"}, {"name": "serde"}]},
            {"name": "b", "source": null, "dependencies": [{"name": "a"}]},
            {"name": "d", "source": null, "dependencies": []},
            {"name": "serde", "source": "registry", "dependencies": [{"name": "a"}]},
        ]});
        assert_eq!(
            compare(&drawn(page), &existing(&metadata)),
            [
                "b -> a is not in the table of ARCHITECTURE.md",
                "crate d is not in the table of ARCHITECTURE.md",
                "ARCHITECTURE.md lists c, which does not exist",
            ]
        );
    }
}
