//! Parses the names of rotated files: which file it is a generation of, and how old it is.
//!
//! Invariant: names only order generations that are known to belong together; the caller decides
//! whether two files belong together (the base file is followed, or the layout says so).

use std::cmp::Reverse;

/// Age of a generation within its group, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    /// `app.log-20260131`, `0.log.20260131-101500`.
    Dated(String),
    /// `app.log.3` is older than `app.log.1`.
    Numbered(Reverse<u64>),
    /// The name that is written to.
    #[default]
    Active,
}

/// Endings of files that are compressed, or still being created.
const SKIPPED: [&str; 10] = ["gz", "zst", "xz", "bz2", "lz4", "lzma", "zip", "Z", "tmp", "swp"];

/// Returns true for a compressed generation, or the temporary file of a rotation.
pub fn is_compressed_or_temporary(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| SKIPPED.contains(&ending))
}

/// Maximum number of digits of a generation number; longer ones are dates.
const NUMBER_DIGITS_MAX: usize = 7;

fn generation_of(suffix: &str) -> Option<Generation> {
    if suffix.is_empty() || !suffix.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if suffix.bytes().all(|b| b.is_ascii_digit()) && suffix.len() <= NUMBER_DIGITS_MAX {
        return suffix.parse().ok().map(|n| Generation::Numbered(Reverse(n)));
    }
    let date_bytes = |b: u8| b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'T' | b':' | b'Z');
    let digits = suffix.bytes().filter(u8::is_ascii_digit).count();
    (digits >= 6 && suffix.bytes().all(date_bytes)).then(|| Generation::Dated(suffix.to_owned()))
}

/// Splits a rotation suffix off: `app.log.1` is generation 1 of `app.log`, `app.log-20260131` its
/// generation of that day. `None` if the name has no such suffix.
pub(super) fn split_suffix(name: &str) -> Option<(&str, Generation)> {
    // A date may itself contain the separators, so the earliest position that parses wins.
    name.char_indices().filter(|(at, c)| *at > 0 && matches!(c, '.' | '-')).find_map(|(at, _)| {
        generation_of(&name[at + 1..]).map(|generation| (&name[..at], generation))
    })
}

/// Parses `app-20260131.log` and `app.1.log` as generations of `app.log`.
pub(super) fn split_infix(name: &str) -> Option<(String, Generation)> {
    let (stem, ending) = name.rsplit_once('.')?;
    let (base, generation) = split_suffix(stem)?;
    Some((format!("{base}.{ending}"), generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rotated_files_are_understood() {
        let numbered = |n| Generation::Numbered(Reverse(n));
        let dated = |text: &str| Generation::Dated(text.to_owned());
        assert_eq!(split_suffix("app.log.12"), Some(("app.log", numbered(12))));
        assert_eq!(
            split_suffix("0.log.20260131-101500"),
            Some(("0.log", dated("20260131-101500")))
        );
        assert_eq!(split_suffix("app.log-2026-01-31"), Some(("app.log", dated("2026-01-31"))));
        assert_eq!(split_suffix("app.log.1769850000"), Some(("app.log", dated("1769850000"))));
        assert_eq!(split_infix("app-20260131.log"), Some(("app.log".into(), dated("20260131"))));
        assert_eq!(split_infix("app.1.log"), Some(("app.log".into(), numbered(1))));
        for plain in ["app.log", "app", "app-v2.log", "a.1b", ".1", "app.log.old"] {
            assert_eq!(split_suffix(plain), None, "{plain}");
        }
        assert!(is_compressed_or_temporary("app.log.1.gz"));
        assert!(is_compressed_or_temporary("app.log.tmp"));
        assert!(!is_compressed_or_temporary("app.log.1"));
    }

    #[test]
    fn generations_are_ordered_from_old_to_new() {
        let mut names = vec!["a.log", "a.log.1", "a.log.10", "a.log.2"];
        names.sort_by_key(|n| split_suffix(n).map_or(Generation::Active, |(_, g)| g));
        assert_eq!(names, ["a.log.10", "a.log.2", "a.log.1", "a.log"]);
    }
}
