//! The live table on a terminal.
//!
//! Invariants: the terminal is restored however the command ends; it is redrawn once per reading
//! and per key only; if weir stops, this is shown until it is back.

use std::time::{Duration, Instant};

use anyhow::Result;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row as TableRow, Table, Wrap};
use weir_host::terminal::printable;

use super::model::{ComponentState, OUTPUT_HEAD, Reading, Row, SOURCE_HEAD, View};
use super::read;
use super::rule_rows::RULE_HEAD;
use crate::client::Client;
use crate::exit::Exit;
use crate::term::Paint;

const HELP: &str = "j, down    next component or rule
k, up      previous one
g, Home    first
G, End     last
?          this help
q, Esc     quit

LINES/S    lines read            LAG       age of the oldest unread byte
RECORDS/S  records acknowledged            or unacknowledged record
FILL       buffer in use         LOST      records and bytes given up
SERVICE    request to response   QUEUEING  read to sent
HITS/S     records matched       SHARE     of the records of the interval
                                 UNPARSED  did not match any parse format";

/// Shows the live table until a key ends it.
pub(super) fn run(client: &Client, interval: Duration, paint: Paint) -> Result<Exit> {
    // The first reading is taken before the screen changes, so that a failure prints only an error
    // line.
    let first = read(client)?;
    let mut terminal = ratatui::try_init()?;
    let mut screen = Screen::new(first, paint.is_on());
    let shown = screen.run(&mut terminal, client, interval);
    ratatui::restore();
    shown.map(|()| Exit::Ok)
}

struct Screen {
    latest: Reading,
    view: View,
    selected: usize,
    shows_help: bool,
    has_color: bool,
    /// Why there is no newer reading.
    problem: Option<String>,
}

/// The meaning of a key.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Quit,
    Redraw,
    Nothing,
}

impl Screen {
    fn new(first: Reading, has_color: bool) -> Self {
        let view = View::between(&first, &first);
        Self { latest: first, view, selected: 0, shows_help: false, has_color, problem: None }
    }

    fn run(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        client: &Client,
        interval: Duration,
    ) -> Result<()> {
        let mut next_reading = Instant::now() + interval;
        terminal.draw(|frame| self.draw(frame))?;
        loop {
            let wait = next_reading.saturating_duration_since(Instant::now());
            if event::poll(wait)? {
                match self.event(&event::read()?) {
                    Action::Quit => return Ok(()),
                    Action::Nothing => continue,
                    Action::Redraw => {}
                }
            } else {
                next_reading = Instant::now() + interval;
                self.read(client);
            }
            terminal.draw(|frame| self.draw(frame))?;
        }
    }

    fn read(&mut self, client: &Client) {
        match read(client) {
            Ok(now) => {
                self.view = View::between(&self.latest, &now);
                self.latest = now;
                self.problem = None;
            }
            Err(error) => self.problem = Some(printable(&error.to_string()).into_owned()),
        }
    }

    fn event(&mut self, event: &Event) -> Action {
        let Event::Key(key) = event else { return Action::Redraw };
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.view.rows().count().saturating_sub(1);
        match key.code {
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('c') if is_control => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char('j') | KeyCode::Down => self.selected = (self.selected + 1).min(last),
            KeyCode::Char('k') | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('g') | KeyCode::Home => self.selected = 0,
            KeyCode::Char('G') | KeyCode::End => self.selected = last,
            _ => return Action::Nothing,
        }
        Action::Redraw
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let rows = |n: usize| u16::try_from(n + 2).unwrap_or(u16::MAX);
        let reasons = self.reasons();
        let rule_rows = if self.view.rules.is_empty() { 0 } else { rows(self.view.rules.len()) };
        let [title, sources, outputs, rules, detail, reason_area, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(rows(self.view.sources.len())),
            Constraint::Length(rows(self.view.outputs.len())),
            Constraint::Length(rule_rows),
            Constraint::Length(3),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let head =
            [Line::from(self.view.title.as_str()).style(bold()), self.view.journal.as_str().into()];
        frame.render_widget(Paragraph::new(Text::from_iter(head)), title);
        self.table(frame, sources, &SOURCE_HEAD, &self.view.sources, 0);
        let offset = self.view.sources.len();
        self.table(frame, outputs, &OUTPUT_HEAD, &self.view.outputs, offset);
        if rule_rows > 0 {
            let offset = offset + self.view.outputs.len();
            self.table(frame, rules, &RULE_HEAD, &self.view.rules, offset);
        }
        let selected = self.view.rows().nth(self.selected);
        let text = selected.map_or("", |row| row.detail.as_str());
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), detail);
        frame.render_widget(Paragraph::new(reasons).wrap(Wrap { trim: true }), reason_area);
        frame.render_widget(Paragraph::new("j/k move   ? help   q quit"), foot);
        if self.shows_help {
            help(frame);
        }
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect, head: &[&str], rows: &[Row], offset: usize) {
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.cells.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(head[column].len())
            })
            .collect();
        let shown = columns_that_fit(head, &widths, usize::from(area.width));
        let aligned = |cells: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            let cells = cells.zip(&widths).enumerate().filter(|(i, _)| shown.contains(i));
            let align = |(i, (cell, width)): (usize, (&str, &usize))| {
                let is_word = ["NAME", "TYPE", "RULE"].contains(&head[i]);
                if is_word { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            };
            cells.map(align).collect()
        };
        let table_rows = rows.iter().enumerate().map(|(i, row)| {
            let cells = aligned(&mut row.cells.iter().map(String::as_str));
            let mut style = self.style(row.state);
            if i + offset == self.selected {
                style = style.add_modifier(Modifier::REVERSED);
            }
            TableRow::new(cells).style(style)
        });
        let constraints =
            shown.iter().map(|i| Constraint::Length(u16::try_from(widths[*i]).unwrap_or(u16::MAX)));
        let header = TableRow::new(aligned(&mut head.iter().copied())).style(bold());
        let table = Table::new(table_rows, constraints).header(header).column_spacing(2);
        frame.render_widget(table, area);
    }

    fn reasons(&self) -> Text<'_> {
        let failing = self.style(ComponentState::Failing);
        let problem =
            self.problem.iter().map(|text| Line::from(format!("! {text}")).style(failing));
        let reasons =
            self.view.reasons.iter().map(|reason| {
                Line::from(format!("! {}", reason.text)).style(self.style(reason.state))
            });
        problem.chain(reasons).collect()
    }

    fn style(&self, state: ComponentState) -> Style {
        match state {
            ComponentState::Degraded if self.has_color => Style::new().fg(Color::Yellow),
            ComponentState::Failing if self.has_color => Style::new().fg(Color::Red),
            ComponentState::Failing => bold(),
            ComponentState::Ok | ComponentState::Degraded => Style::new(),
        }
    }
}

/// Columns that are dropped first on a narrow terminal.
const HIDDEN_FIRST: [&str; 15] = [
    "HITS",
    "LAST MATCH",
    "UNPARSED",
    "TYPE",
    "CPU",
    "RETRIES",
    "QUEUEING",
    "SERVICE",
    "BYTES/S",
    "SENT/S",
    "FILES",
    "UNREAD",
    "IN FLIGHT",
    "FILL",
    "LAG",
];

/// Indexes of the visible columns.
fn columns_that_fit(head: &[&str], widths: &[usize], width: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..head.len()).collect();
    for name in HIDDEN_FIRST {
        let needed: usize = shown.iter().map(|i| widths[*i] + 2).sum();
        if needed <= width + 2 {
            break;
        }
        shown.retain(|i| head[*i] != name);
    }
    shown
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(78), area.height.min(16));
    let centred =
        Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, centred);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" Keys ")), centred);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_in_80_columns() {
        let widest = HELP.lines().map(str::len).max();
        assert!(widest <= Some(76), "{widest:?} columns and a frame");
    }

    #[test]
    fn narrow_terminal_hides_the_least_important_columns() {
        let widths = SOURCE_HEAD.map(|name| name.len().max(6));
        let names = |width| -> Vec<&str> {
            columns_that_fit(&SOURCE_HEAD, &widths, width).iter().map(|i| SOURCE_HEAD[*i]).collect()
        };
        assert_eq!(names(200), SOURCE_HEAD);
        assert_eq!(names(40), ["NAME", "LINES/S", "LAG", "LOST", "STATE"]);
        assert_eq!(names(1), ["NAME", "LINES/S", "LOST", "STATE"]);
    }
}
