//! Deletion of records on request.
//!
//! A deletion covers the records that match a query, among all that were received before it was
//! requested. Invariants: every record that a request concerns is in a segment before the request
//! is written to the manifest, so its place in the order of sequences permanently determines what
//! it concerns; from the moment at which it is durable, every query hides those records; it is done
//! only when no byte of them is left in any file of the store, including the manifest, which then
//! forgets the request. A deletion that is cancelled before that hides and removes nothing from the
//! moment at which the cancellation is durable.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalog::{LiveSegment, StoreState};
use crate::embedded::read::scan::{DeletedRows, find_deleted_rows};
use crate::embedded::read::snapshot::{Deletion, Snapshot};
use crate::embedded::sidecar::SidecarError;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::write::flusher::{Flusher, PendingCommit};
use crate::embedded::write::manifest::{DeletionEntry, ManifestChange};
use crate::embedded::write::merge::is_damage;
use crate::embedded::write::requests::{NoReply, PendingReply, Request};
use crate::limits::{DELETIONS_DONE_MAX, DELETIONS_PENDING_MAX};
use crate::query::{
    Access, Budget, CancelError, DeleteError, DeletionReport, DeletionRequest, QueryError,
};

/// A deletion that is to be written to the manifest.
#[derive(Debug)]
pub(crate) struct QueuedDeletion {
    request: DeletionRequest,
    /// The records that it concerns are in segments once this flush is completed.
    pub(crate) after_flush: u64,
}

impl EmbeddedStore {
    /// See [`crate::query::LogStore::delete`].
    pub(crate) fn delete(
        &self,
        request: &DeletionRequest,
        timeout: Duration,
    ) -> Result<u64, DeleteError> {
        if !self.is_running() {
            return Err(DeleteError::NotRunning);
        }
        let pending = request_deletion(&self.shared, request)?;
        pending.wait(&self.shared, |queue| &mut queue.deletions, timeout).map_err(|why| match why {
            NoReply::Withdrawn => DeleteError::Late,
            NoReply::Uncertain => DeleteError::Uncertain,
            NoReply::Ended => DeleteError::NotRunning,
        })
    }

    /// See [`crate::query::LogStore::deletions`]. The queries are left out for readers who may not
    /// see all records.
    pub(crate) fn deletions(&self, access: &Access) -> Vec<DeletionReport> {
        let catalog = self.shared.catalog();
        let report = |(id, entry): (&u64, &DeletionEntry)| DeletionReport {
            id: *id,
            query: (entry.done_ns.is_none() && access.restriction().is_none())
                .then(|| entry.query.clone()),
            range: entry.range,
            requested_ns: entry.requested_ns,
            done_ns: entry.done_ns,
            is_cancelled: entry.is_cancelled,
            rows: entry.removed,
            segments_left: catalog.affected_by(*id, entry).len() as u64,
        };
        catalog.deletion_entries.iter().rev().map(report).collect()
    }

    /// See [`crate::query::LogStore::cancel_deletion`].
    pub(crate) fn cancel_deletion(
        &self,
        id: u64,
        access: &Access,
        timeout: Duration,
    ) -> Result<DeletionReport, CancelError> {
        if !self.is_running() {
            return Err(CancelError::NotRunning);
        }
        if access.restriction().is_some() {
            return Err(CancelError::Unknown(id));
        }
        let pending = request_cancellation(&self.shared, id)?;
        match pending.wait(&self.shared, |queue| &mut queue.cancels, timeout) {
            Err(NoReply::Withdrawn) => return Err(CancelError::Late),
            Err(NoReply::Uncertain) => return Err(CancelError::Uncertain),
            Ok(_) | Err(NoReply::Ended) => {}
        }
        // It may have been completed in the meantime.
        let report = self.deletions(access).into_iter().find(|report| report.id == id);
        match report.ok_or(CancelError::Unknown(id))? {
            report if report.is_cancelled => Ok(report),
            report if report.done_ns.is_some() => Err(CancelError::Done(id)),
            _ => Err(CancelError::NotRunning),
        }
    }
}

/// Requests the cancellation of a deletion, unless it is known to be impossible.
pub(crate) fn request_cancellation(
    shared: &StoreState,
    id: u64,
) -> Result<PendingReply, CancelError> {
    let known = shared.catalog().deletion_entries.get(&id).cloned();
    let known = known.ok_or(CancelError::Unknown(id))?;
    if known.done_ns.is_some() && !known.is_cancelled {
        return Err(CancelError::Done(id));
    }
    let mut queue = shared.queue();
    if queue.has_ended || queue.is_given_up {
        return Err(CancelError::NotRunning);
    }
    let pending = queue.cancels.push(id);
    drop(queue);
    shared.work.notify_one();
    Ok(pending)
}

/// Requests a deletion, which takes effect once the head has been flushed.
pub(crate) fn request_deletion(
    shared: &StoreState,
    request: &DeletionRequest,
) -> Result<PendingReply, DeleteError> {
    let active = shared.catalog().deletions.len();
    let mut queue = shared.queue();
    if queue.has_ended || queue.is_given_up {
        return Err(DeleteError::NotRunning);
    }
    if active + queue.deletions.len() >= DELETIONS_PENDING_MAX {
        return Err(DeleteError::TooMany);
    }
    queue.flushes_wanted += 1;
    let after_flush = queue.flushes_wanted;
    let pending = queue.deletions.push(QueuedDeletion { request: request.clone(), after_flush });
    drop(queue);
    shared.progress.notify_one();
    Ok(pending)
}

impl Flusher {
    /// Writes the next requested deletion to the manifest. Returns false when there is none.
    pub(crate) fn begin_deletion(&mut self) -> Result<bool, SidecarError> {
        let Some(request) = self.shared.queue().next_deletion() else { return Ok(false) };
        let Request { payload: queued, reply, .. } = request;
        let mut counters = self.counters(0);
        let id = counters.next_deletion.max(1);
        counters.next_deletion = id + 1;
        let entry = DeletionEntry {
            query: queued.request.visible_query().to_string(),
            range: queued.request.range,
            // Covers everything that is in segments, and nothing that is in the head.
            before_sequence: self.contents().counters.next_sequence,
            requested_ns: self.shared.clock.unix_ns(),
            done_ns: None,
            is_cancelled: false,
            removed: 0,
        };
        let change =
            ManifestChange { deletions: vec![(id, entry)], counters, ..ManifestChange::default() };
        let reply = Some((reply, id));
        self.commit(PendingCommit { change, reply, ..PendingCommit::default() })?;
        tracing::info!(id, "deletion started: the records are hidden from now on");
        Ok(true)
    }

    /// Processes the next requested cancellation; a deletion that has ended stays as it is. Returns
    /// false when there is none.
    pub(crate) fn cancel_deletion(&mut self) -> Result<bool, SidecarError> {
        let Some(request) = self.shared.queue().cancels.pop() else { return Ok(false) };
        let Request { payload: id, reply, .. } = request;
        let Some(entry) = self.contents().deletions.get(&id) else { return Ok(true) };
        if entry.done_ns.is_some() {
            let _nobody_waits = reply.send(id);
            return Ok(true);
        }
        let entry = entry.ended(self.shared.clock.unix_ns(), true);
        tracing::info!(id, removed = entry.removed, "deletion cancelled");
        let (deletions, counters) = (vec![(id, entry)], self.counters(0));
        let deletions_forgotten = self.too_many_done(1);
        let change = ManifestChange {
            deletions,
            deletions_forgotten,
            counters,
            ..ManifestChange::default()
        };
        self.commit(PendingCommit {
            change,
            reply: Some((reply, id)),
            ..PendingCommit::default()
        })?;
        Ok(true)
    }

    /// Returns the oldest ended deletions that exceed the limit once `more` are added.
    fn too_many_done(&self, more: usize) -> Vec<u64> {
        let known = &self.contents().deletions;
        let is_done = |(_, entry): &(&u64, &DeletionEntry)| entry.done_ns.is_some();
        let done: Vec<u64> = known.iter().filter(is_done).map(|(id, _)| *id).collect();
        let too_many = (done.len() + more).saturating_sub(DELETIONS_DONE_MAX);
        done.into_iter().take(too_many).collect()
    }

    /// Removes deleted records from the next segment, or records that a deletion is done. Returns
    /// false when nothing can be done at present.
    pub(crate) fn apply_deletions(&mut self) -> Result<bool, SidecarError> {
        let is_pending = |(_, entry): &(&u64, &DeletionEntry)| entry.done_ns.is_none();
        let pending: BTreeMap<u64, DeletionEntry> = self
            .contents()
            .deletions
            .iter()
            .filter(is_pending)
            .map(|(id, entry)| (*id, entry.clone()))
            .collect();
        if pending.is_empty() {
            return Ok(false);
        }
        match self.next_affected(&pending) {
            Some((live, ids)) => self.delete_from(&live, &ids, &pending),
            None => self.end_deletions(&pending),
        }
    }

    /// Returns the first segment that may have deleted records, and the deletions that it has not
    /// been searched for yet.
    fn next_affected(
        &self,
        pending: &BTreeMap<u64, DeletionEntry>,
    ) -> Option<(LiveSegment, Vec<u64>)> {
        let catalog = self.shared.catalog();
        let is_readable =
            |live: &&LiveSegment| live.open.is_some() && !self.unreadable.contains(&live.entry.id);
        catalog.segments.values().filter(is_readable).find_map(|live| {
            let is_affected =
                |(id, entry): &(&u64, &DeletionEntry)| catalog.may_affect(**id, entry, &live.entry);
            let ids: Vec<u64> = pending.iter().filter(is_affected).map(|(id, _)| *id).collect();
            (!ids.is_empty()).then(|| (live.clone(), ids))
        })
    }

    fn delete_from(
        &mut self,
        live: &LiveSegment,
        ids: &[u64],
        pending: &BTreeMap<u64, DeletionEntry>,
    ) -> Result<bool, SidecarError> {
        let Some(open) = live.open.clone() else { return Ok(false) };
        let parsed: Vec<(u64, Deletion)> =
            ids.iter().filter_map(|id| Some((*id, pending.get(id)?.parsed()?))).collect();
        let snapshot = Snapshot { segments: vec![open.clone()], ..Snapshot::default() };
        let Some((deleted, counts)) = self.find_deleted_rows(&snapshot, &parsed)? else {
            self.record_unreadable(live, "the segment is damaged");
            return Ok(true);
        };
        drop(snapshot);
        if deleted.is_empty() {
            self.record_clean(ids, live.entry.id);
            return Ok(true);
        }
        // A deletion that adds no rows to those of the others may be cancelled in the meantime.
        let with_rows = parsed.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let effective: Vec<u64> = with_rows.map(|((id, _), _)| *id).collect();
        let written = match self.rewrite(&live.entry, &open, &deleted, &effective) {
            Ok(Some(written)) => written,
            Ok(None) => return Ok(true),
            Err(error) if is_damage(&error) => {
                self.record_unreadable(live, &error.to_string());
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let mut counters = self.counters(0);
        let mut deletions = Vec::new();
        for ((id, _), count) in parsed.iter().zip(counts) {
            counters.deleted += count;
            // Read again: it may have been cancelled if none of these rows is deleted because of
            // it.
            let known = self.contents().deletions.get(id);
            if let Some(entry) = known.filter(|entry| entry.done_ns.is_none()) {
                let removed = entry.removed + count;
                deletions.push((*id, DeletionEntry { removed, ..entry.clone() }));
            }
        }
        let added: Vec<_> = written.iter().map(|(entry, _)| *entry).collect();
        let new: Vec<u64> = added.iter().map(|entry| entry.id).collect();
        let removed = vec![live.entry.id];
        let change =
            ManifestChange { added, removed, deletions, counters, ..ManifestChange::default() };
        drop(open);
        self.commit(PendingCommit { change, opened: written, ..PendingCommit::default() })?;
        for segment in new {
            self.record_clean(ids, segment);
        }
        Ok(true)
    }

    fn find_deleted_rows(
        &self,
        snapshot: &Snapshot,
        parsed: &[(u64, Deletion)],
    ) -> Result<Option<(DeletedRows, Vec<u64>)>, SidecarError> {
        let deletions: Vec<&Deletion> = parsed.iter().map(|(_, deletion)| deletion).collect();
        let budget = Budget::new(self.shared.clock.clone(), None, usize::MAX);
        find_deleted_rows(snapshot, &deletions, &budget).map_err(|error| match error {
            QueryError::Read(error) => error.into(),
            error => std::io::Error::other(error.to_string()).into(),
        })
    }

    fn record_clean(&self, ids: &[u64], segment: u64) {
        self.shared.catalog().clean.extend(ids.iter().map(|id| (*id, segment)));
    }

    fn record_unreadable(&mut self, live: &LiveSegment, what: &str) {
        let segment = live.entry.id;
        tracing::error!(segment, what, "deleted records cannot be removed from a segment");
        self.unreadable.insert(segment);
    }

    /// Records which deletions are done: no segment has any of their records, and the replaced
    /// files are removed.
    fn end_deletions(
        &mut self,
        pending: &BTreeMap<u64, DeletionEntry>,
    ) -> Result<bool, SidecarError> {
        let now = self.shared.clock.unix_ns();
        let mut change = ManifestChange { counters: self.counters(0), ..ManifestChange::default() };
        {
            let catalog = self.shared.catalog();
            if !catalog.obsolete.is_empty() {
                return Ok(false);
            }
            for (id, entry) in pending {
                if entry.parsed().is_some() && catalog.affected_by(*id, entry).is_empty() {
                    change.deletions.push((*id, entry.ended(now, false)));
                }
            }
        }
        if change.deletions.is_empty() {
            return Ok(false);
        }
        change.deletions_forgotten = self.too_many_done(change.deletions.len());
        for (id, entry) in &change.deletions {
            tracing::info!(id, records = entry.removed, "deletion completed");
        }
        self.commit(PendingCommit { change, ..PendingCommit::default() })?;
        Ok(true)
    }
}
