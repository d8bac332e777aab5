//! Runs other programs, and prints their command lines.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Prefixes of variables that cargo sets for the program that it runs. Build scripts watch some of
/// them, so inheriting them would cause rebuilds.
const OF_THIS_PROGRAM: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// Returns cargo, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::paths::root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OF_THIS_PROGRAM.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a program to its end, with this terminal as its own.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = line(command);
    eprintln!("$ {text}");
    let status = command.status().with_context(|| format!("failed to start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed with {status}");
    }
    Ok(())
}

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let text = line(command);
    let output = command.output().with_context(|| format!("failed to start `{text}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{text}` failed with {}: {}", output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{text}` did not print valid text"))
}

/// Returns true if a program runs and succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Returns the command as one would type it, without the directory of the program.
fn line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words: Vec<_> = std::iter::once(name).chain(command.get_args()).collect();
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}
