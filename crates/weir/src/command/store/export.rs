//! `weir store export`: writes all records that match an expression to a file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;
use weir_api::{AggregateAnswer, ScanMeta};
use weir_codec::percent_encoded;

use super::progress::{Progress, Total};
use super::target::{Pieces, Target, with_suffix};
use crate::cli::{ExportArgs, ExportFormat, RowOrder};
use crate::client::{Client, Headers};
use crate::command::search::back;
use crate::exit::{Exit, ExitError};
use crate::term::note;

/// A time before all records, as the API reads it.
const FIRST: &str = "now-400000d";

/// Number of bytes to read at once.
const READ_BYTES: usize = 64 * 1024;

/// The start of the requested range.
fn from(args: &ExportArgs) -> Option<String> {
    args.from.clone().or_else(|| args.since.map(back))
}

/// The address of an export, without the cursor of its piece.
fn export_path(args: &ExportArgs) -> String {
    let format = match args.format {
        ExportFormat::Ndjson => "ndjson",
        ExportFormat::Csv => "csv",
        ExportFormat::Parquet => "parquet",
    };
    let mut path = format!("/weir/v1/export?format={format}");
    let mut add = |name: &str, value: &str| {
        path.extend(["&", name, "=", &percent_encoded(value)]);
    };
    add("query", &args.query.join(" "));
    // Without a start, everything that is stored is exported.
    if let Some(from) = from(args) {
        add("from", &from);
    }
    // The end of the range stays the same over all pieces only if it is in the cursor.
    add("to", args.to.as_deref().unwrap_or("now"));
    add("sort", if args.order == RowOrder::Newest { "-timestamp" } else { "timestamp" });
    if let Some(limit) = args.limit {
        add("limit", &limit.to_string());
    }
    if args.format == ExportFormat::Parquet {
        add("pieces", "true");
    }
    if !args.columns.is_empty() {
        add("columns", &args.columns.join(","));
    }
    path
}

/// Writes all requested records.
pub(super) fn export(args: &ExportArgs) -> Result<Exit> {
    if args.format == ExportFormat::Parquet && args.file.is_none() && io::stdout().is_terminal() {
        let message = "refusing to write Parquet to a terminal: set --file, or redirect the output";
        return Err(ExitError::with(Exit::Usage, message));
    }
    if !args.columns.is_empty() && args.format != ExportFormat::Csv {
        let message = "--columns is for --format csv: the other formats have all fields";
        return Err(ExitError::with(Exit::Usage, message));
    }
    let client = Client::new(&args.api)?;
    let pieces = match args.file {
        Some(_) => Pieces::removed_on_signal()?,
        None => Pieces::default(),
    };
    // Data on a terminal shows its own progress.
    let has_terminal = args.file.is_some() || !io::stdout().is_terminal();
    let mut progress = Progress::new("written", has_terminal);
    if progress.is_shown() && args.format == ExportFormat::Ndjson {
        progress.set_total(count(args, &client));
    }
    let written = write_pieces(args, &client, &pieces, &mut progress);
    let exit = written.map_err(|error| match pieces.complete() {
        Some(whole) => error.context(whole),
        None => error,
    })?;
    progress.end();
    Ok(exit)
}

/// Counts the records to expect. It is only used for the progress display, so a failure is ignored.
fn count(args: &ExportArgs, client: &Client) -> Total {
    let from = from(args);
    let body = json!({
        "filter": {
            "query": args.query.join(" "),
            "from": from.as_deref().unwrap_or(FIRST),
            "to": args.to.as_deref().unwrap_or("now"),
        },
    });
    let answer = client.post::<AggregateAnswer>("/api/v2/logs/analytics/aggregate", &body);
    match answer.ok().map(|answer| answer.meta.weir) {
        Some(ScanMeta { partial: false, matched: Some(matched), .. }) => {
            Total::Records(matched.min(args.limit.unwrap_or(u64::MAX)))
        }
        _ => Total::Unknown,
    }
}

/// Writes one piece after the other until the last, or until the reader closes the pipe.
fn write_pieces(
    args: &ExportArgs,
    client: &Client,
    pieces: &Pieces,
    progress: &mut Progress,
) -> Result<Exit> {
    let path = export_path(args);
    let (mut piece, mut cursor, mut is_partial) = (1, None, false);
    loop {
        let path = match &cursor {
            Some(cursor) => format!("{path}&cursor={cursor}"),
            None => path.clone(),
        };
        let (headers, mut body) = client.download(&path)?;
        is_partial |= is_reported_partial(&headers);
        let name = args.file.as_deref().map(|file| name_of(file, piece));
        let mut target = match &name {
            Some(name) => Target::open(name, pieces)?,
            None => Target::stdout(args.format),
        };
        if !copy(&mut body, &mut target, progress)? {
            break;
        }
        is_partial |= is_reported_partial(body.trailers());
        target.complete().context("could not write the export")?;
        cursor = headers.get("x-weir-next").map(str::to_owned);
        if cursor.is_none() {
            if let Some(file) =
                args.file.as_deref().filter(|_| args.format == ExportFormat::Parquet)
            {
                remove_older(file, piece)?;
            }
            break;
        }
        if args.file.is_none() {
            let message = "the export does not fit into one Parquet file: set --file to continue \
                           in FILE.2, FILE.3 ...";
            return Err(ExitError::with(Exit::Failed, message));
        }
        piece += 1;
    }
    Ok(if is_partial { Exit::Partial } else { Exit::Ok })
}

/// Prints why records are missing, as given before or after the body; returns false if none are.
fn is_reported_partial(headers: &Headers) -> bool {
    let why = headers.get("x-weir-partial");
    if let Some(why) = why {
        note(&format!("some records are missing: {why}"));
    }
    why.is_some()
}

/// `FILE`, `FILE.2`, `FILE.3`.
fn name_of(file: &Path, piece: u32) -> PathBuf {
    if piece == 1 { file.to_owned() } else { with_suffix(file, &piece.to_string()) }
}

/// Removes the files that an older and longer export has left after the last one of this export,
/// since the set of all files would not be one export. Files that are not Parquet are not touched.
fn remove_older(file: &Path, last: u32) -> Result<()> {
    for piece in last + 1.. {
        let name = name_of(file, piece);
        if !is_parquet(&name) {
            break;
        }
        let removed = std::fs::remove_file(&name);
        removed
            .with_context(|| format!("could not remove {} of an older export", name.display()))?;
        note(&format!("removed {} of an older export", name.display()));
    }
    Ok(())
}

fn is_parquet(path: &Path) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let mut begin = [0; 4];
    let mut read = || File::open(path)?.read_exact(&mut begin);
    is_file && read().is_ok() && begin == *b"PAR1"
}

/// Returns false if the reader closed the pipe.
fn copy(body: &mut impl io::Read, out: &mut dyn Write, progress: &mut Progress) -> Result<bool> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = body.read(&mut buffer).context("the export was interrupted")?;
        let written = match read {
            0 => out.flush(),
            read => out.write_all(&buffer[..read]),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
            written => written.context("could not write the export")?,
        }
        if read == 0 {
            return Ok(true);
        }
        // The total is only known for NDJSON.
        let records = buffer[..read].split(|byte| *byte == b'\n').count() - 1;
        progress.add(read as u64, records as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, StoreCommand};

    fn args(words: &[&str]) -> ExportArgs {
        let words = ["weir", "store", "export"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Store(StoreCommand::Export(args)) => *args,
            _ => unreachable!("must parse as an export"),
        }
    }

    /// Returns the result of an export that receives this response.
    fn exported(answer: &'static str, file: &Path) -> Result<Exit> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = listener.local_addr().unwrap().to_string();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> =
                lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            stream.write_all(answer.as_bytes()).unwrap();
            head
        });
        let args = args(&["--api", &api, "--file", file.to_str().unwrap()]);
        let client = Client::new(&args.api).unwrap();
        let mut progress = Progress::new("written", false);
        let exit = write_pieces(&args, &client, &Pieces::default(), &mut progress);
        let head = answering.join().unwrap();
        assert!(head.iter().any(|line| line == "te: trailers"), "{head:?}");
        exit
    }

    #[test]
    fn older_extra_pieces_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("day.parquet");
        for (suffix, text) in [("2", "PAR1 new"), ("3", "PAR1 old"), ("4", "PAR1"), ("5", "notes")]
        {
            std::fs::write(with_suffix(&file, suffix), text).unwrap();
        }
        std::fs::write(with_suffix(&file, "6"), "PAR1").unwrap();
        remove_older(&file, 2).unwrap();
        let is_there = |suffix| with_suffix(&file, suffix).exists();
        assert_eq!(["2", "3", "4", "5", "6"].map(is_there), [true, false, false, true, true]);
    }

    #[test]
    fn records_missing_after_the_first_page_make_an_export_partial() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out");
        let whole = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n";
        assert_eq!(exported(whole, &file).unwrap(), Exit::Ok);
        let partial = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\
                       x-weir-partial: damaged\r\n\r\n";
        assert_eq!(exported(partial, &file).unwrap(), Exit::Partial);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}\n");
        let cut = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n";
        assert!(exported(cut, &file).is_err());
    }

    #[test]
    fn export_covers_all_time_by_default() {
        let from = |words: &[&str]| {
            let path = export_path(&args(words));
            let found = path.split(['?', '&']).find_map(|part| part.strip_prefix("from="));
            found.map(str::to_owned)
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&["--to", "2026-01-01"]), None);
        assert_eq!(from(&["--since", "1d"]).as_deref(), Some("now-86400000ms"));
        assert_eq!(from(&["--from", "2026-01-01"]).as_deref(), Some("2026-01-01"));
        assert!(export_path(&args(&[])).contains("&to=now&"), "{}", export_path(&args(&[])));
    }
}
