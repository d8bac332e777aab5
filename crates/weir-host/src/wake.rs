//! A wake-up that a thread can wait for together with other descriptors (Linux eventfd).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a thread that waits in `poll`. Waking it twice before it looks counts once.
#[derive(Debug, Clone)]
pub struct WakeFd(Arc<OwnedFd>);

impl WakeFd {
    /// Creates one that is not woken.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Returns whether both wake the same thread.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // The only failure is a counter at its maximum, which is readable too.
        let _already_awake = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Consumes the wake-up; returns true if there was one.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0_u8; 8]).is_ok()
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
