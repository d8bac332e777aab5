//! Encoders for the Parquet encodings that segments use.
//!
//! Format reference: `Encodings.md` of the Parquet project. Bits are packed starting from the
//! lowest bit of each byte.

/// Number of values in a block of [`delta_binary`], and in one of its miniblocks.
pub(super) const BLOCK: usize = 128;
pub(super) const MINIBLOCK: usize = 32;

/// Appends an unsigned number as a varint, seven bits per byte.
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number; small ones of either sign take few bytes.
pub(crate) fn zigzag(number: i64, out: &mut Vec<u8>) {
    varint(((number << 1) ^ (number >> 63)).cast_unsigned(), out);
}

/// Returns the number of bits needed for the number.
pub(super) fn bit_width(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Packs numbers into `width` bits each.
struct Packer<'a> {
    out: &'a mut Vec<u8>,
    bits: u128,
    count: u32,
    width: u32,
}

impl<'a> Packer<'a> {
    fn new(width: u32, out: &'a mut Vec<u8>) -> Self {
        Self { out, bits: 0, count: 0, width }
    }

    #[inline]
    fn push(&mut self, number: u64) {
        self.bits |= u128::from(number) << self.count;
        self.count += self.width;
        if self.count >= 64 {
            self.out.extend_from_slice(&(self.bits as u64).to_le_bytes());
            self.bits >>= 64;
            self.count -= 64;
        }
    }

    fn finish(self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend_from_slice(&(self.bits as u64).to_le_bytes()[..bytes]);
    }
}

/// Appends codes of `width` bits as runs of equal ones and bit-packed groups of eight.
pub(super) fn hybrid(codes: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut packed_from = 0;
    let mut at = 0;
    while at < codes.len() {
        let mut run = codes[at..].iter().take_while(|code| **code == codes[at]).count();
        if run >= 8 {
            // Packed groups must be complete.
            let missing = (at - packed_from).next_multiple_of(8) - (at - packed_from);
            at += missing;
            run -= missing;
        }
        if run >= 8 {
            packed_groups(&codes[packed_from..at], width, out);
            varint((run as u64) << 1, out);
            out.extend_from_slice(&codes[at].to_le_bytes()[..width.div_ceil(8) as usize]);
            packed_from = at + run;
        }
        at += run;
    }
    packed_groups(&codes[packed_from..], width, out);
}

fn packed_groups(codes: &[u32], width: u32, out: &mut Vec<u8>) {
    if codes.is_empty() {
        return;
    }
    let groups = codes.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let mut packer = Packer::new(width, out);
    for code in codes {
        packer.push(u64::from(*code));
    }
    for _ in codes.len()..groups * 8 {
        packer.push(0);
    }
    packer.finish();
}

/// Appends which rows have a value, preceded by the length.
pub(super) fn levels(present: &[bool], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let codes: Vec<u32> = present.iter().map(|is| u32::from(*is)).collect();
    hybrid(&codes, 1, out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Appends the same for rows that all have a value.
pub(super) fn all_levels(rows: usize, out: &mut Vec<u8>) {
    if rows < 8 {
        return levels(&vec![true; rows], out);
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    varint((rows as u64) << 1, out);
    out.push(1);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Appends integers as differences: `DELTA_BINARY_PACKED`.
pub(super) fn delta_binary(values: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(values.len() as u64, out);
    let first = values.first().copied().unwrap_or(0);
    zigzag(first, out);
    let mut previous = first;
    let mut deltas = [0_i64; BLOCK];
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.wrapping_sub(previous);
            previous = *value;
        }
        delta_block(&deltas[..block.len()], out);
    }
}

fn delta_block(deltas: &[i64], out: &mut Vec<u8>) {
    let least = deltas.iter().copied().min().unwrap_or(0);
    zigzag(least, out);
    let above = |delta: &i64| delta.wrapping_sub(least).cast_unsigned();
    let widths_at = out.len();
    out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
    for (index, part) in deltas.chunks(MINIBLOCK).enumerate() {
        let width = bit_width(part.iter().map(above).max().unwrap_or(0));
        out[widths_at + index] = width as u8;
        let mut packer = Packer::new(width, out);
        for delta in part {
            packer.push(above(delta));
        }
        for _ in part.len()..MINIBLOCK {
            packer.push(0);
        }
        packer.finish();
    }
}

/// Appends the lengths of all texts, then all texts: `DELTA_LENGTH_BYTE_ARRAY`.
pub(super) fn delta_length(texts: &[&[u8]], out: &mut Vec<u8>) {
    let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
    delta_binary(&lengths, out);
    for text in texts {
        out.extend_from_slice(text);
    }
}

/// Appends texts, each preceded by its length: `PLAIN`.
pub(super) fn plain_texts<'a>(texts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for text in texts {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

/// Appends one bit for each value: `PLAIN`.
pub(super) fn plain_bools(values: &[bool], out: &mut Vec<u8>) {
    let mut packer = Packer::new(1, out);
    for value in values {
        packer.push(u64::from(*value));
    }
    packer.finish();
}
