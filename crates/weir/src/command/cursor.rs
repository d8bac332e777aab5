//! `weir cursor list|drop`: positions of outputs, including outputs that are no longer configured.
//!
//! Invariant: a journal is only opened if no other process uses it, as its lock tells.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use weir_api::LedgerDocument;
use weir_host::units::{approx_size, group_digits};
use weir_host::{RealClock, RealDisk};
use weir_journal::{Journal, JournalConfig, JournalError, Ledger};

use crate::cli::{ApiArgs, ConfigArgs, CursorCommand, Output};
use crate::client::Client;
use crate::command::config::locate;
use crate::exit::{Exit, ExitError};
use crate::table::Table;
use crate::term::{print_json, print_text};

/// Runs the command.
pub(crate) fn run(command: &CursorCommand) -> Result<Exit> {
    match command {
        CursorCommand::List { api, output } => list(api, *output),
        CursorCommand::Drop { name, config } => drop_cursor(name, config),
    }
}

/// The shown properties of a cursor.
struct Row {
    name: String,
    is_active: bool,
    in_flight: u64,
    pending_bytes: u64,
}

fn list(args: &ApiArgs, output: Output) -> Result<Exit> {
    let running = Client::new(args).and_then(|client| client.get("/weir/v1/ledger"));
    let rows = match running {
        Ok(ledger) => rows_of_document(ledger),
        // An explicitly given configuration must exist.
        Err(error) if args.api.is_some() => return Err(error),
        Err(_) => rows_of_data_dir(&args.config)?,
    };
    match output {
        Output::Json => {
            let cursors: Vec<_> = rows.iter().map(Row::to_json).collect();
            let document = json!({ "schema": "weir.cursors.v1", "cursors": cursors });
            print_json(&format!("{document:#}\n"))?
        }
        Output::Text => print_text(&table(&rows).text())?,
    };
    Ok(Exit::Ok)
}

impl Row {
    fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "active": self.is_active,
            "in_flight": self.in_flight,
            "pending_bytes": self.pending_bytes,
        })
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["NAME", "CONFIGURED", "RECORDS WAITING", "BYTES WAITING"], 2);
    for row in rows {
        table.row(vec![
            row.name.clone(),
            if row.is_active { "yes" } else { "no" }.to_owned(),
            group_digits(row.in_flight),
            approx_size(row.pending_bytes),
        ]);
    }
    table
}

fn rows_of_document(ledger: LedgerDocument) -> Vec<Row> {
    let row = |cursor: weir_api::CursorEntry| Row {
        name: cursor.name,
        is_active: cursor.active,
        in_flight: cursor.in_flight,
        pending_bytes: cursor.pending_bytes,
    };
    ledger.cursors.into_iter().map(row).collect()
}

fn rows_of_data_dir(config: &ConfigArgs) -> Result<Vec<Row>> {
    let settings = locate(config)?;
    let journal = open(&settings.data_dir)?;
    let ledger: Ledger = journal.ledger();
    journal.shutdown();
    let row = |cursor: &weir_journal::CursorLedger| Row {
        name: cursor.name.clone(),
        is_active: settings.outputs.contains(&cursor.name),
        in_flight: cursor.in_flight,
        pending_bytes: cursor.pending_bytes,
    };
    Ok(ledger.cursors.iter().map(row).collect())
}

fn drop_cursor(name: &str, config: &ConfigArgs) -> Result<Exit> {
    let settings = locate(config)?;
    if settings.outputs.iter().any(|output| output == name) {
        let message =
            format!("output {name:?} is configured: remove it from the configuration first");
        return Err(ExitError::with(Exit::Failed, message));
    }
    let journal = open(&settings.data_dir)?;
    let ledger = journal.ledger();
    let waiting = ledger.cursors.iter().find(|cursor| cursor.name == name).map(|c| c.in_flight);
    let is_dropped = journal.drop_cursor(name);
    journal.shutdown();
    let Some(records) = waiting.filter(|_| is_dropped) else {
        let names: Vec<&str> = ledger.cursors.iter().map(|c| c.name.as_str()).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("there is no cursor {name:?}; existing cursors: {known}");
        return Err(ExitError::with(Exit::NotFound, message));
    };
    print_text(&format!("dropped {name}: {} records discarded\n", group_digits(records)))?;
    Ok(Exit::Ok)
}

/// Opens a journal that must already exist.
fn open(data_dir: &Path) -> Result<Journal> {
    let dir = data_dir.join("journal");
    if !dir.is_dir() {
        let message = format!("there is no journal in {}", data_dir.display());
        return Err(ExitError::with(Exit::NotFound, message));
    }
    // Nothing is appended, so the limits do not matter.
    let config = JournalConfig {
        dir,
        ring_bytes: 64 << 20,
        bytes_max: u64::MAX,
        free_bytes_min: 0,
        segment_bytes: 16 << 20,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(20),
        spill_after: Duration::from_secs(1),
        merge_from_batches: weir_journal::MERGE_FROM_BATCHES,
    };
    Journal::open(config, Arc::new(RealDisk), Arc::new(RealClock::new())).map_err(|error| {
        match error {
            JournalError::Locked { .. } => ExitError::with(
                Exit::Temporary,
                format!(
                    "{} is in use: stop the weir process that uses it first",
                    data_dir.display()
                ),
            ),
            error => error.into(),
        }
    })
}
