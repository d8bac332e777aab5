//! The parts of a message: its time, fields built from names, and structured data.
//!
//! Invariant: no input can break the boundary between parts: fields contain no blanks, and
//! parameter values no unescaped quotes.

use std::io::Write as _;

use super::{DrainError, LoggregatorTagValue, format_rfc3339_ns};

/// The enterprise number of the Cloud Foundry Foundation, for names of elements.
const ENTERPRISE: &[u8] = b"@47450";

/// Digits of a time below its precision, and the letter of its zone.
const BELOW_MICROSECONDS_LEN: usize = 4;

/// Magnitudes from which numbers are written with an exponent.
const EXPONENT_MIN: i32 = -4;
/// See [`EXPONENT_MIN`].
const EXPONENT_MAX: i32 = 6;

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Parameter<'p> {
    Text(&'p [u8]),
    Integer(i128),
    Float(f64),
    /// The number of a deprecated tag.
    Number(LoggregatorTagValue<'p>),
}

impl Parameter<'_> {
    /// Checks that the value can be written.
    pub(super) fn check(&self) -> Result<(), DrainError> {
        match self {
            Self::Text(text) if simdutf8::basic::from_utf8(text).is_err() => {
                Err(DrainError::Encoding)
            }
            Self::Text(_) | Self::Integer(_) | Self::Float(_) | Self::Number(_) => Ok(()),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_escaped(text, out),
            Self::Integer(number) => {
                // Writing to a vector cannot fail.
                let _written = write!(out, "{number}");
            }
            Self::Float(number) => write_float(*number, out),
            Self::Number(number) => number.write(out),
        }
    }
}

/// Writes a time with microseconds, without the zeros at its end: `2026-11-21T19:12:31.3351+00:00`.
pub(super) fn write_time(time_ns: i64, out: &mut Vec<u8>) {
    format_rfc3339_ns(time_ns, out);
    out.truncate(out.len().saturating_sub(BELOW_MICROSECONDS_LEN));
    while out.ends_with(b"0") {
        out.pop();
    }
    if out.ends_with(b".") {
        out.pop();
    }
    out.extend_from_slice(b"+00:00");
}

/// Writes a name as a label of a host name: blanks become one dash, other characters are omitted.
pub(super) fn write_name_part(name: &[u8], bytes_max: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write_without_blanks(name, |byte| byte.is_ascii_alphanumeric() || byte == b'-', out);
    out.truncate(start + bytes_max);
}

/// Writes a source type in upper case: blanks become one dash, and unprintable characters are
/// omitted.
pub(super) fn write_source_type(name: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    write_without_blanks(name, |byte| byte.is_ascii_graphic(), out);
    if let Some(written) = out.get_mut(start..) {
        written.make_ascii_uppercase();
    }
}

/// Writes the allowed characters of a name, with one dash for consecutive blanks, and none at its
/// end.
fn write_without_blanks(name: &[u8], is_allowed: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    let start = out.len();
    let mut is_after_blank = false;
    for &byte in name {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r');
        if is_blank && !is_after_blank {
            out.push(b'-');
        } else if !is_blank && is_allowed(byte) {
            out.push(byte);
        }
        is_after_blank = is_blank;
    }
    while out.len() > start && out.ends_with(b"-") {
        out.pop();
    }
}

/// Begins an element.
pub(super) fn open_element(name: &str, out: &mut Vec<u8>) {
    out.push(b'[');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(ENTERPRISE);
}

/// Returns whether a text may be the name of a parameter. Like the original it allows any length.
pub(super) fn is_parameter_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'=' | b']' | b'"'))
}

/// Writes ` name="value"`.
pub(super) fn write_parameter(name: &[u8], value: &Parameter<'_>, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(b"=\"");
    value.write(out);
    out.push(b'"');
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr3(b'\\', b'"', b']', rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        out.push(b'\\');
        out.extend(special.first());
        rest = special.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Writes a number with the fewest digits that identify it, and with an exponent of at least two
/// digits from 1e+06 and below 0.0001.
fn write_float(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.extend_from_slice(b"NaN");
        return;
    }
    if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"+Inf" } else { b"-Inf" });
        return;
    }
    let start = out.len();
    // Writing to a vector cannot fail.
    let _written = write!(out, "{number:e}");
    let written = out.get(start..).unwrap_or_default();
    let mark = memchr::memrchr(b'e', written).unwrap_or(written.len());
    let digits = written.get(mark + 1..).and_then(|digits| std::str::from_utf8(digits).ok());
    let exponent: i32 = digits.and_then(|digits| digits.parse().ok()).unwrap_or_default();
    if (EXPONENT_MIN..EXPONENT_MAX).contains(&exponent) {
        out.truncate(start);
        let _written = write!(out, "{number}");
        return;
    }
    out.truncate(start + mark);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _written = write!(out, "e{sign}{:02}", exponent.abs());
}
