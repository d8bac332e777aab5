//! Safe display on a terminal of text from outside (a record, a file name, a response).
//!
//! Invariant: nothing in the result moves the cursor, changes a color, changes the direction of the
//! text after it, or is invisible. Characters that join letters of a script or an emoji (U+200C,
//! U+200D) are kept.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Escapes everything in the text that a terminal would interpret or not show; tabs are kept.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            c if !is_escaped(c) => shown.write_char(c),
            c if c.is_control() => write!(shown, "{}", c.escape_default()),
            c => write!(shown, "{}", c.escape_unicode()),
        };
    }
    Cow::Owned(shown)
}

/// Like [`printable`], for JSON with several lines: the result is the same JSON, with the escapes
/// of that format, so that it can be read again.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && is_escaped(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            // Valid JSON has it only between values, where an escape is not allowed.
            '\r' => shown.push(' '),
            c if c == '\n' || !is_escaped(c) => shown.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(shown)
}

/// Like [`printable`], for text with several lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && is_escaped(c)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    Cow::Owned(lines.join("\n"))
}

/// Characters other than control characters that are escaped.
const ESCAPED: &[RangeInclusive<char>] = &[
    // Soft hyphen, joiners and fillers that are invisible.
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{3164}'..='\u{3164}',
    '\u{ffa0}'..='\u{ffa0}',
    // Spaces without width.
    '\u{200b}'..='\u{200b}',
    '\u{feff}'..='\u{feff}',
    // Direction marks, and separators of lines and paragraphs.
    '\u{61c}'..='\u{61c}',
    '\u{200e}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    // Invisible operators and isolates.
    '\u{2060}'..='\u{206f}',
    // A letter without ink.
    '\u{2800}'..='\u{2800}',
    // Variation selectors: invisible, and able to carry text.
    '\u{180b}'..='\u{180f}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{e0100}'..='\u{e01ef}',
    // Controls of shorthand and of musical notation.
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    // Annotations and objects, and tags: text that is meant only for machines.
    '\u{fff0}'..='\u{fffc}',
    '\u{e0000}'..='\u{e00ff}',
    '\u{e01f0}'..='\u{e0fff}',
];

/// Control characters, marks that change the direction of the text after them, and invisible ones.
fn is_escaped(c: char) -> bool {
    match c {
        '\t' | ' '..='~' => false,
        c => c.is_control() || ESCAPED.iter().any(|range| range.contains(&c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let cases = [
            ("a\tb \u{e9}", "a\tb \u{e9}"),
            ("\u{1b}[2Jx\u{7}\r", "\\u{1b}[2Jx\\u{7}\\r"),
            ("\u{9b}1m\u{7f}", "\\u{9b}1m\\u{7f}"),
            ("\u{202e}x\u{2066}", "\\u{202e}x\\u{2066}"),
            ("a\u{200b}b\u{feff}c\u{ad}d", "a\\u{200b}b\\u{feff}c\\u{ad}d"),
            ("\u{2028}\u{2029}\u{e0041}", "\\u{2028}\\u{2029}\\u{e0041}"),
            ("\u{2800}\u{fe0f}\u{e0100}\u{e01ef}", "\\u{2800}\\u{fe0f}\\u{e0100}\\u{e01ef}"),
            ("\u{3164}\u{115f}\u{1160}\u{ffa0}", "\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}"),
            ("\u{1bca0}\u{1d173}\u{fffc}\u{e0fff}", "\\u{1bca0}\\u{1d173}\\u{fffc}\\u{e0fff}"),
            ("\u{1f468}\u{200d}\u{1f467}", "\u{1f468}\u{200d}\u{1f467}"),
        ];
        for (text, want) in cases {
            assert_eq!(printable(text), want);
            assert_eq!(printable_lines(&format!("{text}\n{text}")), format!("{want}\n{want}"));
        }
    }
    #[test]
    fn json_is_escaped_as_json() {
        let text = "{\"a\u{9b}\u{202e}\": \"\u{7f}\u{e0041}\u{e9}\"}\r\n\t";
        let want = "{\"a\\u009b\\u202e\": \"\\u007f\\udb40\\udc41\u{e9}\"} \n\t";
        assert_eq!(printable_json(text), want);
        assert!(matches!(printable_json("{\n\t}"), Cow::Borrowed(_)));
    }
}
