//! House rules that neither rustfmt nor clippy checks: each is a check of the text of the
//! repository, and each message says what to do instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::paths;

/// Maximum length of a source file: readers get lost in longer ones.
const LINES_MAX: usize = 800;

/// Maximum width of prose, as of code.
const COLUMNS_MAX: usize = 100;

/// Pages that are written by programs.
const GENERATED_PAGES: [&str; 2] = ["docs/reference", "bench/results"];

/// Sections that every architecture decision record has.
const ADR_PARTS: [&str; 4] =
    ["## Context", "## Decision", "## Consequences", "## What would change our mind"];

/// Paths of one machine or person, which work nowhere else.
const MACHINE_PATHS: [&str; 4] = ["/root/", "/Users/", "/work/", "/workspace/"];

/// Crates that may contain unsafe code, each with the record that explains why.
const UNSAFE_CRATES: [(&str, &str); 0] = [];

/// Returns every violation, each with its file and line.
pub(crate) fn problems() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in paths::files(&[".rs"])? {
        rust_file(&path, &paths::read(&path)?, &mut problems);
    }
    let text_files = paths::files(&[".rs", ".md", ".toml", ".sh"])?;
    for path in text_files.iter().filter(|path| !is_sample(path)) {
        text_file(path, &paths::read(path)?, &mut problems);
    }
    for path in paths::files(&[".md"])? {
        let page = paths::read(&path)?;
        links(&path, &page, &mut problems);
        if !GENERATED_PAGES.iter().any(|folder| path.starts_with(folder)) {
            widths(&path, &page, &mut problems);
        }
        if path.starts_with("docs/adr") {
            record(&path, &page, &mut problems);
        }
    }
    promises(&mut problems)?;
    unsafe_code(&mut problems)?;
    Ok(problems)
}

/// The tests that ARCHITECTURE.md names for each promise exist.
fn promises(problems: &mut Vec<String>) -> Result<()> {
    let page = paths::read("ARCHITECTURE.md")?;
    let rows = page.lines().skip_while(|line| !line.starts_with("| promise |"));
    let rows: Vec<&str> = rows.skip(2).take_while(|line| line.starts_with('|')).collect();
    if rows.is_empty() {
        problems.push("ARCHITECTURE.md: the table of promises and their tests is missing".into());
    }
    let mut missing: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    for path in paths::files(&[".rs"])? {
        let text = paths::read(path)?;
        missing.retain(|test| !text.contains(&format!("fn {test}(")));
    }
    problems.extend(missing.iter().map(|test| format!("ARCHITECTURE.md: there is no test {test}")));
    Ok(())
}

/// Captured test input, which is not checked.
fn is_sample(path: &Path) -> bool {
    path.starts_with("tests/golden") || path.ends_with("xtask/src/tidy.rs")
}

fn rust_file(path: &Path, text: &str, problems: &mut Vec<String>) {
    let file = path.display();
    if !text.starts_with("//!") {
        problems.push(format!("{file}:1: begin with a `//!` comment on the purpose of the file"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        problems.push(format!("{file}: {lines} lines; split it (at most {LINES_MAX})"));
    }
    if path.ends_with("xtask/src/tidy.rs") {
        return;
    }
    let mut is_test = path.components().any(|part| part.as_os_str() == "tests");
    let mut previous = "";
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let code = line.trim_start();
        is_test |= code.starts_with("#[cfg(test)]");
        if code.starts_with("#[ignore") {
            problems
                .push(format!("{file}:{number}: an ignored test proves nothing; fix or delete it"));
        }
        let sleeps = code.contains("sleep(") && !code.starts_with("//");
        if is_test && sleeps && !code.contains("fn ") {
            problems.push(format!("{file}:{number}: wait for the event, with a deadline"));
        }
        let is_limit =
            path.ends_with("limits.rs") && code.starts_with("pub") && code.contains("const ");
        if is_limit && !previous.starts_with("///") && !previous.starts_with("#[") {
            problems.push(format!("{file}:{number}: document the reason of the limit"));
        }
        if code.starts_with("//") && line.chars().count() > COLUMNS_MAX {
            problems.push(format!("{file}:{number}: wrap the comment at {COLUMNS_MAX} columns"));
        }
        previous = code;
    }
}

fn text_file(path: &Path, text: &str, problems: &mut Vec<String>) {
    let file = path.display();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for word in ["TODO", "FIXME", "XXX"] {
            if has_word(line, word) {
                problems.push(format!("{file}:{number}: {word}: do it now or record it elsewhere"));
            }
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            problems.push(format!("{file}:{number}: resolve the merge conflict"));
        }
        if let Some(found) = MACHINE_PATHS.iter().find(|found| line.contains(**found)) {
            problems.push(format!("{file}:{number}: {found} exists on one machine only"));
        }
        let is_markdown = path.extension().is_some_and(|e| e == "md");
        if is_markdown && line.ends_with([' ', '\t']) {
            problems.push(format!("{file}:{number}: trailing space"));
        }
    }
}

/// Checks that prose is wrapped; tables, images and code blocks cannot be.
fn widths(path: &Path, page: &str, problems: &mut Vec<String>) {
    let mut is_code = false;
    for (number, line) in page.lines().enumerate() {
        let text = line.trim_start();
        is_code ^= text.starts_with("```");
        let is_prose = !is_code && !text.starts_with(['|', '!']);
        if is_prose && line.chars().count() > COLUMNS_MAX {
            let place = format!("{}:{}", path.display(), number + 1);
            problems.push(format!("{place}: wrap the text at {COLUMNS_MAX} columns"));
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back())
            && !is_letter(line[at + word.len()..].chars().next())
    })
}

/// Checks that relative links lead to a file, and their anchors to a heading of it.
fn links(path: &Path, page: &str, problems: &mut Vec<String>) {
    let folder = paths::root().join(path.parent().unwrap_or(Path::new("")));
    for target in targets(page) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let linked: PathBuf =
            if file.is_empty() { paths::root().join(path) } else { folder.join(file) };
        if !linked.exists() {
            problems.push(format!("{}: broken link to {target}", path.display()));
        } else if !anchor.is_empty() {
            let headings = std::fs::read_to_string(&linked).unwrap_or_default();
            if !anchors(&headings).contains(anchor) {
                problems.push(format!("{}: no heading for {target}", path.display()));
            }
        }
    }
}

/// Returns the targets of links within the repository, except in code blocks.
fn targets(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    prose
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// Returns the anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Checks that an architecture decision record is one page with four sections.
fn record(path: &Path, page: &str, problems: &mut Vec<String>) {
    let file = path.display();
    for part in ADR_PARTS {
        if !page.lines().any(|line| line == part) {
            problems.push(format!("{file}: a record needs the section \"{part}\""));
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name.split('-').next().unwrap_or_default();
    if number.len() != 4 || !number.bytes().all(|b| b.is_ascii_digit()) {
        problems.push(format!("{file}: a record must be named NNNN-title.md"));
    }
}

fn unsafe_code(problems: &mut Vec<String>) -> Result<()> {
    let roots = paths::files(&["src/lib.rs", "src/main.rs", "lib.rs", "main.rs"])?;
    for path in roots.iter().filter(|path| path.starts_with("crates")) {
        let is_excepted = UNSAFE_CRATES.iter().any(|(name, why)| {
            path.starts_with(format!("crates/{name}")) && paths::root().join(why).exists()
        });
        let is_root = path.components().count() == 4;
        if is_root && !is_excepted && !paths::read(path)?.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{}: add #![forbid(unsafe_code)]", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_its_house_rules() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let mut found = Vec::new();
        let wide = "word ".repeat(21);
        let text = format!("use x;\n#[ignore]\n#[cfg(test)]\nstd::thread::sleep(d);\n// {wide}\n");
        rust_file(Path::new("a.rs"), &text, &mut found);
        rust_file(Path::new("limits.rs"), "//! x\npub const A: u8 = 1;\n", &mut found);
        text_file(Path::new("a.md"), "a TODO \nMYTODO and /root/x\n>>>>>>> b", &mut found);
        record(Path::new("docs/adr/1-x.md"), "## Context\n## Decision\n", &mut found);
        let page = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n");
        widths(Path::new("a.md"), &page, &mut found);
        assert_eq!(found.len(), 4 + 1 + 4 + 3 + 1, "{found:#?}");
    }

    #[test]
    fn links_and_anchors_are_understood() {
        let page = "[a](b.md#x) [c](https://d) ```\n[e](f)\n``` [g](#h)";
        assert_eq!(targets(page), ["b.md#x", "#h"]);
        assert!(anchors("## The one idea: a `journal`\n").contains("the-one-idea-a-journal"));
    }
}
