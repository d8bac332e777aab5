//! Parquet's encodings, reading: those that segments use.
//!
//! Invariants: no bytes make a reader here panic or allocate more than `count` values; a reader
//! that gives values gives exactly as many as were asked for.

use super::encode::{BLOCK, MINIBLOCK};

/// Numbers from the front of some bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*number))
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

/// Unpacks as many numbers of `width` bits as `out` has room for; `bytes` holds that many.
fn unpack<T>(bytes: &[u8], width: u32, out: &mut [T], of: impl Fn(u64) -> T) {
    let width = width as usize;
    if width == 0 {
        return out.fill_with(|| of(0));
    }
    let mask = u64::MAX >> (64 - width);
    // Most numbers are in the eight bytes that begin where they do.
    let whole = match bytes.len().checked_sub(8) {
        Some(last) if width <= 57 => ((last * 8 + 7) / width + 1).min(out.len()),
        _ => 0,
    };
    let (first, rest) = out.split_at_mut(whole);
    for (index, out) in first.iter_mut().enumerate() {
        let bit = index * width;
        let window = bytes.get(bit / 8..).and_then(<[u8]>::first_chunk);
        let number = window.map_or(0, |window| u64::from_le_bytes(*window));
        *out = of(number >> (bit % 8) & mask);
    }
    for (index, out) in rest.iter_mut().enumerate() {
        let bit = (whole + index) * width;
        let from = bytes.get(bit / 8..).unwrap_or_default();
        let mut window = [0; 16];
        let len = from.len().min(16);
        window[..len].copy_from_slice(&from[..len]);
        *out = of((u128::from_le_bytes(window) >> (bit % 8)) as u64 & mask);
    }
}

/// Appends `count` codes of `width` bits.
pub(super) fn hybrid(bytes: &[u8], width: u32, count: usize, codes: &mut Vec<u32>) -> Option<()> {
    if width > 32 {
        return None;
    }
    let mut reader = Reader::new(bytes);
    let end = codes.len() + count;
    codes.reserve(count);
    while codes.len() < end {
        let header = reader.varint()?;
        let left = end - codes.len();
        if header & 1 == 0 {
            let run = usize::try_from(header >> 1).ok()?.min(left);
            let mut code = [0; 4];
            let len = width.div_ceil(8) as usize;
            code[..len].copy_from_slice(reader.take(len)?);
            if run == 0 {
                return None;
            }
            codes.resize(codes.len() + run, u32::from_le_bytes(code));
        } else {
            let groups = usize::try_from(header >> 1).ok()?;
            let packed = reader.take(groups.checked_mul(width as usize)?)?;
            let count = groups.checked_mul(8)?.min(left);
            if count == 0 {
                return None;
            }
            let start = codes.len();
            codes.resize(start + count, 0);
            unpack(packed, width, &mut codes[start..], |code| code as u32);
        }
    }
    Some(())
}

/// Reads which rows have a value, and leaves the reader behind it.
pub(super) fn levels(reader: &mut Reader<'_>, rows: usize, present: &mut Vec<u32>) -> Option<()> {
    let len = reader.u32()? as usize;
    present.clear();
    hybrid(reader.take(len)?, 1, rows, present)
}

/// Appends `count` whole numbers, and leaves the reader behind them.
pub(super) fn delta_binary(
    reader: &mut Reader<'_>,
    count: usize,
    values: &mut Vec<i64>,
) -> Option<()> {
    let header = [reader.varint()?, reader.varint()?, reader.varint()?];
    if header != [BLOCK as u64, (BLOCK / MINIBLOCK) as u64, count as u64] {
        return None;
    }
    let mut value = reader.zigzag()?;
    let mut done = values.len();
    let end = done + count;
    values.resize(end, 0);
    if count > 0 {
        values[done] = value;
        done += 1;
    }
    while done < end {
        let least = reader.zigzag()?;
        let widths: [u8; BLOCK / MINIBLOCK] = *reader.take(BLOCK / MINIBLOCK)?.first_chunk()?;
        for width in widths {
            let left = (end - done).min(MINIBLOCK);
            if left == 0 {
                break;
            }
            if width > 64 {
                return None;
            }
            let packed = reader.take(MINIBLOCK * usize::from(width) / 8)?;
            let block = &mut values[done..done + left];
            unpack(packed, u32::from(width), block, u64::cast_signed);
            for above in block {
                value = value.wrapping_add(least).wrapping_add(*above);
                *above = value;
            }
            done += left;
        }
    }
    Some(())
}

/// Reads the ends of `count` texts; the texts themselves are what the reader has left.
pub(super) fn delta_length(
    reader: &mut Reader<'_>,
    count: usize,
    lengths: &mut Vec<i64>,
    ends: &mut Vec<u32>,
) -> Option<()> {
    lengths.clear();
    ends.clear();
    delta_binary(reader, count, lengths)?;
    let mut end = 0_usize;
    for len in lengths {
        end = end.checked_add(usize::try_from(*len).ok()?)?;
        ends.push(u32::try_from(end).ok()?);
    }
    (reader.rest().len() == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn codes_come_back(runs in proptest::collection::vec((0_u32..70_000, 1_usize..40), 0..40)) {
            let codes: Vec<u32> =
                runs.into_iter().flat_map(|(code, run)| std::iter::repeat_n(code, run)).collect();
            let width = encode::bit_width(codes.iter().copied().max().unwrap_or(0).into());
            let mut bytes = Vec::new();
            encode::hybrid(&codes, width, &mut bytes);
            let mut found = Vec::new();
            prop_assert!(hybrid(&bytes, width, codes.len(), &mut found).is_some());
            prop_assert_eq!(found, codes);
        }

        #[test]
        fn whole_numbers_come_back(
            values in prop_oneof![
                proptest::collection::vec(any::<i64>(), 0..600),
                proptest::collection::vec(-50_i64..50, 0..600),
            ],
        ) {
            let mut bytes = Vec::new();
            encode::delta_binary(&values, &mut bytes);
            let mut reader = Reader::new(&bytes);
            let mut found = Vec::new();
            prop_assert!(delta_binary(&mut reader, values.len(), &mut found).is_some());
            prop_assert!(reader.rest().is_empty());
            prop_assert_eq!(found, values);
        }

        #[test]
        fn texts_come_back(texts in proptest::collection::vec(".{0,40}", 0..300)) {
            let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let mut bytes = Vec::new();
            encode::delta_length(&texts, &mut bytes);
            let mut reader = Reader::new(&bytes);
            let (mut lengths, mut ends) = (Vec::new(), Vec::new());
            prop_assert!(
                delta_length(&mut reader, texts.len(), &mut lengths, &mut ends).is_some()
            );
            prop_assert_eq!(reader.rest(), texts.concat());
        }

        #[test]
        fn presence_comes_back(present in proptest::collection::vec(any::<bool>(), 0..300)) {
            let mut bytes = Vec::new();
            encode::levels(&present, &mut bytes);
            let mut found = Vec::new();
            let mut reader = Reader::new(&bytes);
            prop_assert!(levels(&mut reader, present.len(), &mut found).is_some());
            prop_assert_eq!(found.iter().map(|l| *l == 1).collect::<Vec<_>>(), present);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, count in 0_usize..2000, width in 0_u32..40) {
            let (mut codes, mut values, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            if hybrid(&bytes, width, count, &mut codes).is_some() {
                prop_assert_eq!(codes.len(), count);
            }
            if delta_binary(&mut Reader::new(&bytes), count, &mut values).is_some() {
                prop_assert_eq!(values.len(), count);
            }
            let _ = delta_length(&mut Reader::new(&bytes), count, &mut values, &mut ends);
        }
    }
}
