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

/// Appends an envelope whose tags are all `tags` if `prefers_tags`, else all `deprecated_tags`. Of
/// tags with the same name, those that change their form replace others, as in the original.
pub fn convert_loggregator_tags(
    envelope: &[u8],
    prefers_tags: bool,
    out: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let (from, to) = if prefers_tags { (DEPRECATED_TAGS, TAGS) } else { (TAGS, DEPRECATED_TAGS) };
    let mut fields = Fields::new(envelope);
    let mut before = fields.rest();
    while let Some(field) = fields.next() {
        let after = fields.rest();
        if field?.0 != from {
            out.extend_from_slice(before.get(..before.len() - after.len()).unwrap_or(before));
        }
        before = after;
    }
    let (mut entry, mut text) = (Vec::new(), Vec::new());
    for field in Fields::new(envelope) {
        let (number, Value::Bytes(tag)) = field? else { continue };
        if number != from {
            continue;
        }
        let (key, value) = key_and_value(tag)?;
        entry.clear();
        text.clear();
        put_bytes_field(1, key, &mut entry);
        if prefers_tags {
            LoggregatorTagValue::parse(value)?.write(&mut text);
        } else {
            put_bytes_field(1, value, &mut text);
        }
        put_bytes_field(2, &text, &mut entry);
        put_bytes_field(u64::from(to), &entry, out);
    }
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
