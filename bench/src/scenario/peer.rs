//! The store compared to `VictoriaLogs`: the same lines and the same queries for both, in turns,
//! and the disk space that real logs take in both.
//!
//! Samples of real logs are short, so they are repeated with new numbers. Without the peer or the
//! samples, the measurements that need them are omitted, and the outcome says so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Options;
use super::store::{DAY, LINES, Question, Stored, TIMES, ask, median, questions};
use crate::data;
use crate::http;
use crate::peer::Peer;
use crate::report::{Measurement, Outcome, Target};

/// Name of the peer's column.
const PEER: &str = "VictoriaLogs";
/// Size of the real logs, repeated.
const REAL_BYTES: u64 = 1_000_000_000;
/// Maximum size of real logs, as a fraction of the peer's.
const REAL_SHARE: f64 = 0.75;
/// Bytes that are compressed at a time if there is no peer.
const PIECE_BYTES: usize = 2 * 1024 * 1024;

/// `store-peer`.
pub(crate) fn store_peer(options: &Options) -> Result<Outcome> {
    let mut outcome = Outcome::new(format!(
        "JSON lines and real logs to weir and to {PEER}, each from its start until it is idle; \
         queries over HTTP, warm, median of {TIMES}."
    ));
    let mut missing = Vec::new();
    match &options.peer {
        Some(binary) => events(binary, options, &mut outcome)?,
        None => missing.push("not measured: no peer binary (--peer, WEIR_BENCH_PEER)"),
    }
    match &options.logs {
        Some(samples) => real_logs(samples, options, &mut outcome)?,
        None => missing.push("not measured: no samples of real logs (--logs, WEIR_BENCH_LOGS)"),
    }
    outcome.reference = (!missing.is_empty()).then(|| missing.join("; "));
    Ok(outcome)
}

/// The lines of `store`.
fn events(binary: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let count = options.scaled(LINES);
    let lines = data::events(count)?;
    let megabytes = fs::metadata(&lines.path)?.len() as f64 / 1e6;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let (ours, our_times) = {
        let stored = Stored::fill(dir.path(), &lines.path, count)?;
        let asked = |question: &Question| median(|| ask(&stored.weir, question));
        let times = questions(&lines.needle).iter().map(asked).collect::<Result<Vec<_>>>()?;
        outcome.set_cpu(&stored.cpu);
        (measured(stored.cpu.total, stored.disk_bytes, stored.memory_bytes), times)
    };
    let peer = Peer::start(binary, dir.path())?;
    let cpu = peer.fill(&lines.path, count)?;
    let theirs = measured(cpu.total, peer.disk_bytes()? as f64, peer.process().memory()?.1);
    outcome.measurements.extend([
        Measurement::new("MB of lines per CPU-second", megabytes / ours.cpu_seconds)
            .limit(PEER, megabytes / theirs.cpu_seconds),
        Measurement::new("MB on disk", ours.disk_mb).limit(PEER, theirs.disk_mb),
        Measurement::new("highest memory, MiB", ours.memory_mib).limit(PEER, theirs.memory_mib),
    ]);
    for (question, our_time) in questions(&lines.needle).iter().zip(our_times) {
        let path = path(&question.logsql);
        let their_time = median(|| peer.get(&path).map(drop))?;
        outcome
            .measurements
            .push(Measurement::new(question.what, our_time).limit(PEER, their_time));
    }
    Ok(())
}

struct Measured {
    cpu_seconds: f64,
    disk_mb: f64,
    memory_mib: f64,
}

fn measured(cpu: Duration, disk_bytes: f64, memory_bytes: u64) -> Measured {
    Measured {
        cpu_seconds: cpu.as_secs_f64(),
        disk_mb: disk_bytes / 1e6,
        memory_mib: memory_bytes as f64 / 1_048_576.0,
    }
}

/// Returns the path of a query to the peer.
fn path(logsql: &str) -> String {
    let [query, from, to] = [logsql, DAY[0], DAY[1]].map(http::escaped);
    format!("/select/logsql/query?query={query}&start={from}&end={to}")
}

/// Measures the disk space of real logs.
fn real_logs(samples: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let (lines, count) = data::replayed(samples, options.scaled(REAL_BYTES))?;
    ensure!(count > 0, "{} has no lines in *.log", samples.display());
    let bytes = fs::metadata(&lines)?.len() as f64;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let (disk_bytes, cpu) = {
        let stored = Stored::fill(dir.path(), &lines, count)?;
        (stored.disk_bytes, stored.cpu)
    };
    let mut speed =
        Measurement::new("real logs, MB per CPU-second", bytes / 1e6 / cpu.total.as_secs_f64());
    let mut disk = Measurement::new("real logs, MB on disk", disk_bytes / 1e6);
    if let Some(binary) = &options.peer {
        let peer = Peer::start(binary, dir.path())?;
        let cpu = peer.fill(&lines, count)?;
        let peer_mb = peer.disk_bytes()? as f64 / 1e6;
        speed = speed.limit(PEER, bytes / 1e6 / cpu.total.as_secs_f64());
        disk = disk.limit(PEER, peer_mb).target(Target::AtMost(REAL_SHARE * peer_mb));
    } else {
        let packed = compressed(&fs::read(&lines)?)? as f64 / 1e6;
        disk = disk.limit("zstd, level 3, of 2 MiB of lines at a time", packed);
    }
    outcome.measurements.extend([speed, disk]);
    Ok(())
}

/// Returns the size of the lines, compressed in pieces.
fn compressed(lines: &[u8]) -> Result<usize> {
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    let sizes = lines.chunks(PIECE_BYTES).map(|piece| Ok(compressor.compress(piece)?.len()));
    sizes.sum()
}
