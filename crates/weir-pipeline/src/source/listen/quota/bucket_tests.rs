//! Decisions, compared with a model that forgets nothing and has room for every key.

use std::collections::HashMap;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn settings(records: Option<f64>, bytes: Option<f64>, burst: Duration) -> QuotaSettings {
    QuotaSettings {
        by: Vec::new(),
        records_per_second: records,
        bytes_per_second: bytes,
        burst,
        discards: true,
    }
}

fn buckets(records: Option<f64>, bytes: Option<f64>, keys_max: usize) -> Buckets {
    Buckets::new(Rates::new(&settings(records, bytes, Duration::from_secs(2))), keys_max)
}

/// Sends `per_second` records of this size for `seconds`; returns how many pass.
fn passed(buckets: &mut Buckets, key: u64, bytes: u64, per_second: u64, seconds: u64) -> u64 {
    let total = per_second * seconds;
    let times = (0..total).map(|number| number * SECOND / per_second);
    times.filter(|now_ns| buckets.take(key, bytes, *now_ns, false).is_there).count() as u64
}

#[test]
fn the_rate_holds_over_time_and_the_burst_comes_at_once() {
    let mut all = buckets(Some(100.0), None, 10);
    let at_once = (0..1000).filter(|_| all.take(1, 50, 0, false).is_there).count();
    assert_eq!(at_once, 200, "two seconds of 100 records");
    let rate = passed(&mut buckets(Some(100.0), None, 10), 1, 50, 5_000, 60);
    assert!((6_199..=6_201).contains(&rate), "{rate}");
    let below = passed(&mut buckets(Some(100.0), None, 10), 1, 50, 99, 60);
    assert_eq!(below, 99 * 60, "whoever stays below the limit loses nothing");
}

#[test]
fn bytes_are_limited_whatever_the_size_of_records() {
    for bytes in [10, 1_000, 50_000, 1_000_000] {
        let mut all = buckets(None, Some(100_000.0), 10);
        let passed = passed(&mut all, 1, bytes, 2_000_000 / bytes, 100) * bytes;
        let most = 100_000 * 102 + bytes;
        assert!((most - 2 * bytes - 10..=most).contains(&passed), "{bytes}: {passed} of {most}");
    }
}

#[test]
fn the_stricter_of_two_limits_decides() {
    let mut all = buckets(Some(100.0), Some(1_000.0), 10);
    let rate = passed(&mut all, 1, 100, 1_000, 20);
    assert!((219..=221).contains(&rate), "10 records/s: {rate}");
    let mut all = buckets(Some(100.0), Some(1e9), 10);
    let rate = passed(&mut all, 1, 100, 1_000, 20);
    assert!((2_199..=2_201).contains(&rate), "{rate}");
}

#[test]
fn a_debt_delays_for_exactly_as_long_as_it_lasts() {
    let mut all = buckets(Some(100.0), None, 10);
    for _ in 0..700 {
        all.take(1, 10, 0, true);
    }
    let (wait, room) = all.wait(1, 0);
    assert!(!room.is_there);
    // 500 in debt, and one for the next record.
    assert!((5.009..5.011).contains(&wait.as_secs_f64()), "{wait:?}");
    let then_ns = wait.as_nanos() as u64;
    assert!(!all.wait(1, then_ns - SECOND / 1_000).1.is_there);
    assert_eq!(all.wait(1, then_ns), (Duration::ZERO, Room { is_there: true, is_shared: false }));
    all.give_back(1, 3, 0);
    assert_eq!((0..9).filter(|_| all.take(1, 1, then_ns, false).is_there).count(), 4);
}

#[test]
fn after_waiting_there_is_always_room() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..2_000 {
        let mut all = buckets(Some(rng.f64() * 1e4 + 0.1), Some(rng.f64() * 1e7 + 1.0), 4);
        let mut now_ns = rng.u64(..1 << 50);
        for _ in 0..20 {
            all.take(1, rng.u64(..100_000), now_ns, true);
            let (wait, _) = all.wait(1, now_ns);
            now_ns += wait.as_nanos() as u64;
            assert!(all.wait(1, now_ns).1.is_there, "{wait:?}");
        }
    }
}

/// Every key has a bucket, and none is ever forgotten.
struct Model(HashMap<u64, Bucket>, Rates);

impl Model {
    fn take(&mut self, key: u64, bytes: u64, now_ns: u64, may_overdraw: bool) -> bool {
        let rates = self.1;
        let bucket = self.0.entry(key).or_insert_with(|| rates.full(now_ns));
        bucket.fill(&rates, now_ns);
        let has_room = bucket.has_room();
        if has_room || may_overdraw {
            bucket.take(1, bytes);
        }
        has_room
    }

    /// Keys that could not be forgotten.
    fn busy(&mut self, now_ns: u64) -> usize {
        let rates = self.1;
        for bucket in self.0.values_mut() {
            bucket.fill(&rates, now_ns);
        }
        self.0.values().filter(|bucket| !bucket.is_full(&rates)).count()
    }
}

#[test]
fn forgetting_full_buckets_changes_no_decision() {
    let mut rng = fastrand::Rng::with_seed(11);
    let (mut decisions, mut over, mut forgotten) = (0, 0, 0);
    for _ in 0..300 {
        let (records, bytes) = (rng.f64() * 50.0 + 1.0, rng.f64() * 5_000.0 + 100.0);
        let keys_max = PROBES_MAX;
        let mut all = buckets(Some(records), Some(bytes), keys_max);
        let mut model = Model(HashMap::new(), all.rates);
        let mut now_ns = 0;
        for _ in 0..500 {
            now_ns += rng.u64(..SECOND / 10);
            let key = rng.u64(1..20);
            let is_new = !all.by_key.contains_key(&key);
            if is_new && model.busy(now_ns) >= keys_max {
                // There is no place for it: the bounded table would have to share.
                continue;
            }
            forgotten += u32::from(is_new && all.places.len() == keys_max);
            let (bytes, may_overdraw) = (rng.u64(..500), rng.u8(..) < 20);
            let room = all.take(key, bytes, now_ns, may_overdraw);
            assert!(!room.is_shared);
            assert_eq!(room.is_there, model.take(key, bytes, now_ns, may_overdraw));
            decisions += 1;
            over += u32::from(!room.is_there);
        }
    }
    assert!(
        decisions > 10_000 && over > 1_000 && forgotten > 1_000,
        "{decisions} {over} {forgotten}"
    );
}

#[test]
fn further_keys_share_one_bucket_while_the_table_is_full() {
    let mut all = buckets(Some(10.0), None, 100);
    for key in 1..=100 {
        assert!(!all.take(key, 1, 0, false).is_shared);
    }
    let shared: Vec<Room> = (1_000..1_050).map(|key| all.take(key, 1, 0, false)).collect();
    assert!(shared.iter().all(|room| room.is_shared));
    assert_eq!(shared.iter().filter(|room| room.is_there).count(), 20, "one burst for all of them");
    assert!(all.take(5, 1, 0, false).is_there, "known keys are not affected");
    // Once the others are full again, there is a place for a new key.
    let room = all.take(1_000, 1, SECOND, false);
    assert_eq!(room, Room { is_there: true, is_shared: false });
    assert_eq!((all.places.len(), all.by_key.len()), (100, 100));
}
