//! All files of an output: which record goes to which file, how many are open, when they are
//! rotated.
//!
//! Invariants: a round of writing brings the whole backlog to its files or undoes all of it (except
//! for what was already flushed because its file had to be closed: that may be written again); a
//! file is flushed, according to the policy, before it is closed, so closed data never counts too
//! early; records whose file can never be created are written to the dead-letter file before they
//! count.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use weir_host::{Clock, Disk};
use weir_journal::Outcome;
use weir_model::{DiscardReason, RecordView, Selection, SourceId};

use super::archive::{ArchiveSettings, Archiver};
use super::dir::Dir;
use super::log_limit::{LogDecision, LogLimiter};
use super::routing::Routing;
use super::target::Target;
use crate::config::Compression;
use crate::output::dead_letter::{Appended, DeadLetter, DeadLetterFile};
use crate::output::pending::PendingBatch;
use crate::output::{FileOutput, FsyncPolicy, Job};

/// Maximum size of the lines for one file that are held until the end of the round.
const PENDING_BYTES_MAX: usize = 1024 * 1024;

/// Appends batches to their files.
pub(super) struct Writer {
    plan: FileOutput,
    output: String,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// Files by path below the base.
    files: HashMap<String, Target>,
    backlog: VecDeque<PendingBatch>,
    /// Names of the sources in the backlog, if paths need them.
    sources: HashMap<SourceId, String>,
    /// Number of the current round.
    round: u64,
    /// When it started, nanoseconds since 1970.
    round_unix_ns: i64,
    reopen: bool,
    /// A flush failed: what is not settled may not be on disk.
    flush_failed: bool,
    archiver: Option<Archiver>,
    dead_letters: Option<DeadLetterFile>,
    routing: Routing,
    log_limiter: LogLimiter,
}

/// Result of one round.
#[derive(Default)]
pub(super) struct Written {
    pub(super) batches: Vec<(PendingBatch, Outcome)>,
    pub(super) bytes: u64,
}

/// Records of a round whose file can never be created.
#[derive(Default)]
struct Refused {
    /// Reasons by path below the base.
    paths: HashMap<String, String>,
    letters: Vec<DeadLetter>,
    /// Number of the batch that each letter belongs to.
    batches: Vec<usize>,
}

impl Writer {
    pub(super) fn new(job: &Job, plan: &FileOutput) -> Self {
        let context = &job.context;
        let disk = context.disk.clone();
        let dead_letters = job.plan.dead_letter && plan.path.is_template();
        let dead_letters = dead_letters
            .then(|| DeadLetterFile::new(disk.clone(), &context.data_dir, &job.plan.name));
        Self {
            archiver: archiver(job, plan),
            plan: plan.clone(),
            output: job.plan.name.clone(),
            disk,
            clock: context.clock.clone(),
            files: HashMap::new(),
            backlog: VecDeque::new(),
            sources: HashMap::new(),
            round: 0,
            round_unix_ns: 0,
            reopen: false,
            flush_failed: false,
            dead_letters,
            routing: Routing::default(),
            log_limiter: LogLimiter::default(),
        }
    }

    /// Adds a batch to the backlog; `name` returns the name of its source.
    pub(super) fn push(&mut self, pending: PendingBatch, name: impl FnOnce() -> String) {
        if self.plan.path.is_template() {
            let source = pending.records.batch().header().source;
            self.sources.entry(source).or_insert_with(name);
        }
        self.backlog.push_back(pending);
    }

    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Reopens every path before the next write.
    pub(super) fn ask_reopen(&mut self) {
        self.reopen = true;
    }

    /// Appends the whole backlog. After an error, nothing of it counts as written.
    pub(super) fn write_backlog(&mut self) -> io::Result<Written> {
        self.round += 1;
        self.round_unix_ns = self.clock.unix_ns();
        if self.reopen {
            let paths: Vec<String> = self.files.keys().cloned().collect();
            paths.iter().try_for_each(|path| self.close(path))?;
            self.reopen = false;
        }
        for file in self.files.values_mut() {
            file.clean_up()?;
            file.begin();
        }
        let backlog: Vec<PendingBatch> = self.backlog.drain(..).collect();
        let written = self.write_batches(&backlog);
        match written {
            Ok((bytes, outcomes)) => {
                Ok(Written { batches: backlog.into_iter().zip(outcomes).collect(), bytes })
            }
            Err(error) => {
                self.files.values_mut().for_each(Target::roll_back);
                self.backlog.extend(backlog);
                Err(error)
            }
        }
    }

    fn write_batches(&mut self, batches: &[PendingBatch]) -> io::Result<(u64, Vec<Outcome>)> {
        let mut bytes = 0;
        let mut refused = Refused::default();
        for (number, pending) in batches.iter().enumerate() {
            bytes += self.distribute(number, pending, &mut refused)?;
        }
        let now_s = self.round_unix_s();
        for file in self.files.values_mut() {
            bytes += file.write(&*self.disk, now_s)?;
        }
        let mut outcomes: Vec<Outcome> =
            batches.iter().map(|pending| Outcome::delivered(pending.len() as u64)).collect();
        self.put_away(&refused, &mut outcomes)?;
        Ok((bytes, outcomes))
    }

    /// Distributes the records of a batch to their files; returns the bytes already written.
    fn distribute(
        &mut self,
        number: usize,
        pending: &PendingBatch,
        refused: &mut Refused,
    ) -> io::Result<u64> {
        let encoding = self.plan.encoding;
        let records = &pending.records;
        if !self.plan.path.is_template() {
            return self.add("", std::iter::once(|out: &mut Vec<u8>| encoding.lines(records, out)));
        }
        let views: Vec<(usize, RecordView<'_>)> = records.records().collect();
        let mut routing = std::mem::take(&mut self.routing);
        let source = self.sources.get(&records.batch().header().source);
        let source = source.map_or("", String::as_str);
        routing.route(&self.plan.path, source, records, &views);
        let added = self.add_routed(&routing, records, &views, refused);
        if let Ok((_, put_aside)) = &added {
            for (item, path) in put_aside {
                let (index, view) = &views[*item];
                self.refuse(number, pending, *index, routing.file(*path).0, view, refused);
            }
        }
        self.routing = routing;
        added.map(|(bytes, _)| bytes)
    }

    /// Adds the records of a batch file by file. Returns the bytes already written, and the records
    /// whose file can never be created, in order, with the number of their path.
    fn add_routed(
        &mut self,
        routing: &Routing,
        records: &Selection,
        views: &[(usize, RecordView<'_>)],
        refused: &mut Refused,
    ) -> io::Result<(u64, Vec<(usize, usize)>)> {
        let encoding = self.plan.encoding;
        let (mut bytes, mut put_aside) = (0, Vec::new());
        for number in 0..routing.len() {
            let (path, items) = routing.file(number);
            if !refused.paths.contains_key(path) {
                let line = |item: usize| {
                    move |out: &mut Vec<u8>| encoding.line(records, &views[item].1, out)
                };
                match self.add(path, items.map(line)) {
                    Ok(n) => {
                        bytes += n;
                        continue;
                    }
                    // It could not be opened, so none of its records was added.
                    Err(error) if is_permanent(&error) && !self.files.contains_key(path) => {
                        let base = self.plan.path.base().join(path);
                        let reason = format!("{}: {error}", base.display());
                        refused.paths.insert(path.to_owned(), reason);
                    }
                    Err(error) => return Err(error),
                }
            }
            put_aside.extend(routing.file(number).1.map(|item| (item, number)));
        }
        put_aside.sort_unstable();
        Ok((bytes, put_aside))
    }

    /// Adds lines to a file; returns the bytes already written.
    fn add<F: FnOnce(&mut Vec<u8>)>(
        &mut self,
        path: &str,
        mut lines: impl Iterator<Item = F>,
    ) -> io::Result<u64> {
        let mut bytes = self.open(path)?;
        let now_s = self.round_unix_s();
        loop {
            let Some(file) = self.files.get_mut(path) else { return Ok(bytes) };
            let mut due = None;
            for encode in lines.by_ref() {
                let start = file.pending.len();
                encode(&mut file.pending);
                if self.plan.rotation.is_due(file, start, now_s) {
                    due = Some(start);
                    break;
                }
                if file.pending.len() > PENDING_BYTES_MAX {
                    bytes += file.write(&*self.disk, now_s)?;
                }
            }
            let Some(start) = due else { return Ok(bytes) };
            let next = file.pending.split_off(start);
            bytes += file.write(&*self.disk, now_s)?;
            self.rotate(path, next)?;
        }
    }

    /// Rotates a file, everything of which is written, and continues with the next lines.
    fn rotate(&mut self, path: &str, next: Vec<u8>) -> io::Result<()> {
        self.flush(path)?;
        let Some(file) = self.files.get_mut(path) else { return Ok(()) };
        file.put_aside(&*self.disk, self.clock.unix_ns())?;
        file.pending = next;
        file.ready(&*self.disk)?;
        if let Some(archiver) = &self.archiver {
            archiver.tidy(&file.dir, &file.name);
        }
        Ok(())
    }

    /// Opens the file of a path, unless it is open and still has its name.
    fn open(&mut self, path: &str) -> io::Result<u64> {
        let mut bytes = 0;
        if let Some(file) = self.files.get_mut(path) {
            if file.round == self.round {
                return Ok(0);
            }
            file.round = self.round;
            if !file.is_moved() {
                file.ready(&*self.disk)?;
                return Ok(0);
            }
            self.close(path)?;
        }
        while self.files.len() >= self.plan.open_files_max.max(1) {
            bytes += self.close_oldest()?;
        }
        let mut file = self.target(path)?;
        file.ready(&*self.disk)?;
        file.round = self.round;
        if let Some(archiver) = &self.archiver {
            archiver.tidy(&file.dir, &file.name);
        }
        self.files.insert(path.to_owned(), file);
        Ok(bytes)
    }

    fn target(&self, path: &str) -> io::Result<Target> {
        let base = self.plan.path.base();
        if !self.plan.path.is_template() {
            let parent = base.parent().unwrap_or(std::path::Path::new(""));
            let name = base.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Target::new(Dir::named(&*self.disk, parent)?, name));
        }
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let names = dirs.split('/').filter(|name| !name.is_empty());
        Ok(Target::new(Dir::below(&*self.disk, base, names)?, name.to_owned()))
    }

    /// Closes the file that has been unused longest.
    fn close_oldest(&mut self) -> io::Result<u64> {
        let oldest = self.files.iter().min_by_key(|(_, file)| file.round);
        let Some(path) = oldest.map(|(path, _)| path.clone()) else { return Ok(0) };
        let now_s = self.round_unix_s();
        let file = self.files.get_mut(&path);
        let bytes = file.map_or(Ok(0), |file| file.write(&*self.disk, now_s))?;
        self.close(&path)?;
        Ok(bytes)
    }

    /// Flushes a file according to the policy and closes it.
    fn close(&mut self, path: &str) -> io::Result<()> {
        self.flush(path)?;
        self.files.remove(path);
        Ok(())
    }

    fn flush(&mut self, path: &str) -> io::Result<()> {
        let Some(file) = self.files.get_mut(path) else { return Ok(()) };
        if self.plan.fsync == FsyncPolicy::Never {
            return Ok(());
        }
        let flushed = file.sync();
        self.flush_failed |= flushed.is_err();
        flushed
    }

    fn refuse(
        &self,
        number: usize,
        pending: &PendingBatch,
        index: usize,
        path: &str,
        view: &RecordView<'_>,
        refused: &mut Refused,
    ) {
        let reason = refused.paths.get(path).map_or("", String::as_str);
        let (log, flags) = (pending.records.batch().to_log_record(index), view.flags.0);
        let letter = DeadLetter::new(self.round_unix_ns, &self.output, reason, None, log, flags);
        refused.letters.push(letter);
        refused.batches.push(number);
    }

    /// Dead-letters the records whose file can never be created, at the end of a round.
    fn put_away(&mut self, refused: &Refused, outcomes: &mut [Outcome]) -> io::Result<()> {
        if refused.letters.is_empty() {
            return Ok(());
        }
        let now = self.clock.monotonic();
        for reason in refused.paths.values() {
            let rest = match self.log_limiter.check(reason, now) {
                LogDecision::Yes => "",
                LogDecision::Last => "; further files are not logged for a while",
                LogDecision::No => continue,
            };
            tracing::warn!(output = %self.output, "{reason}: refusing records for this file{rest}");
        }
        let appended = match &self.dead_letters {
            Some(file) => file.append(&refused.letters)?,
            None => Appended::Full,
        };
        for number in &refused.batches {
            let outcome = &mut outcomes[*number];
            outcome.delivered -= 1;
            if appended == Appended::Durable {
                outcome.dead_lettered += 1;
            } else {
                let before = outcome.discarded.map_or(0, |(_, n)| n);
                outcome.discarded = Some((DiscardReason::Rejected, before + 1));
            }
        }
        Ok(())
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for file in self.files.values_mut() {
            result = result.and(file.sync());
        }
        result
    }

    /// Returns true if a flush has failed since the last call.
    pub(super) fn take_flush_failed(&mut self) -> bool {
        std::mem::take(&mut self.flush_failed)
    }

    /// Marks everything written as settled.
    pub(super) fn settled(&mut self) {
        self.files.values_mut().for_each(Target::settled);
    }

    /// After a failed flush: puts these before the backlog again, to be written to a reopened file.
    pub(super) fn write_again(&mut self, batches: impl DoubleEndedIterator<Item = PendingBatch>) {
        batches.rev().for_each(|pending| self.backlog.push_front(pending));
        self.files.values_mut().for_each(Target::take_back);
    }

    /// At the end of the output: tries once to leave complete lines behind.
    pub(super) fn leave(&mut self) {
        for file in self.files.values_mut() {
            if let Err(error) = file.clean_up() {
                tracing::warn!(file = %file.name, %error, "left an incomplete line behind");
            }
        }
    }

    fn round_unix_s(&self) -> i64 {
        self.round_unix_ns.div_euclid(1_000_000_000)
    }
}

/// Starts the helper that tidies rotated files, if rotation is enabled.
fn archiver(job: &Job, plan: &FileOutput) -> Option<Archiver> {
    let rotation = &plan.rotation;
    let is_kept_as_it_is = rotation.compress == Compression::None && rotation.keep.is_none();
    if !rotation.is_on() || is_kept_as_it_is {
        return None;
    }
    let started = Archiver::start(ArchiveSettings {
        compress: rotation.compress,
        keep: rotation.keep,
        disk: job.context.disk.clone(),
        stats: job.stats.clone(),
        output: job.plan.name.clone(),
    });
    started
        .inspect_err(|error| {
            tracing::warn!(
                output = %job.plan.name, %error, "rotated files are not compressed or removed"
            );
        })
        .ok()
}

/// Returns true for errors that are caused by the name of the file, or by what occupies its place:
/// retrying would hold up every other file of the output.
fn is_permanent(error: &io::Error) -> bool {
    let permanent =
        [Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NAMETOOLONG, Errno::XDEV, Errno::NXIO];
    permanent.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
