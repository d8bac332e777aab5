//! Records as JSON objects, one per line or all in one array.
//!
//! Invariant: one record is one object, as written by the outputs `file` and `stdout`.

use std::ops::Range;

use crate::config::{Encoding, HttpFormat};
use crate::output::lines;
use crate::output::parcel::Parcel;

/// Renders records.
#[derive(Debug)]
pub(crate) struct Encoder {
    format: HttpFormat,
}

impl Encoder {
    pub(crate) fn new(format: HttpFormat) -> Self {
        Self { format }
    }

    /// Appends the records in `range` of the parcel. In an array, each is preceded by a comma.
    pub(crate) fn encode(&self, parcel: &Parcel, range: Range<usize>, out: &mut Vec<u8>) {
        for record in parcel.part(range) {
            if self.format == HttpFormat::Array {
                out.push(b',');
            }
            lines::encode_one(parcel, &record, Encoding::Json, out);
        }
    }

    /// Completes the body: the first comma becomes the start of the array.
    pub(crate) fn complete(&self, plain: &mut Vec<u8>) {
        if self.format == HttpFormat::Array {
            match plain.first_mut() {
                Some(first) => *first = b'[',
                None => plain.push(b'['),
            }
            plain.push(b']');
        }
    }
}
