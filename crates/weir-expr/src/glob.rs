//! Wildcards: `*` matches any number of characters, `?` exactly one.
//!
//! Characters are those of UTF-8; a byte that is not valid UTF-8 is treated as one character, so
//! that matching is defined for every text.

/// One part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Exactly this text.
    Text(String),
    /// `*`: any number of characters, including none.
    Any,
    /// `?`: one character.
    One,
}

/// A pattern for a whole value or word. Adjacent `*` are merged, and `?` are placed before adjacent
/// `*`, so that equal patterns have equal parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob {
    pieces: Vec<Piece>,
}

impl Glob {
    /// Creates a pattern from these parts.
    pub fn new(parts: impl IntoIterator<Item = Piece>) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for part in parts {
            match (&part, pieces.last_mut()) {
                (Piece::Text(text), _) if text.is_empty() => {}
                (Piece::Text(text), Some(Piece::Text(before))) => before.push_str(text),
                (Piece::Any, Some(Piece::Any)) => {}
                (Piece::One, Some(last @ Piece::Any)) => {
                    *last = Piece::One;
                    pieces.push(Piece::Any);
                }
                _ => pieces.push(part),
            }
        }
        Self { pieces }
    }

    /// Returns the parts.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the text, if there is no wildcard.
    pub fn as_text(&self) -> Option<&str> {
        match &self.pieces[..] {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns whether it is only `*`.
    pub fn is_any(&self) -> bool {
        self.pieces == [Piece::Any]
    }

    /// Returns the text before the only wildcard, if the pattern is `text*`.
    pub fn as_prefix(&self) -> Option<&str> {
        match &self.pieces[..] {
            [Piece::Text(text), Piece::Any] => Some(text),
            _ => None,
        }
    }

    /// Returns whether the whole text matches the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.run(text, <[u8]>::starts_with)
    }

    /// Like [`Self::matches`], ignoring the case of ASCII letters; the pattern must be in lower
    /// case.
    pub fn matches_folded(&self, text: &[u8]) -> bool {
        self.run(text, |text, start| {
            text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
        })
    }

    /// Backtracks only to the last `*`: everything before it can stay where it matched first.
    fn run(&self, text: &[u8], starts: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let (mut at, mut piece) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let rest = &text[at..];
            let advanced = match self.pieces.get(piece) {
                None => rest.is_empty().then_some(0),
                Some(Piece::Any) => {
                    star = Some((piece, at));
                    Some(0)
                }
                Some(Piece::One) => (!rest.is_empty()).then(|| char_len(rest)),
                Some(Piece::Text(want)) => starts(rest, want.as_bytes()).then_some(want.len()),
            };
            if let Some(len) = advanced {
                if piece == self.pieces.len() {
                    return true;
                }
                at += len;
                piece += 1;
                continue;
            }
            match star {
                Some((star_piece, star_at)) if star_at < text.len() => {
                    at = star_at + char_len(&text[star_at..]);
                    piece = star_piece + 1;
                    star = Some((star_piece, at));
                }
                _ => return false,
            }
        }
    }
}

/// Returns the length in bytes of the first character of a non-empty text.
pub(crate) fn char_len(text: &[u8]) -> usize {
    let len = match text[0] {
        ..0xc2 => return 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    match text.get(..len) {
        Some(head) if std::str::from_utf8(head).is_ok() => len,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::new(pattern.chars().map(|c| match c {
            '*' => Piece::Any,
            '?' => Piece::One,
            c => Piece::Text(c.to_string()),
        }))
    }

    /// The definition, as an exhaustive search.
    fn matches_by_definition(pieces: &[char], text: &[&[u8]]) -> bool {
        match (pieces.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some(('*', after)), None) => matches_by_definition(after, text),
            (Some(('*', after)), Some((_, rest))) => {
                matches_by_definition(after, text) || matches_by_definition(pieces, rest)
            }
            (Some(_), None) => false,
            (Some(('?', after)), Some((_, rest))) => matches_by_definition(after, rest),
            (Some((c, after)), Some((first, rest))) => {
                c.to_string().as_bytes() == *first && matches_by_definition(after, rest)
            }
        }
    }

    fn characters(mut text: &[u8]) -> Vec<&[u8]> {
        let mut characters = Vec::new();
        while !text.is_empty() {
            let (first, rest) = text.split_at(char_len(text));
            characters.push(first);
            text = rest;
        }
        characters
    }

    #[test]
    fn wildcards_match_characters() {
        for (pattern, text, want) in [
            ("web*", "web-1", true),
            ("web*", "we", false),
            ("*web", "a web", true),
            ("h?llo", "hallo", true),
            ("h?llo", "héllo", true),
            ("h?llo", "hllo", false),
            ("*??", "€", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
        ] {
            assert_eq!(glob(pattern).matches(text.as_bytes()), want, "{pattern} on {text}");
        }
        assert!(glob("w?b*").matches_folded(b"WEB"));
        assert_eq!(glob("a*?*").pieces().len(), 3);
    }

    proptest! {
        #[test]
        fn glob_matching_agrees_with_the_definition(
            pattern in "[ab*?é]{0,6}",
            text in prop::collection::vec(prop::sample::select(vec![
                &b"a"[..], b"b", "é".as_bytes(), "€".as_bytes(), b"\xc3", b"\xa9", b"\xff",
            ]), 0..8),
        ) {
            let text = text.concat();
            let pieces: Vec<char> = pattern.chars().collect();
            let want = matches_by_definition(&pieces, &characters(&text));
            prop_assert_eq!(glob(&pattern).matches(&text), want, "{} on {:?}", pattern, text);
        }
    }
}
