//! `weir drains list|add|remove|pause|resume|test`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use weir_api::{DrainChange, DrainEntry, DrainProviderEntry, DrainsDocument, NewDrain};
use weir_codec::path_segment;
use weir_host::units::{approx_duration, group_digits};

use crate::cli::{AddDrainArgs, ApiArgs, DrainsCommand, Output};
use crate::client::Client;
use crate::exit::Exit;
use crate::table::Table;
use crate::term::{print_json, print_text};

const PATH: &str = "/weir/v1/drains";

/// Runs the command.
pub(crate) fn run(command: &DrainsCommand) -> Result<Exit> {
    match command {
        DrainsCommand::List { api, output } => list(api, *output),
        DrainsCommand::Add(args) => add(args),
        DrainsCommand::Remove { id, api } => {
            let removed: DrainChange = Client::new(api)?.delete(&path_of(id))?;
            print_text(&format!("removed {}\n", removed.id))?;
            Ok(Exit::Ok)
        }
        DrainsCommand::Pause { id, api } => change(api, id, "pause", "paused"),
        DrainsCommand::Resume { id, api } => change(api, id, "resume", "resumed"),
        DrainsCommand::Test { id, api } => test(api, id),
    }
}

fn list(args: &ApiArgs, output: Output) -> Result<Exit> {
    let body = Client::new(args)?.get_text(PATH)?;
    let document: DrainsDocument = serde_json::from_str(&body)
        .context("the drains are not in the format that this release of weir expects")?;
    match output {
        Output::Json => print_json(&body)?,
        Output::Text => print_text(&text(&document))?,
    };
    Ok(if document.balanced { Exit::Ok } else { Exit::Broken })
}

/// A row for each drain, with its book.
pub(crate) fn table(drains: &[DrainEntry]) -> Table {
    let head = [
        "ID",
        "SELECTS",
        "URL",
        "STATE",
        "LAG",
        "ROUTED",
        "DELIVERED",
        "DISCARDED",
        "WAITING",
        "MOVED",
    ];
    let mut table = Table::new(&head, 4);
    for drain in drains {
        let book = &drain.book;
        let discarded: u64 = book.discarded.values().sum();
        let counts = [book.routed, book.delivered, discarded, book.waiting, book.moved];
        let lag = drain.lag_seconds.map(|seconds| Duration::from_secs_f64(seconds.min(1e9)));
        let lag = lag.map_or_else(|| "?".to_owned(), approx_duration);
        let (id, selects) = (drain.id.clone(), drain.selects.clone());
        let mut row = vec![id, selects, drain.url.clone(), drain.state.clone(), lag];
        row.extend(counts.map(group_digits));
        table.row(row);
    }
    table
}

fn text(document: &DrainsDocument) -> String {
    let mut out = table(&document.drains).text();
    let failing = document.drains.iter().map(|drain| (&drain.id, &drain.error));
    let failing = failing.chain(document.providers.iter().map(|it| (&it.name, &it.error)));
    for (name, error) in failing {
        if let Some(error) = error {
            let _infallible = writeln!(out, "{name}: {error}");
        }
    }
    for DrainProviderEntry { name, rejected, .. } in &document.providers {
        if *rejected > 0 {
            let _infallible = writeln!(out, "{name}: {rejected} invalid drains");
        }
    }
    out
}

fn add(args: &AddDrainArgs) -> Result<Exit> {
    let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(file).transpose();
    let drain = NewDrain {
        app: args.app.clone(),
        space: args.space.clone(),
        organization: args.organization.clone(),
        url: args.url.clone(),
        hostname: args.hostname.clone().unwrap_or_default(),
        cert: read(&args.cert_file)?,
        key: read(&args.key_file)?,
        ca: read(&args.drain_ca_file)?,
    };
    let body = serde_json::to_value(&drain)?;
    let added: DrainChange = Client::new(&args.api)?.post(PATH, &body)?;
    print_text(&format!("added {}\n", added.id))?;
    Ok(Exit::Ok)
}

fn file(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn path_of(id: &str) -> String {
    format!("{PATH}/{}", path_segment(id))
}

fn change(api: &ApiArgs, id: &str, what: &str, done: &str) -> Result<Exit> {
    let path = format!("{}/{what}", path_of(id));
    let changed: DrainChange = Client::new(api)?.post(&path, &json!({}))?;
    print_text(&format!("{done} {}\n", changed.id))?;
    Ok(Exit::Ok)
}

fn test(api: &ApiArgs, id: &str) -> Result<Exit> {
    let path = format!("{}/test", path_of(id));
    let tested: DrainChange = Client::new(api)?.post(&path, &json!({}))?;
    match tested.error {
        None => {
            print_text("connected successfully\n")?;
            Ok(Exit::Ok)
        }
        Some(error) => {
            print_text(&format!("{error}\n"))?;
            Ok(Exit::Failed)
        }
    }
}
