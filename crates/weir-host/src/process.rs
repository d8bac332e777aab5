//! Resource usage of this process: CPU time, memory, descriptors.
//!
//! Invariant: a value that cannot be read is omitted; reading never fails.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Publishes the CPU time of the calling thread, nanoseconds.
pub fn publish_cpu(cpu_ns: &AtomicU64) {
    cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
}

/// Resource usage of this process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProcessMetrics {
    /// CPU time of all threads, user and system, seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, bytes.
    pub virtual_bytes: Option<u64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// Limit on open descriptors.
    pub max_fds: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
}

impl ProcessMetrics {
    /// Reads the current values.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let kib = |name| number_of(&status, name).map(|kib| kib * 1024);
        Self {
            cpu_seconds: Some(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            open_fds: open_fds(),
            max_fds: limit.current,
            threads: number_of(&status, "Threads:"),
        }
    }
}

/// Since Linux 6.2 their number is the size of the directory that lists them; to read that takes
/// tens of milliseconds if there are tens of thousands.
fn open_fds() -> Option<u64> {
    let dir = "/proc/self/fd";
    match fs::metadata(dir).ok()?.len() {
        // One of the entries is the descriptor used to list them.
        0 => fs::read_dir(dir).ok().map(|fds| fds.count() as u64 - 1),
        count => Some(count),
    }
}

fn number_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_are_readable() {
        let metrics = ProcessMetrics::read();
        assert!(metrics.cpu_seconds.is_some_and(|seconds| seconds >= 0.0));
        assert!(metrics.resident_bytes.is_some_and(|bytes| bytes > 100_000));
        assert!(metrics.virtual_bytes >= metrics.resident_bytes);
        assert!(metrics.open_fds.is_some_and(|n| n >= 3));
        assert!(metrics.max_fds >= metrics.open_fds);
        assert!(metrics.threads.is_some_and(|n| n >= 1));
    }
}
