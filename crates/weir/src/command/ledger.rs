//! `weir ledger`: the ledger of a running weir, as text or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use weir_api::{ApplicationLimitEntry, ByReason, LedgerDocument, LimitedEntry};
use weir_host::units::{approx_duration, approx_size, group_digits};

use crate::cli::{ApiArgs, Output};
use crate::client::Client;
use crate::command::drains;
use crate::exit::Exit;
use crate::table::Table;
use crate::term::{ColorChoice, Paint, Style, print_json, print_painted};

/// Runs the command.
pub(crate) fn run(args: &ApiArgs, output: Output, color: ColorChoice) -> Result<Exit> {
    let client = Client::new(args)?;
    let body = client.get_text("/weir/v1/ledger")?;
    let ledger: LedgerDocument = serde_json::from_str(&body)
        .context("the ledger is not in the format that this release of weir expects")?;
    match output {
        Output::Json => print_json(&body)?,
        Output::Text => print_painted(&text(&ledger, Paint::for_stdout(color)))?,
    };
    Ok(if ledger.balanced { Exit::Ok } else { Exit::Broken })
}

fn text(ledger: &LedgerDocument, paint: Paint) -> String {
    let mut out = String::new();
    let mut part = |title: &str, table: &Table, note: Option<String>| {
        if !table.is_empty() {
            let (title, note) = (paint.paint(Style::Strong, title), note.unwrap_or_default());
            let _infallible = writeln!(out, "{title}\n{}{note}", table.text());
        }
    };
    part("Sources: lines = records + joined + discarded", &sources(ledger), None);
    part("Files: bytes seen = read + unread + abandoned", &files(ledger), at_least(ledger));
    let title = "Outputs: routed = delivered + discarded + dead-lettered + in flight";
    part(title, &cursors(ledger), moved_and_unbound(ledger));
    let title = "Drains: routed = delivered + discarded + waiting";
    part(title, &drains::table(&ledger.drains), None);
    let title = "Readers: matched = sent + lost + abandoned + queued";
    part(title, &readers(ledger), None);
    part("Connected readers", &connected_readers(ledger), None);
    part("Discarded and abandoned, by reason", &reasons(ledger), None);
    let title = "Above the rate limit, by key, since the start";
    part(title, &rate_limits(ledger), None);
    let (style, verdict) = if ledger.balanced {
        (Style::Good, "The books balance.")
    } else {
        (Style::Bad, "The books do not balance.")
    };
    let _infallible = writeln!(out, "{} ({})", paint.paint(style, verdict), ledger.time);
    if ledger.opening {
        out.push_str(
            "Weir has just started: these books do not yet include everything from the previous \
             run.\n",
        );
    }
    out
}

fn total(counts: &ByReason) -> u64 {
    counts.values().sum()
}

fn sources(ledger: &LedgerDocument) -> Table {
    let head = ["NAME", "TYPE", "LINES", "RECORDS", "JOINED", "DISCARDED", "UNACCOUNTED"];
    let mut table = Table::new(&head, 2);
    for source in &ledger.sources {
        let book = &source.book;
        table.row(vec![
            source.name.clone(),
            or_dash(&source.type_name),
            group_digits(book.lines),
            group_digits(book.records),
            group_digits(book.joined),
            group_digits(total(&book.discarded)),
            source.unaccounted_lines.to_string(),
        ]);
    }
    table
}

fn files(ledger: &LedgerDocument) -> Table {
    let mut table = Table::new(&["NAME", "OPEN", "SEEN", "READ", "UNREAD", "ABANDONED"], 1);
    for source in &ledger.sources {
        let (Some(files), book) = (&source.files, &source.book) else { continue };
        let abandoned = total(&book.bytes_abandoned);
        let mark = if files.at_least { ">=" } else { "" };
        table.row(vec![
            source.name.clone(),
            group_digits(source.streams),
            format!("{mark}{}", group_digits(files.bytes_seen)),
            group_digits(book.bytes_read),
            group_digits(files.bytes_unread),
            format!("{mark}{}", group_digits(abandoned)),
        ]);
    }
    table
}

/// Why byte counts are marked as lower bounds.
fn at_least(ledger: &LedgerDocument) -> Option<String> {
    let files = || ledger.sources.iter().filter_map(|source| source.files.as_ref());
    if !files().any(|files| files.at_least) {
        return None;
    }
    let cut: u64 = files().map(|files| files.files_cut).sum();
    let unseen: u64 = files().map(|files| files.files_unseen).sum();
    let vanished: u64 = files().map(|files| files.files_vanished).sum();
    Some(format!(
        "  >= lower bound: files were truncated ({}), appeared and disappeared between two scans \
         ({}), or disappeared while weir was not running ({}); their unread content was never \
         seen.\n",
        group_digits(cut),
        group_digits(unseen),
        group_digits(vanished)
    ))
}

fn cursors(ledger: &LedgerDocument) -> Table {
    let head = [
        "NAME",
        "TYPE",
        "ROUTED",
        "DELIVERED",
        "DISCARDED",
        "DEAD",
        "IN FLIGHT",
        "RESENT",
        "BUFFER",
        "UNACCOUNTED",
    ];
    let mut table = Table::new(&head, 2);
    for cursor in &ledger.cursors {
        let book = &cursor.book;
        let kind = if cursor.active { or_dash(&cursor.type_name) } else { "removed".to_owned() };
        let (pending, limit) = (cursor.pending_bytes, cursor.buffer_bytes_max);
        table.row(vec![
            cursor.name.clone(),
            kind,
            group_digits(book.routed),
            group_digits(book.delivered),
            group_digits(total(&book.discarded)),
            group_digits(book.dead_lettered),
            group_digits(cursor.in_flight),
            group_digits(book.resent),
            format!("{} of {}", approx_size(pending), approx_size(limit)),
            cursor.unaccounted_records.to_string(),
        ]);
    }
    table
}

/// Describes the routed records that drains have moved to other streams, or that have no drain.
fn moved_and_unbound(ledger: &LedgerDocument) -> Option<String> {
    let mut out = String::new();
    for cursor in &ledger.cursors {
        let (moved, unbound) = (cursor.book.moved, cursor.book.unbound);
        if moved + unbound > 0 {
            let (moved, unbound) = (group_digits(moved), group_digits(unbound));
            let name = &cursor.name;
            let _infallible = writeln!(
                out,
                "  {name}: routed also includes {unbound} for which there is no drain, and {moved} \
                 moved to the streams of lagging drains"
            );
        }
    }
    (!out.is_empty()).then_some(out)
}

fn readers(ledger: &LedgerDocument) -> Table {
    let head = ["SERVICE", "READERS", "MATCHED", "SENT", "LOST", "ABANDONED", "QUEUED", "MISSED"];
    let mut table = Table::new(&head, 1);
    for service in &ledger.readers {
        let mut row = vec![service.name.clone()];
        row.extend(
            [
                service.readers,
                service.matched,
                service.delivered,
                service.lost,
                service.abandoned,
                service.queued,
                service.missed,
            ]
            .map(group_digits),
        );
        table.row(row);
    }
    table
}

fn connected_readers(ledger: &LedgerDocument) -> Table {
    let head = ["SERVICE", "CLIENT", "SHARD", "SELECTS", "MATCHED", "SENT", "LOST", "QUEUED"];
    let mut table = Table::new(&head, 4);
    for service in &ledger.readers {
        for reader in &service.connected {
            let texts = [&service.name, &reader.peer, &reader.shard_id, &reader.selects];
            let mut row = texts.map(Clone::clone).to_vec();
            let counts = [reader.matched, reader.delivered, reader.lost, reader.queued];
            row.extend(counts.map(group_digits));
            table.row(row);
        }
    }
    table
}

fn reasons(ledger: &LedgerDocument) -> Table {
    let mut table = Table::new(&["WHERE", "REASON", "COUNT"], 2);
    let mut add = |component: String, unit: &str, counts: &ByReason| {
        for (reason, count) in counts {
            table.row(vec![
                component.clone(),
                reason.clone(),
                format!("{} {unit}", group_digits(*count)),
            ]);
        }
    };
    for source in &ledger.sources {
        let component = format!("source {}", source.name);
        add(component.clone(), "lines", &source.book.discarded);
        add(component, "bytes", &source.book.bytes_abandoned);
    }
    for cursor in &ledger.cursors {
        add(format!("output {}", cursor.name), "records", &cursor.book.discarded);
    }
    for drain in &ledger.drains {
        add(format!("drain {}", drain.id), "records", &drain.book.discarded);
    }
    table
}

/// The keys with the most records above the limit, and all other keys of the same source.
fn rate_limits(ledger: &LedgerDocument) -> Table {
    let head = ["SOURCE", "KEY", "DISCARDED", "DELAYED", "REFUSED", "TIME", "NOW"];
    let mut table = Table::new(&head, 2);
    let mut add = |source: &str, key: &str, counts: &LimitedEntry, is_over: bool| {
        let waited = Duration::try_from_secs_f64(counts.delayed_seconds).unwrap_or_default();
        table.row(vec![
            source.to_owned(),
            key.to_owned(),
            group_digits(counts.discarded_records),
            group_digits(counts.delayed_records),
            group_digits(counts.refused_records),
            approx_duration(waited),
            if is_over { "above" } else { "-" }.to_owned(),
        ]);
    };
    for source in &ledger.sources {
        let Some(limit) = &source.rate_limit else { continue };
        for key in &limit.keys {
            add(&source.name, &key.key, &key.counts, key.over);
        }
        if limit.others != LimitedEntry::default() {
            add(&source.name, "others", &limit.others, false);
        }
    }
    for ApplicationLimitEntry { source, key, .. } in &ledger.rate_limits {
        add(source, &key.key, &key.counts, key.over);
    }
    table
}

/// The type of a component that is no longer configured is unknown.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
