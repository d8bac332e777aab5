//! Programs in the background, and the cost of a process, read from `/proc`: CPU time by thread,
//! and memory; and pausing it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// A running process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(pub(crate) u32);

/// A program in the background; it is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program with its output in the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("failed to start {}", command.get_program().display()))?;
        Ok(Self(child))
    }

    /// Returns its process.
    pub(crate) fn process(&self) -> Process {
        Process(self.0.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a process at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cpu {
    /// User and system time, including threads that have ended.
    pub(crate) total: Duration,
    /// CPU time by thread name.
    pub(crate) threads: BTreeMap<String, Duration>,
}

impl Cpu {
    /// Returns what was used since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |name| earlier.threads.get(name).copied().unwrap_or_default();
        let threads =
            self.threads.iter().map(|(n, t)| (n.clone(), t.saturating_sub(before(n)))).collect();
        Self { total: self.total.saturating_sub(earlier.total), threads }
    }
}

impl Process {
    /// Returns the CPU time used so far.
    pub(crate) fn cpu(self) -> Result<Cpu> {
        let mut threads = BTreeMap::new();
        let mut precise = Duration::ZERO;
        for entry in fs::read_dir(format!("/proc/{}/task", self.0))? {
            let dir = entry?.path();
            // A thread may end between listing and reading.
            let Ok(name) = fs::read_to_string(dir.join("comm")) else { continue };
            let Ok(schedstat) = fs::read_to_string(dir.join("schedstat")) else { continue };
            let nanos = schedstat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let used = Duration::from_nanos(nanos);
            precise += used;
            *threads.entry(name.trim().to_owned()).or_default() += used;
        }
        // Ticks count ended threads too, but are coarse: use the larger value.
        Ok(Cpu { total: self.ticks()?.max(precise), threads })
    }

    fn ticks(self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        let after_name = stat.rsplit_once(')').context("no name in stat")?.1;
        let fields: Vec<u64> = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(fields.iter().sum::<u64>() * 1000 / per_second))
    }

    /// Pauses it until [`Process::resume`].
    pub(crate) fn pause(self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes it.
    pub(crate) fn resume(self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Tells it to read its configuration again.
    pub(crate) fn hang_up(self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    fn signal(self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(self.0.cast_signed()).context("no process")?;
        Ok(kill_process(id, signal)?)
    }

    /// Returns the bytes that it has read so far, from files and everything else.
    pub(crate) fn bytes_read(self) -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.0))?;
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        Ok(read.context("no rchar in io")?.parse()?)
    }

    /// Returns resident memory in bytes: (current, maximum).
    pub(crate) fn memory(self) -> Result<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            kib.map(|kib| kib * 1024).with_context(|| format!("no {name} in status"))
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }
}
