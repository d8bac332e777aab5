//! Decoders for the Parquet encodings that segments use.
//!
//! Invariants: no input makes a reader panic or allocate more than `count` values; a reader that
//! returns values returns exactly as many as requested.

use super::encode::{BLOCK, MINIBLOCK};

/// Reads numbers from the front of a byte slice.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the unread bytes.
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

/// How many numbers are unpacked at once.
const BLOCK_LEN: usize = MINIBLOCK;

/// Numbers up to this width fit into the eight bytes starting at their first byte.
const WINDOW_BITS: u32 = 57;

/// Returns the bits from `bit` on, at least [`WINDOW_BITS`] of them; zeros beyond the end.
#[inline]
pub(super) fn window(bytes: &[u8], bit: usize) -> u64 {
    let from = bytes.get(bit / 8..).unwrap_or_default();
    let bytes = from.first_chunk().copied().unwrap_or_else(|| {
        let mut last = [0; 8];
        last[..from.len()].copy_from_slice(from);
        last
    });
    u64::from_le_bytes(bytes) >> (bit % 8)
}

/// Unpacks a block of numbers of `WIDTH` bits. With all offsets known at compile time, each number
/// takes a load, a shift and a mask.
fn unpack_block<const WIDTH: usize>(bytes: &[u8], out: &mut [u64; BLOCK_LEN]) {
    let Some(bytes) = bytes.get(..(BLOCK_LEN - 1) * WIDTH / 8 + 8) else { return };
    let mask = u64::MAX >> (64 - WIDTH);
    for (index, out) in out.iter_mut().enumerate() {
        let bit = index * WIDTH;
        let window = bytes.get(bit / 8..bit / 8 + 8).and_then(<[u8]>::first_chunk);
        *out = window.map_or(0, |window| u64::from_le_bytes(*window)) >> (bit % 8) & mask;
    }
}

type Unpack = fn(&[u8], &mut [u64; BLOCK_LEN]);

/// Returns the function that unpacks blocks of numbers of this width.
fn unpacker(width: u32) -> Option<Unpack> {
    macro_rules! widths {
        ($($width:literal)*) => {
            match width {
                $($width => Some(unpack_block::<$width> as Unpack),)*
                _ => None,
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

/// Unpacks numbers of `width` bits, at most 64, from the front of the bytes; zeros beyond their
/// end.
#[inline]
fn unpack(bytes: &[u8], width: u32, block: &mut [u64; BLOCK_LEN]) {
    match unpacker(width) {
        Some(unpack_block) if bytes.len() >= BLOCK_LEN * 4 + 8 => unpack_block(bytes, block),
        Some(unpack_block) => {
            let mut padded = [0; BLOCK_LEN * 4 + 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            unpack_block(&padded, block);
        }
        None => {
            for (index, out) in block.iter_mut().enumerate() {
                *out = number_at(bytes, index * width as usize, width);
            }
        }
    }
}

/// Returns the number of `width` bits, at most 64, that starts at a bit.
pub(super) fn number_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let low = window(bytes, bit);
    let bits = if width > WINDOW_BITS {
        low & ((1 << WINDOW_BITS) - 1) | window(bytes, bit + WINDOW_BITS as usize) << WINDOW_BITS
    } else {
        low
    };
    bits & u64::MAX >> (64 - width)
}

/// A run of consecutive codes.
pub(super) struct Run<'a> {
    pub(super) count: usize,
    /// The packed codes; `None` = all are `code`.
    pub(super) packed: Option<&'a [u8]>,
    pub(super) code: u32,
}

impl<'a> Reader<'a> {
    /// Reads the next run of codes of `width` bits, limited to `most` codes.
    pub(super) fn run(&mut self, width: u32, most: usize) -> Option<Run<'a>> {
        if width > 32 {
            return None;
        }
        let header = self.varint()?;
        let count = usize::try_from(header >> 1).ok()?;
        let run = if header & 1 == 0 {
            let mut code = [0; 4];
            let len = width.div_ceil(8) as usize;
            code[..len].copy_from_slice(self.take(len)?);
            Run { count: count.min(most), packed: None, code: u32::from_le_bytes(code) }
        } else {
            let packed = self.take(count.checked_mul(width as usize)?)?;
            Run { count: count.checked_mul(8)?.min(most), packed: Some(packed), code: 0 }
        };
        (run.count > 0).then_some(run)
    }
}

/// Appends `count` codes of `width` bits.
pub(super) fn hybrid(bytes: &[u8], width: u32, count: usize, codes: &mut Vec<u32>) -> Option<()> {
    let mut reader = Reader::new(bytes);
    let end = codes.len() + count;
    codes.reserve(count);
    while codes.len() < end {
        let run = reader.run(width, end - codes.len())?;
        match run.packed {
            None => codes.resize(codes.len() + run.count, run.code),
            Some(packed) => {
                let mut block = [0; BLOCK_LEN];
                for first in (0..run.count).step_by(BLOCK_LEN) {
                    let from = packed.get(first * width as usize / 8..).unwrap_or_default();
                    unpack(from, width, &mut block);
                    let len = (run.count - first).min(BLOCK_LEN);
                    codes.extend(block[..len].iter().map(|code| *code as u32));
                }
            }
        }
    }
    Some(())
}

/// Returns whether [`hybrid`] would find that many codes.
pub(super) fn is_hybrid(bytes: &[u8], width: u32, count: usize) -> bool {
    let mut reader = Reader::new(bytes);
    let mut left = count;
    while left > 0 {
        match reader.run(width, left) {
            Some(run) => left -= run.count,
            None => return false,
        }
    }
    true
}

/// Reads which rows have a value, and advances the reader past them; `present` is empty when all
/// have one. Returns how many have one.
pub(super) fn levels(
    reader: &mut Reader<'_>,
    rows: usize,
    present: &mut Vec<u32>,
) -> Option<usize> {
    let len = reader.u32()? as usize;
    let bytes = reader.take(len)?;
    present.clear();
    let first = Reader::new(bytes).run(1, rows);
    if first.is_some_and(|run| run.packed.is_none() && run.code == 1 && run.count == rows) {
        return Some(rows);
    }
    hybrid(bytes, 1, rows, present)?;
    let count = present.iter().map(|level| *level as usize).sum();
    if count == rows {
        present.clear();
    }
    Some(count)
}

/// Reads `count` integers, replacing the content of `values`, and advances the reader past them.
pub(super) fn delta_binary(
    reader: &mut Reader<'_>,
    count: usize,
    values: &mut Vec<i64>,
) -> Option<()> {
    let header = [reader.varint()?, reader.varint()?, reader.varint()?];
    if header != [BLOCK as u64, (BLOCK / MINIBLOCK) as u64, count as u64] {
        return None;
    }
    // All of them are overwritten, so old values need not be zeroed.
    values.resize(count, 0);
    let mut value = reader.zigzag()?;
    let Some((first, mut left)) = values.split_first_mut() else { return Some(()) };
    *first = value;
    let mut block = [0; MINIBLOCK];
    while !left.is_empty() {
        let least = reader.zigzag()?;
        let widths: [u8; BLOCK / MINIBLOCK] = *reader.take(BLOCK / MINIBLOCK)?.first_chunk()?;
        for width in widths {
            if left.is_empty() {
                break;
            }
            if width > 64 {
                return None;
            }
            // There is more data after them, which allows all to be read as whole words.
            unpack(reader.rest(), u32::from(width), &mut block);
            reader.take(MINIBLOCK * usize::from(width) / 8)?;
            let (values, after) = left.split_at_mut(left.len().min(MINIBLOCK));
            for (out, above) in values.iter_mut().zip(&block) {
                value = value.wrapping_add(least.wrapping_add(above.cast_signed()));
                *out = value;
            }
            left = after;
        }
    }
    Some(())
}

/// Reads the end offsets of `count` texts; the texts themselves are the unread bytes.
pub(super) fn delta_length(
    reader: &mut Reader<'_>,
    count: usize,
    lengths: &mut Vec<i64>,
    ends: &mut Vec<u32>,
) -> Option<()> {
    ends.clear();
    ends.reserve(count);
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
        fn codes_round_trip(runs in proptest::collection::vec((0_u32..70_000, 1_usize..40), 0..40)) {
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
        fn integers_round_trip(
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
        fn texts_round_trip(texts in proptest::collection::vec(".{0,40}", 0..300)) {
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
        fn presence_round_trips(present in proptest::collection::vec(any::<bool>(), 0..300)) {
            let mut bytes = Vec::new();
            encode::levels(&present, &mut bytes);
            let mut found = Vec::new();
            let mut reader = Reader::new(&bytes);
            let count = levels(&mut reader, present.len(), &mut found);
            prop_assert_eq!(count, Some(present.iter().filter(|is| **is).count()));
            if present.contains(&false) {
                prop_assert_eq!(found.iter().map(|l| *l == 1).collect::<Vec<_>>(), present);
            } else {
                prop_assert!(found.is_empty());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, count in 0_usize..2000, width in 0_u32..40) {
            let (mut codes, mut values, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            let is_whole = hybrid(&bytes, width, count, &mut codes).is_some();
            prop_assert_eq!(is_whole, is_hybrid(&bytes, width, count));
            if is_whole {
                prop_assert_eq!(codes.len(), count);
            }
            if delta_binary(&mut Reader::new(&bytes), count, &mut values).is_some() {
                prop_assert_eq!(values.len(), count);
            }
            let _ = delta_length(&mut Reader::new(&bytes), count, &mut values, &mut ends);
        }
    }
}
