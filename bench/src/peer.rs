//! `VictoriaLogs` as a process, with the same lines and the same queries as weir.
//!
//! Written for the HTTP interface of release 1.26: `/insert/jsonline`, `/select/logsql/query`,
//! `/internal/force_flush`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::clock;
use crate::http;
use crate::process::{Cpu, Process, Program};

/// Size of one request, bytes.
const REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// Pause between checks whether it has stored everything: each response has a cost, too.
const ASKING: Duration = Duration::from_millis(500);
/// It writes its memory to disk every five seconds: it is idle when it uses less CPU time than this
/// in ten seconds.
const REST: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(100));

/// A running `VictoriaLogs`; it is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    program: Program,
    port: u16,
    data_dir: PathBuf,
}

impl Peer {
    /// Starts it in a fresh data directory inside `dir`.
    pub(crate) fn start(binary: &Path, dir: &Path) -> Result<Self> {
        let port = http::free_port()?;
        let data_dir = dir.join("peer");
        let mut command = Command::new(binary);
        command
            .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
            .arg(format!("-storageDataPath={}", data_dir.display()))
            .arg("-retentionPeriod=100y");
        let program = Program::start(&mut command, &dir.join("peer.log"))?;
        let peer = Self { program, port, data_dir };
        let is_up = || Ok(http::exchange(port, "GET", "/health", b"").is_ok());
        wait_for("answers", Duration::from_secs(20), is_up)?;
        Ok(peer)
    }

    /// Returns its process.
    pub(crate) fn process(&self) -> Process {
        self.program.process()
    }

    /// Sends a file of JSON lines, and waits until it has stored and merged that many. Returns the
    /// CPU time for all of it.
    pub(crate) fn fill(&self, lines: &Path, count: u64) -> Result<Cpu> {
        let path = "/insert/jsonline?_stream_fields=service&_time_field=time&_msg_field=message";
        let mut file = File::open(lines)?;
        let mut chunk = Vec::with_capacity(2 * REQUEST_BYTES);
        loop {
            let read = file.by_ref().take(REQUEST_BYTES as u64).read_to_end(&mut chunk)?;
            let whole = if read == 0 { Some(chunk.len()) } else { end_of_lines(&chunk) };
            let whole = whole.context("a line is longer than a request")?;
            if whole > 0 {
                http::exchange(self.port, "POST", path, &chunk[..whole])?;
                chunk.drain(..whole);
            }
            if read == 0 {
                break;
            }
        }
        http::exchange(self.port, "GET", "/internal/force_flush", b"")?;
        let stored = format!("\"{count}\"");
        wait_for("has stored everything", Duration::from_mins(5), || {
            Ok(self.ask("* | count() as stored")?.contains(&stored))
        })?;
        self.rest()?;
        self.process().cpu()
    }

    /// Waits until it is idle.
    fn rest(&self) -> Result<()> {
        let (interval, most) = REST;
        let mut last = (self.process().cpu()?.total, Instant::now());
        wait_for("comes to rest", Duration::from_mins(10), || {
            if last.1.elapsed() < interval {
                return Ok(false);
            }
            let before =
                std::mem::replace(&mut last, (self.process().cpu()?.total, Instant::now()));
            Ok(last.0.saturating_sub(before.0) < most)
        })
    }

    /// Returns the result of a query.
    pub(crate) fn ask(&self, query: &str) -> Result<String> {
        self.get(&format!("/select/logsql/query?query={}", http::escaped(query)))
    }

    /// Returns the response to any GET request.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        http::exchange(self.port, "GET", path, b"")
    }

    /// Returns the size of all its files, bytes.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        bytes_below(&self.data_dir)
    }
}

/// Waits for a condition; fails if it does not become true.
fn wait_for(what: &str, limit: Duration, is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    ensure!(clock::wait_for(ASKING, limit, is_so)?, "waited {limit:?} until the peer {what}");
    Ok(())
}

/// Returns the position after the last newline.
fn end_of_lines(bytes: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', bytes).map(|at| at + 1)
}

fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Files that are being merged may disappear.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
