//! `weir load file`: writes numbered, checksummed lines into files at a known rate and size, with
//! rotation, so that arrivals can be counted exactly elsewhere.
//!
//! Invariants: every line that is reported as written was passed to the operating system completely
//! (including all parts of a split line); sequence numbers of a stream have no gaps; nothing is
//! allocated per line.

pub(crate) mod encode;
mod files;
mod line;
mod pace;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;
use weir_host::{Clock, RealClock};

pub use encode::PARTIAL_BYTES;
use encode::Std;
pub(crate) use files::LogFile;
pub use line::LineId;
use pace::Pace;

/// Format of the lines in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineFormat {
    /// docker json-file.
    Docker,
    /// Kubernetes container runtime interface.
    Cri,
    /// The line is the body.
    Raw,
    /// A JSON object with `time`, `level` and `message`.
    Json,
}

/// When a file is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotateWhen {
    /// Before the write that finds it this large, bytes.
    Bytes(u64),
    /// At this interval (an empty file is not rotated).
    Every(Duration),
}

/// How a file is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// As docker and logrotate do: `.1`, `.2`, ... with `keep` old files (0 = removed at once).
    Rename {
        /// When to rotate.
        when: RotateWhen,
        /// Number of old files to keep.
        keep: usize,
    },
    /// As kubelet does: `.YYYYMMDD-HHMMSS`; the writer writes one more line to the renamed file.
    Kubelet {
        /// When to rotate.
        when: RotateWhen,
        /// Number of old files to keep.
        keep: usize,
    },
    /// Copied to `.1` and truncated. What a reader has not read by then is gone.
    CopyTruncate {
        /// When to rotate.
        when: RotateWhen,
    },
}

impl Rotation {
    fn when(self) -> RotateWhen {
        match self {
            Self::Rename { when, .. }
            | Self::Kubelet { when, .. }
            | Self::CopyTruncate { when } => when,
        }
    }
}

/// The content of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Words, as in ordinary logs.
    Plain,
    /// Words with quotes, backslashes, control characters and characters of several bytes.
    Escapes,
    /// The same, and bytes that are not UTF-8.
    InvalidUtf8,
}

/// Where the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `DIR/NAME.log`.
    Flat,
    /// As the runtime of the format lays them out: docker `DIR/ID/ID-json.log` with
    /// `config.v2.json`; otherwise `DIR/load_NAME_UID/main/0.log`, like Kubernetes.
    Containers,
}

/// What to write.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Directory of the files; created if missing.
    pub dir: PathBuf,
    /// Layout of the directory.
    pub layout: Layout,
    /// Format of the lines.
    pub format: LineFormat,
    /// Names of the streams, one file each, written in turns. A name contains no `/` and no blank.
    pub streams: Vec<String>,
    /// Lines per second over all streams; `None` = as fast as possible.
    pub lines_per_second: Option<f64>,
    /// Number of lines over all streams; `None` = unlimited.
    pub lines: Option<u64>,
    /// Duration of the run; `None` = unlimited.
    pub duration: Option<Duration>,
    /// Smallest and largest body, bytes (the ID itself takes about 40).
    pub body_bytes: (usize, usize),
    /// The content of payloads.
    pub content: Content,
    /// Splits bodies over 16 KiB into parts, as docker and containerd do.
    pub partial: bool,
    /// Writes a line of the stream `NAME.err` to stderr between the parts of every split line.
    pub interleave: bool,
    /// Rotation; `None` = never.
    pub rotation: Option<Rotation>,
    /// Write each line separately. Otherwise write blocks of up to 64 KiB.
    pub line_by_line: bool,
    /// Minimum time between wake-ups with a limited rate; lines that fall due in between are
    /// written together (each separately with `line_by_line`).
    pub tick: Duration,
    /// First sequence number, for continuing an earlier run.
    pub first_seq: u64,
    /// Seed of the content.
    pub seed: u64,
}

impl LoadPlan {
    /// One stream `app` of docker lines of 1,000 bytes, as fast as possible, without end.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            layout: Layout::Flat,
            format: LineFormat::Docker,
            streams: vec!["app".to_owned()],
            lines_per_second: None,
            lines: None,
            duration: None,
            body_bytes: (1000, 1000),
            content: Content::Plain,
            partial: false,
            interleave: false,
            rotation: None,
            line_by_line: false,
            tick: Duration::from_millis(1),
            first_seq: 0,
            seed: 1,
        }
    }

    /// Returns the path of a stream's current file.
    pub fn path(&self, stream: &str) -> PathBuf {
        match (self.layout, self.format) {
            (Layout::Flat, _) => self.dir.join(format!("{stream}.log")),
            (Layout::Containers, LineFormat::Docker) => {
                let id = container_id(stream);
                self.dir.join(&id).join(format!("{id}-json.log"))
            }
            (Layout::Containers, _) => {
                let uid = &container_id(stream)[..32];
                self.dir.join(format!("load_{stream}_{uid}")).join("main").join("0.log")
            }
        }
    }
}

/// Returns 64 hexadecimal digits derived from a name.
fn container_id(stream: &str) -> String {
    let part = |i: u8| weir_model::hash64(format!("{stream}{i}").as_bytes());
    format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3))
}

/// What was written to one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// First sequence number.
    pub first_seq: u64,
    /// Number of lines; the last sequence number is `first_seq + lines - 1`.
    pub lines: u64,
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
pub struct LoadReport {
    /// Number of lines over all streams (a split line counts once).
    pub lines: u64,
    /// Number of bytes in the files.
    pub bytes: u64,
    /// Number of rotations.
    pub rotations: u64,
    /// Seconds from the first line to the last.
    pub seconds: f64,
    /// Maximum delay of a line, seconds (0 without a rate).
    pub lateness_max_seconds: f64,
    /// One report per stream.
    pub streams: Vec<StreamReport>,
}

impl std::fmt::Display for LoadReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = if self.seconds > 0.0 { self.lines as f64 / self.seconds } else { 0.0 };
        writeln!(f, "lines      {}", self.lines)?;
        writeln!(f, "bytes      {}", self.bytes)?;
        writeln!(f, "rotations  {}", self.rotations)?;
        writeln!(f, "seconds    {:.3}", self.seconds)?;
        writeln!(f, "lines/s    {rate:.0}")?;
        writeln!(f, "lateness   {:.6} s at most", self.lateness_max_seconds)?;
        for stream in &self.streams {
            let end = stream.first_seq + stream.lines;
            writeln!(f, "stream     {} {}..{end}", stream.name, stream.first_seq)?;
        }
        Ok(())
    }
}

/// Runs the load. `progress` gets the number of lines so far, at least once per tick, and may end
/// it.
pub fn run(
    plan: &LoadPlan,
    mut progress: impl FnMut(u64) -> ControlFlow<()>,
) -> io::Result<LoadReport> {
    let mut writers = Writers::open(plan)?;
    let mut pace = Pace::new(plan.lines_per_second, plan.tick);
    let mut lines = 0;
    let bound = plan.lines.unwrap_or(u64::MAX);
    while lines < bound && plan.duration.is_none_or(|d| pace.elapsed() < d) {
        let portion = pace.next().min(bound - lines);
        let elapsed = pace.elapsed();
        for _ in 0..portion {
            writers.line(elapsed)?;
        }
        // As fast as possible: blocks fill up over several portions.
        if plan.lines_per_second.is_some() {
            writers.flush()?;
        }
        lines += portion;
        if progress(lines).is_break() {
            break;
        }
    }
    writers.flush()?;
    Ok(writers.report(&pace))
}

/// Maximum number of bytes that are buffered before a write.
const BLOCK_BYTES: usize = 64 * 1024;

/// All streams of a run.
struct Writers<'a> {
    plan: &'a LoadPlan,
    clock: RealClock,
    rng: Rng,
    pool: Vec<u8>,
    all: Vec<FileWriter>,
    /// The stream whose turn it is.
    next: usize,
    body: Vec<u8>,
}

/// One stream.
struct FileWriter {
    name: String,
    seq: u64,
    /// The stream on stderr between the parts of split lines, and its next number.
    err_name: String,
    err_seq: u64,
    file: LogFile,
    /// Encoded lines that were not written yet.
    pending: Vec<u8>,
    bytes: u64,
}

impl<'a> Writers<'a> {
    fn open(plan: &'a LoadPlan) -> io::Result<Self> {
        let all = plan
            .streams
            .iter()
            .map(|name| FileWriter::open(plan, name))
            .collect::<io::Result<_>>()?;
        let mut rng = Rng::with_seed(plan.seed);
        let pool = payload_pool(plan.content, plan.body_bytes.1, &mut rng);
        let clock = RealClock::new();
        Ok(Self { plan, clock, rng, pool, all, next: 0, body: Vec::new() })
    }

    /// Writes the next line of the stream whose turn it is.
    fn line(&mut self, elapsed: Duration) -> io::Result<()> {
        let index = self.next;
        self.next = (self.next + 1) % self.all.len();
        let now = self.clock.unix_ns();
        self.all[index].rotate_when_due(elapsed, now)?;
        self.fill_body(index);
        let writer = &mut self.all[index];
        if self.plan.partial && self.body.len() > PARTIAL_BYTES {
            writer.line_in_parts(self.plan, &self.body, elapsed, now)?;
        } else {
            writer.add(self.plan, |pending| {
                encode::whole(self.plan.format, Std::Out, &self.body, now, pending);
            })?;
        }
        writer.seq += 1;
        Ok(())
    }

    fn fill_body(&mut self, index: usize) {
        /// Space for the names and numbers of the ID.
        const ID_BYTES: usize = 40;
        let (least, most) = self.plan.body_bytes;
        let len = self.rng.usize(least..=most.max(least)).saturating_sub(ID_BYTES).max(1);
        let start = self.rng.usize(..self.pool.len() - len);
        let writer = &self.all[index];
        let payload = &self.pool[start..start + len];
        self.body.clear();
        LineId::write(&writer.name, writer.file.generation, writer.seq, payload, &mut self.body);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.all.iter_mut().try_for_each(FileWriter::flush)
    }

    fn report(&self, pace: &Pace) -> LoadReport {
        let first_seq = self.plan.first_seq;
        let stream = |name: &str, end: u64| StreamReport {
            name: name.to_owned(),
            first_seq,
            lines: end - first_seq,
        };
        let mut streams = Vec::new();
        for writer in &self.all {
            streams.push(stream(&writer.name, writer.seq));
            if writer.err_seq > first_seq {
                streams.push(stream(&writer.err_name, writer.err_seq));
            }
        }
        LoadReport {
            lines: streams.iter().map(|s| s.lines).sum(),
            bytes: self.all.iter().map(|w| w.bytes).sum(),
            rotations: self.all.iter().map(|w| w.file.generation).sum(),
            seconds: pace.elapsed().as_secs_f64(),
            lateness_max_seconds: pace.lateness_max.as_secs_f64(),
            streams,
        }
    }
}

impl FileWriter {
    fn open(plan: &LoadPlan, name: &str) -> io::Result<Self> {
        let path = plan.path(name);
        let file = LogFile::create(path.clone(), plan.rotation)?;
        if plan.layout == Layout::Containers && plan.format == LineFormat::Docker {
            write_container_config(&path, name)?;
        }
        Ok(Self {
            name: name.to_owned(),
            seq: plan.first_seq,
            err_name: format!("{name}.err"),
            err_seq: plan.first_seq,
            file,
            pending: Vec::new(),
            bytes: 0,
        })
    }

    /// Buffers an encoded line or part, and writes the buffer when it is time.
    fn add(&mut self, plan: &LoadPlan, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        encode(&mut self.pending);
        if plan.line_by_line || self.pending.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes a line in parts of 16 KiB; the file may be rotated between any two of them.
    fn line_in_parts(
        &mut self,
        plan: &LoadPlan,
        body: &[u8],
        elapsed: Duration,
        now: i64,
    ) -> io::Result<()> {
        let mut rest = body;
        while !rest.is_empty() {
            self.rotate_when_due(elapsed, now)?;
            let (part, tail) = rest.split_at(encode::part_len(plan.format, rest));
            rest = tail;
            let last = rest.is_empty();
            self.add(plan, |out| encode::part(plan.format, Std::Out, part, last, now, out))?;
            if plan.interleave && !last {
                let mut line = Vec::new();
                let generation = self.file.generation;
                LineId::write(&self.err_name, generation, self.err_seq, b"between", &mut line);
                self.err_seq += 1;
                self.add(plan, |out| encode::whole(plan.format, Std::Err, &line, now, out))?;
            }
        }
        Ok(())
    }

    fn rotate_when_due(&mut self, elapsed: Duration, now: i64) -> io::Result<()> {
        if self.file.is_due(elapsed, self.pending.len()) {
            self.flush()?;
            self.file.rotate(elapsed, now)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.file.append(&self.pending)?;
            self.bytes += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }
}

/// Writes the parts of docker's `config.v2.json` that readers use.
fn write_container_config(log: &Path, name: &str) -> io::Result<()> {
    let id = container_id(name);
    let config = serde_json::json!({
        "ID": id,
        "Name": format!("/{name}"),
        "Created": "2026-01-01T00:00:00Z",
        "Config": { "Image": "load:1", "Hostname": &id[..12], "Labels": { "app": name }, "Env": [] },
        "State": { "Running": true },
        "LogPath": log,
    });
    let path = log.with_file_name("config.v2.json");
    let new = log.with_file_name(".tmp-config.v2.json");
    std::fs::write(&new, config.to_string())?;
    std::fs::rename(new, path)
}

/// Text of words, from which payloads are cut: about as compressible as real logs.
fn payload_pool(content: Content, payload_bytes_max: usize, rng: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "GET",
        "POST",
        "request",
        "user",
        "id=",
        "status=200",
        "status=503",
        "took",
        "ms",
        "cache",
        "miss",
        "hit",
        "session",
        "/api/v1/items",
        "/health",
        "connection",
        "closed",
        "retry",
        "10.0.",
        "trace",
        "level=info",
        "level=warn",
        "order",
        "payment",
    ];
    const ODD: [&str; 10] = [
        "\"quoted\"",
        "C:\\dir",
        "\t",
        "\x01",
        "<b>&",
        "grün",
        "日本",
        "\u{1f600}",
        "\u{2028}",
        "\x7f",
    ];
    /// A prime, so that lines do not repeat soon.
    const POOL_BYTES: usize = 1_048_583;
    let mut pool = Vec::new();
    while pool.len() < POOL_BYTES + payload_bytes_max {
        match (content, rng.u8(..16)) {
            (Content::Escapes | Content::InvalidUtf8, 0) => {
                pool.extend_from_slice(ODD[rng.usize(..ODD.len())].as_bytes());
            }
            (Content::InvalidUtf8, 1) => pool.extend((0..3).map(|_| rng.u8(0x80..))),
            (_, 2..=5) => pool.extend_from_slice(rng.u32(..).to_string().as_bytes()),
            _ => pool.extend_from_slice(WORDS[rng.usize(..WORDS.len())].as_bytes()),
        }
        pool.push(b' ');
    }
    pool
}

#[cfg(test)]
mod tests;
