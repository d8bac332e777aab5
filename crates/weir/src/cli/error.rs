//! Errors of the argument parser.
//!
//! Invariant: what the user typed, or an environment variable contains, is escaped before it is
//! printed.

use std::ffi::OsString;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use weir_host::terminal::{printable, printable_lines};

use crate::term::{ColorChoice, Paint, Style, note_painted};

/// Prints the error, or the help or the version that was asked for; returns the exit code.
pub(super) fn print(mut error: Error, args: &[OsString]) -> u8 {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Written by weir alone. A closed pipe is not an error.
        let _nobody_reads = error.print();
    } else {
        note_painted(text(&mut error, args, Paint::for_stderr(ColorChoice::Auto)).trim_end());
    }
    error.exit_code().try_into().unwrap_or(2)
}

/// The message, with its first word painted.
fn text(error: &mut Error, args: &[OsString], paint: Paint) -> String {
    complete_term(error, args);
    escape(error);
    // Without the styles of the parser: there would be no difference between them and those in a
    // value that is part of the message of a value parser.
    let text = plain(&error.render().to_string());
    let text = printable_lines(&text);
    match text.strip_prefix("error:") {
        Some(message) => format!("{}:{message}", paint.paint(Style::Bad, "error")),
        None => text.into_owned(),
    }
}

/// Replaces the messages of the standard library and of the parser about numbers by plain ones.
fn plain(text: &str) -> String {
    const NUMBERS: [(&str, &str); 3] = [
        ("invalid digit found in string", "must be a whole number"),
        ("cannot parse integer from empty string", "must be a whole number"),
        ("number too large to fit in target type", "is too large"),
    ];
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut first = first.to_owned();
    for (message, plain) in NUMBERS {
        if let Some(before) = first.strip_suffix(message) {
            first = format!("{before}{plain}");
        }
    }
    if let Some((before, limits)) = first.rsplit_once(" is not in ")
        && let Some((min, max)) = limits.split_once("..=")
        && let Some((before, _value)) = before.rsplit_once(": ")
    {
        first = format!("{before}: must be from {min} to {max}");
    }
    format!("{first}\n{rest}")
}

/// Escapes the parts of the message.
fn escape(error: &mut Error) {
    let escaped: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => {
                Some((kind, ContextValue::String(printable(text).into_owned())))
            }
            ContextValue::Strings(texts) => {
                let texts = texts.iter().map(|text| printable(text).into_owned());
                Some((kind, ContextValue::Strings(texts.collect())))
            }
            _ => None,
        })
        .collect();
    for (kind, value) in escaped {
        error.insert(kind, value);
    }
}

/// A term such as `-word` is an unknown flag `-w` to the parser: the message names the whole term.
fn complete_term(error: &mut Error, args: &[OsString]) {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return };
    let mut letters = flag.chars().skip(1);
    let (Some(letter), None) = (letters.next(), letters.next()) else { return };
    if error.kind() != ErrorKind::UnknownArgument || error.get(ContextKind::Suggested).is_none() {
        return;
    }
    let is_term = |term: &str| term.chars().nth(1).is_some_and(|first| first != '-');
    let mut args = args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
    let term = args.find(|arg| {
        is_term(arg) && arg.strip_prefix('-').is_some_and(|letters| letters.contains(letter))
    });
    if let Some(term) = term {
        let term = printable(&term).into_owned();
        let help = format!("to search for records without it, write '-- {term}'").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![help]));
        error.insert(ContextKind::InvalidArg, ContextValue::String(term));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsed;

    fn message(words: &[&str]) -> String {
        let args: Vec<OsString> =
            std::iter::once("weir").chain(words.iter().copied()).map(Into::into).collect();
        let mut error = parsed(&args).unwrap_err();
        text(&mut error, &args, Paint::off())
    }

    #[test]
    fn arguments_are_escaped_in_errors() {
        const EVIL: &str = "\u{1b}[8mx\u{9b}\u{202e}\u{7}";
        for words in [
            &["ledger", "--output", EVIL][..],
            &["ledger", "--api", EVIL],
            &["search", &format!("--{EVIL}")],
            &["search", "--since", EVIL],
            &["search", "--timezone", EVIL],
            &["search", "--calculate", EVIL],
            &[EVIL],
            &["store", EVIL],
            &["ledger", EVIL],
            &["help", EVIL],
        ] {
            let text = message(words);
            assert_eq!(printable_lines(&text), text, "{words:?}");
            assert!(text.contains("\\u{9b}\\u{202e}\\u{7}"), "{words:?}: {text}");
        }
    }

    #[test]
    fn numbers_are_explained_in_plain_words() {
        for (words, expected) in [
            (&["search", "-n", "x"][..], "'--limit <ROWS>': must be a whole number\n"),
            (&["load", "file", "--files", "0"], "'--files <FILES>': must be from 1 to 10000\n"),
        ] {
            let text = message(words);
            assert!(text.contains(expected), "{words:?}: {text}");
        }
    }

    #[test]
    fn message_names_the_whole_term() {
        let text = message(&["search", "web", "-word"]);
        assert!(text.contains("'-word'") && text.contains("'-- -word'"), "{text}");
        let text = message(&["search", "-fx"]);
        assert!(text.contains("'-- -fx'"), "{text}");
        let text = message(&["search", "-q"]);
        assert!(text.contains("'-- -q'"), "{text}");
    }
}
