//! Limits the number of connections of a server, and selects which one is closed for a new one.
//!
//! A server that makes new connections wait while all slots are taken can be blocked by any client
//! that opens connections and sends nothing. Here a new connection replaces one of a client that
//! has not been authenticated, else an idle one, else one that sends its request slowly; in each
//! case the one that has been in this state for longest.
//!
//! Invariants: at most the configured number of slots exist; a slot whose request is being
//! processed, or whose response is being produced, is never reclaimed; a slot is free as soon as
//! its last handle is dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Minimum time to send a request before its connection can be replaced: most requests fit in one
/// packet.
const RECEIVING_MIN: Duration = Duration::from_secs(1);

/// Interval between checks whether a connection has become slow.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The side that a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The client, which has not sent the head of its next request, or has not received all of its
    /// response.
    Idle,
    /// The client, which is sending the body of a request.
    Receiving,
    /// The server.
    Working,
}

#[derive(Debug)]
struct SlotState {
    /// Requests of the connection: several at once with HTTP/2.
    requests: usize,
    /// Those of them whose body is being received.
    receiving: usize,
    /// When the phase began.
    since: Instant,
    /// The client is authenticated, or authentication is not required.
    is_admitted: bool,
    evict: Arc<Notify>,
}

#[derive(Debug)]
struct SlotTable {
    all: Mutex<BTreeMap<u64, SlotState>>,
    next: AtomicU64,
    freed: Notify,
}

impl SlotTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SlotState>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection slots of a server. Clones share the slots.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    max: usize,
    shared: Arc<SlotTable>,
}

impl ConnectionSlots {
    /// Allows `max` connections at once, at least one.
    pub fn new(max: usize) -> Self {
        let shared =
            SlotTable { all: Mutex::default(), next: AtomicU64::new(0), freed: Notify::new() };
        Self { max: max.max(1), shared: Arc::new(shared) }
    }

    /// Returns a slot for an accepted connection, once the connections before it have had their
    /// turn on this thread: while many clients connect, it would otherwise only accept. Waits for
    /// longer only while every other connection is being served or has just started to send its
    /// request.
    pub async fn take(&self) -> ConnectionSlot {
        tokio::task::yield_now().await;
        loop {
            let freed = self.shared.freed.notified();
            if let Some(slot) = self.try_take() {
                return slot;
            }
            let _looks_again = timeout(LOOK_AGAIN, freed).await;
        }
    }

    fn try_take(&self) -> Option<ConnectionSlot> {
        let mut all = self.shared.lock();
        let now = Instant::now();
        if all.len() >= self.max {
            let victim =
                all.iter().filter_map(|(id, state)| Some((state.rank(now)?, *id))).min()?;
            let state = all.remove(&victim.1)?;
            state.evict.notify_one();
        }
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let evict = Arc::new(Notify::new());
        let state = SlotState {
            requests: 0,
            receiving: 0,
            since: now,
            is_admitted: false,
            evict: evict.clone(),
        };
        all.insert(id, state);
        let guard = Arc::new(SlotGuard { id, shared: Arc::clone(&self.shared) });
        Some(ConnectionSlot { guard, evict })
    }
}

impl SlotState {
    fn phase(&self) -> Phase {
        match (self.requests, self.receiving) {
            (0, 0) => Phase::Idle,
            (requests, receiving) if requests <= receiving => Phase::Receiving,
            _ => Phase::Working,
        }
    }

    /// The slot with the lowest rank is replaced first; `None`: it cannot be replaced.
    fn rank(&self, now: Instant) -> Option<(bool, Phase, Instant)> {
        let is_slow = now.duration_since(self.since) >= RECEIVING_MIN;
        let phase = self.phase();
        let may_be_evicted = match phase {
            Phase::Idle => true,
            Phase::Receiving => is_slow || !self.is_admitted,
            Phase::Working => false,
        };
        may_be_evicted.then_some((self.is_admitted, phase, self.since))
    }
}

#[derive(Debug)]
struct SlotGuard {
    id: u64,
    shared: Arc<SlotTable>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.id);
        self.shared.freed.notify_one();
    }
}

/// A handle to the slot of one connection.
#[derive(Debug, Clone)]
pub struct ConnectionSlot {
    guard: Arc<SlotGuard>,
    evict: Arc<Notify>,
}

impl ConnectionSlot {
    /// Returns when the connection must be closed for a new one. Only one task may wait for it.
    pub async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// Marks the client as authenticated, or as not required to be.
    pub fn admit(&self) {
        if let Some(state) = self.guard.shared.lock().get_mut(&self.guard.id) {
            state.is_admitted = true;
        }
    }

    /// Marks the client as sending the body of a request until the guard is dropped.
    pub fn receiving(&self) -> Receiving {
        self.change(|state| state.receiving += 1);
        Receiving(self.clone())
    }

    /// Marks a request as being processed until the guard is dropped.
    pub fn working(&self) -> Working {
        self.change(|state| state.requests += 1);
        Working(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut SlotState)) {
        let mut all = self.guard.shared.lock();
        let Some(state) = all.get_mut(&self.guard.id) else { return };
        let before = state.phase();
        change(state);
        let phase = state.phase();
        if phase != before {
            state.since = Instant::now();
        }
        drop(all);
        if phase != Phase::Working {
            self.guard.shared.freed.notify_one();
        }
    }
}

/// Guard of a connection whose request is being processed.
#[derive(Debug)]
pub struct Working(ConnectionSlot);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.change(|state| state.requests -= 1);
    }
}

/// Guard of a connection whose client is sending the body of a request.
#[derive(Debug)]
pub struct Receiving(ConnectionSlot);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.change(|state| state.receiving -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a slot, and says whether that took no time.
    async fn take(slots: &ConnectionSlots) -> (ConnectionSlot, Duration) {
        let begun = Instant::now();
        let slot = slots.take().await;
        (slot, begun.elapsed())
    }

    async fn is_evicted(slot: &ConnectionSlot) -> bool {
        timeout(Duration::ZERO, slot.evicted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn eviction_prefers_unauthenticated_then_idle_then_slow_connections() {
        let slots = ConnectionSlots::new(4);
        let [working, slow, idle, stranger] =
            [slots.take().await, slots.take().await, slots.take().await, slots.take().await];
        for known in [&working, &slow, &idle] {
            known.admit();
        }
        let _guard = working.working();
        let _body = slow.receiving();
        tokio::time::advance(Duration::from_secs(2)).await;
        // The newer ones are working at once, and so are never candidates.
        let mut newer = Vec::new();
        for expected in [&stranger, &idle, &slow] {
            assert!(!is_evicted(expected).await);
            let (slot, waited) = take(&slots).await;
            newer.push(slot.working());
            assert_eq!(waited, Duration::ZERO);
            assert!(is_evicted(expected).await);
        }
        assert!(!is_evicted(&working).await);
    }

    #[tokio::test]
    async fn the_connections_before_are_served_first() {
        let slots = ConnectionSlots::new(2);
        for _ in 0..100 {
            let slot = slots.take().await;
            let serving = tokio::spawn(async move { drop(slot) });
            let newer = slots.take().await;
            assert!(serving.is_finished());
            drop(newer);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_waits_only_while_all_are_working() {
        let slots = ConnectionSlots::new(1);
        let first = slots.take().await;
        first.admit();
        let guard = first.working();
        assert!(timeout(Duration::from_mins(1), slots.take()).await.is_err());
        drop(guard);
        let (second, waited) = take(&slots).await;
        assert_eq!(waited, Duration::ZERO);
        second.admit();
        let _body = second.receiving();
        let (_third, waited) = take(&slots).await;
        assert!(waited >= RECEIVING_MIN && waited <= RECEIVING_MIN + LOOK_AGAIN, "{waited:?}");
        drop((first, second));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_free_when_its_connection_ends() {
        let slots = ConnectionSlots::new(1);
        let first = slots.take().await;
        let guard = first.working();
        let waiting = slots.take();
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        drop(guard);
        drop(first);
        waiting.await;
    }
}
