//! Quotas by key: how much a host, program or sender may send to a listener.
//!
//! Modules: `key` (the key of a quota), `bucket` (whether a record may pass), `offenders` (counts
//! of keys above their limit, and when they are reported), `notice` (the report as a record).
//!
//! Invariants: decisions depend on the records and times that are passed in, and on nothing else;
//! each record costs one table lookup, without an allocation for a known key; everything is of
//! limited size ([`KEYS_MAX`]).

mod bucket;
mod key;
mod notice;
mod offenders;

use std::time::Duration;

use weir_host::units::approx_size;

pub(in crate::source) use key::{BuildIdentity, KeyFields, KeyName, Origin};
pub(in crate::source) use notice::NoticeRecord;

use bucket::{Buckets, Rates};
use offenders::Offenders;

use super::limits::QUOTA_KEYS_MAX as KEYS_MAX;
use crate::config::QuotaSettings;
use crate::stats::{LimitedCounts, RateLimitReport};

/// The key for the counts of all keys that share a bucket. As a hash it is as improbable as any
/// other number.
const SHARED: u64 = 0;

/// The quotas of one listener.
#[derive(Debug)]
pub(super) struct Quota {
    buckets: Buckets,
    offenders: Offenders,
    discards: bool,
    /// The limit in words.
    limit: String,
    /// Number of written notices.
    notices: u64,
}

/// A record exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Over {
    /// The key to count it for.
    pub(super) key: u64,
    /// When there is room again: zero if the record is discarded.
    pub(super) wait: Duration,
}

impl Quota {
    pub(super) fn new(settings: &QuotaSettings) -> Self {
        Self::with_keys(settings, KEYS_MAX)
    }

    fn with_keys(settings: &QuotaSettings, keys_max: usize) -> Self {
        let records = settings.records_per_second.map(|rate| format!("{rate} records/s"));
        let bytes = settings.bytes_per_second.map(|rate| format!("{}/s", approx_size(rate as u64)));
        let limits: Vec<String> = records.into_iter().chain(bytes).collect();
        Self {
            buckets: Buckets::new(Rates::new(settings), keys_max),
            offenders: Offenders::default(),
            discards: settings.discards,
            limit: format!("limit {}", limits.join(" and ")),
            notices: 0,
        }
    }

    /// Charges a record of a key, unless it must be discarded; `None` if it is within the limit.
    #[inline]
    pub(super) fn take(&mut self, key: u64, bytes: usize, now_ns: u64) -> Option<Over> {
        let room = self.buckets.take(key, bytes as u64, now_ns, !self.discards);
        if room.is_there {
            return None;
        }
        let wait = if self.discards { Duration::ZERO } else { self.buckets.wait(key, now_ns).0 };
        Some(Over { key: if room.is_shared { SHARED } else { key }, wait })
    }

    /// Checks whether there is room for a record of a key; `None` if there is.
    pub(super) fn look(&mut self, key: u64, now_ns: u64) -> Option<Over> {
        let (wait, room) = self.buckets.wait(key, now_ns);
        let key = if room.is_shared { SHARED } else { key };
        (!room.is_there).then_some(Over { key, wait })
    }

    /// Refunds the charges of records that were not accepted after all.
    pub(super) fn give_back(&mut self, key: u64, records: u64, bytes: u64) {
        self.buckets.give_back(key, records, bytes);
    }

    /// Remembers the name of a key to be counted, as in [`Over`].
    pub(super) fn remember(&mut self, key: u64, name: impl FnOnce() -> KeyName) {
        let name = || if key == SHARED { KeyName::shared() } else { name() };
        self.offenders.remember(key, name);
    }

    /// Counts records above the limit of a key, as in [`Over`].
    pub(super) fn count(&mut self, key: u64, counts: &LimitedCounts, now_ns: u64) {
        self.offenders.count(key, counts, now_ns);
    }

    /// Counts records above the limit whose key is no longer known.
    pub(super) fn count_unnamed(&mut self, counts: &LimitedCounts) {
        self.offenders.count_unnamed(counts);
    }

    /// Returns whether any key exceeds its limit.
    pub(super) fn has_episode(&self) -> bool {
        self.offenders.has_episode()
    }

    /// Returns the notices that are due, as records of this time. With `is_last`, all episodes end.
    pub(super) fn notices(
        &mut self,
        now_ns: u64,
        unix_ns: i64,
        is_last: bool,
    ) -> Vec<NoticeRecord> {
        let due = self.offenders.notices(now_ns, is_last);
        due.iter().map(|notice| notice.record(&self.limit, self.discards, unix_ns)).collect()
    }

    /// Counts notices that were written.
    pub(super) fn count_notices(&mut self, count: usize) {
        self.notices += count as u64;
    }

    /// Returns the counts so far.
    pub(super) fn report(&self) -> RateLimitReport {
        RateLimitReport {
            limit: self.limit.clone(),
            discards: self.discards,
            notices: self.notices,
            ..self.offenders.report()
        }
    }
}

#[cfg(test)]
mod tests;
