//! Datadog's logs intake v2: the body of a request to records.
//! (<https://docs.datadoghq.com/api/latest/logs/#send-logs>)
//!
//! A body is read whole before anything is made of it ([`DatadogItems::read`]), so a request is
//! taken or refused as one. Then each item becomes a record ([`DatadogItems::push`]): the body is
//! the item's own JSON object as it stands, so its attributes keep their types and nothing of it is
//! lost; what the request says of all its items ([`DatadogDefaults`]) stands in the attributes
//! beside the body, for the items that do not say it themselves. A line that is no JSON object is
//! a body as it stands.
//!
//! Invariants: every item that was read becomes one record and counts as one line; an item that is
//! too long is cut at its `message`, or else at its longest text, so that it stays an object, and
//! counted; nothing panics, and memory is bounded by the number of items.

use std::ops::Range;

use weir_model::{AbandonReason, BatchBuilder, Full, NewRecord, RecordFlags, Severity, SourceBook};

use crate::escape::escape_json_into;
use crate::json::{Scanner, cut_content, cut_utf8, mend_surrogates};
use crate::structured::{Seen, quoted_len};

/// Most items of a JSON array: that of the real intake.
pub const DATADOG_ITEMS_MAX: usize = 1000;

/// Most lines of a text, for which the real intake states no bound: enough for its 5 MB in lines of
/// 250 bytes, and 2 MiB of memory.
pub const DATADOG_LINES_MAX: usize = 20_000;

/// How the body of a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatadogFormat {
    /// A JSON array of objects, or one object.
    Json,
    /// A record per line, each a JSON object or any text.
    Lines,
    /// Heroku's frames: a length, a space, and as many bytes of a syslog message.
    Logplex,
}

impl DatadogFormat {
    /// By the value of `Content-Type`; whatever is not known to be text is JSON.
    pub fn of_content_type(text: &str) -> Self {
        let name = text.split(';').next().unwrap_or_default().trim();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("application/logplex-1") {
            Self::Logplex
        } else if is("text/plain") || is("application/x-ndjson") {
            Self::Lines
        } else {
            Self::Json
        }
    }
}

/// Why a body is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatadogError {
    /// More items than one request may have.
    #[error("more than {max} logs in one request")]
    TooMany {
        /// The bound.
        max: usize,
    },
    /// JSON is UTF-8.
    #[error("the body is not UTF-8")]
    Utf8,
    /// Neither an array nor an object, or something behind it.
    #[error("the body must be a JSON array of objects, or one object; look at byte {at}")]
    Shape {
        /// Where it stops being one.
        at: usize,
    },
    /// An item that is no object, or no JSON, or nested too deeply.
    #[error("log {index} (from 0) is not a valid JSON object of at most 64 levels")]
    Item {
        /// Its place in the array.
        index: usize,
    },
    /// A frame of `application/logplex-1` without its length, or shorter than that.
    #[error("frame {index} (from 0) does not have the length that it states")]
    Frame {
        /// Its place in the body.
        index: usize,
    },
}

/// What a request says of all its items: each as the inside of a JSON string, empty = not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatadogDefaults {
    source: Vec<u8>,
    tags: Vec<u8>,
    service: Vec<u8>,
    host: Vec<u8>,
}

impl DatadogDefaults {
    /// Takes a parameter of the query, decoded. Others than `ddsource`, `ddtags`, `service` and
    /// `hostname` mean nothing.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        let place = match name {
            "ddsource" => &mut self.source,
            "ddtags" => &mut self.tags,
            "service" => &mut self.service,
            "hostname" => &mut self.host,
            _ => return,
        };
        place.clear();
        escape_json_into(value, place);
    }

    /// Writes an object of what the item does not say itself; nothing when there is nothing.
    fn write(&self, item: &Item, out: &mut Vec<u8>) {
        let members = [
            ("ddsource", &self.source, Says::SOURCE),
            ("service", &self.service, Says::SERVICE),
            ("hostname", &self.host, Says::HOST),
        ];
        for (name, value, says) in members {
            if !value.is_empty() && !item.says.has(says) {
                begin_member(name, out);
                out.push(b'"');
                out.extend_from_slice(value);
                out.push(b'"');
            }
        }
        if !self.tags.is_empty() {
            self.write_tags(item, out);
        }
        if !out.is_empty() {
            out.push(b'}');
        }
    }

    /// Tags add up. Beside those of the item they are a list under another name, so that neither
    /// hides the other.
    fn write_tags(&self, item: &Item, out: &mut Vec<u8>) {
        if !item.says.has(Says::TAGS) {
            begin_member("ddtags", out);
            out.push(b'"');
            out.extend_from_slice(&self.tags);
            out.push(b'"');
            return;
        }
        begin_member("tags", out);
        for (index, tag) in self.tags.split(|b| *b == b',').enumerate() {
            out.extend_from_slice(if index == 0 { b"[\"" } else { b"\",\"" });
            out.extend_from_slice(tag);
        }
        out.extend_from_slice(b"\"]");
    }
}

fn begin_member(name: &str, out: &mut Vec<u8>) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Which of the things that a request may say of all its items an item says itself, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Says(u8);

impl Says {
    const SOURCE: Self = Self(1);
    const SERVICE: Self = Self(1 << 1);
    const HOST: Self = Self(1 << 2);
    const TAGS: Self = Self(1 << 3);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// One item, as spans of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    span: Range<usize>,
    /// The inside of the string under `message`; empty when there is none.
    message: Range<usize>,
    time_ns: Option<i64>,
    severity: Severity,
    flags: RecordFlags,
    says: Says,
}

impl Item {
    fn text(span: Range<usize>) -> Self {
        Self {
            span,
            message: 0..0,
            time_ns: None,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
            says: Says::default(),
        }
    }

    /// Takes what a member of the object says. `text` is its span without quotes when it is text.
    fn member(&mut self, key: &[u8], value: &[u8], text: Option<&Range<usize>>, seen: &mut Seen) {
        let is_something = !matches!(value, b"null" | b"\"\"");
        match key {
            b"message" => self.message = text.cloned().unwrap_or(0..0),
            b"ddsource" if is_something => self.says.add(Says::SOURCE),
            b"service" if is_something => self.says.add(Says::SERVICE),
            b"hostname" | b"host" if is_something => self.says.add(Says::HOST),
            b"ddtags" if is_something => self.says.add(Says::TAGS),
            _ => {}
        }
        let inside = match (text, value) {
            (Some(_), [b'"', inside @ .., b'"']) => inside,
            _ => value,
        };
        if key == b"status" && text.is_some() {
            // What is reserved for it counts before what loggers call by other names.
            let mut stated = Seen::default();
            stated.field(key, inside, true);
            if stated.severity != Severity::UNSPECIFIED {
                seen.severity = stated.severity;
            }
            return;
        }
        seen.field(key, inside, text.is_some());
    }
}

/// What all records of a request have in common.
#[derive(Debug, Clone, Copy)]
pub struct DatadogRequest<'a> {
    /// The body that the items were read from.
    pub body: &'a [u8],
    /// What it says of all its items.
    pub defaults: &'a DatadogDefaults,
    /// When it came, nanoseconds since 1970: the time of items that state none.
    pub observed_ns: i64,
    /// Length at which an item is cut, bytes.
    pub item_bytes_max: usize,
}

/// The items of a body; used for one request after the other.
#[derive(Debug, Default)]
pub struct DatadogItems {
    items: Vec<Item>,
    is_utf8: bool,
    attributes: Vec<u8>,
}

impl DatadogItems {
    /// How many records the body gives.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// A probe: nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Reads a whole body in place of the one before. After an error there are no items. Lone
    /// surrogates in JSON, which clients that cut texts send, become U+FFFD in `body`.
    pub fn read(&mut self, body: &mut [u8], format: DatadogFormat) -> Result<(), DatadogError> {
        self.items.clear();
        self.is_utf8 = simdutf8::basic::from_utf8(body).is_ok();
        let read = match format {
            DatadogFormat::Json if !self.is_utf8 => Err(DatadogError::Utf8),
            DatadogFormat::Json => self.read_json(body).or_else(|error| {
                self.items.clear();
                if mend_surrogates(body) { self.read_json(body) } else { Err(error) }
            }),
            DatadogFormat::Lines => self.read_lines(body),
            DatadogFormat::Logplex => self.read_frames(body),
        };
        if read.is_err() {
            self.items.clear();
        }
        read
    }

    fn read_json(&mut self, body: &[u8]) -> Result<(), DatadogError> {
        let mut scanner = Scanner::new(body);
        scanner.white_space();
        match scanner.peek() {
            Some(b'{') => {
                let item = object(body, &mut scanner).ok_or(DatadogError::Item { index: 0 })?;
                // Agents send an empty object to see whether somebody listens.
                if body.get(item.span.clone()).is_some_and(|text| !is_empty_object(text)) {
                    self.items.push(item);
                }
            }
            Some(b'[') => self.read_array(body, &mut scanner)?,
            _ => return Err(DatadogError::Shape { at: scanner.offset() }),
        }
        scanner.white_space();
        if scanner.is_at_end() { Ok(()) } else { Err(DatadogError::Shape { at: scanner.offset() }) }
    }

    fn read_array(&mut self, body: &[u8], scanner: &mut Scanner<'_>) -> Result<(), DatadogError> {
        let _ = scanner.take(b'[');
        if scanner.take(b']').is_some() {
            return Ok(());
        }
        loop {
            let index = self.items.len();
            if index == DATADOG_ITEMS_MAX {
                return Err(DatadogError::TooMany { max: DATADOG_ITEMS_MAX });
            }
            scanner.white_space();
            self.items.push(object(body, scanner).ok_or(DatadogError::Item { index })?);
            if scanner.take(b']').is_some() {
                return Ok(());
            }
            if scanner.take(b',').is_none() {
                return Err(DatadogError::Shape { at: scanner.offset() });
            }
        }
    }

    fn read_lines(&mut self, body: &[u8]) -> Result<(), DatadogError> {
        let mut at = 0;
        while at < body.len() {
            let rest = body.get(at..).unwrap_or_default();
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.line(body, at..at + len)?;
            at += len + 1;
        }
        Ok(())
    }

    fn read_frames(&mut self, body: &[u8]) -> Result<(), DatadogError> {
        let mut at = 0;
        while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
            let index = self.items.len();
            let wrong = DatadogError::Frame { index };
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            // More digits than a body can have bytes.
            if digits == 0 || digits > 9 || rest.get(digits) != Some(&b' ') {
                return Err(wrong);
            }
            let number = rest.iter().take(digits).fold(0, |n, b| n * 10 + usize::from(b - b'0'));
            let start = at + digits + 1;
            let end = start + number;
            if end > body.len() {
                return Err(wrong);
            }
            self.line(body, start..end)?;
            at = end;
        }
        Ok(())
    }

    /// Takes a line without the white space at its end; an empty one is none.
    fn line(&mut self, body: &[u8], span: Range<usize>) -> Result<(), DatadogError> {
        let text = body.get(span.clone()).unwrap_or_default();
        let text = text.trim_ascii_end();
        if text.is_empty() {
            return Ok(());
        }
        if self.items.len() == DATADOG_LINES_MAX {
            return Err(DatadogError::TooMany { max: DATADOG_LINES_MAX });
        }
        let span = span.start..span.start + text.len();
        self.items.push(line(body, &span).unwrap_or(Item::text(span)));
        Ok(())
    }

    /// Adds item `index` to a batch as the record that ends at `end_offset`, and counts it.
    pub fn push(
        &mut self,
        index: usize,
        request: &DatadogRequest<'_>,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let Some(item) = self.items.get(index) else { return Ok(()) };
        let body = request.body.get(item.span.clone()).unwrap_or_default();
        let whole = Pieces { flags: item.flags, pieces: [body, &[], &[]] };
        let pieces = if body.len() > request.item_bytes_max {
            cut(request, item).unwrap_or_else(|| beginning(body, request.item_bytes_max))
        } else {
            whole
        };
        self.attributes.clear();
        request.defaults.write(item, &mut self.attributes);
        let kept = pieces.len();
        if batch.room() < kept + self.attributes.len() {
            return Err(Full);
        }
        let span = pieces.append(batch)?;
        let attributes = batch.append(&self.attributes)?;
        if self.is_utf8 {
            batch.vouch_utf8(span.start..attributes.end);
        }
        batch.push(&NewRecord {
            timestamp_ns: item.time_ns.unwrap_or(request.observed_ns),
            end_offset,
            body: span,
            attributes,
            severity: item.severity,
            flags: pieces.flags,
            ..NewRecord::default()
        })?;
        book.lines += 1;
        book.records += 1;
        book.bytes_read += kept as u64;
        if kept < body.len() {
            book.truncated += 1;
            book.abandon(AbandonReason::LineTooLong, (body.len() - kept) as u64);
        }
        Ok(())
    }
}

/// A body in up to three pieces.
struct Pieces<'a> {
    flags: RecordFlags,
    pieces: [&'a [u8]; 3],
}

impl Pieces<'_> {
    fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    fn append(&self, batch: &mut BatchBuilder) -> Result<Range<usize>, Full> {
        let [first, rest @ ..] = self.pieces;
        let mut span = batch.append(first)?;
        for piece in rest {
            span.end = batch.append(piece)?.end;
        }
        Ok(span)
    }
}

/// The object with as much of its message as fits, or, when the rest alone does not, of its longest
/// text; none when that is not enough.
fn cut<'a>(request: &DatadogRequest<'a>, item: &Item) -> Option<Pieces<'a>> {
    cut_text(request, item, item.message.clone())
        .or_else(|| cut_text(request, item, longest_text(request.body, item)?))
}

fn cut_text<'a>(
    request: &DatadogRequest<'a>,
    item: &Item,
    span: Range<usize>,
) -> Option<Pieces<'a>> {
    let body = request.body;
    let text = body.get(span.clone())?;
    let excess = item.span.len().checked_sub(request.item_bytes_max)?;
    let keep = text.len().checked_sub(excess)?;
    let before = body.get(item.span.start..span.start)?;
    let after = body.get(span.end..item.span.end)?;
    let kept = text.get(..cut_content(text, keep))?;
    let flags = item.flags.with(RecordFlags::TRUNCATED);
    Some(Pieces { flags, pieces: [before, kept, after] })
}

/// The inside of the longest string of an object, however deep it stands, that is no key.
fn longest_text(body: &[u8], item: &Item) -> Option<Range<usize>> {
    if !item.flags.contains(RecordFlags::JSON_OBJECT) {
        return None;
    }
    let object = body.get(..item.span.end)?;
    let (mut longest, mut at) = (0..0, item.span.start);
    while let Some(quote) = memchr::memchr(b'"', object.get(at..)?) {
        let start = at + quote + 1;
        let end = start + quoted_len(object.get(start..)?)?;
        at = end + 1;
        let next = object.get(at..)?.iter().find(|byte| !byte.is_ascii_whitespace());
        if next != Some(&b':') && end - start > longest.len() {
            longest = start..end;
        }
    }
    Some(longest)
}

/// The beginning of an item that cannot be cut as an object: it is one no more.
fn beginning(body: &[u8], max: usize) -> Pieces<'_> {
    let kept = body.get(..cut_utf8(body, max)).unwrap_or_default();
    Pieces { flags: RecordFlags::TRUNCATED, pieces: [kept, &[], &[]] }
}

/// A line that is a JSON object and nothing else.
fn line(body: &[u8], span: &Range<usize>) -> Option<Item> {
    let text = body.get(span.clone())?;
    let lead = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
    if text.get(lead) != Some(&b'{') || std::str::from_utf8(text).is_err() {
        return None;
    }
    let mut scanner = Scanner::new(body.get(..span.end)?);
    scanner.skip(span.start + lead);
    let item = object(body, &mut scanner)?;
    scanner.is_at_end().then_some(item)
}

fn is_empty_object(text: &[u8]) -> bool {
    text.iter().all(|b| matches!(b, b'{' | b'}') || b.is_ascii_whitespace())
}

/// Reads the object at the scanner, and what its members say.
fn object(body: &[u8], scanner: &mut Scanner<'_>) -> Option<Item> {
    let start = scanner.offset();
    let mut item = Item::text(start..start);
    let mut seen = Seen::default();
    scanner.take(b'{')?;
    if scanner.take(b'}').is_none() {
        loop {
            let key = body.get(scanner.string()?)?;
            scanner.take(b':')?;
            let span = scanner.member_value()?;
            let value = body.get(span.clone())?;
            let text = (value.first() == Some(&b'"')).then_some(span.start + 1..span.end - 1);
            item.member(key, value, text.as_ref(), &mut seen);
            if scanner.take(b'}').is_some() {
                break;
            }
            scanner.take(b',')?;
        }
    }
    item.span.end = scanner.offset();
    item.time_ns = seen.time_ns();
    item.severity = seen.severity;
    item.flags = RecordFlags::JSON_OBJECT;
    Some(item)
}
