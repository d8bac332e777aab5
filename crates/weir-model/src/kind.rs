//! Kinds of records, and sets of them.
//!
//! Invariant: a kind has the same number in a frame and in a set, permanently.

use serde::{Deserialize, Serialize};

/// The kind of a record. The body of all kinds except logs is a [`crate::Metric`] as a JSON object.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RecordKind {
    /// A log record.
    #[default]
    Log = 0,
    /// A monotonic sum; its value is the increment.
    Counter = 1,
    /// A value at one point in time.
    Gauge = 2,
    /// A duration in seconds.
    Timer = 3,
    /// A single event, with title and text in the tags.
    Event = 4,
}

impl RecordKind {
    /// All kinds, in order of number.
    pub const ALL: [Self; 5] = [Self::Log, Self::Counter, Self::Gauge, Self::Timer, Self::Event];

    /// Returns the kind with that number; a log if there is none, which does not occur in a frame
    /// whose header was checked.
    pub(crate) fn of_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// A set of kinds, such as those that a frame contains or an output supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// No kinds.
    pub const NONE: Self = Self(0);
    /// Logs.
    pub const LOGS: Self = Self(1);
    /// All kinds.
    pub const ALL: Self = Self((1 << RecordKind::ALL.len()) - 1);

    /// Returns the set with one more kind.
    #[must_use]
    pub const fn with(self, kind: RecordKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns whether the kind is in the set.
    pub fn contains(self, kind: RecordKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns whether any kind is in both sets.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the representation in a frame: bit `n` is the kind with number `n`.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Decodes the result of [`Self::bits`]; the error is the number of an unsupported kind.
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
