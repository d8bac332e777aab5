//! Which columns a frame has, and where each starts.
//!
//! Invariants: the fixed columns come first, followed by those that only some frames have, in order
//! of their bits; an absent column takes no space, and all its cells are zero.

/// Size of the fixed columns of one row: time, position, span of the body, flags.
const FIXED_BYTES: usize = 8 + 4 + 4 + 4 + 1;
/// Where the span columns start, in bytes per row: after time, position and body.
const SPANS_AT: usize = 20;
/// Size of a span, as two columns: offset and length.
const SPAN_BYTES: usize = 8;
const SPANS: u32 =
    Columns::ATTRIBUTES.0 | Columns::ORIGINAL.0 | Columns::PROCESS_ID.0 | Columns::MESSAGE_ID.0;
/// Columns of two bytes.
const WORDS: u32 = Columns::ROUTE.0 | Columns::RESOURCE.0;
/// Columns of one byte, after that of the flags.
const BYTES: u32 = Columns::SEVERITY.0 | Columns::KIND.0 | Columns::FACILITY.0;

/// A set of optional columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Columns(u32);

impl Columns {
    pub(crate) const ATTRIBUTES: Self = Self(1);
    pub(crate) const ORIGINAL: Self = Self(1 << 1);
    pub(crate) const PROCESS_ID: Self = Self(1 << 2);
    pub(crate) const MESSAGE_ID: Self = Self(1 << 3);
    pub(crate) const ROUTE: Self = Self(1 << 4);
    pub(crate) const RESOURCE: Self = Self(1 << 5);
    pub(crate) const SEVERITY: Self = Self(1 << 6);
    pub(crate) const KIND: Self = Self(1 << 7);
    pub(crate) const FACILITY: Self = Self(1 << 8);
    /// Those that records rarely have; records of the tail path have none of them.
    pub(crate) const RARE: Self = Self(
        Self::ORIGINAL.0
            | Self::PROCESS_ID.0
            | Self::MESSAGE_ID.0
            | Self::RESOURCE.0
            | Self::KIND.0
            | Self::FACILITY.0,
    );

    /// Reads the set from a header; the error is the number of a column that this release does not
    /// support.
    pub(crate) fn of_bits(bits: u32) -> Result<Self, u32> {
        let unknown = bits & !(SPANS | WORDS | BYTES);
        if unknown == 0 { Ok(Self(bits)) } else { Err(unknown.trailing_zeros()) }
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set with or without those in `other`.
    pub(crate) fn with_if(self, other: Self, is_there: bool) -> Self {
        Self(self.0 & !other.0 | if is_there { other.0 } else { 0 })
    }

    /// Returns the size of one row in all columns, in bytes.
    pub(crate) fn row_bytes(self) -> usize {
        FIXED_BYTES + self.optional_bytes(u32::MAX)
    }

    /// Returns the size of a row in those of these columns that are in `among`, in bytes.
    fn optional_bytes(self, among: u32) -> usize {
        let count = |which: u32| (self.0 & among & which).count_ones() as usize;
        count(SPANS) * SPAN_BYTES + count(WORDS) * 2 + count(BYTES)
    }

    /// Returns where a fixed or an optional column starts, in bytes per row; spans are two columns.
    #[inline]
    pub(crate) fn place_of(self, column: Self) -> usize {
        let before = self.optional_bytes(column.0 - 1);
        let flags = usize::from(column.0 & BYTES != 0);
        SPANS_AT + before + flags
    }

    /// Returns where the flags start, in bytes per row.
    #[inline]
    pub(crate) fn flags_at(self) -> usize {
        SPANS_AT + self.optional_bytes(SPANS | WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_each_other_without_gaps() {
        for bits in 0..1 << 9 {
            let columns = Columns::of_bits(bits).unwrap();
            let mut at = SPANS_AT;
            for bit in 0..9 {
                let column = Columns(1 << bit);
                if bit == 6 {
                    assert_eq!(columns.flags_at(), at);
                    at += 1;
                }
                if columns.has(column) {
                    assert_eq!(columns.place_of(column), at, "{columns:?} {column:?}");
                    at += match bit {
                        0..4 => 8,
                        4..6 => 2,
                        _ => 1,
                    };
                }
            }
            assert_eq!(columns.row_bytes(), at);
        }
        assert_eq!(Columns::of_bits(1 << 9 | 1), Err(9));
    }
}
