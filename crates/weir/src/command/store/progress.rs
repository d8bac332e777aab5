//! How far a long piece of work is, on a terminal.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use weir_host::units::approx_size;

use crate::term::{note, note_in_place};

/// How often progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How far it is, on a terminal.
pub(super) struct Progress {
    /// What was done with the bytes.
    done: &'static str,
    is_shown: bool,
    bytes: u64,
    begun: Instant,
    shown: Instant,
}

impl Progress {
    pub(super) fn new(done: &'static str) -> Self {
        let (begun, is_shown) = (Instant::now(), io::stderr().is_terminal());
        Self { done, is_shown, bytes: 0, begun, shown: begun }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.is_shown && self.shown.elapsed() >= PROGRESS_INTERVAL {
            note_in_place(&self.text());
            self.shown = Instant::now();
        }
    }

    pub(super) fn end(&self) {
        if self.is_shown {
            note_in_place("");
        }
        note(&self.text());
    }

    fn text(&self) -> String {
        let per_second = self.bytes as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let (bytes, per_second) = (approx_size(self.bytes), approx_size(per_second as u64));
        format!("{bytes} {}, {per_second}/s", self.done)
    }
}
