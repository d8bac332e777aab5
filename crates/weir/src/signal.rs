//! Signals: Ctrl-C, SIGTERM, SIGHUP.
//!
//! Invariant: a thread of its own waits for them, so a command that is busy hears them too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// A flag that the first signal raises. For commands that look at it often.
pub(crate) fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    when_interrupted(move || raised.store(true, Ordering::Relaxed))?;
    Ok(flag)
}

/// Runs this at the first signal. For commands that wait where they cannot look at a flag.
pub(crate) fn when_interrupted(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From here on, not from when the thread gets to it, is a signal heard.
    let mut signals = runtime.block_on(async { Signals::new() })?;
    std::thread::Builder::new().name("weir-signal".to_owned()).spawn(move || {
        runtime.block_on(signals.next());
        run();
    })?;
    Ok(())
}

/// The signal that asks for the configuration to be read again, where there is one.
pub(crate) const HANG_UP: &str = "SIGHUP";

/// The signals that ask weir to stop.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes the signals over from the operating system's default. Needs a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.hang_up.recv() => HANG_UP,
        }
    }
}
