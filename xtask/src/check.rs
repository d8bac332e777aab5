//! `cargo xtask check`: what every change must pass, cheapest first.

use anyhow::Result;

use crate::shell::{cargo, run};
use crate::{arrows, dependencies, generate, tidy};

/// Runs every check; the first that fails ends it.
pub(crate) fn all() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    report("tidy", tidy::problems()?)?;
    report("arrows", arrows::problems()?)?;
    report("dependencies", dependencies::problems()?)?;
    // The release profile shares proc macros and build scripts with the build that follows.
    run(cargo().args([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "--deny=warnings",
    ]))?;
    generate::generate(true)
}

fn report(name: &str, problems: Vec<String>) -> Result<()> {
    for problem in &problems {
        eprintln!("{name}: {problem}");
    }
    anyhow::ensure!(problems.is_empty(), "{name}: {} problems", problems.len());
    eprintln!("{name}: ok");
    Ok(())
}
