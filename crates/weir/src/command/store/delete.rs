//! `weir store delete` and `weir store deletions`, also `--cancel`.
//!
//! Invariant: nothing is deleted before the number of records was shown and confirmed.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use weir_api::{AnswerMeta, DeletionAnswer, DeletionEntry, DeletionsAnswer};
use weir_host::units::group_digits;

use crate::cli::{ApiArgs, DeleteArgs, Output};
use crate::client::Client;
use crate::exit::{Exit, ExitError};
use crate::table::Table;
use crate::term::{note, print_json, print_text};

const PATH: &str = "/weir/v1/store/deletions";

/// How long counting, or making the deletion durable, may take.
const WORK_TIMEOUT: Duration = Duration::from_mins(1);

/// Counts, asks for confirmation, and deletes.
pub(super) fn delete(args: &DeleteArgs) -> Result<Exit> {
    let client = Client::new(&args.api)?.with_work_timeout(Some(WORK_TIMEOUT));
    let body = request_body(args);
    let mut dry = body.clone();
    dry["dry_run"] = true.into();
    let answer: DeletionAnswer = client.post(PATH, &dry)?;
    let count = answer.records.unwrap_or(0);
    let is_short = |code: &str| ["deadline", "memory", "catching_up", "damaged"].contains(&code);
    let is_whole = !answer.meta.warnings.iter().any(|warning| is_short(&warning.code));
    note_warnings(&answer.meta);
    let records = records(count);
    if count == 0 && is_whole {
        return Err(ExitError::with(Exit::NotFound, "no records match"));
    }
    let records = if is_whole { records } else { format!("at least {records}") };
    if args.dry_run {
        note(&format!("{records} would be deleted"));
        return Ok(Exit::Ok);
    }
    if !args.yes && !confirm(&records)? {
        return Err(ExitError::with(Exit::Interrupted, "nothing was deleted"));
    }
    let answer: DeletionAnswer = client.post(PATH, &body)?;
    let id = answer.id.context("weir's response contains no deletion ID")?;
    note(&format!(
        "{records} hidden; deletion {id} removes them from the disk in the background, see `weir \
         store deletions`"
    ));
    Ok(Exit::Ok)
}

fn request_body(args: &DeleteArgs) -> Value {
    let mut body = json!({ "query": args.query.join(" ") });
    for (name, time) in [("from", &args.from), ("to", &args.to)] {
        if let Some(time) = time {
            body[name] = time.as_str().into();
        }
    }
    body
}

fn records(count: u64) -> String {
    let word = if count == 1 { "record" } else { "records" };
    format!("{} {word}", group_digits(count))
}

fn note_warnings(meta: &AnswerMeta) {
    for warning in &meta.warnings {
        note(&warning.detail);
    }
}

/// Asks for confirmation on the terminal.
fn confirm(records: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        let message = format!("{records} would be deleted: confirm with --yes");
        return Err(ExitError::with(Exit::Usage, message));
    }
    let mut out = io::stderr().lock();
    write!(out, "Delete {records}? This cannot be undone. Type yes: ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("yes"))
}

/// Cancels a deletion, and prints what was already removed.
pub(super) fn cancel(api: &ApiArgs, id: u64) -> Result<Exit> {
    let client = Client::new(api)?.with_work_timeout(Some(WORK_TIMEOUT));
    let entry: DeletionEntry = client.delete(&format!("{PATH}/{id}"))?;
    let removed = records(entry.records);
    note(&format!(
        "deletion {id} cancelled: {removed} already removed, the others are visible again"
    ));
    Ok(Exit::Ok)
}

/// Lists the requested deletions.
pub(super) fn list(api: &ApiArgs, output: Output) -> Result<Exit> {
    let client = Client::new(api)?;
    match output {
        Output::Json => print_json(&client.get_text(PATH)?)?,
        Output::Text => {
            let answer: DeletionsAnswer = client.get(PATH)?;
            print_text(&table(&answer.deletions).text())?
        }
    };
    Ok(Exit::Ok)
}

fn table(deletions: &[DeletionEntry]) -> Table {
    let head = ["ID", "REQUESTED", "STATUS", "QUERY", "RECORDS REMOVED", "SEGMENTS LEFT"];
    let mut table = Table::new(&head, 4);
    for entry in deletions {
        let seconds = entry.requested.get(..19).unwrap_or(&entry.requested);
        table.row(vec![
            entry.id.to_string(),
            format!("{seconds}Z"),
            entry.status.clone(),
            entry.query.as_deref().unwrap_or("(forgotten)").to_owned(),
            group_digits(entry.records),
            group_digits(entry.segments_left),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_listed_with_status() {
        let entry = |id, status: &str, query: Option<&str>| DeletionEntry {
            id,
            status: status.to_owned(),
            query: query.map(str::to_owned),
            from: None,
            to: None,
            requested: "2026-01-31T23:00:00.123456789Z".to_owned(),
            done: None,
            records: 1234,
            segments_left: id,
        };
        let entries = [entry(2, "pending", Some("\"a\nb\"")), entry(1, "done", None)];
        let want = [
            "  ID  REQUESTED             STATUS   QUERY        RECORDS REMOVED  SEGMENTS LEFT",
            "  2   2026-01-31T23:00:00Z  pending  \"a\\nb\"                 1,234              2",
            "  1   2026-01-31T23:00:00Z  done     (forgotten)            1,234              1",
        ];
        assert_eq!(table(&entries).text(), want.join("\n") + "\n");
    }
}
