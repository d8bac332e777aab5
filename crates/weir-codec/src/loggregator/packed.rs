//! Envelopes as they are stored next to their records: without the data that the record contains.
//!
//! A packed envelope consists of a *first part*, which changes from one envelope to the next, and a
//! *frame* with everything else, such as source, instance and tags, which envelopes of one source
//! share. The time and the text of a log are in neither, since the record has them. In a sequence
//! of packed envelopes, a frame that is equal to the previous one is omitted ([`shorten_packed`]).
//!
//! Clients write tags in any order, which may differ for each envelope. In a frame they are sorted
//! by their bytes, and the first part contains the original order.
//!
//! Invariant: unpacking restores the envelope, byte for byte; an envelope for which that would not
//! hold is packed as a whole.
//!
//! Encoding, all numbers as in Protocol Buffers: 0 and the whole envelope; or 1 + twice the length
//! of the first part, plus 1 if the frame is omitted; the first part; the frame. The first part is
//! the number of tags, and the sorted place of each, one byte each (only 0 if they were sorted);
//! then 0 and the rest after the text in the message of a log; or 1, number and content of another
//! message; or 2 if there is none. The frame is 1 + the offset of the time (0 = none), 1 + the
//! offset of the message (0 = none), and the other fields, to which these offsets refer.

use std::ops::Range;

use super::envelope::TAGS_MAX;
use super::wire::{Fields, LoggregatorError, Value, put_bytes_field, put_number};

const TIME: u32 = 1;
const LOG: u32 = 4;
const TAGS: u32 = 9;

/// Kinds of first parts.
const TEXT: u64 = 0;
const MESSAGE: u64 = 1;
const NOTHING: u64 = 2;

/// Packs envelopes, reusing its memory.
#[derive(Debug, Default)]
pub struct LoggregatorPacker {
    /// The envelope, with its tags sorted.
    ordered: Vec<u8>,
    /// For each tag, its sorted place; empty if all are sorted.
    places: Vec<u8>,
    first: Vec<u8>,
    frame: Vec<u8>,
    others: Vec<u8>,
    packed: Vec<u8>,
}

impl LoggregatorPacker {
    /// Packs the envelope of a record with this text and time.
    pub fn pack(&mut self, envelope: &[u8], text: &[u8], time_ns: i64) -> &[u8] {
        if self.order(envelope).is_ok() && self.split(text, time_ns).is_ok() {
            self.packed.clear();
            put_number(1 + 2 * self.first.len() as u64, &mut self.packed);
            self.packed.extend_from_slice(&self.first);
            self.packed.extend_from_slice(&self.frame);
            if unpack(&self.packed, Some(text), time_ns).is_some_and(|found| found == envelope) {
                return &self.packed;
            }
        }
        self.packed.clear();
        self.packed.push(0);
        self.packed.extend_from_slice(envelope);
        &self.packed
    }

    /// Copies the envelope, with its tags sorted.
    fn order(&mut self, envelope: &[u8]) -> Result<(), LoggregatorError> {
        let tags = tags_of(envelope)?;
        if tags.len() > TAGS_MAX {
            return Err(LoggregatorError::Truncated);
        }
        let bytes = |tag: &usize| {
            let place = tags.get(*tag).cloned().unwrap_or_default();
            envelope.get(place).unwrap_or_default()
        };
        let mut order: Vec<usize> = (0..tags.len()).collect();
        order.sort_by_key(bytes);
        self.places.clear();
        self.ordered.clear();
        if order.is_sorted() {
            self.ordered.extend_from_slice(envelope);
            return Ok(());
        }
        self.places.resize(tags.len(), 0);
        for (place, tag) in order.iter().enumerate() {
            if let Some(known) = self.places.get_mut(*tag) {
                *known = place as u8;
            }
        }
        rearrange(envelope, &tags, order.into_iter(), &mut self.ordered);
        Ok(())
    }

    fn split(&mut self, text: &[u8], time_ns: i64) -> Result<(), LoggregatorError> {
        let (mut time, mut message) = (0, 0);
        self.others.clear();
        put_places(&self.places, &mut self.first);
        put_number(NOTHING, &mut self.first);
        let mut fields = Fields::new(&self.ordered);
        let mut before = fields.rest();
        while let Some(field) = fields.next() {
            let after = fields.rest();
            let offset = self.others.len() as u64 + 1;
            match field? {
                // Unpacking inserts the two in this order.
                (TIME, Value::Number(number))
                    if time == 0 && message == 0 && number as i64 == time_ns =>
                {
                    time = offset;
                }
                (number @ (4..=7 | 10), Value::Bytes(content)) if message == 0 => {
                    message = offset;
                    put_places(&self.places, &mut self.first);
                    put_first(number, content, text, &mut self.first)?;
                }
                _ => {
                    let field = before.get(..before.len() - after.len());
                    self.others.extend_from_slice(field.unwrap_or(before));
                }
            }
            before = after;
        }
        self.frame.clear();
        put_number(time, &mut self.frame);
        put_number(message, &mut self.frame);
        self.frame.extend_from_slice(&self.others);
        Ok(())
    }
}

/// Begins a first part.
fn put_places(places: &[u8], first: &mut Vec<u8>) {
    first.clear();
    put_number(places.len() as u64, first);
    first.extend_from_slice(places);
}

/// Returns the ranges of the tags in an envelope.
fn tags_of(envelope: &[u8]) -> Result<Vec<Range<usize>>, LoggregatorError> {
    let mut tags = Vec::new();
    let mut fields = Fields::new(envelope);
    let mut start = 0;
    while let Some(field) = fields.next() {
        let end = envelope.len() - fields.rest().len();
        if field?.0 == TAGS {
            tags.push(start..end);
        }
        start = end;
    }
    Ok(tags)
}

/// Appends an envelope with its tags in another order; `order` is the tag for each place.
fn rearrange(
    envelope: &[u8],
    tags: &[Range<usize>],
    order: impl Iterator<Item = usize>,
    out: &mut Vec<u8>,
) {
    let bytes = |range: Range<usize>| envelope.get(range).unwrap_or_default();
    let mut at = 0;
    for (place, tag) in tags.iter().zip(order) {
        out.extend_from_slice(bytes(at..place.start));
        out.extend_from_slice(bytes(tags.get(tag).cloned().unwrap_or_default()));
        at = place.end;
    }
    out.extend_from_slice(bytes(at..envelope.len()));
}

fn put_first(
    number: u32,
    content: &[u8],
    text: &[u8],
    first: &mut Vec<u8>,
) -> Result<(), LoggregatorError> {
    let mut fields = Fields::new(content);
    if number == LOG
        && let Some(field) = fields.next()
        && field? == (1, Value::Bytes(text))
        && !text.is_empty()
    {
        put_number(TEXT, first);
        first.extend_from_slice(fields.rest());
    } else {
        put_number(MESSAGE, first);
        put_number(u64::from(number), first);
        first.extend_from_slice(content);
    }
    Ok(())
}

/// The parts of a packed envelope.
enum Packed<'p> {
    Whole(&'p [u8]),
    /// First part and frame; `None` if the frame is omitted.
    Parts(&'p [u8], Option<&'p [u8]>),
}

fn read(packed: &[u8]) -> Option<Packed<'_>> {
    let mut fields = Fields::new(packed);
    let Some(head) = fields.number().ok()?.checked_sub(1) else {
        return Some(Packed::Whole(fields.rest()));
    };
    let len = usize::try_from(head / 2).ok()?;
    let (first, frame) = fields.rest().split_at_checked(len)?;
    Some(Packed::Parts(first, (head % 2 == 0).then_some(frame)))
}

/// Returns the frame of a packed envelope, if it has one.
pub fn packed_frame(packed: &[u8]) -> Option<&[u8]> {
    match read(packed)? {
        Packed::Parts(_, frame) => frame,
        Packed::Whole(_) => None,
    }
}

/// Returns whether the frame of a packed envelope is omitted.
pub fn is_shortened(packed: &[u8]) -> bool {
    matches!(read(packed), Some(Packed::Parts(_, None)))
}

/// Appends a packed envelope without its frame. Nothing is appended if it has none.
pub fn shorten_packed(packed: &[u8], out: &mut Vec<u8>) {
    if let Some(Packed::Parts(first, Some(_))) = read(packed) {
        put_number(2 + 2 * first.len() as u64, out);
        out.extend_from_slice(first);
    }
}

/// Returns a packed envelope whose frame is omitted, with this frame. `None` if it is not omitted.
pub fn lengthen_packed(packed: &[u8], frame: &[u8]) -> Option<Vec<u8>> {
    let Packed::Parts(first, None) = read(packed)? else { return None };
    let mut out = Vec::with_capacity(packed.len() + frame.len());
    put_number(1 + 2 * first.len() as u64, &mut out);
    out.extend_from_slice(first);
    out.extend_from_slice(frame);
    Some(out)
}

/// Returns the envelope of a record with this text and time; `None` if it was packed for another
/// record, or its frame is omitted.
pub fn unpack_loggregator_envelope(
    packed: &[u8],
    text: Option<&[u8]>,
    time_ns: i64,
) -> Option<Vec<u8>> {
    unpack(packed, text, time_ns)
}

fn unpack(packed: &[u8], text: Option<&[u8]>, time_ns: i64) -> Option<Vec<u8>> {
    let (first, frame) = match read(packed)? {
        Packed::Whole(envelope) => return Some(envelope.to_vec()),
        Packed::Parts(first, frame) => (first, frame?),
    };
    let mut fields = Fields::new(frame);
    let offset = |number: u64| usize::try_from(number.checked_sub(1)?).ok();
    let (time, message) = (offset(fields.number().ok()?), offset(fields.number().ok()?));
    let others = fields.rest();
    let (time_at, message_at) = (time.unwrap_or(0), message.unwrap_or(others.len()));
    let mut out = Vec::with_capacity(packed.len() + text.map_or(0, <[u8]>::len) + 24);
    out.extend_from_slice(others.get(..time_at)?);
    if time.is_some() {
        put_number(u64::from(TIME) << 3, &mut out);
        put_number(time_ns as u64, &mut out);
    }
    out.extend_from_slice(others.get(time_at..message_at)?);
    let mut first = Fields::new(first);
    let count = usize::try_from(first.number().ok()?).ok()?;
    let (places, message) = first.rest().split_at_checked(count)?;
    put_message(message, text, &mut out)?;
    out.extend_from_slice(others.get(message_at..)?);
    if places.is_empty() {
        return Some(out);
    }
    let tags = tags_of(&out).ok().filter(|tags| tags.len() == count)?;
    let mut envelope = Vec::with_capacity(out.len());
    rearrange(&out, &tags, places.iter().map(|place| usize::from(*place)), &mut envelope);
    Some(envelope)
}

fn put_message(first: &[u8], text: Option<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
    let mut fields = Fields::new(first);
    match fields.number().ok()? {
        TEXT => {
            let mut content = Vec::with_capacity(text?.len() + 16);
            put_bytes_field(1, text?, &mut content);
            content.extend_from_slice(fields.rest());
            put_bytes_field(u64::from(LOG), &content, out);
        }
        MESSAGE => {
            let number = fields.number().ok()?;
            put_bytes_field(number, fields.rest(), out);
        }
        NOTHING => {}
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{LoggregatorEnvelope, LoggregatorMessage, encode_loggregator_envelope};
    use super::*;

    fn log(payload: &[u8], tags: &[(&str, &str)]) -> Vec<u8> {
        let envelope = LoggregatorEnvelope {
            timestamp_ns: 5,
            source_id: b"app",
            instance_id: b"0",
            message: LoggregatorMessage::Log { payload, is_error: true },
            ..Default::default()
        };
        let mut bytes = Vec::new();
        encode_loggregator_envelope(&envelope, tags, &mut bytes);
        bytes
    }

    #[test]
    fn an_envelope_is_unpacked_as_it_came_whatever_the_order_of_its_tags() {
        let mut packer = LoggregatorPacker::default();
        let sorted = log(b"a line", &[("a", "1"), ("b", "2")]);
        let other = log(b"another", &[("b", "2"), ("a", "1")]);
        let packed = packer.pack(&sorted, b"a line", 5).to_vec();
        assert_eq!(unpack(&packed, Some(b"a line"), 5).unwrap(), sorted);
        let again = packer.pack(&other, b"another", 5).to_vec();
        assert_eq!(unpack(&again, Some(b"another"), 5).unwrap(), other);
        // They share the frame, so it can be left out.
        let frame = packed_frame(&packed).unwrap();
        assert_eq!(packed_frame(&again), Some(frame));
        let mut short = Vec::new();
        shorten_packed(&again, &mut short);
        assert_eq!(short, [2 + 2 * 6, 2, 1, 0, 0, 0x10, 1]);
        assert!(is_shortened(&short) && !is_shortened(&again));
        assert_eq!(unpack(&short, Some(b"another"), 5), None);
        assert_eq!(lengthen_packed(&short, frame).unwrap(), again);
        assert_eq!(lengthen_packed(&again, frame), None);
    }

    #[test]
    fn everything_else_is_packed_as_it_is() {
        let mut packer = LoggregatorPacker::default();
        // The text is another one, the time is another one, there is no text.
        let line = log(b"a line", &[]);
        for (text, time_ns) in [(&b"other"[..], 5), (b"a line", 6), (b"", 5)] {
            let packed = packer.pack(&line, text, time_ns).to_vec();
            assert_eq!(unpack(&packed, Some(text), time_ns).unwrap(), line);
        }
        let strange: [&[u8]; 5] = [
            b"",
            b"not an envelope",
            // Time after the message, two messages, a length that is longer than necessary.
            &[&line[2..], &line[..2]].concat(),
            &[&line[..], &line[..]].concat(),
            b"\x22\x83\x00\x0a\x01x",
        ];
        for bytes in strange {
            let packed = packer.pack(bytes, b"a line", 5).to_vec();
            assert_eq!(unpack(&packed, Some(b"a line"), 5).unwrap(), bytes);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked(
            fields in vec((1_u64..12, vec(any::<u8>(), 0..9)), 0..6),
            text in vec(any::<u8>(), 0..3),
            noise in vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = Vec::new();
            for (number, content) in &fields {
                put_bytes_field(*number, content, &mut bytes);
            }
            let mut packer = LoggregatorPacker::default();
            let packed = packer.pack(&bytes, &text, 7).to_vec();
            prop_assert_eq!(unpack(&packed, Some(&text), 7).unwrap(), bytes);
            let _no_panic = unpack(&noise, Some(&text), 7);
            let _no_panic = lengthen_packed(&noise, &text);
        }
    }
}
