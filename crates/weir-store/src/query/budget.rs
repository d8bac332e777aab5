//! What a query may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weir_host::Clock;

/// Why a query stops before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The time is up: what is there is the answer.
    Deadline,
    /// The memory is used up: what is there is the answer.
    Memory,
    /// Nobody waits for the answer any more.
    Cancelled,
}

/// Time and memory of one query, shared by all who work on it.
#[derive(Debug, Clone)]
pub struct Budget {
    clock: Arc<dyn Clock>,
    /// By the monotonic clock.
    deadline: Option<Duration>,
    cancelled: Arc<AtomicBool>,
    memory_left_bytes: Arc<AtomicUsize>,
}

impl Budget {
    /// So much time from now on (`None` = any), so many bytes for what is gathered.
    pub fn new(clock: Arc<dyn Clock>, time: Option<Duration>, memory_bytes: usize) -> Self {
        let deadline = time.map(|time| clock.monotonic().saturating_add(time));
        Self {
            clock,
            deadline,
            cancelled: Arc::default(),
            memory_left_bytes: Arc::new(AtomicUsize::new(memory_bytes)),
        }
    }

    /// Set to true when nobody waits for the answer any more.
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// Whether to go on; asked once per page or so.
    ///
    /// # Errors
    /// The reason to stop.
    pub fn check(&self) -> Result<(), Stop> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Stop::Cancelled);
        }
        match self.deadline {
            Some(deadline) if self.clock.monotonic() >= deadline => Err(Stop::Deadline),
            _ => Ok(()),
        }
    }

    /// Memory that nobody has taken.
    pub fn memory_left_bytes(&self) -> usize {
        self.memory_left_bytes.load(Ordering::Relaxed)
    }

    /// Takes memory for what is gathered.
    ///
    /// # Errors
    /// There is not so much left; nothing was taken.
    pub fn take(&self, bytes: usize) -> Result<(), Stop> {
        self.memory_left_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
            .map(|_| ())
            .map_err(|_| Stop::Memory)
    }
}
