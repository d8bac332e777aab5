//! `weir store`: statistics, export, verification and deletions of a running weir's store.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use weir_api::StoreDocument;
use weir_host::RealDisk;
use weir_host::terminal::printable;
use weir_host::units::{approx_size, group_digits};
use weir_store::embedded::{self, Fault, bytes_to_verify};

use crate::cli::{ConfigArgs, Output, StoreCommand};
use crate::client::Client;
use crate::command::config::locate;
use crate::exit::Exit;
use crate::table::Table;
use crate::term::{ColorChoice, Paint, Style, note, print_json, print_painted, print_text};
use progress::{Progress, Total};

mod delete;
mod export;
mod progress;
mod target;

/// Number of services and columns listed; `--output json` lists all.
const LISTED: usize = 20;

/// Runs the command.
pub(crate) fn run(command: &StoreCommand, color: ColorChoice) -> Result<Exit> {
    match command {
        StoreCommand::Info { api, output } => {
            let body = Client::new(api)?.get_text("/weir/v1/store")?;
            let store: StoreDocument = serde_json::from_str(&body).context(
                "the store statistics are not in the format that this release of weir expects",
            )?;
            match output {
                Output::Json => print_json(&body)?,
                Output::Text => print_painted(&text(&store, Paint::for_stdout(color)))?,
            };
            Ok(Exit::Ok)
        }
        StoreCommand::Export(args) => export::export(args),
        StoreCommand::Verify { config } => verify(config),
        StoreCommand::Delete(args) => delete::delete(args),
        StoreCommand::Deletions { cancel: Some(id), api, .. } => delete::cancel(api, *id),
        StoreCommand::Deletions { api, output, .. } => delete::list(api, *output),
    }
}

/// Prints each damaged file on one line, then the totals.
fn verify(args: &ConfigArgs) -> Result<Exit> {
    let dir = locate(args)?.data_dir.join("store");
    let mut progress = Progress::new("read", true);
    if progress.is_shown()
        && let Ok(bytes) = bytes_to_verify(&dir, &RealDisk)
    {
        progress.set_total(Total::Bytes(bytes));
    }
    let (mut segments, mut spare, mut rows, mut faults) = (0_u64, 0_u64, 0, String::new());
    let read = embedded::verify(&dir, &RealDisk, |found| {
        let is_there = !matches!(found.fault, Some(Fault::Missing { .. } | Fault::SetAside { .. }));
        segments += u64::from(is_there && !found.is_spare);
        spare += u64::from(found.is_spare);
        rows += found.rows;
        progress.add(found.bytes, found.file_bytes);
        let path = found.path.display();
        let segment = found.fault.map(|fault| format!("{path}: {fault}\n"));
        let sidecar = found.sidecar_fault.map(|fault| {
            format!("{path}: its filters: {fault} (they are rebuilt at the next start)\n")
        });
        faults.extend(segment.into_iter().chain(sidecar));
    });
    read.context("no store was verified (set its configuration with --config)")?;
    progress.end();
    print_text(&faults)?;
    let (count, records) = (group_digits(segments), group_digits(rows));
    note(&format!("{count} {} with {records} records", segments_word(segments)));
    if spare > 0 {
        let spare = group_digits(spare);
        note(&format!("{spare} more were not counted: they were replaced, or are incomplete"));
    }
    Ok(if faults.is_empty() { Exit::Ok } else { Exit::Failed })
}

fn text(store: &StoreDocument, paint: Paint) -> String {
    let mut out = String::new();
    let on_disk = store.segment_bytes + store.sidecar_bytes;
    let ratio = match store.raw_bytes {
        0 => String::new(),
        raw => format!(", {:.1} % of the received size", on_disk as f64 * 100.0 / raw as f64),
    };
    let range = match (&store.first_time, &store.last_time) {
        (Some(first), Some(last)) => format!(", from {first} to {last}"),
        _ => String::new(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}\n  {} records in {} {}{range}\n  {} on disk{ratio}: segments {}, filters {}; {} \
         received\n  {} records ({}) not in a segment yet",
        paint.paint(Style::Strong, "Store"),
        group_digits(store.rows),
        group_digits(store.segments),
        segments_word(store.segments),
        approx_size(on_disk),
        approx_size(store.segment_bytes),
        approx_size(store.sidecar_bytes),
        approx_size(store.raw_bytes),
        group_digits(store.head_rows),
        approx_size(store.head_bytes),
    );
    if store.unparsed_rows > 0 {
        let count = group_digits(store.unparsed_rows);
        let _ = writeln!(
            out,
            "  {count} records since the start could not be parsed as their format (JSON, logfmt, \
             the format of their source)"
        );
    }
    if !store.has_caught_up {
        let _ = writeln!(out, "  {}", paint.paint(Style::Warn, "still catching up"));
    }
    for name in &store.damaged {
        let _ = writeln!(out, "  {} {}", paint.paint(Style::Bad, "damaged:"), printable(name));
    }
    let mut part = |title: &str, table: &Table, all: usize| {
        if !table.is_empty() {
            let more = all.saturating_sub(LISTED);
            let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
            let _ = writeln!(out, "{}\n{}{more}", paint.paint(Style::Strong, title), table.text());
        }
    };
    part("Records by service", &services(store), store.services.len());
    part("Bytes by column", &columns(store), store.columns.len());
    out
}

fn segments_word(count: u64) -> &'static str {
    if count == 1 { "segment" } else { "segments" }
}

fn services(store: &StoreDocument) -> Table {
    let mut table = Table::new(&["SERVICE", "RECORDS", "SHARE"], 1);
    let all: u64 = store.services.iter().map(|service| service.rows).sum();
    for service in store.services.iter().take(LISTED) {
        let name = if service.name.is_empty() { "-" } else { &service.name };
        let share = service.rows as f64 * 100.0 / all.max(1) as f64;
        table.row(vec![name.to_owned(), group_digits(service.rows), format!("{share:.1} %")]);
    }
    table
}

fn columns(store: &StoreDocument) -> Table {
    let mut table = Table::new(&["COLUMN", "ON DISK", "PLAIN", "SHARE"], 1);
    let all: u64 = store.columns.iter().map(|column| column.packed_bytes).sum();
    for column in store.columns.iter().take(LISTED) {
        let share = column.packed_bytes as f64 * 100.0 / all.max(1) as f64;
        table.row(vec![
            column.name.clone(),
            approx_size(column.packed_bytes),
            approx_size(column.plain_bytes),
            format!("{share:.1} %"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{StoreColumn, StoreService};

    #[test]
    fn the_store_is_shown_by_service_and_column() {
        let store = StoreDocument {
            segments: 2,
            rows: 3000,
            head_rows: 5,
            head_bytes: 2048,
            unparsed_rows: 1234,
            raw_bytes: 10_000,
            segment_bytes: 1900,
            sidecar_bytes: 100,
            has_caught_up: true,
            services: vec![
                StoreService { name: "web".into(), rows: 2000 },
                StoreService { name: String::new(), rows: 1000 },
            ],
            columns: vec![StoreColumn {
                name: "message".into(),
                packed_bytes: 1024,
                plain_bytes: 4096,
            }],
            ..StoreDocument::default()
        };
        let want = "Store
  3,000 records in 2 segments
  1.95 KiB on disk, 20.0 % of the received size: segments 1.86 KiB, filters 100 B; 9.77 KiB received
  5 records (2.00 KiB) not in a segment yet
  1,234 records since the start could not be parsed as their format (JSON, logfmt, the format of their source)
Records by service
  SERVICE  RECORDS   SHARE
  web        2,000  66.7 %
  -          1,000  33.3 %

Bytes by column
  COLUMN    ON DISK     PLAIN    SHARE
  message  1.00 KiB  4.00 KiB  100.0 %

";
        assert_eq!(text(&store, Paint::off()), want);
    }
}
