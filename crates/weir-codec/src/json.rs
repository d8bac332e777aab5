//! A strict scanner for JSON text that allocates nothing: it finds the ends of strings and values
//! and checks whether they are valid; it never builds a tree.
//!
//! Invariants: never reads past its slice, never recurses deeper than [`DEPTH_MAX`]. String content
//! is accepted only if every strict parser accepts it between quotes: no raw control bytes, no
//! unknown escapes, no lone surrogates. (That it is UTF-8 is *not* checked.)

use std::ops::Range;

/// Maximum nesting depth of a value that is skipped; below the limit of common parsers, so that
/// nothing is passed on that they reject.
pub(crate) const DEPTH_MAX: usize = 64;

/// Returns the length of the escape at the start of `bytes` (a backslash): 2, 6, or 12 for a
/// surrogate pair. `None` if it is not a valid escape, or incomplete.
#[inline]
pub(crate) fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => unicode_escape_len(bytes),
        _ => None,
    }
}

fn unicode_escape_len(bytes: &[u8]) -> Option<usize> {
    match hex4(bytes.get(2..6)?)? {
        0xd800..0xdc00 => {
            let low = bytes.get(6..12)?.strip_prefix(b"\\u")?;
            (0xdc00..0xe000).contains(&hex4(low)?).then_some(12)
        }
        0xdc00..0xe000 => None,
        _ => Some(6),
    }
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n, b| Some(n << 4 | char::from(*b).to_digit(16)?))
}

/// Replaces every escape of a lone surrogate, which is not a character (half of a pair, where a
/// program has truncated a text), with U+FFFD. Returns true if there was one.
pub(crate) fn replace_lone_surrogates(text: &mut [u8]) -> bool {
    let (mut at, mut is_replaced) = (0, false);
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        let escape = text.get(at..).unwrap_or_default();
        if let Some(len) = escape_len(escape) {
            at += len;
            continue;
        }
        if let Some([b'\\', b'u', digits @ ..]) = text.get_mut(at..at + 6)
            && hex4(digits).is_some()
        {
            digits.copy_from_slice(b"fffd");
            is_replaced = true;
        }
        at += 2;
    }
    is_replaced
}

/// Returns true if any byte is a control byte (below 0x20), which must be escaped in JSON strings.
pub(crate) fn has_control(bytes: &[u8]) -> bool {
    Extremes::of(bytes).lowest < 0x20
}

/// The range of values of bytes.
struct Extremes {
    /// 0xff if there are no bytes.
    lowest: u8,
    /// 0 if there are no bytes.
    highest: u8,
}

impl Extremes {
    /// Takes two vector instructions per sixteen bytes. The last block overlaps the one before it,
    /// so that no bytes are left over to be checked one by one.
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        const BLOCK: usize = 64;
        let Some(last) = bytes.last_chunk::<BLOCK>() else {
            return bytes.iter().fold(Self { lowest: 0xff, highest: 0 }, |e, b| Self {
                lowest: e.lowest.min(*b),
                highest: e.highest.max(*b),
            });
        };
        let (mut low, mut high) = (*last, *last);
        for block in bytes.as_chunks::<BLOCK>().0 {
            for ((low, high), byte) in low.iter_mut().zip(&mut high).zip(block) {
                *low = (*low).min(*byte);
                *high = (*high).max(*byte);
            }
        }
        Self {
            lowest: low.into_iter().fold(0xff, u8::min),
            highest: high.into_iter().fold(0, u8::max),
        }
    }
}

/// Returns whether bytes are ASCII; `None` if there are control bytes among them.
#[inline]
pub(crate) fn is_ascii_text(bytes: &[u8]) -> Option<bool> {
    let Extremes { lowest, highest } = Extremes::of(bytes);
    (lowest >= 0x20).then_some(highest < 0x80)
}

/// Where string content stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// At an unescaped quote.
    Quote(usize),
    /// Nowhere: everything is valid content.
    End,
    /// At a byte that is not allowed in a string, or an invalid or incomplete escape.
    Invalid(usize),
}

/// Scans string content from the start of `bytes`.
#[inline]
pub(crate) fn content(bytes: &[u8]) -> Content {
    let stop = specials(bytes);
    // Everything that was skipped above must be free of control bytes.
    let (Content::Quote(end) | Content::Invalid(end)) = stop else {
        return first_control(bytes).map_or(stop, Content::Invalid);
    };
    first_control(bytes.get(..end).unwrap_or_default()).map_or(stop, Content::Invalid)
}

/// Scans string content without checking for control bytes.
#[inline]
fn specials(bytes: &[u8]) -> Content {
    match memchr::memchr2(b'\\', b'"', bytes) {
        None => Content::End,
        Some(at) => content_from(bytes, at),
    }
}

fn first_control(bytes: &[u8]) -> Option<usize> {
    if has_control(bytes) { bytes.iter().position(|b| *b < 0x20) } else { None }
}

/// Continues at the backslash or quote at `at`, without checking for control bytes.
pub(crate) fn content_from(bytes: &[u8], mut at: usize) -> Content {
    // An escape is often followed by others nearby: one word at a time is faster over short
    // distances than a search with a setup cost.
    loop {
        let Some(special) = bytes.get(at..) else { return Content::End };
        match special {
            [] => return Content::End,
            [b'"', ..] => return Content::Quote(at),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => at += 2,
            [b'\\', b'u', ..] => match unicode_escape_len(special) {
                Some(len) => at += len,
                None => return Content::Invalid(at),
            },
            [b'\\', ..] => return Content::Invalid(at),
            _ => {}
        }
        match next_special(bytes, at) {
            Some(next) => at = next,
            None => return Content::End,
        }
    }
}

/// Returns the position of the next backslash or quote at or after `at`. Near ones are searched one
/// word at a time, before the search for far ones is set up.
#[inline]
fn next_special(bytes: &[u8], at: usize) -> Option<usize> {
    const NEAR_WORDS: usize = 4;
    let mut from = at;
    for _ in 0..NEAR_WORDS {
        let Some(word) = bytes.get(from..).and_then(<[u8]>::first_chunk) else { break };
        let word = u64::from_le_bytes(*word);
        let hits = equal_bytes(word, b'"') | equal_bytes(word, b'\\');
        if hits != 0 {
            return Some(from + hits.trailing_zeros() as usize / 8);
        }
        from += 8;
    }
    memchr::memchr2(b'\\', b'"', bytes.get(from..)?).map(|found| from + found)
}

/// Returns the length of the string content at the start of `bytes`, up to its quote, and whether
/// it has no escape. `None` if there is no quote, or if something before it is not allowed in a
/// string.
#[inline]
pub(crate) fn text_len(bytes: &[u8]) -> Option<(usize, bool)> {
    const NEAR_WORDS: usize = 4;
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = 0x80 * LOW;
    for (index, word) in bytes.as_chunks().0.iter().take(NEAR_WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(0x20 * LOW) & !word & HIGH;
        let hits = equal_bytes(word, b'"') | equal_bytes(word, b'\\') | control;
        if hits != 0 {
            let at = index * 8 + hits.trailing_zeros() as usize / 8;
            if bytes.get(at) == Some(&b'"') {
                return Some((at, true));
            }
            break;
        }
    }
    let at = memchr::memchr2(b'\\', b'"', bytes)?;
    let (len, is_plain) = match bytes.get(at) {
        Some(b'"') => (at, true),
        _ => match content_from(bytes, at) {
            Content::Quote(len) => (len, false),
            Content::End | Content::Invalid(_) => return None,
        },
    };
    (!has_control(bytes.get(..len)?)).then_some((len, is_plain))
}

/// Returns the high bit of every byte of `word` that equals `byte`; bits above the lowest one that
/// is set may be wrong.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let difference = word ^ (LOW * u64::from(byte));
    difference.wrapping_sub(LOW) & !difference & HIGH
}

/// Returns the length of the longest prefix of valid string content `bytes` of at most `max` bytes
/// that splits neither an escape nor a UTF-8 sequence.
pub(crate) fn cut_content(bytes: &[u8], max: usize) -> usize {
    if bytes.len() <= max {
        return bytes.len();
    }
    let mut at = 0;
    while let Some(run) = bytes.get(at..max).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = at + run;
        let len = bytes.get(escape..).and_then(escape_len).unwrap_or(2);
        if escape + len > max {
            return escape;
        }
        at = escape + len;
    }
    cut_utf8(bytes, max)
}

/// Returns the length of the longest prefix of at most `max` bytes that does not split a UTF-8
/// sequence.
pub(crate) fn cut_utf8(bytes: &[u8], max: usize) -> usize {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    if max >= bytes.len() {
        return bytes.len();
    }
    // Bytes that are not UTF-8 at all are split anywhere.
    (0..4).filter_map(|back| max.checked_sub(back)).find(|at| !is_inside(*at)).unwrap_or(max)
}

/// Returns true if `bytes` are one valid JSON object and nothing else (except surrounding white
/// space). For outputs that embed a body as it is; the caller must check that it is UTF-8.
pub fn is_json_object(bytes: &[u8]) -> bool {
    let mut scanner = Scanner::new(bytes);
    scanner.white_space();
    if scanner.peek() != Some(b'{') || scanner.value().is_none() {
        return false;
    }
    scanner.white_space();
    scanner.is_at_end()
}

/// Scans JSON text from start to end.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Returns the number of bytes taken.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Skips bytes that were checked elsewhere.
    pub(crate) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(crate) fn white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `byte`, with optional white space before it.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> Option<()> {
        self.white_space();
        self.take_exactly(byte)
    }

    #[inline]
    fn take_exactly(&mut self, byte: u8) -> Option<()> {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there.then_some(())
    }

    /// Takes a string, with optional white space before it; returns the span of its content.
    #[inline]
    pub(crate) fn string(&mut self) -> Option<Range<usize>> {
        self.take(b'"')?;
        let start = self.at;
        let (len, _) = text_len(self.bytes.get(start..)?)?;
        self.at = start + len + 1;
        Some(start..start + len)
    }

    /// Takes any value, with optional white space before it; returns its span.
    pub(crate) fn value(&mut self) -> Option<Range<usize>> {
        self.white_space();
        let start = self.at;
        self.nested_value(0)?;
        Some(start..self.at)
    }

    /// Takes any value as a member of an object that is parsed by the caller: one level down.
    pub(crate) fn member_value(&mut self) -> Option<Range<usize>> {
        self.white_space();
        let start = self.at;
        self.nested_value(1)?;
        Some(start..self.at)
    }

    fn nested_value(&mut self, depth: usize) -> Option<()> {
        self.white_space();
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' if depth < DEPTH_MAX => self.members(b'}', depth),
            b'[' if depth < DEPTH_MAX => self.members(b']', depth),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn members(&mut self, close: u8, depth: usize) -> Option<()> {
        self.at += 1;
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            if close == b'}' {
                self.string()?;
                self.take(b':')?;
            }
            self.nested_value(depth + 1)?;
            if self.take(close).is_some() {
                return Some(());
            }
            self.take_exactly(b',')?;
        }
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        let is_there = self.bytes.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_there.then_some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take_exactly(b'-');
        if self.take_exactly(b'0').is_none() {
            self.digits()?;
        }
        if self.take_exactly(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let cases = [
            (r"\ud800", r"\ufffd"),
            (r"a\uDFFFb", r"a\ufffdb"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\\ud800 \\\ud800", r"\\ud800 \\\ufffd"),
            (r"\u00e4\n\ud8", r"\u00e4\n\ud8"),
            (r"\ud80", r"\ud80"),
            (r"\x\", r"\x\"),
        ];
        for (text, want) in cases {
            let mut replaced = text.as_bytes().to_vec();
            assert_eq!(replace_lone_surrogates(&mut replaced), text != want, "{text}");
            assert_eq!(String::from_utf8(replaced).unwrap(), want);
        }
    }

    #[test]
    fn the_scanner_accepts_what_a_strict_parser_accepts() {
        let cases = [
            "{}",
            "[]",
            "[1]",
            "[1,]",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "1",
            "-",
            "-0",
            "01",
            "1.",
            "1.5",
            ".5",
            "1e5",
            "1e",
            "1E+5",
            "1e-",
            "true",
            "tru",
            "truex",
            "null",
            "nul",
            "false",
            "\"\"",
            "\"a",
            "\"\\u12\"",
            "\"\\u1234\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud83d\\ude00\"",
            "\"\\x\"",
            "\"a\tb\"",
            " { \"a\" : [ 1 , { } ] } ",
            "{\"a\":{\"b\":[[],{}]}}",
            "",
            " ",
            "{}{}",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "-1.5e+10",
            "+1",
            "\"\u{7f}é\"",
            "{,}",
            "[,]",
            "{\"a\":}",
        ];
        for case in cases {
            let mut scanner = Scanner::new(case.as_bytes());
            let accepted = scanner.value().is_some() && {
                scanner.white_space();
                scanner.is_at_end()
            };
            let want = serde_json::from_str::<serde_json::Value>(case).is_ok();
            assert_eq!(accepted, want, "{case}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_json_object(nested(DEPTH_MAX - 1).as_bytes()));
        assert!(!is_json_object(nested(DEPTH_MAX).as_bytes()));
        assert!(!is_json_object(nested(1_000_000).as_bytes()));
    }

    #[test]
    fn an_object_is_told_from_other_values() {
        for (text, want) in [
            ("{}", true),
            (" {\"a\":1} \r", true),
            ("[]", false),
            ("{} x", false),
            ("\"{}\"", false),
        ] {
            assert_eq!(is_json_object(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn a_cut_splits_no_escape_and_no_character() {
        let text = br"ab\n\u00e9\ud83d\ude00\\x".as_slice();
        let cuts: Vec<usize> = (0..=text.len()).map(|max| cut_content(text, max)).collect();
        assert_eq!(
            cuts,
            [
                0, 1, 2, 2, 4, 4, 4, 4, 4, 4, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 22,
                22, 24, 25
            ]
        );
        let text = "aé😀b".as_bytes();
        let cuts: Vec<usize> = (0..=text.len()).map(|max| cut_utf8(text, max)).collect();
        assert_eq!(cuts, [0, 1, 1, 3, 3, 3, 3, 7, 8]);
        assert_eq!(cut_utf8(&[0x80; 9], 5), 5);
    }

    #[test]
    fn control_bytes_are_found_at_every_place() {
        assert!(!has_control(b""));
        for len in [1, 63, 64, 65, 127, 128, 129, 300] {
            assert!(!has_control(&vec![b' '; len]));
            for at in 0..len {
                let mut bytes = vec![0x80; len];
                bytes[at] = 0x1f;
                assert!(has_control(&bytes), "at {at} of {len}");
            }
        }
    }
}
