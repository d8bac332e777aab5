//! All live tails: their number, and those whose readers are disconnected.
//!
//! Invariants: a session belongs to its connection or is here, never both; one whose reader does
//! not return is dropped after [`SESSION_LIFETIME`]; at most as many may be disconnected as may be
//! served; the total number of rows per second is limited to [`ROWS_PER_SECOND_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::ROWS_PER_SECOND_MAX;
use super::session::Session;

/// How long a session is kept for its reader to return.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(30);

/// How long a connection may take to hand its session to another.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// All live tails.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<u64, Slot>>,
    tails_max: usize,
    permits: Arc<Semaphore>,
    refused: AtomicU64,
    /// Expressions are compiled one at a time.
    compiling: Semaphore,
    /// Notified when a session is parked.
    parked: Notify,
}

#[derive(Debug)]
enum Slot {
    /// Served by a connection, which gives it up when notified.
    Served(Arc<Notify>),
    /// Its reader is disconnected.
    Parked(Box<Session>, Instant),
}

impl Slot {
    fn is_expired(&self) -> bool {
        matches!(self, Self::Parked(_, since) if since.elapsed() >= SESSION_LIFETIME)
    }
}

impl Sessions {
    /// Creates the list; at most this many are served at once.
    pub(crate) fn new(tails_max: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::default(),
            tails_max,
            permits: Arc::new(Semaphore::new(tails_max)),
            refused: AtomicU64::new(0),
            compiling: Semaphore::new(1),
            parked: Notify::new(),
        })
    }

    /// Returns a permit to serve one more, if there is one.
    pub(super) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.permits.clone().try_acquire_owned().ok();
        if permit.is_none() {
            self.count_refused();
        }
        permit
    }

    /// Waits for the turn to compile an expression.
    pub(super) async fn compiling(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.compiling.acquire().await.ok()
    }

    /// Counts a rejected live tail.
    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of rejected live tails.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The number of active live tails.
    pub(crate) fn served(&self) -> usize {
        self.tails_max - self.permits.available_permits()
    }

    /// Rows per second that each may send, so that the total stays within its limit.
    pub(super) fn rate_share(&self) -> u32 {
        let served = u32::try_from(self.served()).unwrap_or(u32::MAX);
        ROWS_PER_SECOND_MAX / served.clamp(1, ROWS_PER_SECOND_MAX)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers that a connection serves the session; the connection gives it up when the returned
    /// value is notified.
    pub(super) fn enter(&self, id: u64) -> Arc<Notify> {
        let release = Arc::new(Notify::new());
        self.slots().insert(id, Slot::Served(release.clone()));
        release
    }

    /// Removes a session that has ended.
    pub(super) fn leave(&self, id: u64) {
        self.slots().remove(&id);
    }

    /// Keeps the session of a reader that has disconnected.
    pub(super) fn park(self: &Arc<Self>, session: Session) {
        let id = session.id;
        {
            let mut slots = self.slots();
            let parked = slots.values().filter(|slot| matches!(slot, Slot::Parked(..))).count();
            if parked < self.tails_max {
                slots.insert(id, Slot::Parked(Box::new(session), Instant::now()));
            } else {
                slots.remove(&id);
            }
        }
        self.parked.notify_waiters();
        let sessions = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(SESSION_LIFETIME).await;
            if let Some(sessions) = sessions.upgrade() {
                sessions.slots().retain(|_, slot| !slot.is_expired());
            }
        });
    }

    /// Takes the session, if necessary from the connection that still serves it.
    pub(super) async fn take(&self, id: u64) -> Option<Session> {
        if let Slot::Served(release) = self.slots().get(&id)? {
            release.notify_one();
        }
        let taken = async {
            loop {
                let parked = self.parked.notified();
                match self.take_parked(id) {
                    None if self.slots().contains_key(&id) => parked.await,
                    taken => return taken,
                }
            }
        };
        tokio::time::timeout(RELEASE_TIMEOUT, taken).await.ok().flatten()
    }

    fn take_parked(&self, id: u64) -> Option<Session> {
        let mut slots = self.slots();
        if !matches!(slots.get(&id)?, Slot::Parked(..)) {
            return None;
        }
        match slots.remove(&id)? {
            Slot::Parked(session, _) => Some(*session),
            Slot::Served(_) => None,
        }
    }
}
