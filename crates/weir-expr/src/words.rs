//! The tokenizer of free text, shared by rules, search and the store's term index.
//!
//! A word is a maximal run of ASCII letters, ASCII digits and bytes from 0x80 up; everything else
//! separates words, including `_`. Words are compared ignoring the case of ASCII letters; other
//! letters are compared exactly. So the definition needs no Unicode tables, works on bytes that are
//! not UTF-8, never changes with a Unicode release, and is the one that columnar engines use
//! (`splitByNonAlpha` over lower-cased text).

/// Returns whether a byte belongs to a word.
#[inline]
pub fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Returns the words of a text in order, unchanged.
pub fn split(text: &[u8]) -> Words<'_> {
    Words { rest: text }
}

/// Iterator over the words of a text; see [`split`].
#[derive(Debug, Clone)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|b| is_word_byte(*b))?;
        let rest = &self.rest[start..];
        let len = rest.iter().position(|b| !is_word_byte(*b)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(len);
        self.rest = rest;
        Some(word)
    }
}

/// Returns the word in the form in which words are compared and indexed.
pub fn fold(word: &str) -> String {
    word.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        split(text.as_bytes()).map(|word| std::str::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_are_runs_of_letters_digits_and_non_ascii() {
        assert_eq!(
            words("GET /api/v1/user_id=42 HTTP/1.1"),
            ["GET", "api", "v1", "user", "id", "42", "HTTP", "1", "1"]
        );
        assert_eq!(words("naïve café—日本"), ["naïve", "café—日本"]);
        assert_eq!(words(" -- [] "), [""; 0]);
        assert_eq!(split(b"a\xff\x00b").collect::<Vec<_>>(), [&b"a\xff"[..], b"b"]);
    }

    #[test]
    fn only_ascii_letters_are_folded() {
        assert_eq!(fold("ÉtÉ"), "ÉtÉ");
        assert_eq!(fold("ERROR"), "error");
    }
}
