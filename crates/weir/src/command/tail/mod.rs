//! `weir tail`: records as they come in, those that an expression describes.
//!
//! Invariants: rows go to stdout, all that is said about them to stderr; what was missed or left
//! out is said with its number; when the connection is lost it is made again, behind the last row.

mod event;
mod row;

use std::io::BufReader;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use weir_host::net::percent_encoded;
use weir_host::units::group_digits;

use crate::cli::{TailArgs, TailOutput};
use crate::client::Client;
use crate::exit::Exit;
use crate::term::{ColorChoice, Paint, Style, note, print_data};
use event::{Event, Events};
use row::Painter;

/// Pause before the connection is made again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Longest silence; the server says something every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Runs the command.
pub(crate) fn run(args: &TailArgs, color: ColorChoice) -> Result<Exit> {
    let client = Client::new(&args.api)?;
    let query = args.query.join(" ");
    let path =
        format!("/weir/v1/tail?query={}&max_rate={}", percent_encoded(&query), args.max_rate);
    let mut tail = Tail {
        painter: Painter::new(&query, Paint::for_stdout(color)),
        notes: Paint::for_stderr(color),
        output: args.output,
        rows_left: args.limit,
        last_id: None,
    };
    // A wrong expression, or nobody there, ends the command; later the connection is made again.
    let mut connection = client.stream(&path, None, SILENCE_MAX)?;
    loop {
        if tail.follow(Events::new(BufReader::new(connection)))? {
            return Ok(Exit::Ok);
        }
        tail.say(Style::Warn, "the connection ended; trying again");
        connection = loop {
            pause();
            if let Ok(connection) = client.stream(&path, tail.last_id.as_deref(), SILENCE_MAX) {
                break connection;
            }
        };
        tail.say(Style::Good, "connected again");
    }
}

struct Tail {
    painter: Painter,
    notes: Paint,
    output: TailOutput,
    /// Rows that are still wanted; none: no end.
    rows_left: Option<u64>,
    /// Of the last row that was printed.
    last_id: Option<String>,
}

impl Tail {
    /// Prints until the connection ends; true when no more is wanted.
    fn follow<R: std::io::BufRead>(&mut self, events: Events<R>) -> Result<bool> {
        if self.rows_left == Some(0) {
            return Ok(true);
        }
        for event in events {
            match event.name.as_str() {
                "row" if !self.row(&event)? => return Ok(true),
                "gap" => self.gap(&event.data),
                "stat" => self.stat(&event.data),
                "end" => return Ok(false),
                // A later release may say more.
                _ => {}
            }
        }
        Ok(false)
    }

    /// False when it was the last that is wanted, or nobody reads any more.
    fn row(&mut self, event: &Event) -> Result<bool> {
        let text = match self.output {
            TailOutput::Json => format!("{}\n", event.data),
            TailOutput::Text => self.painter.line(&parsed(&event.data)),
            TailOutput::Raw => row::body(&parsed(&event.data)) + "\n",
        };
        let is_read = print_data(&text)?;
        self.last_id.clone_from(&event.id);
        if let Some(left) = &mut self.rows_left {
            *left -= 1;
        }
        Ok(is_read && self.rows_left != Some(0))
    }

    fn gap(&self, data: &str) {
        let gap = parsed(data);
        let reason = gap["reason"].as_str().unwrap_or("no reason given");
        let text = match gap["records"].as_u64() {
            Some(records) => format!("... {} records missed: {reason} ...", group_digits(records)),
            None => format!("... an unknown number of records missed: {reason} ..."),
        };
        self.say(Style::Bad, &text);
    }

    fn stat(&self, data: &str) {
        let stat = parsed(data);
        let count = |key: &str| stat[key].as_u64().unwrap_or(0);
        if count("skipped") > 0 {
            let ratio = stat["sample_ratio"].as_f64().unwrap_or(0.0) * 100.0;
            let (shown, matched) = (group_digits(count("shown")), group_digits(count("matched")));
            let text = format!(
                "... {shown} of {matched} rows in a second shown: a sample of {ratio:.1} %; narrow the query, or raise --max-rate ..."
            );
            self.say(Style::Warn, &text);
        }
    }

    fn say(&self, style: Style, text: &str) {
        note(&self.notes.paint(style, text));
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when a weir answers again")]
fn pause() {
    std::thread::sleep(RETRY_PAUSE);
}

/// What is no JSON has no members.
fn parsed(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_default()
}
