//! `weir tail`: follows the records that match an expression as they arrive; also used for the end
//! of `weir search --follow`.
//!
//! Invariants: rows go to stdout, all notes about them to stderr; the number of missed or omitted
//! records is printed; a lost connection is re-established, and rows continue after the last one.

use std::collections::HashSet;
use std::io::{BufReader, Error, ErrorKind, Read};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use weir_codec::percent_encoded;
use weir_host::units::{format_duration, group_digits};

use crate::cli::{TailArgs, TailOutput};
use crate::client::Client;
use crate::command::search::Printer;
use crate::event::{Event, Events};
use crate::exit::Exit;
use crate::row::{Painter, Row, entry_of_tail};
use crate::term::{ColorChoice, Paint, Style, note_painted, print_data, print_json, print_painted};

/// Pause before reconnecting.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum silence; the server sends something every 15 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// Runs the command.
pub(crate) fn run(args: &TailArgs, color: ColorChoice) -> Result<Exit> {
    let query = args.query.join(" ");
    let mut tail = Tail::connect(Client::new(&args.api)?, &query, args.max_rate, color)?;
    tail.print_lints(&query);
    tail.output = args.output;
    tail.rows_left = args.limit;
    tail.run()
}

/// What a search has already printed, and in which format.
pub(crate) struct PrintedSearch {
    /// Stream and position of its records.
    pub(crate) known: HashSet<(String, String)>,
    pub(crate) printer: Printer,
}

/// A live tail.
pub(crate) struct Tail {
    client: Client,
    path: String,
    connection: Option<Box<dyn Read>>,
    pub(crate) painter: Painter,
    notes: Paint,
    pub(crate) output: TailOutput,
    /// Rows that remain to be printed; `None` means no limit.
    pub(crate) rows_left: Option<u64>,
    /// What a search has printed before: rows then have the format of that search.
    pub(crate) printed: Option<PrintedSearch>,
    /// The id of the last row that was printed.
    last_id: Option<String>,
}

impl Tail {
    /// Connects: from now on no record is missed. An invalid expression, or a failed connection, is
    /// an error; if the connection is lost later, it is re-established.
    pub(crate) fn connect(
        client: Client,
        query: &str,
        max_rate: u32,
        color: ColorChoice,
    ) -> Result<Self> {
        let path = format!("/weir/v1/tail?query={}&max_rate={max_rate}", percent_encoded(query));
        let connection = client.stream(&path, None, READ_TIMEOUT)?;
        Ok(Self {
            client,
            path,
            connection: Some(Box::new(connection)),
            painter: Painter::new(query, Paint::for_stdout(color)),
            notes: Paint::for_stderr(color),
            output: TailOutput::Text,
            rows_left: None,
            printed: None,
            last_id: None,
        })
    }

    /// Warns about what is probably not intended, since there may be no output for a long time.
    fn print_lints(&self, query: &str) {
        let Ok(expression) = weir_expr::parse(query) else { return };
        for lint in expression.lints(query) {
            self.print_status(Style::Warn, &format!("{}; {}", lint.message, lint.help));
        }
        if let Some(reason) = expression.unsatisfiable_reason() {
            self.print_status(Style::Warn, &format!("no record can match: {reason}"));
        }
    }

    /// Prints until the limit is reached.
    pub(crate) fn run(mut self) -> Result<Exit> {
        loop {
            let mut reason = String::new();
            if let Some(connection) = self.connection.take() {
                match self.follow(Events::new(BufReader::new(connection)))? {
                    Ended::Done => return Ok(Exit::Ok),
                    Ended::Lost(error) => {
                        reason = error.map(|it| format!(": {it}")).unwrap_or_default();
                    }
                }
            }
            self.print_status(Style::Warn, &format!("connection lost{reason}, reconnecting"));
            self.connection = loop {
                pause();
                let last_id = self.last_id.as_deref();
                if let Ok(connection) = self.client.stream(&self.path, last_id, READ_TIMEOUT) {
                    break Some(Box::new(connection));
                }
            };
            self.print_status(Style::Good, "reconnected");
        }
    }

    /// Prints until the connection ends. A row that is too long is an error: it would be sent again
    /// after every reconnection.
    fn follow<R: std::io::BufRead>(&mut self, events: Events<R>) -> Result<Ended> {
        if self.rows_left == Some(0) {
            return Ok(Ended::Done);
        }
        for event in events {
            let event = match event {
                Ok(event) => event,
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(error.into()),
                Err(error) => return Ok(Ended::Lost(Some(lost(&error)))),
            };
            match event.name.as_str() {
                "row" if !self.row(&event)? => return Ok(Ended::Done),
                "gap" => self.gap(&event.data),
                "stat" => self.stat(&event.data),
                "end" => return Ok(Ended::Lost(None)),
                // Later releases may send other events.
                _ => {}
            }
        }
        Ok(Ended::Lost(None))
    }

    /// Returns false if this was the last row of the limit, or the reader has closed the pipe.
    fn row(&mut self, event: &Event) -> Result<bool> {
        self.last_id.clone_from(&event.id);
        let record = parsed(&event.data);
        if self.printed.as_mut().is_some_and(|printed| printed.known.remove(&key(&record))) {
            return Ok(true);
        }
        let is_read = match &mut self.printed {
            Some(printed) => printed.printer.print(&[entry_of_tail(&record)])?,
            None => self.print(&event.data, &record)?,
        };
        if let Some(left) = &mut self.rows_left {
            *left -= 1;
        }
        Ok(is_read && self.rows_left != Some(0))
    }

    fn print(&mut self, data: &str, record: &Value) -> std::io::Result<bool> {
        match self.output {
            TailOutput::Json => print_json(&format!("{data}\n")),
            TailOutput::Text => print_painted(&self.painter.line(&Row::of_tail(record))),
            TailOutput::Raw => {
                print_data(&(record["body"].as_str().unwrap_or_default().to_owned() + "\n"))
            }
        }
    }

    fn gap(&self, data: &str) {
        let gap = parsed(data);
        let reason = gap["reason"].as_str().unwrap_or("no reason given");
        let text = match gap["records"].as_u64() {
            Some(records) => format!("... {} records missed: {reason} ...", group_digits(records)),
            None => format!("... an unknown number of records missed: {reason} ..."),
        };
        self.print_status(Style::Bad, &text);
    }

    fn stat(&self, data: &str) {
        let stat = parsed(data);
        let count = |key: &str| stat[key].as_u64().unwrap_or(0);
        if count("skipped") > 0 {
            let ratio = stat["sample_ratio"].as_f64().unwrap_or(0.0) * 100.0;
            let (shown, matched) = (group_digits(count("shown")), group_digits(count("matched")));
            let text = format!(
                "... showing {shown} of {matched} rows per second, a sample of {ratio:.1} %; \
                 narrow the query or raise --max-rate ..."
            );
            self.print_status(Style::Warn, &text);
        }
    }

    fn print_status(&self, style: Style, text: &str) {
        note_painted(&self.notes.paint(style, text));
    }
}

/// How the rows of a connection ended.
enum Ended {
    /// The limit is reached, or the reader has closed the pipe.
    Done,
    /// The connection ended, because of this error if it was not closed by weir.
    Lost(Option<String>),
}

/// Why a connection was lost.
fn lost(error: &Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no data for {}", format_duration(READ_TIMEOUT))
        }
        _ => error.to_string(),
    }
}

/// Stream and position of a record.
fn key(record: &Value) -> (String, String) {
    ["stream", "position"].map(|key| record[key].as_str().unwrap_or_default().to_owned()).into()
}

#[expect(clippy::disallowed_methods, reason = "weir does not report when it can be reached again")]
fn pause() {
    std::thread::sleep(RETRY_PAUSE);
}

/// Text that is not valid JSON has no members.
fn parsed(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_default()
}
