//! Time and memory limits of queries.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weir_host::Clock;

/// Reasons for which a query stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The time limit was reached: the result so far is returned.
    Deadline,
    /// The memory limit was reached: the result so far is returned.
    Memory,
    /// The query was cancelled.
    Cancelled,
}

/// Decides when a query that has run for long lets others run first.
pub trait Turns: fmt::Debug + Send + Sync {
    /// Returns when the query may continue. Called by each of its threads with every check.
    ///
    /// # Errors
    /// The query may not continue.
    fn wait(&self, budget: &Budget) -> Result<(), StopReason>;
}

/// Time and memory limits of one query, shared by all of its threads.
#[derive(Debug, Clone)]
pub struct Budget {
    clock: Arc<dyn Clock>,
    turns: Option<Arc<dyn Turns>>,
    /// On the monotonic clock.
    deadline: Option<Duration>,
    cancelled: Arc<AtomicBool>,
    memory_left_bytes: Arc<AtomicUsize>,
}

impl Budget {
    /// Creates a budget with a time limit from now on (`None` = unlimited) and a memory limit in
    /// bytes.
    pub fn new(clock: Arc<dyn Clock>, time: Option<Duration>, memory_bytes: usize) -> Self {
        let deadline = time.map(|time| clock.monotonic().saturating_add(time));
        Self {
            clock,
            turns: None,
            deadline,
            cancelled: Arc::default(),
            memory_left_bytes: Arc::new(AtomicUsize::new(memory_bytes)),
        }
    }

    /// Returns the flag that is set to true to cancel the query.
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// Lets others run first, as `turns` decides.
    #[must_use]
    pub fn with_turns(self, turns: Arc<dyn Turns>) -> Self {
        Self { turns: Some(turns), ..self }
    }

    /// Checks whether to continue; called about once per page. May wait while others run.
    ///
    /// # Errors
    /// The reason to stop.
    pub fn check(&self) -> Result<(), StopReason> {
        self.check_limits()?;
        let Some(turns) = &self.turns else { return Ok(()) };
        turns.wait(self)?;
        self.check_limits()
    }

    /// Checks whether to continue, without waiting.
    ///
    /// # Errors
    /// The reason to stop.
    pub fn check_limits(&self) -> Result<(), StopReason> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(StopReason::Cancelled);
        }
        match self.deadline {
            Some(deadline) if self.clock.monotonic() >= deadline => Err(StopReason::Deadline),
            _ => Ok(()),
        }
    }

    /// Returns the memory that is still available.
    pub fn memory_left_bytes(&self) -> usize {
        self.memory_left_bytes.load(Ordering::Relaxed)
    }

    /// Reserves memory.
    ///
    /// # Errors
    /// Not enough memory is available; nothing was reserved.
    pub fn take(&self, bytes: usize) -> Result<(), StopReason> {
        self.memory_left_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
            .map(|_| ())
            .map_err(|_| StopReason::Memory)
    }
}
