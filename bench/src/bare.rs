//! The limits that weir is compared with, measured in the same run: loops that do only what is
//! unavoidable, without weir's other duties.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::clock;
use crate::data::Shape;
use crate::sink::Sink;

/// The amount that weir reads at a time.
const BLOCK: usize = 192 * 1024;

/// The size of a request.
const REQUEST: usize = 512 * 1024;

/// Returns the lines per CPU-second of reading and splitting alone.
pub(crate) fn read_and_split(path: &Path, shape: Shape) -> Result<f64> {
    let start = clock::thread_cpu();
    let mut bytes = 0;
    let lines = each_body(path, shape, |body| {
        bytes += body.len();
        Ok(())
    })?;
    std::hint::black_box(bytes);
    Ok(rate(lines, clock::thread_cpu().saturating_sub(start)))
}

/// Returns the lines per CPU-second of reading, splitting, copying the escaped body into an event,
/// and sending.
pub(crate) fn read_and_send(path: &Path, shape: Shape, sink: &Sink) -> Result<f64> {
    let mut stream = TcpStream::connect(sink.address())?;
    let mut request = Vec::with_capacity(REQUEST + 64 * 1024);
    let start = clock::thread_cpu();
    let lines = each_body(path, shape, |body| {
        request.extend_from_slice(b"{\"event\":\"");
        request.extend_from_slice(body);
        request.extend_from_slice(b"\"}");
        if request.len() >= REQUEST {
            send(&mut stream, &mut request)?;
        }
        Ok(())
    })?;
    send(&mut stream, &mut request)?;
    Ok(rate(lines, clock::thread_cpu().saturating_sub(start)))
}

fn rate(lines: u64, cpu: Duration) -> f64 {
    lines as f64 / cpu.as_secs_f64()
}

fn send(stream: &mut TcpStream, request: &mut Vec<u8>) -> Result<()> {
    let head =
        format!("POST /services/collector HTTP/1.1\r\nContent-Length: {}\r\n\r\n", request.len());
    let mut parts = [IoSlice::new(head.as_bytes()), IoSlice::new(request)];
    let mut left = &mut parts[..];
    while !left.is_empty() {
        let written = stream.write_vectored(left)?;
        IoSlice::advance_slices(&mut left, written);
    }
    request.clear();
    let mut answer = [0; 512];
    let read = stream.read(&mut answer)?;
    ensure!(answer[..read].starts_with(b"HTTP/1.1 200"), "the sink refused");
    Ok(())
}

/// Calls `f` with the body of each line, as in the file; returns the number of lines.
fn each_body(path: &Path, shape: Shape, mut f: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let file = File::open(path)?;
    let mut block = vec![0; BLOCK];
    let (mut offset, mut lines) = (0, 0);
    loop {
        let read = file.read_at(&mut block, offset)?;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &block[..read]) {
            f(body(&block[start..end], shape).context("a line without a body")?)?;
            start = end + 1;
            lines += 1;
        }
        if start == 0 {
            return Ok(lines);
        }
        offset += start as u64;
    }
}

#[inline]
fn body(line: &[u8], shape: Shape) -> Option<&[u8]> {
    if shape == Shape::Raw {
        return Some(line);
    }
    let text = line.strip_prefix(b"{\"log\":\"")?;
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &text[at..])?;
        if text[at] == b'"' {
            return Some(&text[..at]);
        }
        at += 2;
    }
}

/// The result of `gzip -1` on the same bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gzip {
    /// Size of the output, bytes.
    pub(crate) bytes: u64,
    /// CPU time of the compressor alone.
    pub(crate) cpu: Duration,
}

/// Compresses the decompressed content of a spool of gzip members with `gzip -1`.
pub(crate) fn gzip_1(spool: &Path) -> Result<Gzip> {
    let plain = spool.with_extension("plain");
    let inflated = Command::new("gzip")
        .arg("-dc")
        .stdin(File::open(spool)?)
        .stdout(File::create(&plain)?)
        .status()?;
    ensure!(inflated.success(), "gzip found damaged data");
    let before = clock::children_cpu()?;
    let mut deflate = Command::new("gzip")
        .args(["-1", "-c"])
        .stdin(File::open(&plain)?)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut out = deflate.stdout.take().context("gzip has no output")?;
    let bytes = std::io::copy(&mut out, &mut std::io::sink())?;
    ensure!(deflate.wait()?.success(), "gzip failed");
    std::fs::remove_file(plain)?;
    Ok(Gzip { bytes, cpu: clock::children_cpu()?.saturating_sub(before) })
}

/// Returns the CPU time of weir's own compressor alone on the decompressed content of a spool,
/// split into buffers of the size of requests.
pub(crate) fn compressor_alone(spool: &Path) -> Result<Duration> {
    let mut inflate =
        Command::new("gzip").arg("-dc").stdin(File::open(spool)?).stdout(Stdio::piped()).spawn()?;
    let mut plain = inflate.stdout.take().context("gzip has no output")?;
    let (mut gzip, mut out) = (weir_host::Gzip::new(), Vec::new());
    let mut buffer = Vec::with_capacity(REQUEST);
    let mut cpu = Duration::ZERO;
    loop {
        buffer.clear();
        plain.by_ref().take(REQUEST as u64).read_to_end(&mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        out.clear();
        let before = clock::thread_cpu();
        gzip.compress(&buffer, &mut out)?;
        cpu += clock::thread_cpu().saturating_sub(before);
    }
    ensure!(inflate.wait()?.success(), "gzip found damaged data");
    Ok(cpu)
}

/// The performance of the disk alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskAlone {
    /// Bytes per second of alternating write and fdatasync.
    pub(crate) bytes_per_second: f64,
    /// 99th percentile of one write with its fdatasync.
    pub(crate) p99: Duration,
}

/// Writes `total` bytes in groups, each followed by fdatasync, into preallocated space.
pub(crate) fn disk_alone(
    dir: &Path,
    group: usize,
    total: u64,
    pace: Duration,
) -> Result<DiskAlone> {
    let path = dir.join("disk-alone");
    let file = File::create(&path)?;
    let data: Vec<u8> = (0..group).map(|i| (i * 31 % 251) as u8).collect();
    let mut times = Vec::new();
    let start = Instant::now();
    let mut next = start;
    for index in 0..(total / group as u64).max(1) {
        if !pace.is_zero() {
            next += pace;
            clock::wait_until(next);
        }
        let begun = Instant::now();
        file.write_all_at(&data, index * group as u64)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    let busy: Duration = times.iter().sum();
    std::fs::remove_file(path)?;
    times.sort_unstable();
    let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
    Ok(DiskAlone { bytes_per_second: (times.len() * group) as f64 / busy.as_secs_f64(), p99 })
}
