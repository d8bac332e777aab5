//! Datadog's logs intake v2: the body of a request to records.
//! (<https://docs.datadoghq.com/api/latest/logs/#send-logs>)
//!
//! A body is parsed completely before records are created from it ([`DatadogItems::read`]), so a
//! request is accepted or rejected as a whole. Then each item becomes a record
//! ([`DatadogItems::push`]): the body is the item's own JSON object as it is, so its attributes
//! keep their types and nothing of it is lost; what the request states for all its items
//! ([`DatadogDefaults`]) is stored in the attributes outside the body, for the items that do not
//! state it themselves. A line that is not a JSON object is a body as it is.
//!
//! Invariants: every item that was read becomes one record and counts as one line; an item that is
//! too long is truncated in its `message`, or else in its longest text, so that it stays an object,
//! and is counted; nothing panics, and memory is bounded by the number of items.

use std::ops::Range;

use weir_model::{
    AbandonReason, BatchBuilder, DiscardReason, Full, NewRecord, RecordFlags, Severity, SourceBook,
};

use crate::escape::escape_json_into;
use crate::json::{Scanner, cut_content, cut_utf8, replace_lone_surrogates};
use crate::structured::{ScannedFields, quoted_len};

/// Maximum number of items of a JSON array: that of the real intake.
pub const DATADOG_ITEMS_MAX: usize = 1000;

/// Maximum number of lines of a text, for which the real intake documents no limit: enough for its
/// 5 MB in lines of 250 bytes, and 2 MiB of memory.
pub const DATADOG_LINES_MAX: usize = 20_000;

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatadogFormat {
    /// A JSON array of objects, or one object.
    Json,
    /// One record per line, each a JSON object or any text.
    Lines,
    /// Heroku's frames: a length, a space, and that many bytes of a syslog message.
    Logplex,
}

impl DatadogFormat {
    /// Returns the format for a `Content-Type`; anything that is not known to be text is JSON.
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

/// Why a whole body is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatadogError {
    /// More items than allowed in one request.
    #[error("more than {max} logs in one request")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The JSON is not UTF-8.
    #[error("the body is not UTF-8")]
    Utf8,
    /// Neither an array nor an object, or trailing data.
    #[error("the body must be a JSON array of objects, or one object; error at byte {at}")]
    Shape {
        /// Offset of the error.
        at: usize,
    },
    /// An item that is not an object, not valid JSON, or nested too deeply.
    #[error("log {index} (from 0) is not a valid JSON object of at most 64 levels")]
    Item {
        /// Its index in the array.
        index: usize,
    },
    /// A frame of `application/logplex-1` without a length, or with a wrong one.
    #[error("the length of frame {index} (from 0) is missing or wrong")]
    Frame {
        /// Its index in the body.
        index: usize,
    },
}

/// The values that a request sets for all its items: each as the content of a JSON string, empty =
/// not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatadogDefaults {
    source: Vec<u8>,
    tags: Vec<u8>,
    service: Vec<u8>,
    host: Vec<u8>,
}

impl DatadogDefaults {
    /// Sets a decoded parameter of the query. Parameters other than `ddsource`, `ddtags`, `service`
    /// and `hostname` are ignored.
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

    /// Writes an object of what the item does not state itself; nothing if there is nothing to add.
    fn write(&self, item: &Item, out: &mut Vec<u8>) {
        let members = [
            ("ddsource", &self.source, StatedFields::SOURCE),
            ("service", &self.service, StatedFields::SERVICE),
            ("hostname", &self.host, StatedFields::HOST),
        ];
        for (name, value, stated) in members {
            if !value.is_empty() && !item.stated.has(stated) {
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

    /// Tags are combined: if the item has its own, the others are a list under another name, so
    /// that neither hides the other.
    fn write_tags(&self, item: &Item, out: &mut Vec<u8>) {
        if !item.stated.has(StatedFields::TAGS) {
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

/// Which of the values that a request may set for all its items an item states itself, one bit
/// each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StatedFields(u8);

impl StatedFields {
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
    /// The content of the string under `message`; empty if there is none.
    message: Range<usize>,
    time_ns: Option<i64>,
    severity: Severity,
    flags: RecordFlags,
    stated: StatedFields,
    /// The content of the strings that name host and service; empty if there are none. A body is
    /// far smaller than 4 GiB.
    host: Range<u32>,
    service: Range<u32>,
}

impl Item {
    fn text(span: Range<usize>) -> Self {
        Self {
            span,
            message: 0..0,
            time_ns: None,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::default(),
            stated: StatedFields::default(),
            host: 0..0,
            service: 0..0,
        }
    }

    /// Processes a member of the object. `text` is its span without quotes if it is text.
    fn member(
        &mut self,
        key: &[u8],
        value: &[u8],
        text: Option<&Range<usize>>,
        seen: &mut ScannedFields,
    ) {
        let is_something = !matches!(value, b"null" | b"\"\"");
        match key {
            b"message" => self.message = text.cloned().unwrap_or(0..0),
            b"ddsource" if is_something => self.stated.add(StatedFields::SOURCE),
            b"service" if is_something => {
                self.stated.add(StatedFields::SERVICE);
                self.service = short_span(text);
            }
            b"hostname" | b"host" if is_something => {
                self.stated.add(StatedFields::HOST);
                self.host = short_span(text);
            }
            b"ddtags" if is_something => self.stated.add(StatedFields::TAGS),
            _ => {}
        }
        let inside = match (text, value) {
            (Some(_), [b'"', inside @ .., b'"']) => inside,
            _ => value,
        };
        if key == b"status" && text.is_some() {
            // The reserved name takes precedence over names that loggers use.
            let mut stated = ScannedFields::default();
            stated.field(key, inside, true);
            if stated.severity != Severity::UNSPECIFIED {
                seen.severity = stated.severity;
            }
            return;
        }
        seen.field(key, inside, text.is_some());
    }
}

fn short_span(span: Option<&Range<usize>>) -> Range<u32> {
    let short = |at: usize| u32::try_from(at).unwrap_or(0);
    span.map_or(0..0, |span| short(span.start)..short(span.end))
}

/// What all records of a request have in common.
#[derive(Debug, Clone, Copy)]
pub struct DatadogRequest<'a> {
    /// The body that the items were read from.
    pub body: &'a [u8],
    /// The values that it sets for all its items.
    pub defaults: &'a DatadogDefaults,
    /// Time of receipt, nanoseconds since 1970: the time of items that state none.
    pub observed_ns: i64,
    /// Length at which an item is truncated, in bytes.
    pub item_bytes_max: usize,
}

/// The items of a body; reused for one request after another.
#[derive(Debug, Default)]
pub struct DatadogItems {
    items: Vec<Item>,
    is_utf8: bool,
    attributes: Vec<u8>,
}

impl DatadogItems {
    /// Returns the number of records in the body.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true for a probe, which contains nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Reads a whole body, replacing the previous one. After an error there are no items. Lone
    /// surrogates in JSON, sent by clients that truncate texts, become U+FFFD in `body`.
    pub fn read(&mut self, body: &mut [u8], format: DatadogFormat) -> Result<(), DatadogError> {
        self.items.clear();
        self.is_utf8 = simdutf8::basic::from_utf8(body).is_ok();
        let read = match format {
            DatadogFormat::Json if !self.is_utf8 => Err(DatadogError::Utf8),
            DatadogFormat::Json => self.read_json(body).or_else(|error| {
                self.items.clear();
                if replace_lone_surrogates(body) { self.read_json(body) } else { Err(error) }
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
                // Agents send an empty object to check whether the intake is reachable.
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
            // More digits than the length of any body.
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

    /// Reads a line without trailing white space; an empty one is skipped.
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

    /// Returns the host and the service of item `index` of `body`, as they are in JSON: what it
    /// states itself, or else what the request states for all items. Empty if neither does.
    pub fn origin<'a>(
        &self,
        index: usize,
        body: &'a [u8],
        defaults: &'a DatadogDefaults,
    ) -> (&'a [u8], &'a [u8]) {
        let Some(item) = self.items.get(index) else { return (&[], &[]) };
        let own = |span: &Range<u32>| body.get(span.start as usize..span.end as usize);
        let of = |stated: StatedFields, span: &Range<u32>, default: &'a [u8]| {
            if item.stated.has(stated) { own(span).unwrap_or_default() } else { default }
        };
        (
            of(StatedFields::HOST, &item.host, &defaults.host),
            of(StatedFields::SERVICE, &item.service, &defaults.service),
        )
    }

    /// Returns the length of item `index`, in bytes.
    pub fn item_len(&self, index: usize) -> usize {
        self.items.get(index).map_or(0, |item| item.span.len())
    }

    /// Counts item `index` as discarded, in place of [`Self::push`].
    pub fn discard(&self, index: usize, reason: DiscardReason, book: &mut SourceBook) {
        book.lines += 1;
        book.discard(reason, 1);
        book.bytes_read += self.item_len(index) as u64;
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
            batch.mark_utf8(span.start..attributes.end);
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

/// Returns the object with as much of its message as fits or, if the rest alone is too long, of its
/// longest text; none if that is not enough.
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

/// Returns the content of the longest string of an object, at any depth, except keys.
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

/// Returns the start of an item that cannot be truncated as an object: it is no longer one.
fn beginning(body: &[u8], max: usize) -> Pieces<'_> {
    let kept = body.get(..cut_utf8(body, max)).unwrap_or_default();
    Pieces { flags: RecordFlags::TRUNCATED, pieces: [kept, &[], &[]] }
}

/// Parses a line that is a JSON object and nothing else.
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

/// Parses the object at the scanner, and what its members state.
fn object(body: &[u8], scanner: &mut Scanner<'_>) -> Option<Item> {
    let start = scanner.offset();
    let mut item = Item::text(start..start);
    let mut seen = ScannedFields::default();
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
