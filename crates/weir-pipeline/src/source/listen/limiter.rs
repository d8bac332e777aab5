//! Enforces quotas by key for all transports of a listener: adds the clock, waiting and reports to
//! [`Quota`].
//!
//! Records above the limit that cannot or must not be delayed are counted as discarded. Otherwise a
//! connection whose records exceed the limit is not read until its debt is paid off, while all
//! others continue; an HTTP request is refused before any of its records are accepted.
//!
//! Invariants: a record that is discarded is in the source's book, and in the counts of its key;
//! charges for records that were not appended in the end are given back; notices and statistics are
//! written by [`Limiter::run_gathered`] and [`Limiter::run_acknowledged`] alone, never while a
//! record is taken.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use weir_host::Clock;
use weir_model::{AbandonReason, BatchBuilder, DiscardReason, Full, SourceBook};

use super::lanes::{AcknowledgedLanes, Blocked, GatheredLanes, LaneContext, Refusal};
use super::limits::{PUBLISH_PAUSE, WAIT_SLICE};
use super::quota::{KeyFields, KeyName, NoticeRecord, Over, Quota};
use crate::config::QuotaSettings;
use crate::stats::{LimitedCounts, SourceStats};

/// Maximum number of keys that are tracked for one request, or one read of RELP. If a request with
/// more keys is refused, the charges of the others are not given back, and their records above the
/// limit are counted without a key.
const CLAIM_KEYS_MAX: usize = 64;

/// The quotas of a listener, which all of its threads share: the limit of a sender applies to all
/// of its connections.
#[derive(Debug)]
pub(in crate::source) struct SharedQuota {
    quota: Mutex<Quota>,
    /// Notified when a record exceeds its quota: one of the threads reports that.
    changed: Notify,
}

/// The quotas of a listener, with the clock and statistics of one of its threads.
#[derive(Debug)]
pub(in crate::source) struct Limiter {
    shared: Arc<SharedQuota>,
    discards: bool,
    fields: KeyFields,
    clock: Arc<dyn Clock>,
    stats: Arc<SourceStats>,
}

/// A parsed record that is not yet in a batch, and its producer.
pub(in crate::source) trait Incoming {
    /// Returns a hash of its origin: records with the same hash stay in order.
    fn lane_hash(&self) -> u64;

    /// Returns the key of its quota.
    fn quota_key(&self) -> u64;

    /// Returns the name of that key.
    fn quota_name(&self) -> KeyName;

    /// Length of the message, in bytes.
    fn len(&self) -> usize;

    /// Counts it as discarded for its quota.
    fn discard(&self, book: &mut SourceBook) {
        book.lines += 1;
        book.discard(DiscardReason::RateLimit, 1);
        book.bytes_read += self.len() as u64;
        book.abandon(AbandonReason::LineTooLong, self.skipped_bytes());
    }

    /// Returns the number of bytes that were truncated from the message.
    fn skipped_bytes(&self) -> u64 {
        0
    }

    /// Adds it to a batch as the record that ends at `end_offset`, and counts it.
    fn push(
        &mut self,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full>;
}

/// The quota decisions on one read of a connection without acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Round {
    now_ns: u64,
    /// Discarded records.
    limited: SourceBook,
    /// Pause before the next read of its connection.
    wait: Option<Wait>,
}

/// A pause of a connection, and the key that caused it. Ordered by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    until_ns: u64,
    key: u64,
}

/// Records of one key, with their charges.
#[derive(Debug, Clone, Copy)]
struct KeyClaim {
    key: u64,
    records: u64,
    bytes: u64,
}

/// The charges of the records of a request. Unless it is settled, everything is given back.
#[derive(Debug)]
pub(in crate::source) struct Claim {
    limiter: Rc<Limiter>,
    now_ns: u64,
    taken: Vec<KeyClaim>,
    /// Records above the limit.
    over: Vec<KeyClaim>,
    /// Of keys beyond [`CLAIM_KEYS_MAX`].
    unnamed: KeyClaim,
    wait: Option<Wait>,
}

impl SharedQuota {
    pub(super) fn new(settings: &QuotaSettings) -> Arc<Self> {
        Arc::new(Self { quota: Mutex::new(Quota::new(settings)), changed: Notify::new() })
    }
}

impl Limiter {
    pub(super) fn new(
        settings: &QuotaSettings,
        shared: Arc<SharedQuota>,
        context: &LaneContext,
    ) -> Rc<Self> {
        let limiter = Self {
            shared,
            discards: settings.discards,
            fields: KeyFields::new(&settings.by),
            clock: Arc::clone(&context.clock),
            stats: Arc::clone(&context.stats),
        };
        limiter.publish();
        Rc::new(limiter)
    }

    fn quota(&self) -> MutexGuard<'_, Quota> {
        self.shared.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fields that make up a key; none without a limiter.
    pub(super) fn fields_of(limiter: Option<&Rc<Self>>) -> KeyFields {
        limiter.map(|limiter| limiter.fields.clone()).unwrap_or_default()
    }

    /// Returns the fields that make up a key.
    pub(in crate::source) fn fields(&self) -> &KeyFields {
        &self.fields
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Begins a read.
    pub(super) fn round(&self) -> Round {
        Round { now_ns: self.now_ns(), ..Round::default() }
    }

    /// Takes a record that is not acknowledged, or counts it as discarded.
    pub(super) fn push(
        &self,
        lanes: &GatheredLanes,
        parsed: &mut impl Incoming,
        round: &mut Round,
    ) -> Result<(), Blocked> {
        let (key, bytes, now_ns) = (parsed.quota_key(), parsed.len(), round.now_ns);
        let over = self.quota().take(key, bytes, now_ns);
        if self.discards
            && let Some(over) = over
        {
            parsed.discard(&mut round.limited);
            self.count(&over, || parsed.quota_name(), bytes as u64, now_ns);
            return Ok(());
        }
        let lane = GatheredLanes::lane_of(parsed.lane_hash());
        let pushed = lanes.push(lane, |batch, end, book| parsed.push(batch, end, book));
        match (pushed, over) {
            (Err(Blocked), _) => self.quota().give_back(key, 1, bytes as u64),
            (Ok(()), None) => {}
            (Ok(()), Some(over)) => {
                self.count(&over, || parsed.quota_name(), bytes as u64, now_ns);
                Wait::extend(&mut round.wait, &over, now_ns);
            }
        }
        pushed
    }

    /// Counts a record above the limit that was discarded, or accepted.
    fn count(&self, over: &Over, name: impl FnOnce() -> KeyName, bytes: u64, now_ns: u64) {
        let mut quota = self.quota();
        quota.remember(over.key, name);
        let claim = KeyClaim { key: over.key, records: 1, bytes };
        let counts = claim.counts(self.discards);
        quota.count(over.key, &counts, now_ns);
        self.shared.changed.notify_one();
    }

    /// Waits until a connection may be read again; if it is cancelled, the rest of the wait
    /// remains. Returns whether there was anything to wait for.
    pub(super) async fn wait(&self, wait: &mut Option<Wait>) -> bool {
        let has_wait = wait.is_some();
        while let Some(Wait { key, until_ns }) = *wait {
            let before_ns = self.now_ns();
            let left = Duration::from_nanos(until_ns.saturating_sub(before_ns));
            if left.is_zero() {
                *wait = None;
                break;
            }
            sleep(left.min(WAIT_SLICE)).await;
            let now_ns = self.now_ns();
            let delayed_ns = now_ns.saturating_sub(before_ns);
            let counts = LimitedCounts { delayed_ns, ..LimitedCounts::default() };
            self.quota().count(key, &counts, now_ns);
            self.shared.changed.notify_one();
        }
        has_wait
    }

    /// Begins a request, or a read of RELP.
    pub(in crate::source) fn claim(self: &Rc<Self>) -> Claim {
        Claim {
            limiter: Rc::clone(self),
            now_ns: self.now_ns(),
            taken: Vec::new(),
            over: Vec::new(),
            unnamed: KeyClaim { key: 0, records: 0, bytes: 0 },
            wait: None,
        }
    }

    /// Appends notices to gathered lanes, and publishes statistics; never returns.
    pub(super) async fn run_gathered(&self, lanes: &GatheredLanes) {
        loop {
            for notice in self.notices(false) {
                while self.write(lanes, &notice).is_err() {
                    lanes.room().await;
                }
            }
            lanes.append_counts();
            self.publish();
            self.pause().await;
        }
    }

    /// Writes the last notices, if the journal has room for them.
    pub(super) fn finish_gathered(&self, lanes: &GatheredLanes) {
        for notice in self.notices(true) {
            if self.write(lanes, &notice).is_err() {
                break;
            }
        }
        self.publish();
    }

    fn write(&self, lanes: &GatheredLanes, notice: &NoticeRecord) -> Result<(), Blocked> {
        let lane = GatheredLanes::lane_of(notice.host_hash);
        lanes.push(lane, |batch, end, book| notice.push(batch, end, book))?;
        lanes.mark_received();
        self.quota().count_notices(1);
        Ok(())
    }

    /// The same for acknowledged lanes. A notice is dropped if there is no room for long: the next
    /// one and the books contain the same counts.
    pub(super) async fn run_acknowledged(&self, lanes: &AcknowledgedLanes) {
        loop {
            let notices = self.notices(false);
            if !notices.is_empty() && append(lanes, &notices).await.is_ok() {
                self.quota().count_notices(notices.len());
            }
            self.publish();
            self.pause().await;
        }
    }

    fn notices(&self, is_last: bool) -> Vec<NoticeRecord> {
        self.quota().notices(self.now_ns(), self.clock.unix_ns(), is_last)
    }

    /// Waits until there may be something to report.
    async fn pause(&self) {
        let has_episode = self.quota().has_episode();
        if has_episode {
            sleep(PUBLISH_PAUSE).await;
        } else {
            self.shared.changed.notified().await;
        }
    }

    /// Publishes the statistics.
    pub(super) fn publish(&self) {
        self.stats.listener.rate_limit.publish(self.quota().report());
    }
}

/// Appends notices and waits for the disk.
async fn append(lanes: &AcknowledgedLanes, notices: &[NoticeRecord]) -> Result<(), Refusal> {
    let turn = lanes.enter(0).await?;
    let prepared = lanes.prepare(&turn, notices.len(), &mut |index, batch, end, book| {
        notices[index].push(batch, end, book)
    })?;
    lanes.append(turn, prepared).await
}

impl Round {
    /// Counts records discarded since the last call. Must be called before the next await.
    pub(super) fn count(&mut self, lanes: &GatheredLanes) {
        if self.limited.lines > 0 {
            lanes.count_limited(&self.limited);
            self.limited = SourceBook::default();
        }
    }

    /// Returns the pause before the next read of the connection.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.wait
    }
}

impl Wait {
    fn extend(wait: &mut Option<Self>, over: &Over, now_ns: u64) {
        let wait_ns = u64::try_from(over.wait.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = now_ns.saturating_add(wait_ns);
        *wait = (*wait).max(Some(Self { until_ns, key: over.key }));
    }
}

impl KeyClaim {
    fn counts(&self, is_discarded: bool) -> LimitedCounts {
        let Self { records, bytes, .. } = *self;
        let none = LimitedCounts::default();
        if is_discarded {
            LimitedCounts { discarded_records: records, discarded_bytes: bytes, ..none }
        } else {
            LimitedCounts { delayed_records: records, delayed_bytes: bytes, ..none }
        }
    }

    /// Adds a record to the claim of its key. Returns false if there are too many keys.
    fn add(claims: &mut Vec<Self>, key: u64, bytes: u64) -> bool {
        // Most records of a request have the key of the previous one.
        match claims.iter().rposition(|claim| claim.key == key) {
            Some(index) => {
                claims[index].records += 1;
                claims[index].bytes += bytes;
            }
            None if claims.len() < CLAIM_KEYS_MAX => claims.push(Self { key, records: 1, bytes }),
            None => return false,
        }
        true
    }
}

impl Claim {
    /// Charges a record. Returns whether it must be discarded.
    pub(in crate::source) fn take(
        &mut self,
        key: u64,
        bytes: usize,
        name: impl FnOnce() -> KeyName,
    ) -> bool {
        let mut quota = self.limiter.quota();
        let over = quota.take(key, bytes, self.now_ns);
        let is_discarded = over.is_some() && self.limiter.discards;
        if !is_discarded {
            KeyClaim::add(&mut self.taken, key, bytes as u64);
        }
        if let Some(over) = over {
            quota.remember(over.key, name);
            if !KeyClaim::add(&mut self.over, over.key, bytes as u64) {
                self.unnamed.records += 1;
                self.unnamed.bytes += bytes as u64;
            }
            if !is_discarded {
                Wait::extend(&mut self.wait, &over, self.now_ns);
            }
        }
        is_discarded
    }

    /// Returns whether requests are refused as a whole if one of their keys has no room.
    pub(in crate::source) fn refuses(&self) -> bool {
        !self.limiter.discards
    }

    /// Checks a record without charging it. If there is no room, counts it as refused and returns
    /// when there is room again.
    pub(in crate::source) fn look(
        &self,
        key: u64,
        bytes: usize,
        name: impl FnOnce() -> KeyName,
    ) -> Option<Duration> {
        let mut quota = self.limiter.quota();
        let over = quota.look(key, self.now_ns)?;
        quota.remember(over.key, name);
        let counts = LimitedCounts {
            refused_records: 1,
            refused_bytes: bytes as u64,
            ..LimitedCounts::default()
        };
        quota.count(over.key, &counts, self.now_ns);
        self.limiter.shared.changed.notify_one();
        Some(over.wait)
    }

    /// Returns the pause before the next read of the connection of these records.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// Notes that the records were appended, or counted as discarded.
    pub(super) fn settle(mut self) {
        self.taken.clear();
        let mut quota = self.limiter.quota();
        let discards = self.limiter.discards;
        for claim in &self.over {
            quota.count(claim.key, &claim.counts(discards), self.now_ns);
        }
        if self.unnamed.records > 0 {
            quota.count_unnamed(&self.unnamed.counts(discards));
        }
        if !self.over.is_empty() {
            self.limiter.shared.changed.notify_one();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut quota = self.limiter.quota();
        for claim in &self.taken {
            quota.give_back(claim.key, claim.records, claim.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::FakeClock;

    use super::*;
    use crate::config::QuotaField;
    use crate::source::listen::quota::Origin;

    fn settings(discards: bool) -> QuotaSettings {
        QuotaSettings {
            by: vec![QuotaField::Host],
            records_per_second: Some(10.0),
            bytes_per_second: None,
            burst: Duration::from_secs(1),
            discards,
        }
    }

    fn limiter(discards: bool) -> Rc<Limiter> {
        let settings = settings(discards);
        thread_of(&settings, SharedQuota::new(&settings))
    }

    fn thread_of(settings: &QuotaSettings, shared: Arc<SharedQuota>) -> Rc<Limiter> {
        Rc::new(Limiter {
            shared,
            discards: settings.discards,
            fields: KeyFields::new(&settings.by),
            clock: Arc::new(FakeClock::at(0)),
            stats: Arc::default(),
        })
    }

    fn name() -> KeyName {
        let origin = Origin { host: b"web7", ..Origin::default() };
        KeyFields::new(&[QuotaField::Host]).name(&origin)
    }

    /// Takes this many records; returns how many are to be discarded.
    fn take(claim: &mut Claim, records: usize) -> usize {
        (0..records).filter(|_| claim.take(7, 100, name)).count()
    }

    #[test]
    fn charges_of_refused_records_are_refunded_and_not_counted() {
        let limiter = limiter(true);
        for _ in 0..3 {
            assert_eq!(take(&mut limiter.claim(), 15), 5);
        }
        assert_eq!(limiter.quota().report().total, LimitedCounts::default());
        let mut claim = limiter.claim();
        assert_eq!(take(&mut claim, 15), 5);
        claim.settle();
        let total = limiter.quota().report().total;
        assert_eq!((total.discarded_records, total.discarded_bytes), (5, 500));
        assert_eq!(take(&mut limiter.claim(), 3), 3, "nothing is left");
    }

    #[test]
    fn the_threads_of_a_listener_share_the_limit_of_a_sender() {
        let settings = settings(true);
        let shared = SharedQuota::new(&settings);
        let threads = [0; 2].map(|_| thread_of(&settings, Arc::clone(&shared)));
        let mut discarded = 0;
        for thread in &threads {
            let mut claim = thread.claim();
            discarded += take(&mut claim, 8);
            claim.settle();
        }
        assert_eq!(discarded, 6, "ten of sixteen are within the limit");
        assert_eq!(threads[0].quota().report().total.discarded_records, 6);
    }

    #[test]
    fn a_request_overdraws_and_the_next_one_is_refused() {
        let limiter = limiter(false);
        let mut claim = limiter.claim();
        assert!(claim.refuses() && claim.look(7, 100, name).is_none());
        assert_eq!(take(&mut claim, 25), 0, "it is accepted as a whole");
        claim.settle();
        let pause = limiter.claim().look(7, 100, name).map(|pause| pause.as_millis());
        assert_eq!(pause, Some(1_600), "15 in debt, and one for the next");
        let report = limiter.quota().report();
        assert_eq!((report.total.delayed_records, report.total.refused_records), (15, 1));
        assert_eq!(report.over, ["host=web7"]);
    }

    #[test]
    fn records_of_many_keys_in_a_request_are_counted_although_not_by_key() {
        let limiter = limiter(true);
        let mut claim = limiter.claim();
        let keys = 3 * CLAIM_KEYS_MAX as u64;
        let over = (0..keys * 12).filter(|number| claim.take(1 + number % keys, 1, name));
        let over = over.count() as u64;
        assert_eq!(over, keys * 2);
        claim.settle();
        let report = limiter.quota().report();
        assert_eq!(report.total.discarded_records, over);
    }
}
