//! The configuration, in two stages: read as typed, then validated as a [`Plan`] before any port or
//! file is opened for writing.
//!
//! Reading order: `tables`, `source` and `output` (what can be written), `text` and `tree` (what
//! was written), `section` (one table read against its fields), `plan` (the whole configuration),
//! `check` (constraints between the parts), `diagnostic` (how errors are reported).
//!
//! Invariants: nothing in the files is ignored (an unknown key is an error), all errors are
//! reported at once, and the value of a secret is never printed.

mod access;
mod calculated_fields;
mod check;
mod choices;
mod client;
mod destination;
mod diagnostic;
mod disk;
mod drains;
mod field;
mod glob;
mod output;
mod plan;
mod readers;
mod redaction;
mod reference;
mod renames;
mod rules;
mod schema;
mod section;
mod sections;
mod server;
mod source;
mod tables;
mod text;
mod tree;
mod units;
mod usual;

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub(crate) use diagnostic::{Diagnostics, Level};
pub(crate) use plan::{LogFormat, LogPlan, Plan, STORE};
pub(crate) use reference::markdown as reference;
pub(crate) use rules::{RuleTest, TestValue};
pub(crate) use schema::json_schema as schema;
pub(crate) use text::{TextError, Texts};

/// The configuration that is used without `-c`, including its comments.
pub(crate) const DEFAULT: &str = include_str!("default.toml");

/// Name of the built-in default in messages.
const DEFAULT_NAME: &str = "<built-in default>";

/// The result of reading a configuration.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The plan of what to run; `None` if there are errors.
    pub(crate) plan: Option<Plan>,
    /// All errors and warnings, in the order of the text.
    pub(crate) diagnostics: Diagnostics,
    /// The files, for quoting their lines.
    pub(crate) texts: Texts,
}

/// Reads and validates a file, a directory of `*.toml` files, or the built-in default.
pub(crate) fn load(path: Option<&Path>) -> Result<Loaded, TextError> {
    match path {
        Some(path) => Texts::read(path).map(load_texts),
        None => Ok(load_texts(built_in())),
    }
}

/// The settings for commands that query a running weir or read its data.
#[derive(Debug)]
pub(crate) struct ClientSettings {
    pub(crate) data_dir: PathBuf,
    /// `None` if the API is disabled.
    pub(crate) api_listen: Option<SocketAddr>,
    /// Its certificate; `None` if it does not use TLS.
    pub(crate) api_cert_file: Option<PathBuf>,
    /// Names of the outputs, and of other destinations that have a cursor.
    pub(crate) outputs: Vec<String>,
}

/// Reads only addresses and paths. Secrets are not read, since such a command may not have access
/// to them. Errors are only those of the keys that were read.
pub(crate) fn locate(path: Option<&Path>) -> Result<(Option<ClientSettings>, Loaded), TextError> {
    let texts = match path {
        Some(path) => Texts::read(path)?,
        None => built_in(),
    };
    let mut diagnostics = Diagnostics::default();
    let tree = tree::parse(&texts, &mut diagnostics);
    let settings = client::client_settings(&tree, &mut diagnostics);
    let settings = Some(settings).filter(|_| !diagnostics.has_errors());
    Ok((settings, Loaded { plan: None, diagnostics, texts }))
}

fn built_in() -> Texts {
    let mut texts = Texts::default();
    texts.add(DEFAULT_NAME, DEFAULT.to_owned());
    texts
}

/// Validates files that are in memory.
pub(crate) fn load_texts(texts: Texts) -> Loaded {
    let mut diagnostics = Diagnostics::default();
    let tree = tree::parse(&texts, &mut diagnostics);
    let plan = plan::plan(&tree, &mut diagnostics);
    diagnostics.drop_consequences(&texts);
    diagnostics.sort();
    let plan = plan.filter(|_| !diagnostics.has_errors());
    Loaded { plan, diagnostics, texts }
}
