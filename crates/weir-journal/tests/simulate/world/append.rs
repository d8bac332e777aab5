//! Appending rows: the journal may discard others for them, of the heaviest key alone.

use weir_journal::WritePolicy;

use crate::files::{Reading, batch, source_of, wanted};
use crate::oracle::Oracle;
use crate::process::Process;
use crate::waiting::Waiting;

/// Appends rows to the journal; if it accepts them, the reading position is after them.
pub(super) fn append(
    process: &mut Process,
    oracle: &mut Oracle,
    (slots, present): (&[u64], &[bool]),
    stream: u64,
    reading: &mut Reading,
    (count, padding): (u64, usize),
    policy: WritePolicy,
) {
    let is_for =
        |sink: usize, row: u64| present[sink] && wanted(stream, row) >> slots[sink] & 1 == 1;
    let route = |row: u64| {
        let sinks = oracle.sinks.iter().enumerate().filter(|(sink, _)| is_for(*sink, row));
        sinks.map(|(_, sink)| 1 << sink.index).sum()
    };
    let batch = batch(oracle, stream, reading, count, padding, route);
    let is_known = oracle.has_keys
        && !oracle.has_compacted
        && process.journal.ledger().journal.frames_compacted == 0
        && process.journal.ledger().journal.frames_merged == 0;
    let before = is_known.then(|| waiting_by_sink(process, oracle, slots));
    let Ok(ticket) = process.journal.append(batch, policy) else { return };
    if let Some(before) = before.filter(|_| process.is_disk_well()) {
        let after = waiting_by_sink(process, oracle, slots);
        oracle.cuts +=
            before.iter().zip(&after).map(|(before, after)| before.check(after)).sum::<u64>();
    }
    let content = oracle.begins[reading.begin].content;
    let rows = reading.next..reading.next + count;
    for (index, sink) in oracle.sinks.iter_mut().enumerate() {
        for row in rows.clone().filter(|row| is_for(index, *row)) {
            sink.offer(content, row);
        }
    }
    reading.next += count;
    reading.is_begun = true;
    oracle.set_chain(stream, source_of(stream), oracle.chain(reading.begin, reading.next));
    let rows = rows.map(|row| (stream, content, row)).collect();
    match policy {
        WritePolicy::OnAppend => process.wait_for(ticket, rows),
        WritePolicy::Soon => process.note_soon(rows),
        WritePolicy::OnLag => {}
    }
}

/// Returns what waits for each destination that discards.
fn waiting_by_sink(process: &Process, oracle: &Oracle, slots: &[u64]) -> Vec<Waiting> {
    let sinks = oracle.sinks.iter().zip(slots).filter(|(sink, _)| sink.drops_oldest);
    sinks.map(|(sink, slot)| Waiting::of(&process.journal, sink.index, *slot)).collect()
}
