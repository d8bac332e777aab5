//! Token buckets of all keys, of records and of bytes, in a table of limited size.
//!
//! Invariants: a key that is not in the table has a full bucket, so forgetting a full bucket
//! changes no decision; if there is no place for a further key, it shares one bucket with all
//! others for which there is none; the time is passed in, and never goes back.

use std::collections::HashMap;
use std::time::Duration;

use super::key::BuildIdentity;
use crate::config::QuotaSettings;

/// Maximum number of places searched for a full bucket before a new key shares a bucket, which
/// limits the time per record in a flood of new keys.
const PROBES_MAX: usize = 8;

/// Capacity and rate of a bucket without a limit. Finite, so that its product with zero is defined.
const UNLIMITED: f64 = f64::MAX;

/// Rate and capacity of buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    records_per_second: f64,
    bytes_per_second: f64,
    records_max: f64,
    bytes_max: f64,
}

/// The remaining tokens of a key. Below zero it is in debt.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    records: f64,
    bytes: f64,
    filled_ns: u64,
}

/// One place of the table.
#[derive(Debug)]
struct Slot {
    key: u64,
    bucket: Bucket,
}

/// The buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    rates: Rates,
    keys_max: usize,
    places: Vec<Slot>,
    by_key: HashMap<u64, u32, BuildIdentity>,
    /// The bucket of all keys for which there is no place.
    shared: Bucket,
    /// Where the next search for a full bucket starts.
    hand: usize,
}

/// The decision on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// There was room for it.
    pub(super) is_there: bool,
    /// The key has no bucket of its own.
    pub(super) is_shared: bool,
}

impl Rates {
    pub(super) fn new(settings: &QuotaSettings) -> Self {
        let burst = settings.burst.as_secs_f64();
        let max = |rate: Option<f64>| rate.map_or(UNLIMITED, |rate| (rate * burst).max(1.0));
        Self {
            records_per_second: settings.records_per_second.unwrap_or(UNLIMITED),
            bytes_per_second: settings.bytes_per_second.unwrap_or(UNLIMITED),
            records_max: max(settings.records_per_second),
            bytes_max: max(settings.bytes_per_second),
        }
    }

    fn full(&self, now_ns: u64) -> Bucket {
        Bucket { records: self.records_max, bytes: self.bytes_max, filled_ns: now_ns }
    }
}

impl Bucket {
    fn fill(&mut self, rates: &Rates, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        self.records = (self.records + seconds * rates.records_per_second).min(rates.records_max);
        self.bytes = (self.bytes + seconds * rates.bytes_per_second).min(rates.bytes_max);
        self.filled_ns = now_ns.max(self.filled_ns);
    }

    /// Returns whether a record may pass. A record larger than the remaining tokens passes too and
    /// puts the key in debt: otherwise a record larger than the burst could never pass.
    fn has_room(&self) -> bool {
        self.records >= 1.0 && self.bytes >= 1.0
    }

    fn is_full(&self, rates: &Rates) -> bool {
        self.records >= rates.records_max && self.bytes >= rates.bytes_max
    }

    fn take(&mut self, records: u64, bytes: u64) {
        self.records -= records as f64;
        self.bytes -= bytes as f64;
    }

    /// Returns how long it takes until there is room.
    fn wait(&self, rates: &Rates) -> Duration {
        let of = |has: f64, rate: f64| ((1.0 - has) / rate).max(0.0);
        let seconds = of(self.records, rates.records_per_second);
        let seconds = seconds.max(of(self.bytes, rates.bytes_per_second));
        // At least the precision of the clock, so that there is room afterwards.
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        if self.has_room() { Duration::ZERO } else { wait.saturating_add(Duration::from_nanos(1)) }
    }
}

impl Buckets {
    /// Creates a table for at most `keys_max` keys.
    pub(super) fn new(rates: Rates, keys_max: usize) -> Self {
        Self {
            rates,
            keys_max,
            places: Vec::new(),
            by_key: HashMap::default(),
            shared: rates.full(0),
            hand: 0,
        }
    }

    /// Charges a record to the bucket of its key if there is room, or in any case if
    /// `may_overdraw`.
    #[inline]
    pub(super) fn take(&mut self, key: u64, bytes: u64, now_ns: u64, may_overdraw: bool) -> Room {
        let rates = self.rates;
        let (bucket, is_shared) = self.bucket(key, now_ns);
        bucket.fill(&rates, now_ns);
        let is_there = bucket.has_room();
        if is_there || may_overdraw {
            bucket.take(1, bytes);
        }
        Room { is_there, is_shared }
    }

    /// Refunds the charges of records that were not accepted after all.
    pub(super) fn give_back(&mut self, key: u64, records: u64, bytes: u64) {
        let rates = self.rates;
        let bucket = match self.by_key.get(&key) {
            Some(place) => &mut self.places[*place as usize].bucket,
            None => &mut self.shared,
        };
        bucket.records = (bucket.records + records as f64).min(rates.records_max);
        bucket.bytes = (bucket.bytes + bytes as f64).min(rates.bytes_max);
    }

    /// Returns how long it takes until there is room for a record of this key.
    pub(super) fn wait(&mut self, key: u64, now_ns: u64) -> (Duration, Room) {
        let rates = self.rates;
        let (bucket, is_shared) = self.bucket(key, now_ns);
        bucket.fill(&rates, now_ns);
        let room = Room { is_there: bucket.has_room(), is_shared };
        (bucket.wait(&rates), room)
    }

    #[inline]
    fn bucket(&mut self, key: u64, now_ns: u64) -> (&mut Bucket, bool) {
        let place = self.by_key.get(&key).copied().or_else(|| self.add(key, now_ns));
        match place {
            Some(place) => (&mut self.places[place as usize].bucket, false),
            None => (&mut self.shared, true),
        }
    }

    #[cfg(test)]
    pub(super) fn is_limited_to(&self, keys_max: usize) -> bool {
        self.places.len() <= keys_max && self.by_key.len() == self.places.len()
    }

    /// Finds a place for a new key; `None` if there is none.
    #[cold]
    fn add(&mut self, key: u64, now_ns: u64) -> Option<u32> {
        let bucket = self.rates.full(now_ns);
        let place = if self.places.len() < self.keys_max {
            self.places.push(Slot { key, bucket });
            self.places.len() - 1
        } else {
            let place = self.full_place(now_ns)?;
            let old = std::mem::replace(&mut self.places[place], Slot { key, bucket });
            self.by_key.remove(&old.key);
            place
        };
        self.by_key.insert(key, place as u32);
        Some(place as u32)
    }

    /// Returns a place whose bucket is full, so that it can be reused.
    fn full_place(&mut self, now_ns: u64) -> Option<usize> {
        for _ in 0..PROBES_MAX.min(self.places.len()) {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.places.len();
            let bucket = &mut self.places[index].bucket;
            bucket.fill(&self.rates, now_ns);
            if bucket.is_full(&self.rates) {
                return Some(index);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
