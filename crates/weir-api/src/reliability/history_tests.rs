//! The history against the sums that it must give.

use proptest::prelude::*;

use super::*;

fn component() -> Component {
    Component { kind: ComponentKind::Output, name: "hec".to_owned() }
}

fn reading(minute: i64, received: u64, lost: u64) -> Reading {
    let counts = Counts { received, delivered: received - lost, lost, discarded: 0, lossy: lost };
    Reading {
        time_ns: minute * MINUTE_NS,
        running_ns: (minute * MINUTE_NS).cast_unsigned(),
        counts: vec![(Arc::new(component()), counts)],
        rates: None,
        left_out: 0,
    }
}

fn history(readings: impl IntoIterator<Item = Reading>) -> History {
    let mut history = History::default();
    readings.into_iter().for_each(|reading| history.add(reading));
    history
}

fn sum(history: &History, window: Window, now: &Reading) -> Step {
    Step::sum(&history.steps(&component(), window, now)).unwrap()
}

#[test]
fn each_window_has_what_happened_in_it() {
    let minutes = 40 * 24 * 60;
    // A record each minute, and one lost in the last hour and a half.
    let lost = |minute: i64| u64::from(minute > minutes - 90);
    let all = (0..minutes).map(|minute| reading(minute, minute.cast_unsigned() + 1, lost(minute)));
    let history = history(all);
    assert!(history.readings().len() <= READINGS_MAX, "{}", history.readings().len());
    let now = reading(minutes, minutes.cast_unsigned() + 1, 1);
    for ((window, length_ns), wanted_lost) in WINDOWS.into_iter().zip([0, 1, 1, 1, 1]) {
        let found = sum(&history, window, &now);
        let length = length_ns / MINUTE_NS;
        // Older ones are kept by the hour.
        let spare = if length <= 24 * 60 { 0 } else { 60 };
        assert!((length..=length + spare).contains(&found.change.received), "{window:?} {found:?}");
        assert_eq!(found.change.lost, wanted_lost, "{window:?}");
        assert_eq!(found.running_ns.cast_signed(), found.to_ns - found.from_ns);
    }
    assert_eq!(sum(&history, Window::Hour, &now).change.arrived(), Some(1.0));
    assert!(sum(&history, Window::Day, &now).change.arrived().unwrap() < 1.0);
}

#[test]
fn a_short_history_is_a_shorter_window() {
    let history = history([reading(10, 5, 0)]);
    let found = sum(&history, Window::Month, &reading(12, 9, 1));
    assert_eq!((found.change.received, found.change.lost), (4, 1));
    assert_eq!(found.to_ns - found.from_ns, 2 * MINUTE_NS);
    assert!(History::default().steps(&component(), Window::Hour, &reading(1, 1, 0)).is_empty());
}

#[test]
fn counts_that_a_crash_rolled_back_are_not_counted_twice() {
    let history = history([reading(1, 100, 0), reading(2, 200, 4), reading(3, 190, 2)]);
    let found = sum(&history, Window::Hour, &reading(4, 210, 4));
    assert_eq!((found.change.received, found.change.lost), (110, 4));
    // A new data directory of another journal, or a damaged one.
    let found = sum(&history, Window::Hour, &reading(4, 7, 0));
    assert_eq!(found.change.received, 90 + 7);
}

#[test]
fn a_component_counts_from_when_it_is_there_until_it_is_gone() {
    let without = |minute| Reading { counts: Vec::new(), ..reading(minute, 0, 0) };
    let history = history([without(1), reading(2, 30, 1), without(3)]);
    let found = sum(&history, Window::Hour, &without(4));
    assert_eq!((found.change.received, found.change.lost), (30, 1));
}

#[test]
fn readings_of_a_clock_that_was_ahead_are_dropped() {
    let mut history = history([reading(1, 1, 0), reading(5_000, 2, 0)]);
    history.add(reading(2, 3, 0));
    let times: Vec<i64> = history.readings().map(|reading| reading.time_ns / MINUTE_NS).collect();
    assert_eq!(times, [1, 2]);
}

#[test]
fn the_first_reading_of_all_is_kept_however_soon_the_next_one_is() {
    let at = |second: i64, received| Reading {
        time_ns: second * 1_000_000_000,
        ..reading(0, received, 0)
    };
    let history = history([at(0, 7), at(1, 9), at(2, 20), at(61, 30)]);
    let times: Vec<i64> = history.readings().map(|r| r.time_ns / 1_000_000_000).collect();
    assert_eq!(times, [0, 61]);
    assert_eq!(sum(&history, Window::Hour, &at(62, 31)).change.received, 24);
}

#[test]
fn rates_of_minutes_are_kept_when_readings_are_by_the_hour() {
    let minutes = 10 * 24 * 60;
    // Each hour has one minute of a hundred thousand records, of which a thousand are lost, and
    // others of sixty.
    let (mut received, mut lost) = (0, 0);
    let all: Vec<Reading> = (0..=minutes)
        .map(|minute| {
            let is_busy = minute % 60 == 30;
            received += if is_busy { 120_000 } else { 60 };
            lost += if is_busy { 1_000 } else { 0 };
            reading(minute, received, lost)
        })
        .collect();
    let now = all.last().cloned().unwrap();
    let history = history(all);
    let found = |window| {
        let rates = history.rates(&component(), window, &now);
        rates.iter().map(|r| (r.range, r.running_ns, r.received, r.lost)).collect::<Vec<_>>()
    };
    for (window, hours) in [(Window::Day, 24), (Window::Week, 7 * 24)] {
        let minute = MINUTE_NS.cast_unsigned();
        let wanted = [
            (1, hours * 59 * minute, hours * 59 * 60, 0),
            (11, hours * minute, hours * 120_000, hours * 1_000),
        ];
        assert_eq!(found(window), wanted, "{window:?}");
    }
}

#[test]
fn restarts_again_and_again_do_not_fill_the_history() {
    let mut history = History::default();
    for second in 0..20_000 {
        let at = |reading: Reading| Reading { time_ns: second * 1_000_000_000, ..reading };
        history.add(at(reading(0, 1, 0)));
    }
    assert!(history.readings().len() <= READINGS_MAX);
}

proptest! {
    #[test]
    fn leaving_out_readings_changes_no_sum(
        growths in prop::collection::vec((0..1_000_u64, 0..3_u64), 2..60),
        kept in prop::collection::vec(any::<bool>(), 60),
    ) {
        let (mut received, mut lost) = (0, 0);
        let all: Vec<Reading> = (1..).zip(&growths).map(|(minute, (more, gone))| {
            received += more + gone;
            lost += gone;
            reading(minute, received, lost)
        }).collect();
        let now = all.last().cloned().unwrap();
        let before = all.len() - 1;
        let some = (0..before).filter(|at| *at == 0 || kept[*at]).map(|at| all[at].clone());
        let [full, thin] = [history(all[..before].iter().cloned()), history(some)]
            .map(|history| sum(&history, Window::Day, &now).change);
        prop_assert_eq!(full, thin);
    }
}
