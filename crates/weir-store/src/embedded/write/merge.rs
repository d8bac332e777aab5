//! Background work while nothing waits to be flushed: retention, deletions (`keep/deletion.rs`),
//! missing sidecars, merging.
//!
//! Small segments are decoded and encoded again, each record at most once; segments that are large
//! enough to compress well are concatenated unchanged. Invariants: only neighbors in the order of
//! sequences are merged, so the sequences of two segments never overlap; the new segment replaces
//! the old ones in one change of the manifest; retention removes whole segments, oldest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::files::TemporaryFile;
use super::flusher::{Flusher, PendingCommit};
use super::manifest::{Counters, ManifestChange, SegmentEntry};
use crate::embedded::columns::Rows;
use crate::embedded::keep::catalog::LiveSegment;
use crate::embedded::read::snapshot::OpenSegment;
use crate::embedded::segment::{Segment, SegmentError, concat_columns, concat_segments};
use crate::embedded::sidecar::{
    Sidecar, SidecarError, concat_sidecars, rebuild_sidecar, write_segment_with_sidecar,
};
use crate::limits::{
    CONCAT_BYTES_MIN, MERGE_BYTES_MAX, MERGE_SEGMENTS_MAX, MERGE_SEGMENTS_MIN, ROW_GROUP_ROWS_MAX,
    SEGMENT_BYTES_MAX,
};

/// zstd level for segments that are encoded again.
pub(crate) const MERGE_LEVEL: i32 = 3;
/// A few small segments are merged anyway when the first is this old.
const MERGE_AGE: Duration = Duration::from_hours(1);
/// For this long after a start, retention by age never removes everything: the clock may be wrong.
const RETENTION_GRACE: Duration = Duration::from_hours(1);

/// Segments to be merged into one.
struct MergePlan {
    parts: Vec<(SegmentEntry, Arc<OpenSegment>)>,
    is_concatenation: bool,
}

impl Flusher {
    /// Performs one piece of background work. Returns true when there was something to do.
    pub(crate) fn run_maintenance(&mut self) -> Result<bool, SidecarError> {
        Ok(self.collect_obsolete()
            || self.retire(0)?
            || self.apply_deletions()?
            || self.rebuild_missing_sidecar()?
            || self.merge()?)
    }

    /// Removes segments that exceed the maximum age or size.
    ///
    /// `replaced_bytes` of the rest are removed as well, for newer records.
    pub(crate) fn retire(&mut self, replaced_bytes: u64) -> Result<bool, SidecarError> {
        let config = &self.shared.config;
        let mut entries: Vec<SegmentEntry> = self.contents().segments.values().copied().collect();
        entries.sort_unstable_by_key(|entry| entry.sequences);
        let now = self.shared.clock.unix_ns();
        let age_max = config.retention.map_or(i64::MAX, |age| age.as_nanos() as i64);
        let is_old = |entry: &SegmentEntry| now.saturating_sub(entry.stored_ns) > age_max;
        let is_in_grace = entries.iter().all(is_old) && self.uptime() < RETENTION_GRACE;
        let mut bytes: u64 = entries.iter().map(|e| e.segment_bytes + e.sidecar_bytes).sum();
        let bytes_max =
            config.retention_bytes.unwrap_or(u64::MAX).min(bytes.saturating_sub(replaced_bytes));
        let mut change = ManifestChange { counters: self.counters(0), ..ManifestChange::default() };
        for entry in &entries {
            if bytes <= bytes_max && (is_in_grace || !is_old(entry)) {
                continue;
            }
            let size = entry.segment_bytes + entry.sidecar_bytes;
            bytes -= size;
            change.removed.push(entry.id);
            let Counters { retired, .. } = &mut change.counters;
            retired.segments += 1;
            retired.rows += entry.rows;
            retired.bytes += size;
        }
        if change.removed.is_empty() {
            return Ok(false);
        }
        let segments = change.removed.len();
        self.commit(PendingCommit { change, ..PendingCommit::default() })?;
        tracing::info!(segments, "segments removed by retention");
        Ok(true)
    }

    /// Builds a missing sidecar, one at a time.
    fn rebuild_missing_sidecar(&mut self) -> Result<bool, SidecarError> {
        let found = {
            let catalog = self.shared.catalog();
            let mut live = catalog.segments.values();
            let lacks = |live: &&LiveSegment| {
                let open = live.open.as_ref();
                open.is_some_and(|o| o.sidecar.is_none()) && !self.skipped.contains(&live.entry.id)
            };
            live.find(lacks).cloned()
        };
        let Some(LiveSegment { entry, open: Some(open) }) = found else { return Ok(false) };
        // Try once: a sidecar that cannot be built now, or is of a later release, is left alone.
        self.skipped.insert(entry.id);
        let files = self.shared.files(&entry);
        let disk = &*self.shared.disk.clone();
        let segment = files.open_segment(disk)?;
        if files.has_later_sidecar(disk, &segment) {
            return Ok(true);
        }
        let temporary = TemporaryFile::create(disk, &files.sidecar)?;
        let built = rebuild_sidecar(&segment, temporary.file.clone());
        let published = built.and_then(|sidecar| {
            temporary.publish(disk)?;
            disk.sync_dir(files.sidecar.parent().unwrap_or(&self.shared.config.dir))?;
            Ok(sidecar)
        });
        match published {
            Ok(sidecar) => {
                let name = open.name.clone();
                let open = Arc::new(OpenSegment { name, segment, sidecar: Some(sidecar) });
                if let Some(live) = self.shared.catalog().segments.get_mut(&entry.id) {
                    live.open = Some(open);
                }
                tracing::info!(segment = entry.id, "sidecar rebuilt");
                Ok(true)
            }
            Err(error) => {
                temporary.discard(disk);
                tracing::warn!(segment = entry.id, %error, "sidecar cannot be rebuilt");
                Ok(true)
            }
        }
    }

    /// Merges several segments into one, when worthwhile.
    fn merge(&mut self) -> Result<bool, SidecarError> {
        let Some(plan) = self.plan() else { return Ok(false) };
        let begun = self.shared.clock.monotonic();
        // A merge can wait for free space, and must not delay flushes.
        let bytes = plan.parts.iter().map(|(entry, _)| entry.segment_bytes).sum();
        if self.check_maintenance_space(bytes).is_err() {
            return Ok(false);
        }
        let sequences = plan.parts.iter().map(|(entry, _)| entry.sequences);
        let sequences = sequences.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
        let stored_ns = plan.parts.iter().map(|(entry, _)| entry.stored_ns).max();
        let tier = plan.parts.iter().map(|(entry, _)| tier_of(entry)).max().unwrap_or(0) + 1;
        let raw_bytes = plan.parts.iter().map(|(entry, _)| entry.raw_bytes).sum();
        let provenance = self.provenance(sequences, stored_ns, tier, raw_bytes);
        let merged = if plan.is_concatenation {
            let segments: Vec<&Segment> = plan.parts.iter().map(|(_, o)| &o.segment).collect();
            let sidecars: Vec<&Sidecar> =
                plan.parts.iter().filter_map(|(_, o)| o.sidecar.as_ref()).collect();
            let columns = concat_columns(&segments).unwrap_or_default();
            self.create(&provenance, |segment, sidecar| {
                let summary = concat_segments(&segments, &columns, Some(&provenance), segment)?;
                concat_sidecars(&sidecars, &summary, sidecar)?;
                Ok(summary)
            })
        } else {
            gather(&plan).map_err(SidecarError::from).and_then(|rows| {
                self.create(&provenance, |segment, sidecar| {
                    let of = Some(&provenance);
                    write_segment_with_sidecar(&rows, MERGE_LEVEL, of, segment, sidecar)
                })
            })
        };
        let (entry, open) = match merged {
            Err(error) if is_damage(&error) => {
                tracing::error!(%error, "merge skipped: a segment is damaged");
                self.skipped.extend(plan.parts.iter().map(|(entry, _)| entry.id));
                return Ok(true);
            }
            merged => merged?,
        };
        let change = ManifestChange {
            added: vec![entry],
            removed: plan.parts.iter().map(|(entry, _)| entry.id).collect(),
            counters: self.counters(0),
            ..ManifestChange::default()
        };
        drop(plan);
        self.commit(PendingCommit {
            change,
            opened: vec![(entry, open)],
            ..PendingCommit::default()
        })?;
        let taken = self.shared.clock.monotonic().saturating_sub(begun);
        let counts = &self.shared.counts;
        counts.merges.fetch_add(1, Ordering::Relaxed);
        counts.merge_us.fetch_add(taken.as_micros() as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Returns the first neighbors that are worth merging.
    fn plan(&self) -> Option<MergePlan> {
        let mut all: Vec<LiveSegment> = self.shared.catalog().segments.values().cloned().collect();
        all.sort_unstable_by_key(|live| live.entry.sequences);
        let now = self.shared.clock.unix_ns();
        let kind = |live: &LiveSegment| {
            let has_all = live.open.as_ref().is_some_and(|open| open.sidecar.is_some());
            (has_all && !self.skipped.contains(&live.entry.id)).then(|| tier_of(&live.entry))
        };
        for run in all.chunk_by(|a, b| kind(a).is_some() && kind(a) == kind(b)) {
            let Some(tier) = run.first().and_then(&kind) else { continue };
            let plan = if tier == 0 { small(run, now) } else { large(run) };
            if plan.is_some() {
                return plan;
            }
        }
        None
    }
}

/// Returns the tier; a segment large enough to stay unchanged counts as merged once.
fn tier_of(entry: &SegmentEntry) -> u8 {
    if entry.tier == 0 && entry.raw_bytes >= CONCAT_BYTES_MIN { 1 } else { entry.tier }
}

/// Returns small neighbors, to be encoded again.
fn small(run: &[LiveSegment], now: i64) -> Option<MergePlan> {
    let (mut count, mut bytes, mut rows) = (0, 0, 0);
    for live in run.iter().take(MERGE_SEGMENTS_MAX) {
        let entry = &live.entry;
        let too_much = bytes + entry.raw_bytes > MERGE_BYTES_MAX
            || rows + entry.rows > ROW_GROUP_ROWS_MAX as u64;
        if too_much {
            break;
        }
        (count, bytes, rows) = (count + 1, bytes + entry.raw_bytes, rows + entry.rows);
    }
    let age = now.saturating_sub(run.first()?.entry.stored_ns);
    let is_old = i128::from(age) > MERGE_AGE.as_nanos() as i128;
    let is_worth_it =
        count == MERGE_SEGMENTS_MAX || bytes >= CONCAT_BYTES_MIN || is_old || count < run.len();
    (count >= 2 && is_worth_it).then(|| plan_of(&run[..count], false))
}

/// Returns neighboring large segments, to be concatenated unchanged.
fn large(run: &[LiveSegment]) -> Option<MergePlan> {
    for from in 0..run.len().saturating_sub(MERGE_SEGMENTS_MIN - 1) {
        let rest = &run[from..];
        let mut bytes = 0;
        let fits = rest.iter().take(MERGE_SEGMENTS_MAX).take_while(|live| {
            bytes += live.entry.segment_bytes;
            bytes <= SEGMENT_BYTES_MAX
        });
        for count in (MERGE_SEGMENTS_MIN..=fits.count()).rev() {
            let segments: Vec<&Segment> =
                rest[..count].iter().filter_map(|l| Some(&l.open.as_ref()?.segment)).collect();
            if concat_columns(&segments).is_some() {
                return Some(plan_of(&rest[..count], true));
            }
        }
    }
    None
}

fn plan_of(run: &[LiveSegment], is_concatenation: bool) -> MergePlan {
    let parts = run.iter().filter_map(|live| Some((live.entry, live.open.clone()?)));
    MergePlan { parts: parts.collect(), is_concatenation }
}

/// Returns all records of the parts.
fn gather(plan: &MergePlan) -> Result<Rows, SegmentError> {
    let mut rows = Rows::new();
    for (_, open) in &plan.parts {
        let mut groups = 0..open.segment.group_count();
        groups.try_for_each(|group| open.segment.copy_group(group, |_| true, &mut rows))?;
    }
    Ok(rows)
}

pub(crate) fn is_damage(error: &SidecarError) -> bool {
    match error {
        SidecarError::Segment(error) => error.is_damage(),
        SidecarError::Damaged(_) => true,
        _ => false,
    }
}
