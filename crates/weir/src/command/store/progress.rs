//! Progress of a long operation on a terminal: a bar if the total is known, otherwise the amount
//! done so far.
//!
//! Invariants: one line, never wider than the terminal, redrawn in place; it is cleared before
//! anything else is printed, even if the operation fails.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use weir_host::units::{approx_size, group_digits};

use crate::command::search::bar;
use crate::term::{note, note_in_place, stderr_width};

/// How often progress is redrawn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum width of a bar; with less room no bar is drawn.
const BAR_CHARS_MIN: usize = 5;

/// Maximum width of a bar: a wider one would not show more.
const BAR_CHARS_MAX: usize = 40;

/// The total amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Total {
    /// Unknown.
    Unknown,
    /// A number of bytes in files.
    Bytes(u64),
    /// A number of records.
    Records(u64),
}

/// Progress display on a terminal.
pub(super) struct Progress {
    work: Work,
    is_shown: bool,
    is_drawn: bool,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// `done` is the participle for the bytes: "read". Progress is shown if stderr is a terminal,
    /// unless data goes to the same terminal.
    pub(super) fn new(done: &'static str, has_terminal: bool) -> Self {
        let (started, is_terminal) = (Instant::now(), io::stderr().is_terminal());
        Self {
            work: Work { done, total: Total::Unknown, bytes: 0, units: 0 },
            is_shown: is_terminal && has_terminal,
            is_drawn: false,
            started,
            shown: started,
        }
    }

    /// Whether progress is shown.
    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Sets the total amount of work.
    pub(super) fn set_total(&mut self, total: Total) {
        self.work.total = total;
    }

    /// Adds bytes, and units of the total.
    pub(super) fn add(&mut self, bytes: u64, units: u64) {
        self.work.bytes += bytes;
        self.work.units += units;
        if self.is_shown && self.shown.elapsed() >= PROGRESS_INTERVAL {
            note_in_place(&self.work.line(self.started.elapsed(), stderr_width()));
            self.is_drawn = true;
            self.shown = Instant::now();
        }
    }

    /// Prints the totals at the end.
    pub(super) fn end(mut self) {
        self.clear();
        note(&self.work.text(self.started.elapsed()));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            note_in_place("");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The total, and what was done.
#[derive(Debug, Clone, Copy)]
struct Work {
    done: &'static str,
    total: Total,
    bytes: u64,
    /// Done so far, in units of the total.
    units: u64,
}

impl Work {
    /// Bytes and their rate.
    fn text(&self, elapsed: Duration) -> String {
        format!("{}, {}", self.bytes_text(), self.rate_text(elapsed))
    }

    fn bytes_text(&self) -> String {
        format!("{} {}", approx_size(self.bytes), self.done)
    }

    fn rate_text(&self, elapsed: Duration) -> String {
        let per_second = self.bytes as f64 / elapsed.as_secs_f64().max(0.001);
        format!("{}/s", approx_size(per_second as u64))
    }

    /// Percentage, bar, amount, rate, time left: the first form of these that fits.
    fn line(&self, elapsed: Duration, width: usize) -> String {
        let (total, what) = match self.total {
            Total::Bytes(total) if total > 0 => (total, self.bytes_text()),
            Total::Records(total) if total > 0 => {
                let done = group_digits(self.units.min(total));
                (total, format!("{done} of {} records", group_digits(total)))
            }
            _ => return self.text(elapsed).chars().take(width).collect(),
        };
        // More records may have arrived than were counted.
        let done = self.units.min(total);
        let share = done as f64 / total as f64;
        let percent = format!("{:>3} %", (share * 100.0) as u64);
        let left = match done {
            0 => String::new(),
            _ => format!(", {} left", seconds(elapsed.mul_f64((1.0 - share) / share))),
        };
        let mut text = String::new();
        for part in [format!(" {what}"), format!(", {}", self.rate_text(elapsed)), left] {
            if (percent.len() + text.chars().count() + part.chars().count()) > width {
                break;
            }
            text.push_str(&part);
        }
        // An additional space before the bar.
        let room = width.saturating_sub(percent.len() + 1 + text.chars().count());
        let bar = match room.min(BAR_CHARS_MAX) {
            room if room < BAR_CHARS_MIN || text.is_empty() => String::new(),
            room => {
                let drawn = bar(done as f64, total as f64, room);
                format!(" {drawn}{}", "·".repeat(room - drawn.chars().count()))
            }
        };
        format!("{percent}{bar}{text}").chars().take(width).collect()
    }
}

/// In whole seconds, so that the text does not flicker: `12 s`, `2m05s`.
fn seconds(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => weir_host::units::approx_duration(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: Total, bytes: u64, units: u64, seconds: u64, width: usize) -> String {
        let work = Work { done: "read", total, bytes, units };
        work.line(Duration::from_secs(seconds), width)
    }

    #[test]
    fn progress_bar_fills_the_width() {
        const MIB: u64 = 1 << 20;
        let bytes = Total::Bytes(200 * MIB);
        let wide = line(bytes, 50 * MIB, 50 * MIB, 10, 80);
        let want =
            " 25 % █████████▎··························· 50.0 MiB read, 5.00 MiB/s, 30 s left";
        assert_eq!((wide.as_str(), wide.chars().count()), (want, 80));
        assert_eq!(line(bytes, 50 * MIB, 50 * MIB, 10, 20), " 25 % 50.0 MiB read");
        let records = line(Total::Records(4000), 2 * MIB, 3000, 300, 80);
        let want =
            " 75 % ████████████████████▎······ 3,000 of 4,000 records, 6.83 KiB/s, 1m40s left";
        assert_eq!(records, want);
        // A truncated number would be a wrong number.
        assert_eq!(line(Total::Records(4000), 1, 4000, 1, 20), "100 %");
    }

    #[test]
    fn progress_without_total_has_no_bar() {
        for total in [Total::Unknown, Total::Bytes(0), Total::Records(0)] {
            assert_eq!(line(total, 2048, 3, 2, 80), "2.00 KiB read, 1.00 KiB/s");
        }
        assert_eq!(line(Total::Unknown, 2048, 3, 2, 10), "2.00 KiB r");
    }

    #[test]
    fn progress_stays_on_one_line() {
        for width in 0..200 {
            for done in [0, 1, 999, 1000, 5000] {
                for total in [Total::Unknown, Total::Bytes(1000), Total::Records(1000)] {
                    let line = line(total, done * 7, done, 3, width);
                    assert!(line.chars().count() <= width, "{width}: {line}");
                    assert!(!line.contains("500 %"), "{line}");
                }
            }
        }
    }
}
