//! Input files, created before anything is timed and kept for the next run.
//!
//! Every line contains its application and its number (`app=3 seq=17`), so that a collector can
//! report exactly what is missing, duplicated or out of order. The text is that of a web
//! application's log: random numbers in a fixed frame, and recurring phrases. For a compressor it
//! costs about as much as the logs that the reference measurements were made with (ISA-L 2.2
//! CPU-seconds per million lines of 1 KiB).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The format of lines in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// The text itself.
    Raw,
    /// As docker's json-file logger writes it.
    DockerJson,
}

const WORDS: [&str; 16] = [
    "account", "bucket", "cache", "checkout", "customer", "gateway", "invoice", "job", "lease",
    "order", "payment", "queue", "replica", "session", "tenant", "upstream",
];

/// Phrases that programs log repeatedly.
const PHRASES: [&str; 16] = [
    "request handled by upstream, connection kept open for reuse",
    "cache lookup missed, value fetched from the primary replica",
    "retry scheduled after transient failure of the remote service",
    "payment authorised, waiting for confirmation from the provider",
    "session refreshed for the customer, token expires in one hour",
    "message accepted into the delivery queue and acknowledged",
    "lease renewed by the current holder before its deadline",
    "index rebuilt in the background without blocking readers",
    "partition rebalanced, this node now owns the following shards",
    "invoice rendered and stored, notification sent to the tenant",
    "checkout completed, order forwarded to the fulfilment gateway",
    "connection pool exhausted, request waited for a free slot",
    "validation failed for one field, the caller was informed",
    "job finished in time, next run planned by the scheduler",
    "configuration reloaded, no change in the active limits",
    "stream resumed at the last committed offset after restart",
];

const DOCKER_HEAD: &str = "{\"log\":\"";
const DOCKER_TAIL: &str =
    "\\n\",\"stream\":\"stdout\",\"time\":\"2026-08-14T10:21:33.123456789Z\"}\n";

/// Generates lines of one length, the same ones for the same application and number.
#[derive(Debug)]
pub(crate) struct Lines {
    shape: Shape,
    /// Length of a line in the file, newline included.
    bytes: usize,
    text: String,
}

impl Lines {
    /// Creates a generator of lines of `bytes` bytes each, newline included.
    pub(crate) fn new(shape: Shape, bytes: usize) -> Self {
        Self { shape, bytes, text: String::with_capacity(bytes + 64) }
    }

    /// Returns line number `seq` of application `app`.
    pub(crate) fn line(&mut self, app: usize, seq: u64) -> &[u8] {
        let mut random = Random((seq + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ app as u64);
        let (head, tail) = match self.shape {
            Shape::Raw => ("", "\n"),
            Shape::DockerJson => (DOCKER_HEAD, DOCKER_TAIL),
        };
        self.text.clear();
        self.text.push_str(head);
        // Writing into a String cannot fail.
        let _ = write!(
            self.text,
            "2026-08-14T10:21:33.123Z INFO app={app} seq={seq} trace={:016x} GET /api/v2/{}/{} \
             status=200 duration_ms={} ",
            random.next(),
            random.word(),
            random.next() % 100_000,
            random.next() % 900,
        );
        let end = self.bytes - tail.len();
        while self.text.len() < end {
            let phrase = PHRASES[random.next() as usize % PHRASES.len()];
            let _ = write!(self.text, "{phrase} id={} ", random.next() % 1_000_000);
            for _ in 0..5 {
                self.text.push_str(random.word());
                self.text.push(' ');
            }
        }
        self.text.truncate(end);
        self.text.push_str(tail);
        self.text.as_bytes()
    }
}

struct Random(u64);

impl Random {
    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.next() as usize % WORDS.len()]
    }
}

/// Returns a file of `count` lines, created if missing, and read once so that it is in memory.
pub(crate) fn file(shape: Shape, bytes: usize, count: u64) -> Result<PathBuf> {
    let dir = cache_dir()?;
    let path = dir.join(format!("{shape:?}-{bytes}-{count}.log").to_lowercase());
    let mut lines = Lines::new(shape, bytes);
    let mut is_made = || -> std::io::Result<bool> {
        let mut first = vec![0; bytes];
        let file = File::open(&path)?;
        file.read_exact_at(&mut first, 0)?;
        Ok(file.metadata()?.len() == bytes as u64 * count && first == lines.line(0, 0))
    };
    if !is_made().unwrap_or(false) {
        eprintln!("writing {}", path.display());
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        for seq in 0..count {
            out.write_all(lines.line(0, seq))?;
        }
        out.into_inner()?.sync_all()?;
    }
    std::io::copy(&mut File::open(&path)?, &mut std::io::sink())?;
    Ok(path)
}

/// A file of JSON lines, as services write them.
#[derive(Debug)]
pub(crate) struct Events {
    /// The file.
    pub(crate) path: PathBuf,
    /// The request ID of a line in the middle.
    pub(crate) needle: String,
}

const EVENT_WORDS: [&str; 32] = [
    "checkout",
    "timeout",
    "request",
    "server",
    "connection",
    "order",
    "payment",
    "user",
    "session",
    "cache",
    "database",
    "query",
    "index",
    "worker",
    "queue",
    "retry",
    "failed",
    "success",
    "started",
    "finished",
    "handler",
    "upstream",
    "downstream",
    "token",
    "expired",
    "invalid",
    "cart",
    "item",
    "stock",
    "shipping",
    "address",
    "customer",
];

/// Length of the message of an event, bytes.
const EVENT_MESSAGE_BYTES: usize = 160;

/// Returns JSON lines, one per millisecond, each with a message of words, a quarter of which are
/// followed by a number; they are read once so that they are in memory.
pub(crate) fn events(count: u64) -> Result<Events> {
    let path = cache_dir()?.join(format!("events-{count}.log"));
    let partial = path.with_extension("partial");
    let is_there = path.exists();
    // The lines are generated in any case, to know the one in the middle.
    let out = if is_there {
        File::options().write(true).open("/dev/null")?
    } else {
        eprintln!("writing {}", path.display());
        File::create(&partial)?
    };
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut line, mut needle) = (String::new(), String::new());
    for number in 0..count {
        let id = random.next() << 16 ^ random.next();
        event(number, id, &mut random, &mut line);
        if number == count / 2 {
            needle = format!("{id:016x}");
        }
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    if !is_there {
        fs::rename(partial, &path)?;
    }
    std::io::copy(&mut File::open(&path)?, &mut std::io::sink())?;
    Ok(Events { path, needle })
}

/// Generates one line, from 2026-11-21T00:00:00Z on.
fn event(number: u64, id: u64, random: &mut Random, line: &mut String) {
    let level = ["info", "info", "info", "warn", "error"][random.next() as usize % 5];
    let method = ["GET", "POST", "PUT"][random.next() as usize % 3];
    let status = [200, 200, 200, 201, 301, 404, 500][random.next() as usize % 7];
    let second = number / 1000;
    line.clear();
    // Writing into a String cannot fail.
    let _ = write!(
        line,
        "{{\"time\":\"2026-11-21T{:02}:{:02}:{:02}.{:03}Z\",\"level\":\"{level}\",\"http\":{{\
         \"method\":\"{method}\",\"status_code\":{status}}},\"duration_ms\":{},\
         \"request_id\":\"{id:016x}\",\"message\":\"",
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        number % 1000,
        random.next() % 2000,
    );
    let start = line.len();
    while line.len() - start < EVENT_MESSAGE_BYTES {
        if line.len() > start {
            line.push(' ');
        }
        line.push_str(EVENT_WORDS[random.next() as usize % EVENT_WORDS.len()]);
        if random.next().is_multiple_of(4) {
            let _ = write!(line, " {}", random.next() % 1000);
        }
    }
    line.truncate(start + EVENT_MESSAGE_BYTES);
    line.push_str("\"}\n");
}

/// Returns JSON lines with the messages of samples of real logs (`*.log` in a directory), repeated
/// up to the given size; and the number of lines.
///
/// Each time a sample is repeated, its longer numbers (of blocks, processes, requests) are
/// replaced, the same number always by the same one, so that related lines stay related. Lines are
/// a millisecond apart, and each has the name of its sample as its service.
pub(crate) fn replayed(samples: &Path, bytes: u64) -> Result<(PathBuf, u64)> {
    let mut files: Vec<PathBuf> = fs::read_dir(samples)
        .with_context(|| format!("failed to list {}", samples.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    files.sort_unstable();
    let read = |path: &PathBuf| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned());
    let texts = files.iter().map(read).collect::<std::io::Result<Vec<_>>>()?;
    let path = cache_dir()?.join("replayed.log");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let (mut count, mut written, mut line) = (0, 0, String::new());
    let is_empty = texts.iter().all(String::is_empty);
    for pass in (0..).take_while(|_| !is_empty) {
        for (file, text) in files.iter().zip(&texts) {
            let service = file.file_stem().unwrap_or_default().to_string_lossy();
            for message in text.lines() {
                replay(message, &service, pass, count, &mut line);
                out.write_all(line.as_bytes())?;
                (count, written) = (count + 1, written + line.len() as u64);
            }
        }
        if written >= bytes {
            break;
        }
    }
    out.flush()?;
    Ok((path, count))
}

/// Generates one line of a sample, as it might have been at another time.
fn replay(message: &str, service: &str, pass: u64, number: u64, line: &mut String) {
    let mut text = String::with_capacity(message.len());
    for run in message.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let run = std::str::from_utf8(run).unwrap_or_default();
        let is_year = run.len() == 4 && (run.starts_with("19") || run.starts_with("20"));
        let is_number = run.starts_with(|first: char| first.is_ascii_digit());
        if pass == 0 || !is_number || run.len() < 4 || is_year {
            text.push_str(run);
            continue;
        }
        let seed = run.bytes().fold(pass, |seed, digit| (seed ^ u64::from(digit)).wrapping_mul(31));
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first digit determines the magnitude.
        text.push_str(&run[..1]);
        text.extend(run[1..].bytes().map(|_| char::from(b'0' + (random.next() % 10) as u8)));
    }
    let second = number / 1000;
    line.clear();
    // Writing into a String cannot fail.
    let _ = writeln!(
        line,
        "{{\"time\":\"2026-11-21T{:02}:{:02}:{:02}.{:03}Z\",\"service\":{},\"message\":{}}}",
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        number % 1000,
        serde_json::Value::from(service),
        serde_json::Value::from(text),
    );
}

/// Returns the directory for inputs and working files, outside version control.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    let dir = Path::new("bench/.cache");
    fs::create_dir_all(dir).context("failed to create bench/.cache; run from the repository")?;
    Ok(dir.canonicalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_length_that_was_asked_for() {
        for (shape, bytes) in [(Shape::Raw, 216), (Shape::DockerJson, 1024), (Shape::Raw, 100)] {
            let mut lines = Lines::new(shape, bytes);
            for seq in [0, 9, 1_000_000] {
                let line = lines.line(7, seq);
                assert_eq!(line.len(), bytes);
                assert!(line.ends_with(b"\n"));
            }
        }
    }

    #[test]
    fn a_replayed_line_has_other_numbers_and_is_otherwise_the_same() {
        let message = "2015-10-18 blk_38865049 of \"38865049\" é 12";
        let mut line = String::new();
        let mut replayed = |pass| {
            replay(message, "HDFS", pass, 3_723_004, &mut line);
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        };
        let first = replayed(0);
        assert_eq!(first["message"], message);
        assert_eq!(
            (&first["service"], &first["time"]),
            (&"HDFS".into(), &"2026-11-21T01:02:03.004Z".into())
        );
        let later = replayed(7)["message"].as_str().unwrap().to_owned();
        let number = &later[15..23];
        assert_ne!(number, "38865049");
        assert_eq!(later, message.replace("38865049", number));
    }

    #[test]
    fn docker_lines_are_json() {
        let line = Lines::new(Shape::DockerJson, 1024).line(3, 5).to_vec();
        let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert!(json["log"].as_str().unwrap().contains("app=3 seq=5 "));
    }
}
