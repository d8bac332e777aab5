//! `weir top`: the current activity of a running weir.
//!
//! `model` turns two readings into rows of text, `screen` shows them live on a terminal; this file
//! prints plain lines if there is no terminal.

mod limited_rows;
mod model;
mod rule_rows;
mod screen;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;

use crate::cli::ApiArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::signal::Signals;
use crate::table::Table;
use crate::term::{ColorChoice, Paint, Style, print_painted};
use model::{ComponentState, OUTPUT_HEAD, Reading, SOURCE_HEAD, View};
use rule_rows::RULE_HEAD;

/// Runs the command.
pub(crate) fn run(
    args: &ApiArgs,
    once: bool,
    interval: Duration,
    color: ColorChoice,
) -> Result<Exit> {
    let client = Client::new(args)?;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !once && is_terminal {
        return screen::run(&client, interval, Paint::for_stdout(color));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(plain(&client, once, interval, Paint::for_stdout(color)))
}

/// One reading.
fn read(client: &Client) -> Result<Reading> {
    Ok(Reading { status: client.get("/weir/v1/status")?, rules: client.get("/weir/v1/rules")? })
}

/// Prints a reading per interval until a signal arrives or the reader closes the pipe.
async fn plain(client: &Client, once: bool, interval: Duration, paint: Paint) -> Result<Exit> {
    let mut signals = Signals::new()?;
    let mut earlier = read(client)?;
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(if once { Exit::Interrupted } else { Exit::Ok }),
            () = tokio::time::sleep(interval) => {}
        }
        let now = read(client)?;
        let view = View::between(&earlier, &now);
        let is_read = print_painted(&text(&view, paint))?;
        if once || !is_read {
            return Ok(Exit::Ok);
        }
        earlier = now;
    }
}

fn text(view: &View, paint: Paint) -> String {
    let mut text = format!("{}\n{}\n", view.title, view.journal);
    let tables = [
        ("Sources", &SOURCE_HEAD[..], 2, &view.sources),
        ("Outputs", &OUTPUT_HEAD[..], 2, &view.outputs),
        (&view.rules_title, &RULE_HEAD[..], 1, &view.rules),
    ];
    for (title, head, words, rows) in tables {
        if rows.is_empty() {
            continue;
        }
        let mut table = Table::new(head, words);
        for row in rows {
            table.row(row.cells.clone());
        }
        let _infallible = write!(text, "{}\n{}", paint.paint(Style::Strong, title), table.text());
    }
    for reason in &view.reasons {
        let style = if reason.state == ComponentState::Failing { Style::Bad } else { Style::Warn };
        let _infallible = writeln!(text, "{} {}", paint.paint(style, "!"), reason.text);
    }
    text.push('\n');
    text
}
