//! The wire format of Protocol Buffers: fields of a message, one after the other.
//!
//! Invariants: nothing is copied; a length is compared with the remaining bytes before it is used,
//! so no input makes this allocate or read beyond its end.

/// Maximum number of bytes of a number.
const VARINT_BYTES_MAX: usize = 10;

/// Highest number of a field.
const FIELD_MAX: u64 = (1 << 29) - 1;

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoggregatorError {
    /// It ends within a field.
    #[error("message ends within a field")]
    Truncated,
    /// A number has too many bytes.
    #[error("number is longer than 10 bytes")]
    LongNumber,
    /// A field has an impossible number.
    #[error("invalid field number {0}")]
    FieldNumber(u64),
    /// A field has an unsupported type.
    #[error("unsupported wire type {0}")]
    WireType(u8),
    /// A required field is missing.
    #[error("required field {0} is missing")]
    Missing(&'static str),
    /// Its type is unknown.
    #[error("unknown event type {0}")]
    EventType(u64),
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'b> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
    Fixed32,
}

/// The remaining fields of a message. Ends after an error.
#[derive(Debug, Clone)]
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(super) fn new(message: &'b [u8]) -> Self {
        Self { rest: message }
    }

    /// The unread bytes.
    pub(super) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    #[inline]
    fn read(&mut self) -> Result<(u32, Value<'b>), LoggregatorError> {
        let key = self.number()?;
        let field = key >> 3;
        if field == 0 || field > FIELD_MAX {
            return Err(LoggregatorError::FieldNumber(field));
        }
        let value = match (key & 7) as u8 {
            0 => Value::Number(self.number()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.chunk()?)),
            2 => {
                let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                let split = self.rest.split_at_checked(len);
                let (bytes, rest) = split.ok_or(LoggregatorError::Truncated)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => {
                let _number: [u8; 4] = self.chunk()?;
                Value::Fixed32
            }
            other => return Err(LoggregatorError::WireType(other)),
        };
        Ok((field as u32, value))
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], LoggregatorError> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or(LoggregatorError::Truncated)?;
        self.rest = rest;
        Ok(*chunk)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, LoggregatorError> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Result<u64, LoggregatorError> {
        let mut number = 0;
        for (index, byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            // The last byte has one bit; higher bits are ignored, as by other readers.
            number |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(number);
            }
        }
        Err(if self.rest.len() < VARINT_BYTES_MAX {
            LoggregatorError::Truncated
        } else {
            LoggregatorError::LongNumber
        })
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u32, Value<'b>), LoggregatorError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

/// Appends a number.
pub(super) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a field with a number, unless it is zero.
pub(super) fn put_number_field(field: u64, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        put_number(field << 3, out);
        put_number(number, out);
    }
}

/// Appends a field with bytes, even if there are none.
pub(super) fn put_bytes_field(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_number(field << 3 | 2, out);
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field with a floating-point number, even if it is zero.
pub(super) fn put_double_field(field: u64, number: f64, out: &mut Vec<u8>) {
    put_number(field << 3 | 1, out);
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// Returns the encoded length of a number.
pub(super) fn number_len(number: u64) -> usize {
    (number.max(1).ilog2() as usize / 7) + 1
}

/// Returns the encoded length of a field with a number below 16 and this many bytes.
fn bytes_field_len(len: usize) -> usize {
    1 + number_len(len as u64) + len
}

/// Appends an entry of a map of texts.
pub(super) fn put_entry(field: u64, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_number(field << 3 | 2, out);
    put_number((bytes_field_len(key.len()) + bytes_field_len(value.len())) as u64, out);
    put_bytes_field(1, key, out);
    put_bytes_field(2, value, out);
}

/// Appends a measurement to those of a gauge.
pub(super) fn put_metric(name: &[u8], unit: &[u8], value: f64, out: &mut Vec<u8>) {
    let value_len = bytes_field_len(unit.len()) + 1 + size_of::<f64>();
    put_number(1 << 3 | 2, out);
    put_number((bytes_field_len(name.len()) + bytes_field_len(value_len)) as u64, out);
    put_bytes_field(1, name, out);
    put_number(2 << 3 | 2, out);
    put_number(value_len as u64, out);
    put_bytes_field(1, unit, out);
    put_double_field(2, value, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, LoggregatorError> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn numbers_read_back_and_end_where_they_should() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = vec![8];
            put_number(number, &mut bytes);
            assert_eq!(bytes.len(), 1 + number_len(number));
            assert_eq!(fields(&bytes), Ok(vec![(1, Value::Number(number))]));
            for end in 1..bytes.len() {
                assert_eq!(fields(&bytes[..end]), Err(LoggregatorError::Truncated));
            }
        }
        assert_eq!(fields(&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]), {
            Err(LoggregatorError::LongNumber)
        });
    }

    #[test]
    fn lengths_beyond_the_end_and_unknown_types_are_errors() {
        assert_eq!(fields(&[0x0a, 2, 1]), Err(LoggregatorError::Truncated));
        let huge = [0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(fields(&huge), Err(LoggregatorError::Truncated));
        assert_eq!(fields(&[0x0b]), Err(LoggregatorError::WireType(3)));
        assert_eq!(fields(&[0x00, 1]), Err(LoggregatorError::FieldNumber(0)));
        let known = [0x0d, 1, 2, 3, 4, 0x11, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(fields(&known), Ok(vec![(1, Value::Fixed32), (2, Value::Fixed64(1))]));
    }
}
