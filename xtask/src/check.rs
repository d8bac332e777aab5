//! `cargo xtask check`: the checks that every change must pass, cheapest first.

use anyhow::Result;

use crate::paths::Profile;
use crate::shell::{cargo, run};
use crate::{arrows, closed, dependencies, modules, tidy};

/// Runs every check that needs no built binary; stops at the first one that fails.
pub(crate) fn sources(features: &[&str]) -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    // The fuzz targets are a workspace of their own.
    run(cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    report("tidy", &tidy::problems()?)?;
    report("modules", &modules::problems()?)?;
    report("closed lists", &closed::problems()?)?;
    report("arrows", &arrows::problems()?)?;
    report("dependencies", &dependencies::problems()?)?;
    // The profile of the tests shares proc macros and build scripts with the build that follows.
    let mut clippy = cargo();
    clippy.args(["clippy", "--profile", Profile::Checked.name(), "--workspace", "--all-targets"]);
    clippy.args(features);
    run(clippy.args(["--", "--deny=warnings"]))
}

fn report(name: &str, problems: &[String]) -> Result<()> {
    for problem in problems {
        eprintln!("{name}: {problem}");
    }
    anyhow::ensure!(problems.is_empty(), "{name}: {} problems", problems.len());
    eprintln!("{name}: ok");
    Ok(())
}
