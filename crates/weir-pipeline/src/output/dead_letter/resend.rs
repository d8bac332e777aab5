//! Resends dead letters from the command line, whether or not weir is running.
//!
//! Invariants: the file is moved aside first, so that records refused meanwhile go to a new one; an
//! entry leaves the moved file only after the destination accepted its record, or refused it and it
//! was written to the new file. If interrupted, the rest stays in the moved file and is sent first
//! next time; at most one group of entries is sent twice in that case.

use std::borrow::Cow;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_host::{Disk, OpenMode};
use weir_model::{
    Batch, BatchBuilder, Facility, NewRecord, Position, RecordFlags, Seal, SourceBook, SourceId,
    StreamId,
};

use super::{Appended, DeadLetter, DeadLetterFile};
use crate::config::{OutputPlan, OutputType};
use crate::output::pending::PendingBatch;
use crate::output::post::Sender;
use crate::output::{OutputContext, OutputError, Ready, prepare};
use crate::stats::OutputStats;

/// Maximum size of the entries sent in one group.
const GROUP_BYTES_MAX: usize = 1024 * 1024;

/// Result of a resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ResendReport {
    /// Records that the destination accepted.
    pub delivered: u64,
    /// Records that it refused again, which are dead letters again.
    pub refused: u64,
    /// Records not sent because the destination could not be reached in time.
    pub left: u64,
    /// Lines that are not valid dead letters; they stay in the file.
    pub unreadable: u64,
    /// Why the rest was not sent, if anything is left.
    #[serde(skip)]
    pub problem: Option<&'static str>,
}

/// Returns the types of outputs whose dead letters can be resent, in words.
fn resendable() -> String {
    let types: Vec<&str> =
        OutputType::ALL.iter().filter(|of| of.posts()).map(|of| of.name()).collect();
    match &types[..] {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => types.concat(),
    }
}

/// Why a resend could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ResendError {
    /// Outputs of this kind do not support resending.
    #[error("dead letters of output {0} cannot be resent: its type is not {types}", types = resendable())]
    Kind(String),
    /// The output's settings are not usable.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file could not be read, moved or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
}

/// Returns the path of the file whose entries are being resent.
pub(super) fn resending_file(data_dir: &Path, output: &str) -> PathBuf {
    super::dir(data_dir).join(format!("{output}.resending"))
}

/// Resends all dead letters of an output. Gives up when a group takes longer than `patience` (the
/// destination is down); the rest is kept.
pub fn resend(
    plan: &OutputPlan,
    context: &OutputContext,
    patience: Duration,
) -> Result<ResendReport, ResendError> {
    let stats = Arc::new(OutputStats::default());
    let Ready::Post(sender) = prepare(plan, &context.for_resend(), &stats)? else {
        return Err(ResendError::Kind(plan.name.clone()));
    };
    let moved = resending_file(&context.data_dir, &plan.name);
    let file = DeadLetterFile::new(context.disk.clone(), &context.data_dir, &plan.name);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| ResendError::Io { path: path.clone(), error }
    };
    let moved = Moved { disk: context.disk.clone(), path: moved };
    let at = at(&moved.path);
    moved.take(&file).map_err(&at)?;
    let lines = moved.lines().map_err(&at)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(&at)?;
    let mut session = Session { sender, file, report: ResendReport::default() };
    let kept = runtime.block_on(session.send_all(&lines, &moved, patience)).map_err(&at)?;
    moved.keep(&kept).map_err(&at)?;
    Ok(session.report)
}

/// The file whose entries are being sent.
struct Moved {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Moved {
    /// Moves the dead letters here, unless an interrupted resend left some, which then go first.
    fn take(&self, file: &DeadLetterFile) -> io::Result<()> {
        if self.content()?.is_some() {
            return Ok(());
        }
        match self.disk.open(file.path(), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => drop(opened?),
        }
        let _locked = file.lock()?;
        self.disk.rename(file.path(), &self.path)?;
        self.disk.sync_dir(self.dir())
    }

    fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn content(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match self.disk.open(&self.path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }

    fn lines(&self) -> io::Result<Vec<Vec<u8>>> {
        let content = self.content()?.unwrap_or_default();
        let lines = content.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(<[u8]>::to_vec).collect())
    }

    /// Keeps only these lines in the file, or removes it if there are none.
    fn keep(&self, lines: &[Cow<'_, [u8]>]) -> io::Result<()> {
        if lines.is_empty() {
            match self.disk.remove(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed?,
            }
            return self.disk.sync_dir(self.dir());
        }
        let mut content = lines.join(&b'\n');
        content.push(b'\n');
        let next = self.path.with_extension("resending-next");
        let file = self.disk.open(&next, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_all_at(&mut [IoSlice::new(&content)], 0)?;
        file.sync_data()?;
        self.disk.rename(&next, &self.path)?;
        self.disk.sync_dir(self.dir())
    }
}

struct Session {
    sender: Arc<Sender>,
    /// Where refused records go.
    file: DeadLetterFile,
    report: ResendReport,
}

impl Session {
    /// Sends group by group; returns the lines to keep.
    async fn send_all<'a>(
        &mut self,
        lines: &'a [Vec<u8>],
        moved: &Moved,
        patience: Duration,
    ) -> io::Result<Vec<Cow<'a, [u8]>>> {
        let mut kept: Vec<Cow<'a, [u8]>> = Vec::new();
        let mut rest = lines;
        while !rest.is_empty() {
            let len = group_len(rest);
            let (group, after) = rest.split_at(len);
            let (mut letters, mut of_letters) = (Vec::new(), Vec::new());
            for line in group {
                if let Ok(letter) = serde_json::from_slice::<DeadLetter>(line) {
                    letters.push(letter);
                    of_letters.push(line);
                } else {
                    kept.push(Cow::Borrowed(line));
                    self.report.unreadable += 1;
                }
            }
            let count = letters.len() as u64;
            if !self.send_group(&letters, patience).await {
                self.report.left = count + after.len() as u64;
                self.report.problem = Some("the destination did not accept the records in time");
                let left = of_letters.into_iter().chain(after);
                kept.extend(left.map(|line| Cow::Borrowed(&line[..])));
                return Ok(kept);
            }
            rest = after;
            kept.extend(self.put_back().into_iter().map(Cow::Owned));
            let after = rest.iter().map(|line| Cow::Borrowed(&line[..]));
            moved.keep(&kept.iter().cloned().chain(after).collect::<Vec<_>>())?;
        }
        Ok(kept)
    }

    /// Writes the refused records of a group to the dead-letter file. Returns their entries if it
    /// does not accept them: they stay in the moved file.
    fn put_back(&self) -> Vec<Vec<u8>> {
        let letters = self.sender.take_refused();
        if letters.is_empty() {
            return Vec::new();
        }
        match self.file.append(&letters) {
            Ok(Appended::Durable) => Vec::new(),
            Ok(Appended::Full) | Err(_) => {
                letters.iter().filter_map(|letter| serde_json::to_vec(letter).ok()).collect()
            }
        }
    }

    /// Returns false if the destination neither accepted nor refused the group in time.
    async fn send_group(&mut self, letters: &[DeadLetter], patience: Duration) -> bool {
        let batches: Vec<PendingBatch> =
            batches(letters).into_iter().map(|b| PendingBatch::of_batch(Arc::new(b))).collect();
        let (mut delivered, mut refused) = (0, 0);
        for pending in batches {
            let request = self.sender.request(vec![pending]);
            let sent =
                tokio::time::timeout(patience, self.sender.clone().send_acknowledged(request));
            let Ok(request) = sent.await else {
                // The entries of the whole group stay.
                drop(self.sender.take_refused());
                return false;
            };
            for outcome in &request.outcomes {
                delivered += outcome.delivered;
                refused += outcome.dead_lettered + outcome.discarded.map_or(0, |(_, n)| n);
            }
        }
        self.report.delivered += delivered;
        self.report.refused += refused;
        true
    }
}

fn group_len(lines: &[Vec<u8>]) -> usize {
    let mut bytes = 0;
    let fits = |line: &&Vec<u8>| {
        bytes += line.len();
        bytes <= GROUP_BYTES_MAX
    };
    lines.iter().take_while(fits).count().max(1)
}

/// Packs letters into as many batches as needed.
fn batches(letters: &[DeadLetter]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let Some(mut first) = letters.first() else { return batches };
    let mut builder = BatchBuilder::new(Position::default());
    for letter in letters {
        if !push(&mut builder, letter) {
            batches.push(seal(&mut builder, first));
            first = letter;
            push(&mut builder, letter);
        }
    }
    batches.push(seal(&mut builder, first));
    batches
}

/// Returns false if the batch is full.
fn push(builder: &mut BatchBuilder, letter: &DeadLetter) -> bool {
    let record = &letter.record;
    if builder.room() < record.body.len() + record.attributes.len() {
        return false;
    }
    let mut append = |bytes: &[u8]| builder.append(bytes);
    let (Ok(body), Ok(attributes), Ok(process_id), Ok(message_id)) = (
        append(&record.body),
        append(record.attributes.as_bytes()),
        append(record.process_id.as_bytes()),
        append(record.message_id.as_bytes()),
    ) else {
        return false;
    };
    let Ok(resource) = builder.resource(0, &record.resource.encode()) else { return false };
    let new = NewRecord {
        timestamp_ns: record.timestamp,
        end_offset: 0,
        body,
        attributes,
        severity: record.severity_number,
        flags: RecordFlags(letter.flags),
        process_id,
        message_id,
        resource,
        kind: record.kind,
        facility: record.facility.map_or(Facility::NONE, Facility::of_code),
        ..NewRecord::default()
    };
    builder.push(&new).is_ok()
}

fn seal(builder: &mut BatchBuilder, first: &DeadLetter) -> Batch {
    builder.route_all(&[]);
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(0),
        group: 0,
        source: SourceId(0),
        end: Position::default(),
        observed_ns: first.record.observed_timestamp,
        rule_generation: 0,
        book: &SourceBook::default(),
        state: &[],
    })
}
