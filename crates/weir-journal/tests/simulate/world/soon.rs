//! Connections whose rows are not acknowledged: they are flushed soon, and what is lost until then
//! is counted by their source at the next start.

use fastrand::Rng;
use weir_journal::{Journal, WritePolicy};

use super::World;
use super::append::append;
use crate::files::{Reading, SOON_LANES, open_soon_lane};
use crate::oracle::{lost_rows_of, rows_of};

impl World<'_> {
    pub(super) fn open_soon_lanes(&mut self, journal: &Journal) -> Vec<(u64, Reading)> {
        let mut soon_lanes = Vec::new();
        for stream in (0..self.settings.soon_lanes).map(|lane| SOON_LANES + lane) {
            let count = self.counts.entry(stream).or_default();
            let may_fail = self.settings.disk;
            let reading = open_soon_lane(journal, &mut self.oracle, stream, count, may_fail);
            self.trace.note(|| format!("  lane {stream} begins with {count:?}"));
            let survived = self.oracle.streams.get(&stream);
            let lost_before = survived.map_or(0, |survived| lost_rows_of(&survived.chain));
            if lost_rows_of(&self.oracle.begins[reading.begin].before) > lost_before {
                self.met("LostUnacknowledged");
            }
            if self.is_killed {
                self.oracle.note_survived(stream, !may_fail);
            }
            soon_lanes.push((stream, reading));
        }
        soon_lanes
    }

    /// Lets the connections begin that have not received anything, so that what was lost is in the
    /// books. Returns whether all have begun.
    pub(super) fn begin_soon_lanes(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        let slots = (&self.slots[..], &self.present[..]);
        let mut lanes = std::mem::take(&mut process.soon_lanes);
        for (stream, reading) in lanes.iter_mut().filter(|(_, reading)| !reading.is_begun) {
            let (oracle, what) = (&mut self.oracle, (0, 0));
            append(process, oracle, slots, *stream, reading, what, WritePolicy::Soon);
        }
        let have_begun = lanes.iter().all(|(_, reading)| reading.is_begun);
        process.soon_lanes = lanes;
        have_begun
    }

    /// Asserts that everything that was ever received is in the books.
    pub(super) fn compare_counts(&self) {
        for (stream, count) in &self.counts {
            let rows = self.oracle.streams.get(stream).map_or(0, |s| rows_of(&s.chain));
            assert_eq!(rows, count.lines, "what was received over {stream} is in the books");
        }
    }

    /// Rows arrive over a connection that does not acknowledge them.
    pub(super) fn receive_soon(&mut self, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        let lane = rng.usize(..process.soon_lanes.len());
        let (stream, mut reading) = process.soon_lanes[lane];
        // The epoch may begin with rows, or with its counts alone.
        let is_bare = !reading.is_begun && rng.u8(..4) > 0;
        let count = if is_bare { 0 } else { rng.u64(1..8) };
        let is_told = rng.u8(..if is_bare { 2 } else { 8 }) == 0;
        let policy = if is_told { WritePolicy::OnAppend } else { WritePolicy::Soon };
        let what = (count, rng.usize(..240));
        let slots = (&self.slots[..], &self.present[..]);
        let before = reading.next;
        append(process, &mut self.oracle, slots, stream, &mut reading, what, policy);
        process.soon_lanes[lane].1 = reading;
        if let Some(count) = self.counts.get_mut(&stream) {
            count.lines += reading.next - before;
        }
        self.trace.note(|| format!("  lane {stream} is at {reading:?}, {policy:?}"));
    }
    /// Rows arrive, and those destinations that do not hang settle them before they are written.
    /// More rows follow, which may be.
    pub(super) fn settle_soon(&mut self, rng: &mut Rng) {
        self.receive_soon(rng);
        let Some(process) = &mut self.process else { return };
        for (reader, sink) in process.readers.iter_mut().zip(&mut self.oracle.sinks) {
            if let Some(reader) = reader.as_mut().filter(|reader| !reader.hangs) {
                reader.settle_all(sink);
            }
        }
        if rng.bool() {
            self.receive_soon(rng);
        }
    }
}
