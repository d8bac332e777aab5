//! Buckets around changes of the clock, and valid names of zones.

use proptest::prelude::*;

use super::*;

const HOUR_NS: i64 = 60 * MINUTE_NS;
const DAY_NS: i64 = 24 * HOUR_NS;

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

/// Returns nanoseconds since 1970.
fn time(text: &str) -> i64 {
    clamped(text.parse::<Timestamp>().unwrap().as_nanosecond())
}

/// Returns the starts of the buckets from a time on, as local times of the zone.
fn begins(name: &str, interval_ns: i64, from: &str, count: usize) -> Vec<String> {
    let zone = zone(name);
    let calendar = Calendar::new(&zone, interval_ns);
    let mut at = calendar.bucket(time(from)).0;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(zone.format_rfc3339(at).replace(":00.000", ""));
        at = calendar.bucket(at).1;
    }
    found
}

#[test]
fn days_have_23_24_or_25_hours_and_weeks_begin_on_mondays() {
    assert_eq!(
        begins("Europe/Berlin", DAY_NS, "2026-03-28T12:00:00Z", 3),
        ["2026-03-28T00:00+01:00", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"]
    );
    assert_eq!(
        begins("Europe/Berlin", DAY_NS, "2026-10-25T12:00:00Z", 2),
        ["2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"]
    );
    assert_eq!(
        begins("America/New_York", WEEK_NS, "2026-03-05T12:00:00Z", 3),
        ["2026-03-02T00:00-05:00", "2026-03-09T00:00-04:00", "2026-03-16T00:00-04:00"]
    );
    assert_eq!(begins("UTC", WEEK_NS, "2026-11-22T23:59:59Z", 2)[0], "2026-11-16T00:00Z");
    assert_eq!(
        begins("Asia/Kathmandu", DAY_NS, "2026-01-01T12:00:00Z", 1),
        ["2026-01-01T00:00+05:45"]
    );
    // The 30th of December never existed.
    assert_eq!(
        begins("Pacific/Apia", DAY_NS, "2011-12-30T09:00:00Z", 2),
        ["2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00"]
    );
    // Midnight occurs twice: the day before ends with the first one.
    assert_eq!(
        begins("America/Havana", DAY_NS, "2025-11-01T12:00:00Z", 3),
        ["2025-11-01T00:00-04:00", "2025-11-02T00:00-04:00", "2025-11-03T00:00-05:00"]
    );
    // Midnight does not occur: the day begins at one.
    assert_eq!(
        begins("America/Havana", DAY_NS, "2025-03-08T12:00:00Z", 2),
        ["2025-03-08T00:00-05:00", "2025-03-09T01:00-04:00"]
    );
    // Set back one minute after midnight: that minute is not a day of its own.
    assert_eq!(
        begins("America/St_Johns", DAY_NS, "2010-11-06T12:00:00Z", 3),
        ["2010-11-06T00:00-02:30", "2010-11-07T00:00-02:30", "2010-11-08T00:00-03:30"]
    );
}

#[test]
fn hours_come_twice_and_parts_of_a_day_get_longer() {
    assert_eq!(
        begins("Europe/Berlin", HOUR_NS, "2026-10-24T23:00:00Z", 4),
        [
            "2026-10-25T01:00+02:00",
            "2026-10-25T02:00+02:00",
            "2026-10-25T02:00+01:00",
            "2026-10-25T03:00+01:00"
        ]
    );
    assert_eq!(
        begins("Europe/Berlin", 6 * HOUR_NS, "2026-10-24T23:00:00Z", 2),
        ["2026-10-25T00:00+02:00", "2026-10-25T06:00+01:00"]
    );
    assert_eq!(
        begins("Europe/Berlin", 2 * HOUR_NS, "2026-03-28T23:00:00Z", 3),
        ["2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"]
    );
    assert_eq!(
        begins("Australia/Lord_Howe", HOUR_NS, "2026-04-04T14:00:00Z", 3),
        ["2026-04-05T01:00+11:00", "2026-04-05T02:00+10:30", "2026-04-05T03:00+10:30"]
    );
    assert_eq!(
        begins("Australia/Lord_Howe", 20 * MINUTE_NS, "2026-04-04T14:40:00Z", 4),
        [
            "2026-04-05T01:40+11:00",
            "2026-04-05T01:30+10:30",
            "2026-04-05T01:40+10:30",
            "2026-04-05T02:00+10:30"
        ]
    );
    assert_eq!(begins("UTC-5", HOUR_NS, "2026-01-01T00:30:00Z", 1), ["2025-12-31T19:00-05:00"]);
}

#[test]
fn zones_have_names_and_offsets_and_what_is_near_is_suggested() {
    for (text, name) in [
        ("europe/berlin", "Europe/Berlin"),
        (" America/New_York ", "America/New_York"),
        ("UTC+1", "+01:00"),
        ("UTC-5", "-05:00"),
        ("gmt+5:45", "+05:45"),
        ("+0200", "+02:00"),
        ("-03:30", "-03:30"),
        ("Etc/GMT+2", "Etc/GMT+2"),
    ] {
        assert_eq!(zone(text).name(), name, "{text}");
        assert!(!zone(text).is_utc(), "{text}");
    }
    for text in ["UTC", "gmt", "Z", "Etc/UTC", "+00:00", "UTC+0"] {
        assert!(zone(text).is_utc(), "{text} is {:?}", zone(text));
    }
    for (text, hint) in [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("", "write a name such as Europe/Berlin"),
        ("Mars/Olympus_Mons", "write a name such as"),
        ("+19:00", "write a name such as"),
        ("+5:7", "write a name such as"),
        ("UTC+", "did you mean"),
        ("+1é", "write a name"),
    ] {
        let error = Zone::parse(text).unwrap_err().to_string();
        assert!(error.contains("is not a time zone; ") && error.contains(hint), "{error}");
    }
}

#[test]
fn offsets_are_whole_minutes_in_modern_times() {
    let berlin = Calendar::new(&zone("Europe/Berlin"), DAY_NS);
    assert!(berlin.is_of_minutes(0, i64::MAX));
    // Solar time, 53 minutes and 28 seconds ahead, until 1893.
    assert!(!berlin.is_of_minutes(i64::MIN, 0));
    assert!(!berlin.is_of_minutes(time("1893-03-01T00:00:00Z"), time("1893-05-01T00:00:00Z")));
    assert!(!Calendar::new(&Zone::UTC, 90 * SECOND_NS).is_of_minutes(0, 1));
    // 44 minutes and 30 seconds behind, until 1972.
    assert!(!Calendar::new(&zone("Africa/Monrovia"), DAY_NS).is_of_minutes(0, 1));
}

fn any_zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "America/Havana",
        "America/St_Johns",
        "Antarctica/Casey",
        "Antarctica/Troll",
        "Africa/Monrovia",
        "Africa/Casablanca",
        "Pacific/Kwajalein",
        "-03:30",
    ])
}

fn any_interval() -> impl Strategy<Value = i64> {
    let seconds = prop::sample::select(vec![
        1, 45, 60, 300, 600, 1200, 1500, 1800, 2700, 3600, 7200, 21_600, 43_200, 86_400, 129_600,
        172_800, 604_800, 1_209_600,
    ]);
    prop_oneof![8 => seconds.prop_map(|seconds| seconds * SECOND_NS), 1 => 1_000_000_i64..DAY_NS]
}

/// Times around changes of the clock, and arbitrary ones.
fn any_time() -> impl Strategy<Value = (&'static str, i64)> {
    let around = (any_zone(), -30 * 365 * DAY_NS..120 * 365 * DAY_NS, -2 * DAY_NS..2 * DAY_NS);
    let around = around.prop_map(|(name, after, by)| {
        let zone = zone(name);
        let set = zone.0.following(timestamp(after.into())).next();
        let set = set.map_or(after, |set| clamped(set.timestamp().as_nanosecond()));
        (name, set.saturating_add(by))
    });
    prop_oneof![3 => around, 1 => (any_zone(), any::<i64>())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn zone_arithmetic_agrees_with_the_calendar((name, time_ns) in any_time(), interval_ns in any_interval()) {
        let zone = zone(name);
        let calendar = Calendar::new(&zone, interval_ns);
        let (begin, end) = calendar.bucket(time_ns);
        let wanted = zone.begin_of(time_ns, interval_ns);
        prop_assert_eq!(
            begin, wanted, "{} instead of {}", format_rfc3339(begin), format_rfc3339(wanted)
        );
        prop_assert!(begin <= time_ns && (time_ns < end || end == i64::MAX));
        for inside in [begin, time_ns / 2 + begin / 2, end - 1] {
            if (begin..end).contains(&inside) {
                prop_assert_eq!(calendar.bucket(inside), (begin, end));
            }
        }
        // The next one begins where this one ends, also by the definition.
        if end < i64::MAX {
            prop_assert_eq!(zone.begin_of(end, interval_ns), end);
            prop_assert_eq!(zone.begin_of(end - 1, interval_ns), begin);
        }
        if calendar.is_of_minutes(time_ns, end.saturating_sub(1)) && end < i64::MAX {
            prop_assert_eq!(end % MINUTE_NS, 0);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,12}|(utc|GMT)?[-+][0-9:]{0,6}") {
        let _zone = Zone::parse(&text);
    }
}
