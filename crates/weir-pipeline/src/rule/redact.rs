//! Redacts sensitive data: card numbers, addresses, tokens, or any text that a pattern matches.
//!
//! Invariants: patterns are applied to the text as a user would read it: without the escapes of
//! the format that carried it and, if the body is JSON, also to each key, text and number without
//! JSON's own escapes. Redacted text is not contained in any byte of the result.

use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;

use ring::hmac;
use weir_codec::{Change, Part, escape_json_into, rewrite_json};
use weir_expr::limits::REGEXP_BYTES_MAX;
use weir_model::{unescape_json, unescape_json_with_places};

/// What replaces redacted text.
#[derive(Debug, Clone)]
pub enum Replacement {
    /// This text.
    Text(String),
    /// One asterisk per byte.
    Stars,
    /// A prefix of a keyed hash, the same for the same text, so that records can still be
    /// distinguished and correlated.
    Hash(hmac::Key),
}

/// Where to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The message and every attribute.
    Everything,
    /// The message.
    Message,
    /// One attribute, and those below it.
    Attribute(String),
}

/// A redaction rule.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// What to search for. If the pattern has groups, the first matching group is redacted.
    pub pattern: Pattern,
    /// What to replace it with.
    pub with: Replacement,
    /// Where to search.
    pub scope: Scope,
}

/// What to search for.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: regex::bytes::Regex,
    check: Check,
    /// Names of fields whose whole value is redacted.
    names: Option<regex::bytes::Regex>,
}

/// A preset with its name and a description, for the reference.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// As written in the configuration.
    pub name: &'static str,
    /// Description of what it finds.
    pub doc: &'static str,
    patterns: &'static [(&'static str, Check)],
    /// Names of fields whose whole value is redacted.
    names: Option<&'static str>,
}

/// Verifies a place where the pattern matches; returns the range of the actual match, if any.
type Check = fn(&[u8], Range<usize>) -> Option<Range<usize>>;

#[expect(clippy::unnecessary_wraps, reason = "one of several checks")]
fn always(_: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    Some(found)
}

/// Suffixes of the paths of fields that contain a secret.
const SECRET_NAMES: &str = r"(?i-u)(?:passwo?r?d|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?$";

/// All presets.
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "card",
        doc: "payment card numbers: 12 to 19 digits, contiguous or in groups, with a valid check \
              digit",
        patterns: &[(r"\b\d(?:[ -]?\d){11,18}\b", card)],
        names: None,
    },
    Preset {
        name: "email",
        doc: "e-mail addresses",
        patterns: &[(
            r"(?i)[a-z0-9][a-z0-9._%+'-]*@[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+",
            always,
        )],
        names: None,
    },
    Preset {
        name: "token",
        doc: "passwords, keys and tokens after a name that indicates one, in the Authorization \
              header, in a URL, or in a known format (AWS, GitHub, GitLab, Slack, Stripe, Google, \
              JWT, PEM)",
        patterns: &[
            (
                r#"(?i)\b[\w.-]{0,40}(?:passwo?r?d|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?[\\"']*\s*(?:=>|[:=])\s*[\\"']*([^\s"'\\,;&})\]]+)"#,
                always,
            ),
            (r"(?i)\b(?:bearer|basic)\s+([a-z0-9._~+/=-]{8,})", always),
            (r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/@:]*:([^\s/@]+)@", always),
            (r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", always),
            (r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20,}", always),
            (r"\bxox[abposr]-[A-Za-z0-9-]{10,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", always),
            (r"\bAIza[\w-]{35}", always),
            (r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", always),
            (
                r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
                always,
            ),
        ],
        names: Some(SECRET_NAMES),
    },
    Preset {
        name: "ip",
        doc: "IPv4 and IPv6 addresses",
        patterns: &[
            (
                r"(?i)(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4}|:)?",
                ip_address,
            ),
            (r"\b(?:\d{1,3}\.){3}\d{1,3}\b", ip_address),
        ],
        names: None,
    },
];

impl Pattern {
    /// Compiles a pattern of the configuration.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        Self::compile(pattern, true, always)
    }

    /// Returns the patterns of a preset; `None` if there is none of that name.
    pub fn preset(name: &str) -> Option<Vec<Self>> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        // A test compiles them all.
        let compile = |(regex, check): &(&str, Check)| Self::compile(regex, false, *check).ok();
        let mut patterns: Vec<Self> = preset.patterns.iter().map(compile).collect::<Option<_>>()?;
        if let (Some(first), Some(names)) = (patterns.first_mut(), preset.names) {
            first.names = Some(regex::bytes::Regex::new(names).ok()?);
        }
        Some(patterns)
    }

    fn compile(pattern: &str, is_unicode: bool, check: Check) -> Result<Self, regex::Error> {
        let mut builder = regex::bytes::RegexBuilder::new(pattern);
        let regex = builder.unicode(is_unicode).size_limit(REGEXP_BYTES_MAX).build()?;
        Ok(Self { regex, check, names: None })
    }

    /// Returns true if it has named groups.
    pub fn has_names(&self) -> bool {
        self.regex.capture_names().flatten().next().is_some()
    }

    /// Calls `visit` with the name and text of each named group of the first match.
    pub(super) fn groups(&self, text: &[u8], mut visit: impl FnMut(&str, &[u8])) {
        let Some(groups) = self.regex.captures(text) else { return };
        for name in self.regex.capture_names().flatten() {
            if let Some(found) = groups.name(name) {
                visit(name, found.as_bytes());
            }
        }
    }
}

impl Replacement {
    /// Creates a replacement by a hash with this key.
    pub fn hash(key: &[u8]) -> Self {
        Self::Hash(hmac::Key::new(hmac::HMAC_SHA256, key))
    }
}

impl Redaction {
    /// Returns the redacted text; `None` if nothing was found.
    pub fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.hide(text, &mut Vec::new())
    }

    /// Returns the redacted value of a field: all of it, if its name indicates a secret.
    pub fn value(&self, path: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        self.hide_value(path, text, &mut Vec::new())
    }

    /// Returns the redacted message, also searching the unescaped texts of a JSON object; `None` if
    /// nothing was found.
    pub fn message(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut written = Vec::new();
        let inside = self.object(message, &mut written);
        let text = inside.as_deref().unwrap_or(message);
        // A match over several tokens ("password": "x") is only visible in the whole text.
        self.hide(text, &mut written).or(inside)
    }

    /// Redacts matches in the text as it is, and matches after JSON escapes are decoded: a program
    /// that logs another program's JSON as text escapes it again.
    ///
    /// `written` lists earlier replacements in the same text: they are not redacted again, or a
    /// hash would become the hash of a hash if the text was searched twice.
    fn hide(&self, text: &[u8], written: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let mut hidden = self.hide_below(text, 0, written);
        for layers in 1..=ESCAPE_LAYERS_MAX {
            let now = hidden.as_deref().unwrap_or(text);
            if !now.contains(&b'\\') {
                break;
            }
            hidden = self.hide_below(now, layers, written).or(hidden);
        }
        hidden
    }

    /// Redacts what is found below this many layers of escapes.
    fn hide_below(
        &self,
        text: &[u8],
        layers: usize,
        written: &mut Vec<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let plain = unescaped(text, layers);
        let mut found = self.find(&plain);
        if found.is_empty() {
            return None;
        }
        let places = places(text, layers);
        let place = |at: usize| places.as_ref().map_or(at, |places| places[at]);
        found.retain(|found| {
            let found = place(found.start)..place(found.end);
            !written.iter().any(|old| is_part_of(old, text, &found))
        });
        if found.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for found in found {
            let mut new = Vec::new();
            self.with.write(&plain[found.clone()], &mut new);
            for _ in 0..layers {
                let inner = std::mem::take(&mut new);
                escape_json_into(&inner, &mut new);
            }
            out.extend_from_slice(&text[copied..place(found.start)]);
            out.extend_from_slice(&new);
            note_written(&new, written);
            copied = place(found.end);
        }
        out.extend_from_slice(&text[copied..]);
        Some(out)
    }

    /// Returns the ranges to redact, in order.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let regex = &self.pattern.regex;
        let mut all = Vec::new();
        // Almost no text has anything to redact, and for those nothing is allocated.
        if !regex.is_match(text) {
            return all;
        }
        let mut places = regex.capture_locations();
        let mut at = 0;
        while at <= text.len()
            && let Some(whole) = regex.captures_read_at(&mut places, text, at)
        {
            // Move past an empty match, or it would be found forever.
            at = whole.end().max(whole.start() + 1);
            let group = (1..places.len()).find_map(|group| places.get(group));
            let (start, end) = group.unwrap_or((whole.start(), whole.end()));
            if start == end {
                continue;
            }
            let Some(found) = (self.pattern.check)(text, start..end) else { continue };
            if found != (start..end) {
                at = found.end;
            }
            all.push(found);
        }
        all
    }

    fn hide_value(&self, path: &[u8], text: &[u8], written: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let is_secret = |names: &regex::bytes::Regex| !text.is_empty() && names.is_match(path);
        if !self.pattern.names.as_ref().is_some_and(is_secret) {
            return self.hide(text, written);
        }
        let mut out = Vec::new();
        self.with.write(text, &mut out);
        note_written(&out, written);
        Some(out)
    }

    fn object(&self, message: &[u8], written: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let mut change = |path: &[u8], part: Part<'_>| {
            let mut here = Vec::new();
            let hidden = match part {
                Part::Key(text) => self.hide(text, &mut here),
                Part::Text(text) | Part::Number(text) => self.hide_value(path, text, &mut here),
            };
            for new in &here {
                // As it will be written in the text.
                let mut escaped = Vec::new();
                escape_json_into(new, &mut escaped);
                note_written(&escaped, written);
            }
            hidden.map_or(Change::Keep, Change::Text)
        };
        let inside = rewrite_json(message, &mut change);
        if inside.is_none() {
            // It is not an object after all: none of these replacements are in the text.
            written.clear();
        }
        inside
    }

    /// Returns true if it applies to that attribute.
    pub fn covers(&self, path: &[u8]) -> bool {
        match &self.scope {
            Scope::Everything => true,
            Scope::Message => false,
            Scope::Attribute(scope) => path
                .strip_prefix(scope.as_bytes())
                .is_some_and(|rest| matches!(rest, [] | [b'.', ..])),
        }
    }
}

/// Layers of escapes that are decoded: JSON in a text of JSON in a text.
const ESCAPE_LAYERS_MAX: usize = 2;

/// Number of hash bytes shown: enough to distinguish a billion values.
const HASH_BYTES: usize = 8;

impl Replacement {
    fn write(&self, found: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Stars => out.resize(out.len() + found.len(), b'*'),
            Self::Hash(key) => {
                for byte in hmac::sign(key, found).as_ref().iter().take(HASH_BYTES) {
                    // Writing to a vector cannot fail.
                    let _ = write!(out, "{byte:02x}");
                }
            }
        }
    }
}

/// Decodes this many layers of JSON escapes.
fn unescaped(text: &[u8], layers: usize) -> Cow<'_, [u8]> {
    (0..layers).fold(Cow::Borrowed(text), |text, _| match text {
        Cow::Borrowed(text) => unescape_json(text),
        Cow::Owned(text) => Cow::Owned(unescape_json(&text).into_owned()),
    })
}

/// Returns the offset in a text of each byte that [`unescaped`] returns, and finally of the end;
/// `None` without layers.
fn places(text: &[u8], layers: usize) -> Option<Vec<usize>> {
    let mut places: Option<Vec<usize>> = None;
    let mut plain = Cow::Borrowed(text);
    for _ in 0..layers {
        let (plainer, inner) = unescape_json_with_places(&plain);
        places = Some(match places {
            None => inner,
            Some(outer) => inner.into_iter().map(|at| outer[at]).collect(),
        });
        plain = Cow::Owned(plainer);
    }
    places
}

/// Usually the same text is written repeatedly.
fn note_written(new: &[u8], written: &mut Vec<Vec<u8>>) {
    if written.last().is_none_or(|last| last != new) {
        written.push(new.to_vec());
    }
}

/// Returns true if a match lies within an occurrence of `old`.
fn is_part_of(old: &[u8], text: &[u8], found: &Range<usize>) -> bool {
    let slack = old.len().checked_sub(found.len());
    slack.is_some_and(|slack| {
        let mut places = found.start.saturating_sub(slack)..=found.start;
        places.any(|place| text[place..].starts_with(old))
    })
}

/// Checks for a card number: the whole match, or a number that starts at one of its groups of
/// digits, since other numbers often precede it.
fn card(text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    if is_card(&text[found.clone()]) {
        return Some(found);
    }
    let is_start = |at: &usize| *at == found.start || !text[at - 1].is_ascii_digit();
    let mut starts = found.clone().filter(|at| text[*at].is_ascii_digit()).filter(is_start);
    starts.find_map(|start| Some(start..start + card_len(&text[start..])?))
}

/// Returns the length of the longest card number at the start of a text, in groups as printed on
/// cards: of at least four digits, except the last one.
fn card_len(text: &[u8]) -> Option<usize> {
    let (mut longest, mut end, mut digits) = (None, 0, 0);
    loop {
        let group = text[end..].iter().take_while(|b| b.is_ascii_digit()).count();
        (end, digits) = (end + group, digits + group);
        if group == 0 || digits > CARD_DIGITS_MAX {
            return longest;
        }
        if is_card(&text[..end]) {
            longest = Some(end);
        }
        if group < 4 || !matches!(text.get(end), Some(b' ' | b'-')) {
            return longest;
        }
        end += 1;
    }
}

/// Maximum length of the number of a payment card (ISO/IEC 7812-1).
const CARD_DIGITS_MAX: usize = 19;

/// Checks the Luhn check digit, over 12 to 19 digits that are not all the same.
fn is_card(text: &[u8]) -> bool {
    let digits = text.iter().rev().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0'));
    let doubled = |(index, digit): (usize, u32)| match index % 2 {
        0 => digit,
        _ if digit > 4 => digit * 2 - 9,
        _ => digit * 2,
    };
    let sum: u32 = digits.clone().enumerate().map(doubled).sum();
    let last = digits.clone().next();
    (12..=CARD_DIGITS_MAX).contains(&digits.clone().count())
        && sum.is_multiple_of(10)
        && digits.map(Some).any(|digit| digit != last)
}

fn ip_address(text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let address = std::str::from_utf8(&text[found.clone()]).ok()?;
    (address != "::" && address.parse::<std::net::IpAddr>().is_ok()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactions(preset: &str) -> Vec<Redaction> {
        let with = Replacement::Text("#".to_owned());
        let one = |pattern| Redaction { pattern, with: with.clone(), scope: Scope::Everything };
        Pattern::preset(preset).unwrap().into_iter().map(one).collect()
    }

    fn redacted(preset: &str, text: &str) -> String {
        let mut text = text.as_bytes().to_vec();
        for redaction in redactions(preset) {
            text = redaction.message(&text).unwrap_or(text);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn every_preset_compiles_and_finds_what_it_is_for() {
        let cases = [
            ("card", "paid with 4111 1111 1111 1111 today", "paid with # today"),
            ("card", "4111-1111-1111-1111,5500000000000004", "#,#"),
            (
                "card",
                "order 4111111111111112 and 0000000000000000",
                "order 4111111111111112 and 0000000000000000",
            ),
            ("card", "user 17 4111111111111111 12/28", "user 17 # 12/28"),
            ("card", "4111 1111 1111 1111 123 ok", "# 123 ok"),
            ("card", "1 2 3 4 5 6 7 4111 1111 1111 1111", "1 2 3 4 5 6 7 #"),
            ("email", "from <joe.o'neil+x@mail.example.co.uk>!", "from <#>!"),
            ("email", "a@b, @x.y, user@localhost", "a@b, @x.y, user@localhost"),
            ("token", "password=hunter2&user=joe", "password=#&user=joe"),
            ("token", r#"{"db_password": "hun\"ter2","n":1}"#, r##"{"db_password": "#","n":1}"##),
            ("token", "Authorization: Bearer abc.def-ghi_j", "Authorization: Bearer #"),
            ("token", "postgres://app:s3cret@db:5432/x", "postgres://app:#@db:5432/x"),
            ("token", "key AKIAIOSFODNN7EXAMPLE used", "key # used"),
            ("token", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "#"),
            ("token", "the token expired, no secret here", "the token expired, no secret here"),
            ("ip", "10.0.0.1 -> 2001:db8::1 at 12:30:45", "# -> # at 12:30:45"),
            ("ip", "version 1.2.3, 999.1.1.1, ::ffff:10.0.0.1", "version 1.2.3, 999.1.1.1, #"),
        ];
        for (preset, text, want) in cases {
            assert_eq!(redacted(preset, text), want, "{preset}: {text}");
        }
        assert!(PRESETS.iter().all(|preset| Pattern::preset(preset.name).is_some()));
        assert!(Pattern::preset("cards").is_none());
    }

    #[test]
    fn secrets_behind_the_escapes_of_a_json_body_are_found() {
        let text =
            r#"{"m":"\u0034111 1111 1111 \u0031111","n":4111111111111111,"joe@example.org":[1]}"#;
        assert_eq!(redacted("card", text), r##"{"m":"#","n":"#","joe@example.org":[1]}"##);
        assert_eq!(redacted("email", r#"{"joe\u0040example.org":1}"#), r##"{"#":1}"##);
    }

    #[test]
    fn secrets_behind_further_layers_of_escapes_are_found() {
        let cases = [
            // JSON within a text.
            ("email", r#"got {"u":"joe\u0040example.org"} "#, r##"got {"u":"#"} "##),
            ("card", r"card 4111\u00201111 1111 1111!", "card #!"),
            // JSON within JSON, and within that.
            ("email", r#"{"m":"{\"u\":\"joe\\u0040example.org\"}"}"#, r##"{"m":"{\"u\":\"#\"}"}"##),
            ("email", r#"{"m":"\\\"joe\\\\u0040example.org\\\""}"#, r##"{"m":"\\\"#\\\""}"##),
            ("token", r#"{"m":"{\"password\":\"hunter2\"}"}"#, r##"{"m":"{\"password\":\"#\"}"}"##),
            ("email", r"C:\users\new joe@example.org", r"C:\users\new #"),
        ];
        for (preset, text, want) in cases {
            assert_eq!(redacted(preset, text), want, "{preset}: {text}");
        }
    }

    #[test]
    fn a_replacement_is_a_text_stars_or_a_keyed_hash() {
        let pattern = Pattern::new(r"id=(\d+)").unwrap();
        let with = |with| {
            let redaction = Redaction { pattern: pattern.clone(), with, scope: Scope::Message };
            String::from_utf8(redaction.text(b"id=42 id=42 id=43 id=").unwrap()).unwrap()
        };
        assert_eq!(with(Replacement::Text("x".to_owned())), "id=x id=x id=x id=");
        assert_eq!(with(Replacement::Stars), "id=** id=** id=** id=");
        let hashed = with(Replacement::hash(b"key"));
        let words: Vec<&str> = hashed.split(' ').collect();
        assert!(words[0] == words[1] && words[1] != words[2] && words[0].len() == 3 + 16);
        let key = Replacement::hash(b"key");
        let once = |text: &str| {
            let pattern = Pattern::new("id=(\\w+)").unwrap();
            let redaction = Redaction { pattern, with: key.clone(), scope: Scope::Message };
            String::from_utf8(redaction.message(text.as_bytes()).unwrap()).unwrap()
        };
        assert_eq!(once(r#"{"m":"id=42"}"#), format!(r#"{{"m":"{}"}}"#, once("id=42")));
    }

    #[test]
    fn a_short_secret_is_redacted_even_if_an_earlier_replacement_contains_it() {
        let redaction = Redaction {
            pattern: Pattern::new(r"pin\W+(\w+)").unwrap(),
            with: Replacement::Text("hidden".to_owned()),
            scope: Scope::Everything,
        };
        let message = redaction.message(br#"{"a":"pin 1234","pin":"d"}"#).unwrap();
        assert_eq!(String::from_utf8(message).unwrap(), r#"{"a":"pin hidden","pin":"hidden"}"#);
        let quoted = Redaction { with: Replacement::Text("\"hidden\"".to_owned()), ..redaction };
        let message = quoted.message(br#"{"a":"pin 1234"}"#).unwrap();
        assert_eq!(String::from_utf8(message).unwrap(), r#"{"a":"pin \"hidden\""}"#);
    }

    #[test]
    fn a_scope_covers_a_path_and_what_is_below_it() {
        let redaction = Redaction {
            pattern: Pattern::new("x").unwrap(),
            with: Replacement::Stars,
            scope: Scope::Attribute("usr".to_owned()),
        };
        let covers = |path: &str| redaction.covers(path.as_bytes());
        assert!(covers("usr") && covers("usr.email") && !covers("usrs") && !covers("x"));
    }
}
