//! What a rule does to a record that it matches.
//!
//! Invariant: an action that finds nothing to work on changes nothing; no action can fail on a
//! record. At most one action of a rule parses.

use weir_codec::{Attributes, Change, LineFormat, Part, Scalar, Stated, read_text, rewrite_json};
use weir_expr::{Field, Formula, MESSAGE_PATHS, Reserved, Status};
use weir_model::{HeaderField, RecordFlags, RecordView};

use super::draft::{Draft, DraftFields, Origin};
use super::redact::{Pattern, Redaction, Scope};
use super::template::Template;

/// An action. The actions of a rule run in the order of this list.
#[derive(Debug, Clone)]
pub enum Action {
    /// Reads attributes from the message, in the first of these formats that fits. If the body is a
    /// JSON object with a message, as agents send log lines, that message is parsed; its values
    /// take precedence over those of the agent.
    Parse(Vec<BodyFormat>),
    /// Sets attributes from the named groups of a pattern, where it is found in the message.
    Extract(Pattern),
    /// Sets a field.
    Set(Target, SetValue),
    /// Removes an attribute and those below it, also from a JSON body.
    Remove(String),
    /// Redacts matching text.
    Redact(Redaction),
}

/// A format of a message.
#[derive(Debug, Clone)]
pub enum BodyFormat {
    /// A JSON object.
    Json,
    /// `key=value` pairs.
    Logfmt,
    /// Variables with text between them.
    Line(LineFormat),
    /// The header of a syslog line.
    Syslog,
    /// Time and level at the start of a line of text.
    Text,
}

/// A field that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The message itself.
    Message,
    /// The severity.
    Status,
    /// An attribute of the resource, which takes precedence over an attribute of the record.
    Resource(&'static str),
    /// A column of the header of a syslog message.
    Header(HeaderField),
    /// An attribute.
    Attribute(String),
}

/// The value that a field is set to.
#[derive(Debug, Clone)]
pub enum SetValue {
    /// Text that contains fields.
    Template(Template),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// The result of an arithmetic expression; nothing if one of its fields is not a number.
    Formula(Formula),
}

impl Target {
    /// Returns the target of that name: `message`, `status`, `@attribute`, or a reserved key, which
    /// is a column, or the corresponding attribute of the resource or the record.
    pub fn of(name: &str) -> Option<Self> {
        Some(match super::template::field(name)? {
            Field::Message => Self::Message,
            Field::Attribute(path) => Self::Attribute(path),
            Field::Reserved(key) => match key {
                Reserved::Status => Self::Status,
                Reserved::Host => Self::Resource("host.name"),
                Reserved::Service | Reserved::AppName => Self::Resource("service.name"),
                Reserved::TraceId
                | Reserved::SpanId
                | Reserved::SourceId
                | Reserved::InstanceId => Self::Attribute(key.name().to_owned()),
                Reserved::Facility => Self::Header(HeaderField::Facility),
                Reserved::ProcId => Self::Header(HeaderField::ProcessId),
                Reserved::MsgId => Self::Header(HeaderField::MessageId),
                Reserved::Source | Reserved::IoStream => return None,
            },
            Field::Tag(_) | Field::Tags | Field::Any => return None,
        })
    }
}

impl Action {
    /// Applies the action. Returns false if it parses and the message is in none of its formats.
    pub(super) fn apply(&self, origin: &Origin, view: &RecordView<'_>, draft: &mut Draft) -> bool {
        draft.read_own(view);
        match self {
            Self::Parse(formats) => return parse(formats, view, draft),
            Self::Extract(pattern) => extract(pattern, view, draft),
            Self::Set(target, value) => set(target, value, origin, view, draft),
            Self::Remove(path) => remove(path, view, draft),
            Self::Redact(redaction) => redact(redaction, view, draft),
        }
        true
    }
}

/// Returns false if none of the formats fits.
fn parse(formats: &[BodyFormat], view: &RecordView<'_>, draft: &mut Draft) -> bool {
    draft.read(view);
    let Draft { own, inside, wrapped, message, .. } = draft;
    let count = own.len();
    let body = message.text(view);
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    let (of_body, of_line) = if is_object && let Some((path, line)) = wrapped_line(inside) {
        wrapped.clear();
        let of_line = read(formats, line, view, wrapped);
        let wants_body = formats.iter().any(|format| matches!(format, BodyFormat::Json));
        let of_body = if wants_body { own.read_json(body.trim_ascii()) } else { None };
        unwrap_line(path, wrapped, own);
        (of_body, of_line)
    } else {
        (read(formats, body, view, own), None)
    };
    draft.are_attributes_changed |= own.len() != count || of_line.is_some();
    if let Some(stated) = of_body {
        draft.state(stated, false);
    }
    if let Some(stated) = of_line {
        draft.state(stated, true);
    }
    of_body.or(of_line).is_some()
}

/// Replaces attributes from the agent with those in the line itself. The line, at `path`, remains
/// the message of the body.
fn unwrap_line(path: &str, wrapped: &mut Attributes, own: &mut Attributes) {
    own.remove(path.as_bytes());
    wrapped.remove(path.as_bytes());
    for (path, _) in wrapped.iter() {
        own.remove(path);
    }
    for (path, value) in wrapped.iter() {
        own.add(path, value);
    }
}

/// Reads attributes in the first format that fits.
fn read(
    formats: &[BodyFormat],
    text: &[u8],
    view: &RecordView<'_>,
    attributes: &mut Attributes,
) -> Option<Stated> {
    formats.iter().find_map(|format| match format {
        BodyFormat::Json => attributes.read_json(text.trim_ascii()),
        BodyFormat::Logfmt if view.flags.contains(RecordFlags::LOGFMT) => {
            attributes.read_logfmt(text)
        }
        BodyFormat::Logfmt => attributes.read_if_logfmt(text),
        BodyFormat::Line(format) => attributes.read_line(text, format),
        BodyFormat::Syslog => attributes.read_syslog(text, view.timestamp_ns),
        BodyFormat::Text => read_text(text, view.timestamp_ns),
    })
}

/// Returns the line that a program wrote, within the object that an agent made of it, and its path.
fn wrapped_line(inside: &Attributes) -> Option<(&'static str, &[u8])> {
    MESSAGE_PATHS.into_iter().find_map(|path| {
        inside.values(path.as_bytes()).find_map(|value| match value {
            Scalar::Text(line) => Some((path, line)),
            _ => None,
        })
    })
}

fn extract(pattern: &Pattern, view: &RecordView<'_>, draft: &mut Draft) {
    let Draft { own, message, are_attributes_changed, .. } = draft;
    pattern.groups(message.text(view), |name, found| {
        own.set(path_of_group(name).as_bytes(), Scalar::of_word(found));
        *are_attributes_changed = true;
    });
}

/// Names of groups cannot contain dots: two underscores stand for one.
fn path_of_group(name: &str) -> String {
    name.replace("__", ".")
}

fn set(
    target: &Target,
    value: &SetValue,
    origin: &Origin,
    view: &RecordView<'_>,
    draft: &mut Draft,
) {
    if matches!(value, SetValue::Template(_) | SetValue::Formula(_)) {
        draft.read(view);
    }
    let mut text = Vec::new();
    let fields = DraftFields { origin, view: *view, draft };
    let value = match value {
        SetValue::Template(template) => {
            template.fill(&fields, &mut text);
            Scalar::Text(&text)
        }
        SetValue::Int(number) => Scalar::Int(*number),
        SetValue::Float(number) => Scalar::Float(*number),
        SetValue::Bool(truth) => Scalar::Bool(*truth),
        SetValue::Formula(measure) => match measure.value(&fields) {
            Some(weir_expr::Numeric::Int(number)) => Scalar::Int(number),
            Some(weir_expr::Numeric::Float(number)) => Scalar::Float(number),
            None => return,
        },
    };
    match (target, value) {
        (Target::Attribute(path), value) => {
            draft.own.set(path.as_bytes(), value);
            draft.are_attributes_changed = true;
        }
        (Target::Message, Scalar::Text(_)) => draft.set_message(text),
        (Target::Status, Scalar::Text(word)) => {
            if let Some(status) = Status::parse(word) {
                draft.severity = status.severity();
            }
        }
        (Target::Resource(path), Scalar::Text(_)) => draft.set_resource(path, text),
        (Target::Header(field), Scalar::Text(_)) => draft.set_header(*field, text),
        // Rejected when the configuration is read.
        (Target::Message | Target::Status | Target::Resource(_) | Target::Header(_), _) => {}
    }
}

fn remove(path: &str, view: &RecordView<'_>, draft: &mut Draft) {
    draft.read(view);
    draft.are_attributes_changed |= draft.own.remove(path.as_bytes());
    if !draft.inside.remove(path.as_bytes()) {
        return;
    }
    let mut change = |found: &[u8], part: Part<'_>| match part {
        Part::Key(_) if found == path.as_bytes() => Change::Remove,
        _ => Change::Keep,
    };
    if let Some(message) = rewrite_json(draft.message.text(view), &mut change) {
        draft.set_message(message);
    }
}

fn redact(redaction: &Redaction, view: &RecordView<'_>, draft: &mut Draft) {
    let hide =
        |path: &[u8], text: &[u8]| redaction.covers(path).then(|| redaction.value(path, text))?;
    draft.are_attributes_changed |= draft.own.change_values(hide);
    if redaction.scope == Scope::Everything {
        draft.are_attributes_changed |= draft.own.change_paths(|path| redaction.text(path));
    }
    let message = draft.message.text(view);
    let hidden = match &redaction.scope {
        Scope::Everything | Scope::Message => redaction.message(message),
        Scope::Attribute(_) => {
            let mut change = |path: &[u8], part: Part<'_>| match part {
                Part::Text(text) | Part::Number(text) if redaction.covers(path) => {
                    redaction.value(path, text).map_or(Change::Keep, Change::Text)
                }
                _ => Change::Keep,
            };
            rewrite_json(message, &mut change)
        }
    };
    if let Some(message) = hidden {
        draft.set_message(message);
    }
}
