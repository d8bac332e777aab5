//! Text from a log as it may be shown on a terminal.
//!
//! Invariant: nothing in the result moves the cursor, changes a colour or turns the direction of what
//! follows it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with everything that a terminal would obey written as an escape; a tab stays.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            c if !is_obeyed(c) => shown.write_char(c),
            c if c.is_control() => write!(shown, "{}", c.escape_default()),
            c => write!(shown, "{}", c.escape_unicode()),
        };
    }
    Cow::Owned(shown)
}

/// Control characters, and marks that turn the direction of the text behind them.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_as_an_escape() {
        let cases = [
            ("a\tb \u{e9}", "a\tb \u{e9}"),
            ("\u{1b}[2Jx\u{7}\r", "\\u{1b}[2Jx\\u{7}\\r"),
            ("\u{9b}1m\u{7f}", "\\u{9b}1m\\u{7f}"),
            ("\u{202e}x\u{2066}", "\\u{202e}x\\u{2066}"),
        ];
        for (text, want) in cases {
            assert_eq!(printable(text), want);
        }
    }
}
