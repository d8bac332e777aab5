//! TLS handshakes, a few at a time.
//!
//! A handshake takes a fraction of a millisecond of CPU time, and ten thousand clients may connect
//! at once. If all handshakes were ready at the same time, everything else on the event loop would
//! wait for all of them.
//!
//! Invariant: in each round of the event loop at most [`PER_ROUND`] handshakes compute; a handshake
//! that waits for its client does not count, so slow clients delay no others.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Semaphore;

/// Handshakes that compute in one round of the event loop, about a millisecond together.
const PER_ROUND: usize = 4;

/// The handshakes of a listener on one event loop.
#[derive(Debug)]
pub struct Handshakes(Semaphore);

impl Default for Handshakes {
    fn default() -> Self {
        Self(Semaphore::new(PER_ROUND))
    }
}

impl Handshakes {
    /// Completes a handshake, in turn with others.
    pub async fn run<F: Future>(&self, handshake: F) -> F::Output {
        let mut handshake = pin!(handshake);
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(signal.clone());
        loop {
            // The semaphore is never closed.
            let turn = self.0.acquire().await;
            if let Poll::Ready(result) = handshake.as_mut().poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            // The turn lasts until everything else that is ready has run.
            tokio::task::yield_now().await;
            drop(turn);
            signal.received().await;
        }
    }
}

/// Records that a handshake can continue, even while no task waits for that.
#[derive(Debug, Default)]
struct Signal {
    is_set: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Signal {
    async fn received(&self) {
        poll_fn(|context| {
            *self.lock() = Some(context.waker().clone());
            if self.is_set.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        let task = self.lock().take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn others_run_between_a_few_handshakes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let handshakes = Rc::new(Handshakes::default());
            let steps = Rc::new(Cell::new(0_u32));
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..200 {
                let (handshakes, steps) = (handshakes.clone(), steps.clone());
                tasks.spawn_local(async move {
                    let handshake = async {
                        for _ in 0..3 {
                            steps.set(steps.get() + 1);
                            tokio::task::yield_now().await;
                        }
                    };
                    handshakes.run(handshake).await;
                });
            }
            let mut before = 0;
            while steps.get() < 600 {
                tokio::task::yield_now().await;
                let now = steps.get();
                assert!(now - before <= 3 * PER_ROUND as u32, "{} in one round", now - before);
                before = now;
            }
            tasks.join_all().await;
        });
    }

    #[test]
    fn a_handshake_that_waits_for_its_client_does_not_delay_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let handshakes = Rc::new(Handshakes::default());
            for _ in 0..20 {
                let handshakes = handshakes.clone();
                tokio::task::spawn_local(async move {
                    handshakes.run(std::future::pending::<()>()).await;
                });
            }
            tokio::task::yield_now().await;
            assert_eq!(handshakes.run(async { 5 }).await, 5);
        });
    }
}
