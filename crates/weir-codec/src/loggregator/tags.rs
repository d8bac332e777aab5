//! Tags of an envelope in the form that its reader wants.
//!
//! Invariant: everything except for tags in the other form is copied as it is.

use super::envelope::LoggregatorTagValue;
use super::wire::{Fields, LoggregatorError, Value, put_bytes_field};

const TAGS: u32 = 9;
const DEPRECATED_TAGS: u32 = 3;

/// Whether an envelope has tags in this form: `tags`, or else `deprecated_tags`.
pub fn has_loggregator_tags(envelope: &[u8], is_preferred: bool) -> bool {
    let form = if is_preferred { TAGS } else { DEPRECATED_TAGS };
    Fields::new(envelope).any(|field| matches!(field, Ok((number, _)) if number == form))
}

/// Appends an envelope whose tags are all `tags` if `prefers_tags`, else all `deprecated_tags` with
/// texts. Of tags with the same name the deprecated one counts, as in the original.
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
    // The last one of a name counts.
    for moved in [TAGS, DEPRECATED_TAGS].into_iter().filter(|field| is_moved(*field)) {
        for field in Fields::new(envelope) {
            match field? {
                (field, Value::Bytes(entry)) if field == moved => {
                    move_tag(entry, moved == DEPRECATED_TAGS, prefers_tags, out)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Appends a tag in the form that is wanted.
fn move_tag(
    entry: &[u8],
    is_deprecated: bool,
    prefers_tags: bool,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let (key, value) = key_and_value(entry)?;
    let mut text = Vec::new();
    if is_deprecated {
        LoggregatorTagValue::parse(value)?.write(&mut text);
    } else {
        text.extend_from_slice(value);
    }
    let mut moved = Vec::new();
    put_bytes_field(1, key, &mut moved);
    if prefers_tags {
        put_bytes_field(2, &text, &mut moved);
    } else {
        let mut value = Vec::new();
        put_bytes_field(1, &text, &mut value);
        put_bytes_field(2, &value, &mut moved);
    }
    let field = if prefers_tags { TAGS } else { DEPRECATED_TAGS };
    put_bytes_field(u64::from(field), &moved, out);
    Ok(())
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
