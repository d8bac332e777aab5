//! Reads records out of batches and adds them to [`Rows`].
//!
//! Rules and the store must agree on the content of a record, so this uses the same order: the
//! resource before the record, attributes besides the body before those inside it, and of the names
//! of a reserved key the first that exists ([`weir_expr::Reserved::record_paths`]).
//!
//! The header of a syslog message, which a record has in columns and in its resource, becomes
//! attributes: those that the same line has if a rule parses it.
//!
//! A body that is a JSON object is stored as its attributes, one of which is the message. Any other
//! body is stored unchanged, whatever was parsed from it.

use std::collections::BTreeSet;

use weir_codec::{
    ATTRIBUTES_MAX, Attributes, LoggregatorPacker, Renames, Scalar, Stated, TimeParser,
    escape_json_into, severity_of_text,
};
use weir_expr::{Reserved, Status};
use weir_model::{Batch, HeaderField, RecordFlags, RecordView, unescape_json_into};

use super::form::{Form, MESSAGE_PATHS, TIME_PATHS, TimeStyle};
use super::record::value_of;
use super::resources::{FirstText, ParsedResource, Resources};
use super::rows::{Full, NewRow, Rows, is_utf8};
use crate::query::UnparsedRows;

/// Reads records one after the other, reusing its buffers.
#[derive(Debug, Default)]
pub struct Intake {
    renames: Renames,
    unparsed: UnparsedRows,
    /// Names of the sources whose records are stored with the bytes in which they were received.
    received_of: BTreeSet<String>,
    /// The current source is one of them.
    keeps_received: bool,
    packer: LoggregatorPacker,
    source: Vec<u8>,
    stream: u64,
    arrival_ns: i64,
    /// Resources of the current batch, as needed, and of previous batches.
    resources: Resources,
    /// Attributes besides the body.
    own: Attributes,
    /// Attributes inside the body.
    inside: Attributes,
    message: Vec<u8>,
    service: Vec<u8>,
    host: Vec<u8>,
    status: Vec<u8>,
    tags: Vec<u8>,
    times: TimeParser,
    /// Path and hints of each attribute of the last record, because the next one is often like it.
    shape: Vec<(Vec<u8>, Hints)>,
    /// Those of the current record.
    indexes: AttributeIndexes,
    /// Those of earlier records, by shape.
    known: AttributeIndexCache,
}

/// The fields of a record that its attributes may affect, one bit each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Hints(u8);

impl Hints {
    const SERVICE: Self = Self(1);
    const HOST: Self = Self(1 << 1);
    const STATUS: Self = Self(1 << 2);
    const TRACE: Self = Self(1 << 3);
    const SPAN: Self = Self(1 << 4);
    const TAGS: Self = Self(1 << 5);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the hints for one path.
    fn of_path(path: &[u8]) -> Self {
        let is_one_of = |names: &[&str]| names.iter().any(|name| name.as_bytes() == path);
        let hints = [
            (Self::SERVICE, is_one_of(Reserved::Service.record_paths())),
            (Self::HOST, is_one_of(Reserved::Host.record_paths())),
            (Self::STATUS, is_one_of(Reserved::Status.record_paths())),
            (Self::TRACE, is_one_of(Reserved::TraceId.record_paths())),
            (Self::SPAN, is_one_of(Reserved::SpanId.record_paths())),
            (Self::TAGS, is_one_of(&["tags", "ddtags"])),
        ];
        let found = hints.into_iter().filter(|(_, is_one)| *is_one);
        Self(found.fold(0, |bits, (hint, _)| bits | hint.0))
    }
}

/// The indexes of the attributes of a record that may become columns of its own.
#[derive(Debug, Default, Clone, Copy)]
struct AttributeIndexes {
    hints: Hints,
    /// By index in [`MESSAGE_PATHS`]: the index of the path's first value inside the body.
    message: [Option<u16>; MESSAGE_PATHS.len()],
    /// By index in [`TIME_PATHS`]: the index of the path's only value, if it is inside the body.
    time: [Option<u16>; TIME_PATHS.len()],
    /// Whether that value of the message's path is its only one.
    is_only_message: [bool; MESSAGE_PATHS.len()],
}

/// Shapes of the attributes besides the body and inside it.
type ShapePair = [Option<u64>; 2];

/// Number of remembered shapes, indexed by their lowest bits.
const SHAPES_CACHED_MAX: usize = 64;

/// The places in records of known shapes.
#[derive(Debug)]
struct AttributeIndexCache(Vec<(ShapePair, AttributeIndexes)>);

impl Default for AttributeIndexCache {
    fn default() -> Self {
        Self(vec![Default::default(); SHAPES_CACHED_MAX])
    }
}

impl AttributeIndexCache {
    /// Returns the slot for a pair of shapes, with the pair that it is currently used for.
    fn slot(&mut self, [own, inside]: ShapePair) -> &mut (ShapePair, AttributeIndexes) {
        let mixed = own.unwrap_or(0).wrapping_mul(31).wrapping_add(inside.unwrap_or(0));
        &mut self.0[mixed as usize % SHAPES_CACHED_MAX]
    }
}

/// The indexes of the attributes that are kept in columns of the record's own.
#[derive(Debug, Clone, Copy)]
struct Promoted([usize; 4]);

impl Promoted {
    const NONE: Self = Self([usize::MAX; 4]);
    const MESSAGE: usize = 0;
    const TRACE: usize = 1;
    const SPAN: usize = 2;
    const TIME: usize = 3;

    #[inline]
    fn has(self, number: usize) -> bool {
        self.0.contains(&number)
    }
}

impl Intake {
    /// Creates an intake that parses JSON objects, and logfmt where a batch is marked as such.
    /// Other formats are parsed by rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores attributes under other names than those that they come with.
    #[must_use]
    pub fn with_renames(mut self, renames: Renames) -> Self {
        self.renames = renames;
        self
    }

    /// Stores records of sources with these names together with the bytes in which they were
    /// received, if they have some.
    #[must_use]
    pub fn with_received_of(mut self, names: BTreeSet<String>) -> Self {
        self.received_of = names;
        self
    }

    /// Returns how many of the added records could not be parsed as what they look like.
    pub fn unparsed(&self) -> UnparsedRows {
        self.unparsed
    }

    /// Starts a batch of a source.
    pub fn begin_batch(&mut self, source: &str, batch: &Batch) {
        self.source.clear();
        self.source.extend_from_slice(source.as_bytes());
        self.stream = batch.header().stream.0;
        self.arrival_ns = batch.header().observed_ns;
        self.keeps_received = self.received_of.contains(source);
        self.resources.begin();
    }

    /// Adds a record of the batch. If the rows are full, nothing is added.
    pub fn push(
        &mut self,
        rows: &mut Rows,
        sequence: u64,
        batch: &Batch,
        view: &RecordView<'_>,
    ) -> Result<(), Full> {
        let resource = self.resources.of(batch, view);
        self.own.clear();
        self.inside.clear();
        if !view.attributes.is_empty() {
            let _ = self.own.read_json(view.attributes);
        }
        self.add_header(view, &resource);
        let mut message = std::mem::take(&mut self.message);
        let body = plain_body(view, &mut message);
        let (is_object, stated) = self.read_body(view, body);
        let is_parsed = stated.is_some();
        let stated = stated.and_then(|stated| Status::from_severity(stated.severity));
        self.renames.apply(&mut self.own, &mut self.inside);
        self.find_indexes();
        let status = self.find_status(view, stated) || self.find_status_in_text(body);
        let service = self.find_text(Reserved::Service, &resource);
        let host = self.find_text(Reserved::Host, &resource);
        let has_tags = self.find_tags();
        let mut packer = std::mem::take(&mut self.packer);
        let received = (self.keeps_received && !view.original().is_empty()).then(|| {
            let text = if is_object || !is_utf8(body) { b"" } else { body };
            packer.pack(view.original(), text, view.timestamp_ns)
        });
        let mut times = std::mem::take(&mut self.times);
        let result = self.add(
            rows,
            &mut times,
            &NewRow {
                time_ns: view.timestamp_ns,
                sequence,
                stream: self.stream,
                position: view.position,
                form: Form::new(view.flags, view.severity).with_kind(view.kind()),
                service: service.text(&self.service, resource.service.as_deref()),
                host: host.text(&self.host, resource.host.as_deref()),
                source: Some(&self.source),
                status: status.then_some(&self.status),
                tags: has_tags.then_some(&self.tags),
                resource: resource.json.as_deref(),
                message: Some(body),
                received,
                arrival_ns: Some(self.arrival_ns),
                ..NewRow::default()
            },
            is_object,
        );
        self.times = times;
        self.packer = packer;
        if !is_parsed && result.is_ok() {
            self.unparsed.count(view.flags, body);
        }
        self.message = message;
        result
    }

    /// Adds the header of a syslog message as attributes, as a rule would add that of a parsed
    /// line, which takes precedence.
    fn add_header(&mut self, view: &RecordView<'_>, resource: &ParsedResource) {
        if !view.has_header() {
            return;
        }
        for field in HeaderField::ALL {
            let text = match field {
                HeaderField::HostName => resource.host.as_deref().unwrap_or_default(),
                HeaderField::AppName => resource.service.as_deref().unwrap_or_default(),
                field => view.header_field(field),
            };
            let path = field.attribute().as_bytes();
            if !text.is_empty() && self.own.values(path).next().is_none() {
                self.own.add(path, Scalar::Text(text));
            }
        }
    }

    /// Parses the body. Returns whether it is a complete JSON object, and its status if it was
    /// parsed.
    fn read_body(&mut self, view: &RecordView<'_>, body: &[u8]) -> (bool, Option<Stated>) {
        let is_logfmt = view.flags.contains(RecordFlags::LOGFMT);
        let is_object = body.trim_ascii_start().first() == Some(&b'{');
        let stated = if is_logfmt {
            self.inside.read_logfmt(body)
        } else if is_object && Status::from_severity(view.severity).is_some() {
            self.inside.read_members(body.trim_ascii()).map(|()| Stated::default())
        } else if is_object {
            self.inside.read_json(body.trim_ascii())
        } else {
            None
        };
        let count = self.own.len() + self.inside.len();
        let is_whole = is_object
            && !is_logfmt
            && stated.is_some()
            && !self.inside.is_cut()
            && count <= ATTRIBUTES_MAX;
        (is_whole, stated)
    }

    /// Finds the places of attributes once, so that absent attributes are not searched for; for a
    /// record of a known shape even that is skipped.
    fn find_indexes(&mut self) {
        let shapes = [&self.own, &self.inside].map(Attributes::shape);
        let is_known = |index: usize, all: &Attributes| all.is_empty() || shapes[index].is_some();
        let has_shape = is_known(0, &self.own) && is_known(1, &self.inside);
        if has_shape
            && let (known, indexes) = self.known.slot(shapes)
            && *known == shapes
        {
            self.indexes = *indexes;
            return;
        }
        self.indexes = AttributeIndexes {
            hints: self.find_hints(),
            message: MESSAGE_PATHS.map(|path| self.first_inside(path)),
            is_only_message: MESSAGE_PATHS.map(|path| self.only_inside(path).is_some()),
            time: TIME_PATHS.map(|path| self.only_inside(path)),
        };
        if has_shape {
            *self.known.slot(shapes) = (shapes, self.indexes);
        }
    }

    fn find_hints(&mut self) -> Hints {
        let mut hints = Hints::default();
        for (place, (path, _)) in self.own.iter().chain(self.inside.iter()).enumerate() {
            match self.shape.get_mut(place) {
                Some((known, found)) if known == path => hints.0 |= found.0,
                Some((known, found)) => {
                    known.clear();
                    known.extend_from_slice(path);
                    *found = Hints::of_path(path);
                    hints.0 |= found.0;
                }
                None => {
                    self.shape.push((path.to_vec(), Hints::of_path(path)));
                    hints.0 |= Hints::of_path(path).0;
                }
            }
        }
        hints
    }

    /// Adds the row of a record, whose message is the body unless the body is an object.
    fn add(
        &self,
        rows: &mut Rows,
        times: &mut TimeParser,
        row: &NewRow<'_>,
        is_object: bool,
    ) -> Result<(), Full> {
        let mut row = *row;
        let body = row.message.unwrap_or_default();
        let mut promoted = Promoted::NONE;
        let value = |place: Option<u16>| {
            let number = usize::from(place?);
            Some((self.own.len() + number, self.inside.get(number)?))
        };
        if is_object {
            row.message = None;
            if let Some((index, number, text)) = self.find_message() {
                row.message = Some(text);
                // Of several values the first text is the message, and all of them are attributes.
                if self.indexes.is_only_message[index] {
                    row.form = row.form.with_message(index);
                    promoted.0[Promoted::MESSAGE] = number;
                }
            }
            for (index, place) in self.indexes.time.into_iter().enumerate() {
                if let Some((number, value)) = value(place)
                    && let Some(style) = TimeStyle::of_next(value, row.time_ns, times)
                {
                    row.form = row.form.with_time(index, style);
                    promoted.0[Promoted::TIME] = number;
                    break;
                }
            }
        }
        if let Some((index, path, text)) = self.find_id(Reserved::TraceId) {
            row.trace_id = Some(text);
            row.form = row.form.with_trace(index);
            promoted.0[Promoted::TRACE] = self.number_of(path);
        }
        if let Some((index, path, text)) = self.find_id(Reserved::SpanId) {
            row.span_id = Some(text);
            row.form = row.form.with_span(index);
            promoted.0[Promoted::SPAN] = self.number_of(path);
        }
        // The content of an object is UTF-8 if the whole object is.
        if is_object && self.own.is_empty() && is_utf8(body) {
            return rows.push_utf8(&row, &self.inside, |number| promoted.has(number));
        }
        let own = self.own.iter();
        let inside = self.inside.iter();
        let all = own.chain(inside).enumerate().filter(|(number, (path, _))| {
            !promoted.has(*number) && (*number < self.own.len() || !self.is_shadowed(path))
        });
        rows.push(&row, all.map(|(_, attribute)| attribute).take(ATTRIBUTES_MAX))
    }

    /// Returns the index of the first path with a text inside the body, with the index of that
    /// attribute and the text.
    fn find_message(&self) -> Option<(usize, usize, &[u8])> {
        self.indexes.message.iter().enumerate().find_map(|(index, place)| {
            let first = usize::from((*place)?);
            let (number, text) = match self.inside.get(first)? {
                Scalar::Text(text) => (first, text),
                _ if self.indexes.is_only_message[index] => return None,
                _ => self.first_text_inside(MESSAGE_PATHS[index])?,
            };
            Some((index, self.own.len() + number, text))
        })
    }

    /// Returns the index of the first attribute with a path.
    fn number_of(&self, path: &str) -> usize {
        let mut all = self.own.iter().chain(self.inside.iter());
        all.position(|(found, _)| found == path.as_bytes()).unwrap_or(usize::MAX)
    }

    /// Returns whether the attributes besides the body have another value for the path.
    fn is_shadowed(&self, path: &[u8]) -> bool {
        !self.own.is_empty() && self.own.values(path).next().is_some()
    }

    /// Returns the index of the value of a path that has exactly one value, inside the body.
    fn only_inside(&self, path: &str) -> Option<u16> {
        let count = self.inside.values(path.as_bytes()).count();
        self.first_inside(path).filter(|_| count == 1)
    }

    /// Returns the index of the first value of a path inside the body, unless it is shadowed by an
    /// attribute next to the body.
    fn first_inside(&self, path: &str) -> Option<u16> {
        let path = path.as_bytes();
        let mut values = self.inside.iter().enumerate().filter(|(_, (found, _))| *found == path);
        let (number, _) = values.next()?;
        u16::try_from(number).ok().filter(|_| !self.is_shadowed(path))
    }

    /// Returns the first text of a path inside the body, with its index.
    fn first_text_inside(&self, path: &str) -> Option<(usize, &[u8])> {
        self.inside.iter().enumerate().find_map(|(number, (found, value))| match value {
            Scalar::Text(text) if found == path.as_bytes() => Some((number, text)),
            _ => None,
        })
    }

    /// Returns the text of a trace or span that is the only value of its path.
    fn find_id(&self, key: Reserved) -> Option<(usize, &'static str, &[u8])> {
        let hint = if key == Reserved::TraceId { Hints::TRACE } else { Hints::SPAN };
        if !self.indexes.hints.has(hint) {
            return None;
        }
        for (index, path) in key.record_paths().iter().enumerate() {
            let mut values =
                self.own.values(path.as_bytes()).chain(self.inside.values(path.as_bytes()));
            match (values.next(), values.next()) {
                (Some(Scalar::Text(text)), None) if std::str::from_utf8(text).is_ok() => {
                    return Some((index, path, text));
                }
                (None, _) => {}
                _ => return None,
            }
        }
        None
    }

    /// Finds the first value of a reserved key, as text. A value in the resource takes precedence
    /// over the record.
    fn find_text(&mut self, key: Reserved, resource: &ParsedResource) -> ReservedValue {
        let (buffer, hint, of_resource) = match key {
            Reserved::Service => (&mut self.service, Hints::SERVICE, &resource.service),
            _ => (&mut self.host, Hints::HOST, &resource.host),
        };
        if of_resource.is_some() {
            return ReservedValue::InResource;
        }
        if !self.indexes.hints.has(hint) {
            return ReservedValue::Nowhere;
        }
        buffer.clear();
        let mut found = FirstText::new(buffer);
        for path in key.record_paths() {
            let path = path.as_bytes();
            self.own.values(path).for_each(|value| found.take(value));
            self.inside.values(path).for_each(|value| found.take(value));
        }
        if found.is_found() { ReservedValue::InRecord } else { ReservedValue::Nowhere }
    }

    /// Finds the status: that of the source or the body, otherwise that of an attribute.
    fn find_status(&mut self, view: &RecordView<'_>, stated: Option<Status>) -> bool {
        self.status.clear();
        if let Some(status) = Status::from_severity(view.severity).or(stated) {
            self.status.extend_from_slice(status.name().as_bytes());
            return true;
        }
        if !self.indexes.hints.has(Hints::STATUS) {
            return false;
        }
        for path in Reserved::Status.record_paths() {
            let path = path.as_bytes();
            for value in self.own.values(path).chain(self.inside.values(path)) {
                let value = value_of(value);
                if let Some(status) = Status::of_value(value) {
                    self.status.extend_from_slice(status.name().as_bytes());
                    return true;
                }
                let mut buffer = Vec::new();
                if let Some(text) = value.text(&mut buffer) {
                    self.status.extend_from_slice(text);
                    return true;
                }
            }
        }
        false
    }

    /// Finds the status at the start of a text, if there is no other.
    fn find_status_in_text(&mut self, body: &[u8]) -> bool {
        let status = Status::from_severity(severity_of_text(body));
        self.status.extend_from_slice(status.map_or("", Status::name).as_bytes());
        status.is_some()
    }

    /// Collects the tags of the record: a list under `tags`, a text under `ddtags`.
    fn find_tags(&mut self) -> bool {
        self.tags.clear();
        if !self.indexes.hints.has(Hints::TAGS) {
            return false;
        }
        for attributes in [&self.own, &self.inside] {
            for (path, value) in attributes.iter() {
                let Scalar::Text(text) = value else { continue };
                match path {
                    b"tags" => add_tag(text, &mut self.tags),
                    b"ddtags" => text.split(|b| *b == b',').for_each(|tag| {
                        add_tag(tag, &mut self.tags);
                    }),
                    _ => {}
                }
            }
        }
        if !self.tags.is_empty() {
            self.tags.push(b']');
        }
        !self.tags.is_empty()
    }
}

/// Adds a tag to a list, unless it is there already: a rule may have parsed what is in the body
/// too.
fn add_tag(tag: &[u8], tags: &mut Vec<u8>) {
    let start = tags.len();
    tags.push(if start == 0 { b'[' } else { b',' });
    tags.push(b'"');
    escape_json_into(tag, tags);
    tags.push(b'"');
    let (list, added) = tags.split_at(start);
    // The start of the next tag, after the separator.
    let is_known = list
        .windows(added.len())
        .any(|known| known[1..] == added[1..] && matches!(known[0], b'[' | b','));
    if is_known {
        tags.truncate(start);
    }
}

/// Returns the body without escapes, in `buffer` if it had some.
fn plain_body<'a>(view: &RecordView<'a>, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if !view.flags.contains(RecordFlags::JSON_ESCAPED) || !view.body.contains(&b'\\') {
        return view.body;
    }
    buffer.clear();
    unescape_json_into(view.body, buffer);
    buffer
}

/// Where the value of a reserved key was found.
#[derive(Debug, Clone, Copy)]
enum ReservedValue {
    Nowhere,
    InResource,
    InRecord,
}

impl ReservedValue {
    fn text<'a>(self, record: &'a [u8], resource: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match self {
            Self::Nowhere => None,
            Self::InResource => resource,
            Self::InRecord => Some(record),
        }
    }
}
