//! Writes lines at a fixed rate, each with its own system call, like an application.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::clock;
use crate::data::{Lines, Shape};

/// What to write, where, and how fast.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Directory of the files, `app-<n>.log`.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Format of the lines.
    #[arg(long, value_enum)]
    pub(crate) shape: Shape,
    /// Length of a line, newline included.
    #[arg(long)]
    pub(crate) bytes: usize,
    /// Lines per second of the first file.
    #[arg(long)]
    pub(crate) rate: u64,
    /// Additional files, which get two lines per second each.
    #[arg(long, default_value_t = 0)]
    pub(crate) quiet_files: usize,
    /// Duration in seconds.
    #[arg(long)]
    pub(crate) secs: u64,
}

/// Lines of one application.
struct Application {
    file: File,
    number: usize,
    rate: u64,
    written: u64,
}

impl Application {
    /// Writes the lines due after `elapsed`.
    fn write_due(&mut self, lines: &mut Lines, elapsed: Duration) -> Result<()> {
        let due = (elapsed.as_secs_f64() * self.rate as f64) as u64;
        while self.written < due {
            self.file.write_all(lines.line(self.number, self.written))?;
            self.written += 1;
        }
        Ok(())
    }
}

/// Writes until the time is over; prints the number of lines.
pub(crate) fn write(settings: &Settings) -> Result<()> {
    let mut lines = Lines::new(settings.shape, settings.bytes);
    let mut applications = Vec::new();
    for number in 0..=settings.quiet_files {
        let path = settings.dir.join(format!("app-{number}.log"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let rate = if number == 0 { settings.rate } else { 2 };
        applications.push(Application { file, number, rate, written: 0 });
    }
    let start = Instant::now();
    let end = Duration::from_secs(settings.secs);
    // A wake-up per millisecond: most of the cost of a line is in its system call.
    let tick = Duration::from_millis(1);
    let mut next = start;
    loop {
        let elapsed = start.elapsed().min(end);
        for application in &mut applications {
            application.write_due(&mut lines, elapsed)?;
        }
        if elapsed == end {
            break;
        }
        next = (next + tick).max(Instant::now());
        clock::wait_until(next);
    }
    println!("{}", applications.iter().map(|a| a.written).sum::<u64>());
    Ok(())
}
