//! Signals: Ctrl-C, SIGTERM, SIGHUP.
//!
//! Invariant: a dedicated thread waits for signals, so a busy command receives them too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Returns a flag that the first signal sets. For commands that can poll it.
pub(crate) fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    when_interrupted(move || raised.store(true, Ordering::Relaxed))?;
    Ok(flag)
}

/// Runs a function at the first signal. For commands that block where they cannot poll a flag.
pub(crate) fn when_interrupted(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Signals are caught from here on, not only once the thread runs.
    let mut signals = runtime.block_on(async { Signals::new() })?;
    std::thread::Builder::new().name("weir-signal".to_owned()).spawn(move || {
        runtime.block_on(signals.next());
        run();
    })?;
    Ok(())
}

/// The signal that requests a reload of the configuration, where it exists.
pub(crate) const SIGHUP: &str = "SIGHUP";

/// The signals that ask weir to stop.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// Replaces the operating system's default handling of the signals. Requires a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next signal.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.hang_up.recv() => SIGHUP,
        }
    }
}
