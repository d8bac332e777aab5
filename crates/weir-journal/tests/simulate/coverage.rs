//! Which faults occurred in which states of the journal, and how often: a simulator that never
//! reaches the state in which a bug shows proves nothing about it.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

/// States that affect what is lost; several can apply at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Every destination has everything.
    Settled,
    /// One destination has everything, another does not.
    Apart,
    /// All are behind.
    Behind,
    /// Frames are in segments.
    OnDisk,
    /// A destination is not configured.
    Absent,
    /// A destination takes nothing.
    Hangs,
    /// The journal reports a disk error.
    DiskFails,
    /// Rows were lost and counted since the start.
    Lost,
    /// The process is not running.
    Down,
}

const CONDITIONS: [Condition; 9] = [
    Condition::Settled,
    Condition::Apart,
    Condition::Behind,
    Condition::OnDisk,
    Condition::Absent,
    Condition::Hangs,
    Condition::DiskFails,
    Condition::Lost,
    Condition::Down,
];

/// Counts by fault and condition.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<&'static str, (u64, BTreeMap<Condition, u64>)>);

impl Coverage {
    pub(crate) fn note(&mut self, fault: &'static str, conditions: &[Condition]) {
        let (all, met) = self.0.entry(fault).or_default();
        *all += 1;
        for condition in conditions {
            *met.entry(*condition).or_default() += 1;
        }
    }

    /// Returns how often a fault occurred in this condition.
    pub(crate) fn met(&self, fault: &str, condition: Condition) -> u64 {
        let met = self.0.get(fault).and_then(|(_, met)| met.get(&condition));
        met.copied().unwrap_or_default()
    }
}

impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:<24}{:>9}", "fault", "all")?;
        for condition in CONDITIONS {
            write!(f, "{:>10}", format!("{condition:?}"))?;
        }
        for (fault, (all, _)) in &self.0 {
            write!(f, "\n{fault:<24}{all:>9}")?;
            for condition in CONDITIONS {
                write!(f, "{:>10}", self.met(fault, condition))?;
            }
        }
        Ok(())
    }
}
