//! Text that contains fields: `"{service} on {host}: {@user.id}"`.
//!
//! Invariant: a template never fails on a record; a field without a value becomes an empty text.

use weir_expr::{Field, Fields, Reserved};

/// A template, ready to be filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Field(Field),
}

/// Why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{` without `}`.
    #[error("the {{ at byte {0} is never closed; write a literal brace twice")]
    Open(usize),
    /// `}` without `{`.
    #[error("unmatched }} at byte {0}; write a literal brace twice")]
    Close(usize),
    /// `{}`.
    #[error("the braces at byte {0} contain no field")]
    Empty(usize),
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let offset = text.len() - rest.len() + at;
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(TemplateError::Close(offset));
            }
            let end = rest.find('}').ok_or(TemplateError::Open(offset))?;
            let field = field(rest[..end].trim()).ok_or(TemplateError::Empty(offset))?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Field(field));
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self { pieces })
    }

    /// Returns every field in it.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Field(field) => Some(field),
            Piece::Text(_) => None,
        })
    }

    /// Returns the text, if there are no fields in it.
    pub fn constant(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the filled-in template; of a field with several values, the first is used.
    pub fn fill(&self, record: &impl Fields, out: &mut Vec<u8>) {
        let mut buffer = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Field(Field::Message) => out.extend_from_slice(&record.body().plain()),
                Piece::Field(field) => {
                    let mut is_first = true;
                    record.visit(field, &mut |value| {
                        if let Some(text) = value.text(&mut buffer).filter(|_| is_first) {
                            out.extend_from_slice(text);
                            is_first = false;
                        }
                    });
                }
            }
        }
    }
}

/// Returns the field of that name, as named in expressions.
pub fn field(name: &str) -> Option<Field> {
    if let Some(path) = name.strip_prefix('@') {
        return (!path.is_empty()).then(|| Field::Attribute(path.to_owned()));
    }
    match name {
        "" => None,
        "message" => Some(Field::Message),
        name => Some(match Reserved::from_name(name) {
            Some(key) => Field::Reserved(key),
            None => Field::Tag(name.to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_expr::{Body, Value, Visitor};

    struct Sample;

    impl Fields for Sample {
        fn body(&self) -> Body<'_> {
            Body { bytes: br"a\nb", json_escaped: true }
        }

        fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
            match field {
                Field::Attribute(path) if path == "n" => {
                    visit(Value::Int(1));
                    visit(Value::Int(2));
                }
                Field::Reserved(Reserved::Host) => visit(Value::Text(b"vm")),
                _ => {}
            }
        }
    }

    #[test]
    fn fields_are_filled_in_and_braces_are_written_twice() {
        let mut out = Vec::new();
        let template = Template::parse("{{{host}}} {@n}/{ message }{nothing}!").unwrap();
        template.fill(&Sample, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "{vm} 1/a\nb!");
        assert_eq!(template.fields().count(), 4);
    }

    #[test]
    fn broken_templates_are_refused_with_the_place() {
        let error = |text| Template::parse(text).unwrap_err();
        assert_eq!(error("a {host"), TemplateError::Open(2));
        assert_eq!(error("a } b"), TemplateError::Close(2));
        assert_eq!(error("a {} b"), TemplateError::Empty(2));
        assert_eq!(error("{@}"), TemplateError::Empty(0));
    }
}
