//! The page in `page/`: built with Node.js, embedded in the binary, tested in a browser.
//!
//! Invariants: packages are those of the lock file, installed in the page's own folder; nothing is
//! installed or built again while nothing has changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::paths;
use crate::setup;
use crate::shell::run;

fn dir() -> PathBuf {
    paths::root().join("page")
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(dir()).args(arguments);
    command
}

/// Builds the page, so that the next build of weir embeds it.
pub(crate) fn build() -> Result<()> {
    setup::for_page()?;
    install()?;
    let built = dir().join("dist/index.html");
    if is_newer(&built, &sources()?) {
        return Ok(());
    }
    run(&mut npm(&["run", "--silent", "build"])).context("the page was not built")
}

/// Builds the page if the machine can; weir also works without it.
pub(crate) fn build_if_possible() {
    if let Err(error) = build() {
        eprintln!("building weir without its page: {error:#}");
    }
}

/// Formatting, lints, types and unit tests of the page.
pub(crate) fn check() -> Result<()> {
    setup::for_page()?;
    install()?;
    run(&mut npm(&["run", "--silent", "check"])).context("the page has errors")
}

/// Tests of the page in a browser, with a real weir.
pub(crate) fn end_to_end(weir: &Path) -> Result<()> {
    let browser = setup::browser()?;
    let mut command = npm(&["run", "--silent", "e2e"]);
    run(command.env("WEIR_BIN", weir).env("CHROMIUM", browser)).context("tests of the page failed")
}

/// Draws every screen into a folder, and the pictures of the guide.
pub(crate) fn draw(weir: &Path, folder: &Path) -> Result<()> {
    let browser = setup::browser()?;
    let root = paths::root();
    let mut command = npm(&["run", "--silent", "screenshots", "--"]);
    command.args([root.join(folder), root.join("docs/images")]);
    run(command.env("WEIR_BIN", weir).env("CHROMIUM", browser)).context("the screens")?;
    eprintln!("{}", root.join(folder).display());
    Ok(())
}

/// Installs the packages of the lock file, if they are not those that are installed.
fn install() -> Result<()> {
    let installed = dir().join("node_modules/.package-lock.json");
    if is_newer(&installed, &[dir().join("package-lock.json")]) {
        return Ok(());
    }
    run(&mut npm(&["ci", "--no-audit", "--no-fund"])).context("npm packages of the page")
}

/// Everything that the page is built from.
fn sources() -> Result<Vec<PathBuf>> {
    let endings = [".ts", ".tsx", ".css", ".html", ".svg", ".mjs", "package-lock.json"];
    let mut files = paths::files(&endings)?;
    // The types of the API are generated anew by each command, from the document below.
    files.retain(|file| file.starts_with("page") && !file.ends_with("src/api/schema.ts"));
    files.push(PathBuf::from("docs/reference/openapi.json"));
    Ok(files.into_iter().map(|file| paths::root().join(file)).collect())
}

fn is_newer(target: &Path, sources: &[PathBuf]) -> bool {
    let time = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let newest =
        sources.iter().filter_map(|path| time(path)).max().unwrap_or(SystemTime::UNIX_EPOCH);
    time(target).is_some_and(|built| built >= newest)
}
