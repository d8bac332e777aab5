//! Terminal handling: whether to use colors, and writing to a pipe that may be closed.
//!
//! Invariants: data goes to stdout, everything else to stderr; a closed pipe ends the command
//! quietly, as `head` expects; text for people contains no control sequences except the colors of
//! [`Paint`], whatever the source of the text. Text without colors is printed with [`print_text`]
//! and [`note`]; text with colors with [`print_painted`] and [`note_painted`], after every part
//! that weir did not write was escaped.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use weir_host::terminal::{printable_json, printable_lines};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The role of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// An error, a loss.
    Bad,
    /// A warning.
    Warn,
    /// Everything is fine.
    Good,
    /// A heading, a name.
    Strong,
    /// A match of the query.
    Mark,
    /// One of six colors for telling things apart, 0 to 5.
    Tint(u8),
}

/// Colors text, or leaves it unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// No color.
    pub(crate) fn off() -> Self {
        Self { on: false }
    }

    /// Color, regardless of the terminal.
    #[cfg(test)]
    pub(crate) fn on() -> Self {
        Self { on: true }
    }

    /// For text on stderr.
    pub(crate) fn for_stderr(choice: ColorChoice) -> Self {
        Self { on: decide(choice, io::stderr().is_terminal(), |name| std::env::var_os(name)) }
    }

    /// For text on stdout.
    pub(crate) fn for_stdout(choice: ColorChoice) -> Self {
        Self { on: decide(choice, io::stdout().is_terminal(), |name| std::env::var_os(name)) }
    }

    /// Whether colors are used.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// The text, escaped, and colored if enabled.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        let text = printable_lines(text);
        let tint;
        let code = match style {
            Style::Bad => "1;31",
            Style::Warn => "1;33",
            Style::Good => "32",
            Style::Strong => "1",
            Style::Mark => "1;4",
            Style::Tint(number) => {
                tint = (31 + number % 6).to_string();
                tint.as_str()
            }
        };
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into_owned() }
    }
}

/// Precedence: the flag, `NO_COLOR`, `CLICOLOR_FORCE`, `TERM=dumb`, whether it is a terminal.
fn decide(
    choice: ColorChoice,
    is_terminal: bool,
    env: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> bool {
    let set = |name| env(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR") => false,
        ColorChoice::Auto if env("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0") => {
            true
        }
        ColorChoice::Auto => is_terminal && env("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Text for people with colors: everything is escaped as by [`printable_lines`], except sequences
/// that set a color. Such a sequence is not necessarily one of [`Paint`].
fn painted(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return printable_lines(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, escape) = rest.split_at(at);
        shown.push_str(&printable_lines(before));
        let len = color_len(escape).unwrap_or(1);
        let (escape, after) = escape.split_at(len);
        shown.push_str(&if len > 1 { Cow::Borrowed(escape) } else { printable_lines(escape) });
        rest = after;
    }
    shown.push_str(&printable_lines(rest));
    Cow::Owned(shown)
}

/// Length of a color sequence.
fn color_len(escape: &str) -> Option<usize> {
    let codes = escape.strip_prefix("\u{1b}[")?;
    let len = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes[len..].starts_with('m').then_some(len + 3)
}

/// Writes text for people to stdout. `Ok(false)`: the reader has closed the pipe.
pub(crate) fn print_text(text: &str) -> io::Result<bool> {
    print_data(&printable_lines(text))
}

/// Writes text for people to stdout that contains colors. Its parts that weir did not write must
/// be escaped, or they can set colors too. `Ok(false)`: the reader has closed the pipe.
pub(crate) fn print_painted(text: &str) -> io::Result<bool> {
    print_data(&painted(text))
}

/// Writes JSON to stdout, unchanged unless it is a terminal. `Ok(false)`: the reader has closed
/// the pipe.
pub(crate) fn print_json(text: &str) -> io::Result<bool> {
    if io::stdout().is_terminal() { print_data(&printable_json(text)) } else { print_data(text) }
}

/// Writes data to stdout unchanged. `Ok(false)`: the reader has closed the pipe.
pub(crate) fn print_data(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Width of stdout in characters: of the terminal, otherwise `COLUMNS`, otherwise 80.
pub(crate) fn stdout_width() -> usize {
    width(io::stdout().is_terminal())
}

/// Width of stdout in characters, if it is a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    io::stdout().is_terminal().then(stdout_width)
}

/// Width of stderr in characters, determined as for stdout.
pub(crate) fn stderr_width() -> usize {
    width(io::stderr().is_terminal())
}

fn width(is_terminal: bool) -> usize {
    const WIDTH: usize = 80;
    if is_terminal
        && let Ok((columns, _)) = crossterm::terminal::size()
        && columns > 0
    {
        return usize::from(columns);
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.filter(|columns| (20..=1000).contains(columns)).unwrap_or(WIDTH)
}

/// Writes a note for people to stderr. Errors are ignored, since they could not be reported.
pub(crate) fn note(text: &str) {
    let _nobody_reads = writeln!(io::stderr().lock(), "{}", printable_lines(text));
}

/// Writes a note for people to stderr that contains colors. Its parts that weir did not write must
/// be escaped, or they can set colors too.
pub(crate) fn note_painted(text: &str) {
    let _nobody_reads = writeln!(io::stderr().lock(), "{}", painted(text));
}

/// Overwrites the previous note: for progress on a terminal.
pub(crate) fn note_in_place(text: &str) {
    let mut out = io::stderr().lock();
    let _nobody_reads =
        write!(out, "\r\u{1b}[K{}", printable_lines(text)).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_color_sequences_reach_the_terminal() {
        let word = Paint::on().paint(Style::Bad, "error");
        let text = format!("{word}: a\u{1b}[2Jb\u{202e}c\r\n\u{1b}]0;title\u{7}d\u{1b}");
        let want =
            format!("{word}: a\\u{{1b}}[2Jb\\u{{202e}}c\\r\n\\u{{1b}}]0;title\\u{{7}}d\\u{{1b}}");
        assert_eq!(painted(&text), want);
        assert_eq!(painted("plain\ttext\n"), "plain\ttext\n");
    }

    #[test]
    fn painted_text_cannot_set_colors() {
        for paint in [Paint::on(), Paint::off()] {
            let text = paint.paint(Style::Bad, "a\u{1b}[8mb");
            assert!(text.contains("a\\u{1b}[8mb"), "{text:?}");
        }
    }

    #[test]
    fn color_follows_flag_then_environment_then_terminal() {
        use ColorChoice::{Always, Auto, Never};
        let with = |vars: &'static [(&str, &str)]| {
            move |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into())
        };
        assert!(decide(Always, false, with(&[("NO_COLOR", "1")])));
        assert!(!decide(Never, true, with(&[("CLICOLOR_FORCE", "1")])));
        assert!(!decide(Auto, true, with(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")])));
        assert!(decide(Auto, false, with(&[("CLICOLOR_FORCE", "1")])));
        assert!(decide(Auto, true, with(&[("NO_COLOR", ""), ("TERM", "xterm")])));
        assert!(!decide(Auto, true, with(&[("TERM", "dumb")])));
        assert!(!decide(Auto, false, with(&[])));
    }
}
