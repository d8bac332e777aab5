//! All live tails: how many there may be, and those whose readers are away.
//!
//! Invariants: a session is with its connection or here, never both; one whose reader does not come
//! back is dropped after [`KEPT`]; as many may be away as may be served; what all of them send in a
//! second is bounded by [`ROWS_PER_SECOND_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::ROWS_PER_SECOND_MAX;
use super::session::Session;

/// How long a session is kept for its reader to come back.
pub(crate) const KEPT: Duration = Duration::from_secs(30);

/// How long a connection may take to give up its session to another.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// All live tails.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<u64, Slot>>,
    tails_max: usize,
    permits: Arc<Semaphore>,
    refused: AtomicU64,
    /// A session was parked.
    parked: Notify,
}

#[derive(Debug)]
enum Slot {
    /// With a connection, which gives it up when notified.
    Served(Arc<Notify>),
    /// Its reader is away.
    Parked(Box<Session>, Instant),
}

impl Slot {
    fn is_expired(&self) -> bool {
        matches!(self, Self::Parked(_, since) if since.elapsed() >= KEPT)
    }
}

impl Sessions {
    /// At most so many are served at once.
    pub(crate) fn new(tails_max: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::default(),
            tails_max,
            permits: Arc::new(Semaphore::new(tails_max)),
            refused: AtomicU64::new(0),
            parked: Notify::new(),
        })
    }

    /// Leave to serve one more.
    pub(super) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.permits.clone().try_acquire_owned().ok();
        if permit.is_none() {
            self.count_refused();
        }
        permit
    }

    /// One more was not admitted.
    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were not admitted.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many are served.
    pub(crate) fn served(&self) -> usize {
        self.tails_max - self.permits.available_permits()
    }

    /// Rows per second that each may send, so that all together stay within their bound.
    pub(super) fn rate_share(&self) -> u32 {
        let served = u32::try_from(self.served()).unwrap_or(u32::MAX);
        ROWS_PER_SECOND_MAX / served.clamp(1, ROWS_PER_SECOND_MAX)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection serves the session; it gives it up when what is returned is notified.
    pub(super) fn enter(&self, id: u64) -> Arc<Notify> {
        let release = Arc::new(Notify::new());
        self.slots().insert(id, Slot::Served(release.clone()));
        release
    }

    /// The session has ended.
    pub(super) fn leave(&self, id: u64) {
        self.slots().remove(&id);
    }

    /// Keeps the session of a reader that went away.
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
            tokio::time::sleep(KEPT).await;
            if let Some(sessions) = sessions.upgrade() {
                sessions.slots().retain(|_, slot| !slot.is_expired());
            }
        });
    }

    /// The session, from the connection that still serves it if need be.
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
