//! Queries that start with a minus: `weir search -status:info`.
//!
//! An argument parser takes such a query for a group of flags. An argument that can only be a query
//! term is passed on with a leading space, so that the parser takes it for a value; a query ignores
//! the space. Invariant: an argument that could be a flag remains one; after `--` anything is a
//! query.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

/// Commands that take a query.
const COMMANDS: [&str; 4] = ["search", "tail", "export", "delete"];

/// The arguments of the process, with negated terms changed so that they are parsed as values.
pub(super) fn arguments(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut has_query, mut are_values) = (false, false);
    let argument = |arg: OsString| {
        are_values |= arg == "--";
        if has_query && !are_values && is_negated_term(arg.as_bytes()) {
            let mut value = OsString::from(" ");
            value.push(arg);
            return value;
        }
        has_query |= COMMANDS.iter().any(|command| arg == *command);
        arg
    };
    args.into_iter().map(argument).collect()
}

/// A minus before `name:`, or before a character that no flag starts with.
fn is_negated_term(arg: &[u8]) -> bool {
    let Some(term) = arg.strip_prefix(b"-") else { return false };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.".contains(byte);
    let name = term.iter().take_while(|byte| is_name(byte)).count();
    match term.first() {
        Some(b'@' | b'"' | b'(' | b'/' | b'*' | b'#') => true,
        // A single letter could be a flag with its value.
        _ => name > 1 && term.get(name) == Some(&b':'),
    }
}

/// A word of a query.
#[expect(clippy::unnecessary_wraps, reason = "as clap calls it")]
pub(super) fn word(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.strip_prefix(' ').filter(|term| term.starts_with('-')).unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::{Cli, Command, SearchArgs, StoreCommand};

    fn parsed(words: &[&str]) -> Result<Command, clap::Error> {
        let args = std::iter::once("weir").chain(words.iter().copied()).map(Into::into);
        Ok(Cli::try_parse_from(super::arguments(args))?.command)
    }

    fn search(words: &[&str]) -> SearchArgs {
        match parsed(words).unwrap() {
            Command::Search(args) => *args,
            _ => unreachable!("must parse as a search"),
        }
    }

    #[test]
    fn query_may_start_with_minus() {
        for term in
            ["-status:info", "-@http.url:\"a b\"", "-(a OR b)", "-\"a b\"", "-/a+/", "-host:h"]
        {
            assert_eq!(search(&["search", term]).query, [term]);
            let args = search(&["search", "web", term, "--since", "2h", "-n", "5", "-o", "json"]);
            assert_eq!(
                (args.query, args.limit),
                (vec!["web".to_owned(), term.to_owned()], Some(5))
            );
            let args = search(&["search", "-n5", term, "-f"]);
            assert_eq!((args.query, args.limit), (vec![term.to_owned()], Some(5)));
            assert!(args.follow);
            let Command::Tail(args) = parsed(&["tail", term]).unwrap() else { unreachable!() };
            assert_eq!(args.query, [term]);
            let command = parsed(&["store", "export", term, "--limit", "1"]).unwrap();
            let Command::Store(StoreCommand::Export(args)) = command else { unreachable!() };
            assert_eq!((args.query, args.limit), (vec![term.to_owned()], Some(1)));
        }
    }

    #[test]
    fn flags_stay_flags() {
        for wrong in ["-x", "-status", "--status:info", "-q:x"] {
            assert!(parsed(&["search", wrong]).is_err(), "{wrong}");
        }
        assert_eq!(search(&["search", "--", "-status", "-a:b"]).query, ["-status", "-a:b"]);
        assert_eq!(search(&["search", " web"]).query, [" web"]);
        assert!(parsed(&["top", "-status:info"]).is_err());
    }
}
