//! A record as rules see it, and as they change it.
//!
//! Invariants: the body is parsed at most once per record, and only when needed; the same holds for
//! the level at the start of a text; buffers are reused for one record after another; what no rule
//! changed is written out byte for byte as it was read.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use weir_codec::{Attributes, Renames, Scalar, Stated, severity_of_escaped_text, severity_of_text};
use weir_expr::{
    Body, Constants, Field, Fields, LAG, Reserved, Status, Value, Visitor, lag_ns, tag_path,
    visit_lag,
};
use weir_model::{
    Facility, HeaderChange, HeaderField, RecordFlags, RecordView, Severity, unescape_json_into,
};

/// Maximum lengths of a process id and a message id in RFC 5424.
const PROCESS_ID_BYTES_MAX: usize = 128;
const MESSAGE_ID_BYTES_MAX: usize = 32;

/// What all records of a batch have in common.
#[derive(Debug, Default)]
pub struct Origin {
    source: String,
    resource: Attributes,
    encoded: Vec<u8>,
    /// When weir received the batch, nanoseconds since 1970; `None` if it is not known.
    arrival_ns: Option<i64>,
}

impl Origin {
    /// Creates the origin for records of a source.
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }

    /// Sets when weir received the next batch, in nanoseconds since 1970.
    pub fn set_arrival(&mut self, arrival_ns: i64) {
        self.arrival_ns = Some(arrival_ns);
    }

    /// Sets the resource of the next batch, as encoded in the frame.
    pub fn set_resource(&mut self, encoded: &[u8]) {
        if self.encoded == encoded {
            return;
        }
        self.encoded.clear();
        self.encoded.extend_from_slice(encoded);
        self.resource.clear();
        // Anything but an object is an empty resource, as everywhere.
        let _ = self.resource.read_json(encoded);
    }

    /// Returns the resource as encoded in the frame.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Calls `visit` for the values of a field that come from the resource; returns false if the
    /// resource does not have the field.
    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) -> bool {
        match field {
            Field::Reserved(Reserved::Source) => {
                visit(Value::Text(self.source.as_bytes()));
                true
            }
            Field::Reserved(key) => self.first(key.resource_paths(), visit),
            Field::Tag(key) => visit_path(&self.resource, tag_path(key), visit),
            _ => false,
        }
    }

    fn first(&self, paths: &[&str], visit: &mut Visitor<'_>) -> bool {
        paths.iter().any(|path| visit_path(&self.resource, path, visit))
    }
}

impl Constants for Origin {
    fn constant(&self, field: &Field, visit: &mut Visitor<'_>) -> bool {
        self.visit(field, visit)
    }
}

fn value(scalar: Scalar<'_>) -> Value<'_> {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(truth) => Value::Bool(truth),
        Scalar::Int(number) => Value::Int(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Text(text) => Value::Text(text),
    }
}

/// Visits the values of a path, or the object at it. Returns false if there is neither.
fn visit_path(attributes: &Attributes, path: &str, visit: &mut Visitor<'_>) -> bool {
    let (mut is_there, mut is_object) = (false, false);
    for (found, scalar) in attributes.iter() {
        match found.strip_prefix(path.as_bytes()) {
            Some([]) => {
                is_there = true;
                visit(value(scalar));
            }
            Some([b'.', ..]) => is_object = true,
            _ => {}
        }
    }
    if is_object {
        visit(Value::Object);
    }
    is_there || is_object
}

/// The unescaped message of a record, created when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Message {
    text: Vec<u8>,
    /// `text` is the message. Otherwise it is the body, plain or escaped.
    is_made: bool,
    is_changed: bool,
}

impl Message {
    pub(super) fn text<'a>(&'a mut self, view: &RecordView<'a>) -> &'a [u8] {
        if !self.is_made {
            let is_escaped = view.flags.contains(RecordFlags::JSON_ESCAPED);
            if !is_escaped || memchr::memchr(b'\\', view.body).is_none() {
                return view.body;
            }
            self.text.clear();
            unescape_json_into(view.body, &mut self.text);
            self.is_made = true;
        }
        &self.text
    }
}

/// An attribute that rules set in a resource: its path and its text.
pub(super) type ResourceChange = (&'static str, Vec<u8>);

/// The parsed fields of one record, and the changes of rules.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    is_own_read: bool,
    is_body_read: bool,
    /// Attributes outside the body: those from the source, and those set by rules.
    pub(super) own: Attributes,
    /// Attributes in the body.
    pub(super) inside: Attributes,
    /// Attributes in a line that is the message of the body; working memory.
    pub(super) wrapped: Attributes,
    pub(super) message: Message,
    pub(super) are_attributes_changed: bool,
    /// What rules set in the resource.
    resource: Vec<ResourceChange>,
    /// What rules set in the header: columns with their texts.
    header: Vec<(HeaderField, Vec<u8>)>,
    pub(super) severity: Severity,
    pub(super) timestamp_ns: i64,
    /// The severity that the body states.
    stated: Severity,
    /// The severity at the start of the text, once it was needed.
    of_text: Cell<Option<Severity>>,
    /// Alternative names of attributes; rules see the original ones.
    renames: Arc<Renames>,
}

impl Draft {
    /// Sets the alternative names of attributes from now on.
    pub(crate) fn set_renames(&mut self, renames: Arc<Renames>) {
        self.renames = renames;
    }

    /// Starts with the next record.
    pub(crate) fn begin(&mut self, view: &RecordView<'_>) {
        self.is_own_read = false;
        self.is_body_read = false;
        self.own.clear();
        self.inside.clear();
        self.message.is_made = false;
        self.message.is_changed = false;
        self.are_attributes_changed = false;
        self.resource.clear();
        self.header.clear();
        self.stated = Severity::UNSPECIFIED;
        self.of_text.set(None);
        self.severity = view.severity;
        self.timestamp_ns = view.timestamp_ns;
    }

    /// Adopts a parsed time and severity; `is_better` if they take precedence over the known ones.
    pub(super) fn state(&mut self, stated: Stated, is_better: bool) {
        self.timestamp_ns = stated.time_ns.unwrap_or(self.timestamp_ns);
        let is_stated = stated.severity != Severity::UNSPECIFIED;
        if is_stated && (is_better || self.severity == Severity::UNSPECIFIED) {
            self.severity = stated.severity;
        }
    }

    /// Parses the attributes outside the body, unless this was already done.
    pub(super) fn read_own(&mut self, view: &RecordView<'_>) {
        if std::mem::replace(&mut self.is_own_read, true) || view.attributes.is_empty() {
            return;
        }
        let _ = self.own.read_json(view.attributes);
    }

    /// Parses attributes and body, unless this was already done.
    pub(super) fn read(&mut self, view: &RecordView<'_>) {
        self.read_own(view);
        if std::mem::replace(&mut self.is_body_read, true) {
            return;
        }
        self.read_inside(view);
        self.renames.apply(&mut self.own, &mut self.inside);
    }

    /// Parses what the values of the field depend on, unless this was already done.
    fn read_for(&mut self, field: &Field, view: &RecordView<'_>) {
        let is_stated = match field {
            Field::Reserved(Reserved::Source | Reserved::IoStream) => return,
            Field::Reserved(Reserved::Status) if Status::from_severity(self.severity).is_some() => {
                return;
            }
            field => field.of_header().is_some_and(|it| !view.header_field(it).is_empty()),
        };
        if is_stated && self.renames.is_empty() {
            self.read_own(view);
        } else {
            self.read(view);
        }
    }

    fn read_inside(&mut self, view: &RecordView<'_>) {
        self.inside.clear();
        self.stated = Severity::UNSPECIFIED;
        let is_logfmt = view.flags.contains(RecordFlags::LOGFMT);
        // A backslash may hide anything.
        if !matches!(view.body.trim_ascii_start().first(), Some(b'{' | b'\\')) && !is_logfmt {
            return;
        }
        let message = self.message.text(view);
        let stated = if is_logfmt {
            self.inside.read_logfmt(message)
        } else {
            self.inside.read_json(message.trim_ascii())
        };
        self.stated = stated.map_or(Severity::UNSPECIFIED, |stated| stated.severity);
    }

    /// Returns the message, if rules changed it.
    pub(super) fn changed_message(&self) -> Option<&[u8]> {
        self.message.is_changed.then_some(&*self.message.text)
    }

    /// Replaces the message of the record.
    pub(super) fn set_message(&mut self, message: Vec<u8>) {
        self.message = Message { text: message, is_made: true, is_changed: true };
        self.is_body_read = false;
        self.of_text.set(None);
    }

    /// Sets an attribute in the resource of the record.
    pub(super) fn set_resource(&mut self, path: &'static str, text: Vec<u8>) {
        self.resource.retain(|(known, _)| *known != path);
        self.resource.push((path, text));
    }

    /// Sets a column of the header, in place of an attribute of the same meaning. A name that is
    /// not that of a facility changes nothing, and a name that is too long for syslog is cut.
    pub(super) fn set_header(&mut self, field: HeaderField, mut text: Vec<u8>) {
        let bytes_max = match field {
            HeaderField::ProcessId => PROCESS_ID_BYTES_MAX,
            HeaderField::MessageId => MESSAGE_ID_BYTES_MAX,
            _ if facility_of(&text) == Facility::NONE => return,
            _ => text.len(),
        };
        if text.len() > bytes_max {
            let is_inside = |at: &usize| text[*at] & 0xc0 == 0x80;
            let end = (0..=bytes_max).rev().find(|at| !is_inside(at));
            text.truncate(end.unwrap_or_default());
        }
        let attribute = field.attribute().as_bytes();
        if self.own.values(attribute).next().is_some() {
            self.are_attributes_changed |= self.own.remove(attribute);
        }
        self.header.retain(|(known, _)| *known != field);
        self.header.push((field, text));
    }

    /// Returns what rules set in the header of the record.
    pub(super) fn header_change(&self) -> HeaderChange<'_> {
        HeaderChange {
            facility: self.changed_in_header(HeaderField::Facility).map(facility_of),
            process_id: self.changed_in_header(HeaderField::ProcessId),
            message_id: self.changed_in_header(HeaderField::MessageId),
        }
    }

    fn changed_in_header(&self, field: HeaderField) -> Option<&[u8]> {
        let set = self.header.iter().find(|(known, _)| *known == field);
        set.map(|(_, text)| &**text)
    }

    /// Returns what rules set in the resource of the record.
    pub(super) fn resource_changes(&self) -> &[ResourceChange] {
        &self.resource
    }

    /// Returns true if something was changed.
    pub(super) fn is_changed(&self, view: &RecordView<'_>) -> bool {
        self.message.is_changed
            || self.are_attributes_changed
            || !self.resource.is_empty()
            || !self.header.is_empty()
            || self.severity != view.severity
            || self.timestamp_ns != view.timestamp_ns
    }

    fn visit(
        &self,
        origin: &Origin,
        view: &RecordView<'_>,
        field: &Field,
        visit: &mut Visitor<'_>,
    ) {
        match field {
            Field::Attribute(path) if path == LAG => {
                let lag_ns = origin.arrival_ns.map(|arrival| lag_ns(arrival, self.timestamp_ns));
                visit_lag(|visit| self.attribute(origin, view, LAG, visit), lag_ns, visit);
            }
            Field::Attribute(path) => self.attribute(origin, view, path, visit),
            Field::Reserved(key) => self.reserved(origin, view, *key, visit),
            Field::Tag(key) => {
                if !origin.visit(field, visit) && !visit_path(&self.own, key, visit) {
                    self.tags(&mut |tag| {
                        if let Some((found, value)) = split_tag(tag)
                            && found == key.as_bytes()
                        {
                            visit(Value::Text(value));
                        }
                    });
                }
            }
            Field::Tags => self.tags(&mut |tag| visit(Value::Text(tag))),
            Field::Any => self.everything(origin, view, visit),
            Field::Message => {}
        }
    }

    fn attribute(
        &self,
        origin: &Origin,
        view: &RecordView<'_>,
        path: &str,
        visit: &mut Visitor<'_>,
    ) {
        let header = HeaderField::of_attribute(path);
        let is_header = header.is_some_and(|it| self.header(origin, view, it, visit));
        if !is_header && !visit_path(&self.own, path, visit) {
            visit_path(&self.inside, path, visit);
        }
    }

    fn reserved(
        &self,
        origin: &Origin,
        view: &RecordView<'_>,
        key: Reserved,
        visit: &mut Visitor<'_>,
    ) {
        if let Some(text) = self.changed_in_resource(key.resource_paths()) {
            return visit(Value::Text(text));
        }
        if origin.first(key.resource_paths(), visit) {
            return;
        }
        match key {
            Reserved::Source => visit(Value::Text(origin.source.as_bytes())),
            Reserved::IoStream => {
                if let Some(name) = view.flags.iostream() {
                    visit(Value::Text(name.as_bytes()));
                }
                return;
            }
            Reserved::Status => {
                let statuses = [self.severity, self.stated].map(Status::from_severity);
                if let Some(status) = statuses.into_iter().flatten().next() {
                    return visit(Value::Text(status.name().as_bytes()));
                }
            }
            _ => {}
        }
        if key.of_header().is_some_and(|it| self.header(origin, view, it, visit)) {
            return;
        }
        // A shortcut: most records have neither, and rules on the service evaluate every record.
        let is_told = !(self.own.is_empty() && self.inside.is_empty())
            && key.record_paths().iter().any(|path| {
                visit_path(&self.own, path, visit) || visit_path(&self.inside, path, visit)
            });
        if !is_told
            && key == Reserved::Status
            && let Some(status) = Status::from_severity(self.severity_of_text(view))
        {
            visit(Value::Text(status.name().as_bytes()));
        }
    }

    /// Visits a field of a syslog header, if the record came with one; returns false if it did not,
    /// or if an attribute outside of the body takes precedence. Nothing needs to be parsed for it
    /// except these attributes.
    fn header(
        &self,
        origin: &Origin,
        view: &RecordView<'_>,
        field: HeaderField,
        visit: &mut Visitor<'_>,
    ) -> bool {
        if self.own.values(field.attribute().as_bytes()).next().is_some() {
            return false;
        }
        if let Some(path) = field.resource_attribute() {
            if !view.has_header() {
                return false;
            }
            let Some(text) = self.changed_in_resource(&[path]) else {
                return visit_path(&origin.resource, path, visit);
            };
            visit(Value::Text(text));
            return true;
        }
        let text = match field {
            HeaderField::Severity if view.has_header() => self.severity.syslog_name().as_bytes(),
            field => self.changed_in_header(field).unwrap_or(view.header_field(field)),
        };
        if !text.is_empty() {
            visit(Value::Text(text));
        }
        !text.is_empty()
    }

    /// Returns what rules set one of these attributes of the resource to.
    fn changed_in_resource(&self, paths: &[&str]) -> Option<&[u8]> {
        let set = self.resource.iter().find(|(path, _)| paths.contains(path));
        set.map(|(_, text)| &**text)
    }

    /// Returns the severity at the start of the message text, if nothing else states it.
    fn severity_of_text(&self, view: &RecordView<'_>) -> Severity {
        let look = || match &self.message {
            Message { is_made: true, text, .. } => severity_of_text(text),
            _ if view.flags.contains(RecordFlags::JSON_ESCAPED) => {
                severity_of_escaped_text(view.body)
            }
            _ => severity_of_text(view.body),
        };
        let severity = self.of_text.get().unwrap_or_else(look);
        self.of_text.set(Some(severity));
        severity
    }

    /// Visits the tags of the record itself: a list under `tags`, or a text under `ddtags`.
    fn tags(&self, visit: &mut dyn FnMut(&[u8])) {
        for attributes in [&self.own, &self.inside] {
            for (path, scalar) in attributes.iter() {
                let Scalar::Text(text) = scalar else { continue };
                match path {
                    b"tags" => visit(text),
                    b"ddtags" => text.split(|b| *b == b',').for_each(&mut *visit),
                    _ => {}
                }
            }
        }
    }

    fn everything(&self, origin: &Origin, view: &RecordView<'_>, visit: &mut Visitor<'_>) {
        for attributes in [&origin.resource, &self.own, &self.inside] {
            attributes.iter().for_each(|(_, scalar)| visit(value(scalar)));
        }
        self.resource.iter().for_each(|(_, text)| visit(Value::Text(text)));
        for key in [Reserved::Source, Reserved::Status, Reserved::IoStream] {
            self.reserved(origin, view, key, visit);
        }
        // The rest of a header is in the resource.
        for field in HeaderField::ALL.into_iter().filter(|it| it.resource_attribute().is_none()) {
            self.header(origin, view, field, visit);
        }
    }
}

fn facility_of(name: &[u8]) -> Facility {
    std::str::from_utf8(name).map_or(Facility::NONE, Facility::of_name)
}

fn split_tag(tag: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = tag.iter().position(|b| *b == b':')?;
    Some((&tag[..colon], &tag[colon + 1..]))
}

/// Fields of one record: the record, its origin, and the fields parsed so far.
#[derive(Debug)]
pub(crate) struct RecordFields<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) view: RecordView<'a>,
    pub(crate) draft: &'a RefCell<Draft>,
}

impl Fields for RecordFields<'_> {
    fn body(&self) -> Body<'_> {
        let json_escaped = self.view.flags.contains(RecordFlags::JSON_ESCAPED);
        Body { bytes: self.view.body, json_escaped }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        if self.origin.visit(field, visit) {
            return;
        }
        self.draft.borrow_mut().read_for(field, &self.view);
        self.draft.borrow().visit(self.origin, &self.view, field, visit);
    }
}

/// Like [`RecordFields`], for a record that is being changed and was parsed before; its message is
/// the changed one.
#[derive(Debug)]
pub(super) struct DraftFields<'a> {
    pub(super) origin: &'a Origin,
    pub(super) view: RecordView<'a>,
    pub(super) draft: &'a Draft,
}

impl Fields for DraftFields<'_> {
    fn body(&self) -> Body<'_> {
        let message = &self.draft.message;
        if message.is_made {
            return Body { bytes: &message.text, json_escaped: false };
        }
        let json_escaped = self.view.flags.contains(RecordFlags::JSON_ESCAPED);
        Body { bytes: self.view.body, json_escaped }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        self.draft.visit(self.origin, &self.view, field, visit);
    }
}
