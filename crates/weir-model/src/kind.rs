//! What kinds of records there are, and sets of them.
//!
//! Invariant: a kind has the same number in a frame, in a set and for ever.

use serde::{Deserialize, Serialize};

/// What a record is. The body of all but logs is a [`crate::Metric`] as one JSON object.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RecordKind {
    /// A log record.
    #[default]
    Log = 0,
    /// A sum that only grows; its value is the increment.
    Counter = 1,
    /// A level at one moment.
    Gauge = 2,
    /// A duration in seconds.
    Timer = 3,
    /// Something that happened once, with a title and a text in the tags.
    Event = 4,
}

impl RecordKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 5] = [Self::Log, Self::Counter, Self::Gauge, Self::Timer, Self::Event];

    /// The kind of that number; a log where there is none, which a frame whose header was checked
    /// does not have.
    pub(crate) fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// A set of kinds: which a frame holds, which an output carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// None.
    pub const NONE: Self = Self(0);
    /// Logs.
    pub const LOGS: Self = Self(1);
    /// All that there are.
    pub const ALL: Self = Self((1 << RecordKind::ALL.len()) - 1);

    /// These and one more.
    #[must_use]
    pub fn with(self, kind: RecordKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// The kind is one of them.
    pub fn contains(self, kind: RecordKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Any kind is in both.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// As it stands in a frame: bit `n` is the kind with number `n`.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Reads what [`Self::bits`] gave; the error is the number of a kind that there is not.
    pub(crate) fn of_bits(bits: u16) -> Result<Self, u32> {
        let unknown = bits & !Self::ALL.0;
        if unknown == 0 { Ok(Self(bits)) } else { Err(unknown.trailing_zeros()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_reads_back() {
        let some = Kinds::LOGS.with(RecordKind::Timer);
        let held: Vec<RecordKind> =
            RecordKind::ALL.into_iter().filter(|kind| some.contains(*kind)).collect();
        assert_eq!(held, [RecordKind::Log, RecordKind::Timer]);
        assert!(some.intersects(Kinds::LOGS) && !some.intersects(Kinds::NONE));
        assert_eq!(Kinds::of_bits(some.bits()), Ok(some));
        assert_eq!(Kinds::of_bits(Kinds::ALL.bits()), Ok(Kinds::ALL));
        assert_eq!(Kinds::of_bits(1 << 5 | 1 << 7), Err(5));
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::of_number(kind as u8), kind);
        }
    }
}
