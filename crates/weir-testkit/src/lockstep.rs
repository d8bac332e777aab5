//! A thread that runs only while it is told to, so that a test decides by a seed what happens
//! between any two of its steps, and every run with that seed is the same.
//!
//! Invariants: while the thread is held, at most one of the two sides runs; the thread gets the
//! turn by [`Lockstep::resume`] and returns it at its next pause; once released it never pauses
//! again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

/// Where the thread returns the turn. Clones belong to the same thread; pauses in other threads
/// have no effect.
#[derive(Debug, Clone)]
pub struct Pause(Arc<Turns>);

/// The thread as seen by the test. Released when dropped.
#[derive(Debug)]
pub struct Lockstep {
    shared: Arc<Turns>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Turns {
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Debug)]
struct Turn {
    /// The held thread; known once it runs.
    held: Option<ThreadId>,
    holder: Holder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Test,
    Thread,
    /// Released: both run freely.
    Both,
    /// The thread has ended.
    Nobody,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, mut turn: MutexGuard<'_, Turn>, holder: Holder) {
        while turn.holder == holder {
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, holder: Holder) {
        self.lock().holder = holder;
        self.changed.notify_all();
    }
}

/// Ensures that the test does not wait for the thread, however it ends.
struct Ended(Arc<Turns>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.set(Holder::Nobody);
    }
}

impl Pause {
    /// Creates a pause for a thread that starts later: see [`Lockstep::spawn`].
    pub fn new() -> Self {
        let turn = Turn { held: None, holder: Holder::Test };
        Self(Arc::new(Turns { turn: Mutex::new(turn), changed: Condvar::new() }))
    }

    /// Passes the turn to the test and waits until it comes back. Has no effect on another thread,
    /// or after the release.
    pub fn pause(&self) {
        let mut turn = self.0.lock();
        if turn.held != Some(std::thread::current().id()) || turn.holder != Holder::Thread {
            return;
        }
        turn.holder = Holder::Test;
        self.0.changed.notify_all();
        self.0.wait_while(turn, Holder::Test);
    }
}

impl Default for Pause {
    fn default() -> Self {
        Self::new()
    }
}

impl Lockstep {
    /// Starts a thread that waits for its first turn and pauses at each call of `pause`.
    pub fn spawn(name: &str, pause: &Pause, body: impl FnOnce() + Send + 'static) -> Self {
        let shared = Arc::clone(&pause.0);
        let begin = {
            let shared = Arc::clone(&shared);
            move || {
                let _ended = Ended(Arc::clone(&shared));
                let mut turn = shared.lock();
                turn.held = Some(std::thread::current().id());
                shared.wait_while(turn, Holder::Test);
                body();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(begin);
        Self { shared, thread: Some(thread.expect("a thread")) }
    }

    /// Lets the thread run until its next pause; returns false if it has ended.
    pub fn resume(&self) -> bool {
        let mut turn = self.shared.lock();
        if turn.holder == Holder::Test {
            turn.holder = Holder::Thread;
            self.shared.changed.notify_all();
            self.shared.wait_while(turn, Holder::Thread);
            turn = self.shared.lock();
        }
        turn.holder != Holder::Nobody
    }

    /// Lets the thread run to its end without pauses. Returns true unless it panicked.
    pub fn release(mut self) -> bool {
        self.run_out()
    }

    fn run_out(&mut self) -> bool {
        let mut turn = self.shared.lock();
        if turn.holder == Holder::Test {
            turn.holder = Holder::Both;
            self.shared.changed.notify_all();
        }
        drop(turn);
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Lockstep {
    fn drop(&mut self) {
        self.run_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_goes_one_step_at_a_time_and_then_runs_to_its_end() {
        let pause = Pause::new();
        let steps = Arc::new(Mutex::new(0));
        let (counted, here) = (Arc::clone(&steps), pause.clone());
        let thread = Lockstep::spawn("steps", &pause, move || {
            for _ in 0..10 {
                *counted.lock().unwrap() += 1;
                here.pause();
            }
        });
        for n in 0..5 {
            assert_eq!(*steps.lock().unwrap(), n);
            assert!(thread.resume());
        }
        pause.pause();
        assert!(thread.release());
        assert_eq!(*steps.lock().unwrap(), 10);
    }

    #[test]
    fn a_thread_that_has_ended_takes_no_turn() {
        let pause = Pause::new();
        let thread = Lockstep::spawn("short", &pause, || {});
        assert!(!thread.resume());
        assert!(!thread.resume());
        assert!(thread.release());
    }
}
