//! `weir search`: searches the store of a running weir.
//!
//! Invariants: data goes to stdout, all notes about it to stderr; an incomplete result is marked as
//! partial and ends with its own exit code.

mod aggregates;
mod fields;
mod follow;
mod histogram;
mod patterns;
mod request;
mod rows;
mod unit;

use std::io;

use anyhow::Result;
use weir_api::{AnswerMeta, Warning};
use weir_host::terminal::printable;
use weir_host::units::{approx_size, group_digits};

use crate::cli::{SearchArgs, SearchOutput};
use crate::client::Client;
use crate::exit::{Exit, ExitError};
use crate::term::{ColorChoice, Paint, Style, note_painted, print_data, print_json, print_painted};
use request::Request;

pub(crate) use histogram::bar;
pub(crate) use request::back;
pub(crate) use rows::Printer;

/// Runs the command.
pub(crate) fn run(args: &SearchArgs, color: ColorChoice) -> Result<Exit> {
    let is_computed = !args.group_by.is_empty() || !args.compute.is_empty();
    let has_records = !args.patterns && !args.fields && !args.histogram && !is_computed;
    if args.output == SearchOutput::Raw && !has_records {
        let message = "-o raw prints the messages of records: use -o json, or leave it out";
        return Err(ExitError::with(Exit::Usage, message));
    }
    let request = Request::new(args)?;
    let client = Client::new(&args.api)?.with_work_timeout(args.timeout);
    let mut search = Search { args, request, client, color, notes: Notes::new(color) };
    let found = match () {
        () if args.patterns => search.patterns()?,
        () if args.fields => search.fields()?,
        () if args.histogram => search.histogram()?,
        () if is_computed => search.print_aggregates()?,
        () if args.follow => return search.follow(),
        () => search.rows()?,
    };
    Ok(search.exit(found))
}

/// A search in progress.
struct Search<'a> {
    args: &'a SearchArgs,
    request: Request,
    client: Client,
    color: ColorChoice,
    notes: Notes,
}

impl Search<'_> {
    fn exit(&self, found: u64) -> Exit {
        match () {
            () if self.notes.is_partial => Exit::Partial,
            () if found == 0 && self.args.exit_on_empty => Exit::NotFound,
            () => Exit::Ok,
        }
    }
}

/// Prints results in a format.
pub(crate) fn print(text: &str, output: SearchOutput) -> io::Result<bool> {
    match output {
        SearchOutput::Text => print_painted(text),
        SearchOutput::Json => print_json(text),
        SearchOutput::Raw => print_data(text),
    }
}

/// `1 row`, `2 rows`.
fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", group_digits(count))
}

/// Notes about the answers, each printed once.
struct Notes {
    paint: Paint,
    printed: Vec<Warning>,
    is_partial: bool,
    elapsed_ms: u64,
    rows: u64,
    bytes: u64,
}

impl Notes {
    fn new(color: ColorChoice) -> Self {
        let paint = Paint::for_stderr(color);
        Self { paint, printed: Vec::new(), is_partial: false, elapsed_ms: 0, rows: 0, bytes: 0 }
    }

    /// Prints new warnings of an answer.
    fn add(&mut self, meta: &AnswerMeta) {
        self.elapsed_ms += meta.elapsed;
        self.rows += meta.weir.rows;
        self.bytes += meta.weir.bytes;
        self.is_partial |= meta.weir.partial;
        for warning in &meta.warnings {
            if !self.printed.contains(warning) {
                let title = self.paint.paint(Style::Warn, &warning.title);
                note_painted(&format!("{title}: {}", printable(&warning.detail)));
                self.printed.push(warning.clone());
            }
        }
    }

    /// Whether a warning with that code was printed.
    fn has(&self, code: &str) -> bool {
        self.printed.iter().any(|warning| warning.code == code)
    }

    /// Prints a warning about what may not be intended.
    fn warn(&self, text: &str) {
        note_painted(&self.paint.paint(Style::Warn, text));
    }

    /// Prints the summary of a search for `what`.
    fn end(&self, what: &str) {
        let partial = if self.is_partial { " (partial)" } else { "" };
        let partial = self.paint.paint(Style::Warn, partial);
        note_painted(&format!(
            "{}{partial} in {} ms; {} records scanned, {} read",
            printable(what),
            group_digits(self.elapsed_ms),
            group_digits(self.rows),
            approx_size(self.bytes),
        ));
    }
}
