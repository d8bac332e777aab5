//! The log files of the test: numbered lines, rotation, truncation and deletion, and for every line
//! whether it can still be read.
//!
//! Invariants: a line is written completely or not at all, and while nothing else happens to the
//! files; numbers of a stream have no gaps; each content (what a file contained between two
//! truncations) has a generation of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use weir_host::{Clock as _, RealClock};

use crate::load::encode::{self, Std};
use crate::load::{LineFormat, LineId, LoadReport, StreamReport};

/// Streams and the format of their lines.
const STREAMS: [(&str, LineFormat); 4] = [
    ("plain-0", LineFormat::Raw),
    ("plain-1", LineFormat::Raw),
    ("docker-0", LineFormat::Docker),
    ("docker-1", LineFormat::Docker),
];

/// Range of payload lengths, bytes.
const PAYLOAD_BYTES: Range<usize> = 150..750;

/// Bytes of files that are kept; beyond that, the oldest are removed, like a log rotation does, so
/// that a test can run for days.
const KEPT_BYTES_MAX: u64 = 512 << 20;

/// The fate of the lines of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are in a file that weir follows.
    There,
    /// Destroyed after weir had durably recorded that it read them.
    Known,
    /// Destroyed, and weir may never have seen them.
    Exposed,
}

/// The present or former content of one file.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) stream: usize,
    pub(super) lines: Range<u64>,
    pub(super) fate: Fate,
    bytes: u64,
    path: PathBuf,
}

/// All files.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    streams: Vec<Stream>,
    pub(super) contents: Vec<Content>,
    rng: Rng,
    pool: Vec<u8>,
    clock: RealClock,
    bytes: u64,
    rotations: u64,
}

#[derive(Debug)]
struct Stream {
    name: &'static str,
    format: LineFormat,
    file: File,
    /// Index of its current content.
    current: usize,
    generation: u64,
    seq: u64,
    pending: Vec<u8>,
}

impl Files {
    /// Creates an empty file for each stream, below `dir`.
    pub(super) fn create(dir: &Path, seed: u64) -> io::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let letters = b"abcdefghijklmnopqrstuvwxyz      ";
        let pool = (0..4 * PAYLOAD_BYTES.end).map(|_| letters[rng.usize(..letters.len())]);
        let mut files = Self {
            dir: dir.to_owned(),
            streams: Vec::new(),
            contents: Vec::new(),
            pool: pool.collect(),
            rng,
            clock: RealClock::new(),
            bytes: 0,
            rotations: 0,
        };
        for (index, (name, format)) in STREAMS.into_iter().enumerate() {
            std::fs::create_dir_all(files.path(name).parent().unwrap_or(dir))?;
            let file = open(&files.path(name))?;
            let (generation, seq, pending) = (0, 0, Vec::new());
            let current = files.begin(index, name, 0);
            files.streams.push(Stream { name, format, file, current, generation, seq, pending });
        }
        Ok(files)
    }

    /// Returns `DIR/plain/plain-0.log`: a directory for each format.
    fn path(&self, name: &str) -> PathBuf {
        let format = name.split('-').next().unwrap_or(name);
        self.dir.join(format).join(format!("{name}.log"))
    }

    fn begin(&mut self, stream: usize, name: &str, seq: u64) -> usize {
        let path = self.path(name);
        self.contents.push(Content { stream, lines: seq..seq, fate: Fate::There, bytes: 0, path });
        self.contents.len() - 1
    }

    /// Returns the number of streams.
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Returns the name of a stream.
    pub(super) fn name(&self, stream: usize) -> &'static str {
        self.streams[stream].name
    }

    /// Writes this many lines to each stream.
    pub(super) fn write(&mut self, lines: u64) -> io::Result<()> {
        let now = self.clock.unix_ns();
        let mut body = Vec::new();
        for stream in &mut self.streams {
            for _ in 0..lines {
                let len = self.rng.usize(PAYLOAD_BYTES);
                let start = self.rng.usize(..self.pool.len() - len);
                body.clear();
                let payload = &self.pool[start..start + len];
                LineId::write(stream.name, stream.generation, stream.seq, payload, &mut body);
                encode::whole(stream.format, Std::Out, &body, now, &mut stream.pending);
                stream.seq += 1;
            }
            stream.file.write_all(&stream.pending)?;
            let content = &mut self.contents[stream.current];
            content.bytes += stream.pending.len() as u64;
            content.lines.end = stream.seq;
            self.bytes += stream.pending.len() as u64;
            stream.pending.clear();
        }
        Ok(())
    }

    /// Renames the file, and starts a new one.
    pub(super) fn rotate(&mut self, stream: usize) -> io::Result<()> {
        let old = &mut self.contents[self.streams[stream].current];
        let name = format!("{}.{}", old.path.display(), self.streams[stream].generation);
        std::fs::rename(&old.path, &name)?;
        old.path = name.into();
        self.rotations += 1;
        self.renew(stream)
    }

    /// Copies the file to a place that is not followed, and truncates it.
    pub(super) fn cut(&mut self, stream: usize, fate: Fate) -> io::Result<()> {
        let old = &mut self.contents[self.streams[stream].current];
        old.fate = fate;
        std::fs::copy(&old.path, self.dir.join("copy"))?;
        self.streams[stream].file.set_len(0)?;
        self.next_generation(stream);
        Ok(())
    }

    /// Removes the file of a content; starts a new one if it is the current one.
    pub(super) fn delete(&mut self, content: usize, fate: Fate) -> io::Result<()> {
        let old = &mut self.contents[content];
        old.fate = fate;
        std::fs::remove_file(&old.path)?;
        let stream = old.stream;
        if self.streams[stream].current == content { self.renew(stream) } else { Ok(()) }
    }

    /// Creates a new file under the stream's name.
    fn renew(&mut self, stream: usize) -> io::Result<()> {
        self.streams[stream].file = open(&self.path(self.streams[stream].name))?;
        self.next_generation(stream);
        Ok(())
    }

    fn next_generation(&mut self, stream: usize) {
        let (name, seq) = (self.streams[stream].name, self.streams[stream].seq);
        self.streams[stream].current = self.begin(stream, name, seq);
        self.streams[stream].generation += 1;
    }

    /// Returns the current content of a stream.
    pub(super) fn current(&self, stream: usize) -> usize {
        self.streams[stream].current
    }

    /// Returns the contents that can be destroyed.
    pub(super) fn there(&self) -> Vec<usize> {
        let is_there = |index: &usize| {
            let content = &self.contents[*index];
            content.fate == Fate::There && !content.lines.is_empty()
        };
        (0..self.contents.len()).filter(is_there).collect()
    }

    /// Returns the oldest content, if the kept files take too much disk space.
    pub(super) fn too_many(&self) -> Option<usize> {
        let there = self.there();
        let bytes: u64 = there.iter().map(|index| self.contents[*index].bytes).sum();
        there.first().copied().filter(|_| bytes > KEPT_BYTES_MAX)
    }

    /// Returns what was written.
    pub(super) fn report(&self) -> LoadReport {
        let stream = |stream: &Stream| StreamReport {
            name: stream.name.to_owned(),
            first_seq: 0,
            lines: stream.seq,
        };
        LoadReport {
            lines: self.streams.iter().map(|stream| stream.seq).sum(),
            bytes: self.bytes,
            rotations: self.rotations,
            seconds: 0.0,
            lateness_max_seconds: 0.0,
            streams: self.streams.iter().map(stream).collect(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_in_one_content_whose_fate_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::create(dir.path(), 1).unwrap();
        files.write(10).unwrap();
        files.rotate(0).unwrap();
        files.write(10).unwrap();
        files.cut(0, Fate::Exposed).unwrap();
        files.write(10).unwrap();
        files.delete(0, Fate::Known).unwrap();
        let of_first = files.contents.iter().filter(|content| content.stream == 0);
        let fates: Vec<_> = of_first.map(|c| (c.lines.clone(), c.fate)).collect();
        assert_eq!(fates, [(0..10, Fate::Known), (10..20, Fate::Exposed), (20..30, Fate::There)]);
        assert_eq!(files.report().lines, 30 * files.count() as u64);
        let text = std::fs::read(dir.path().join("plain/plain-0.log")).unwrap();
        let ids = text.split(|byte| *byte == b'\n').filter_map(LineId::parse);
        assert!(
            ids.map(|id| (id.generation, id.seq, id.intact)).eq((20..30).map(|n| (2, n, true)))
        );
        assert_eq!(files.there().len(), files.count());
    }
}
