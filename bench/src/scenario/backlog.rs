//! A start with 100 GB of waiting journal: how long until its records are read and delivered.
//!
//! The journal is written by `weir-journal` in a process of its own. Its records consist of zeros,
//! and blocks of zeros are not written, so the segments have their full length but take little
//! space. Before the start their pages are dropped from the cache.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise};
use weir_host::{Disk, DiskFile, DiskSpace, OpenMode, RealDisk, WakeFd};

use super::{Options, isolation, journal};
use crate::data;
use crate::report::{Measurement, Outcome, Target};
use crate::sink::{self, Sink};
use crate::weir::Weir;

const TOTAL_BYTES: u64 = 100_000_000_000;
const RECORD_BYTES: usize = 8 * 1024;
/// About the size of frames that were merged, of which fewer than the maximum number are needed.
const RECORDS_PER_FRAME: usize = 56;
const BLOCK_BYTES: u64 = 4096;
const OUTPUT: &str = "bench";

/// The work of the process that writes the journal.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Directory of the journal.
    #[arg(long)]
    dir: PathBuf,
    /// Total size of the frames.
    #[arg(long)]
    bytes: u64,
}

/// `backlog`.
pub(crate) fn backlog(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let journal_dir = dir.path().join("data/journal");
    let total = options.scaled(TOTAL_BYTES);
    let status = Command::new(std::env::current_exe()?)
        .arg("fill-journal")
        .arg("--dir")
        .arg(&journal_dir)
        .arg(format!("--bytes={total}"))
        .status()?;
    ensure!(status.success(), "the journal could not be filled");
    let segments = drop_cached(&journal_dir)?;
    let sink = Sink::start(&sink::Settings::default())?;
    let config = format!(
        "[journal]\nsize_max = \"1TiB\"\n\n\
         [source.none]\ntype = \"file\"\ninclude = [\"{}/none/*.log\"]\n\n{}",
        dir.path().display(),
        isolation::output(OUTPUT, &sink, "block", "1TiB")
    );
    let begun = Instant::now();
    let weir = Weir::start(dir.path(), &config)?;
    let served = begun.elapsed();
    let limit = Duration::from_mins(5);
    weir.wait_asking_every(Duration::from_millis(10), "something is delivered", limit, || {
        Ok(weir.cursor(OUTPUT)?[0] > 0)
    })?;
    let delivered = begun.elapsed();
    let cpu = weir.process().cpu()?;
    let on_disk = weir.ledger()?["journal"]["disk_bytes"].as_u64().unwrap_or(0);
    ensure!(on_disk >= total / 100 * 99, "only {on_disk} bytes were still waiting");
    let mut outcome = Outcome::new(format!(
        "{:.0} GB of waiting frames of {} KiB in {segments} segments, none of it cached.",
        total as f64 / 1e9,
        RECORDS_PER_FRAME * RECORD_BYTES / 1024,
    ));
    outcome.set_cpu(&cpu);
    outcome.measurements = vec![
        Measurement::new("seconds from the start to the first delivery", delivered.as_secs_f64())
            .target(Target::AtMost(2.0)),
        Measurement::new("seconds from the start to the first answer", served.as_secs_f64()),
        Measurement::new("highest memory, MiB", weir.process().memory()?.1 as f64 / 1_048_576.0)
            .target(Target::AtMost(512.0)),
    ];
    Ok(outcome)
}

/// Drops the pages of all files from the cache; returns the number of segments.
fn drop_cached(dir: &Path) -> Result<usize> {
    let mut segments = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let file = File::open(&path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        segments += usize::from(path.extension().is_some_and(|extension| extension == "wseg"));
    }
    Ok(segments)
}

/// Fills a journal; no destination takes anything.
pub(crate) fn fill(settings: &Settings) -> Result<()> {
    let config = journal::config(settings.dir.clone(), 16 << 20, 1 << 40);
    let journal = journal::open(config, OUTPUT, Arc::new(SparseDisk(RealDisk)))?;
    let wake = WakeFd::new()?;
    journal.on_room(wake.clone());
    let body = vec![0; RECORD_BYTES * RECORDS_PER_FRAME];
    let mut batches = journal::BatchGenerator::of(body, RECORDS_PER_FRAME);
    let mut bytes = 0;
    let mut last = None;
    while bytes < settings.bytes {
        let batch = batches.next();
        bytes += batch.frame_bytes() as u64;
        last = Some(journal::append(&journal, batch, &wake)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let last = last.context("nothing was appended")?;
    let durable = runtime.block_on(last.durable());
    durable.map_err(|reason| anyhow::anyhow!("not durable: {reason:?}"))?;
    journal.shutdown();
    Ok(())
}

/// The real disk, on which blocks of zeros are holes.
#[derive(Debug)]
struct SparseDisk(RealDisk);

impl Disk for SparseDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SparseFile(self.0.open(path, mode)?)))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.0.space(dir)
    }
}

#[derive(Debug)]
struct SparseFile(Box<dyn DiskFile>);

impl SparseFile {
    /// Writes the blocks that are not only zeros.
    fn write_part(&self, mut part: &[u8], mut offset: u64) -> io::Result<()> {
        while !part.is_empty() {
            let len = part.len().min((BLOCK_BYTES - offset % BLOCK_BYTES) as usize);
            let (block, rest) = part.split_at(len);
            if block.iter().any(|byte| *byte != 0) {
                self.0.write_all_at(&mut [IoSlice::new(block)], offset)?;
            }
            (part, offset) = (rest, offset + len as u64);
        }
        Ok(())
    }
}

impl DiskFile for SparseFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut written = 0;
        for part in parts {
            self.write_part(part, offset + written)?;
            written += part.len() as u64;
        }
        self.0.set_len(self.0.len()?.max(offset + written))?;
        Ok(written as usize)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(offset, len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.0.is_at(path)
    }
}
