//! A load that runs in parallel with the test, on its own thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use weir_measure::load::{self, LoadPlan, LoadReport};

/// A running load; ends when it is finished, stopped or dropped.
#[derive(Debug)]
pub struct Writing {
    stop: Arc<AtomicBool>,
    lines: Arc<AtomicU64>,
    thread: Option<JoinHandle<std::io::Result<LoadReport>>>,
}

impl Writing {
    /// Starts writing.
    pub fn start(plan: LoadPlan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let lines = Arc::new(AtomicU64::new(0));
        let (stopped, written) = (Arc::clone(&stop), Arc::clone(&lines));
        let run = move || {
            load::run(&plan, |lines| {
                written.store(lines, Ordering::Relaxed);
                let stop = stopped.load(Ordering::Relaxed);
                if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        };
        let thread = std::thread::Builder::new().name("writing".to_owned()).spawn(run);
        Self { stop, lines, thread: Some(thread.expect("a thread can be started")) }
    }

    /// Writes everything before it returns.
    pub fn all(plan: LoadPlan) -> LoadReport {
        Self::start(plan).finish()
    }

    /// Returns the number of lines written so far.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Ends the load and returns what was written.
    pub fn stop(self) -> LoadReport {
        self.stop.store(true, Ordering::Relaxed);
        self.finish()
    }

    /// Waits for a load that ends by itself.
    pub fn finish(mut self) -> LoadReport {
        let thread = self.thread.take().expect("it is taken only here");
        thread.join().expect("the writer does not panic").expect("the disk takes the lines")
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
