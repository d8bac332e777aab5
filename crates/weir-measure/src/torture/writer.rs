//! The thread that writes lines at a fixed rate while everything else happens.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::files::Files;

/// Time between two writes.
const TICK: Duration = Duration::from_millis(10);

/// Files that are being written.
#[derive(Debug)]
pub(super) struct TortureWriter {
    files: Arc<Mutex<Files>>,
    is_stopped: Arc<AtomicBool>,
    is_held: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl TortureWriter {
    /// Writes this many lines per second, over all streams.
    pub(super) fn start(files: Files, lines_per_second: f64) -> io::Result<Self> {
        let files = Arc::new(Mutex::new(files));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let is_held = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&files);
        let (stopped, held) = (Arc::clone(&is_stopped), Arc::clone(&is_held));
        let thread = std::thread::Builder::new()
            .name("torture-writer".to_owned())
            .spawn(move || write(&shared, &stopped, &held, lines_per_second))?;
        Ok(Self { files, is_stopped, is_held, thread: Some(thread) })
    }

    /// Returns the files; nothing is written while they are held.
    pub(super) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses or resumes writing.
    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// Ends the writing.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.is_stopped.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the writer panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for TortureWriter {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn write(
    files: &Mutex<Files>,
    is_stopped: &AtomicBool,
    is_held: &AtomicBool,
    rate: f64,
) -> io::Result<()> {
    let mut last = Instant::now();
    let mut owed = 0.0;
    while !is_stopped.load(Ordering::Relaxed) {
        // Nothing unparks the thread: this is the interval between two writes.
        std::thread::park_timeout(TICK);
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        // Time during which the files were held is not caught up in one write.
        let elapsed = last.elapsed().min(10 * TICK).as_secs_f64();
        last = Instant::now();
        if is_held.load(Ordering::Relaxed) {
            continue;
        }
        owed += rate * elapsed / files.count() as f64;
        let lines = owed as u64;
        owed -= lines as f64;
        files.write(lines)?;
    }
    Ok(())
}
