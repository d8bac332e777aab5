//! Converts the tags of an envelope to the form that its reader requests.
//!
//! Invariant: everything except tags in the other form is copied unchanged.

use super::envelope::LoggregatorTagValue;
use super::wire::{Fields, LoggregatorError, Value, put_bytes_field};

const TAGS: u32 = 9;
const DEPRECATED_TAGS: u32 = 3;

/// Returns whether an envelope has tags in this form: `tags`, or else `deprecated_tags`.
pub fn has_loggregator_tags(envelope: &[u8], is_preferred: bool) -> bool {
    let form = if is_preferred { TAGS } else { DEPRECATED_TAGS };
    Fields::new(envelope).any(|field| matches!(field, Ok((number, _)) if number == form))
}

/// Appends an envelope whose tags are all `tags` if `prefers_tags`, else all `deprecated_tags` with
/// texts. Of tags with the same name the deprecated one is used, as in the original.
pub fn convert_loggregator_tags(
    envelope: &[u8],
    prefers_tags: bool,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let is_moved = |field| field == DEPRECATED_TAGS || (field == TAGS && !prefers_tags);
    let mut fields = Fields::new(envelope);
    let mut before = fields.rest();
    while let Some(field) = fields.next() {
        let after = fields.rest();
        if !is_moved(field?.0) {
            out.extend_from_slice(before.get(..before.len() - after.len()).unwrap_or(before));
        }
        before = after;
    }
    let mut mover = TagMover { prefers_tags, ..TagMover::default() };
    // The last one of a name is used.
    for moved in [TAGS, DEPRECATED_TAGS].into_iter().filter(|field| is_moved(*field)) {
        for field in Fields::new(envelope) {
            match field? {
                (field, Value::Bytes(entry)) if field == moved => {
                    mover.write(entry, moved == DEPRECATED_TAGS, out)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Writes tags in the requested form, reusing its memory.
#[derive(Default)]
struct TagMover {
    prefers_tags: bool,
    text: Vec<u8>,
    value: Vec<u8>,
    entry: Vec<u8>,
}

impl TagMover {
    /// Appends a tag.
    fn write(
        &mut self,
        entry: &[u8],
        is_deprecated: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), LoggregatorError> {
        let (key, value) = key_and_value(entry)?;
        self.text.clear();
        if is_deprecated {
            LoggregatorTagValue::parse(value)?.write(&mut self.text);
        } else {
            self.text.extend_from_slice(value);
        }
        self.entry.clear();
        put_bytes_field(1, key, &mut self.entry);
        let field = if self.prefers_tags {
            put_bytes_field(2, &self.text, &mut self.entry);
            TAGS
        } else {
            self.value.clear();
            put_bytes_field(1, &self.text, &mut self.value);
            put_bytes_field(2, &self.value, &mut self.entry);
            DEPRECATED_TAGS
        };
        put_bytes_field(u64::from(field), &self.entry, out);
        Ok(())
    }
}

/// Key and value of a tag.
pub(super) fn key_and_value(entry: &[u8]) -> Result<(&[u8], &[u8]), LoggregatorError> {
    let (mut key, mut value) = (&b""[..], &b""[..]);
    for field in Fields::new(entry) {
        match field? {
            (1, Value::Bytes(text)) => key = text,
            (2, Value::Bytes(text)) => value = text,
            _ => {}
        }
    }
    Ok((key, value))
}
