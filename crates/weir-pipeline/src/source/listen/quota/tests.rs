//! Quotas as a whole: decisions, counts and notices, and the time that they take.

use std::time::Instant;

use super::*;
use crate::config::QuotaField;

const SECOND: u64 = 1_000_000_000;

fn settings(records_per_second: f64, discards: bool) -> QuotaSettings {
    QuotaSettings {
        by: vec![QuotaField::Host],
        records_per_second: Some(records_per_second),
        bytes_per_second: Some(1e6),
        burst: Duration::from_secs(1),
        discards,
    }
}

fn name(number: u64) -> KeyName {
    let host = format!("h{number}");
    let fields = KeyFields::new(&[QuotaField::Host]);
    fields.name(&Origin { host: host.as_bytes(), ..Origin::default() })
}

#[test]
fn records_above_the_limit_are_counted_for_their_key() {
    let mut quota = Quota::new(&settings(10.0, true));
    let mut sent = 0;
    for key in 1..=3 {
        for _ in 0..key * 20 {
            sent += 1;
            if let Some(over) = quota.take(key, 100, 0) {
                assert_eq!(over, Over { key, wait: Duration::ZERO });
                let counts = LimitedCounts { discarded_records: 1, ..LimitedCounts::default() };
                quota.remember(over.key, || name(key));
                quota.count(over.key, &counts, 0);
            }
        }
    }
    let report = quota.report();
    assert_eq!(report.limit, "limit 10 records/s and 977 KiB/s");
    let keys: Vec<(&str, u64)> =
        report.keys.iter().map(|key| (&*key.name, key.counts.discarded_records)).collect();
    assert_eq!(keys, [("host=h3", 50), ("host=h2", 30), ("host=h1", 10)]);
    assert_eq!(report.total.discarded_records, sent - 30);
    assert_eq!((report.over_count, quota.has_episode()), (3, true));
    assert_eq!(quota.notices(0, 0, false).len(), 3);
}

#[test]
fn a_delayed_sender_gets_its_rate_in_the_long_run() {
    let mut quota = Quota::new(&settings(100.0, false));
    let (mut now_ns, mut accepted) = (0, 0);
    while now_ns < 100 * SECOND {
        // One read of a connection.
        let mut wait = Duration::ZERO;
        for _ in 0..450 {
            accepted += 1;
            wait = quota.take(7, 100, now_ns).map_or(wait, |over| wait.max(over.wait));
        }
        now_ns += wait.as_nanos() as u64;
    }
    let seconds = now_ns / SECOND;
    assert!((accepted..accepted + 250).contains(&(seconds * 100 + 100 + 100)), "{accepted}");
}

#[test]
fn keys_without_a_place_are_counted_under_a_name_of_their_own() {
    let mut quota = Quota::with_keys(&settings(10.0, true), 2);
    let counts = LimitedCounts { discarded_records: 1, ..LimitedCounts::default() };
    for key in 1..=50 {
        if let Some(over) = quota.take(key, 1, 0) {
            quota.remember(over.key, || name(key));
            quota.count(over.key, &counts, 0);
        }
    }
    let report = quota.report();
    assert_eq!(report.over, ["keys beyond the maximum number"]);
    assert_eq!(report.total.discarded_records, 50 - 2 - 10);
}

/// The time for a decision, printed for `docs` and for changes of this code. It asserts only that
/// nothing grows with the number of keys.
#[test]
fn a_decision_takes_nanoseconds_with_any_number_of_keys() {
    for keys in [1, 1_000, KEYS_MAX as u64, 4 * KEYS_MAX as u64] {
        let mut quota = Quota::new(&settings(1e6, true));
        let mut rng = fastrand::Rng::with_seed(keys);
        let order: Vec<u64> =
            (0..200_000).map(|_| weir_model::hash64(&rng.u64(1..=keys).to_le_bytes())).collect();
        let (mut best_ns, mut over) = (u128::MAX, 0_u64);
        for round in 0..5 {
            let begun = Instant::now();
            for (index, key) in order.iter().enumerate() {
                let now_ns = round * SECOND + index as u64 * 1_000;
                over += u64::from(quota.take(*key, 200, now_ns).is_some());
            }
            best_ns = best_ns.min(begun.elapsed().as_nanos() / order.len() as u128);
        }
        println!("{keys} keys: {best_ns} ns per record ({over} above the limit)");
        assert!(best_ns < 5_000, "{best_ns} ns");
        assert!(quota.buckets.is_limited_to(KEYS_MAX));
    }
}
