//! `weir cursor list|drop`: positions of outputs, including outputs that are no longer configured.
//!
//! Invariants: a running weir is asked, and its errors are shown; the journal is only opened if no
//! weir answers at the configured address and no other process uses it, as its lock tells.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use weir_api::{DroppedCursor, LedgerDocument};
use weir_codec::path_segment;
use weir_host::units::{approx_size, group_digits};
use weir_host::{RealClock, RealDisk};
use weir_journal::{DropCursorError, Journal, JournalConfig, JournalError, Ledger};
use weir_pipeline::cursors::CursorChangeError;

use crate::cli::{ApiArgs, ConfigArgs, CursorCommand, Output};
use crate::client::{Client, absence};
use crate::command::config::locate;
use crate::exit::{Exit, ExitError};
use crate::table::Table;
use crate::term::{print_json, print_text};

/// Runs the command.
pub(crate) fn run(command: &CursorCommand) -> Result<Exit> {
    match command {
        CursorCommand::List { api, output } => list(api, *output),
        CursorCommand::Drop { name, api } => drop_cursor(name, api),
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
    let rows = match absence_of_weir(args)? {
        None => rows_of_document(Client::new(args)?.get("/weir/v1/ledger")?)?,
        Some(absence) => rows_of_data_dir(&args.config, &absence)?,
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

fn rows_of_document(ledger: LedgerDocument) -> Result<Vec<Row>> {
    if ledger.of_applications {
        bail!(
            "the token may only be used for the applications of its owner; cursors belong to all \
             applications"
        );
    }
    let row = |cursor: weir_api::CursorEntry| Row {
        name: cursor.name,
        is_active: cursor.active,
        in_flight: cursor.in_flight,
        pending_bytes: cursor.pending_bytes,
    };
    Ok(ledger.cursors.into_iter().map(row).collect())
}

fn rows_of_data_dir(config: &ConfigArgs, absence: &str) -> Result<Vec<Row>> {
    let settings = locate(config)?;
    let journal = open(&settings.data_dir, absence)?;
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

fn drop_cursor(name: &str, args: &ApiArgs) -> Result<Exit> {
    let records = match absence_of_weir(args)? {
        None => {
            let path = format!("/weir/v1/cursors/{}", path_segment(name));
            Client::new(args)?.delete::<DroppedCursor>(&path)?.discarded_records
        }
        Some(absence) => drop_in_data_dir(name, &args.config, &absence)?,
    };
    print_text(&format!("dropped {name}: {} records discarded\n", group_digits(records)))?;
    Ok(Exit::Ok)
}

/// Returns the number of discarded records.
fn drop_in_data_dir(name: &str, config: &ConfigArgs, absence: &str) -> Result<u64> {
    let settings = locate(config)?;
    if settings.outputs.iter().any(|output| output == name) {
        return Err(refusal(&DropCursorError::Configured { name: name.to_owned() }));
    }
    let journal = open(&settings.data_dir, absence)?;
    let dropped = journal.drop_cursor(name);
    let saved = journal.try_flush();
    journal.shutdown();
    let records = dropped.map_err(|error| refusal(&error))?;
    let not_saved = |error| CursorChangeError::NotSaved { name: name.to_owned(), error };
    saved.map_err(not_saved)?;
    Ok(records)
}

/// The error with the exit code that it also has if a running weir returns it.
fn refusal(error: &DropCursorError) -> anyhow::Error {
    let exit = match error {
        DropCursorError::Unknown { .. } => Exit::NotFound,
        DropCursorError::Configured { .. } | DropCursorError::Stopping { .. } => Exit::Failed,
        DropCursorError::Closed => Exit::Temporary,
    };
    ExitError::with(exit, error.to_string())
}

/// Why the data directory is opened instead of asking a running weir; `None` if one is asked. If
/// its address was given, weir must be reachable there.
fn absence_of_weir(args: &ApiArgs) -> Result<Option<String>> {
    if args.api.is_some() { Ok(None) } else { absence(&args.config) }
}

/// Opens a journal that must already exist. `absence` is why no running weir was asked instead.
fn open(data_dir: &Path, absence: &str) -> Result<Journal> {
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
        punch_bytes_min: weir_journal::PUNCH_BYTES_MIN,
        verify_time_max: Duration::from_secs(1),
    };
    Journal::open(config, Arc::new(RealDisk), Arc::new(RealClock::new())).map_err(|error| {
        match error {
            JournalError::Locked { .. } => ExitError::with(
                Exit::Temporary,
                format!(
                    "{} is in use by another weir, which cannot be reached ({absence}): pass the \
                     address of its API with --api, or stop it first",
                    data_dir.display()
                ),
            ),
            error => error.into(),
        }
    })
}
