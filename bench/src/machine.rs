//! The machine that a result was measured on: without it, a measurement is meaningless.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a reader must know to compare measurements.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Short name, also of the results file.
    pub(crate) name: String,
    /// Processor.
    pub(crate) processor: String,
    /// Number of usable processors.
    pub(crate) cores: usize,
    /// Memory in GiB.
    pub(crate) memory_gib: u64,
    /// Kernel release.
    pub(crate) kernel: String,
}

impl Machine {
    /// Returns this machine. `WEIR_BENCH_MACHINE` overrides its name.
    pub(crate) fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let processor = value(&cpuinfo, "model name").unwrap_or("unknown processor").to_owned();
        let kib = value(&meminfo, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let name = std::env::var("WEIR_BENCH_MACHINE")
            .unwrap_or_else(|_| format!("{}-{cores}-cores", family(&processor)));
        Self {
            name,
            processor,
            cores,
            memory_gib: kib.unwrap_or(0_u64).div_ceil(1024 * 1024),
            kernel: kernel.trim().to_owned(),
        }
    }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim())
}

/// Returns `xeon` for "Intel(R) Xeon(R) Processor": the second word that has only letters.
fn family(processor: &str) -> String {
    let word = processor.split_whitespace().nth(1).unwrap_or("machine");
    let word = word.split('(').next().unwrap_or(word);
    word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}
