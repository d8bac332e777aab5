//! The head of a line, split into words, groups in brackets, and separators.
//!
//! Invariant: an item that reaches the limit of the head is not returned, since the rest of it was
//! not seen.

/// An item of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// Up to a blank.
    Word(&'a [u8]),
    /// The content of `[ ]`, `< >`, `( )` or `{ }`.
    Group(&'a [u8]),
    /// `-`, `|`, `:` and the like, on their own.
    Separator,
    /// A tab, where loggers separate fields with it.
    Tab,
}

/// The rest of a head.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Items<'a> {
    rest: &'a [u8],
    /// The line continues after it.
    is_cut: bool,
}

impl<'a> Items<'a> {
    /// Returns the first `max` bytes of a line, without color escapes.
    pub(super) fn new(line: &'a [u8], max: usize) -> Self {
        let rest = line.get(..max).unwrap_or(line);
        let mut items = Self { rest, is_cut: rest.len() < line.len() };
        items.skip_blanks();
        items
    }

    /// Returns the rest from the next item on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if a separator or a tab comes next.
    pub(super) fn is_before_separator(&self) -> bool {
        matches!({ *self }.next(), Some(Item::Separator | Item::Tab))
    }

    /// Returns true if a word with a colon comes next: the name of the program, as syslog writes
    /// it.
    pub(super) fn is_before_program(&self) -> bool {
        matches!({ *self }.next(), Some(Item::Word([.., b':'])))
    }

    pub(super) fn next(&mut self) -> Option<Item<'a>> {
        match self.rest.first()? {
            b'\t' => {
                self.rest = self.rest.get(1..)?;
                self.skip_blanks();
                Some(Item::Tab)
            }
            b'[' => self.group(b'[', b']'),
            b'<' => self.group(b'<', b'>'),
            b'(' => self.group(b'(', b')'),
            b'{' => self.group(b'{', b'}'),
            _ => self.word(),
        }
    }

    fn group(&mut self, open: u8, close: u8) -> Option<Item<'a>> {
        let mut depth = 0_u32;
        let end = self.rest.iter().position(|b| {
            depth += u32::from(*b == open);
            depth -= u32::from(*b == close);
            depth == 0
        })?;
        let inside = self.rest.get(1..end)?;
        self.rest = self.rest.get(end + 1..)?;
        self.skip_blanks();
        Some(Item::Group(inside))
    }

    fn word(&mut self) -> Option<Item<'a>> {
        let is_end = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x1b);
        let len = match self.rest.iter().position(is_end) {
            Some(len) => len,
            None if self.is_cut => return None,
            None => self.rest.len(),
        };
        let (word, rest) = self.rest.split_at_checked(len)?;
        // A line feed, or an escape that is not a color, ends what can be a head.
        self.rest = rest;
        self.skip_blanks();
        match word {
            [] => None,
            _ if word.iter().all(|b| b"-|:*=~>.".contains(b)) => Some(Item::Separator),
            _ => Some(Item::Word(word)),
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.rest {
                [b' ' | b'\r', rest @ ..] => self.rest = rest,
                [0x1b, b'[', rest @ ..] => {
                    let is_color = |b: &&u8| b.is_ascii_digit() || **b == b';';
                    let len = rest.iter().take_while(is_color).count();
                    match rest.get(len..) {
                        Some([b'm', rest @ ..]) => self.rest = rest,
                        _ => return,
                    }
                }
                _ => return,
            }
        }
    }
}
