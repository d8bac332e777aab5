//! Reading batches back that are only on disk.
//!
//! Destinations share event loops, and a disk may take seconds for a read: batches are read by a
//! thread of the journal, one after the other, while the destination that wants one waits for it
//! like for anything else. Without that thread, as in simulations, they are read in place.
//!
//! Invariants: a batch that is rewritten elsewhere in the meantime is found there; one that cannot
//! be read is reported once, with its segment, and is damaged from then on.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};
use weir_model::Batch;

use crate::JournalShared;
use crate::limits::READS_MAX;
use crate::read_cache::ReadCache;
use crate::segment::{self, ReadError};
use crate::state::Location;

/// A batch on disk that a destination has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) seq: u64,
    pub(crate) location: Location,
    /// Other destinations need it too.
    pub(crate) is_shared: bool,
    /// Number of records that the destination must deliver of it.
    pub(crate) records: u64,
}

type Job = Box<dyn FnOnce() + Send>;

/// The thread that reads, and what was read last.
#[derive(Debug, Default)]
pub(crate) struct Fetcher {
    cache: ReadCache,
    jobs: OnceLock<mpsc::Sender<Job>>,
}

impl Fetcher {
    /// Starts the thread. It ends with the journal.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let (sender, mut jobs) = mpsc::channel::<Job>(READS_MAX);
        std::thread::Builder::new().name("journal-read".to_owned()).spawn(move || {
            while let Some(job) = jobs.blocking_recv() {
                job();
            }
        })?;
        // It is started once.
        let _is_first = self.jobs.set(sender);
        Ok(())
    }

    /// Runs a job on the thread, or here if there is none.
    async fn run(&self, job: Job) {
        let rejected = match self.jobs.get() {
            Some(jobs) => jobs.send(job).await.err().map(|mpsc::error::SendError(job)| job),
            None => Some(job),
        };
        if let Some(job) = rejected {
            job();
        }
    }
}

/// Reads a batch without blocking the caller's thread; `None` if it can no longer be read.
pub(crate) async fn read(shared: &Arc<JournalShared>, wanted: Wanted) -> Option<Arc<Batch>> {
    if let Some(batch) = shared.fetcher.cache.get(wanted.location) {
        return Some(batch);
    }
    let (sender, receiver) = oneshot::channel();
    let of = shared.clone();
    let job = move || {
        // The destination may have been stopped in the meantime.
        if !sender.is_closed() {
            let _is_gone = sender.send(read_here(&of, wanted));
        }
    };
    shared.fetcher.run(Box::new(job)).await;
    // A panic of the thread is that of the reader.
    receiver.await.unwrap_or_else(|_| read_here(shared, wanted))
}

/// Reads a batch on the caller's thread, unless another destination has just read it.
pub(crate) fn read_here(shared: &JournalShared, wanted: Wanted) -> Option<Arc<Batch>> {
    let cache = &shared.fetcher.cache;
    if let Some(batch) = cache.get(wanted.location) {
        return Some(batch);
    }
    let batch = Arc::new(read_current(shared, wanted)?);
    if wanted.is_shared {
        cache.put(wanted.location, &batch);
    }
    Some(batch)
}

/// Reads a batch from its location, even if it is rewritten in the meantime.
fn read_current(shared: &JournalShared, wanted: Wanted) -> Option<Batch> {
    let mut location = wanted.location;
    loop {
        let file = shared.lock().segments.get(&location.segment).map(|s| s.file.clone());
        let gone = || Err(ReadError::Io(std::io::ErrorKind::NotFound.into()));
        let read = || file.as_ref().map_or_else(gone, |f| segment::read_frame(&**f, location));
        // Try twice: a device may fail a single read and then succeed.
        let error = match read().or_else(|_| read()) {
            Ok(batch) => return Some(batch),
            Err(error) => error,
        };
        let now_at = shared.lock().slots.get(&wanted.seq).and_then(|slot| slot.location);
        if let Some(moved) = now_at.filter(|now_at| *now_at != location) {
            // It was rewritten elsewhere in the meantime.
            location = moved;
            continue;
        }
        let records = wanted.records;
        tracing::error!(%error, records, "a batch in the journal can no longer be read; its records are discarded");
        shared.lock().note_damage(location);
        return None;
    }
}
