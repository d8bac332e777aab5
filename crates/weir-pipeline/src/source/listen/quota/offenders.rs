//! Keys that exceeded their limit: counts, and when they are reported.
//!
//! An *episode* begins with the first record of a key above the limit, and ends once there has been
//! none for a while. It is reported by records of its own, the *notices*: when it begins, every
//! [`NOTICE_INTERVAL`] while it lasts, and when it ends.
//!
//! Invariants: the counts of the keys that are remembered and `unnamed` add up to the total; a key
//! is forgotten only after its episode, and its counts are moved to `unnamed`; there are never two
//! notices of a key within [`NOTICE_INTERVAL`].

use std::collections::HashMap;
use std::time::Duration;

use super::key::{BuildIdentity, KeyName};
use super::notice::{Notice, NoticeEvent};
use crate::stats::{KEYS_REPORTED_MAX, LimitedCounts, LimitedKey, RateLimitReport};

/// Maximum number of keys whose name and counts are kept: more than a user will look at, in 1 MiB.
pub(super) const OFFENDERS_MAX: usize = 1024;

/// Minimum time between two notices of a key.
pub(super) const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// How long a key must be within its limit until its episode is over: a sender that exceeds it
/// every few seconds is in one episode.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// A key with its counts.
#[derive(Debug)]
struct Offender {
    key: u64,
    name: KeyName,
    counts: LimitedCounts,
    episode: Option<Episode>,
    /// The earliest time of its next notice.
    notice_due_ns: u64,
}

#[derive(Debug)]
struct Episode {
    began_ns: u64,
    latest_ns: u64,
    /// Counts at the start of the episode.
    before: LimitedCounts,
    /// Counts in earlier notices.
    noticed: LimitedCounts,
    noticed_ns: u64,
    is_announced: bool,
}

/// All keys that exceeded their limit.
#[derive(Debug, Default)]
pub(super) struct Offenders {
    all: Vec<Offender>,
    by_key: HashMap<u64, u32, BuildIdentity>,
    /// Counts of keys that are not kept.
    unnamed: LimitedCounts,
    total: LimitedCounts,
    /// Some key may be forgotten for another one.
    has_ended: bool,
}

impl Offenders {
    /// Remembers the name of a key, if there is room.
    pub(super) fn remember(&mut self, key: u64, name: impl FnOnce() -> KeyName) {
        if !self.by_key.contains_key(&key) {
            self.add(key, name);
        }
    }

    /// Counts records above the limit of a key.
    pub(super) fn count(&mut self, key: u64, counts: &LimitedCounts, now_ns: u64) {
        self.total.add(counts);
        let place = self.by_key.get(&key).copied();
        match place.and_then(|place| self.all.get_mut(place as usize)) {
            Some(offender) => offender.count(counts, now_ns),
            None => self.unnamed.add(counts),
        }
    }

    /// Counts records above the limit whose key is no longer known.
    pub(super) fn count_unnamed(&mut self, counts: &LimitedCounts) {
        self.total.add(counts);
        self.unnamed.add(counts);
    }

    fn add(&mut self, key: u64, name: impl FnOnce() -> KeyName) -> Option<()> {
        let may_add = self.all.len() < OFFENDERS_MAX || self.has_ended;
        may_add.then_some(())?;
        let offender = Offender {
            key,
            name: name(),
            counts: LimitedCounts::default(),
            episode: None,
            notice_due_ns: 0,
        };
        let place = if self.all.len() < OFFENDERS_MAX {
            self.all.push(offender);
            self.all.len() - 1
        } else {
            let place = self.replaceable()?;
            let old = std::mem::replace(&mut self.all[place], offender);
            self.by_key.remove(&old.key);
            self.unnamed.add(&old.counts);
            place
        };
        self.by_key.insert(key, place as u32);
        Some(())
    }

    /// Returns the key with the lowest counts of those whose episode is over.
    fn replaceable(&mut self) -> Option<usize> {
        let ended = self.all.iter().enumerate().filter(|(_, offender)| offender.episode.is_none());
        let least = ended.min_by_key(|(_, offender)| offender.counts.records());
        let place = least.map(|(place, _)| place);
        self.has_ended = place.is_some();
        place
    }

    /// Returns whether any key is in an episode.
    pub(super) fn has_episode(&self) -> bool {
        self.all.iter().any(|offender| offender.episode.is_some())
    }

    /// Returns the notices that are due. With `is_last`, all episodes end.
    pub(super) fn notices(&mut self, now_ns: u64, is_last: bool) -> Vec<Notice> {
        let mut notices = Vec::new();
        for offender in &mut self.all {
            if let Some(event) = offender.notice(now_ns, is_last) {
                notices.push(Notice { name: offender.name.clone(), event });
            }
            self.has_ended |= offender.episode.is_none();
        }
        notices
    }

    /// Returns a report without the parts that come from the settings.
    pub(super) fn report(&self) -> RateLimitReport {
        let mut heaviest: Vec<&Offender> = self.all.iter().collect();
        heaviest.sort_by_key(|offender| {
            let counts = &offender.counts;
            std::cmp::Reverse((counts.discarded_records, counts.records(), counts.delayed_ns))
        });
        let (named, rest) = heaviest.split_at(heaviest.len().min(KEYS_REPORTED_MAX));
        let mut others = self.unnamed;
        for offender in rest {
            others.add(&offender.counts);
        }
        let is_over = |offender: &Offender| offender.episode.is_some();
        let over = || heaviest.iter().filter(|offender| is_over(offender));
        let limited = |offender: &&Offender| LimitedKey {
            name: offender.name.to_string(),
            service: offender.name.service().to_owned(),
            counts: offender.counts,
            is_over: is_over(offender),
        };
        RateLimitReport {
            total: self.total,
            others,
            over: over().take(KEYS_REPORTED_MAX).map(|o| o.name.to_string()).collect(),
            over_count: over().count() as u64,
            keys: named.iter().map(limited).collect(),
            more: rest.iter().map(limited).collect(),
            ..RateLimitReport::default()
        }
    }
}

impl Offender {
    fn count(&mut self, counts: &LimitedCounts, now_ns: u64) {
        let episode = self.episode.get_or_insert(Episode {
            began_ns: now_ns,
            latest_ns: now_ns,
            before: self.counts,
            noticed: self.counts,
            noticed_ns: now_ns,
            is_announced: false,
        });
        episode.latest_ns = now_ns;
        self.counts.add(counts);
    }

    fn notice(&mut self, now_ns: u64, is_last: bool) -> Option<NoticeEvent> {
        let episode = self.episode.as_mut()?;
        if now_ns < self.notice_due_ns && !is_last {
            return None;
        }
        let interval_ns = NOTICE_INTERVAL.as_nanos() as u64;
        self.notice_due_ns = now_ns.saturating_add(interval_ns);
        if !is_last && !std::mem::replace(&mut episode.is_announced, true) {
            return Some(NoticeEvent::Begins);
        }
        let is_over =
            is_last || now_ns.saturating_sub(episode.latest_ns) >= QUIET.as_nanos() as u64;
        if is_over {
            let lasted = Duration::from_nanos(episode.latest_ns - episode.began_ns);
            let counts = self.counts.since(&episode.before);
            self.episode = None;
            return Some(NoticeEvent::Ends { counts, lasted });
        }
        let counts = self.counts.since(&episode.noticed);
        let during = Duration::from_nanos(now_ns - episode.noticed_ns);
        (episode.noticed, episode.noticed_ns) = (self.counts, now_ns);
        Some(NoticeEvent::Lasts { counts, during })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QuotaField;
    use crate::source::listen::quota::key::{KeyFields, Origin};

    const SECOND: u64 = 1_000_000_000;

    fn name(number: u64) -> KeyName {
        let host = format!("h{number}");
        let fields = KeyFields::new(&[QuotaField::Host]);
        fields.name(&Origin { host: host.as_bytes(), ..Origin::default() })
    }

    fn discarded(records: u64) -> LimitedCounts {
        let discarded_bytes = records * 100;
        LimitedCounts { discarded_records: records, discarded_bytes, ..LimitedCounts::default() }
    }

    fn count(offenders: &mut Offenders, key: u64, records: u64, now_ns: u64) {
        offenders.remember(key, || name(key));
        offenders.count(key, &discarded(records), now_ns);
    }

    #[test]
    fn an_episode_is_reported_when_it_begins_every_ten_seconds_and_when_it_ends() {
        let mut offenders = Offenders::default();
        let mut events = Vec::new();
        for tick in 0..400 {
            let now_ns = tick * SECOND / 10;
            // For 23 seconds, and again from the second 27 to the second 28.
            if tick < 230 || (270..280).contains(&tick) {
                count(&mut offenders, 7, 3, now_ns);
            }
            let notices = offenders.notices(now_ns, false);
            events.extend(notices.into_iter().map(|notice| (tick, notice.event)));
        }
        let lasts = |counts, seconds| NoticeEvent::Lasts {
            counts: discarded(counts),
            during: Duration::from_secs(seconds),
        };
        let expected = [
            (0, NoticeEvent::Begins),
            (100, lasts(303, 10)),
            (200, lasts(300, 10)),
            (300, lasts(3 * (29 + 10), 10)),
        ];
        assert_eq!(events[..4], expected);
        assert_eq!(events.len(), 4, "the next one is due after 40 seconds");
        assert!(offenders.has_episode());
        let ends = offenders.notices(40 * SECOND, false);
        let lasted = Duration::from_millis(27_900);
        assert_eq!(ends[0].event, NoticeEvent::Ends { counts: discarded(720), lasted });
        assert!(!offenders.has_episode());
        // A new episode that begins at once is reported only after the interval.
        count(&mut offenders, 7, 1, 41 * SECOND);
        assert!(offenders.notices(42 * SECOND, false).is_empty());
        assert_eq!(offenders.notices(50 * SECOND, false)[0].event, NoticeEvent::Begins);
        assert!(matches!(
            offenders.notices(51 * SECOND, true)[0].event,
            NoticeEvent::Ends { counts, .. } if counts == discarded(1)
        ));
    }

    #[test]
    fn named_keys_and_others_add_up_however_many_there_are() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut offenders = Offenders::default();
        let (mut total, mut now_ns) = (0, 0);
        for _ in 0..20_000 {
            let key = rng.u64(1..4 * OFFENDERS_MAX as u64);
            let records = rng.u64(1..9);
            now_ns += rng.u64(0..SECOND / 100);
            count(&mut offenders, key, records, now_ns);
            if rng.u8(..) == 0 {
                let waited = LimitedCounts { delayed_ns: 5, ..LimitedCounts::default() };
                offenders.count(key, &waited, now_ns);
            }
            total += records;
            if rng.u8(..) < 8 {
                now_ns += 20 * SECOND;
                offenders.notices(now_ns, false);
            }
            assert!(offenders.all.len() <= OFFENDERS_MAX);
            assert_eq!(offenders.all.len(), offenders.by_key.len());
        }
        let report = offenders.report();
        assert_eq!(report.keys.len(), KEYS_REPORTED_MAX);
        assert_eq!(report.total.discarded_records, total);
        let mut sum = report.others;
        for key in &report.keys {
            sum.add(&key.counts);
        }
        assert_eq!(sum, report.total);
        let order: Vec<u64> = report.keys.iter().map(|k| k.counts.discarded_records).collect();
        assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
    }
}
