//! Keys above the rate limit of a listening source, as rows beneath it.
//!
//! Invariant: at most [`ROWS_MAX`] rows for each source; `weir ledger` shows more.

use weir_api::{LimitedEntry, LimitedKeyEntry, SourceStatus};
use weir_host::units::group_digits;

use super::model::{ComponentState, Rates, Row, SOURCE_HEAD};

/// Keys shown for each source.
const ROWS_MAX: usize = 3;

/// Characters of a key that are shown: other columns must remain visible.
const KEY_CHARS_MAX: usize = 40;

/// The keys of a source that currently exceed its limit.
pub(super) fn rows(earlier: &SourceStatus, now: &SourceStatus, rates: &Rates) -> Vec<Row> {
    let Some(limit) = &now.book.rate_limit else { return Vec::new() };
    let over = limit.keys.iter().filter(|key| key.over).take(ROWS_MAX);
    over.map(|key| row(before(earlier, key), key, &limit.limit, rates)).collect()
}

/// The counts of a key in an earlier reading.
fn before(earlier: &SourceStatus, now: &LimitedKeyEntry) -> u64 {
    let keys = earlier.book.rate_limit.iter().flat_map(|limit| &limit.keys);
    let known = keys.into_iter().find(|key| key.key == now.key);
    known.map_or(0, |key| records(&key.counts))
}

fn records(counts: &LimitedEntry) -> u64 {
    counts.discarded_records + counts.delayed_records + counts.refused_records
}

fn row(before: u64, key: &LimitedKeyEntry, limit: &str, rates: &Rates) -> Row {
    let mut cells = vec!["-".to_owned(); SOURCE_HEAD.len()];
    let short: String = key.key.chars().take(KEY_CHARS_MAX).collect();
    let state = match () {
        () if key.counts.discarded_records > 0 => "above limit, discarded",
        () => "above limit, delayed",
    };
    for (column, text) in [
        ("NAME", format!("  {short}")),
        ("LINES/S", rates.count(before, records(&key.counts))),
        ("LOST", group_digits(key.counts.discarded_records)),
        ("STATE", state.to_owned()),
    ] {
        if let Some(index) = SOURCE_HEAD.iter().position(|head| *head == column) {
            cells[index] = text;
        }
    }
    Row {
        cells,
        state: ComponentState::Degraded,
        detail: format!(
            "{}: {} records discarded, {} delayed, {} refused ({limit})",
            key.key,
            group_digits(key.counts.discarded_records),
            group_digits(key.counts.delayed_records),
            group_digits(key.counts.refused_records),
        ),
    }
}
